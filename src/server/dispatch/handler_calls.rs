//! Requests that a handler serves: inline ones respond at once, others are started and respond
//! later.

use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

use super::admission::Request;
use super::{Dispatcher, MessageContext};
use crate::base::slab::Key;
use crate::protocol::eras::{ClientCapabilities, Method};
use crate::protocol::error::{Error, ErrorKind};
use crate::protocol::in_flight::CallId;
use crate::protocol::json::Value;
use crate::protocol::jsonrpc::IdBuf;
use crate::protocol::params::{
    CompleteRequestParams, GetPromptRequestParams, InputResponseRequestParams,
    ReadResourceRequestParams,
};
use crate::server::calls::{HandlerWork, NewCall};
use crate::server::catalog_updates::CatalogWriter;
use crate::server::client_requests::request_state::{RequestDigest, RequestState};
use crate::server::client_requests::{PendingInputs, Requester};
use crate::server::connection_state::PeerState;
use crate::server::handlers::handler_state::{
    CancellationToken, HandlerState, RequestCarrier, TaskTransition,
};
use crate::server::handlers::local_context::{LocalContext, LogFilter};
use crate::server::reply_to::Outcome;
use crate::server::shard_message::{self, BlockingHandle, CatalogAccess, ShardMessage};
use crate::service::{
    BlockingContext, BlockingWork, CallToolRequest, Dispatch, Features, LocalWork, RequestContext,
};

/// The capabilities of which a client needs at least one to receive input requests.
const INPUT_CAPABILITIES: ClientCapabilities = ClientCapabilities::ELICITATION_FORM
    .union(ClientCapabilities::ELICITATION_URL)
    .union(ClientCapabilities::ROOTS)
    .union(ClientCapabilities::SAMPLING);

impl Dispatcher {
    /// Dispatches a request to its handler.
    #[inline]
    pub(super) fn dispatch_call(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
    ) -> Outcome {
        let transition = match self.try_task(ctx, peer, request) {
            ControlFlow::Continue(transition) => transition,
            ControlFlow::Break(outcome) => return outcome,
        };
        let request_state = match self.read_request_state(ctx, peer, request) {
            Ok(request_state) => request_state,
            Err(error) => return self.write_request_error(peer, request, &error),
        };
        let handed_over = match self.start_handler(peer, request) {
            Dispatch::Ready { is_error: is_failed } => {
                peer.outbox.counters.requests.tool_errors += u64::from(is_failed);
                return Outcome::Response;
            }
            Dispatch::Failed(error) => Err(error),
            Dispatch::Local(work) => {
                self.spawn_local(ctx, peer, request, (work, request_state, transition))
            }
            Dispatch::Blocking(work) => self.spawn_blocking(ctx, peer, request, work),
        };
        match handed_over {
            Ok(()) => Outcome::None,
            Err(error) => self.write_request_error(peer, request, &error),
        }
    }

    /// Reads the params and runs the catalog as far as it goes at once.
    #[inline]
    fn start_handler(&self, peer: &mut PeerState<'_>, request: &Request<'_>) -> Dispatch {
        let Request { id, revision, params, call_params, .. } = *request;
        let (catalog, out) = (&self.catalog, &mut *peer.outgoing);
        let started = match request.method {
            Method::PromptsGet => GetPromptRequestParams::read(params)
                .map(|parsed| catalog.get_prompt(revision, &parsed, id, out)),
            Method::ResourcesRead => ReadResourceRequestParams::read(params)
                .map(|parsed| catalog.read_resource(revision, &parsed, id, out)),
            Method::CompletionComplete => CompleteRequestParams::read(params)
                .map(|parsed| catalog.complete(revision, &parsed, id, out)),
            _ => CallToolRequest::from_params(revision, call_params).map(|call| {
                catalog.call_tool(&call.with_client_capabilities(request.capabilities), id, out)
            }),
        };
        started.unwrap_or_else(Dispatch::Failed)
    }

    /// Returns the `requestState` and `inputResponses` of a modern request, if any. A state is
    /// single-use and consumed here, so this check comes last.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) if the state belongs to another request, has expired, or was used.
    #[inline]
    fn read_request_state(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
    ) -> Result<Option<Box<RequestState>>, Error> {
        let may_retry =
            request.revision.is_modern() && request.method != Method::CompletionComplete;
        if !may_retry || !request.call_params.has_retry_or_task() {
            return Ok(None);
        }
        let retry = InputResponseRequestParams::read(request.params)?;
        if retry.is_empty() {
            return Ok(None);
        }
        self.decrypt_request_state(ctx, peer, request, retry)
    }

    fn decrypt_request_state(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
        retry: InputResponseRequestParams<'_>,
    ) -> Result<Option<Box<RequestState>>, Error> {
        let Some(state) = retry.request_state else {
            return Ok(Some(Box::new(RequestState::without_state(retry.input_responses))));
        };
        self.check_in_flight(peer)?;
        let unix_ms = self.wall_clock.unix_ms(ctx.now);
        let opened = self.request_states.decrypt(state, request_digest(request), unix_ms);
        let mut request_state =
            opened.inspect_err(|_| peer.outbox.counters.client_requests.states_rejected += 1)?;
        peer.outbox.counters.client_requests.unmatched_responses +=
            request_state.accept_responses(retry.input_responses);
        Ok(Some(Box::new(request_state)))
    }

    /// Starts a local handler: a future on this shard.
    fn spawn_local(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
        (work, request_state, transition): (LocalWork, Option<Box<RequestState>>, TaskTransition),
    ) -> Result<(), Error> {
        let token = Rc::<CancellationToken>::default();
        let local = HandlerWork::Local { task: None, token: Rc::clone(&token) };
        let call_id = self.insert_call(ctx, peer, request, local)?;
        let carrier = if request.revision.is_modern() {
            // Without such a capability no state is issued, and the digest is not needed.
            let is_askable =
                INPUT_CAPABILITIES.difference(request.capabilities) != INPUT_CAPABILITIES;
            let digest =
                if is_askable { request_digest(request) } else { RequestDigest::default() };
            let request_state =
                request_state.map(|request_state| *request_state).unwrap_or_default();
            RequestCarrier::RoundTrip(Rc::new(PendingInputs::new(request_state, digest)))
        } else {
            RequestCarrier::ServerRequest
        };
        let requester = Requester::Call(call_id);
        let client = (request.client(), token);
        let handler = Rc::new(HandlerState::new(
            &self.handler_queue,
            client,
            (requester, carrier),
            transition,
        ));
        let context =
            LocalContext { handler: Rc::clone(&handler), log_filter: self.log_filter(request) };
        let task =
            self.executor.spawn(Box::pin(handler.run(work(RequestContext::new(Rc::new(context))))));
        self.calls.attach_task(call_id, task);
        Ok(())
    }

    /// Returns which log messages the handler of a request passes on.
    fn log_filter(&self, request: &Request<'_>) -> LogFilter {
        if !self.catalog.has_features(Features::LOGGING) {
            return LogFilter::Off;
        }
        match request.log_level {
            Some(level) => LogFilter::AtLeast(level),
            None if request.revision.is_modern() => LogFilter::Off,
            None => LogFilter::BySession,
        }
    }

    /// Starts a blocking handler: a closure on the thread pool.
    fn spawn_blocking(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
        work: BlockingWork,
    ) -> Result<(), Error> {
        let alive = Arc::new(());
        let watched = Arc::downgrade(&alive);
        let blocking = HandlerWork::Blocking { alive: Some(alive) };
        let call_id = self.insert_call(ctx, peer, request, blocking)?;
        let (sender, shard) = (self.sender.clone(), self.shard);
        let (client, log_filter) = (request.client(), self.log_filter(request));
        let catalog: Arc<dyn CatalogAccess> = Arc::<CatalogWriter>::clone(&self.catalog_writer);
        let job = Box::new(move || {
            let handle = BlockingHandle {
                sender: sender.clone(),
                shard,
                call_id,
                alive: watched,
                client,
                log_filter,
                catalog,
            };
            let result = work(BlockingContext::new(Arc::new(handle)));
            shard_message::send_blocking(
                &sender,
                shard,
                ShardMessage::Finished { call_id, result },
            );
        });
        if self.blocking_pool.spawn(job).is_ok() {
            peer.outbox.counters.shard.blocking_calls += 1;
            return Ok(());
        }
        peer.outbox.counters.shard.blocking_refused += 1;
        self.calls.remove(call_id);
        peer.pending_work.pending_responses -= 1;
        peer.state.in_flight.remove(request.id);
        Err(Error::new(
            ErrorKind::TooManyRequests,
            "all blocking threads are busy and their queue is full; try again later",
        ))
    }

    /// Inserts a call that is answered later, if its response can be delivered.
    pub(super) fn insert_call(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
        work: HandlerWork,
    ) -> Result<Key, Error> {
        self.check_in_flight(peer)?;
        if !ctx.reply_to.can_defer() {
            peer.outbox.counters.requests.refused_in_flight += 1;
            let message = "the session has no stream left for this request; await a response first";
            return Err(Error::new(ErrorKind::TooManyRequests, message));
        }
        let caller = NewCall {
            reply_to: ctx.reply_to,
            id: request.id.into(),
            revision: request.revision,
            progress_token: request.progress_token.map(IdBuf::from),
            catalog: Arc::clone(&self.catalog),
        };
        let deadline = ctx.now.after(self.request_timeout);
        let call_id = self.calls.insert(caller, work, deadline).ok_or_else(|| {
            Error::new(ErrorKind::TooManyRequests, "the call table is full; try again later")
        })?;
        let in_flight = &mut peer.state.in_flight;
        // Checked for duplicates at validation, and limited above.
        in_flight.insert(request.id, CallId(call_id.to_bits()), usize::MAX)?;
        peer.pending_work.pending_responses += 1;
        Ok(call_id)
    }

    /// Rejects a call above the in-flight limit of a connection. Reading continues at the limit,
    /// because the next message may be the response that a call waits for. Streams are in flight
    /// too, but have a limit of their own.
    fn check_in_flight(&self, peer: &mut PeerState<'_>) -> Result<(), Error> {
        if (peer.pending_work.pending_responses as usize) < self.requests_in_flight_max {
            return Ok(());
        }
        peer.outbox.counters.requests.refused_in_flight += 1;
        Err(Error::too_many_requests(self.requests_in_flight_max))
    }
}

/// Returns the digest of the request that a state belongs to. All clients are the same principal,
/// because there is no authorization.
fn request_digest(request: &Request<'_>) -> RequestDigest {
    let params = request.params.and_then(Value::as_object);
    let member = |key| params.and_then(|params| params.find(key));
    let key = if request.method == Method::ResourcesRead { "uri" } else { "name" };
    let subject = member(key).and_then(Value::as_str).unwrap_or_default();
    let arguments = member("arguments").filter(|arguments| !arguments.is_null());
    RequestDigest::of(request.method.as_str(), subject, arguments, "")
}
