//! Handshakes of both eras over each transport.

use super::*;

const INITIALIZE_RESPONSE: &str = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\
    {\"protocolVersion\":\"2025-11-25\",\"capabilities\":{}}}";

fn settings(transport: Transport, era: Era) -> RequestSettings {
    RequestSettings::new(transport, era, "localhost:1", "/mcp", Vec::new()).unwrap()
}

fn response(status: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nMcp-Session-Id: s1\r\nContent-Length: {length}\r\n\r\n{body}")
}

/// Passes each response in turn; returns what was sent, or the error.
fn open(settings: &RequestSettings, answers: &[&str]) -> Result<(Handshake, String), ConnectError> {
    let mut opening = Handshake::new(settings);
    let mut sent = String::new();
    let mut note = |bytes: &[u8]| sent.push_str(&String::from_utf8_lossy(bytes));
    match opening.begin(settings) {
        HandshakeProgress::Send(bytes) => note(&bytes),
        _ => return Ok((opening, sent)),
    }
    for answer in answers {
        let mut arrived = answer.as_bytes();
        loop {
            match opening.receive(settings, std::mem::take(&mut arrived))? {
                HandshakeProgress::Wait => break,
                HandshakeProgress::Send(bytes) => note(&bytes),
                HandshakeProgress::Open(bytes) => {
                    note(&bytes);
                    return Ok((opening, sent));
                }
            }
        }
    }
    panic!("still opening after {sent}");
}

#[test]
fn modern_tcp_handshake_is_empty() {
    let (_, sent) = open(&settings(Transport::Tcp, Era::Modern), &[]).unwrap();
    assert!(sent.is_empty());
}

#[test]
fn modern_stdio_handshake_accepts_any_discover_response() {
    let error = "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32601,\"message\":\"\"}}\n";
    for answer in [format!("{INITIALIZE_RESPONSE}\nmore"), format!("{error}more")] {
        let (opening, sent) = open(&settings(Transport::Stdio, Era::Modern), &[&answer]).unwrap();
        assert!(sent.contains("\"id\":1,\"method\":\"server/discover\""), "{sent}");
        assert!(sent.contains("2026-07-28") && sent.lines().count() == 1, "{sent}");
        assert_eq!(opening.finish().1, b"more");
    }
}

#[test]
fn modern_handshake_ignores_server_request() {
    let settings = settings(Transport::Stdio, Era::Modern);
    let mut opening = Handshake::new(&settings);
    let HandshakeProgress::Send(request) = opening.begin(&settings) else { panic!("nothing") };
    // As `cat` answers.
    let progress = opening.receive(&settings, &request).unwrap();
    assert!(matches!(progress, HandshakeProgress::Wait), "{progress:?}");
}

#[test]
fn legacy_handshake_over_lines_sends_initialize() {
    let ping = "{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"method\":\"ping\"}";
    let note = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}";
    let answer = format!("{note}\n{ping}\n{INITIALIZE_RESPONSE}\nmore");
    for transport in [Transport::Tcp, Transport::Stdio] {
        let (opening, sent) = open(&settings(transport, Era::Legacy), &[&answer]).unwrap();
        let lines: Vec<&str> = sent.lines().collect();
        assert!(lines[0].contains("\"initialize\"") && lines.len() == 3, "{sent}");
        assert_eq!(lines[1], "{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"result\":{}}");
        assert!(sent.ends_with("initialized\"}\n"), "{sent}");
        assert_eq!(opening.finish().1, b"more");
    }
}

#[test]
fn legacy_http_handshake_reuses_session_id() {
    let answers = [response("200 OK", INITIALIZE_RESPONSE), response("202 Accepted", "")];
    let answers = answers.each_ref().map(String::as_str);
    let (opening, sent) = open(&settings(Transport::Http, Era::Legacy), &answers).unwrap();
    let (first, second) = sent.split_at(sent.rfind("POST ").unwrap());
    assert!(!first.contains("Mcp-") && !first.contains("MCP-"), "{first}");
    for field in ["Mcp-Session-Id: s1", "MCP-Protocol-Version: 2025-11-25"] {
        assert!(second.lines().any(|line| line == field), "{second}");
    }
    assert_eq!(opening.finish().2.as_deref(), Some("s1"));
}

#[test]
fn legacy_handshake_sends_token_of_user() {
    let settings = settings(Transport::Http, Era::Legacy);
    let token = std::sync::Arc::new(crate::mcp::Secret::from("Bearer abc".to_owned()));
    let settings = settings.of_user(Some(&token));
    let answers = [response("200 OK", INITIALIZE_RESPONSE), response("202 Accepted", "")];
    let (_, sent) = open(&settings, &answers.each_ref().map(|it| &**it)).unwrap();
    assert_eq!(sent.matches("POST /mcp").count(), 2, "{sent}");
    assert_eq!(sent.to_lowercase().matches("authorization: bearer abc").count(), 2, "{sent}");
}

fn upgraded() -> String {
    let accept = "mY3BX7hrNcyiYHhxDOajVqtUBxM=";
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\n\r\n"
    )
}

#[test]
fn legacy_websocket_handshake_upgrades_then_initializes() {
    let upgraded = upgraded();
    let mut bytes: Vec<u8> = vec![0x81, u8::try_from(INITIALIZE_RESPONSE.len()).unwrap()];
    bytes.extend_from_slice(INITIALIZE_RESPONSE.as_bytes());
    let settings = settings(Transport::WebSocket, Era::Legacy);
    let mut opening = Handshake::new(&settings);
    let HandshakeProgress::Send(first) = opening.begin(&settings) else { panic!("an upgrade") };
    assert!(first.starts_with(b"GET /mcp HTTP/1.1\r\n"));
    let Ok(HandshakeProgress::Send(second)) = opening.receive(&settings, upgraded.as_bytes())
    else {
        panic!("a handshake")
    };
    assert_eq!(second[0], 0x81);
    assert!(matches!(opening.receive(&settings, &bytes), Ok(HandshakeProgress::Open(_))));
}

#[test]
fn handshake_error_carries_server_message() {
    let refused = |transport, answer: &str| {
        open(&settings(transport, Era::Legacy), &[answer]).map(|_| ()).unwrap_err()
    };
    let full = refused(Transport::Http, &response("503 Busy", "full"));
    assert_eq!((full.failure, &*full.message), (Failure::Http5xx, "503 full"));
    let error = "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32602,\"message\":\"no\"}}";
    for (transport, answer, failure) in [
        (Transport::Tcp, format!("{error}\n"), Failure::Rpc),
        (Transport::Http, response("200 OK", error), Failure::Rpc),
        (Transport::Http, response("400 No", error), Failure::Http4xx),
    ] {
        let error = refused(transport, &answer);
        assert_eq!(error.failure, failure);
        assert!(error.message.contains("-32602: no"), "{}", error.message);
    }
    let other = INITIALIZE_RESPONSE.replace("2025-11-25", "2031-01-01") + "\n";
    assert!(refused(Transport::Tcp, &other).message.contains("2031-01-01"));
    let text = refused(Transport::Tcp, "hello\n");
    assert_eq!((text.failure, &*text.message), (Failure::Garbage, "hello"));
    let gone = refused(Transport::WebSocket, "HTTP/1.1 404 Not Found\r\n\r\n");
    assert_eq!(gone.failure, Failure::Http4xx);
    let mismatched = refused(Transport::WebSocket, &upgraded().replace("mY3B", "mY3C"));
    assert_eq!(mismatched.failure, Failure::Garbage);
    assert!(mismatched.message.contains("Sec-WebSocket-Accept"), "{}", mismatched.message);
}
