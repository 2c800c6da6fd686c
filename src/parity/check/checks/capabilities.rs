//! Capabilities: the intersection, its refinement, and that only it is used.

use std::time::Duration;

use serde_json::{Value, json};

use crate::deadline::Deadline;
use crate::peer::{Message, Peer, capabilities, expect_error, full_handshake, handshake};
use crate::rules::FLAGS;
use crate::steps::{ensure, expect_ready};
use crate::suite::Level::{Must, Should, Transition};
use crate::suite::{Check, CheckError, CheckResult, Context, Need};

/// Time of the exchange, three times the default of 5 seconds.
const EXCHANGE_TIMEOUT_MAX: Duration = Duration::from_secs(15);
/// Chunks of a stream that a server should keep, at least.
const WINDOW_CHUNKS_MIN: u64 = 1_000;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "capabilities.intersection",
        level: Must,
        needs: &[],
        rule: "the acknowledged capabilities are a subset of those of the client",
        run: intersection,
    },
    Check {
        name: "capabilities.minimum",
        level: Must,
        needs: &[],
        rule: "numbers of the intersection are the minimum of both sides",
        run: minimum,
    },
    Check {
        name: "capabilities.unknown_flag",
        level: Must,
        needs: &[],
        rule: "an unknown capability is not acknowledged",
        run: unknown_flag,
    },
    Check {
        name: "capabilities.resume_window",
        level: Must,
        needs: &[],
        rule: "resumeWindow and resumeToken are present only if resume is true in both",
        run: resume_window,
    },
    Check {
        name: "capabilities.ack_schema",
        level: Must,
        needs: &[],
        rule: "`capabilitiesAck` and the capabilities of `handshakeAck` match their schema",
        run: |context| exchanged(context, &capabilities(&FLAGS)).map(drop),
    },
    Check {
        name: "capabilities.exchanged",
        level: Transition,
        needs: &[],
        rule: "HandshakeAcked --(sendCaps/recvCapsAck)--> CapsExchanged",
        run: |context| exchanged(context, &capabilities(&FLAGS)).map(drop),
    },
    Check {
        name: "capabilities.ready",
        level: Transition,
        needs: &[],
        rule: "CapsExchanged --(implicit)--> Ready",
        run: |context| {
            let (mut peer, _) = exchanged(context, &capabilities(&FLAGS))?;
            expect_ready(&mut peer)
        },
    },
    Check {
        name: "capabilities.refined",
        level: Must,
        needs: &[],
        rule: "a refinement narrows the intersection",
        run: refined,
    },
    Check {
        name: "capabilities.only_narrows",
        level: Must,
        needs: &[],
        rule: "a refinement does not widen the intersection",
        run: only_narrows,
    },
    Check {
        name: "capabilities.empty_refinement",
        level: Must,
        needs: &[],
        rule: "an empty refinement is rejected by error.feature_not_available",
        run: empty_refinement,
    },
    Check {
        name: "capabilities.tools_enforced",
        level: Must,
        needs: &[Need::Flag("tools")],
        rule: "tools/list without `tools` is rejected by error.feature_not_available",
        run: |context| enforced(context, "tools", "tools/list"),
    },
    Check {
        name: "capabilities.resources_enforced",
        level: Must,
        needs: &[],
        rule: "resources/list without `resources` is rejected by error.feature_not_available",
        run: |context| enforced(context, "resources", "resources/list"),
    },
    Check {
        name: "capabilities.prompts_enforced",
        level: Must,
        needs: &[],
        rule: "prompts/list without `prompts` is rejected by error.feature_not_available",
        run: |context| enforced(context, "prompts", "prompts/list"),
    },
    Check {
        name: "capabilities.streaming_enforced",
        level: Must,
        needs: &[],
        rule: "`stream` without `streaming` is rejected by error.feature_not_available",
        run: streaming_enforced,
    },
    Check {
        name: "capabilities.cancellation_enforced",
        level: Must,
        needs: &[],
        rule: "`cancel` without `cancellation` is rejected by error.feature_not_available",
        run: cancellation_enforced,
    },
    Check {
        name: "capabilities.limits_announced",
        level: Should,
        needs: &[],
        rule: "the server announces maxConcurrent and maxPayloadBytes",
        run: limits_announced,
    },
    Check {
        name: "capabilities.window_size",
        level: Should,
        needs: &[Need::Flag("resume")],
        rule: "the resume window holds 1,000 chunks or more",
        run: window_size,
    },
    Check {
        name: "capabilities.timeout",
        level: Transition,
        needs: &[Need::Slow],
        rule: "Any --(timeout(capsTimeout))--> Ready with the first intersection, or \
               error.feature_not_available",
        run: timeout,
    },
];

const FEATURE: &str = "error.feature_not_available";

/// Returns a feature that the server has, other than `other`.
fn feature_besides<'a>(context: &Context<'_>, other: &str) -> Result<&'a str, CheckError> {
    let is_usable =
        |flag: &&str| *flag != other && (context.features.is_none() || context.has_flag(flag));
    FLAGS[..3]
        .iter()
        .copied()
        .find(is_usable)
        .ok_or_else(|| CheckError::Skipped(format!("the server has no feature besides `{other}`")))
}

/// Makes a handshake with these capabilities and the exchange announced.
fn exchanging<'a>(context: &'a Context<'a>, flags: &Value) -> Result<Peer<'a>, CheckError> {
    let mut message = handshake(context, flags);
    message["capabilitiesExchange"] = json!(true);
    Peer::ready_with(context, &message)
}

/// Sends `capabilities` and returns the answer.
fn refine(peer: &mut Peer<'_>, refinement: &Value) -> Result<Message, CheckError> {
    peer.send(&json!({"type": "capabilities", "capabilities": refinement}))?;
    peer.wait("answer to the capabilities", |message| {
        message.is("capabilitiesAck") || message.is("error")
    })
}

fn exchanged<'a>(
    context: &'a Context<'a>,
    refinement: &Value,
) -> Result<(Peer<'a>, Message), CheckError> {
    let mut peer = exchanging(context, &capabilities(&FLAGS))?;
    let reply = refine(&mut peer, refinement)?;
    ensure(reply.is("capabilitiesAck"), || format!("it was rejected: {}", reply.text))?;
    Ok((peer, reply))
}

/// Fails if `found` has a capability besides `flag`.
fn expect_only(found: &Value, flag: &str) -> CheckResult {
    let wider = FLAGS.iter().find(|other| **other != flag && found[**other] == true);
    match wider {
        None => Ok(()),
        Some(wider) => Err(CheckError::failed(format!(
            "only `{flag}` was announced, and `{wider}` is acknowledged: {found}"
        ))),
    }
}

fn intersection(context: &Context<'_>) -> CheckResult {
    let flag = feature_besides(context, "")?;
    let peer = Peer::ready_with(context, &handshake(context, &capabilities(&[flag])))?;
    expect_only(&peer.ack()["capabilities"], flag)
}

fn minimum(context: &Context<'_>) -> CheckResult {
    let mut flags = capabilities(&FLAGS);
    flags["maxConcurrent"] = json!(1);
    flags["maxPayloadBytes"] = json!(4096);
    let peer = Peer::ready_with(context, &handshake(context, &flags))?;
    let found = &peer.ack()["capabilities"];
    for (name, limit) in [("maxConcurrent", 1), ("maxPayloadBytes", 4096)] {
        ensure(found[name].as_u64().is_some_and(|number| number <= limit), || {
            format!("`{name}` must be {limit} or less: {found}")
        })?;
    }
    Ok(())
}

fn unknown_flag(context: &Context<'_>) -> CheckResult {
    let mut flags = capabilities(&FLAGS);
    flags["teleport"] = json!(true);
    let peer = Peer::ready_with(context, &handshake(context, &flags))?;
    let found = &peer.ack()["capabilities"];
    ensure(found["teleport"] != true, || format!("`teleport` is acknowledged: {found}"))
}

fn resume_window(context: &Context<'_>) -> CheckResult {
    let flag = feature_besides(context, "")?;
    let peer = Peer::ready_with(context, &handshake(context, &capabilities(&[flag])))?;
    let ack = peer.ack();
    let window = ack["capabilities"].get("resumeWindow");
    ensure(window.is_none() && ack.get("resumeToken").is_none(), || {
        format!("resume is not in the intersection: {ack}")
    })
}

fn refined(context: &Context<'_>) -> CheckResult {
    let flag = feature_besides(context, "")?;
    let (_, reply) = exchanged(context, &capabilities(&[flag]))?;
    expect_only(&reply.value["capabilities"], flag)
}

fn only_narrows(context: &Context<'_>) -> CheckResult {
    let flag = feature_besides(context, "")?;
    let mut peer = exchanging(context, &capabilities(&[flag]))?;
    let reply = refine(&mut peer, &capabilities(&FLAGS))?;
    ensure(reply.is("capabilitiesAck"), || format!("it was rejected: {}", reply.text))?;
    expect_only(&reply.value["capabilities"], flag)
}

fn empty_refinement(context: &Context<'_>) -> CheckResult {
    let mut peer = exchanging(context, &capabilities(&FLAGS))?;
    let reply = refine(&mut peer, &json!({}))?;
    ensure(!reply.is("capabilitiesAck"), || format!("it was accepted: {}", reply.text))?;
    expect_error(&reply, FEATURE, None)
}

/// Checks that a request is rejected if its feature is not in the intersection.
fn enforced(context: &Context<'_>, flag: &str, method: &str) -> CheckResult {
    let other = feature_besides(context, flag)?;
    let mut peer = Peer::ready_with(context, &handshake(context, &capabilities(&[other])))?;
    let id = peer.request(json!({"method": method}))?;
    let answer = peer.answer(&id)?;
    ensure(answer.value.get("result").is_none(), || format!("it was served: {}", answer.text))?;
    expect_error(&answer, FEATURE, None)
}

fn streaming_enforced(context: &Context<'_>) -> CheckResult {
    let flag = feature_besides(context, "")?;
    let mut peer = Peer::ready_with(context, &handshake(context, &capabilities(&[flag])))?;
    let id = peer.request(json!({"method": "ping", "stream": true}))?;
    let answer = peer.answer(&id)?;
    ensure(answer.value.get("result").is_none(), || format!("it was served: {}", answer.text))?;
    expect_error(&answer, FEATURE, None)
}

fn cancellation_enforced(context: &Context<'_>) -> CheckResult {
    let flag = feature_besides(context, "")?;
    let mut peer = Peer::ready_with(context, &handshake(context, &capabilities(&[flag])))?;
    peer.send(&json!({"type": "cancel", "id": "none"}))?;
    expect_error(&peer.error()?, FEATURE, None)
}

fn limits_announced(context: &Context<'_>) -> CheckResult {
    let peer = Peer::ready(context)?;
    let found = &peer.ack()["capabilities"];
    let is_announced = |name: &&str| found[*name].is_u64();
    ensure(["maxConcurrent", "maxPayloadBytes"].iter().all(is_announced), || {
        format!("a limit is missing: {found}")
    })
}

fn window_size(context: &Context<'_>) -> CheckResult {
    let peer = Peer::ready(context)?;
    let found = &peer.ack()["capabilities"];
    let chunks = found["resumeWindow"]["chunks"].as_u64();
    ensure(chunks.is_some_and(|chunks| chunks >= WINDOW_CHUNKS_MIN), || {
        format!("the window is smaller, or not announced: {found}")
    })
}

fn timeout(context: &Context<'_>) -> CheckResult {
    let mut message = full_handshake(context);
    message["capabilitiesExchange"] = json!(true);
    let mut peer = Peer::ready_with(context, &message)?;
    // A server that goes on with the first intersection announces nothing.
    peer.set_ready();
    let deadline = Deadline::after(EXCHANGE_TIMEOUT_MAX);
    while !deadline.is_over() {
        let id = peer.request(json!({"method": "ping"}))?;
        let answer = match peer.answer(&id) {
            Ok(answer) => answer,
            // It was closed, after the error that the last answer was.
            Err(_) if peer.closed(deadline).is_ok() => return Ok(()),
            Err(error) => return Err(error),
        };
        if answer.value.get("result").is_some() {
            return Ok(());
        }
        expect_error(&answer, FEATURE, None)?;
        peer.drain();
    }
    Err(CheckError::failed("neither Ready nor closed in time"))
}
