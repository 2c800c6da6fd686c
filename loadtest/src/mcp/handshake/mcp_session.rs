//! The handshake of MCP: a session of the library's client up to its first request.

use std::error::Error;
use std::sync::Arc;

use corelane_base::time::Instant;
use corelane_client::session::{
    MessageSink, OutgoingKind, OutgoingMessage, Session, SessionBuffers, SessionContext,
    SessionEvent,
};
use corelane_client::{ClientError, ClientErrorKind};
use corelane_protocol::json::{PaddedBuffer, ParseLimits, Parser};

use super::{ConnectError, SessionResult};
use crate::mcp::request_settings::RequestSettings;
use crate::metrics::outcome::Failure;
use crate::target::{Era, Transport};

/// A session with the messages that are not sent yet.
#[derive(Debug)]
pub(super) struct McpSession {
    session: Session<()>,
    outgoing: Outgoing,
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
                MessageClass::Request => settings.handshake_fields(),
                _ => settings.http_fields(session_id),
            };
            settings.write_message(&mut out, &text, &fields);
        }
        out
    }
}

impl McpSession {
    pub(super) fn new(settings: &RequestSettings) -> Self {
        let session = Session::new(Arc::clone(settings.session()));
        Self { session, outgoing: Outgoing::default() }
    }

    /// Returns the first message, framed.
    pub(super) fn start(&mut self, settings: &RequestSettings) -> Vec<u8> {
        self.with_session(|session, ctx| session.start(false, ctx));
        self.take_output(settings, None)
    }

    /// Handles a message of the server. A refusal in the modern era shows that it reads.
    pub(super) fn receive(&mut self, settings: &RequestSettings, text: &[u8]) -> SessionResult {
        let mut padded = PaddedBuffer::copy_of(text);
        let events = self.with_session(|session, ctx| {
            session.receive(padded.text(), &mut Parser::new(ParseLimits::default()), ctx);
        });
        settings.record_server(|| self.session.server()?.implementation.clone());
        let mut result = SessionResult::Continue;
        for event in events {
            let error = match event {
                SessionEvent::HandshakeFailed(_) if settings.era == Era::Modern => {
                    return SessionResult::Usable;
                }
                SessionEvent::HandshakeFailed(error) => session_error(&error),
                SessionEvent::Violation(_) => ConnectError::new(Failure::Garbage, text),
                _ => continue,
            };
            result = SessionResult::Failed(error);
            if settings.transport != Transport::Http {
                break;
            }
        }
        result
    }

    pub(super) fn is_open(&self) -> bool {
        self.session.server().is_some()
    }

    /// Returns the messages that are to be sent, framed.
    pub(super) fn take_output(
        &mut self,
        settings: &RequestSettings,
        session_id: Option<&str>,
    ) -> Vec<u8> {
        self.outgoing.frame(settings, session_id)
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
}

/// Describes a handshake that the session has failed.
fn session_error(error: &ClientError) -> ConnectError {
    let cause = error.source().and_then(<dyn Error>::downcast_ref::<ClientError>);
    let failure = match cause.unwrap_or(error).kind() {
        ClientErrorKind::Rpc { .. } | ClientErrorKind::Unauthorized { .. } => Failure::Rpc,
        _ => Failure::Garbage,
    };
    ConnectError { failure, message: error.to_string().escape_debug().to_string() }
}
