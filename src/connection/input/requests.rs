//! HTTP input: from bytes to requests, one at a time.
//!
//! While reading is suspended, input is stored up to the limit of one message; beyond that the
//! receive stops. The end of the stream is noticed even then, because the client may have stopped
//! waiting for the response.

use crate::base::time::Instant;
use crate::connection::entry::Entry;
use crate::transport::http::limits::RequestLimits;
use crate::transport::http::reader::RequestEvent;

/// Parses the next request in `arrival[*from..]` and advances `from`.
#[inline]
pub(in crate::connection) fn next<S>(
    entry: &mut Entry<'_, S>,
    arrival: &[u8],
    from: &mut usize,
    limits: &RequestLimits,
    now: Instant,
) -> RequestEvent {
    let connection = &mut *entry.connection;
    if !connection.is_read() {
        if connection.is_discarding() {
            *from = arrival.len();
        }
        return RequestEvent::NeedMore;
    }
    let Some(requests) = connection.input.requests() else {
        // Upgraded: the rest of the input is WebSocket frames.
        return RequestEvent::NeedMore;
    };
    let was_inside = requests.is_inside_request();
    let next = requests.next(arrival, from, limits, || entry.pool.take());
    if !matches!(next, RequestEvent::NeedMore) {
        let is_complete = matches!(next, RequestEvent::InPlace { .. } | RequestEvent::Assembled);
        entry.connection.record.traffic.messages_in += u64::from(is_complete);
        entry.record_message(now);
    } else if !was_inside && requests.is_inside_request() {
        // The timeout of an incomplete request starts here.
        connection.last_activity = now;
    }
    next
}
