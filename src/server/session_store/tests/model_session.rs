//! The model of one session and its streams.

use std::collections::BTreeMap;

use super::*;

#[derive(Clone, Debug, Default)]
pub(super) struct ModelStream {
    /// Numbers and lengths of stored events.
    pub(super) events: Vec<(u32, usize)>,
    pub(super) last: u32,
    pub(super) last_delivered: u32,
    pub(super) exchange: Option<ExchangeAddress>,
    pub(super) is_finished: bool,
    pub(super) has_undelivered: bool,
    /// When it last began to linger.
    pub(super) lingering_since: Instant,
}

#[derive(Debug)]
pub(super) struct ModelSession {
    /// Number of its address; 0 is exempt.
    pub(super) address: u8,
    /// Whether it got a message.
    pub(super) is_used: bool,
    pub(super) in_flight: u32,
    /// When it became idle, and the order in which it did; `None` while it is active.
    pub(super) idle: Option<(Instant, u64)>,
    pub(super) opened: u32,
    pub(super) streams: BTreeMap<u32, ModelStream>,
}

/// Returns the bytes that one event counts for.
pub(super) const fn stored_bytes(bytes: usize) -> usize {
    bytes + 2 * size_of::<Bytes>()
}

impl ModelStream {
    pub(super) fn bytes(&self) -> usize {
        self.events.iter().map(|event| stored_bytes(event.1)).sum()
    }

    pub(super) fn is_retained(&self) -> bool {
        self.is_finished && self.exchange.is_none()
    }

    pub(super) fn is_lingering(&self) -> bool {
        self.is_retained() && !self.has_undelivered
    }
}

impl ModelSession {
    pub(super) fn is_active(&self) -> bool {
        self.in_flight > 0 || self.streams.values().any(|stream| stream.exchange.is_some())
    }

    /// Returns the number of the stream that an operation refers to.
    pub(super) fn number(&self, stream: u32) -> u32 {
        if stream == LISTENING_STREAM { stream } else { (self.opened + 2).saturating_sub(stream) }
    }

    /// Removes streams that are not retained any more.
    pub(super) fn remove_excess_streams(&mut self, number: u32) {
        self.streams.retain(|at, it| *at != number || !it.is_lingering() || !it.events.is_empty());
        let kept = self.streams.iter().filter(|(_, stream)| stream.is_retained());
        let mut kept: Vec<(bool, u32)> =
            kept.map(|(at, stream)| (stream.has_undelivered, *at)).collect();
        kept.sort_unstable();
        let kept_max = LIMITS.streams.retained_streams_max;
        for (_, number) in kept.iter().take(kept.len().saturating_sub(kept_max)) {
            self.streams.remove(number);
        }
    }

    pub(super) fn open(&mut self, exchange: ExchangeAddress) -> Result<u32, SessionError> {
        let open =
            self.streams.iter().filter(|(number, stream)| **number > 0 && !stream.is_retained());
        let open = open.count();
        if open >= LIMITS.streams.streams_max {
            return Err(SessionError::StreamLimit(open));
        }
        self.opened += 1;
        let stream = ModelStream { exchange: Some(exchange), ..ModelStream::default() };
        self.streams.insert(self.opened, stream);
        Ok(self.opened)
    }

    pub(super) fn listen(
        &mut self,
        exchange: ExchangeAddress,
    ) -> Result<ListeningStream, SessionError> {
        let stream = self.streams.entry(LISTENING_STREAM).or_default();
        if stream.exchange.is_some() {
            return Err(SessionError::Conflict);
        }
        let after = stream.last_delivered;
        stream.exchange = Some(exchange);
        stream.last_delivered = stream.last;
        Ok(ListeningStream { number: LISTENING_STREAM, after, replaced_listener: None })
    }

    pub(super) fn resume(
        &mut self,
        number: u32,
        after: u32,
        exchange: ExchangeAddress,
    ) -> Result<ResumedStream, SessionError> {
        let stream = self.streams.get_mut(&number).ok_or(SessionError::UnknownEvent)?;
        if after > stream.last_delivered {
            return Err(SessionError::UnknownEvent);
        }
        let replaced = stream.exchange.replace(exchange);
        stream.last_delivered = stream.last;
        stream.has_undelivered |= stream.last > after;
        let kept = stream.events.iter().filter(|(number, _)| *number > after).count();
        let missing = stream.last - after - u32::try_from(kept).unwrap();
        Ok(ResumedStream {
            replaced_exchange: replaced,
            replaced_listener: None,
            missing_events: missing,
            is_finished: stream.is_finished,
        })
    }

    pub(super) fn push(&mut self, number: u32, bytes: usize, room: usize) -> Option<PushedEvent> {
        if number == LISTENING_STREAM {
            self.streams.entry(LISTENING_STREAM).or_default();
        }
        let stream = self.streams.get_mut(&number).filter(|stream| !stream.is_finished)?;
        let bounds = LIMITS.streams.log;
        let bytes_max = if stored_bytes(bytes) > bounds.bytes_max {
            stream.bytes() + room / 2
        } else {
            bounds.bytes_max.min(stream.bytes() + room)
        };
        stream.last += 1;
        stream.events.push((stream.last, bytes));
        while stream.events.len() > bounds.events_max || stream.bytes() > bytes_max {
            stream.events.remove(0);
        }
        stream.has_undelivered = true;
        if stream.exchange.is_some() {
            stream.last_delivered = stream.last;
        }
        let is_kept = !stream.events.is_empty();
        Some(PushedEvent { number: stream.last, is_stored: is_kept, exchange: stream.exchange })
    }

    pub(super) fn finish(&mut self, number: u32) -> Option<ExchangeAddress> {
        let stream = self.streams.get_mut(&number).filter(|_| number != LISTENING_STREAM)?;
        stream.is_finished = true;
        let exchange = stream.exchange;
        self.remove_excess_streams(number);
        exchange
    }

    pub(super) fn detach(&mut self, number: u32, exchange: ExchangeAddress, is_sent: bool) -> bool {
        let Some(stream) = self.streams.get_mut(&number) else { return false };
        if stream.exchange != Some(exchange) {
            return false;
        }
        stream.exchange = None;
        stream.has_undelivered &= !is_sent;
        self.remove_excess_streams(number);
        true
    }
}
