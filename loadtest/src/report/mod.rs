//! Results as people and other programs read them.

pub mod capacity;
pub mod check;
pub mod compare;
pub mod csv;
pub mod curve;
pub mod figure;
pub mod hlog;
pub mod html;
pub mod progress;
pub mod search;
pub mod spark;
pub mod sweep;
pub mod table;

mod scenes;
mod word;

/// Bytes in MiB.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
