//! The tables of results, and the verdict.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use corelane_base::time::Instant;

use crate::attackers::Priority;
use crate::honest_client::Kind;
use crate::measurement::{Measured, SceneResult};
use crate::schedule::{Calls, LateCall, PhaseCalls};

/// The longest error text in a table.
const ERROR_CHARACTERS_MAX: usize = 160;
/// Slowdown that hostile peers of lower priority may cause, and above which a client is listed.
const SLOWDOWN_MAX: f64 = 3.0;
/// The p99 that hostile peers of equal priority may cause.
const EQUAL_P99_MAX: Duration = Duration::from_millis(10);
/// The p99 of the endpoints of health.
const HEALTH_P99_MAX: Duration = Duration::from_millis(100);
/// Resident memory beyond the memory limit.
const MEMORY_BEYOND_MAX: u64 = 64 << 20;
/// Time in which the server recovers.
const RECOVERY_MAX: Duration = Duration::from_secs(1);
/// Time of which latencies after the attack are compared.
const RECOVERY_WINDOW: Duration = Duration::from_millis(100);
/// Calls that a percentile needs.
const CALLS_MIN: u64 = 100;
const COLUMNS: &str = "origin | scene | hostile connections | sent MiB | honest calls | failed | \
                       p50 µs quiet | attack | p99 µs quiet | attack | × quiet | \
                       health p99 ms | CPU % quiet | attack | RSS MiB peak | limit | after | \
                       recovery ms | broken rules";

/// Prints each result as soon as it is there, then the clients that had failures or were slow, and
/// the rules that are broken. Failure if there is one.
pub(crate) fn print(results: impl Iterator<Item = SceneResult>) -> io::Result<ExitCode> {
    let mut out = io::stdout().lock();
    writeln!(out, "| {COLUMNS} |")?;
    writeln!(out, "|{}", " --- |".repeat(COLUMNS.split(" | ").count()))?;
    let (mut details, mut held, mut measured) = (Vec::new(), 0, 0);
    for result in results {
        let name = format!("{} | {}", result.origin.name(), result.scene.name());
        measured += 1;
        match &result.rounds {
            Ok(rounds) => {
                let figures = rounds.iter().map(|round| Figures::of(round, &result));
                let figures = figures.collect::<io::Result<Vec<_>>>()?;
                let broken = broken_rules(&figures, &result);
                held += usize::from(broken.is_empty());
                write!(out, "| {name} | ")?;
                write_row(&mut out, &figures, &result, &broken)?;
                let clients = describe_clients(rounds)?;
                details.extend(clients.into_iter().map(|text| format!("| {name} | {text} |")));
            }
            Err(error) => {
                writeln!(out, "| {name} | not measured: {} |", shorten(&error.to_string()))?;
            }
        }
        out.flush()?;
    }
    if !details.is_empty() {
        writeln!(out, "\nClients with failures, or a p99 above {SLOWDOWN_MAX} × quiet:\n")?;
        writeln!(
            out,
            "| origin | scene | client | calls | failed | p99 µs | × quiet | first failure |"
        )?;
        writeln!(out, "|{}", " --- |".repeat(8))?;
        for detail in details {
            writeln!(out, "{detail}")?;
        }
    }
    writeln!(out, "\n{held} of {measured} hold")?;
    Ok(if held == measured { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The figures of one round.
struct Figures {
    calls: u64,
    failures: u64,
    /// Of the small calls.
    p50_quiet: Duration,
    p50: Duration,
    p99_quiet: Duration,
    p99: Duration,
    health_p99: Duration,
    peak: u64,
    after: u64,
    cpu_quiet: u64,
    cpu: u64,
    connections: u64,
    sent_bytes: u64,
    recovery: Duration,
}

impl Figures {
    fn of(round: &Measured, result: &SceneResult) -> io::Result<Self> {
        let of = |is_counted: fn(Kind) -> bool| {
            let kinds = round.kinds.iter().filter(|client| is_counted(client.kind));
            merge(kinds.map(|client| &client.calls))
        };
        let (small, all) = (of(Kind::is_inline)?, of(|_| true)?);
        let health = of(|kind| kind == Kind::Health)?;
        let p99_quiet = small.quiet.percentile(99.0);
        let bound = p99_bound(result.priority, p99_quiet);
        Ok(Self {
            calls: all.attack.count(),
            failures: all.failures(),
            p50_quiet: small.quiet.percentile(50.0),
            p50: small.attack.percentile(50.0),
            p99_quiet,
            p99: small.attack.percentile(99.0),
            health_p99: health.attack.percentile(99.0),
            peak: round.memory.peak,
            after: round.memory.after,
            cpu_quiet: round.cpu.quiet,
            cpu: round.cpu.attack,
            connections: round.attack.connections,
            sent_bytes: round.attack.sent_bytes,
            recovery: recovery(&all.late, &small.late, round.left_at, bound),
        })
    }
}

/// Returns the largest p99 of small calls that an attack may cause.
fn p99_bound(priority: Priority, quiet: Duration) -> Duration {
    match priority {
        Priority::Equal => EQUAL_P99_MAX,
        Priority::Idle | Priority::Other => quiet.mul_f64(SLOWDOWN_MAX),
    }
}

/// Returns the time from `left_at` to the end of the last window in which a call failed, or to the
/// window from which on the median latency of the small calls is at most `bound` in four of five.
fn recovery(all: &[LateCall], small: &[LateCall], left_at: Instant, bound: Duration) -> Duration {
    let window = |call: &LateCall| {
        let elapsed = call.due.since(left_at).as_nanos() / RECOVERY_WINDOW.as_nanos();
        (call.due >= left_at).then(|| u32::try_from(elapsed).unwrap_or(u32::MAX))
    };
    let failed = all.iter().filter(|call| call.latency.is_none()).filter_map(window).max();
    let windows = small.iter().filter_map(window).max().unwrap_or(0);
    let is_slow = |index: &u32| {
        let calls = small.iter().filter(|call| window(call) == Some(*index));
        let mut latencies: Vec<Duration> = calls.filter_map(|call| call.latency).collect();
        latencies.sort();
        latencies.get(latencies.len() / 2).is_some_and(|median| *median > bound)
    };
    let is_recovered = |begin: &u32| {
        let slow = (*begin..windows).filter(is_slow).count();
        slow * 5 <= usize::try_from(windows - begin).unwrap_or(0)
    };
    let begin = (0..windows).find(is_recovered).unwrap_or(windows);
    RECOVERY_WINDOW * begin.max(failed.map_or(0, |index| index + 1))
}

/// Returns the names of the rules that are broken, judged by medians and sums of all rounds.
fn broken_rules(figures: &[Figures], result: &SceneResult) -> Vec<&'static str> {
    let median_of = |value: fn(&Figures) -> Duration| median(figures.iter().map(value));
    let p99_max = p99_bound(result.priority, median_of(|round| round.p99_quiet));
    let peak = median(figures.iter().map(|round| round.peak));
    [
        ("failed", figures.iter().any(|round| round.failures > 0)),
        ("memory", peak > result.memory_bytes_max + MEMORY_BEYOND_MAX),
        ("p99", median_of(|round| round.p99) > p99_max),
        ("health", median_of(|round| round.health_p99) > HEALTH_P99_MAX),
        ("recovery", median_of(|round| round.recovery) > RECOVERY_MAX),
    ]
    .into_iter()
    .filter_map(|(rule, is_broken)| is_broken.then_some(rule))
    .collect()
}

/// Writes the sums of calls and failures of all rounds, and the medians of everything else.
fn write_row(
    out: &mut impl Write,
    figures: &[Figures],
    result: &SceneResult,
    broken: &[&str],
) -> io::Result<()> {
    let number = |value: fn(&Figures) -> u64| median(figures.iter().map(value));
    let time = |value: fn(&Figures) -> Duration| median(figures.iter().map(value));
    let ratio = |round: &Figures| {
        round.p99.as_secs_f64() / round.p99_quiet.max(Duration::from_micros(1)).as_secs_f64()
    };
    writeln!(
        out,
        "{} | {} | {} | {} | {} | {} | {} | {} | {:.1} | {} | {} | {} | {} | {} | {} | {} | {} |",
        number(|round| round.connections),
        number(|round| round.sent_bytes >> 20),
        figures.iter().map(|round| round.calls).sum::<u64>(),
        figures.iter().map(|round| round.failures).sum::<u64>(),
        time(|round| round.p50_quiet).as_micros(),
        time(|round| round.p50).as_micros(),
        time(|round| round.p99_quiet).as_micros(),
        time(|round| round.p99).as_micros(),
        median(figures.iter().map(ratio)),
        time(|round| round.health_p99).as_millis(),
        number(|round| round.cpu_quiet),
        number(|round| round.cpu),
        number(|round| round.peak >> 20),
        (result.memory_bytes_max + MEMORY_BEYOND_MAX) >> 20,
        number(|round| round.after >> 20),
        time(|round| round.recovery).as_millis(),
        if broken.is_empty() { "none".to_owned() } else { broken.join(", ") },
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
