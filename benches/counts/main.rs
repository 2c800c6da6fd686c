//! Instructions per message, stop by stop: where the time of a call goes.
//!
//! ```text
//! cargo bench --bench counts
//! ```
//!
//! One process, one thread, bytes in memory, under `valgrind --tool=callgrind` (which must be
//! installed). The road is run as far as each stop with two numbers of messages; the difference of
//! the instructions, divided by the difference of the messages, is what one message costs, free of
//! start and end. Counts repeat to the last digit or nearly so, which wall time does not.

mod memory;
#[expect(dead_code, reason = "whole processes are asked for more")]
#[path = "../rig/requests.rs"]
mod requests;
mod road;

use std::error::Error;
use std::io::{self, Write};
use std::process::Command;

use self::requests::Era;
use self::road::Stop;

const CHILD: &str = "--child";
/// Both are multiples of what travels together.
const FEW: u64 = 1_600;
const MANY: u64 = 11_600;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, stop, era, messages] = arguments.as_slice()
        && word == CHILD
    {
        let stop = Stop::ALL.into_iter().find(|known| known.name() == stop);
        let stop = stop.ok_or("there is no such stop")?;
        let era = if *era == Era::Modern.name() { Era::Modern } else { Era::Legacy };
        return road::run(stop, era, messages.parse()?);
    }
    let mut out = io::stdout().lock();
    writeln!(out, "| stop | legacy: instructions | of them here | modern | of them here |")?;
    writeln!(out, "| --- | --- | --- | --- | --- |")?;
    let mut before = [0_u64; 2];
    for stop in Stop::ALL {
        let each = [per_message(stop, Era::Legacy)?, per_message(stop, Era::Modern)?];
        let here = |era: usize| match stop {
            // The same road once more, in a shard.
            Stop::Turn | Stop::TurnOfSixteen => "–".to_owned(),
            _ => each[era].saturating_sub(before[era]).to_string(),
        };
        writeln!(
            out,
            "| {} | {} | {} | {} | {} |",
            stop.name(),
            each[0],
            here(0),
            each[1],
            here(1)
        )?;
        before = each;
    }
    Ok(())
}

/// What one message costs as far as `stop`.
fn per_message(stop: Stop, era: Era) -> Result<u64, Box<dyn Error>> {
    let few = instructions(stop, era, FEW)?;
    let many = instructions(stop, era, MANY)?;
    Ok(many.saturating_sub(few) / (MANY - FEW))
}

/// What a whole run costs, counted by callgrind.
fn instructions(stop: Stop, era: Era, messages: u64) -> Result<u64, Box<dyn Error>> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe()?)
        .args([CHILD, stop.name(), era.name(), &messages.to_string()])
        .output()
        .map_err(|error| format!("valgrind: {error}; it must be installed for this bench"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let counted = said.lines().find_map(|line| line.split("Collected :").nth(1));
    match counted {
        Some(counted) if output.status.success() => Ok(counted.trim().parse()?),
        _ => Err(format!("{} failed under callgrind: {said}", stop.name()).into()),
    }
}
