//! Internal errors of handlers: logged with a number, which the client receives in their place.

use corelane_base::time::Instant;
use corelane_engine::mesh::ShardId;

use crate::service::{HandlerError, InternalError};
use crate::telemetry::event::Event;
use crate::telemetry::throttle::EventThrottle;

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
}
