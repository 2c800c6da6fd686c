//! What a session receives other than on a connection of its shard: requests over HTTP, and
//! messages between the shard of a connection and the shard of the session that its client has
//! resumed.
//!
//! Invariants: each request gets one response; a session over HTTP lives as long as its client
//! sends something, whatever becomes of its connections. A message of a front that does not carry
//! the session any more is ignored, and so is one for a front that is gone; each message of a
//! client is handled once, in order.

use corelane_base::principal::is_same_caller;
use corelane_parity::error::{HttpStatus, ParityError};
use corelane_parity::write::{self, Resumption};
use corelane_protocol::error::Error;
use corelane_protocol::json::{PaddedBuffer, ParseError, Parser};
use corelane_protocol::message_head::MessageHead;
use corelane_transport::websocket::limits::CloseCode;

use super::ParitySessions;
use super::carrier::{Carrier, QueuedChunk, RemoteConnection, ResponseKind, SessionCarrier};
use super::holders::too_many_sessions;
use super::output::ParityPath;
use super::resume::{self, Claim};
use super::resume_tokens::TokenContents;
use super::session::{ParitySession, is_stream};
use crate::connection::CloseReason;
use crate::server::outbox::Effect;
use crate::server::owner_id::SessionId;
use crate::server::reply_to::ParityKey;
use crate::server::shard_message::{
    CarrierAddress, EventPosition, ExchangeAddress, FrontAddress, LastEvent, ParityHttpOutput,
    ParityOp, RelayedResume, SessionCaller, SessionMessage,
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
                let key = self.parity.find(id).filter(|key| self.is_of_caller(*key, caller));
                key.ok_or_else(ParityError::unknown_session)
            }
            None => self.begin_session(caller),
        };
        let key = match found {
            Ok(key) => key,
            Err(error) => return self.refuse(address, op.text(), &error),
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
                self.end_session(key, Some(&ParityError::session_ended()));
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
            self.end_session(key, None);
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
            let text = text.as_bytes();
            let error = if error.is_invalid_utf8(text) { ParseError::Utf8 } else { error };
            let error = ParityError::from(&Error::from(error));
            self.record_rejection(key, None, &error);
            let head = MessageHead::read(text);
            self.reply(carrier, key, error.http_status(), |out| {
                write::rejection(out, &head, &error);
            });
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
            Ok(Rewound { streams, response }) => {
                if let Some(response) = response {
                    self.forward(response, ParityHttpOutput::End);
                }
                self.send_ack(carrier, key, Some(Resumption::Resumed(&streams)));
            }
            Err(reason) => self.send_ack(carrier, key, Some(Resumption::Restart(reason))),
        }
    }

    /// Begins a session over HTTP.
    fn begin_session(&mut self, caller: &SessionCaller) -> Result<ParityKey, ParityError> {
        let created = self.parity.create(Transport::Http, self.now);
        let key = created.ok_or_else(too_many_sessions)?;
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

    /// Answers a request that has no session. `message`: its text; empty without one.
    fn refuse(&mut self, address: ExchangeAddress, message: &[u8], error: &ParityError) {
        let mut text = Vec::new();
        let head = MessageHead::read(message);
        self.outbox.record_refusal(Transport::Http, &head, message, error);
        write::rejection(&mut text, &head, error);
        let status = error.http_status();
        let (session, fields) = (None, None);
        let output = ParityHttpOutput::Response { status, session, fields, text };
        self.forward(address, output);
    }

    fn send_empty(&mut self, address: ExchangeAddress, status: u16, session: Option<SessionId>) {
        let status = HttpStatus::new(status);
        let (fields, text) = (None, Vec::new());
        let output = ParityHttpOutput::Response { status, session, fields, text };
        self.forward(address, output);
    }

    /// An exchange was closed: its call is cancelled, a stream continues on the event stream.
    fn close_exchange(&mut self, session: SessionId, exchange: ExchangeAddress) {
        let Some(key) = self.parity.find(session) else { return };
        let now = self.now;
        let session = self.parity.get_mut(key);
        let closed = session.and_then(|session| {
            session.protocol.record_busy(now);
            session.carrier.http_mut()?.remove(exchange)
        });
        if let Some(closed) = closed.filter(|number| !is_stream(*number)) {
            self.cancel_if(key, |number| number == closed);
        }
    }
}

/// What a client continues after its last event.
struct Rewound {
    /// The streams, each with the number of its next chunk.
    streams: Vec<(String, u64)>,
    /// The response to a request whose stream goes on as events.
    response: Option<ExchangeAddress>,
}

/// Queues the chunks after the last event that a client has, before those that were not sent: of
/// all streams, if it came on the event stream; of its own one, if it came on the response to the
/// request of that.
///
/// # Errors
///
/// The reason why its client has to start again.
fn rewind(
    parity: &mut ParitySessions,
    key: ParityKey,
    last_event: LastEvent,
) -> Result<Rewound, &'static str> {
    let session = parity.get_mut(key).ok_or("expired")?;
    if !session.is_resumable() {
        return Err("feature_not_available");
    }
    let streams = &mut session.protocol.streams;
    let (place, next_seq) = match last_event.position.ok_or("unknown_stream")? {
        EventPosition::Start => (None, 0),
        EventPosition::Chunk { stream, seq } => {
            let stream = streams.find_mut(&stream).ok_or("unknown_stream")?;
            (Some((stream.number(), seq)), stream.next_seq())
        }
    };
    let http = session.carrier.http_mut().ok_or("expired")?;
    let mut posted = None;
    let places = match (http.rewind_events(place), place) {
        (Some(places), _) => places,
        (None, Some((number, seq))) if http.was_posted(number, seq) => {
            posted = Some(number);
            let end = http.next_queued().get(&number).copied().unwrap_or(next_seq);
            (seq + 1..end).map(|seq| (number, seq)).collect()
        }
        (None, _) => return Err("stale_window"),
    };
    let repeated = places.into_iter().map(|(number, seq)| {
        let stream = streams.get_mut(number)?;
        let (id, text) = (format!("{}:{seq}", stream.id()), stream.text_of(seq)?.to_vec());
        Some(QueuedChunk { id: id.into(), place: (number, seq), text })
    });
    let repeated: Option<Vec<_>> = repeated.collect();
    let repeated = repeated.ok_or("stale_window")?;
    let response = posted.and_then(|number| {
        http.forget_events_of(number);
        http.take_exchange(number)
    });
    http.queue_before(repeated);
    let queued = http.next_queued();
    let streams = session.protocol.streams.iter().map(|stream| {
        let next = queued.get(&stream.number()).copied().unwrap_or_else(|| stream.next_seq());
        (stream.id().to_owned(), next)
    });
    Ok(Rewound { streams: streams.collect(), response })
}

impl ParityPath<'_> {
    /// Closes the connection of a front: its session does not need it any more.
    pub fn close_front(&mut self, front: FrontAddress, code: u16, reason: &'static str) {
        let session = self.parity.get_mut(front.key);
        let Some(front) = session.and_then(|it| it.carrier.front_mut()) else { return };
        // The session handles and answers nothing more.
        (front.unhandled, front.pending) = (0, 0);
        let key = front.connection;
        if let Some(connection) = self.connections.table.get_mut(key) {
            connection.pending_work.pending_responses = 0;
        }
        self.close_connection(key, code, reason);
    }

    /// What has carried a session is gone.
    pub fn close_carrier(&mut self, session: SessionId, carrier: CarrierAddress) {
        match carrier {
            CarrierAddress::Exchange(exchange) => self.close_exchange(session, exchange),
            CarrierAddress::Front(front) => {
                if let Some(key) = self.find_remote(session, front) {
                    self.detach(key);
                }
            }
        }
    }

    /// Returns the session that a front carries.
    pub(super) fn find_remote(&self, id: SessionId, front: FrontAddress) -> Option<ParityKey> {
        let key = self.parity.find(id)?;
        let remote = self.parity.get(key)?.carrier.remote()?;
        (remote.front == front).then_some(key)
    }

    /// Resumes a session for a client on a connection of another shard, which has authenticated it
    /// and opened its token.
    pub fn resume_relayed(&mut self, request: RelayedResume) {
        let RelayedResume { session: id, generation, front, capabilities, .. } = request;
        let contents = TokenContents { session: id, generation };
        let claim = Claim { contents, acknowledged: request.acknowledged, capabilities };
        let now = self.now;
        let resumed = match resume::resume(self.parity, &claim, now) {
            Ok(resumed) => resumed,
            Err(reason) => {
                let message = SessionMessage::Resumed(front, Err(reason));
                return self.outbox.forward(front.shard, message);
            }
        };
        let key = resumed.key;
        self.release_carrier(key);
        let caller = request.caller;
        let remote = RemoteConnection { front, peer_address: caller.peer_addr, unsent_bytes: 0 };
        let carrier = SessionCarrier::Remote(Box::new(remote));
        self.attach_caller(key, &caller, carrier, request.transport);
        if let (Some(session), Some(extensions)) = (self.parity.get_mut(key), caller.extensions) {
            self.dispatcher.facts.keep_extensions(&mut session.state, extensions);
        }
        self.outbox.forward(front.shard, SessionMessage::Resumed(front, Ok(())));
        self.continue_session(Carrier::Remote, resumed);
    }

    /// Handles a message of the client of a session.
    pub fn receive_relayed(
        &mut self,
        parser: &mut Parser,
        session: SessionId,
        front: FrontAddress,
        mut text: PaddedBuffer,
        bytes: usize,
    ) {
        let Some(key) = self.find_remote(session, front) else { return };
        self.receive_text(parser, Carrier::Remote, key, &mut text, bytes);
        let Self { parity, outbox, .. } = self;
        parity.send_remote(key, Vec::new(), true, outbox);
        let session = parity.get(key).filter(|session| session.state.violation.is_some());
        if let Some(remote) = session.and_then(|session| session.carrier.remote()) {
            remote.close(CloseCode::POLICY.as_u16(), "a limit was exceeded", outbox);
        }
    }

    /// The session that a front stands for was resumed, or its client has to start again.
    pub fn handle_resumed(&mut self, address: FrontAddress, resumed: Result<(), &'static str>) {
        if let Err(reason) = resumed {
            return self.restart_front(address.key, reason);
        }
        let Self { parity, connections, outbox, .. } = self;
        let Some(session) = parity.get_mut(address.key) else { return };
        // Otherwise its client was advised to start again, and the other session is notified.
        let Some(front) = session.carrier.front_mut() else { return };
        front.is_open = true;
        session.expires_at = None;
        connections.table.set_suspended(front.connection, false);
        outbox.resume_reading(front.connection);
    }

    /// Writes the output of a session to the connection of its front.
    pub fn write_front_output(
        &mut self,
        address: FrontAddress,
        texts: &[Vec<u8>],
        is_handled: bool,
        pending: u32,
    ) {
        let session = self.parity.get(address.key);
        let Some(front) = session.and_then(|it| it.carrier.front()) else { return };
        let key = front.connection;
        for text in texts {
            self.write_message(key, |out| out.extend_from_slice(text));
        }
        let Self { parity, connections, outbox, now, .. } = self;
        let session = parity.get_mut(address.key);
        let Some(front) = session.and_then(|it| it.carrier.front_mut()) else { return };
        front.unhandled = front.unhandled.saturating_sub(is_handled.into());
        front.pending = pending;
        front.unreported_bytes += texts.iter().map(Vec::len).sum::<usize>();
        let unreported_bytes = front.unreported_bytes;
        if front.has_room() {
            connections.table.set_suspended(key, false);
            outbox.resume_reading(key);
        }
        let pending_responses = front.pending_responses();
        parity.flow.add_front(address, unreported_bytes);
        let Some(connection) = connections.table.get_mut(key) else { return };
        connection.count_response(*now);
        connection.pending_work.pending_responses = pending_responses;
        if connection.is_discarding() {
            // It may have waited for that.
            outbox.push(Effect::Close { key, reason: CloseReason::PeerClosed });
        }
    }
}
