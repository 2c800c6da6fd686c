//! The tables of results, and the verdict.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use crate::measurement::{Measured, SceneResult};
use crate::schedule::{Calls, PhaseCalls};

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
         p99 µs quiet | control | attack | attack × quiet | attack × control | RSS before MiB | \
         peak | after | holds |"
    )?;
    writeln!(out, "|{}", " --- |".repeat(16))?;
    let mut details = Vec::new();
    let mut all_hold = true;
    for result in results {
        let (limit, scene) = (result.memory_bytes_max >> 20, result.scene.name());
        write!(out, "| {limit} | {scene} | ")?;
        match &result.rounds {
            Ok(rounds) => {
                let broken = broken_conditions(rounds, result.memory_bytes_max);
                all_hold &= broken.is_empty();
                write_row(&mut out, rounds, &broken)?;
                details.extend(
                    describe_clients(rounds)?
                        .into_iter()
                        .map(|text| format!("| {limit} | {scene} | {text} |")),
                );
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
fn broken_conditions(rounds: &[Measured], memory_bytes_max: u64) -> Vec<&'static str> {
    let mut broken = Vec::new();
    let mut clients = rounds.iter().flat_map(|round| &round.kinds);
    if clients.any(|client| client.calls.failures() > 0) {
        broken.push("failures");
    }
    if rounds.iter().any(|round| round.memory.peak > memory_bytes_max / 2 * 3) {
        broken.push("memory");
    }
    broken
}

/// Writes the sums of calls and failures of all rounds, and the medians of everything else.
fn write_row(out: &mut impl Write, rounds: &[Measured], broken: &[&str]) -> io::Result<()> {
    let inline = rounds.iter().map(|round| {
        let kinds = round.kinds.iter().filter(|client| client.kind.is_inline());
        merge(kinds.map(|client| &client.calls))
    });
    let inline = inline.collect::<io::Result<Vec<PhaseCalls>>>()?;
    let p99 = |calls: fn(&PhaseCalls) -> &Calls| {
        median(inline.iter().map(|round| calls(round).percentile(99.0).as_micros()))
    };
    let of_rounds = |value: fn(&Measured) -> u64| median(rounds.iter().map(value));
    let clients = || rounds.iter().flat_map(|round| &round.kinds);
    writeln!(
        out,
        "{} | {} | {} | {} | {} | {} | {} | {} | {:.1} | {:.1} | {} | {} | {} | {} |",
        of_rounds(|round| round.attack.connections),
        of_rounds(|round| round.attack.sent_bytes >> 20),
        clients().map(|client| client.calls.attack.count()).sum::<u64>(),
        clients().map(|client| client.calls.failures()).sum::<u64>(),
        median(inline.iter().map(|round| round.attack.percentile(50.0).as_micros())),
        p99(|round| &round.quiet),
        p99(|round| &round.control),
        p99(|round| &round.attack),
        median(inline.iter().map(|round| slowdown(&round.quiet, &round.attack))),
        median(inline.iter().map(|round| slowdown(&round.control, &round.attack))),
        of_rounds(|round| round.memory.quiet >> 20),
        of_rounds(|round| round.memory.peak >> 20),
        of_rounds(|round| round.memory.after >> 20),
        if broken.is_empty() { "yes".to_owned() } else { format!("no: {}", broken.join(", ")) },
    )
}

fn merge<'a>(clients: impl Iterator<Item = &'a PhaseCalls>) -> io::Result<PhaseCalls> {
    let mut merged = PhaseCalls::none().map_err(io::Error::other)?;
    for client in clients {
        merged.add(client).map_err(io::Error::other)?;
    }
    Ok(merged)
}

/// Returns the upper median, or the default of no values.
fn median<T: PartialOrd + Default>(values: impl Iterator<Item = T>) -> T {
    let mut values: Vec<T> = values.collect();
    values.sort_by(|left, right| left.partial_cmp(right).unwrap_or(std::cmp::Ordering::Equal));
    let middle = values.len() / 2;
    values.into_iter().nth(middle).unwrap_or_default()
}

/// Describes the clients that had failures or were slow, over all rounds.
fn describe_clients(rounds: &[Measured]) -> io::Result<Vec<String>> {
    let Some(first) = rounds.first() else { return Ok(Vec::new()) };
    let mut texts = Vec::new();
    for (index, client) in first.kinds.iter().enumerate() {
        let same = rounds.iter().filter_map(|round| round.kinds.get(index));
        let calls = merge(same.map(|client| &client.calls))?;
        let slowdown = slowdown(&calls.quiet, &calls.attack);
        let is_slow = calls.attack.count() >= CALLS_MIN && slowdown > SLOWDOWN_MAX;
        if calls.failures() > 0 || is_slow {
            texts.push(format!(
                "{} | {} | {} | {} | {slowdown:.1} | {}",
                client.kind.name(),
                calls.attack.count(),
                calls.failures(),
                calls.attack.percentile(99.0).as_micros(),
                shorten(calls.first_failure().unwrap_or("")),
            ));
        }
    }
    Ok(texts)
}

/// Returns the p99 of one phase as a multiple of that of another.
fn slowdown(before: &Calls, after: &Calls) -> f64 {
    let before = before.percentile(99.0).max(Duration::from_micros(1));
    after.percentile(99.0).as_secs_f64() / before.as_secs_f64()
}

/// Returns the start of a text in one line.
fn shorten(text: &str) -> String {
    let line: String =
        text.chars().map(|c| if c.is_control() || c == '|' { ' ' } else { c }).collect();
    line.chars().take(ERROR_CHARACTERS_MAX).collect()
}
