//! A result as a table on a terminal.

use std::fmt::Write as _;

use super::{figure, scenes};
use crate::measure::group::Programs;
use crate::result::listen::Spread;
use crate::result::{Cost, ListenResult, Percentiles, RunResult, Totals, Verdict};

/// The part of the cores' time that a host has to keep for itself before a table tells of it: with
/// less the 99th percentile is hardly touched.
const STOLEN_MIN: f64 = 0.001;

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
        figure::count(plan.connections as u64),
        plan.depth,
        totals.span_s
    ));
    if let Some(tls) = &result.manifest.tls {
        line(tls.clone());
    }
    judged(verdict).for_each(&mut line);
    line(format!(
        "requests {} due · {} sent · {} answered · {}/s",
        figure::count(totals.due),
        figure::count(totals.sent),
        figure::count(totals.answered),
        figure::rate(totals.rate)
    ));
    if !totals.failures.is_empty() || totals.unasked > 0 {
        line(failed(totals));
    }
    if plan.connect.is_some() || !manifest.sources.is_empty() {
        line(opened(totals, &manifest.sources));
    }
    if totals.lost > 0 {
        line(format!("lost     {} connections", figure::count(totals.lost)));
    }
    if let Some(why) = &totals.refused {
        line(format!("refused  {why}"));
    }
    for scene in scenes::lines(result) {
        line(scene);
    }
    line(String::new());
    line("              mean       p50       p90       p99     p99.9    p99.99       max".into());
    line(row("response", &result.response));
    line(row("service", &result.service));
    line(row("lag", &result.lag));
    for row in scenes::rows(result) {
        line(row);
    }
    result.listen.iter().flat_map(listening).for_each(&mut line);
    if let Some(ratio) = totals.stolen_ratio.filter(|ratio| *ratio >= STOLEN_MIN) {
        line(format!("stolen   {} of the cores' time by the machine's host", figure::part(ratio)));
    }
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

fn failed(totals: &Totals) -> String {
    let failures = totals.failures.iter();
    let failures = failures.map(|(kind, count)| format!(" · {kind} {}", figure::count(*count)));
    format!(
        "failed   {} of all{} · unasked {}",
        figure::part(totals.failure_ratio),
        failures.collect::<String>(),
        figure::count(totals.unasked)
    )
}

fn opened(totals: &Totals, sources: &[String]) -> String {
    let from = match sources {
        [] => String::new(),
        sources => format!(" from {}", sources.join(", ")),
    };
    format!(
        "opened   {} connections in {}{from}",
        figure::count(totals.opened),
        figure::duration(totals.opening_s * 1e6)
    )
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
    let Percentiles { count, mean_us, p50_us, p90_us, p99_us, p999_us, p9999_us, max_us } =
        percentiles;
    let values = [mean_us, p50_us, p90_us, p99_us, p999_us, p9999_us, max_us];
    let values = values.map(|us| if *count > 0 { figure::duration(*us) } else { "–".into() });
    format!("{name:<8}{}", values.map(|value| format!("{value:>10}")).concat())
}

/// A line for each that speaks against the run.
fn judged(verdict: &Verdict) -> impl Iterator<Item = String> {
    let Verdict { invalid, beyond, missed } = verdict;
    let all = [("INVALID ", invalid), ("BEYOND  ", beyond), ("MISSED  ", missed)];
    all.into_iter().flat_map(|(word, whys)| whys.iter().map(move |why| format!("{word} {why}")))
}

/// Two lines: who heard of publications, and when.
fn listening(listen: &ListenResult) -> [String; 2] {
    let ListenResult { streams, opened, lost, delivered, missed, stray, .. } = listen;
    let publications = listen.publications.len();
    let [opened, streams, delivered, missed, stray] =
        [opened, streams, delivered, missed, stray].map(|count| figure::count(*count));
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
        let [min, median, max] = [min_us, median_us, max_us].map(figure::duration);
        format!("{name} {median} ({min} to {max})")
    });
    [counts, format!("heard    {}", times.join(" · "))]
}

fn cost(name: &str, cost: &Cost) -> String {
    let memory = match cost.resident_bytes_max {
        0 => String::new(),
        bytes => format!(" · {} resident", figure::bytes(bytes)),
    };
    let spun = match cost.spun_cores {
        0.0 => String::new(),
        cores => format!(" · {} cores awake for the next request", figure::digits(cores)),
    };
    let per_answer = match cost.cpu_us_per_answer {
        0.0 => String::new(),
        us => format!("{} CPU an answer · ", figure::duration(us)),
    };
    format!("{name:<10}{per_answer}{} cores{spun}{memory}", figure::digits(cost.cores))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use crate::result::Manifest;

    fn result() -> RunResult {
        serde_json::from_value(serde_json::json!({
            "verdict": Verdict::default(),
            "plan": Plan::new("tcp://localhost:1"),
            "manifest": Manifest::default(),
            "totals": Totals { due: 1_234_567, rate: 123_456.7, ..Totals::default() },
            "response": Percentiles {
                count: 9, p50_us: 85.34, max_us: 2.5e6, ..Percentiles::default()
            },
            "service": Percentiles::default(),
            "lag": Percentiles::default(),
            "generator": Cost::default(),
            "server": Cost { resident_bytes_max: 13_002_342, ..Cost::default() },
            "seconds": [],
        }))
        .unwrap()
    }

    #[test]
    fn values_stand_below_their_names_with_their_units() {
        let text = table(&result());
        let lines: Vec<&str> = text.lines().collect();
        let place = lines.iter().position(|line| line.contains("p99.99")).unwrap();
        let width = lines[place].chars().count();
        assert!(lines[place + 1..place + 4].iter().all(|line| line.chars().count() == width));
        assert!(lines[place + 1].contains("   85.3 µs") && lines[place + 1].ends_with(" 2.50 s"));
        assert!(lines[place + 2].ends_with("         –"), "{}", lines[place + 2]);
        assert!(text.ends_with("12.4 MiB resident\n"), "{text}");
    }

    #[test]
    fn thousands_stand_apart() {
        let text = table(&result());
        assert!(text.contains("1,234,567 due") && text.contains("123,457/s"), "{text}");
    }
}
