//! The delays between attempts to connect: exponential, with full jitter.

use std::time::Duration;

use super::options::ReconnectOptions;
use crate::base::random::Random;

/// The delays of one client.
#[derive(Debug)]
pub(in crate::client) struct Backoff {
    delay_min: Duration,
    delay_max: Duration,
    attempts_max: Option<u32>,
    /// Attempts since the last reset.
    attempts: u32,
    random: Random,
}

impl Backoff {
    /// Creates the delays that `seed` determines.
    pub(in crate::client) const fn new(options: &ReconnectOptions, seed: u64) -> Self {
        let ReconnectOptions { delay_min, delay_max, attempts_max, .. } = options;
        Self {
            delay_min: *delay_min,
            delay_max: *delay_max,
            attempts_max: *attempts_max,
            attempts: 0,
            random: Random::seeded(seed),
        }
    }

    /// Returns the delay of the next attempt, or `None` if there are no more.
    pub(in crate::client) fn next_delay(&mut self) -> Option<Duration> {
        if self.attempts_max.is_some_and(|attempts_max| self.attempts >= attempts_max) {
            return None;
        }
        let factor = 1_u32.checked_shl(self.attempts).unwrap_or(u32::MAX);
        let longest = self.delay_min.saturating_mul(factor).min(self.delay_max);
        self.attempts += 1;
        let nanoseconds = usize::try_from(longest.as_nanos()).unwrap_or(usize::MAX);
        let drawn = self.random.below(nanoseconds.saturating_add(1));
        Some(Duration::from_nanos(drawn as u64))
    }

    /// Begins the delays again.
    pub(in crate::client) const fn reset(&mut self) {
        self.attempts = 0;
    }

    /// Returns how long a connection must last so that the delays begin again.
    pub(in crate::client) const fn stable_time(&self) -> Duration {
        self.delay_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn delays_double_up_to_the_longest() {
        // The longest of many draws is close to the bound, the shortest close to zero.
        let mut bounds = vec![(Duration::MAX, Duration::ZERO); 12];
        for seed in 0..2_000 {
            let mut backoff = Backoff::new(&ReconnectOptions::default(), seed);
            for (shortest, longest) in &mut bounds {
                let delay = backoff.next_delay().unwrap();
                (*shortest, *longest) = ((*shortest).min(delay), (*longest).max(delay));
            }
        }
        let expected = (0..12).map(|attempt| (100 * MS * (1 << attempt)).min(30_000 * MS));
        for ((shortest, longest), expected) in bounds.into_iter().zip(expected) {
            assert!(longest <= expected && longest > expected * 99 / 100, "{longest:?}");
            assert!(shortest < expected / 100, "{shortest:?}");
        }
    }

    #[test]
    fn delays_are_bounded_after_any_number_of_attempts() {
        let mut backoff = Backoff::new(&ReconnectOptions::default(), 1);
        assert!((0..1_000).all(|_| backoff.next_delay().unwrap() <= 30_000 * MS));
        backoff.reset();
        assert!(backoff.next_delay().unwrap() <= 100 * MS);
    }

    #[test]
    fn attempts_end_at_their_limit_until_reset() {
        let options = ReconnectOptions { attempts_max: Some(2), ..Default::default() };
        let mut backoff = Backoff::new(&options, 1);
        assert_eq!([(); 3].map(|()| backoff.next_delay().is_some()), [true, true, false]);
        backoff.reset();
        assert!(backoff.next_delay().is_some());
    }

    #[test]
    fn seed_determines_the_delays() {
        let delays = |seed| {
            let mut backoff = Backoff::new(&ReconnectOptions::default(), seed);
            [(); 5].map(|()| backoff.next_delay().unwrap())
        };
        assert_eq!(delays(7), delays(7));
        assert_ne!(delays(7), delays(8));
    }
}
