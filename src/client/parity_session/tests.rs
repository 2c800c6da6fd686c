//! Tests of the requests of a session, on virtual time.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::*;
use corelane_parity::error::ErrorCode;
use corelane_protocol::json::{PADDING_BYTES, PaddedText, ParseLimits, Parser};

/// The messages of a session, while its connection takes them.
#[derive(Debug, Default)]
struct Messages(Vec<Json>);

impl ParitySink for Messages {
    fn send(&mut self, message: ParityMessage<'_>) {
        self.0.push(serde_json::from_slice(message.text).unwrap());
    }
}

/// A session whose requests are named by their callers.
struct Client {
    session: ParitySession<&'static str>,
    sink: Messages,
    events: Vec<ParitySessionEvent<&'static str>>,
    now: Instant,
}

impl Client {
    /// Creates a client whose delays are drawn close to their bounds.
    fn new(config: ParityConfig) -> Self {
        let (sink, events) = (Messages::default(), Vec::new());
        Self { session: ParitySession::new(Arc::new(config), 3), sink, events, now: at(0) }
    }

    fn ready(config: ParityConfig) -> Self {
        let mut client = Self::new(config);
        client.connect(&json!({}));
        client
    }

    fn with<O>(
        &mut self,
        act: impl FnOnce(
            &mut ParitySession<&'static str>,
            &mut ParityContext<'_, &'static str, Messages>,
        ) -> O,
    ) -> O {
        let Self { session, sink, events, now } = self;
        act(session, &mut ParityContext { now: *now, sink, events, text: &mut Vec::new() })
    }

    /// Connects, and receives an acknowledgement with these members. Returns the handshake.
    fn connect(&mut self, members: &Json) -> Json {
        self.with(ParitySession::connect);
        let handshake = self.sent().remove(0);
        let capabilities = json!({
            "tools": true, "streaming": true, "resume": true, "cancellation": true,
        });
        let mut ack = json!({
            "type": "handshakeAck", "protocolVersion": "1.0", "sessionId": "a",
            "resumeToken": "t", "capabilities": capabilities,
        });
        for (name, value) in members.as_object().unwrap() {
            ack[name] = value.clone();
        }
        self.receive(&ack);
        handshake
    }

    fn receive(&mut self, message: &Json) {
        let mut parser = Parser::new(ParseLimits::default());
        let mut bytes = message.to_string().into_bytes();
        let length = bytes.len();
        bytes.resize(length + PADDING_BYTES, 0);
        self.with(|requests, ctx| {
            requests.receive(PaddedText::new(&mut bytes, length), &mut parser, ctx);
        });
    }

    fn call(&mut self, token: &'static str, method: &str, streams: bool, key: Option<&str>) {
        let request = ParityCallRequest {
            method: method.into(),
            params: b"{}".to_vec(),
            streams,
            idempotency_key: key.map(Into::into),
            timeout: None,
        };
        self.with(|requests, ctx| requests.call(Box::new(request), token, ctx));
    }

    /// Moves time, and does what is due.
    fn advance(&mut self, time: Duration) {
        self.now = self.now.after(time);
        self.with(ParitySession::expire);
    }

    fn lose(&mut self) {
        let error = ClientError::new(ClientErrorKind::Closed, "a test");
        self.session.disconnect(&error, &mut self.events);
    }

    /// Takes the messages that were sent.
    fn sent(&mut self) -> Vec<Json> {
        std::mem::take(&mut self.sink.0)
    }

    /// Takes the types, ids and streams of the messages that were sent.
    fn sent_names(&mut self) -> Vec<String> {
        let name = |message: &Json| {
            let about = message.get("id").or_else(|| message.get("streamId"));
            let about = about.unwrap_or(&Json::Null);
            format!("{} {about}", message["type"].as_str().unwrap())
        };
        self.sent().iter().map(name).collect()
    }

    /// Takes how the requests have ended, and what else was reported.
    fn outcomes(&mut self) -> Vec<String> {
        let name = |event| match event {
            ParitySessionEvent::Ready => "ready".to_owned(),
            ParitySessionEvent::Restarted { reason } => format!("restarted {reason}"),
            ParitySessionEvent::Retried { .. } => "retried".to_owned(),
            ParitySessionEvent::Violation(text) => format!("violation: {text}"),
            ParitySessionEvent::Chunk { token, .. } => format!("{token} chunk"),
            ParitySessionEvent::Completed { token, result: Ok(text) } => {
                format!("{token} {}", String::from_utf8(text).unwrap())
            }
            ParitySessionEvent::Completed { token, result: Err(error) } => {
                format!("{token} {:?}", error.kind())
            }
        };
        self.events.drain(..).map(name).collect()
    }
}

fn at(seconds: u64) -> Instant {
    Instant::ORIGIN.after(Duration::from_secs(seconds))
}

const MS: Duration = Duration::from_millis(1);

fn result(id: u64) -> Json {
    json!({ "type": "response", "id": id, "result": { "n": id } })
}

fn opened(id: u64, stream: &str) -> Json {
    json!({ "type": "response", "id": id, "result": { "streamId": stream } })
}

fn chunk(stream: &str, seq: u64, kind: &str, more: (&str, Json)) -> Json {
    let mut chunk =
        json!({ "type": "stream.chunk", "streamId": stream, "seq": seq, "chunkType": kind });
    chunk[more.0] = more.1;
    chunk
}

fn limited(id: u64, retry_after: f64) -> Json {
    let error = json!({
        "code": "error.rate_limited", "message": "m", "retryable": true, "retryAfter": retry_after,
    });
    json!({ "type": "response", "id": id, "error": error })
}

#[test]
fn retry_waits_for_retry_after_and_backoff() {
    let mut client = Client::ready(ParityConfig::default());
    client.call("a", "tools/call", false, None);
    assert_eq!(client.sent_names(), ["request 1"]);
    // Bounds of the delays after `retryAfter`.
    for bound in [100, 200, 400, 800] {
        client.receive(&limited(1, 2.0));
        client.advance(1_999 * MS);
        assert!(client.sent().is_empty());
        client.advance(MS + bound * MS);
        assert_eq!(client.sent_names(), ["request 1"], "{bound}");
    }
    client.receive(&limited(1, 2.0));
    let code = ErrorCode::RateLimited;
    let failed = format!("a {:?}", ClientErrorKind::Parity { code });
    let expected = ["ready", "retried", "retried", "retried", "retried", &failed];
    assert_eq!(client.outcomes(), expected);
    assert!(client.session.is_idle());
}

#[test]
fn refusal_of_http_is_repeated_after_its_time() {
    let refusal = |status, seconds: Option<u64>| {
        let error = ClientError::from_http(status, &[], b"busy");
        error.with_retry_after(seconds.map(Duration::from_secs))
    };
    let mut client = Client::ready(ParityConfig::default());
    client.call("a", "tools/call", false, None);
    assert_eq!(client.sent_names(), ["request 1"]);
    client.with(|requests, ctx| requests.fail_request(1, refusal(429, Some(2)), ctx));
    client.advance(1_999 * MS);
    assert!(client.sent().is_empty());
    client.advance(101 * MS);
    assert_eq!(client.sent_names(), ["request 1"]);
    // A proxy may have passed the call on.
    client.with(|requests, ctx| requests.fail_request(1, refusal(503, Some(2)), ctx));
    client.call("b", "tools/call", false, None);
    assert_eq!(client.sent_names(), ["request 2"]);
    client.with(|requests, ctx| requests.fail_request(2, refusal(429, None), ctx));
    client.call("c", "tools/call", false, None);
    assert_eq!(client.sent_names(), ["request 3"]);
    client.with(|requests, ctx| requests.fail_request(3, refusal(429, Some(40)), ctx));
    let failed = |name: &str, status| format!("{name} {:?}", ClientErrorKind::Http { status });
    let [a, b, c] = [failed("a", 503), failed("b", 429), failed("c", 429)];
    assert_eq!(client.outcomes(), ["ready", "retried", &a, &b, &c]);
}

#[test]
fn retry_does_not_exceed_the_timeout() {
    let mut client = Client::ready(ParityConfig::default());
    client.call("a", "tools/call", false, None);
    client.receive(&limited(1, 31.0));
    let code = ErrorCode::RateLimited;
    let failed = format!("a {:?}", ClientErrorKind::Parity { code });
    assert_eq!(client.outcomes(), ["ready", &failed]);
}

#[test]
fn requests_wait_for_the_handshake() {
    let mut client = Client::new(ParityConfig::default());
    client.call("a", "tools/call", false, None);
    client.call("b", "ping", false, None);
    assert!(client.sent().is_empty());
    client.connect(&json!({}));
    assert_eq!(client.sent_names(), ["request 1", "request 2"]);
    client.receive(&result(2));
    client.receive(&result(1));
    client.receive(&result(1));
    let expected =
        ["ready", r#"b {"n":2}"#, r#"a {"n":1}"#, "violation: a response that no request has"];
    assert_eq!(client.outcomes(), expected);
}

#[test]
fn unanswered_handshake_fails_the_connection() {
    let mut client = Client::new(ParityConfig::default());
    client.with(ParitySession::connect);
    assert_eq!(client.session.deadline(), Some(at(5)));
    client.advance(Duration::from_secs(5));
    let failure = client.session.failure().map(ClientError::kind);
    assert_eq!(failure, Some(ClientErrorKind::Timeout));
}

#[test]
fn silent_server_is_given_up() {
    let mut client = Client::ready(ParityConfig::default());
    client.advance(Duration::from_mins(1));
    assert_eq!(client.sent_names(), ["keepalive null"]);
    client.advance(Duration::from_mins(1));
    assert_eq!(client.sent_names(), ["keepalive null"]);
    assert!(client.session.failure().is_none());
    client.advance(Duration::from_mins(1));
    let failure = client.session.failure().map(ClientError::kind);
    assert_eq!(failure, Some(ClientErrorKind::Closed));
}

#[test]
fn keepalive_is_answered_within_its_hint() {
    let mut client = Client::ready(ParityConfig::default());
    client.receive(&json!({ "type": "keepalive", "timeoutHintSec": 20 }));
    assert_eq!(client.session.deadline(), Some(at(10)));
    client.advance(Duration::from_secs(10));
    assert_eq!(client.sent_names(), ["keepalive null"]);
    // A request shows as well that the client is there.
    client.receive(&json!({ "type": "keepalive", "timeoutHintSec": 20 }));
    client.call("a", "ping", false, None);
    client.sent();
    client.receive(&result(1));
    client.advance(Duration::from_secs(15));
    assert!(client.sent().is_empty());
}

#[test]
fn cancellations_are_sent_one_at_a_time() {
    let mut client = Client::ready(ParityConfig::default());
    for token in ["a", "b", "c"] {
        client.call(token, "tools/call", false, None);
    }
    client.sent();
    client.with(|requests, ctx| requests.cancel(1, ctx));
    client.with(|requests, ctx| requests.cancel(2, ctx));
    client.call("d", "ping", false, None);
    assert_eq!(client.sent_names(), ["cancel 1"]);
    // A response that has crossed the cancellation, and another.
    client.receive(&result(3));
    client.receive(&result(1));
    assert_eq!(client.sent_names(), ["cancel 2"]);
    client.receive(&result(2));
    assert_eq!(client.sent_names(), ["request 4"]);
    let expected = ["ready", "a Cancelled", "b Cancelled", r#"c {"n":3}"#];
    assert_eq!(client.outcomes(), expected);
}

#[test]
fn ignored_cancellation_fails_the_connection() {
    let mut client = Client::ready(ParityConfig::default());
    client.call("a", "tools/call", false, None);
    client.advance(Duration::from_secs(30));
    assert_eq!(client.sent_names(), ["request 1", "cancel 1"]);
    assert_eq!(client.outcomes(), ["ready", "a Timeout"]);
    client.advance(Duration::from_secs(10));
    let failure = client.session.failure().map(ClientError::kind);
    assert_eq!(failure, Some(ClientErrorKind::Protocol));
}

#[test]
fn stream_continues_after_its_last_chunk() {
    let mut client = Client::ready(ParityConfig::default());
    client.call("a", "tools/call", true, None);
    client.receive(&opened(1, "s1"));
    let progress = |seq| chunk("s1", seq, "progress", ("data", json!({ "progress": seq })));
    client.receive(&progress(1));
    client.receive(&progress(2));
    client.call("b", "tools/call", false, None);
    client.call("c", "tools/call", false, Some("k"));
    client.call("d", "tools/list", false, None);
    client.outcomes();
    client.lose();
    assert_eq!(client.outcomes(), ["b Closed"]);
    client.sent();
    let resumed = json!({ "resumed": true, "streams": [{ "streamId": "s1", "nextSeq": 3 }] });
    let handshake = client.connect(&resumed);
    assert_eq!(handshake["lastAckSeq"], json!({ "s1": 2 }));
    // What may run twice, or is accepted once, is sent again.
    assert_eq!(client.sent_names(), ["request 4", "request 3"]);
    client.receive(&progress(2));
    client.receive(&progress(3));
    client.receive(&chunk("s1", 4, "result", ("data", json!({ "n": 1 }))));
    client.receive(&chunk("s1", 5, "eos", ("reason", json!("completed"))));
    assert_eq!(client.outcomes(), ["ready", "a chunk", r#"a {"n":1}"#]);
}

#[test]
fn chunk_may_overtake_the_response_of_its_stream() {
    let mut client = Client::ready(ParityConfig::default());
    client.call("a", "tools/call", true, None);
    client.call("b", "tools/call", true, None);
    client.receive(&chunk("s1", 1, "result", ("data", json!({ "n": 1 }))));
    client.receive(&opened(2, "s2"));
    client.receive(&chunk("s1", 2, "eos", ("reason", json!("completed"))));
    assert_eq!(client.outcomes(), ["ready"]);
    client.receive(&opened(1, "s1"));
    assert_eq!(client.outcomes(), [r#"a {"n":1}"#]);
    client.receive(&chunk("s3", 1, "eos", ("reason", json!("completed"))));
    assert_eq!(client.outcomes(), ["violation: a chunk of a stream that is not open"]);
}

#[test]
fn missing_chunk_is_requested_again() {
    let mut client = Client::ready(ParityConfig::default());
    client.call("a", "tools/call", true, None);
    client.receive(&opened(1, "s1"));
    client.receive(&chunk("s1", 2, "eos", ("reason", json!("completed"))));
    let failure = client.session.failure().map(ClientError::kind);
    assert_eq!(failure, Some(ClientErrorKind::Protocol));
    client.lose();
    client.sent();
    let resumed = json!({ "resumed": true, "streams": [{ "streamId": "s1", "nextSeq": 1 }] });
    assert_eq!(client.connect(&resumed)["lastAckSeq"], json!({ "s1": 0 }));
    client.receive(&chunk("s1", 1, "result", ("data", json!({ "n": 1 }))));
    client.receive(&chunk("s1", 2, "eos", ("reason", json!("completed"))));
    assert_eq!(client.outcomes().last().unwrap(), r#"a {"n":1}"#);
}

#[test]
fn another_session_fails_what_needs_the_first() {
    let mut client = Client::ready(ParityConfig::default());
    client.call("a", "tools/call", true, None);
    client.receive(&opened(1, "s1"));
    client.call("b", "tools/call", false, Some("k"));
    client.lose();
    client.call("c", "tools/call", false, None);
    client.outcomes();
    client.sent();
    client.connect(&json!({ "resumed": false, "advice": "restart", "reason": "expired" }));
    assert_eq!(client.sent_names(), ["request 3"]);
    assert_eq!(client.outcomes(), ["ready", "b Closed", "a Restart", "restarted expired"]);
}

#[test]
fn stream_of_lost_response_is_cancelled() {
    let mut client = Client::ready(ParityConfig::default());
    client.call("a", "tools/call", true, None);
    client.lose();
    client.sent();
    let resumed = json!({ "resumed": true, "streams": [{ "streamId": "s1", "nextSeq": 1 }] });
    client.connect(&resumed);
    assert_eq!(client.sent_names(), [r#"cancel "s1""#]);
    client.receive(&chunk("s1", 1, "eos", ("reason", json!("cancelled"))));
    assert_eq!(client.outcomes(), ["ready", "a Closed", "ready"]);
    assert!(client.session.is_idle());
}

#[test]
fn requests_without_connection_time_out() {
    let mut client = Client::ready(ParityConfig::default());
    client.lose();
    client.call("a", "tools/call", false, None);
    client.advance(Duration::from_secs(30));
    assert_eq!(client.outcomes(), ["ready", "a Connect"]);
    assert!(client.session.is_idle());
}

#[test]
fn refused_resumption_is_not_repeated() {
    let mut client = Client::ready(ParityConfig::default());
    client.lose();
    client.with(ParitySession::connect);
    assert_eq!(client.sent().remove(0)["resumeToken"], "t");
    let error = json!({ "code": "error.auth.unauthorized", "message": "m", "retryable": false });
    client.receive(&json!({ "type": "error", "error": error }));
    let code = ErrorCode::Unauthorized;
    let failure = client.session.failure().map(ClientError::kind);
    assert_eq!(failure, Some(ClientErrorKind::Parity { code }));
    client.lose();
    assert!(client.connect(&json!({})).get("resumeToken").is_none());
}

#[test]
fn expired_token_keeps_the_resume_token() {
    let mut client = Client::ready(ParityConfig::default());
    client.lose();
    client.with(ParitySession::connect);
    assert_eq!(client.sent().remove(0)["resumeToken"], "t");
    let error = json!({ "code": "error.auth.unauthorized", "message": "m", "retryable": true });
    client.receive(&json!({ "type": "error", "error": error }));
    client.lose();
    client.session.set_auth_token("new");
    let handshake = client.connect(&json!({}));
    let tokens = [&handshake["resumeToken"], &handshake["auth_token"]];
    assert_eq!(tokens, ["t", "new"]);
}

#[test]
fn new_token_is_in_the_next_request_only() {
    let mut client = Client::ready(ParityConfig::default());
    client.session.set_auth_token("new");
    client.call("a", "ping", false, None);
    client.call("b", "ping", false, None);
    let tokens = client.sent();
    let tokens: Vec<_> = tokens.iter().map(|message| message["auth_token"].as_str()).collect();
    assert_eq!(tokens, [Some("new"), None]);
    client.lose();
    assert_eq!(client.connect(&json!({}))["auth_token"], "new");
}
