//! Encoding of the clients' HTTP requests.

use std::time::Duration;

use corelane_base::random::Random;
use corelane_protocol::revision::Revision;
use serde_json::{Value, json};

use crate::http_simulation::catalog::{client_label, resource_uri};

/// Variations of a request.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct RequestStyle {
    /// HTTP/1.0: the connection closes after the response.
    pub(crate) is_http_1_0: bool,
    /// `Connection: close`.
    pub(crate) asks_close: bool,
    /// The body is chunked.
    pub(crate) is_chunked: bool,
    /// `Expect: 100-continue`; the client sends the body without waiting.
    pub(crate) expects_continue: bool,
}

impl RequestStyle {
    /// Plain most of the time.
    pub(crate) fn draw(random: &mut Random) -> Self {
        let is_http_1_0 = random.chance(1, 12);
        let asks_close = random.chance(1, 12);
        let (is_chunked, expects) = (random.chance(1, 8), random.chance(1, 8));
        Self {
            is_http_1_0,
            asks_close,
            is_chunked: is_chunked && !is_http_1_0,
            expects_continue: expects && !is_http_1_0,
        }
    }

    /// Returns whether the connection closes after the response.
    pub(crate) const fn closes_connection(self) -> bool {
        self.is_http_1_0 || self.asks_close
    }
}

/// What the requests of a session name it by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionName<'a> {
    pub(crate) id: &'a str,
    pub(crate) revision: Revision,
}

impl<'a> SessionName<'a> {
    fn fields(self) -> [(&'a str, &'a str); 2] {
        [("Mcp-Session-Id", self.id), ("MCP-Protocol-Version", self.revision.as_str())]
    }
}

/// Encodes a request with these header fields besides the usual ones.
pub(crate) fn http_request(
    verb: &str,
    path: &str,
    fields: &[(&str, &str)],
    body: Option<&str>,
    style: RequestStyle,
) -> Vec<u8> {
    let version = if style.is_http_1_0 { "HTTP/1.0" } else { "HTTP/1.1" };
    let mut text = format!("{verb} {path} {version}\r\nHost: localhost\r\n");
    text.push_str("Accept: application/json, text/event-stream\r\n");
    for (name, value) in fields {
        text = format!("{text}{name}: {value}\r\n");
    }
    if style.asks_close {
        text.push_str("Connection: close\r\n");
    }
    let Some(body) = body else { return format!("{text}\r\n").into() };
    text.push_str("Content-Type: application/json\r\n");
    if style.expects_continue {
        text.push_str("Expect: 100-continue\r\n");
    }
    if style.is_chunked {
        let (one, other) = body.split_at(body.len() / 3);
        let (first, second) = (one.len(), other.len());
        text.push_str("Transfer-Encoding: chunked\r\n\r\n");
        return format!("{text}{first:x}\r\n{one}\r\n{second:x}\r\n{other}\r\n0\r\n\r\n").into();
    }
    format!("{text}Content-Length: {}\r\n\r\n{body}", body.len()).into()
}

/// Encodes the POST of a message, in a session or modern.
pub(crate) fn post_message(
    message: &Value,
    session: Option<SessionName<'_>>,
    style: RequestStyle,
) -> Vec<u8> {
    let body = message.to_string();
    let method = message["method"].as_str().unwrap_or_default();
    let params = &message["params"];
    let name = params["name"].as_str().or_else(|| params["taskId"].as_str());
    let fields: Vec<(&str, &str)> = match session {
        Some(session) => session.fields().to_vec(),
        None if method == "initialize" => {
            let version = params["protocolVersion"].as_str().unwrap_or_default();
            vec![("MCP-Protocol-Version", version)]
        }
        None => {
            let version = ("MCP-Protocol-Version", Revision::LATEST.as_str());
            let mut fields = vec![version, ("Mcp-Method", method)];
            fields.extend(name.map(|name| ("Mcp-Name", name)));
            fields
        }
    };
    match session {
        Some(SessionName { id, revision: Revision::V2024_11_05 }) => {
            let path = format!("/messages?sessionId={id}");
            http_request("POST", &path, &[], Some(&body), style)
        }
        _ => http_request("POST", "/mcp", &fields, Some(&body), style),
    }
}

/// Encodes a GET or DELETE of a session.
pub(crate) fn session_request(
    verb: &str,
    session: SessionName<'_>,
    last: Option<(u32, u32)>,
    style: RequestStyle,
) -> Vec<u8> {
    let last = last.map(|(stream, number)| format!("{stream}-{number}"));
    let mut fields = session.fields().to_vec();
    fields.extend(last.as_deref().map(|last| ("Last-Event-ID", last)));
    http_request(verb, "/mcp", &fields, None, style)
}

/// The params of a call of the tool `work`.
pub(crate) fn work_params(client: u32, order: WorkArguments) -> Value {
    let WorkArguments { steps: words, pause_us, elicits: asks, closes_stream_after: leaves } =
        order;
    let arguments = json!({
        "client": client,
        "steps": words,
        "pause_us": pause_us,
        "elicits": asks,
        "closes_stream_after": leaves,
    });
    json!({"name": "work", "arguments": arguments})
}

/// Arguments of the tool `work`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct WorkArguments {
    pub(crate) steps: u32,
    pub(crate) pause_us: u32,
    pub(crate) elicits: bool,
    /// Step after which the server closes the stream, for its client to resume.
    pub(crate) closes_stream_after: Option<u32>,
}

impl WorkArguments {
    /// Returns its minimum duration.
    pub(crate) fn duration_min(self) -> Duration {
        Duration::from_micros(u64::from((self.steps + 1) * self.pause_us))
    }
}

/// The params of a call that reports the resource of a client as updated.
pub(crate) fn touch_params(client: u32) -> Value {
    json!({"name": "touch", "arguments": {"client": client}})
}

/// The params of `resources/subscribe` to the resource of a client.
pub(crate) fn subscribe_params(client: u32) -> Value {
    json!({"uri": resource_uri(client)})
}

/// Returns whether a message is for this client: every message of the server names its client,
/// except those about tasks, which name the task.
pub(crate) fn is_addressed_to(message: &Value, client: u32) -> bool {
    let params = &message["params"];
    match message["method"].as_str() {
        Some("notifications/progress") => params["message"] == client_label(client),
        Some("notifications/message") => params["data"] == client_label(client),
        Some("notifications/resources/updated") => params["uri"] == resource_uri(client),
        Some("elicitation/create") if params["_meta"].get(RELATED_TASK).is_none() => {
            params["message"] == client_label(client)
        }
        _ => {
            let text = message["result"]["content"][0]["text"].as_str().unwrap_or_default();
            let is_labelled = text.starts_with("sim client ");
            !is_labelled || text.starts_with(&format!("{} ", client_label(client)))
        }
    }
}

/// `_meta` key of the task that sends a client request.
const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
