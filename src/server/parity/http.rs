//! Requests of the dialect over HTTP, on the shard of their session.
//!
//! Invariants: each request gets one response; a session over HTTP lives as long as its client
//! sends something, whatever becomes of its connections.

use corelane_base::principal::is_same_caller;
use corelane_parity::error::{ErrorCode, HttpStatus, ParityError};
use corelane_parity::write::{self, Resumption};
use corelane_protocol::error::Error;
use corelane_protocol::json::{PaddedBuffer, Parser};

use super::ParitySessions;
use super::carrier::{Carrier, QueuedChunk, ResponseKind};
use super::output::ParityPath;
use super::session::{ParitySession, is_stream};
use crate::server::owner_id::SessionId;
use crate::server::reply_to::ParityKey;
use crate::server::shard_message::{
    EventPosition, ExchangeAddress, LastEvent, ParityHttpOutput, ParityOp, SessionCaller,
};
use crate::telemetry::label::Transport;

impl ParityPath<'_> {
    /// Handles a request for a session, or the handshake of a new one.
    pub fn handle_request(
        &mut self,
        parser: &mut Parser,
        session: Option<SessionId>,
        address: ExchangeAddress,
        caller: &SessionCaller,
        op: ParityOp,
    ) {
        let names_session = session.is_none();
        let session = session.or_else(|| self.named_session(&op, caller));
        let found = match session {
            Some(id) => {
                let key = self.parity.find(id);
                key.filter(|key| self.is_of_caller(*key, caller)).ok_or_else(unknown_session)
            }
            None => self.begin_session(caller),
        };
        let key = match found {
            Ok(key) => key,
            Err(refused) => return self.send_error(address, &refused),
        };
        self.parity.is_answered = false;
        let response = match &op {
            ParityOp::Message { streams: true, .. } => ResponseKind::Chunks,
            ParityOp::Message { .. } | ParityOp::End => ResponseKind::Message,
            ParityOp::Events { .. } => ResponseKind::Events { names_session },
        };
        let restart = match &op {
            ParityOp::Events { last_event: Some(_), .. } => Some("expired"),
            ParityOp::Events { .. } | ParityOp::Message { .. } | ParityOp::End => None,
        };
        let carrier = Carrier::Exchange { address, caller, response, restart };
        match op {
            ParityOp::End => {
                self.end_session(key);
                return self.send_empty(address, 204, None);
            }
            ParityOp::Events { last_event, .. } if session.is_some() => {
                self.record_received(key);
                self.attach_events(carrier, key, last_event);
            }
            ParityOp::Events { handshake: None, .. } => {}
            ParityOp::Message { mut text, .. }
            | ParityOp::Events { handshake: Some(mut text), .. } => {
                let bytes = text.as_bytes().len();
                self.outbox.counters.traffic.messages_in += 1;
                self.receive_text(parser, carrier, key, &mut text, bytes);
            }
        }
        let begun = self.parity.get(key).is_some_and(ParitySession::has_begun);
        if session.is_none() && !begun {
            self.end_session(key);
        }
        if !self.parity.is_answered {
            self.send_empty(address, 202, session);
        }
    }

    /// Handles the text of a message of a session.
    pub(super) fn receive_text(
        &mut self,
        parser: &mut Parser,
        carrier: Carrier<'_>,
        key: ParityKey,
        text: &mut PaddedBuffer,
        bytes: usize,
    ) {
        let received = parser.read(&mut text.text(), |document| {
            self.receive_from(carrier, key, document.root(), bytes);
        });
        if let Err(error) = received {
            let error = ParityError::from(&Error::from(error));
            let status = HttpStatus::new(400);
            self.reply(carrier, key, status, |out| write::error(out, None, &error));
        }
    }

    /// Returns the session of the caller that the last event of an event stream names.
    fn named_session(&self, op: &ParityOp, caller: &SessionCaller) -> Option<SessionId> {
        let ParityOp::Events { last_event: Some(last_event), .. } = op else { return None };
        let key = self.parity.find(last_event.session?)?;
        self.is_of_caller(key, caller).then_some(last_event.session).flatten()
    }

    /// Attaches the event stream of a session. It continues after the last event that the client
    /// has, if that is known.
    fn attach_events(
        &mut self,
        carrier: Carrier<'_>,
        key: ParityKey,
        last_event: Option<LastEvent>,
    ) {
        let Some(last_event) = last_event else { return self.send_ack(carrier, key, None) };
        match rewind(self.parity, key, last_event) {
            Ok(streams) => self.send_ack(carrier, key, Some(Resumption::Resumed(&streams))),
            Err(reason) => self.send_ack(carrier, key, Some(Resumption::Restart(reason))),
        }
    }

    /// Begins a session over HTTP.
    fn begin_session(&mut self, caller: &SessionCaller) -> Result<ParityKey, NoSession> {
        let created = self.create_session(Transport::Http);
        let Some(key) = created else {
            let message = "the server has too many sessions; try again later";
            let error = ParityError::rate_limited(message, 1_000);
            return Err(NoSession { status: error.http_status(), error });
        };
        self.attach_http(key, caller);
        Ok(key)
    }

    fn record_received(&mut self, key: ParityKey) {
        let now = self.now;
        if let Some(session) = self.parity.get_mut(key) {
            session.protocol.record_received(now);
        }
    }

    /// Returns whether a session over HTTP belongs to the caller.
    fn is_of_caller(&self, key: ParityKey, caller: &SessionCaller) -> bool {
        let Some(session) = self.parity.get(key) else { return false };
        if session.carrier.http().is_none() {
            return false;
        }
        let [owner, caller] = [session.state.principal(), caller.principal.as_ref()];
        is_same_caller(owner.map(|it| &**it), caller.map(|it| &**it))
    }

    fn send_error(&mut self, address: ExchangeAddress, refused: &NoSession) {
        let mut text = Vec::new();
        write::error(&mut text, None, &refused.error);
        let status = refused.status;
        let output = ParityHttpOutput::Response { status, session: None, text };
        self.forward(address, output);
    }

    fn send_empty(&mut self, address: ExchangeAddress, status: u16, session: Option<SessionId>) {
        let status = HttpStatus::new(status);
        let output = ParityHttpOutput::Response { status, session, text: Vec::new() };
        self.forward(address, output);
    }

    /// An exchange was closed: its call is cancelled, a stream continues on the event stream.
    pub fn close_exchange(&mut self, session: SessionId, exchange: ExchangeAddress) {
        let Some(key) = self.parity.find(session) else { return };
        let session = self.parity.get_mut(key);
        let closed = session.and_then(|it| it.carrier.http_mut()?.remove(exchange));
        if let Some(closed) = closed.filter(|number| !is_stream(*number)) {
            self.cancel_if(key, |number| number == closed);
        }
    }
}

/// Queues the chunks after the last event that a client has, before those that were not sent.
/// Returns the streams, each with the number of its next chunk.
///
/// # Errors
///
/// The reason why its client has to start again.
fn rewind(
    parity: &mut ParitySessions,
    key: ParityKey,
    last_event: LastEvent,
) -> Result<Vec<(String, u64)>, &'static str> {
    let session = parity.get_mut(key).ok_or("expired")?;
    if !session.is_resumable() {
        return Err("feature_not_available");
    }
    let streams = &mut session.protocol.streams;
    let place = match last_event.position.ok_or("unknown_stream")? {
        EventPosition::Start => None,
        EventPosition::Chunk { stream, seq } => {
            let stream = streams.find_mut(&stream).ok_or("unknown_stream")?;
            Some((stream.number(), seq))
        }
    };
    let http = session.carrier.http_mut().ok_or("expired")?;
    let places = http.rewind_events(place).ok_or("stale_window")?;
    let repeated = places.into_iter().map(|(number, seq)| {
        let stream = streams.get_mut(number)?;
        let (id, text) = (format!("{}:{seq}", stream.id()), stream.text_of(seq)?.to_vec());
        Some(QueuedChunk { id: id.into(), place: (number, seq), text })
    });
    let repeated: Option<Vec<_>> = repeated.collect();
    http.queue_before(repeated.ok_or("stale_window")?);
    let queued = http.next_queued();
    let streams = session.protocol.streams.iter().map(|stream| {
        let next = queued.get(&stream.number()).copied().unwrap_or_else(|| stream.next_seq());
        (stream.id().to_owned(), next)
    });
    Ok(streams.collect())
}

/// Why a request has no session.
struct NoSession {
    status: HttpStatus,
    error: ParityError,
}

fn unknown_session() -> NoSession {
    let message = "the session has expired or does not exist: send a handshake";
    let error = ParityError::new(ErrorCode::Internal, message);
    let error = error.with_details(r#"{"reason":"unknown_session"}"#);
    NoSession { status: HttpStatus::new(404), error }
}
