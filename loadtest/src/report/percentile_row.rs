//! Percentiles as a row of a table.

use crate::figure;
use crate::result::Percentiles;

/// Formats mean, percentiles and maximum, in the columns of the head.
pub(super) fn percentile_row(name: &str, percentiles: &Percentiles) -> String {
    let values = percentiles.statistics().map(|(_, us)| format!("{:>10}", figure::latency(us)));
    format!("{name:<8}{}", values.concat())
}
