//! Request templates: requests serialized once, with placeholders for id and session.
//!
//! All bytes of a request except its id and `Mcp-Session-Id` are the same for a whole run, so
//! writing a request costs a copy and ten digits.

use std::fmt;
use std::sync::Arc;

use corelane_client::session::EncodedParams;
use corelane_parity::write::{self, RequestParams};
use corelane_protocol::eras::Method;
use corelane_protocol::jsonrpc::Id;
use corelane_transport::http::client::request_writer::RequestFields;
use corelane_transport::http::header_consistency::name_key;
use serde_json::{Map, Value, json};

use super::request_settings::RequestSettings;
use super::result_check::ResultCheck;
use super::user_values::{UserValues, ValueNames};
use super::varying_text::{ID_PLACEHOLDER, VaryingText};
use crate::target::{Era, Transport};
use crate::wire::frames;

/// Digits of every request id: the same number, so that requests of one template have one length.
pub const ID_DIGITS: usize = 10;
/// First request id.
pub const ID_FIRST: u64 = 1_000_000_000;
/// Number of distinct request ids. After 9,000,000,000 requests the first id is used again.
pub const ID_COUNT: u64 = 9_000_000_000;

/// The end of an HTTP head.
const HEAD_END: &[u8] = b"\r\n";
/// Text before the progress token.
const PROGRESS_TOKEN_KEY: &str = "\"progressToken\":";

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
    kind: RequestKind,
    has_progress_token: bool,
    /// Whether values are taken from its results.
    keeps_result: bool,
}

/// How a request is answered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum RequestKind {
    /// By a response of JSON-RPC.
    Mcp,
    /// By a response of the parity dialect.
    Parity,
    /// By a stream of the parity dialect.
    ParityStream,
}

impl RequestKind {
    const fn new(era: Era, is_stream: bool) -> Self {
        match (era, is_stream) {
            (Era::Parity, true) => Self::ParityStream,
            (Era::Parity, false) => Self::Parity,
            _ => Self::Mcp,
        }
    }
}

/// What differs between the requests of one template, besides the id.
#[derive(Clone)]
enum Variation {
    /// Position of the progress token, which equals the id.
    ProgressToken(IdPosition),
    /// The whole text, which has random values.
    Text(Box<VaryingRequest>),
}

/// A request whose text has random values.
#[derive(Clone)]
struct VaryingRequest {
    settings: RequestSettings,
    method: String,
    /// Value of `Mcp-Name`.
    name: Option<String>,
    text: VaryingText,
    is_stream: bool,
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
        settings: &RequestSettings,
        method: &str,
        params: Option<&Map<String, Value>>,
        expected_text: Option<String>,
    ) -> Self {
        let kind = RequestKind::new(settings.era, false);
        let check = expected_text.map(ResultCheck::text).map(Arc::new);
        Self { check, ..Self::of_kind(settings, method, params, kind) }
    }

    /// Creates the template of a request whose result is streamed, in the parity dialect.
    pub fn stream(
        settings: &RequestSettings,
        method: &str,
        params: Option<&Map<String, Value>>,
    ) -> Self {
        Self::of_kind(settings, method, params, RequestKind::new(settings.era, true))
    }

    fn of_kind(
        settings: &RequestSettings,
        method: &str,
        params: Option<&Map<String, Value>>,
        kind: RequestKind,
    ) -> Self {
        let text = request_text(settings, method, params, kind);
        let (mut head, mut tail) = (Vec::new(), Vec::new());
        let fields = RequestFields {
            accepts_events_only: kind == RequestKind::ParityStream,
            ..request_fields(settings, method, mcp_name(method, params), None)
        };
        let mut text_at = settings.write_message(&mut tail, text.as_bytes(), &fields);
        if settings.transport == Transport::Http {
            // The session id is the last field: the tail begins with the empty line.
            head = tail;
            tail = head.split_off(text_at - HEAD_END.len());
            text_at = HEAD_END.len();
        }
        // `id` is the second member of the JSON-RPC object.
        let id_at = text.find(&ID_FIRST.to_string()).unwrap_or_default();
        let spot = |at| IdPosition::new(settings.transport, text_at, at);
        // Quotes inside a string would be escaped, so this finds no text in an argument.
        let token_at = text
            .find(&format!("{PROGRESS_TOKEN_KEY}{ID_FIRST}"))
            .map(|at| at + PROGRESS_TOKEN_KEY.len());
        let variation = token_at.map(spot).map(Variation::ProgressToken);
        let has_progress_token = variation.is_some();
        let id = spot(id_at);
        let keeps_result = false;
        Self { head, tail, id, variation, check: None, kind, has_progress_token, keeps_result }
    }

    /// Creates a template whose params have placeholders for random values, determined by `seed`.
    /// `is_stream`: whether the result is streamed. `names`: the values of users, in a scenario.
    ///
    /// # Errors
    ///
    /// Returns a one-line message if a placeholder is invalid.
    pub fn varying(
        settings: &RequestSettings,
        method: &str,
        params: Option<&Map<String, Value>>,
        seed: u64,
        is_stream: bool,
        names: Option<&ValueNames>,
    ) -> Result<Self, String> {
        let kind = RequestKind::new(settings.era, is_stream);
        let text = request_text(settings, method, params, kind);
        let id = ID_FIRST.to_string();
        let token = format!("{PROGRESS_TOKEN_KEY}{id}");
        let text = text
            .replacen(&id, ID_PLACEHOLDER, 1)
            .replace(&token, &format!("{PROGRESS_TOKEN_KEY}{ID_PLACEHOLDER}"));
        let text = VaryingText::parse(&text, seed, names)?;
        let name = mcp_name(method, params).map(String::from);
        let (own_settings, method_name) = (settings.clone(), method.to_owned());
        let request =
            VaryingRequest { settings: own_settings, method: method_name, name, text, is_stream };
        let variation = Some(Variation::Text(Box::new(request)));
        Ok(Self { variation, ..Self::of_kind(settings, method, params, kind) })
    }

    /// Reports results, so that values can be taken from them. Each is parsed in full.
    #[must_use]
    pub fn keeping_result(self) -> Self {
        Self { keeps_result: true, ..self }
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
    pub fn echo(settings: &RequestSettings, message_bytes: usize) -> Self {
        let (params, message) = Self::echo_params(message_bytes);
        Self::new(settings, "tools/call", params.as_ref(), Some(message))
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

    /// Appends the request with the values of a user to `out`.
    pub fn write_step(&self, out: &mut Vec<u8>, id: u64, session: Option<&str>, user: &UserValues) {
        match &self.variation {
            Some(Variation::Text(request)) => request.write(out, id, session, Some(user)),
            _ => self.write_with(out, id, session, user.authorization()),
        }
    }

    /// Appends the request to `out`.
    #[inline]
    pub fn write_request(&self, out: &mut Vec<u8>, id: u64, session: Option<&str>) {
        if let Some(Variation::Text(request)) = &self.variation {
            return request.write(out, id, session, None);
        }
        self.write_with(out, id, session, None);
    }

    /// Appends a request without placeholders to `out`.
    #[inline]
    fn write_with(
        &self,
        out: &mut Vec<u8>,
        id: u64,
        session: Option<&str>,
        authorization: Option<&str>,
    ) {
        out.extend_from_slice(&self.head);
        if let Some(authorization) = authorization.filter(|_| !self.head.is_empty()) {
            out.extend_from_slice(b"Authorization: ");
            out.extend_from_slice(authorization.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        if let Some(session) = session {
            out.extend_from_slice(b"Mcp-Session-Id: ");
            out.extend_from_slice(session.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        let at = out.len();
        out.extend_from_slice(&self.tail);
        let digits = id_digits(id);
        self.id.patch(&mut out[at..], digits);
        if let Some(Variation::ProgressToken(token)) = &self.variation {
            token.patch(&mut out[at..], digits);
        }
    }

    /// Returns the expected text of the first content block, if it is known.
    pub fn expected_text(&self) -> Option<&str> {
        self.check.as_ref()?.expected_text()
    }

    /// Returns whether it is a request of the parity dialect.
    pub(super) fn is_parity(&self) -> bool {
        self.kind != RequestKind::Mcp
    }

    /// Returns whether values are taken from its results.
    pub(super) const fn keeps_result(&self) -> bool {
        self.keeps_result
    }

    /// Returns whether equal responses are recognized without parsing them.
    pub(super) fn has_response_template(&self) -> bool {
        !self.keeps_result && !self.is_stream()
    }

    /// Returns whether its result is streamed.
    #[inline]
    pub(super) fn is_stream(&self) -> bool {
        self.kind == RequestKind::ParityStream
    }

    /// Returns whether it asks for progress.
    pub(super) const fn has_progress_token(&self) -> bool {
        self.has_progress_token
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

impl VaryingRequest {
    fn write(&self, out: &mut Vec<u8>, id: u64, session: Option<&str>, user: Option<&UserValues>) {
        let mut text = self.text.render(id, user);
        if let Some(members) = user.and_then(UserValues::input)
            && text.ends_with("}}")
        {
            // The params are the last member.
            let at = text.len() - 2;
            text.insert_str(at, members);
            text.insert(at, ',');
        }
        let named = self.name.as_deref().filter(|name| name.contains("{{"));
        let named = named.and_then(|_| name_in(&self.method, &text));
        let (method, name) = (&*self.method, named.as_deref().or(self.name.as_deref()));
        let accepts_events_only = self.is_stream;
        let fields = request_fields(&self.settings, method, name, session);
        let authorization = user.and_then(UserValues::authorization);
        let fields = RequestFields { accepts_events_only, authorization, ..fields };
        self.settings.write_message(out, text.as_bytes(), &fields);
    }
}

/// Returns the decimal digits of an id.
#[inline]
pub(super) fn id_digits(id: u64) -> [u8; ID_DIGITS] {
    let mut buf = itoa::Buffer::new();
    buf.format(id).as_bytes().first_chunk().copied().unwrap_or([b'0'; ID_DIGITS])
}

/// Returns the text of a request. Its id is [`ID_FIRST`], and so is its progress token, if `_meta`
/// of the params has one.
fn request_text(
    settings: &RequestSettings,
    method: &str,
    params: Option<&Map<String, Value>>,
    kind: RequestKind,
) -> String {
    if kind != RequestKind::Mcp {
        let params = params.map(|params| Value::from(params.clone()).to_string());
        let params = params.as_ref().map(String::as_bytes);
        let request = RequestParams {
            id: Id::from(ID_FIRST),
            method,
            params,
            streams: kind == RequestKind::ParityStream,
            idempotency_key: None,
            auth_token: None,
        };
        let mut out = Vec::new();
        write::request(&mut out, &request);
        return String::from_utf8(out).unwrap_or_default();
    }
    let mut params = params.cloned();
    let meta = match params.as_mut().and_then(|params| params.shift_remove("_meta")) {
        Some(Value::Object(members)) => Value::from(members).to_string(),
        _ => "{}".to_owned(),
    };
    let params = params.map_or_else(String::new, |params| Value::from(params).to_string());
    let encoded = EncodedParams {
        params: params.as_bytes(),
        // Without the braces.
        meta: &meta.as_bytes()[1..meta.len() - 1],
        ..EncodedParams::default()
    };
    let mut out = Vec::new();
    let revision = settings.era.revision();
    settings.session().write_request(&mut out, ID_FIRST, method, &encoded, revision);
    String::from_utf8(out).unwrap_or_default()
}

/// Returns the HTTP fields of a request. `name` is the value of `Mcp-Name`.
fn request_fields<'a>(
    settings: &'a RequestSettings,
    method: &'a str,
    name: Option<&'a str>,
    session: Option<&'a str>,
) -> RequestFields<'a> {
    let fields = settings.http_fields(session);
    if settings.era.is_modern() {
        RequestFields { method: Some(method), name, ..fields }
    } else {
        fields
    }
}

/// Returns the value of `Mcp-Name` (MCP 2026-07-28, basic/transports/streamable-http).
fn mcp_name<'a>(method: &str, params: Option<&'a Map<String, Value>>) -> Option<&'a str> {
    let key = Method::parse(method).and_then(name_key)?;
    params?.get(key)?.as_str()
}

/// Returns the value of `Mcp-Name` of a request.
fn name_in(method: &str, text: &str) -> Option<String> {
    let request: Value = serde_json::from_str(text).ok()?;
    mcp_name(method, request.get("params")?.as_object()).map(ToOwned::to_owned)
}

#[cfg(test)]
mod tests;
