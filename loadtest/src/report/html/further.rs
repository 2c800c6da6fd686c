//! What a result has beyond the figures of every run: what a scenario, a search or a transport adds
//! to it.
//!
//! What it keeps true: a member that the page does not know is shown by its name, with the unit
//! that the name ends with; what is nothing is left out. So a plan may ask for more without a page
//! that hides what came of it.

use maud::{Markup, html};
use serde_json::{Map, Value};

use crate::report::figure;
use crate::result::{Manifest, RunResult};

/// Members that the page shows elsewhere.
const RESULT: [&str; 12] = [
    "verdict",
    "plan",
    "manifest",
    "totals",
    "response",
    "service",
    "lag",
    "response_distribution",
    "service_distribution",
    "generator",
    "server",
    "seconds",
];
/// Those of the totals.
const TOTALS: [&str; 11] = [
    "span_s",
    "due",
    "sent",
    "answered",
    "rate",
    "failures",
    "failure_ratio",
    "unasked",
    "opened",
    "lost",
    "refused",
];
/// Those of the manifest.
const MANIFEST: [&str; 9] = [
    "version",
    "arguments",
    "ended_unix_s",
    "kernel",
    "cpu",
    "cores",
    "sysctls",
    "ring",
    "workers",
];
/// Values of a list that are shown one by one.
const LISTED_MAX: usize = 8;

/// A name and what is known of it.
type Fact = (String, String);

/// The section of the page, where there is anything to say.
pub(super) fn further(result: &RunResult) -> Option<Markup> {
    let result = serde_json::to_value(result).ok()?;
    let mut facts = Vec::new();
    collect(&without(result.as_object()?, &RESULT), "", &mut facts);
    collect(&without(result.get("totals")?.as_object()?, &TOTALS), "", &mut facts);
    (!facts.is_empty()).then(|| {
        html! {
            section class="card wide" id="further" {
                h2 { "Further figures" }
                p class="caption" { "What this run in particular was asked for, or came to." }
                dl class="facts" { (rows(&facts)) }
            }
        }
    })
}

/// What the manifest has beyond its own rows.
pub(super) fn further_of_manifest(manifest: &Manifest) -> Markup {
    let mut facts = Vec::new();
    let manifest = serde_json::to_value(manifest).unwrap_or_default();
    if let Some(members) = manifest.as_object() {
        collect(&without(members, &MANIFEST), "", &mut facts);
    }
    rows(&facts)
}

fn rows(facts: &[Fact]) -> Markup {
    html! {
        @for (name, value) in facts {
            dt { (name) }
            dd { (value) }
        }
    }
}

fn without(members: &Map<String, Value>, known: &[&str]) -> Map<String, Value> {
    let others = members.iter().filter(|(name, _)| !known.contains(&&name[..]));
    others.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Takes the facts out of an object, those within it included.
fn collect(members: &Map<String, Value>, path: &str, facts: &mut Vec<Fact>) {
    for (name, value) in members {
        let path = if path.is_empty() { words(name) } else { format!("{path}, {}", words(name)) };
        match value {
            Value::Object(inner) => match percentiles(inner) {
                Some(text) if text.is_empty() => {}
                Some(text) => facts.push((path, text)),
                None => collect(inner, &path, facts),
            },
            _ => facts.extend(shown(name, value).map(|text| (path, text))),
        }
    }
}

/// A distribution in one line, which is empty where it has no values; none where this is none.
fn percentiles(members: &Map<String, Value>) -> Option<String> {
    let count = members.get("count")?.as_u64()?;
    let names = [("p50", "p50_us"), ("p99", "p99_us"), ("p99.9", "p999_us"), ("max", "max_us")];
    let values = names.map(|(shown, name)| {
        let us = members.get(name)?.as_f64()?;
        Some(format!("{shown} {}", figure::duration(us)))
    });
    let values = values.into_iter().collect::<Option<Vec<_>>>()?;
    if count == 0 {
        return Some(String::new());
    }
    Some(format!("{} · {} values", values.join(" · "), figure::count(count)))
}

/// A value with the unit that its name ends with; none where it is nothing.
fn shown(name: &str, value: &Value) -> Option<String> {
    match value {
        Value::Bool(true) => Some("yes".into()),
        Value::Number(number) => {
            let value = number.as_f64().filter(|value| *value != 0.0)?;
            let whole = number.as_u64();
            Some(match name.rsplit('_').find(|part| *part != "max") {
                Some("us") => figure::duration(value),
                Some("ms") => figure::duration(value * 1e3),
                Some("s") => figure::duration(value * 1e6),
                Some("bytes") => figure::bytes(whole?),
                Some("ratio") => figure::part(value),
                _ => whole.map_or_else(|| figure::digits(value), figure::count),
            })
        }
        Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        Value::Array(values) if values.len() > LISTED_MAX => {
            Some(format!("{} entries", figure::count(values.len() as u64)))
        }
        Value::Array(values) => {
            let all: Vec<String> = values.iter().filter_map(|value| shown(name, value)).collect();
            Some(all.join(", ")).filter(|text| !text.is_empty())
        }
        Value::Null | Value::Bool(false) | Value::Object(_) => None,
    }
}

/// The name of a member as words, without its unit.
fn words(name: &str) -> String {
    let name = ["_us", "_ms", "_s", "_bytes", "_ratio"]
        .into_iter()
        .find_map(|unit| name.strip_suffix(unit))
        .unwrap_or(name);
    name.replace('_', " ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn facts(value: &Value) -> Vec<Fact> {
        let mut facts = Vec::new();
        collect(value.as_object().unwrap(), "", &mut facts);
        facts
    }

    fn fact(name: &str, value: &str) -> Fact {
        (name.into(), value.into())
    }

    #[test]
    fn members_are_shown_by_their_names_with_the_units_that_these_end_with() {
        let value = json!({
            "listen": { "streams": 1_000, "first": { "median_us": 85.3 }, "failures": { "a": 3 } },
            "opening_s": 2.5, "held_bytes_max": 1_048_576, "from": ["127.0.0.1", "127.0.0.2"],
        });
        let expected = [
            fact("listen, streams", "1,000"),
            fact("listen, first, median", "85.3 µs"),
            fact("listen, failures, a", "3"),
            fact("opening", "2.50 s"),
            fact("held bytes max", "1.00 MiB"),
            fact("from", "127.0.0.1, 127.0.0.2"),
        ];
        assert_eq!(facts(&value), expected);
    }

    #[test]
    fn what_is_nothing_is_left_out() {
        let value = json!({
            "a": null, "b": 0, "c": {}, "d": [], "e": "", "f": false, "g": { "count": 0,
            "p50_us": 0.0, "p99_us": 0.0, "p999_us": 0.0, "max_us": 0.0 },
        });
        assert_eq!(facts(&value), []);
    }

    #[test]
    fn a_distribution_is_one_line_and_a_long_list_its_length() {
        let value = json!({
            "connect": { "count": 9, "mean_us": 1.0, "p50_us": 2.0, "p90_us": 3.0, "p99_us": 4.0,
            "p999_us": 5.0, "p9999_us": 6.0, "max_us": 7.0 },
            "publications": vec![1; 20],
        });
        let line = "p50 2.00 µs · p99 4.00 µs · p99.9 5.00 µs · max 7.00 µs · 9 values";
        assert_eq!(facts(&value), [fact("connect", line), fact("publications", "20 entries")]);
    }
}
