//! One request that is passed on: to its response, with the progress, the cancellation and the
//! requests to the client between.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::mem::take;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use corelane_base::principal::Principal;
use corelane_base::time::Instant;
use corelane_client::{ClientError, ClientErrorKind, ReceivedFuture, ReceivedMessage};
use corelane_engine::clock::Clock;
use corelane_protocol::eras::{
    CLIENT_CAPABILITIES_KEY, CLIENT_INFO_KEY, ClientCapabilities, LOG_LEVEL_KEY, Method,
    PROTOCOL_VERSION_KEY,
};
use corelane_protocol::error::Error;
use corelane_protocol::json::write;
use corelane_protocol::model::Implementation;
use corelane_protocol::revision::Revision;
use serde_json::Value;

use crate::gateway::held::{HeldCall, HeldCalls, HeldId, Owner};
use crate::gateway::input::{CallEvent, CallEvents, ClientRequest};
use crate::gateway::output::{MissingMembers, error_of, result_of};
use crate::gateway::pool::{Connection, Pool};
use crate::gateway::round_trip::{RequiredInput, RoundTrip};
use crate::gateway::status::{CallCounts, CallOutcome, CallRecord};
use crate::service::{
    ClientRequestError, HandlerError, HandlerOutput, PastRoundTrips, RequestContext, RequestInfo,
};

/// Round trips of one call in which the client need not repeat its request.
const ROUND_TRIPS_MAX: u32 = 32;
/// Time in which requests of an upstream to the client become input requests of one result. It
/// delays each of them, and spares the client a request for each further one.
const GATHER_TIME: Duration = Duration::from_millis(20);

/// A request to pass on.
#[derive(Debug)]
pub struct Outgoing {
    pub method: Method,
    /// Name of the tool or prompt, or URI of the resource, at the upstream.
    pub target: Box<str>,
    /// The params, a JSON object.
    pub params: Vec<u8>,
    /// What clients of 2026-07-28 need besides what older servers send.
    pub missing: MissingMembers,
    /// Whether a server up to 2025-11-25 serves it as a task only.
    pub requires_task: bool,
    /// Where a call of a tool is counted besides the calls of the upstream.
    pub tool: Option<Arc<CallCounts>>,
}

/// A call of the tool `own` of an upstream, whose arguments are encoded.
pub fn call_of(own: &str, arguments: &[u8], requires_task: bool) -> Outgoing {
    let mut params = Vec::with_capacity(arguments.len() + own.len() + 32);
    params.extend_from_slice(b"{\"name\":");
    write::string(&mut params, own);
    params.extend_from_slice(b",\"arguments\":");
    params.extend_from_slice(arguments);
    params.push(b'}');
    let (method, missing) = (Method::ToolsCall, MissingMembers::ResultType);
    Outgoing { method, target: own.into(), params, missing, requires_task, tool: None }
}

impl Outgoing {
    /// The params of one round trip. They stay here where there may be another.
    fn params_of(&mut self, round_trip: &RoundTrip, is_modern: bool) -> Vec<u8> {
        if !is_modern {
            return take(&mut self.params);
        }
        let mut params = self.params.clone();
        round_trip.extend(&mut params);
        params
    }
}

/// A request in flight at an upstream. Dropping it cancels the request there.
#[derive(Debug)]
pub struct Running {
    /// Name or URI at the upstream.
    target: Box<str>,
    response: ReceivedFuture,
    /// `None` if the client wants no progress, gives no input and shares the connection.
    events: Option<Arc<CallEvents>>,
    record: CallRecord,
    /// Ends with the call if no other one uses it.
    connection: Arc<Connection>,
    missing: MissingMembers,
    client_requests_sent: u32,
    /// When it ends at the latest.
    until: Instant,
    is_answered: bool,
    /// Names the call where it is held, once it has required input.
    held_id: Option<HeldId>,
}

/// An upstream, and the calls that are held for it and others.
#[derive(Debug)]
pub struct Upstream {
    pub pool: Arc<Pool>,
    pub held: Arc<HeldCalls<Running>>,
    pub clock: Clock,
}

impl Upstream {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.pool.settings.name
    }
}

/// What comes for a call that was not answered is not of another one.
impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_answered {
            self.connection.note_cancelled();
        }
    }
}

impl Running {
    /// The key of the next input request.
    fn next_key(&mut self) -> Result<String, HandlerError> {
        let id = match self.held_id {
            Some(id) => id,
            None => HeldId::new().map_err(|error| Error::internal(error.to_string()))?,
        };
        self.held_id = Some(id);
        self.client_requests_sent += 1;
        Ok(id.key(self.client_requests_sent))
    }

    /// Passes requests to the client on that have no response yet when the call ends. They are of
    /// another call of the same session: its upstream does not say of which. Without one they get
    /// an error.
    fn pass_on(&self, client_requests: Vec<ClientRequest>) {
        if let Some(own) = &self.events
            && !client_requests.is_empty()
            && let Some(other) = self.connection.other_call(own)
        {
            for client_request in client_requests {
                other.add_client_request(client_request);
            }
        }
    }
}

/// What a call waits for: events, and the response after them.
#[derive(Default)]
struct Step {
    events: VecDeque<CallEvent>,
    response: Option<Result<ReceivedMessage, ClientError>>,
}

/// The response of the client to a request, on its way.
type PendingResponse = Pin<Box<dyn Future<Output = Result<Value, ClientRequestError>>>>;

/// A request that the client has, with the future of its response. `None` once it has responded.
type SentRequest = (PendingResponse, Option<ClientRequest>);

/// Passes on a request, or continues the held one that it has input for. A call that a client up to
/// 2025-11-25 wants as a task is one from here on, whether or not it is one at the upstream.
pub async fn forward(
    upstream: Arc<Upstream>,
    outgoing: Outgoing,
    ctx: RequestContext,
) -> Result<HandlerOutput, HandlerError> {
    if !ctx.client().revision.is_modern() {
        ctx.begin_task().await?;
    }
    let past = ctx.past_round_trips().unwrap_or_default();
    let until = upstream.clock.now().after(upstream.pool.settings.call_max);
    let mut outgoing = outgoing;
    let held = find_held(&upstream, &ctx, &past, &outgoing.target)?;
    let mut running = if let Some(HeldCall { running, client_requests, .. }) = held {
        require_input(&upstream, &ctx, running, client_requests).await?
    } else {
        let first = RoundTrip::of_client(past, upstream.name())?;
        start(&upstream, &mut outgoing, &first, until, &ctx).await?
    };
    for _ in 0..ROUND_TRIPS_MAX {
        let required = match drive(&upstream, &ctx, running).await? {
            CallEnd::Output(output) => return Ok(output),
            CallEnd::InputRequired(required) => required,
        };
        let left = until.since(upstream.clock.now());
        let next = required.collect(upstream.name(), &ctx, left).await?;
        running = start(&upstream, &mut outgoing, &next, until, &ctx).await?;
    }
    let name = upstream.name();
    Err(Error::internal(format!("upstream `{name}` requires input again and again")).into())
}

/// Whose the call of `target` is, once it is held.
fn owner_of(upstream: &Upstream, ctx: &RequestContext, target: &str) -> Owner {
    let principal = ctx.principal().map(Principal::identity);
    Owner { principal, upstream: upstream.name().into(), target: target.into() }
}

/// Returns the held call that the request has input for.
fn find_held(
    upstream: &Upstream,
    ctx: &RequestContext,
    past: &PastRoundTrips,
    target: &str,
) -> Result<Option<HeldCall<Running>>, HandlerError> {
    // Keys of an upstream that requires input itself are its own.
    let keys = if past.kept.is_some() { &[][..] } else { &past.requested_keys };
    let Some(id) = keys.iter().rev().find_map(|key| HeldId::of_key(key)) else { return Ok(None) };
    let Some(held) = upstream.held.resume(id, &owner_of(upstream, ctx, target)) else {
        let text = "the call that required input has ended: its time was over, or it has been \
                    continued already; repeat the request without inputResponses and requestState \
                    if it may run again";
        return Err(Error::invalid_params(text).into());
    };
    Ok(Some(held))
}

/// Sends the request of one round trip.
async fn start(
    upstream: &Upstream,
    outgoing: &mut Outgoing,
    round_trip: &RoundTrip,
    until: Instant,
    ctx: &RequestContext,
) -> Result<Running, HandlerError> {
    let (pool, info) = (&upstream.pool, ctx.request());
    let mut record = pool.status.calls.begin(outgoing.tool.clone());
    let connected = ctx.run_until_cancelled(pool.connection(info)).await?;
    let connection = connected.inspect_err(|_| record.note(CallOutcome::Failed))?;
    let server = connection.server().await.map_err(|it| {
        record.note(CallOutcome::Failed);
        error_of(&pool.settings.name, &it)
    })?;
    let is_modern = server.revision.is_modern();
    let params = outgoing.params_of(round_trip, is_modern);
    let (method, target, missing) = (outgoing.method, outgoing.target.clone(), outgoing.missing);
    let capabilities = info.client().capabilities;
    let capabilities = capabilities.difference(ClientCapabilities::EXTENSION_TASKS);
    // The params of a completion have no name of their own.
    let name = (method != Method::CompletionComplete).then_some(&*target);
    let mut request = connection
        .client
        .encoded_request(method, name, params)
        .timeout(pool.settings.call_timeout)
        .fresh();
    if outgoing.requires_task && !is_modern {
        request = request.as_task();
    }
    request = pool.settings.pass_headers(info, request);
    request = request.own_meta(&meta_of(info, is_modern, capabilities));
    // An upstream of 2026-07-28 requires input with its result, or for the task of a call.
    let may_ask = !is_modern || method == Method::ToolsCall;
    let takes_input = !capabilities.is_empty() && may_ask;
    let may_require_input =
        matches!(method, Method::ToolsCall | Method::PromptsGet | Method::ResourcesRead);
    if is_modern && may_require_input {
        request = request.returns_input_required();
    }
    // A shared server of an older revision logs for all.
    let may_log = server.capabilities.logging
        && (connection.is_private() || is_modern && info.log_level().is_some());
    let has_events = info.wants_progress() || takes_input || may_log;
    let events = has_events.then(Arc::<CallEvents>::default);
    if let Some(events) = events.as_ref().filter(|_| may_log || connection.is_private()) {
        connection.add_log_reader(events);
    }
    if let Some(events) = events.as_ref().filter(|_| info.wants_progress()) {
        let events = Arc::clone(events);
        request = request.on_progress(move |progress| events.push_progress(progress));
        request = request.extended_by_progress();
    }
    if let Some(events) = events.as_ref().filter(|_| takes_input) {
        let events = Arc::clone(events);
        request = request.on_input(capabilities, move |input| events.push_client_request(&input));
    }
    Ok(Running {
        target,
        response: request.received(),
        events,
        connection,
        missing,
        record,
        client_requests_sent: 0,
        until,
        is_answered: false,
        held_id: None,
    })
}

/// How the call of one round trip ends.
enum CallEnd {
    Output(HandlerOutput),
    InputRequired(RequiredInput),
}

/// Runs a call to its response.
async fn drive(
    upstream: &Upstream,
    ctx: &RequestContext,
    mut running: Running,
) -> Result<CallEnd, HandlerError> {
    let mut cancelled = ctx.cancelled();
    let left = running.until.since(upstream.clock.now());
    let mut over = running.events.as_ref().map(|_| Box::pin(ctx.sleep(left)));
    let mut is_round_trip = ctx.past_round_trips().is_some();
    let mut pending: Vec<SentRequest> = Vec::new();
    let mut gathered = Gathered::default();
    loop {
        let step = poll_fn(|context| {
            if cancelled.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(HandlerError::Cancelled));
            }
            if over.as_mut().is_some_and(|over| over.as_mut().poll(context).is_ready()) {
                return Poll::Ready(Err(too_long(upstream)));
            }
            poll_responses(&mut pending, context);
            match poll_step(&mut running, context) {
                Poll::Pending => gathered.poll_complete(context).map(|()| Ok(Step::default())),
                step @ Poll::Ready(_) => step.map(Ok),
            }
        });
        let Step { events, response } = step.await.inspect_err(|error| {
            if !matches!(error, HandlerError::Cancelled) {
                running.record.note(CallOutcome::Timeout);
            }
        })?;
        for event in events {
            match event {
                CallEvent::Progress(it) => {
                    ctx.progress(it.progress, it.total, it.message.as_deref());
                }
                CallEvent::Log(message) => {
                    ctx.log(message.level, message.logger.as_deref(), message.data);
                }
                CallEvent::ClientRequest(client_request) => {
                    gathered.client_requests.push((running.next_key()?, client_request));
                }
            }
        }
        if response.is_some() {
            let sent = pending.drain(..).filter_map(|(_, client_request)| client_request);
            let left = gathered.client_requests.drain(..);
            let left = left.map(|(_, client_request)| client_request).chain(sent);
            running.pass_on(left.collect());
        }
        if let Some(response) = response {
            return finish(upstream, ctx, running, response);
        }
        if is_round_trip && let Some(client_requests) = gathered.take_complete(ctx) {
            if holds_for_input(ctx).await? {
                running = require_input(upstream, ctx, running, client_requests).await?;
                continue;
            }
            is_round_trip = false;
            gathered.client_requests = client_requests;
        }
        if !is_round_trip {
            let client_requests = gathered.client_requests.drain(..);
            pending.extend(client_requests.map(|(key, client_request)| {
                let pending: PendingResponse =
                    Box::pin(ctx.forward_input(&key, client_request.request.clone()));
                (pending, Some(client_request))
            }));
        }
    }
}

/// Returns whether a call that requires input is held until the client repeats its request. For a
/// client of 2026-07-28 that takes tasks it becomes a task instead, if there is room for one.
async fn holds_for_input(ctx: &RequestContext) -> Result<bool, HandlerError> {
    match ctx.begin_task().await {
        Ok(()) | Err(HandlerError::Rpc(_)) => Ok(ctx.past_round_trips().is_some()),
        Err(error) => Err(error),
    }
}

/// The client requests of one round trip: those that follow each other within [`GATHER_TIME`].
#[derive(Default)]
struct Gathered {
    client_requests: Vec<(String, ClientRequest)>,
    /// Resolves at the end of the time; `None` before the first request.
    end: Option<Pin<Box<dyn Future<Output = bool>>>>,
    is_complete: bool,
}

impl Gathered {
    /// Ready once, when there are requests and their time is over.
    fn poll_complete(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let is_over = self.end.as_mut().is_some_and(|end| end.as_mut().poll(context).is_ready());
        if !is_over {
            return Poll::Pending;
        }
        (self.end, self.is_complete) = (None, true);
        Poll::Ready(())
    }

    /// Takes the requests if their time is over. With the first one it begins.
    fn take_complete(&mut self, ctx: &RequestContext) -> Option<Vec<(String, ClientRequest)>> {
        if take(&mut self.is_complete) {
            return Some(take(&mut self.client_requests));
        }
        if self.end.is_none() && !self.client_requests.is_empty() {
            let sleep = ctx.sleep(GATHER_TIME);
            self.end = Some(Box::pin(async move { sleep.await.is_ok() }));
        }
        None
    }
}

/// Returns how a round trip ends with its response.
fn finish(
    upstream: &Upstream,
    ctx: &RequestContext,
    mut running: Running,
    response: Result<ReceivedMessage, ClientError>,
) -> Result<CallEnd, HandlerError> {
    let message = match response {
        Ok(message) => message,
        Err(error) => {
            running.is_answered = error.kind() != ClientErrorKind::Timeout;
            running.record.note(CallOutcome::of_error(&error));
            return Err(error_of(upstream.name(), &error));
        }
    };
    running.is_answered = true;
    if message.revision().is_modern() {
        let required = RequiredInput::read(message.as_bytes()).map_err(|text| {
            running.record.note(CallOutcome::Failed);
            error_of(upstream.name(), &ClientError::new(ClientErrorKind::Protocol, text))
        })?;
        if let Some(required) = required {
            running.record.note(CallOutcome::Result);
            return Ok(CallEnd::InputRequired(required));
        }
    }
    let result = result_of(message, ctx.client().revision, running.missing);
    running.record.note(CallOutcome::of_result(&result));
    result.map(CallEnd::Output)
}

fn too_long(upstream: &Upstream) -> HandlerError {
    let name = upstream.name();
    Error::internal(format!("the call of upstream `{name}` took longer than call_max")).into()
}

/// The response is looked at first: what the upstream has sent before it is then among the events.
fn poll_step(running: &mut Running, context: &mut Context<'_>) -> Poll<Step> {
    let response = match Pin::new(&mut running.response).poll(context) {
        Poll::Ready(response) => Some(response),
        Poll::Pending => None,
    };
    let events = running.events.as_ref().map(|events| events.poll_take(context));
    let events = events.unwrap_or_default();
    if response.is_none() && events.is_empty() {
        return Poll::Pending;
    }
    Poll::Ready(Step { events, response })
}

/// Passes on the responses that have come.
fn poll_responses(pending: &mut Vec<SentRequest>, context: &mut Context<'_>) {
    pending.retain_mut(|(future, client_request)| match future.as_mut().poll(context) {
        Poll::Ready(result) => {
            if let Some(client_request) = client_request.take() {
                client_request.response.respond(encode_response(result));
            }
            false
        }
        Poll::Pending => true,
    });
}

fn encode_response(result: Result<Value, ClientRequestError>) -> Result<Vec<u8>, String> {
    result.map(|result| result.to_string().into_bytes()).map_err(|error| error.to_string())
}

/// Requires input of a client whose responses come with another request. Returns the call if it
/// has all of them already; otherwise the call is held, and this does not return: the handler ends
/// with its round trip.
async fn require_input(
    upstream: &Upstream,
    ctx: &RequestContext,
    running: Running,
    client_requests: Vec<(String, ClientRequest)>,
) -> Result<Running, HandlerError> {
    let mut open: Vec<(String, ClientRequest)> = Vec::new();
    let mut sent: Vec<PendingResponse> = Vec::new();
    for (key, ClientRequest { request, response }) in client_requests {
        let mut future: PendingResponse = Box::pin(ctx.forward_input(&key, request.clone()));
        match poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await {
            Poll::Ready(result) => response.respond(encode_response(result)),
            Poll::Pending => {
                open.push((key, ClientRequest { request, response }));
                sent.push(future);
            }
        }
    }
    if open.is_empty() {
        return Ok(running);
    }
    let id = running.held_id.ok_or_else(|| Error::internal("a client request has no id"))?;
    let owner = owner_of(upstream, ctx, &running.target);
    let held = HeldCall { running, client_requests: open, owner };
    if let Err(held) = upstream.held.hold(id, held) {
        drop(sent);
        let HeldCall { running, client_requests, .. } = *held;
        for (_, ClientRequest { response, .. }) in client_requests {
            response.respond(Err("the gateway holds as many calls as it may".to_owned()));
        }
        return Ok(running);
    }
    // The futures stay until the round trip ends, which ends the handler.
    poll_fn(|context| {
        for future in &mut sent {
            drop(future.as_mut().poll(context));
        }
        Poll::Pending
    })
    .await
}

/// Returns the members of `_meta` of the request: those of the client that are not of the
/// protocol, and for a modern upstream who the client is and what it can do.
fn meta_of(info: &RequestInfo, is_modern: bool, capabilities: ClientCapabilities) -> Vec<u8> {
    let mut out = Vec::new();
    if is_modern {
        write::string(&mut out, PROTOCOL_VERSION_KEY);
        out.push(b':');
        write::string(&mut out, Revision::LATEST.as_str());
        out.push(b',');
        write::string(&mut out, CLIENT_CAPABILITIES_KEY);
        out.push(b':');
        // Calls that become tasks at the upstream wait for their results.
        capabilities.union(ClientCapabilities::EXTENSION_TASKS).write_required(&mut out);
        out.push(b',');
        write::string(&mut out, CLIENT_INFO_KEY);
        out.push(b':');
        let implementation = match info.client_implementation() {
            Some(client) => Implementation::new(client.name.to_owned(), client.version.to_owned()),
            None => Implementation::new("corelane", env!("CARGO_PKG_VERSION")),
        };
        implementation.write(&mut out, Revision::LATEST);
        if let Some(level) = info.log_level() {
            out.push(b',');
            write::string(&mut out, LOG_LEVEL_KEY);
            out.push(b':');
            write::string(&mut out, level.as_str());
        }
    }
    for (key, value) in info.meta_members() {
        if key == CLIENT_INFO_KEY {
            continue;
        }
        if !out.is_empty() {
            out.push(b',');
        }
        write::string(&mut out, key);
        out.push(b':');
        write::json(&mut out, value);
    }
    out
}
