//! Latency distributions as the points of a percentile curve.
//!
//! Invariants: each additional nine of the percentiles (90, 99, 99.9, …) has the same number of
//! points, up to the maximum; of a run of equal neighbours only the two ends are kept.

use hdrhistogram::Histogram;

/// Points for each nine: about a hundred for a million latencies.
const POINTS_EACH_NINE: u32 = 16;

/// Returns the points of a histogram of nanoseconds, as percentiles with their latency in
/// microseconds, ascending; empty for an empty histogram.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
pub fn distribution(histogram: &Histogram<u64>) -> Vec<(f64, f64)> {
    if histogram.is_empty() {
        return Vec::new();
    }
    let nines = (histogram.len() as f64).log10();
    let steps = (0..).map(|step| f64::from(step) / f64::from(POINTS_EACH_NINE));
    let percentiles =
        steps.take_while(|nine| *nine < nines).map(|nine| 100.0 - percent_above(nine));
    // value_at_percentile returns the lower end of a bucket for the minimum, the upper for others.
    let most = |value| histogram.highest_equivalent(value) as f64 / 1e3;
    let at = |percentile| most(histogram.value_at_percentile(percentile));
    let mut points: Vec<(f64, f64)> = Vec::new();
    for point in percentiles.chain([100.0]).map(|percentile| (percentile, at(percentile))) {
        if let [.., (_, before), (_, last)] = points[..]
            && before.to_bits() == last.to_bits()
            && last.to_bits() == point.1.to_bits()
        {
            points.pop();
        }
        points.push(point);
    }
    points
}

/// Returns the share of latencies, in percent, above a percentile with this many nines.
fn percent_above(nines: f64) -> f64 {
    100.0 * 10_f64.powf(-nines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::histogram::histogram;

    fn of(latencies_us: impl IntoIterator<Item = u64>) -> Vec<(f64, f64)> {
        let mut all = histogram();
        for latency in latencies_us {
            all.record(latency * 1_000).unwrap();
        }
        distribution(&all)
    }

    #[test]
    fn distribution_points_ascend_from_min_to_max() {
        let points = of(1..=100_000);
        assert!((40..=100).contains(&points.len()), "{}", points.len());
        assert!(points.is_sorted_by(|one, next| one.0 < next.0 && one.1 <= next.1));
        let (first, last) = (points[0], points[points.len() - 1]);
        assert!(first.0.abs() < 1e-9 && (first.1 - 1.0).abs() < 0.01, "{first:?}");
        assert!((last.0 - 100.0).abs() < 1e-9 && (last.1 / 1e5 - 1.0).abs() < 1e-3, "{last:?}");
    }

    #[test]
    fn equal_neighbouring_points_are_merged() {
        assert_eq!(of(std::iter::repeat_n(5, 10_000)).len(), 2);
        // Two values: the step needs both ends of both runs.
        let steps = of((0..10_000).map(|number| if number < 5_000 { 1 } else { 100 }));
        assert_eq!(steps.len(), 4, "{steps:?}");
    }

    #[test]
    fn distribution_of_no_or_one_latency() {
        assert!(of([]).is_empty());
        let one = of([7]);
        assert_eq!(one.len(), 1);
        assert!((one[0].0 - 100.0).abs() < f64::EPSILON);
    }
}
