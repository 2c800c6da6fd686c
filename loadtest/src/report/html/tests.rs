//! Tests of the HTML pages.

use html5gum::{Token, Tokenizer};

use super::{run_page, sample, sweep_page};
use crate::plan::{CallPlan, HumanDuration, Thresholds};
use crate::result::{Percentiles, RunResult, SecondResult, Totals, Verdict};
use crate::search::SearchOutcome;

/// Elements without an end tag.
const VOID: [&str; 2] = ["meta", "br"];
/// Attributes that load or run something.
const LOADING: [&str; 9] =
    ["src", "srcset", "href", "xlink:href", "data", "action", "poster", "background", "formaction"];

/// A parsed page.
struct Parsed {
    elements: Vec<String>,
    ids: Vec<String>,
    text: String,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Parses a page strictly: no tokenizer error, elements closed in order, nothing loaded, nothing
/// run, no duplicate id.
fn parse(page: &str) -> Parsed {
    let mut parsed = Parsed { elements: Vec::new(), ids: Vec::new(), text: String::new() };
    let mut open: Vec<String> = Vec::new();
    for token in Tokenizer::new(page).flatten() {
        match token {
            Token::StartTag(tag) => {
                let name = text(&tag.name);
                assert!(
                    !["script", "link", "iframe", "img", "object"].contains(&&name[..]),
                    "{name}"
                );
                for (attribute, value) in &tag.attributes {
                    let attribute = text(attribute);
                    let value = text(value);
                    let loads = LOADING.contains(&&attribute[..]) || attribute.starts_with("on");
                    assert!(!loads, "{name} has {attribute}=\"{value}\"");
                    assert!(attribute != "style" && !value.contains("url("), "{value}");
                    if attribute == "id" {
                        assert!(!parsed.ids.contains(&value), "{value} twice");
                        parsed.ids.push(value);
                    }
                }
                if !VOID.contains(&&name[..]) {
                    open.push(name.clone());
                }
                parsed.elements.push(name);
            }
            Token::EndTag(tag) => {
                let name = text(&tag.name);
                assert_eq!(open.pop(), Some(name));
            }
            Token::String(bytes) => {
                let text = text(&bytes);
                if open.last().is_some_and(|name| name == "style") {
                    assert!(!text.contains("url(") && !text.contains("@import"));
                } else {
                    parsed.text.push_str(&text);
                }
            }
            Token::Doctype(_) => {}
            Token::Comment(comment) => panic!("a comment: {comment:?}"),
            Token::Error(error) => panic!("{error:?}"),
        }
    }
    assert!(open.is_empty(), "{open:?}");
    parsed
}

const PLOTS: [&str; 7] =
    ["percentiles", "latency", "throughput", "connections", "lag", "cores", "memory"];

#[test]
fn run_page_is_well_formed_and_complete() {
    let parsed = parse(&run_page(&sample::result()));
    for id in PLOTS.into_iter().chain(["outcomes", "manifest", "plan"]) {
        assert!(parsed.ids.iter().any(|found| found == id), "{id}");
    }
    let count = |name: &str| parsed.elements.iter().filter(|found| *found == name).count();
    assert_eq!((count("h1"), count("desc"), count("details")), (1, PLOTS.len(), PLOTS.len()));
    for part in [
        "http://127.0.0.1:8080/mcp",
        "PASSED",
        "2023-11-14 22:13:20 UTC",
        "A Processor, 2 cores",
        "net.core.somaxconn",
        "rpc_error",
        "p99 limit: 1ms",
        "[[phase]]",
        "19.1 MiB",
    ] {
        assert!(parsed.text.contains(part), "{part} is not in {}", parsed.text);
    }
}

#[test]
fn hostile_names_are_escaped() {
    let hostile = "</title></svg><script>alert(1)</script>\"'&<img src=x onerror=y>]]>";
    let mut result = sample::result();
    result.plan.target = hostile.into();
    result.totals.last_error = Some(hostile.into());
    result.totals.failures.insert(hostile.into(), 3);
    result.verdict.invalid = vec![hostile.into()];
    result.verdict.missed_thresholds = vec![hostile.into()];
    result.manifest.arguments = vec![hostile.into()];
    result.manifest.ring = hostile.into();
    result.manifest.cpu = hostile.into();
    result.manifest.sysctls = vec![(hostile.into(), hostile.into())];
    result.plan.calls = vec![CallPlan::tool(hostile)];
    let parsed = parse(&run_page(&result));
    assert!(parsed.text.matches("<script>alert(1)</script>").count() >= 9, "{}", parsed.text);
}

#[test]
fn verdict_is_shown_with_its_reasons() {
    let mut result = sample::result();
    result.verdict.missed_thresholds = vec!["p99 2 ms".into()];
    let text = parse(&run_page(&result)).text;
    assert!(text.contains("MISSED") && text.contains("p99 2 ms") && !text.contains("INVALID"));
    result.verdict.invalid = vec!["late".into()];
    let text = parse(&run_page(&result)).text;
    assert!(text.contains("INVALID") && text.contains("late") && text.contains("p99 2 ms"));
    (result.verdict.invalid, result.verdict.saturated) = (Vec::new(), vec!["too slow".into()]);
    let text = parse(&run_page(&result)).text;
    assert!(text.contains("FAILED") && text.contains("too slow"), "{text}");
    result.verdict = Verdict::default();
    result.plan.thresholds = Thresholds::default();
    assert!(parse(&run_page(&result)).text.contains("COMPLETED"));
}

#[test]
fn run_without_responses_has_a_page() {
    let mut result = sample::result();
    result.totals = Totals::default();
    result.response = Percentiles::default();
    result.service = Percentiles::default();
    result.response_distribution.clear();
    result.service_distribution.clear();
    result.seconds.clear();
    result.server = None;
    let parsed = parse(&run_page(&result));
    assert!(PLOTS.iter().all(|id| !parsed.ids.iter().any(|found| found == id)));
    assert!(parsed.text.contains("Outcomes"));
}

#[test]
fn result_of_earlier_version_is_drawn() {
    let mut value = serde_json::to_value(sample::result()).unwrap();
    let members = value.as_object_mut().unwrap();
    members.remove("response_distribution");
    members.remove("service_distribution");
    for second in members["seconds"].as_array_mut().unwrap() {
        let kept = ["answered", "failed", "p50_us", "p99_us", "max_us", "open"];
        second.as_object_mut().unwrap().retain(|name, _| kept.contains(&&name[..]));
    }
    let result: RunResult = serde_json::from_value(value).unwrap();
    let parsed = parse(&run_page(&result));
    for id in ["percentiles", "latency", "throughput", "connections"] {
        assert!(parsed.ids.iter().any(|found| found == id), "{id}");
    }
}

#[test]
fn header_values_are_not_shown() {
    let mut result = sample::result();
    let mut plan = serde_json::to_value(&result.plan).unwrap();
    plan["headers"] = serde_json::json!([["X-Team", "secret"]]);
    result.plan = serde_json::from_value(plan).unwrap();
    let arguments = ["run", "--header", "Authorization: Bearer secret", "--header=X-Key: secret"];
    result.manifest.arguments = arguments.map(Into::into).to_vec();
    let text = parse(&run_page(&result)).text;
    assert!(!text.contains("secret") && text.contains("X-Team"), "{text}");
    assert!(text.contains("--header 'Authorization: (hidden)' '--header=X-Key: (hidden)'"));
}

#[test]
fn long_run_keeps_page_small() {
    let mut result = sample::result();
    let second = result.seconds[1].clone();
    let at = |at: u32| SecondResult { at_s: f64::from(at), ..second.clone() };
    result.seconds = (1..=36_000).map(at).collect();
    result.plan.warm_up = HumanDuration::from_secs(1);
    let page = run_page(&result);
    assert!(page.len() < 600_000, "{} bytes", page.len());
    assert!(parse(&page).text.contains("150 seconds"));
}

#[test]
fn sweep_page_is_well_formed_and_complete() {
    let parsed = parse(&sweep_page(&sample::sweep()));
    for id in ["rates", "search", "cpu", "fractions", "manifest", "plan"] {
        assert!(parsed.ids.iter().any(|found| found == id), "{id}");
    }
    for part in [
        "PASSED",
        "The server sustains 1,000/s ± 5 %.",
        "Runs at this rate: 3 of 3 passed; 1 invalid run was repeated.",
        "Limit: 2,000/s: p99 9 ms",
        "4 connections × 1 · 3 runs to find the rate, 3 of 10s at 2 fractions of it",
        "median 100 µs (80.0 µs – 120 µs)",
        "run 3 invalid, 5.00 ms",
        "500/s (480/s–520/s)",
        "2 of 3",
        "90 %, run 3: the generator was late",
        "p99 limit: 1ms",
        "corelane-load search --plan FILE",
    ] {
        assert!(parsed.text.contains(part), "{part} is not in {}", parsed.text);
    }
}

#[test]
fn sweep_page_lists_reasons_for_failure() {
    let mut sweep = sample::sweep();
    for run in &mut sweep.steps[1].runs[..2] {
        run.verdict.missed_thresholds = vec!["p99 2 ms".into()];
        run.verdict.invalid.clear();
    }
    sweep.steps[1].runs[2].verdict = sweep.steps[1].runs[0].verdict.clone();
    let text = parse(&sweep_page(&sweep)).text;
    assert!(
        text.contains("MISSED") && text.contains("At 90 % of it 0 of 3 runs passed."),
        "{text}"
    );
    sweep.steps[1].runs[0].verdict.invalid = vec!["late".into()];
    assert!(parse(&sweep_page(&sweep)).text.contains("INVALID"));
    sweep.search.answer = SearchOutcome::Unconfirmed { rate: 1_000.0, passes: 1 };
    let text = parse(&sweep_page(&sweep)).text;
    assert!(text.contains("requests a second, unconfirmed: 1 passed"), "{text}");
}

#[test]
fn sweep_page_without_rate_shows_search() {
    let mut sweep = sample::sweep();
    sweep.search.answer = SearchOutcome::TooSlow;
    sweep.steps.clear();
    let parsed = parse(&sweep_page(&sweep));
    let has = |id: &str| parsed.ids.iter().any(|found| found == id);
    assert!(has("search") && !has("rates") && !has("cpu") && !has("fractions"));
    assert!(parsed.text.contains("no rate that was tried"), "{}", parsed.text);
    sweep.search.probes.clear();
    assert!(parse(&sweep_page(&sweep)).ids.iter().all(|found| found != "search"));
}
