//! HTTP input: from bytes to requests, one at a time.
//!
//! While reading is suspended, input is stored up to the limit of one message; beyond that the
//! receive stops. The end of the stream is noticed even then, because the client may have stopped
//! waiting for the response.

use super::state::{Codec, CodecState};
use super::{ConnectionEvent, Connections};
use crate::base::slab::Key;
use crate::base::time::Instant;
use crate::engine::ring::{Operation, Ring};
use crate::transport::http::head::Head;
use crate::transport::http::limits::RequestLimits;
use crate::transport::http::reader::{self, Assembled};

impl<S> Connections<S> {
    /// Parses the next request in `arrival[*from..]` and advances `from`; see
    /// [`reader::RequestReader::next`]. Also returns `NeedMore` while reading is stopped; `from`
    /// marks the unconsumed rest.
    #[inline]
    pub fn next_request(
        &mut self,
        key: Key,
        arrival: &[u8],
        from: &mut usize,
        limits: &RequestLimits,
        now: Instant,
    ) -> reader::RequestEvent {
        let Some(connection) = self.table.get_mut(key) else {
            *from = arrival.len();
            return reader::RequestEvent::NeedMore;
        };
        if !connection.is_read() {
            if connection.is_discarding() {
                *from = arrival.len();
            }
            return reader::RequestEvent::NeedMore;
        }
        let CodecState::Http(requests) = &mut connection.reader else {
            // Upgraded: the rest of the input is WebSocket frames.
            return reader::RequestEvent::NeedMore;
        };
        let was_inside = requests.is_inside_request();
        let pool = &mut self.pool;
        let next = requests.next(arrival, from, limits, || pool.take());
        if !matches!(next, reader::RequestEvent::NeedMore) {
            connection.record_message(now, pool);
            if connection.schedule_flush() {
                self.flush_queue.push(key);
            }
        } else if !was_inside && requests.is_inside_request() {
            // The timeout of an incomplete request starts here.
            connection.last_activity = now;
        }
        next
    }

    /// Returns the codec of a connection.
    #[inline]
    pub fn codec(&self, key: Key) -> Codec {
        let connection = self.table.get(key);
        connection.map_or(Codec::Ndjson, |connection| match connection.reader {
            CodecState::Ndjson(_) => Codec::Ndjson,
            CodecState::Http(_) => Codec::Http,
            CodecState::WebSocket(_) => Codec::WebSocket,
        })
    }

    /// Returns the request announced by `Assembled`. Return its buffer to the pool.
    pub fn take_request(&mut self, key: Key) -> Option<Assembled> {
        match &mut self.table.get_mut(key)?.reader {
            CodecState::Http(requests) => Some(requests.take()),
            CodecState::Ndjson(_) | CodecState::WebSocket(_) => None,
        }
    }

    /// Returns the head announced by `HeadComplete`, and the bytes it refers to.
    pub fn pending_head(&self, key: Key) -> Option<(&Head, &[u8])> {
        match &self.table.get(key)?.reader {
            CodecState::Http(requests) => Some(requests.pending_head()),
            CodecState::Ndjson(_) | CodecState::WebSocket(_) => None,
        }
    }

    /// Suspends reading until `resume_reading` is called.
    pub fn suspend_reading(&mut self, key: Key) {
        if let Some(connection) = self.table.get_mut(key) {
            connection.is_suspended = true;
        }
    }

    /// Ends a suspension. The caller handles the returned event.
    pub fn resume_reading(&mut self, key: Key) -> ConnectionEvent {
        let Some(connection) = self.table.get_mut(key) else { return ConnectionEvent::None };
        connection.is_suspended = false;
        self.try_resume(key)
    }

    /// Stops the receive of a suspended connection that has stored more than one message.
    pub fn limit_pending_input<R: Ring>(&mut self, ring: &mut R, key: Key) {
        let bytes_max = self.options.message_bytes_max;
        let Some(connection) = self.table.get_mut(key) else { return };
        if connection.is_suspended
            && !connection.paused
            && connection.pending_input.len() > bytes_max
        {
            connection.paused = true;
            self.statistics.read_pauses += 1;
            ring.submit(Operation::StopReceive(connection.receive));
        }
    }
}
