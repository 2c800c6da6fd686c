//! Tokens of HTTP requests: checked by the head, before the body is read.
//!
//! Invariants: the credential of a connection is that of its current request; a request without a
//! valid token is not dispatched, except that an upgrade to WebSocket may leave the token to the
//! handshake of the parity dialect.
//!
//! Source: RFC 6750; RFC 9449, section 7; MCP 2026-07-28, basic/authorization, "Access Token
//! Usage".

use std::borrow::Cow;

use corelane_parity::error::ParityError;
use corelane_transport::http::checks::{self, RequestKind};
use corelane_transport::http::fields::{Challenge, ResponseFields};
use corelane_transport::http::head::{Field, HttpMethod};
use corelane_transport::http::status::Status;
use percent_encoding::percent_decode;

use super::IncomingRequest;
use super::responses::is_parity;
use crate::guard::auth::challenge::Refusal;
use crate::guard::auth::proof::{KeyProof, Proof, SentProof};
use crate::guard::auth::{AuthError, bearer};
use crate::server::auth::{self, AuthTime};
use crate::server::options::ParityMode;
use crate::server::shard::Shard;

/// The query parameter with a token, where it is allowed.
const TOKEN_PARAMETER: &str = "token";

/// Whether a request may be served.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Authenticated {
    /// It may.
    Served,
    /// It may not; the response is written.
    Refused,
    /// The authorization server is asked about its token. The connection is read again then.
    Waits,
}

/// How much of a request has arrived.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum RequestPart {
    /// Its head: it is authenticated again when its body has arrived.
    Head,
    /// Its head, which is refused: it waits for nothing.
    RefusedHead,
    /// All of it.
    Whole,
}

/// A token with its scheme.
struct SentToken<'b> {
    text: Cow<'b, str>,
    /// It comes with a proof of its key.
    is_bound: bool,
}

/// Authenticates a request.
#[inline]
pub(super) fn authenticate(
    shard: &mut Shard,
    incoming: &IncomingRequest<'_>,
    kind: &RequestKind<'_>,
    part: RequestPart,
) -> Authenticated {
    if !shard.dispatcher.auth.is_active()
        || !kind.is_of_client()
        || repeats_token(shard, incoming) == Some(true)
    {
        return Authenticated::Served;
    }
    let is_endpoint = matches!(
        kind,
        RequestKind::Post { .. }
            | RequestKind::GetStream { .. }
            | RequestKind::DeleteSession { .. }
    );
    match check(shard, incoming, is_endpoint, part) {
        Ok(()) => Authenticated::Served,
        Err(AuthError::Pending) => Authenticated::Waits,
        Err(AuthError::Missing)
            if matches!(kind, RequestKind::Upgrade) && may_have_handshake(shard, incoming) =>
        {
            Authenticated::Served
        }
        Err(error) => {
            refuse(shard, incoming, &error);
            Authenticated::Refused
        }
    }
}

/// Returns whether a handshake of the parity dialect may bring the token that an upgrade to
/// WebSocket does not have. A client that offers a subprotocol is one of MCP, and looks for the
/// challenge.
#[cold]
fn may_have_handshake(shard: &Shard, incoming: &IncomingRequest<'_>) -> bool {
    let IncomingRequest { head, bytes, .. } = *incoming;
    shard.dispatcher.dialects.parity != ParityMode::Off
        && head.field(bytes, Field::Authorization).is_none()
        && head.other_fields(bytes, b"sec-websocket-protocol").next().is_none()
}

/// Finds the caller of a request that is refused by its head, if the response may name a session. A
/// caller whose token the authorization server would have to be asked about, or whose proof a
/// thread would have to verify, stays unknown.
#[cold]
pub(super) fn identify_refused(shard: &mut Shard, incoming: &IncomingRequest<'_>) {
    if shard.dispatcher.auth.is_active()
        && shard.named_session(incoming).is_some()
        && repeats_token(shard, incoming) != Some(true)
    {
        // Without a valid token it has no caller.
        if let Err(error) = check(shard, incoming, true, RequestPart::RefusedHead) {
            let connection = shard.transports.connections.table.get(incoming.key);
            let client = connection.and_then(|connection| connection.state.client);
            shard.dispatcher.auth.record_failure(&error, client, shard.now);
        }
    }
}

/// Returns whether a request has the token of the one before, which needs no other check. `None` if
/// either has no bearer token.
#[inline]
fn repeats_token(shard: &Shard, incoming: &IncomingRequest<'_>) -> Option<bool> {
    let state = &shard.transports.connections.table.get(incoming.key)?.state;
    // The host may have attached another principal to each request.
    let credential = state.credential().filter(|_| state.extension_slot().is_none())?;
    let IncomingRequest { head, bytes, .. } = *incoming;
    let token = bearer::unchecked_token(head.field(bytes, Field::Authorization)?)?;
    let time = AuthTime::at(shard.now, shard.dispatcher.deferred.wall_clock);
    let is_current = shard.dispatcher.auth.is_current(credential, time);
    Some(is_current && !head.has_query() && credential.has_token(token))
}

/// Keeps the caller of a request as the credential of the connection: the principal that the host
/// has attached, or else that of its token.
#[inline(never)]
fn check(
    shard: &mut Shard,
    incoming: &IncomingRequest<'_>,
    is_endpoint: bool,
    part: RequestPart,
) -> Result<(), AuthError> {
    let time = AuthTime::at(shard.now, shard.dispatcher.deferred.wall_clock);
    let Some(connection) = shard.transports.connections.table.get_mut(incoming.key) else {
        return Err(AuthError::Missing);
    };
    let (auth, facts) = (&mut shard.dispatcher.auth, &mut shard.dispatcher.facts);
    let counters = &mut shard.outbox.counters.auth;
    let state = &mut connection.state;
    if facts.keep_attached_principal(state, |principal| auth.with_implied_scopes(principal)) {
        return Ok(());
    }
    if !auth.verifies_tokens() {
        facts.keep_credential(state, None);
        return Ok(());
    }
    let token = read_token(incoming, auth.accepts_query_token(), auth.accepts_proofs());
    let (certificate, client) = (state.certificate(), state.client);
    let credential = match token {
        Ok(Some(SentToken { text: token, is_bound })) => {
            let sent = is_bound.then(|| sent_proof(incoming, is_endpoint));
            // The proof of this request was used when its head arrived.
            if let (Some(sent), RequestPart::Whole) = (&sent, part)
                && let Some(known) = state.credential().filter(|it| auth.is_current(it, time))
                && let Some(admitted) = known.admitted(&token, sent)
            {
                facts.keep_credential(state, Some(admitted));
                return Ok(());
            }
            let key = sent.map_or(KeyProof::Bearer, KeyProof::Sent);
            match auth.authenticate(&token, Proof { certificate, key }, client, time, counters) {
                Err(AuthError::Pending) if part != RequestPart::RefusedHead => {
                    auth.wait(&token, incoming.key);
                    return Err(AuthError::Pending);
                }
                Ok(credential) => Ok(Some(match (&sent, part) {
                    (Some(sent), RequestPart::Head) => credential.with_admitted(sent),
                    _ => credential,
                })),
                Err(error) => Err(error),
            }
        }
        Ok(None) => match state.credential() {
            Some(known) if known.is_certificate() && auth.is_current(known, time) => {
                return Ok(());
            }
            _ => match auth.authenticate_certificate(certificate, time, counters) {
                Err(AuthError::Missing) if auth.admits_anonymous() => Ok(None),
                authenticated => authenticated.map(Some),
            },
        },
        Err(error) => Err(error),
    };
    let (credential, refused) = match credential {
        Ok(credential) => (credential, Ok(())),
        Err(error) => (None, Err(error)),
    };
    facts.keep_credential(state, credential);
    refused
}

/// Returns the token of a request, if it has one.
fn read_token<'b>(
    incoming: &IncomingRequest<'b>,
    accepts_query_token: bool,
    accepts_proofs: bool,
) -> Result<Option<SentToken<'b>>, AuthError> {
    let IncomingRequest { head, bytes, .. } = *incoming;
    let of_field = head.field(bytes, Field::Authorization);
    let query = head.query(bytes);
    if query.is_empty() {
        return of_field.map(|value| read_field(value, accepts_proofs)).transpose();
    }
    if bearer::has_access_token(query) {
        return Err(AuthError::InvalidRequest("tokens in the query are not accepted"));
    }
    let is_get = head.method == HttpMethod::Get;
    let of_query = checks::query_parameter(query, TOKEN_PARAMETER);
    match (of_field, of_query.filter(|_| accepts_query_token && is_get)) {
        (Some(_), Some(_)) => {
            Err(AuthError::InvalidRequest("the request has a token in the header and in the query"))
        }
        (Some(value), None) => read_field(value, accepts_proofs).map(Some),
        (None, Some(value)) => {
            let decoded: Vec<u8> = percent_decode(value).collect();
            let text = bearer::read_token(&decoded)?.to_owned().into();
            Ok(Some(SentToken { text, is_bound: false }))
        }
        (None, None) => Ok(None),
    }
}

/// Reads the value of `Authorization`.
fn read_field(value: &[u8], accepts_proofs: bool) -> Result<SentToken<'_>, AuthError> {
    if accepts_proofs && let Some(text) = bearer::read_bound_token(value)? {
        return Ok(SentToken { text: text.into(), is_bound: true });
    }
    let text = bearer::read_authorization(value)?.into();
    Ok(SentToken { text, is_bound: false })
}

/// Returns the proof of a request (RFC 9449, section 4.1).
fn sent_proof<'b>(incoming: &IncomingRequest<'b>, is_endpoint: bool) -> SentProof<'b> {
    let IncomingRequest { head, bytes, .. } = *incoming;
    let mut values = head.other_fields(bytes, b"dpop");
    SentProof {
        values: [values.next(), values.next()],
        method: match head.method {
            HttpMethod::Delete => "DELETE",
            HttpMethod::Get => "GET",
            HttpMethod::Head => "HEAD",
            HttpMethod::Options => "OPTIONS",
            HttpMethod::Post => "POST",
            HttpMethod::Other => "",
        },
        path: str::from_utf8(head.path(bytes)).unwrap_or_default(),
        is_endpoint,
    }
}

/// Responds to a request that is not authenticated.
#[cold]
fn refuse(shard: &mut Shard, incoming: &IncomingRequest<'_>, error: &AuthError) {
    shard.record_invalid(incoming.key);
    auth::count_refusal(&mut shard.outbox.counters.auth, error);
    let connection = shard.transports.connections.table.get(incoming.key);
    let client = connection.and_then(|connection| connection.state.client);
    shard.dispatcher.auth.record_failure(error, client, shard.now);
    let peer = connection.and_then(|connection| connection.record.peer());
    let request_id = str::from_utf8(shard.transports.http.request_id(incoming.echoed())).ok();
    shard.outbox.log(auth::unauthorized_event(error, peer, request_id));
    let challenges = shard.dispatcher.auth.challenges().cloned().unwrap_or_default();
    let Refusal { status, challenge, retry_after_seconds, body } = challenges.refuse(error);
    let time = AuthTime::at(shard.now, shard.dispatcher.deferred.wall_clock);
    let nonce = match error {
        AuthError::NonceNeeded(_) => shard.dispatcher.auth.proof_nonce(time),
        _ => None,
    };
    let challenge = challenge.as_deref().map(Challenge::new);
    let dpop_nonce = nonce.as_deref();
    let (status, body) = if is_parity(&shard.transports.http, incoming) {
        parity_refusal(error)
    } else {
        (status, body.into_bytes())
    };
    let fields = ResponseFields {
        www_authenticate: challenge.map(|challenge| Challenge { dpop_nonce, ..challenge }),
        retry_after_seconds,
        ..incoming.response_fields()
    };
    shard.respond_refusal(incoming, Status::from(status), fields, &body);
}

/// Returns status and body of the refusal in the terms of the parity dialect.
#[cold]
fn parity_refusal(error: &AuthError) -> (u16, Vec<u8>) {
    let error = ParityError::from(&auth::parity_refusal_error(error));
    let mut body = Vec::new();
    corelane_parity::write::error(&mut body, None, &error);
    (error.http_status().code, body)
}
