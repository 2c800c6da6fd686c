//! HTTP input: from bytes to requests, one at a time.
//!
//! While reading is suspended, input is stored up to the limit of one message; beyond that the
//! receive stops. The end of the stream is noticed even then, because the client may have stopped
//! waiting for the response.

use corelane_base::time::Instant;
use corelane_transport::http::head::RequestLimits;
use corelane_transport::http::reader::{Assembled, RequestEvent};

use crate::connection::entry::Entry;
use crate::connection::state::Connection;

/// Parses the next request in `arrival[*from..]` and advances `from`.
#[inline]
pub fn next<S>(
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
    let next = requests.next(arrival, from, limits, || entry.shared.pool.take());
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

/// Has the request that was returned last read again after
/// [`try_resume`](crate::connection::Connections::try_resume): one in place from its start, which
/// is the first byte of the rest of the input, an assembled one as it is.
#[cold]
pub fn hold_request<S>(connection: &mut Connection<S>, assembled: Option<Assembled>) {
    connection.record.traffic.messages_in -= 1;
    connection.reading.set_paused(true);
    if let (Some(requests), Some(assembled)) = (connection.input.requests(), assembled) {
        requests.restore(assembled);
    }
}
