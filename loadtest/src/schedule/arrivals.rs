//! Send times of requests.

use std::f64::consts::LN_2;
use std::time::Duration;

use corelane_base::random::Random;
use corelane_base::time::Instant;

use super::profile::{ProfileCursor, RateProfile};

/// Distribution of requests around the wanted rate.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ArrivalPattern {
    /// Evenly spaced.
    #[default]
    Constant,
    /// A Poisson process with exponential gaps, like independent users. Only this shows the
    /// queueing effect of bursts.
    Poisson,
}

/// The share of a rate profile that one load thread sends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Share {
    /// Index of the load thread, from 0.
    pub thread: u32,
    /// Number of load threads.
    pub threads: u32,
}

impl Share {
    /// The whole, of a single load thread.
    pub const WHOLE: Self = Self { thread: 0, threads: 1 };

    /// Returns this share's part of `whole`. The remainder goes to the first threads.
    pub fn part(self, whole: usize) -> usize {
        let (thread, threads) = (self.thread as usize, self.threads.max(1) as usize);
        (whole + threads - 1 - thread) / threads
    }
}

/// The send times of one load thread, in order.
///
/// The shares of a constant rate interleave into an evenly spaced whole. Those of a Poisson process
/// are independent and add up to a Poisson process.
#[derive(Clone, Debug)]
pub struct Arrivals {
    cursor: ProfileCursor,
    pattern: ArrivalPattern,
    random: Random,
    start: Instant,
    /// Requests of the whole profile before the next request of this share.
    next_request: f64,
    /// Distance of two requests of this share, in requests of the whole profile.
    stride: f64,
}

impl Arrivals {
    /// Creates the arrivals of `share` of `profile`, starting at `begin`. `seed` determines the
    /// random gaps.
    pub fn new(
        profile: RateProfile,
        pace: ArrivalPattern,
        share: Share,
        seed: u64,
        begin: Instant,
    ) -> Self {
        let stride = f64::from(share.threads.max(1));
        let mut arrivals = Self {
            cursor: ProfileCursor::new(profile),
            pattern: pace,
            random: Random::seeded(seed.wrapping_add(u64::from(share.thread))),
            start: begin,
            next_request: f64::from(share.thread),
            stride,
        };
        if pace == ArrivalPattern::Poisson {
            arrivals.next_request = stride * arrivals.draw_gap();
        }
        arrivals
    }

    /// Draws an exponential gap of mean 1.
    fn draw_gap(&mut self) -> f64 {
        // The upper 53 bits as a number in (0, 1], so that the logarithm is finite.
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
        let uniform = ((self.random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        -uniform.log2() * LN_2
    }
}

impl Iterator for Arrivals {
    type Item = Instant;

    fn next(&mut self) -> Option<Instant> {
        let seconds = self.cursor.seconds_until(self.next_request)?;
        self.next_request += match self.pattern {
            ArrivalPattern::Constant => self.stride,
            ArrivalPattern::Poisson => self.stride * self.draw_gap(),
        };
        Some(self.start.after(Duration::from_secs_f64(seconds)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: f64 = 10_000.0;
    const SPAN: Duration = Duration::from_secs(10);

    fn arrivals(pace: ArrivalPattern, share: Share, seed: u64) -> Vec<Instant> {
        let begin = Instant::from_milliseconds(5);
        Arrivals::new(RateProfile::constant(RATE, SPAN), pace, share, seed, begin).collect()
    }

    #[test]
    fn constant_arrivals_match_rate_and_start() {
        let times = arrivals(ArrivalPattern::Constant, Share::WHOLE, 0);
        assert_eq!(times.len(), 100_000);
        assert_eq!(times[0], Instant::from_milliseconds(5));
        assert_eq!(times[99_999], Instant::from_nanoseconds(5_000_000 + 9_999_900_000));
    }

    #[test]
    fn constant_arrivals_of_shares_interleave() {
        let share = |thread| arrivals(ArrivalPattern::Constant, Share { thread, threads: 3 }, 0);
        let mut together = [share(0), share(1), share(2)].concat();
        together.sort_unstable();
        assert_eq!(together, arrivals(ArrivalPattern::Constant, Share::WHOLE, 0));
    }

    #[test]
    fn poisson_arrivals_have_mean_and_exponential_gaps() {
        let times = arrivals(ArrivalPattern::Poisson, Share::WHOLE, 1);
        // A count of mean 100,000 has a deviation of 316.
        assert!(times.len().abs_diff(100_000) < 1_600, "{}", times.len());
        let gaps: Vec<f64> =
            times.windows(2).map(|pair| pair[1].since(pair[0]).as_secs_f64() * RATE).collect();
        #[expect(clippy::cast_precision_loss, reason = "a hundred thousand")]
        let count = gaps.len() as f64;
        let mean = gaps.iter().sum::<f64>() / count;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / count;
        assert!((0.95..1.05).contains(&mean) && (0.9..1.1).contains(&variance));
        #[expect(clippy::cast_precision_loss, reason = "a hundred thousand")]
        let longer = gaps.iter().filter(|gap| **gap > 1.0).count() as f64 / count;
        // A gap is longer than the mean with probability 1/e.
        assert!((0.36..0.376).contains(&longer), "{longer}");
    }

    #[test]
    fn poisson_arrivals_of_shares_differ_and_sum() {
        let share = |thread| arrivals(ArrivalPattern::Poisson, Share { thread, threads: 2 }, 7);
        let (one, other) = (share(0), share(1));
        assert_ne!(one, other);
        assert!((one.len() + other.len()).abs_diff(100_000) < 1_600);
    }

    #[test]
    fn poisson_arrivals_are_determined_by_seed() {
        let draw = |seed| arrivals(ArrivalPattern::Poisson, Share::WHOLE, seed);
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
    }

    #[test]
    fn arrivals_are_monotonic() {
        for pace in [ArrivalPattern::Constant, ArrivalPattern::Poisson] {
            let profile = RateProfile::steps(10.0, 5_000.0, 7, SPAN);
            let times: Vec<Instant> =
                Arrivals::new(profile, pace, Share::WHOLE, 5, Instant::ORIGIN).collect();
            assert!(times.is_sorted());
        }
    }
}
