//! The generic cell rate algorithm (GCRA) for one of several shards that share a limit.
//!
//! Each shard has an equal share of rate and burst. Unused requests move from one shard to another
//! as time: a request costs the time in which the share of a shard earns it.
//!
//! Invariants: over all shards, no more requests are admitted than the burst and what the rate has
//! earned since the buckets were full; a share that is moved is taken before it is added, and one
//! that is lost on the way only lowers what is admitted.
//!
//! Source: ITU-T I.371, annex A, "virtual scheduling algorithm".

use std::num::NonZeroU32;
use std::time::Duration;

/// So many requests in each period, and so many at once.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Quota {
    /// Requests of one period.
    pub limit: NonZeroU32,
    /// The period in seconds.
    pub seconds: NonZeroU32,
    /// Requests that may come at once after a pause.
    pub burst: NonZeroU32,
}

/// What one shard needs to know of a quota.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Share {
    /// Nanoseconds in which the shard earns one request, at most [`LEVEL_MAX`].
    cost: u64,
    /// Nanoseconds in which an empty bucket of the shard becomes full, at most [`LEVEL_MAX`].
    pub(super) capacity: u64,
    /// Number of shards.
    shards: u32,
}

/// The state of one limited key on one shard. The default is full.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bucket {
    /// Nanoseconds of the last change.
    at: u64,
    /// Nanoseconds until the bucket is full. Below zero: what other shards have given beyond that.
    level: i64,
}

impl Quota {
    /// Returns whether the burst is so small that shares of it would be a few requests each.
    pub(super) const fn is_small_for(self, shards: NonZeroU32) -> bool {
        self.burst.get() < shards.get().saturating_mul(BURST_PER_SHARD_MIN)
    }

    /// Returns the share of one of `shards` shards. Each may admit at least one request, so that a
    /// burst below the number of shards counts as that number.
    pub fn share_of(self, shards: NonZeroU32) -> Share {
        let period = u128::from(self.seconds.get()) * NANOSECONDS;
        let (limit, shards) = (u128::from(self.limit.get()), shards.get());
        let cost = (period * u128::from(shards)).div_ceil(limit).min(LEVEL_MAX.into());
        let burst = u128::from(self.burst.get().max(shards));
        let capacity = (burst * cost / u128::from(shards)).min(LEVEL_MAX.into());
        let [cost, capacity] = [cost, capacity].map(|it| u64::try_from(it).unwrap_or(LEVEL_MAX));
        Share { cost, capacity, shards }
    }
}

impl Share {
    /// Returns whether other shards have shares of the quota.
    pub(super) const fn is_shared(self) -> bool {
        self.shards > 1
    }

    /// Returns what each other shard is asked for after `demand` requests since it was last asked:
    /// enough for four times as many.
    pub(super) fn wanted(self, demand: u32) -> u64 {
        let others = u64::from(self.shards.saturating_sub(1)).max(1);
        self.cost.saturating_mul(4 * u64::from(demand)).div_ceil(others)
    }

    /// Returns the time between two requests for the shares of others: short beside the time in
    /// which the burst is used up, and seldom enough to cost next to nothing.
    pub(super) fn exchange_interval(self) -> u64 {
        (self.capacity / 64).clamp(EXCHANGE_MIN, EXCHANGE_MAX)
    }
}

impl Bucket {
    /// Takes one request at `now`.
    ///
    /// # Errors
    ///
    /// The time after which another one can be taken, if no other shard uses its share.
    #[inline]
    pub(super) fn take(&mut self, share: Share, now: u64) -> Result<(), Duration> {
        self.advance(share, now);
        let level = self.level + share.cost.cast_signed();
        let excess = level - share.capacity.cast_signed();
        if excess > 0 {
            let wait = excess.unsigned_abs().div_ceil(u64::from(share.shards));
            return Err(Duration::from_nanos(wait));
        }
        self.level = level;
        Ok(())
    }

    /// Gives a request back that was taken at the same time.
    pub(super) fn put_back(&mut self, share: Share) {
        self.level -= share.cost.cast_signed();
    }

    /// Returns whether less than half is left.
    #[inline]
    pub(super) fn is_low(&self, share: Share) -> bool {
        self.level > (share.capacity / 2).cast_signed()
    }

    /// Returns whether it is as good as a new bucket.
    #[inline]
    pub(super) fn is_full(&self, now: u64) -> bool {
        self.level <= 0 || self.elapsed(now) >= self.level
    }

    /// Takes at most `wanted` for another shard: of all that is left if `gives_all`, otherwise half
    /// of what is left above a quarter. Returns zero if there is nothing to give.
    pub(super) fn give(&mut self, share: Share, wanted: u64, gives_all: bool, now: u64) -> u64 {
        self.advance(share, now);
        let left = share.capacity.cast_signed() - self.level;
        let spare = if gives_all { left } else { (left - (share.capacity / 4).cast_signed()) / 2 };
        let gift = spare.min(as_level(wanted)).max(0);
        self.level += gift;
        gift.unsigned_abs()
    }

    /// Adds what another shard has given.
    pub(super) fn receive(&mut self, gift: u64) {
        self.level = self.level.saturating_sub(as_level(gift)).max(-LEVEL_MAX.cast_signed());
    }

    /// Adds what was earned since the last change. What is there beyond a full bucket is lost as
    /// fast as the other shards, which have given it, earn it again.
    #[inline]
    fn advance(&mut self, share: Share, now: u64) {
        let elapsed = self.elapsed(now);
        self.level = if self.level >= 0 {
            (self.level - elapsed).max(0)
        } else {
            let lost = elapsed.saturating_mul(i64::from(share.shards) - 1);
            self.level.saturating_add(lost).min(0)
        };
        self.at = now;
    }

    #[inline]
    fn elapsed(&self, now: u64) -> i64 {
        as_level(now.saturating_sub(self.at))
    }
}

#[inline]
const fn as_level(nanoseconds: u64) -> i64 {
    if nanoseconds > LEVEL_MAX { LEVEL_MAX.cast_signed() } else { nanoseconds.cast_signed() }
}

const NANOSECONDS: u128 = 1_000_000_000;

/// The largest level: 36 years, so that sums do not overflow.
const LEVEL_MAX: u64 = 1 << 60;

/// Requests of a burst for each shard from which on it is shared.
const BURST_PER_SHARD_MIN: u32 = 4;

/// The least time between two requests for the shares of others.
const EXCHANGE_MIN: u64 = 1_000_000;
/// The greatest time between two requests for the shares of others.
const EXCHANGE_MAX: u64 = 5_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(limit: u32, seconds: u32, burst: u32) -> Quota {
        let [limit, seconds, burst] = [limit, seconds, burst].map(|it| it.try_into().unwrap());
        Quota { limit, seconds, burst }
    }

    fn share(limit: u32, burst: u32, shards: u32) -> Share {
        quota(limit, 1, burst).share_of(shards.try_into().unwrap())
    }

    fn at(milliseconds: u64) -> u64 {
        milliseconds * 1_000_000
    }

    /// Returns how many of `requests` are admitted at once.
    fn admitted(bucket: &mut Bucket, share: Share, now: u64, requests: usize) -> usize {
        (0..requests).filter(|_| bucket.take(share, now).is_ok()).count()
    }

    #[test]
    fn burst_then_rate_is_admitted() {
        let (mut bucket, share) = (Bucket::default(), share(10, 5, 1));
        assert_eq!(admitted(&mut bucket, share, at(0), 9), 5);
        assert_eq!(bucket.take(share, at(0)), Err(Duration::from_millis(100)));
        assert_eq!(bucket.take(share, at(40)), Err(Duration::from_millis(60)));
        assert_eq!(admitted(&mut bucket, share, at(100), 9), 1);
        assert_eq!(admitted(&mut bucket, share, at(1_000), 99), 5);
    }

    #[test]
    fn clock_before_last_change_earns_nothing() {
        let (mut bucket, share) = (Bucket::default(), share(10, 1, 1));
        assert_eq!(admitted(&mut bucket, share, at(500), 2), 1);
        assert!(bucket.take(share, at(10)).is_err());
        assert!(!bucket.is_full(at(10)));
    }

    #[test]
    fn shares_of_shards_add_up_to_quota() {
        for shards in [1, 2, 3, 4, 16] {
            let share = share(1_000, 96, shards);
            let mut buckets = vec![Bucket::default(); shards as usize];
            let mut all = 0;
            for now in 0..2_000 {
                all += buckets.iter_mut().map(|it| admitted(it, share, at(now), 9)).sum::<usize>();
            }
            // The last request of each shard may be earned in part.
            assert!((2_095 - shards as usize..=2_095).contains(&all), "{shards}: {all}");
        }
    }

    #[test]
    fn burst_is_at_least_one_per_shard() {
        let share = share(1, 1, 8);
        let mut buckets = [Bucket::default(); 8];
        let first: usize = buckets.iter_mut().map(|it| admitted(it, share, at(0), 9)).sum();
        assert_eq!(first, 8);
    }

    #[test]
    fn gift_is_taken_from_giver() {
        let share = share(1_000, 400, 4);
        let (mut hot, mut idle) = (Bucket::default(), Bucket::default());
        assert_eq!(admitted(&mut hot, share, at(0), 200), 100);
        assert!(hot.is_low(share) && !idle.is_low(share));
        let wanted = share.wanted(200);
        hot.receive(idle.give(share, wanted, false, at(0)));
        let moved = admitted(&mut hot, share, at(0), 200);
        assert_eq!((moved, admitted(&mut idle, share, at(0), 200)), (37, 62));
        assert_eq!(idle.give(share, wanted, false, at(0)), 0);
        let mut unused = Bucket::default();
        hot.receive(unused.give(share, share.wanted(3), true, at(0)));
        assert_eq!(admitted(&mut hot, share, at(0), 200), 4);
        hot.receive(unused.give(share, wanted, true, at(0)));
        let moved = admitted(&mut hot, share, at(0), 200);
        assert_eq!((moved, admitted(&mut unused, share, at(0), 200)), (96, 0));
    }

    #[test]
    fn unused_gift_does_not_add_to_burst() {
        let share = share(1_000, 400, 4);
        let mut buckets = [Bucket::default(); 4];
        let wanted = share.wanted(400);
        let gifts = buckets[1..].iter_mut().map(|it| it.give(share, wanted, true, at(0)));
        let gifts: u64 = gifts.sum();
        buckets[0].receive(gifts);
        for now in [0, 10, 50, 100, 1_000] {
            let mut copies = buckets;
            let all: usize = copies.iter_mut().map(|it| admitted(it, share, at(now), 999)).sum();
            assert!(all <= 400, "{now}: {all}");
        }
    }

    #[test]
    fn full_bucket_is_as_good_as_new() {
        let (mut bucket, share) = (Bucket::default(), share(10, 5, 1));
        assert!(bucket.is_full(at(0)));
        admitted(&mut bucket, share, at(0), 2);
        assert!(!bucket.is_full(at(199)));
        assert!(bucket.is_full(at(200)));
    }

    #[test]
    fn extreme_quotas_do_not_overflow() {
        let quota = quota(1, u32::MAX, u32::MAX);
        let share = quota.share_of(u32::from(u16::MAX).try_into().unwrap());
        let mut bucket = Bucket::default();
        for now in [0, u64::MAX / 2, u64::MAX] {
            bucket.take(share, now).ok();
            bucket.receive(u64::MAX);
            bucket.give(share, share.wanted(u32::MAX), true, now);
        }
    }
}
