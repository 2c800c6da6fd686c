//! What clients say over HTTP.

use std::time::Duration;

use corelane::base::random::Random;
use corelane::protocol::revision::Revision;
use serde_json::{Value, json};

use crate::web::offer::{mark, note};

/// How a request is put.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Style {
    /// HTTP/1.0: the answer ends with the connection.
    pub(crate) is_old: bool,
    /// The client wants the connection to end with the answer.
    pub(crate) closes: bool,
    /// The body comes in chunks.
    pub(crate) is_chunked: bool,
    /// The client would wait for a word before the body, and does not.
    pub(crate) expects: bool,
}

impl Style {
    /// Plain most of the time.
    pub(crate) fn draw(random: &mut Random) -> Self {
        let is_old = random.chance(1, 12);
        let closes = random.chance(1, 12);
        let (is_chunked, expects) = (random.chance(1, 8), random.chance(1, 8));
        Self { is_old, closes, is_chunked: is_chunked && !is_old, expects: expects && !is_old }
    }

    /// Whether the connection ends with the answer.
    pub(crate) const fn is_last(self) -> bool {
        self.is_old || self.closes
    }
}

/// A request of HTTP, with these fields besides the usual ones.
pub(crate) fn request(
    (verb, path): (&str, &str),
    fields: &[(&str, &str)],
    body: Option<&str>,
    style: Style,
) -> Vec<u8> {
    let version = if style.is_old { "HTTP/1.0" } else { "HTTP/1.1" };
    let mut text = format!("{verb} {path} {version}\r\nHost: localhost\r\n");
    text.push_str("Accept: application/json, text/event-stream\r\n");
    for (name, value) in fields {
        text = format!("{text}{name}: {value}\r\n");
    }
    if style.closes {
        text.push_str("Connection: close\r\n");
    }
    let Some(body) = body else { return format!("{text}\r\n").into() };
    text.push_str("Content-Type: application/json\r\n");
    if style.expects {
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

/// A message to the endpoint, of a session or modern.
pub(crate) fn post(message: &Value, session: Option<(&str, Revision)>, style: Style) -> Vec<u8> {
    let body = message.to_string();
    let method = message["method"].as_str().unwrap_or_default();
    let params = &message["params"];
    let name = params["name"].as_str().or_else(|| params["taskId"].as_str());
    let fields: Vec<(&str, &str)> = match session {
        Some((session, revision)) => {
            vec![("Mcp-Session-Id", session), ("MCP-Protocol-Version", revision.as_str())]
        }
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
        Some((session, Revision::V2024_11_05)) => {
            let path = format!("/messages?sessionId={session}");
            request(("POST", &path), &[], Some(&body), style)
        }
        _ => request(("POST", "/mcp"), &fields, Some(&body), style),
    }
}

/// A GET or DELETE of a session.
pub(crate) fn of_session(
    verb: &str,
    (session, revision): (&str, Revision),
    last: Option<(u32, u32)>,
    style: Style,
) -> Vec<u8> {
    let last = last.map(|(stream, number)| format!("{stream}-{number}"));
    let version = ("MCP-Protocol-Version", revision.as_str());
    let mut fields = vec![("Mcp-Session-Id", session), version];
    fields.extend(last.as_deref().map(|last| ("Last-Event-ID", last)));
    request((verb, "/mcp"), &fields, None, style)
}

/// A call of the tool that works.
pub(crate) fn work(guest: u32, order: Work) -> Value {
    let Work { words, pause_us, asks, leaves } = order;
    let arguments = json!({
        "guest": guest, "words": words, "pause_us": pause_us, "asks": asks, "leaves": leaves,
    });
    json!({"name": "work", "arguments": arguments})
}

/// How the tool is to work.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Work {
    pub(crate) words: u32,
    pub(crate) pause_us: u32,
    pub(crate) asks: bool,
    /// After which word it ends its stream, for its client to come back.
    pub(crate) leaves: Option<u32>,
}

impl Work {
    /// How long it takes at least.
    pub(crate) fn least(self) -> Duration {
        Duration::from_micros(u64::from((self.words + 1) * self.pause_us))
    }
}

/// A call that tells everybody who listens to the resource of a client.
pub(crate) fn touch(guest: u32) -> Value {
    json!({"name": "touch", "arguments": {"guest": guest}})
}

/// The params of `resources/subscribe` to the resource of a client.
pub(crate) fn subscribe(guest: u32) -> Value {
    json!({"uri": note(guest)})
}

/// Whether a message names this client and no other: every word of the server's does, but those
/// about tasks, which name the task.
pub(crate) fn is_for(message: &Value, guest: u32) -> bool {
    let params = &message["params"];
    match message["method"].as_str() {
        Some("notifications/progress") => params["message"] == mark(guest),
        Some("notifications/message") => params["data"] == mark(guest),
        Some("notifications/resources/updated") => params["uri"] == note(guest),
        Some("elicitation/create") if params["_meta"].get(RELATED_TASK).is_none() => {
            params["message"] == mark(guest)
        }
        _ => {
            let text = message["result"]["content"][0]["text"].as_str().unwrap_or_default();
            !text.starts_with("guest ") || text.starts_with(&format!("{} ", mark(guest)))
        }
    }
}

/// Where a question names the task that asks it.
const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
