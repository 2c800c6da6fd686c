//! Log output: events as lines on standard error.
//!
//! Every line has time, level, message and fields, as text or as a JSON object, and the names and
//! fields of the spans that it is in. Start-up lines are written at every level, because other
//! programs wait for them. Invariant: no thread but one of its own waits for standard error; what
//! it does not take is lost and counted.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::PanicHookInfo;
use std::sync::Arc;
use std::{fmt, io, panic, thread};

use corelane_engine::clock::unix_ms;
use corelane_protocol::json::{write, write_timestamp};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Registry;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::reload;

use crate::config::options::{LogFormat, LogLevel, LogOptions};
use crate::telemetry::event::START_TARGET;
use crate::telemetry::lines::{LineQueue, LineWriter, OnFailure};

/// The log of the process on standard error. Writes what is left when it is dropped.
#[derive(Debug)]
pub(crate) struct Log {
    handle: LogHandle,
    lines: Arc<LineQueue>,
    _writer: LineWriter,
}

/// Changes the options of the log while the process runs.
#[derive(Clone, Debug)]
pub(crate) struct LogHandle(reload::Handle<LineLayer, Registry>);

impl Log {
    /// Starts the thread that writes to standard error, and installs the global log subscriber and
    /// the panic hook. Call once per process.
    ///
    /// # Errors
    ///
    /// If the thread cannot be started, or there is no descriptor for it.
    pub(crate) fn start(options: &LogOptions) -> io::Result<Self> {
        let output = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 0)?;
        let lines = LineQueue::new(options.queue_bytes_max as usize, lost_line(options.format));
        let lines = Arc::new(lines);
        let writer = LineWriter::start(Arc::clone(&lines), output, OnFailure::Discard)?;
        let (layer, handle) = reload::Layer::new(LineLayer::new(options, Arc::clone(&lines)));
        // Fails only if a subscriber is installed already; that one stays.
        tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer)).ok();
        let of_panics = Arc::clone(&lines);
        panic::set_hook(Box::new(move |panic| of_panics.push_always(&panic_lines(panic))));
        Ok(Self { handle: LogHandle(handle), lines, _writer: writer })
    }

    pub(crate) fn handle(&self) -> LogHandle {
        self.handle.clone()
    }

    /// Returns the lines that wait for standard error.
    pub(crate) const fn lines(&self) -> &Arc<LineQueue> {
        &self.lines
    }
}

impl LogHandle {
    pub(crate) fn set_options(&self, options: &LogOptions) {
        // Fails only if another subscriber was installed before this one.
        self.0.modify(|layer| layer.set_options(options)).ok();
    }
}

/// Returns what the default hook prints of a panic.
fn panic_lines(panic: &PanicHookInfo<'_>) -> Vec<u8> {
    let thread = thread::current();
    let text = format!("\nthread '{}' {panic}\n", thread.name().unwrap_or("<unnamed>"));
    let backtrace = Backtrace::capture();
    match backtrace.status() {
        BacktraceStatus::Captured => format!("{text}stack backtrace:\n{backtrace}\n").into_bytes(),
        _ => text.into_bytes(),
    }
}

/// Writes each event of a level as one line.
#[derive(Debug)]
struct LineLayer {
    level: LevelFilter,
    format: LogFormat,
    lines: Arc<LineQueue>,
}

impl LineLayer {
    const fn new(options: &LogOptions, lines: Arc<LineQueue>) -> Self {
        Self { level: level_filter(options.level), format: options.format, lines }
    }

    fn set_options(&mut self, options: &LogOptions) {
        self.level = level_filter(options.level);
        self.format = options.format;
        self.lines.set_lost_line(lost_line(options.format));
    }
}

const fn level_filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

/// Returns what makes the line about lost lines.
fn lost_line(format: LogFormat) -> fn(u64) -> Vec<u8> {
    fn fields(lines: u64) -> Fields {
        let lines = FieldValue::Bare(lines.to_string());
        Fields { message: "log lines lost".to_owned(), values: vec![("lines", lines)] }
    }
    match format {
        LogFormat::Text => |lines| fields(lines).format("WARN", LogFormat::Text, unix_ms()),
        LogFormat::Json => |lines| fields(lines).format("WARN", LogFormat::Json, unix_ms()),
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for LineLayer {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        metadata.target() == START_TARGET || *metadata.level() <= self.level
    }

    /// Lets `tracing` skip events below the level before they are built. Start-up lines have level
    /// info, so the hint is at least info.
    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level.max(LevelFilter::INFO))
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        store_fields(id, &ctx, |fields| attributes.record(fields));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, ctx: Context<'_, S>) {
        store_fields(id, &ctx, |fields| values.record(fields));
    }

    fn on_event(&self, event: &Event<'_>, ctx: Context<'_, S>) {
        let line = format_line(event, &ctx, self.format, unix_ms());
        if event.metadata().target() == START_TARGET {
            self.lines.push_always(&line);
        } else {
            self.lines.push(&line);
        }
    }
}

/// Adds fields to those that are stored of a span.
fn store_fields<S: Subscriber + for<'a> LookupSpan<'a>>(
    id: &Id,
    ctx: &Context<'_, S>,
    record: impl FnOnce(&mut Fields),
) {
    let Some(span) = ctx.span(id) else { return };
    let mut extensions = span.extensions_mut();
    if let Some(fields) = extensions.get_mut::<Fields>() {
        record(fields);
    } else {
        let mut fields = Fields::default();
        record(&mut fields);
        extensions.insert(fields);
    }
}

/// Returns an event as a line with its terminator: its fields, then the names of the spans that it
/// is in, from the outermost to the innermost, and the fields of these that it does not have.
fn format_line<S: Subscriber + for<'a> LookupSpan<'a>>(
    event: &Event<'_>,
    ctx: &Context<'_, S>,
    format: LogFormat,
    unix_ms: u64,
) -> Vec<u8> {
    let level = event.metadata().level().as_str();
    let mut fields = Fields::default();
    event.record(&mut fields);
    let (mut spans, mut of_spans) = (Vec::new(), Fields::default());
    for span in ctx.event_scope(event).into_iter().flatten() {
        spans.insert(0, span.name());
        if let Some(stored) = span.extensions().get::<Fields>() {
            let is_new = |(name, _): &&(&str, _)| !fields.has(name) && !of_spans.has(name);
            let new: Vec<_> = stored.values.iter().filter(is_new).cloned().collect();
            of_spans.values.extend(new);
        }
    }
    if !spans.is_empty() {
        fields.values.push(("spans", FieldValue::Names(spans)));
    }
    fields.values.append(&mut of_spans.values);
    fields.format(level, format, unix_ms)
}

/// Writes what is not printable ASCII as the escapes of JSON: text of clients could otherwise look
/// like other lines, or act on a terminal.
fn escape(line: Vec<u8>) -> Vec<u8> {
    let is_printable = |byte: &u8| (b' '..=b'~').contains(byte);
    if line.iter().all(is_printable) {
        return line;
    }
    let mut escaped = Vec::with_capacity(line.len());
    for character in String::from_utf8_lossy(&line).chars() {
        if character == ' ' || character.is_ascii_graphic() {
            escaped.extend(u8::try_from(character));
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            escaped.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
        }
    }
    escaped
}

/// The message of an event, and the other fields of an event or span.
#[derive(Debug, Default)]
struct Fields {
    message: String,
    values: Vec<(&'static str, FieldValue)>,
}

#[derive(Clone, Debug)]
enum FieldValue {
    /// A number or boolean, which needs no quotes in either format.
    Bare(String),
    Text(String),
    Names(Vec<&'static str>),
}

impl FieldValue {
    fn write_text(&self, line: &mut Vec<u8>) {
        let text = match self {
            Self::Bare(text) => return line.extend_from_slice(text.as_bytes()),
            Self::Text(text) => text,
            Self::Names(names) => &names.join(", "),
        };
        let needs_quotes = |it: char| it.is_whitespace() || it.is_control() || "\"=".contains(it);
        if text.is_empty() || text.contains(needs_quotes) {
            write::string(line, text);
        } else {
            line.extend_from_slice(text.as_bytes());
        }
    }

    fn write_json(&self, line: &mut Vec<u8>) {
        match self {
            Self::Bare(text) => line.extend_from_slice(text.as_bytes()),
            Self::Text(text) => write::string(line, text),
            Self::Names(names) => {
                for (index, name) in names.iter().enumerate() {
                    line.push(if index == 0 { b'[' } else { b',' });
                    write::string(line, name);
                }
                line.push(b']');
            }
        }
    }
}

impl Fields {
    /// Returns the line of a level and time, with its terminator.
    fn format(&self, level: &str, format: LogFormat, unix_ms: u64) -> Vec<u8> {
        let mut time = Vec::new();
        write_timestamp(&mut time, unix_ms);
        let mut line = Vec::new();
        match format {
            LogFormat::Text => {
                // Without the quotes.
                line.extend_from_slice(&time[1..time.len() - 1]);
                let message = self.message.replace(char::is_control, " ");
                line.extend_from_slice(format!(" {level} {message}").as_bytes());
                for (name, value) in &self.values {
                    line.extend_from_slice(format!(" {name}=").as_bytes());
                    value.write_text(&mut line);
                }
            }
            LogFormat::Json => {
                line.extend_from_slice(br#"{"time":"#);
                line.extend_from_slice(&time);
                line.extend_from_slice(format!(r#","level":"{level}","message":"#).as_bytes());
                write::string(&mut line, &self.message);
                for (name, value) in &self.values {
                    line.extend_from_slice(format!(r#","{name}":"#).as_bytes());
                    value.write_json(&mut line);
                }
                line.push(b'}');
            }
        }
        let mut line = escape(line);
        line.push(b'\n');
        line
    }

    fn has(&self, name: &str) -> bool {
        self.values.iter().any(|(known, _)| *known == name)
    }

    /// Sets a field; a span may record one again.
    fn set(&mut self, field: &Field, value: FieldValue) {
        let name = field.name();
        match self.values.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => self.values.push((name, value)),
        }
    }
}

impl Visit for Fields {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, FieldValue::Bare(value.to_string()));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, FieldValue::Bare(value.to_string()));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, FieldValue::Bare(value.to_string()));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, FieldValue::Bare(value.to_string()));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, FieldValue::Text(value.to_owned()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        if field.name() == "message" {
            self.message = text;
        } else {
            self.set(field, FieldValue::Text(text));
        }
    }
}

#[cfg(test)]
mod tests {
    use crossbeam::channel::{Sender, unbounded};
    use tracing::field::Empty;
    use tracing::{debug, info, info_span, warn};

    use super::*;

    /// Sends each event as a line to the test.
    struct LineSender(LogFormat, Sender<Vec<u8>>);

    impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for LineSender {
        fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
            store_fields(id, &ctx, |fields| attributes.record(fields));
        }

        fn on_record(&self, id: &Id, values: &Record<'_>, ctx: Context<'_, S>) {
            store_fields(id, &ctx, |fields| values.record(fields));
        }

        fn on_event(&self, event: &Event<'_>, ctx: Context<'_, S>) {
            let Self(format, sender) = self;
            sender.send(format_line(event, &ctx, *format, 1_785_231_000_125)).unwrap();
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
    fn line_has_names_and_fields_of_its_spans() {
        let log = || {
            let request = info_span!("MCP Request", id = 7, tool = "echo", code = Empty);
            let stream = info_span!(parent: &request, "MCP Stream", stream = "s1", id = 8);
            request.record("code", "none");
            request.record("code", "late");
            stream.in_scope(|| info!(tool = "own", "ended"));
        };
        assert_eq!(
            logged(LogFormat::Text, log),
            "2026-07-28T09:30:00.125Z INFO ended tool=own spans=\"MCP Request, MCP Stream\" \
             stream=s1 id=8 code=late\n"
        );
        let line: serde_json::Value = serde_json::from_str(&logged(LogFormat::Json, log)).unwrap();
        assert_eq!(line["spans"], serde_json::json!(["MCP Request", "MCP Stream"]));
        assert_eq!((&line["id"], &line["code"]), (&8.into(), &"late".into()));
    }

    #[test]
    fn changed_level_and_format_apply_to_later_events() {
        let options = |level, format| LogOptions { level, format, ..LogOptions::default() };
        let lines = Arc::new(LineQueue::new(1 << 20, lost_line(LogFormat::Text)));
        let before = options(LogLevel::Warn, LogFormat::Text);
        let layer = LineLayer::new(&before, Arc::clone(&lines));
        let (layer, handle) = reload::Layer::new(layer);
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, || {
            assert!(!tracing::enabled!(tracing::Level::DEBUG));
            assert!(tracing::enabled!(target: START_TARGET, tracing::Level::INFO));
            LogHandle(handle).set_options(&options(LogLevel::Debug, LogFormat::Json));
            assert!(tracing::enabled!(tracing::Level::DEBUG));
            debug!("a line");
        });
        let (mut reader, writer) = io::pipe().unwrap();
        drop(LineWriter::start(lines, writer.into(), OnFailure::Discard).unwrap());
        let line: serde_json::Value = serde_json::from_reader(&mut reader).unwrap();
        assert_eq!(line["message"], "a line");
    }

    #[test]
    fn line_is_printable_ascii() {
        let log = || warn!(name = "\u{202e}\u{1b}[31m\u{9b}é\u{1f600}", "from\ra ü\tclient");
        assert_eq!(
            logged(LogFormat::Text, log),
            "2026-07-28T09:30:00.125Z WARN from a \\u00fc client \
             name=\"\\u202e\\u001b[31m\\u009b\\u00e9\\ud83d\\ude00\"\n"
        );
        let line = logged(LogFormat::Json, log);
        assert!(line.trim_end().bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()));
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["name"], "\u{202e}\u{1b}[31m\u{9b}é\u{1f600}");
    }

    #[test]
    fn lost_lines_are_a_warning_in_either_format() {
        let text = |format| String::from_utf8(lost_line(format)(3)).unwrap();
        assert!(text(LogFormat::Text).ends_with("Z WARN log lines lost lines=3\n"));
        let line: serde_json::Value = serde_json::from_str(&text(LogFormat::Json)).unwrap();
        assert_eq!((&line["message"], &line["lines"]), (&"log lines lost".into(), &3.into()));
    }
}
