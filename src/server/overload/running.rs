//! Running calls over all shards, in total and of each tool.
//!
//! Invariants: a [`RunningCall`] is counted until it is dropped, on any thread; the number of
//! counted calls never exceeds a limit, and that of one caller never exceeds half of it, rounded
//! up.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, MutexGuard, PoisonError};

use corelane_base::client_address::ClientAddress;
use corelane_base::principal::Principal;
use corelane_engine::mesh::SharedCounter;

#[expect(clippy::disallowed_types, reason = "locked when a limited call starts, and ends")]
type Mutex<T> = std::sync::Mutex<T>;

/// Who calls: the authenticated caller, else the client address, unless that is exempt from limits
/// by address.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallerId<'a> {
    /// The authenticated caller.
    pub principal: Option<&'a Principal>,
    /// The address of its client.
    pub address: Option<ClientAddress>,
}

/// Running calls; clones share the numbers.
#[derive(Clone, Debug, Default)]
pub struct RunningCalls(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    all: Arc<CallCount>,
    /// Counts of the tools with running calls, and of some without.
    tools: Mutex<HashMap<Box<str>, Arc<CallCount>>>,
    /// Of callers.
    hasher: RandomState,
    /// Circuit breakers that are not closed.
    open_breakers: SharedCounter,
}

/// Running calls, in total and of each caller.
#[derive(Debug, Default)]
struct CallCount {
    all: SharedCounter,
    /// By the hash of the caller; not zero.
    callers: Mutex<HashMap<u64, usize>>,
}

/// A call that runs; dropped when its handler has ended.
#[derive(Debug, Default)]
pub struct RunningCall {
    all: Option<CountedCall>,
    tool: Option<CountedCall>,
}

/// A call in one count.
#[derive(Debug)]
struct CountedCall {
    count: Arc<CallCount>,
    caller: Option<u64>,
}

impl CallCount {
    /// Counts a call, if it is one of at most `max`, and of half as many of its caller.
    fn start(self: Arc<Self>, max: usize, caller: Option<u64>) -> Option<CountedCall> {
        if !self.all.try_acquire(max) {
            return None;
        }
        let call = CountedCall { count: self, caller };
        let Some(caller) = caller else { return Some(call) };
        let mut callers = call.count.lock();
        let running = callers.entry(caller).or_default();
        *running += 1;
        let is_admitted = *running <= max.div_ceil(2);
        drop(callers);
        is_admitted.then_some(call)
    }

    /// No code panics with the lock held.
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, usize>> {
        self.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CountedCall {
    fn drop(&mut self) {
        let Self { count, caller } = self;
        if let Some(caller) = *caller {
            let mut callers = count.lock();
            if let Some(running) = callers.get_mut(&caller) {
                *running -= 1;
                if *running == 0 {
                    callers.remove(&caller);
                }
            }
        }
        count.all.release();
    }
}

impl RunningCalls {
    /// Returns the number of running calls, if they are limited in total.
    pub fn count(&self) -> usize {
        self.0.all.all.count()
    }

    /// Returns a random number, the same for each shard.
    pub(super) fn draw(&self) -> u64 {
        self.0.hasher.hash_one(())
    }

    /// The number of circuit breakers that are not closed.
    pub fn open_breakers(&self) -> &SharedCounter {
        &self.0.open_breakers
    }

    /// Counts a call of `caller`, with the limit of its tool.
    ///
    /// # Errors
    ///
    /// The option whose limit is reached.
    pub(super) fn start(
        &self,
        caller: CallerId<'_>,
        calls_max: Option<usize>,
        tool: Option<(&str, usize)>,
    ) -> Result<RunningCall, &'static str> {
        let mut running = RunningCall::default();
        let caller = self.hash(caller);
        if let Some(max) = calls_max {
            let call = Arc::clone(&self.0.all).start(max, caller);
            running.all = Some(call.ok_or("overload.calls_max")?);
        }
        if let Some((name, max)) = tool {
            let call = self.count_of(name).start(max, caller);
            running.tool = Some(call.ok_or("overload.tool_calls_max")?);
        }
        Ok(running)
    }

    fn hash(&self, CallerId { principal, address }: CallerId<'_>) -> Option<u64> {
        let hasher = &self.0.hasher;
        match principal {
            Some(it) => Some(hasher.hash_one((it.issuer(), it.id(), it.client_id()))),
            None => address.map(|address| hasher.hash_one(address)),
        }
    }

    fn count_of(&self, tool: &str) -> Arc<CallCount> {
        let mut tools = self.0.tools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(counter) = tools.get(tool) {
            return Arc::clone(counter);
        }
        if tools.len() == tools.capacity() {
            // Before the table grows: only running calls hold their counts.
            tools.retain(|_, counter| Arc::strong_count(counter) > 1);
        }
        Arc::clone(tools.entry(tool.into()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_limit_counts_calls_until_they_end() {
        let calls = RunningCalls::default();
        let start = |tool| calls.start(CallerId::default(), Some(3), Some((tool, 1)));
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
    fn caller_gets_half_of_the_places() {
        let calls = RunningCalls::default();
        let [ada, bob] = ["ada", "bob"].map(Principal::new);
        let address = ClientAddress::new([192, 0, 2, 1].into());
        let callers = [
            CallerId { principal: Some(&ada), address },
            CallerId { principal: Some(&bob), address },
            CallerId { principal: None, address },
        ];
        for calls_max in [None, Some(9)] {
            let tool = calls_max.is_none().then_some(("a", 9));
            let mut running = vec![];
            for caller in callers {
                let start = || calls.start(caller, calls_max, tool);
                let started: Vec<_> = std::iter::from_fn(|| start().ok()).collect();
                running.push(started);
            }
            assert_eq!(running.iter().map(Vec::len).collect::<Vec<_>>(), [5, 4, 0]);
            running[0].pop();
            // Exempt addresses have no limit of their own.
            assert!(calls.start(CallerId::default(), calls_max, tool).is_ok());
            assert!(calls.start(callers[1], calls_max, tool).is_ok());
        }
        assert!(calls.0.all.lock().is_empty() && calls.count() == 0);
        assert_eq!(Arc::strong_count(&calls.count_of("a")), 2);
    }

    #[test]
    fn counters_of_idle_tools_are_removed() {
        let calls = RunningCalls::default();
        let running = calls.start(CallerId::default(), None, Some(("a", 1))).unwrap();
        for number in 0..1_000 {
            let tool = format!("tool {number}");
            assert!(calls.start(CallerId::default(), None, Some((&tool, 1))).is_ok());
        }
        assert!(calls.0.tools.lock().unwrap().len() < 100);
        assert!(calls.start(CallerId::default(), None, Some(("a", 1))).is_err());
        drop(running);
    }
}
