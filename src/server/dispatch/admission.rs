//! Validation of requests against their protocol era, and requests that have to wait: for the
//! authorization server to say what their token is, or for the response to the request before
//! (`stdio.sequential`).

use std::any::Any;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use corelane_base::heap_bytes::HeapBytes;
use corelane_base::principal::Principal;
use corelane_protocol::eras::{
    ClientCapabilities, Lifecycle, LoggingLevel, Method, RequestMetaObject,
};
use corelane_protocol::error::{Error, ErrorKind};
use corelane_protocol::in_flight::{DuplicateId, RequestsInFlight};
use corelane_protocol::json::Value;
use corelane_protocol::jsonrpc::Id;
use corelane_protocol::params::RequestParams;
use corelane_protocol::revision::Revision;
use http::Extensions;

use super::{Dispatcher, MessageContext, write_error};
use crate::server::connection_state::{ConnectionState, MessageOrigin, PeerState};
use crate::server::outbox::Effect;
use crate::server::reply_to::{Outcome, PeerId};
use crate::server::waiting_requests::{encode_request, held_message_bytes, waiting_bytes};
use crate::service::{ClientInfo, RequestSource, SessionSlot, StoredClientInfo};
use crate::telemetry::counters::RequestCounters;
use crate::telemetry::label::Transport;

/// A parsed request, not validated.
pub struct RawRequest<'a> {
    pub id: Id<'a>,
    pub method: &'a str,
    pub params: Option<Value<'a>>,
    /// The members of `params`, scanned once.
    pub call_params: &'a RequestParams<'a>,
    /// The `_meta` in them; an error matters only when it is needed.
    pub meta: &'a Result<RequestMetaObject<'a>, Error>,
}

/// A validated request.
pub(super) struct Request<'a> {
    raw: &'a RawRequest<'a>,
    pub(super) method: Method,
    pub(super) revision: Revision,
    /// The client capabilities: of this request (modern), or of the session.
    pub(super) capabilities: ClientCapabilities,
    /// The log level that this request asks for (modern).
    pub(super) log_level: Option<LoggingLevel>,
}

/// A validated request with its connection, as its handler reads it.
pub(super) struct DispatchedRequest<'a> {
    request: &'a Request<'a>,
    peer: &'a ConnectionState,
    origin: &'a MessageOrigin<'a>,
    shard_state: &'a Rc<dyn Any>,
}

impl RequestSource for DispatchedRequest<'_> {
    fn id(&self) -> Id<'_> {
        self.request.id()
    }

    fn method(&self) -> Method {
        self.request.method
    }

    fn meta(&self) -> Option<Value<'_>> {
        self.request.call_params().meta_value()
    }

    fn traceparent(&self) -> Option<&str> {
        self.origin.details.traceparent
    }

    fn client(&self) -> ClientInfo {
        self.request.client()
    }

    fn initialize_client_info(&self) -> StoredClientInfo<'_> {
        // A modern request names its client itself.
        if self.request.revision.is_modern() {
            return StoredClientInfo::NONE;
        }
        self.peer.client_info()
    }

    fn wants_progress(&self) -> bool {
        self.request.progress_token().is_some()
    }

    fn is_streamed(&self) -> bool {
        self.origin.details.is_streamed
    }

    fn accepts_log(&self, level: LoggingLevel) -> bool {
        match self.request.log_level {
            Some(least) => level >= least,
            None => !self.request.revision.is_modern() && level >= self.peer.log_level,
        }
    }

    fn log_level(&self) -> Option<LoggingLevel> {
        match self.request.log_level {
            None if !self.request.revision.is_modern() => Some(self.peer.log_level),
            stated => stated,
        }
    }

    fn extensions(&self) -> Option<Arc<Extensions>> {
        self.origin.details.extensions.or_else(|| self.peer.extension_slot())?.get()
    }

    fn principal(&self) -> Option<&Arc<Principal>> {
        self.origin.details.principal.or_else(|| self.peer.principal())
    }

    fn session_slot(&self) -> Option<&SessionSlot> {
        self.peer.session_slot().filter(|_| !self.request.revision.is_modern())
    }

    fn transport(&self) -> Transport {
        self.peer.transport
    }

    fn peer_addr(&self) -> Option<SocketAddr> {
        self.origin.peer_addr.copied().map(SocketAddr::from)
    }

    fn session_id(&self) -> Option<Box<str>> {
        let text = self.origin.details.session_id?.to_text();
        str::from_utf8(&text).ok().map(Box::from)
    }

    fn http_head(&self) -> &[u8] {
        match self.origin.details.http_head {
            [] => self.peer.upgrade_fields(),
            head => head,
        }
    }

    fn request_id(&self) -> Option<&str> {
        self.origin.request_id()
    }

    fn state(&self) -> &dyn Any {
        &**self.shard_state
    }
}

impl<'a> Request<'a> {
    /// A `ping` that stands for a message of another dialect.
    pub(super) fn ping(raw: &'a RawRequest<'a>) -> Self {
        let (method, revision) = (Method::Ping, Revision::LATEST_LEGACY);
        let capabilities = ClientCapabilities::default();
        Self { raw, method, revision, capabilities, log_level: None }
    }

    #[inline]
    pub(super) const fn id(&self) -> Id<'a> {
        self.raw.id
    }

    #[inline]
    pub(super) const fn params(&self) -> Option<Value<'a>> {
        self.raw.params
    }

    #[inline]
    pub(super) const fn call_params(&self) -> &'a RequestParams<'a> {
        self.raw.call_params
    }

    pub(super) fn progress_token(&self) -> Option<Id<'a>> {
        self.raw.meta.as_ref().ok()?.progress_token()
    }

    pub(super) const fn client(&self) -> ClientInfo {
        ClientInfo { revision: self.revision, capabilities: self.capabilities }
    }

    /// Returns the name of the tool or prompt, or the URI of the resource. Empty if there is none.
    pub(super) fn target_name(&self) -> &str {
        let params = self.params().and_then(Value::as_object);
        let key = if self.method.names_uri() { "uri" } else { "name" };
        params.and_then(|params| params.find(key)).and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns what a handler can read of it.
    #[inline]
    pub(super) const fn source<'r>(
        &'r self,
        peer: &'r ConnectionState,
        origin: &'r MessageOrigin<'r>,
        shard_state: &'r Rc<dyn Any>,
    ) -> DispatchedRequest<'r> {
        DispatchedRequest { request: self, peer, origin, shard_state }
    }

    /// Returns the bytes that its ids take while it is in flight: that of the request is stored in
    /// the call, with the peer and with the handler.
    pub(super) fn id_bytes(&self) -> usize {
        let bytes = |id: Id<'_>| if let Id::Text(text) = id { text.heap_bytes() } else { 0 };
        3 * bytes(self.id()) + self.progress_token().map_or(0, bytes)
    }
}

/// Validates a request: one with a revision in `_meta` is self-contained, any other depends on the
/// handshake of its peer.
#[inline]
pub(super) fn validate<'a>(
    ctx: MessageContext,
    raw: &'a RawRequest<'a>,
    lifecycle: Lifecycle,
    in_flight: &RequestsInFlight,
) -> Result<Request<'a>, Error> {
    let RawRequest { id, method: name, meta, .. } = *raw;
    if in_flight.contains(id) && in_flight.contains_in(id, ctx.reply_to.exchange()) {
        return Err(DuplicateId.into());
    }
    let meta = meta.as_ref().map_err(Error::clone)?;
    let method = Method::parse(name);
    let discovers = method == Some(Method::Discover) && lifecycle == Lifecycle::NotInitialized;
    let is_modern = meta.is_modern() || discovers || ctx.is_modern;
    if is_modern && ctx.in_batch {
        // Notifications before its response, as on a stream, do not fit into an array.
        return Err(Error::invalid_request(
            "requests of revision 2026-07-28 are not allowed in a batch",
        ));
    }
    let (named, capabilities, log_level) = if is_modern {
        let meta = meta.parse_modern()?;
        (Some(meta.revision), meta.capabilities, meta.log_level)
    } else {
        (None, lifecycle.capabilities(), None)
    };
    let method = match method {
        Some(method) if !is_modern || method.is_defined_in(Revision::LATEST) => method,
        // Before the handshake this error takes precedence over an unknown method.
        None if !is_modern => {
            return Err(lifecycle
                .check_method(Method::ToolsList)
                .err()
                .unwrap_or_else(|| Error::method_not_found(name)));
        }
        Some(_) | None => return Err(Error::method_not_found(name)),
    };
    let revision = match named {
        Some(revision) => revision,
        None => lifecycle.check_method(method)?,
    };
    Ok(Request { raw, method, revision, capabilities, log_level })
}

/// Records that a message does not satisfy the timeout of the first message. A session and a
/// revision with batches begin with a valid message, so that theirs need no record.
#[cold]
pub(super) fn record_invalid(ctx: MessageContext, peer: &mut PeerState<'_>) {
    if let PeerId::Connection(key) = ctx.reply_to.peer_id
        && !ctx.in_batch
    {
        peer.outbox.push(Effect::RecordInvalidMessage(key));
    }
}

/// Checks that a request has the only revision over HTTP, if there is one.
///
/// # Errors
///
/// It has another revision.
#[inline]
pub(super) fn check_revision(
    request: &Request<'_>,
    transport: Transport,
    pinned: Option<Revision>,
) -> Result<(), Error> {
    if let Some(pinned) = pinned
        && transport == Transport::Http
        && request.revision != pinned
        && request.method != Method::Initialize
    {
        let requested = request.revision.as_str();
        return Err(Error::unsupported_protocol_version_with(requested, [pinned]));
    }
    Ok(())
}

/// Counts a request by its method.
#[inline]
pub(super) fn count_request(requests: &mut RequestCounters, method: Option<Method>) {
    *request_counter(requests, method) += 1;
}

/// Returns the counter of requests with a method.
#[inline]
const fn request_counter(requests: &mut RequestCounters, method: Option<Method>) -> &mut u64 {
    match method {
        Some(Method::ToolsCall) => &mut requests.tools_call,
        Some(Method::ToolsList) => &mut requests.tools_list,
        Some(Method::Ping) => &mut requests.ping,
        Some(Method::Discover) => &mut requests.discover,
        Some(Method::Initialize) => &mut requests.initialize,
        Some(_) | None => &mut requests.other,
    }
}

impl Dispatcher {
    /// Has a request wait for the answer about its token: its connection reads nothing more until
    /// then, and dispatches it again.
    ///
    /// # Errors
    ///
    /// The error response if it cannot wait: it is part of a batch or of a WebSocket connection,
    /// whose token was verified before, or there is no memory for it.
    #[cold]
    pub(super) fn hold_request(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
    ) -> Result<(), Error> {
        let PeerId::Connection(key) = ctx.reply_to.peer_id else { return Err(try_again()) };
        if ctx.in_batch || peer.state.transport == Transport::WebSocket {
            return Err(try_again());
        }
        let mut text = encode_request(request.id(), request.method.as_str(), request.params());
        text.shrink_to_fit();
        let Self { held, handlers, deferred, .. } = self;
        let held_bytes = |in_flight: &RequestsInFlight| deferred.calls.argument_bytes(in_flight);
        let charge = handlers.charge(peer, held_message_bytes(&text), held_bytes)?;
        held.insert(key, text, charge);
        // It is counted again when it is dispatched.
        peer.outbox.counters.traffic.messages_in -= 1;
        *request_counter(&mut peer.outbox.counters.requests, Some(request.method)) -= 1;
        Ok(())
    }
}

/// The error for a request that is to be sent again.
pub(super) fn try_again() -> Error {
    Error::new(ErrorKind::TooManyRequests, "the token is being verified; try again")
        .with_data(r#"{"retryable":true,"retryAfterMs":1000}"#)
}

impl Dispatcher {
    /// Returns whether a request has to wait for those in flight. One whose id is in flight gets an
    /// error at once.
    #[cold]
    pub(super) fn must_wait(
        &self,
        ctx: MessageContext,
        peer: &PeerState<'_>,
        raw: &RawRequest<'_>,
    ) -> bool {
        let in_flight = &peer.state.in_flight;
        peer.state.transport == Transport::Stdio
            && matches!(ctx.reply_to.peer_id, PeerId::Connection(_))
            && self.waiting.must_queue(in_flight)
            && !in_flight.contains(raw.id)
    }

    /// Has a request wait, or responds that there is no memory for that.
    #[cold]
    pub(super) fn queue_request(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        raw: &RawRequest<'_>,
    ) -> Outcome {
        let Self { waiting, handlers, deferred, .. } = self;
        let text = encode_request(raw.id, raw.method, raw.params);
        let bytes = waiting_bytes(raw.id, &text);
        let held_bytes = |in_flight: &RequestsInFlight| {
            deferred.calls.argument_bytes(in_flight) + waiting.held_bytes()
        };
        let charge = match handlers.charge(peer, bytes, held_bytes) {
            Ok(charge) => charge,
            Err(error) => {
                let revision = peer.state.lifecycle.revision();
                return write_error(peer, Some(raw.id), &error, revision);
            }
        };
        waiting.push(raw.id, text, charge, &mut peer.state.in_flight);
        // It is counted again when it starts.
        let messages_in = &mut peer.outbox.counters.traffic.messages_in;
        *messages_in -= u64::from(!ctx.in_batch);
        if let PeerId::Connection(key) = ctx.reply_to.peer_id
            && waiting.is_full()
        {
            peer.outbox.push(Effect::HoldInput(key));
        }
        Outcome::None
    }
}
