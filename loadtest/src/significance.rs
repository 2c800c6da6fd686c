//! Statistical significance of the difference of two samples.
//!
//! Latencies are not normally distributed, and a single outlier would move their mean, so ranks are
//! compared: the Mann-Whitney U test gives the p-value, and the Hodges-Lehmann estimate the size of
//! the difference with the matching confidence interval.
//!
//! The test assumes that both distributions have the same shape. The difference is a ratio, since a
//! machine twice as fast scales every value. Small samples without ties use the exact distribution
//! of U, others the normal approximation.
//!
//! Values are assumed to be independent. Successive seconds of a run are not, so that p-values come
//! out too small; alternating runs avoid this.
//!
//! Source: Mann and Whitney, "On a Test of Whether one of Two Random Variables is Stochastically
//! Larger than the Other" (1947); Hodges and Lehmann, "Estimates of Location Based on Rank Tests"
//! (1963); Holm, "A Simple Sequentially Rejective Multiple Test Procedure" (1979).

use serde::Serialize;

/// The normal quantile of a two-sided 95 % interval.
const QUANTILE_95: f64 = 1.959_964;
/// Largest number of pairs for the exact distribution. The number of orders is then below 2^53, so
/// that an `f64` holds it exactly.
const PAIRS_EXACT_MAX: usize = 400;

/// Returns p-values corrected for multiple comparisons (Holm): the probability of any false
/// positive among all of them stays below the significance level.
pub fn holm_corrected(p_values: &[f64]) -> Vec<f64> {
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

/// Returns the smallest p-value that samples of these sizes can have.
pub fn p_value_min(first: usize, second: usize) -> f64 {
    let (few, many) = (first.min(second), first.max(second));
    let orders: f64 =
        (1..=few).map(|step| float(many + step) / float(step)).product::<f64>().max(2.0);
    2.0 / orders
}

/// Returns the quantile of the standard normal distribution at a probability between 0 and 1.
pub fn normal_quantile(probability: f64) -> f64 {
    // The distribution function is 1 beyond 9 standard deviations.
    let (mut low, mut high) = (-9.0, 9.0);
    for _ in 0..60 {
        let middle: f64 = f64::midpoint(low, high);
        if libm::erfc(-middle / std::f64::consts::SQRT_2) / 2.0 < probability {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// The difference of two samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Ratio of the second to the first sample: the median of all pairwise ratios.
    pub ratio: f64,
    /// Lower end of the 95 % confidence interval.
    pub ratio_low: f64,
    /// Upper end of the 95 % confidence interval.
    pub ratio_high: f64,
    /// Two-sided p-value.
    pub p_value: f64,
}

impl Difference {
    /// Compares two samples of positive values. Returns `None` if either has fewer than four
    /// values, or a value that is not finite and positive.
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

/// Returns the standard deviation of U under the null hypothesis, corrected for ties.
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

/// Returns the exact two-sided p-value of U, or `None` if there are ties or too many pairs.
///
/// The number of orders for each U is a coefficient of a Gaussian binomial, the product of
/// `(1 - q^(n + i)) / (1 - q^i)` for `i` up to `m`.
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

/// Returns the two-sided p-value by the normal approximation, corrected for ties.
fn p_value(shifts: &[f64], deviation: f64) -> f64 {
    let above = shifts.iter().filter(|shift| **shift > 0.0).count();
    let equal = shifts.iter().filter(|shift| **shift == 0.0).count();
    let count = float(above) + float(equal) / 2.0;
    // Continuity correction.
    let distance = ((count - float(shifts.len()) / 2.0).abs() - 0.5).max(0.0);
    if deviation > 0.0 { libm::erfc(distance / deviation / std::f64::consts::SQRT_2) } else { 1.0 }
}

/// Returns the 95 % confidence interval of the shift. `count` is the size of both samples together.
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
    use corelane_base::random::Random;

    use super::*;

    /// Returns latencies of seconds around `level`, with a tail.
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
    fn ten_percent_difference_is_significant_despite_outliers() {
        let difference = Difference::between(&run(100.0, 1), &run(110.0, 2)).unwrap();
        assert!(difference.p_value < 0.01, "{difference:?}");
        assert!((1.07..1.13).contains(&difference.ratio), "{difference:?}");
        assert!(difference.ratio_low > 1.0 && difference.ratio_low < difference.ratio);
        assert!(difference.ratio_high > difference.ratio);
    }

    #[test]
    fn same_server_false_positives_match_level() {
        let compare =
            |seed| Difference::between(&run(100.0, seed), &run(100.0, seed + 10_000)).unwrap();
        let alarms = (0..1_000).filter(|seed| compare(*seed).p_value < 0.05).count();
        assert!((25..80).contains(&alarms), "{alarms} of 1000");
        let missed =
            (0..1_000).map(compare).filter(|it| it.ratio_low > 1.0 || it.ratio_high < 1.0).count();
        assert!(missed < 80, "{missed} of 1000 intervals miss the truth");
    }

    #[test]
    fn swapped_samples_invert_the_ratio() {
        let (one, other) = (run(100.0, 1), run(150.0, 2));
        let forth = Difference::between(&one, &other).unwrap();
        let back = Difference::between(&other, &one).unwrap();
        assert!((forth.ratio * back.ratio - 1.0).abs() < 1e-9);
        assert!((forth.p_value - back.p_value).abs() < 1e-12);
    }

    #[test]
    fn small_samples_use_exact_distribution() {
        let p_value =
            |first: &[f64], second: &[f64]| Difference::between(first, second).unwrap().p_value;
        // Four below four: 2 of the 70 orders are at least as extreme.
        let apart = p_value(&[1.0, 2.0, 3.0, 4.0], &[5.0, 6.0, 7.0, 8.0]);
        assert!((apart - 2.0 / 70.0).abs() < 1e-12, "{apart}");
        // Five below five with two neighbours exchanged: 2 of 252 on each side.
        let five = [1.0, 2.0, 3.0, 4.0, 6.0];
        let nearly = p_value(&five, &[5.0, 7.0, 8.0, 9.0, 10.0]);
        assert!((nearly - 4.0 / 252.0).abs() < 1e-12, "{nearly}");
        let mixed = p_value(&[1.0, 4.0, 5.0, 8.0], &[2.0, 3.0, 6.0, 7.0]);
        assert!((mixed - 1.0).abs() < 1e-12, "{mixed}");
    }

    #[test]
    fn small_samples_bound_the_p_value() {
        assert!((p_value_min(4, 4) - 2.0 / 70.0).abs() < 1e-12);
        assert!((p_value_min(5, 4) - 2.0 / 126.0).abs() < 1e-12);
        assert!(p_value_min(200, 300) < 1e-9);
    }

    #[test]
    fn normal_quantile_inverts_the_distribution() {
        assert!((normal_quantile(0.975) - QUANTILE_95).abs() < 1e-6);
        assert!((normal_quantile(0.8) - 0.841_621).abs() < 1e-6);
        assert!((normal_quantile(0.2) + 0.841_621).abs() < 1e-6);
    }

    #[test]
    fn holm_correction_raises_p_values() {
        let corrected = holm_corrected(&[0.01, 0.04, 0.03, 0.005]);
        let expected = [0.03, 0.06, 0.06, 0.02];
        assert!(corrected.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-12));
        assert_eq!(holm_corrected(&[0.7, 0.9]), [1.0, 1.0]);
        assert!(holm_corrected(&[]).is_empty());
    }

    #[test]
    fn equal_values_are_not_different() {
        let difference = Difference::between(&[5.0; 10], &[5.0; 10]).unwrap();
        assert!((difference.ratio - 1.0).abs() < 1e-12);
        assert!((difference.p_value - 1.0).abs() < 1e-12);
    }

    #[test]
    fn too_few_or_invalid_values_are_not_compared() {
        let many = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(Difference::between(&many[..3], &many), None);
        assert_eq!(Difference::between(&many, &[1.0, 2.0, 3.0, 0.0]), None);
        assert_eq!(Difference::between(&many, &[1.0, 2.0, 3.0, f64::INFINITY]), None);
    }
}
