//! The handshake of a connection before its first request.
//!
//! ```text
//!  modern   TCP, HTTP          none
//!           stdio              server/discover
//!           WebSocket          upgrade
//!  legacy   TCP, stdio         initialize, then notifications/initialized
//!           WebSocket          upgrade, then as above
//!           HTTP               initialize, then POST of notifications/initialized in the session
//!  parity   TCP, HTTP, stdio   handshake
//!           WebSocket          upgrade, then as above
//! ```
//!
//! The messages are those of a session of the library's client; this adds HTTP, and what a run
//! accepts.
//!
//! Invariants: a connection counts as open only after the server accepted every step; a refusal
//! carries the server's message.
//!
//! A program that was just started takes time until it reads. `server/discover`, which every modern
//! server must implement, shows when it does, so that no request includes the start of its server.
//! Any response is accepted.

mod mcp_session;
mod parity_session;

use corelane_transport::websocket::client::{UpgradeEvent, UpgradeRequest};

use self::mcp_session::McpSession;
use self::parity_session::ParitySession;
use super::request_settings::RequestSettings;
use crate::metrics::outcome::Failure;
use crate::target::{Era, Transport};
use crate::wire::lines::LineReader;
use crate::wire::{Reader, WireEvent};

/// Bytes of a server message that an error quotes.
const QUOTED_BYTES_MAX: usize = 200;
/// `Sec-WebSocket-Key` of every upgrade, which need not be secret (RFC 6455 section 4.1).
const UPGRADE_KEY: [u8; 16] = *b"corelane-load-ge";

#[derive(Debug)]
enum HandshakeStep {
    Upgrade(Box<UpgradeRequest>),
    Session,
    /// Over HTTP: the server has to accept `notifications/initialized`.
    Initialized,
    Complete,
}

/// Handshake in progress.
#[derive(Debug)]
pub struct Handshake {
    step: HandshakeStep,
    session: HandshakeSession,
    reader: Reader,
    buffered: Vec<u8>,
    session_id: Option<Box<str>>,
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

/// The messages of a handshake.
#[derive(Debug)]
enum HandshakeSession {
    Mcp(Box<McpSession>),
    Parity(Box<ParitySession>),
}

/// Reaction to a message of the server.
#[derive(Debug)]
enum SessionResult {
    /// The handshake goes on, or is complete if the session is.
    Continue,
    /// The connection is usable although the server refused.
    Usable,
    Failed(ConnectError),
}

impl HandshakeSession {
    fn new(settings: &RequestSettings) -> Self {
        if settings.era.is_parity() {
            Self::Parity(Box::default())
        } else {
            Self::Mcp(Box::new(McpSession::new(settings)))
        }
    }

    fn start(&mut self, settings: &RequestSettings) -> Vec<u8> {
        match self {
            Self::Mcp(session) => session.start(settings),
            Self::Parity(session) => session.start(settings),
        }
    }

    fn receive(&mut self, settings: &RequestSettings, text: &[u8]) -> SessionResult {
        match self {
            Self::Mcp(session) => session.receive(settings, text),
            Self::Parity(session) => session.receive(settings, text),
        }
    }

    /// Returns whether the server accepted the handshake.
    fn is_open(&self) -> bool {
        match self {
            Self::Mcp(session) => session.is_open(),
            Self::Parity(session) => session.is_open(),
        }
    }

    /// Returns the messages that are to be sent, framed.
    fn take_output(&mut self, settings: &RequestSettings, session_id: Option<&str>) -> Vec<u8> {
        match self {
            Self::Mcp(session) => session.take_output(settings, session_id),
            Self::Parity(_) => Vec::new(),
        }
    }
}

impl Handshake {
    /// Creates the handshake for this transport and era.
    pub fn new(settings: &RequestSettings) -> Self {
        let step = match (settings.transport, settings.era) {
            (Transport::WebSocket, _) => {
                HandshakeStep::Upgrade(Box::new(UpgradeRequest::new(UPGRADE_KEY)))
            }
            (Transport::Tcp | Transport::Http, Era::Modern) => HandshakeStep::Complete,
            _ => HandshakeStep::Session,
        };
        let reader = match settings.transport {
            Transport::Tcp | Transport::Stdio => Reader::Lines(LineReader::default()),
            Transport::Http => Reader::Responses(Box::default()),
            Transport::WebSocket => Reader::Frames(Box::default()),
        };
        Self {
            step,
            session: HandshakeSession::new(settings),
            reader,
            buffered: Vec::new(),
            session_id: None,
            error: None,
        }
    }

    /// Returns the first action.
    pub fn begin(&mut self, settings: &RequestSettings) -> HandshakeProgress {
        match &self.step {
            HandshakeStep::Upgrade(upgrade) => {
                let mut request = Vec::new();
                upgrade.write(&mut request, settings.writer(), &settings.handshake_fields());
                HandshakeProgress::Send(request)
            }
            HandshakeStep::Complete => HandshakeProgress::Open(Vec::new()),
            HandshakeStep::Session | HandshakeStep::Initialized => {
                HandshakeProgress::Send(self.session.start(settings))
            }
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
        if let HandshakeStep::Upgrade(upgrade) = &mut self.step {
            let mut from = 0;
            let event = upgrade.next(arrived, &mut from);
            self.buffered.extend_from_slice(&arrived[from..]);
            return self.handle_upgrade(settings, &event, arrived);
        }
        self.buffered.extend_from_slice(arrived);
        while !matches!(self.step, HandshakeStep::Complete) {
            let buffered = std::mem::take(&mut self.buffered);
            let (taken, progress) = self.read_response(settings, &buffered)?;
            self.buffered = buffered;
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
    pub fn finish(self) -> (Reader, Vec<u8>, Option<Box<str>>) {
        // Frees the buffer that held the response to `initialize`: most connections need none.
        let buffered = if self.buffered.is_empty() { Vec::new() } else { self.buffered };
        (self.reader, buffered, self.session_id)
    }

    fn handle_upgrade(
        &mut self,
        settings: &RequestSettings,
        event: &UpgradeEvent,
        arrived: &[u8],
    ) -> Result<HandshakeProgress, ConnectError> {
        match event {
            UpgradeEvent::NeedMore => Ok(HandshakeProgress::Wait),
            UpgradeEvent::Accepted { .. } if settings.era == Era::Modern => {
                self.step = HandshakeStep::Complete;
                Ok(HandshakeProgress::Open(Vec::new()))
            }
            UpgradeEvent::Accepted { .. } => {
                self.step = HandshakeStep::Session;
                Ok(self.begin(settings))
            }
            UpgradeEvent::Refused(refusal) => Err(refused(refusal.status, &refusal.body)),
            UpgradeEvent::Invalid(reason) => {
                let text = [reason.as_bytes(), b": ", arrived].concat();
                Err(ConnectError::new(Failure::Garbage, &text))
            }
        }
    }

    /// Reads the response that the current step waits for.
    fn read_response(
        &mut self,
        settings: &RequestSettings,
        bytes: &[u8],
    ) -> Result<(Option<usize>, Option<HandshakeProgress>), ConnectError> {
        // Moved out, because its events borrow from it.
        let mut reader = std::mem::replace(&mut self.reader, Reader::Lines(LineReader::default()));
        let read = match reader.read_next(bytes) {
            Ok(Some((taken, event))) => {
                self.handle_event(settings, event).map(|progress| (Some(taken), progress))
            }
            Ok(None) => Ok((None, None)),
            Err(error) => {
                let text = [error.0.as_bytes(), b": ", bytes].concat();
                Err(ConnectError::new(Failure::Garbage, &text))
            }
        };
        self.reader = reader;
        read
    }

    fn handle_event(
        &mut self,
        settings: &RequestSettings,
        event: Option<WireEvent<'_>>,
    ) -> Result<Option<HandshakeProgress>, ConnectError> {
        match event {
            Some(WireEvent::Message(text)) => self.handle_message(settings, text),
            Some(WireEvent::ResponseEnd { status, excerpt, .. }) if status >= 300 => {
                Err(self.error.take().map_or_else(
                    || refused(status, body_of(excerpt)),
                    |ConnectError { failure, message }| ConnectError {
                        failure: match failure {
                            Failure::Parity(_) => failure,
                            _ => status_failure(status),
                        },
                        message: format!("{status} {message}"),
                    },
                ))
            }
            Some(WireEvent::ResponseEnd { session, .. }) => {
                self.complete_response(settings, session.map(Box::from)).map(Some)
            }
            Some(WireEvent::Reply(reply)) => Ok(Some(HandshakeProgress::Send(reply.to_vec()))),
            Some(WireEvent::Close) => {
                Err(ConnectError::new(Failure::Closed, b"the server closed the WebSocket"))
            }
            None => Ok(None),
        }
    }

    fn handle_message(
        &mut self,
        settings: &RequestSettings,
        text: &[u8],
    ) -> Result<Option<HandshakeProgress>, ConnectError> {
        let is_http = settings.transport == Transport::Http;
        match self.session.receive(settings, text) {
            SessionResult::Continue => {}
            SessionResult::Usable => {
                self.step = HandshakeStep::Complete;
                return Ok(Some(HandshakeProgress::Open(Vec::new())));
            }
            SessionResult::Failed(error) if is_http => self.error = Some(error),
            SessionResult::Failed(error) => return Err(error),
        }
        if is_http {
            // What follows is sent once the response is complete.
            return Ok(None);
        }
        let sent = self.session.take_output(settings, None);
        if self.session.is_open() {
            self.step = HandshakeStep::Complete;
            return Ok(Some(HandshakeProgress::Open(sent)));
        }
        Ok((!sent.is_empty()).then_some(HandshakeProgress::Send(sent)))
    }

    /// Proceeds to the next step after a successful HTTP response.
    fn complete_response(
        &mut self,
        settings: &RequestSettings,
        session_id: Option<Box<str>>,
    ) -> Result<HandshakeProgress, ConnectError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        match self.step {
            HandshakeStep::Session if self.session.is_open() => {
                self.session_id = session_id;
                let sent = self.session.take_output(settings, self.session_id.as_deref());
                if sent.is_empty() {
                    self.step = HandshakeStep::Complete;
                    return Ok(HandshakeProgress::Open(Vec::new()));
                }
                self.step = HandshakeStep::Initialized;
                Ok(HandshakeProgress::Send(sent))
            }
            HandshakeStep::Initialized => {
                self.step = HandshakeStep::Complete;
                Ok(HandshakeProgress::Open(Vec::new()))
            }
            _ => Err(ConnectError::new(Failure::Garbage, b"no response to the handshake")),
        }
    }
}

/// Returns the error of an HTTP response with this status.
pub(super) fn refused(status: u16, body: &[u8]) -> ConnectError {
    let ConnectError { message, .. } = ConnectError::new(Failure::Garbage, body.trim_ascii());
    ConnectError { failure: status_failure(status), message: format!("{status} {message}") }
}

/// Returns the body in the excerpt of a response.
pub(super) fn body_of(excerpt: &[u8]) -> &[u8] {
    memchr::memmem::find(excerpt, b"\r\n\r\n").map_or(&[][..], |end| &excerpt[end + 4..])
}

/// Returns how an HTTP status other than success is counted.
pub(super) const fn status_failure(status: u16) -> Failure {
    match status {
        429 => Failure::Http429,
        500..600 => Failure::Http5xx,
        _ => Failure::Http4xx,
    }
}

#[cfg(test)]
mod tests;
