//! Texts of messages that clients write without their half of the protocol: wrong ones, those that
//! it would not send now, and handshakes with members of their own.

use corelane_parity::capabilities::{Capabilities, Feature, ResumeWindow};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::resumption::{ResumeKind, ResumeSent};

/// Messages that get `error.internal` in every state.
pub(crate) const MALFORMED: [&str; 5] = [
    r#"{"type":"nothing"}"#,
    r#"{"type":"cancel"}"#,
    r#"{"type":"response","id":1,"result":{}}"#,
    r#"{"type":"cancel","id":1,"streamId":"s1"}"#,
    r#"{"type":"request","id":"#,
];

/// A handshake.
pub(crate) fn handshake(version: &str, offered: &Value, exchanges: bool) -> Value {
    let mut handshake = json!({
        "type": "handshake",
        "protocolVersion": version,
        "capabilities": offered,
        "clientInfo": {"name": "sim", "version": "1"},
    });
    if exchanges {
        handshake["capabilitiesExchange"] = json!(true);
    }
    handshake
}

/// Adds what a handshake resumes.
pub(crate) fn add_resume(handshake: &mut Value, sent: &ResumeSent) {
    handshake["resumeToken"] = json!(presented(sent));
    handshake["lastAckSeq"] = json!(sent.acknowledged);
}

/// Returns the token as it is presented: changed in the middle, if it is forged.
fn presented(sent: &ResumeSent) -> String {
    let token = &sent.token;
    if sent.kind != ResumeKind::Forged {
        return token.clone();
    }
    let (head, tail) = token.split_at(token.len() / 2);
    let other = if tail.starts_with('A') { "B" } else { "A" };
    format!("{head}{other}{}", &tail[1..])
}

/// A handshake as a query; numbers of capabilities have no place in it.
pub(crate) fn query(offered: &Value, resume: Option<&ResumeSent>) -> String {
    let flags = offered.as_object().into_iter().flatten().filter(|(_, value)| **value == true);
    let flags: Vec<&str> = flags.map(|(name, _)| name.as_str()).collect();
    let mut query = format!("protocolVersion=1.0&capabilities={}", flags.join(","));
    if let Some(sent) = resume {
        let token = presented(sent);
        let token = utf8_percent_encode(&token, NON_ALPHANUMERIC);
        let named = sent.acknowledged.iter().map(|(stream, seq)| format!("{stream}:{seq}"));
        let named: Vec<String> = named.collect();
        query = format!("{query}&resumeToken={token}&lastAckSeq={}", named.join(","));
    }
    query
}

/// Returns the capabilities in a message.
pub(crate) fn capabilities(offered: &Value) -> Capabilities {
    let has = |feature: &Feature| offered[feature.as_str()] == true;
    let mut capabilities = Capabilities::of(Feature::ALL.into_iter().filter(has));
    let number = |value: &Value| value.as_u64().map(|number| number as u32);
    capabilities.max_concurrent = number(&offered["maxConcurrent"]);
    capabilities.max_payload_bytes = offered["maxPayloadBytes"].as_u64();
    let window = &offered["resumeWindow"];
    let (chunks, seconds) = (number(&window["chunks"]), number(&window["seconds"]));
    capabilities.resume_window =
        chunks.zip(seconds).map(|(chunks, seconds)| ResumeWindow { chunks, seconds });
    capabilities
}
