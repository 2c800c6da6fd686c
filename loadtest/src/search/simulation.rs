//! Searches of a simulated server on a machine that is disturbed, over many seeds.
//!
//! The server sustains a rate that is known; time is simulated. A run fails above that rate, and
//! when a pause of the machine meets its measured time. A failing test names its seed.

use corelane_base::random::Random;

use super::*;

/// Longest simulated search, in seconds.
const SEARCH_S_MAX: f64 = 120.0;
/// Largest relative error of the found rate.
const ERROR_MAX: f64 = 0.05;
/// Warm-up and measured time of a run, in seconds.
const RUN_S: (f64, f64) = (0.5, 1.0);
/// Relative error of the rate up to which a run passes.
const NOISE: f64 = 0.01;

/// Returns a number from 0 to 1.
fn uniform(random: &mut Random) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a number below a million")]
    let number = random.below(1_000_000) as f64;
    number / 1e6
}

/// When the machine pauses.
#[derive(Clone, Copy, Debug)]
enum Pauses {
    /// 100 ms every 5 s.
    Periodic,
    /// 100 ms on average every 5 s, independently.
    Random,
}

/// A server that sustains `capacity` on a machine with pauses.
struct Simulation {
    random: Random,
    capacity: f64,
    pauses: Pauses,
    now_s: f64,
    next_pause_s: f64,
}

impl Simulation {
    fn new(seed: u64, pauses: Pauses) -> Self {
        let mut random = Random::seeded(seed);
        let capacity = 20.0 * 10_f64.powf(uniform(&mut random) * 4.0);
        let next_pause_s = uniform(&mut random) * 5.0;
        Self { random, capacity, pauses, now_s: 0.0, next_pause_s }
    }

    /// Returns the rate of one connection of 1 to 100.
    fn scale(&mut self) -> f64 {
        self.capacity / 10_f64.powf(uniform(&mut self.random) * 2.0)
    }

    /// Returns whether a run at `rate` passes.
    fn run(&mut self, rate: f64) -> bool {
        let opening = 0.02 + uniform(&mut self.random) * 0.2;
        let start = self.now_s + opening + RUN_S.0;
        let end = start + RUN_S.1;
        self.now_s = end + uniform(&mut self.random) * 0.3;
        let mut is_disturbed = false;
        while self.next_pause_s < self.now_s {
            is_disturbed |= self.next_pause_s < end && self.next_pause_s + 0.1 > start;
            self.next_pause_s += match self.pauses {
                Pauses::Periodic => 5.0,
                Pauses::Random => -5.0 * (1.0 - uniform(&mut self.random)).ln(),
            };
        }
        let error = (uniform(&mut self.random) * 2.0 - 1.0) * NOISE;
        rate <= self.capacity * (1.0 + error) && !is_disturbed
    }
}

/// Searches with this seed, and returns the relative error and the time.
fn search(seed: u64, pauses: Pauses) -> (f64, f64) {
    let mut server = Simulation::new(seed, pauses);
    let mut search = Search::new(SearchOptions::new(&SweepPlan::default(), server.scale()));
    while let Some(rate) = search.next_rate() {
        let has_passed = server.run(rate);
        search.record_run(has_passed);
    }
    let outcome = search.outcome().expect("a search without a next rate has ended");
    let SearchOutcome::Found { rate, .. } = outcome else {
        panic!("seed {seed}, {pauses:?}, capacity {}: {outcome:?}", server.capacity)
    };
    (rate / server.capacity - 1.0, server.now_s)
}

#[test]
fn disturbed_search_finds_known_capacity() {
    for seed in 0..2_000 {
        let (error, seconds) = search(seed, Pauses::Periodic);
        assert!(error.abs() <= ERROR_MAX, "seed {seed}: error {error:.3}");
        assert!(seconds <= SEARCH_S_MAX, "seed {seed}: {seconds:.0} s");
    }
}

#[test]
fn randomly_disturbed_search_finds_known_capacity() {
    // Independent pauses can hit many runs in a row, though rarely.
    let missed: Vec<u64> =
        (0..2_000).filter(|seed| search(*seed, Pauses::Random).0.abs() > ERROR_MAX).collect();
    assert!(missed.len() <= 10, "seeds {missed:?}");
}
