//! The delays between attempts to connect: exponential, with full jitter.

use std::time::Duration;

use super::options::ReconnectOptions;
use corelane_base::random::Random;

/// The delays of one client.
#[derive(Debug)]
pub struct Backoff {
    /// Attempts since the last reset.
    attempts: u32,
    random: Random,
}

impl Backoff {
    /// Creates the delays that `seed` determines.
    pub const fn new(seed: u64) -> Self {
        Self { attempts: 0, random: Random::seeded(seed) }
    }

    /// Returns the delay of the next attempt, or `None` if there are no more.
    pub fn next_delay(&mut self, options: &ReconnectOptions) -> Option<Duration> {
        if options.attempts_max.is_some_and(|attempts_max| self.attempts >= attempts_max) {
            return None;
        }
        let factor = 1_u32.checked_shl(self.attempts).unwrap_or(u32::MAX);
        let longest = options.delay_min.saturating_mul(factor).min(options.delay_max);
        self.attempts += 1;
        let nanoseconds = usize::try_from(longest.as_nanos()).unwrap_or(usize::MAX);
        let drawn = self.random.below(nanoseconds.saturating_add(1));
        Some(Duration::from_nanos(drawn as u64))
    }

    /// Returns a seed for other delays.
    pub fn draw_seed(&mut self) -> u64 {
        self.random.below(usize::MAX) as u64
    }

    /// Begins the delays again.
    pub const fn reset(&mut self) {
        self.attempts = 0;
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
        let options = ReconnectOptions::default();
        for seed in 0..2_000 {
            let mut backoff = Backoff::new(seed);
            for (shortest, longest) in &mut bounds {
                let delay = backoff.next_delay(&options).unwrap();
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
        let (mut backoff, options) = (Backoff::new(1), ReconnectOptions::default());
        assert!((0..1_000).all(|_| backoff.next_delay(&options).unwrap() <= 30_000 * MS));
        backoff.reset();
        assert!(backoff.next_delay(&options).unwrap() <= 100 * MS);
    }

    #[test]
    fn attempts_end_at_their_limit_until_reset() {
        let options = ReconnectOptions { attempts_max: Some(2), ..Default::default() };
        let mut backoff = Backoff::new(1);
        assert_eq!([(); 3].map(|()| backoff.next_delay(&options).is_some()), [true, true, false]);
        backoff.reset();
        assert!(backoff.next_delay(&options).is_some());
    }

    #[test]
    fn seed_determines_the_delays() {
        let delays = |seed| {
            let (mut backoff, options) = (Backoff::new(seed), ReconnectOptions::default());
            [(); 5].map(|()| backoff.next_delay(&options).unwrap())
        };
        assert_eq!(delays(7), delays(7));
        assert_ne!(delays(7), delays(8));
    }
}
