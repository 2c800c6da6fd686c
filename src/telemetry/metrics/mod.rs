//! Counters and gauges in the text format of Prometheus.
//!
//! Written from the plain counters of the shards: a registry of atomic counters, such as that of
//! `prometheus-client`, would be a second place for every number.
//!
//! Source: "Exposition formats" and "Metric and label naming" of the Prometheus documentation.

mod names;
mod parity;

use std::fmt::{self, Display, Write};

use self::names::{FAMILIES, Family, NAMES, SUMS};
use super::certificate::CertificateExpiry;
use super::counters::{CounterValue, Counters};
use super::label::Transport;
use super::open_work::QueueDepths;
use super::trace::TraceTotals;

/// The value of `Content-Type` of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Numbers of a server that are no counters.
#[derive(Clone, Debug)]
pub struct Gauges {
    /// Open connections by transport; those beyond the limits are not counted.
    pub connections: [(Transport, usize); 3],
    /// Legacy HTTP sessions.
    pub sessions: usize,
    /// Notification streams, those of legacy sessions included.
    pub streams: usize,
    /// Connections to listeners that expect PROXY headers, since the start by their result; none if
    /// no listener does.
    pub proxy_headers: Vec<(&'static str, u64)>,
    /// TLS handshakes since the start by their result; none if no listener is encrypted.
    pub tls_handshakes: Vec<(&'static str, u64)>,
    /// When the certificates that are served expire.
    pub tls_certificates: Vec<CertificateExpiry>,
    /// Keys that rate limits have counted lately, over all shards.
    pub rate_keys: usize,
    /// Shards.
    pub shards: u16,
    /// Overload protection.
    pub overload: OverloadGauges,
    /// The queues of each shard.
    pub queues: Vec<QueueDepths>,
    /// Reloads of the configuration.
    pub reloads: ReloadTotals,
    /// Spans, if they are exported.
    pub traces: Option<TraceTotals>,
    /// Lines that were lost, by their log.
    pub log_lines_lost: Vec<(&'static str, u64)>,
    /// When what tokens are verified with was last read: `files` or the URL of a key set, and
    /// seconds since 1970, 0 before the first time.
    pub credentials_read: Vec<(Box<str>, u64)>,
}

/// Reloads of the configuration since the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReloadTotals {
    /// Those that have applied all of it.
    pub succeeded: u64,
    /// Those that have not.
    pub failed: u64,
    /// Seconds since 1970 of the last success; 0 before the first.
    pub succeeded_at: u64,
}

/// Numbers of overload protection, over all shards.
#[derive(Clone, Copy, Debug, Default)]
pub struct OverloadGauges {
    /// Calls that run, if their number is limited.
    pub calls_running: usize,
    /// Circuit breakers that are not closed; each shard has its own.
    pub breakers_open: usize,
    /// The step of memory pressure.
    pub memory_pressure: u8,
    /// Jobs that wait for a blocking thread.
    pub blocking_waiting: usize,
}

/// The metric of the last reload.
const RELOADED_AT: &str = "config_last_reload_timestamp_seconds";

/// The metric of what tokens are verified with.
const CREDENTIALS_READ: &str = "auth_credentials_read_timestamp_seconds";
/// The metric of certificates.
const EXPIRY: &str = "tls_certificate_expiry_timestamp_seconds";

/// Metrics of all counters and gauges.
#[derive(Clone, Debug)]
pub struct Metrics<'a> {
    /// Sum over all shards.
    pub counters: &'a Counters,
    /// The numbers that are no counters.
    pub gauges: Gauges,
}

impl Display for Metrics<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut result = Ok(());
        self.counters.for_each(|counter| {
            if result.is_ok() {
                result = write_counter(formatter, counter);
            }
        });
        result?;
        parity::write(formatter, &self.counters.parity)?;
        self.write_errors(formatter)?;
        self.write_gauges(formatter)
    }
}

impl Metrics<'_> {
    fn write_errors(&self, out: &mut impl Write) -> fmt::Result {
        let errors = &self.counters.errors;
        write_head(out, "errors_total", "counter", "Errors sent, by JSON-RPC code.")?;
        for (code, count) in errors.iter() {
            writeln!(out, "corelane_errors_total{{code=\"{code}\"}} {count}")?;
        }
        writeln!(out, "corelane_errors_total{{code=\"other\"}} {}", errors.other_codes())
    }

    fn write_gauges(&self, out: &mut impl Write) -> fmt::Result {
        let Gauges { connections, sessions, streams, rate_keys, shards, .. } = &self.gauges;
        let description = "Open connections that count against the limits.";
        write_head(out, "connections_open", "gauge", description)?;
        for (transport, count) in connections {
            let labels = format_args!("{{transport=\"{transport}\"}}");
            writeln!(out, "corelane_connections_open{labels} {count}")?;
        }
        write_head(out, "sessions_open", "gauge", "Legacy HTTP sessions.")?;
        writeln!(out, "corelane_sessions_open {sessions}")?;
        write_head(out, "streams_open", "gauge", "Notification streams.")?;
        writeln!(out, "corelane_streams_open {streams}")?;
        let description = "Keys that rate limits have counted lately, over all shards.";
        write_head(out, "rate_keys", "gauge", description)?;
        writeln!(out, "corelane_rate_keys {rate_keys}")?;
        self.write_proxy_headers(out)?;
        self.write_tls(out)?;
        self.write_credentials(out)?;
        self.write_overload(out)?;
        self.write_queues(out)?;
        self.write_reloads(out)?;
        self.write_traces(out)?;
        self.write_logs(out)?;
        write_head(out, "shards", "gauge", "Shards of the server.")?;
        writeln!(out, "corelane_shards {shards}")?;
        write_head(out, "build_info", "gauge", "Version of the server.")?;
        let version = env!("CARGO_PKG_VERSION");
        writeln!(out, "corelane_build_info{{version=\"{version}\"}} 1")
    }

    fn write_overload(&self, out: &mut impl Write) -> fmt::Result {
        let OverloadGauges { calls_running, breakers_open, memory_pressure, blocking_waiting } =
            self.gauges.overload;
        for (name, value, description) in [
            ("calls_running", calls_running, "Running calls, if their number is limited."),
            ("breakers_open", breakers_open, "Circuit breakers of all shards not closed."),
            ("memory_pressure", memory_pressure.into(), "Step of the memory guard, 0 to 4."),
            ("blocking_waiting", blocking_waiting, "Jobs that wait for a blocking thread."),
        ] {
            write_head(out, name, "gauge", description)?;
            writeln!(out, "corelane_{name} {value}")?;
        }
        Ok(())
    }

    fn write_queues(&self, out: &mut impl Write) -> fmt::Result {
        let description = "Entries in a queue of a shard at the time of the scrape.";
        write_head(out, "queue_depth", "gauge", description)?;
        for depths in &self.gauges.queues {
            let shard = depths.shard;
            for (queue, depth) in depths.each() {
                let labels = format_args!("{{shard=\"{shard}\",queue=\"{queue}\"}}");
                writeln!(out, "corelane_queue_depth{labels} {depth}")?;
            }
        }
        Ok(())
    }

    fn write_reloads(&self, out: &mut impl Write) -> fmt::Result {
        let ReloadTotals { succeeded, failed, succeeded_at } = self.gauges.reloads;
        let description = "Reloads of the configuration; one with an error is a failure.";
        write_head(out, "config_reload_total", "counter", description)?;
        for (result, count) in [("success", succeeded), ("failure", failed)] {
            writeln!(out, "corelane_config_reload_total{{result=\"{result}\"}} {count}")?;
        }
        let description = "Unix time of the last successful reload, 0 before the first.";
        write_head(out, RELOADED_AT, "gauge", description)?;
        writeln!(out, "corelane_{RELOADED_AT} {succeeded_at}")
    }

    fn write_traces(&self, out: &mut impl Write) -> fmt::Result {
        let Some(totals) = self.gauges.traces else { return Ok(()) };
        let TraceTotals { exported, dropped_full, dropped_failed } = totals;
        let description = "Spans that the collector of traces has accepted.";
        write_head(out, "spans_exported_total", "counter", description)?;
        writeln!(out, "corelane_spans_exported_total {exported}")?;
        let description = "Spans dropped, as the queue was full or the collector refused.";
        write_head(out, "spans_dropped_total", "counter", description)?;
        for (reason, count) in [("queue_full", dropped_full), ("not_accepted", dropped_failed)] {
            writeln!(out, "corelane_spans_dropped_total{{reason=\"{reason}\"}} {count}")?;
        }
        Ok(())
    }

    fn write_logs(&self, out: &mut impl Write) -> fmt::Result {
        let logs = &self.gauges.log_lines_lost;
        if !logs.is_empty() {
            let description = "Log lines lost, as the log took none, or too few.";
            write_head(out, "log_lines_lost_total", "counter", description)?;
        }
        for (log, count) in logs {
            writeln!(out, "corelane_log_lines_lost_total{{log=\"{log}\"}} {count}")?;
        }
        Ok(())
    }

    fn write_proxy_headers(&self, out: &mut impl Write) -> fmt::Result {
        let Gauges { proxy_headers, .. } = &self.gauges;
        if !proxy_headers.is_empty() {
            let description = "Connections that begin with a PROXY header, by result.";
            write_head(out, "proxy_headers_total", "counter", description)?;
        }
        for (result, count) in proxy_headers {
            writeln!(out, "corelane_proxy_headers_total{{result=\"{result}\"}} {count}")?;
        }
        Ok(())
    }

    fn write_tls(&self, out: &mut impl Write) -> fmt::Result {
        let Gauges { tls_handshakes, tls_certificates, .. } = &self.gauges;
        if !tls_handshakes.is_empty() {
            write_head(out, "tls_handshakes_total", "counter", "TLS handshakes by result.")?;
        }
        for (result, count) in tls_handshakes {
            writeln!(out, "corelane_tls_handshakes_total{{result=\"{result}\"}} {count}")?;
        }
        if !tls_certificates.is_empty() {
            let description = "Unix time at which a certificate or one of its chain expires.";
            write_head(out, EXPIRY, "gauge", description)?;
        }
        for CertificateExpiry { file, at } in tls_certificates {
            writeln!(out, "corelane_{EXPIRY}{{file=\"{}\"}} {at}", escape_label(file))?;
        }
        Ok(())
    }
}

impl Metrics<'_> {
    fn write_credentials(&self, out: &mut impl Write) -> fmt::Result {
        let credentials_read = &self.gauges.credentials_read;
        if !credentials_read.is_empty() {
            let description = "Unix time at which the files of keys, or the key set at a URL, were \
                               last found valid; 0 before the first time.";
            write_head(out, CREDENTIALS_READ, "gauge", description)?;
        }
        for (source, at) in credentials_read {
            writeln!(
                out,
                "corelane_{CREDENTIALS_READ}{{source=\"{}\"}} {at}",
                escape_label(source)
            )?;
        }
        Ok(())
    }
}

/// Returns a text as the value of a label.
pub fn escape_label(text: &str) -> String {
    text.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

/// Writes the lines before the samples of a metric, whose name follows `corelane_`.
///
/// # Errors
///
/// Those of `out`.
pub fn write_head(out: &mut impl Write, name: &str, kind: &str, description: &str) -> fmt::Result {
    writeln!(out, "# HELP corelane_{name} {}", description.trim_start())?;
    writeln!(out, "# TYPE corelane_{name} {kind}")
}

fn write_counter(out: &mut impl Write, counter: CounterValue) -> fmt::Result {
    let CounterValue { group, name, description, value } = counter;
    if SUMS.contains(&(group, name)) || parity::GROUPS.contains(&group) {
        return Ok(());
    }
    let families = FAMILIES.iter().filter(|family| family.group == group);
    for Family { name: metric, label, description, counters, .. } in families {
        let Some(index) = counters.iter().position(|(counter, _)| *counter == name) else {
            continue;
        };
        if index == 0 {
            write_head(out, &format!("{metric}_total"), "counter", description)?;
        }
        let reason = counters[index].1;
        return writeln!(out, "corelane_{metric}_total{{{label}=\"{reason}\"}} {value}");
    }
    let renamed = NAMES.iter().find(|(of, counter, _)| (*of, *counter) == (group, name));
    let metric = match renamed {
        Some((_, _, metric)) => format!("{metric}_total"),
        None => format!("{}{name}_total", default_prefix(group, name)),
    };
    write_head(out, &metric, "counter", description)?;
    writeln!(out, "corelane_{metric} {value}")
}

/// Returns what precedes the name of a counter in its metric.
fn default_prefix(group: &str, name: &str) -> String {
    match group {
        "websockets" => "websocket_".to_owned(),
        // Counters of tasks, tools and handlers name their subject.
        "requests" if !matches!(name, "cancelled" | "timed_out") => String::new(),
        group => format!("{group}_"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::telemetry::counters::LatencyHistogram;

    fn text(counters: &Counters) -> String {
        let gauges = Gauges {
            connections: [(Transport::Tcp, 3), (Transport::Http, 2), (Transport::WebSocket, 1)],
            sessions: 4,
            streams: 5,
            proxy_headers: vec![("client", 6)],
            tls_handshakes: vec![("full", 7)],
            tls_certificates: vec![CertificateExpiry { file: "a\"\\\n.pem".into(), at: 9 }],
            rate_keys: 8,
            shards: 2,
            overload: OverloadGauges { breakers_open: 3, ..OverloadGauges::default() },
            queues: vec![QueueDepths { shard: 1, calls: 6, ..QueueDepths::default() }],
            reloads: ReloadTotals { succeeded: 5, failed: 2, succeeded_at: 1_700_000_000 },
            traces: Some(TraceTotals { exported: 3, dropped_full: 2, dropped_failed: 1 }),
            log_lines_lost: vec![("stderr", 4)],
            credentials_read: vec![("files".into(), 7)],
        };
        Metrics { counters, gauges }.to_string()
    }

    #[test]
    fn every_counter_is_a_sample() {
        let mut counters = Counters::default();
        counters.errors.count(-32601);
        let text = text(&counters);
        let samples = text.lines().filter(|line| !line.starts_with('#')).count();
        let mut values = 0;
        counters.for_each(|_| values += 1);
        // Two errors, three transports, sessions, streams, keys, one of PROXY headers, two of TLS,
        // four of overload, eight queues, three of reloads, three of spans, one of logs, files of
        // keys, shards, version, and the latency of the parity dialect.
        let latency = LatencyHistogram::BOUNDS_MS.len() + 3;
        assert_eq!(samples, values - SUMS.len() + 33 + latency);
        let named =
            FAMILIES.iter().flat_map(|it| it.counters.iter().map(|(name, _)| (it.group, *name)));
        let named = named.chain(NAMES.iter().map(|(group, name, _)| (*group, *name))).chain(SUMS);
        let mut known = BTreeSet::new();
        counters.for_each(|it| _ = known.insert((it.group, it.name)));
        assert!(named.clone().all(|it| known.contains(&it)), "{:?}", named.collect::<Vec<_>>());
    }

    #[test]
    fn file_name_is_escaped_in_label() {
        let text = text(&Counters::default());
        let sample = r#"corelane_tls_certificate_expiry_timestamp_seconds{file="a\"\\\n.pem"} 9"#;
        assert!(text.lines().any(|line| line == sample), "{text}");
    }

    #[test]
    fn samples_of_a_metric_follow_its_head() {
        let text = text(&Counters::default());
        let mut heads = BTreeSet::new();
        let mut metric = "";
        for line in text.lines() {
            let mut words = line.split(['{', ' ']);
            match line.strip_prefix("# TYPE ") {
                Some(head) => {
                    metric = head.split(' ').next().unwrap();
                    assert!(heads.insert(metric), "{metric} has two heads");
                    assert_eq!(head.ends_with(" counter"), metric.ends_with("_total"), "{head}");
                }
                None if line.starts_with("# HELP ") => assert!(line.ends_with('.'), "{line}"),
                None if metric == "mcp_latency_ms" => assert!(line.starts_with(metric), "{line}"),
                None => assert_eq!(words.next(), Some(metric), "{line}"),
            }
        }
    }

    #[test]
    fn counters_have_documented_names_and_labels() {
        let mut counters = Counters::default();
        counters.connections.refused_limit = 1;
        counters.traffic.bytes_in = 2;
        counters.requests.tools_call = 3;
        counters.websockets.pings_out = 4;
        counters.errors.count(-32602);
        let text = text(&counters);
        for line in [
            "corelane_connections_refused_total{reason=\"connection_limit\"} 1",
            "corelane_received_bytes_total 2",
            "corelane_requests_total{method=\"tools/call\"} 3",
            "corelane_websocket_pings_out_total 4",
            "corelane_errors_total{code=\"-32602\"} 1",
            "corelane_rate_keys 8",
            "corelane_config_reload_total{result=\"success\"} 5",
            "corelane_config_reload_total{result=\"failure\"} 2",
            "corelane_config_last_reload_timestamp_seconds 1700000000",
            "corelane_spans_exported_total 3",
            "corelane_spans_dropped_total{reason=\"queue_full\"} 2",
            "corelane_log_lines_lost_total{log=\"stderr\"} 4",
            "corelane_queue_depth{shard=\"1\",queue=\"calls\"} 6",
            "corelane_connections_open{transport=\"tcp\"} 3",
            "corelane_connections_open{transport=\"websocket\"} 1",
            "# HELP corelane_connections_accepted_total Connections accepted.",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}: {text}");
        }
    }
}
