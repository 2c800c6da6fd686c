//! The queue of spans between the shards and the thread that exports them.

use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam::channel::{Receiver, Sender, TrySendError, bounded};

use super::Span;

/// Takes the spans of all shards.
#[derive(Debug)]
pub struct SpanQueue {
    spans: Sender<Box<Span>>,
    /// Wakes the exporter; a full channel has woken it already.
    wake: Sender<()>,
    /// Spans in the queue at which the exporter is woken.
    wake_at: usize,
    /// Returns the nanoseconds since 1970.
    clock: fn() -> u64,
    exported: AtomicU64,
    dropped_full: AtomicU64,
    dropped_failed: AtomicU64,
}

/// Spans since the start.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TraceTotals {
    /// Those that the collector has accepted.
    pub exported: u64,
    /// Those that were dropped because the queue was full.
    pub dropped_full: u64,
    /// Those that were dropped because the collector did not accept them.
    pub dropped_failed: u64,
}

/// The end of the queue at the exporter.
#[derive(Clone, Debug)]
pub struct QueuedSpans {
    /// The spans.
    pub spans: Receiver<Box<Span>>,
    /// Wake-ups.
    pub woken: Receiver<()>,
}

impl SpanQueue {
    /// Creates a queue for `spans_max` spans. The exporter is woken when `wake_at` are in it.
    pub fn new(spans_max: usize, wake_at: usize, clock: fn() -> u64) -> (Self, QueuedSpans) {
        let (spans, queued) = bounded(spans_max);
        let (wake, woken) = bounded(1);
        let (exported, dropped_full, dropped_failed) = Default::default();
        let queue = Self { spans, wake, wake_at, clock, exported, dropped_full, dropped_failed };
        (queue, QueuedSpans { spans: queued, woken })
    }

    /// Returns the nanoseconds since 1970.
    pub(super) fn now(&self) -> u64 {
        (self.clock)()
    }

    /// Adds a span, or drops and counts it if the queue is full.
    pub(super) fn push(&self, span: Box<Span>) {
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) =
            self.spans.try_send(span)
        {
            self.dropped_full.fetch_add(1, Ordering::Relaxed);
        }
        if self.spans.len() >= self.wake_at {
            self.wake.try_send(()).ok();
        }
    }

    /// Wakes the exporter.
    pub fn wake(&self) {
        self.wake.try_send(()).ok();
    }

    /// Counts spans that the collector has accepted.
    pub fn count_exported(&self, spans: u64) {
        self.exported.fetch_add(spans, Ordering::Relaxed);
    }

    /// Counts spans that the collector did not accept.
    pub fn count_failed(&self, spans: u64) {
        self.dropped_failed.fetch_add(spans, Ordering::Relaxed);
    }

    /// Returns the numbers of spans.
    pub fn totals(&self) -> TraceTotals {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TraceTotals {
            exported: read(&self.exported),
            dropped_full: read(&self.dropped_full),
            dropped_failed: read(&self.dropped_failed),
        }
    }
}
