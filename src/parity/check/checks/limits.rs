//! Limits and idempotency: size of requests, requests in flight, keys that were used.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::peer::{Message, Peer, capabilities, expect_error, handshake};
use crate::rules::FLAGS;
use crate::steps::{ensure, expect_ready, long_call, send_twice};
use crate::suite::Level::Must;
use crate::suite::{Check, CheckError, CheckResult, Context, Need};

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "limits.payload",
        level: Must,
        needs: &[],
        rule: "a request above maxPayloadBytes is rejected by error.payload_too_large",
        run: payload,
    },
    Check {
        name: "limits.payload_within",
        level: Must,
        needs: &[],
        rule: "a request within maxPayloadBytes is served",
        run: payload_within,
    },
    Check {
        name: "limits.concurrent",
        level: Must,
        needs: &[Need::LongTool],
        rule: "a request above maxConcurrent is rejected by error.rate_limited",
        run: |context| beyond_concurrent(context).map(drop),
    },
    Check {
        name: "limits.retry_after",
        level: Must,
        needs: &[Need::LongTool],
        rule: "error.rate_limited has retryAfter",
        run: retry_after,
    },
    Check {
        name: "idempotency.finished",
        level: Must,
        needs: &[],
        rule: "a key of a finished request is rejected by error.already_processed",
        run: |context| finished(context).map(drop),
    },
    Check {
        name: "idempotency.result_hash",
        level: Must,
        needs: &[],
        rule: "details.resultHash is the SHA-256 of the first result",
        run: result_hash,
    },
    Check {
        name: "idempotency.running",
        level: Must,
        needs: &[Need::LongTool],
        rule: "a key of a running request is rejected by error.already_processed",
        run: running,
    },
    Check {
        name: "idempotency.other_key",
        level: Must,
        needs: &[],
        rule: "other keys are served",
        run: other_key,
    },
    Check {
        name: "idempotency.empty_key",
        level: Must,
        needs: &[],
        rule: "an empty key is rejected by error.internal, mcpCode -32600",
        run: |context| invalid_key(context, 0),
    },
    Check {
        name: "idempotency.long_key",
        level: Must,
        needs: &[],
        rule: "a key of 129 bytes is rejected by error.internal, mcpCode -32600",
        run: |context| invalid_key(context, 129),
    },
];

/// The limit that the client announces.
const PAYLOAD_BYTES_MAX: usize = 2048;

fn limited<'a>(context: &'a Context<'a>, name: &str, limit: usize) -> Result<Peer<'a>, CheckError> {
    let mut flags = capabilities(&FLAGS);
    flags[name] = json!(limit);
    Peer::ready_with(context, &handshake(context, &flags))
}

/// Sends a `ping` of about `bytes`, and returns the answer.
fn padded_ping(peer: &mut Peer<'_>, bytes: usize) -> Result<Message, CheckError> {
    let params = json!({"_meta": {"padding": "x".repeat(bytes)}});
    let id = peer.request(json!({"method": "ping", "params": params}))?;
    peer.answer(&id)
}

fn payload(context: &Context<'_>) -> CheckResult {
    let mut peer = limited(context, "maxPayloadBytes", PAYLOAD_BYTES_MAX)?;
    let answer = padded_ping(&mut peer, 2 * PAYLOAD_BYTES_MAX)?;
    ensure(answer.value.get("result").is_none(), || format!("it was served: {}", answer.text))?;
    expect_error(&answer, "error.payload_too_large", None)
}

fn payload_within(context: &Context<'_>) -> CheckResult {
    let mut peer = limited(context, "maxPayloadBytes", PAYLOAD_BYTES_MAX)?;
    let answer = padded_ping(&mut peer, PAYLOAD_BYTES_MAX / 2)?;
    ensure(answer.value.get("result").is_some(), || format!("it was rejected: {}", answer.text))
}

fn beyond_concurrent<'a>(context: &'a Context<'a>) -> Result<Message, CheckError> {
    let mut peer = limited(context, "maxConcurrent", 1)?;
    let request = json!({"method": "tools/call", "params": long_call(context)});
    let answer = send_twice(&mut peer, context, &request)?;
    expect_error(&answer, "error.rate_limited", None)?;
    Ok(answer)
}

fn retry_after(context: &Context<'_>) -> CheckResult {
    let answer = beyond_concurrent(context).map_err(CheckError::blocked)?;
    let seconds = answer.value["error"]["retryAfter"].as_f64();
    ensure(seconds.is_some_and(|seconds| seconds >= 0.0), || {
        format!("no retryAfter: {}", answer.text)
    })
}

fn ping_with_key(peer: &mut Peer<'_>, key: &str) -> Result<Message, CheckError> {
    let id = peer.request(json!({"method": "ping", "idempotencyKey": key}))?;
    peer.answer(&id)
}

/// Sends a key twice and returns both answers.
fn finished(context: &Context<'_>) -> Result<(Message, Message), CheckError> {
    let mut peer = Peer::ready(context)?;
    let first = ping_with_key(&mut peer, "parity-check-1")?;
    ensure(first.value.get("result").is_some(), || format!("it was rejected: {}", first.text))?;
    let second = ping_with_key(&mut peer, "parity-check-1")?;
    ensure(second.value.get("result").is_none(), || format!("it ran twice: {}", second.text))?;
    expect_error(&second, "error.already_processed", None)?;
    expect_ready(&mut peer)?;
    Ok((first, second))
}

fn result_hash(context: &Context<'_>) -> CheckResult {
    let (first, second) = finished(context).map_err(CheckError::blocked)?;
    let found = &second.value["error"]["details"]["resultHash"];
    let result = first.raw_member("result").unwrap_or_default();
    let digest = Sha256::digest(result.as_bytes());
    let wanted: String = digest
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect();
    ensure(*found == Value::String(wanted.clone()), || {
        format!("resultHash must be {wanted}: {}", second.text)
    })
}

fn running(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::ready(context)?;
    let request = json!({
        "method": "tools/call", "params": long_call(context), "idempotencyKey": "parity-check-2",
    });
    let answer = send_twice(&mut peer, context, &request)?;
    expect_error(&answer, "error.already_processed", None)
}

fn other_key(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::ready(context)?;
    for key in ["a", "b", &"k".repeat(128)] {
        let answer = ping_with_key(&mut peer, key)?;
        ensure(answer.value.get("result").is_some(), || format!("rejected: {}", answer.text))?;
    }
    Ok(())
}

fn invalid_key(context: &Context<'_>, bytes: usize) -> CheckResult {
    let mut peer = Peer::ready(context)?;
    let answer = ping_with_key(&mut peer, &"k".repeat(bytes))?;
    ensure(answer.value.get("result").is_none(), || format!("it was served: {}", answer.text))?;
    expect_error(&answer, "error.internal", Some(-32600))
}
