//! The log of the parity dialect at debug level.

use corelane_test_support::ServeProcess;
use serde_json::{Value, json};

use crate::CORELANE;

#[test]
fn debug_log_has_fields_of_the_dialect() {
    let mut server = ServeProcess::tcp(CORELANE, &["--log", "debug"]);
    let mut peer = server.connect();
    let handshake = json!({
        "type": "handshake",
        "protocolVersion": "1.0",
        "capabilities": {"tools": true},
    });
    let mut exchange = |message: Value| {
        peer.send(message);
        let line = peer.receive_line().expect("a response");
        serde_json::from_str::<Value>(&line).expect("the response is JSON")
    };
    let ack = exchange(handshake);
    let arguments = json!({"name": "echo", "arguments": {"message": "secret"}});
    exchange(json!({"type": "request", "id": "a", "method": "tools/call", "params": arguments}));
    exchange(json!({"type": "request", "id": 2, "method": "tools/call", "params": {"name": "no"}}));
    let mut expect = |message: &str, fields: &[&str]| {
        let wanted = format!(" DEBUG {message} sessionId={}", ack["sessionId"].as_str().unwrap());
        let line = server.process.wait_for(|line| line.contains(&wanted));
        for field in fields {
            assert!(line.contains(field), "{field}: {line}");
        }
        assert!(!line.contains("secret"), "{line}");
    };
    expect("handshake", &[" transport=tcp ", " auth.tier=anonymous"]);
    expect("request", &[r#" requestId="\"a\"" method=tools/call tool=echo "#, " latency_ms="]);
    expect("request", &[" requestId=2 ", " error.code=error.internal retryable=false"]);
}
