//! Percentiles as a row of a table.

use crate::figure;
use crate::result::Percentiles;

/// Columns of the name of a row.
const NAME_COLUMNS: usize = 14;

/// Formats the names of mean, percentiles and maximum.
pub(super) fn percentile_head() -> String {
    let names = Percentiles::default().statistics().map(|(name, _)| format!("{name:>10}"));
    format!("{:NAME_COLUMNS$}{}", "", names.concat())
}

/// Formats mean, percentiles and maximum, in the columns of the head.
pub(super) fn percentile_row(name: &str, percentiles: &Percentiles) -> String {
    let values = percentiles.statistics().map(|(_, us)| format!("{:>10}", figure::latency(us)));
    format!("{name:<NAME_COLUMNS$}{}", values.concat())
}
