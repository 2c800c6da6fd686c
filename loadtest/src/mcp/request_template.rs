//! Request templates: requests serialized once, with placeholders for id and session.
//!
//! All bytes of a request except its id and `Mcp-Session-Id` are the same for a whole run, so
//! writing a request costs a copy and ten digits.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::http_field::HttpField;
use super::result_check::ResultCheck;
use super::varying_text::{ID_PLACEHOLDER, VaryingText};
use crate::target::{Era, Transport};
use crate::wire::frames;

/// Digits of every request id: the same number, so that requests of one template have one length.
pub const ID_DIGITS: usize = 10;
/// First request id.
pub const ID_FIRST: u64 = 1_000_000_000;
/// Number of distinct request ids. After 9,000,000,000 requests the first id is used again.
pub const ID_COUNT: u64 = 9_000_000_000;

/// Text before the progress token.
const PROGRESS_TOKEN_KEY: &str = "\"progressToken\":";

/// Transport, era and HTTP fields used for all messages to a server.
#[derive(Clone, Debug)]
pub struct RequestSettings {
    /// Transport of messages.
    pub transport: Transport,
    /// Protocol era.
    pub era: Era,
    /// Value of `Host`, for HTTP and the WebSocket upgrade.
    pub authority: String,
    /// Request path.
    pub path: String,
    /// Additional HTTP fields, for example `Authorization`.
    pub fields: Vec<HttpField>,
}

impl RequestSettings {
    /// Frames a message that is not a request of the run, for example a response to the server.
    pub fn frame(&self, text: &str) -> Vec<u8> {
        frame_message(self, text, "", None)
    }
}

/// A request that can be written with any id.
#[derive(Clone)]
pub struct RequestTemplate {
    /// Bytes before the session id.
    head: Vec<u8>,
    /// Bytes after the session id.
    tail: Vec<u8>,
    /// Position of the id in `after`.
    id: IdPosition,
    /// What else differs between requests.
    variation: Option<Variation>,
    /// What the result has to be; `None` if every result without an error is correct.
    check: Option<Arc<ResultCheck>>,
}

/// What differs between the requests of one template, besides the id.
#[derive(Clone)]
enum Variation {
    /// Position of the progress token, which equals the id.
    ProgressToken(IdPosition),
    /// The whole text, which has random values.
    Text { transport: Transport, text: VaryingText },
}

/// Position of an id.
#[derive(Clone, Copy, Debug)]
struct IdPosition {
    at: usize,
    /// WebSocket mask of each digit; zero for other transports.
    mask: [u8; ID_DIGITS],
}

impl IdPosition {
    /// Creates the position of the id at `at` of a text that begins at `text_at`.
    fn new(transport: Transport, text_at: usize, at: usize) -> Self {
        let mut mask = [0; ID_DIGITS];
        if transport == Transport::WebSocket {
            for (place, key) in mask.iter_mut().enumerate() {
                *key = frames::MASK[(at + place) % frames::MASK.len()];
            }
        }
        Self { at: text_at + at, mask }
    }

    #[inline]
    fn patch(self, out: &mut [u8], digits: [u8; ID_DIGITS]) {
        let places = out[self.at..self.at + ID_DIGITS].iter_mut();
        for (place, (digit, key)) in places.zip(digits.iter().zip(self.mask)) {
            *place = digit ^ key;
        }
    }
}

impl RequestTemplate {
    /// Creates the template of `method` with `params`. `expected_text` is the expected text of the
    /// first content block of the result; with `None` every result without an error is correct.
    pub fn new(
        speech: &RequestSettings,
        (method, params): (&str, Option<Map<String, Value>>),
        expected_text: Option<String>,
    ) -> Self {
        let text = request_text(speech.era, method, params.as_ref());
        let (mut head, mut tail) = (Vec::new(), Vec::new());
        let text_at = match speech.transport {
            Transport::Tcp | Transport::Stdio => {
                tail.extend_from_slice(text.as_bytes());
                tail.push(b'\n');
                0
            }
            Transport::Http => {
                (head, tail) = http_post(speech, &text, (method, params.as_ref()));
                tail.len() - text.len()
            }
            Transport::WebSocket => frames::write_text(&mut tail, text.as_bytes()),
        };
        // `id` is the second member of the JSON-RPC object.
        let id_at = text.find(&ID_FIRST.to_string()).unwrap_or_default();
        let spot = |at| IdPosition::new(speech.transport, text_at, at);
        // Quotes inside a string would be escaped, so this finds no text in an argument.
        let token_at = text
            .find(&format!("{PROGRESS_TOKEN_KEY}{ID_FIRST}"))
            .map(|at| at + PROGRESS_TOKEN_KEY.len());
        let check = expected_text.map(ResultCheck::text).map(Arc::new);
        let variation = token_at.map(spot).map(Variation::ProgressToken);
        Self { head, tail, id: spot(id_at), variation, check }
    }

    /// Creates a template whose params have placeholders for random values, determined by `seed`.
    ///
    /// # Errors
    ///
    /// Returns a one-line message if a placeholder is invalid.
    pub fn varying(
        speech: &RequestSettings,
        (method, params): (&str, Option<Map<String, Value>>),
        seed: u64,
    ) -> Result<Self, String> {
        let text = request_text(speech.era, method, params.as_ref());
        let id = ID_FIRST.to_string();
        let token = format!("{PROGRESS_TOKEN_KEY}{id}");
        let text = text
            .replacen(&id, ID_PLACEHOLDER, 1)
            .replace(&token, &format!("{PROGRESS_TOKEN_KEY}{ID_PLACEHOLDER}"));
        let text = VaryingText::parse(&text, seed)?;
        let variation = Some(Variation::Text { transport: speech.transport, text });
        Ok(Self { variation, ..Self::new(speech, (method, params), None) })
    }

    /// Sets what the result has to be.
    #[must_use]
    pub fn with_check(self, check: ResultCheck) -> Self {
        Self { check: Some(Arc::new(check)), ..self }
    }

    /// Adds a progress token, so that the server sends `notifications/progress` (MCP
    /// basic/utilities/progress). The token of each request is its id.
    pub fn with_progress(params: Option<Map<String, Value>>) -> Map<String, Value> {
        let mut params = params.unwrap_or_default();
        let meta = params.entry("_meta").or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(meta) = meta {
            meta.insert("progressToken".into(), ID_FIRST.into());
        }
        params
    }

    /// Creates a call of the tool `echo` with a message of this length, which it must return.
    pub fn echo(speech: &RequestSettings, message_bytes: usize) -> Self {
        let (params, message) = Self::echo_params(message_bytes);
        Self::new(speech, ("tools/call", params), Some(message))
    }

    /// Returns a text of this length.
    pub fn message(bytes: usize) -> String {
        ('a'..='z').cycle().take(bytes).collect()
    }

    /// Returns the params of such a call, and its message.
    pub fn echo_params(message_bytes: usize) -> (Option<Map<String, Value>>, String) {
        let message = Self::message(message_bytes);
        let params = json!({ "name": "echo", "arguments": { "message": message } });
        (params.as_object().cloned(), message)
    }

    /// Appends the request to `out`.
    #[inline]
    pub fn write_request(&self, out: &mut Vec<u8>, id: u64, session: Option<&[u8]>) {
        out.extend_from_slice(&self.head);
        if let Some(session) = session {
            out.extend_from_slice(b"Mcp-Session-Id: ");
            out.extend_from_slice(session);
            out.extend_from_slice(b"\r\n");
        }
        let at = out.len();
        out.extend_from_slice(&self.tail);
        let digits = id_digits(id);
        self.id.patch(&mut out[at..], digits);
        if let Some(variation) = &self.variation {
            variation.write(out, at, (id, digits));
        }
    }

    /// Returns the expected text of the first content block, if it is known.
    pub fn expected_text(&self) -> Option<&str> {
        self.check.as_ref()?.expected_text()
    }

    /// Returns what the result has to be.
    pub(super) fn check(&self) -> Option<&ResultCheck> {
        self.check.as_deref()
    }

    /// Returns the length of one request in bytes, without the session id.
    pub const fn bytes(&self) -> usize {
        self.head.len() + self.tail.len()
    }
}

impl fmt::Debug for RequestTemplate {
    // The bytes may contain a bearer token.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Call").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

impl Variation {
    /// Completes the request whose tail is at `at` of `out`.
    fn write(&self, out: &mut Vec<u8>, at: usize, (id, digits): (u64, [u8; ID_DIGITS])) {
        match self {
            Self::ProgressToken(token) => token.patch(&mut out[at..], digits),
            Self::Text { transport, text } => {
                out.truncate(at);
                let text = text.render(id);
                match transport {
                    Transport::Tcp | Transport::Stdio => {
                        out.extend_from_slice(text.as_bytes());
                        out.push(b'\n');
                    }
                    Transport::Http => out.extend_from_slice(&http_tail(&text)),
                    Transport::WebSocket => {
                        frames::write_text(out, text.as_bytes());
                    }
                }
            }
        }
    }
}

/// Returns the decimal digits of an id.
#[inline]
pub(super) fn id_digits(id: u64) -> [u8; ID_DIGITS] {
    let mut buf = itoa::Buffer::new();
    buf.format(id).as_bytes().first_chunk().copied().unwrap_or([b'0'; ID_DIGITS])
}

fn client_info() -> Value {
    json!({ "name": "corelane-load", "version": env!("CARGO_PKG_VERSION") })
}

/// Returns the params of `initialize` for this version.
pub fn initialize_params(era: Era) -> Option<Map<String, Value>> {
    let params = json!({
        "protocolVersion": era.mcp_version(),
        "capabilities": {},
        "clientInfo": client_info(),
    });
    params.as_object().cloned()
}

/// Returns `notifications/initialized` as it is sent in a session.
pub fn initialized_message(settings: &RequestSettings, session: Option<&[u8]>) -> Vec<u8> {
    frame_message(settings, INITIALIZED_TEXT, "", session)
}

/// Returns the `initialize` request, with id 0.
pub(super) fn initialize_text(era: Era) -> String {
    let params = Value::from(initialize_params(era));
    format!(r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{params}}}"#)
}

/// Returns the `server/discover` request, with id 0.
pub(super) fn discover_text() -> String {
    let text = request_text(Era::Modern, "server/discover", None);
    text.replacen(&ID_FIRST.to_string(), "0", 1)
}

/// The `notifications/initialized` message.
pub(super) const INITIALIZED_TEXT: &str =
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

fn request_text(era: Era, method: &str, params: Option<&Map<String, Value>>) -> String {
    let mut params = params.cloned();
    if era == Era::Modern {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": era.mcp_version(),
            "io.modelcontextprotocol/clientInfo": client_info(),
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = params.get_or_insert_default();
        let present = params.entry("_meta").or_insert_with(|| Value::Object(Map::new()));
        if let (Value::Object(present), Value::Object(meta)) = (present, meta) {
            present.extend(meta);
        }
    }
    let method = Value::from(method);
    let params =
        params.map_or_else(String::new, |params| format!(r#","params":{}"#, Value::from(params)));
    format!(r#"{{"jsonrpc":"2.0","id":{ID_FIRST},"method":{method}{params}}}"#)
}

/// Returns a POST request in two parts: before the session id, and the rest with the body.
fn http_post(
    speech: &RequestSettings,
    text: &str,
    (method, params): (&str, Option<&Map<String, Value>>),
) -> (Vec<u8>, Vec<u8>) {
    let RequestSettings { authority, path, era, fields, .. } = speech;
    let mut head = format!(
        "POST {path} HTTP/1.1\r\nHost: {authority}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\n"
    );
    for field in fields {
        push_field(&mut head, field.name(), field.value());
    }
    if method != "initialize" {
        push_field(&mut head, "MCP-Protocol-Version", era.mcp_version());
    }
    if *era == Era::Modern {
        push_field(&mut head, "Mcp-Method", method);
        if let Some(name) = mcp_name(method, params) {
            push_field(&mut head, "Mcp-Name", &field_value(name));
        }
    }
    (head.into_bytes(), http_tail(text))
}

/// Returns the end of a POST request, from the length of its body.
fn http_tail(text: &str) -> Vec<u8> {
    format!("Content-Length: {}\r\n\r\n{text}", text.len()).into_bytes()
}

/// Appends an HTTP field to a request head.
pub(super) fn push_field(head: &mut String, name: &str, value: &str) {
    head.extend([name, ": ", value, "\r\n"]);
}

/// Frames a message for the transport.
pub(super) fn frame_message(
    speech: &RequestSettings,
    text: &str,
    method: &str,
    session: Option<&[u8]>,
) -> Vec<u8> {
    let mut out = Vec::new();
    match speech.transport {
        Transport::Tcp | Transport::Stdio => {
            out.extend_from_slice(text.as_bytes());
            out.push(b'\n');
        }
        Transport::Http => {
            let (before, after) = http_post(speech, text, (method, None));
            out.extend_from_slice(&before);
            if let Some(session) = session {
                out.extend_from_slice(b"Mcp-Session-Id: ");
                out.extend_from_slice(session);
                out.extend_from_slice(b"\r\n");
            }
            out.extend_from_slice(&after);
        }
        Transport::WebSocket => {
            frames::write_text(&mut out, text.as_bytes());
        }
    }
    out
}

/// Returns the value of `Mcp-Name` (MCP 2026-07-28, basic/transports/streamable-http).
fn mcp_name<'a>(method: &str, params: Option<&'a Map<String, Value>>) -> Option<&'a str> {
    let member = match method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        _ => return None,
    };
    params?.get(member)?.as_str()
}

/// Returns `value` as an HTTP field value, Base64-encoded if it has characters not allowed there.
fn field_value(value: &str) -> String {
    let is_plain = value.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && value.trim() == value
        && !value.starts_with("=?");
    if is_plain {
        return value.into();
    }
    format!("=?base64?{}?=", STANDARD.encode(value))
}

#[cfg(test)]
mod tests;
