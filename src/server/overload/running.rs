//! Running calls over all shards, in total and of each tool.
//!
//! Invariants: a [`RunningCall`] is counted until it is dropped, on any thread; the number of
//! counted calls never exceeds a limit.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use corelane_engine::mesh::SharedCounter;

#[expect(clippy::disallowed_types, reason = "locked when a call of a limited tool starts")]
type Mutex<T> = std::sync::Mutex<T>;

/// Running calls; clones share the numbers.
#[derive(Clone, Debug, Default)]
pub struct RunningCalls(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    all: Arc<SharedCounter>,
    /// Counters of the tools with running calls, and of some without.
    tools: Mutex<HashMap<Box<str>, Arc<SharedCounter>>>,
    /// Circuit breakers that are not closed.
    open_breakers: SharedCounter,
}

/// A call that runs; dropped when its handler has ended.
#[derive(Debug, Default)]
pub struct RunningCall {
    all: Option<Arc<SharedCounter>>,
    tool: Option<Arc<SharedCounter>>,
}

impl RunningCalls {
    /// Returns the number of running calls, if they are limited in total.
    pub fn count(&self) -> usize {
        self.0.all.count()
    }

    /// The number of circuit breakers that are not closed.
    pub fn open_breakers(&self) -> &SharedCounter {
        &self.0.open_breakers
    }

    /// Counts a call, with the limit of its tool.
    ///
    /// # Errors
    ///
    /// The option whose limit is reached.
    pub(super) fn start(
        &self,
        calls_max: Option<usize>,
        tool: Option<(&str, usize)>,
    ) -> Result<RunningCall, &'static str> {
        let mut running = RunningCall::default();
        if let Some(max) = calls_max {
            if !self.0.all.try_acquire(max) {
                return Err("overload.calls_max");
            }
            running.all = Some(Arc::clone(&self.0.all));
        }
        if let Some((name, max)) = tool {
            let counter = self.counter_of(name);
            if !counter.try_acquire(max) {
                return Err("overload.tool_calls_max");
            }
            running.tool = Some(counter);
        }
        Ok(running)
    }

    fn counter_of(&self, tool: &str) -> Arc<SharedCounter> {
        let mut tools = self.0.tools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(counter) = tools.get(tool) {
            return Arc::clone(counter);
        }
        if tools.len() == tools.capacity() {
            // Before the table grows: only running calls hold their counters.
            tools.retain(|_, counter| Arc::strong_count(counter) > 1);
        }
        Arc::clone(tools.entry(tool.into()).or_default())
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        for counter in [&self.all, &self.tool].into_iter().flatten() {
            counter.release();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_limit_counts_calls_until_they_end() {
        let calls = RunningCalls::default();
        let start = |tool| calls.start(Some(3), Some((tool, 1)));
        let first = start("a").unwrap();
        assert_eq!(start("a").unwrap_err(), "overload.tool_calls_max");
        assert_eq!(calls.count(), 1, "a refused call does not count");
        let others = ["b", "c"].map(|tool| start(tool).unwrap());
        assert_eq!(start("d").unwrap_err(), "overload.calls_max");
        drop(others);
        drop(first);
        assert!(start("a").is_ok());
        assert_eq!(calls.count(), 0);
    }

    #[test]
    fn counters_of_idle_tools_are_removed() {
        let calls = RunningCalls::default();
        let running = calls.start(None, Some(("a", 1))).unwrap();
        for number in 0..1_000 {
            assert!(calls.start(None, Some((&format!("tool {number}"), 1))).is_ok());
        }
        assert!(calls.0.tools.lock().unwrap().len() < 100);
        assert!(calls.start(None, Some(("a", 1))).is_err());
        drop(running);
    }
}
