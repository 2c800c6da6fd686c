//! Requests in flight on one connection, in send order.
//!
//! The first request is stored inline, because most connections have one at a time and every
//! further indirection is a cache miss when its response arrives. Later requests are in a queue.

use std::collections::VecDeque;

use corelane_base::time::Instant;

use super::parity::streams::OpenStreams;
use super::timed_out_ids::TimedOutIds;

/// Queue capacity that an idle connection keeps (32 bytes per entry).
const IDLE_QUEUE_CAPACITY_MAX: usize = 4;

/// A request in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct InFlightRequest {
    pub(super) id: u64,
    pub(super) intended: Instant,
    pub(super) sent: Instant,
    pub(super) call: u16,
    pub(super) state: InFlightState,
    /// Whether an event of its stream arrived; only of calls with progress or a stream.
    pub(super) has_event: bool,
    /// Whether progress arrived.
    pub(super) has_progress: bool,
}

/// State of a request in flight.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum InFlightState {
    /// Waiting for its response.
    Waiting,
    /// Reported as failed; the end of its stream may still arrive.
    Failed,
    /// Its response arrived before that of an earlier request.
    Answered,
}

/// The requests in flight on one connection.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    front: Option<InFlightRequest>,
    /// One word inline: most connections have neither.
    further: Option<Box<FurtherRequests>>,
}

/// What a connection with one request at a time has only in the parity dialect, or after a timeout.
#[derive(Debug, Default)]
struct FurtherRequests {
    /// Requests after the first; empty if there is none.
    queue: VecDeque<InFlightRequest>,
    /// Open streams of all requests.
    streams: OpenStreams,
    /// Requests that timed out and were not answered yet.
    timed_out: TimedOutIds,
    /// Why the response to a request is wrong, until it is complete.
    reason: Option<WrongReason>,
}

#[derive(Debug)]
struct WrongReason {
    request: u64,
    text: String,
}

impl InFlight {
    pub(super) const fn new() -> Self {
        Self { front: None, further: None }
    }

    /// Returns the number of requests.
    #[inline]
    pub(super) fn request_count(&self) -> usize {
        usize::from(self.front.is_some()) + self.further.as_ref().map_or(0, |it| it.queue.len())
    }

    /// Returns the oldest request.
    #[inline]
    pub(super) const fn oldest(&self) -> Option<&InFlightRequest> {
        self.front.as_ref()
    }

    /// Returns the request at `place`, from the oldest.
    pub(super) fn get(&self, place: usize) -> Option<&InFlightRequest> {
        match place.checked_sub(1) {
            None => self.front.as_ref(),
            Some(place) => self.further.as_ref()?.queue.get(place),
        }
    }

    #[inline]
    pub(super) fn request_mut(&mut self, place: usize) -> Option<&mut InFlightRequest> {
        match place.checked_sub(1) {
            None => self.front.as_mut(),
            Some(place) => self.further.as_mut()?.queue.get_mut(place),
        }
    }

    /// Iterates over the requests, oldest first.
    pub(super) fn entries(&self) -> impl Iterator<Item = &InFlightRequest> {
        self.front.iter().chain(self.further.iter().flat_map(|it| it.queue.iter()))
    }

    #[inline]
    pub(super) fn add(&mut self, request: InFlightRequest) {
        if self.front.is_none() {
            self.front = Some(request);
        } else {
            self.further.get_or_insert_default().queue.push_back(request);
        }
    }

    /// Removes the oldest request.
    #[inline]
    pub(super) fn remove_oldest(&mut self) {
        self.front = self.further.as_mut().and_then(|it| it.queue.pop_front());
    }

    /// Returns the open streams, if there was one.
    #[inline]
    pub(super) fn streams(&mut self) -> Option<&mut OpenStreams> {
        self.further.as_mut().map(|it| &mut it.streams)
    }

    /// Returns the open streams, to add one.
    pub(super) fn streams_or_default(&mut self) -> &mut OpenStreams {
        &mut self.further.get_or_insert_default().streams
    }

    /// Keeps the reason why the response to a request is wrong.
    pub(super) fn set_reason(&mut self, request: u64, text: String) {
        self.further.get_or_insert_default().reason = Some(WrongReason { request, text });
    }

    /// Removes and returns that reason.
    pub(super) fn take_reason(&mut self, request: u64) -> Option<String> {
        let further = self.further.as_mut()?;
        further.reason.take_if(|reason| reason.request == request).map(|reason| reason.text)
    }

    /// Adds the id of a request that timed out.
    pub(super) fn add_timed_out(&mut self, id: u64) {
        self.further.get_or_insert_default().timed_out.add(id);
    }

    /// Returns whether a request timed out and was not answered yet.
    pub(super) fn is_timed_out(&self, id: u64) -> bool {
        self.further.as_ref().is_some_and(|it| it.timed_out.contains(id))
    }

    /// Removes the id of a request that was answered; returns whether it had timed out.
    pub(super) fn remove_timed_out(&mut self, id: u64) -> bool {
        self.further.as_mut().is_some_and(|it| it.timed_out.remove(id))
    }

    /// Removes and returns all requests.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = InFlightRequest> {
        let Self { front, further } = std::mem::take(self);
        front.into_iter().chain(further.into_iter().flat_map(|it| it.queue))
    }

    /// Frees a large queue that is empty.
    #[inline]
    pub(super) fn shrink(&mut self) {
        if self.front.is_none()
            && let Some(further) = &mut self.further
            && further.queue.capacity() > IDLE_QUEUE_CAPACITY_MAX
        {
            further.queue = VecDeque::new();
            self.further.take_if(|it| it.timed_out.is_empty() && it.streams.is_empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_flight(ids: std::ops::Range<u64>) -> InFlight {
        let mut in_flight = InFlight::new();
        let (intended, sent) = (Instant::ORIGIN, Instant::ORIGIN);
        ids.for_each(|id| {
            in_flight.add(InFlightRequest {
                id,
                intended,
                sent,
                call: 0,
                state: InFlightState::Waiting,
                has_event: false,
                has_progress: false,
            });
        });
        in_flight
    }

    #[test]
    fn in_flight_requests_keep_send_order() {
        let mut in_flight = in_flight(0..3);
        assert_eq!(in_flight.entries().map(|request| request.id).collect::<Vec<_>>(), [0, 1, 2]);
        in_flight.remove_oldest();
        in_flight.add(InFlightRequest { id: 3, ..*in_flight.oldest().unwrap() });
        let at = |place| in_flight.get(place).map(|request| request.id);
        assert_eq!([at(0), at(1), at(2), at(3)], [Some(1), Some(2), Some(3), None]);
        assert_eq!(in_flight.request_count(), 3);
        assert_eq!(in_flight.take_all().map(|request| request.id).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(in_flight.oldest().is_none());
    }

    #[test]
    fn in_flight_queue_is_freed_when_empty() {
        let mut in_flight = in_flight(0..100);
        in_flight.shrink();
        assert_eq!(in_flight.request_count(), 100);
        (0..100).for_each(|_| in_flight.remove_oldest());
        assert!(in_flight.further.is_some());
        in_flight.shrink();
        assert!(in_flight.oldest().is_none() && in_flight.further.is_none());
    }

    #[test]
    fn in_flight_single_request_needs_no_allocation() {
        let mut in_flight = in_flight(0..1);
        in_flight.remove_oldest();
        assert!(in_flight.further.is_none() && size_of::<InFlight>() <= 40);
    }
}
