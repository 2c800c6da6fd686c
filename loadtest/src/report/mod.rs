//! Output formats of results: tables, HTML, Markdown, CSV, `JUnit`, `OpenMetrics`, histogram logs.

pub mod capacity;
pub mod compare;
pub mod csv;
pub mod hlog;
pub mod html;
pub mod junit;
pub mod markdown;
pub mod openmetrics;
pub mod progress;
pub mod schema;
pub mod search;
pub mod sparkline;
pub mod sweep;
pub mod table;

mod percentile_row;
mod roles;

/// Converts bytes to MiB.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
