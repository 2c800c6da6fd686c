//! Requests as clients write them, and as nobody should.

use serde_json::Value;

use crate::messages::MODERN;

/// A request to be written down.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    verb: String,
    target: String,
    minor_version: u8,
    fields: Vec<(String, String)>,
    body: Option<Vec<u8>>,
    /// Bytes of a chunk, where the body comes in chunks.
    chunk_bytes: Option<usize>,
}

impl Request {
    /// A request without a body.
    pub(crate) fn new(verb: &str, target: &str) -> Self {
        let fields = vec![("Host".to_owned(), "localhost".to_owned())];
        let (verb, target) = (verb.to_owned(), target.to_owned());
        Self { verb, target, minor_version: 1, fields, body: None, chunk_bytes: None }
    }

    /// A POST of the MCP endpoint with the fields that every client sends.
    #[expect(clippy::needless_pass_by_value, reason = "a message is made for it in most calls")]
    pub(crate) fn post(body: impl ToString) -> Self {
        Self::new("POST", "/mcp")
            .field("Content-Type", "application/json")
            .field("Accept", "application/json, text/event-stream")
            .body(body.to_string())
    }

    /// A modern message with the fields that repeat what it says.
    pub(crate) fn modern(message: &Value) -> Self {
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

    /// The same request with this field, and no other of its name.
    pub(crate) fn field(self, name: &str, value: impl ToString) -> Self {
        self.without(name).another(name, value)
    }

    /// The same request with one more line of this name.
    #[expect(clippy::needless_pass_by_value, reason = "a literal stands in most calls")]
    pub(crate) fn another(mut self, name: &str, value: impl ToString) -> Self {
        self.fields.push((name.to_owned(), value.to_string()));
        self
    }

    /// The same request without a field.
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.fields.retain(|field| !field.0.eq_ignore_ascii_case(name));
        self
    }

    /// The same request with this body.
    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// The same request to another path.
    pub(crate) fn target(mut self, target: &str) -> Self {
        target.clone_into(&mut self.target);
        self
    }

    /// The same request with another verb.
    pub(crate) fn verb(mut self, verb: &str) -> Self {
        verb.clone_into(&mut self.verb);
        self
    }

    /// The same request whose body comes in chunks of so many bytes.
    pub(crate) const fn chunked(mut self, bytes: usize) -> Self {
        self.chunk_bytes = Some(bytes);
        self
    }

    /// The same request as HTTP/1.0 has it.
    pub(crate) const fn old(mut self) -> Self {
        self.minor_version = 0;
        self
    }

    /// What was written as its verb.
    pub(crate) fn is_head(&self) -> bool {
        self.verb == "HEAD"
    }

    /// The message in its body, where there is one.
    pub(crate) fn message(&self) -> Option<Value> {
        serde_json::from_slice(self.body.as_deref()?).ok()
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let [head, body] = self.parts();
        [head, body].concat()
    }

    /// Its head and its body.
    pub(crate) fn parts(&self) -> [Vec<u8>; 2] {
        let Self { verb, target, minor_version, .. } = self;
        let mut lines = vec![format!("{verb} {target} HTTP/1.{minor_version}")];
        lines.extend(self.fields.iter().map(|(name, value)| format!("{name}: {value}")));
        let mut body = self.body.clone().unwrap_or_default();
        if let Some(bytes) = self.chunk_bytes {
            lines.push("Transfer-Encoding: chunked".to_owned());
            let chunk =
                |text: &[u8]| [format!("{:x}\r\n", text.len()).as_bytes(), text, b"\r\n"].concat();
            body = body.chunks(bytes).flat_map(chunk).chain(*b"0\r\n\r\n").collect();
        } else if self.body.is_some() && !self.says_length() {
            lines.push(format!("Content-Length: {}", body.len()));
        }
        [(lines.join("\r\n") + "\r\n\r\n").into_bytes(), body]
    }

    fn says_length(&self) -> bool {
        self.fields.iter().any(|field| field.0 == "Content-Length")
    }
}
