//! The values of a figure in runs, and whether they can tell the two sides of a comparison apart.

use crate::plan::budgets::Figure;
use crate::result::RunResult;
use crate::significance::Samples;

/// Requests above a percentile from which it is compared: with fewer it is nearly the maximum.
const REQUESTS_ABOVE_MIN: f64 = 10.0;
/// Deviation from the rate of the plan from which a rate is more than the plan.
const RATE_DEVIATION_MIN: f64 = 0.01;
/// Rate of a run without responses, since ratios need a positive value.
const RATE_MIN: f64 = 0.001;

/// Why a figure says nothing about a comparison.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Uninformative {
    /// It was not measured in every run.
    NotMeasured,
    /// Too few requests are above the percentile.
    FewRequests,
    /// The plan of an open loop determines it.
    Planned,
    /// It has the same value in every run.
    Constant,
}

impl Uninformative {
    /// Returns the reason for people.
    pub(super) const fn reason(self) -> &'static str {
        match self {
            Self::NotMeasured => "not measured in every run",
            Self::FewRequests => "fewer than 10 requests above it in a run",
            Self::Planned => "fixed by the plan",
            Self::Constant => "the same in every run",
        }
    }

    /// Returns whether the figure is known not to differ.
    pub(super) const fn is_equal(self) -> bool {
        matches!(self, Self::Planned | Self::Constant)
    }
}

/// Returns the values of a figure in the runs of both sides.
pub(super) fn samples(
    figure: Figure,
    base: &[RunResult],
    new: &[RunResult],
) -> Result<Samples, Uninformative> {
    let values = |side: &[RunResult]| -> Option<Vec<f64>> {
        side.iter().map(|run| value(figure, run)).collect()
    };
    let (Some(first), Some(second)) = (values(base), values(new)) else {
        return Err(Uninformative::NotMeasured);
    };
    let mut runs = base.iter().chain(new);
    #[expect(clippy::cast_precision_loss, reason = "a count of requests")]
    let has_few = |run: &RunResult| {
        part_above(figure).is_some_and(|part| run.response.count as f64 * part < REQUESTS_ABOVE_MIN)
    };
    if figure == Figure::Rate && runs.clone().all(is_rate_planned) {
        return Err(Uninformative::Planned);
    }
    if runs.any(has_few) {
        return Err(Uninformative::FewRequests);
    }
    let mut all = first.iter().chain(&second);
    if all.next().is_none_or(|one| all.all(|other| other.total_cmp(one).is_eq())) {
        return Err(Uninformative::Constant);
    }
    Ok(Samples { first, second })
}

/// Returns the value of a figure in a run, or `None` if it was not measured.
pub(super) fn value(figure: Figure, run: &RunResult) -> Option<f64> {
    let RunResult { totals, response, server, .. } = run;
    match figure {
        Figure::Rate => Some(totals.rate.max(RATE_MIN)).filter(|rate| rate.is_finite()),
        Figure::Errors => totals.failure_ratio,
        Figure::Mean => response.mean_us,
        Figure::P50 => response.p50_us,
        Figure::P90 => response.p90_us,
        Figure::P95 => response.p95_us,
        Figure::P99 => response.p99_us,
        Figure::P999 => response.p999_us,
        Figure::P9999 => response.p9999_us,
        Figure::Max => response.max_us,
        Figure::Cpu => positive(server.as_ref()?.cpu_us_per_response?),
        Figure::Memory => mebibytes(server.as_ref()?.resident_bytes_max?),
    }
}

/// Returns the share of the requests above a percentile.
const fn part_above(figure: Figure) -> Option<f64> {
    match figure {
        Figure::P50 => Some(0.5),
        Figure::P90 => Some(0.1),
        Figure::P95 => Some(0.05),
        Figure::P99 => Some(0.01),
        Figure::P999 => Some(0.001),
        Figure::P9999 => Some(0.0001),
        _ => None,
    }
}

/// Returns whether a run of an open loop kept the rate of its plan.
#[expect(clippy::cast_precision_loss, reason = "a count of requests")]
fn is_rate_planned(run: &RunResult) -> bool {
    let totals = &run.totals;
    let due = totals.due as f64 / totals.duration_s.max(f64::MIN_POSITIVE);
    !run.plan.closed && (totals.rate - due).abs() <= due * RATE_DEVIATION_MIN
}

fn positive(value: f64) -> Option<f64> {
    (value.is_finite() && value > 0.0).then_some(value)
}

#[expect(clippy::cast_precision_loss, reason = "bytes for people")]
fn mebibytes(bytes: u64) -> Option<f64> {
    positive(bytes as f64 / f64::from(1 << 20))
}
