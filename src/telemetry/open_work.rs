//! What a shard holds at a time: open work, queues, memory on behalf of clients, and what is known
//! of each open connection.

use std::net::SocketAddr;
use std::time::SystemTime;

use corelane_base::holders::Holder;

use super::label::Transport;

/// Number of objects that a shard holds on behalf of clients; all zero at rest.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct OpenWork {
    /// Open connections, those being rejected or closed included.
    pub connections: usize,
    /// Running handlers, those of cancelled calls included.
    pub calls: usize,
    /// Notification streams, those of legacy sessions included.
    pub streams: usize,
    /// Requests to clients without a response, those of tasks included.
    pub client_requests: usize,
    /// HTTP requests whose response is incomplete, streams included.
    pub exchanges: usize,
    /// Legacy HTTP sessions, with or without a connected client.
    pub sessions: usize,
    /// Tasks in the table, running or ended.
    pub tasks: usize,
}

/// Number of entries in each queue of a shard, at one moment of a turn.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct QueueDepths {
    /// The shard.
    pub shard: u16,
    /// Messages of other shards and threads that are not received yet.
    pub mesh_received: usize,
    /// Messages to other shards whose channel is full.
    pub mesh_unsent: usize,
    /// Effects that are not applied yet, and connections that are read again after them.
    pub outbox: usize,
    /// Large messages and results that wait while smaller ones are handled.
    pub large_work: usize,
    /// Connections that are not read because their incomplete message has no room.
    pub incomplete_messages: usize,
    /// Messages over TCP and stdio that wait for the answer about their token.
    pub introspection: usize,
    /// Calls without a response.
    pub calls: usize,
    /// Requests to clients without a response.
    pub client_requests: usize,
}

impl QueueDepths {
    /// Iterates over the queues with their depths.
    pub fn each(&self) -> impl Iterator<Item = (&'static str, usize)> {
        [
            ("mesh_received", self.mesh_received),
            ("mesh_unsent", self.mesh_unsent),
            ("outbox", self.outbox),
            ("large_work", self.large_work),
            ("incomplete_messages", self.incomplete_messages),
            ("introspection", self.introspection),
            ("calls", self.calls),
            ("client_requests", self.client_requests),
        ]
        .into_iter()
    }
}

impl OpenWork {
    /// Returns the sum of all numbers.
    pub const fn total(&self) -> usize {
        let Self { connections, calls, streams, client_requests, exchanges, sessions, tasks } =
            *self;
        connections + calls + streams + client_requests + exchanges + sessions + tasks
    }
}

/// Bytes that a shard holds on behalf of clients; all zero at rest.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct HeldMemory {
    /// Incomplete messages, unread input and unsent output of connections.
    pub connections: usize,
    /// TLS of connections: handshakes in progress, state, incomplete records, encrypted output.
    pub tls: usize,
    /// Legacy HTTP sessions with their stored events.
    pub sessions: usize,
    /// Running handlers with the arguments of calls and tasks, open requests to clients, and stored
    /// responses to them.
    pub handlers: usize,
    /// Results of blocking handlers before they are output.
    pub blocking_results: usize,
    /// Results of tasks.
    pub task_results: usize,
    /// Tasks without their results and what their handlers hold.
    pub tasks: usize,
    /// Subscription streams with their names.
    pub subscriptions: usize,
    /// What is kept of peers for their handlers: `clientInfo`, header fields of WebSocket upgrades.
    pub facts: usize,
    /// Verified tokens with their callers.
    pub tokens: usize,
    /// Large messages that threads parse, and buffers and memory of the parser that are kept for
    /// the next ones.
    pub kept: usize,
}

impl HeldMemory {
    /// Returns the sum of all bytes.
    #[inline]
    pub const fn total(&self) -> usize {
        let Self { connections, tls, sessions, handlers, .. } = *self;
        let Self { blocking_results, task_results, tasks, .. } = *self;
        let Self { subscriptions, facts, tokens, kept, .. } = *self;
        let (results, peers) = (blocking_results + task_results, facts + tokens);
        connections + tls + sessions + handlers + results + tasks + subscriptions + peers + kept
    }
}

/// The memory account of a shard, for tests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MemoryReport {
    /// As accounted.
    pub accounted: HeldMemory,
    /// As recounted from what is stored.
    pub stored: HeldMemory,
    /// Bytes of tables that are not accounted for their entries: of all places of connections,
    /// which have a limit of their own, and of the places of others that are free.
    pub places: usize,
    /// Bytes of the stored ones that connections hold which are closed, or closing because of a
    /// limit: their last sends.
    pub closed: usize,
    /// Bytes of the stored ones that closing the other connections, and the sessions without one,
    /// would free.
    pub freeable: usize,
    /// The memory limit.
    pub bytes_max: usize,
}

/// A kind of place of a shard, for tests.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum PlaceKind {
    /// A connection that counts against the limit of this transport.
    Connection(Transport),
    /// A legacy HTTP session.
    Session,
    /// A session of the parity dialect.
    ParitySession,
    /// A task, running or ended.
    Task,
}

/// A place that is taken, for tests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct HeldPlace {
    /// What it is.
    pub kind: PlaceKind,
    /// Whose it is; that of a connection or session is its address.
    pub holder: Holder,
}

/// An open connection of a running server.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ConnectionInfo {
    /// Shard that owns the connection.
    pub shard: u16,
    /// Transport.
    pub transport: Transport,
    /// Address of the peer; `None` over standard input and output.
    pub peer: Option<SocketAddr>,
    /// Time at which it was accepted, to the second.
    pub started: SystemTime,
    /// Bytes and messages since then.
    pub traffic: ConnectionTraffic,
    /// Requests without a response.
    pub requests_pending: u32,
    /// Bytes of incomplete messages, unread input and unsent output.
    pub bytes_buffered: usize,
    /// Control frames of a WebSocket connection; zero over other transports.
    pub pings: PingCounts,
}

/// Bytes and messages of one connection since it was accepted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct ConnectionTraffic {
    /// Bytes received, including framing.
    pub bytes_in: u64,
    /// Bytes accepted by the kernel, including framing.
    pub bytes_out: u64,
    /// Valid JSON-RPC messages received; over HTTP requests.
    pub messages_in: u64,
    /// Messages sent; over HTTP responses, and events of streams.
    pub messages_out: u64,
}

/// Pings and pongs of one WebSocket connection; the counts wrap.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct PingCounts {
    /// Pings received; each was answered by a pong.
    pub pings_in: u32,
    /// Pings sent.
    pub pings_out: u32,
    /// Pongs received, solicited or not.
    pub pongs_in: u32,
}
