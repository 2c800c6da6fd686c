//! Failures that end a connection: the error that says so, and the close that follows. The statuses
//! of HTTP are rules of the family `http`.

use std::io;
use std::time::Duration;

use serde_json::{Value, json};

use crate::deadline::Deadline;
use crate::http_steps::{channel, complete};
use crate::peer::{Message, Peer, capabilities, expect_error, full_handshake, handshake};
use crate::rules::{FLAGS, check_message};
use crate::steps::ensure;
use crate::suite::Level::Must;
use crate::suite::{Check, CheckError, CheckResult, Context, Need};
use crate::wire::Received;
use crate::wire::exchange::describe_proxy;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "failures.too_large",
        level: Must,
        needs: &[],
        rule: "a request above the maxPayloadBytes of the client is answered by a response with \
               error.payload_too_large, and the connection closes (WebSocket: 1009)",
        run: |context| ended_by(context, too_large(context)?, 1009),
    },
    Check {
        name: "failures.too_large_for_server",
        level: Must,
        needs: &[],
        rule: "a text above the maxPayloadBytes of the server is answered by \
               error.payload_too_large, and the connection closes (WebSocket: 1009)",
        run: |context| ended_by(context, too_large_for_server(context)?, 1009),
    },
    Check {
        name: "failures.not_utf8",
        level: Must,
        needs: &[],
        rule: "a text that is not UTF-8 is answered by error.internal, not retryable, mcpCode \
               -32700, and the connection closes (WebSocket: 1007)",
        run: |context| ended_by(context, not_utf8(context)?, 1007),
    },
    Check {
        name: "failures.first_request",
        level: Must,
        needs: &[],
        rule: "a request before the handshake is answered by a response with \
               error.feature_not_available and details.state Connecting, and the connection \
               closes (WebSocket: 1008)",
        run: |context| ended_by(context, first_request(context)?, 1008),
    },
    Check {
        name: "failures.first_keepalive",
        level: Must,
        needs: &[],
        rule: "a keepalive, cancel or error before the handshake is answered by \
               error.feature_not_available and details.state Connecting, and the connection \
               closes (WebSocket: 1008)",
        run: first_messages,
    },
    Check {
        name: "failures.across_transports",
        level: Must,
        needs: &[Need::OtherTarget],
        rule: "the error object of a failure is the same, byte by byte, over another transport",
        run: across_transports,
    },
];

/// Time that a server has to close a connection after the error that ends it.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// The limit that the client announces.
const PAYLOAD_BYTES_MAX: usize = 2048;
/// Largest limit of a server that a text exceeds for a check.
const SERVER_BYTES_MAX: u64 = 16 << 20;

const FEATURE: &str = "error.feature_not_available";

/// A failure that was answered, and the connection that it ends.
type Failed<'a> = Result<Failure<'a>, CheckError>;

struct Failure<'a> {
    peer: Peer<'a>,
    answer: Message,
}

impl<'a> Failure<'a> {
    /// Waits for the error of a failure, which must have this code and not be retryable.
    fn receive(mut peer: Peer<'a>, code: &str, mcp_code: Option<i64>) -> Failed<'a> {
        let answer = peer.error()?;
        expect_error(&answer, code, mcp_code)?;
        Self::new(peer, answer)
    }

    fn new(peer: Peer<'a>, answer: Message) -> Failed<'a> {
        let is_final = answer.value["error"]["retryable"] == false;
        ensure(is_final, || format!("it must not be retryable: {}", answer.text))?;
        Ok(Self { peer, answer })
    }

    /// Checks that it is the response to a request, or an error of no request.
    fn expect_type(self, kind: &str) -> Failed<'a> {
        ensure(self.answer.is(kind), || format!("it is no `{kind}`: {}", self.answer.text))?;
        Ok(self)
    }

    /// Returns the bytes of the error object.
    fn error_text(&self) -> String {
        self.answer.raw_member("error").unwrap_or_default()
    }
}

/// Checks that the connection closes after the error, a WebSocket with this code.
fn ended_by(context: &Context<'_>, failure: Failure<'_>, code: u16) -> CheckResult {
    let endpoint = &context.settings.endpoint;
    if endpoint.is_http() {
        return Ok(());
    }
    let Failure { mut peer, answer } = failure;
    let found = peer
        .closed(Deadline::after(CLOSE_TIMEOUT))
        .map_err(|_| CheckError::Failed(format!("it stays open after {}", answer.text)))?;
    ensure(!endpoint.is_websocket() || found == Some(code), || {
        format!("the close code is {found:?} instead of {code}")
    })
}

/// Returns an error if the request was served, which is the rule of another check.
fn expect_not_served(answer: &Message) -> CheckResult {
    let is_served = answer.value.get("result").is_some();
    ensure(!is_served, || format!("it was served: {}", answer.text)).map_err(CheckError::blocked)
}

fn too_large<'a>(context: &'a Context<'a>) -> Failed<'a> {
    let mut flags = capabilities(&FLAGS);
    flags["maxPayloadBytes"] = json!(PAYLOAD_BYTES_MAX);
    let mut peer = Peer::ready_with(context, &handshake(context, &flags))?;
    let params = json!({"_meta": {"padding": "x".repeat(2 * PAYLOAD_BYTES_MAX)}});
    let id = peer.request(json!({"method": "ping", "params": params}))?;
    let answer = peer.answer(&id)?;
    expect_not_served(&answer)?;
    expect_error(&answer, "error.payload_too_large", None).map_err(CheckError::blocked)?;
    Failure::new(peer, answer)?.expect_type("response")
}

fn too_large_for_server<'a>(context: &'a Context<'a>) -> Failed<'a> {
    let mut peer = Peer::ready(context)?;
    let Some(limit) = peer.ack()["capabilities"]["maxPayloadBytes"].as_u64() else {
        return Err(CheckError::Skipped("the server announces no maxPayloadBytes".to_owned()));
    };
    if limit > SERVER_BYTES_MAX {
        let text = format!("maxPayloadBytes of the server is {limit}: too much for a check");
        return Err(CheckError::Skipped(text));
    }
    let padding = "x".repeat(usize::try_from(limit).unwrap_or_default());
    let params = json!({"_meta": {"padding": padding}});
    let request = json!({"type": "request", "id": 1, "method": "ping", "params": params});
    // The server need not read so much of it that it knows the id.
    let answer = if context.settings.endpoint.is_http() {
        post(context, &mut peer, &request)?
    } else {
        peer.request(request.clone())?;
        peer.answer(&request["id"])?
    };
    expect_not_served(&answer)?;
    expect_error(&answer, "error.payload_too_large", None)?;
    Failure::new(peer, answer)
}

/// Posts a request that a proxy may reject.
fn post(
    context: &Context<'_>,
    peer: &mut Peer<'_>,
    request: &Value,
) -> Result<Message, CheckError> {
    let failed = |error: io::Error| CheckError::Failed(format!("POST: {error}"));
    let body = request.to_string();
    let exchange = channel(peer)?.start("POST", "", Some(body.as_bytes()), None);
    let (head, text) = complete(context, exchange.map_err(failed)?).map_err(failed)?;
    let Ok(value) = serde_json::from_str(&text) else {
        return Err(CheckError::Failed(format!(
            "status {} without an error; {} may reject the request (nginx: \
             `client_max_body_size`)",
            head.status,
            describe_proxy(Some(&head)),
        )));
    };
    context.record(check_message(&value));
    Ok(Message { text, value, head: Some(head), event: None })
}

fn not_utf8<'a>(context: &'a Context<'a>) -> Failed<'a> {
    let mut peer = Peer::ready(context)?;
    peer.send_bytes(b"{\"type\":\"keepalive\",\"timeoutHintSec\":60,\"note\":\"\xff\xfe\"}")?;
    Failure::receive(peer, "error.internal", Some(-32700))?.expect_type("error")
}

/// Sends a message before the handshake, and returns its answer. A listener that serves MCP too may
/// answer in the terms of MCP.
fn first_message<'a>(context: &'a Context<'a>, message: &Value) -> Failed<'a> {
    let mut peer = Peer::open(context)?;
    peer.send(message)?;
    let deadline = context.settings.deadline();
    let (text, head) = match peer.channel().receive(deadline) {
        Received::Message { text, head, .. } => (text, head),
        Received::Closed { reason, .. } => {
            return Err(CheckError::Failed(format!("closed without an error ({reason})")));
        }
        Received::Nothing | Received::Empty { .. } => {
            return Err(CheckError::failed("no error in time"));
        }
    };
    let value: Value = serde_json::from_str(&text).unwrap_or_default();
    if value.get("jsonrpc").is_some() {
        let text = "the listener serves MCP too, and answers in its terms";
        return Err(CheckError::Skipped(text.to_owned()));
    }
    context.record(check_message(&value));
    let answer = Message { text, value, head, event: None };
    expect_not_served(&answer)?;
    expect_error(&answer, FEATURE, None)?;
    let details = &answer.value["error"]["details"];
    ensure(details["state"] == "Connecting" && details["event"].is_string(), || {
        format!("no details.state Connecting with details.event: {}", answer.text)
    })?;
    Failure::new(peer, answer)
}

fn first_request<'a>(context: &'a Context<'a>) -> Failed<'a> {
    let request = json!({"type": "request", "id": "first", "method": "ping"});
    let failure = first_message(context, &request)?.expect_type("response")?;
    let answer = &failure.answer;
    ensure(answer.value["id"] == "first", || format!("it has another id: {}", answer.text))?;
    Ok(failure)
}

fn first_keepalive<'a>(context: &'a Context<'a>) -> Failed<'a> {
    first_message(context, &json!({"type": "keepalive", "timeoutHintSec": 60}))?
        .expect_type("error")
}

fn first_messages(context: &Context<'_>) -> CheckResult {
    ended_by(context, first_keepalive(context)?, 1008)?;
    let error = json!({"code": "error.internal", "message": "a test", "retryable": false});
    for message in [json!({"type": "cancel", "id": 1}), json!({"type": "error", "error": error})] {
        let failure = first_message(context, &message).and_then(|it| it.expect_type("error"));
        let ended = failure.and_then(|failure| ended_by(context, failure, 1008));
        ended.map_err(|error| error.prefixed(&message.to_string()))?;
    }
    Ok(())
}

fn unknown_version<'a>(context: &'a Context<'a>) -> Failed<'a> {
    let mut peer = Peer::open(context)?;
    let mut message = full_handshake(context);
    message["protocolVersion"] = json!("99.0");
    peer.send(&message)?;
    Failure::receive(peer, "error.version_unsupported", None)
}

fn empty_capabilities<'a>(context: &'a Context<'a>) -> Failed<'a> {
    let mut peer = Peer::open(context)?;
    peer.send(&handshake(context, &json!({})))?;
    Failure::receive(peer, FEATURE, None)
}

fn without_token<'a>(context: &'a Context<'a>) -> Failed<'a> {
    let mut peer =
        Peer::open_with_token(context, None).map_err(|error| CheckError::Blocked(error.message))?;
    let mut message = full_handshake(context);
    if let Some(members) = message.as_object_mut() {
        members.remove("auth_token");
    }
    peer.send(&message)?;
    Failure::receive(peer, "error.auth.unauthorized", None)
}

/// Provokes a failure.
type Provoke = for<'a> fn(&'a Context<'a>) -> Failed<'a>;

/// Failures that each transport has.
const FAILURES: &[(&str, Provoke)] = &[
    ("above maxPayloadBytes", too_large),
    ("not UTF-8", not_utf8),
    ("a request before the handshake", first_request),
    ("a keepalive before the handshake", first_keepalive),
    ("an unknown version", unknown_version),
    ("empty capabilities", empty_capabilities),
    ("no token", without_token),
];

fn across_transports(context: &Context<'_>) -> CheckResult {
    let missing = || CheckError::Skipped("needs --compare".to_owned());
    let settings = context.settings.for_other().ok_or_else(missing)?;
    let other = Context::new(&settings, None);
    let needs_token = |provoke: Provoke| std::ptr::fn_addr_eq(provoke, without_token as Provoke);
    for (name, provoke) in FAILURES {
        if settings.token.is_none() && needs_token(*provoke) {
            continue;
        }
        let provoke = |context| provoke(context).map(|failure| failure.error_text());
        let [one, other] = match (provoke(context), provoke(&other)) {
            (Ok(one), Ok(other)) => [one, other],
            // A listener answers it in the terms of MCP.
            (Err(CheckError::Skipped(_)), _) | (_, Err(CheckError::Skipped(_))) => continue,
            (Err(error), _) | (_, Err(error)) => return Err(error.prefixed(name).blocked()),
        };
        ensure(one == other, || format!("{name}: {one} is {other} over the other transport"))?;
    }
    Ok(())
}
