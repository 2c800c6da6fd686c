//! Authentication, the same on every transport.

use std::time::Duration;

use serde_json::json;

use crate::deadline::Deadline;
use crate::peer::{Message, Peer, expect_error, full_handshake};
use crate::steps::{ensure, expect_ready};
use crate::suite::Level::Must;
use crate::suite::{Check, CheckError, CheckResult, Context, Need};

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "auth.accepted",
        level: Must,
        needs: &[Need::Token],
        rule: "a valid token is accepted",
        run: accepted,
    },
    Check {
        name: "auth.missing",
        level: Must,
        needs: &[Need::Token],
        rule: "a missing token is rejected by error.auth.unauthorized, not retryable; HTTP: status \
               401 and WWW-Authenticate, else the connection closes (WebSocket: 1008)",
        run: |context| rejected(context, None).map(drop),
    },
    Check {
        name: "auth.invalid",
        level: Must,
        needs: &[Need::Token],
        rule: "an invalid token is rejected as a missing one is",
        run: |context| rejected(context, Some("not-a-token-of-this-server")).map(drop),
    },
    Check {
        name: "auth.expired",
        level: Must,
        needs: &[Need::ExpiredToken],
        rule: "an expired token is rejected by error.auth.unauthorized, retryable, details.reason \
               token_expired, details.advice refresh_token",
        run: expired,
    },
    Check {
        name: "auth.websocket_handshake",
        level: Must,
        needs: &[Need::WebSocket, Need::Token],
        rule: "a WebSocket whose upgrade has no Authorization accepts auth_token of the handshake",
        run: websocket_handshake,
    },
];

/// Status of a request without a valid token.
const UNAUTHORIZED: u16 = 401;
/// Close code of a WebSocket without a valid token.
const POLICY_VIOLATION: u16 = 1008;
/// Time that a server has to close a connection after the error that ends it.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

fn accepted(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::open(context)?;
    peer.handshake(&full_handshake(context))?;
    expect_ready(&mut peer)
}

/// Presents a token, and returns the error. A WebSocket may reject the upgrade, which has none.
fn present(
    context: &Context<'_>,
    token: Option<&str>,
) -> Result<Option<(Message, CheckResult)>, CheckError> {
    let mut peer = match Peer::open_with_token(context, token) {
        Ok(peer) => peer,
        // The upgrade to WebSocket is authenticated as other requests of HTTP are.
        Err(error) if error.status == Some(UNAUTHORIZED) => return Ok(None),
        Err(error) => return Err(CheckError::Blocked(error.message)),
    };
    let mut message = full_handshake(context);
    if let Some(members) = message.as_object_mut() {
        members.retain(|name, _| name != "auth_token");
    }
    if let Some(token) = token.filter(|_| !context.settings.endpoint.is_http()) {
        message["auth_token"] = json!(token);
    }
    let reply = peer.handshake_reply(&message)?;
    ensure(!reply.is("handshakeAck"), || format!("it was accepted: {}", reply.text))?;
    expect_error(&reply, "error.auth.unauthorized", None)?;
    let end = expect_end(context, &mut peer, &reply);
    Ok(Some((reply, end)))
}

/// Checks what follows the error: over HTTP it is in the head of the response.
fn expect_end(context: &Context<'_>, peer: &mut Peer<'_>, reply: &Message) -> CheckResult {
    let endpoint = &context.settings.endpoint;
    if let Some(head) = &reply.head {
        let status = head.status;
        ensure(status == UNAUTHORIZED, || format!("the status is {status}"))?;
        let challenge = head.header("www-authenticate");
        return ensure(challenge.is_some(), || "WWW-Authenticate is missing".to_owned());
    }
    let code = peer
        .closed(Deadline::after(CLOSE_TIMEOUT))
        .map_err(|_| CheckError::Failed(format!("it stays open after {}", reply.text)))?;
    ensure(!endpoint.is_websocket() || code == Some(POLICY_VIOLATION), || {
        format!("the close code is {code:?} instead of {POLICY_VIOLATION}")
    })
}

fn rejected(context: &Context<'_>, token: Option<&str>) -> CheckResult {
    let Some((reply, end)) = present(context, token)? else { return Ok(()) };
    let is_final = reply.value["error"]["retryable"] == false;
    ensure(is_final, || format!("it must not be retryable: {}", reply.text))?;
    end
}

fn expired(context: &Context<'_>) -> CheckResult {
    let Some((reply, end)) = present(context, context.settings.expired_token.as_deref())? else {
        // What the client has to do is known from the challenge of the response.
        return Ok(());
    };
    let error = &reply.value["error"];
    let details = &error["details"];
    let has_advice = details["reason"] == "token_expired" && details["advice"] == "refresh_token";
    ensure(error["retryable"] == true && has_advice, || {
        format!("not retryable with details.reason and details.advice: {}", reply.text)
    })?;
    end
}

fn websocket_handshake(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::open_with_token(context, None)
        .map_err(|error| CheckError::Failed(format!("without Authorization: {}", error.message)))?;
    peer.handshake(&full_handshake(context))?;
    expect_ready(&mut peer)
}
