//! What Corelane has to reach over WebSocket, and whether it did in the conditions that were run.

use std::io::{self, Write};

use crate::contender::{CORELANE_NAME, TUNGSTENITE_NAME};
use crate::load::Load;
use crate::over::Over;
use crate::table::Row;

/// Of the CPU of the bare ring that says frames back, one call at a time.
const OF_FLOOR_MAX: f64 = 1.30;
/// CPU of a call of which sixteen travel together, in microseconds.
const TOGETHER_US_MAX: f64 = 1.2;
/// The connections at which both are asked for.
const CONNECTIONS: usize = 64;
const TOGETHER: usize = 16;

/// Prints for each target that this condition can tell of whether it was reached.
pub(crate) fn print(load: Load, rows: &[Row]) -> io::Result<()> {
    let own = rows.iter().find(|row| row.name == CORELANE_NAME).map(Row::cpu_us);
    let (Over::WebSocket, Some(own)) = (load.over, own) else { return Ok(()) };
    let mut out = io::stdout().lock();
    writeln!(out)?;
    if (load.connections, load.depth) == (CONNECTIONS, 1)
        && let Some(floor) = rows.first().map(Row::cpu_us)
    {
        let (ratio, verdict) = (own / floor, verdict(own <= floor * OF_FLOOR_MAX));
        writeln!(out, "{verdict}: {ratio:.2} of the CPU of the floor (at most {OF_FLOOR_MAX:.2})")?;
    }
    // What together costs has a bound of its own: no server of MCP does as little as an echo.
    if load.depth == 1 {
        for other in rows.iter().filter(|row| row.name.starts_with(TUNGSTENITE_NAME)) {
            let (name, other) = (&other.name, other.cpu_us());
            let (ratio, verdict) = (own / other, verdict(own < other));
            writeln!(out, "{verdict}: {ratio:.2} of the CPU of {name} (less than 1)")?;
        }
    }
    if (load.connections, load.depth) == (CONNECTIONS, TOGETHER) {
        let verdict = verdict(own <= TOGETHER_US_MAX);
        writeln!(out, "{verdict}: {own:.2} µs a call (at most {TOGETHER_US_MAX:.2})")?;
    }
    Ok(())
}

const fn verdict(is_reached: bool) -> &'static str {
    if is_reached { "reached" } else { "missed" }
}
