//! The work of a shard that is open.

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

#[cfg(feature = "internals")]
impl OpenWork {
    /// Returns the sum of all numbers.
    pub const fn total(&self) -> usize {
        let Self { connections, calls, streams, client_requests, exchanges, sessions, tasks } =
            *self;
        connections + calls + streams + client_requests + exchanges + sessions + tasks
    }
}
