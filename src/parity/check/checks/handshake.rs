//! The handshake: acknowledgement, versions, rejected handshakes.

use std::time::Duration;

use serde_json::{Value, json};

use crate::deadline::Deadline;
use crate::peer::{Peer, capabilities, expect_error, full_handshake, handshake};
use crate::steps::{ensure, expect_ready};
use crate::suite::Level::{Must, Transition};
use crate::suite::{Check, CheckError, CheckResult, Context, Need};

/// Time that a server has to close a connection without a handshake. The default is 5 seconds; a
/// listener that serves MCP too applies its own time to the first message.
const HANDSHAKE_TIMEOUT_MAX: Duration = Duration::from_secs(45);

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "handshake.acked",
        level: Transition,
        needs: &[],
        rule: "HandshakeSent --(recvHandshakeAck)--> HandshakeAcked: a valid handshake is \
               answered by `handshakeAck`",
        run: acked,
    },
    Check {
        name: "handshake.ack_schema",
        level: Must,
        needs: &[],
        rule: "`handshakeAck` has protocolVersion, sessionId, capabilities and serverInfo",
        run: |context| Peer::ready(context).map(drop),
    },
    Check {
        name: "handshake.ready",
        level: Transition,
        needs: &[],
        rule: "HandshakeAcked --(no explicit caps)--> Ready",
        run: |context| expect_ready(&mut Peer::ready(context)?),
    },
    Check {
        name: "handshake.session_unique",
        level: Must,
        needs: &[],
        rule: "each handshake gets a session of its own",
        run: session_unique,
    },
    Check {
        name: "handshake.minimal",
        level: Must,
        needs: &[],
        rule: "type, protocolVersion and capabilities are all that a handshake needs",
        run: minimal,
    },
    Check {
        name: "handshake.unknown_members",
        level: Must,
        needs: &[],
        rule: "unknown members are ignored",
        run: unknown_members,
    },
    Check {
        name: "handshake.traceparent",
        level: Must,
        needs: &[],
        rule: "a trace context is accepted",
        run: traceparent,
    },
    Check {
        name: "handshake.resumed_absent",
        level: Must,
        needs: &[],
        rule: "`resumed` is absent if no token was presented",
        run: resumed_absent,
    },
    Check {
        name: "handshake.version_unsupported",
        level: Must,
        needs: &[],
        rule: "an unknown version is rejected by error.version_unsupported",
        run: |context| reject(context, "protocolVersion", json!("99.0"), VERSION),
    },
    Check {
        name: "handshake.empty_capabilities",
        level: Must,
        needs: &[],
        rule: "empty capabilities are rejected by error.feature_not_available",
        run: |context| reject(context, "capabilities", json!({}), FEATURE),
    },
    Check {
        name: "handshake.missing_capabilities",
        level: Must,
        needs: &[],
        rule: "missing capabilities are rejected by error.feature_not_available",
        run: missing_capabilities,
    },
    Check {
        name: "handshake.no_common_feature",
        level: Must,
        needs: &[],
        rule: "an intersection without tools, resources and prompts is rejected by \
               error.feature_not_available",
        run: |context| reject(context, "capabilities", json!({"streaming": true}), FEATURE),
    },
    Check {
        name: "handshake.malformed",
        level: Must,
        needs: &[],
        rule: "a version that is no text is rejected by error.internal, mcpCode -32600",
        run: malformed,
    },
    Check {
        name: "handshake.rejection_closes",
        level: Transition,
        needs: &[Need::Connection],
        rule: "Any --(error.version_unsupported)--> Closing: the connection closes after it",
        run: |context| rejection_close_code(context, json!("99.0"), None).map(drop),
    },
    Check {
        name: "handshake.close_code_version",
        level: Must,
        needs: &[Need::WebSocket],
        rule: "error.version_unsupported closes a WebSocket with code 1002",
        run: |context| rejection_close_code(context, json!("99.0"), Some(1002)),
    },
    Check {
        name: "handshake.timeout",
        level: Transition,
        needs: &[Need::Connection, Need::Slow],
        rule: "Any --(timeout(handshakeTimeout)/emit error.version_unsupported)--> Closing: a \
               connection without a handshake closes after it (WebSocket: 1002)",
        run: timeout,
    },
];

const VERSION: &str = "error.version_unsupported";
const FEATURE: &str = "error.feature_not_available";

fn acked(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::open(context)?;
    peer.handshake(&full_handshake(context)).map(drop)
}

fn session_unique(context: &Context<'_>) -> CheckResult {
    let first = Peer::ready(context)?;
    let second = Peer::ready(context)?;
    let (first, second) = (&first.ack()["sessionId"], &second.ack()["sessionId"]);
    ensure(first != second, || format!("two connections have the session {first}"))
}

fn minimal(context: &Context<'_>) -> CheckResult {
    let mut message = full_handshake(context);
    if let Some(members) = message.as_object_mut() {
        members.retain(|name, _| name != "clientInfo");
    }
    Peer::open(context)?.handshake(&message).map(drop)
}

fn unknown_members(context: &Context<'_>) -> CheckResult {
    let mut message = full_handshake(context);
    message["extension"] = json!({"a": [1, null]});
    message["capabilities"]["teleport"] = json!(true);
    Peer::open(context)?.handshake(&message).map(drop)
}

fn traceparent(context: &Context<'_>) -> CheckResult {
    let mut message = full_handshake(context);
    message["traceparent"] = json!("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    Peer::open(context)?.handshake(&message).map(drop)
}

fn resumed_absent(context: &Context<'_>) -> CheckResult {
    let peer = Peer::ready(context)?;
    let resumed = peer.ack().get("resumed");
    ensure(resumed.is_none(), || format!("`resumed` without a token: {}", peer.ack()))
}

/// Checks that a handshake with one member replaced is rejected by `code`.
fn reject(context: &Context<'_>, member: &str, value: Value, code: &str) -> CheckResult {
    let mut message = full_handshake(context);
    message[member] = value;
    expect_rejected(context, &message, code, None)
}

fn expect_rejected(
    context: &Context<'_>,
    message: &Value,
    code: &str,
    mcp_code: Option<i64>,
) -> CheckResult {
    let reply = Peer::open(context)?.handshake_reply(message)?;
    ensure(!reply.is("handshakeAck"), || format!("it was accepted: {}", reply.text))?;
    expect_error(&reply, code, mcp_code)
}

fn missing_capabilities(context: &Context<'_>) -> CheckResult {
    let mut message = handshake(context, &capabilities(&[]));
    if let Some(members) = message.as_object_mut() {
        members.retain(|name, _| name != "capabilities");
    }
    expect_rejected(context, &message, FEATURE, None)
}

fn malformed(context: &Context<'_>) -> CheckResult {
    let mut message = full_handshake(context);
    message["protocolVersion"] = json!(1);
    expect_rejected(context, &message, "error.internal", Some(-32600))
}

/// Checks that a handshake with another version is followed by the end of the connection.
fn rejection_close_code(context: &Context<'_>, version: Value, wanted: Option<u16>) -> CheckResult {
    let mut peer = Peer::open(context)?;
    let mut message = full_handshake(context);
    message["protocolVersion"] = version;
    let reply = peer.handshake_reply(&message)?;
    if reply.is("handshakeAck") {
        return Err(CheckError::Blocked("the version was accepted".to_owned()));
    }
    let code = peer.closed(context.settings.deadline())?;
    ensure(wanted.is_none() || code == wanted, || {
        format!("the close code is {code:?} instead of {wanted:?}")
    })
}

fn timeout(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::open(context)?;
    peer.channel()
        .send_part("{\"type\":\"handshake\"")
        .map_err(|error| CheckError::Blocked(format!("a part of a line was not sent: {error}")))?;
    let code = peer.closed(Deadline::after(HANDSHAKE_TIMEOUT_MAX))?;
    let messages = peer.take_pending();
    let Some(error) = messages.back().filter(|last| last.is("error")) else {
        return Err(CheckError::failed("it was closed without an error"));
    };
    expect_error(error, VERSION, None)?;
    let object = &error.value["error"];
    let is_named = object["details"]["reason"] == "handshake_timeout";
    ensure(is_named && object["retryable"] == false, || {
        format!("retryable, or without details.reason handshake_timeout: {}", error.text)
    })?;
    ensure(!context.settings.endpoint.is_websocket() || code == Some(1002), || {
        format!("the close code is {code:?} instead of 1002")
    })
}
