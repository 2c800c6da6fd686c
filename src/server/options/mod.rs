//! The options of a server, each with its default and its cost.
//!
//! Invariants: [`Options::default`] is the only place that defines a default; `--help`, `check` and
//! the configuration table read it from here.

mod auth;
mod http;

mod log;
mod overload;
mod parity;
mod rate;
mod services;
mod stdio;

mod tiny;

mod tls;

mod uri_prefix;

mod websocket;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

pub use self::auth::{AuthOptions, DpopMode};
pub use self::http::{HttpOptions, SecondStream};
pub use self::log::{LogFormat, LogLevel, LogOptions};
pub use self::overload::{BreakerOptions, MemoryGuardOptions, OverloadOptions};
pub use self::parity::{CapabilitiesTimeoutPolicy, ParityMode, ParityOptions, ParityTimeouts};
pub use self::rate::RateOptions;
pub use self::services::{DemoServices, FileOptions, ServiceOptions};
pub use self::stdio::StdioOptions;
pub use self::tls::{ClientCertificateMode, ListenerTlsOptions};
pub(crate) use self::uri_prefix::check_uri_prefix;
pub use self::websocket::{Utf8CloseCode, WebSocketOptions};
use crate::engine::mesh::MeshOptions;
use crate::engine::ring::RingOptions;
use crate::transport::http::limits::RequestLimits;

/// All options of the server.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Options {
    /// The set of defaults that the other options start from.
    pub profile: Profile,
    /// MCP over TCP: newline-delimited JSON.
    pub tcp: TcpOptions,
    /// Streamable HTTP.
    pub http: HttpOptions,
    /// The endpoints of operators.
    pub admin: AdminOptions,
    /// WebSocket, on the HTTP listener.
    pub websocket: WebSocketOptions,
    /// TLS of TCP, HTTP and WebSocket.
    pub tls: ListenerTlsOptions,
    /// Authentication and authorization.
    pub auth: AuthOptions,
    /// Overload protection: running calls, circuit breakers, queue delay, memory pressure.
    pub overload: OverloadOptions,
    /// Rate limits of requests and connections.
    pub rate: RateOptions,
    /// The parity dialect.
    pub parity: ParityOptions,
    /// MCP over standard input and output.
    pub stdio: StdioOptions,
    /// Limits per message, request and connection.
    pub limits: LimitOptions,
    /// Shards, rings and threads.
    pub engine: EngineOptions,
    /// The content that `corelane` serves.
    pub service: ServiceOptions,
    /// Files served as resources and prompts.
    pub files: FileOptions,
    /// Logging to standard error.
    pub log: LogOptions,
}

/// TCP options.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct TcpOptions {
    /// Listen address; `None` disables the TCP listener. Port 0 takes a free one. Default
    /// 127.0.0.1:8888.
    pub address: Option<SocketAddr>,
    /// Open connections over all shards; further ones get JSON-RPC error 1001 and are closed.
    /// Cost: below 1 KiB of memory and one socket each. Default 1,024.
    pub connections_max: u32,
    /// Time after which a connection without input and without requests in flight is closed.
    /// Default 5 min.
    pub idle_timeout: Duration,
    /// Time from accept to the first valid JSON-RPC message or HTTP request, after which the
    /// connection is closed. Invalid ones do not extend it. Default 30 s.
    pub first_message_timeout: Duration,
    /// Time that calls in flight get after their client has ended its input (`shutdown(SHUT_WR)`,
    /// `nc -N`); then they are cancelled and get an error. Zero cancels them at once, without a
    /// response. An eighth of `connections_max`, over all shards, may wait at once. Cost: a client
    /// that has closed its connection keeps its place and its calls for that long. Default 0.
    pub half_close_timeout: Duration,
    /// `SO_KEEPALIVE`: the kernel detects vanished peers. Cost: one probe every two hours of
    /// silence. Default true.
    pub keepalive: bool,
    /// `TCP_NODELAY`: responses are sent at once. Without it Nagle's algorithm and delayed
    /// acknowledgements may delay a response by 40 ms. Default true.
    pub nodelay: bool,
    /// `SO_RCVBUF`. Cost: kernel memory per connection while unread input queues.
    /// Default 64 KiB.
    pub receive_buffer_bytes: u32,
    /// `SO_SNDBUF`. Cost: kernel memory per connection while unsent output queues.
    /// Default 64 KiB.
    pub send_buffer_bytes: u32,
    /// Backlog of each shard's listener. Default 4,096, the kernel's own limit
    /// (`net.core.somaxconn`).
    pub backlog_max: u32,
    /// `SO_REUSEPORT` for other processes: the addresses of TCP and HTTP are shared with servers of
    /// the same user that set it, too, and the kernel distributes connections among all of them.
    /// Cost: sessions and subscriptions of one server are unknown to the others. Default false: a
    /// second server on an address fails to start.
    pub reuse_port: bool,
}

/// Options of the endpoints of operators: `/healthz`, `/readyz`, `/metrics`, `/connections`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct AdminOptions {
    /// Address of a listener of their own; they are not served at the address of HTTP then. Port 0
    /// takes a free one. Cost: one listening socket, and up to 64 connections, on the first shard.
    /// Default `None`: health, readiness and metrics are served at the address of HTTP, and the
    /// list of connections only if that is a loopback address.
    pub address: Option<SocketAddr>,
}

/// Limits per message, request and connection, for every transport.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct LimitOptions {
    /// Bytes of one JSON message; a longer one gets error -32012 before the rest of it is
    /// buffered. Cost: that many bytes per connection with an incomplete message.
    /// Default 16 MiB.
    pub message_bytes_max: usize,
    /// Nesting depth of arrays and objects. Default 64.
    pub nesting_max: usize,
    /// Calls in flight per connection; a further one gets error -32603 and may be retried. The
    /// connection is still read, because the next message may be the response that a handler waits
    /// for, or a cancellation. Cost: about 64 bytes each.
    /// Default 256.
    pub requests_in_flight_max: u32,
    /// Time from a request to its response; then it is cancelled and gets an error.
    /// Default 5 min.
    pub request_timeout: Duration,
    /// Time for a client's response to a server request (sampling, elicitation, roots; revisions up
    /// to 2025-11-25); then it is cancelled and its handler gets an error. The timeout of the call
    /// is suspended meanwhile. Cost: handlers of absent users stay alive longer. Default 5 min.
    pub client_request_timeout: Duration,
    /// Lifetime of an encrypted `requestState` (2026-07-28); then it gets error -32602. Cost: none,
    /// the server holds nothing meanwhile. Default 10 min.
    pub request_state_ttl: Duration,
    /// Bytes of queued output per connection, above which the connection is not read.
    /// Cost: that many bytes per slow peer. Default 1 MiB.
    pub outgoing_bytes_max: usize,
    /// Bytes that peers may make the server hold: incomplete messages, unsent output, arguments of
    /// running calls, open requests to clients, results of blocking handlers, stored events, task
    /// results, subscriptions. Divided evenly among shards. At the limit connections of the address
    /// that holds most are closed. Arguments and requests to clients may take a quarter of it;
    /// beyond that a call gets error -32603, unless the arguments of its connection's calls take
    /// less than 64 KiB, and a request to a client fails, unless those of its handler take less.
    /// While results of blocking handlers that are not yet outgoing messages take an eighth of it,
    /// no further call of a client whose results take more than 64 KiB starts on a thread. Default
    /// 1 GiB.
    pub memory_bytes_max: usize,
    /// Percent of the connections of a transport, and of the tasks and bytes of task results of a
    /// shard, that one client address may take; an IPv6 /64 prefix counts as one address. 100
    /// switches the limit off. 127.0.0.1 and `::1` are exempt, because proxies on this machine
    /// connect from there. Cost: clients behind one proxy on another machine share it. Default 75.
    pub address_share_percent: u8,
    /// Tasks per shard, running or ended; a call that would create one more evicts an ended one
    /// whose connection or session has gone, or gets an error. Cost: about 512 bytes each, without
    /// their results. Default 1,024.
    pub tasks_max: u32,
    /// Tasks per connection; a call that would create one more gets an error. They are stored until
    /// their TTL has passed, also after the connection has closed, unless they are evicted. Cost: a
    /// larger value lets a single peer use the capacity of the others. Default 256.
    pub tasks_per_connection_max: u32,
    /// TTL of a task whose caller requests none; a task that still runs then is cancelled. Default
    /// 10 min.
    pub task_ttl: Duration,
    /// Maximum TTL; a longer requested one is shortened to it. Default 1 h.
    pub task_ttl_max: Duration,
    /// Bytes of task results per shard; a result beyond it evicts those of ended tasks whose
    /// connection or session has gone, or its task fails. At most an eighth of the shard's part of
    /// [`LimitOptions::memory_bytes_max`] is used. Cost: that many bytes on each shard. Default
    /// 64 MiB.
    pub task_bytes_max: usize,
    /// Streams of notifications (`subscriptions/listen`) per connection; a further one gets error
    /// -32603. Cost: below 512 bytes each. Default 1,024.
    pub subscriptions_per_connection_max: u32,
    /// Resources and tasks per stream or legacy session; more get error -32602. Cost: 64 bytes
    /// each, and each URI once per shard. Default 1,024.
    pub subscription_uris_max: u32,
    /// Bytes of one such URI or task id; a longer one gets error -32602. Default 4 KiB.
    pub subscription_uri_bytes_max: usize,
    /// Bytes of all subscriptions, divided evenly among shards; the one that exceeds it gets error
    /// -32603. At most an eighth of [`LimitOptions::memory_bytes_max`] is used. Default 64 MiB.
    pub subscription_bytes_max: usize,
}

/// Shards, rings and threads.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct EngineOptions {
    /// Shards, one thread with its own ring each; `None` is one per cpu of `cpus`.
    /// Cost: one thread and the sizes of `ring_sizes` each. Default `None`.
    pub shards: Option<u16>,
    /// Cpus to pin shards to, in order, without duplicates; `None` is every cpu that the process
    /// may use. Default `None`.
    pub cpus: Option<Vec<u16>>,
    /// The executor of the shard loop. Default [`ExecutorKind::Auto`].
    pub executor: ExecutorKind,
    /// The I/O interface. Default [`RingBackend::Auto`].
    pub ring: RingBackend,
    /// The sizes of each shard's ring.
    pub ring_sizes: RingOptions,
    /// The sizes of the queues between shards, and from other threads to a shard. Cost: each pair
    /// of shards has two channels, each shard an inbox.
    pub mesh: MeshOptions,
    /// Time for requests in flight after SIGTERM or SIGINT, and on stdio after the end of the
    /// input; then they are cancelled and get an error, for which their clients have one second.
    /// Default 10 s.
    pub drain_timeout: Duration,
    /// Time from SIGTERM, SIGINT or [`crate::Handle::drain`] until the listeners close, in which
    /// `/readyz` answers 503 and everything else is served: a load balancer stops sending new
    /// connections meanwhile. Not used on stdio. A reload can shorten it. Cost: the server ends
    /// that much later. Default 0.
    pub drain_delay: Duration,
    /// Threads for blocking handlers, for the whole process. Default 4.
    pub blocking_threads: u16,
    /// Blocking calls that wait for a thread. Client addresses have equal shares of the places and
    /// are served in turns; an IPv6 /64 prefix counts as one address, and connections and sessions
    /// from 127.0.0.1 and `::1` count individually. When all places are taken, a call of a client
    /// with fewer waiting calls displaces the newest one of the client with the most, which gets
    /// error -32603; other calls get that error themselves. Cost: the arguments of each waiting
    /// call, and about 512 bytes. Default 1,024.
    pub blocking_queue_max: u32,
}

/// A set of defaults.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Profile {
    /// For production.
    #[default]
    Standard,
    /// Small limits that tests can reach: [`Options::tiny`].
    Tiny,
}

/// The executor of the shard loop.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum ExecutorKind {
    /// The faster one in `benches/floor`.
    #[default]
    Auto,
    /// A pinned thread with a small local executor.
    Native,
    /// The root task of a glommio executor (Linux, feature `glommio`), so that local handlers can
    /// use its files, timers and channels. Needs `io_uring`. Cost: 512 KiB of locked memory for
    /// each shard.
    ///
    /// A program that has a glommio executor can run a shard as one of its tasks instead, with the
    /// feature `internals`: see `examples/glommio.rs`. Beside other tasks of its thread a shard
    /// takes 10 to 20 % more CPU.
    Glommio,
}

/// The I/O interface of a shard.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum RingBackend {
    /// `io_uring` if the kernel supports it, otherwise `Poll`.
    #[default]
    Auto,
    /// `io_uring`; start-up fails without it.
    Uring,
    /// Readiness notification: epoll, kqueue.
    Poll,
}

impl LimitOptions {
    /// Returns the most that task results, subscriptions and stored events may each take, so that
    /// connections keep the larger part of `memory_bytes_max`.
    pub(crate) const fn stored_bytes_max(&self) -> usize {
        self.memory_bytes_max / 8
    }
}

impl Options {
    /// Returns the defaults of `profile`.
    pub fn for_profile(profile: Profile) -> Self {
        match profile {
            Profile::Standard => Self::default(),
            Profile::Tiny => Self::tiny(),
        }
    }

    /// Returns the demo services that are offered: [`DemoServices::Auto`] is resolved.
    #[doc(hidden)]
    pub const fn demo_services(&self) -> DemoServices {
        match self.service.demo {
            DemoServices::Auto
                if self.files.resources.is_some() || self.files.prompts.is_some() =>
            {
                DemoServices::Off
            }
            DemoServices::Auto => DemoServices::Basic,
            chosen => chosen,
        }
    }

    /// Returns the address of a listener for clients that other machines reach without TLS.
    pub(crate) fn public_without_tls(&self) -> Option<SocketAddr> {
        let tls = &self.tls;
        let listeners =
            [(self.tcp.address, tls.encrypts_tcp()), (self.http.address, tls.encrypts_http())];
        let public = listeners.into_iter().filter(|(_, is_encrypted)| !is_encrypted);
        public.filter_map(|(address, _)| address).find(|address| !address.ip().is_loopback())
    }

    /// Returns the limits of one HTTP request.
    #[doc(hidden)]
    pub fn request_limits(&self) -> RequestLimits {
        RequestLimits {
            head_bytes_max: self.http.head_bytes_max,
            body_bytes_max: self.limits.message_bytes_max,
            ..RequestLimits::default()
        }
    }

    /// Returns the maximum number of open connections over all listeners, and the options that
    /// define it.
    #[doc(hidden)]
    pub fn connections_max(&self) -> (u64, &'static str) {
        let tcp = self.tcp.address.map(|_| u64::from(self.tcp.connections_max));
        let http = self.http.address.map(|_| u64::from(self.http.connections_max));
        let websocket = u64::from(self.websocket_connections_max());
        let bound = match (tcp, http, websocket > 0) {
            (Some(_), Some(_), true) => {
                "tcp.connections_max, http.connections_max and websocket.connections_max"
            }
            (Some(_), Some(_), false) => "tcp.connections_max and http.connections_max",
            (None, Some(_), true) => "http.connections_max and websocket.connections_max",
            (None, Some(_), false) => "http.connections_max",
            (_, None, _) => "tcp.connections_max",
        };
        (tcp.unwrap_or(0) + http.unwrap_or(0) + websocket, bound)
    }

    /// Returns the maximum number of open WebSocket connections; 0 without HTTP or without a path.
    pub(crate) fn websocket_connections_max(&self) -> u32 {
        let is_served = self.http.address.is_some() && self.websocket.path.is_some();
        if is_served { self.websocket.connections_max } else { 0 }
    }
}

impl Default for TcpOptions {
    fn default() -> Self {
        Self {
            address: Some(loopback(8888)),
            connections_max: 1024,
            idle_timeout: Duration::from_mins(5),
            first_message_timeout: Duration::from_secs(30),
            half_close_timeout: Duration::ZERO,
            keepalive: true,
            nodelay: true,
            receive_buffer_bytes: 64 * KIB,
            send_buffer_bytes: 64 * KIB,
            backlog_max: 4096,
            reuse_port: false,
        }
    }
}

impl Default for LimitOptions {
    fn default() -> Self {
        Self {
            message_bytes_max: 16 << 20,
            nesting_max: 64,
            requests_in_flight_max: 256,
            request_timeout: Duration::from_mins(5),
            client_request_timeout: Duration::from_mins(5),
            request_state_ttl: Duration::from_mins(10),
            outgoing_bytes_max: 1 << 20,
            memory_bytes_max: 1 << 30,
            address_share_percent: 75,
            tasks_max: 1024,
            tasks_per_connection_max: 256,
            task_ttl: Duration::from_mins(10),
            task_ttl_max: Duration::from_hours(1),
            task_bytes_max: 64 << 20,
            subscriptions_per_connection_max: 1024,
            subscription_uris_max: 1024,
            subscription_uri_bytes_max: 4096,
            subscription_bytes_max: 64 << 20,
        }
    }
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            shards: None,
            cpus: None,
            executor: ExecutorKind::default(),
            ring: RingBackend::default(),
            ring_sizes: RingOptions::default(),
            mesh: MeshOptions::default(),
            drain_timeout: Duration::from_secs(10),
            drain_delay: Duration::ZERO,
            blocking_threads: 4,
            blocking_queue_max: 1024,
        }
    }
}

fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

const KIB: u32 = 1024;
