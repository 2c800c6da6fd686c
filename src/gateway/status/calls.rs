//! Calls of an upstream and of its tools, counted by the shards that make them.
//!
//! Invariants: a call is counted once, when it ends; at most [`TOOLS_MAX`] tools of an upstream are
//! counted by themselves; shards share nothing but atomics, but for the first call of a tool.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard, OnceLock, PoisonError};

use corelane_base::time::Instant;
use corelane_client::{ClientError, ClientErrorKind};
use corelane_engine::clock::Clock;

use crate::gateway::status::durations::Durations;
use crate::service::{HandlerError, HandlerOutput};

#[expect(clippy::disallowed_types, reason = "locked by the first call of a tool")]
type Mutex<T> = std::sync::Mutex<T>;

/// Tools of an upstream that are counted by themselves; calls of others are counted together.
const TOOLS_MAX: usize = 64;
/// What stands for the tools beyond, in the place of a name.
pub const OTHER_TOOLS: &str = "other";
/// Bytes of the name of a tool that is counted by itself.
const NAME_BYTES_MAX: usize = 128;

/// How a call has ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CallOutcome {
    /// With a result.
    Result,
    /// With the result of a tool that has `isError: true`.
    ToolError,
    /// With an error of JSON-RPC from the upstream.
    Error,
    /// Its time was over.
    Timeout,
    /// The upstream did not start, has ended, or has sent no valid response.
    Failed,
    /// The client has cancelled it, or a held call has ended without its input.
    Cancelled,
}

impl CallOutcome {
    /// Every outcome, in the order of the counters.
    pub const ALL: [Self; 6] =
        [Self::Result, Self::ToolError, Self::Error, Self::Timeout, Self::Failed, Self::Cancelled];

    /// Returns the name in JSON and in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Result => "result",
            Self::ToolError => "tool_error",
            Self::Error => "error",
            Self::Timeout => "timeout",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    const fn index(self) -> usize {
        self as usize
    }

    /// The outcome of a response that was received.
    pub const fn of_result(result: &Result<HandlerOutput, HandlerError>) -> Self {
        match result {
            Ok(HandlerOutput::Encoded { is_error: true, .. }) => Self::ToolError,
            Ok(_) => Self::Result,
            Err(_) => Self::Failed,
        }
    }

    /// The outcome of a request without a result.
    pub fn of_error(error: &ClientError) -> Self {
        match error.kind() {
            ClientErrorKind::Rpc { .. } => Self::Error,
            ClientErrorKind::Timeout => Self::Timeout,
            _ => Self::Failed,
        }
    }
}

/// Calls that have ended, by their outcomes, and how long those took that were not cancelled.
#[derive(Debug, Default)]
pub struct CallCounts {
    outcomes: [AtomicU64; CallOutcome::ALL.len()],
    pub durations: Durations,
}

impl CallCounts {
    fn count(&self, outcome: CallOutcome, duration: std::time::Duration) {
        self.outcomes[outcome.index()].fetch_add(1, Ordering::Relaxed);
        if outcome != CallOutcome::Cancelled {
            self.durations.record(duration);
        }
    }

    /// Returns the number of calls with an outcome.
    pub fn of(&self, outcome: CallOutcome) -> u64 {
        self.outcomes[outcome.index()].load(Ordering::Relaxed)
    }
}

/// The calls of one upstream.
#[derive(Debug)]
pub struct UpstreamCalls {
    clock: Clock,
    in_flight: AtomicUsize,
    all: CallCounts,
    tools: Mutex<BTreeMap<Box<str>, Arc<CallCounts>>>,
}

impl UpstreamCalls {
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            in_flight: AtomicUsize::new(0),
            all: CallCounts::default(),
            tools: Mutex::default(),
        }
    }

    /// Begins to count a call.
    pub fn begin(self: &Arc<Self>, tool: Option<Arc<CallCounts>>) -> CallRecord {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        let (calls, begun) = (Arc::clone(self), self.clock.now());
        CallRecord { calls, tool, begun, outcome: CallOutcome::Cancelled }
    }

    /// Calls that have not ended, held ones included.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// The calls of all tools, prompts, resources and completions.
    pub const fn all(&self) -> &CallCounts {
        &self.all
    }

    /// The calls of the tools that were called, by their names at the upstream; those beyond the
    /// bound are [`OTHER_TOOLS`].
    pub fn tools(&self) -> Vec<(Box<str>, Arc<CallCounts>)> {
        let tools = self.lock();
        tools.iter().map(|(name, counts)| (name.clone(), Arc::clone(counts))).collect()
    }

    fn of_tool(&self, name: &str) -> Arc<CallCounts> {
        let mut tools = self.lock();
        if let Some(known) = tools.get(name) {
            return Arc::clone(known);
        }
        let is_full = tools.len() >= TOOLS_MAX || name.len() > NAME_BYTES_MAX;
        let name = if is_full { OTHER_TOOLS } else { name };
        Arc::clone(tools.entry(name.into()).or_default())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Box<str>, Arc<CallCounts>>> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the calls of one tool are counted, found at its first call.
#[derive(Debug, Default)]
pub struct ToolCounts(OnceLock<Arc<CallCounts>>);

impl ToolCounts {
    /// Returns the counts of the tool `name` of an upstream.
    pub fn of(&self, calls: &UpstreamCalls, name: &str) -> Arc<CallCounts> {
        Arc::clone(self.0.get_or_init(|| calls.of_tool(name)))
    }
}

/// A call that is counted when it is dropped: as cancelled, unless an outcome was noted.
#[derive(Debug)]
pub struct CallRecord {
    calls: Arc<UpstreamCalls>,
    tool: Option<Arc<CallCounts>>,
    begun: Instant,
    outcome: CallOutcome,
}

impl CallRecord {
    /// Notes how the call ends.
    pub const fn note(&mut self, outcome: CallOutcome) {
        self.outcome = outcome;
    }
}

impl Drop for CallRecord {
    fn drop(&mut self) {
        let duration = self.calls.clock.now().since(self.begun);
        self.calls.in_flight.fetch_sub(1, Ordering::Relaxed);
        let counts = [Some(&self.calls.all), self.tool.as_deref()];
        for counts in counts.into_iter().flatten() {
            counts.count(self.outcome, duration);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_is_counted_once_by_outcome() {
        let calls = Arc::new(UpstreamCalls::new(Clock::start()));
        let tool = ToolCounts::default();
        let mut records: Vec<CallRecord> =
            CallOutcome::ALL.iter().map(|_| calls.begin(Some(tool.of(&calls, "a")))).collect();
        assert_eq!(calls.in_flight(), CallOutcome::ALL.len());
        for (record, outcome) in records.iter_mut().zip(CallOutcome::ALL) {
            record.note(outcome);
        }
        drop(records);
        drop(calls.begin(None));
        let of = |counts: &CallCounts| CallOutcome::ALL.map(|outcome| counts.of(outcome));
        assert_eq!(calls.in_flight(), 0);
        assert_eq!(of(calls.all()), [1, 1, 1, 1, 1, 2]);
        let tools = calls.tools();
        assert_eq!((&*tools[0].0, of(&tools[0].1)), ("a", [1; 6]));
    }

    #[test]
    fn tools_beyond_bound_are_counted_together() {
        let calls = Arc::new(UpstreamCalls::new(Clock::start()));
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        for name in (0..TOOLS_MAX + 9).map(|at| format!("tool_{at}")).chain([long]) {
            drop(calls.begin(Some(ToolCounts::default().of(&calls, &name))));
        }
        let tools = calls.tools();
        assert_eq!(tools.len(), TOOLS_MAX + 1);
        let other = tools.iter().find(|(name, _)| **name == *OTHER_TOOLS).unwrap();
        assert_eq!(other.1.of(CallOutcome::Cancelled), 10);
    }
}
