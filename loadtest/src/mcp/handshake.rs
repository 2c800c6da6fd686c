//! The handshake of a connection before its first request.
//!
//! ```text
//!  modern   TCP, HTTP          none
//!           stdio              server/discover
//!           WebSocket          upgrade
//!  legacy   TCP, stdio         initialize, then notifications/initialized
//!           WebSocket          upgrade, then as above
//!           HTTP               initialize, then POST of notifications/initialized in the session
//! ```
//!
//! Invariants: a connection counts as open only after the server accepted every step; a refusal
//! carries the server's message.
//!
//! A program that was just started takes time until it reads. `server/discover`, which every modern
//! server must implement, shows when it does, so that no request includes the start of its server.
//! Any response is accepted.

use httparse::{EMPTY_HEADER, Header, Status};

use super::message_kind::{MessageKind, classify_message};
use super::request_template::{
    INITIALIZED_TEXT, RequestSettings, discover_text, frame_message, initialize_text, push_field,
};
use crate::metrics::outcome::Failure;
use crate::target::{Era, Transport};
use crate::wire::lines::LineReader;
use crate::wire::{Reader, WireEvent};

/// Bytes of a server message that an error quotes.
const QUOTED_BYTES_MAX: usize = 200;
/// `Sec-WebSocket-Key` of every upgrade: 16 bytes, which need not be secret (RFC 6455 section 4.1).
const UPGRADE_KEY: &str = "Y29yZWxhbmUtbG9hZC1nZQ==";
/// The `Sec-WebSocket-Accept` value for that key (RFC 6455 section 4.2.2).
const UPGRADE_ACCEPT: &str = "mY3BX7hrNcyiYHhxDOajVqtUBxM=";

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum HandshakeStep {
    Upgrade,
    Discover,
    Initialize,
    Initialized,
    Complete,
}

/// Handshake in progress.
#[derive(Debug)]
pub struct Handshake {
    step: HandshakeStep,
    reader: Reader,
    buffered: Vec<u8>,
    session: Option<Box<[u8]>>,
    /// Whether the server accepted `initialize`.
    is_initialized: bool,
    /// Error in the body of an unfinished HTTP response, whose status takes precedence.
    error: Option<ConnectError>,
}

/// Next action of a handshake.
#[derive(Debug)]
pub enum HandshakeProgress {
    /// Wait for more bytes.
    Wait,
    /// Send these bytes.
    Send(Vec<u8>),
    /// The connection is open. These bytes, which get no response, must be sent first.
    Open(Vec<u8>),
}

/// Error of a connection that did not open.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConnectError {
    /// How it is counted.
    pub failure: Failure,
    /// Message of the server or description of the error.
    pub message: String,
}

impl ConnectError {
    pub(super) fn new(failure: Failure, message: &[u8]) -> Self {
        let text = String::from_utf8_lossy(&message[..message.len().min(QUOTED_BYTES_MAX)]);
        Self { failure, message: text.escape_debug().to_string() }
    }
}

impl Handshake {
    /// Creates the handshake for this transport and era.
    pub fn new(settings: &RequestSettings) -> Self {
        let step = match (settings.transport, settings.era) {
            (Transport::WebSocket, _) => HandshakeStep::Upgrade,
            (Transport::Stdio, Era::Modern) => HandshakeStep::Discover,
            (_, Era::Modern) => HandshakeStep::Complete,
            _ => HandshakeStep::Initialize,
        };
        let reader = match settings.transport {
            Transport::Tcp | Transport::Stdio => Reader::Lines(LineReader::default()),
            Transport::Http => Reader::Responses(Box::default()),
            Transport::WebSocket => Reader::Frames(Box::default()),
        };
        Self {
            step,
            reader,
            buffered: Vec::new(),
            session: None,
            is_initialized: false,
            error: None,
        }
    }

    /// Returns the first action.
    pub fn begin(&self, settings: &RequestSettings) -> HandshakeProgress {
        match self.step {
            HandshakeStep::Upgrade => HandshakeProgress::Send(upgrade_request(settings)),
            HandshakeStep::Complete => HandshakeProgress::Open(Vec::new()),
            HandshakeStep::Discover => {
                HandshakeProgress::Send(frame_message(settings, &discover_text(), "", None))
            }
            _ => HandshakeProgress::Send(frame_message(
                settings,
                &initialize_text(settings.era),
                "initialize",
                None,
            )),
        }
    }

    /// Processes received bytes up to the next action. Must be called again with no bytes until it
    /// returns [`HandshakeProgress::Wait`] or the handshake is complete.
    ///
    /// # Errors
    ///
    /// Returns an error if the server refuses or sends invalid data.
    pub fn receive(
        &mut self,
        settings: &RequestSettings,
        arrived: &[u8],
    ) -> Result<HandshakeProgress, ConnectError> {
        self.buffered.extend_from_slice(arrived);
        if self.step == HandshakeStep::Upgrade {
            return self.receive_upgrade(settings);
        }
        while self.step != HandshakeStep::Complete {
            let begun = std::mem::take(&mut self.buffered);
            let (taken, progress) = self.read_response(settings, &begun)?;
            self.buffered = begun;
            self.buffered.drain(..taken.unwrap_or_default());
            match progress {
                Some(progress) => return Ok(progress),
                None if taken.is_none() => break,
                None => {}
            }
        }
        Ok(HandshakeProgress::Wait)
    }

    /// Handles the end of the stream. Returns whether [`Handshake::receive`] has to be called.
    pub fn end(&mut self) -> bool {
        self.reader.end()
    }

    /// Returns the reader, its unconsumed bytes, and the session id after the handshake.
    pub fn finish(self) -> (Reader, Vec<u8>, Option<Box<[u8]>>) {
        // Frees the buffer that held the response to `initialize`: most connections need none.
        let begun = if self.buffered.is_empty() { Vec::new() } else { self.buffered };
        (self.reader, begun, self.session)
    }

    fn receive_upgrade(
        &mut self,
        settings: &RequestSettings,
    ) -> Result<HandshakeProgress, ConnectError> {
        let mut fields = [EMPTY_HEADER; 32];
        let mut response = httparse::Response::new(&mut fields);
        let length = match response.parse(&self.buffered) {
            Ok(Status::Complete(length)) => length,
            Ok(Status::Partial) => return Ok(HandshakeProgress::Wait),
            Err(_) => return Err(ConnectError::new(Failure::Garbage, &self.buffered)),
        };
        if response.code != Some(101) {
            let failure = status_failure(response.code.unwrap_or_default());
            return Err(ConnectError::new(failure, &self.buffered));
        }
        let accepts = |field: &Header<'_>| {
            field.name.eq_ignore_ascii_case("sec-websocket-accept")
                && field.value.trim_ascii() == UPGRADE_ACCEPT.as_bytes()
        };
        if !response.headers.iter().any(accepts) {
            return Err(ConnectError::new(Failure::Garbage, &self.buffered));
        }
        self.buffered.drain(..length);
        if settings.era == Era::Modern {
            self.step = HandshakeStep::Complete;
            return Ok(HandshakeProgress::Open(Vec::new()));
        }
        self.step = HandshakeStep::Initialize;
        Ok(HandshakeProgress::Send(frame_message(
            settings,
            &initialize_text(settings.era),
            "initialize",
            None,
        )))
    }

    /// Reads the response that the current step waits for.
    fn read_response(
        &mut self,
        settings: &RequestSettings,
        bytes: &[u8],
    ) -> Result<(Option<usize>, Option<HandshakeProgress>), ConnectError> {
        let look = self.reader.read_next(bytes);
        let look =
            look.map_err(|broken| ConnectError::new(Failure::Garbage, broken.0.as_bytes()))?;
        let Some((taken, event)) = look else { return Ok((None, None)) };
        let is_response = settings.transport == Transport::Http;
        let progress = match event {
            Some(WireEvent::Message(text)) => {
                let failure = match classify_message(text, |_| None) {
                    MessageKind::Response { id: 0, .. } if self.step == HandshakeStep::Discover => {
                        self.step = HandshakeStep::Complete;
                        return Ok((Some(taken), Some(HandshakeProgress::Open(Vec::new()))));
                    }
                    MessageKind::Response { id: 0, failure } => failure,
                    // Other messages may come before the response.
                    MessageKind::Notification | MessageKind::Request { .. } => {
                        return Ok((Some(taken), None));
                    }
                    MessageKind::Response { failure: Some(failure), .. } => Some(failure),
                    _ => Some(Failure::Garbage),
                };
                let refused = failure.map(|failure| ConnectError::new(failure, text));
                match (refused, is_response) {
                    (Some(refused), false) => return Err(refused),
                    (refused, true) => {
                        self.is_initialized = refused.is_none();
                        self.error = refused;
                        None
                    }
                    (None, false) => {
                        self.step = HandshakeStep::Complete;
                        Some(HandshakeProgress::Open(frame_message(
                            settings,
                            INITIALIZED_TEXT,
                            "",
                            None,
                        )))
                    }
                }
            }
            Some(WireEvent::ResponseEnd { status, .. }) if status >= 300 => {
                let body = self.error.take().map_or_else(String::new, |error| error.message);
                return Err(ConnectError {
                    failure: status_failure(status),
                    message: format!("{status} {body}"),
                });
            }
            Some(WireEvent::ResponseEnd { session, .. }) => {
                let session = session.map(Box::from);
                Some(self.complete_response(settings, session)?)
            }
            Some(WireEvent::Reply(reply)) => Some(HandshakeProgress::Send(reply.to_vec())),
            Some(WireEvent::Close) => {
                return Err(ConnectError::new(Failure::Closed, b"the server closed the WebSocket"));
            }
            None => None,
        };
        Ok((Some(taken), progress))
    }

    /// Proceeds to the next step after a successful HTTP response.
    fn complete_response(
        &mut self,
        settings: &RequestSettings,
        session: Option<Box<[u8]>>,
    ) -> Result<HandshakeProgress, ConnectError> {
        match (self.step, self.error.take()) {
            (_, Some(error)) => Err(error),
            (HandshakeStep::Initialize, None) if self.is_initialized => {
                self.step = HandshakeStep::Initialized;
                self.session = session;
                let session = self.session.as_deref();
                Ok(HandshakeProgress::Send(frame_message(settings, INITIALIZED_TEXT, "", session)))
            }
            (HandshakeStep::Initialized, None) => {
                self.step = HandshakeStep::Complete;
                Ok(HandshakeProgress::Open(Vec::new()))
            }
            _ => Err(ConnectError::new(Failure::Garbage, b"no response to initialize")),
        }
    }
}

/// Returns how an HTTP status other than success is counted.
pub(super) const fn status_failure(status: u16) -> Failure {
    match status {
        500..600 => Failure::Http5xx,
        _ => Failure::Http4xx,
    }
}

fn upgrade_request(settings: &RequestSettings) -> Vec<u8> {
    let RequestSettings { authority, path, fields, .. } = settings;
    let mut head = format!(
        "GET {path} HTTP/1.1\r\nHost: {authority}\r\nUpgrade: websocket\r\n\
         Connection: Upgrade\r\nSec-WebSocket-Key: {UPGRADE_KEY}\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mcp\r\n"
    );
    for field in fields {
        push_field(&mut head, field.name(), field.value());
    }
    head.push_str("\r\n");
    head.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const INITIALIZE_RESPONSE: &str = "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{}}";

    fn settings(transport: Transport, era: Era) -> RequestSettings {
        RequestSettings {
            transport,
            era,
            authority: "localhost:1".into(),
            path: "/mcp".into(),
            fields: Vec::new(),
        }
    }

    fn response(status: &str, body: &str) -> String {
        let length = body.len();
        format!("HTTP/1.1 {status}\r\nMcp-Session-Id: s1\r\nContent-Length: {length}\r\n\r\n{body}")
    }

    /// Passes each response in turn; returns what was sent, or the error.
    fn open(
        settings: &RequestSettings,
        answers: &[&str],
    ) -> Result<(Handshake, String), ConnectError> {
        let mut opening = Handshake::new(settings);
        let mut sent = String::new();
        let mut note = |bytes: &[u8]| sent.push_str(&String::from_utf8_lossy(bytes));
        match opening.begin(settings) {
            HandshakeProgress::Send(bytes) => note(&bytes),
            _ => return Ok((opening, sent)),
        }
        for answer in answers {
            let mut arrived = answer.as_bytes();
            loop {
                match opening.receive(settings, std::mem::take(&mut arrived))? {
                    HandshakeProgress::Wait => break,
                    HandshakeProgress::Send(bytes) => note(&bytes),
                    HandshakeProgress::Open(bytes) => {
                        note(&bytes);
                        return Ok((opening, sent));
                    }
                }
            }
        }
        panic!("still opening after {sent}");
    }

    #[test]
    fn modern_tcp_handshake_is_empty() {
        let (_, sent) = open(&settings(Transport::Tcp, Era::Modern), &[]).unwrap();
        assert!(sent.is_empty());
    }

    #[test]
    fn modern_stdio_handshake_accepts_any_discover_response() {
        let error = "{\"id\":0,\"error\":{\"code\":-32601}}\n".to_owned();
        for answer in [format!("{INITIALIZE_RESPONSE}\nmore"), error + "more"] {
            let (opening, sent) =
                open(&settings(Transport::Stdio, Era::Modern), &[&answer]).unwrap();
            assert!(sent.contains("\"id\":0,\"method\":\"server/discover\""), "{sent}");
            assert!(sent.contains("2026-07-28") && sent.lines().count() == 1, "{sent}");
            assert_eq!(opening.finish().1, b"more");
        }
    }

    #[test]
    fn legacy_handshake_over_lines_sends_initialize() {
        let answer =
            format!("{{\"method\":\"notifications/message\"}}\n{INITIALIZE_RESPONSE}\nmore");
        for transport in [Transport::Tcp, Transport::Stdio] {
            let (opening, sent) = open(&settings(transport, Era::Legacy), &[&answer]).unwrap();
            assert!(sent.contains("\"initialize\""), "{sent}");
            assert!(sent.ends_with("initialized\"}\n"), "{sent}");
            assert_eq!(opening.finish().1, b"more");
        }
    }

    #[test]
    fn legacy_http_handshake_reuses_session_id() {
        let answers = [response("200 OK", INITIALIZE_RESPONSE), response("202 Accepted", "")];
        let answers = answers.each_ref().map(String::as_str);
        let (opening, sent) = open(&settings(Transport::Http, Era::Legacy), &answers).unwrap();
        assert!(sent.contains("\r\nMcp-Session-Id: s1\r\n"), "{sent}");
        assert_eq!(opening.finish().2.as_deref(), Some(&b"s1"[..]));
    }

    fn upgraded() -> String {
        format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Accept: {UPGRADE_ACCEPT}\r\n\r\n"
        )
    }

    #[test]
    fn legacy_websocket_handshake_upgrades_then_initializes() {
        let upgraded = upgraded();
        let mut bytes: Vec<u8> = vec![0x81, u8::try_from(INITIALIZE_RESPONSE.len()).unwrap()];
        bytes.extend_from_slice(INITIALIZE_RESPONSE.as_bytes());
        let settings = settings(Transport::WebSocket, Era::Legacy);
        let mut opening = Handshake::new(&settings);
        let HandshakeProgress::Send(first) = opening.begin(&settings) else { panic!("an upgrade") };
        assert!(first.starts_with(b"GET /mcp HTTP/1.1\r\n"));
        let Ok(HandshakeProgress::Send(second)) = opening.receive(&settings, upgraded.as_bytes())
        else {
            panic!("a handshake")
        };
        assert_eq!(second[0], 0x81);
        assert!(matches!(opening.receive(&settings, &bytes), Ok(HandshakeProgress::Open(_))));
    }

    #[test]
    fn handshake_error_carries_server_message() {
        let refused = |transport, answer: &str| {
            open(&settings(transport, Era::Legacy), &[answer]).map(|_| ()).unwrap_err()
        };
        let full = refused(Transport::Http, &response("503 Busy", "full"));
        assert_eq!(full.failure, Failure::Http5xx);
        let error = refused(Transport::Tcp, "{\"id\":0,\"error\":{\"code\":-32602}}\n");
        assert_eq!(error.failure, Failure::Rpc);
        assert!(error.message.contains("-32602"));
        assert_eq!(refused(Transport::Tcp, "hello\n").failure, Failure::Garbage);
        let gone = refused(Transport::WebSocket, "HTTP/1.1 404 Not Found\r\n\r\n");
        assert_eq!(gone.failure, Failure::Http4xx);
        let mismatched = refused(Transport::WebSocket, &upgraded().replace("mY3B", "mY3C"));
        assert_eq!(mismatched.failure, Failure::Garbage);
    }
}
