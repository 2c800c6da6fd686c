//! What is reported of handlers: internal errors, logged with a number, which the client receives
//! in their place; and handlers that keep their shard busy for long, counted, and logged once a
//! minute for each. An inline handler is timed until it returns, a local one in each poll of its
//! future.

use std::sync::Arc;
use std::time::Duration;

use corelane_base::time::Instant;
use corelane_engine::mesh::ShardId;
use corelane_engine::ring::cycles::{CycleCount, CycleRate};

use crate::service::{HandlerError, InternalError, RequestInfo};
use crate::telemetry::event::Event;
use crate::telemetry::throttle::{EventThrottle, MinuteThrottle};

/// Reports the internal errors of the handlers of one shard.
#[derive(Debug)]
pub struct HandlerFailures {
    shard: u16,
    shards: u16,
    /// Failures so far.
    count: u64,
    /// Whether clients receive the text of the error.
    exposes_text: bool,
    throttle: EventThrottle,
}

impl HandlerFailures {
    pub fn new(shard: ShardId, shards: u16, exposes_text: bool) -> Self {
        Self { shard: shard.0, shards, count: 0, exposes_text, throttle: EventThrottle::default() }
    }

    /// Logs `error` with the id of its HTTP request, if any, under a number that is unique in the
    /// process, and returns the error that the client receives. A flood of failures is logged in
    /// part; every client receives a number.
    #[cold]
    pub fn report(
        &mut self,
        error: &InternalError,
        request_id: Option<&str>,
        now: Instant,
    ) -> HandlerError {
        let number = self.count * u64::from(self.shards) + u64::from(self.shard) + 1;
        self.count += 1;
        let (kind, handler) = (error.handler_kind(), error.handler_name());
        let text = error.to_string();
        let text = &text[..text.floor_char_boundary(TEXT_BYTES_MAX)];
        let event = Event::HandlerFailed {
            shard: self.shard,
            request: number,
            kind,
            handler,
            is_panic: error.is_panic(),
            error: text,
            request_id,
        };
        event.emit_within(&mut self.throttle, now);
        error.to_response(number, self.exposes_text)
    }

    /// Replaces an internal error in the result of a handler by what the client receives.
    #[inline]
    pub fn report_in<T>(
        &mut self,
        result: Result<T, HandlerError>,
        request_id: Option<&str>,
        now: Instant,
    ) -> Result<T, HandlerError> {
        match result {
            Err(HandlerError::Internal(error)) => Err(self.report(&error, request_id, now)),
            other => other,
        }
    }
}

/// Maximum length of an error in the log.
const TEXT_BYTES_MAX: usize = 4096;

/// Handlers whose last log line is remembered; further ones are only counted meanwhile.
const HANDLERS_MAX: usize = 64;

/// Finds handlers of one shard that take longer than a threshold before they return.
#[derive(Debug)]
pub struct SlowHandlers {
    shard: u16,
    threshold: Duration,
    /// Below this number the threshold is not reached.
    cycles_min: u64,
    rate: CycleRate,
    logged: Vec<LoggedHandler>,
}

/// A poll of a local handler that took long.
#[derive(Debug)]
pub struct SlowPoll {
    pub cycles: u64,
    pub request: Arc<RequestInfo>,
}

/// What is logged of a handler that took long.
#[derive(Clone, Copy, Debug)]
pub struct TimedHandler<'a> {
    /// The method of its request.
    method: &'a str,
    /// The name of the tool or prompt, or the URI of the resource.
    name: &'a str,
    /// The id of the HTTP request.
    request_id: Option<&'a str>,
}

impl<'a> TimedHandler<'a> {
    /// An empty `request_id` is none.
    pub fn new(method: &'a str, name: &'a str, request_id: &'a [u8]) -> Self {
        let request_id = str::from_utf8(request_id).ok().filter(|id| !id.is_empty());
        Self { method, name, request_id }
    }
}

#[derive(Debug)]
struct LoggedHandler {
    name: Box<str>,
    throttle: MinuteThrottle,
}

impl SlowHandlers {
    /// A `threshold` of zero finds none.
    pub fn new(shard: u16, threshold: Duration) -> Self {
        let cycles_min = Self::cycles_min(threshold);
        Self { shard, threshold, cycles_min, rate: CycleRate::start(), logged: Vec::new() }
    }

    /// Returns whether a handler that began at `begun` and has just returned exceeded the
    /// threshold; logs it.
    #[inline]
    pub fn is_slow<'a>(
        &mut self,
        begun: CycleCount,
        handler: impl FnOnce() -> TimedHandler<'a>,
        now: Instant,
    ) -> bool {
        let cycles = CycleCount::now().since(begun);
        cycles >= self.cycles_min && self.report(cycles, handler(), now)
    }

    /// Returns the time since `begun`; zero if it is far below a millisecond.
    #[inline]
    pub fn took(&self, begun: CycleCount) -> Duration {
        const CYCLES_MIN: u64 = CycleRate::cycles_min(Duration::from_millis(1));
        let cycles = CycleCount::now().since(begun);
        if cycles < CYCLES_MIN { Duration::ZERO } else { self.rate.duration(cycles) }
    }

    /// Returns the number of cycles below which `threshold` is not reached.
    pub const fn cycles_min(threshold: Duration) -> u64 {
        if threshold.is_zero() { u64::MAX } else { CycleRate::cycles_min(threshold) }
    }

    /// Returns whether a poll of a local handler exceeded the threshold; logs it as
    /// [`SlowHandlers::is_slow`].
    #[cold]
    pub fn is_slow_poll(&mut self, poll: &SlowPoll, now: Instant) -> bool {
        let SlowPoll { cycles, request } = poll;
        let handler = TimedHandler {
            method: request.method(),
            name: request.name(),
            request_id: request.request_id(),
        };
        self.report(*cycles, handler, now)
    }

    #[cold]
    fn report(&mut self, cycles: u64, handler: TimedHandler<'_>, now: Instant) -> bool {
        let TimedHandler { method, name, request_id } = handler;
        let duration = self.rate.duration(cycles);
        if duration < self.threshold {
            return false;
        }
        if let Some(suppressed) = self.admit(name, now) {
            let (shard, threshold) = (self.shard, self.threshold);
            let handler = name;
            Event::HandlerSlow { shard, method, handler, duration, threshold, request_id }
                .emit_suppressed(suppressed);
        }
        true
    }

    /// Returns the number of slow runs of `name` since its last line, if the next one may be logged
    /// at `now`.
    fn admit(&mut self, name: &str, now: Instant) -> Option<u64> {
        let name = &name[..name.floor_char_boundary(NAME_BYTES_MAX)];
        if let Some(known) = self.logged.iter_mut().find(|known| *known.name == *name) {
            return known.throttle.admit(now);
        }
        if self.logged.len() == HANDLERS_MAX {
            self.logged.retain(|known| known.throttle.is_closed(now));
        }
        if self.logged.len() == HANDLERS_MAX {
            return None;
        }
        let mut throttle = MinuteThrottle::default();
        let suppressed = throttle.admit(now);
        self.logged.push(LoggedHandler { name: name.into(), throttle });
        suppressed
    }
}

/// Maximum length of a name in the log.
const NAME_BYTES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn failure() -> Result<(), HandlerError> {
        Err(std::io::Error::other("secret").into())
    }

    #[test]
    fn failure_numbers_are_unique_over_shards() {
        let mut texts: Vec<String> = (0..3)
            .flat_map(|shard| {
                let mut failures = HandlerFailures::new(ShardId(shard), 3, false);
                [(); 2].map(|()| failures.report_in(failure(), None, Instant::ORIGIN))
            })
            .map(|result| result.unwrap_err().to_string())
            .collect();
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), 6, "{texts:?}");
        assert!(!texts.concat().contains("secret"));
    }

    #[test]
    fn exposed_failure_contains_its_text() {
        let mut failures = HandlerFailures::new(ShardId(0), 1, true);
        let answered =
            failures.report_in(failure(), None, Instant::ORIGIN).unwrap_err().to_string();
        assert!(answered.ends_with("(request 1): secret (-32603)"), "{answered}");
    }

    const HANDLER: TimedHandler<'_> =
        TimedHandler { method: "tools/call", name: "a", request_id: None };

    fn handlers() -> SlowHandlers {
        SlowHandlers::new(0, Duration::from_millis(10))
    }

    #[test]
    fn slow_handler_is_logged_once_a_minute() {
        let mut handlers = handlers();
        let at = Instant::from_milliseconds;
        assert_eq!(handlers.admit("a", at(0)), Some(0));
        assert_eq!(handlers.admit("a", at(1)), None);
        assert_eq!(handlers.admit("b", at(2)), Some(0), "each has its own line");
        assert_eq!(handlers.admit("a", at(59_999)), None);
        assert_eq!(handlers.admit("a", at(60_000)), Some(2));
        assert_eq!(handlers.admit("a", at(60_001)), None);
    }

    #[test]
    fn many_slow_handlers_are_logged_in_part() {
        let mut handlers = handlers();
        let mut admitted = |now| {
            let names = (0..2 * HANDLERS_MAX).map(|index| format!("handler {index}"));
            names
                .filter(|name| handlers.admit(name, Instant::from_milliseconds(now)).is_some())
                .count()
        };
        assert_eq!(admitted(0), HANDLERS_MAX);
        assert_eq!(admitted(120_000), HANDLERS_MAX);
    }

    #[test]
    fn threshold_of_zero_finds_none() {
        let begun = CycleCount::now();
        let mut handlers = SlowHandlers::new(0, Duration::ZERO);
        assert!(!handlers.is_slow(begun, || HANDLER, Instant::ORIGIN));
        handlers = SlowHandlers::new(0, Duration::from_nanos(1));
        assert!(handlers.is_slow(begun, || HANDLER, Instant::ORIGIN));
    }
}
