//! What a handler can read of its request beside the arguments.
//!
//! An inline handler reads it from the message in place ([`RequestView`]): what it does not read
//! costs nothing. Other handlers outlive the message and have a copy ([`RequestInfo`]).

use std::any::Any;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use corelane_base::heap_bytes::OBJECT_BYTES;
use corelane_base::principal::Principal;
use corelane_base::transport::Transport;
use corelane_protocol::eras::{CLIENT_INFO_KEY, LoggingLevel, Method};
use corelane_protocol::json;
use corelane_protocol::jsonrpc::{Id, IdBuf};
use http::Extensions;
use serde_json::{Map, Value};

use crate::service::context::client::StoredClientInfo;
use crate::service::context::{ClientImplementation, ClientInfo, SessionSlot};

/// The message and the connection of a request, as the server knows them while it is dispatched.
pub trait RequestSource {
    /// JSON-RPC id of the request.
    fn id(&self) -> Id<'_>;

    /// Method of the request.
    fn method(&self) -> Method;

    /// The member `_meta` of the params.
    fn meta(&self) -> Option<json::Value<'_>>;

    /// The trace that the request names beside its `_meta`.
    fn traceparent(&self) -> Option<&str> {
        None
    }

    /// Revision and capabilities of the client.
    fn client(&self) -> ClientInfo;

    /// `clientInfo` of the handshake (up to 2025-11-25).
    fn initialize_client_info(&self) -> StoredClientInfo<'_>;

    /// Whether the client has requested progress.
    fn wants_progress(&self) -> bool;

    /// Whether the client reads parts of the result ahead of it.
    fn is_streamed(&self) -> bool {
        false
    }

    /// Whether the client has enabled log messages of `level`.
    fn accepts_log(&self, level: LoggingLevel) -> bool;

    /// The least level of the log messages that the client has enabled.
    fn log_level(&self) -> Option<LoggingLevel> {
        None
    }

    /// What the host has attached to the request.
    fn extensions(&self) -> Option<Arc<Extensions>>;

    /// The authenticated caller.
    fn principal(&self) -> Option<&Arc<Principal>>;

    /// What the program keeps for the legacy session of the request.
    fn session_slot(&self) -> Option<&SessionSlot> {
        None
    }

    /// Transport of the connection.
    fn transport(&self) -> Transport;

    /// Address of the peer, if known.
    fn peer_addr(&self) -> Option<SocketAddr>;

    /// Id of the legacy HTTP session.
    fn session_id(&self) -> Option<Box<str>>;

    /// Head of the HTTP request: the request line, or an empty line, and the fields. For WebSocket
    /// that of the upgrade; empty for other transports.
    fn http_head(&self) -> &[u8];

    /// Id of the HTTP request.
    fn request_id(&self) -> Option<&str> {
        None
    }

    /// The state of the shard.
    fn state(&self) -> &dyn Any;
}

/// The request of an inline handler, read in place.
#[derive(Clone, Copy)]
pub struct RequestView<'a> {
    name: &'a str,
    source: &'a dyn RequestSource,
}

impl<'a> RequestView<'a> {
    pub(in crate::service) const fn new(name: &'a str, source: &'a dyn RequestSource) -> Self {
        Self { name, source }
    }

    /// JSON-RPC id of the request.
    pub fn id(self) -> Id<'a> {
        self.source.id()
    }

    /// Method of the request, such as `tools/call`.
    pub fn method(self) -> &'static str {
        self.source.method().as_str()
    }

    /// Name of the called tool or prompt, or URI of the resource.
    pub const fn name(self) -> &'a str {
        self.name
    }

    /// Transport of the request.
    pub fn transport(self) -> Transport {
        self.source.transport()
    }

    /// Address of the peer: that of a proxy, if one is in front and is not in `trusted_proxies`.
    /// The port is 0 if a trusted one does not tell it. `None` for stdio.
    pub fn peer_addr(self) -> Option<SocketAddr> {
        self.source.peer_addr()
    }

    /// Id of the legacy HTTP session. Cost: one allocation.
    pub fn session_id(self) -> Option<Box<str>> {
        self.source.session_id()
    }

    /// Value of an HTTP header, the first one if it occurs several times: of the request, or over
    /// WebSocket of the upgrade, without the fields of the handshake. Cost: one pass over them.
    pub fn header(self, name: &str) -> Option<&'a str> {
        find_header(self.source.http_head(), name)
    }

    /// Id of the HTTP request, by which the logs of all programs that it passes name it: its
    /// `X-Request-ID` of up to 128 visible ASCII characters, otherwise a UUID of the server. The
    /// response and the log have it, too. `None` for messages over other transports.
    pub fn request_id(self) -> Option<&'a str> {
        self.source.request_id()
    }

    /// A member of `_meta`, such as `traceparent`.
    pub fn meta(self, key: &str) -> Option<json::Value<'a>> {
        self.source.meta()?.as_object()?.find(key)
    }

    /// The trace that the request belongs to.
    pub fn trace_context(self) -> TraceContext<'a> {
        let mut context = TraceContext::read(|key| self.meta(key)?.as_str());
        context.traceparent = self.source.traceparent().or(context.traceparent);
        context
    }

    /// What the host has attached to the request; see [`RequestInfo::extension`]. Cost: one lock.
    pub fn extensions(self) -> Option<Arc<Extensions>> {
        self.source.extensions()
    }

    /// The authenticated caller; `None` without authentication, and of a caller without a token.
    pub fn principal(self) -> Option<&'a Principal> {
        self.source.principal().map(|principal| &**principal)
    }

    /// Revision and capabilities of the client.
    pub(in crate::service) fn client(self) -> ClientInfo {
        self.source.client()
    }

    /// Name and version of the client program, if it has sent them.
    pub fn client_implementation(self) -> Option<ClientImplementation<'a>> {
        if self.client().revision.is_modern() {
            return ClientImplementation::read(self.meta(CLIENT_INFO_KEY)?);
        }
        self.source.initialize_client_info().implementation()
    }

    pub(super) fn wants_progress(self) -> bool {
        self.source.wants_progress()
    }

    pub(super) fn accepts_log(self, level: LoggingLevel) -> bool {
        self.source.accepts_log(level)
    }

    pub(in crate::service) fn state(self) -> &'a dyn Any {
        self.source.state()
    }
}

impl fmt::Debug for RequestView<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RequestView")
            .field("id", &self.id())
            .field("method", &self.method())
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// The request of a handler that outlives its message.
#[derive(Debug)]
pub struct RequestInfo {
    id: IdBuf,
    method: Method,
    client: ClientInfo,
    transport: Transport,
    peer_addr: Option<SocketAddr>,
    session_id: Option<Box<str>>,
    /// The name, the id of the HTTP request, the stored `clientInfo` of the handshake, and the head
    /// of the HTTP request.
    bytes: Box<[u8]>,
    name_length: usize,
    request_id_length: u8,
    /// `_meta` without the members that only the protocol needs.
    meta: Map<String, Value>,
    extensions: Option<Arc<Extensions>>,
    principal: Option<Arc<Principal>>,
    is_streamed: bool,
    wants_progress: bool,
    #[cfg(feature = "gateway")]
    session_slot: Option<SessionSlot>,
    #[cfg(feature = "gateway")]
    log_level: Option<LoggingLevel>,
}

impl RequestInfo {
    /// Copies a request for the tool, prompt or resource `name`.
    pub fn copy(name: &str, source: &dyn RequestSource) -> Self {
        let client_info = source.initialize_client_info().as_bytes();
        let request_id = source.request_id().unwrap_or_default();
        // Longer ones are not taken over.
        let request_id_length = u8::try_from(request_id.len()).unwrap_or_default();
        let request_id = &request_id[..request_id_length.into()];
        let parts = [name.as_bytes(), request_id.as_bytes(), client_info, source.http_head()];
        let bytes = parts.concat().into_boxed_slice();
        let meta = kept_meta(source).map(|(key, value)| (key.to_owned(), value.to_json()));
        let mut meta: Map<String, Value> = meta.collect();
        if let Some(traceparent) = source.traceparent() {
            meta.insert("traceparent".to_owned(), traceparent.into());
        }
        Self {
            id: source.id().into(),
            method: source.method(),
            client: source.client(),
            #[cfg(feature = "gateway")]
            log_level: source.log_level(),
            transport: source.transport(),
            peer_addr: source.peer_addr(),
            session_id: source.session_id(),
            bytes,
            name_length: name.len(),
            request_id_length,
            meta,
            extensions: source.extensions(),
            principal: source.principal().map(Arc::clone),
            is_streamed: source.is_streamed(),
            wants_progress: source.wants_progress(),
            #[cfg(feature = "gateway")]
            session_slot: source.session_slot().cloned(),
        }
    }

    /// A request without a message or a connection.
    pub fn detached(client: ClientInfo) -> Self {
        Self::copy("", &DetachedRequest { client })
    }

    /// JSON-RPC id of the request.
    pub fn id(&self) -> Id<'_> {
        self.id.as_id()
    }

    /// Method of the request, such as `tools/call`.
    pub const fn method(&self) -> &'static str {
        self.method.as_str()
    }

    /// Name of the tool or prompt, or URI of the resource.
    pub fn name(&self) -> &str {
        str::from_utf8(&self.bytes[..self.name_length]).unwrap_or_default()
    }

    /// Transport of the request.
    pub const fn transport(&self) -> Transport {
        self.transport
    }

    /// Address of the peer: that of a proxy, if one is in front and is not in `trusted_proxies`.
    /// The port is 0 if a trusted one does not tell it. `None` for stdio.
    pub const fn peer_addr(&self) -> Option<SocketAddr> {
        self.peer_addr
    }

    /// Id of the legacy HTTP session.
    pub fn session_id(&self) -> Option<&str> {
        self.session_id.as_deref()
    }

    /// Value of an HTTP header, the first one if it occurs several times: of the request, or over
    /// WebSocket of the upgrade, without the fields of the handshake. Cost: one pass over them.
    pub fn header(&self, name: &str) -> Option<&str> {
        find_header(self.client_info_and_head().1, name)
    }

    /// Id of the HTTP request, by which the logs of all programs that it passes name it: its
    /// `X-Request-ID` of up to 128 visible ASCII characters, otherwise a UUID of the server. The
    /// response and the log have it, too. `None` for messages over other transports.
    pub fn request_id(&self) -> Option<&str> {
        let id = &self.bytes[self.name_length..][..self.request_id_length.into()];
        str::from_utf8(id).ok().filter(|id| !id.is_empty())
    }

    fn client_info_and_head(&self) -> (StoredClientInfo<'_>, &[u8]) {
        let after_name = &self.bytes[self.name_length..];
        StoredClientInfo::split_from(&after_name[self.request_id_length.into()..])
    }

    /// A member of `_meta`, such as `traceparent`. The members of the protocol that have accessors
    /// of their own (revision, capabilities, log level, progress token) are not kept.
    pub fn meta(&self, key: &str) -> Option<&Value> {
        self.meta.get(key)
    }

    /// The trace that the request belongs to.
    pub fn trace_context(&self) -> TraceContext<'_> {
        TraceContext::read(|key| self.meta(key)?.as_str())
    }

    /// The value of type `T` that the host has attached to the request: a middleware in front of
    /// `McpService` by the extensions of its `http::Request`, the owner of an in-process connection
    /// by [`set_extensions`](crate::InProcessConnection::set_extensions). Clients cannot set one.
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.extensions.as_ref()?.get()
    }

    /// The caller: that of the token, or the principal that the host has attached. `None` if there
    /// is neither.
    pub fn principal(&self) -> Option<&Principal> {
        self.principal.as_deref()
    }

    /// The authenticated caller, to keep.
    pub(crate) const fn shared_principal(&self) -> Option<&Arc<Principal>> {
        self.principal.as_ref()
    }

    /// Whether the client reads parts of the result ahead of it; see
    /// [`RequestContext::partial_result`](crate::service::RequestContext::partial_result).
    pub const fn is_streamed(&self) -> bool {
        self.is_streamed
    }

    /// Whether the client has requested progress.
    pub const fn wants_progress(&self) -> bool {
        self.wants_progress
    }

    /// What the program keeps for the legacy session of the request, if the server keeps anything.
    #[cfg(feature = "gateway")]
    pub(crate) const fn session_slot(&self) -> Option<&SessionSlot> {
        self.session_slot.as_ref()
    }

    /// The members of `_meta` without those that only the protocol needs.
    #[cfg(feature = "gateway")]
    pub(crate) const fn meta_members(&self) -> &Map<String, Value> {
        &self.meta
    }

    /// Revision and capabilities of the client.
    pub const fn client(&self) -> ClientInfo {
        self.client
    }

    /// The least level of the log messages that the client has enabled.
    #[cfg(feature = "gateway")]
    pub(crate) const fn log_level(&self) -> Option<LoggingLevel> {
        self.log_level
    }

    /// Name and version of the client program.
    pub(crate) fn client_implementation(&self) -> Option<ClientImplementation<'_>> {
        if self.client.revision.is_modern() {
            return ClientImplementation::from_json(self.meta(CLIENT_INFO_KEY)?);
        }
        self.client_info_and_head().0.implementation()
    }
}

/// Returns the bytes that [`RequestInfo::copy`] allocates beside the session id.
pub fn copied_bytes(name: &str, source: &dyn RequestSource) -> usize {
    let meta = kept_meta(source).map(|(key, value)| OBJECT_BYTES + key.len() + value.owned_bytes());
    let client_info = source.initialize_client_info().as_bytes();
    let trace = source.traceparent().map_or(0, |text| 2 * OBJECT_BYTES + text.len());
    let texts = name.len() + source.request_id().map_or(0, str::len) + client_info.len();
    texts + source.http_head().len() + meta.sum::<usize>() + trace
}

/// Returns the members of `_meta` without accessors of their own.
fn kept_meta(source: &dyn RequestSource) -> impl Iterator<Item = (&str, json::Value<'_>)> {
    let members = source.meta().and_then(json::Value::as_object).into_iter().flatten();
    members.filter(|(key, _)| !PROTOCOL_META_KEYS.contains(key))
}

/// A request without a message or a connection.
#[derive(Clone, Copy, Debug)]
pub struct DetachedRequest {
    /// Revision and capabilities of the client.
    pub client: ClientInfo,
}

impl RequestSource for DetachedRequest {
    fn id(&self) -> Id<'_> {
        Id::Signed(0)
    }

    fn method(&self) -> Method {
        Method::ToolsCall
    }

    fn meta(&self) -> Option<json::Value<'_>> {
        None
    }

    fn client(&self) -> ClientInfo {
        self.client
    }

    fn initialize_client_info(&self) -> StoredClientInfo<'_> {
        StoredClientInfo::NONE
    }

    fn wants_progress(&self) -> bool {
        false
    }

    fn accepts_log(&self, _: LoggingLevel) -> bool {
        false
    }

    fn extensions(&self) -> Option<Arc<Extensions>> {
        None
    }

    fn principal(&self) -> Option<&Arc<Principal>> {
        None
    }

    fn transport(&self) -> Transport {
        Transport::Stdio
    }

    fn peer_addr(&self) -> Option<SocketAddr> {
        None
    }

    fn session_id(&self) -> Option<Box<str>> {
        None
    }

    fn http_head(&self) -> &[u8] {
        &[]
    }

    fn state(&self) -> &dyn Any {
        &()
    }
}

/// Returns the value of the field `name` in the head of an HTTP request, without spaces around it.
pub fn find_header<'a>(head: &'a [u8], name: &str) -> Option<&'a str> {
    let lines = head.split(|byte| *byte == b'\n').skip(1);
    let mut fields = lines.filter_map(|line| line.split_at_checked(name.len()));
    let value = fields.find_map(|(key, rest)| {
        let value = rest.strip_prefix(b":")?;
        key.eq_ignore_ascii_case(name.as_bytes()).then_some(value)
    })?;
    str::from_utf8(value).ok().map(str::trim)
}

/// Members of `_meta` with accessors of their own.
const PROTOCOL_META_KEYS: [&str; 4] = [
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/clientCapabilities",
    "io.modelcontextprotocol/logLevel",
    "progressToken",
];

/// The trace context of a request, from its `_meta`: text as the client sent it, not validated.
///
/// Source: MCP 2026-07-28, basic/index, "_meta" (SEP-414); W3C Trace Context; W3C Baggage.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct TraceContext<'a> {
    /// Trace id, id of the calling span, and flags, as in the HTTP header of this name.
    pub traceparent: Option<&'a str>,
    /// State of the tracing systems that take part.
    pub tracestate: Option<&'a str>,
    /// Properties that the trace carries.
    pub baggage: Option<&'a str>,
}

impl<'a> TraceContext<'a> {
    /// Reads the members that `find` returns.
    pub(super) fn read(find: impl Fn(&str) -> Option<&'a str>) -> Self {
        Self {
            traceparent: find("traceparent"),
            tracestate: find("tracestate"),
            baggage: find("baggage"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_is_found_by_name_ignoring_case() {
        let head =
            b"POST /mcp?host:x HTTP/1.1\r\nHost: a.test\r\nX-Key:\t two words \r\nX: y\r\n\r\n";
        assert_eq!(find_header(head, "x-key"), Some("two words"));
        assert_eq!(find_header(head, "HOST"), Some("a.test"));
        assert_eq!(find_header(head, "X"), Some("y"));
        assert_eq!(find_header(head, "POST /mcp?host"), None);
        assert_eq!(find_header(b"", "host"), None);
    }
}
