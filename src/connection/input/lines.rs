//! Input as newline-delimited JSON.

use corelane_base::time::Instant;
use corelane_transport::ndjson::LineEvent;

use crate::connection::backpressure;
use crate::connection::entry::Entry;

/// Parses the next line in `arrival[*from..]` and advances `from`.
#[inline]
pub fn next<S>(
    entry: &mut Entry<'_, S>,
    arrival: &[u8],
    from: &mut usize,
    now: Instant,
) -> LineEvent {
    if *from > 0 {
        backpressure::apply(entry);
    }
    let connection = &mut *entry.connection;
    if !connection.is_read() {
        if connection.is_discarding() {
            *from = arrival.len();
        }
        return LineEvent::NeedMore;
    }
    let bytes_max = entry.shared.options.message_bytes_max;
    let line = connection.input.next_text(arrival, from, bytes_max, || entry.shared.pool.take());
    if line != LineEvent::NeedMore {
        entry.connection.record.traffic.messages_in += u64::from(line != LineEvent::TooLarge);
        entry.record_message(now);
    }
    line
}

/// Discards the incomplete line including its remaining bytes. Returns `false` if there is none.
pub fn skip<S>(entry: &mut Entry<'_, S>) -> bool {
    let line = entry.connection.input.skip_text();
    line.map(|line| entry.shared.pool.put(line)).is_some()
}
