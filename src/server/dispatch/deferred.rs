//! What completes after its message was dispatched: calls, tasks and client requests.
//!
//! Invariants: the request of a call is in flight, and counted as pending, from its insertion until
//! its response or its cancellation.

use std::sync::Arc;
use std::time::Duration;

use corelane_base::holders::PlaceOwner;
use corelane_base::slab::Key;
use corelane_base::time::{Instant, WallClock};
use corelane_protocol::error::{Error, ErrorKind};
use corelane_protocol::in_flight::{CallId, RequestKey, RequestsInFlight};
use corelane_protocol::json::Value;
use corelane_protocol::jsonrpc::Id;
use corelane_protocol::model;
use corelane_protocol::params::InputResponseRequestParams;

use crate::connection::PendingWork;
use crate::server::calls::{CallResult, CallTable, CancelReason, HandlerWork, NewCall};
use crate::server::client_requests::request_state::{RequestDigest, RequestState, RequestStates};
use crate::server::client_requests::{ClientRequests, RequesterTarget, Requesters};
use crate::server::connection_state::PeerState;
use crate::server::handlers::HandlerEvent;
use crate::server::handlers::handler_state::{HandlerState, TaskTerms};
use crate::server::outbox::{Effect, NotificationKind, Outbox};
use crate::server::overload::Overload;
use crate::server::reply_to::PeerId;
use crate::server::shard_message::{
    LogMessage, PartialResult, Requester, ShardLimits, TaskMessage,
};
use crate::server::tasks::{NewTask, TaskOwner, Tasks, create_task};
use crate::service::{Catalog, ClientRequestError, HandlerError, HandlerOutput};

/// The calls, tasks and client requests of one shard.
pub struct DeferredWork {
    pub calls: CallTable,
    pub tasks: Tasks,
    pub client_requests: ClientRequests,
    /// Encrypts and decrypts `requestState` (2026-07-28).
    pub request_states: RequestStates,
    pub request_timeout: Duration,
    /// Maximum calls in flight of a connection.
    pub requests_in_flight_max: usize,
    pub wall_clock: WallClock,
    pub overload: Overload,
}

impl DeferredWork {
    /// Applies new limits.
    pub const fn set_limits(&mut self, limits: &ShardLimits) {
        self.request_timeout = limits.request_timeout;
        self.requests_in_flight_max = limits.requests_in_flight_max;
        self.tasks.table.limits = limits.tasks;
        self.request_states.ttl = limits.request_state_ttl;
        self.client_requests.timeout = limits.client_request_timeout;
    }

    /// Inserts a call that is answered later, if its response can be delivered.
    pub fn insert_call(
        &mut self,
        peer: &mut PeerState<'_>,
        call: NewCall,
        work: HandlerWork,
        now: Instant,
    ) -> Result<Key, Error> {
        self.check_in_flight(peer)?;
        if !call.reply_to.can_respond_later() {
            peer.outbox.counters.requests.refused_in_flight += 1;
            let message = "the session has no stream left for this request; await a response first";
            return Err(Error::new(ErrorKind::TooManyRequests, message));
        }
        let (id, exchange) = (call.id.clone(), call.reply_to.exchange());
        let deadline = now.after(self.request_timeout);
        let call_id = self.calls.insert(call, work, deadline).ok_or_else(|| {
            Error::new(ErrorKind::TooManyRequests, "the call table is full; try again later")
        })?;
        // Checked for duplicates at validation, and limited above.
        peer.state.in_flight.insert(id.as_id(), exchange, RequestKey::Call(call_id))?;
        peer.pending_work.pending_responses += 1;
        Ok(call_id)
    }

    /// Removes a call that could not be started.
    pub fn remove_call(&mut self, call_id: CallId, peer: &mut PeerState<'_>) {
        let Some(call) = self.calls.remove(call_id) else { return };
        peer.pending_work.pending_responses -= 1;
        peer.state.in_flight.remove(call.id.as_id(), call.reply_to.exchange());
    }

    /// Rejects a call above the in-flight limit of a connection. Reading continues at the limit,
    /// because the next message may be the response that a call waits for. Streams are in flight
    /// too, but have a limit of their own.
    pub fn check_in_flight(&self, peer: &mut PeerState<'_>) -> Result<(), Error> {
        if (peer.pending_work.pending_responses as usize) < self.requests_in_flight_max {
            return Ok(());
        }
        peer.outbox.counters.requests.refused_in_flight += 1;
        Err(Error::too_many_requests(self.requests_in_flight_max))
    }

    /// Decrypts the state of a round trip and accepts the responses to its input requests.
    pub fn decrypt_request_state(
        &mut self,
        peer: &mut PeerState<'_>,
        digest: RequestDigest,
        retry: InputResponseRequestParams<'_>,
        now: Instant,
    ) -> Result<Option<Box<RequestState>>, Error> {
        let Some(state) = retry.request_state else {
            return Ok(Some(Box::new(RequestState::without_state(retry.input_responses))));
        };
        self.check_in_flight(peer)?;
        let unix_ms = self.wall_clock.unix_ms(now);
        let counters = &mut peer.outbox.counters.client_requests;
        let (principal, address) = (peer.state.principal().cloned(), peer.state.client);
        let owner = PlaceOwner { principal: principal.as_deref(), address };
        let opened = self.request_states.decrypt(state, digest, owner, unix_ms);
        let mut request_state = opened.inspect_err(|_| counters.states_rejected += 1)?;
        counters.unmatched_responses += request_state.accept_responses(retry.input_responses);
        Ok(Some(Box::new(request_state)))
    }

    /// Records the failure of a handler with an internal error, whose response may be a tool error.
    #[inline]
    pub fn record_failure(
        &mut self,
        call_id: CallId,
        result: &Result<HandlerOutput, HandlerError>,
        now: Instant,
    ) {
        if matches!(result, Err(HandlerError::Internal(_))) {
            self.overload.set_now(now);
            self.calls.record_failure(call_id);
        }
    }

    /// Handles an event of a local handler.
    pub fn apply_handler_event(
        &mut self,
        event: HandlerEvent,
        catalog: &Catalog,
        now: Instant,
        outbox: &mut Outbox,
    ) {
        self.overload.set_now(now);
        let Self { calls, tasks, client_requests, .. } = self;
        match event {
            HandlerEvent::SendRequest { handler, number, request } => {
                let mut requesters = CallsAndTasks { calls, tasks };
                let requester = handler.requester();
                client_requests.request_client(
                    &mut requesters,
                    requester,
                    number,
                    request,
                    now,
                    outbox,
                );
            }
            HandlerEvent::InputRequired { call_id, inputs, open } => {
                // A cancelled call gets no state.
                let state = calls.find_awaited(call_id).map(|_| {
                    let keys = open.iter().map(|input| &*input.key);
                    let unix_ms = self.wall_clock.unix_ms(now);
                    self.request_states.encrypt(&inputs.next_state(), keys, inputs.digest, unix_ms)
                });
                if let Some(state) = state {
                    let result = CallResult::InputRequired { state, open };
                    calls.complete_call(call_id, result, client_requests, outbox);
                } else {
                    calls.remove(call_id);
                }
            }
            HandlerEvent::BeginTask(handler) => {
                self.convert_to_task(&handler, catalog, now, outbox);
            }
            // Handled before, by the owner of the catalog updates.
            HandlerEvent::UpdateCatalog(_) => {}
            HandlerEvent::CloseStream { call_id } => {
                if let Some(call) = calls.find_awaited(call_id) {
                    outbox.push(Effect::CloseStream(call.reply_to));
                }
            }
            HandlerEvent::Finished { call_id, result } => {
                calls.complete_call(call_id, CallResult::Handler(result), client_requests, outbox);
            }
            HandlerEvent::Log(message) => self.send_log(&message, outbox),
            HandlerEvent::Task { task, event } => {
                tasks.handle_task_event(task, event, catalog, client_requests, now, outbox);
            }
            HandlerEvent::Progress(progress) => calls.send_progress(&progress, outbox),
            HandlerEvent::Partial(PartialResult { call_id, data }) => {
                if let Some(call) = calls.find_awaited(call_id) {
                    call.send_partial(&data, outbox);
                }
            }
            HandlerEvent::CancelRequest { number } => {
                client_requests.withdraw(&mut CallsAndTasks { calls, tasks }, number, now, outbox);
            }
        }
    }

    /// Sends a log message to the client of a call or task.
    pub fn send_log(&mut self, message: &LogMessage, outbox: &mut Outbox) {
        let mut requesters = CallsAndTasks { calls: &mut self.calls, tasks: &mut self.tasks };
        let Some(target) = requesters.target(message.requester) else { return };
        let RequesterTarget { reply_to, revision, task } = target;
        let kind = NotificationKind::Log { level: message.level, is_modern: revision.is_modern() };
        let data = message.data.to_string();
        let (level, logger, data) = (message.level, message.logger.as_deref(), data.as_bytes());
        match task {
            Some(task) => outbox.notify(reply_to, kind, |text| {
                model::write_task_logging_message(text, level, logger, data, &task);
            }),
            None => outbox.notify_with_data(reply_to, kind, |text| {
                model::write_logging_message(text, level, logger, data)
            }),
        }
    }

    /// Turns a call into a task: the caller gets a `CreateTaskResult` and the handler continues.
    fn convert_to_task(
        &mut self,
        handler: &HandlerState,
        catalog: &Catalog,
        now: Instant,
        outbox: &mut Outbox,
    ) {
        let Self { calls, tasks, client_requests, .. } = self;
        let Some((call_id, terms)) = handler.requested_task() else { return };
        let Some(call) = calls.find_awaited(call_id) else {
            return handler.reject_task(HandlerError::Cancelled);
        };
        let progress_token = call.progress_token.clone();
        let client = handler.request.client();
        let TaskTerms { ttl, address } = terms;
        let owner = TaskOwner { peer: call.reply_to.peer_id, address };
        let principal = handler.request.shared_principal().map(Arc::clone);
        let new_task = NewTask { owner, client, progress_token, ttl, principal };
        let key = match create_task(tasks, new_task, now, outbox) {
            Ok(key) => key,
            Err(error) => return handler.reject_task(HandlerError::Rpc(error)),
        };
        let Some(mut call) = calls.remove(call_id) else { return };
        call.log_end("task");
        call.end_span();
        outbox.counters.requests.tasks_created += 1;
        outbox.respond(call.reply_to, call.id, |id, text| {
            tasks.write_create_result(id.as_id(), text, key, catalog);
            Ok(())
        });
        let open_requests = call.open_requests.take().map(|it| *it).unwrap_or_default();
        client_requests.reassign(open_requests.numbers(), Requester::Task(key));
        if let Some(mut task) = tasks.table.get_mut(key) {
            task.caller.set_last_progress(call.progress);
            task.requests.client_requests = open_requests;
            task.set_handler(Some(call.work));
        }
        tasks.account_inputs(key, now, outbox);
        handler.become_task(key, tasks.carrier(key));
    }

    /// Ends what has passed its deadline: calls, client requests, tasks.
    pub fn expire(&mut self, now: Instant, outbox: &mut Outbox) {
        self.overload.set_now(now);
        let Self { calls, tasks, client_requests, .. } = self;
        client_requests.expire(&mut CallsAndTasks { calls, tasks }, now, outbox);
        while let Some(call_id) = calls.pop_overdue(now) {
            let result = CallResult::TimedOut(self.request_timeout);
            calls.complete_call(call_id, result, client_requests, outbox);
        }
        tasks.expire(client_requests, now, outbox);
    }

    /// Cancels the call of a peer, on request. No response is sent.
    pub fn cancel_call(&mut self, call_id: CallId, peer: &mut PeerState<'_>) {
        let reply_to = self.calls.find_awaited(call_id).map(|call| call.reply_to);
        if self.calls.cancel_call(call_id, &mut self.client_requests, peer.outbox) {
            if let Some(reply_to) = reply_to {
                peer.outbox.push(Effect::CloseReply(reply_to));
            }
            peer.outbox.counters.requests.cancelled += 1;
            peer.pending_work.count_response();
        }
    }

    /// Cancels every call of a peer; none of them gets a response.
    pub fn cancel_calls(
        &mut self,
        in_flight: &mut RequestsInFlight,
        pending_work: &mut PendingWork,
        outbox: &mut Outbox,
    ) {
        for call_id in in_flight.drain_calls() {
            if self.calls.cancel_call(call_id, &mut self.client_requests, outbox) {
                outbox.counters.requests.cancelled += 1;
                pending_work.count_response();
            }
        }
    }

    /// Cancels every call of a peer; each gets the response that it took longer than `timeout`.
    pub fn time_out_calls(
        &mut self,
        in_flight: &RequestsInFlight,
        timeout: Duration,
        outbox: &mut Outbox,
    ) {
        for call_id in in_flight.calls() {
            let result = CallResult::TimedOut(timeout);
            self.calls.complete_call(call_id, result, &mut self.client_requests, outbox);
        }
    }

    /// Cancels every call of a peer; each gets an error that states the reason.
    pub fn fail_calls(
        &mut self,
        in_flight: &RequestsInFlight,
        reason: &CancelReason,
        outbox: &mut Outbox,
    ) {
        for call_id in in_flight.calls() {
            let result = CallResult::Cancelled(reason.clone());
            self.calls.complete_call(call_id, result, &mut self.client_requests, outbox);
        }
    }

    /// Cancels every call of a connection that has closed.
    pub fn abandon_calls(&mut self, in_flight: &mut RequestsInFlight, outbox: &mut Outbox) {
        for call_id in in_flight.drain_calls() {
            self.calls.cancel_call(call_id, &mut self.client_requests, outbox);
        }
    }

    /// Returns the bytes that the handlers of the calls in flight of a peer hold.
    pub fn handler_bytes(&self, in_flight: &RequestsInFlight) -> usize {
        let requests = in_flight
            .calls()
            .map(|call_id| self.client_requests.held_bytes(self.calls.open_requests(call_id)));
        self.calls.argument_bytes(in_flight) + requests.sum::<usize>()
    }

    /// Returns the bytes that handlers hold, those of the results of tasks, and those of the tasks
    /// besides, from what is stored.
    pub fn recount_bytes(&self) -> [usize; 3] {
        let Self { calls, tasks, client_requests, .. } = self;
        let [handlers, results, tasks] = tasks.table.recount_bytes();
        [handlers + calls.all_argument_bytes() + client_requests.recount_bytes(), results, tasks]
    }

    /// Handles a response of a client.
    pub fn handle_response(
        &mut self,
        peer_id: PeerId,
        id: Option<Id<'_>>,
        outcome: Result<Value<'_>, Value<'_>>,
        now: Instant,
        outbox: &mut Outbox,
    ) {
        let Self { calls, tasks, client_requests, .. } = self;
        let mut requesters = CallsAndTasks { calls, tasks };
        client_requests.handle_response(&mut requesters, peer_id, id, outcome, now, outbox);
    }

    /// Fails the client request that a malformed response of a peer answers: the one with this
    /// `id`, or without a usable id the only one that is open to the peer.
    #[cold]
    pub fn fail_answered(
        &mut self,
        peer_id: PeerId,
        in_flight: &RequestsInFlight,
        id: Option<Id<'_>>,
        error: ClientRequestError,
        now: Instant,
        outbox: &mut Outbox,
    ) {
        let numbers = match id {
            Some(Id::Text(_)) => Vec::new(),
            _ => self.client_requests_to(peer_id, Some(in_flight)),
        };
        let Self { calls, tasks, client_requests, .. } = self;
        let number = match (id, &numbers[..]) {
            (Some(id @ Id::Text(_)), _) => client_requests.find(peer_id, id),
            (_, [number]) => Some(*number),
            _ => None,
        };
        let mut requesters = CallsAndTasks { calls, tasks };
        client_requests.fail_answered(&mut requesters, number, error, now, outbox);
    }

    /// Returns whether `id` is that of an open client request to this peer.
    #[cold]
    pub fn awaits_answer(&self, peer_id: PeerId, id: Id<'_>) -> bool {
        self.client_requests.find(peer_id, id).is_some()
    }

    /// Returns the open client requests to a peer. Cost: one pass over its requests in flight and
    /// its tasks.
    fn client_requests_to(
        &self,
        peer_id: PeerId,
        in_flight: Option<&RequestsInFlight>,
    ) -> Vec<u64> {
        let mut numbers = self.tasks.table.client_requests_to(peer_id);
        for call_id in in_flight.into_iter().flat_map(RequestsInFlight::calls) {
            numbers.extend(self.calls.open_requests(call_id));
        }
        numbers
    }

    /// Fails client request `number`, which could not be sent.
    pub fn fail_unsent_request(&mut self, number: u64, now: Instant) {
        let Self { calls, tasks, client_requests, .. } = self;
        client_requests.fail_unsent(&mut CallsAndTasks { calls, tasks }, number, now);
    }

    /// Holds client request `number` until the handshake of its client is complete.
    #[cold]
    pub fn hold_client_request(&mut self, number: u64, text: &[u8], now: Instant) {
        let Self { calls, tasks, client_requests, .. } = self;
        client_requests.hold(&mut CallsAndTasks { calls, tasks }, number, text, now);
    }

    /// Fails the open client requests of a peer, or of all peers, because no response will be read.
    /// Cost: one pass over the requests in flight and the tasks of the peer.
    pub fn fail_client_requests(
        &mut self,
        peer: Option<(PeerId, Option<&RequestsInFlight>)>,
        now: Instant,
        outbox: &mut Outbox,
    ) {
        if self.client_requests.len() == 0 {
            return;
        }
        let numbers = match peer {
            None => self.client_requests.numbers(),
            Some((peer_id, in_flight)) => self.client_requests_to(peer_id, in_flight),
        };
        let Self { calls, tasks, client_requests, .. } = self;
        client_requests.fail_unreadable(&mut CallsAndTasks { calls, tasks }, numbers, now, outbox);
    }

    /// Handles a task message of another shard, or of this one.
    pub fn handle_task_message(
        &mut self,
        message: TaskMessage,
        catalog: &Catalog,
        now: Instant,
        outbox: &mut Outbox,
    ) {
        let Self { tasks, client_requests, calls, .. } = self;
        match message {
            TaskMessage::Request(request) => {
                tasks.handle_request(request, catalog, client_requests, now, outbox);
            }
            TaskMessage::Response { call, result } => {
                calls.complete_call(call, CallResult::TaskRequest(result), client_requests, outbox);
            }
            TaskMessage::HandlerEvent { task, event } => {
                tasks.handle_task_event(task, event, catalog, client_requests, now, outbox);
            }
            TaskMessage::Watch { task, shard } => {
                if let Some(key) = tasks.table.find(task, true) {
                    tasks.table.watch(key, shard);
                }
            }
            TaskMessage::Changed { .. } => {}
        }
    }

    /// Returns the next deadline of calls, tasks and client requests.
    pub fn next_deadline(&self) -> Option<Instant> {
        Instant::earliest([
            self.calls.next_deadline(),
            self.client_requests.next_deadline(),
            self.tasks.table.next_deadline(),
        ])
    }
}

/// What makes client requests on a shard: its calls and its tasks.
struct CallsAndTasks<'a> {
    calls: &'a mut CallTable,
    tasks: &'a mut Tasks,
}

impl Requesters for CallsAndTasks<'_> {
    fn target(&mut self, requester: Requester) -> Option<RequesterTarget> {
        match requester {
            Requester::Call(call_id) => {
                let call = self.calls.find_awaited(call_id)?;
                let (reply_to, revision) = (call.reply_to, call.revision);
                Some(RequesterTarget { reply_to, revision, task: None })
            }
            Requester::Task(task) => {
                let task = self.tasks.table.get(task).filter(|task| !task.has_ended())?;
                let (reply_to, revision) = (task.caller.reply_to(), task.caller.revision());
                let task = Some(task.id_text().to_owned());
                Some(RequesterTarget { reply_to, revision, task })
            }
        }
    }

    fn add(&mut self, requester: Requester, number: u64, open_max: usize, now: Instant) -> bool {
        match requester {
            Requester::Call(call_id) => {
                self.calls.add_client_request(call_id, number, open_max, now)
            }
            Requester::Task(task) => {
                self.tasks.table.add_client_request(task, number, open_max, now)
            }
        }
    }

    fn finish(&mut self, requester: Requester, number: u64, now: Instant) {
        match requester {
            Requester::Call(call_id) => self.calls.finish_client_request(call_id, number, now),
            Requester::Task(task) => self.tasks.table.remove_client_request(task, number, now),
        }
    }

    fn record_accepted_url(&mut self, requester: Requester, elicitation_id: Option<Box<str>>) {
        match requester {
            Requester::Call(call_id) => self.calls.record_accepted_url(call_id, elicitation_id),
            Requester::Task(task) => {
                if let Some(mut task) = self.tasks.table.get_mut(task) {
                    task.requests.client_requests.record_accepted_url(elicitation_id);
                }
            }
        }
    }
}
