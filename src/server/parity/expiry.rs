//! The end of what was begun with a token that is valid no more.
//!
//! ```text
//!   connection, HTTP exchange ── check of its token ──▶ session: calls, streams ──▶ error ──▶ end
//! ```
//!
//! Invariants: the shard of a connection checks its token, or that of its HTTP exchange. Each call
//! in flight gets its response, each stream its last chunks, and what carries them an error before
//! it ends. The connection of a process stays, and its client sends another token.

use std::time::Duration;

use corelane_base::slab::Key;
use corelane_parity::error::{ErrorCode, ParityError};
use corelane_parity::write;

use super::output::ParityPath;
use super::session::{EndOutcome, is_stream};
use crate::connection::CloseReason;
use crate::guard::auth::{AuthError, InvalidToken};
use crate::server::auth;
use crate::server::outbox::Effect;
use crate::server::owner_id::SessionId;
use crate::server::reply_to::{ParityKey, RefusalFields};
use crate::server::shard_message::{CarrierAddress, ExchangeAddress, FrontAddress, SessionMessage};

impl ParityPath<'_> {
    /// Ends what was begun with the token of a connection, which carries this session, and the
    /// connection.
    pub fn end_expired(&mut self, connection: Key, key: ParityKey) {
        let Some(session) = self.parity.get(key) else { return };
        let front = session.carrier.front().filter(|front| front.is_open);
        if let Some(front) = front {
            let address = FrontAddress { shard: self.dispatcher.handlers.shard, key };
            let (session, carrier) = (front.session, CarrierAddress::Front(address));
            let message = SessionMessage::Expired { session, carrier };
            return self.outbox.forward(front.owner, message);
        }
        let error = not_valid();
        self.stop_requests(key, &error, |_| true);
        self.write_message(connection, |out| write::error(out, None, &error));
        let Some(of_key) = self.connections.table.get_mut(connection) else { return };
        if of_key.state.transport.is_only_connection() {
            // That of the session stays, so that its requests are refused until there is another.
            self.dispatcher.facts.keep_credential(&mut of_key.state, None);
        } else {
            let (key, reason) = (connection, CloseReason::InvalidCredential);
            self.outbox.push(Effect::Close { key, reason });
        }
    }

    /// The token of what carries a session is valid no more, on the shard of that.
    pub fn expire_carrier(&mut self, session: SessionId, carrier: CarrierAddress) {
        match carrier {
            CarrierAddress::Exchange(exchange) => self.expire_exchange(session, exchange),
            CarrierAddress::Front(front) => {
                let Some(key) = self.find_remote(session, front) else { return };
                let error = not_valid();
                self.stop_requests(key, &error, |_| true);
                self.write_remote(key, |out| write::error(out, None, &error));
                let session = self.parity.get(key);
                if let Some(remote) = session.and_then(|session| session.carrier.remote()) {
                    let code = ErrorCode::Unauthorized.properties().close_code;
                    let reason = InvalidToken::NO_LONGER_VALID;
                    remote.close(code.unwrap_or_default(), reason, self.outbox);
                }
            }
        }
    }

    /// Ends an HTTP exchange of a session: the call whose response it waits for, the stream whose
    /// chunks it carries, or all those of the event stream.
    fn expire_exchange(&mut self, id: SessionId, exchange: ExchangeAddress) {
        let Some(key) = self.parity.find(id) else { return };
        let Some(session) = self.parity.get(key) else { return };
        let Some(http) = session.carrier.http() else { return };
        let error = not_valid();
        if http.events != Some(exchange) {
            let of_exchange = http.exchanges.iter().find(|(_, known)| *known == exchange);
            let Some(number) = of_exchange.map(|(number, _)| *number) else { return };
            return self.stop_requests(key, &error, |known| known == number);
        }
        let own: Vec<u32> = http.exchanges.iter().map(|(number, _)| *number).collect();
        self.stop_requests(key, &error, |number| is_stream(number) && !own.contains(&number));
        self.end_events(id, exchange, Some(&error));
        let session = self.parity.get_mut(key);
        if let Some(http) = session.and_then(|session| session.carrier.http_mut()) {
            http.remove(exchange);
        }
    }

    /// Cancels the requests of a session that `is_over` returns `true` for, by their numbers, and
    /// ends them with an error.
    fn stop_requests(
        &mut self,
        key: ParityKey,
        error: &ParityError,
        is_over: impl Fn(u32) -> bool,
    ) {
        for (number, id) in self.take_calls(key, is_over) {
            self.end_request(key, number, Duration::ZERO, EndOutcome::Stopped(error));
            let challenges = self.dispatcher.auth.challenges();
            let challenge = challenges.and_then(|it| it.refuse(&WITHDRAWN).challenge);
            let fields = challenge.map(|challenge| RefusalFields::Challenge(challenge.into()));
            self.write_failure(key, number, id.as_id(), error, fields);
        }
    }
}

/// The error for what was begun with a token that has expired, or whose key was withdrawn.
fn not_valid() -> ParityError {
    ParityError::from(&auth::parity_refusal_error(&WITHDRAWN))
}

const WITHDRAWN: AuthError = AuthError::InvalidToken(InvalidToken::WITHDRAWN);
