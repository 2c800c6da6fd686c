//! The tables of results, and the verdict.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use crate::measurement::{KindCalls, Measured, SceneResult};
use crate::schedule::Calls;

/// The longest error text in a table.
const ERROR_CHARACTERS_MAX: usize = 160;
/// Slowdown above which a client is listed.
const SLOWDOWN_MAX: f64 = 3.0;
/// Calls that a percentile needs.
const CALLS_MIN: u64 = 100;

/// Prints each result as soon as it is there, then the clients that had failures or were slow.
/// Failure if a scene does not hold.
pub(crate) fn print(results: impl Iterator<Item = SceneResult>) -> io::Result<ExitCode> {
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "| limit MiB | scene | hostile connections | sent MiB | honest calls | failures | p50 µs | \
         p99 µs | × quiet | RSS before MiB | peak | after | holds |"
    )?;
    writeln!(out, "|{}", " --- |".repeat(13))?;
    let mut details = Vec::new();
    let mut all_hold = true;
    for result in results {
        let (limit, scene) = (result.memory_bytes_max >> 20, result.scene.name());
        write!(out, "| {limit} | {scene} | ")?;
        match &result.measured {
            Ok(measured) => {
                let broken = broken_conditions(measured, result.memory_bytes_max);
                all_hold &= broken.is_empty();
                write_row(&mut out, measured, &broken)?;
                for client in &measured.kinds {
                    details.extend(
                        describe(client).map(|text| format!("| {limit} | {scene} | {text} |")),
                    );
                }
            }
            Err(error) => {
                all_hold = false;
                writeln!(out, "not measured: {} |", shorten(&error.to_string()))?;
            }
        }
        out.flush()?;
    }
    if !details.is_empty() {
        writeln!(out, "\nClients with failures, or a p99 above {SLOWDOWN_MAX} × quiet:\n")?;
        writeln!(
            out,
            "| limit MiB | scene | client | calls | failures | p99 µs | × quiet | first failure |"
        )?;
        writeln!(out, "|{}", " --- |".repeat(8))?;
        for detail in details {
            writeln!(out, "{detail}")?;
        }
    }
    Ok(if all_hold { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the names of the conditions that do not hold.
fn broken_conditions(measured: &Measured, memory_bytes_max: u64) -> Vec<&'static str> {
    let mut broken = Vec::new();
    if measured.kinds.iter().any(|client| client.quiet.failures() + client.attack.failures() > 0) {
        broken.push("failures");
    }
    if measured.memory.peak > memory_bytes_max / 2 * 3 {
        broken.push("memory");
    }
    broken
}

fn write_row(out: &mut impl Write, measured: &Measured, broken: &[&str]) -> io::Result<()> {
    let inline = measured.kinds.iter().filter(|client| client.kind.is_inline());
    let (mut quiet, mut attack) = (none()?, none()?);
    for client in inline {
        quiet.add(&client.quiet).map_err(io::Error::other)?;
        attack.add(&client.attack).map_err(io::Error::other)?;
    }
    let all = &measured.kinds;
    let calls: u64 = all.iter().map(|client| client.attack.count()).sum();
    let failures: u64 =
        all.iter().map(|client| client.quiet.failures() + client.attack.failures()).sum();
    let (memory, hostile) = (measured.memory, measured.attack);
    writeln!(
        out,
        "{} | {} | {calls} | {failures} | {} | {} | {:.1} | {} | {} | {} | {} |",
        hostile.connections,
        hostile.sent_bytes >> 20,
        attack.percentile(50.0).as_micros(),
        attack.percentile(99.0).as_micros(),
        slowdown(&quiet, &attack),
        memory.quiet >> 20,
        memory.peak >> 20,
        memory.after >> 20,
        if broken.is_empty() { "yes".to_owned() } else { format!("no: {}", broken.join(", ")) },
    )
}

fn none() -> io::Result<Calls> {
    Calls::none().map_err(io::Error::other)
}

/// Describes a client that had failures or was slow.
fn describe(client: &KindCalls) -> Option<String> {
    let KindCalls { kind, quiet, attack } = client;
    let failures = quiet.failures() + attack.failures();
    let slowdown = slowdown(quiet, attack);
    let is_slow = attack.count() >= CALLS_MIN && slowdown > SLOWDOWN_MAX;
    (failures > 0 || is_slow).then(|| {
        let error = quiet.first_failure().or_else(|| attack.first_failure()).unwrap_or("");
        format!(
            "{} | {} | {failures} | {} | {slowdown:.1} | {}",
            kind.name(),
            attack.count(),
            attack.percentile(99.0).as_micros(),
            shorten(error),
        )
    })
}

/// Returns the p99 under attack as a multiple of the quiet one.
fn slowdown(quiet: &Calls, attack: &Calls) -> f64 {
    let quiet = quiet.percentile(99.0).max(Duration::from_micros(1));
    attack.percentile(99.0).as_secs_f64() / quiet.as_secs_f64()
}

/// Returns the start of a text in one line.
fn shorten(text: &str) -> String {
    let line: String =
        text.chars().map(|c| if c.is_control() || c == '|' { ' ' } else { c }).collect();
    line.chars().take(ERROR_CHARACTERS_MAX).collect()
}
