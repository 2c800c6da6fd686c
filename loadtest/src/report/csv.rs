//! CSV output of the seconds of a run (RFC 4180), with a header.
//!
//! All runs have the same columns, those of the parity dialect more; unknown values are empty.
//! Latencies are in microseconds, memory in bytes, rates per measured second.

use std::io::{self, Write};

use ::csv::{Terminator, Writer, WriterBuilder};

use crate::metrics::outcome::Failure;
use crate::result::SecondResult;

/// The columns before those of failures by kind.
const COLUMNS_BEFORE_FAILURES: [&str; 8] =
    ["time_s", "span_s", "due", "sent", "answered", "due_per_s", "sent_per_s", "answered_per_s"];
/// The columns after them.
const COLUMNS_AFTER_FAILURES: [&str; 18] = [
    "response_p50_us",
    "response_p90_us",
    "response_p95_us",
    "response_p99_us",
    "response_p999_us",
    "response_p9999_us",
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
    "late",
    "users",
];

/// A CSV writer with one row a second.
#[derive(Debug)]
pub struct CsvWriter<W: Write> {
    writer: Writer<W>,
    is_parity: bool,
}

impl<W: Write> CsvWriter<W> {
    /// Writes the header, with the failures of the parity dialect or without.
    ///
    /// # Errors
    ///
    /// I/O errors of `out`.
    pub fn new(out: W, is_parity: bool) -> io::Result<Self> {
        let mut writer = WriterBuilder::new().terminator(Terminator::CRLF).from_writer(out);
        let failures: Vec<String> =
            Failure::of_dialect(is_parity).map(|kind| format!("failed_{}", kind.name())).collect();
        let failures = failures.iter().map(String::as_str);
        writer.write_record(
            COLUMNS_BEFORE_FAILURES
                .into_iter()
                .chain(["failed"])
                .chain(failures)
                .chain(COLUMNS_AFTER_FAILURES),
        )?;
        writer.flush()?;
        Ok(Self { writer, is_parity })
    }

    /// Writes and flushes the row of a second.
    ///
    /// # Errors
    ///
    /// I/O errors of the output.
    pub fn write_second(&mut self, second: &SecondResult) -> io::Result<()> {
        let rate = |count| second.rate(count).map(|rate| format!("{rate:.1}")).unwrap_or_default();
        let counts = [second.due, second.sent, second.answered];
        let mut row = vec![format!("{:.3}", second.at_s), format!("{:.3}", second.span_s)];
        row.extend(counts.map(|count| count.to_string()));
        row.extend(counts.map(rate));
        row.push(second.failed.to_string());
        let of_kind = |kind: Failure| second.failures.get(kind.name()).copied().unwrap_or_default();
        row.extend(Failure::of_dialect(self.is_parity).map(|kind| of_kind(kind).to_string()));
        let latencies = [
            second.p50_us,
            second.p90_us,
            second.p95_us,
            second.p99_us,
            second.p999_us,
            second.p9999_us,
            second.max_us,
            second.service_p99_us,
            second.lag_p99_us,
        ];
        row.extend(latencies.map(|us| us.map(|us| format!("{us:.1}")).unwrap_or_default()));
        row.extend([second.open, second.opened, second.lost].map(|count| count.to_string()));
        for (cores, bytes) in [
            (second.server_cores, second.server_resident_bytes),
            (second.generator_cores, second.generator_resident_bytes),
        ] {
            row.push(cores.map(|cores| format!("{cores:.4}")).unwrap_or_default());
            row.push(bytes.map(|bytes| bytes.to_string()).unwrap_or_default());
        }
        row.extend([second.late, second.users].map(|count| count.to_string()));
        self.writer.write_record(&row)?;
        self.writer.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ::csv::{Reader, StringRecord};

    use super::*;

    fn table(seconds: &[SecondResult]) -> (String, StringRecord, Vec<StringRecord>) {
        let mut out = Vec::new();
        let mut table = CsvWriter::new(&mut out, false).unwrap();
        for second in seconds {
            table.write_second(second).unwrap();
        }
        drop(table);
        let text = String::from_utf8(out).unwrap();
        let mut reader = Reader::from_reader(text.as_bytes());
        let header = reader.headers().unwrap().clone();
        let rows = reader.records().map(Result::unwrap).collect();
        (text, header, rows)
    }

    #[test]
    fn csv_row_has_a_value_for_each_column() {
        let second = SecondResult {
            at_s: 3.0,
            span_s: 0.5,
            due: 10,
            sent: 9,
            answered: 8,
            failed: 1,
            late: 3,
            failures: BTreeMap::from([("rpc_error".into(), 1)]),
            p999_us: Some(12.34),
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
        assert_eq!(value("late"), "3");
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
    fn parity_columns_appear_with_the_dialect() {
        let header = |is_parity| {
            let mut out = Vec::new();
            drop(CsvWriter::new(&mut out, is_parity).unwrap());
            String::from_utf8(out).unwrap()
        };
        assert!(
            header(true).contains(",failed_stream,") && header(true).contains(",failed_error.")
        );
        let mcp = header(false);
        assert!(!mcp.contains("stream") && !mcp.contains("failed_error"), "{mcp}");
    }

    #[test]
    fn second_without_requests_has_empty_figures() {
        let (_, header, rows) = table(&[SecondResult { at_s: 1.0, ..SecondResult::default() }]);
        for (name, value) in header.iter().zip(&rows[0]) {
            let is_figure = name.ends_with("_us") || name.ends_with("_per_s");
            assert!(!is_figure || value.is_empty(), "{name} is {value}");
        }
    }
}
