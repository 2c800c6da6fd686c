//! Writes the requests of a client: POST with a message, GET for a stream, DELETE for a session.
//!
//! Source: MCP 2026-07-28 basic/transports/streamable-http, "Request Headers" and "Value Encoding";
//! 2025-11-25 basic/transports, "Session Management"; RFC 9112, section 3.

use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use url::{Position, Url};

use crate::http::fields::push_value;
use crate::http::grammar::{is_field_value_byte, is_token_byte};
use crate::http::header_consistency::{base64_part, is_literal_byte};
use corelane_protocol::json::write;

/// Fields that the client sends itself, in lower case.
const OWN_FIELDS: [&str; 14] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// Media types of the responses to a POST request.
const JSON_OR_EVENTS: &[u8] = b"application/json, text/event-stream";
/// Media type of an event stream.
const EVENTS: &[u8] = b"text/event-stream";

/// Begins the names of the headers that repeat arguments of a tool call.
const PARAMETER_PREFIX: &str = "Mcp-Param-";
/// Begins the names of the fields of a WebSocket handshake.
const WEBSOCKET_PREFIX: &str = "Sec-WebSocket-";

/// Fields that each request of a client carries, such as `Authorization`, or one of them. Their
/// values are secret: the debug format omits them.
#[derive(Clone, Default, Eq, PartialEq)]
pub struct ExtraFields(Vec<(Box<str>, Box<str>)>);

impl ExtraFields {
    /// Returns no fields.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Returns whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a field.
    ///
    /// # Errors
    ///
    /// Why the field is invalid; the text has no part of the value.
    pub fn push(&mut self, name: &str, value: &str) -> Result<(), String> {
        if name.is_empty() || !name.bytes().all(is_token_byte) {
            return Err(format!("'{name}' is not a header name"));
        }
        let begins_with = |prefix: &str| {
            name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
        };
        let is_own = begins_with(PARAMETER_PREFIX) || begins_with(WEBSOCKET_PREFIX);
        if is_own || OWN_FIELDS.iter().any(|own| own.eq_ignore_ascii_case(name)) {
            return Err(format!("the client sends the header {name} itself"));
        }
        if !value.bytes().all(is_field_value_byte) || value.trim() != value {
            let text = "the value of the header has control characters or surrounding white space";
            return Err(format!("{text}: {name}"));
        }
        self.0.push((name.into(), value.into()));
        Ok(())
    }

    /// Returns whether a field has this name.
    pub fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|(other, _)| other.eq_ignore_ascii_case(name))
    }
}

impl fmt::Debug for ExtraFields {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

/// The fields of one request. Some are secret: the debug format omits them.
#[derive(Clone, Copy, Default)]
pub struct RequestFields<'a> {
    /// `MCP-Protocol-Version`.
    pub protocol_version: Option<&'a str>,
    /// `Mcp-Method`.
    pub method: Option<&'a str>,
    /// `Mcp-Name`, as plain text.
    pub name: Option<&'a str>,
    /// `Mcp-Param-…`: the end of the name, and the value as plain text.
    pub parameters: &'a [(Box<str>, Box<str>)],
    /// `Mcp-Session-Id`.
    pub session_id: Option<&'a str>,
    /// `Last-Event-ID`.
    pub last_event_id: Option<&'a [u8]>,
    /// `Authorization`.
    pub authorization: Option<&'a str>,
    /// `DPoP` (RFC 9449, section 4.1).
    pub dpop_proof: Option<&'a str>,
    /// Those of this request besides.
    pub extra: Option<&'a ExtraFields>,
    /// Whether `Accept` of a POST request names event streams only, not JSON.
    pub accepts_events_only: bool,
}

/// Writes the requests to one endpoint.
#[derive(Clone)]
pub struct RequestWriter {
    /// `http` or `https`.
    scheme: &'static str,
    authority: Box<str>,
    /// What precedes the path in a request to a proxy.
    prefix: Box<str>,
    /// The path with its query.
    path: Box<str>,
    /// The lines that all requests have.
    lines: Box<[u8]>,
}

impl RequestWriter {
    /// Creates a writer. `scheme` is that of the endpoint, `http` or `https`; `authority` is the
    /// value of `Host`; `path` begins with a slash. None has other than visible ASCII characters.
    pub fn new(scheme: &'static str, authority: &str, path: &str, extra: &ExtraFields) -> Self {
        let mut lines = Vec::new();
        push_line(&mut lines, "Host", authority.as_bytes());
        for (name, value) in &extra.0 {
            push_line(&mut lines, name, value.as_bytes());
        }
        Self {
            scheme,
            authority: authority.into(),
            path: path.into(),
            lines: lines.into(),
            prefix: "".into(),
        }
    }

    /// Lets the requests name the whole URL, for a proxy (RFC 9112, section 3.2.2), with the value
    /// of `Proxy-Authorization`.
    #[must_use]
    pub fn for_proxy(mut self, authorization: Option<&str>) -> Self {
        self.prefix = format!("{}://{}", self.scheme, self.authority).into();
        if let Some(authorization) = authorization {
            let mut lines = self.lines.into_vec();
            push_line(&mut lines, "Proxy-Authorization", authorization.as_bytes());
            self.lines = lines.into();
        }
        self
    }

    /// Changes the path to the one that a reference names (RFC 3986, sections 4.2, 5.2 and 6.2;
    /// MCP 2024-11-05 basic/transports, "HTTP with SSE"), without its fragment (RFC 9110, section
    /// 7.1). Returns `false`, and changes nothing, for one that is invalid, on another server, or
    /// with a user name.
    pub fn set_endpoint(&mut self, reference: &[u8]) -> bool {
        let is_valid = !reference.is_empty() && reference.iter().all(u8::is_ascii_graphic);
        let Some(text) = std::str::from_utf8(reference).ok().filter(|_| is_valid) else {
            return false;
        };
        let base = Url::parse(&format!("{}://{}{}", self.scheme, self.authority, self.path));
        let Ok(base) = base else { return false };
        let Ok(url) = base.join(text) else { return false };
        let has_login = !url.username().is_empty() || url.password().is_some();
        if url.origin() != base.origin() || has_login {
            return false;
        }
        self.path = url[Position::BeforePath..Position::AfterQuery].into();
        true
    }

    /// Returns the path with its query.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Appends a POST request with a message.
    pub fn write_post(&self, out: &mut Vec<u8>, fields: &RequestFields<'_>, message: &[u8]) {
        out.reserve(self.lines.len() + self.path.len() + message.len() + 256);
        self.begin(out, "POST ");
        let types = if fields.accepts_events_only { EVENTS } else { JSON_OR_EVENTS };
        push_line(out, "Accept", types);
        out.extend_from_slice(b"Content-Type: application/json\r\nContent-Length: ");
        write::unsigned(out, message.len() as u64);
        out.extend_from_slice(b"\r\n");
        fields.write(out);
        out.extend_from_slice(message);
    }

    /// Appends a GET request for a stream of events.
    pub fn write_get(&self, out: &mut Vec<u8>, fields: &RequestFields<'_>) {
        self.begin(out, "GET ");
        push_line(out, "Accept", EVENTS);
        fields.write(out);
    }

    /// Appends a DELETE request, which ends a session.
    pub fn write_delete(&self, out: &mut Vec<u8>, fields: &RequestFields<'_>) {
        self.begin(out, "DELETE ");
        fields.write(out);
    }

    /// Appends a GET request for an upgrade; `lines` are its fields, each with its line end.
    pub fn write_upgrade(&self, out: &mut Vec<u8>, lines: &[u8], fields: &RequestFields<'_>) {
        self.begin(out, "GET ");
        out.extend_from_slice(lines);
        fields.write(out);
    }

    fn begin(&self, out: &mut Vec<u8>, method: &str) {
        out.extend_from_slice(method.as_bytes());
        out.extend_from_slice(self.prefix.as_bytes());
        out.extend_from_slice(self.path.as_bytes());
        out.extend_from_slice(b" HTTP/1.1\r\n");
        out.extend_from_slice(&self.lines);
    }
}

impl fmt::Debug for RequestWriter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RequestWriter").field("path", &self.path).finish_non_exhaustive()
    }
}

impl fmt::Debug for RequestFields<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RequestFields")
            .field("method", &self.method)
            .finish_non_exhaustive()
    }
}

impl RequestFields<'_> {
    /// Appends a line per field, and the empty line that ends the head.
    fn write(&self, out: &mut Vec<u8>) {
        if let Some(version) = self.protocol_version {
            push_line(out, "MCP-Protocol-Version", version.as_bytes());
        }
        if let Some(method) = self.method {
            push_line(out, "Mcp-Method", method.as_bytes());
        }
        if let Some(name) = self.name {
            out.extend_from_slice(b"Mcp-Name: ");
            push_encoded(out, name);
            out.extend_from_slice(b"\r\n");
        }
        for (name, value) in self.parameters {
            out.extend_from_slice(PARAMETER_PREFIX.as_bytes());
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b": ");
            push_encoded(out, value);
            out.extend_from_slice(b"\r\n");
        }
        if let Some(session) = self.session_id {
            push_line(out, "Mcp-Session-Id", session.as_bytes());
        }
        if let Some(id) = self.last_event_id {
            push_line(out, "Last-Event-ID", id);
        }
        if let Some(authorization) = self.authorization {
            push_line(out, "Authorization", authorization.as_bytes());
        }
        if let Some(proof) = self.dpop_proof {
            push_line(out, "DPoP", proof.as_bytes());
        }
        for (name, value) in self.extra.iter().flat_map(|extra| &extra.0) {
            push_line(out, name, value.as_bytes());
        }
        out.extend_from_slice(b"\r\n");
    }
}

fn push_line(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    push_value(out, value);
    out.extend_from_slice(b"\r\n");
}

/// Appends `text` as it is, or as base64 if a header cannot carry it.
fn push_encoded(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    let is_literal = bytes.iter().all(|byte| is_literal_byte(*byte))
        && bytes.trim_ascii() == bytes
        && base64_part(bytes).is_none();
    if is_literal {
        out.extend_from_slice(bytes);
    } else {
        out.extend_from_slice(b"=?base64?");
        out.extend_from_slice(BASE64_STANDARD.encode(bytes).as_bytes());
        out.extend_from_slice(b"?=");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn post_carries_fields_and_length() {
        let mut extra = ExtraFields::default();
        extra.push("Authorization", "Bearer secret").unwrap();
        assert!(!format!("{extra:?}").contains("secret"));
        let writer = RequestWriter::new("http", "a:1", "/mcp?x", &extra);
        let fields = RequestFields {
            protocol_version: Some("2026-07-28"),
            method: Some("tools/call"),
            name: Some("echo"),
            parameters: &[("Region".into(), "us west".into()), ("City".into(), "Köln".into())],
            session_id: Some("s"),
            ..RequestFields::default()
        };
        let mut out = Vec::new();
        writer.write_post(&mut out, &fields, b"{}");
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "POST /mcp?x HTTP/1.1\r\nHost: a:1\r\nAuthorization: Bearer secret\r\n\
             Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n\
             Content-Length: 2\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\n\
             Mcp-Name: echo\r\nMcp-Param-Region: us west\r\n\
             Mcp-Param-City: =?base64?S8O2bG4=?=\r\nMcp-Session-Id: s\r\n\r\n{}"
        );
    }

    #[test]
    fn post_for_stream_accepts_events_only() {
        let writer = RequestWriter::new("http", "a:1", "/p", &ExtraFields::default());
        let fields = RequestFields { accepts_events_only: true, ..RequestFields::default() };
        let mut out = Vec::new();
        writer.write_post(&mut out, &fields, b"{}");
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("\r\nAccept: text/event-stream\r\n"), "{text}");
        assert!(!text.contains("Accept: application/json"), "{text}");
    }

    #[test]
    fn endpoint_is_resolved_on_same_server() {
        let resolve = |reference: &str| {
            let extra = ExtraFields::default();
            let mut writer = RequestWriter::new("http", "a:1", "/b/sse?c", &extra);
            writer.set_endpoint(reference.as_bytes()).then(|| writer.path.into_string())
        };
        for (reference, path) in [
            ("/messages?s=1", "/messages?s=1"),
            ("messages", "/b/messages"),
            ("?s=1", "/b/sse?s=1"),
            ("http://A:1/m", "/m"),
            ("http://a:1", "/"),
            ("HTTP://a:1/m", "/m"),
            ("//a:1/m", "/m"),
            ("/m#part", "/m"),
            ("/m?s=1#part", "/m?s=1"),
            ("../m", "/m"),
            ("./m/../n", "/b/n"),
            ("/c/../m/.", "/m/"),
        ] {
            assert_eq!(resolve(reference).as_deref(), Some(path));
        }
        for reference in [
            "",
            "//b/m",
            "/\\b/m",
            "http://b:1/m",
            "http://a:2/m",
            "http://a/m",
            "https://a:1/m",
            "http://a:1@b/m",
            "http://b@a:1/m",
            "/a b",
        ] {
            assert_eq!(resolve(reference), None, "{reference}");
        }
        let mut writer = RequestWriter::new("https", "a", "/b", &ExtraFields::default());
        assert!(writer.set_endpoint(b"https://a:443/m"));
    }

    #[test]
    fn header_value_is_encoded_if_needed() {
        let encoded = |text: &str| {
            let mut out = Vec::new();
            push_encoded(&mut out, text);
            String::from_utf8(out).unwrap()
        };
        for (text, expected) in [
            ("us-west1", "us-west1"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ] {
            assert_eq!(encoded(text), expected);
        }
    }

    #[test]
    fn invalid_extra_field_is_refused() {
        let mut extra = ExtraFields::default();
        for (name, value) in [
            ("", "a"),
            ("a b", "a"),
            ("Host", "a"),
            ("mcp-session-id", "a"),
            ("mcp-param-a", "a"),
            ("sec-websocket-key", "a"),
            ("a", "s\r\nb: c"),
        ] {
            let error = extra.push(name, value).unwrap_err();
            assert!(!error.contains("\r\n"), "{error}");
        }
        assert_eq!(extra, ExtraFields::default());
    }
}
