//! A whole distribution of latencies as the points of a line.
//!
//! What it keeps true: every nine of the percentiles (90, 99, 99.9, …) has the same number of
//! points, down to the single longest latency; where neighbours say the same, only the ends of
//! their stretch are kept.

use hdrhistogram::Histogram;

/// Points for each nine: about a hundred for a million latencies.
const POINTS_EACH_NINE: u32 = 16;

/// The points of a histogram of nanoseconds: percentiles with their microseconds, ascending; none
/// where nothing was recorded.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
pub fn distribution(histogram: &Histogram<u64>) -> Vec<(f64, f64)> {
    if histogram.is_empty() {
        return Vec::new();
    }
    let nines = (histogram.len() as f64).log10();
    let steps = (0..).map(|step| f64::from(step) / f64::from(POINTS_EACH_NINE));
    let percentiles = steps.take_while(|nine| *nine < nines).map(|nine| 100.0 - percent_left(nine));
    // The shortest would be given as the least that it may have been, all others as the most.
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

/// The part of all latencies, in percent, that lies above so many nines.
fn percent_left(nines: f64) -> f64 {
    100.0 * 10_f64.powf(-nines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::latency::histogram;

    fn of(latencies_us: impl IntoIterator<Item = u64>) -> Vec<(f64, f64)> {
        let mut all = histogram();
        for latency in latencies_us {
            all.record(latency * 1_000).unwrap();
        }
        distribution(&all)
    }

    #[test]
    fn the_points_ascend_from_the_shortest_to_the_longest() {
        let points = of(1..=100_000);
        assert!((40..=100).contains(&points.len()), "{}", points.len());
        assert!(points.is_sorted_by(|one, next| one.0 < next.0 && one.1 <= next.1));
        let (first, last) = (points[0], points[points.len() - 1]);
        assert!(first.0.abs() < 1e-9 && (first.1 - 1.0).abs() < 0.01, "{first:?}");
        assert!((last.0 - 100.0).abs() < 1e-9 && (last.1 / 1e5 - 1.0).abs() < 1e-3, "{last:?}");
    }

    #[test]
    fn neighbours_that_say_the_same_are_left_out() {
        assert_eq!(of(std::iter::repeat_n(5, 10_000)).len(), 2);
        // Half of one kind and half of another: a step has the ends of both stretches.
        let steps = of((0..10_000).map(|number| if number < 5_000 { 1 } else { 100 }));
        assert_eq!(steps.len(), 4, "{steps:?}");
    }

    #[test]
    fn nothing_has_no_points_and_one_latency_is_one_point() {
        assert!(of([]).is_empty());
        let one = of([7]);
        assert_eq!(one.len(), 1);
        assert!((one[0].0 - 100.0).abs() < f64::EPSILON);
    }
}
