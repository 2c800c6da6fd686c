//! Performance targets of Corelane over WebSocket.

use std::io::{self, Write};

use crate::load::Load;
use crate::servers::{CORELANE_NAME, TUNGSTENITE_NAME};
use crate::table::Row;
use crate::transport::Transport;

/// Maximum ratio to the CPU time of the ring floor, with one call in flight.
const OF_FLOOR_MAX: f64 = 1.30;
/// Maximum CPU time per call with 16 calls in flight, in microseconds.
const BATCH_US_MAX: f64 = 1.2;
/// Connections for which both targets apply.
const CONNECTIONS: usize = 64;
const BATCH_DEPTH: usize = 16;

/// Prints whether the targets of this condition are reached.
pub(crate) fn print(load: Load, rows: &[Row]) -> io::Result<()> {
    let own = rows.iter().find(|row| row.name == CORELANE_NAME).map(Row::cpu_us);
    let (Transport::WebSocket, Some(own)) = (load.transport, own) else { return Ok(()) };
    let mut out = io::stdout().lock();
    writeln!(out)?;
    if (load.connections, load.depth) == (CONNECTIONS, 1)
        && let Some(floor) = rows.first().map(Row::cpu_us)
    {
        let (ratio, verdict) = (own / floor, verdict(own <= floor * OF_FLOOR_MAX));
        writeln!(out, "{verdict}: {ratio:.2} of the CPU of the floor (at most {OF_FLOOR_MAX:.2})")?;
    }
    // With more in flight an echo is no fair comparison; the absolute target applies.
    if load.depth == 1 {
        for other in rows.iter().filter(|row| row.name.starts_with(TUNGSTENITE_NAME)) {
            let (name, other) = (&other.name, other.cpu_us());
            let (ratio, verdict) = (own / other, verdict(own < other));
            writeln!(out, "{verdict}: {ratio:.2} of the CPU of {name} (less than 1)")?;
        }
    }
    if (load.connections, load.depth) == (CONNECTIONS, BATCH_DEPTH) {
        let verdict = verdict(own <= BATCH_US_MAX);
        writeln!(out, "{verdict}: {own:.2} µs a call (at most {BATCH_US_MAX:.2})")?;
    }
    Ok(())
}

const fn verdict(is_reached: bool) -> &'static str {
    if is_reached { "reached" } else { "missed" }
}
