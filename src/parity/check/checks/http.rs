//! HTTP: sessions, statuses, schemas.

use serde_json::{Value, json};

use crate::http_steps::{channel, fetch};
use crate::peer::{Message, Peer, capabilities, expect_error, full_handshake, handshake};
use crate::rules::{FLAGS, SCHEMAS};
use crate::steps::{cancel_running, ensure, long_call, send_twice};
use crate::suite::Level::Must;
use crate::suite::{Check, CheckError, CheckResult, Context, Need};

const NEEDS: &[Need] = &[Need::Http];

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "http.missing_session",
        level: Must,
        needs: NEEDS,
        rule: "a request without a session has status 400 and error.feature_not_available",
        run: missing_session,
    },
    Check {
        name: "http.unknown_session",
        level: Must,
        needs: NEEDS,
        rule: "an unknown session has status 404 and error.internal, retryable, details.reason \
               unknown_session",
        run: |context| unknown_session(context).map(drop),
    },
    Check {
        name: "http.unknown_session_id",
        level: Must,
        needs: NEEDS,
        rule: "a request of an unknown session is answered by a response with its id, another \
               message by an error",
        run: unknown_session_id,
    },
    Check {
        name: "http.status_version",
        level: Must,
        needs: NEEDS,
        rule: "error.version_unsupported has status 400",
        run: status_version,
    },
    Check {
        name: "http.status_feature",
        level: Must,
        needs: NEEDS,
        rule: "error.feature_not_available has status 400",
        run: |context| {
            let mut peer = Peer::ready(context)?;
            status(&mut peer, json!({"method": "no/such/method"}), 400)
        },
    },
    Check {
        name: "http.status_payload",
        level: Must,
        needs: NEEDS,
        rule: "error.payload_too_large has status 413",
        run: status_payload,
    },
    Check {
        name: "http.status_processed",
        level: Must,
        needs: NEEDS,
        rule: "error.already_processed has status 409",
        run: status_processed,
    },
    Check {
        name: "http.status_mistakes",
        level: Must,
        needs: NEEDS,
        rule: "what is not JSON or not UTF-8, malformed messages, invalid params and an unknown \
               tool have status 400",
        run: status_mistakes,
    },
    Check {
        name: "http.status_cancelled",
        level: Must,
        needs: &[Need::Http, Need::Flag("cancellation"), Need::LongTool],
        rule: "the response to a cancelled request has status 400",
        run: status_cancelled,
    },
    Check {
        name: "http.status_rate_limited",
        level: Must,
        needs: &[Need::Http, Need::LongTool],
        rule: "error.rate_limited has status 429",
        run: |context| expect_status(&rate_limited(context)?, 429),
    },
    Check {
        name: "http.retry_after",
        level: Must,
        needs: &[Need::Http, Need::LongTool],
        rule: "a response with status 429 has Retry-After: retryAfter in seconds, rounded up",
        run: retry_after,
    },
    Check {
        name: "http.accepted",
        level: Must,
        needs: NEEDS,
        rule: "a message without a response has status 202 and no body",
        run: accepted,
    },
    Check {
        name: "http.delete",
        level: Must,
        needs: NEEDS,
        rule: "DELETE ends the session",
        run: delete,
    },
    Check {
        name: "http.schemas",
        level: Must,
        needs: NEEDS,
        rule: "the eight JSON Schemas are served",
        run: schemas,
    },
];

fn missing_session(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::open(context)?;
    let id = peer.request(json!({"method": "ping"}))?;
    let answer = peer.answer(&id)?;
    expect_status(&answer, 400)?;
    expect_error(&answer, "error.feature_not_available", None)
}

/// Returns the session that has ended, and the answer to a request of it.
fn unknown_session<'a>(context: &'a Context<'a>) -> Result<(Peer<'a>, Message), CheckError> {
    let mut peer = Peer::acked(context)?;
    let session = channel(&mut peer)?.session().unwrap_or_default().to_owned();
    let (head, _) = fetch(context, &mut peer, "DELETE", "")?;
    ensure((200..300).contains(&head.status), || {
        format!("DELETE of '{session}' has status {}", head.status)
    })
    .map_err(CheckError::blocked)?;
    let id = peer.request(json!({"method": "ping"}))?;
    let answer = peer.answer(&id)?;
    expect_unknown_session(&answer)?;
    Ok((peer, answer))
}

fn expect_unknown_session(answer: &Message) -> CheckResult {
    expect_status(answer, 404)?;
    expect_error(answer, "error.internal", None)?;
    let error = &answer.value["error"];
    let is_named = error["details"]["reason"] == "unknown_session" && error["retryable"] == true;
    ensure(is_named, || format!("not retryable with details.reason: {}", answer.text))
}

fn unknown_session_id(context: &Context<'_>) -> CheckResult {
    let (mut peer, answer) = unknown_session(context).map_err(CheckError::blocked)?;
    ensure(answer.is("response"), || format!("no response to the request: {}", answer.text))?;
    peer.send(&json!({"type": "keepalive", "timeoutHintSec": 60}))?;
    let error = peer.wait("error", |message| message.is("error") || message.is("response"))?;
    expect_unknown_session(&error)?;
    ensure(error.is("error"), || format!("no error: {}", error.text))
}

fn expect_status(message: &Message, status: u16) -> CheckResult {
    ensure(message.status() == Some(status), || {
        let found = message.status().unwrap_or_default();
        format!("the status is {found} instead of {status}: {}", message.text)
    })
}

fn status_version(context: &Context<'_>) -> CheckResult {
    let mut message = full_handshake(context);
    message["protocolVersion"] = json!("99.0");
    let reply = Peer::open(context)?.handshake_reply(&message)?;
    if reply.is("handshakeAck") {
        return Err(CheckError::Blocked("the version was accepted".to_owned()));
    }
    expect_status(&reply, 400)
}

fn status(peer: &mut Peer<'_>, request: Value, status: u16) -> CheckResult {
    let id = peer.request(request)?;
    let answer = peer.answer(&id)?;
    if answer.value.get("error").is_none() {
        return Err(CheckError::Blocked(format!("it was served: {}", answer.text)));
    }
    expect_status(&answer, status)
}

fn status_payload(context: &Context<'_>) -> CheckResult {
    let mut flags = capabilities(&FLAGS);
    flags["maxPayloadBytes"] = json!(2048);
    let mut peer = Peer::ready_with(context, &handshake(context, &flags))?;
    let params = json!({"_meta": {"padding": "x".repeat(4096)}});
    status(&mut peer, json!({"method": "ping", "params": params}), 413)
}

fn status_processed(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::ready(context)?;
    let request = json!({"method": "ping", "idempotencyKey": "parity-check-http"});
    let id = peer.request(request.clone())?;
    peer.answer(&id)?;
    status(&mut peer, request, 409)
}

/// Texts that are mistakes of a client.
const MISTAKES: &[&[u8]] = &[
    b"{\"type\":\"request\",",
    b"{\"type\":\"keepalive\",\"note\":\"\xff\"}",
    b"[1]",
    b"{\"type\":\"no.such.type\"}",
    b"{\"type\":\"cancel\"}",
    b"{\"type\":\"request\",\"id\":1.5,\"method\":\"ping\"}",
];

fn status_mistakes(context: &Context<'_>) -> CheckResult {
    for text in MISTAKES {
        let mut peer = Peer::acked(context)?;
        peer.send_bytes(text)?;
        let error = peer.error()?;
        let text = String::from_utf8_lossy(text);
        expect_status(&error, 400).map_err(|error| error.prefixed(&text))?;
    }
    let mut peer = Peer::acked(context)?;
    status(&mut peer, json!({"method": "ping", "idempotencyKey": ""}), 400)?;
    if context.has_flag("tools") {
        let request = json!({"method": "tools/call", "params": {"arguments": {}}});
        status(&mut peer, request, 400)?;
        let params = json!({"name": "no-such-tool-of-parity-check", "arguments": {}});
        status(&mut peer, json!({"method": "tools/call", "params": params}), 400)?;
    }
    Ok(())
}

fn status_cancelled(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::ready(context)?;
    let id = peer.request(json!({"method": "tools/call", "params": long_call(context)}))?;
    let answer = cancel_running(&mut peer, context, id).map_err(CheckError::blocked)?;
    if answer.value.get("error").is_none() {
        return Err(CheckError::Blocked(format!("it was not cancelled: {}", answer.text)));
    }
    expect_status(&answer, 400)
}

/// Returns the answer to a request above `maxConcurrent`.
fn rate_limited(context: &Context<'_>) -> Result<Message, CheckError> {
    let mut flags = capabilities(&FLAGS);
    flags["maxConcurrent"] = json!(1);
    let mut peer = Peer::ready_with(context, &handshake(context, &flags))?;
    let request = json!({"method": "tools/call", "params": long_call(context)});
    let answer = send_twice(&mut peer, context, &request).map_err(CheckError::blocked)?;
    match expect_error(&answer, "error.rate_limited", None) {
        Ok(()) => Ok(answer),
        Err(error) => Err(error.blocked()),
    }
}

fn retry_after(context: &Context<'_>) -> CheckResult {
    let answer = rate_limited(context)?;
    let text = answer.head.as_ref().and_then(|head| head.header("retry-after"));
    let header = text.and_then(|text| text.parse::<u32>().ok()).map(f64::from);
    let Some(header) = header else {
        return Err(CheckError::Failed(format!("Retry-After is {text:?}: {}", answer.text)));
    };
    let seconds = answer.value["error"]["retryAfter"].as_f64();
    let seconds =
        seconds.ok_or_else(|| CheckError::Blocked(format!("no retryAfter: {}", answer.text)))?;
    // A server may say 1 where nothing needs to be waited for.
    ensure((seconds.ceil()..=seconds.ceil().max(1.0)).contains(&header), || {
        format!("Retry-After is {header} and retryAfter {seconds}")
    })
}

fn accepted(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::ready(context)?;
    peer.send(&json!({"type": "keepalive", "timeoutHintSec": 60}))?;
    peer.drain();
    let statuses = peer.empty_statuses();
    ensure(statuses == [202], || format!("statuses without a body: {statuses:?}"))
}

fn delete(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::acked(context)?;
    let (head, _) = fetch(context, &mut peer, "DELETE", "")?;
    ensure((200..300).contains(&head.status), || format!("the status is {}", head.status))?;
    let id = peer.request(json!({"method": "ping"}))?;
    let answer = peer.answer(&id)?;
    ensure(answer.value.get("result").is_none(), || format!("it was served: {}", answer.text))
}

fn schemas(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::open(context)?;
    for (name, _) in SCHEMAS {
        let path = format!("/schemas/protocol.{name}.schema.json");
        let (head, body) = fetch(context, &mut peer, "GET", &path)?;
        let schema: Value = serde_json::from_str(&body).unwrap_or_default();
        ensure(head.status == 200 && schema["$schema"].is_string(), || {
            format!("{path}: status {}, and no schema", head.status)
        })?;
    }
    Ok(())
}
