//! The log of the parity dialect at debug level.

use std::io::Write;
use std::net::TcpStream;

use corelane_test_support::{LineClient, ServeProcess};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::CORELANE;

const TRACE_ID: &str = "0af7651916cd43dd8448eb211c80319c";

/// A `traceparent` with [`TRACE_ID`].
fn traceparent() -> String {
    format!("00-{TRACE_ID}-b7ad6b7169203331-01")
}

fn exchange(peer: &mut LineClient, message: Value) -> Value {
    peer.send(message);
    let line = peer.receive_line().expect("a response");
    serde_json::from_str(&line).expect("the response is JSON")
}

fn handshake() -> Value {
    json!({
        "type": "handshake",
        "protocolVersion": "1.0",
        "capabilities": {"tools": true, "streaming": true, "maxConcurrent": 1},
        "traceparent": traceparent(),
    })
}

#[test]
fn debug_log_has_fields_of_the_dialect() {
    let mut server = ServeProcess::tcp(CORELANE, &["--log", "debug"]);
    let mut peer = server.connect();
    let ack = exchange(&mut peer, handshake());
    let arguments = json!({"name": "echo", "arguments": {"message": "secret"}});
    for request in [
        json!({"type": "request", "id": "a", "method": "tools/call", "params": arguments}),
        json!({"type": "request", "id": 2, "method": "tools/call", "params": {"name": "no"}}),
    ] {
        exchange(&mut peer, request);
    }
    let mut expect = |message: &str, fields: &[&str]| {
        let session = log_id(ack["sessionId"].as_str().unwrap());
        let wanted = format!(" DEBUG {message} sessionId={session}");
        let line = server.process.wait_for(|line| line.contains(&wanted));
        for field in fields {
            assert!(line.contains(field), "{field}: {line}");
        }
        assert!(!line.contains("secret"), "{line}");
    };
    let trace = format!(" traceId={TRACE_ID} ");
    let span = " spans=\"MCP Handshake\"";
    expect("handshake", &[" transport=tcp ", " auth.tier=anonymous", &trace, span]);
    let span = " spans=\"MCP Request\"";
    expect(
        "request",
        &[r#" requestId="\"a\"" method=tools/call tool=echo "#, " latency_ms=", span],
    );
    expect("request", &[" requestId=2 ", " error.code=error.internal retryable=false"]);
    let mut streamed = json!({
        "type": "request", "id": 3, "method": "tools/call", "stream": true,
        "params": {"name": "echo", "arguments": {"message": "secret"}},
        "traceparent": traceparent(),
    });
    exchange(&mut peer, streamed.clone());
    let spans = " spans=\"MCP Request, MCP Stream\"";
    expect("request", &[" requestId=3 ", " streamId=s1 seq=1 ", &trace, spans]);
    // The result and the end of the stream.
    peer.receive_line().expect("a chunk");
    peer.receive_line().expect("a chunk");
    // Out of the intersection, malformed, too many in flight, in the wrong state.
    streamed["method"] = json!("prompts/get");
    exchange(&mut peer, streamed.clone());
    let read = [" requestId=3 method=prompts/get tool=echo ", &*trace, span];
    let refused = " error.code=error.feature_not_available retryable=false";
    expect("message rejected", &[&read[..], &[refused]].concat());
    streamed["idempotencyKey"] = json!("");
    exchange(&mut peer, streamed);
    let malformed = " error.code=error.internal retryable=false";
    expect("message rejected", &[&read[..], &[malformed]].concat());
    let slow = json!({"name": "slow", "arguments": {"steps": 1, "step_ms": 60_000}});
    let mut slow = json!({"type": "request", "id": 4, "method": "tools/call", "params": slow});
    peer.send(slow.clone());
    slow["id"] = json!(5);
    exchange(&mut peer, slow);
    let limited = " error.code=error.rate_limited retryable=true retryAfter=1";
    expect("message rejected", &[" requestId=5 method=tools/call tool=slow ", limited]);
    exchange(&mut peer, handshake());
    expect("message rejected", &[" auth.tier=anonymous ", &trace, refused]);
    // Text that is no JSON has no session in its line, and an id.
    peer.send_line(br#"{"type":"request","id":6,"method":"#);
    peer.receive_line().expect("a response");
    let wanted = " DEBUG message rejected transport=tcp requestId=6 ";
    let line = server.process.wait_for(|line| line.contains(wanted));
    assert!(line.contains(malformed), "{line}");
}

#[test]
fn request_of_unknown_session_is_logged() {
    let mut server = ServeProcess::http(CORELANE, &["--log", "debug"]);
    let body = json!({
        "type": "request", "id": "q", "method": "tools/call", "params": {"name": "echo"},
        "traceparent": traceparent(),
    });
    let body = body.to_string();
    let head = "POST /parity HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    let session = "Mcp-Session-Id: 01234567-89ab-4def-8123-456789abcdef\r\nContent-Length:";
    let mut stream = TcpStream::connect(server.address).expect("a connection");
    let request = format!("{head}{session} {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).expect("the server reads");
    let wanted =
        r#" DEBUG message rejected transport=http requestId="\"q\"" method=tools/call tool=echo "#;
    let line = server.process.wait_for(|line| line.contains(wanted));
    for field in [TRACE_ID, "error.code=error.internal retryable=true", "spans=\"MCP Request\""] {
        assert!(line.contains(field), "{field}: {line}");
    }
}

#[test]
fn json_log_has_spans_and_trace() {
    let arguments = ["--log", "debug", "--log-format", "json"];
    let mut server = ServeProcess::tcp(CORELANE, &arguments);
    let mut peer = server.connect();
    exchange(&mut peer, handshake());
    let mut expect = |message: &str, spans: Value| -> Value {
        let wanted = format!(r#""message":"{message}","#);
        let line = server.process.wait_for(|line| line.contains(&wanted));
        let line: Value = serde_json::from_str(&line).expect("the line is JSON");
        assert_eq!((&line["spans"], &line["traceId"]), (&spans, &json!(TRACE_ID)), "{line}");
        line
    };
    expect("handshake", json!(["MCP Handshake"]));
    let mut request = json!({
        "type": "request", "id": "q", "method": "tools/list", "stream": true,
        "traceparent": traceparent(),
    });
    exchange(&mut peer, request.clone());
    let line = expect("request", json!(["MCP Request", "MCP Stream"]));
    assert_eq!((&line["requestId"], &line["streamId"]), (&json!("\"q\""), &json!("s1")));
    request["method"] = json!("");
    request["stream"] = json!(false);
    peer.receive_line().expect("a chunk");
    peer.receive_line().expect("a chunk");
    exchange(&mut peer, request);
    let line = expect("message rejected", json!(["MCP Request"]));
    assert_eq!(
        (&line["requestId"], &line["error.code"]),
        (&json!("\"q\""), &json!("error.internal"))
    );
}

/// What stands for the id of a session in the log.
fn log_id(session: &str) -> String {
    let digest = Sha256::digest(session);
    let first = digest.first_chunk().map_or(0, |first| u64::from_be_bytes(*first));
    format!("{first:016x}")
}
