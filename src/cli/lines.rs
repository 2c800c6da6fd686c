//! Events as lines on standard error.
//!
//! What it keeps true: the lines at start are bare and always written, whatever the level, since
//! other programs wait for them; every other event is one line with time, level, message and
//! fields. A standard error that is closed or full silences the events and harms nothing else.

use std::fmt;
use std::io;

use corelane::config::options::LogLevel;
use corelane::observe::event::START;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::fmt::format::{Format, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

/// Opens the way to standard error for everything from `level` up. Once a process.
pub(crate) fn start(level: LogLevel) {
    let lines = tracing_subscriber::fmt::layer()
        .event_format(Lines { full: Format::default().with_target(false) })
        .with_ansi(false)
        .log_internal_errors(false)
        .with_writer(io::stderr)
        .with_filter(filter(level));
    // A second call finds the first one's way open: nothing is lost.
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(lines)).ok();
}

/// What passes at `level`. The hint lets `tracing` skip everything less important before it is
/// built; the lines at start are of level info and must stay above it.
fn filter<S: Subscriber>(level: LogLevel) -> impl tracing_subscriber::layer::Filter<S> {
    let level = match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    filter_fn(move |metadata| metadata.target() == START || *metadata.level() <= level)
        .with_max_level_hint(level.max(LevelFilter::INFO))
}

/// Writes lines at start bare and the others in full.
struct Lines {
    full: Format,
}

impl<S, N> FormatEvent<S, N> for Lines
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
        if event.metadata().target() != START {
            return self.full.format_event(context, writer, event);
        }
        let mut message = Message { writer: writer.by_ref(), result: Ok(()) };
        event.record(&mut message);
        message.result?;
        writeln!(writer)
    }
}

/// Writes the message of an event and no field.
struct Message<'a> {
    writer: Writer<'a>,
    result: fmt::Result,
}

impl Visit for Message<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.result = write!(self.writer, "{value:?}");
        }
    }
}
