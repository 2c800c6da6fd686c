//! Results that depend on the kind of load or transport.
//!
//! Members without a section of their own are shown by name, with the unit of the name's suffix;
//! empty members are omitted. New members therefore appear without a change of the page.

use maud::{Markup, html};
use serde_json::{Map, Value};

use crate::figure;
use crate::result::{Manifest, RunResult};

/// Members shown in other sections.
const RESULT: [&str; 15] = [
    "verdict",
    "plan",
    "manifest",
    "totals",
    "failure_examples",
    "calls",
    "response",
    "service",
    "lag",
    "response_distribution",
    "service_distribution",
    "generator",
    "server",
    "memory_growth",
    "seconds",
];
/// Members of the totals shown in other sections.
const TOTALS: [&str; 12] = [
    "duration_s",
    "due",
    "sent",
    "answered",
    "rate",
    "failures",
    "failure_ratio",
    "unsolicited",
    "late",
    "opened",
    "lost",
    "last_error",
];
/// Members of the manifest shown in other sections.
const MANIFEST: [&str; 9] = [
    "version",
    "arguments",
    "ended_unix_s",
    "kernel",
    "cpu",
    "cores",
    "sysctls",
    "ring",
    "threads",
];
/// Longest list whose values are shown individually.
const LISTED_MAX: usize = 8;

/// Name and value.
type Fact = (String, String);

/// Returns the section, or `None` if there is nothing to show.
pub(super) fn other_results(result: &RunResult) -> Option<Markup> {
    let result = serde_json::to_value(result).ok()?;
    let mut facts = Vec::new();
    collect(&without(result.as_object()?, &RESULT), "", &mut facts);
    collect(&without(result.get("totals")?.as_object()?, &TOTALS), "", &mut facts);
    (!facts.is_empty()).then(|| {
        html! {
            section class="card wide" id="further" {
                h2 { "Further figures" }
                p class="caption" { "Results of this kind of load and transport." }
                dl class="facts" { (rows(&facts)) }
            }
        }
    })
}

/// Returns the members of the manifest without a row of their own.
pub(super) fn other_manifest_rows(manifest: &Manifest) -> Markup {
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

/// Collects the facts of an object and its nested objects.
fn collect(members: &Map<String, Value>, path: &str, facts: &mut Vec<Fact>) {
    for (name, value) in members {
        let path = if path.is_empty() {
            readable_name(name)
        } else {
            format!("{path}, {}", readable_name(name))
        };
        match value {
            Value::Object(inner) => match percentiles(inner) {
                Some(text) if text.is_empty() => {}
                Some(text) => facts.push((path, text)),
                None => collect(inner, &path, facts),
            },
            _ => facts.extend(format_value(name, value).map(|text| (path, text))),
        }
    }
}

/// Formats percentiles in one line, empty without values; `None` if these are not percentiles.
fn percentiles(members: &Map<String, Value>) -> Option<String> {
    let count = members.get("count")?.as_u64()?;
    let names = [
        ("p50", "p50_us"),
        ("p90", "p90_us"),
        ("p95", "p95_us"),
        ("p99", "p99_us"),
        ("p99.9", "p999_us"),
        ("p99.99", "p9999_us"),
        ("max", "max_us"),
    ];
    // Without a median these are no percentiles; results of earlier versions lack others.
    members.get("p50_us")?;
    let values = names.into_iter().filter_map(|(shown, name)| {
        let us = members.get(name)?.as_f64()?;
        Some(format!("{shown} {}", figure::duration(us)))
    });
    let values: Vec<String> = values.collect();
    if count == 0 {
        return Some(String::new());
    }
    Some(format!("{} · {} values", values.join(" · "), figure::count(count)))
}

/// Formats a value with the unit of the name's suffix; `None` if it is empty or zero.
fn format_value(name: &str, value: &Value) -> Option<String> {
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
                Some("ratio") => figure::percent(value),
                _ => whole.map_or_else(|| figure::digits(value), figure::count),
            })
        }
        Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        Value::Array(values) if values.len() > LISTED_MAX => {
            Some(format!("{} entries", figure::count(values.len() as u64)))
        }
        Value::Array(values) => {
            let all: Vec<String> =
                values.iter().filter_map(|value| format_value(name, value)).collect();
            Some(all.join(", ")).filter(|text| !text.is_empty())
        }
        Value::Null | Value::Bool(false) | Value::Object(_) => None,
    }
}

/// Returns the name as words, without its unit.
fn readable_name(name: &str) -> String {
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
    fn members_are_shown_with_unit_of_suffix() {
        let value = json!({
            "listen": { "streams": 1_000, "first": { "median_us": 85.3 }, "failures": { "a": 3 } },
            "connect_s": 2.5, "held_bytes_max": 1_048_576, "from": ["127.0.0.1", "127.0.0.2"],
        });
        let expected = [
            fact("listen, streams", "1,000"),
            fact("listen, first, median", "85.3 µs"),
            fact("listen, failures, a", "3"),
            fact("connect", "2.50 s"),
            fact("held bytes max", "1.00 MiB"),
            fact("from", "127.0.0.1, 127.0.0.2"),
        ];
        assert_eq!(facts(&value), expected);
    }

    #[test]
    fn empty_members_are_omitted() {
        let value = json!({
            "a": null, "b": 0, "c": {}, "d": [], "e": "", "f": false, "g": { "count": 0,
            "p50_us": 0.0, "p99_us": 0.0, "p999_us": 0.0, "max_us": 0.0 },
        });
        assert_eq!(facts(&value), []);
    }

    #[test]
    fn percentiles_are_one_line_and_long_lists_counted() {
        let value = json!({
            "connect": { "count": 9, "mean_us": 1.0, "p50_us": 2.0, "p90_us": 3.0, "p99_us": 4.0,
            "p999_us": 5.0, "p9999_us": 6.0, "max_us": 7.0 },
            "publications": vec![1; 20],
        });
        let line = "p50 2.00 µs · p90 3.00 µs · p99 4.00 µs · p99.9 5.00 µs · \
                    p99.99 6.00 µs · max 7.00 µs · 9 values";
        assert_eq!(facts(&value), [fact("connect", line), fact("publications", "20 entries")]);
    }
}
