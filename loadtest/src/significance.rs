//! Statistical significance of differences between two groups of runs.
//!
//! Runs are few and their figures depend on one another, so all figures are tested together by a
//! permutation test: if both groups measure the same server, every division of the runs into two
//! groups of these sizes is equally probable. The statistic of a figure is Student's t; the p-value
//! is the share of the divisions in which the largest statistic of all figures (that are not more
//! significant) is at least as large as that of the figure. The probability of any false alarm
//! among all figures then stays below the significance level, whatever the distribution of the
//! figures and their dependence, and the smallest p-value does not grow with their number: 2 of 252
//! with five runs a side.
//!
//! The size of a difference is the Hodges-Lehmann estimate, which single outliers do not move.
//!
//! Source: Westfall and Young, "Resampling-Based Multiple Testing" (1993), algorithm 4.1; Hodges
//! and Lehmann, "Estimates of Location Based on Rank Tests" (1963).

use corelane_base::random::Random;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The normal quantile of a two-sided 95 % interval.
const QUANTILE_95: f64 = 1.959_964;
/// Largest number of divisions that are all examined; of more, as many are drawn.
const DIVISIONS_MAX: f64 = 20_000.0;
/// Share by which a statistic may be smaller and still counts as equal, since sums are rounded.
const ROUNDING: f64 = 1e-9;

/// The values of one figure in both groups.
#[derive(Clone, Debug)]
pub struct Samples {
    /// Values of the first group.
    pub first: Vec<f64>,
    /// Values of the second group.
    pub second: Vec<f64>,
}

/// The shift from one group to another.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Shift {
    /// The median of all pairwise differences.
    pub estimate: f64,
    /// Lower end of the 95 % confidence interval.
    pub low: f64,
    /// Upper end of the 95 % confidence interval.
    pub high: f64,
}

/// Returns the smallest p-value that groups of these sizes can have.
pub fn p_value_min(first: usize, second: usize) -> f64 {
    // With equal sizes each division has a mirror image with the same statistic.
    let equal = if first == second { 2.0 } else { 1.0 };
    (equal / division_count(first, second)).clamp(1.0 / DIVISIONS_MAX, 1.0)
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

impl Shift {
    /// Returns the shift between two groups, or `None` if one is empty.
    pub fn of(samples: &Samples) -> Option<Self> {
        let Samples { first, second } = samples;
        let mut shifts: Vec<f64> =
            second.iter().flat_map(|two| first.iter().map(move |one| two - one)).collect();
        shifts.sort_by(f64::total_cmp);
        let estimate = median(&shifts)?;
        let pairs = float(shifts.len());
        let deviation = (pairs * float(first.len() + second.len() + 1) / 12.0).sqrt();
        let outside = QUANTILE_95.mul_add(-deviation, pairs / 2.0).max(0.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative, and below the count of the shifts"
        )]
        let outside = outside as usize;
        Some(Self { estimate, low: shifts[outside], high: shifts[shifts.len() - 1 - outside] })
    }
}

/// Returns the median of sorted values.
pub fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        count if count.is_multiple_of(2) => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
        _ => Some(sorted[middle]),
    }
}

/// Returns the two-sided p-value of each figure, corrected for the number of figures. All have the
/// same numbers of finite values, in the same order of the runs.
pub fn p_values(figures: &[Samples]) -> Vec<f64> {
    let Some(Samples { first, second }) = figures.first() else { return Vec::new() };
    let columns: Vec<Column> = figures.iter().map(Column::new).collect();
    let (base, count) = (first.len(), first.len() + second.len());
    let measured: Vec<usize> = (0..base).collect();
    let measured: Vec<f64> = columns.iter().map(|column| column.statistic(&measured)).collect();
    // The most significant first.
    let mut order: Vec<usize> = (0..columns.len()).collect();
    order.sort_by(|one, other| measured[*other].total_cmp(&measured[*one]));
    let mut reached = vec![0_u64; columns.len()];
    let mut divisions = 0_u64;
    for_each_division(base, count, |division| {
        divisions += 1;
        let mut largest: f64 = 0.0;
        for &index in order.iter().rev() {
            largest = largest.max(columns[index].statistic(division));
            reached[index] += u64::from(largest >= measured[index] * (1.0 - ROUNDING));
        }
    });
    let mut p_values = vec![1.0; columns.len()];
    let mut highest: f64 = 0.0;
    for index in order {
        #[expect(clippy::cast_precision_loss, reason = "a few thousand divisions")]
        let share = reached[index] as f64 / divisions.max(1) as f64;
        highest = highest.max(share);
        p_values[index] = highest;
    }
    p_values
}

/// The values of one figure in all runs.
struct Column {
    values: Vec<f64>,
    sum: f64,
    squares: f64,
}

impl Column {
    fn new(samples: &Samples) -> Self {
        let all = [&samples.first[..], &samples.second].concat();
        // Values around zero keep the sum of squares exact.
        let mean = all.iter().sum::<f64>() / float(all.len());
        let values: Vec<f64> = all.iter().map(|value| value - mean).collect();
        let squares = values.iter().map(|value| value * value).sum();
        Self { sum: values.iter().sum(), squares, values }
    }

    /// Returns the size of Student's t, without constant factors, if these runs are the first
    /// group.
    fn statistic(&self, first: &[usize]) -> f64 {
        let (few, many) = (float(first.len()), float(self.values.len() - first.len()));
        let sum: f64 = first.iter().map(|run| self.values[*run]).sum();
        let rest = self.sum - sum;
        let difference = (rest / many - sum / few).abs();
        if difference <= self.squares.sqrt() * ROUNDING {
            return 0.0;
        }
        let within = self.squares - sum * sum / few - rest * rest / many;
        difference / within.max(self.squares * ROUNDING).sqrt()
    }
}

/// Calls `examine` with the first group of each division of `count` runs, or of as many drawn at
/// random as are examined at most; the measured division is among them.
fn for_each_division(first: usize, count: usize, mut examine: impl FnMut(&[usize])) {
    let mut division: Vec<usize> = (0..first).collect();
    if division_count(first, count - first) > DIVISIONS_MAX {
        examine(&division);
        let mut random = Random::seeded(1);
        let mut runs: Vec<usize> = (0..count).collect();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a constant")]
        for _ in 1..DIVISIONS_MAX as usize {
            for place in 0..first {
                runs.swap(place, place + random.below(count - place));
            }
            examine(&runs[..first]);
        }
        return;
    }
    loop {
        examine(&division);
        // The last run that can move on does; those behind it follow it.
        let Some(place) = (0..first).rev().find(|place| division[*place] < count - first + place)
        else {
            return;
        };
        division[place] += 1;
        for next in place + 1..first {
            division[next] = division[next - 1] + 1;
        }
    }
}

/// Returns in how many ways runs divide into groups of these sizes.
fn division_count(first: usize, second: usize) -> f64 {
    let (few, many) = (first.min(second), first.max(second));
    (1..=few).map(|step| float(many + step) / float(step)).product()
}

#[expect(clippy::cast_precision_loss, reason = "counts of runs")]
const fn float(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a number of mean zero and deviation one, roughly normal.
    fn normal(random: &mut Random) -> f64 {
        (0..12).map(|_| float(random.below(1_000_000)) / 1e6).sum::<f64>() - 6.0
    }

    /// Returns logarithms of eight figures of `runs` runs a side with this spread. Half of it is
    /// shared by the figures of a run, and one run of twenty is disturbed. Those of
    /// the second side are larger by `shift`.
    fn figures(random: &mut Random, runs: usize, spread: f64, shift: f64) -> Vec<Samples> {
        const SPREADS: [f64; 8] = [0.5, 0.8, 1.0, 1.0, 1.5, 3.0, 1.0, 0.3];
        let of_run: Vec<f64> = (0..2 * runs)
            .map(|_| normal(random) + if random.chance(1, 20) { 3.0 } else { 0.0 })
            .collect();
        SPREADS
            .iter()
            .map(|own| {
                let mut values: Vec<f64> = of_run
                    .iter()
                    .map(|shared| own * spread * (shared + normal(random)) / 2.0_f64.sqrt())
                    .collect();
                let second = values.split_off(runs).iter().map(|value| value + shift).collect();
                Samples { first: values, second }
            })
            .collect()
    }

    #[test]
    fn equal_servers_rarely_raise_an_alarm() {
        for (runs, allowed) in [(4, 32), (5, 32), (12, 14)] {
            let comparisons = if runs == 12 { 100 } else { 400 };
            let mut random = Random::seeded(9);
            let alarms = (0..comparisons)
                .filter(|_| {
                    let all = p_values(&figures(&mut random, runs, 0.02, 0.0));
                    all.iter().any(|p_value| *p_value < 0.05)
                })
                .count();
            assert!(alarms <= allowed, "{alarms} alarms of {comparisons} with {runs} runs");
        }
    }

    #[test]
    fn five_runs_show_five_percent() {
        let mut random = Random::seeded(3);
        let shown = (0..200)
            .filter(|_| {
                let all = p_values(&figures(&mut random, 5, 0.015, 1.05_f64.ln()));
                all.iter().any(|p_value| *p_value < 0.05)
            })
            .count();
        assert!(shown >= 180, "{shown} of 200");
    }

    #[test]
    fn more_figures_keep_smallest_p_value() {
        let apart = Samples {
            first: vec![1.0, 1.1, 1.2, 1.05, 1.15],
            second: vec![9.0, 9.1, 9.2, 9.05, 9.15],
        };
        let same =
            Samples { first: vec![1.0, 2.0, 3.0, 4.0, 5.0], second: vec![2.5, 1.5, 3.5, 4.5, 2.9] };
        let all = p_values(&[same.clone(), apart.clone(), same]);
        assert!((all[1] - 2.0 / 252.0).abs() < 1e-12, "{all:?}");
        assert!(all[0] > 0.5, "{all:?}");
        let constant = Samples { first: vec![1.0; 5], second: vec![2.0; 5] };
        assert!((p_values(&[constant])[0] - 2.0 / 252.0).abs() < 1e-12);
        let equal = Samples { first: vec![1.0; 5], second: vec![1.0; 5] };
        assert!((p_values(&[equal])[0] - 1.0).abs() < 1e-12);
        assert!(p_values(&[]).is_empty());
    }

    #[test]
    fn divisions_are_complete_and_distinct() {
        let mut all = std::collections::BTreeSet::new();
        for_each_division(3, 7, |division| {
            assert!(all.insert(division.to_vec()), "{division:?}");
        });
        assert_eq!(all.len(), 35);
        let mut drawn = 0;
        for_each_division(12, 24, |_| drawn += 1);
        assert_eq!(drawn, 20_000);
    }

    #[test]
    fn small_groups_bound_the_p_value() {
        assert!((p_value_min(4, 4) - 2.0 / 70.0).abs() < 1e-12);
        assert!((p_value_min(5, 4) - 1.0 / 126.0).abs() < 1e-12);
        assert!((p_value_min(1, 1) - 1.0).abs() < 1e-12);
        assert!(p_value_min(200, 300) < 1e-4);
    }

    #[test]
    fn shift_is_the_median_difference() {
        let samples = Samples {
            first: vec![1.0, 2.0, 3.0, 4.0, 5.0],
            second: vec![2.0, 3.0, 4.0, 5.0, 90.0],
        };
        let shift = Shift::of(&samples).unwrap();
        assert!((shift.estimate - 1.0).abs() < 1e-12, "{shift:?}");
        assert!(shift.low < shift.estimate && shift.estimate < shift.high, "{shift:?}");
        assert_eq!(Shift::of(&Samples { first: Vec::new(), second: vec![1.0] }), None);
    }

    #[test]
    fn normal_quantile_inverts_the_distribution() {
        assert!((normal_quantile(0.975) - QUANTILE_95).abs() < 1e-6);
        assert!((normal_quantile(0.8) - 0.841_621).abs() < 1e-6);
        assert!((normal_quantile(0.2) + 0.841_621).abs() < 1e-6);
    }
}
