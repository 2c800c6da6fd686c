//! Metrics of the parity dialect. Their names are those of its specification, without the prefix of
//! the server.

use std::fmt::{self, Write};

use crate::telemetry::counters::{CounterValue, LatencyHistogram, ParityCounters};

/// Groups of counters that are written here.
pub(super) const GROUPS: [&str; 4] =
    ["parity_requests", "parity_chunks", "parity_repeats", "parity_rejections"];

/// Writes the metrics of the dialect.
pub(super) fn write(out: &mut impl Write, counters: &ParityCounters) -> fmt::Result {
    let ParityCounters { requests, chunks, repeats, rejections, latency, .. } = counters;
    let description = "Requests of the parity dialect that were not rejected.";
    write_head(out, "mcp_requests_total", "counter", description)?;
    for (method, value) in requests.by_method() {
        writeln!(out, "mcp_requests_total{{method=\"{method}\"}} {value}")?;
    }
    let description = "Chunks of the streams of the parity dialect written.";
    write_head(out, "mcp_stream_events_total", "counter", description)?;
    for (chunk_type, value) in chunks.by_type() {
        writeln!(out, "mcp_stream_events_total{{chunkType=\"{chunk_type}\"}} {value}")?;
    }
    let description = "Messages of the parity dialect rejected before they had an effect.";
    write_head(out, "mcp_rejections_total", "counter", description)?;
    for (code, value) in rejections.by_code() {
        writeln!(out, "mcp_rejections_total{{code=\"{code}\"}} {value}")?;
    }
    let mut result = Ok(());
    repeats.each("", &mut |CounterValue { name, description, value, .. }| {
        if result.is_ok() {
            let metric = format!("mcp_{name}_total");
            result = write_head(out, &metric, "counter", description.trim_start())
                .and_then(|()| writeln!(out, "{metric} {value}"));
        }
    });
    result?;
    write_latency(out, latency)
}

fn write_latency(out: &mut impl Write, latency: &LatencyHistogram) -> fmt::Result {
    let description = "Milliseconds from a request of the parity dialect to its response, or to \
                       the end of its stream.";
    write_head(out, "mcp_latency_ms", "histogram", description)?;
    for (bound, count) in latency.cumulative() {
        writeln!(out, "mcp_latency_ms_bucket{{le=\"{bound}\"}} {count}")?;
    }
    let count = latency.count();
    writeln!(out, "mcp_latency_ms_bucket{{le=\"+Inf\"}} {count}")?;
    writeln!(out, "mcp_latency_ms_sum {}", latency.sum_ms())?;
    writeln!(out, "mcp_latency_ms_count {count}")
}

fn write_head(out: &mut impl Write, metric: &str, kind: &str, description: &str) -> fmt::Result {
    writeln!(out, "# HELP {metric} {description}")?;
    writeln!(out, "# TYPE {metric} {kind}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn metrics_have_names_of_the_specification() {
        let mut counters = ParityCounters::default();
        counters.requests.tools_call = 3;
        counters.chunks.progress = 2;
        counters.repeats.retries = 4;
        counters.rejections.rate_limited = 5;
        counters.latency.record(Duration::from_micros(1_500));
        let mut text = String::new();
        write(&mut text, &counters).unwrap();
        for line in [
            "mcp_requests_total{method=\"tools/call\"} 3",
            "mcp_stream_events_total{chunkType=\"progress\"} 2",
            "mcp_retries_total 4",
            "mcp_cancellations_total 0",
            "mcp_rejections_total{code=\"error.rate_limited\"} 5",
            "mcp_latency_ms_bucket{le=\"1\"} 0",
            "mcp_latency_ms_bucket{le=\"2\"} 1",
            "mcp_latency_ms_bucket{le=\"+Inf\"} 1",
            "mcp_latency_ms_sum 1.5",
            "mcp_latency_ms_count 1",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}: {text}");
        }
    }
}
