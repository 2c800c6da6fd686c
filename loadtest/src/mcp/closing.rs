//! Graceful close of a connection.
//!
//! ```text
//!  HTTP with a session   DELETE and its response (MCP 2025-11-25, basic/transports, "Session
//!                        Management": a client that no longer needs a session should delete it)
//!  WebSocket             close frame in both directions (RFC 6455 section 7.1.2)
//!  TCP                   shutdown of writing, then the end of the server's stream
//!  otherwise             close at once
//! ```

use super::request_log::DrainedConnection;
use super::request_settings::RequestSettings;
use crate::target::Transport;
use crate::wire::{Reader, WireEvent, frames};

/// A connection waiting for the server to confirm the close.
#[derive(Debug)]
pub struct Closing {
    reader: Reader,
    buffered: Vec<u8>,
}

/// Action that begins a graceful close.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CloseAction {
    /// Close the connection at once.
    CloseNow,
    /// Send these bytes and wait for the server's reply.
    Send(Vec<u8>),
    /// Shut down writing and wait for the server to close.
    ShutdownWrite,
}

impl Closing {
    /// Begins the close of a connection without requests in flight.
    pub fn new(settings: &RequestSettings, left: DrainedConnection) -> (Self, CloseAction) {
        let DrainedConnection { reader, buffered, session } = left;
        let action = match (settings.transport, session) {
            (Transport::Tcp, _) => CloseAction::ShutdownWrite,
            (Transport::WebSocket, _) => {
                let mut bytes = Vec::new();
                frames::write_close(&mut bytes);
                CloseAction::Send(bytes)
            }
            (Transport::Http, Some(session)) => {
                let mut request = Vec::new();
                let fields = settings.http_fields(Some(&session));
                settings.writer().write_delete(&mut request, &fields);
                CloseAction::Send(request)
            }
            (Transport::Http | Transport::Stdio, _) => CloseAction::CloseNow,
        };
        (Self { reader, buffered }, action)
    }

    /// Processes received bytes; once the server replied, returns whether it accepted the close.
    pub fn receive(&mut self, arrived: &[u8]) -> Option<bool> {
        self.buffered.extend_from_slice(arrived);
        let mut from = 0;
        let answer = loop {
            match self.reader.read_next(&self.buffered[from..]) {
                Ok(Some((taken, event))) => {
                    from += taken;
                    match event {
                        Some(WireEvent::ResponseEnd { status, .. }) => break Some(status < 300),
                        Some(WireEvent::Close) => break Some(true),
                        // Other messages are ignored.
                        _ => {}
                    }
                }
                Ok(None) => break None,
                Err(_) => break Some(false),
            }
        };
        self.buffered.drain(..from);
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::http_field::HttpField;
    use crate::target::Era;
    use crate::wire::lines::LineReader;

    fn closing(
        transport: Transport,
        reader: Reader,
        session: Option<&str>,
    ) -> (Closing, CloseAction) {
        let fields = vec![HttpField::bearer("secret").unwrap()];
        let settings =
            RequestSettings::new(transport, Era::Legacy, "localhost:1", "/mcp", fields).unwrap();
        let session = session.map(Box::from);
        Closing::new(&settings, DrainedConnection { reader, buffered: Vec::new(), session })
    }

    #[test]
    fn closing_deletes_session_and_awaits_response() {
        let (mut closing, action) =
            closing(Transport::Http, Reader::Responses(Box::default()), Some("s-1"));
        let CloseAction::Send(bytes) = action else { panic!("{action:?}") };
        let bytes = String::from_utf8(bytes).unwrap();
        assert!(bytes.starts_with("DELETE /mcp HTTP/1.1\r\n"), "{bytes}");
        for field in ["Mcp-Session-Id: s-1", "Authorization: Bearer secret"] {
            assert!(bytes.lines().any(|line| line == field), "{bytes}");
        }
        assert!(bytes.ends_with("\r\n\r\n"));
        assert_eq!(closing.receive(b"HTTP/1.1 204 No"), None);
        assert_eq!(closing.receive(b" Content\r\n\r\n"), Some(true));
        let refused = b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(closing.receive(refused), Some(false));
        assert_eq!(closing.receive(b"nonsense\r\n\r\n"), Some(false));
    }

    #[test]
    fn closing_http_without_session_is_immediate() {
        let (_, action) = closing(Transport::Http, Reader::Responses(Box::default()), None);
        assert_eq!(action, CloseAction::CloseNow);
    }

    #[test]
    fn closing_websocket_awaits_close_frame() {
        let (mut closing, action) =
            closing(Transport::WebSocket, Reader::Frames(Box::default()), None);
        assert!(matches!(action, CloseAction::Send(bytes) if bytes[0] == 0x88));
        assert_eq!(closing.receive(b"\x81\x02hi"), None);
        assert_eq!(closing.receive(b"\x88\x02\x03\xE8"), Some(true));
    }

    #[test]
    fn closing_tcp_shuts_down_writing() {
        let (mut closing, action) =
            closing(Transport::Tcp, Reader::Lines(LineReader::default()), None);
        assert_eq!(action, CloseAction::ShutdownWrite);
        assert_eq!(closing.receive(b"{}\n"), None);
    }
}
