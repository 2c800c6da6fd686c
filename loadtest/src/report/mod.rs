//! Output formats of results: tables, HTML, CSV, histogram logs.

pub mod capacity;
pub mod check;
pub mod compare;
pub mod csv;
pub mod hlog;
pub mod html;
pub mod progress;
pub mod search;
pub mod sparkline;
pub mod sweep;
pub mod table;

mod percentile_row;
mod scenario;

/// Converts bytes to MiB.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
