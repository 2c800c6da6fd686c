//! Options of overload protection.

use std::time::Duration;

/// How much the server takes on; all of it is off by default. A refused call gets error -32603
/// (HTTP status 503) with `data.retryAfterMs`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct OverloadOptions {
    /// Calls of handlers that run at once, over all shards; a further one is refused. Inline
    /// handlers do not count: a shard runs one at a time. Default 0: no limit.
    pub calls_max: u32,
    /// Running calls of each tool, over all shards; a further one is refused. Default 0: no limit.
    pub tool_calls_max: u32,
    /// Running calls of some tools, in place of `tool_calls_max`: name and number. Default: none.
    pub tool_calls: Vec<(String, u32)>,
    /// Circuit breakers of tools.
    pub breaker: BreakerOptions,
    /// Longest time that calls may wait for a thread of the blocking pool; if all calls of
    /// [`OverloadOptions::queue_interval`] have waited for longer, new ones are refused until one
    /// has waited for less. Default 0: calls are refused when the queue is full.
    pub queue_target: Duration,
    /// Time for which calls may wait for longer than [`OverloadOptions::queue_target`]. Default 0,
    /// which stands for 20 times the target.
    pub queue_interval: Duration,
    /// Steps at which the server takes on less because memory is short.
    pub memory: MemoryGuardOptions,
}

/// The circuit breaker of each tool, on each shard: a tool that fails or is slow is not called for
/// a while. Off unless one of the percentages is set.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct BreakerOptions {
    /// Percentage of failed calls at which a breaker opens. A call fails with a panic, an internal
    /// error (-32603) or by exceeding its timeout. Default 0: failures do not count.
    pub failed_percent: u8,
    /// Percentage of slow calls at which a breaker opens. Default 0: durations do not count.
    pub slow_percent: u8,
    /// A call that takes at least this long is slow. Default 1 s.
    pub slow_after: Duration,
    /// Results with `isError` count as failures. Default false: they are answers of the tool.
    pub tool_errors: bool,
    /// Calls that ended in this time count. Default 10 s.
    pub window: Duration,
    /// Calls in the window below which a breaker stays closed. Default 20.
    pub calls_min: u32,
    /// How long an open breaker refuses calls; then some are let through as probes. Default 5 s.
    pub wait: Duration,
    /// The wait doubles while the probes fail, or the breaker opens again soon after it has closed,
    /// up to this. Default 60 s.
    pub wait_max: Duration,
    /// Number of probes; the breaker closes when all have succeeded. Default 3.
    pub probes_max: u16,
}

impl Default for BreakerOptions {
    fn default() -> Self {
        Self {
            failed_percent: 0,
            slow_percent: 0,
            slow_after: Duration::from_secs(1),
            tool_errors: false,
            window: Duration::from_secs(10),
            calls_min: 20,
            wait: Duration::from_secs(5),
            wait_max: Duration::from_mins(1),
            probes_max: 3,
        }
    }
}

/// The memory guard: compares what the process uses with the limit of its control group (Linux,
/// `memory.max`), or else with the memory of the machine. Each step applies those before it, and
/// ends 5 percent below where it begins. Off unless one of the percentages is set; each must be at
/// least the one before.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct MemoryGuardOptions {
    /// Percentage of used memory from which new connections are refused. Default 0: off.
    pub refuse_connections_percent: u8,
    /// Percentage from which messages longer than [`MemoryGuardOptions::message_bytes_max`] are
    /// refused. Default 0: off.
    pub refuse_messages_percent: u8,
    /// Percentage from which notification streams are ended and refused. Default 0: off.
    pub end_streams_percent: u8,
    /// Percentage from which the connections are closed for which most is held, which are those
    /// that read slowest. Default 0: off.
    pub close_slowest_percent: u8,
    /// Percentage of time in which some task of the control group waited for memory, over the last
    /// 10 seconds (PSI), from which the next step applies. Default 0: off.
    pub stalled_percent: u8,
    /// Longest message while memory is short. Default 64 KiB.
    pub message_bytes_max: usize,
    /// Time between two readings. Cost: a thread that reads three small files. Default 500 ms.
    pub interval: Duration,
}

impl Default for MemoryGuardOptions {
    fn default() -> Self {
        Self {
            refuse_connections_percent: 0,
            refuse_messages_percent: 0,
            end_streams_percent: 0,
            close_slowest_percent: 0,
            stalled_percent: 0,
            message_bytes_max: 64 << 10,
            interval: Duration::from_millis(500),
        }
    }
}
