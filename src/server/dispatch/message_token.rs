//! Who sends a message over TCP, stdio or WebSocket.
//!
//! A connection has a credential of its own: the token of the upgrade for WebSocket, that of the
//! environment for stdio, otherwise the first valid `auth_token` of a message, in the params or in
//! `_meta`, or else the certificate of the TLS client. Where callers without a token are served,
//! only the token of `initialize` becomes that of the connection.
//!
//! Invariants: a token in a message decides for its message. Another one than that of the
//! connection does not change the connection, unless it is a later token of the same caller; one
//! that is invalid refuses its message only. What lasts as long as the connection needs the token
//! of the connection: its handshake, and subscriptions.
//!
//! The token of a request of the parity dialect is that of its session while the request is
//! dispatched (`parity::tokens`).

use corelane_base::principal::Principal;
use corelane_protocol::eras::Method;
use corelane_protocol::json::Value;

use super::admission::Request;
use super::{Dispatcher, MessageContext};
use crate::connection::CloseReason;
use crate::guard::auth::proof::{KeyProof, Proof};
use crate::guard::auth::{AuthError, InvalidToken, bearer};
use crate::server::auth::{AuthTime, Authentication, Credential, OwnCredential};
use crate::server::connection_state::{ConnectionState, FactsMemory, PeerState};
use crate::server::reply_to::PeerId;
use crate::telemetry::label::Transport;

/// The member of params or `_meta` with the token of a message.
const TOKEN_MEMBER: &str = "auth_token";

impl Dispatcher {
    /// Authenticates the sender of a message. Its credential is that of the connection until
    /// [`Dispatcher::restore_credential`].
    pub(super) fn authenticate_message(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
    ) -> Result<(), AuthError> {
        let time = AuthTime::at(ctx.now, self.deferred.wall_clock);
        let Self { auth, facts, .. } = self;
        if facts
            .keep_attached_principal(peer.state, |principal| auth.with_implied_scopes(principal))
        {
            return Ok(());
        }
        if !auth.verifies_tokens() {
            facts.keep_credential(peer.state, None);
            return Ok(());
        }
        let known = peer.state.credential();
        let is_of_parity = matches!(ctx.reply_to.peer_id, PeerId::Parity(_));
        let named = if is_of_parity { None } else { token_of(request) };
        let named = named.filter(|token| !known.is_some_and(|known| known.names(token)));
        // A WebSocket without a token in its upgrade is for the parity dialect.
        let is_for_parity = peer.state.transport == Transport::WebSocket
            && known.is_none()
            && !auth.admits_anonymous();
        let named = named.filter(|_| !is_for_parity);
        if named.is_none() && known.is_some_and(|known| auth.is_current(known, time)) {
            return Ok(());
        }
        if is_of_parity && known.is_some_and(Credential::is_of_session) {
            // The shard of its connection checks the token.
            return Ok(());
        }
        if let Some(token) = named
            && !becomes_own(auth, peer.state, request.method)
        {
            return self.authenticate_other(ctx, peer, request, token, time);
        }
        self.authenticate_own(ctx, peer, named, time)
    }

    /// Authenticates a connection by its own credential, or by `named`, the token of a message that
    /// becomes its own.
    fn authenticate_own(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        named: Option<&str>,
        time: AuthTime,
    ) -> Result<(), AuthError> {
        let Self { auth, facts, .. } = self;
        let known = peer.state.credential();
        let of_connection = known.filter(|known| !known.is_certificate()).map(Credential::token);
        let client = self.rate.client_of(peer, ctx.reply_to.peer_id);
        let certificate = peer.state.certificate();
        let token = named.or(of_connection);
        let key =
            known.filter(|_| named.is_none()).map_or(KeyProof::Unsupported, Credential::key_proof);
        let is_asked_again =
            named.is_none() && known.is_some_and(|known| auth.is_verified(known, time));
        let counters = &mut peer.outbox.counters.auth;
        let authenticated = match token {
            Some(token) => bearer::read_token(token.as_bytes()).and_then(|token| {
                auth.authenticate(token, Proof { certificate, key }, client, time, counters)
            }),
            None => auth.authenticate_certificate(certificate, time, counters),
        };
        let is_of_parity = matches!(ctx.reply_to.peer_id, PeerId::Parity(_));
        match authenticated {
            Ok(credential) => {
                facts.keep_credential(peer.state, Some(credential));
                Ok(())
            }
            Err(AuthError::Missing) => {
                // No rule names the certificate any more, if there was a credential.
                facts.keep_credential(peer.state, None);
                if auth.admits_anonymous() { Ok(()) } else { Err(AuthError::Missing) }
            }
            // The authorization server is asked again about a token that it has called valid.
            Err(AuthError::Pending) if is_asked_again => Ok(()),
            Err(AuthError::Pending) => {
                if let (Some(token), PeerId::Connection(key)) = (token, ctx.reply_to.peer_id) {
                    auth.wait(token, key);
                }
                Err(AuthError::Pending)
            }
            Err(error @ (AuthError::Unavailable(_) | AuthError::TooManyFailures(_))) => Err(error),
            Err(error) if is_of_parity => Err(end_session_token(facts, peer.state, error)),
            Err(error) => {
                end_credential(facts, peer.state);
                Err(error)
            }
        }
    }

    /// Authenticates a message with another token than that of its connection.
    #[cold]
    fn authenticate_other(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
        token: &str,
        time: AuthTime,
    ) -> Result<(), AuthError> {
        let Self { auth, facts, .. } = self;
        let token = bearer::read_token(token.as_bytes())?;
        let client = self.rate.client_of(peer, ctx.reply_to.peer_id);
        let certificate = peer.state.certificate();
        let proof = Proof { certificate, key: KeyProof::Unsupported };
        let counters = &mut peer.outbox.counters.auth;
        let credential = auth.authenticate(token, proof, client, time, counters);
        if let (Err(AuthError::Pending), PeerId::Connection(key)) =
            (&credential, ctx.reply_to.peer_id)
        {
            auth.wait(token, key);
        }
        let credential = credential?;
        let known = peer.state.credential();
        let is_renewal = known.is_some_and(|known| {
            renews(known.principal(), credential.principal(), auth.is_current(known, time))
        });
        if is_renewal {
            facts.keep_credential(peer.state, Some(credential));
            return Ok(());
        }
        if lasts(request.method) {
            return Err(OTHER_TOKEN);
        }
        let own = known.cloned();
        facts.keep_credential(peer.state, Some(credential));
        auth.replaced = Some(Box::new(OwnCredential(own)));
        Ok(())
    }

    /// Gives a connection its credential back after a message with another token.
    #[cold]
    pub(super) fn restore_credential(&mut self, peer: &mut PeerState<'_>) {
        if let Some(own) = self.auth.replaced.take() {
            self.facts.keep_credential(peer.state, own.0);
        }
    }
}

/// Returns whether the token of a message becomes that of its connection: this has none of its own,
/// and callers without a token are not served.
fn becomes_own(auth: &Authentication, state: &ConnectionState, method: Method) -> bool {
    let begins = method == Method::Initialize && state.lifecycle.revision().is_none();
    match state.credential() {
        Some(known) => known.is_certificate() && begins,
        None => begins || !auth.admits_anonymous(),
    }
}

/// Returns whether a token is a later one of the caller of a connection, whose own ends before it
/// or has ended.
fn renews(own: &Principal, other: &Principal, is_current: bool) -> bool {
    let has_same_rights = || {
        own.tier() == other.tier()
            && own.client_id() == other.client_id()
            && own.scopes().eq(other.scopes())
    };
    let ends = |it: &Principal| it.expires_at().unwrap_or(u64::MAX);
    own.is_same_caller(other) && (!is_current || ends(other) > ends(own) && has_same_rights())
}

/// Returns whether a request is for what lasts as long as its connection.
const fn lasts(method: Method) -> bool {
    matches!(method, Method::Initialize | Method::SubscriptionsListen | Method::ResourcesSubscribe)
}

/// Ends the credential of a connection, and the connection with it, as its client needs another
/// token.
#[cold]
fn end_credential(facts: &mut FactsMemory, state: &mut ConnectionState) {
    facts.keep_credential(state, None);
    let ends = !state.transport.is_only_connection();
    state.violation = ends.then_some(CloseReason::InvalidCredential);
}

/// Ends the credential of a session of the parity dialect, and the session with it, unless its
/// client can refresh the token: it has expired, or was accepted before. Returns the error of the
/// message.
#[cold]
fn end_session_token(
    facts: &mut FactsMemory,
    state: &mut ConnectionState,
    error: AuthError,
) -> AuthError {
    if error.is_expired() {
        return error;
    }
    if state.credential().is_some_and(Credential::is_verified) {
        return AuthError::InvalidToken(InvalidToken::WITHDRAWN);
    }
    end_credential(facts, state);
    error
}

/// Returns the token in the params or `_meta` of a request.
fn token_of<'r>(request: &Request<'r>) -> Option<&'r str> {
    let params = request.params().and_then(Value::as_object)?;
    let meta = || params.find("_meta").and_then(Value::as_object)?.find(TOKEN_MEMBER);
    params.find(TOKEN_MEMBER).or_else(meta).and_then(Value::as_str)
}

const OTHER_TOKEN: AuthError = AuthError::InvalidRequest(
    "the handshake and subscriptions need the token of their connection: open another connection",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_token_of_same_caller_renews() {
        let token = |id: &str, expiry| Principal::new(id).with_scopes(["a"]).with_expiry(expiry);
        let own = token("ada", 10);
        assert!(renews(&own, &token("ada", 11), true));
        assert!(!renews(&own, &token("ada", 10), true) && renews(&own, &token("ada", 10), false));
        assert!(!renews(&own, &token("bob", 11), true) && !renews(&own, &token("bob", 11), false));
        let narrower = Principal::new("ada").with_expiry(11);
        assert!(!renews(&own, &narrower, true) && renews(&own, &narrower, false));
        let lasting = Principal::new("ada").with_scopes(["a"]);
        assert!(!renews(&lasting, &token("ada", 11), true));
    }
}
