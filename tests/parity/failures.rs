//! One failure has one answer: the same error object on every transport, byte by byte, with the id
//! where it can be read, then the close or the status of its transport.

use std::time::Duration;

use corelane::options::ParityMode;
use corelane_test_support::TestServer;
use corelane_test_support::process::Process;
use corelane_test_support::websocket::{WebSocketClient, encode_frame};
use serde_json::{Value, json};

use crate::CORELANE;
use crate::client::{ParityClient, handshake};
use crate::http::Exchange;
use crate::options;

/// Bytes of the longest message.
const MESSAGE_BYTES_MAX: usize = 4_096;

/// The first byte of a whole text message.
const TEXT_FRAME: u8 = 0x81;

/// What follows the error.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum End {
    /// The connection closes.
    Closed,
    /// The WebSocket closes with this code.
    CloseCode(u16),
    /// The response has this status.
    Status(u16),
}

/// An answer to a failure.
#[derive(Debug)]
struct Answer {
    message: Value,
    /// The error object as it was sent.
    error: String,
    end: End,
}

impl Answer {
    fn new(text: &str, end: End) -> Self {
        let start = text.find(r#""error":{"#).unwrap_or_else(|| panic!("no error: {text}"));
        let message = serde_json::from_str(text).expect("JSON");
        Self { message, error: text[start..].trim_end().to_owned(), end }
    }
}

/// A failure, and what answers it.
struct Failure {
    name: &'static str,
    /// The handshake before, if there is one.
    handshake: Option<Value>,
    text: Vec<u8>,
    code: &'static str,
    /// `retryable` and `details` of the error.
    retryable: bool,
    details: Value,
    /// The id where it can be read. A WebSocket and an HTTP request that are too long are not read.
    id: Value,
    is_read_on_lines_only: bool,
    close_code: u16,
    status: u16,
}

impl Failure {
    /// A text that is rejected in a session.
    fn in_session(name: &'static str, text: impl Into<Vec<u8>>) -> Self {
        Self {
            name,
            handshake: Some(handshake()),
            text: text.into(),
            code: "error.internal",
            retryable: false,
            details: Value::Null,
            id: Value::Null,
            is_read_on_lines_only: false,
            close_code: 1008,
            status: 400,
        }
    }

    /// A first message that is rejected for its state.
    fn first(name: &'static str, event: &str, message: &Value) -> Self {
        let details = json!({"state": "Connecting", "event": event});
        let code = "error.feature_not_available";
        let failure = Self::in_session(name, message.to_string());
        Self { handshake: None, code, details, ..failure }
    }

    /// Checks an answer. `is_read`: the text was read as far as its id.
    fn check(&self, answer: &Answer, end: End, is_read: bool) {
        let Answer { message, end: found, .. } = answer;
        let (name, error) = (self.name, &message["error"]);
        assert_eq!(*found, end, "{name}: {message}");
        let id = if is_read { &self.id } else { &Value::Null };
        let kind = if is_read && self.is_request() { "response" } else { "error" };
        assert_eq!((&message["type"], &message["id"]), (&json!(kind), id), "{name}: {message}");
        assert_eq!(error["code"], self.code, "{name}: {message}");
        assert_eq!(error["retryable"], self.retryable, "{name}: {message}");
        assert_eq!(error["details"], self.details, "{name}: {message}");
    }

    fn is_request(&self) -> bool {
        self.text.starts_with(br#"{"type":"request""#) && !self.id.is_null()
    }
}

fn failures() -> Vec<Failure> {
    let request = |filler: &str| {
        format!(r#"{{"type":"request","id":7,"method":"ping","filler":"{filler}"}}"#)
    };
    let mut not_utf8 = request("?").into_bytes();
    let at = not_utf8.iter().position(|byte| *byte == b'?').expect("the filler");
    not_utf8[at] = 0xff;
    let mut narrow = handshake();
    narrow["capabilities"]["maxPayloadBytes"] = json!(100);
    let too_large = |name, text: String| Failure {
        code: "error.payload_too_large",
        id: json!(7),
        close_code: 1009,
        status: 413,
        ..Failure::in_session(name, text)
    };
    let not_json = json!({"mcpCode": -32700});
    let ping = json!({"type": "request", "id": "q", "method": "ping"});
    let mut other_version = handshake();
    other_version["protocolVersion"] = json!("0.9");
    vec![
        Failure {
            is_read_on_lines_only: true,
            ..too_large("too large", request(&"x".repeat(2 * MESSAGE_BYTES_MAX)))
        },
        Failure {
            handshake: Some(narrow),
            ..too_large("above maxPayloadBytes", request(&"x".repeat(200)))
        },
        Failure {
            details: not_json.clone(),
            id: json!(7),
            close_code: 1007,
            ..Failure::in_session("not UTF-8", not_utf8)
        },
        Failure {
            details: not_json,
            close_code: 1007,
            ..Failure::in_session("not UTF-8 and no request", *b"\xff\xfe{}")
        },
        Failure { id: json!("q"), ..Failure::first("request first", "sendRequest", &ping) },
        Failure::first(
            "keepalive first",
            "sendKeepalive",
            &json!({"type": "keepalive", "timeoutHintSec": 1}),
        ),
        Failure {
            id: json!(1),
            ..Failure::first("cancel first", "sendCancel", &json!({"type": "cancel", "id": 1}))
        },
        Failure {
            handshake: None,
            details: json!({"mcpCode": -32600}),
            id: json!(2),
            close_code: 1011,
            ..Failure::in_session("malformed first", r#"{"type":"request","id":2}"#)
        },
        Failure {
            handshake: None,
            code: "error.version_unsupported",
            details: json!({"supported": ["1.0"]}),
            close_code: 1002,
            ..Failure::in_session("unknown version", other_version.to_string())
        },
    ]
}

/// Sends a text on a connection of lines, which closes.
fn over_lines(mut client: ParityClient, failure: &Failure) -> Answer {
    if let Some(handshake) = &failure.handshake {
        assert_eq!(client.exchange(handshake)["type"], "handshakeAck");
    }
    client.lines.send_line(&failure.text);
    let text = client.lines.receive_line().expect("an answer");
    assert_eq!(client.receive_or_end(), None, "{}: {text}", failure.name);
    Answer::new(&text, End::Closed)
}

fn over_stdio(failure: &Failure) -> Answer {
    let limit = MESSAGE_BYTES_MAX.to_string();
    let mut process = Process::start(CORELANE, &["stdio", "--message-bytes-max", &limit]);
    let answer = over_lines(ParityClient::new(process.take_pipes()), failure);
    process.wait();
    answer
}

fn over_websocket(server: &TestServer, failure: &Failure) -> Answer {
    let mut client = WebSocketClient::connect(server.http());
    if let Some(handshake) = &failure.handshake {
        client.send_bytes(&encode_frame(TEXT_FRAME, handshake.to_string().as_bytes()));
        assert!(client.read_text().contains("handshakeAck"));
    }
    client.send_bytes(&encode_frame(TEXT_FRAME, &failure.text));
    let text = client.read_text();
    client.expect_close(failure.close_code);
    Answer::new(&text, End::CloseCode(failure.close_code))
}

fn over_http(server: &TestServer, failure: &Failure) -> Answer {
    let session = failure.handshake.as_ref().map(|handshake| {
        let begun = Exchange::start(server, "POST", "/parity", "", handshake.to_string());
        let id = begun.head.field("Mcp-Session-Id").expect("a session");
        format!("Mcp-Session-Id: {id}\r\n")
    });
    let session = session.unwrap_or_default();
    let refused = Exchange::start(server, "POST", "/parity", &session, &failure.text);
    let status = refused.head.status;
    Answer::new(&refused.text(), End::Status(status))
}

#[test]
fn failure_has_one_answer_on_every_transport() {
    let mut options = options();
    options.limits.message_bytes_max = MESSAGE_BYTES_MAX;
    let server = TestServer::start(options);
    for failure in failures() {
        let is_read = !failure.is_read_on_lines_only;
        let tcp = over_lines(ParityClient::connect(&server), &failure);
        failure.check(&tcp, End::Closed, true);
        for (answer, end, is_read) in [
            (over_stdio(&failure), End::Closed, true),
            (over_websocket(&server, &failure), End::CloseCode(failure.close_code), is_read),
            (over_http(&server, &failure), End::Status(failure.status), is_read),
        ] {
            failure.check(&answer, end, is_read);
            assert_eq!(tail(&answer.error), tail(&tcp.error), "{}: {end:?}", failure.name);
        }
    }
    server.close();
}

/// Returns the error object without what follows it in a message.
fn tail(error: &str) -> &str {
    error.trim_end_matches('}')
}

#[test]
fn unknown_session_is_answered_with_id() {
    let server = TestServer::start(options());
    let begun = Exchange::start(&server, "POST", "/parity", "", handshake().to_string());
    let ended = begun.head.field("Mcp-Session-Id").expect("a session").to_owned();
    let field = format!("Mcp-Session-Id: {ended}\r\n");
    assert_eq!(Exchange::start(&server, "DELETE", "/parity", &field, "").head.status, 204);
    let ping = r#"{"type":"request","id":"q","method":"ping"}"#;
    let mut errors = Vec::new();
    for (session, method, path, body) in [
        (&*ended, "POST", "/parity", ping),
        ("no-session", "POST", "/parity", ping),
        (&ended, "GET", "/parity/events", ""),
        (&ended, "DELETE", "/parity", ""),
    ] {
        let field = format!("Mcp-Session-Id: {session}\r\n");
        let refused = Exchange::start(&server, method, path, &field, body);
        let answer = Answer::new(&refused.text(), End::Status(404));
        let Answer { message, error, .. } = answer;
        let kind = if method == "POST" { "response" } else { "error" };
        assert_eq!(message["type"], kind, "{session} {method}: {message}");
        assert_eq!(message["id"].as_str(), (method == "POST").then_some("q"));
        assert_eq!(message["error"]["details"]["reason"], "unknown_session");
        assert_eq!(message["error"]["retryable"], true);
        errors.push(error);
    }
    errors.dedup();
    assert_eq!(errors.len(), 1, "{errors:?}");
    server.close();
}

#[test]
fn mistake_of_client_is_no_server_error() {
    let server = TestServer::with_test_tools(options());
    let begun = Exchange::start(&server, "POST", "/parity", "", handshake().to_string());
    let id = begun.head.field("Mcp-Session-Id").expect("a session");
    let field = format!("Mcp-Session-Id: {id}\r\n");
    for body in [
        r#"{"type":"request","id":1,"method":"tools/call"}"#,
        r#"{"type":"request","id":1,"method":"tools/call","params":{"name":"no-such-tool"}}"#,
        r#"{"type":"request","id":1,"method":"resources/read","params":{"uri":"none:"}}"#,
        r#"{"type":"request","id":1,"method":"no/such"}"#,
        r#"{"type":"request","id":1.5,"method":"ping"}"#,
        r#"{"type":"nothing"}"#,
        r#"{"type":"cancel"}"#,
        "not JSON",
        "[]",
    ] {
        let refused = Exchange::start(&server, "POST", "/parity", &field, body);
        let status = refused.head.status;
        assert_eq!(status, 400, "{body}: {}", refused.text());
    }
    server.close();
}

/// Returns what answers a client on each transport that has sent `begun` only.
fn late_answers(mode: ParityMode, begun: &str) -> Vec<String> {
    let mut options = options();
    options.parity.timeouts.handshake = Duration::from_millis(50);
    options.parity.mode = mode;
    let server = TestServer::start(options);
    let mut client = WebSocketClient::connect(server.http());
    // The rest of the frame does not come.
    let frame = encode_frame(TEXT_FRAME, format!("{begun}and more").as_bytes());
    client.send_bytes(&frame[..if begun.is_empty() { 0 } else { frame.len() - 1 }]);
    let mut texts = vec![client.read_text()];
    client.expect_close(1002);
    let mode = if mode == ParityMode::Only { "only" } else { "on" };
    let arguments = ["stdio", "--parity-mode", mode, "--parity-handshake-timeout-ms", "50"];
    let mut process = Process::start(CORELANE, &arguments);
    for mut lines in [server.connect_tcp(), process.take_pipes()] {
        lines.send_bytes(begun.as_bytes());
        texts.push(lines.receive_line().expect("an error").trim_end().to_owned());
        assert_eq!(lines.receive_line_or_reset(), None);
    }
    process.wait();
    server.close();
    texts
}

#[test]
fn late_handshake_is_answered_on_every_transport() {
    let handshake = r#"{"type":"handshake","protocolVersion":"1.0","#;
    let mut texts = late_answers(ParityMode::Only, "");
    texts.extend(late_answers(ParityMode::Only, handshake));
    texts.extend(late_answers(ParityMode::On, handshake));
    texts.dedup();
    assert_eq!(texts.len(), 1, "{texts:?}");
    let error: Value = serde_json::from_str(&texts[0]).expect("JSON");
    assert_eq!((&error["type"], &error["error"]["retryable"]), (&json!("error"), &json!(false)));
    assert_eq!(error["error"]["code"], "error.version_unsupported");
    assert_eq!(error["error"]["details"], json!({"reason": "handshake_timeout"}));
}
