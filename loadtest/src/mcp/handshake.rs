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
//! The messages are those of a session of the library's client; this adds HTTP, and what a run
//! accepts.
//!
//! Invariants: a connection counts as open only after the server accepted every step; a refusal
//! carries the server's message.
//!
//! A program that was just started takes time until it reads. `server/discover`, which every modern
//! server must implement, shows when it does, so that no request includes the start of its server.
//! Any response is accepted.

use std::error::Error;
use std::sync::Arc;

use corelane::base::time::Instant;
use corelane::client::session::{
    MessageSink, OutgoingKind, OutgoingMessage, Session, SessionBuffers, SessionContext,
    SessionEvent,
};
use corelane::client::{ClientError, ClientErrorKind};
use corelane::protocol::json::{PaddedBuffer, ParseLimits, Parser};
use corelane::transport::http::client::request_writer::RequestFields;
use corelane::transport::websocket::client::handshake::{UpgradeEvent, UpgradeRequest};

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
    session: Session<()>,
    /// Messages that are not sent yet.
    outgoing: Outgoing,
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

    /// Describes a handshake that the session has failed.
    fn of_session(error: &ClientError) -> Self {
        let cause = error.source().and_then(<dyn Error>::downcast_ref::<ClientError>);
        let failure = match cause.unwrap_or(error).kind() {
            ClientErrorKind::Rpc { .. } => Failure::Rpc,
            _ => Failure::Garbage,
        };
        Self { failure, message: error.to_string().escape_debug().to_string() }
    }
}

/// What a message of a session is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum MessageClass {
    Request,
    Notification,
    /// Response to a request of the server.
    Response,
}

/// The messages of a session.
#[derive(Debug, Default)]
struct Outgoing(Vec<(MessageClass, Vec<u8>)>);

impl MessageSink for Outgoing {
    fn send(&mut self, message: OutgoingMessage<'_>) {
        let class = match message.kind {
            OutgoingKind::Request { .. } => MessageClass::Request,
            OutgoingKind::Response => MessageClass::Response,
            OutgoingKind::Notification | OutgoingKind::Cancellation { .. } => {
                MessageClass::Notification
            }
        };
        self.0.push((class, message.text.to_vec()));
    }
}

impl Outgoing {
    /// Frames the messages. Over HTTP requests of a handshake are outside of any session. Requests
    /// of the server get no response over HTTP, where one message is sent at a time, and in the
    /// modern era, which has none.
    fn frame(&mut self, settings: &RequestSettings, session_id: Option<&str>) -> Vec<u8> {
        let mut out = Vec::new();
        let answers_requests = settings.transport != Transport::Http && !settings.era.is_modern();
        for (class, text) in self.0.drain(..) {
            let fields = match class {
                MessageClass::Response if !answers_requests => continue,
                MessageClass::Request => RequestFields::default(),
                _ => settings.http_fields(session_id),
            };
            settings.write_message(&mut out, &text, &fields);
        }
        out
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
            session: Session::new(Arc::clone(settings.session())),
            outgoing: Outgoing::default(),
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
                upgrade.write(&mut request, settings.writer(), &RequestFields::default());
                HandshakeProgress::Send(request)
            }
            HandshakeStep::Complete => HandshakeProgress::Open(Vec::new()),
            HandshakeStep::Session | HandshakeStep::Initialized => {
                self.with_session(|session, ctx| session.start(false, ctx));
                HandshakeProgress::Send(self.outgoing.frame(settings, None))
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
    pub fn finish(self) -> (Reader, Vec<u8>, Option<Box<str>>) {
        // Frees the buffer that held the response to `initialize`: most connections need none.
        let begun = if self.buffered.is_empty() { Vec::new() } else { self.buffered };
        (self.reader, begun, self.session_id)
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

    /// Calls the session; returns its events.
    fn with_session(
        &mut self,
        act: impl FnOnce(&mut Session<()>, &mut SessionContext<'_, (), Outgoing>),
    ) -> Vec<SessionEvent<()>> {
        let (mut events, mut buffers) = (Vec::new(), SessionBuffers::default());
        let mut ctx = SessionContext {
            // The time of the handshake is limited by the run.
            now: Instant::ORIGIN,
            sink: &mut self.outgoing,
            events: &mut events,
            buffers: &mut buffers,
        };
        act(&mut self.session, &mut ctx);
        events
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
                    |error| ConnectError {
                        failure: status_failure(status),
                        message: format!("{status} {}", error.message),
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
        let mut padded = PaddedBuffer::copy_of(text);
        let events = self.with_session(|session, ctx| {
            session.receive(padded.text(), &mut Parser::new(ParseLimits::default()), ctx);
        });
        let is_http = settings.transport == Transport::Http;
        for event in events {
            let error = match event {
                SessionEvent::HandshakeFailed(_) if settings.era == Era::Modern => {
                    self.step = HandshakeStep::Complete;
                    return Ok(Some(HandshakeProgress::Open(Vec::new())));
                }
                SessionEvent::HandshakeFailed(error) => ConnectError::of_session(&error),
                SessionEvent::Violation(_) => ConnectError::new(Failure::Garbage, text),
                _ => continue,
            };
            if !is_http {
                return Err(error);
            }
            self.error = Some(error);
        }
        if is_http {
            // What follows is sent once the response is complete.
            return Ok(None);
        }
        let sent = self.outgoing.frame(settings, None);
        if self.session.server().is_some() {
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
            HandshakeStep::Session if self.session.server().is_some() => {
                self.step = HandshakeStep::Initialized;
                self.session_id = session_id;
                let sent = self.outgoing.frame(settings, self.session_id.as_deref());
                Ok(HandshakeProgress::Send(sent))
            }
            HandshakeStep::Initialized => {
                self.step = HandshakeStep::Complete;
                Ok(HandshakeProgress::Open(Vec::new()))
            }
            _ => Err(ConnectError::new(Failure::Garbage, b"no response to initialize")),
        }
    }
}

/// Returns the error of an HTTP response with this status.
fn refused(status: u16, body: &[u8]) -> ConnectError {
    let ConnectError { message, .. } = ConnectError::new(Failure::Garbage, body.trim_ascii());
    ConnectError { failure: status_failure(status), message: format!("{status} {message}") }
}

/// Returns the body in the excerpt of a response.
fn body_of(excerpt: &[u8]) -> &[u8] {
    memchr::memmem::find(excerpt, b"\r\n\r\n").map_or(&[][..], |end| &excerpt[end + 4..])
}

/// Returns how an HTTP status other than success is counted.
pub(super) const fn status_failure(status: u16) -> Failure {
    match status {
        500..600 => Failure::Http5xx,
        _ => Failure::Http4xx,
    }
}

#[cfg(test)]
mod tests;
