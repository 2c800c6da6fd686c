//! Interval log of `HdrHistogram` (.hlog), for its tools and `HistogramLogAnalyzer`.
//!
//! Each second has two histograms, tagged `response` and `service`, in nanoseconds, V2 compressed;
//! timestamps are seconds since the beginning of the run. Empty histograms are omitted.

use std::fmt;
use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

use crate::generator::Period;

/// Version of the format, as written by `HistogramLogWriter` of the Java implementation.
const FORMAT: &str = "[Histogram log format version 1.3]";
/// Column names, as written by the same class.
const LEGEND: &str =
    r#""StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram""#;

/// A writer of an interval log.
pub struct IntervalLog<W> {
    out: W,
    serializer: V2DeflateSerializer,
    last_end: Duration,
}

impl<W: Write> IntervalLog<W> {
    /// Writes the header of a run that began at `began`.
    ///
    /// # Errors
    ///
    /// I/O errors of `out`.
    pub fn new(mut out: W, began: SystemTime) -> io::Result<Self> {
        let mut serializer = V2DeflateSerializer::new();
        IntervalLogWriterBuilder::new()
            .add_comment(concat!("[Logged by corelane-load ", env!("CARGO_PKG_VERSION"), "]"))
            .add_comment(FORMAT)
            .add_comment("[Values are nanoseconds]")
            .with_start_time(began)
            .with_base_time(began)
            .begin_log_with(&mut out, &mut serializer)?;
        writeln!(out, "{LEGEND}")?;
        out.flush()?;
        Ok(Self { out, serializer, last_end: Duration::ZERO })
    }

    /// Writes and flushes the histograms of a second.
    ///
    /// # Errors
    ///
    /// I/O errors of the output.
    pub fn write_second(&mut self, period: &Period) -> io::Result<()> {
        let from = std::mem::replace(&mut self.last_end, period.until);
        // The format has milliseconds, and readers divide by the length.
        let length = period.until.saturating_sub(from).max(Duration::from_millis(1));
        let mut log =
            IntervalLogWriterBuilder::new().begin_log_with(&mut self.out, &mut self.serializer)?;
        for (tag, histogram) in
            [("response", period.latencies.response()), ("service", period.latencies.service())]
        {
            if !histogram.is_empty() {
                log.write_histogram(histogram, from, length, Tag::new(tag))
                    .map_err(|error| io::Error::other(error.to_string()))?;
            }
        }
        self.out.flush()
    }
}

impl<W: fmt::Debug> fmt::Debug for IntervalLog<W> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { out, last_end: from, .. } = self;
        formatter
            .debug_struct("IntervalLog")
            .field("out", out)
            .field("from", from)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use corelane_base::time::Instant;
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;
    use crate::metrics::latency::RequestTimes;

    fn second(until: u64, latencies_ms: &[u64]) -> Period {
        let mut period = Period { until: Duration::from_secs(until), ..Period::new() };
        let at = Instant::from_milliseconds;
        for latency in latencies_ms {
            let times = RequestTimes { intended: at(0), sent: at(1), answered: at(*latency) };
            period.latencies.record(times);
        }
        period
    }

    #[test]
    fn interval_log_reads_back_with_tags() {
        let mut out = Vec::new();
        let began = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        let mut log = IntervalLog::new(&mut out, began).unwrap();
        for period in [second(1, &[2, 3]), second(2, &[]), second(3, &[5])] {
            log.write_second(&period).unwrap();
        }
        drop(log);
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains(FORMAT) && text.contains(LEGEND), "{text}");
        let (mut starts, mut found) = (Vec::new(), Vec::new());
        for entry in IntervalLogIterator::new(text.as_bytes()) {
            match entry.unwrap() {
                LogEntry::Interval(interval) => {
                    let bytes = STANDARD.decode(interval.encoded_histogram()).unwrap();
                    let histogram: Histogram<u64> =
                        Deserializer::new().deserialize(&mut &bytes[..]).unwrap();
                    let tag = interval.tag().unwrap().as_str().to_owned();
                    let from = interval.start_timestamp().as_secs();
                    found.push((from, tag, histogram.len(), histogram.max() / 1_000_000));
                }
                LogEntry::StartTime(time) | LogEntry::BaseTime(time) => starts.push(time.as_secs()),
            }
        }
        assert_eq!(starts, [1_000, 1_000]);
        let read = |from, tag: &str, count, max| (from, tag.to_owned(), count, max);
        assert_eq!(
            found,
            [
                read(0, "response", 2, 3),
                read(0, "service", 2, 2),
                read(2, "response", 1, 5),
                read(2, "service", 1, 4),
            ]
        );
    }
}
