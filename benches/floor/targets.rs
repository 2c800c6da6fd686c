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
/// The connections at which both are looked for.
const CONNECTIONS: usize = 64;
const TOGETHER: usize = 16;

/// Prints for each target that this condition can tell of whether it was reached.
pub(crate) fn print(load: Load, rows: &[Row]) -> io::Result<()> {
    if load.over != Over::WebSocket {
        return Ok(());
    }
    let cpu_us = |name: &str| rows.iter().find(|row| row.name == name).map(Row::cpu_us);
    let Some(own) = cpu_us(CORELANE_NAME) else { return Ok(()) };
    let mut out = io::stdout().lock();
    writeln!(out)?;
    if (load.connections, load.depth) == (CONNECTIONS, 1)
        && let Some(floor) = rows.first().map(Row::cpu_us)
    {
        let (ratio, verdict) = (own / floor, verdict(own <= floor * OF_FLOOR_MAX));
        writeln!(out, "{verdict}: {ratio:.2} of the floor, {OF_FLOOR_MAX:.2} at most")?;
    }
    for other in rows.iter().filter(|row| row.name.starts_with(TUNGSTENITE_NAME)) {
        let (name, other) = (&other.name, other.cpu_us());
        let (ratio, verdict) = (own / other, verdict(own < other));
        writeln!(out, "{verdict}: {ratio:.2} of {name}, ahead of it")?;
    }
    if (load.connections, load.depth) == (CONNECTIONS, TOGETHER) {
        let verdict = verdict(own <= TOGETHER_US_MAX);
        writeln!(out, "{verdict}: {own:.2} µs a call, {TOGETHER_US_MAX:.2} at most")?;
    }
    Ok(())
}

const fn verdict(is_reached: bool) -> &'static str {
    if is_reached { "reached" } else { "missed" }
}
