//! `Request`: HTTP requests to send, valid or malformed.

use serde_json::Value;

use crate::messages::MODERN;

/// A request to encode.
#[derive(Clone, Debug)]
pub struct Request {
    method: String,
    target: String,
    minor_version: u8,
    fields: Vec<(String, String)>,
    body: Option<Vec<u8>>,
    /// Bytes in a chunk, if the body uses the chunked coding.
    chunk_bytes: Option<usize>,
}

impl Request {
    /// Creates a request without a body.
    pub fn new(method: &str, target: &str) -> Self {
        let fields = vec![("Host".to_owned(), "localhost".to_owned())];
        let (method, target) = (method.to_owned(), target.to_owned());
        Self { method, target, minor_version: 1, fields, body: None, chunk_bytes: None }
    }

    /// Creates a POST to the MCP endpoint with the header fields that every client sends.
    #[expect(clippy::needless_pass_by_value, reason = "most callers pass a temporary")]
    pub fn post(body: impl ToString) -> Self {
        Self::new("POST", "/mcp")
            .field("Content-Type", "application/json")
            .field("Accept", "application/json, text/event-stream")
            .body(body.to_string())
    }

    /// Creates a POST of a modern message with the header fields that repeat its contents.
    pub fn modern(message: &Value) -> Self {
        let request = Self::post(message).field("MCP-Protocol-Version", MODERN);
        let request = match message["method"].as_str() {
            Some(method) => request.field("Mcp-Method", method),
            None => request,
        };
        let params = &message["params"];
        let key = match message["method"].as_str() {
            Some("tools/call" | "prompts/get") => "name",
            Some("resources/read") => "uri",
            _ => "taskId",
        };
        match params[key].as_str() {
            Some(name) => request.field("Mcp-Name", name),
            None => request,
        }
    }

    /// Sets a header field, replacing those of the same name.
    pub fn field(self, name: &str, value: impl ToString) -> Self {
        self.without_field(name).add_field(name, value)
    }

    /// Adds a header field line, keeping those of the same name.
    #[expect(clippy::needless_pass_by_value, reason = "most callers pass a literal")]
    pub fn add_field(mut self, name: &str, value: impl ToString) -> Self {
        self.fields.push((name.to_owned(), value.to_string()));
        self
    }

    pub fn without_field(mut self, name: &str) -> Self {
        self.fields.retain(|field| !field.0.eq_ignore_ascii_case(name));
        self
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }

    pub fn target(mut self, target: &str) -> Self {
        target.clone_into(&mut self.target);
        self
    }

    pub fn method(mut self, method: &str) -> Self {
        method.clone_into(&mut self.method);
        self
    }

    /// Sends the body in the chunked coding, in chunks of `bytes`.
    pub const fn chunked(mut self, bytes: usize) -> Self {
        self.chunk_bytes = Some(bytes);
        self
    }

    /// Sets the version to HTTP/1.0.
    pub const fn http_1_0(mut self) -> Self {
        self.minor_version = 0;
        self
    }

    /// Returns whether the method is HEAD.
    pub fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    /// Returns whether it asks for a stream of a session.
    pub(super) fn opens_session_stream(&self) -> bool {
        let is_session = |field: &(String, String)| field.0.eq_ignore_ascii_case("Mcp-Session-Id");
        let is_named = self.fields.iter().any(is_session) || self.target.contains("sessionId=");
        self.method == "GET" && is_named
    }

    /// Returns the JSON message in the body, if there is one.
    pub fn message(&self) -> Option<Value> {
        serde_json::from_slice(self.body.as_deref()?).ok()
    }

    /// Encodes the request.
    pub fn bytes(&self) -> Vec<u8> {
        let [head, body] = self.head_and_body();
        [head, body].concat()
    }

    /// Encodes the head and the body separately.
    pub fn head_and_body(&self) -> [Vec<u8>; 2] {
        let Self { method, target, minor_version, .. } = self;
        let mut lines = vec![format!("{method} {target} HTTP/1.{minor_version}")];
        lines.extend(self.fields.iter().map(|(name, value)| format!("{name}: {value}")));
        let mut body = self.body.clone().unwrap_or_default();
        if let Some(bytes) = self.chunk_bytes {
            lines.push("Transfer-Encoding: chunked".to_owned());
            let chunk =
                |text: &[u8]| [format!("{:x}\r\n", text.len()).as_bytes(), text, b"\r\n"].concat();
            body = body.chunks(bytes).flat_map(chunk).chain(*b"0\r\n\r\n").collect();
        } else if self.body.is_some() && !self.has_content_length() {
            lines.push(format!("Content-Length: {}", body.len()));
        }
        [(lines.join("\r\n") + "\r\n\r\n").into_bytes(), body]
    }

    fn has_content_length(&self) -> bool {
        self.fields.iter().any(|field| field.0 == "Content-Length")
    }
}
