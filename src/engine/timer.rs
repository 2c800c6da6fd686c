//! A hierarchical timer wheel for tens of thousands of deadlines.
//!
//! Eight levels of 64 slots, one digit of the deadline's tick each (Varghese and Lauck, 1987,
//! scheme 7). An entry is stored at the highest digit in which its tick differs from the current
//! one, moves down when that digit is reached, and therefore moves at most seven times.
//!
//! Invariants:
//!
//! - Nothing expires early, and [`TimerWheel::pop_expired`] at [`TimerWheel::next_deadline`] or
//!   later returns everything that is due: an entry is late by less than one tick (1 ms).
//! - Entries expire in the order of their ticks; within one tick the order is repeatable but
//!   unspecified.
//! - There is no periodic tick: [`TimerWheel::next_deadline`] is the exact tick of the earliest
//!   entry, so that an idle shard sleeps until then.
//! - An entry costs 12 bytes more than `T`, which is aligned to 4 bytes or less: 20 bytes for the
//!   key of a connection. Entries are reused, so a warm wheel allocates nothing.
//!
//! Entries cannot be cancelled. An owner whose deadline moves checks on expiry whether its time has
//! come and inserts again if not (lazy re-arming); a generational key as payload identifies entries
//! of removed owners. An idle timeout of five minutes thus costs one insertion in five minutes,
//! however busy its connection is. Owners that come and go faster than their deadlines call
//! [`TimerWheel::purge_stale`].

use corelane_base::time::Instant;

/// The deadlines of one shard, with a payload each.
#[derive(Debug)]
pub struct TimerWheel<T: Copy> {
    entries: Vec<Entry<T>>,
    free_head: u32,
    /// Entries whose tick has been reached and that have not been popped.
    due_head: u32,
    len: usize,
    /// The tick up to which the wheel has advanced; every entry in a slot is later.
    current_tick: u64,
    levels: Box<[Level; LEVELS]>,
}

/// The 64 slots of one digit.
#[derive(Clone, Copy, Debug)]
struct Level {
    /// One bit for each slot that holds an entry.
    occupied: u64,
    /// The head of each slot's list.
    heads: [u32; SLOTS],
    /// The earliest tick in each slot; unspecified for an empty one. Exact, because a slot is only
    /// emptied as a whole.
    earliest: [u64; SLOTS],
}

/// Packed, so that the tick is not aligned to 8 bytes: each connection has one or two entries.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(4))]
struct Entry<T: Copy> {
    tick: u64,
    payload: T,
    next: u32,
}

impl<T: Copy> Default for TimerWheel<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Copy> TimerWheel<T> {
    /// Creates an empty wheel at the clock's origin. Cost: 6 KiB.
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// Creates an empty wheel with capacity for `entries`.
    pub fn with_capacity(entries: usize) -> Self {
        let level = Level { occupied: 0, heads: [NIL; SLOTS], earliest: [0; SLOTS] };
        Self {
            entries: Vec::with_capacity(entries),
            free_head: NIL,
            due_head: NIL,
            len: 0,
            current_tick: 0,
            levels: Box::new([level; LEVELS]),
        }
    }

    /// Bytes of one entry.
    pub const ENTRY_BYTES: usize = size_of::<Entry<T>>();

    /// Returns the bytes of the entries.
    pub const fn allocated_bytes(&self) -> usize {
        self.entries.capacity() * Self::ENTRY_BYTES
    }

    /// Inserts `payload`, to expire at `deadline`, or at the next check if that has passed.
    ///
    /// # Panics
    ///
    /// If 2^32 − 1 entries are waiting.
    pub fn insert(&mut self, deadline: Instant, payload: T) {
        self.insert_at_tick(deadline.nanoseconds().div_ceil(TICK_NANOSECONDS), payload);
    }

    fn insert_at_tick(&mut self, tick: u64, payload: T) {
        let entry = Entry { tick, payload, next: NIL };
        let index = self.free_head;
        let index = if index == NIL {
            let index = u32::try_from(self.entries.len()).unwrap_or(NIL);
            assert_ne!(index, NIL, "more than 2^32 - 1 timers");
            self.entries.push(entry);
            index
        } else {
            self.free_head = self.entries[index as usize].next;
            self.entries[index as usize] = entry;
            index
        };
        self.len += 1;
        self.link(index, tick);
    }

    /// Removes the entries of removed owners once they far outnumber the `live` ones. To be called
    /// before each insertion if owners come and go faster than their deadlines. Cost, amortized:
    /// one entry checked for each insertion, and a new wheel from time to time.
    pub fn purge_stale(&mut self, live: usize, is_live: impl Fn(&T) -> bool) {
        if self.len <= PURGE_FACTOR * live + PURGE_MIN {
            return;
        }
        let mut purged = Self { current_tick: self.current_tick, ..Self::with_capacity(PURGE_MIN) };
        let slots = self.levels.iter().flat_map(|level| level.heads);
        for first in slots.chain([self.due_head]) {
            let mut index = first;
            while index != NIL {
                let Entry { tick, payload, next } = self.entries[index as usize];
                if is_live(&payload) {
                    purged.insert_at_tick(tick, payload);
                }
                index = next;
            }
        }
        *self = purged;
    }

    /// Removes one entry that is due at `now`, or returns `None` if none is (left). The caller may
    /// insert between two calls, and may stop early to bound its turn:
    /// [`TimerWheel::next_deadline`] is then in the past.
    pub fn pop_expired(&mut self, now: Instant) -> Option<T> {
        let tick_now = now.nanoseconds() / TICK_NANOSECONDS;
        while self.due_head == NIL {
            if !self.advance(tick_now) {
                return None;
            }
        }
        let index = self.due_head;
        let Entry { payload, next, .. } = self.entries[index as usize];
        self.due_head = next;
        self.entries[index as usize].next = self.free_head;
        self.free_head = index;
        self.len -= 1;
        Some(payload)
    }

    /// Returns when the earliest entry expires, or `None` if the wheel is empty. Cost: at most
    /// eight comparisons.
    pub fn next_deadline(&self) -> Option<Instant> {
        if self.len == 0 {
            return None;
        }
        let tick = if self.due_head == NIL {
            // Entries of a lower level share more digits with the current tick: they come first.
            let level = self.levels.iter().find(|level| level.occupied != 0)?;
            level.earliest[level.occupied.trailing_zeros() as usize]
        } else {
            self.current_tick
        };
        Some(Instant::from_nanoseconds(tick.saturating_mul(TICK_NANOSECONDS)))
    }

    /// Returns the number of entries, including those of removed owners.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the wheel has no entries.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Links an entry into the slot of its tick, relative to the current one.
    fn link(&mut self, index: u32, tick: u64) {
        if tick <= self.current_tick {
            self.entries[index as usize].next = self.due_head;
            self.due_head = index;
            return;
        }
        let digit_highest = (tick ^ self.current_tick).ilog2() as usize;
        let level = digit_highest / DIGIT_BITS;
        let slot = digit(tick, level);
        let level = &mut self.levels[level];
        let bit = 1 << slot;
        if level.occupied & bit == 0 {
            level.occupied |= bit;
            level.earliest[slot] = tick;
        } else {
            level.earliest[slot] = level.earliest[slot].min(tick);
        }
        self.entries[index as usize].next = level.heads[slot];
        level.heads[slot] = index;
    }

    /// Advances to the next occupied slot that starts at or before `tick_now` and moves its entries
    /// down. Returns `false` if there is none, with the current tick set to `tick_now`.
    fn advance(&mut self, tick_now: u64) -> bool {
        let next = self.levels.iter().position(|level| level.occupied != 0).map(|level| {
            let slot = self.levels[level].occupied.trailing_zeros() as usize;
            (level, slot, slot_start(self.current_tick, level, slot))
        });
        let Some((level, slot, begin)) = next.filter(|&(.., begin)| begin <= tick_now) else {
            // No occupied slot starts in between, so no entry's highest differing digit changes.
            self.current_tick = self.current_tick.max(tick_now);
            return false;
        };
        debug_assert!(begin > self.current_tick, "entries of the current tick are in the due list");
        self.current_tick = begin;
        let level = &mut self.levels[level];
        level.occupied &= !(1 << slot);
        let mut index = std::mem::replace(&mut level.heads[slot], NIL);
        while index != NIL {
            let Entry { tick, next, .. } = self.entries[index as usize];
            self.link(index, tick);
            index = next;
        }
        true
    }
}

/// Returns the digit of `tick` at `level`.
#[expect(clippy::cast_possible_truncation, reason = "masked to six bits")]
const fn digit(tick: u64, level: usize) -> usize {
    (tick >> (level * DIGIT_BITS)) as usize & (SLOTS - 1)
}

/// Returns the first tick of a slot: the digits of `present` above `level`, then `slot`, then
/// zeros.
const fn slot_start(present: u64, level: usize, slot: usize) -> u64 {
    let shift = level * DIGIT_BITS;
    let above = shift + DIGIT_BITS;
    (present >> above << above) | ((slot as u64) << shift)
}

const TICK_NANOSECONDS: u64 = 1_000_000;
const DIGIT_BITS: usize = 6;
const SLOTS: usize = 1 << DIGIT_BITS;
/// Eight digits hold every tick of an [`Instant`]: 2⁶⁴ ns are fewer than 2⁴⁵ ms.
const LEVELS: usize = 8;
const NIL: u32 = u32::MAX;
/// Entries below which a wheel is not purged: about 24 KiB.
const PURGE_MIN: usize = 1024;
/// Entries per live owner above which a wheel is purged. A live owner has one or two entries, so at
/// least half of the entries are stale then.
const PURGE_FACTOR: usize = 4;

const _: () = assert!(u64::MAX / TICK_NANOSECONDS < 1 << (LEVELS * DIGIT_BITS));
const _: () = assert!(size_of::<Entry<corelane_base::slab::Key>>() <= 20);

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use corelane_base::random::Random;

    const fn at(milliseconds: u64) -> Instant {
        Instant::from_milliseconds(milliseconds)
    }

    fn drain<T: Copy>(wheel: &mut TimerWheel<T>, now: Instant) -> Vec<T> {
        std::iter::from_fn(|| wheel.pop_expired(now)).collect()
    }

    #[test]
    fn entry_expires_exactly_at_its_deadline() {
        for milliseconds in [1, 63, 64, 65, 4_095, 4_096, 300_000, 86_400_000, 1 << 43] {
            let mut wheel = TimerWheel::new();
            wheel.insert(at(milliseconds), 'a');
            assert_eq!(wheel.next_deadline(), Some(at(milliseconds)));
            assert!(drain(&mut wheel, at(milliseconds - 1)).is_empty());
            assert_eq!(wheel.next_deadline(), Some(at(milliseconds)));
            assert_eq!(drain(&mut wheel, at(milliseconds)), ['a']);
            assert_eq!(wheel.next_deadline(), None);
        }
    }

    #[test]
    fn deadline_is_rounded_up_to_a_tick() {
        let mut wheel = TimerWheel::new();
        let deadline = Instant::from_nanoseconds(1_000_001);
        wheel.insert(deadline, ());
        assert_eq!(wheel.next_deadline(), Some(at(2)));
        assert!(drain(&mut wheel, deadline).is_empty());
        assert_eq!(drain(&mut wheel, at(2)).len(), 1);
    }

    #[test]
    fn past_deadline_expires_immediately() {
        let mut wheel = TimerWheel::new();
        assert!(drain(&mut wheel, at(500)).is_empty());
        wheel.insert(at(3), 'a');
        assert!(wheel.next_deadline().unwrap() <= at(500));
        assert_eq!(wheel.pop_expired(at(500)), Some('a'));
    }

    #[test]
    fn greatest_instant_is_a_valid_deadline() {
        let mut wheel = TimerWheel::new();
        let end = Instant::from_nanoseconds(u64::MAX);
        wheel.insert(end, 'z');
        wheel.insert(at(7), 'a');
        assert_eq!(drain(&mut wheel, at(7)), ['a']);
        assert_eq!(wheel.next_deadline(), Some(end));
        // The rounded deadline lies after the greatest instant.
        assert!(drain(&mut wheel, end).is_empty());
        assert_eq!(wheel.len(), 1);
    }

    #[test]
    fn bounded_drain_leaves_the_rest_due() {
        let mut wheel = TimerWheel::new();
        for number in 0..10 {
            wheel.insert(at(5), number);
        }
        let mut expired: Vec<_> = (0..4).filter_map(|_| wheel.pop_expired(at(9))).collect();
        assert_eq!((expired.len(), wheel.len()), (4, 6));
        assert!(wheel.next_deadline().unwrap() <= at(9));
        expired.extend(drain(&mut wheel, at(9)));
        expired.sort_unstable();
        assert_eq!(expired, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn insertion_while_draining_is_allowed() {
        let mut wheel = TimerWheel::new();
        wheel.insert(at(10), 0);
        let mut rounds = 0;
        for turn in 1..=1_000 {
            let now = at(turn * 10);
            while let Some(number) = wheel.pop_expired(now) {
                rounds += 1;
                wheel.insert(now.after(Duration::from_millis(10)), number + 1);
            }
        }
        assert_eq!((rounds, wheel.len()), (1_000, 1));
    }

    #[test]
    fn stale_entries_are_purged_live_ones_kept() {
        let mut wheel = TimerWheel::new();
        let lasting: Vec<u64> = (0..100).map(|number| 1_000 + number * 7).collect();
        for deadline in &lasting {
            wheel.insert(at(*deadline), (true, *deadline));
        }
        assert!(drain(&mut wheel, at(10)).is_empty());
        wheel.insert(at(5), (true, 0));
        for number in 0..1_000_000 {
            wheel.purge_stale(lasting.len() + 1, |(is_live, _)| *is_live);
            wheel.insert(at(300_000 + number % 1_000), (false, number));
            assert!(wheel.len() < 2_000);
        }
        wheel.purge_stale(0, |(is_live, _)| *is_live);
        assert_eq!(wheel.pop_expired(at(10)), Some((true, 0)));
        assert_eq!(wheel.next_deadline(), Some(at(1_000)));
        let expired = drain(&mut wheel, at(299_999));
        assert!(expired.into_iter().eq(lasting.into_iter().map(|deadline| (true, deadline))));
    }

    #[test]
    fn warm_wheel_does_not_allocate() {
        let mut wheel = TimerWheel::new();
        let mut capacity = 0;
        for turn in 0..50 {
            for number in 0..1_000 {
                wheel.insert(at(turn * 1_000 + number + 1), number);
            }
            assert_eq!(drain(&mut wheel, at((turn + 1) * 1_000)).len(), 1_000);
            if turn == 0 {
                capacity = wheel.entries.capacity();
            }
        }
        assert_eq!(wheel.entries.capacity(), capacity);
    }

    /// Compares the wheel with a sorted list: the same entries at the same instants in the same
    /// order of ticks, and the same next deadline after every step.
    #[test]
    fn timer_wheel_agrees_with_sorted_list() {
        for seed in 0..200 {
            let mut random = Random::seeded(seed);
            let (mut wheel, mut list) = (TimerWheel::new(), Vec::<(u64, usize)>::new());
            let mut now = Instant::ORIGIN;
            for number in 0..300 {
                let span = random.next_u64() >> (20 + random.below(44));
                let deadline = now.after(Duration::from_nanos(span));
                wheel.insert(deadline, number);
                list.push((deadline.nanoseconds().div_ceil(TICK_NANOSECONDS), number));
                if random.chance(1, 3) {
                    now = now
                        .after(Duration::from_nanos(random.next_u64() >> (20 + random.below(44))));
                    let tick_now = now.nanoseconds() / TICK_NANOSECONDS;
                    let mut expired = Vec::new();
                    while let Some(payload) = wheel.pop_expired(now) {
                        expired.push(payload);
                    }
                    let tick_of =
                        |number: usize| list.iter().find(|entry| entry.1 == number).unwrap().0;
                    let ticks: Vec<u64> = expired.iter().map(|&n| tick_of(n)).collect();
                    assert!(ticks.is_sorted(), "seed {seed}");
                    assert!(ticks.iter().all(|&tick| tick <= tick_now), "seed {seed}");
                    list.retain(|entry| !expired.contains(&entry.1));
                }
                let tick_now = now.nanoseconds() / TICK_NANOSECONDS;
                let next = list.iter().map(|entry| entry.0).min();
                let actual = wheel.next_deadline().map(Instant::milliseconds);
                match (next, actual) {
                    (Some(next), Some(actual)) if next <= tick_now => assert!(actual <= tick_now),
                    _ => assert_eq!(actual, next, "seed {seed}"),
                }
                assert_eq!(wheel.len(), list.len(), "seed {seed}");
            }
        }
    }
}
