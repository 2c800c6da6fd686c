//! Whether two sets of measurements differ, and by how much.
//!
//! Seconds of a run are not distributed like any textbook's bell, and one hiccup of the machine
//! would move their mean. So ranks are compared: the Mann-Whitney test says how probable so large a
//! difference is where there is none, and the Hodges-Lehmann estimate says how large it is, with
//! the interval that belongs to the same test.
//!
//! What it keeps true: nothing is assumed about the distribution but that both have the same shape;
//! the difference is a ratio, because a machine twice as fast moves everything by a factor. A few
//! values that all differ are judged by the exact distribution of the ranks, many by its bell.
//!
//! What it does not do: know about seconds that depend on one another. A server that was slow for
//! ten seconds in a row looks like ten witnesses; runs that alternate are the remedy.
//!
//! Source: Mann and Whitney, "On a Test of Whether one of Two Random Variables is Stochastically
//! Larger than the Other" (1947); Hodges and Lehmann, "Estimates of Location Based on Rank Tests"
//! (1963); Holm, "A Simple Sequentially Rejective Multiple Test Procedure" (1979).

use serde::Serialize;

/// The normal quantile of a two-sided interval of 95 %.
const QUANTILE_95: f64 = 1.959_964;
/// Up to this many pairs the ranks are counted out. Their number is below 2 to the 53rd then, so
/// that a double holds it exactly.
const PAIRS_EXACT_MAX: usize = 400;

/// The p-values of several questions to the same measurements, corrected so that the probability of
/// even one false alarm among all of them stays below the level that each is held against (Holm).
pub fn corrected(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|one, other| p_values[*one].total_cmp(&p_values[*other]));
    let mut corrected = vec![0.0; p_values.len()];
    let mut highest: f64 = 0.0;
    for (rank, index) in order.into_iter().enumerate() {
        highest = highest.max(p_values[index] * float(p_values.len() - rank)).min(1.0);
        corrected[index] = highest;
    }
    corrected
}

/// The smallest p-value that samples of these sizes can have: all of one above all of the other.
pub fn p_value_min(first: usize, second: usize) -> f64 {
    let (few, many) = (first.min(second), first.max(second));
    let orders: f64 =
        (1..=few).map(|step| float(many + step) / float(step)).product::<f64>().max(2.0);
    2.0 / orders
}

/// How two samples differ.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The second as a multiple of the first: the median of all ratios between the two.
    pub ratio: f64,
    /// The lower end of its interval of 95 %.
    pub ratio_low: f64,
    /// The upper end of its interval of 95 %.
    pub ratio_high: f64,
    /// How probable so large a difference would be if there were none, two-sided.
    pub p_value: f64,
}

impl Difference {
    /// The difference of two samples of values above zero; none where either has fewer than four,
    /// from which no test could conclude anything, or holds a value that has no logarithm.
    pub fn between(first: &[f64], second: &[f64]) -> Option<Self> {
        const VALUES_MIN: usize = 4;
        let logarithms = |values: &[f64]| -> Option<Vec<f64>> {
            let is_sound = |value: &f64| value.is_finite() && *value > 0.0;
            let is_enough = values.len() >= VALUES_MIN && values.iter().all(is_sound);
            is_enough.then(|| values.iter().map(|value| value.ln()).collect())
        };
        let (first, second) = (logarithms(first)?, logarithms(second)?);
        let mut shifts: Vec<f64> =
            second.iter().flat_map(|two| first.iter().map(move |one| two - one)).collect();
        shifts.sort_by(f64::total_cmp);
        let p_value = match exact_p_value(&first, &second, &shifts) {
            Some(p_value) => p_value,
            None => p_value(&shifts, deviation(&first, &second)),
        };
        let (ratio_low, ratio_high) = interval(&shifts, first.len() + second.len());
        Some(Self {
            ratio: median(&shifts).exp(),
            ratio_low: ratio_low.exp(),
            ratio_high: ratio_high.exp(),
            p_value,
        })
    }

    /// Whether the difference is told from chance at this level, such as 0.01.
    pub fn is_significant(&self, level: f64) -> bool {
        self.p_value < level
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of seconds")]
const fn float(count: usize) -> f64 {
    count as f64
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    } else {
        sorted[middle]
    }
}

/// The standard deviation of the Mann-Whitney count where there is no difference, with the
/// correction for values that occur several times.
fn deviation(first: &[f64], second: &[f64]) -> f64 {
    let mut all = [first, second].concat();
    all.sort_by(f64::total_cmp);
    let count = float(all.len());
    let ties: f64 = all
        .chunk_by(|one, other| one.total_cmp(other).is_eq())
        .map(|same| float(same.len()).powi(3) - float(same.len()))
        .sum();
    let spread = (count + 1.0) - ties / (count * (count - 1.0));
    (float(first.len()) * float(second.len()) / 12.0 * spread).max(0.0).sqrt()
}

/// How probable the count of shifts above zero is, or one further from the middle: counted out over
/// all orders of the ranks. None where values occur several times, or there are too many.
///
/// The orders with so many shifts above zero are the coefficients of a Gaussian binomial, the
/// product of `(1 - q^(n + i)) / (1 - q^i)` for `i` up to `m`.
fn exact_p_value(first: &[f64], second: &[f64], shifts: &[f64]) -> Option<f64> {
    let mut all = [first, second].concat();
    all.sort_by(f64::total_cmp);
    let is_tied = all.windows(2).any(|pair| pair[0].total_cmp(&pair[1]).is_eq());
    let pairs = shifts.len();
    if is_tied || pairs > PAIRS_EXACT_MAX {
        return None;
    }
    let mut orders = vec![0.0; pairs + 1];
    orders[0] = 1.0;
    let (few, many) = (first.len().min(second.len()), first.len().max(second.len()));
    for step in 1..=few {
        for place in (many + step..=pairs).rev() {
            orders[place] -= orders[place - many - step];
        }
        for place in step..=pairs {
            orders[place] += orders[place - step];
        }
    }
    let above = shifts.iter().filter(|shift| **shift > 0.0).count();
    let tail: f64 = orders[..=above.min(pairs - above)].iter().sum();
    Some((2.0 * tail / orders.iter().sum::<f64>()).min(1.0))
}

/// The same by the bell that the count comes close to with many values, corrected for those that
/// occur several times.
fn p_value(shifts: &[f64], deviation: f64) -> f64 {
    let above = shifts.iter().filter(|shift| **shift > 0.0).count();
    let equal = shifts.iter().filter(|shift| **shift == 0.0).count();
    let count = float(above) + float(equal) / 2.0;
    // Counts are whole and the curve is not: half a step belongs to the middle.
    let distance = ((count - float(shifts.len()) / 2.0).abs() - 0.5).max(0.0);
    if deviation > 0.0 { libm::erfc(distance / deviation / std::f64::consts::SQRT_2) } else { 1.0 }
}

/// The shifts between which the true one lies in 95 of a hundred cases. `count` is the size of both
/// samples together.
fn interval(shifts: &[f64], count: usize) -> (f64, f64) {
    let pairs = float(shifts.len());
    let deviation = (pairs * float(count + 1) / 12.0).sqrt();
    let below = QUANTILE_95.mul_add(-deviation, pairs / 2.0).max(0.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and below the count of the shifts"
    )]
    let below = below as usize;
    (shifts[below], shifts[shifts.len() - 1 - below])
}

#[cfg(test)]
mod tests {
    use corelane::base::random::Random;

    use super::*;

    /// Seconds of a run: around `level`, with a tail.
    fn run(level: f64, seed: u64) -> Vec<f64> {
        let mut random = Random::seeded(seed);
        let mut draw = || {
            let noise = float(random.below(1_000)) / 10_000.0;
            let hiccup = if random.chance(1, 20) { 3.0 } else { 1.0 };
            level * (1.0 + noise) * hiccup
        };
        (0..30).map(|_| draw()).collect()
    }

    #[test]
    fn a_difference_of_a_tenth_is_found_through_hiccups() {
        let difference = Difference::between(&run(100.0, 1), &run(110.0, 2)).unwrap();
        assert!(difference.is_significant(0.01), "{difference:?}");
        assert!((1.07..1.13).contains(&difference.ratio), "{difference:?}");
        assert!(difference.ratio_low > 1.0 && difference.ratio_low < difference.ratio);
        assert!(difference.ratio_high > difference.ratio);
    }

    #[test]
    fn runs_of_the_same_server_differ_about_as_often_as_the_level_says() {
        let is_told =
            |seed| Difference::between(&run(100.0, seed), &run(100.0, seed + 10_000)).unwrap();
        let alarms = (0..1_000).filter(|seed| is_told(*seed).is_significant(0.05)).count();
        assert!((25..80).contains(&alarms), "{alarms} of 1000");
        let missed =
            (0..1_000).map(is_told).filter(|it| it.ratio_low > 1.0 || it.ratio_high < 1.0).count();
        assert!(missed < 80, "{missed} of 1000 intervals miss the truth");
    }

    #[test]
    fn the_order_of_the_two_turns_the_ratio_round() {
        let (one, other) = (run(100.0, 1), run(150.0, 2));
        let forth = Difference::between(&one, &other).unwrap();
        let back = Difference::between(&other, &one).unwrap();
        assert!((forth.ratio * back.ratio - 1.0).abs() < 1e-9);
        assert!((forth.p_value - back.p_value).abs() < 1e-12);
    }

    #[test]
    fn few_values_are_judged_by_counting_out_their_orders() {
        let p_value =
            |first: &[f64], second: &[f64]| Difference::between(first, second).unwrap().p_value;
        // Four below four: 2 of the 70 orders are so far apart.
        let apart = p_value(&[1.0, 2.0, 3.0, 4.0], &[5.0, 6.0, 7.0, 8.0]);
        assert!((apart - 2.0 / 70.0).abs() < 1e-12, "{apart}");
        // Five below five but for one exchange of neighbours: 2 of 252 each way.
        let five = [1.0, 2.0, 3.0, 4.0, 6.0];
        let nearly = p_value(&five, &[5.0, 7.0, 8.0, 9.0, 10.0]);
        assert!((nearly - 4.0 / 252.0).abs() < 1e-12, "{nearly}");
        let mixed = p_value(&[1.0, 4.0, 5.0, 8.0], &[2.0, 3.0, 6.0, 7.0]);
        assert!((mixed - 1.0).abs() < 1e-12, "{mixed}");
    }

    #[test]
    fn few_values_cannot_say_much_however_they_lie() {
        assert!((p_value_min(4, 4) - 2.0 / 70.0).abs() < 1e-12);
        assert!((p_value_min(5, 4) - 2.0 / 126.0).abs() < 1e-12);
        assert!(p_value_min(200, 300) < 1e-9);
    }

    #[test]
    fn several_questions_need_more_than_one_alone() {
        let corrected = corrected(&[0.01, 0.04, 0.03, 0.005]);
        let expected = [0.03, 0.06, 0.06, 0.02];
        assert!(corrected.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-12));
        assert_eq!(super::corrected(&[0.7, 0.9]), [1.0, 1.0]);
        assert!(super::corrected(&[]).is_empty());
    }

    #[test]
    fn equal_values_are_no_difference() {
        let difference = Difference::between(&[5.0; 10], &[5.0; 10]).unwrap();
        assert!((difference.ratio - 1.0).abs() < 1e-12);
        assert!((difference.p_value - 1.0).abs() < 1e-12);
    }

    #[test]
    fn too_few_values_or_senseless_ones_say_nothing() {
        let many = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(Difference::between(&many[..3], &many), None);
        assert_eq!(Difference::between(&many, &[1.0, 2.0, 3.0, 0.0]), None);
        assert_eq!(Difference::between(&many, &[1.0, 2.0, 3.0, f64::INFINITY]), None);
    }
}
