//! The memory that a shard holds on behalf of clients, by holder, and its report to tests.

/// Bytes that a shard holds on behalf of clients; all zero at rest.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct HeldMemory {
    /// Incomplete messages, unread input and unsent output of connections.
    pub connections: usize,
    /// Legacy HTTP sessions with their stored events.
    pub sessions: usize,
    /// Arguments of calls and tasks, open requests to clients, and stored responses to them.
    pub handlers: usize,
    /// Results of blocking handlers before they are output.
    pub blocking_results: usize,
    /// Results of tasks.
    pub task_results: usize,
    /// Subscription streams with their names.
    pub subscriptions: usize,
    /// What is kept of peers for their handlers: `clientInfo`, header fields of WebSocket upgrades.
    pub facts: usize,
}

impl HeldMemory {
    /// Returns the sum of all bytes.
    #[inline]
    pub const fn total(&self) -> usize {
        let Self { connections, sessions, handlers, .. } = *self;
        let Self { blocking_results, task_results, subscriptions, facts, .. } = *self;
        connections + sessions + handlers + blocking_results + task_results + subscriptions + facts
    }
}

/// The memory account of a shard, for tests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MemoryReport {
    /// As accounted.
    pub accounted: HeldMemory,
    /// As recounted from what is stored.
    pub stored: HeldMemory,
    /// Bytes of the stored ones that connections hold which are closed, or closing because of a
    /// limit: their last sends.
    pub closed: usize,
    /// Bytes of the stored ones that closing the other connections would free.
    pub freeable: usize,
    /// The memory limit.
    pub bytes_max: usize,
}
