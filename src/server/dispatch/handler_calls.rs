//! Requests that a handler serves: inline ones respond at once, others are started and respond
//! later.

use std::any::Any;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

use super::admission::Request;
use super::task_creation::TaskCalls;
use super::{Dispatcher, MessageContext, write_request_error};
use crate::base::principal::Principal;
use crate::base::slab::Key;
use crate::protocol::eras::{ClientCapabilities, Method};
use crate::protocol::error::Error;
use crate::protocol::in_flight::RequestsInFlight;
use crate::protocol::json::Value;
use crate::protocol::jsonrpc::IdBuf;
use crate::protocol::params::{
    CompleteRequestParams, GetPromptRequestParams, InputResponseRequestParams,
    ReadResourceRequestParams,
};
use crate::server::auth::Authentication;
use crate::server::calls::{HandlerWork, NewCall};
use crate::server::client_requests::PendingInputs;
use crate::server::client_requests::request_state::{RequestDigest, RequestState};
use crate::server::connection_state::PeerState;
use crate::server::deferred::DeferredWork;
use crate::server::handlers::handler_state::{CancellationToken, RequestCarrier, TaskTransition};
use crate::server::handlers::local_context::LogFilter;
use crate::server::handlers::pausable_handler::pausable;
#[cfg(feature = "tokio")]
use crate::server::handlers::tokio_bridge;
use crate::server::overload::{Admission, CallPermit, EndOfCall, Overload, outcome_of};
use crate::server::reply_to::{Outcome, PeerId};
use crate::server::shard_message::Requester;
use crate::service::{
    BlockingWork, CallToolRequest, Catalog, Dispatch, Features, LocalWork, call_tool_at,
    tool_position,
};

/// The capabilities of which a client needs at least one to receive input requests.
const INPUT_CAPABILITIES: ClientCapabilities = ClientCapabilities::ELICITATION_FORM
    .union(ClientCapabilities::ELICITATION_URL)
    .union(ClientCapabilities::ROOTS)
    .union(ClientCapabilities::SAMPLING);

/// Dispatches a request to its handler.
#[inline]
pub(super) fn dispatch_call(
    dispatcher: &mut Dispatcher,
    ctx: MessageContext,
    peer: &mut PeerState<'_>,
    request: &Request<'_>,
) -> Outcome {
    let (tool, mut admission) = match admit_call(dispatcher, ctx, request) {
        Ok(admitted) => admitted,
        Err(error) => return write_request_error(peer, request, &error),
    };
    let outcome = dispatcher.dispatch_admitted(ctx, peer, (request, tool), &mut admission);
    if let Some(admission) = admission {
        dispatcher.deferred.overload.abandon(admission);
    }
    outcome
}

impl Dispatcher {
    /// Dispatches an admitted request, and takes its admission when the call has ended or leaves
    /// the turn.
    #[inline]
    fn dispatch_admitted(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        called @ (request, _): (&Request<'_>, Option<usize>),
        admission: &mut Option<Admission>,
    ) -> Outcome {
        let mut transition = TaskTransition::None;
        if request.method == Method::ToolsCall && self.catalog.has_features(Features::TASKS) {
            transition = match self.task_calls().try_task(ctx, peer, request) {
                ControlFlow::Continue(transition) => transition,
                ControlFlow::Break(outcome) => return outcome,
            };
        }
        let request_state = match self.read_request_state(ctx, peer, request) {
            Ok(request_state) => request_state,
            Err(error) => return write_request_error(peer, request, &error),
        };
        let overload = &self.deferred.overload;
        let handed_over = match start_handler(
            &self.auth,
            &self.catalog,
            peer,
            called,
            &self.handlers.shard_state,
        ) {
            Dispatch::Ready { is_error: is_failed } => {
                peer.outbox.counters.requests.tool_errors += u64::from(is_failed);
                if let Some(admission) = admission.take() {
                    overload.record_inline(admission, outcome_of(Ok(is_failed)));
                }
                return Outcome::Response;
            }
            Dispatch::Failed(error) => {
                record_error(overload, admission.take(), outcome_of(Err(error.kind)));
                Err(error)
            }
            Dispatch::Internal(error) => {
                record_error(overload, admission.take(), EndOfCall::FAILED);
                match self.handlers.write_failure(&self.catalog, &error, request, peer, ctx.now) {
                    Ok(is_failed) => {
                        peer.outbox.counters.requests.tool_errors += u64::from(is_failed);
                        return Outcome::Response;
                    }
                    Err(error) => Err(error),
                }
            }
            Dispatch::Local(work) => {
                let permit = take_permit(overload, admission);
                let local = (work, request_state, transition);
                self.spawn_local(ctx, peer, request, local, permit)
            }
            #[cfg(feature = "tokio")]
            Dispatch::Tokio(work) => {
                let permit = take_permit(overload, admission);
                let work = tokio_bridge::local_work(work, Rc::clone(&self.handlers.tokio));
                let local = (work, request_state, transition);
                self.spawn_local(ctx, peer, request, local, permit)
            }
            Dispatch::Blocking(work) => {
                let permit = take_permit(overload, admission);
                self.spawn_blocking(ctx, peer, request, (work, permit))
            }
        };
        match handed_over {
            Ok(()) => Outcome::None,
            Err(error) => write_request_error(peer, request, &error),
        }
    }

    fn task_calls(&mut self) -> TaskCalls<'_> {
        let Self { catalog, deferred, handlers, .. } = self;
        let DeferredWork { tasks, overload, .. } = deferred;
        TaskCalls { catalog, tasks, handlers, overload }
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
        if !may_retry || !request.call_params().has_retry_or_task() {
            return Ok(None);
        }
        let retry = InputResponseRequestParams::read(request.params())?;
        if retry.is_empty() {
            return Ok(None);
        }
        let retry = (request_digest(peer.principal(), request), retry);
        self.deferred.decrypt_request_state(peer, retry, ctx.now)
    }

    /// Starts a local handler.
    fn spawn_local(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
        (work, request_state, transition): (LocalWork, Option<Box<RequestState>>, TaskTransition),
        permit: Option<CallPermit>,
    ) -> Result<(), Error> {
        let state_bytes = request_state.as_ref().map_or(0, |state| state.held_bytes());
        let calls = &self.deferred.calls;
        let held_bytes = |in_flight: &RequestsInFlight| calls.argument_bytes(in_flight);
        let handler = self.handlers.prepare(work, peer, (request, state_bytes), held_bytes)?;
        let handler = handler.count_running(&self.deferred.overload, request)?;
        let (token, argument_bytes) = (Rc::<CancellationToken>::default(), handler.charge.bytes());
        let handler = match ctx.reply_to.peer_id {
            PeerId::Parity(_) => {
                let queue = &self.handlers.queue;
                handler.map(|work| pausable(work, &token, queue))
            }
            PeerId::Connection(_) | PeerId::HttpSession(_) => handler,
        };
        let local = HandlerWork::Local { task: None, token: Rc::clone(&token), argument_bytes };
        let call_id = self.insert_call(ctx, peer, request, (local, permit))?;
        let carrier = if request.revision.is_modern() {
            // Without such a capability no state is issued, and the digest is not needed.
            let is_askable =
                INPUT_CAPABILITIES.difference(request.capabilities) != INPUT_CAPABILITIES;
            let digest = if is_askable {
                request_digest(peer.principal(), request)
            } else {
                RequestDigest::default()
            };
            let request_state =
                request_state.map(|request_state| *request_state).unwrap_or_default();
            RequestCarrier::RoundTrip(Rc::new(PendingInputs::new(request_state, digest)))
        } else {
            RequestCarrier::ServerRequest
        };
        let task = self.handlers.start_local(
            handler,
            token,
            (Requester::Call(call_id), carrier),
            (transition, log_filter(&self.catalog, request)),
        );
        self.deferred.calls.attach_task(call_id, task);
        Ok(())
    }

    /// Starts a blocking handler.
    fn spawn_blocking(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
        (work, permit): (BlockingWork, Option<CallPermit>),
    ) -> Result<(), Error> {
        let calls = &self.deferred.calls;
        let held_bytes = |in_flight: &RequestsInFlight| calls.argument_bytes(in_flight);
        let handler = self.handlers.prepare(work, peer, (request, 0), held_bytes)?;
        let handler = handler.count_running(&self.deferred.overload, request)?;
        let argument_bytes = handler.charge.bytes();
        let blocking = HandlerWork::Blocking { handler: None, argument_bytes };
        let call_id = self.insert_call(ctx, peer, request, (blocking, permit))?;
        let log_filter = log_filter(&self.catalog, request);
        let owner = self.handlers.job_owner(peer, ctx);
        let requester = (Requester::Call(call_id), owner);
        let queue = (&self.deferred.overload, ctx.now);
        match self.handlers.start_blocking(handler, log_filter, requester, queue, peer.outbox) {
            Ok(handler) => {
                self.deferred.calls.attach_job(call_id, handler);
                Ok(())
            }
            Err(error) => {
                self.deferred.remove_call(call_id, peer);
                Err(error)
            }
        }
    }

    /// Inserts a call that a task answers.
    pub(super) fn insert_remote_call(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
    ) -> Result<Key, Error> {
        let calls = &self.deferred.calls;
        let held_bytes = |in_flight: &RequestsInFlight| calls.argument_bytes(in_flight);
        let charge = self.handlers.charge(peer, request.id_bytes(), held_bytes)?;
        self.insert_call(ctx, peer, request, (HandlerWork::Remote(charge), None))
    }

    /// Inserts a call that is answered later, if its response can be delivered.
    fn insert_call(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
        (work, permit): (HandlerWork, Option<CallPermit>),
    ) -> Result<Key, Error> {
        let call = NewCall {
            reply_to: ctx.reply_to,
            id: request.id().into(),
            revision: request.revision,
            progress_token: request.progress_token().map(IdBuf::from),
            catalog: Arc::clone(&self.catalog),
            permit,
            request_id: peer.origin.request_id_buf(),
        };
        self.deferred.insert_call(peer, call, work, ctx.now)
    }
}

/// Admits a call of a tool by its circuit breaker. Returns the position of the tool in the catalog
/// if it was looked up.
///
/// # Errors
///
/// The breaker is open.
#[inline]
fn admit_call(
    dispatcher: &Dispatcher,
    ctx: MessageContext,
    request: &Request<'_>,
) -> Result<(Option<usize>, Option<Admission>), Error> {
    let (overload, catalog) = (&dispatcher.deferred.overload, &dispatcher.catalog);
    if !overload.has_breakers() || request.method != Method::ToolsCall {
        return Ok((None, None));
    }
    // Other names are invalid params.
    let name = request.call_params().tool_call().ok().and_then(|[name, _]| name?.as_str());
    let Some(tool) = name.and_then(|name| tool_position(catalog, name)) else {
        return Ok((None, None));
    };
    Ok((Some(tool), overload.admit((catalog, tool), ctx.now)?))
}

/// Returns the permit of a call that leaves the turn.
fn take_permit(overload: &Overload, admission: &mut Option<Admission>) -> Option<CallPermit> {
    Some(overload.permit(admission.take()?))
}

/// Records that a call has ended with an error.
#[cold]
fn record_error(overload: &Overload, admission: Option<Admission>, end: EndOfCall) {
    if let Some(admission) = admission {
        overload.record_inline(admission, end);
    }
}

/// Returns which log messages the handler of a request passes on.
fn log_filter(catalog: &Catalog, request: &Request<'_>) -> LogFilter {
    if !catalog.has_features(Features::LOGGING) {
        return LogFilter::Off;
    }
    match request.log_level {
        Some(level) => LogFilter::AtLeast(level),
        None if request.revision.is_modern() => LogFilter::Off,
        None => LogFilter::BySession,
    }
}

/// Reads the params and runs the catalog as far as it goes at once. A call of a tool has its
/// position in the catalog if it was looked up.
#[inline]
fn start_handler(
    auth: &Authentication,
    catalog: &Catalog,
    peer: &mut PeerState<'_>,
    (request, tool): (&Request<'_>, Option<usize>),
    shard_state: &Rc<dyn Any>,
) -> Dispatch {
    let (id, params) = (request.id(), request.params());
    let PeerState { outgoing: out, state, origin, .. } = peer;
    let source = &request.source(state, origin, shard_state);
    let is_listed = |uri: &str| {
        let principal = origin.principal.or_else(|| state.principal());
        let principal = principal.map(|principal| &**principal);
        auth.may_use(catalog, principal, (Method::ResourcesRead, uri))
    };
    let started = match request.method {
        Method::PromptsGet => GetPromptRequestParams::read(params)
            .map(|parsed| catalog.get_prompt(&parsed, source, id, out)),
        Method::ResourcesRead => ReadResourceRequestParams::read(params)
            .map(|parsed| catalog.read_resource(&parsed, source, id, out)),
        Method::CompletionComplete => CompleteRequestParams::read(params)
            .map(|parsed| catalog.complete(&parsed, source, &is_listed, id, out)),
        _ => CallToolRequest::from_source(request.client(), request.call_params(), source)
            .map(|call| call_tool_at(catalog, tool, (&call, id), out)),
    };
    started.unwrap_or_else(Dispatch::Failed)
}

/// Returns the digest of the request that a state belongs to, and of its caller.
fn request_digest(principal: Option<&Arc<Principal>>, request: &Request<'_>) -> RequestDigest {
    let params = request.params().and_then(Value::as_object);
    let arguments = params.and_then(|params| params.find("arguments"));
    let arguments = arguments.filter(|arguments| !arguments.is_null());
    let caller = principal.map(|principal| principal.identity()).unwrap_or_default();
    RequestDigest::of(request.method.as_str(), request.target_name(), arguments, &caller)
}
