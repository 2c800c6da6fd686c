//! Percentiles as a row of a table.

use crate::figure::duration;
use crate::result::Percentiles;

/// Formats mean, percentiles and maximum, in the columns of the head.
pub(super) fn percentile_row(name: &str, percentiles: &Percentiles) -> String {
    let Percentiles { count, mean_us, p50_us, p90_us, p95_us, p99_us, p999_us, p9999_us, max_us } =
        percentiles;
    let values = [mean_us, p50_us, p90_us, p95_us, p99_us, p999_us, p9999_us, max_us];
    let values = values.map(|us| if *count > 0 { duration(*us) } else { "–".into() });
    format!("{name:<8}{}", values.map(|value| format!("{value:>10}")).concat())
}
