//! Tests of the rule for saturation, with simulated queues.

use corelane_base::random::Random;

use super::*;

/// Capacity of every simulated server, in requests a second.
const CAPACITY: f64 = 100.0;

/// A server that is simulated.
#[derive(Clone, Copy)]
struct Queue {
    /// Requests a second at a time, in seconds.
    rate: fn(f64) -> f64,
    /// Time from the beginning of a request to its end, in seconds.
    service: fn(&mut Random) -> f64,
    workers: usize,
    warm_up: f64,
    span: f64,
    is_poisson: bool,
    /// No request begins between these times.
    stall: [f64; 2],
    /// Each request with this number is never answered, and times out after a second.
    lost_each: usize,
}

const STEADY: Queue = Queue {
    rate: |_| 0.8 * CAPACITY,
    service: |_| 1.0 / CAPACITY,
    workers: 1,
    warm_up: 0.0,
    span: 3.0,
    is_poisson: false,
    stall: [0.0; 2],
    lost_each: usize::MAX,
};

fn uniform(random: &mut Random) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a number below a million")]
    let number = random.below(1_000_000) as f64;
    (number + 1.0) / 1e6
}

fn exponential(random: &mut Random) -> f64 {
    -uniform(random).ln()
}

impl Queue {
    /// Returns the times at which requests are due and completed.
    fn simulate(&self, random: &mut Random) -> [Vec<f64>; 2] {
        let (mut due, mut completed) = (Vec::new(), Vec::new());
        let mut free_at = vec![0.0_f64; self.workers];
        let mut at = 0.0;
        while at < self.warm_up + self.span {
            due.push(at);
            let worker = free_at.iter_mut().min_by(|one, other| one.total_cmp(other)).unwrap();
            let mut begin = worker.max(at);
            if (self.stall[0]..self.stall[1]).contains(&begin) {
                begin = self.stall[1];
            }
            *worker = begin + (self.service)(random);
            let is_lost = due.len().is_multiple_of(self.lost_each);
            completed.push(if is_lost { at + 1.0 } else { *worker });
            at += if self.is_poisson { exponential(random) } else { 1.0 } / (self.rate)(at);
        }
        completed.sort_by(f64::total_cmp);
        [due, completed]
    }

    fn is_saturated(&self, seed: u64) -> bool {
        let [due, completed] = self.simulate(&mut Random::seeded(seed));
        let mut samples = BacklogSamples::default();
        let span = Duration::from_secs_f64(self.span);
        let step = BacklogSamples::interval(span).as_secs_f64();
        let up_to = |times: &[f64], at: f64| times.partition_point(|time| *time <= at) as u64;
        let earlier = up_to(&completed, self.warm_up);
        let mut at = self.warm_up;
        while at < completed.last().unwrap().min(self.warm_up + self.span + 10.0) {
            samples.push(RequestCounts {
                due: up_to(&due, at) - earlier,
                completed: up_to(&completed, at) - earlier,
            });
            at += step;
        }
        let timeout_ratio =
            u32::try_from(self.lost_each).map_or(0.0, |each| f64::from(each).recip());
        let window = BacklogWindow { span, timeout_ratio, is_poisson: self.is_poisson };
        samples.growth(window).is_some_and(|growth| growth.is_saturation)
    }

    /// Returns how many of a hundred runs are saturated.
    fn saturated(&self) -> usize {
        (0..100).filter(|seed| self.is_saturated(*seed)).count()
    }
}

#[test]
fn backlog_of_sustained_load_does_not_grow() {
    for span in [1.0, 3.0, 10.0] {
        for warm_up in [0.0, 0.5] {
            let steady = Queue { warm_up, span, ..STEADY };
            let random = Queue { service: |random| exponential(random) / CAPACITY, ..steady };
            let poisson = Queue { is_poisson: true, ..random };
            for queue in [steady, random, poisson] {
                assert!(queue.saturated() <= 1, "{span} {warm_up} {}", queue.saturated());
            }
            let ramp = Queue {
                rate: |at| 50.0_f64.mul_add(at, 10.0),
                service: |random| 0.2_f64.mul_add(uniform(random), 0.3),
                workers: 1_000,
                ..steady
            };
            let burst = |at: f64| if (at * 4.0) % 1.0 < 0.3 { 200.0 } else { 20.0 };
            let few = |random: &mut Random| exponential(random) / 10.0;
            let slow = |random: &mut Random| 0.6_f64.mul_add(uniform(random), 0.1);
            let lost = Queue { lost_each: 50, rate: |_| 200.0, workers: 8, ..steady };
            let queues = [
                Queue { stall: [0.4 * span, 0.4 * span + 0.3], ..steady },
                Queue { stall: [0.9 * span, 0.9 * span + 0.3], ..steady },
                Queue { stall: [0.0, 0.4 * span], rate: |_| 60.0, ..steady },
                ramp,
                Queue { rate: burst, ..steady },
                Queue { rate: |_| 5.0, service: few, workers: 8, ..steady },
                Queue { rate: |_| 20.0, service: slow, workers: 1_000, ..steady },
                lost,
            ];
            for (place, queue) in queues.into_iter().enumerate() {
                assert!(queue.saturated() <= 3, "{place} {span} {warm_up} {}", queue.saturated());
            }
        }
    }
}

#[test]
fn backlog_of_excessive_load_grows() {
    for span in [1.0, 3.0, 10.0] {
        for warm_up in [0.0, 0.5] {
            let queue = Queue { warm_up, span, ..STEADY };
            for rate in [|_| 1.05 * CAPACITY, |_| 1.5 * CAPACITY, |_| 10.0 * CAPACITY] {
                assert_eq!(Queue { rate, ..queue }.saturated(), 100, "{span} {warm_up}");
            }
            let random = Queue { service: |random| exponential(random) / CAPACITY, ..queue };
            for is_poisson in [false, true] {
                let queue = Queue { rate: |_| 2.0 * CAPACITY, is_poisson, ..random };
                assert!(queue.saturated() >= 97, "{span} {warm_up} {}", queue.saturated());
            }
        }
    }
}

#[test]
fn samples_of_threads_add_up() {
    let samples = |counts: &[[u64; 2]]| {
        let counts = counts
            .iter()
            .map(|[due, completed]| RequestCounts { due: *due, completed: *completed });
        BacklogSamples(counts.collect())
    };
    let mut one = samples(&[[1, 0], [2, 1]]);
    one.add(&samples(&[[5, 5], [6, 5], [6, 6]]));
    assert_eq!(one, samples(&[[6, 5], [8, 6], [8, 7]]));
    one.add(&BacklogSamples::default());
    assert_eq!(one.0.len(), 3);
}
