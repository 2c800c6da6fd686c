//! The metrics of upstreams in the text format of Prometheus.

use std::fmt::{self, Write};
use std::sync::Arc;

use crate::gateway::status::{CallCounts, CallOutcome, UpstreamState, UpstreamStatus};
use crate::telemetry::metrics::{escape_label, write_head};

/// Writes the metrics of all upstreams.
///
/// # Errors
///
/// Those of `out`.
pub fn write_metrics(out: &mut impl Write, upstreams: &[Arc<UpstreamStatus>]) -> fmt::Result {
    for Gauge { name, kind, description, value } in GAUGES {
        write_head(out, name, kind, description)?;
        for status in upstreams {
            writeln!(out, "corelane_{name}{{upstream=\"{}\"}} {}", status.name, value(status))?;
        }
    }
    let description = "Calls of upstreams that have ended, by outcome.";
    write_head(out, "upstream_calls_total", "counter", description)?;
    for status in upstreams {
        let labels = format!("upstream=\"{}\"", status.name);
        write_outcomes(out, "upstream_calls_total", &labels, status.calls.all())?;
    }
    let description = "Seconds of calls of upstreams, but of those that were cancelled.";
    write_head(out, "upstream_call_seconds", "histogram", description)?;
    for status in upstreams {
        let labels = format!("upstream=\"{}\"", status.name);
        let durations = &status.calls.all().durations;
        durations.write_samples(out, "corelane_upstream_call_seconds", &labels)?;
    }
    write_tools(out, upstreams)
}

/// Writes the metrics of the tools that were called.
fn write_tools(out: &mut impl Write, upstreams: &[Arc<UpstreamStatus>]) -> fmt::Result {
    let tools: Vec<(String, Arc<CallCounts>)> = upstreams
        .iter()
        .flat_map(|status| {
            status.calls.tools().into_iter().map(|(tool, counts)| {
                let tool = escape_label(&tool);
                (format!("upstream=\"{}\",tool=\"{tool}\"", status.name), counts)
            })
        })
        .collect();
    if tools.is_empty() {
        return Ok(());
    }
    let description = "Calls of tools of upstreams that have ended, by outcome.";
    write_head(out, "upstream_tool_calls_total", "counter", description)?;
    for (labels, counts) in &tools {
        write_outcomes(out, "upstream_tool_calls_total", labels, counts)?;
    }
    let description = "Seconds of calls of tools, but of those that were cancelled.";
    write_head(out, "upstream_tool_call_seconds", "histogram", description)?;
    for (labels, counts) in &tools {
        counts.durations.write_samples(out, "corelane_upstream_tool_call_seconds", labels)?;
    }
    Ok(())
}

fn write_outcomes(
    out: &mut impl Write,
    metric: &str,
    labels: &str,
    counts: &CallCounts,
) -> fmt::Result {
    for outcome in CallOutcome::ALL {
        let (name, count) = (outcome.as_str(), counts.of(outcome));
        writeln!(out, "corelane_{metric}{{{labels},outcome=\"{name}\"}} {count}")?;
    }
    Ok(())
}

/// A metric with one number for each upstream.
struct Gauge {
    name: &'static str,
    kind: &'static str,
    description: &'static str,
    value: fn(&UpstreamStatus) -> u64,
}

const GAUGES: [Gauge; 6] = [
    Gauge {
        name: "upstream_ready",
        kind: "gauge",
        description: "1 if the lists of the upstream were read when it was last tried, else 0.",
        value: |status| u64::from(status.state().state == UpstreamState::Ready),
    },
    Gauge {
        name: "upstream_calls_in_flight",
        kind: "gauge",
        description: "Calls of the upstream that have not ended, held ones included.",
        value: |status| as_u64(status.calls.in_flight()),
    },
    Gauge {
        name: "upstream_children",
        kind: "gauge",
        description: "Programs or sessions of the upstream that are connected.",
        value: |status| as_u64(status.children.open()),
    },
    Gauge {
        name: "upstream_children_started_total",
        kind: "counter",
        description: "Programs or sessions of the upstream that have connected.",
        value: |status| status.children.started(),
    },
    Gauge {
        name: "upstream_restarts_total",
        kind: "counter",
        description: "Programs or sessions that have connected in place of one that had ended.",
        value: |status| status.children.restarts(),
    },
    Gauge {
        name: "upstream_list_failures_total",
        kind: "counter",
        description: "Reads of the lists of the upstream that have failed.",
        value: UpstreamStatus::list_failures,
    },
];

fn as_u64(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
