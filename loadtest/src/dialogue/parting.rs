//! What is said on a connection that is to be closed, and how the other end takes it.
//!
//! ```text
//!  HTTP with a session   DELETE, and its response (2025-11-25, basic/transports, "Session
//!                        Management": a client that no longer needs a session should delete it)
//!  WebSocket             a close frame, and the one in return (RFC 6455 section 7.1.2)
//!  lines                 nothing: the sending side is closed, and the end of the other awaited
//!  HTTP otherwise        nothing, and nothing is waited for
//! ```

use super::books::Left;
use super::call::{Speech, push_field};
use crate::target::{Era, Transport};
use crate::wire::{Heard, Reader, frames};

/// A connection that says goodbye.
#[derive(Debug)]
pub struct Parting {
    reader: Reader,
    begun: Vec<u8>,
}

/// What saying goodbye takes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Goodbye {
    /// Nothing: the connection can be closed.
    Nothing,
    /// These bytes; the other end answers.
    Words(Vec<u8>),
    /// That nothing more will be sent; the other end closes.
    Finish,
}

impl Parting {
    /// The goodbye of a connection on which nothing is in flight.
    pub fn new(speech: &Speech, left: Left) -> (Self, Goodbye) {
        let Left { reader, begun, session } = left;
        let goodbye = match (speech.transport, session) {
            (Transport::Tcp, _) => Goodbye::Finish,
            (Transport::WebSocket, _) => {
                let mut words = Vec::new();
                frames::write_close(&mut words);
                Goodbye::Words(words)
            }
            (Transport::Http, Some(session)) => Goodbye::Words(deletion(speech, &session)),
            (Transport::Http | Transport::Stdio, _) => Goodbye::Nothing,
        };
        (Self { reader, begun }, goodbye)
    }

    /// Takes in what arrived; once the other end has answered, whether it agreed.
    pub fn hear(&mut self, arrived: &[u8]) -> Option<bool> {
        self.begun.extend_from_slice(arrived);
        let mut from = 0;
        let answer = loop {
            match self.reader.look(&self.begun[from..]) {
                Ok(Some((taken, heard))) => {
                    from += taken;
                    match heard {
                        Some(Heard::Over { status, .. }) => break Some(status < 300),
                        Some(Heard::Close) => break Some(true),
                        // What it says meanwhile, it says to nobody.
                        _ => {}
                    }
                }
                Ok(None) => break None,
                Err(_) => break Some(false),
            }
        };
        self.begun.drain(..from);
        answer
    }
}

/// The request that ends a session.
fn deletion(speech: &Speech, session: &[u8]) -> Vec<u8> {
    let Speech { authority, path, fields, .. } = speech;
    let mut head = format!("DELETE {path} HTTP/1.1\r\nHost: {authority}\r\n");
    for field in fields {
        push_field(&mut head, field.name(), field.value());
    }
    push_field(&mut head, "MCP-Protocol-Version", Era::Legacy.revision());
    head.push_str("Mcp-Session-Id: ");
    [head.as_bytes(), session, b"\r\n\r\n"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialogue::field::Field;
    use crate::wire::lines::LineReader;

    fn parting(transport: Transport, reader: Reader, session: Option<&str>) -> (Parting, Goodbye) {
        let speech = Speech {
            transport,
            era: Era::Legacy,
            authority: "localhost:1".into(),
            path: "/mcp".into(),
            fields: vec![Field::bearer("secret").unwrap()],
        };
        let session = session.map(|session| session.as_bytes().into());
        Parting::new(&speech, Left { reader, begun: Vec::new(), session })
    }

    #[test]
    fn a_session_is_deleted_by_whom_it_belongs_to_and_the_answer_awaited() {
        let (mut parting, goodbye) =
            parting(Transport::Http, Reader::Responses(Box::default()), Some("s-1"));
        let Goodbye::Words(words) = goodbye else { panic!("{goodbye:?}") };
        let words = String::from_utf8(words).unwrap();
        assert!(words.starts_with("DELETE /mcp HTTP/1.1\r\n"), "{words}");
        for field in ["Mcp-Session-Id: s-1", "Authorization: Bearer secret"] {
            assert!(words.lines().any(|line| line == field), "{words}");
        }
        assert!(words.ends_with("\r\n\r\n"));
        assert_eq!(parting.hear(b"HTTP/1.1 204 No"), None);
        assert_eq!(parting.hear(b" Content\r\n\r\n"), Some(true));
        let refused = b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(parting.hear(refused), Some(false));
        assert_eq!(parting.hear(b"nonsense\r\n\r\n"), Some(false));
    }

    #[test]
    fn a_post_without_a_session_needs_no_goodbye() {
        let (_, goodbye) = parting(Transport::Http, Reader::Responses(Box::default()), None);
        assert_eq!(goodbye, Goodbye::Nothing);
    }

    #[test]
    fn a_websocket_is_closed_by_both_ends() {
        let (mut parting, goodbye) =
            parting(Transport::WebSocket, Reader::Frames(Box::default()), None);
        assert!(matches!(goodbye, Goodbye::Words(words) if words[0] == 0x88));
        assert_eq!(parting.hear(b"\x81\x02hi"), None);
        assert_eq!(parting.hear(b"\x88\x02\x03\xE8"), Some(true));
    }

    #[test]
    fn lines_end_with_the_stream() {
        let (mut parting, goodbye) =
            parting(Transport::Tcp, Reader::Lines(LineReader::default()), None);
        assert_eq!(goodbye, Goodbye::Finish);
        assert_eq!(parting.hear(b"{}\n"), None);
    }
}
