//! Log events, as one enum.
//!
//! Invariants: labels come from small enums, numbers and addresses. Free text appears only in
//! start-up events, events about files of the operator and errors of handlers, and comes from the
//! kernel, the operator, the handlers or this program. No event has a field for payloads,
//! arguments, names chosen by peers or secrets. Events are emitted through `tracing`; the command
//! line writes them to standard error.
//!
//! Start-up lines (`listening tcp 127.0.0.1:8888`) use the target [`START_TARGET`] and are written
//! at every log level.

mod overload;
pub mod parity;
#[cfg(feature = "gateway")]
mod upstream;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use corelane_base::time::Instant;
use tracing::{Level, debug, error, info, warn};

pub use self::overload::OverloadEvent;
#[cfg(feature = "gateway")]
pub use self::upstream::UpstreamEvent;
use crate::telemetry::auth_event::AuthEvent;
use crate::telemetry::label::{DrainCause, EvictionReason, RefusalReason, TaskLimit, Transport};
use crate::telemetry::open_work::ConnectionTraffic;
use crate::telemetry::throttle::EventThrottle;

/// The `tracing` target of start-up lines; the message is the whole line.
pub const START_TARGET: &str = "corelane::start";

/// A log event.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// Of authentication or authorization.
    Auth(AuthEvent<'a>),
    /// The kernel failed to accept a connection; the listener continues.
    AcceptFailed {
        /// Shard of the listener.
        shard: u16,
        /// Transport of the listener.
        transport: Transport,
        /// The kernel's error.
        error: &'a std::io::Error,
    },
    /// Few descriptors are left: connections are refused.
    DescriptorsShort {
        /// Shard of the listener.
        shard: u16,
        /// The limit that is close.
        limit: &'static str,
        /// Its value.
        most: u32,
        /// How to raise it.
        hint: &'static str,
    },
    /// Of overload protection.
    Overload(OverloadEvent),
    /// A connection has closed. At debug level.
    ConnectionClosed {
        /// Shard of the connection.
        shard: u16,
        /// Its transport.
        transport: Transport,
        /// Why it was closed.
        reason: &'static str,
        /// Address of the peer, if known.
        peer: Option<SocketAddr>,
        /// Time since it was accepted.
        open: Duration,
        /// What it has carried.
        traffic: ConnectionTraffic,
    },
    /// A connection was refused.
    ConnectionRefused {
        /// Shard of the listener.
        shard: u16,
        /// Transport of the listener.
        transport: Transport,
        /// Why it was refused.
        reason: RefusalReason,
        /// Address of the peer, if known.
        peer: Option<SocketAddr>,
    },
    /// Another connection got the place of an idle one at a limit of connections.
    ConnectionEvicted {
        /// Shard of the connection.
        shard: u16,
        /// Transport of the connection.
        transport: Transport,
        /// Address of the peer, if known.
        peer: Option<SocketAddr>,
    },
    /// A TLS handshake has failed.
    TlsHandshakeFailed {
        /// Address of the peer, if known.
        peer: Option<SocketAddr>,
        /// Why.
        cause: &'a str,
    },
    /// A connection to a listener that expects PROXY headers was reset.
    ProxyHeaderRefused {
        /// Address of the peer, if known.
        peer: Option<SocketAddr>,
        /// Why.
        cause: &'a str,
    },
    /// A snapshot of the counters, at debug level.
    #[cfg(feature = "cli")]
    CountersSnapshot {
        /// Counters of one shard or their sum.
        counters: &'a crate::telemetry::counters::Counters,
    },
    /// The server has drained and ends. The last event of a server that drains.
    DrainFinished {
        /// Requests that got a response since the start.
        served: u64,
        /// Requests that were cancelled because they took longer than the drain timeout.
        cut: u64,
    },
    /// The server begins to drain.
    DrainStarted {
        /// What began it.
        cause: DrainCause,
    },
    /// Something about a file that is no fault, at debug level.
    #[cfg(feature = "files")]
    FileDetail {
        /// The path and what is noted.
        detail: &'a str,
    },
    /// The tools and other entries that files declare have changed.
    #[cfg(feature = "declared")]
    DeclarationsChanged {
        /// Number of new ones.
        added: usize,
        /// Number of those with another definition.
        replaced: usize,
        /// Number of those that are gone.
        removed: usize,
    },
    /// A configured file or directory cannot be offered as intended.
    #[cfg(feature = "files")]
    FileWarning {
        /// The path, the problem and what to do.
        warning: &'a str,
    },
    /// A handler failed with an internal error, or panicked.
    HandlerFailed {
        /// Shard of the call.
        shard: u16,
        /// Number that the client received in place of the error.
        request: u64,
        /// Kind of the entry of the catalog: `tool`, `prompt`, `resource`.
        kind: &'static str,
        /// Its name, URI or URI template.
        handler: &'a str,
        /// Whether it panicked.
        is_panic: bool,
        /// The error with its sources, or the panic message.
        error: &'a str,
        /// Id of the HTTP request, if the handler ran for one.
        request_id: Option<&'a str>,
    },
    /// A handler kept its shard busy for longer than the threshold.
    HandlerSlow {
        /// Shard of the call.
        shard: u16,
        /// The method of the request.
        method: &'a str,
        /// The name of the tool or prompt, or the URI of the resource.
        handler: &'a str,
        /// Time until it returned.
        duration: Duration,
        /// The threshold.
        threshold: Duration,
        /// Id of the HTTP request.
        request_id: Option<&'a str>,
    },
    /// The calls of a connection were cancelled at the end of its input, because too many others
    /// waited for theirs.
    HalfCloseRefused {
        /// Shard of the connection.
        shard: u16,
        /// Connections that may wait.
        waiting_max: usize,
        /// Address of the peer, if known.
        peer: Option<SocketAddr>,
    },
    /// An HTTP request was refused by its `Host` header.
    HostRefused {
        /// Shard of the connection.
        shard: u16,
        /// Address of the peer, if known.
        peer: Option<SocketAddr>,
        /// Id of the request.
        request_id: Option<&'a str>,
    },
    /// A line was not valid UTF-8 and was skipped.
    InvalidUtf8Skipped {
        /// Shard of the connection.
        shard: u16,
        /// Transport of the connection.
        transport: Transport,
        /// Length of the line in bytes.
        bytes: usize,
    },
    /// A listener is ready. Other programs wait for this line.
    Listening {
        /// Transport of the listener, or `admin`.
        listener: &'a str,
        /// Local address.
        address: SocketAddr,
        /// URL path, if the transport shares its address with others; empty otherwise.
        path: &'a str,
    },
    /// A connection was closed, or lost its message, because the memory limit was reached.
    MemoryFreed {
        /// Shard of the connection.
        shard: u16,
        /// Transport of the connection.
        transport: Transport,
        /// Bytes that the connection held.
        held_bytes: usize,
    },
    /// A message exceeded the size limit.
    MessageRefused {
        /// Shard of the connection.
        shard: u16,
        /// Transport of the connection.
        transport: Transport,
        /// The limit in bytes.
        bytes_max: usize,
    },
    /// Requests were refused because too many messages wait for the shard of their task.
    MessagesNotSent {
        /// Shard of the requests.
        shard: u16,
        /// Requests refused since the last event.
        refused: u64,
    },
    /// An option has changed in the reloaded configuration, and needs a restart.
    #[cfg(feature = "cli")]
    OptionNotReloaded {
        /// Its key.
        key: &'static str,
        /// The value in effect.
        running: &'a str,
        /// The value in the configuration.
        configured: &'a str,
    },
    /// An option is valid but probably not intended; the server starts anyway.
    OptionWarning {
        /// The option, the problem and what to do.
        warning: &'a str,
    },
    /// The configuration was read again.
    #[cfg_attr(
        not(feature = "signals"),
        expect(dead_code, reason = "only the signal loop reloads")
    )]
    Reloaded {
        /// What of it is not applied, and why; that stays in effect as it was.
        error: Option<&'a str>,
    },
    /// A certificate has expired or soon will.
    TlsCertificateExpires {
        /// Which one, and in how many days.
        warning: &'a str,
    },
    /// Files of TLS have changed and were read again.
    TlsReloaded {
        /// Why they are not used; the previous ones stay in effect.
        error: Option<&'a str>,
    },
    /// A ring was opened.
    RingOpened {
        /// Shard of the ring.
        shard: u16,
        /// The backend and its features.
        ring: &'a str,
    },
    /// A ring backend is unavailable; the fallback is used, if there is one.
    RingUnavailable {
        /// The unavailable backend.
        ring: &'a str,
        /// The kernel's error.
        cause: &'a str,
        /// What to do about it.
        hint: &'a str,
        /// The backend used instead.
        fallback: Option<&'a str>,
    },
    /// A legacy session was evicted for a new one.
    SessionEvicted {
        /// The shard.
        shard: u16,
        /// Why this one was evicted.
        reason: EvictionReason,
        /// Address that created the new session, unless it is exempt from the share.
        peer: Option<IpAddr>,
        /// Time since this one was created.
        age: Duration,
    },
    /// A legacy session was refused because none could be evicted.
    SessionRefused {
        /// The shard.
        shard: u16,
        /// Address of the client, unless it is exempt from the share.
        peer: Option<IpAddr>,
    },
    /// A shard stopped because of an internal error.
    ShardFailed {
        /// The shard.
        shard: u16,
        /// The error or panic message.
        cause: &'a str,
    },
    /// The thread of a shard is running.
    ShardStarted {
        /// The shard.
        shard: u16,
        /// The cpu it is pinned to, if pinned.
        cpu: Option<u16>,
        /// The NUMA node of that cpu, if known.
        node: Option<u16>,
        /// The cpu of another shard on the same physical core, if any.
        sibling: Option<u16>,
    },
    /// An ended task whose owner has gone was removed for another task or its result.
    TaskEvicted {
        /// The shard.
        shard: u16,
        /// The limit that was reached.
        limit: TaskLimit,
    },
    /// A task was refused.
    TaskRefused {
        /// The shard.
        shard: u16,
        /// The limit that was reached.
        limit: TaskLimit,
        /// Address of the client, unless it is exempt from the share.
        peer: Option<IpAddr>,
    },
    /// A task failed because its result did not fit.
    TaskResultRefused {
        /// The shard.
        shard: u16,
        /// The limit that was reached.
        limit: TaskLimit,
        /// Address of the client, unless it is exempt from the share.
        peer: Option<IpAddr>,
    },
    /// The server is about to listen. The first start-up line.
    Started {
        /// The ring backend.
        ring: &'a str,
        /// The executor that runs the shards.
        executor: &'a str,
        /// Number of shards.
        shards: u16,
        /// Their cpus, as a list.
        cpus: &'a str,
        /// Connections that can be open at once.
        connections_max: u64,
        /// What limits them: an option key, or a limit of the machine.
        bound: &'a str,
    },
}

impl Event<'_> {
    /// Returns whether events at debug level are logged: some cost more than a branch to collect.
    pub fn is_debug_enabled() -> bool {
        tracing::enabled!(Level::DEBUG)
    }

    /// Emits the event without throttling. Events that a peer can cause use
    /// [`Event::emit_within`].
    pub fn emit(&self) {
        self.emit_suppressed(0);
    }

    /// Emits the event if `throttle` admits it at `now`.
    pub fn emit_within(&self, throttle: &mut EventThrottle, now: Instant) {
        if let Some(suppressed) = throttle.admit(now) {
            self.emit_suppressed(suppressed);
        }
    }

    /// Emits the event with the number of its kind that were suppressed since the last one.
    pub fn emit_suppressed(&self, suppressed: u64) {
        match *self {
            Self::AcceptFailed { .. }
            | Self::ConnectionClosed { .. }
            | Self::ConnectionEvicted { .. }
            | Self::ConnectionRefused { .. }
            | Self::DescriptorsShort { .. }
            | Self::HalfCloseRefused { .. }
            | Self::HostRefused { .. }
            | Self::ProxyHeaderRefused { .. }
            | Self::TlsHandshakeFailed { .. } => self.emit_connection(suppressed),
            Self::HandlerFailed { .. } | Self::HandlerSlow { .. } => self.emit_handler(suppressed),
            #[cfg(feature = "cli")]
            Self::CountersSnapshot { counters } => debug!(%counters, "counters"),
            Self::DrainFinished { .. }
            | Self::DrainStarted { .. }
            | Self::Reloaded { .. }
            | Self::TlsCertificateExpires { .. }
            | Self::TlsReloaded { .. }
            | Self::ShardFailed { .. }
            | Self::ShardStarted { .. } => self.emit_lifecycle(),
            #[cfg(feature = "cli")]
            Self::OptionNotReloaded { .. } => self.emit_lifecycle(),
            Self::InvalidUtf8Skipped { shard, transport, bytes } => {
                warn!(shard, %transport, bytes, suppressed, "invalid UTF-8 skipped");
            }
            Self::MemoryFreed { shard, transport, held_bytes } => {
                let limit = "memory_bytes_max";
                warn!(shard, %transport, held_bytes, limit, suppressed, "memory freed");
            }
            Self::MessageRefused { shard, transport, bytes_max } => {
                warn!(shard, %transport, bytes_max, suppressed, "message refused: too large");
            }
            Self::MessagesNotSent { shard, refused } => {
                warn!(shard, refused, suppressed, "messages to another shard refused");
            }
            #[cfg(feature = "declared")]
            Self::DeclarationsChanged { .. } => self.emit_file(),
            #[cfg(feature = "files")]
            Self::FileDetail { .. } | Self::FileWarning { .. } => self.emit_file(),
            Self::OptionWarning { warning } => warn!("{warning}"),
            Self::RingOpened { shard, ring } => info!(shard, ring, "ring opened"),
            Self::RingUnavailable { ring, cause, hint, fallback: Some(fallback) } => {
                warn!(ring, cause, hint, fallback, "ring unavailable");
            }
            Self::RingUnavailable { ring, cause, hint, fallback: None } => {
                error!(ring, cause, hint, "ring unavailable");
            }
            Self::SessionEvicted { shard, reason, peer, age } => {
                let (peer, limit) = (peer.map(tracing::field::display), "http.sessions_max");
                warn!(shard, %reason, peer, ?age, limit, suppressed, "session evicted");
            }
            Self::SessionRefused { shard, peer } => {
                let (peer, limit) = (peer.map(tracing::field::display), "http.sessions_max");
                warn!(shard, peer, limit, suppressed, "session refused");
            }
            Self::TaskEvicted { shard, limit } => warn!(shard, %limit, suppressed, "task evicted"),
            Self::TaskRefused { shard, limit, peer } => {
                let peer = peer.map(tracing::field::display);
                warn!(shard, %limit, peer, suppressed, "task refused");
            }
            Self::TaskResultRefused { shard, limit, peer } => {
                let peer = peer.map(tracing::field::display);
                warn!(shard, %limit, peer, suppressed, "task result refused");
            }
            Self::Listening { .. } | Self::Started { .. } => self.emit_start_line(),
            Self::Auth(ref event) => event.emit(suppressed),
            Self::Overload(ref event) => event.emit(suppressed),
        }
    }

    #[cfg(feature = "files")]
    fn emit_file(&self) {
        match *self {
            #[cfg(feature = "declared")]
            Self::DeclarationsChanged { added, replaced, removed } => {
                info!(added, replaced, removed, "declarations changed");
            }
            Self::FileDetail { detail } => debug!("{detail}"),
            Self::FileWarning { warning } => warn!("{warning}"),
            _ => {}
        }
    }

    fn emit_connection(&self, suppressed: u64) {
        match *self {
            Self::AcceptFailed { shard, transport, error } => {
                warn!(shard, %transport, %error, suppressed, "accept failed");
            }
            Self::DescriptorsShort { shard, limit, most, hint } => {
                let what = "no descriptor left for new connections: they are refused";
                warn!(shard, limit, most, hint, suppressed, "{what}");
            }
            Self::ConnectionClosed { shard, transport, reason, peer, open, traffic } => {
                let ConnectionTraffic { bytes_in, bytes_out, messages_in, messages_out } = traffic;
                let (peer, open) = (peer.map(tracing::field::display), open.as_secs_f64());
                debug!(
                    shard, %transport, reason, peer, open, bytes_in, bytes_out, messages_in,
                    messages_out, suppressed, "connection closed"
                );
            }
            Self::ConnectionRefused { shard, transport, reason, peer } => {
                let peer = peer.map(tracing::field::display);
                warn!(shard, %transport, %reason, peer, suppressed, "connection refused");
            }
            Self::ConnectionEvicted { shard, transport, peer } => {
                let peer = peer.map(tracing::field::display);
                warn!(shard, %transport, peer, suppressed, "connection evicted");
            }
            Self::HalfCloseRefused { shard, waiting_max, peer } => {
                let (limit, peer) = ("tcp.connections_max / 8", peer.map(tracing::field::display));
                let what = "calls cancelled: too many half-closed connections";
                warn!(shard, waiting_max, limit, peer, suppressed, "{what}");
            }
            Self::HostRefused { shard, peer, request_id } => {
                let peer = peer.map(tracing::field::display);
                warn!(shard, peer, request_id, option = "http.hosts", suppressed, "host refused");
            }
            Self::ProxyHeaderRefused { peer, cause } => {
                let peer = peer.map(tracing::field::display);
                let option = "proxy_protocol";
                warn!(peer, cause, option, suppressed, "connection without PROXY header refused");
            }
            Self::TlsHandshakeFailed { peer, cause } => {
                let peer = peer.map(tracing::field::display);
                warn!(peer, cause, suppressed, "TLS handshake failed");
            }
            _ => {}
        }
    }

    fn emit_handler(&self, suppressed: u64) {
        match *self {
            Self::HandlerFailed { shard, request, kind, handler, is_panic, error, request_id } => {
                let what = if is_panic { "handler panicked" } else { "handler failed" };
                error!(shard, request, kind, handler, error, request_id, suppressed, "{what}");
            }
            Self::HandlerSlow { shard, method, handler, duration, threshold, request_id } => {
                warn!(
                    shard,
                    method,
                    handler,
                    ?duration,
                    ?threshold,
                    request_id,
                    suppressed,
                    "slow handler"
                );
            }
            _ => {}
        }
    }

    /// Emits an event of the server or a shard as a whole.
    fn emit_lifecycle(&self) {
        match *self {
            Self::DrainFinished { served, cut } => info!(served, cut, "drain finished"),
            Self::DrainStarted { cause } => info!(%cause, "drain started"),
            Self::Reloaded { error: None } => info!("configuration reloaded"),
            Self::Reloaded { error: Some(error) } => error!("configuration not reloaded: {error}"),
            Self::TlsCertificateExpires { warning } => warn!("{warning}"),
            Self::TlsReloaded { error: None } => info!("TLS files reloaded"),
            Self::TlsReloaded { error: Some(error) } => error!("TLS files not reloaded: {error}"),
            #[cfg(feature = "cli")]
            Self::OptionNotReloaded { key, running, configured } => {
                warn!(key, running, configured, "option not reloaded: restart to apply it");
            }
            Self::ShardFailed { shard, cause } => error!(shard, cause, "shard failed"),
            Self::ShardStarted { shard, cpu, node, sibling } => {
                info!(shard, cpu, node, sibling, "shard started");
            }
            _ => unreachable!("only events of the server and its shards"),
        }
    }

    /// Emits a start-up line. Other programs parse these: change them only on purpose.
    fn emit_start_line(&self) {
        match *self {
            Self::Started { ring, executor, shards, cpus, connections_max, bound } => info!(
                target: START_TARGET,
                "corelane {} ring {ring} executor {executor} shards {shards} cpus {cpus} \
                 connections {connections_max} (bound by {bound})",
                env!("CARGO_PKG_VERSION"),
            ),
            Self::Listening { listener, address, path } => {
                info!(target: START_TARGET, "listening {listener} {address}{path}");
            }
            _ => unreachable!("only Started and Listening are start-up lines"),
        }
    }
}

#[cfg(test)]
mod tests;
