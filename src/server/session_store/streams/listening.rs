//! Listening streams of one session: which one is current, and what becomes of the others.
//!
//! Source: MCP 2025-11-25, basic/transports, "Multiple Connections": a client may have several
//! streams open, and each message is sent on one of them.

use corelane_base::time::Instant;

use super::{SessionError, SessionStreams};
use crate::server::options::SecondStream;
use crate::server::shard_message::{ExchangeAddress, StreamLimits};

/// A listening stream that was attached by GET.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ListeningStream {
    /// Number of the stream.
    pub number: u32,
    /// Number after which it must be replayed: that of the last event given to an exchange.
    pub after: u32,
    /// Exchange of the listening stream that it replaces, which must end.
    pub replaced_listener: Option<ExchangeAddress>,
}

/// Attaches a listening stream to `exchange`: the current one, or a new one if that is attached.
pub fn attach(
    streams: &mut SessionStreams,
    exchange: ExchangeAddress,
    bounds: StreamLimits,
) -> Result<ListeningStream, SessionError> {
    let number = streams.listening;
    let current = streams.listening_stream();
    let Some(attached) = current.exchange else {
        current.exchange = Some(exchange);
        let after = std::mem::replace(&mut current.last_delivered, current.log.last_number());
        streams.attached += 1;
        return Ok(ListeningStream { number, after, replaced_listener: None });
    };
    if bounds.second_stream == SecondStream::Refuse {
        return Err(SessionError::Conflict);
    }
    let number = streams.next_number(bounds)?;
    let is_replaced = bounds.second_stream == SecondStream::Replace;
    streams.listening_stream().is_finished = is_replaced;
    (streams.last_opened, streams.listening) = (number, number);
    let stream = streams.insert(streams.len(), number);
    (stream.exchange, stream.is_listening) = (Some(exchange), true);
    streams.attached += 1;
    let replaced_listener = is_replaced.then_some(attached);
    Ok(ListeningStream { number, after: 0, replaced_listener })
}

/// Makes an attached listening stream the current one, with the events that wait for an exchange.
/// Returns the exchange of the one that it replaces. `room` is that of [`SessionStreams::push`].
pub(super) fn make_current(
    streams: &mut SessionStreams,
    number: u32,
    bounds: StreamLimits,
    room: usize,
    now: Instant,
) -> Option<ExchangeAddress> {
    let bytes_max = streams.bytes.saturating_add(room);
    let before = std::mem::replace(&mut streams.listening, number);
    let stream = streams.get_mut(before)?;
    if let Some(attached) = stream.exchange {
        let is_replaced = bounds.second_stream != SecondStream::Join;
        stream.is_finished = is_replaced;
        return is_replaced.then_some(attached);
    }
    stream.is_finished = true;
    let bytes = stream.log.bytes();
    let waiting = stream.log.take_after(stream.last_delivered);
    let bytes_left = stream.log.bytes();
    streams.bytes = streams.bytes - bytes + bytes_left;
    for text in waiting {
        streams.push(number, text, bounds.log, bytes_max.saturating_sub(streams.bytes));
    }
    streams.retain_finished(before, bounds.retained_streams_max, now);
    None
}

/// Finishes a detached stream if it is a listening one, unless it is current and no other one is
/// attached.
pub(super) fn finish_detached(streams: &mut SessionStreams, number: u32) {
    if number == streams.listening {
        let newest = streams.streams.iter().rev().find(|stream| stream.is_open_listener());
        let Some(newest) = newest else { return };
        streams.listening = newest.number;
    }
    if let Some(stream) = streams.get_mut(number).filter(|stream| stream.is_listening) {
        stream.is_finished = true;
    }
}
