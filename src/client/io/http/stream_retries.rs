//! Streams that are opened again after their loss, and the ids of recent events, so that a replayed
//! event is not handled twice.

use std::collections::{HashSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use corelane_base::time::Instant;

use super::exchange::{ExchangeKind, McpExchange};
use super::queue::HttpQueue;
use crate::error::ClientError;
use crate::reconnect::{Backoff, ReconnectOptions};

/// Shortest delay: a stream that is lost is never due at once.
const DELAY_MIN: Duration = Duration::from_millis(1);

/// The delays of one server.
#[derive(Debug)]
pub(super) struct StreamRetries {
    options: Arc<ReconnectOptions>,
    backoff: Backoff,
    /// When the server opened a stream last.
    opened_at: Option<Instant>,
}

impl StreamRetries {
    /// Creates the delays that the options state; `seed` determines them.
    pub(super) fn new(options: &Arc<ReconnectOptions>, seed: u64) -> Self {
        let (options, backoff) = (Arc::clone(options), Backoff::new(seed));
        Self { options, backoff, opened_at: None }
    }

    /// Notes that the server has begun to answer an exchange.
    pub(super) const fn note_head(&mut self, exchange: &McpExchange, now: Instant) {
        if exchange.was_open() {
            self.opened_at = Some(now);
        }
    }

    /// As [`StreamRetries::retry`], for a subscription whose stream has ended or which the server
    /// has refused with `status`. The stream of a session is resumed instead.
    pub(super) fn retry_listen(
        &mut self,
        exchange: McpExchange,
        status: Option<u16>,
        queue: &mut HttpQueue,
        now: Instant,
    ) -> Option<McpExchange> {
        match (exchange.kind(), status) {
            // The server does not want the subscription.
            (_, Some(300..500)) => Some(exchange),
            (ExchangeKind::Request { .. }, _) => self.retry(exchange, queue, now),
            _ => Some(exchange),
        }
    }

    /// Queues a stream again, to be opened after a delay, if the server has opened it before.
    /// Returns any other exchange, and one after the last attempt.
    pub(super) fn retry(
        &mut self,
        mut exchange: McpExchange,
        queue: &mut HttpQueue,
        now: Instant,
    ) -> Option<McpExchange> {
        if !exchange.was_open() {
            return Some(exchange);
        }
        let opened_at = self.opened_at.take();
        if opened_at.is_some_and(|at| now.since(at) >= self.options.delay_max) {
            self.backoff.reset();
        }
        let Some(delay) = self.backoff.next_delay(&self.options) else {
            self.backoff.reset();
            return Some(exchange);
        };
        exchange.delay_until(now.after(delay.max(DELAY_MIN)));
        queue.push_back(exchange);
        None
    }

    /// Handles that no connection can be opened because of `error`. Subscriptions are queued again;
    /// returns the requests that fail, and `None` for the stream of the session, with their errors.
    pub(super) fn handle_unconnected(
        &mut self,
        queue: &mut HttpQueue,
        error: &ClientError,
        now: Instant,
    ) -> Vec<(Option<u64>, ClientError)> {
        let is_lost = |exchange: &McpExchange| {
            exchange.was_open() && matches!(exchange.kind(), ExchangeKind::Request { .. })
        };
        let lost = queue.take_if(is_lost);
        let mut failed = queue.take_unconnected(error, now);
        for exchange in lost {
            let given_up = self.retry(exchange, queue, now);
            let call = given_up.and_then(|exchange| exchange.call());
            failed.extend(call.map(|id| (Some(id), error.clone())));
        }
        failed
    }
}

/// Number of ids that are remembered.
const EVENTS_MAX: usize = 256;

#[derive(Debug, Default)]
pub(super) struct SeenEvents {
    ids: HashSet<Rc<[u8]>>,
    order: VecDeque<Rc<[u8]>>,
}

impl SeenEvents {
    /// Remembers an id. Returns whether it is new.
    pub(super) fn insert(&mut self, id: &[u8]) -> bool {
        if self.ids.contains(id) {
            return false;
        }
        if self.order.len() == EVENTS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
        let id: Rc<[u8]> = id.into();
        self.order.push_back(Rc::clone(&id));
        self.ids.insert(id)
    }

    /// Forgets all: ids are unique only within a session.
    pub(super) fn clear(&mut self) {
        self.ids.clear();
        self.order.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recent_event_ids_are_seen_once() {
        let mut seen = SeenEvents::default();
        let id = |index: usize| index.to_string().into_bytes();
        for index in 0..=EVENTS_MAX {
            assert!(seen.insert(&id(index)));
        }
        assert!(!seen.insert(&id(EVENTS_MAX)));
        assert!(!seen.insert(&id(1)));
        assert!(seen.insert(&id(0)));
        seen.clear();
        assert!(seen.insert(&id(EVENTS_MAX)));
    }
}
