//! A client that sends a request on a connection of its own and returns what it gets.

use std::fmt::{Display, Write as _};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

/// A response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Response {
    /// The value of a field.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut named = fields.filter(|(field, _)| field.eq_ignore_ascii_case(name));
        named.next().map(|(_, value)| value)
    }

    pub(crate) fn challenge(&self) -> &str {
        self.field("WWW-Authenticate").unwrap_or_default()
    }

    /// Checks status, challenge and body of a request that is not authenticated.
    #[track_caller]
    pub(crate) fn expect_refused(&self, status: u16, challenge: &str, error: &str, reason: &str) {
        assert_eq!((self.status, self.challenge()), (status, challenge), "{reason}: {self:?}");
        let body = serde_json::json!({"error": error, "error_description": reason});
        assert_eq!(self.body, body.to_string(), "{reason}");
        assert_eq!(self.field("Content-Type"), Some("application/json"), "{reason}");
    }

    /// Checks status, challenge and body of a request without a token.
    #[track_caller]
    pub(crate) fn expect_missing_token(&self, challenge: &str) {
        self.expect_refused(401, challenge, "unauthorized", "the request has no bearer token");
    }

    /// Checks status, challenge and body of a request with an unknown API key, at a server without
    /// issuers.
    #[track_caller]
    pub(crate) fn expect_unknown_key(&self) {
        let reason = "the token is unknown";
        let challenge = format!("Bearer error=\"invalid_token\", error_description=\"{reason}\"");
        self.expect_refused(401, &challenge, "invalid_token", reason);
    }

    /// Checks status, challenge and body of a request whose token is invalid, at a server with the
    /// options of [`crate::authorization::Authority::jwt_options`].
    #[track_caller]
    pub(crate) fn expect_invalid_token(&self, reason: &str) {
        let challenge = format!(
            "Bearer error=\"invalid_token\", error_description=\"{reason}\", {}",
            crate::authorization::requirements()
        );
        self.expect_refused(401, &challenge, "invalid_token", reason);
    }

    /// Checks status, challenge and body of a JSON-RPC error. It has the `id` of the request if
    /// that was read.
    #[track_caller]
    pub(crate) fn expect_error(&self, status: u16, challenge: &str, id: Option<u8>, error: &Value) {
        assert_eq!((self.status, self.challenge()), (status, challenge), "{self:?}");
        let mut body = serde_json::json!({"jsonrpc": "2.0"});
        if let Some(id) = id {
            body["id"] = id.into();
        }
        body["error"] = error.clone();
        assert_eq!(self.body, body.to_string());
        assert_eq!(self.field("Content-Type"), Some("application/json"));
    }

    /// Checks the refusal of a request with the id 1 that only admins may make, at a server without
    /// issuers.
    #[track_caller]
    pub(crate) fn expect_admin_required(&self) {
        let reason = "the tier admin is required";
        let challenge =
            format!("Bearer error=\"insufficient_scope\", error_description=\"{reason}\"");
        let data = serde_json::json!({"retryable": false, "requiredScopes": []});
        let error = serde_json::json!({"code": -32011, "message": reason, "data": data});
        self.expect_error(403, &challenge, Some(1), &error);
    }

    /// Checks the response to a token that cannot be verified at the moment.
    #[track_caller]
    pub(crate) fn expect_unavailable(&self, reason: &str) {
        self.expect_refused(503, "", "temporarily_unavailable", reason);
        assert_eq!(self.field("Retry-After"), Some("1"), "{reason}");
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }

    /// The text of the result of a tool.
    pub(crate) fn text(&self) -> String {
        let json = self.json();
        let text = json["result"]["content"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("no text: {self:?}")).to_owned()
    }
}

/// Sends a request without body.
pub(crate) fn send(address: SocketAddr, method: &str, target: &str, fields: &str) -> Response {
    exchange(address, &format!("{method} {target} HTTP/1.1\r\nHost: {address}\r\n{fields}\r\n"))
}

/// Sends a message of 2026-07-28 with a token.
pub(crate) fn post(address: SocketAddr, message: &Value, token: Option<&str>) -> Response {
    let fields = token.map(|it| format!("Authorization: Bearer {it}\r\n")).unwrap_or_default();
    post_with(address, "/mcp", message, &fields)
}

/// Sends a message of 2026-07-28 with these fields.
pub(crate) fn post_with(
    address: SocketAddr,
    target: &str,
    message: &Value,
    fields: &str,
) -> Response {
    exchange(address, &modern_request(address, target, message, fields))
}

/// The request with a message of 2026-07-28.
pub(crate) fn modern_request(
    host: impl Display,
    target: &str,
    message: &Value,
    fields: &str,
) -> String {
    let mut message = message.clone();
    let meta = &mut message["params"]["_meta"];
    meta["io.modelcontextprotocol/protocolVersion"] = MODERN.into();
    let capabilities = &mut meta["io.modelcontextprotocol/clientCapabilities"];
    if capabilities.is_null() {
        *capabilities = serde_json::json!({});
    }
    let method = message["method"].as_str().expect("a method");
    let mut own = format!("MCP-Protocol-Version: {MODERN}\r\nMcp-Method: {method}\r\n");
    let params = &message["params"];
    let names = [&params["name"], &params["uri"], &params["taskId"]];
    if let Some(name) = names.into_iter().find_map(Value::as_str) {
        write!(own, "Mcp-Name: {name}\r\n").expect("a string");
    }
    request_text(host, target, &message.to_string(), &format!("{own}{fields}"))
}

/// Sends a message of a legacy session.
pub(crate) fn post_legacy(address: SocketAddr, message: &Value, fields: &str) -> Response {
    let own = format!("MCP-Protocol-Version: {LEGACY}\r\n{fields}");
    exchange(address, &request_text(address, "/mcp", &message.to_string(), &own))
}

/// The first message of a legacy session.
pub(crate) fn initialize() -> Value {
    let info = serde_json::json!({"name": "test", "version": "1"});
    serde_json::json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": info}})
}

/// Begins a legacy session and returns its id.
pub(crate) fn open_session(address: SocketAddr, token: &str) -> String {
    let authorization = format!("Authorization: Bearer {token}\r\n");
    let opened = post_legacy(address, &initialize(), &authorization);
    assert_eq!(opened.status, 200, "{opened:?}");
    let session = opened.field("Mcp-Session-Id").expect("a session").to_owned();
    let ready = serde_json::json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let fields = format!("{authorization}Mcp-Session-Id: {session}\r\n");
    assert_eq!(post_legacy(address, &ready, &fields).status, 202);
    session
}

fn request_text(host: impl Display, target: &str, text: &str, fields: &str) -> String {
    let length = text.len();
    format!(
        "POST {target} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {length}\r\n\
         {fields}\r\n{text}"
    )
}

/// Sends bytes, and reads until the end of the response.
pub(crate) fn exchange(address: SocketAddr, request: &str) -> Response {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    exchange_over(&mut stream, request)
}

/// Sends bytes over an open connection, and reads until the end of the response.
pub(crate) fn exchange_over(stream: &mut (impl Read + Write + ?Sized), request: &str) -> Response {
    stream.write_all(request.as_bytes()).expect("the request is sent");
    read(stream)
}

/// Reads one response with a length, or the head of a stream.
pub(crate) fn read(stream: &mut (impl Read + ?Sized)) -> Response {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        assert_eq!(stream.read(&mut byte).expect("a byte"), 1, "{}", text_of(&bytes));
        bytes.push(byte[0]);
    }
    let head = text_of(&bytes);
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    let mut response = Response { status, head, body: String::new() };
    let length = response.field("Content-Length").map_or(0, |it| it.trim().parse().unwrap_or(0));
    let mut body = vec![0; length];
    stream.read_exact(&mut body).expect("the body");
    response.body = text_of(&body);
    response
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
