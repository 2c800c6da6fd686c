//! Events that the state of a connection does not allow, and connections that end in each state.

use serde_json::{Value, json};

use crate::peer::{Message, Peer, capabilities, expect_error, full_handshake};
use crate::rules::FLAGS;
use crate::steps::{ensure, expect_ready, open_long_stream};
use crate::suite::Level::{Must, Transition};
use crate::suite::{Check, CheckError, CheckResult, Context, Need};
use crate::wire::Received;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "states.request_before_ready",
        level: Must,
        needs: &[Need::Connection],
        rule: "no request is processed before the handshake",
        run: request_before_handshake,
    },
    Check {
        name: "states.request_before_exchange",
        level: Must,
        needs: &[],
        rule: "no request is processed before an announced exchange of capabilities",
        run: request_before_exchange,
    },
    Check {
        name: "states.second_handshake",
        level: Must,
        needs: &[],
        rule: "a handshake at Ready is rejected by error.feature_not_available",
        run: |context| reject(context, &full_handshake(context)).map(drop),
    },
    Check {
        name: "states.capabilities_after_ready",
        level: Must,
        needs: &[],
        rule: "`capabilities` at Ready are rejected by error.feature_not_available",
        run: |context| reject(context, &late_capabilities()).map(drop),
    },
    Check {
        name: "states.error_details",
        level: Must,
        needs: &[],
        rule: "the error of an event that the state does not allow has details.state and \
               details.event",
        run: error_details,
    },
    Check {
        name: "states.stays_ready",
        level: Transition,
        needs: &[],
        rule: "Ready --(rejected event)--> Ready: the connection stays",
        run: stays_ready,
    },
    Check {
        name: "states.disconnect_connecting",
        level: Transition,
        needs: &[Need::Connection],
        rule: "Any --(disconnect)--> Disconnected: Connecting",
        run: |context| served_after(context, |context| Peer::open(context).map(drop)),
    },
    Check {
        name: "states.disconnect_half_handshake",
        level: Transition,
        needs: &[Need::Connection],
        rule: "Any --(disconnect)--> Disconnected: within a handshake",
        run: |context| served_after(context, half_handshake),
    },
    Check {
        name: "states.disconnect_handshake_sent",
        level: Transition,
        needs: &[],
        rule: "Any --(disconnect)--> Disconnected: HandshakeSent",
        run: |context| {
            served_after(context, |context| Peer::open(context)?.send(&full_handshake(context)))
        },
    },
    Check {
        name: "states.disconnect_acked",
        level: Transition,
        needs: &[],
        rule: "Any --(disconnect)--> Disconnected: HandshakeAcked",
        run: |context| served_after(context, |context| waiting_exchange(context).map(drop)),
    },
    Check {
        name: "states.disconnect_ready",
        level: Transition,
        needs: &[],
        rule: "Any --(disconnect)--> Disconnected: Ready",
        run: |context| served_after(context, |context| Peer::ready(context).map(drop)),
    },
    Check {
        name: "states.disconnect_streaming",
        level: Transition,
        needs: &[Need::Flag("streaming"), Need::LongTool],
        rule: "Any --(disconnect)--> Disconnected: Ready with an open stream",
        run: |context| {
            served_after(context, |context| {
                open_long_stream(&mut Peer::ready(context)?, context).map(drop)
            })
        },
    },
    Check {
        name: "states.disconnect_canceling",
        level: Transition,
        needs: &[Need::Flag("streaming"), Need::Flag("cancellation"), Need::LongTool],
        rule: "Any --(disconnect)--> Disconnected: Canceling",
        run: |context| served_after(context, disconnect_canceling),
    },
];

const FEATURE: &str = "error.feature_not_available";

fn late_capabilities() -> Value {
    json!({"type": "capabilities", "capabilities": capabilities(&FLAGS)})
}

/// The first message of a connection is a request. A listener that serves MCP too answers in the
/// terms of MCP.
fn request_before_handshake(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::open(context)?;
    let request = json!({"type": "request", "id": 1, "method": "ping"}).to_string();
    // The server may close the connection at once.
    peer.channel().send(request.as_bytes()).ok();
    match peer.channel().receive(context.settings.deadline()) {
        Received::Message { text, .. } => {
            let value: Value = serde_json::from_str(&text).unwrap_or_default();
            ensure(value.get("result").is_none(), || format!("the request was served: {text}"))
        }
        Received::Nothing | Received::Empty { .. } | Received::Closed { .. } => Ok(()),
    }
}

fn waiting_exchange<'a>(context: &'a Context<'a>) -> Result<Peer<'a>, CheckError> {
    let mut message = full_handshake(context);
    message["capabilitiesExchange"] = json!(true);
    Peer::ready_with(context, &message)
}

fn request_before_exchange(context: &Context<'_>) -> CheckResult {
    let mut peer = waiting_exchange(context)?;
    let id = peer.request(json!({"method": "ping"}))?;
    let answer = peer.answer(&id)?;
    ensure(answer.value.get("result").is_none(), || format!("it was served: {}", answer.text))?;
    expect_error(&answer, FEATURE, None)
}

/// Sends a message that Ready does not allow, and returns the error.
fn reject<'a>(
    context: &'a Context<'a>,
    message: &Value,
) -> Result<(Peer<'a>, Message), CheckError> {
    let mut peer = Peer::ready(context)?;
    peer.send(message)?;
    let reply = peer.wait("error", |reply| {
        reply.is("error") || reply.is("handshakeAck") || reply.is("capabilitiesAck")
    })?;
    ensure(reply.is("error"), || format!("it was accepted: {}", reply.text))?;
    expect_error(&reply, FEATURE, None)?;
    Ok((peer, reply))
}

fn error_details(context: &Context<'_>) -> CheckResult {
    let (_, reply) = reject(context, &full_handshake(context))?;
    let details = &reply.value["error"]["details"];
    ensure(details["state"].is_string() && details["event"].is_string(), || {
        format!("details.state or details.event is missing: {}", reply.text)
    })
}

fn stays_ready(context: &Context<'_>) -> CheckResult {
    let (mut peer, _) = reject(context, &late_capabilities())?;
    expect_ready(&mut peer)
}

fn half_handshake(context: &Context<'_>) -> CheckResult {
    let part = "{\"type\":\"handshake\",\"protocolVersion\":";
    Peer::open(context)?
        .channel()
        .send_part(part)
        .map_err(|error| CheckError::Blocked(format!("a part of a line was not sent: {error}")))
}

fn disconnect_canceling(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::ready(context)?;
    let (_, stream) = open_long_stream(&mut peer, context)?;
    peer.send(&json!({"type": "cancel", "streamId": stream}))
}

/// Ends a connection in the middle, and checks that the server still serves others.
fn served_after(
    context: &Context<'_>,
    disconnect: impl FnOnce(&Context<'_>) -> CheckResult,
) -> CheckResult {
    disconnect(context).map_err(CheckError::blocked)?;
    expect_ready(&mut Peer::ready(context)?)
}
