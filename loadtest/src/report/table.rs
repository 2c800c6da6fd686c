//! A result as a table on a terminal.

use std::fmt::Write as _;

use super::{mebibytes, scenes};
use crate::measure::group::Programs;
use crate::result::listen::Spread;
use crate::result::{Cost, ListenResult, Percentiles, RunResult, Totals, Verdict};

/// The table of a result, with its line ends.
pub fn table(result: &RunResult) -> String {
    let mut out = String::new();
    let RunResult { plan, totals, verdict, manifest, .. } = result;
    let kind = if plan.closed { "closed loop" } else { "open loop" };
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    line(format!(
        "{} · {} · {kind} · {} connections × {} · {:.1} s",
        plan.target,
        plan.era.name(),
        plan.connections,
        plan.depth,
        totals.span_s
    ));
    if let Some(tls) = &result.manifest.tls {
        line(tls.clone());
    }
    judged(verdict).for_each(&mut line);
    line(format!(
        "requests {} due · {} sent · {} answered · {:.0}/s",
        totals.due, totals.sent, totals.answered, totals.rate
    ));
    if !totals.failures.is_empty() || totals.unasked > 0 {
        line(failed(totals));
    }
    if plan.connect.is_some() || !manifest.sources.is_empty() {
        let from = match &manifest.sources[..] {
            [] => String::new(),
            sources => format!(" from {}", sources.join(", ")),
        };
        line(format!("opened   {} connections in {:.2} s{from}", totals.opened, totals.opening_s));
    }
    if totals.lost > 0 {
        line(format!("lost     {} connections", totals.lost));
    }
    if let Some(why) = &totals.refused {
        line(format!("refused  {why}"));
    }
    for scene in scenes::lines(result) {
        line(scene);
    }
    line(String::new());
    line("            mean       p50       p90       p99     p99.9    p99.99       max  us".into());
    line(row("response", &result.response));
    line(row("service", &result.service));
    line(row("lag", &result.lag));
    for row in scenes::rows(result) {
        line(row);
    }
    result.listen.iter().flat_map(listening).for_each(&mut line);
    line(String::new());
    line(cost("generator", &result.generator));
    if let Some(server) = &result.server {
        line(cost("server", server));
    }
    if let Some(programs) = result.programs {
        line(ends(programs));
    }
    out
}

/// How programs that were started have ended.
fn ends(Programs { started, terminated, killed }: Programs) -> String {
    let mut line = format!("programs  {started} started");
    for (count, how) in [(terminated, "terminated"), (killed, "killed")] {
        if count > 0 {
            write!(line, " · {count} had to be {how}").unwrap_or(());
        }
    }
    line
}

pub(super) fn row(name: &str, percentiles: &Percentiles) -> String {
    let Percentiles { mean_us, p50_us, p90_us, p99_us, p999_us, p9999_us, max_us, .. } =
        percentiles;
    let values = [mean_us, p50_us, p90_us, p99_us, p999_us, p9999_us, max_us];
    let values = values.map(|us| format!("{us:>10.1}"));
    format!("{name:<8}{}", values.concat())
}

/// A line for each that speaks against the run.
fn judged(verdict: &Verdict) -> impl Iterator<Item = String> {
    let Verdict { invalid, beyond, missed } = verdict;
    let all = [("INVALID ", invalid), ("BEYOND  ", beyond), ("MISSED  ", missed)];
    all.into_iter().flat_map(|(word, whys)| whys.iter().map(move |why| format!("{word} {why}")))
}

fn failed(totals: &Totals) -> String {
    let mut line = format!("failed   {:.4} of all", totals.failure_ratio);
    for (kind, count) in &totals.failures {
        // Writing to a string does not fail.
        write!(line, " · {kind} {count}").unwrap_or(());
    }
    line + &format!(" · unasked {}", totals.unasked)
}

/// Two lines: who heard of publications, and when.
fn listening(listen: &ListenResult) -> [String; 2] {
    let ListenResult { streams, opened, lost, delivered, missed, stray, .. } = listen;
    let publications = listen.publications.len();
    let mut counts = format!(
        "listen   {opened} of {streams} streams · {publications} publications · {delivered} \
         delivered · {missed} missed · {stray} stray"
    );
    if *lost > 0 {
        write!(counts, " · {lost} lost").unwrap_or(());
    }
    for (kind, count) in &listen.failures {
        write!(counts, " · publishing: {kind} {count}").unwrap_or(());
    }
    let times = [("first", listen.first), ("median", listen.median), ("last", listen.last)];
    let times = times.map(|(name, Spread { min_us, median_us, max_us })| {
        format!("{name} {median_us:.1} ({min_us:.1} to {max_us:.1})")
    });
    [counts, format!("heard    {} us", times.join(" · "))]
}

fn cost(name: &str, cost: &Cost) -> String {
    let memory = match cost.resident_bytes_max {
        0 => String::new(),
        bytes => format!(" · {:.1} MiB resident", mebibytes(bytes)),
    };
    let spun = match cost.spun_cores {
        0.0 => String::new(),
        cores => format!(" · {cores:.2} cores awake for the next request"),
    };
    format!(
        "{name:<10}{:.2} us CPU an answer · {:.2} cores{spun}{memory}",
        cost.cpu_us_per_answer, cost.cores
    )
}
