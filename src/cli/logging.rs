//! Log output: events as lines on standard error.
//!
//! Start-up lines are written without time and level, at every log level, because other programs
//! wait for them. Every other event is one line with time, level, message and fields. Write errors
//! on standard error are ignored.

use std::fmt;
use std::io;

use crate::config::options::LogLevel;
use crate::telemetry::event::START_TARGET;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::fmt::format::{Format, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

/// Installs the global log subscriber with `level`. Call once per process.
pub(crate) fn init(level: LogLevel) {
    let lines = tracing_subscriber::fmt::layer()
        .event_format(EventFormat { full: Format::default().with_target(false) })
        .with_ansi(false)
        .log_internal_errors(false)
        .with_writer(io::stderr)
        .with_filter(filter(level));
    // Fails only if a subscriber is installed already; that one stays.
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(lines)).ok();
}

/// Filters events by `level`. The level hint lets `tracing` skip events below it before they are
/// built; start-up lines have level info, so the hint is at least info.
fn filter<S: Subscriber>(level: LogLevel) -> impl tracing_subscriber::layer::Filter<S> {
    let level = match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    filter_fn(move |metadata| metadata.target() == START_TARGET || *metadata.level() <= level)
        .with_max_level_hint(level.max(LevelFilter::INFO))
}

/// Formats start-up lines as the bare message and all other events in full.
struct EventFormat {
    full: Format,
}

impl<S, N> FormatEvent<S, N> for EventFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        if event.metadata().target() != START_TARGET {
            return self.full.format_event(context, writer, event);
        }
        let mut message = MessageWriter { writer: writer.by_ref(), result: Ok(()) };
        event.record(&mut message);
        message.result?;
        writeln!(writer)
    }
}

/// Writes the message of an event without its other fields.
struct MessageWriter<'a> {
    writer: Writer<'a>,
    result: fmt::Result,
}

impl Visit for MessageWriter<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.result = write!(self.writer, "{value:?}");
        }
    }
}
