//! When a shard handles large messages and large results, each of which takes milliseconds, and
//! what is left of many requests that one connection has sent at once.
//!
//! A turn that receives much is large work too, whatever it receives.
//!
//! Invariants: while other clients send small messages, the shard rests after large work for as
//! long as it took, so that large work takes at most half of its time; a rest ends, whatever is
//! received meanwhile. Connections with large messages, and large results, take turns in the order
//! in which they came. What is left of many requests waits for the next turn only, not for large
//! work or a rest. Buffers and memory of the parser are kept for a while after large work.

use std::collections::{HashSet, VecDeque};
use std::hash::BuildHasherDefault;
use std::time::Duration;

use corelane_base::id_map::IdHasher;
use corelane_base::slab::Key;
use corelane_base::time::Instant;

use crate::server::shard_message::ShardMessage;

/// The large work of a shard that waits, and when it may go on.
#[derive(Debug, Default)]
pub struct LargeWork {
    /// Start of the turn that did large work, until the next turn.
    done_in: Option<Instant>,
    /// Whether that turn has ended.
    is_turn_over: bool,
    rests_until: Instant,
    /// Time of the last large work.
    last_done: Option<Instant>,
    /// Time of the last small message beside large work.
    others_seen: Option<Instant>,
    /// Connections in the middle of a large message, whose input waits.
    inputs: WaitingKeys,
    /// Connections in the middle of many requests, whose input waits.
    rests: WaitingKeys,
    /// Large results of blocking handlers.
    results: VecDeque<ShardMessage>,
    /// An input was handled last.
    is_result_next: bool,
    /// Inputs returned in this turn.
    resumed: usize,
    /// The same of `rests`.
    resumed_rests: usize,
    /// Bytes received by the shard until the end of the last turn.
    bytes_in: u64,
    /// Memory is kept for the next large work.
    keeps_memory: bool,
    /// That of the parser.
    parser_bytes: usize,
}

/// Connections in the order in which they came, each once.
#[derive(Debug, Default)]
struct WaitingKeys {
    order: VecDeque<Key>,
    keys: HashSet<Key, BuildHasherDefault<IdHasher>>,
}

impl WaitingKeys {
    fn push(&mut self, key: Key) {
        if self.keys.insert(key) {
            self.order.push_back(key);
        }
    }

    fn pop(&mut self) -> Option<Key> {
        let key = self.order.pop_front()?;
        self.keys.remove(&key);
        Some(key)
    }

    #[inline]
    fn contains(&self, key: Key) -> bool {
        !self.order.is_empty() && self.keys.contains(&key)
    }

    fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    fn len(&self) -> usize {
        self.order.len()
    }
}

/// Large work that may go on.
#[derive(Debug)]
pub enum NextWork {
    Input(Key),
    Result(ShardMessage),
}

/// Time for which large work, and a small message, is recent.
const RECENT: Duration = Duration::from_secs(1);

/// Time after large work for which memory is kept for the next.
const KEPT_TIME: Duration = Duration::from_secs(5);

/// Bytes received in one turn from which on it is large work.
const RECEIVED_MAX: u64 = 1 << 20;

/// Waiting inputs read in one turn: each may bring what the kernel has buffered.
const RESUMED_MAX: usize = 2;

/// The same of connections with many requests, of which each handles a few.
const RESUMED_RESTS_MAX: usize = 8;

/// The longest rest: a turn also seems long if the process or its machine was suspended.
const REST_MAX: Duration = Duration::from_secs(1);

impl LargeWork {
    /// Records that this turn has done large work.
    pub const fn record(&mut self, now: Instant) {
        (self.done_in, self.last_done) = (Some(now), Some(now));
        self.is_turn_over = false;
    }

    /// Records that memory is kept until [`LargeWork::free_memory`], `parser_bytes` of it by the
    /// parser.
    pub const fn keep_memory(&mut self, parser_bytes: usize) {
        (self.keeps_memory, self.parser_bytes) = (true, parser_bytes);
    }

    /// Records that the memory is freed.
    pub const fn free_memory(&mut self) {
        (self.keeps_memory, self.parser_bytes) = (false, 0);
    }

    /// Returns the bytes that the parser keeps.
    #[inline]
    pub const fn parser_bytes(&self) -> usize {
        self.parser_bytes
    }

    /// Returns whether memory that is kept has to be freed: no large work was done for a while.
    pub fn ends_memory(&self, now: Instant) -> bool {
        self.keeps_memory && self.last_done.is_none_or(|done| now.since(done) >= KEPT_TIME)
    }

    /// Records the end of a turn that began at `now`; the shard has received `bytes_in` so far.
    #[inline]
    pub const fn end_turn(&mut self, bytes_in: u64, now: Instant) {
        // What a rest receives would be followed by another rest, without large work in between.
        let rests = !self.rests_until.since(now).is_zero();
        if bytes_in - self.bytes_in > RECEIVED_MAX && !rests {
            self.record(now);
        }
        self.bytes_in = bytes_in;
        (self.resumed, self.resumed_rests) = (0, 0);
        self.is_turn_over = true;
    }

    /// Returns whether large work was done lately, so that small messages and the parts of large
    /// ones have to be told apart.
    #[inline]
    pub fn is_active(&self, now: Instant) -> bool {
        is_recent(self.last_done, now)
    }

    /// Records a small message.
    pub const fn record_other(&mut self, now: Instant) {
        self.others_seen = Some(now);
    }

    /// Returns whether the input of a connection in the middle of a large message waits; it is read
    /// when [`LargeWork::next`] returns it.
    pub fn postpone_input(&mut self, key: Key, now: Instant) -> bool {
        let postpones = is_recent(self.others_seen, now)
            && (self.done_in.is_some() || now < self.rests_until || !self.inputs.is_empty());
        if postpones {
            self.inputs.push(key);
        }
        postpones
    }

    /// Has what is left of many requests of a connection wait behind the input of others.
    pub fn push_rest(&mut self, key: Key) {
        self.rests.push(key);
    }

    /// Returns whether the input of a connection waits.
    pub fn is_postponed(&self, key: Key) -> bool {
        self.inputs.contains(key) || self.rests.contains(key)
    }

    /// Adds a large result; it is handled when [`LargeWork::next`] returns it.
    pub fn push_result(&mut self, message: ShardMessage) {
        self.results.push_back(message);
    }

    /// Returns whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.inputs.is_empty() && self.results.is_empty() && self.rests.is_empty()
    }

    /// Returns the number of inputs and results that wait.
    pub fn len(&self) -> usize {
        self.inputs.len() + self.results.len() + self.rests.len()
    }

    /// Takes the next work: what is left of many requests, or large work unless the shard rests or
    /// has done some in this turn.
    pub fn next(&mut self, now: Instant) -> Option<NextWork> {
        if self.resumed_rests < RESUMED_RESTS_MAX
            && let Some(key) = self.rests.pop()
        {
            self.resumed_rests += 1;
            return Some(NextWork::Input(key));
        }
        if self.is_turn_over
            && let Some(done_in) = self.done_in.take()
        {
            let has_others = is_recent(self.others_seen, now);
            let rest = if has_others { now.since(done_in).min(REST_MAX) } else { Duration::ZERO };
            self.rests_until = now.after(rest);
        }
        if self.done_in.is_some() || now < self.rests_until {
            return None;
        }
        let is_result = self.inputs.is_empty() || self.is_result_next && !self.results.is_empty();
        self.is_result_next = !is_result;
        if is_result {
            return self.results.pop_front().map(NextWork::Result);
        }
        if self.resumed == RESUMED_MAX {
            return None;
        }
        self.resumed += 1;
        self.inputs.pop().map(NextWork::Input)
    }

    /// Returns when the next turn must begin at the latest: at once to measure the last one.
    pub fn next_deadline(&self) -> Option<Instant> {
        let work = if self.rests.is_empty() {
            self.done_in.or_else(|| (!self.is_empty()).then_some(self.rests_until))
        } else {
            Some(Instant::ORIGIN)
        };
        if self.keeps_memory { self.with_end_of_memory(work) } else { work }
    }

    #[cold]
    fn with_end_of_memory(&self, work: Option<Instant>) -> Option<Instant> {
        let end = self.last_done.map(|done| done.after(KEPT_TIME));
        Instant::earliest([work, end])
    }
}

fn is_recent(time: Option<Instant>, now: Instant) -> bool {
    time.is_some_and(|time| now.since(time) < RECENT)
}

#[cfg(test)]
mod tests {
    use corelane_base::slab::Slab;

    use super::*;
    use crate::server::shard_message::BroadcastMessage;

    fn at(ms: u64) -> Instant {
        Instant::from_milliseconds(ms)
    }

    fn keys<const COUNT: usize>() -> [Key; COUNT] {
        let mut slab = Slab::new(COUNT);
        [(); COUNT].map(|()| slab.insert(()).unwrap())
    }

    fn result() -> ShardMessage {
        ShardMessage::Broadcast(BroadcastMessage::Drain(None))
    }

    /// Does large work in a turn that begins at `ms`.
    fn work(large_work: &mut LargeWork, ms: u64) {
        large_work.record(at(ms));
        assert!(large_work.next(at(ms)).is_none());
        large_work.end_turn(0, at(ms));
        assert_eq!(large_work.next_deadline(), Some(at(ms)));
    }

    fn next_input(large_work: &mut LargeWork, ms: u64) -> Option<Key> {
        match large_work.next(at(ms))? {
            NextWork::Input(key) => Some(key),
            NextWork::Result(_) => panic!("a result"),
        }
    }

    #[test]
    fn large_messages_wait_only_beside_small_ones() {
        let (mut large_work, [first, _]) = (LargeWork::default(), keys());
        assert!(!large_work.is_active(at(0)) && large_work.next_deadline().is_none());
        work(&mut large_work, 0);
        assert!(large_work.is_active(at(10)) && !large_work.postpone_input(first, at(10)));
        large_work.record_other(at(10));
        assert!(large_work.postpone_input(first, at(10)));
        assert!(large_work.is_postponed(first));
        assert!(!large_work.is_active(at(1_000)));
    }

    #[test]
    fn memory_is_kept_for_a_while() {
        let mut large_work = LargeWork::default();
        work(&mut large_work, 0);
        large_work.keep_memory(100);
        assert!(large_work.next(at(1)).is_none() && !large_work.ends_memory(at(4_999)));
        assert_eq!(large_work.next_deadline(), Some(at(5_000)));
        assert!(large_work.ends_memory(at(5_000)));
        large_work.free_memory();
        assert!(!large_work.ends_memory(at(5_000)) && large_work.parser_bytes() == 0);
        assert_eq!(large_work.next_deadline(), None);
    }

    #[test]
    fn shard_rests_as_long_as_it_worked() {
        let (mut large_work, [first, second]) = (LargeWork::default(), keys());
        large_work.record_other(at(0));
        work(&mut large_work, 0);
        assert!(large_work.postpone_input(first, at(10)));
        assert!(large_work.postpone_input(second, at(10)));
        assert_eq!(next_input(&mut large_work, 10), None);
        assert_eq!(large_work.next_deadline(), Some(at(20)));
        assert_eq!(next_input(&mut large_work, 19), None);
        assert_eq!(next_input(&mut large_work, 20), Some(first));
        work(&mut large_work, 20);
        assert_eq!(next_input(&mut large_work, 30), None);
        assert_eq!(next_input(&mut large_work, 40), Some(second));
        assert!(large_work.is_empty() && large_work.next_deadline().is_none());
    }

    #[test]
    fn suspended_process_does_not_rest_for_long() {
        let (mut large_work, [first, _]) = (LargeWork::default(), keys());
        work(&mut large_work, 0);
        large_work.record_other(at(3_600_000));
        assert!(large_work.postpone_input(first, at(3_600_000)));
        assert_eq!(next_input(&mut large_work, 3_600_000), None);
        assert_eq!(next_input(&mut large_work, 3_601_000), Some(first));
    }

    #[test]
    fn part_of_message_is_followed_by_next() {
        let (mut large_work, [first, second]) = (LargeWork::default(), keys());
        large_work.record_other(at(0));
        work(&mut large_work, 0);
        assert!(large_work.postpone_input(first, at(10)));
        assert!(large_work.postpone_input(second, at(10)));
        assert_eq!(next_input(&mut large_work, 10), None);
        assert_eq!(next_input(&mut large_work, 20), Some(first));
        assert_eq!(next_input(&mut large_work, 20), Some(second));
    }

    #[test]
    fn turn_that_receives_much_is_large_work() {
        let (mut large_work, [first, _]) = (LargeWork::default(), keys());
        large_work.record_other(at(0));
        large_work.end_turn(RECEIVED_MAX, at(0));
        assert!(!large_work.is_active(at(0)));
        large_work.end_turn(2 * RECEIVED_MAX + 1, at(0));
        assert!(large_work.is_active(at(0)) && large_work.postpone_input(first, at(5)));
        assert_eq!(next_input(&mut large_work, 5), None);
        assert_eq!(next_input(&mut large_work, 10), Some(first));
    }

    #[test]
    fn turn_resumes_few_inputs() {
        let mut large_work = LargeWork::default();
        let keys = keys::<{ RESUMED_MAX + 1 }>();
        large_work.record_other(at(0));
        work(&mut large_work, 0);
        for key in keys {
            // Once, however often it is received from.
            assert!(large_work.postpone_input(key, at(0)) && large_work.postpone_input(key, at(0)));
        }
        assert_eq!(large_work.len(), keys.len());
        let [resumed @ .., last] = keys;
        for key in resumed {
            assert_eq!(next_input(&mut large_work, 0), Some(key));
            assert!(!large_work.is_postponed(key) && large_work.is_postponed(last));
        }
        assert_eq!(next_input(&mut large_work, 0), None);
        large_work.end_turn(0, at(0));
        assert_eq!(next_input(&mut large_work, 0), Some(last));
    }

    #[test]
    fn turns_that_receive_much_leave_large_work() {
        let (mut large_work, [first, _]) = (LargeWork::default(), keys());
        large_work.end_turn(2 * RECEIVED_MAX, at(0));
        large_work.record_other(at(10));
        assert!(large_work.postpone_input(first, at(10)));
        let turns = (1..=4).map(|turn| {
            let next = next_input(&mut large_work, 10 * turn);
            large_work.end_turn(2 * (turn + 1) * RECEIVED_MAX, at(10 * turn));
            next
        });
        assert_eq!(turns.collect::<Vec<_>>(), [None, Some(first), None, None]);
    }

    #[test]
    fn rest_of_input_passes_large_work() {
        let (mut large_work, [first, second]) = (LargeWork::default(), keys());
        large_work.record_other(at(0));
        large_work.record(at(0));
        for key in [first, second] {
            large_work.push_rest(key);
        }
        assert!(large_work.is_postponed(second) && large_work.len() == 2);
        assert_eq!(large_work.next_deadline(), Some(Instant::ORIGIN));
        assert_eq!(next_input(&mut large_work, 0), Some(first));
        large_work.end_turn(0, at(0));
        // The rest begins.
        assert_eq!(next_input(&mut large_work, 10), Some(second));
        assert!(large_work.next(at(10)).is_none() && large_work.is_empty());
    }

    #[test]
    fn turn_resumes_few_rests_of_input() {
        let mut large_work = LargeWork::default();
        let [resumed @ .., first, second] = keys::<{ RESUMED_RESTS_MAX + 2 }>();
        resumed.iter().chain([&first]).for_each(|key| large_work.push_rest(*key));
        for key in resumed {
            assert_eq!(next_input(&mut large_work, 0), Some(key));
        }
        assert_eq!(next_input(&mut large_work, 0), None);
        large_work.push_rest(second);
        large_work.end_turn(0, at(0));
        assert_eq!(next_input(&mut large_work, 0), Some(first));
        assert_eq!(next_input(&mut large_work, 0), Some(second));
    }

    #[test]
    fn rest_ends_at_once_without_small_messages() {
        let mut large_work = LargeWork::default();
        work(&mut large_work, 0);
        large_work.push_result(result());
        assert!(matches!(large_work.next(at(10)), Some(NextWork::Result(_))));
    }

    #[test]
    fn inputs_and_results_take_turns() {
        let (mut large_work, [first, second]) = (LargeWork::default(), keys());
        large_work.record_other(at(0));
        work(&mut large_work, 0);
        for key in [first, second] {
            assert!(large_work.postpone_input(key, at(10)));
            large_work.push_result(result());
        }
        assert!(large_work.next(at(10)).is_none());
        assert_eq!(next_input(&mut large_work, 20), Some(first));
        assert!(matches!(large_work.next(at(20)), Some(NextWork::Result(_))));
        assert_eq!(next_input(&mut large_work, 20), Some(second));
        assert!(matches!(large_work.next(at(20)), Some(NextWork::Result(_))));
        assert!(large_work.next(at(20)).is_none());
    }
}
