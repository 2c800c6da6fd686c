//! The calls of a session: in flight, and waiting to be sent.
//!
//! Invariants: an id is used once in a session; a call is in one of the two places, or taken by
//! the session while it waits for input; the earliest deadline is never later than that of any
//! call.

use std::collections::VecDeque;
use std::time::Duration;

use super::followed_task::FollowedTask;
use super::in_flight::InFlightCalls;
use super::request::CallRequest;
use corelane_base::time::Instant;
use corelane_protocol::jsonrpc::Id;

/// A call and its request.
#[derive(Debug)]
pub(super) struct Call<T> {
    pub(super) token: T,
    pub(super) request: Box<CallRequest>,
    pub(super) timeout: Duration,
    /// The id of its first request, which names the call.
    pub(super) first_id: u64,
    /// Requests that were answered with `input_required`.
    pub(super) rounds: u32,
    /// Times that it was sent again after a failure.
    pub(super) repeats: u32,
    /// The task that the request in flight is about.
    pub(super) task: Option<Box<FollowedTask>>,
    deadline: Instant,
}

impl<T> Call<T> {
    pub(super) const fn deadline(&self) -> Instant {
        self.deadline
    }
}

#[derive(Debug)]
pub(super) struct CallTable<T> {
    in_flight: InFlightCalls<Call<T>>,
    waiting: VecDeque<Call<T>>,
    /// Calls that have failed and are sent again later; they do not expire meanwhile.
    delayed: Vec<(Instant, Call<T>)>,
    last_id: u64,
    /// No call expires before this.
    earliest: Option<Instant>,
    /// No call expires while the server waits for input of the client.
    paused_at: Option<Instant>,
}

impl<T> CallTable<T> {
    pub(super) fn new() -> Self {
        Self {
            in_flight: InFlightCalls::new(),
            waiting: VecDeque::new(),
            delayed: Vec::new(),
            last_id: 0,
            earliest: None,
            paused_at: None,
        }
    }

    /// Returns an id that this session has not used.
    pub(super) const fn allocate_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Returns the id that is allocated next.
    pub(super) const fn next_id(&self) -> u64 {
        self.last_id + 1
    }

    /// Returns whether this session has used `id`.
    pub(super) const fn was_allocated(&self, id: u64) -> bool {
        id >= 1 && id <= self.last_id
    }

    pub(super) fn in_flight_count(&self) -> usize {
        self.in_flight.len()
    }

    /// Returns the id of the only call in flight.
    pub(super) fn only_in_flight(&self) -> Option<u64> {
        let mut ids = self.in_flight.iter().map(|(id, _)| id);
        ids.next().filter(|_| ids.next().is_none())
    }

    /// Returns the calls in flight whose callers provide input, by the ids of their first requests.
    pub(super) fn with_input(&self) -> impl Iterator<Item = u64> {
        let calls = self.in_flight.iter().map(|(_, call)| call);
        calls.filter(|call| call.request.declared.is_some()).map(|call| call.first_id)
    }

    /// Returns the call in flight whose first request had this id.
    pub(super) fn find_first(&self, first_id: u64) -> Option<&Call<T>> {
        self.in_flight.iter().map(|(_, call)| call).find(|call| call.first_id == first_id)
    }

    pub(super) fn waiting_count(&self) -> usize {
        self.waiting.len()
    }

    /// Creates a call that expires after `timeout`.
    pub(super) fn create(
        &mut self,
        request: Box<CallRequest>,
        token: T,
        timeout: Duration,
        now: Instant,
    ) -> Call<T> {
        let first_id = self.allocate_id();
        let (rounds, repeats, task, deadline) = (0, 0, None, now);
        let mut call = Call { token, request, timeout, first_id, rounds, repeats, task, deadline };
        self.restart_timeout(&mut call, now);
        call
    }

    /// Gives a call its whole time again.
    pub(super) fn restart_timeout(&mut self, call: &mut Call<T>, now: Instant) {
        call.deadline = now.after(call.timeout);
        let deadline = self.earliest.map_or(call.deadline, |earliest| earliest.min(call.deadline));
        self.earliest = Some(deadline);
    }

    /// Gives a call in flight its whole time again if its progress does so.
    pub(super) fn extend(&mut self, id: u64, now: Instant) {
        if let Some(call) = self.in_flight.get_mut(id)
            && call.request.is_extended_by_progress
        {
            call.deadline = now.after(call.timeout);
        }
    }

    /// Adds a call that is being sent with this id.
    pub(super) fn insert(&mut self, id: u64, call: Call<T>) {
        self.in_flight.insert(id, call);
    }

    /// Queues a call.
    pub(super) fn push_waiting(&mut self, call: Call<T>) {
        self.waiting.push_back(call);
    }

    /// Takes the next call to send.
    pub(super) fn pop_waiting(&mut self) -> Option<Call<T>> {
        self.waiting.pop_front()
    }

    pub(super) fn get(&self, id: u64) -> Option<&Call<T>> {
        self.in_flight.get(id)
    }

    /// Takes the call that a response belongs to.
    pub(super) fn remove(&mut self, id: u64) -> Option<Call<T>> {
        self.in_flight.remove(id)
    }

    /// Returns a call in flight by the id of its first request.
    pub(super) fn find(&self, first_id: u64) -> Option<&Call<T>> {
        let mut others = self.in_flight.iter().map(|(_, call)| call);
        let call = self.in_flight.get(first_id);
        call.or_else(|| others.find(|call| call.first_id == first_id))
    }

    /// Takes a call by the id of its first request, with the id of the one in flight.
    pub(super) fn remove_call(&mut self, first_id: u64) -> Option<(Option<u64>, Call<T>)> {
        // Calls wait in the order of their ids.
        if let Ok(index) = self.waiting.binary_search_by_key(&first_id, |call| call.first_id) {
            return Some((None, self.waiting.remove(index)?));
        }
        if let Some(index) = self.delayed.iter().position(|(_, call)| call.first_id == first_id) {
            return Some((None, self.delayed.swap_remove(index).1));
        }
        let id = match self.in_flight.get(first_id) {
            Some(_) => first_id,
            None => self.in_flight.iter().find(|(_, call)| call.first_id == first_id)?.0,
        };
        Some((Some(id), self.in_flight.remove(id)?))
    }

    /// Returns when [`CallTable::take_expired`] must be called next.
    pub(super) const fn deadline(&self) -> Option<Instant> {
        if self.paused_at.is_some() { None } else { self.earliest }
    }

    /// Lets no call expire until [`CallTable::resume_unless`].
    pub(super) fn pause(&mut self, now: Instant) {
        self.paused_at.get_or_insert(now);
    }

    /// Ends a pause, which does not count for the calls, unless it must go on.
    pub(super) fn resume_unless(&mut self, is_paused: bool, now: Instant) {
        let Some(paused_at) = self.paused_at.take_if(|_| !is_paused) else { return };
        let pause = now.since(paused_at);
        self.delayed.iter_mut().for_each(|(time, _)| *time = time.after(pause));
        for call in self.in_flight.iter_mut().chain(&mut self.waiting) {
            call.deadline = call.deadline.after(pause);
        }
        self.find_earliest();
    }

    /// Lets each call expire so much later.
    pub(super) fn postpone(&mut self, pause: Duration) {
        self.delayed.iter_mut().for_each(|(time, _)| *time = time.after(pause));
        for call in self.in_flight.iter_mut().chain(&mut self.waiting) {
            call.deadline = call.deadline.after(pause);
        }
        self.paused_at = self.paused_at.map(|paused_at| paused_at.after(pause));
        self.find_earliest();
    }

    fn find_earliest(&mut self) {
        let in_flight = self.in_flight.iter().map(|(_, call)| call);
        let calls = in_flight.chain(&self.waiting);
        let deadlines = calls.map(|call| call.deadline);
        self.earliest = deadlines.chain(self.delayed.iter().map(|(at, _)| *at)).min();
    }

    /// Keeps a call that is sent again at `time`.
    pub(super) fn delay(&mut self, call: Call<T>, time: Instant) {
        self.delayed.push((time, call));
        self.earliest = Some(self.earliest.map_or(time, |earliest| earliest.min(time)));
    }

    /// Returns how many calls are sent again later.
    pub(super) const fn delayed_count(&self) -> usize {
        self.delayed.len()
    }

    /// Takes the calls that are sent again now, in the order in which they were made.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Call<T>> {
        if self.paused_at.is_some() || self.delayed.iter().all(|(time, _)| *time > now) {
            return Vec::new();
        }
        let due = self.delayed.extract_if(.., |(time, _)| *time <= now);
        let mut due: Vec<_> = due.map(|(_, call)| call).collect();
        due.sort_unstable_by_key(|call| call.first_id);
        self.find_earliest();
        due
    }

    /// Takes all calls that are sent again later.
    pub(super) fn take_delayed(&mut self) -> impl Iterator<Item = Call<T>> {
        self.delayed.drain(..).map(|(_, call)| call)
    }

    /// Queues a call in the place that follows from its id.
    pub(super) fn insert_waiting(&mut self, call: Call<T>) {
        let index = self.waiting.partition_point(|other| other.first_id < call.first_id);
        self.waiting.insert(index, call);
    }

    /// Takes the calls that have expired, in flight first, with the ids of their requests.
    pub(super) fn take_expired(&mut self, now: Instant) -> Vec<(Option<u64>, Call<T>)> {
        if self.deadline().is_none_or(|earliest| earliest > now) {
            return Vec::new();
        }
        let in_flight = self.in_flight.take_if(|call| call.deadline <= now);
        let mut expired: Vec<_> =
            in_flight.into_iter().map(|(id, call)| (Some(id), call)).collect();
        for call in std::mem::take(&mut self.waiting) {
            if call.deadline <= now {
                expired.push((None, call));
            } else {
                self.waiting.push_back(call);
            }
        }
        self.find_earliest();
        expired
    }

    /// Takes the calls in flight, in the order of their ids.
    pub(super) fn take_in_flight(&mut self) -> Vec<Call<T>> {
        let in_flight = self.in_flight.take_all();
        self.find_earliest();
        in_flight.into_iter().map(|(_, call)| call).collect()
    }

    /// Queues calls before those that wait already, which were made later.
    pub(super) fn push_waiting_first(&mut self, mut calls: Vec<Call<T>>) {
        calls.sort_unstable_by_key(|call| call.first_id);
        for call in calls.into_iter().rev() {
            self.waiting.push_front(call);
        }
        self.find_earliest();
    }

    /// Takes all calls, in the order of their ids, with whether they were sent.
    pub(super) fn take_all(&mut self) -> Vec<(Call<T>, bool)> {
        (self.earliest, self.paused_at) = (None, None);
        let in_flight = self.in_flight.take_all();
        let in_flight = in_flight.into_iter().map(|(_, call)| (call, true));
        let delayed = self.delayed.drain(..).map(|(_, call)| (call, true));
        let sent = in_flight.chain(delayed);
        sent.chain(self.waiting.drain(..).map(|call| (call, false))).collect()
    }
}

/// Returns the id of a request of this client, which are positive integers.
pub(super) fn own_id(id: Id<'_>) -> Option<u64> {
    u64::try_from(id.as_i64()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_protocol::eras::Method;

    fn at(seconds: u64) -> Instant {
        Instant::ORIGIN.after(Duration::from_secs(seconds))
    }

    #[test]
    fn expired_calls_are_taken_once() {
        let mut calls = CallTable::new();
        assert_eq!(calls.deadline(), None);
        let mut create = |token, seconds| {
            let request = Box::new(CallRequest::new(Method::Ping));
            calls.create(request, token, Duration::from_secs(seconds), at(0))
        };
        let [slow, fast, waiting] = [create("slow", 9), create("fast", 2), create("waiting", 3)];
        calls.insert(1, slow);
        calls.insert(2, fast);
        calls.push_waiting(waiting);
        assert_eq!(calls.deadline(), Some(at(2)));
        assert!(calls.take_expired(at(1)).is_empty());

        let expired = calls.take_expired(at(3));
        let expired: Vec<_> = expired.into_iter().map(|(id, call)| (id, call.token)).collect();
        assert_eq!(expired, [(Some(2), "fast"), (None, "waiting")]);
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

    #[test]
    fn calls_to_send_again_precede_others() {
        let mut calls = CallTable::new();
        let mut create = |token| {
            let request = Box::new(CallRequest::new(Method::Ping));
            calls.create(request, token, Duration::from_secs(5), at(0))
        };
        let [first, second, third] = [create("first"), create("second"), create("third")];
        calls.insert(2, second);
        calls.insert(1, first);
        calls.push_waiting(third);
        let in_flight = calls.take_in_flight();
        calls.push_waiting_first(in_flight);
        assert_eq!((calls.in_flight_count(), calls.waiting_count()), (0, 3));
        assert_eq!(calls.deadline(), Some(at(5)));
        assert_eq!(calls.remove_call(2).unwrap().1.token, "second");
        assert_eq!(calls.pop_waiting().unwrap().token, "first");
        assert_eq!(calls.pop_waiting().unwrap().token, "third");
    }

    #[test]
    fn pause_does_not_count_for_calls() {
        let mut calls = CallTable::new();
        let request = Box::new(CallRequest::new(Method::ToolsCall));
        let call = calls.create(request, "call", Duration::from_secs(5), at(0));
        calls.insert(1, call);
        calls.pause(at(4));
        calls.pause(at(90));
        assert_eq!(calls.deadline(), None);
        assert!(calls.take_expired(at(99)).is_empty());
        calls.resume_unless(true, at(50));
        calls.resume_unless(false, at(100));
        assert_eq!(calls.deadline(), Some(at(101)));
        assert_eq!(calls.take_expired(at(101)).len(), 1);
    }
}
