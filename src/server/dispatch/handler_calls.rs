//! Requests that a handler serves: inline ones respond at once, others are started and respond
//! later.

use std::hash::BuildHasher;
use std::rc::Rc;
use std::sync::Arc;

use corelane_base::principal::Principal;
use corelane_engine::ring::cycles::CycleCount;
use corelane_protocol::eras::{ClientCapabilities, Method};
use corelane_protocol::error::Error;
use corelane_protocol::in_flight::RequestsInFlight;
use corelane_protocol::json::Value;
use corelane_protocol::params::{
    CompleteRequestParams, GetPromptRequestParams, InputResponseRequestParams,
    ReadResourceRequestParams,
};

use super::admission::Request;
use super::handlers::{CallEnd, SHARED_BYTES};
use super::tasks::CallMode;
use super::{Dispatcher, MessageContext, write_request_error};
use crate::server::calls::HandlerWork;
use crate::server::client_requests::PendingInputs;
use crate::server::client_requests::request_state::{RequestDigest, RequestState};
use crate::server::connection_state::PeerState;
use crate::server::handlers::contexts::LogFilter;
use crate::server::handlers::handler_state::{
    CancellationToken, RequestCarrier, TaskTransition, pausable,
};
use crate::server::handlers::reports::TimedHandler;
#[cfg(feature = "tokio")]
use crate::server::handlers::tokio_handlers;
use crate::server::overload::{Admission, CallPermit, EndOfCall, outcome_of};
use crate::server::reply_to::{Outcome, PeerId};
use crate::server::shard_message::Requester;
use crate::service::{
    BlockingWork, BuildNameHasher, CallToolRequest, Dispatch, Features, LocalWork, call_tool_at,
    tool_position,
};

/// The capabilities of which a client needs at least one to receive input requests.
const INPUT_CAPABILITIES: ClientCapabilities = ClientCapabilities::ELICITATION_FORM
    .union(ClientCapabilities::ELICITATION_URL)
    .union(ClientCapabilities::ROOTS)
    .union(ClientCapabilities::SAMPLING);

/// A local handler that a call starts.
struct LocalCall {
    work: LocalWork,
    /// The state and the responses that the request brings.
    request_state: Option<Box<RequestState>>,
    transition: TaskTransition,
    permit: Option<CallPermit>,
}

impl Dispatcher {
    /// Dispatches a call: a request that a handler serves. Its steps are authorization, rate limit,
    /// circuit breaker, task, request state and handler; then its end is recorded. A step whose
    /// option is off costs one branch.
    #[inline]
    pub(super) fn dispatch_call(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
    ) -> Outcome {
        if self.auth.is_active()
            && let Err(refused) = self.authorize(ctx, peer, request)
        {
            return refused;
        }
        if self.rate.is_active()
            && let Err(refused) = self.limit_rate(ctx, peer, request)
        {
            return refused;
        }
        let begun = CycleCount::now();
        let end = if self.auth.has_audit() {
            self.audit_call(ctx, peer, request, begun)
        } else {
            self.run_call(ctx, peer, request, begun)
        };
        self.record_end(ctx, peer, request, begun, end)
    }

    /// Runs a call and logs how it has ended, if its tool is marked. One whose response comes later
    /// is logged with it.
    ///
    /// # Errors
    ///
    /// The error response. The call has not run if the audit log is required and takes no line.
    #[cold]
    fn audit_call(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
        begun: CycleCount,
    ) -> Result<CallEnd, Error> {
        let Some(call) = self.audited_call(peer, request) else {
            return self.run_call(ctx, peer, request, begun);
        };
        let record = self.audit.begin(call)?;
        let end = self.run_call(ctx, peer, request, begun);
        match end {
            Ok(CallEnd::Answered { is_failed: true } | CallEnd::Task { is_failed: true }) => {
                record.log("failed");
            }
            Ok(CallEnd::Answered { is_failed: false }) => record.log("succeeded"),
            Ok(CallEnd::Task { is_failed: false }) => record.log("task"),
            Ok(CallEnd::Pending) => {
                match peer.state.in_flight.call_of(request.id(), ctx.reply_to.exchange()) {
                    Some(call_id) => self.deferred.calls.attach_audit(call_id, Box::new(record)),
                    None => record.log("pending"),
                }
            }
            Err(_) => record.log("error"),
        }
        end
    }

    /// Runs an admitted call: from its circuit breaker to the end of its handler, or its begin.
    ///
    /// # Errors
    ///
    /// The error response.
    #[inline]
    fn run_call(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
        begun: CycleCount,
    ) -> Result<CallEnd, Error> {
        let is_tool_call = request.method == Method::ToolsCall;
        let (mut tool, mut admission, mut transition) = (None, None, TaskTransition::None);
        let end = 'call: {
            if self.deferred.overload.has_breakers() && is_tool_call {
                tool = self.tool_position(request);
                match self.admit_tool(tool, ctx, peer) {
                    Ok(admitted) => admission = admitted,
                    Err(error) => break 'call Err(error),
                }
            }
            if self.catalog.has_features(Features::TASKS) && is_tool_call {
                match self.call_mode(peer, request) {
                    Ok(CallMode::Call(allowed)) => transition = allowed,
                    Ok(CallMode::Task(ttl)) => {
                        break 'call self.call_as_task(ctx, peer, request, ttl);
                    }
                    Err(error) => break 'call Err(error),
                }
            }
            let request_state = match self.read_request_state(ctx, peer, request) {
                Ok(request_state) => request_state,
                Err(error) => break 'call Err(error),
            };
            let started = self.start_handler(peer, request, tool);
            let permit = admission.take().and_then(|it| self.end_admission(it, &started, begun));
            match started {
                Dispatch::Ready { is_error: is_failed } => Ok(CallEnd::Answered { is_failed }),
                Dispatch::Failed(error) => Err(error),
                Dispatch::Internal(error) => self.write_failure(ctx, peer, request, &error),
                Dispatch::Local(work) => {
                    let call = LocalCall { work, request_state, transition, permit };
                    self.begin_local_call(ctx, peer, request, call)
                }
                #[cfg(feature = "tokio")]
                Dispatch::Tokio(work) => {
                    let work = tokio_handlers::local_work(work, Rc::clone(&self.handlers.tokio));
                    let call = LocalCall { work, request_state, transition, permit };
                    self.begin_local_call(ctx, peer, request, call)
                }
                Dispatch::Blocking(work) => {
                    self.begin_blocking_call(ctx, peer, request, work, permit)
                }
            }
        };
        if let Some(admission) = admission {
            self.deferred.overload.abandon(admission);
        }
        end
    }

    /// Returns the position of the called tool in the catalog. Other names are invalid params.
    #[inline]
    fn tool_position(&self, request: &Request<'_>) -> Option<usize> {
        let [name, _] = request.call_params().tool_call().ok()?;
        tool_position(&self.catalog, name?.as_str()?)
    }

    /// Admits a call of the tool at a position in the catalog by its circuit breaker.
    ///
    /// # Errors
    ///
    /// The breaker is open.
    #[inline]
    fn admit_tool(
        &self,
        tool: Option<usize>,
        ctx: MessageContext,
        peer: &PeerState<'_>,
    ) -> Result<Option<Admission>, Error> {
        let Some(tool) = tool else { return Ok(None) };
        let caller = caller_number(ctx.reply_to.peer_id, peer);
        self.deferred.overload.admit(&self.catalog, tool, caller, ctx.now)
    }

    /// Records the end of an admitted call that has ended. Returns the permit of one whose handler
    /// is to run.
    #[inline]
    fn end_admission(
        &self,
        admission: Admission,
        started: &Dispatch,
        begun: CycleCount,
    ) -> Option<CallPermit> {
        let overload = &self.deferred.overload;
        let end = match started {
            Dispatch::Ready { is_error } => outcome_of(Ok(*is_error)),
            Dispatch::Failed(error) => outcome_of(Err(error.kind)),
            Dispatch::Internal(_) => EndOfCall::FAILED,
            _ => return Some(overload.permit(admission)),
        };
        overload.record_inline(admission, end, begun);
        None
    }

    /// Counts the end of a call, and a handler that has kept the shard busy for long. Writes the
    /// response of a call that ends with an error.
    #[inline]
    fn record_end(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
        begun: CycleCount,
        end: Result<CallEnd, Error>,
    ) -> Outcome {
        let outcome = match end {
            Ok(CallEnd::Answered { is_failed }) => {
                peer.outbox.counters.requests.tool_errors += u64::from(is_failed);
                Outcome::Response
            }
            Ok(CallEnd::Task { .. }) => Outcome::Response,
            Ok(CallEnd::Pending) => Outcome::None,
            Err(error) => write_request_error(peer, request, &error),
        };
        let request_id = peer.origin.details.request_id;
        let handler =
            || TimedHandler::new(request.method.as_str(), request.target_name(), request_id);
        if self.slow_handlers.is_slow(begun, handler, ctx.now) {
            peer.outbox.counters.requests.slow_handlers += 1;
        }
        outcome
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
        let digest = request_digest(peer.principal(), request);
        self.deferred.decrypt_request_state(peer, digest, retry, ctx.now)
    }

    /// Begins a call whose handler is a future on this shard.
    fn begin_local_call(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
        call: LocalCall,
    ) -> Result<CallEnd, Error> {
        let LocalCall { work, request_state, transition, permit } = call;
        let state_bytes = request_state.as_ref().map_or(0, |state| state.held_bytes());
        let inputs_bytes = SHARED_BYTES + size_of::<PendingInputs>();
        let state_bytes = state_bytes + if request.revision.is_modern() { inputs_bytes } else { 0 };
        let calls = &self.deferred.calls;
        let held_bytes = |in_flight: &RequestsInFlight| calls.argument_bytes(in_flight);
        let handler = self.handlers.prepare(work, peer, request, state_bytes, held_bytes)?;
        let handler = handler.count_running(&self.deferred.overload, peer, request)?;
        let (token, argument_bytes) = (Rc::<CancellationToken>::default(), handler.charge.bytes());
        let handler = if peer.origin.details.is_streamed {
            let queue = &self.handlers.queue;
            handler.map(|work| pausable(work, &token, queue))
        } else {
            handler
        };
        let local = HandlerWork::Local { task: None, token: Rc::clone(&token), argument_bytes };
        let call_id = self.register_call(ctx, peer, request, local, permit)?;
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
        let started = self.handlers.start_local(
            handler,
            token,
            Requester::Call(call_id),
            carrier,
            transition,
            self.log_filter(request),
        );
        self.deferred.calls.attach_task(call_id, started.task, started.charged_bytes);
        Ok(CallEnd::Pending)
    }

    /// Begins a call whose handler runs on the thread pool.
    fn begin_blocking_call(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
        work: BlockingWork,
        permit: Option<CallPermit>,
    ) -> Result<CallEnd, Error> {
        let calls = &self.deferred.calls;
        let held_bytes = |in_flight: &RequestsInFlight| calls.argument_bytes(in_flight);
        let handler = self.handlers.prepare(work, peer, request, 0, held_bytes)?;
        let handler = handler.count_running(&self.deferred.overload, peer, request)?;
        let argument_bytes = handler.charge.bytes();
        let blocking = HandlerWork::Blocking { handler: None, argument_bytes };
        let call_id = self.register_call(ctx, peer, request, blocking, permit)?;
        let (requester, log_filter) = (Requester::Call(call_id), self.log_filter(request));
        match self.start_blocking(ctx, peer, requester, handler, log_filter) {
            Ok(handler) => {
                self.deferred.calls.attach_job(call_id, handler);
                Ok(CallEnd::Pending)
            }
            Err(error) => {
                self.deferred.remove_call(call_id, peer);
                Err(error)
            }
        }
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

    /// Reads the params and runs the catalog as far as it goes at once. A call of a tool has its
    /// position in the catalog if it was looked up.
    #[inline]
    fn start_handler(
        &self,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
        tool: Option<usize>,
    ) -> Dispatch {
        let (catalog, id, params) = (&*self.catalog, request.id(), request.params());
        let PeerState { outgoing: out, state, origin, left_out, .. } = peer;
        let source = &request.source(state, origin, &self.handlers.shard_state);
        let is_listed = |uri: &str| {
            let principal = origin.details.principal.or_else(|| state.principal());
            let principal = principal.map(|principal| &**principal);
            self.auth.may_use(catalog, principal, Method::ResourcesRead, uri)
        };
        let started = match request.method {
            Method::PromptsGet => GetPromptRequestParams::read(params)
                .map(|parsed| catalog.get_prompt(&parsed, source, id, out)),
            Method::ResourcesRead => ReadResourceRequestParams::read(params)
                .map(|parsed| catalog.read_resource(&parsed, source, id, out)),
            Method::CompletionComplete => CompleteRequestParams::read(params)
                .map(|parsed| catalog.complete(&parsed, source, &is_listed, id, out)),
            _ => CallToolRequest::from_source(request.client(), request.call_params(), source)
                .map(|call| call_tool_at(catalog, tool, &call, id, out, left_out.as_deref_mut())),
        };
        started.unwrap_or_else(Dispatch::Failed)
    }
}

/// Returns a number that differs between authenticated callers, or else between client addresses;
/// between peers whose address is exempt from limits by address.
#[inline]
fn caller_number(peer_id: PeerId, peer: &PeerState<'_>) -> u64 {
    match (peer.principal(), peer.state.client) {
        (Some(principal), _) => {
            let hash = |text: &str| BuildNameHasher::new().hash_one(text);
            hash(principal.id()) ^ hash(principal.issuer()).rotate_left(1)
        }
        (None, Some(address)) => address.to_bits(),
        (None, None) => peer_id.to_bits(),
    }
}

/// Returns the digest of the request that a state belongs to, and of its caller.
fn request_digest(principal: Option<&Arc<Principal>>, request: &Request<'_>) -> RequestDigest {
    let params = request.params().and_then(Value::as_object);
    let arguments = params.and_then(|params| params.find("arguments"));
    let arguments = arguments.filter(|arguments| !arguments.is_null());
    let caller = principal.map(|principal| principal.identity()).unwrap_or_default();
    RequestDigest::of(request.method.as_str(), request.target_name(), arguments, &caller)
}
