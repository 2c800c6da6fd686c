//! Messages of clients: to their session, and what it answers.

use std::sync::Arc;

use corelane_base::slab::Key;
use corelane_parity::capabilities::{Capabilities, Feature};
use corelane_parity::envelope::{self, Envelope, Handshake, InvalidEnvelope, Target};
use corelane_parity::error::{ErrorCode, HttpStatus, ParityError};
use corelane_parity::machine::State;
use corelane_parity::server_session::{Action, Expired, Input, Rejection};
use corelane_parity::write::{self, HandshakeAckParams, Resumption};
use corelane_protocol::json::Value;

use super::carrier::{Carrier, QueuedChunk, ResponseKind, SessionCarrier};
use super::handshake_limits::RefusedCaller;
use super::holders::too_many_sessions;
use super::output::{ParityPath, close_code};
use super::resume::{self, Claim, NotResumed, RepeatedChunk, Resumed};
use super::session::sent_error;
use crate::server::connection_state::{MessageOrigin, PeerDialect, PeerState};
use crate::server::dispatch::MessageContext;
use crate::server::reply_to::{ParityKey, PeerId, RefusalFields, ReplyTo};
use crate::server::shard_message::{FrontAddress, ParityHttpOutput};
use crate::service::{Catalog, ClientImplementation, Features};
use crate::telemetry::event::parity as parity_event;
use crate::telemetry::label::Transport;

impl ParityPath<'_> {
    /// Handles a message of `bytes` bytes on a connection of the dialect, which carries `session`
    /// if there is one already.
    pub fn receive(
        &mut self,
        connection: Key,
        session: Option<ParityKey>,
        value: Value<'_>,
        bytes: usize,
    ) {
        if let Some(key) = session.or_else(|| self.session_of(connection)) {
            self.receive_from(Carrier::Connection(connection), key, value, bytes);
        }
    }

    /// Handles a message of a session.
    pub(super) fn receive_from(
        &mut self,
        carrier: Carrier<'_>,
        key: ParityKey,
        value: Value<'_>,
        bytes: usize,
    ) {
        let Self { parity, now, .. } = self;
        let mut settings = parity.settings.session;
        let Some(session) = parity.get_mut(key) else { return };
        if let Carrier::Connection(connection) = carrier
            && session.carrier.front().is_some()
        {
            let front = FrontAddress { shard: self.dispatcher.handlers.shard, key };
            self.refresh_front(connection, key, value);
            return self.forward_message(connection, front, value, bytes);
        }
        let is_first = !session.has_begun();
        if is_first {
            let offered = offered_features(&self.dispatcher.catalog, session.state.transport);
            settings.capabilities = settings.capabilities.intersect(&offered);
        }
        session.generations.record_use();
        let in_flight = session.pending_responses();
        let received = match Envelope::read(value) {
            Ok(envelope) => {
                let input = Input { settings: &settings, bytes, in_flight, now: *now, envelope };
                session.protocol.receive(input)
            }
            Err(mut invalid) => {
                explain_json_rpc(&mut invalid, value);
                Err(session.protocol.reject_malformed(invalid))
            }
        };
        match received {
            Ok(Action::Start(request)) => {
                let previous = request.auth_token.and_then(|token| self.keep_token(key, token));
                if request.idempotency_key.is_some() {
                    self.parity.account(key);
                }
                self.start_request(carrier, key, &request);
                if request.auth_token.is_some() {
                    self.complete_token(carrier, key, previous);
                }
            }
            Ok(Action::None) => {}
            Ok(Action::Cancel(target)) => {
                self.cancel_request(key, target);
            }
            Ok(Action::Acknowledge(handshake, both)) => {
                self.acknowledge(carrier, key, &handshake, both);
            }
            Ok(Action::AcknowledgeCapabilities(both)) => {
                self.reply(carrier, key, HttpStatus::OK, |out| write::capabilities_ack(out, &both));
                self.parity.set_timer(key);
            }
            Err(rejection) => {
                self.record_rejection(key, Some(value), &rejection.error);
                if is_first {
                    self.record_failed_handshake(carrier);
                }
                self.reject(carrier, key, &rejection);
            }
        }
    }

    /// Begins the session of a new connection whose first message must be a handshake, so that the
    /// time of the handshake runs.
    pub fn begin(&mut self, connection: Key) {
        let of_key = self.connections.table.get(connection);
        if of_key.is_some_and(|it| it.state.dialect == PeerDialect::ParityHandshake) {
            self.session_of(connection);
        }
    }

    /// Has the time of a handshake run for a connection whose first message has begun, if it may be
    /// one of the dialect.
    #[cold]
    pub fn await_handshake(&mut self, key: Key) {
        let Self { parity, connections, dispatcher, now, .. } = self;
        let Some(connection) = connections.table.get_mut(key) else { return };
        if connection.state.dialect != PeerDialect::Mcp
            || !dispatcher.serves_parity()
            || connection.first_text().is_empty()
        {
            return;
        }
        connection.state.dialect = PeerDialect::Begun;
        let timeout = parity.settings.session.timeouts.handshake;
        parity.begun.push_back((now.after(timeout), key));
    }

    /// Closes the connections whose first message is a handshake that did not end in time. Others
    /// have the time of their listener.
    fn expire_first_messages(&mut self) {
        while let Some((_, key)) = self.parity.begun.pop_front_if(|(due, _)| *due <= self.now) {
            let Some(connection) = self.connections.table.get_mut(key) else { continue };
            let state = &connection.state;
            if state.dialect == PeerDialect::Begun
                && state.violation.is_none()
                && envelope::begins_message(connection.first_text())
            {
                connection.state.dialect = PeerDialect::Parity;
                let error = ParityError::handshake_timeout();
                self.write_message(key, |out| write::error(out, None, &error));
                self.close_for(key, error.code);
            }
        }
    }

    /// Returns the session that a connection carries, a new one if it has none.
    #[inline]
    fn session_of(&mut self, connection_key: Key) -> Option<ParityKey> {
        let connection = self.connections.table.get(connection_key)?;
        let state = &connection.state;
        if state.violation.is_some() {
            return None;
        }
        if let Some(key) = state.parity_session() {
            return Some(key);
        }
        let transport = state.transport;
        let Some(key) = self.parity.create(transport, self.now) else {
            let error = too_many_sessions();
            self.write_message(connection_key, |out| write::error(out, None, &error));
            self.close_for(connection_key, error.code);
            return None;
        };
        self.attach(connection_key, key);
        Some(key)
    }

    /// Authenticates the client of a handshake, and answers it.
    fn acknowledge(
        &mut self,
        carrier: Carrier<'_>,
        key: ParityKey,
        handshake: &Handshake<'_>,
        both: Capabilities,
    ) {
        if let Some(token) = handshake.auth_token {
            self.keep_token(key, token);
        }
        let admitted =
            self.limit_handshake(carrier, key).and_then(|()| self.authenticate(carrier, key));
        // One that resumes a session counts as that.
        let admitted = admitted.and_then(|()| match handshake.resume {
            Some(_) => Ok(()),
            None => self.give_place(key).map_err(RefusedCaller::from),
        });
        if let Err(RefusedCaller { error, fields }) = admitted {
            record_handshake(self, key, handshake, Some(&error));
            self.outbox.count_rejection(error.code);
            return self.fail_session(carrier, key, &error, fields);
        }
        let Self { parity, connections, now, .. } = self;
        let settings = parity.settings.session;
        let Some(session) = parity.get_mut(key) else { return };
        session.protocol.acknowledge(both, handshake.exchanges_capabilities, &settings, *now);
        if let Carrier::Connection(connection) = carrier
            && let Some(connection) = connections.table.get_mut(connection)
        {
            let (facts, state) = (&mut self.dispatcher.facts, &mut connection.state);
            state.dialect = PeerDialect::Parity;
            // The connection ends with the validity of its credential.
            facts.keep_credential(state, session.state.credential().cloned());
        }
        if let Some(client) = handshake.client_info.and_then(ClientImplementation::read) {
            self.dispatcher.facts.keep_client_info(&mut session.state, client);
        }
        self.outbox.counters.parity.sessions.handshakes += 1;
        let Some(request) = &handshake.resume else {
            record_handshake(self, key, handshake, None);
            return self.send_ack(carrier, key, carrier.restart().map(Resumption::Restart));
        };
        let claim = resume::open_claim(self.parity, key, request);
        let rejected = match &claim {
            Err(NotResumed::Rejected(error)) => Some(error),
            _ => None,
        };
        record_handshake(self, key, handshake, rejected);
        match claim {
            Ok(claim) => self.resume_session(carrier, key, claim),
            Err(NotResumed::Restart(reason)) => self.begin_instead(carrier, key, reason),
            Err(NotResumed::Rejected(error)) => self.refuse_handshake(carrier, key, &error),
        }
    }

    /// Has a new session be served whose client does not resume another one, for this reason.
    fn begin_instead(&mut self, carrier: Carrier<'_>, key: ParityKey, reason: &'static str) {
        match self.give_place(key) {
            Ok(()) => self.send_ack(carrier, key, Some(Resumption::Restart(reason))),
            Err(error) => self.refuse_handshake(carrier, key, &error),
        }
    }

    /// Ends a new session whose handshake was read, for an error.
    fn refuse_handshake(&mut self, carrier: Carrier<'_>, key: ParityKey, error: &ParityError) {
        self.outbox.count_rejection(error.code);
        self.fail_session(carrier, key, error, None);
    }

    /// Has the session that a client resumes take the place of the new one: on this shard, or on
    /// another one behind a front.
    fn resume_session(&mut self, carrier: Carrier<'_>, new_key: ParityKey, claim: Claim) {
        let owner = claim.contents.session.owner(self.dispatcher.shard_count);
        let shard = self.dispatcher.handlers.shard;
        if let Carrier::Connection(connection) = carrier
            && owner != shard
        {
            // The front has a place of this shard, the session one of the other.
            return match self.give_place(new_key) {
                Ok(()) => self.begin_front(connection, new_key, owner, shard, claim),
                Err(error) => self.refuse_handshake(carrier, new_key, &error),
            };
        }
        let now = self.now;
        let resumed = match resume::resume(self.parity, &claim, now) {
            Ok(resumed) => resumed,
            Err(reason) => return self.begin_instead(carrier, new_key, reason),
        };
        let key = resumed.key;
        self.release_carrier(key);
        if let Some(mut replaced) = self.parity.remove(new_key) {
            self.dispatcher.facts.release(&mut replaced.state);
            self.dispatcher.rate.end_session(PeerId::Parity(new_key));
        }
        match carrier {
            Carrier::Connection(connection) => {
                self.attach(connection, key);
                self.copy_pending_work(key);
            }
            Carrier::Exchange { caller, .. } => self.attach_http(key, caller),
            Carrier::Remote => {}
        }
        self.continue_session(carrier, resumed);
    }

    /// Has a new session be served whose client does not resume the session of another shard, for
    /// this reason.
    pub(super) fn restart_front(&mut self, key: ParityKey, reason: &'static str) {
        let Self { parity, connections, outbox, now, .. } = self;
        let Some(session) = parity.get_mut(key) else { return };
        let front = session.carrier.front().filter(|front| !front.is_open);
        let Some(connection) = front.map(|front| front.connection) else { return };
        session.carrier = SessionCarrier::Connection(connection);
        session.expires_at = None;
        let capabilities = *session.protocol.capabilities();
        session.protocol.reattach(&capabilities, *now);
        connections.table.set_suspended(connection, false);
        outbox.resume_reading(connection);
        let resumption = Some(Resumption::Restart(reason));
        self.send_ack(Carrier::Connection(connection), key, resumption);
    }

    /// Tells the client of a session that it has resumed it, and repeats chunks.
    pub(super) fn continue_session(&mut self, carrier: Carrier<'_>, resumed: Resumed) {
        let Resumed { key, streams, chunks } = resumed;
        // The chunks that waited for an event stream are gone.
        self.parity.account(key);
        self.send_ack(carrier, key, Some(Resumption::Resumed(&streams)));
        if let Carrier::Remote = carrier {
            let texts = chunks.into_iter().map(|chunk| chunk.text.into_vec()).collect();
            return self.parity.send_remote(key, texts, false, self.outbox);
        }
        for RepeatedChunk { stream, seq, text } in chunks {
            match carrier {
                Carrier::Connection(connection) => {
                    self.write_message(connection, |out| out.extend_from_slice(&text));
                }
                Carrier::Exchange { .. } | Carrier::Remote => {
                    let (stream, number) = &stream;
                    let id = format!("{stream}:{seq}").into();
                    let chunk = QueuedChunk { id, place: (*number, seq), text: text.into_vec() };
                    self.send_event(key, ReplyTo::STANDALONE, chunk);
                }
            }
        }
    }

    /// Sends the acknowledgement of a handshake: as the first event, if the client has asked for
    /// the event stream.
    pub(super) fn send_ack(
        &mut self,
        carrier: Carrier<'_>,
        key: ParityKey,
        resumption: Option<Resumption<'_>>,
    ) {
        let sessions = &mut self.outbox.counters.parity.sessions;
        match &resumption {
            Some(Resumption::Resumed(_)) => sessions.resumed += 1,
            Some(Resumption::Restart(_)) => sessions.restarts_advised += 1,
            None => {}
        }
        let token = resume::issue_token(self.parity, key);
        self.parity.set_timer(key);
        let Some(session) = self.parity.get_mut(key) else { return };
        let (id, capabilities) = (session.id.to_string(), *session.protocol.capabilities());
        let catalog = Arc::clone(&self.dispatcher.catalog);
        let server = catalog.server_info();
        let params = HandshakeAckParams {
            session_id: &id,
            capabilities: &capabilities,
            server_info: (&server.name, &server.version),
            resume_token: token.as_deref(),
            resumption,
        };
        if let Carrier::Exchange {
            address, response: ResponseKind::Events { names_session }, ..
        } = carrier
        {
            let mut data = Vec::new();
            write::handshake_ack(&mut data, &params);
            let (session_id, name) = (session.id, "handshake");
            let Some(http) = session.carrier.http_mut() else { return };
            let id = http.attach_events(names_session).then(|| format!("0@{session_id}").into());
            if let Some(previous) = http.events.replace(address) {
                self.forward(previous, ParityHttpOutput::End);
            }
            let event = ParityHttpOutput::Event { session: session_id, name, id, data };
            self.forward(address, event);
            self.parity.is_answered = true;
            return self.flush_events(key);
        }
        self.reply(carrier, key, HttpStatus::OK, |out| write::handshake_ack(out, &params));
    }

    /// Reads the token of a request to the session that a front stands for. That session verifies
    /// it for the request, the front for the connection.
    fn refresh_front(&mut self, connection: Key, key: ParityKey, value: Value<'_>) {
        let token = value.as_object().and_then(|message| message.find("auth_token"));
        let Some(token) = token.and_then(Value::as_str) else { return };
        let previous = self.keep_token(key, token);
        let carrier = Carrier::Connection(connection);
        // The session refuses the request.
        let _refused = self.authenticate(carrier, key);
        self.complete_token(carrier, key, previous);
        if let Some(session) = self.parity.get_mut(key) {
            session.state.violation = None;
        }
    }

    /// Authenticates the client of a handshake, or of a message with another token.
    fn authenticate(&mut self, carrier: Carrier<'_>, key: ParityKey) -> Result<(), RefusedCaller> {
        // Without one the shard of its connection authenticates it.
        let peer_addr = &self.peer_address(carrier);
        let Self { parity, outbox, now, .. } = self;
        let Some(session) = parity.get_mut(key) else { return Ok(()) };
        let details = &carrier.origin_details(session.id);
        let peer_addr = peer_addr.as_ref();
        let mut peer = PeerState {
            origin: MessageOrigin { peer_addr, details },
            state: &mut session.state,
            pending_work: &mut session.pending_work,
            outgoing: &mut Vec::new(),
            outbox,
            refusal: None,
            failure: None,
            left_out: None,
        };
        let reply_to = ReplyTo::standalone(PeerId::Parity(key));
        let ctx = MessageContext { reply_to, now: *now, in_batch: false, is_modern: false };
        self.dispatcher.check_handshake(ctx, &mut peer).map_err(|error| RefusedCaller {
            error: ParityError::from(&error),
            fields: peer.refusal.take(),
        })
    }

    /// Sends the error of a rejected message.
    fn reject(&mut self, carrier: Carrier<'_>, key: ParityKey, rejection: &Rejection<'_>) {
        let Rejection { error, target, is_response, closes } = rejection;
        let is_retry = error.code == ErrorCode::AlreadyProcessed;
        self.outbox.counters.parity.repeats.retries += u64::from(is_retry);
        self.reply(carrier, key, error.http_status(), |out| match target {
            Some(Target::Request(id)) if *is_response => write::error_response(out, *id, error),
            _ => write::error(out, *target, error),
        });
        if let Carrier::Connection(connection) = carrier
            && self.parity.get(key).is_some_and(|it| it.protocol.state() == State::Connecting)
            && let Some(connection) = self.connections.table.get_mut(connection)
        {
            connection.record_invalid_message();
        }
        if *closes {
            self.close_carrier_for(carrier, key, error.code);
        }
    }

    /// Closes what carries a session, for an error that was sent. The session ends if its client
    /// cannot resume it. An HTTP exchange ends with its response.
    fn close_carrier_for(&mut self, carrier: Carrier<'_>, key: ParityKey, code: ErrorCode) {
        let Some(session) = self.parity.get(key) else { return };
        let has_ended = session.protocol.state() == State::Closing;
        match (carrier, session.carrier.remote()) {
            (Carrier::Connection(connection), _) => self.close_for(connection, code),
            (Carrier::Remote, Some(remote)) if !has_ended => {
                remote.close(close_code(code), code.as_str(), self.outbox);
            }
            _ if has_ended => self.end_session(key, None),
            (Carrier::Exchange { .. } | Carrier::Remote, _) => {}
        }
    }

    /// Sends an error that ends a session; over HTTP with the header fields of a refusal.
    fn fail_session(
        &mut self,
        carrier: Carrier<'_>,
        key: ParityKey,
        error: &ParityError,
        fields: Option<RefusalFields>,
    ) {
        if let Some(session) = self.parity.get_mut(key) {
            session.protocol.close();
        }
        let status = error.http_status();
        self.reply_with(carrier, key, status, fields, |out| write::error(out, None, error));
        self.close_carrier_for(carrier, key, error.code);
    }

    /// Handles the deadlines that have passed.
    pub fn expire(&mut self) {
        self.expire_first_messages();
        while let Some(key) = self.parity.pop_expired(self.now) {
            self.expire_session(key);
            self.parity.set_timer(key);
        }
    }

    /// Ends the sessions that no HTTP request waits for, at the end of a drain; returns whether
    /// there were any.
    pub fn end_sessions(&mut self) -> bool {
        let is_over = |key: &ParityKey| !self.parity.owes_response(*key);
        let ended: Vec<ParityKey> = self.parity.session_keys().filter(is_over).collect();
        for key in &ended {
            self.end_session(*key, Some(&ParityError::draining()));
        }
        !ended.is_empty()
    }

    fn expire_session(&mut self, key: ParityKey) {
        let now = self.now;
        let Some(session) = self.parity.get_mut(key) else { return };
        if session.expires_at.is_some_and(|expires_at| expires_at <= now) {
            if let Some(front) = session.carrier.front() {
                let shard = self.dispatcher.handlers.shard;
                front.report_closed(FrontAddress { shard, key }, self.outbox);
                return self.restart_front(key, "unavailable");
            }
            return self.end_session(key, None);
        }
        let is_http = session.carrier.http().is_some();
        let settings = *self.parity.settings.of(is_http);
        let Some(session) = self.parity.get_mut(key) else { return };
        let connection = session.carrier.connection();
        let is_busy = session.is_busy();
        match session.protocol.expire(&settings, is_busy, now) {
            Expired::None => {}
            Expired::SendKeepalive => {
                self.send_keepalive(key, settings.timeouts.hint.as_secs().max(1));
            }
            Expired::Close(error) => match connection {
                Some(connection) => {
                    self.write_message(connection, |out| write::error(out, None, &error));
                    self.close_for(connection, error.code);
                }
                None => self.end_session(key, Some(&error)),
            },
        }
    }
}

/// Returns the features that a catalog has over a transport. A session of the only connection of a
/// process ends with it, and cannot be resumed.
#[cold]
fn offered_features(catalog: &Catalog, transport: Transport) -> Capabilities {
    let is_offered = |feature: &Feature| match feature {
        Feature::Tools => catalog.has_features(Features::TOOLS),
        Feature::Resources => catalog.has_features(Features::RESOURCES),
        Feature::Prompts => catalog.has_features(Features::PROMPTS),
        Feature::Resume => !transport.is_only_connection(),
        Feature::Streaming | Feature::Cancellation => true,
    };
    Capabilities::of(Feature::ALL.into_iter().filter(is_offered))
}

/// States in the error of a message without `type` that it is JSON-RPC, if it is.
#[cold]
fn explain_json_rpc(invalid: &mut InvalidEnvelope<'_>, value: Value<'_>) {
    let object = value.as_object().unwrap_or_default();
    if object.find("jsonrpc").is_some() && object.find("type").is_none() {
        invalid.error = ParityError::invalid_envelope(
            "this is the parity dialect: send messages with \"type\", not JSON-RPC",
        );
    }
}

/// Writes the line and span of a handshake.
fn record_handshake(
    path: &mut ParityPath<'_>,
    key: ParityKey,
    handshake: &Handshake<'_>,
    error: Option<&ParityError>,
) {
    let traceparent = handshake.traceparent;
    let exported = path.outbox.tracer.begin_parity(parity_event::HANDSHAKE, traceparent);
    if (parity_event::is_enabled() || exported.is_some())
        && let Some(session) = path.parity.get(key)
    {
        let (fields, error) = (session.log_fields(), error.map(sent_error));
        parity_event::record_handshake(&fields, traceparent, error, exported);
    }
}
