//! The calls of a session: in flight, and waiting to be sent.
//!
//! Invariants: an id is used once in a session; a call is in one of the two places; the earliest
//! deadline is never later than that of any call.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::request::CallRequest;
use crate::base::time::Instant;

/// A request in flight.
#[derive(Debug)]
pub(super) struct Call<T> {
    pub(super) token: T,
    pub(super) timeout: Duration,
    deadline: Instant,
}

/// A request that is not sent yet.
#[derive(Debug)]
pub(super) struct WaitingCall<T> {
    pub(super) id: u64,
    pub(super) request: CallRequest,
    pub(super) call: Call<T>,
}

#[derive(Debug)]
pub(super) struct CallTable<T> {
    in_flight: HashMap<u64, Call<T>>,
    waiting: VecDeque<WaitingCall<T>>,
    last_id: u64,
    /// No call expires before this.
    earliest: Option<Instant>,
}

impl<T> CallTable<T> {
    pub(super) fn new() -> Self {
        Self { in_flight: HashMap::new(), waiting: VecDeque::new(), last_id: 0, earliest: None }
    }

    /// Returns an id that this session has not used.
    pub(super) const fn allocate_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Returns whether this session has used `id`.
    pub(super) const fn was_allocated(&self, id: u64) -> bool {
        id >= 1 && id <= self.last_id
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Creates a call that expires after `timeout`.
    pub(super) fn create(&mut self, token: T, timeout: Duration, now: Instant) -> Call<T> {
        let deadline = now.after(timeout);
        self.earliest = Some(self.earliest.map_or(deadline, |earliest| earliest.min(deadline)));
        Call { token, timeout, deadline }
    }

    /// Adds a call that is being sent.
    pub(super) fn insert(&mut self, id: u64, call: Call<T>) {
        self.in_flight.insert(id, call);
    }

    /// Queues a call.
    pub(super) fn push_waiting(&mut self, call: WaitingCall<T>) {
        self.waiting.push_back(call);
    }

    /// Takes the next call to send.
    pub(super) fn pop_waiting(&mut self) -> Option<WaitingCall<T>> {
        self.waiting.pop_front()
    }

    pub(super) fn get(&self, id: u64) -> Option<&Call<T>> {
        self.in_flight.get(&id)
    }

    /// Takes the call that a response belongs to.
    pub(super) fn remove(&mut self, id: u64) -> Option<Call<T>> {
        self.in_flight.remove(&id)
    }

    /// Takes a call that is not sent yet.
    pub(super) fn remove_waiting(&mut self, id: u64) -> Option<Call<T>> {
        let index = self.waiting.iter().position(|waiting| waiting.id == id)?;
        Some(self.waiting.remove(index)?.call)
    }

    /// Returns when [`CallTable::take_expired`] must be called next.
    pub(super) const fn deadline(&self) -> Option<Instant> {
        self.earliest
    }

    /// Takes the calls that have expired, in flight first, with whether they were sent.
    pub(super) fn take_expired(&mut self, now: Instant) -> Vec<(u64, Call<T>, bool)> {
        if self.earliest.is_none_or(|earliest| earliest > now) {
            return Vec::new();
        }
        let is_expired = |call: &Call<T>| call.deadline <= now;
        let in_flight = self.in_flight.extract_if(|_, call| is_expired(call));
        let mut expired: Vec<_> = in_flight.map(|(id, call)| (id, call, true)).collect();
        expired.sort_unstable_by_key(|(id, ..)| *id);
        for waiting in std::mem::take(&mut self.waiting) {
            if is_expired(&waiting.call) {
                expired.push((waiting.id, waiting.call, false));
            } else {
                self.waiting.push_back(waiting);
            }
        }
        let left = self.in_flight.values().chain(self.waiting.iter().map(|waiting| &waiting.call));
        self.earliest = left.map(|call| call.deadline).min();
        expired
    }

    /// Takes all calls, in the order of their ids, with whether they were sent.
    pub(super) fn take_all(&mut self) -> Vec<(Call<T>, bool)> {
        self.earliest = None;
        let mut in_flight: Vec<_> = self.in_flight.drain().collect();
        in_flight.sort_unstable_by_key(|(id, _)| *id);
        let in_flight = in_flight.into_iter().map(|(_, call)| (call, true));
        in_flight.chain(self.waiting.drain(..).map(|waiting| (waiting.call, false))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::eras::Method;

    fn at(seconds: u64) -> Instant {
        Instant::ORIGIN.after(Duration::from_secs(seconds))
    }

    #[test]
    fn expired_calls_are_taken_once() {
        let mut calls = CallTable::new();
        assert_eq!(calls.deadline(), None);
        for (token, seconds) in [("slow", 9), ("fast", 2)] {
            let id = calls.allocate_id();
            let call = calls.create(token, Duration::from_secs(seconds), at(0));
            calls.insert(id, call);
        }
        let (id, request) = (calls.allocate_id(), CallRequest::new(Method::Ping));
        let call = calls.create("waiting", Duration::from_secs(3), at(0));
        calls.push_waiting(WaitingCall { id, request, call });
        assert_eq!(calls.deadline(), Some(at(2)));
        assert!(calls.take_expired(at(1)).is_empty());

        let expired = calls.take_expired(at(3));
        let expired: Vec<_> =
            expired.into_iter().map(|(id, call, sent)| (id, call.token, sent)).collect();
        assert_eq!(expired, [(2, "fast", true), (3, "waiting", false)]);
        assert_eq!(calls.deadline(), Some(at(9)));
        assert_eq!(calls.take_all().len(), 1);
        assert_eq!(calls.deadline(), None);
    }

    #[test]
    fn request_ids_are_never_reused() {
        let mut calls = CallTable::<()>::new();
        let ids: Vec<u64> = (0..3).map(|_| calls.allocate_id()).collect();
        assert_eq!(ids, [1, 2, 3]);
        assert!(!calls.was_allocated(0) && calls.was_allocated(3) && !calls.was_allocated(4));
    }
}
