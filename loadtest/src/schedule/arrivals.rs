//! The moments of single requests.

use std::f64::consts::LN_2;
use std::time::Duration;

use corelane::base::random::Random;
use corelane::base::time::Moment;

use super::profile::{Profile, Walk};

/// How requests are spread around the rate that is wanted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Pace {
    /// As evenly as the rate is.
    #[default]
    Constant,
    /// As they come from many users who know nothing of each other: a Poisson process, whose gaps
    /// are exponential. What a queue makes of bursts shows only here.
    Poisson,
}

/// The part of a profile that one worker takes on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Share {
    /// Which worker this is, from zero.
    pub worker: u32,
    /// How many there are.
    pub workers: u32,
}

impl Share {
    /// All of it.
    pub const WHOLE: Self = Self { worker: 0, workers: 1 };

    /// How many of so many are in it. What does not divide evenly goes to the first workers.
    pub fn part(self, whole: usize) -> usize {
        let (worker, workers) = (self.worker as usize, self.workers.max(1) as usize);
        (whole + workers - 1 - worker) / workers
    }
}

/// The moments at which one worker is to send, one after the other.
///
/// The shares of an even pace interlock: together they are the even pace of the whole. Those of a
/// Poisson process are independent, and together are one again.
#[derive(Clone, Debug)]
pub struct Arrivals {
    walk: Walk,
    pace: Pace,
    random: Random,
    begin: Moment,
    /// Requests of the whole profile that are wanted before the next one of this share.
    wanted: f64,
    /// What separates two requests of this share, in requests of the whole profile.
    stride: f64,
}

impl Arrivals {
    /// The arrivals of a share of `profile`, which begins at `begin`. The seed decides where chance
    /// does.
    pub fn new(profile: Profile, pace: Pace, share: Share, seed: u64, begin: Moment) -> Self {
        let stride = f64::from(share.workers.max(1));
        let mut arrivals = Self {
            walk: Walk::new(profile),
            pace,
            random: Random::seeded(seed.wrapping_add(u64::from(share.worker))),
            begin,
            wanted: f64::from(share.worker),
            stride,
        };
        if pace == Pace::Poisson {
            arrivals.wanted = stride * arrivals.exponential();
        }
        arrivals
    }

    /// A gap of mean one.
    fn exponential(&mut self) -> f64 {
        // The upper 53 bits as a number in (0, 1]: the logarithm of zero is never asked for.
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
        let uniform = ((self.random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        -uniform.log2() * LN_2
    }
}

impl Iterator for Arrivals {
    type Item = Moment;

    fn next(&mut self) -> Option<Moment> {
        let seconds = self.walk.seconds_until(self.wanted)?;
        self.wanted += match self.pace {
            Pace::Constant => self.stride,
            Pace::Poisson => self.stride * self.exponential(),
        };
        Some(self.begin.after(Duration::from_secs_f64(seconds)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: f64 = 10_000.0;
    const SPAN: Duration = Duration::from_secs(10);

    fn arrivals(pace: Pace, share: Share, seed: u64) -> Vec<Moment> {
        let begin = Moment::from_milliseconds(5);
        Arrivals::new(Profile::constant(RATE, SPAN), pace, share, seed, begin).collect()
    }

    #[test]
    fn an_even_pace_sends_exactly_what_is_wanted_and_not_before_the_beginning() {
        let moments = arrivals(Pace::Constant, Share::WHOLE, 0);
        assert_eq!(moments.len(), 100_000);
        assert_eq!(moments[0], Moment::from_milliseconds(5));
        assert_eq!(moments[99_999], Moment::from_nanoseconds(5_000_000 + 9_999_900_000));
    }

    #[test]
    fn the_shares_of_an_even_pace_interlock() {
        let share = |worker| arrivals(Pace::Constant, Share { worker, workers: 3 }, 0);
        let mut together = [share(0), share(1), share(2)].concat();
        together.sort_unstable();
        assert_eq!(together, arrivals(Pace::Constant, Share::WHOLE, 0));
    }

    #[test]
    fn a_poisson_process_has_the_wanted_mean_and_exponential_gaps() {
        let moments = arrivals(Pace::Poisson, Share::WHOLE, 1);
        // A count of mean 100,000 has a deviation of 316.
        assert!(moments.len().abs_diff(100_000) < 1_600, "{}", moments.len());
        let gaps: Vec<f64> =
            moments.windows(2).map(|pair| pair[1].since(pair[0]).as_secs_f64() * RATE).collect();
        #[expect(clippy::cast_precision_loss, reason = "a hundred thousand")]
        let count = gaps.len() as f64;
        let mean = gaps.iter().sum::<f64>() / count;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / count;
        assert!((0.95..1.05).contains(&mean) && (0.9..1.1).contains(&variance));
        #[expect(clippy::cast_precision_loss, reason = "a hundred thousand")]
        let longer = gaps.iter().filter(|gap| **gap > 1.0).count() as f64 / count;
        // A gap is longer than the mean in one of e draws.
        assert!((0.36..0.376).contains(&longer), "{longer}");
    }

    #[test]
    fn the_shares_of_a_poisson_process_are_not_the_same_and_add_up() {
        let share = |worker| arrivals(Pace::Poisson, Share { worker, workers: 2 }, 7);
        let (one, other) = (share(0), share(1));
        assert_ne!(one, other);
        assert!((one.len() + other.len()).abs_diff(100_000) < 1_600);
    }

    #[test]
    fn the_same_seed_gives_the_same_moments_and_another_gives_others() {
        let draw = |seed| arrivals(Pace::Poisson, Share::WHOLE, seed);
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
    }

    #[test]
    fn moments_never_go_back() {
        for pace in [Pace::Constant, Pace::Poisson] {
            let profile = Profile::steps(10.0, 5_000.0, 7, SPAN);
            let moments: Vec<Moment> =
                Arrivals::new(profile, pace, Share::WHOLE, 5, Moment::ORIGIN).collect();
            assert!(moments.is_sorted());
        }
    }
}
