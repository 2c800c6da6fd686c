//! Log output: events as lines on standard error.
//!
//! Every line has time, level, message and fields, as text or as a JSON object. Start-up lines are
//! written at every level, because other programs wait for them. Write errors on standard error are
//! ignored.

use std::fmt;
use std::io::{self, Write};

use corelane_engine::clock::unix_ms;
use corelane_protocol::json::{write, write_timestamp};
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Registry;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::reload;

use crate::config::options::{LogFormat, LogLevel, LogOptions};
use crate::telemetry::event::START_TARGET;

/// Changes the options of the log while the process runs.
#[derive(Debug)]
pub(crate) struct LogHandle(reload::Handle<LineLayer, Registry>);

/// Installs the global log subscriber. Call once per process.
pub(crate) fn init(options: &LogOptions) -> LogHandle {
    let (lines, handle) = reload::Layer::new(LineLayer::new(options));
    // Fails only if a subscriber is installed already; that one stays.
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(lines)).ok();
    LogHandle(handle)
}

impl LogHandle {
    pub(crate) fn set_options(&self, options: &LogOptions) {
        // Fails only if another subscriber was installed before this one.
        self.0.modify(|lines| *lines = LineLayer::new(options)).ok();
    }
}

/// Writes each event of a level as one line.
#[derive(Debug)]
struct LineLayer {
    level: LevelFilter,
    format: LogFormat,
}

impl LineLayer {
    const fn new(options: &LogOptions) -> Self {
        let level = match options.level {
            LogLevel::Off => LevelFilter::OFF,
            LogLevel::Error => LevelFilter::ERROR,
            LogLevel::Warn => LevelFilter::WARN,
            LogLevel::Info => LevelFilter::INFO,
            LogLevel::Debug => LevelFilter::DEBUG,
            LogLevel::Trace => LevelFilter::TRACE,
        };
        Self { level, format: options.format }
    }
}

impl<S: Subscriber> Layer<S> for LineLayer {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        metadata.target() == START_TARGET || *metadata.level() <= self.level
    }

    /// Lets `tracing` skip events below the level before they are built. Start-up lines have level
    /// info, so the hint is at least info.
    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level.max(LevelFilter::INFO))
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let line = format_line(event, self.format, unix_ms());
        io::stderr().lock().write_all(&line).ok();
    }
}

/// Returns an event as a line with its terminator.
fn format_line(event: &Event<'_>, format: LogFormat, unix_ms: u64) -> Vec<u8> {
    let level = event.metadata().level().as_str();
    let mut fields = Fields { format, message: String::new(), rest: Vec::new() };
    event.record(&mut fields);
    let Fields { message, rest, .. } = fields;
    let mut time = Vec::new();
    write_timestamp(&mut time, unix_ms);
    let mut line = Vec::new();
    match format {
        LogFormat::Text => {
            // Without the quotes.
            line.extend_from_slice(&time[1..time.len() - 1]);
            let message = message.replace(char::is_control, " ");
            line.extend_from_slice(format!(" {level} {message}").as_bytes());
            line.extend_from_slice(&rest);
        }
        LogFormat::Json => {
            line.extend_from_slice(br#"{"time":"#);
            line.extend_from_slice(&time);
            line.extend_from_slice(format!(r#","level":"{level}","message":"#).as_bytes());
            write::string(&mut line, &message);
            line.extend_from_slice(&rest);
            line.push(b'}');
        }
    }
    line.push(b'\n');
    line
}

/// The message of an event, and its other fields as they follow it in the line.
struct Fields {
    format: LogFormat,
    message: String,
    rest: Vec<u8>,
}

impl Fields {
    fn begin_field(&mut self, field: &Field) {
        match self.format {
            LogFormat::Text => self.rest.extend_from_slice(format!(" {field}=").as_bytes()),
            LogFormat::Json => self.rest.extend_from_slice(format!(r#","{field}":"#).as_bytes()),
        }
    }

    /// Writes a number or boolean, which needs no quotes in either format.
    fn write_bare(&mut self, field: &Field, value: impl fmt::Display) {
        self.begin_field(field);
        self.rest.extend_from_slice(value.to_string().as_bytes());
    }
}

impl Visit for Fields {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.write_bare(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.write_bare(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.write_bare(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.write_bare(field, value);
    }

    /// Writes a text, in quotes where the format needs them.
    fn record_str(&mut self, field: &Field, value: &str) {
        self.begin_field(field);
        let needs_quotes = |it: char| it.is_whitespace() || it.is_control() || "\"=".contains(it);
        if self.format == LogFormat::Text && !value.is_empty() && !value.contains(needs_quotes) {
            self.rest.extend_from_slice(value.as_bytes());
        } else {
            write::string(&mut self.rest, value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        if field.name() == "message" {
            self.message = text;
        } else {
            self.record_str(field, &text);
        }
    }
}

#[cfg(test)]
mod tests {
    use crossbeam::channel::{Sender, unbounded};
    use tracing::{debug, info, warn};

    use super::*;

    /// Sends each event as a line to the test.
    struct LineSender(LogFormat, Sender<Vec<u8>>);

    impl<S: Subscriber> Layer<S> for LineSender {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            let Self(format, sender) = self;
            sender.send(format_line(event, *format, 1_785_231_000_125)).unwrap();
        }
    }

    /// Returns the lines that `act` logs.
    fn logged(format: LogFormat, act: impl FnOnce()) -> String {
        let (sender, receiver) = unbounded();
        let subscriber = tracing_subscriber::registry().with(LineSender(format, sender));
        tracing::subscriber::with_default(subscriber, act);
        receiver.try_iter().map(|line| String::from_utf8(line).unwrap()).collect()
    }

    fn log_examples() {
        warn!(shard = 1_u16, reason = %"idle", peer = None::<u64>, suppressed = 3, "refused");
        info!(cause = "no \"memory\"", is_last = true, "two\nlines");
    }

    #[test]
    fn text_line_has_time_level_message_fields() {
        assert_eq!(
            logged(LogFormat::Text, log_examples),
            "2026-07-28T09:30:00.125Z WARN refused shard=1 reason=idle suppressed=3\n\
             2026-07-28T09:30:00.125Z INFO two lines cause=\"no \\\"memory\\\"\" is_last=true\n"
        );
    }

    #[test]
    fn json_line_is_one_object_with_same_keys() {
        let lines = logged(LogFormat::Json, log_examples);
        let lines: Vec<serde_json::Value> =
            lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let (time, suppressed) = ("2026-07-28T09:30:00.125Z", 3);
        assert_eq!(
            lines,
            [
                serde_json::json!({
                    "time": time, "level": "WARN", "message": "refused", "shard": 1,
                    "reason": "idle", "suppressed": suppressed,
                }),
                serde_json::json!({
                    "time": time, "level": "INFO", "message": "two\nlines",
                    "cause": "no \"memory\"", "is_last": true,
                }),
            ]
        );
    }

    #[test]
    fn changed_level_applies_to_later_events() {
        let layer = |level| LineLayer::new(&LogOptions { level, ..LogOptions::default() });
        let (lines, handle) = reload::Layer::new(layer(LogLevel::Warn));
        let subscriber = tracing_subscriber::registry().with(lines);
        tracing::subscriber::with_default(subscriber, || {
            assert!(!tracing::enabled!(tracing::Level::DEBUG));
            assert!(tracing::enabled!(target: START_TARGET, tracing::Level::INFO));
            LogHandle(handle)
                .set_options(&LogOptions { level: LogLevel::Debug, ..LogOptions::default() });
            assert!(tracing::enabled!(tracing::Level::DEBUG));
            debug!("written to standard error");
        });
    }
}
