//! Requests of each transport and era.

use super::*;
use crate::mcp::HttpField;

fn settings(transport: Transport, era: Era) -> RequestSettings {
    let fields = vec![HttpField::bearer("secret").unwrap()];
    RequestSettings::new(transport, era, "localhost:8080", "/mcp", fields).unwrap()
}

fn write_to_vec(call: &RequestTemplate, id: u64, session: Option<&str>) -> Vec<u8> {
    let mut out = Vec::new();
    call.write_request(&mut out, id, session);
    out
}

#[test]
fn tcp_request_is_one_line_with_id() {
    let call = RequestTemplate::echo(&settings(Transport::Tcp, Era::Legacy), 3);
    let line = write_to_vec(&call, 1_234_567_890, None);
    assert_eq!(line.len(), call.bytes());
    let message: Value = serde_json::from_slice(line.strip_suffix(b"\n").unwrap()).unwrap();
    let expected = json!({
        "jsonrpc": "2.0", "id": 1_234_567_890_u64, "method": "tools/call",
        "params": { "name": "echo", "arguments": { "message": "abc" } },
    });
    assert_eq!(message, expected);
}

#[test]
fn modern_http_request_mirrors_message_in_header() {
    let call = RequestTemplate::echo(&settings(Transport::Http, Era::Modern), 3);
    let post = String::from_utf8(write_to_vec(&call, ID_FIRST, None)).unwrap();
    let (head, body) = post.split_once("\r\n\r\n").unwrap();
    for field in [
        "POST /mcp HTTP/1.1",
        "Host: localhost:8080",
        "MCP-Protocol-Version: 2026-07-28",
        "Mcp-Method: tools/call",
        "Mcp-Name: echo",
        "Authorization: Bearer secret",
        &format!("Content-Length: {}", body.len()),
    ] {
        assert!(head.lines().any(|line| line == field), "{field} in {head}");
    }
    let message: Value = serde_json::from_str(body).unwrap();
    let version = "/params/_meta/io.modelcontextprotocol~1protocolVersion";
    assert_eq!(message.pointer(version).unwrap(), "2026-07-28");
}

#[test]
fn http_request_in_session_has_session_id() {
    let call = RequestTemplate::echo(&settings(Transport::Http, Era::Legacy), 3);
    let post = String::from_utf8(write_to_vec(&call, 1_987_654_321, Some("s-1"))).unwrap();
    assert!(post.contains("\r\nMcp-Session-Id: s-1\r\n"));
    assert!(post.contains("\"id\":1987654321,"));
    assert!(!post.contains("Mcp-Method"));
}

#[test]
fn websocket_frame_unmasks_to_message() {
    let call = RequestTemplate::echo(&settings(Transport::WebSocket, Era::Legacy), 200);
    let frame = write_to_vec(&call, 1_111_222_333, None);
    let masked = &frame[4 + 4..];
    let text: Vec<u8> =
        masked.iter().zip(frames::MASK.iter().cycle()).map(|(byte, key)| byte ^ key).collect();
    let message: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(message["id"], 1_111_222_333_u64);
}

#[test]
fn progress_token_equals_request_id() {
    for (transport, era) in [
        (Transport::Tcp, Era::Legacy),
        (Transport::Http, Era::Modern),
        (Transport::WebSocket, Era::Modern),
    ] {
        let params = json!({ "name": "slow", "arguments": { "progressToken\":": 1 } });
        let params = RequestTemplate::with_progress(params.as_object().cloned());
        let call =
            RequestTemplate::new(&settings(transport, era), "tools/call", Some(&params), None);
        let mut bytes = write_to_vec(&call, 1_234_567_890, None);
        if transport == Transport::WebSocket {
            let masked = bytes.split_off(8);
            bytes = masked.iter().zip(frames::MASK.iter().cycle()).map(|(b, k)| b ^ k).collect();
        }
        let text = String::from_utf8(bytes).unwrap();
        let text = text.rsplit("\r\n").next().unwrap();
        let message: Value = serde_json::from_str(text).unwrap();
        assert_eq!(message["id"], 1_234_567_890_u64);
        assert_eq!(message["params"]["_meta"]["progressToken"], 1_234_567_890_u64);
        assert_eq!(message["params"]["_meta"].as_object().unwrap().len() > 1, era == Era::Modern);
    }
}

#[test]
fn varying_request_has_id_token_and_length() {
    for (transport, era) in [
        (Transport::Tcp, Era::Legacy),
        (Transport::Http, Era::Modern),
        (Transport::WebSocket, Era::Modern),
    ] {
        let params = json!({ "name": "add", "arguments": { "a": "{{int 1 100000}}" } });
        let params = RequestTemplate::with_progress(params.as_object().cloned());
        let call = RequestTemplate::varying(
            &settings(transport, era),
            "tools/call",
            Some(&params),
            1,
            false,
            None,
        );
        let call = call.unwrap();
        for id in 1_234_567_890..1_234_567_990_u64 {
            let session = (transport == Transport::Http).then_some("s");
            let mut bytes = write_to_vec(&call, id, session);
            if transport == Transport::WebSocket {
                let masked = bytes.split_off(8);
                let keys = frames::MASK.iter().cycle();
                bytes = masked.iter().zip(keys).map(|(byte, key)| byte ^ key).collect();
            }
            let text = String::from_utf8(bytes).unwrap();
            let (head, text) = text.rsplit_once("\r\n").unwrap_or(("", &text));
            if transport == Transport::Http {
                assert!(head.contains(&format!("Content-Length: {}\r\n", text.len())));
            }
            let message: Value = serde_json::from_str(text).unwrap();
            assert_eq!(message["id"], id);
            assert_eq!(message["params"]["_meta"]["progressToken"], id);
            let value = message["params"]["arguments"]["a"].as_u64().unwrap();
            assert!((1..=100_000).contains(&value));
        }
    }
}
