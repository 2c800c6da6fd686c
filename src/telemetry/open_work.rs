//! The work of a shard that is open, and what waits in its queues.

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
