//! Percentiles as a row of a table.

use crate::figure;
use crate::result::Percentiles;

/// Formats mean, percentiles and maximum, in the columns of the head.
pub(super) fn percentile_row(name: &str, percentiles: &Percentiles) -> String {
    let Percentiles { mean_us, p50_us, p90_us, p95_us, p99_us, p999_us, p9999_us, max_us, .. } =
        percentiles;
    let values = [
        *mean_us,
        *p50_us,
        *p90_us,
        p95_us.unwrap_or_default(),
        *p99_us,
        *p999_us,
        *p9999_us,
        *max_us,
    ];
    let values = values.map(figure::latency);
    format!("{name:<8}{}", values.map(|value| format!("{value:>10}")).concat())
}
