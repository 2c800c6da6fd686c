//! Requests of the dialect over HTTP, on the shard of their session.
//!
//! Invariants: each request gets one response; a session over HTTP lives as long as its client
//! sends something, whatever becomes of its connections.

use super::carrier::{Carrier, ResponseKind};
use super::input::ParityPath;
use super::session::{ParitySession, is_stream};
use crate::base::slab::Key;
use crate::protocol::error::Error;
use crate::protocol::json::Parser;
use crate::protocol::parity::error::{ErrorCode, ParityError};
use crate::protocol::parity::write;
use crate::server::owner_id::SessionId;
use crate::server::shard_message::{ExchangeAddress, ParityCaller, ParityHttpOutput, ParityOp};
use crate::telemetry::label::Transport;

impl ParityPath<'_> {
    /// Handles a request for a session, or the handshake of a new one.
    pub(in crate::server) fn handle_request(
        &mut self,
        parser: &mut Parser,
        (session, address): (Option<SessionId>, ExchangeAddress),
        caller: &ParityCaller,
        op: ParityOp,
    ) {
        let found = match session {
            Some(id) => {
                let key = self.output.parity.find(id);
                key.filter(|key| self.is_of_caller(*key, caller)).ok_or_else(unknown_session)
            }
            None => self.begin_session(caller),
        };
        let key = match found {
            Ok(key) => key,
            Err((status, error)) => return self.send_error(address, status, &error),
        };
        self.output.parity.is_answered = false;
        let response = match &op {
            ParityOp::Message { streams: true, .. } => ResponseKind::Chunks,
            ParityOp::Message { .. } | ParityOp::End => ResponseKind::Message,
            ParityOp::Events(_) => ResponseKind::Events,
        };
        let carrier = Carrier::Exchange { address, caller, response };
        match op {
            ParityOp::End => {
                self.output.end_session(key, self.dispatcher);
                return self.send_empty(address, 204, None);
            }
            ParityOp::Events(None) => {
                self.record_received(key);
                self.send_ack((carrier, key), None);
            }
            ParityOp::Message { mut text, .. } | ParityOp::Events(Some(mut text)) => {
                let bytes = text.as_bytes().len();
                self.output.outbox.counters.traffic.messages_in += 1;
                match parser.parse(text.text()) {
                    Ok(document) => self.receive_from((carrier, key), document.root(), bytes),
                    Err(error) => {
                        let error = ParityError::from(&Error::from(error));
                        self.output.reply((carrier, key), 400, |out| {
                            write::error(out, None, &error);
                        });
                    }
                }
            }
        }
        let begun = self.output.parity.get(key).is_some_and(ParitySession::has_begun);
        if session.is_none() && !begun {
            self.output.end_session(key, self.dispatcher);
        }
        if !self.output.parity.is_answered {
            self.send_empty(address, 202, session);
        }
    }

    /// Begins a session over HTTP.
    fn begin_session(&mut self, caller: &ParityCaller) -> Result<Key, (u16, ParityError)> {
        let created = self.output.create_session(Transport::Http, self.dispatcher);
        let Some(key) = created else {
            let message = "the server has too many sessions; try again later";
            return Err((429, ParityError::rate_limited(message, 1_000)));
        };
        self.attach_http(key, caller);
        Ok(key)
    }

    fn record_received(&mut self, key: Key) {
        let now = self.output.now;
        if let Some(session) = self.output.parity.get_mut(key) {
            session.protocol.record_received(now);
        }
    }

    /// Returns whether a session over HTTP belongs to the caller.
    fn is_of_caller(&self, key: Key, caller: &ParityCaller) -> bool {
        let Some(session) = self.output.parity.get(key) else { return false };
        if session.http.is_none() {
            return false;
        }
        if !self.dispatcher.auth.is_active() {
            return true;
        }
        match (session.state.principal(), &caller.principal) {
            (Some(known), Some(principal)) => known.is_same_caller(principal),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    fn send_error(&mut self, address: ExchangeAddress, status: u16, error: &ParityError) {
        let mut text = Vec::new();
        write::error(&mut text, None, error);
        let output = ParityHttpOutput::Response { status, session: None, text };
        self.output.forward(address, output);
    }

    fn send_empty(&mut self, address: ExchangeAddress, status: u16, session: Option<SessionId>) {
        let output = ParityHttpOutput::Response { status, session, text: Vec::new() };
        self.output.forward(address, output);
    }

    /// An exchange was closed: its call is cancelled, a stream continues on the event stream.
    pub(in crate::server) fn close_exchange(
        &mut self,
        session: SessionId,
        exchange: ExchangeAddress,
    ) {
        let Some(key) = self.output.parity.find(session) else { return };
        let session = self.output.parity.get_mut(key);
        let closed = session.and_then(|it| it.http.as_mut()?.remove(exchange));
        if let Some(closed) = closed.filter(|number| !is_stream(*number)) {
            let deferred = &mut self.dispatcher.deferred;
            self.output.cancel_if(key, deferred, |number| number == closed);
        }
    }
}

fn unknown_session() -> (u16, ParityError) {
    let message = "the session has expired or does not exist: send a handshake";
    let error = ParityError::new(ErrorCode::Internal, message);
    (404, error.with_details(r#"{"reason":"unknown_session"}"#))
}
