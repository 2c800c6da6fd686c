//! The list of upstreams as JSON.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::declared::Share;
use crate::gateway::status::{CallCounts, CallOutcome, ServerFacts, StateReport, UpstreamStatus};

/// Returns the document with all upstreams, in their order.
pub fn write_json(upstreams: &[Arc<UpstreamStatus>]) -> String {
    let upstreams: Vec<Value> = upstreams.iter().map(|it| upstream_of(it)).collect();
    json!({ "upstreams": upstreams }).to_string()
}

fn upstream_of(status: &UpstreamStatus) -> Value {
    let report = status.state();
    let StateReport { state, error, facts, .. } = &report;
    let facts = facts.as_ref();
    let share = facts.map_or(status.share, |it| it.share);
    let server = facts.and_then(|it| it.server.as_ref());
    let tools = status.calls.tools();
    let tools = tools.iter().map(|(name, counts)| {
        let mut tool = calls_of(counts);
        tool.insert("name".to_owned(), json!(name));
        Value::Object(tool)
    });
    let mut calls = calls_of(status.calls.all());
    calls.insert("in_flight".to_owned(), json!(status.calls.in_flight()));
    json!({
        "name": status.name,
        "state": state.as_str(),
        "error": error,
        "retry_in_ms": status.retry_in_ms(&report),
        "target": status.target,
        "share": share_name(share),
        "revision": facts.map(|it| it.revision),
        "server": server.map(|[name, version]| json!({ "name": name, "version": version })),
        "offered": facts.map(|ServerFacts { tools, resources, prompts, .. }| {
            json!({ "tools": tools, "resources": resources, "prompts": prompts })
        }),
        "hidden_tools": facts.map(|it| &it.hidden),
        "children": {
            "open": status.children.open(),
            "started": status.children.started(),
            "restarts": status.children.restarts(),
        },
        "list_failures": status.list_failures(),
        "calls": calls,
        "tools": tools.collect::<Vec<Value>>(),
        "stderr": status.children.stderr_lines(),
    })
}

/// The number of calls in all and by outcome, and how long they took.
fn calls_of(counts: &CallCounts) -> Map<String, Value> {
    let by_outcome = CallOutcome::ALL.map(|outcome| (outcome.as_str(), counts.of(outcome)));
    let total: u64 = by_outcome.iter().map(|(_, count)| count).sum();
    let mut calls = Map::new();
    calls.insert("total".to_owned(), json!(total));
    for (outcome, count) in by_outcome {
        calls.insert(outcome.to_owned(), json!(count));
    }
    for (name, quantile) in [("p50_ms", 0.5), ("p99_ms", 0.99)] {
        let ms = counts.durations.quantile_ms(quantile);
        // To the microsecond.
        calls.insert(name.to_owned(), json!(ms.map(|ms| (ms * 1_000.0).round() / 1_000.0)));
    }
    calls
}

const fn share_name(share: Share) -> &'static str {
    match share {
        Share::Auto => "auto",
        Share::All => "all",
        Share::Principal => "principal",
        Share::Session => "session",
    }
}
