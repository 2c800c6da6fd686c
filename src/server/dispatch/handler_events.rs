//! What happens to calls and tasks after they have begun: events of their handlers, messages of
//! their clients, deadlines, cancellation.

use std::sync::Arc;

use super::{Dispatcher, MessageContext};
use crate::base::slab::Key;
use crate::base::time::Instant;
use crate::connection::PendingWork;
use crate::engine::mesh::SharedCounter;
use crate::protocol::in_flight::RequestsInFlight;
use crate::protocol::json::Value;
use crate::protocol::jsonrpc::Id;
use crate::protocol::model;
use crate::protocol::params::CancelledNotificationParams;
use crate::server::calls::{CallResult, CallTable};
use crate::server::client_requests::{Requester, RequesterTarget, Requesters};
use crate::server::connection_state::PeerState;
use crate::server::handlers::handler_state::HandlerState;
use crate::server::handlers::{HandlerEvent, LogMessage};
use crate::server::outbox::{Effect, NotificationKind, Outbox};
use crate::server::reply_to::{PeerId, ReplyTo};
use crate::server::shard_message::{BroadcastMessage, ShardMessage};
use crate::server::subscriptions::{CatalogLists, SubscriptionRegistry};
use crate::server::tasks::{NewTask, Tasks};
use crate::service::{Catalog, HandlerError};

impl Dispatcher {
    /// Handles an event of a local handler.
    pub(in crate::server) fn handle_event(
        &mut self,
        event: HandlerEvent,
        now: Instant,
        outbox: &mut Outbox,
    ) {
        let Self { calls, tasks, client_requests, catalog, .. } = self;
        match event {
            HandlerEvent::SendRequest { handler, number, request, oneshot } => {
                let sent = (request, oneshot);
                let mut requesters = CallsAndTasks { calls, tasks };
                let requester = handler.requester();
                client_requests.send(&mut requesters, (requester, number), sent, now, outbox);
            }
            HandlerEvent::InputRequired { call_id, inputs, open } => {
                // A cancelled call gets no state.
                let state = calls.find_awaited(call_id).map(|_| {
                    let keys = open.iter().map(|input| &*input.key);
                    let unix_ms = self.wall_clock.unix_ms(now);
                    self.request_states.encrypt(&inputs.state, keys, inputs.digest, unix_ms)
                });
                if let Some(state) = state {
                    let result = CallResult::InputRequired { state, open };
                    calls.complete_call(call_id, result, client_requests, outbox);
                } else {
                    calls.remove(call_id);
                }
            }
            HandlerEvent::BeginTask(handler) => self.convert_to_task(&handler, now, outbox),
            HandlerEvent::UpdateCatalog(draft) => self.pending_updates.start(draft, now),
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
                tasks.handle_event((task, event), (catalog, client_requests), now, outbox);
            }
            HandlerEvent::Progress(progress) => calls.send_progress(&progress, outbox),
            HandlerEvent::CancelRequest { number } => {
                client_requests.withdraw(&mut CallsAndTasks { calls, tasks }, number, now, outbox);
            }
        }
    }

    /// Sends a log message to the client of a call or task.
    pub(in crate::server) fn send_log(&mut self, message: &LogMessage, outbox: &mut Outbox) {
        let mut requesters = CallsAndTasks { calls: &mut self.calls, tasks: &mut self.tasks };
        let Some(target) = requesters.target(message.requester) else { return };
        let RequesterTarget { reply_to, revision, task } = target;
        let kind = NotificationKind::Log { level: message.level, is_modern: revision.is_modern() };
        let data = message.data.to_string();
        let (level, logger, data) = (message.level, message.logger.as_deref(), data.as_bytes());
        outbox.notify(reply_to, kind, |text| match task {
            Some(task) => model::write_task_logging_message(text, level, logger, data, &task),
            None => model::write_logging_message(text, level, logger, data),
        });
    }

    /// Turns a call into a task: the caller gets a `CreateTaskResult` and the handler continues.
    fn convert_to_task(&mut self, handler: &HandlerState, now: Instant, outbox: &mut Outbox) {
        let Self { calls, tasks, client_requests, catalog, .. } = self;
        let Some((call_id, ttl)) = handler.requested_task() else { return };
        let Some(call) = calls.find_awaited(call_id) else {
            return handler.reject_task(HandlerError::Cancelled);
        };
        let progress_token = call.progress_token.clone();
        let (peer, client) = (call.reply_to.peer_id, handler.client);
        let new_task = NewTask { peer, client, progress_token, ttl };
        let key = match tasks.table.create(new_task, now) {
            Ok(key) => key,
            Err(error) => return handler.reject_task(HandlerError::Rpc(error)),
        };
        let Some(mut call) = calls.remove(call_id) else { return };
        outbox.counters.requests.tasks_created += 1;
        outbox.respond((call.reply_to, call.id, call.revision), |id, text| {
            tasks.write_create_result((id.as_id(), text), key, catalog);
            Ok(())
        });
        let open_requests = call.open_requests.take().map(|it| *it).unwrap_or_default();
        client_requests.reassign(open_requests.numbers(), Requester::Task(key));
        if let Some(task) = tasks.table.get_mut(key) {
            task.last_progress = call.progress;
            task.client_requests = open_requests;
        }
        tasks.table.attach_handler(key, call.work);
        tasks.account_inputs(key, now, outbox);
        handler.become_task(key, tasks.carrier(key));
    }

    /// Installs the next catalog version. The last shard has all shards notify their clients, who
    /// then find it on every shard.
    pub(in crate::server) fn install_catalog(
        &mut self,
        catalog: Arc<Catalog>,
        (changes, installed): (CatalogLists, &SharedCounter),
        outbox: &mut Outbox,
    ) {
        self.catalog = catalog;
        if installed.acquire() >= usize::from(self.shard_count) {
            self.broadcast(&BroadcastMessage::ListsChanged(changes), outbox);
        }
    }

    /// Publishes on all shards the resources that local handlers have marked as updated, each once.
    pub(in crate::server) fn publish_resource_updates(&self, outbox: &mut Outbox) {
        if self.handler_queue.has_updated_resources() {
            for uri in self.handler_queue.take_updated_resources() {
                self.broadcast(&BroadcastMessage::ResourceUpdated(uri), outbox);
            }
        }
    }

    fn broadcast(&self, message: &BroadcastMessage, outbox: &mut Outbox) {
        for shard in self.sender.shards() {
            outbox.forward(shard, ShardMessage::Broadcast(message.clone()));
        }
    }

    /// Ends what has passed its deadline: calls, client requests, tasks.
    pub(in crate::server) fn expire(&mut self, now: Instant, outbox: &mut Outbox) {
        let Self { calls, tasks, client_requests, .. } = self;
        client_requests.expire(&mut CallsAndTasks { calls, tasks }, now, outbox);
        self.pending_updates.retry_due(now);
        while let Some(call_id) = calls.pop_overdue(now) {
            let result = CallResult::TimedOut(self.request_timeout);
            calls.complete_call(call_id, result, client_requests, outbox);
        }
        tasks.expire(client_requests, now, outbox);
    }

    /// `notifications/cancelled`: cancels the call without a response. An unknown id is ignored:
    /// the response may have crossed the notification.
    pub(super) fn handle_cancelled(&mut self, peer: &mut PeerState<'_>, params: Option<Value<'_>>) {
        let Some(cancelled) = CancelledNotificationParams::read(params) else { return };
        let Some(call_id) = peer.state.in_flight.remove(cancelled.request_id) else { return };
        if let Some(stream) = SubscriptionRegistry::stream_of_call_id(call_id) {
            return self.end_stream(peer, stream);
        }
        let call_id = Key::from_bits(call_id.0);
        let reply_to = self.calls.find_awaited(call_id).map(|call| call.reply_to);
        if self.calls.cancel_call(call_id, &mut self.client_requests, peer.outbox) {
            if let Some(reply_to) = reply_to {
                peer.outbox.push(Effect::CloseReply(reply_to));
            }
            peer.outbox.counters.requests.cancelled += 1;
            peer.pending_work.complete_request();
        }
    }

    /// Cancels every call of a peer; none of them gets a response.
    pub(in crate::server) fn cancel_calls(
        &mut self,
        in_flight: &mut RequestsInFlight,
        pending_work: &mut PendingWork,
        outbox: &mut Outbox,
    ) {
        for (_, call_id) in in_flight.drain() {
            let call_id = Key::from_bits(call_id.0);
            if self.calls.cancel_call(call_id, &mut self.client_requests, outbox) {
                outbox.counters.requests.cancelled += 1;
                pending_work.complete_request();
            }
        }
    }

    /// Handles a response of a client.
    pub(super) fn handle_response(
        &mut self,
        ctx: MessageContext,
        response: (Option<Id<'_>>, Result<Value<'_>, Value<'_>>),
        outbox: &mut Outbox,
    ) {
        let Self { calls, tasks, client_requests, .. } = self;
        let mut requesters = CallsAndTasks { calls, tasks };
        let peer_id = ctx.reply_to.peer_id;
        client_requests.handle_response(&mut requesters, peer_id, response, ctx.now, outbox);
    }

    /// Fails client request `number`, which could not be sent.
    pub(in crate::server) fn fail_unsent_request(&mut self, number: u64, now: Instant) {
        let Self { calls, tasks, client_requests, .. } = self;
        client_requests.fail_unsent(&mut CallsAndTasks { calls, tasks }, number, now);
    }

    /// Fails the open client requests of a peer, or of all peers, because no response will be read.
    /// Cost: one pass over the requests in flight of the peer, and over the tasks of the shard if
    /// it has any.
    pub(in crate::server) fn fail_client_requests(
        &mut self,
        peer: Option<(PeerId, Option<&RequestsInFlight>)>,
        now: Instant,
        outbox: &mut Outbox,
    ) {
        let Self { calls, tasks, client_requests, .. } = self;
        if client_requests.len() == 0 {
            return;
        }
        let numbers = match peer {
            None => client_requests.numbers(),
            Some((peer_id, in_flight)) => {
                let mut numbers = tasks.table.client_requests_to(peer_id);
                for call_id in in_flight.into_iter().flat_map(RequestsInFlight::call_ids) {
                    numbers.extend(calls.open_requests(Key::from_bits(call_id.0)));
                }
                numbers
            }
        };
        client_requests.fail_unreadable(&mut CallsAndTasks { calls, tasks }, numbers, now, outbox);
    }
}

/// The calls and tasks of a shard.
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
                let task = self.tasks.table.get_mut(task).filter(|task| !task.has_ended())?;
                let (reply_to, revision) = (ReplyTo::standalone(task.peer), task.revision);
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
                if let Some(task) = self.tasks.table.get_mut(task) {
                    task.client_requests.record_accepted_url(elicitation_id);
                }
            }
        }
    }
}
