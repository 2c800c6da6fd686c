//! One kind of request, ready to be written.
//!
//! Everything of a request but its id, and the name of the session where there is one, is the same
//! for a whole run. So it is put together once, and a request costs a copy and ten digits.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::field::Field;
use crate::target::{Era, Transport};
use crate::wire::frames;

/// Digits of every id: all ids have as many, so that all requests of one kind are of one length.
pub const ID_DIGITS: usize = 10;
/// The first id.
pub const ID_FIRST: u64 = 1_000_000_000;
/// Ids of which every one is used once: behind the last the first comes again, nine thousand
/// million requests later.
pub const ID_COUNT: u64 = 9_000_000_000;

/// What stands before the token of progress.
const TOKEN: &str = "\"progressToken\":";

/// How requests are spoken to one server.
#[derive(Clone, Debug)]
pub struct Speech {
    /// What carries them.
    pub transport: Transport,
    /// How they say which protocol they speak.
    pub era: Era,
    /// `Host` and the path, for HTTP and for the upgrade.
    pub authority: String,
    /// The path.
    pub path: String,
    /// Further fields of HTTP: a token, for instance.
    pub fields: Vec<Field>,
}

impl Speech {
    /// A text as it is sent where it is no request of a run: an answer to a question of the server.
    pub fn frame(&self, text: &str) -> Vec<u8> {
        framed(self, text, "", None)
    }
}

/// One kind of request.
#[derive(Clone)]
pub struct Call {
    /// Up to where the session is named.
    before: Vec<u8>,
    /// Behind that.
    after: Vec<u8>,
    /// Where in `after` the id stands.
    id: Spot,
    /// Where it stands once more, as the token of progress.
    token: Option<Spot>,
    /// What a right answer has as the text of its first content, where that is known.
    expected_text: Option<String>,
}

/// Where an id stands.
#[derive(Clone, Copy, Debug)]
struct Spot {
    at: usize,
    /// How each digit is masked.
    mask: [u8; ID_DIGITS],
}

impl Spot {
    /// The id that begins at `at` of a text, which itself begins at `text_at`.
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
    fn write(self, out: &mut [u8], digits: [u8; ID_DIGITS]) {
        let places = out[self.at..self.at + ID_DIGITS].iter_mut();
        for (place, (digit, key)) in places.zip(digits.iter().zip(self.mask)) {
            *place = digit ^ key;
        }
    }
}

impl Call {
    /// The request `method` with these params. `expected_text` is what a right answer says in the
    /// text of its first content; without it every result is right that is no error.
    pub fn new(
        speech: &Speech,
        (method, params): (&str, Option<Map<String, Value>>),
        expected_text: Option<String>,
    ) -> Self {
        let text = request_text(speech.era, method, params.as_ref());
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let text_at = match speech.transport {
            Transport::Tcp | Transport::Stdio => {
                after.extend_from_slice(text.as_bytes());
                after.push(b'\n');
                0
            }
            Transport::Http => {
                (before, after) = post(speech, &text, (method, params.as_ref()));
                after.len() - text.len()
            }
            Transport::WebSocket => frames::write_text(&mut after, text.as_bytes()),
        };
        // The members of the envelope come first, and the id is the second of them.
        let id_at = text.find(&ID_FIRST.to_string()).unwrap_or_default();
        let spot = |at| Spot::new(speech.transport, text_at, at);
        // A text inside the message would have its quotes escaped.
        let token_at = text.find(&format!("{TOKEN}{ID_FIRST}")).map(|at| at + TOKEN.len());
        Self { before, after, id: spot(id_at), token: token_at.map(spot), expected_text }
    }

    /// Params by which a server is asked to tell how far it has come, as `notifications/progress`
    /// (every revision, `basic/utilities/progress`). Each request has a token of its own: its id.
    pub fn with_progress(params: Option<Map<String, Value>>) -> Map<String, Value> {
        let mut params = params.unwrap_or_default();
        let meta = params.entry("_meta").or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(meta) = meta {
            meta.insert("progressToken".into(), ID_FIRST.into());
        }
        params
    }

    /// The call of the tool `echo` with a message of this length, which a right answer says back.
    pub fn echo(speech: &Speech, message_bytes: usize) -> Self {
        let (params, message) = Self::echo_params(message_bytes);
        Self::new(speech, ("tools/call", params), Some(message))
    }

    /// The params of that call, and its message.
    pub fn echo_params(message_bytes: usize) -> (Option<Map<String, Value>>, String) {
        let message: String = ('a'..='z').cycle().take(message_bytes).collect();
        let params = json!({ "name": "echo", "arguments": { "message": message } });
        (params.as_object().cloned(), message)
    }

    /// Writes the request behind what is in `out`.
    #[inline]
    pub fn write(&self, out: &mut Vec<u8>, id: u64, session: Option<&[u8]>) {
        out.extend_from_slice(&self.before);
        if let Some(session) = session {
            out.extend_from_slice(b"Mcp-Session-Id: ");
            out.extend_from_slice(session);
            out.extend_from_slice(b"\r\n");
        }
        let at = out.len();
        out.extend_from_slice(&self.after);
        let digits = digits(id);
        self.id.write(&mut out[at..], digits);
        if let Some(token) = self.token {
            token.write(&mut out[at..], digits);
        }
    }

    /// What a right answer says in the text of its first content, where that is known.
    pub fn expected_text(&self) -> Option<&str> {
        self.expected_text.as_deref()
    }

    /// Bytes of one request, without a session.
    pub const fn bytes(&self) -> usize {
        self.before.len() + self.after.len()
    }
}

impl fmt::Debug for Call {
    // Its bytes may hold a token.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Call").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

/// The decimal digits of an id, of which each has as many.
#[inline]
pub(super) fn digits(id: u64) -> [u8; ID_DIGITS] {
    let mut room = itoa::Buffer::new();
    room.format(id).as_bytes().first_chunk().copied().unwrap_or([b'0'; ID_DIGITS])
}

/// Who we are.
fn client_info() -> Value {
    json!({ "name": "corelane-load", "version": env!("CARGO_PKG_VERSION") })
}

/// The text of `initialize`, with the id zero.
pub(super) fn initialize_text() -> String {
    let params = json!({
        "protocolVersion": Era::Legacy.revision(),
        "capabilities": {},
        "clientInfo": client_info(),
    });
    format!(r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{params}}}"#)
}

/// The text of `server/discover`, with the id zero.
pub(super) fn discover_text() -> String {
    let text = request_text(Era::Modern, "server/discover", None);
    text.replacen(&ID_FIRST.to_string(), "0", 1)
}

/// The text of `notifications/initialized`.
pub(super) const INITIALIZED_TEXT: &str =
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

fn request_text(era: Era, method: &str, params: Option<&Map<String, Value>>) -> String {
    let mut params = params.cloned();
    if era == Era::Modern {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": era.revision(),
            "io.modelcontextprotocol/clientInfo": client_info(),
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = params.get_or_insert_default();
        let said = params.entry("_meta").or_insert_with(|| Value::Object(Map::new()));
        if let (Value::Object(said), Value::Object(meta)) = (said, meta) {
            said.extend(meta);
        }
    }
    let method = Value::from(method);
    let params =
        params.map_or_else(String::new, |params| format!(r#","params":{}"#, Value::from(params)));
    format!(r#"{{"jsonrpc":"2.0","id":{ID_FIRST},"method":{method}{params}}}"#)
}

/// The head of a post up to where the session is named, and the rest with the text.
fn post(
    speech: &Speech,
    text: &str,
    (method, params): (&str, Option<&Map<String, Value>>),
) -> (Vec<u8>, Vec<u8>) {
    let Speech { authority, path, era, fields, .. } = speech;
    let mut head = format!(
        "POST {path} HTTP/1.1\r\nHost: {authority}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\n"
    );
    for field in fields {
        push_field(&mut head, field.name(), field.value());
    }
    if method != "initialize" {
        push_field(&mut head, "MCP-Protocol-Version", era.revision());
    }
    if *era == Era::Modern {
        push_field(&mut head, "Mcp-Method", method);
        if let Some(name) = name_of(method, params) {
            push_field(&mut head, "Mcp-Name", &field_value(name));
        }
    }
    (head.into_bytes(), format!("Content-Length: {}\r\n\r\n{text}", text.len()).into_bytes())
}

/// A field of HTTP behind the head so far.
pub(super) fn push_field(head: &mut String, name: &str, value: &str) {
    head.extend([name, ": ", value, "\r\n"]);
}

/// A text as it is sent.
pub(super) fn framed(speech: &Speech, text: &str, method: &str, session: Option<&[u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    match speech.transport {
        Transport::Tcp | Transport::Stdio => {
            out.extend_from_slice(text.as_bytes());
            out.push(b'\n');
        }
        Transport::Http => {
            let (before, after) = post(speech, text, (method, None));
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

/// What `Mcp-Name` mirrors (2026-07-28, `basic/transports/streamable-http`).
fn name_of<'a>(method: &str, params: Option<&'a Map<String, Value>>) -> Option<&'a str> {
    let member = match method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        _ => return None,
    };
    params?.get(member)?.as_str()
}

/// A value as a field of HTTP may have it: as it is, or encoded where a field could not carry it.
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
mod tests {
    use super::*;

    fn speech(transport: Transport, era: Era) -> Speech {
        Speech {
            transport,
            era,
            authority: "localhost:8080".into(),
            path: "/mcp".into(),
            fields: vec![Field::bearer("secret").unwrap()],
        }
    }

    fn written(call: &Call, id: u64, session: Option<&[u8]>) -> Vec<u8> {
        let mut out = Vec::new();
        call.write(&mut out, id, session);
        out
    }

    #[test]
    fn a_line_is_one_message_with_its_id() {
        let call = Call::echo(&speech(Transport::Tcp, Era::Legacy), 3);
        let line = written(&call, 1_234_567_890, None);
        assert_eq!(line.len(), call.bytes());
        let message: Value = serde_json::from_slice(line.strip_suffix(b"\n").unwrap()).unwrap();
        let expected = json!({
            "jsonrpc": "2.0", "id": 1_234_567_890_u64, "method": "tools/call",
            "params": { "name": "echo", "arguments": { "message": "abc" } },
        });
        assert_eq!(message, expected);
    }

    #[test]
    fn a_modern_post_mirrors_its_message_in_its_head() {
        let call = Call::echo(&speech(Transport::Http, Era::Modern), 3);
        let post = String::from_utf8(written(&call, ID_FIRST, None)).unwrap();
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
    fn a_post_within_a_session_names_it() {
        let call = Call::echo(&speech(Transport::Http, Era::Legacy), 3);
        let post = String::from_utf8(written(&call, 1_987_654_321, Some(b"s-1"))).unwrap();
        assert!(post.contains("\r\nMcp-Session-Id: s-1\r\n"));
        assert!(post.contains("\"id\":1987654321,"));
        assert!(!post.contains("Mcp-Method"));
    }

    #[test]
    fn a_frame_unmasks_to_the_message() {
        let call = Call::echo(&speech(Transport::WebSocket, Era::Legacy), 200);
        let frame = written(&call, 1_111_222_333, None);
        let masked = &frame[4 + 4..];
        let text: Vec<u8> =
            masked.iter().zip(frames::MASK.iter().cycle()).map(|(byte, key)| byte ^ key).collect();
        let message: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(message["id"], 1_111_222_333_u64);
    }

    #[test]
    fn a_request_that_wants_progress_names_it_by_its_own_id() {
        for (transport, era) in [
            (Transport::Tcp, Era::Legacy),
            (Transport::Http, Era::Modern),
            (Transport::WebSocket, Era::Modern),
        ] {
            let params = json!({ "name": "slow", "arguments": { "progressToken\":": 1 } });
            let params = Call::with_progress(params.as_object().cloned());
            let call = Call::new(&speech(transport, era), ("tools/call", Some(params)), None);
            let mut bytes = written(&call, 1_234_567_890, None);
            if transport == Transport::WebSocket {
                let masked = bytes.split_off(8);
                bytes =
                    masked.iter().zip(frames::MASK.iter().cycle()).map(|(b, k)| b ^ k).collect();
            }
            let text = String::from_utf8(bytes).unwrap();
            let text = text.rsplit("\r\n").next().unwrap();
            let message: Value = serde_json::from_str(text).unwrap();
            assert_eq!(message["id"], 1_234_567_890_u64);
            assert_eq!(message["params"]["_meta"]["progressToken"], 1_234_567_890_u64);
            assert_eq!(
                message["params"]["_meta"].as_object().unwrap().len() > 1,
                era == Era::Modern
            );
        }
    }

    #[test]
    fn a_name_that_no_field_can_carry_is_encoded() {
        assert_eq!(field_value("file:///a b"), "file:///a b");
        assert_eq!(field_value("grüße"), "=?base64?Z3LDvMOfZQ==?=");
        assert_eq!(field_value(" x"), "=?base64?IHg=?=");
    }
}
