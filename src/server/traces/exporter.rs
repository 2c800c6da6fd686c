//! The thread that sends spans to a collector.
//!
//! Invariants: no shard waits for it. A collector that is away or overloaded is asked again after
//! the time that it states, or after 1, 2, 4, … s; spans that it does not accept within a minute
//! are dropped and counted. At the end of the server there are [`FLUSH_MAX`] for what is left.
//!
//! Source: OTLP 1.9, sections "OTLP/HTTP Response" and "OTLP/HTTP Throttling".

use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

use corelane_base::time::Instant;
use corelane_engine::clock::{Clock, unix_ns};
use corelane_protocol::model::Implementation;
use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, bounded};
use url::{Position, Url};

use super::header_fields;
use super::messages::{SpanSource, read_rejected};
use crate::server::fetch::{FetchRequest, Fetcher};
use crate::server::options::TraceOptions;
use crate::telemetry::trace::{QueuedSpans, SpanQueue, log_not_exported};

/// Spans in one request.
const BATCH_SPANS_MAX: usize = 512;
/// Longest time for which a span waits for others.
const INTERVAL: Duration = Duration::from_secs(1);
/// The first wait before a request is repeated; it is doubled each time.
const RETRY_MIN: Duration = Duration::from_secs(1);
/// The longest wait before a request is repeated.
const RETRY_MAX: Duration = Duration::from_secs(30);
/// Time after which the spans of a request are dropped instead.
const RETRIES_MAX: Duration = Duration::from_mins(1);
/// Time for what is left at the end of the server.
const FLUSH_MAX: Duration = Duration::from_secs(5);
/// Time between two log lines about failures.
const LOG_INTERVAL: Duration = Duration::from_secs(30);

/// What the thread is started with.
#[derive(Debug)]
pub struct Exporter {
    collector: Arc<Collector>,
    queue: Arc<SpanQueue>,
    queued: QueuedSpans,
}

/// The collector, and what each request to it has.
#[derive(Debug)]
struct Collector {
    url: Url,
    fetcher: Fetcher,
    /// Lines of header fields.
    fields: SecretText,
    timeout: Duration,
    source: SpanSource,
}

/// A text that is not printed.
struct SecretText(String);

impl std::fmt::Debug for SecretText {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("SecretText(..)")
    }
}

/// Why a request has failed.
#[derive(Debug)]
struct Failure {
    what: String,
    may_retry: bool,
    /// The time that the collector states.
    retry_after: Option<Duration>,
}

impl Exporter {
    /// Reads the options and the files that they name.
    ///
    /// # Errors
    ///
    /// Which option or file cannot be used, and why.
    pub fn load(options: &TraceOptions, url: Url, server: &Implementation) -> Result<Self, String> {
        let fetcher = Fetcher::load(&options.authorities);
        let fetcher = fetcher.map_err(|error| format!("traces.authorities: {error}"))?;
        let fields = header_fields(options)?;
        let lines = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
        let (fields, timeout) = (SecretText(lines.collect()), options.timeout);
        let source = SpanSource::new(service_attributes(options, server)?);
        let spans_max = options.queue_spans_max as usize;
        let wake_at = BATCH_SPANS_MAX.min(spans_max.div_ceil(2));
        let (queue, queued) = SpanQueue::new(spans_max, wake_at, unix_ns);
        let collector = Arc::new(Collector { url, fetcher, fields, timeout, source });
        Ok(Self { collector, queue: Arc::new(queue), queued })
    }

    /// Returns the queue that the shards fill.
    pub fn queue(&self) -> Arc<SpanQueue> {
        Arc::clone(&self.queue)
    }

    /// Starts the thread. It ends when the returned value is dropped.
    pub fn start(&self) -> io::Result<ExporterGuard> {
        let (stop, stopped) = bounded(0);
        let (ended, has_ended) = bounded(0);
        let thread = ExporterThread {
            collector: Arc::clone(&self.collector),
            queue: Arc::clone(&self.queue),
            queued: self.queued.clone(),
            stopped,
            clock: Clock::start(),
            flush_until: None,
            logged_at: None,
            _ended: ended,
        };
        thread::Builder::new().name("corelane-traces".into()).spawn(move || thread.run())?;
        Ok(ExporterGuard { stop: Some(stop), has_ended, queue: Arc::clone(&self.queue) })
    }
}

/// Returns the attributes of the service: its name first, which the options may set twice.
fn service_attributes(
    options: &TraceOptions,
    server: &Implementation,
) -> Result<Vec<(String, String)>, String> {
    let set = options.resource_attributes();
    let set = set.map_err(|error| format!("traces.resource_attributes: {error}"))?;
    let of_set = |name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| &**value);
    let service_name = options.service_name.as_deref().or_else(|| of_set("service.name"));
    let fixed = [
        ("service.name", service_name.unwrap_or(&server.name)),
        ("service.version", of_set("service.version").unwrap_or(&server.version)),
        ("telemetry.sdk.name", "corelane"),
        ("telemetry.sdk.language", "rust"),
        ("telemetry.sdk.version", env!("CARGO_PKG_VERSION")),
    ];
    let further = set.iter().map(|(key, value)| (*key, &**value));
    let further = further.filter(|(key, _)| fixed.iter().all(|(name, _)| name != key));
    let all = fixed.iter().copied().chain(further);
    Ok(all.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
}

/// Ends the thread when it is dropped, and waits until it has exported what is left.
#[derive(Debug)]
pub struct ExporterGuard {
    stop: Option<Sender<()>>,
    has_ended: Receiver<()>,
    queue: Arc<SpanQueue>,
}

impl Drop for ExporterGuard {
    fn drop(&mut self) {
        self.stop = None;
        self.queue.wake();
        // Disconnected at the end of the thread.
        self.has_ended.recv_timeout(FLUSH_MAX).ok();
    }
}

struct ExporterThread {
    collector: Arc<Collector>,
    queue: Arc<SpanQueue>,
    queued: QueuedSpans,
    /// Disconnected when the server has ended.
    stopped: Receiver<()>,
    clock: Clock,
    /// When the time for what is left ends, once the server has ended.
    flush_until: Option<Instant>,
    logged_at: Option<Instant>,
    /// Disconnected when the thread ends.
    _ended: Sender<()>,
}

impl ExporterThread {
    fn run(mut self) {
        loop {
            self.look_for_end();
            while !self.queued.spans.is_empty() {
                let spans = self.queued.spans.try_iter().take(BATCH_SPANS_MAX);
                let spans: Vec<_> = spans.map(|span| *span).collect();
                self.export(spans);
            }
            if self.flush_until.is_some() {
                return;
            }
            // Woken by many spans, or at the end.
            self.queued.woken.recv_timeout(INTERVAL).ok();
        }
    }

    /// Begins the time for what is left if the server has ended.
    fn look_for_end(&mut self) {
        let has_ended = self.stopped.try_recv() == Err(TryRecvError::Disconnected);
        if has_ended && self.flush_until.is_none() {
            self.flush_until = Some(self.clock.now().after(FLUSH_MAX));
        }
    }

    /// Sends spans until the collector has accepted them, or they are dropped.
    fn export(&mut self, spans: Vec<crate::telemetry::trace::Span>) {
        let count = spans.len() as u64;
        let body = self.collector.source.encode(spans);
        let (begun, mut backoff) = (self.clock.now(), RETRY_MIN);
        loop {
            let mut timeout = self.collector.timeout;
            if let Some(until) = self.flush_until {
                timeout = timeout.min(until.since(self.clock.now()));
            }
            let failure = match self.collector.send(&body, timeout) {
                Ok(None) => return self.queue.count_exported(count),
                Ok(Some((rejected, what))) => {
                    let rejected = rejected.min(count);
                    self.queue.count_exported(count - rejected);
                    return self.drop_spans(rejected, &format!("rejected: {what}"));
                }
                Err(failure) => failure,
            };
            let wait = failure.retry_after.unwrap_or(backoff).min(RETRY_MAX);
            let is_late = self.clock.now().after(wait).since(begun) > RETRIES_MAX;
            if !failure.may_retry || is_late || self.flush_until.is_some() {
                return self.drop_spans(count, &failure.what);
            }
            if self.stopped.recv_timeout(wait) == Err(RecvTimeoutError::Disconnected) {
                // Once more, at once.
                self.look_for_end();
            }
            backoff = (2 * backoff).min(RETRY_MAX);
        }
    }

    /// Counts spans that are dropped, and logs why, unless that was logged lately.
    fn drop_spans(&mut self, spans: u64, what: &str) {
        self.queue.count_failed(spans);
        let now = self.clock.now();
        if self.logged_at.is_none_or(|at| now.since(at) >= LOG_INTERVAL) {
            self.logged_at = Some(now);
            let dropped = self.queue.totals().dropped_failed;
            log_not_exported(&self.collector.url[..Position::AfterPath], what, dropped);
        }
    }
}

impl Collector {
    /// Sends an encoded request. Returns the number of rejected spans and why, if there are any.
    fn send(&self, body: &[u8], timeout: Duration) -> Result<Option<(u64, String)>, Failure> {
        let request = FetchRequest {
            accept: MEDIA_TYPE,
            fields: &self.fields.0,
            content: Some((MEDIA_TYPE, body)),
            timeout: timeout.max(Duration::from_millis(1)),
        };
        let response = self.fetcher.send(&self.url, &request).map_err(|what| {
            // The collector is away, or the connection was lost.
            Failure { what, may_retry: true, retry_after: None }
        })?;
        match response.status {
            200..=299 => Ok(read_rejected(&response.body)),
            status => Err(Failure {
                what: format!("the collector responds with status {status}"),
                may_retry: matches!(status, 429 | 502 | 503 | 504),
                retry_after: response.retry_after,
            }),
        }
    }
}

const MEDIA_TYPE: &str = "application/x-protobuf";
