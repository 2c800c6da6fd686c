//! Parses the body of an event stream into events.
//!
//! Source: WHATWG HTML, section 9.2.6 "Interpreting an event stream"; MCP 2025-11-25
//! basic/transports, "Resumability and Redelivery".

use std::mem::take;
use std::time::Duration;

use memchr::{memchr, memchr2};

use super::response_head::ResponseError;
use corelane_protocol::json::{PADDING_BYTES, PaddedText};

/// An event with data.
#[derive(Debug)]
pub struct ServerEvent<'a> {
    /// The type; `message` if the stream names none.
    pub event_type: &'a [u8],
    /// The id of this event, if it has one.
    pub id: Option<&'a [u8]>,
    /// The data, without its last line end.
    pub data: PaddedText<'a>,
}

/// Splits a stream into events. An event that the end of the stream cuts off is none.
#[derive(Debug, Default)]
pub struct EventReader {
    /// An incomplete line.
    line: Vec<u8>,
    /// The lines of data, each with a line feed; after an event its data with padding.
    data: Vec<u8>,
    event_type: Vec<u8>,
    /// The last value of `id`.
    id: Vec<u8>,
    /// The event has an id of its own.
    has_id: bool,
    /// The id of the last complete event that had one, or of an earlier one.
    last_event_id: Vec<u8>,
    reconnection_time: Option<Duration>,
    position: Position,
    /// A complete event has not been cleared.
    is_complete: bool,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Position {
    /// In the first line, which may begin with a byte order mark.
    #[default]
    First,
    /// In a later line.
    Later,
    /// After a carriage return, which a line feed may follow.
    AfterReturn,
}

impl EventReader {
    /// Creates a reader before the first event.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads `bytes[*from..]` up to the end of the next event and advances `from`. Returns whether
    /// an event is complete: see [`EventReader::event`].
    ///
    /// # Errors
    ///
    /// [`ResponseError::Invalid`] for an event of more than `event_bytes_max` bytes.
    pub fn next(
        &mut self,
        bytes: &[u8],
        from: &mut usize,
        event_bytes_max: usize,
    ) -> Result<bool, ResponseError> {
        if take(&mut self.is_complete) {
            self.clear_event();
        }
        while *from < bytes.len() {
            if self.position == Position::AfterReturn {
                self.position = Position::Later;
                if bytes[*from] == b'\n' {
                    *from += 1;
                    continue;
                }
            }
            let rest = &bytes[*from..];
            let end = memchr2(b'\n', b'\r', rest);
            let length = end.unwrap_or(rest.len());
            if self.data.len() + self.line.len() + length > event_bytes_max {
                return Err(ResponseError::Invalid("an event of the server is too large"));
            }
            *from += length;
            let Some(end) = end else {
                self.line.extend_from_slice(rest);
                return Ok(false);
            };
            *from += 1;
            let is_first = self.position == Position::First;
            let is_return = rest[end] == b'\r';
            self.position = if is_return { Position::AfterReturn } else { Position::Later };
            if self.read_line(&rest[..end], is_first) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the event that [`EventReader::next`] has completed.
    pub fn event(&mut self) -> ServerEvent<'_> {
        let length = self.data.len().saturating_sub(PADDING_BYTES);
        if self.data.len() < PADDING_BYTES {
            self.data.resize(PADDING_BYTES, 0);
        }
        ServerEvent {
            event_type: if self.event_type.is_empty() { b"message" } else { &self.event_type },
            id: self.has_id.then_some(&self.id),
            data: PaddedText::new(&mut self.data, length),
        }
    }

    /// Returns the data of the event that [`EventReader::next`] has completed.
    pub fn data(&self) -> &[u8] {
        &self.data[..self.data.len().saturating_sub(PADDING_BYTES)]
    }

    /// Returns the id to resume after, empty if there is none.
    pub fn last_event_id(&self) -> &[u8] {
        &self.last_event_id
    }

    /// Returns the last value of `retry`.
    pub const fn reconnection_time(&self) -> Option<Duration> {
        self.reconnection_time
    }

    /// Reads the end of a line, after what is stored of it. Returns whether it completes an event.
    fn read_line(&mut self, end: &[u8], is_first: bool) -> bool {
        if self.line.is_empty() {
            return self.interpret_line(end, is_first);
        }
        let mut line = take(&mut self.line);
        line.extend_from_slice(end);
        let is_complete = self.interpret_line(&line, is_first);
        line.clear();
        self.line = line;
        is_complete
    }

    fn interpret_line(&mut self, line: &[u8], is_first: bool) -> bool {
        let line = if is_first { line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line) } else { line };
        if line.is_empty() {
            return self.complete_event();
        }
        let (name, value) = match memchr(b':', line) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                if self.data.is_empty() {
                    // Most events have one line of data.
                    self.data.reserve_exact(value.len() + 1 + PADDING_BYTES);
                }
                self.data.extend_from_slice(value);
                self.data.push(b'\n');
            }
            b"event" => replace(&mut self.event_type, value),
            b"id" if !value.contains(&0) => {
                replace(&mut self.id, value);
                self.has_id = true;
            }
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                let text = std::str::from_utf8(value).ok();
                let milliseconds = text.and_then(|text| text.parse().ok());
                self.reconnection_time = milliseconds.map(Duration::from_millis);
            }
            // A comment has an empty name; other fields are ignored.
            _ => {}
        }
        false
    }

    /// Handles the empty line after an event; one without data is none.
    fn complete_event(&mut self) -> bool {
        let Self { last_event_id, id, .. } = self;
        if self.has_id {
            last_event_id.clone_from(id);
        }
        if self.data.is_empty() {
            self.clear_event();
            return false;
        }
        self.data.pop();
        self.data.resize(self.data.len() + PADDING_BYTES, 0);
        self.is_complete = true;
        true
    }

    fn clear_event(&mut self) {
        self.data.clear();
        self.event_type.clear();
        self.has_id = false;
    }
}

fn replace(place: &mut Vec<u8>, value: &[u8]) {
    place.clear();
    place.extend_from_slice(value);
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
