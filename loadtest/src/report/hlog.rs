//! The latencies of a run as an interval log of `HdrHistogram`, for its own tools and
//! `HistogramLogAnalyzer`.
//!
//! What it keeps true: two histograms a second, tagged `response` and `service`, in nanoseconds,
//! V2 compressed; times are seconds from the beginning of the run. Seconds in which nothing was
//! answered are left out.

use std::fmt;
use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

use crate::generator::Period;

/// The version of the format, as `HistogramLogWriter` of the Java implementation says it.
const FORMAT: &str = "[Histogram log format version 1.3]";
/// What the columns are, in the words of that writer.
const LEGEND: &str =
    r#""StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram""#;

/// A log that grows second by second.
pub struct IntervalLog<W> {
    out: W,
    serializer: V2DeflateSerializer,
    from: Duration,
}

impl<W: Write> IntervalLog<W> {
    /// Begins the log of a run that began at this time.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn begin(mut out: W, began: SystemTime) -> io::Result<Self> {
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
        Ok(Self { out, serializer, from: Duration::ZERO })
    }

    /// Adds a second. Whoever reads along has it at once.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn add(&mut self, period: &Period) -> io::Result<()> {
        let from = std::mem::replace(&mut self.from, period.until);
        // The format has milliseconds, and whoever reads it divides by them.
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
        let Self { out, from, .. } = self;
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
    use corelane::base::time::Moment;
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;
    use crate::measure::latency::Times;

    fn second(until: u64, latencies_ms: &[u64]) -> Period {
        let mut period = Period { until: Duration::from_secs(until), ..Period::new() };
        let at = Moment::from_milliseconds;
        for latency in latencies_ms {
            let times = Times { intended: at(0), sent: at(1), answered: at(*latency) };
            period.latencies.record(times);
        }
        period
    }

    #[test]
    fn a_log_is_read_back_second_by_second_and_tag_by_tag() {
        let mut out = Vec::new();
        let began = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        let mut log = IntervalLog::begin(&mut out, began).unwrap();
        for period in [second(1, &[2, 3]), second(2, &[]), second(3, &[5])] {
            log.add(&period).unwrap();
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
