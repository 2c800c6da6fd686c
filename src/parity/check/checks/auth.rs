//! Authentication, the same on every transport.

use serde_json::json;

use crate::peer::{Peer, expect_error, full_handshake};
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
        rule: "a missing token is rejected by error.auth.unauthorized, with status 401 over HTTP",
        run: |context| rejected(context, None),
    },
    Check {
        name: "auth.invalid",
        level: Must,
        needs: &[Need::Token],
        rule: "an invalid token is rejected by error.auth.unauthorized, with status 401 over HTTP",
        run: |context| rejected(context, Some("not-a-token-of-this-server")),
    },
];

/// Status of a request without a valid token.
const UNAUTHORIZED: u16 = 401;

fn accepted(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::open(context)?;
    peer.handshake(&full_handshake(context))?;
    expect_ready(&mut peer)
}

fn rejected(context: &Context<'_>, token: Option<&str>) -> CheckResult {
    let mut peer = match Peer::open_with_token(context, token) {
        Ok(peer) => peer,
        // The upgrade to WebSocket is authenticated as other requests of HTTP are.
        Err(error) if error.status == Some(UNAUTHORIZED) => return Ok(()),
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
    ensure(reply.status.is_none_or(|status| status == UNAUTHORIZED), || {
        format!("the status is {:?}", reply.status)
    })
}
