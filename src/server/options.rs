//! The options of a server, each with its default and its cost.
//!
//! What they keep true: [`Options::default`] is the one place where a default is written; help,
//! `check` and the table of options of the command line read it from here.

mod tiny;

mod websocket;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

pub use self::websocket::{Utf8CloseCode, WebSocketOptions};
use crate::engine::mesh::MeshOptions;
use crate::engine::ring::RingOptions;
use crate::protocol::revision::Revision;
use crate::transport::http::limits::Limits as RequestLimits;

/// Every option of the server, with its default.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Options {
    /// The set of defaults that everything else starts from.
    pub profile: Profile,
    /// Lines of JSON over TCP.
    pub tcp: TcpOptions,
    /// HTTP.
    pub http: HttpOptions,
    /// WebSocket, through the door of HTTP.
    pub websocket: WebSocketOptions,
    /// Lines of JSON over standard input and output.
    pub stdio: StdioOptions,
    /// What one message, one request and one connection may take.
    pub limits: LimitOptions,
    /// Shards, rings and threads.
    pub engine: EngineOptions,
    /// What the server offers.
    pub service: ServiceOptions,
    /// Files that are offered as resources and prompts.
    pub files: FileOptions,
    /// Events on standard error.
    pub log: LogOptions,
}

/// TCP, seed 001 section 2.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TcpOptions {
    /// Where to listen; `None` does not. Port 0 takes a free one. Default 127.0.0.1:8888.
    pub address: Option<SocketAddr>,
    /// Connections open at once over all shards; one more gets error 1001 and is closed.
    /// Cost: below 1 KiB of memory and one socket each. Default 1,024.
    pub connections_max: u32,
    /// A connection that says nothing for this long, with nothing in flight, is closed.
    /// Default 5 min.
    pub idle_max: Duration,
    /// Time from accept to a first valid request; a connection that needs longer is closed.
    /// Default 30 s.
    pub lease_max: Duration,
    /// `SO_KEEPALIVE`: the kernel finds peers that vanished. Cost: one probe every two hours of
    /// silence. Default true.
    pub keepalive: bool,
    /// `TCP_NODELAY`: answers leave at once. Without it a delayed acknowledgement may hold an
    /// answer for 40 ms. Default true.
    pub nodelay: bool,
    /// `SO_RCVBUF`. Cost: kernel memory of a connection while its peer is ahead of us.
    /// Default 64 KiB.
    pub receive_buffer_bytes: u32,
    /// `SO_SNDBUF`. Cost: kernel memory of a connection while we are ahead of its peer.
    /// Default 64 KiB.
    pub send_buffer_bytes: u32,
    /// Connections that wait in the kernel to be accepted, on each shard. Default 4,096, the
    /// kernel's own bound (`net.core.somaxconn`).
    pub backlog_max: u32,
}

/// HTTP, seed 001 section 3 and seed 003.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HttpOptions {
    /// Where to listen; `None` does not. Default 127.0.0.1:8080.
    pub address: Option<SocketAddr>,
    /// Connections open at once over all shards; one more gets 503 and is closed. Cost: below
    /// 1 KiB of memory and one socket each. Default 1,024.
    pub connections_max: u32,
    /// Whether legacy clients (2025-03-26 to 2025-11-25) are served, with sessions. Default true.
    pub legacy: bool,
    /// Whether the two endpoints of 2024-11-05 are open, where legacy clients are served at all.
    /// Default false.
    pub sse_pair: bool,
    /// The strict profile: JSON answers only, no GET, and every request names this revision (seed
    /// 003). It decides alone whether there are sessions; `legacy` and `sse_pair` say nothing then.
    /// Default none.
    pub strict: Option<Revision>,
    /// The hosts that requests may name: `name`, `name:port`, an address, or `*`. Default, none
    /// listed: on loopback `localhost` and its addresses; elsewhere every host. A server behind a
    /// name such as `mcp.example.com` lists it: otherwise browsers are refused, because a name
    /// that nobody listed may be anybody's.
    pub hosts: Vec<String>,
    /// The origins that pages may have besides our own: `https://name`, `http://name:*`, or `*`.
    /// Default, none listed: on loopback those of loopback; elsewhere none.
    pub origins: Vec<String>,
    /// Bytes of the head of a request; a longer one gets 431. Default 16 KiB.
    pub head_bytes_max: usize,
    /// Legacy sessions over all shards; one more makes the longest idle one go, and where none is
    /// idle gets 503. Cost: about 512 bytes each. Default 65,536.
    pub sessions_max: u32,
    /// How long a session may be idle: no request in flight, no stream open. Default 30 min.
    pub session_idle_max: Duration,
    /// Events kept of one stream, for a client that comes back for them: as long as its request
    /// runs, and a minute longer where all was sent. Default 1,000.
    pub events_max: u32,
    /// Bytes that the events of all streams hold, divided evenly among shards. One stream holds
    /// [`LimitOptions::outgoing_bytes_max`] of them; one event that is larger, such as a long
    /// answer, may hold half of what is left. Default 64 MiB.
    pub event_bytes_max: usize,
    /// A request that has no answer after this long gets an event stream, so that its client sees
    /// that it lives. Default 15 s.
    pub answer_max: Duration,
    /// An event stream that was silent for this long gets a comment. Default 30 s.
    pub silence_max: Duration,
    /// When a client comes back whose stream was ended early. Default 1 s.
    pub retry: Duration,
}

/// Standard input and output, seed 001 section 1.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StdioOptions {
    /// Bytes read from standard input at a time, and corked towards standard output before a
    /// write. Cost: that many bytes, twice. Default 64 KiB.
    pub buffer_bytes: u32,
}

/// Bounds of messages, requests and connections, whatever the transport.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LimitOptions {
    /// Bytes of one JSON text; a longer one is refused (-32012) before the rest of it is
    /// buffered. Cost: that many bytes for each connection in the middle of such a message.
    /// Default 16 MiB.
    pub message_bytes_max: usize,
    /// Arrays and objects inside each other. Default 64.
    pub nesting_max: usize,
    /// Calls of one connection that wait for a handler; one more is refused with -32603 and may be
    /// sent again. The connection is read on, because what comes next may be the answer that a
    /// handler waits for, or a cancellation. Cost: about 64 bytes each while they wait.
    /// Default 256.
    pub requests_in_flight_max: u32,
    /// Time from a request to its answer; then it is cancelled and answered with an error.
    /// Default 5 min.
    pub request_max: Duration,
    /// Time that a question to a client may take (sampling, elicitation, roots; revisions up to
    /// 2025-11-25); then it is cancelled and the handler hears of it. The call that asked does not
    /// age meanwhile. Cost: a longer time keeps handlers alive whose user has gone. Default 5 min.
    pub question_max: Duration,
    /// Time that a client has for one round of answers (2026-07-28); later its sealed state is
    /// refused with -32602. Cost: nothing is held meanwhile. Default 10 min.
    pub round_max: Duration,
    /// Bytes that wait for a peer to read them; past it the connection is not read.
    /// Cost: that many bytes for each connection whose peer is slow. Default 1 MiB.
    pub outgoing_bytes_max: usize,
    /// Bytes that all connections together may hold in messages half received or not yet sent;
    /// the one that would pass it gets -32603 and is closed. Divided evenly among shards and looked
    /// at with every arrival, so that it needs no periodic check (seed 001, section 2, has one
    /// every 60 s).
    /// Default 1 GiB.
    pub memory_bytes_max: usize,
    /// Tasks that each shard keeps, running or ended; a call that would begin one more is answered
    /// with an error. Cost: about 512 bytes each, their results aside. Default 1,024.
    pub tasks_max: u32,
    /// Tasks of one connection among them; a call that would begin one more is answered with an
    /// error. They count until their time is over, whether the connection is there or not. Cost: a
    /// larger one lets a single peer take the room of all others. Default 256.
    pub tasks_per_connection_max: u32,
    /// How long a task is kept from its beginning on, where its caller names no time. A task that
    /// still runs then is cancelled. Default 10 min.
    pub task_ttl: Duration,
    /// The longest time a caller may name; a longer one is shortened to it. Default 1 h.
    pub task_ttl_max: Duration,
    /// Bytes of results that each shard keeps for its tasks; a task whose result finds no room ends
    /// with an error. Cost: that many bytes on each shard. Default 64 MiB.
    pub task_bytes_max: usize,
    /// Streams of notifications (`subscriptions/listen`) of one connection; one more is refused
    /// (-32603). Cost: below 512 bytes each. Default 1,024.
    pub subscriptions_per_connection_max: u32,
    /// Resources and tasks that one stream, or one legacy session, hears of; more are refused
    /// (-32602). Cost: 64 bytes each, and their names once a shard. Default 1,024.
    pub subscription_uris_max: u32,
    /// Bytes of one such name; a longer one is refused (-32602). Default 4 KiB.
    pub subscription_uri_bytes_max: usize,
    /// Bytes that all streams together may hold, divided evenly among shards; the one that would
    /// pass it is refused (-32603). Default 64 MiB.
    pub subscription_bytes_max: usize,
}

/// Shards, rings and threads.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EngineOptions {
    /// Threads that serve, each with its own ring; `None` is one for each cpu of `cpus`.
    /// Cost: one thread and the sizes of `ring_sizes`. Default `None`.
    pub shards: Option<u16>,
    /// Cpus to pin shards to, in order, without repeats; `None` is every cpu the process may use.
    /// Default `None`.
    pub cpus: Option<Vec<u16>>,
    /// What runs the shard loop. Default [`Executor::Auto`].
    pub executor: Executor,
    /// What carries the bytes. Default [`RingBackend::Auto`].
    pub ring: RingBackend,
    /// The sizes of each shard's ring.
    pub ring_sizes: RingOptions,
    /// The sizes of the queues between shards, and from other threads to a shard. Cost: each pair
    /// of shards has two lanes, each shard an inbox.
    pub mesh: MeshOptions,
    /// How long requests in flight may go on after SIGTERM or SIGINT. Default 10 s.
    pub drain_max: Duration,
    /// Threads that run blocking handlers, for the whole process. Default 4.
    pub blocking_threads: u16,
    /// Blocking calls that wait for a thread; one more is answered with an error. Default 1,024.
    pub blocking_queue_max: u32,
}

/// What the server offers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ServiceOptions {
    /// Whether `corelane` offers the demo services. Default true.
    pub demo: bool,
    /// Entries on one page of a list that `corelane` offers. Pages are encoded once. Default 100.
    pub page_length_max: u32,
}

/// Files that are offered as resources and prompts.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FileOptions {
    /// The directory whose files are resources; `None` offers none. Default `None`.
    pub resources: Option<PathBuf>,
    /// Bytes of a file, or of a part of one, in one answer; of a longer file a client reads parts.
    /// Cost: that many bytes for each read, and up to six times as many for its answer.
    /// Default 8 MiB.
    pub file_bytes_max: usize,
    /// Files and folders that are listed. Cost: some 300 bytes each for every revision.
    /// Default 10,000.
    pub entries_max: usize,
    /// Folders inside each other that are listed, the directory itself included. Default 16.
    pub depth_max: usize,
    /// Whether files and folders whose names begin with a dot are offered. Default false.
    pub hidden: bool,
    /// The directory whose `*.md` files are prompts; `None` offers none. Default `None`.
    pub prompts: Option<PathBuf>,
    /// Whether changes on disk are followed. Cost: one thread, and one watch of the kernel for each
    /// folder. Default true.
    pub watch: bool,
}

/// Events on standard error.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LogOptions {
    /// The least important event that is written. Default [`LogLevel::Info`].
    pub level: LogLevel,
}

/// A set of defaults.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Profile {
    /// For service.
    #[default]
    Standard,
    /// Every limit shrunk, so that tests reach it: [`Options::tiny`].
    Tiny,
}

/// What runs the shard loop.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Executor {
    /// The one that measures better, see `benches/floor`.
    #[default]
    Auto,
    /// A pinned thread with a small local executor.
    Native,
    /// The root task of a glommio executor (Linux, feature `glommio`).
    Glommio,
}

/// What carries the bytes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum RingBackend {
    /// `io_uring` where the kernel grants it, readiness where it does not.
    #[default]
    Auto,
    /// `io_uring` or nothing.
    Uring,
    /// Readiness: epoll, kqueue.
    Poll,
}

/// The importance of events.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum LogLevel {
    /// Nothing but the lines at start.
    Off,
    /// What ended or will end the service.
    Error,
    /// What an operator should look at.
    Warn,
    /// What happened to the process.
    #[default]
    Info,
    /// What happened to each connection.
    Debug,
    /// Everything.
    Trace,
}

impl Options {
    /// The defaults of `profile`.
    pub fn of(profile: Profile) -> Self {
        match profile {
            Profile::Standard => Self::default(),
            Profile::Tiny => Self::tiny(),
        }
    }

    /// What one request of HTTP may take.
    pub fn request_limits(&self) -> RequestLimits {
        RequestLimits {
            head_bytes_max: self.http.head_bytes_max,
            body_bytes_max: self.limits.message_bytes_max,
            ..RequestLimits::default()
        }
    }

    /// Connections that may be open at once over all doors, and the options that bound them.
    pub fn connections_max(&self) -> (u64, &'static str) {
        let tcp = self.tcp.address.map(|_| u64::from(self.tcp.connections_max));
        let http = self.http.address.map(|_| u64::from(self.http.connections_max));
        match (tcp, http) {
            (Some(tcp), Some(http)) => (tcp + http, "tcp.connections_max and http.connections_max"),
            (None, Some(http)) => (http, "http.connections_max"),
            (tcp, None) => (tcp.unwrap_or(0), "tcp.connections_max"),
        }
    }
}

impl Default for TcpOptions {
    fn default() -> Self {
        Self {
            address: Some(loopback(8888)),
            connections_max: 1024,
            idle_max: Duration::from_mins(5),
            lease_max: Duration::from_secs(30),
            keepalive: true,
            nodelay: true,
            receive_buffer_bytes: 64 * KIB,
            send_buffer_bytes: 64 * KIB,
            backlog_max: 4096,
        }
    }
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            address: Some(loopback(8080)),
            connections_max: 1_024,
            legacy: true,
            sse_pair: false,
            strict: None,
            hosts: Vec::new(),
            origins: Vec::new(),
            head_bytes_max: 16 << 10,
            sessions_max: 65_536,
            session_idle_max: Duration::from_mins(30),
            events_max: 1_000,
            event_bytes_max: 64 << 20,
            answer_max: Duration::from_secs(15),
            silence_max: Duration::from_secs(30),
            retry: Duration::from_secs(1),
        }
    }
}

impl Default for StdioOptions {
    fn default() -> Self {
        Self { buffer_bytes: 64 * KIB }
    }
}

impl Default for LimitOptions {
    fn default() -> Self {
        Self {
            message_bytes_max: 16 << 20,
            nesting_max: 64,
            requests_in_flight_max: 256,
            request_max: Duration::from_mins(5),
            question_max: Duration::from_mins(5),
            round_max: Duration::from_mins(10),
            outgoing_bytes_max: 1 << 20,
            memory_bytes_max: 1 << 30,
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
            executor: Executor::default(),
            ring: RingBackend::default(),
            ring_sizes: RingOptions::default(),
            mesh: MeshOptions::default(),
            drain_max: Duration::from_secs(10),
            blocking_threads: 4,
            blocking_queue_max: 1024,
        }
    }
}

impl Default for ServiceOptions {
    fn default() -> Self {
        Self { demo: true, page_length_max: 100 }
    }
}

impl Default for FileOptions {
    fn default() -> Self {
        Self {
            resources: None,
            file_bytes_max: 8 << 20,
            entries_max: 10_000,
            depth_max: 16,
            hidden: false,
            prompts: None,
            watch: true,
        }
    }
}

fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

const KIB: u32 = 1024;
