//! Spans of requests, from the shards that record them to the thread that exports them.
//!
//! Invariants: without an exporter a request costs one comparison, and a span that is not sampled
//! allocates nothing. A shard never waits: a span that finds the queue full is dropped and counted.
//! No argument, result or token is recorded; texts that a client has chosen are cut at 128 bytes.
//!
//! Source: OpenTelemetry, "Tracing SDK", sections "Sampling" and "Span Limits".

#![cfg_attr(not(feature = "otlp"), expect(dead_code, reason = "only an exporter turns it on"))]

mod span;

mod queue;

use std::sync::Arc;

use corelane_base::random::Random;

#[cfg(feature = "otlp")]
pub use self::queue::QueuedSpans;
pub use self::queue::{SpanQueue, TraceTotals};
pub use self::span::{AttributeValue, RemoteContext, Span, SpanIds, SpanKind, TraceParent};

/// Begins the spans of one shard.
#[derive(Debug, Default)]
pub struct Tracer(Option<Box<ActiveTracer>>);

#[derive(Debug)]
struct ActiveTracer {
    sampler: Sampler,
    random: Random,
    queue: Arc<SpanQueue>,
}

/// Which spans are exported.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Sampler {
    /// A span with a parent is exported if that is sampled.
    pub follows_parent: bool,
    /// Others are exported if half of the low word of their trace id is below this number.
    threshold: u64,
}

impl Sampler {
    /// Returns a sampler of this part of all traces, in millionths.
    pub const fn new(follows_parent: bool, millionths: u32) -> Self {
        let threshold = (1_u64 << 63) / 1_000_000 * millionths as u64;
        let threshold = if millionths >= 1_000_000 { 1 << 63 } else { threshold };
        Self { follows_parent, threshold }
    }

    /// The same part of the traces as that of other services with this ratio (`TraceIdRatioBased`).
    fn samples(self, parent: Option<&TraceParent>, trace_id: [u8; 16]) -> bool {
        match parent {
            Some(parent) if self.follows_parent => parent.is_sampled,
            _ => {
                let [_, low] = halves(trace_id);
                low >> 1 < self.threshold
            }
        }
    }
}

impl Tracer {
    /// Returns a tracer that hands its spans over to `queue`. `seed` differs between all shards of
    /// all servers.
    pub fn new(queue: Arc<SpanQueue>, sampler: Sampler, seed: u64) -> Self {
        Self(Some(Box::new(ActiveTracer { sampler, random: Random::seeded(seed), queue })))
    }

    /// Returns whether spans are exported.
    #[inline]
    pub const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Begins a span, unless it is not sampled.
    pub fn begin(
        &mut self,
        name: &'static str,
        kind: SpanKind,
        context: &RemoteContext<'_>,
    ) -> Option<OpenSpan> {
        let ActiveTracer { sampler, random, queue } = self.0.as_deref_mut()?;
        let parent = context.parent.as_ref();
        let trace_id = parent.map_or_else(
            || (u128::from(random.next_u64()) << 64 | u128::from(random.next_u64())).to_be_bytes(),
            |parent| parent.trace_id,
        );
        if !sampler.samples(parent, trace_id) {
            return None;
        }
        let span_id = random.next_u64().max(1).to_be_bytes();
        let span = Span::begin(name, kind, SpanIds { trace_id, span_id }, context, queue.now());
        Some(OpenSpan { span: Box::new(span), queue: Arc::clone(queue) })
    }

    /// Begins the span of a message of the parity dialect, unless it is not sampled.
    pub fn begin_parity(
        &mut self,
        name: &'static str,
        traceparent: Option<&str>,
    ) -> Option<OpenSpan> {
        if !self.is_on() {
            return None;
        }
        let context = RemoteContext {
            parent: traceparent.and_then(TraceParent::parse),
            ..RemoteContext::default()
        };
        self.begin(name, SpanKind::Server, &context)
    }
}

/// A span that has not ended. One that is dropped is not exported.
#[derive(Debug)]
pub struct OpenSpan {
    span: Box<Span>,
    queue: Arc<SpanQueue>,
}

impl OpenSpan {
    /// Begins a span within this one.
    pub fn begin_child(&self, name: &'static str) -> Self {
        let span = self.span.child(name, self.queue.now());
        Self { span: Box::new(span), queue: Arc::clone(&self.queue) }
    }

    /// Returns the id of the trace in hexadecimal digits.
    pub fn trace_id(&self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.span.ids.trace_id))
    }

    /// Adds the name of what the request is for to the name of the span.
    pub fn name_target(&mut self, target: &str) {
        self.span.name = format!("{} {}", self.span.name, cut(target)).into();
    }

    /// Sets an attribute that is not set yet.
    pub fn set(&mut self, key: &'static str, value: impl Into<AttributeValue>) {
        self.span.attributes.push((key, value.into()));
    }

    /// Sets an attribute to a text that a client may have chosen.
    pub fn set_text(&mut self, key: &'static str, text: &str) {
        self.set(key, AttributeValue::Text(cut(text).to_owned().into()));
    }

    /// Marks the span as failed.
    pub fn set_failed(&mut self) {
        self.span.is_failed = true;
    }

    /// Ends the span of a request of MCP: with the code of its error, or as the result of a tool
    /// that has failed.
    pub fn end_request(mut self, error_code: Option<i32>, is_tool_error: bool) {
        if let Some(code) = error_code {
            self.set("error.type", code.to_string());
            self.set("rpc.response.status_code", code.to_string());
        } else if is_tool_error {
            self.set("error.type", "tool_error");
        }
        self.span.is_failed |= error_code.is_some() || is_tool_error;
        self.end();
    }

    /// Ends the span of a request that was cancelled, and gets no response.
    pub fn end_cancelled(mut self) {
        self.set("error.type", "cancelled");
        self.set_failed();
        self.end();
    }

    /// Ends the span, and hands it over.
    pub fn end(mut self) {
        self.span.ended = self.queue.now().max(self.span.begun);
        self.queue.push(self.span);
    }
}

/// Logs why spans were dropped; `dropped` are those since the start.
pub fn log_not_exported(endpoint: &str, error: &str, dropped: u64) {
    tracing::warn!(endpoint, error, dropped, "spans not exported");
}

/// Returns the high and the low half of an id.
fn halves(id: [u8; 16]) -> [u64; 2] {
    let (words, _) = id.as_chunks::<8>();
    [0, 1].map(|index| words.get(index).copied().map_or(0, u64::from_be_bytes))
}

/// Bytes of a text that a client has chosen.
const TEXT_BYTES_MAX: usize = 128;

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]
}

#[cfg(all(test, feature = "otlp"))]
mod tests;
