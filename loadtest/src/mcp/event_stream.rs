//! The event stream that the client of a session opens with GET, on a connection of its own.
//!
//! Source: MCP 2025-11-25, basic/transports, "Listening for Messages from the Server".

use super::message_kind::{MessageKind, classify_message};
use super::request_settings::RequestSettings;
use crate::wire::{FramingError, Reader, WireEvent, read_buffered};

/// Status with which a server says that it has no such stream.
const METHOD_NOT_ALLOWED: u16 = 405;

/// Event of an event stream.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum StreamEvent {
    /// The server opened the stream.
    Opened,
    /// A notification.
    Notification,
    /// A request of the server.
    Request {
        /// Its id as JSON text.
        id: String,
        /// Its method.
        method: String,
    },
    /// The server ended the stream.
    Ended,
    /// The server has no such stream.
    Unsupported,
    /// The server refused the stream with this status.
    Refused(u16),
}

/// An event stream. Takes about 450 bytes, and a buffer as long as the longest event.
#[derive(Debug)]
pub struct EventStream {
    reader: Reader,
    /// Received bytes that the reader has not consumed.
    buffered: Vec<u8>,
    is_open: bool,
    /// Whether the response is complete.
    is_answered: bool,
}

impl EventStream {
    /// Appends the request of a stream of `session` to `out`.
    pub fn request(settings: &RequestSettings, session: Option<&str>, out: &mut Vec<u8>) -> Self {
        settings.writer().write_get(out, &settings.http_fields(session));
        let reader = Reader::Responses(Box::default());
        Self { reader, buffered: Vec::new(), is_open: false, is_answered: false }
    }

    /// Returns whether the server opened it.
    pub const fn is_open(&self) -> bool {
        self.is_open
    }

    /// Returns whether the response is complete.
    pub const fn is_answered(&self) -> bool {
        self.is_answered
    }

    /// Processes received bytes and calls `on_event` for each result.
    ///
    /// # Errors
    ///
    /// Returns an error if the server violates the framing.
    pub fn receive(
        &mut self,
        arrived: &[u8],
        mut on_event: impl FnMut(StreamEvent),
    ) -> Result<(), FramingError> {
        let mut buffered = std::mem::take(&mut self.buffered);
        read_buffered(&mut buffered, arrived, |bytes| self.read(bytes, &mut on_event))?;
        self.buffered = buffered;
        Ok(())
    }

    /// Processes `bytes`; returns how many were consumed.
    fn read(
        &mut self,
        bytes: &[u8],
        on_event: &mut impl FnMut(StreamEvent),
    ) -> Result<usize, FramingError> {
        let mut from = 0;
        while let Some((taken, event)) = self.reader.read_next(&bytes[from..])? {
            from += taken;
            match event {
                Some(WireEvent::Message(text)) => match classify_message(text, |_| None) {
                    MessageKind::Notification => on_event(StreamEvent::Notification),
                    MessageKind::Request { id, method } => {
                        let (id, method) = (id.to_owned(), method.to_owned());
                        on_event(StreamEvent::Request { id, method });
                    }
                    // The body of a refusal, or what does not belong on such a stream.
                    _ => {}
                },
                Some(WireEvent::ResponseEnd { status, is_stream, .. }) => {
                    on_event(match status {
                        METHOD_NOT_ALLOWED => StreamEvent::Unsupported,
                        _ if is_stream => StreamEvent::Ended,
                        _ => StreamEvent::Refused(status),
                    });
                    self.is_answered = true;
                }
                _ => {}
            }
            if !self.is_open && self.reader.is_in_event_stream() {
                self.is_open = true;
                self.reader.stop_quoting();
                on_event(StreamEvent::Opened);
            }
        }
        Ok(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::{Era, Transport};

    fn stream() -> (EventStream, String) {
        let settings =
            RequestSettings::new(Transport::Http, Era::Legacy, "a:1", "/mcp", Vec::new()).unwrap();
        let mut request = Vec::new();
        let stream = EventStream::request(&settings, Some("s1"), &mut request);
        (stream, String::from_utf8(request).unwrap())
    }

    fn events(bytes: &str) -> Vec<StreamEvent> {
        let (mut stream, mut events) = (stream().0, Vec::new());
        for byte in bytes.as_bytes() {
            stream.receive(&[*byte], |event| events.push(event)).unwrap();
        }
        events
    }

    #[test]
    fn event_stream_request_has_its_session() {
        let (stream, request) = stream();
        assert!(request.starts_with("GET /mcp HTTP/1.1\r\n") && !stream.is_open());
        assert!(request.contains("Mcp-Session-Id: s1\r\n"), "{request}");
        assert!(request.contains("text/event-stream"), "{request}");
    }

    #[test]
    fn notifications_and_requests_of_stream_are_reported() {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                    Transfer-Encoding: chunked\r\n\r\n";
        let data = ": hello\n\ndata: {\"method\":\"notifications/message\"}\n\n\
                    data: {\"id\":7,\"method\":\"ping\"}\n\n";
        let bytes = format!("{head}{:x}\r\n{data}\r\n0\r\n\r\n", data.len());
        let request = StreamEvent::Request { id: "7".into(), method: "ping".into() };
        let expected =
            [StreamEvent::Opened, StreamEvent::Notification, request, StreamEvent::Ended];
        assert_eq!(events(&bytes), expected);
    }

    #[test]
    fn refused_event_stream_has_its_status() {
        let answer =
            |status: &str| events(&format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nno"));
        assert_eq!(answer("405 Method Not Allowed"), [StreamEvent::Unsupported]);
        assert_eq!(answer("404 Not Found"), [StreamEvent::Refused(404)]);
        assert_eq!(answer("200 OK"), [StreamEvent::Refused(200)]);
    }
}
