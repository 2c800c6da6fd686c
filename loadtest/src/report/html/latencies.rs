//! The plot of latency by percentile, and the axis and threshold lines of all latency plots.

use super::axis::Axis;
use super::plot::{HoverRegion, Plot, PlotLine, Table, ThresholdLine};
use crate::figure;
use crate::plan::Thresholds;
use crate::result::{Percentiles, RunResult};

/// Ratio of the extremes above which a latency axis is logarithmic.
const RATIO_LINEAR_MAX: f64 = 20.0;

/// Returns the plot of latency by percentile.
pub(super) fn percentiles(result: &RunResult) -> Option<Plot> {
    let response = points(&result.response_distribution, &result.response);
    let service = points(&result.service_distribution, &result.service);
    let bounds = run_threshold_lines(result);
    let range = Extent::of(response.iter().chain(&service).map(|point| point.1))?;
    let range = range.extended_by(&bounds);
    #[expect(clippy::cast_precision_loss, reason = "what is drawn")]
    let x = Axis::nines(result.response.count as f64);
    let pairs = response.windows(2);
    let spots = pairs.map(|pair| HoverRegion {
        from: pair[0].0,
        to: pair[1].0,
        text: format!("{} of 100 within {}", percentile(pair[1].0), figure::duration(pair[1].1)),
    });
    let Percentiles { p50_us, p99_us, max_us, .. } = result.response;
    Some(Plot {
        id: "percentiles",
        title: "Latency by percentile",
        caption: format!(
            "Percentiles of the response time{}. Response time counts from the intended send \
             time of a request, service time from the actual one.",
            scale_remark(range)
        ),
        description: format!(
            "Half of the requests were answered within {}, 99 of 100 within {}, all within {}.",
            figure::latency(p50_us),
            figure::latency(p99_us),
            figure::latency(max_us)
        ),
        hover_regions: spots.collect(),
        warm_up: None,
        thresholds: bounds,
        table: percentile_table(result),
        lines: vec![
            PlotLine::new("response time", "one", response.iter().map(|(x, y)| (*x, Some(*y)))),
            PlotLine::new(
                "service time",
                "two dashed",
                service.iter().map(|(x, y)| (*x, Some(*y))),
            ),
        ],
        x,
        y: duration_axis(range),
    })
}

/// The smallest and the largest of some values that are plotted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) least: f64,
    pub(super) most: f64,
}

impl Extent {
    /// Returns the extent of the positive values, or `None` if there are none.
    pub(super) fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let values = values.filter(|value| *value > 0.0);
        values.fold(None, |extent: Option<Self>, value| {
            let Self { least, most } = extent.unwrap_or(Self { least: value, most: value });
            Some(Self { least: least.min(value), most: most.max(value) })
        })
    }

    /// Extends a range of latencies by threshold lines.
    pub(super) fn extended_by(self, bounds: &[ThresholdLine]) -> Self {
        let places = || bounds.iter().map(|bound| bound.at);
        Self {
            least: places().fold(self.least, f64::min),
            most: places().fold(self.most, f64::max),
        }
    }

    /// Returns whether an axis of it is logarithmic.
    fn is_wide(self) -> bool {
        self.least > 0.0 && self.most / self.least > RATIO_LINEAR_MAX
    }
}

/// Returns a latency axis, logarithmic for a wide range.
pub(super) fn duration_axis(range: Extent) -> Axis {
    if range.is_wide() {
        Axis::logarithmic(range.least, range.most, figure::round_duration)
    } else {
        Axis::linear(range.most, figure::round_duration)
    }
}

/// Returns the remark of a caption about such an axis.
pub(super) fn scale_remark(range: Extent) -> &'static str {
    if range.is_wide() { ", on a logarithmic scale" } else { "" }
}

/// Returns the threshold lines of a run.
pub(super) fn run_threshold_lines(result: &RunResult) -> Vec<ThresholdLine> {
    let Percentiles { p50_us, max_us, .. } = result.response;
    let range = p50_us.zip(max_us).map(|(least, most)| Extent { least, most });
    range.map_or_else(Vec::new, |range| threshold_lines(&result.plan.thresholds, range))
}

/// Returns the latency thresholds that are within two orders of magnitude of the range.
pub(super) fn threshold_lines(set: &Thresholds, range: Extent) -> Vec<ThresholdLine> {
    let all = set.latencies().into_iter().map(|(name, bound)| ThresholdLine {
        at: bound.get().as_secs_f64() * 1e6,
        label: format!("{name} limit: {bound}"),
    });
    all.filter(|bound| bound.at > range.least / 100.0 && bound.at < range.most * 100.0).collect()
}

/// Returns the points of a distribution, or of its percentiles for results of earlier versions.
fn points(distribution: &[(f64, f64)], percentiles: &Percentiles) -> Vec<(f64, f64)> {
    if !distribution.is_empty() {
        return distribution.to_vec();
    }
    let Percentiles { count, p50_us, p90_us, p95_us, p99_us, p999_us, p9999_us, max_us, .. } =
        *percentiles;
    let all = [
        (50.0, p50_us, 1),
        (90.0, p90_us, 10),
        (95.0, p95_us, 20),
        (99.0, p99_us, 100),
        (99.9, p999_us, 1_000),
        (99.99, p9999_us, 10_000),
        (100.0, max_us, 1),
    ];
    let all = all.into_iter().filter(|row| row.2 <= count);
    all.filter_map(|row| Some((row.0, row.1?))).collect()
}

/// Formats a percentile with the necessary decimals.
fn percentile(percentile: f64) -> String {
    let places = match 100.0 - percentile {
        left if left >= 1.0 => 1,
        left if left >= 0.1 => 2,
        left if left >= 0.01 => 3,
        _ => 4,
    };
    figure::without_zeros(&format!("{percentile:.places$}")).to_owned()
}

fn percentile_table(result: &RunResult) -> Table {
    let columns = result.latencies();
    let statistics: Vec<_> = columns.iter().map(|(_, times)| times.statistics()).collect();
    let row = |place: usize, name: &str| {
        let values = statistics.iter().map(|of| figure::latency(of[place].1));
        std::iter::once(name.to_owned()).chain(values).collect()
    };
    let names = result.response.statistics().map(|(name, _)| name);
    let columns = columns.iter().map(|(name, _)| *name);
    Table {
        head: ["statistic"].into_iter().chain(columns).map(Into::into).collect(),
        rows: names.iter().enumerate().map(|(place, name)| row(place, name)).collect(),
    }
}
