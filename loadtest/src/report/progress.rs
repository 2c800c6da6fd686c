//! What a run has come to so far: a line a second.

use super::mebibytes;
use crate::generator::Second;
use crate::result::Percentiles;

/// The line of a second. `number` counts from zero, warm-up included.
pub fn line(number: usize, second: &Second) -> String {
    let period = &second.period;
    let response = Percentiles::of(period.latencies.response());
    let server = second
        .server
        .map(|sample| format!(" · server {:.1} MiB", mebibytes(sample.resident_bytes)));
    format!(
        "{:>4} s  {:>8}/s  p50 {:>8.1}  p99 {:>8.1}  max {:>9.1} us  failed {}  open {}{}",
        number + 1,
        period.outcomes.answered,
        response.p50_us,
        response.p99_us,
        response.max_us,
        period.outcomes.failures(),
        period.open,
        server.unwrap_or_default()
    )
}
