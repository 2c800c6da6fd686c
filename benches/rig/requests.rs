//! The requests that the whole-process benches send, and the check of what comes back: lines, the
//! same texts as posts of HTTP/1.1, and, by `frames`, as frames of WebSocket.
//!
//! Ids have a fixed width, so one template serves a whole run: only nine digits change from call
//! to call, and every right answer of one server has the same length. A wrong answer is therefore
//! noticed by counting bytes, and a sample is parsed and compared in full.

use std::io;
use std::net::SocketAddr;

use serde_json::Value;

/// Bytes that the echo tool is asked to say back, where nothing else is said.
pub(crate) const MESSAGE_BYTES: usize = 32;

/// The first id of a connection; nine digits, and so are all that follow it in one run.
pub(crate) const FIRST_ID: u64 = 100_000_000;

/// The last id of nine digits.
pub(crate) const LAST_ID: u64 = 999_999_999;

/// Digits of every id.
pub(crate) const ID_DIGITS: usize = 9;

/// Bytes of a session's name.
pub(crate) const SESSION_BYTES: usize = 36;
/// Stands for the name of a session until [`Template::address`] writes one over it.
const NO_SESSION: &str = "00000000-0000-0000-0000-000000000000";

/// Opens a session of revision 2025-11-25. The answer must be waited for.
pub(crate) const INITIALIZE: &str = concat!(
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"#,
    r#""protocolVersion":"2025-11-25","capabilities":{},"#,
    r#""clientInfo":{"name":"bench","version":"1"}}}"#,
    "\n"
);

/// Ends the opening of a session. It has no answer.
pub(crate) const INITIALIZED: &str =
    concat!(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, "\n");

/// Makes a call modern: the last member of its params, with the comma before it.
pub(crate) const META: &str = concat!(
    r#","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
    r#""io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"#,
    r#""io.modelcontextprotocol/clientCapabilities":{}}"#
);

/// How a call says which protocol it speaks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Era {
    /// A session is opened first; calls are short.
    Legacy,
    /// Each call says everything in its `_meta`.
    Modern,
}

impl Era {
    /// The word for it on the command line and in the tables.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }
}

/// One request whose id can be changed in place: a line, a post, or a frame.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    text: Vec<u8>,
    id_at: usize,
    /// What the digits of the id are masked with: nothing, but in a frame.
    id_mask: [u8; ID_DIGITS],
    session_at: Option<usize>,
    /// What the echo tool is asked to say back.
    message: String,
}

impl Template {
    /// The call of the echo tool, in `era`, with its newline, and with a message of this length.
    pub(crate) fn echo(era: Era, message_bytes: usize) -> Self {
        let message = message(message_bytes);
        Self::new(format!("{}\n", echo_call(era, &message)), message)
    }

    /// The same call without its newline.
    pub(crate) fn echo_text(era: Era, message_bytes: usize) -> Self {
        let message = message(message_bytes);
        Self::new(echo_call(era, &message), message)
    }

    /// The same call as a post to `host`.
    pub(crate) fn echo_post(era: Era, message_bytes: usize, host: SocketAddr) -> Self {
        let message = message(message_bytes);
        let fields = match era {
            Era::Legacy => legacy_fields(NO_SESSION),
            Era::Modern => modern_fields("tools/call", Some("echo")),
        };
        Self::new(post(host, &fields, &echo_call(era, &message)), message)
    }

    /// The modern request for the tools as a post to `host`.
    pub(crate) fn list_post(host: SocketAddr) -> Self {
        let meta = META.trim_start_matches(',');
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{FIRST_ID},"method":"tools/list","params":{{{meta}}}}}"#
        );
        Self::new(post(host, &modern_fields("tools/list", None), &body), String::new())
    }

    fn new(text: String, message: String) -> Self {
        let id_at = text.find(&FIRST_ID.to_string()).unwrap_or(text.len());
        let session_at = text.find(NO_SESSION);
        Self { text: text.into_bytes(), id_at, id_mask: [0; ID_DIGITS], session_at, message }
    }

    /// The request behind the head of a frame, which masks it (RFC 6455, section 5.3).
    pub(crate) fn behind(mut self, head: &[u8], mask: [u8; 4]) -> Self {
        for (byte, mask) in self.text.iter_mut().zip(mask.iter().cycle()) {
            *byte ^= mask;
        }
        for (place, byte) in self.id_mask.iter_mut().enumerate() {
            *byte = mask[(self.id_at + place) % mask.len()];
        }
        self.text.splice(..0, head.iter().copied());
        self.id_at += head.len();
        self
    }

    /// Bytes of one request, with its newline where it is a line.
    pub(crate) const fn bytes(&self) -> usize {
        self.text.len()
    }

    /// `count` such requests, one behind the other.
    pub(crate) fn repeat(&self, count: usize) -> Vec<u8> {
        self.text.repeat(count)
    }

    /// Writes `id` into the request at `place` of a buffer made by [`Self::repeat`].
    #[inline]
    pub(crate) fn number(&self, buffer: &mut [u8], place: usize, id: u64) {
        let start = place * self.text.len() + self.id_at;
        let masked = digits(id).into_iter().zip(self.id_mask).map(|(digit, mask)| digit ^ mask);
        for (byte, digit) in buffer[start..start + ID_DIGITS].iter_mut().zip(masked) {
            *byte = digit;
        }
    }

    /// Writes the name of a session into every request of such a buffer, where it has a place.
    pub(crate) fn address(&self, buffer: &mut [u8], session: &[u8; SESSION_BYTES]) {
        if let Some(at) = self.session_at {
            for request in buffer.chunks_exact_mut(self.text.len()) {
                request[at..at + SESSION_BYTES].copy_from_slice(session);
            }
        }
    }

    /// Reads one answer of the echo tool: it must be JSON with this id, and either say the message
    /// back as the result of the tool or, where a bare echo answered, be the call itself.
    pub(crate) fn check(&self, text: &[u8], id: u64) -> io::Result<()> {
        let answer: Value = serde_json::from_slice(text)?;
        let said = answer
            .pointer("/result/content/0/text")
            .or_else(|| answer.pointer("/params/arguments/message"));
        if answer["id"].as_u64() == Some(id) && said.and_then(Value::as_str) == Some(&self.message)
        {
            return Ok(());
        }
        let text = String::from_utf8_lossy(text);
        Err(io::Error::other(format!("the call {id} got a wrong answer: {text}")))
    }
}

/// The decimal digits of an id.
#[inline]
pub(crate) fn digits(id: u64) -> [u8; ID_DIGITS] {
    let mut rest = id;
    let mut digits = [b'0'; ID_DIGITS];
    for digit in digits.iter_mut().rev() {
        *digit += u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
    }
    digits
}

/// A message of this length.
pub(crate) fn message(bytes: usize) -> String {
    ('a'..='z').cycle().take(bytes).collect()
}

/// The call of the echo tool.
fn echo_call(era: Era, message: &str) -> String {
    let meta = match era {
        Era::Legacy => "",
        Era::Modern => META,
    };
    format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{FIRST_ID},\"method\":\"tools/call\",\"params\":{{\
         \"name\":\"echo\",\"arguments\":{{\"message\":\"{message}\"}}{meta}}}}}"
    )
}

/// What a post of revision 2026-07-28 says in its head (basic/transports/streamable-http).
pub(crate) fn modern_fields(method: &str, name: Option<&str>) -> String {
    let name = name.map_or_else(String::new, |name| format!("Mcp-Name: {name}\r\n"));
    format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{name}")
}

/// What a post within a session of revision 2025-11-25 says in its head.
pub(crate) fn legacy_fields(session: &str) -> String {
    format!("MCP-Protocol-Version: 2025-11-25\r\nMcp-Session-Id: {session}\r\n")
}

/// A post to `host` with these further fields, each with its line end. A newline behind the text is
/// none of it.
pub(crate) fn post(host: SocketAddr, fields: &str, text: &str) -> String {
    let text = text.trim_ascii_end();
    format!(
        "POST /mcp HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\n{fields}Content-Length: {}\r\n\r\n{text}",
        text.len()
    )
}
