//! The options of HTTP.

use std::net::SocketAddr;
use std::time::Duration;

use super::loopback;
use crate::protocol::revision::Revision;
use crate::transport::http::checks::EndpointPaths;

/// HTTP options.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct HttpOptions {
    /// Listen address; `None` disables the HTTP listener. Default 127.0.0.1:8080.
    pub address: Option<SocketAddr>,
    /// Open connections over all shards; further ones get 503 and are closed. Cost: below
    /// 1 KiB of memory and one socket each. Default 10,000.
    pub connections_max: u32,
    /// Path of the MCP endpoint: begins with `/`, without `/` at the end, and differs from the
    /// other paths of the server. Default `/mcp`.
    pub path: String,
    /// Serves legacy clients (2025-03-26 to 2025-11-25), with sessions. Default true.
    pub legacy: bool,
    /// Serves HTTP with SSE (2024-11-05) at its two endpoints, if `legacy` is on. Default false.
    pub legacy_sse: bool,
    /// Path of the event stream of HTTP with SSE. Default `/sse`.
    pub legacy_sse_path: String,
    /// Path to which the messages of HTTP with SSE are posted, as its stream announces. Default
    /// `/messages`.
    pub legacy_messages_path: String,
    /// Legacy clients may send their session id as the query parameter `sessionId` instead of
    /// `Mcp-Session-Id`, which `EventSource` in browsers cannot set. Cost: browsers, proxies and
    /// their logs keep URLs, and who has the id can use the session. Default false.
    pub session_id_query: bool,
    /// What happens to the open GET streams of a session when its client opens another one. Default
    /// [`SecondStream::Replace`].
    pub second_stream: SecondStream,
    /// Strict profile: JSON responses only, no GET, and every request after `initialize` names this
    /// revision in `MCP-Protocol-Version`. It decides alone whether there are sessions: `legacy`
    /// and `legacy_sse` are ignored. Default `None`.
    ///
    /// Source: MCP 2025-11-25, basic/transports, "Protocol Version Header".
    pub strict: Option<Revision>,
    /// Like `strict`, which it replaces, and `initialize` names the revision, too: the official
    /// SDKs do not, so they cannot connect. Default `None`.
    pub pinned: Option<Revision>,
    /// Allowed `Host` values: `name`, `name:port`, an address, or `*`. Default, if empty: on
    /// loopback `localhost` and its addresses; elsewhere every host. A server with a DNS name such
    /// as `mcp.example.com` must list it for browsers, because an unlisted name may be a DNS
    /// rebinding attack.
    pub hosts: Vec<String>,
    /// Allowed `Origin` values besides the server's own: `https://name`, `http://name:*`, or `*`.
    /// Default, if empty: on loopback those of loopback; elsewhere none.
    pub origins: Vec<String>,
    /// Bytes of a request head; a longer one gets 431. Default 16 KiB.
    pub head_bytes_max: usize,
    /// Legacy sessions over all shards; a further one evicts an idle one, or gets 503 if there is
    /// none. Sessions without a message after `initialize`, and those of an address with more than
    /// an eighth of all, are evicted first. Cost: about 512 bytes each. Default 65,536.
    pub sessions_max: u32,
    /// Time after which a session without requests in flight and open streams ends. Default 30 min.
    pub session_idle_timeout: Duration,
    /// Events kept per stream for replay (`Last-Event-ID`): while its request runs, and one minute
    /// longer once all were sent. Default 1,000.
    pub replay_events_max: u32,
    /// Bytes of kept events over all streams, divided evenly among shards. One stream holds at most
    /// `outgoing_bytes_max` of [`LimitOptions`](super::LimitOptions); one larger event, such as a
    /// long response, may hold half of what is left. At most an eighth of its `memory_bytes_max` is
    /// used. Default 64 MiB.
    pub replay_bytes_max: usize,
    /// Time after which an unanswered request switches to an event stream, so that its client sees
    /// that it is alive. Default 15 s.
    pub sse_start_delay: Duration,
    /// Interval of keep-alive comments on an idle event stream. Default 30 s.
    pub sse_keepalive_interval: Duration,
    /// The SSE `retry` time of a stream that the server closes early. Default 3 s.
    pub sse_retry: Duration,
}

/// What happens to the open GET streams of a legacy session when its client opens another one.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum SecondStream {
    /// They stay, and the new one gets status 409.
    Refuse,
    /// They end, so that a client whose connection has broken unnoticed gets its messages on the
    /// new one. What they have got is not repeated, unless the client resumes them.
    #[default]
    Replace,
    /// All stay open; each message is sent on the newest one only.
    Join,
}

impl HttpOptions {
    /// Returns the only revision served, and whether `initialize` must name it, too.
    pub(crate) fn only_revision(&self) -> Option<(Revision, bool)> {
        let pinned = self.pinned.map(|revision| (revision, true));
        pinned.or_else(|| self.strict.map(|revision| (revision, false)))
    }
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            address: Some(loopback(8080)),
            connections_max: 10_000,
            path: EndpointPaths::MCP.to_owned(),
            legacy: true,
            legacy_sse: false,
            legacy_sse_path: EndpointPaths::LEGACY_SSE.to_owned(),
            legacy_messages_path: EndpointPaths::LEGACY_MESSAGES.to_owned(),
            session_id_query: false,
            second_stream: SecondStream::default(),
            strict: None,
            pinned: None,
            hosts: Vec::new(),
            origins: Vec::new(),
            head_bytes_max: 16 << 10,
            sessions_max: 65_536,
            session_idle_timeout: Duration::from_mins(30),
            replay_events_max: 1_000,
            replay_bytes_max: 64 << 20,
            sse_start_delay: Duration::from_secs(15),
            sse_keepalive_interval: Duration::from_secs(30),
            sse_retry: Duration::from_secs(3),
        }
    }
}
