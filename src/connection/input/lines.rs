//! Input as newline-delimited JSON.

use crate::base::time::Instant;
use crate::connection::backpressure;
use crate::connection::entry::Entry;
use crate::transport::ndjson::{LineEvent, LineReader};

/// Parses the next line in `arrival[*from..]` and advances `from`.
#[inline]
pub(in crate::connection) fn next<S>(
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
    let Some(reader) = connection.input.lines() else {
        *from = arrival.len();
        return LineEvent::NeedMore;
    };
    let line = reader.next(arrival, from, entry.options.message_bytes_max, || entry.pool.take());
    if line != LineEvent::NeedMore {
        entry.connection.record.traffic.messages_in += u64::from(line != LineEvent::TooLarge);
        entry.record_message(now);
    }
    line
}

/// Discards the incomplete line including its remaining bytes. Returns `false` if there is none.
pub(in crate::connection) fn skip<S>(entry: &mut Entry<'_, S>) -> bool {
    let line = entry.connection.input.lines().and_then(LineReader::skip_line);
    line.map(|line| entry.pool.put(line)).is_some()
}
