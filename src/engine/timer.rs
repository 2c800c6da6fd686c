//! The timer wheel: tens of thousands of deadlines, each of them cheap.
//!
//! A hierarchy of eight wheels of 64 slots, one digit of the deadline's tick each (Varghese and
//! Lauck, 1987, scheme 7). An entry stands at the highest digit in which its tick differs from the
//! present one, moves down as that digit is reached, and therefore moves at most seven times.
//!
//! What it keeps true:
//!
//! - Nothing expires early, and a wheel that is asked at [`Wheel::next_deadline`] or later finds
//!   everything that is due: an entry is late by less than one tick ([`TICK`], 1 ms) of its own.
//! - Entries come out in the order of their ticks; within one tick the order is repeatable and
//!   means nothing.
//! - There is no periodic tick: [`Wheel::next_deadline`] is the exact tick of the earliest entry
//!   however far away it is, so that an idle shard sleeps until then.
//! - An entry costs 24 bytes where `T` is at most 12 bytes with 4-byte alignment (or 8 bytes with
//!   8-byte alignment) and nothing else; places are reused, so a warm wheel allocates nothing.
//!
//! What it does not do: cancel. An owner whose deadline moves keeps its entry, and looks when the
//! entry expires whether its time has really come; if not it inserts again (lazy re-arming). A key
//! with a generation as payload tells entries of the dead. An idle timeout of five minutes thus
//! costs one insertion in five minutes however busy its connection is. Owners that come and go
//! faster than their deadlines have [`Wheel::shed`].

use std::time::Duration;

use crate::base::time::Moment;

/// The grain of the wheel: deadlines are rounded up to it.
pub const TICK: Duration = Duration::from_nanos(TICK_NANOSECONDS);

/// Deadlines of one shard with a payload each.
#[derive(Debug)]
pub struct Wheel<T> {
    entries: Vec<Entry<T>>,
    vacant_first: u32,
    /// Entries whose tick has been reached and which nobody has taken yet.
    due_first: u32,
    length: usize,
    /// The tick up to which the wheel has turned; every entry in a slot is later.
    present: u64,
    levels: Box<[Level; LEVELS]>,
}

/// 64 slots of one digit.
#[derive(Clone, Copy, Debug)]
struct Level {
    /// One bit for each slot that holds an entry.
    occupied: u64,
    /// The first entry of each slot's list.
    first: [u32; SLOTS],
    /// The earliest tick in each slot; meaningless where the slot is empty. Exact, because entries
    /// leave a slot only all together.
    earliest: [u64; SLOTS],
}

#[derive(Clone, Copy, Debug)]
struct Entry<T> {
    tick: u64,
    payload: T,
    next: u32,
}

impl<T: Copy> Default for Wheel<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Copy> Wheel<T> {
    /// An empty wheel at the origin of time. Cost: 6 KiB.
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// An empty wheel with room for `entries` before it allocates again.
    pub fn with_capacity(entries: usize) -> Self {
        let level = Level { occupied: 0, first: [NOTHING; SLOTS], earliest: [0; SLOTS] };
        Self {
            entries: Vec::with_capacity(entries),
            vacant_first: NOTHING,
            due_first: NOTHING,
            length: 0,
            present: 0,
            levels: Box::new([level; LEVELS]),
        }
    }

    /// Keeps `payload` until `deadline`. A deadline that has passed expires at the next asking.
    ///
    /// # Panics
    ///
    /// When four thousand million entries wait already.
    pub fn insert(&mut self, deadline: Moment, payload: T) {
        self.enter(deadline.nanoseconds().div_ceil(TICK_NANOSECONDS), payload);
    }

    fn enter(&mut self, tick: u64, payload: T) {
        let entry = Entry { tick, payload, next: NOTHING };
        let index = self.vacant_first;
        let index = if index == NOTHING {
            let index = u32::try_from(self.entries.len()).unwrap_or(NOTHING);
            assert_ne!(index, NOTHING, "a shard has fewer than four thousand million deadlines");
            self.entries.push(entry);
            index
        } else {
            self.vacant_first = self.entries[index as usize].next;
            self.entries[index as usize] = entry;
            index
        };
        self.length += 1;
        self.place(index, tick);
    }

    /// Forgets the entries of dead owners once they outnumber the `living` by far. For owners that
    /// come and go faster than their deadlines: asked before each insertion it keeps their entries
    /// from piling up. Cost: a look at one entry for each insertion on average, and a new wheel
    /// now and then.
    pub fn shed(&mut self, living: usize, is_alive: impl Fn(&T) -> bool) {
        if self.length <= SHED_FACTOR * living + SHED_MIN {
            return;
        }
        let mut kept = Self { present: self.present, ..Self::with_capacity(SHED_MIN) };
        let slots = self.levels.iter().flat_map(|level| level.first);
        for first in slots.chain([self.due_first]) {
            let mut index = first;
            while index != NOTHING {
                let Entry { tick, payload, next } = self.entries[index as usize];
                if is_alive(&payload) {
                    kept.enter(tick, payload);
                }
                index = next;
            }
        }
        *self = kept;
    }

    /// Takes one entry that is due at `now`; `None` when nothing (more) is. The caller may insert
    /// between two calls, and may stop to bound its turn: [`Wheel::next_deadline`] is then in the
    /// past.
    pub fn pop_expired(&mut self, now: Moment) -> Option<T> {
        let tick_now = now.nanoseconds() / TICK_NANOSECONDS;
        while self.due_first == NOTHING {
            if !self.turn(tick_now) {
                return None;
            }
        }
        let index = self.due_first;
        let Entry { payload, next, .. } = self.entries[index as usize];
        self.due_first = next;
        self.entries[index as usize].next = self.vacant_first;
        self.vacant_first = index;
        self.length -= 1;
        Some(payload)
    }

    /// The moment at which the earliest entry expires; `None` while the wheel is empty. At most
    /// eight comparisons.
    pub fn next_deadline(&self) -> Option<Moment> {
        if self.length == 0 {
            return None;
        }
        let tick = if self.due_first == NOTHING {
            // Entries of a lower level share more digits with the present tick: they come first.
            let level = self.levels.iter().find(|level| level.occupied != 0)?;
            level.earliest[level.occupied.trailing_zeros() as usize]
        } else {
            self.present
        };
        Some(Moment::from_nanoseconds(tick.saturating_mul(TICK_NANOSECONDS)))
    }

    /// How many entries wait, those of dead owners included.
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Whether none waits.
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Puts an entry where its tick belongs, seen from the present one.
    fn place(&mut self, index: u32, tick: u64) {
        if tick <= self.present {
            self.entries[index as usize].next = self.due_first;
            self.due_first = index;
            return;
        }
        let digit_highest = (tick ^ self.present).ilog2() as usize;
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
        self.entries[index as usize].next = level.first[slot];
        level.first[slot] = index;
    }

    /// Turns to the next slot that holds something and begins at `tick_now` or before, and puts
    /// its entries further down; `false` when there is none, with the present moved to `tick_now`.
    fn turn(&mut self, tick_now: u64) -> bool {
        let next = self.levels.iter().position(|level| level.occupied != 0).map(|level| {
            let slot = self.levels[level].occupied.trailing_zeros() as usize;
            (level, slot, beginning(self.present, level, slot))
        });
        let Some((level, slot, begin)) = next.filter(|&(.., begin)| begin <= tick_now) else {
            // No slot begins in between, so no entry's highest differing digit changes.
            self.present = self.present.max(tick_now);
            return false;
        };
        debug_assert!(begin > self.present, "entries of the present tick are due, not in a slot");
        self.present = begin;
        let level = &mut self.levels[level];
        level.occupied &= !(1 << slot);
        let mut index = std::mem::replace(&mut level.first[slot], NOTHING);
        while index != NOTHING {
            let Entry { tick, next, .. } = self.entries[index as usize];
            self.place(index, tick);
            index = next;
        }
        true
    }
}

/// The digit of `tick` at `level`.
#[expect(clippy::cast_possible_truncation, reason = "masked to six bits")]
const fn digit(tick: u64, level: usize) -> usize {
    (tick >> (level * DIGIT_BITS)) as usize & (SLOTS - 1)
}

/// The first tick of a slot: the digits of `present` above `level`, then `slot`, then zeros.
const fn beginning(present: u64, level: usize, slot: usize) -> u64 {
    let shift = level * DIGIT_BITS;
    let above = shift + DIGIT_BITS;
    (present >> above << above) | ((slot as u64) << shift)
}

const TICK_NANOSECONDS: u64 = 1_000_000;
const DIGIT_BITS: usize = 6;
const SLOTS: usize = 1 << DIGIT_BITS;
/// Eight digits hold every tick that a [`Moment`] can name: 2⁶⁴ ns are fewer than 2⁴⁵ ms.
const LEVELS: usize = 8;
const NOTHING: u32 = u32::MAX;
/// Entries that a wheel may hold whoever owns them: some 24 KiB.
const SHED_MIN: usize = 1024;
/// Entries to an owner before its wheel is looked through. An owner alive has one or two of them,
/// so that at least half of what a look finds is dead.
const SHED_FACTOR: usize = 4;

const _: () = assert!(u64::MAX / TICK_NANOSECONDS < 1 << (LEVELS * DIGIT_BITS));
const _: () = assert!(size_of::<Entry<crate::base::slab::Key>>() <= 24);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::random::Random;

    const fn at(milliseconds: u64) -> Moment {
        Moment::from_milliseconds(milliseconds)
    }

    fn drain<T: Copy>(wheel: &mut Wheel<T>, now: Moment) -> Vec<T> {
        std::iter::from_fn(|| wheel.pop_expired(now)).collect()
    }

    #[test]
    fn an_entry_expires_at_its_deadline_and_not_before() {
        for milliseconds in [1, 63, 64, 65, 4_095, 4_096, 300_000, 86_400_000, 1 << 43] {
            let mut wheel = Wheel::new();
            wheel.insert(at(milliseconds), 'a');
            assert_eq!(wheel.next_deadline(), Some(at(milliseconds)));
            assert_eq!(drain(&mut wheel, at(milliseconds - 1)), []);
            assert_eq!(wheel.next_deadline(), Some(at(milliseconds)));
            assert_eq!(drain(&mut wheel, at(milliseconds)), ['a']);
            assert_eq!(wheel.next_deadline(), None);
        }
    }

    #[test]
    fn a_deadline_between_two_ticks_is_rounded_up() {
        let mut wheel = Wheel::new();
        let deadline = Moment::from_nanoseconds(1_000_001);
        wheel.insert(deadline, ());
        assert_eq!(wheel.next_deadline(), Some(at(2)));
        assert!(drain(&mut wheel, deadline).is_empty());
        assert_eq!(drain(&mut wheel, at(2)).len(), 1);
    }

    #[test]
    fn a_passed_deadline_is_due_at_once() {
        let mut wheel = Wheel::new();
        assert!(drain(&mut wheel, at(500)).is_empty());
        wheel.insert(at(3), 'a');
        assert!(wheel.next_deadline().unwrap() <= at(500));
        assert_eq!(wheel.pop_expired(at(500)), Some('a'));
    }

    #[test]
    fn the_end_of_time_can_be_waited_for() {
        let mut wheel = Wheel::new();
        let end = Moment::from_nanoseconds(u64::MAX);
        wheel.insert(end, 'z');
        wheel.insert(at(7), 'a');
        assert_eq!(drain(&mut wheel, at(7)), ['a']);
        assert_eq!(wheel.next_deadline(), Some(end));
        // The rounded deadline lies after the last moment that there is.
        assert_eq!(drain(&mut wheel, end), []);
        assert_eq!(wheel.len(), 1);
    }

    #[test]
    fn a_bounded_drain_leaves_the_rest_due() {
        let mut wheel = Wheel::new();
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
    fn an_owner_may_insert_again_while_it_drains() {
        let mut wheel = Wheel::new();
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
    fn entries_of_the_dead_do_not_pile_up_and_the_living_keep_their_deadlines() {
        let mut wheel = Wheel::new();
        let lasting: Vec<u64> = (0..100).map(|number| 1_000 + number * 7).collect();
        for deadline in &lasting {
            wheel.insert(at(*deadline), (true, *deadline));
        }
        assert!(drain(&mut wheel, at(10)).is_empty());
        wheel.insert(at(5), (true, 0));
        for number in 0..1_000_000 {
            wheel.shed(lasting.len() + 1, |(is_alive, _)| *is_alive);
            wheel.insert(at(300_000 + number % 1_000), (false, number));
            assert!(wheel.len() < 2_000);
        }
        wheel.shed(0, |(is_alive, _)| *is_alive);
        assert_eq!(wheel.pop_expired(at(10)), Some((true, 0)));
        assert_eq!(wheel.next_deadline(), Some(at(1_000)));
        let expired = drain(&mut wheel, at(299_999));
        assert!(expired.into_iter().eq(lasting.into_iter().map(|deadline| (true, deadline))));
    }

    #[test]
    fn a_warm_wheel_takes_no_more_memory() {
        let mut wheel = Wheel::new();
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

    /// The wheel against a sorted list: same entries at the same moments in the same order of
    /// ticks, and the same next deadline after every step.
    #[test]
    fn the_wheel_agrees_with_a_sorted_list_for_many_seeds() {
        for seed in 0..200 {
            let mut random = Random::seeded(seed);
            let (mut wheel, mut list) = (Wheel::new(), Vec::<(u64, usize)>::new());
            let mut now = Moment::ORIGIN;
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
                let told = wheel.next_deadline().map(Moment::milliseconds);
                match (next, told) {
                    (Some(next), Some(told)) if next <= tick_now => assert!(told <= tick_now),
                    _ => assert_eq!(told, next, "seed {seed}"),
                }
                assert_eq!(wheel.len(), list.len(), "seed {seed}");
            }
        }
    }
}
