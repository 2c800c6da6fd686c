//! The seconds of a run as a table for other programs: RFC 4180, a header and a row a second.
//!
//! What it keeps true: the columns are the same for every run; what is not known is empty, never
//! zero; latencies are in microseconds, memory is in bytes, rates are a second of what was
//! measured.

use std::io::{self, Write};

use ::csv::{Terminator, Writer, WriterBuilder};

use crate::measure::outcome::Failure;
use crate::result::SecondResult;

/// The columns before those of failures.
const BEFORE: [&str; 8] =
    ["time_s", "span_s", "due", "sent", "answered", "due_per_s", "sent_per_s", "answered_per_s"];
/// The columns behind them.
const BEHIND: [&str; 14] = [
    "response_p50_us",
    "response_p90_us",
    "response_p99_us",
    "response_p999_us",
    "response_max_us",
    "service_p99_us",
    "lag_p99_us",
    "connections_open",
    "connections_opened",
    "connections_lost",
    "server_cores",
    "server_resident_bytes",
    "generator_cores",
    "generator_resident_bytes",
];

/// A table that grows by a row a second.
#[derive(Debug)]
pub struct Seconds<W: Write>(Writer<W>);

impl<W: Write> Seconds<W> {
    /// Begins the table with its header.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn begin(out: W) -> io::Result<Self> {
        let mut writer = WriterBuilder::new().terminator(Terminator::CRLF).from_writer(out);
        let failures = Failure::ALL.map(|kind| format!("failed_{}", kind.name()));
        let failures = failures.iter().map(String::as_str);
        writer.write_record(BEFORE.into_iter().chain(["failed"]).chain(failures).chain(BEHIND))?;
        writer.flush()?;
        Ok(Self(writer))
    }

    /// Adds a second. Whoever reads along has it at once.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn add(&mut self, second: &SecondResult) -> io::Result<()> {
        let rate = |count| second.rate(count).map(|rate| format!("{rate:.1}")).unwrap_or_default();
        let counts = [second.due, second.sent, second.answered];
        let mut row = vec![format!("{:.3}", second.at_s), format!("{:.3}", second.span_s)];
        row.extend(counts.map(|count| count.to_string()));
        row.extend(counts.map(rate));
        row.push(second.failed.to_string());
        let of_kind = |kind: Failure| second.failures.get(kind.name()).copied().unwrap_or_default();
        row.extend(Failure::ALL.map(|kind| of_kind(kind).to_string()));
        let response = [second.p50_us, second.p90_us, second.p99_us, second.p999_us, second.max_us];
        let latencies = response.into_iter().chain([second.service_p99_us]);
        row.extend(latencies.map(|us| shown(second.answered > 0, us)));
        row.push(shown(second.due > 0, second.lag_p99_us));
        row.extend([second.open, second.opened, second.lost].map(|count| count.to_string()));
        for (cores, bytes) in [
            (second.server_cores, second.server_resident_bytes),
            (second.generator_cores, second.generator_resident_bytes),
        ] {
            row.push(cores.map(|cores| format!("{cores:.4}")).unwrap_or_default());
            row.push(bytes.map(|bytes| bytes.to_string()).unwrap_or_default());
        }
        self.0.write_record(&row)?;
        self.0.flush()
    }
}

/// A latency, where there is one.
fn shown(is_known: bool, us: f64) -> String {
    if is_known { format!("{us:.1}") } else { String::new() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ::csv::{Reader, StringRecord};

    use super::*;

    fn table(seconds: &[SecondResult]) -> (String, StringRecord, Vec<StringRecord>) {
        let mut out = Vec::new();
        let mut table = Seconds::begin(&mut out).unwrap();
        for second in seconds {
            table.add(second).unwrap();
        }
        drop(table);
        let text = String::from_utf8(out).unwrap();
        let mut reader = Reader::from_reader(text.as_bytes());
        let header = reader.headers().unwrap().clone();
        let rows = reader.records().map(Result::unwrap).collect();
        (text, header, rows)
    }

    #[test]
    fn a_second_is_a_row_with_a_value_under_each_name() {
        let second = SecondResult {
            at_s: 3.0,
            span_s: 0.5,
            due: 10,
            sent: 9,
            answered: 8,
            failed: 1,
            failures: BTreeMap::from([("rpc_error".into(), 1)]),
            p999_us: 12.34,
            open: 64,
            server_cores: Some(0.25),
            ..SecondResult::default()
        };
        let (text, header, rows) = table(&[second]);
        assert!(text.ends_with("\r\n") && text.lines().count() == 2);
        let value = |name: &str| {
            let place = header.iter().position(|column| column == name).unwrap();
            rows[0][place].to_owned()
        };
        assert_eq!((value("time_s"), value("answered_per_s")), ("3.000".into(), "16.0".into()));
        assert_eq!((value("failed_rpc_error"), value("failed_timeout")), ("1".into(), "0".into()));
        assert_eq!(
            (value("response_p999_us"), value("server_cores")),
            ("12.3".into(), "0.2500".into())
        );
        assert_eq!(
            (value("connections_open"), value("server_resident_bytes")),
            ("64".into(), String::new())
        );
    }

    #[test]
    fn a_second_without_requests_has_no_rates_and_no_latencies() {
        let (_, header, rows) = table(&[SecondResult { at_s: 1.0, ..SecondResult::default() }]);
        for (name, value) in header.iter().zip(&rows[0]) {
            let is_figure = name.ends_with("_us") || name.ends_with("_per_s");
            assert!(!is_figure || value.is_empty(), "{name} is {value}");
        }
    }
}
