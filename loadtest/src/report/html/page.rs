//! The page around the plots: target, verdict, figures, outcomes, manifest, plan.
//!
//! What it keeps true: names, errors and addresses come from outside, and maud escapes them; the
//! page refuses by its own policy to load anything or to run anything; the values of fields of
//! HTTP, which may be secrets, are not shown.

use std::error::Error;
use std::time::{Duration, UNIX_EPOCH};

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::Value;

use super::charts;
use super::figures::figures;
use super::further::{further, further_of_manifest};
use super::history::History;
use super::latencies;
use super::outcomes::outcomes;
use super::plot::Plot;
use super::style::STYLE;
use crate::plan::{Plan, Thresholds};
use crate::report::figure;
use crate::result::{Fault, Manifest, RunResult};

/// What stands where a value is not shown.
const HIDDEN: &str = "(hidden)";
/// The policy of the page: its own style, and nothing else.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// The whole page.
pub(super) fn page(result: &RunResult) -> Markup {
    let plots = plots(result);
    let target = &result.plan.target;
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (verdict_word(result)) " · " (target) " · corelane-load" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    p class="kicker" { "Load report" }
                    h1 { (target) }
                    p class="about" { (about(result)) }
                    (verdict(result))
                }
                main {
                    (figures(result))
                    @if let Some(plot) = latencies::percentiles(result) { (plot.section(true)) }
                    @for (index, plot) in plots.iter().enumerate() {
                        // They stand in pairs; the last may stand alone.
                        (plot.section(index + 1 == plots.len() && index % 2 == 0))
                    }
                    (outcomes(result))
                    @if let Some(section) = further(result) { (section) }
                    (manifest(result))
                    (plan(result))
                }
                footer {
                    p {
                        "Made by corelane-load " (result.manifest.version) ". Latencies are \
                         response times unless it says otherwise: they count from the moment at \
                         which a request was meant to leave, so that a server that stalls is not \
                         spared the requests that had to wait. What was measured during the \
                         warm-up is in no figure."
                    }
                }
            }
        }
    }
}

/// The plots over time, those of which anything is known.
fn plots(result: &RunResult) -> Vec<Plot> {
    let history = History::of(result);
    let all = [
        charts::latencies(result, &history),
        charts::throughput(result, &history),
        charts::connections(result, &history),
        charts::lag(result, &history),
        charts::cores(result, &history),
        charts::memory(result, &history),
    ];
    all.into_iter().flatten().collect()
}

fn about(result: &RunResult) -> String {
    let RunResult { plan, totals, manifest, .. } = result;
    let kind = match (totals.due, plan.closed, plan.poisson) {
        (0, ..) => "no requests",
        (_, true, _) => "closed loop",
        (_, false, true) => "open loop, Poisson arrivals",
        (_, false, false) => "open loop, even arrivals",
    };
    let warm_up = if plan.warm_up.duration().is_zero() {
        String::new()
    } else {
        format!(" after {} of warm-up", plan.warm_up)
    };
    format!(
        "{} · {kind} · {} connections × {} · {:.1} s measured{warm_up} · {}",
        plan.era.name(),
        figure::count(plan.connections as u64),
        plan.depth,
        totals.span_s,
        ended(manifest)
    )
}

fn verdict_word(result: &RunResult) -> &'static str {
    match (result.verdict.is_valid(), result.verdict.has_passed()) {
        (false, _) => "INVALID",
        (true, false) => "MISSED",
        (true, true) => "PASSED",
    }
}

fn verdict(result: &RunResult) -> Markup {
    let word = verdict_word(result);
    let has_thresholds = result.plan.thresholds != Thresholds::default();
    let (class, says, sign) = match word {
        "INVALID" => (
            "invalid",
            match result.verdict.fault() {
                Some(Fault::Server) => {
                    "This run does not count: the server left no room for what was due."
                }
                _ => "This run does not count: the generator could not keep its plan.",
            },
            "M12 3 22 20H2ZM12 9v5M12 17v.1",
        ),
        "MISSED" => {
            ("missed", "The run counts, and the server missed a threshold.", "M5 5 19 19M19 5 5 19")
        }
        _ if has_thresholds => {
            ("passed", "The run counts, and every threshold held.", "M4 13 10 19 20 6")
        }
        _ => ("passed", "The run counts. No threshold was set.", "M4 13 10 19 20 6"),
    };
    let verdict = &result.verdict;
    let reasons = || verdict.invalid.iter().chain(&verdict.beyond).chain(&verdict.missed);
    html! {
        div class={ "verdict " (class) } role="group" aria-label="Verdict" {
            svg viewBox="0 0 24 24" aria-hidden="true" fill="none" stroke="currentColor"
                stroke-width="2.5" stroke-linecap="round" stroke-linejoin="round" {
                path d=(sign) {}
            }
            div {
                strong { (word) }
                p { (says) }
                @if reasons().next().is_some() {
                    ul { @for reason in reasons() { li { (reason) } } }
                }
            }
        }
    }
}

fn manifest(result: &RunResult) -> Markup {
    let manifest = &result.manifest;
    html! {
        section class="card wide" id="manifest" {
            h2 { "Where and with what" }
            dl class="facts" {
                dt { "Command" }
                dd { code { "corelane-load " (command(&manifest.arguments)) } }
                dt { "Ended" }
                dd { (ended(manifest)) }
                dt { "Version" }
                dd { "corelane-load " (manifest.version) }
                dt { "Processor" }
                dd { (manifest.cpu) ", " (manifest.cores) " cores" }
                dt { "Kernel" }
                dd { (manifest.kernel) }
                dt { "Ring" }
                dd { (manifest.ring) }
                dt { "Workers" }
                dd { (manifest.workers) }
                (further_of_manifest(result))
                @for (name, value) in manifest.sysctls.iter().filter(|row| !row.1.is_empty()) {
                    dt { code { (name) } }
                    dd { (value) }
                }
            }
        }
    }
}

fn plan(result: &RunResult) -> Markup {
    // A plan came from TOML or fits into it.
    let text = plan_text(&result.plan).unwrap_or_else(|error| error.to_string());
    html! {
        section class="card wide" id="plan" {
            h2 { "The plan" }
            p class="caption" {
                "Kept in a file, it repeats this run: " code { "corelane-load run --plan FILE" }
            }
            pre tabindex="0" { code { (text) } }
        }
    }
}

/// A plan as TOML, without the values of fields.
fn plan_text(plan: &Plan) -> Result<String, Box<dyn Error>> {
    let mut plan = serde_json::to_value(plan)?;
    let fields = plan.get_mut("fields").and_then(Value::as_array_mut);
    for value in fields.into_iter().flatten().filter_map(|field| field.get_mut(1)) {
        *value = HIDDEN.into();
    }
    Ok(toml::to_string_pretty(&plan)?)
}

/// When a run ended, in universal time.
fn ended(manifest: &Manifest) -> String {
    // A year of more than four digits cannot be written that way.
    let seconds = manifest.ended_unix_s.min(253_402_300_799);
    let time = UNIX_EPOCH + Duration::from_secs(seconds);
    humantime::format_rfc3339_seconds(time).to_string().replace('T', " ").replace('Z', " UTC")
}

/// The arguments as a shell would take them, without the values of fields.
fn command(arguments: &[String]) -> String {
    let mut shown: Vec<String> = Vec::with_capacity(arguments.len());
    let mut is_field = false;
    for argument in arguments {
        let argument = match argument.strip_prefix("--header=") {
            Some(field) => format!("--header={}", without_value(field)),
            None if is_field => without_value(argument),
            None => argument.clone(),
        };
        is_field = argument == "--header";
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=,@%+".contains(&byte);
        if argument.bytes().all(is_plain) && !argument.is_empty() {
            shown.push(argument);
        } else {
            shown.push(format!("'{}'", argument.replace('\'', r"'\''")));
        }
    }
    shown.join(" ")
}

fn without_value(field: &str) -> String {
    let name = field.split(':').next().unwrap_or_default();
    format!("{name}: {HIDDEN}")
}
