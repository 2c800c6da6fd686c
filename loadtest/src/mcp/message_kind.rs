//! Classification of messages from the server.
//!
//! Invariants: every message is classified, whatever it contains. A message without the id of one
//! of our requests is not a response to it. A result with `isError` is a failure.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::result_check::ResultCheck;
use crate::metrics::outcome::Failure;

/// Kind of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MessageKind<'a> {
    /// Response to the request with this id.
    Response {
        /// The request id.
        id: u64,
        /// The failure, or `None` if it succeeded.
        failure: Option<Failure>,
    },
    /// Response whose id is not a number, for example an error with `id: null`.
    UnmatchedResponse {
        /// The id as JSON text; empty without one.
        id: &'a str,
        /// Whether it is an error.
        is_error: bool,
    },
    /// Request of the server.
    Request {
        /// Its id as JSON text.
        id: &'a str,
        /// Its method.
        method: &'a str,
    },
    /// Notification.
    Notification,
    /// Not a JSON-RPC message.
    Invalid,
}

/// The members of a message that are examined.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// The members of an error that are examined.
#[derive(Deserialize)]
struct ErrorView<'a> {
    #[serde(borrow, default)]
    data: Option<ErrorData<'a>>,
}

#[derive(Deserialize)]
struct ErrorData<'a> {
    #[serde(borrow, default, rename = "retryAfterMs")]
    retry_after: Option<&'a RawValue>,
}

/// The members of a result that are examined.
#[derive(Deserialize)]
struct ResultView<'a> {
    #[serde(default, rename = "isError")]
    is_error: bool,
    #[serde(borrow, default, rename = "resultType")]
    result_type: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow, default)]
    content: Option<Vec<Content<'a>>>,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow, default)]
    text: Option<std::borrow::Cow<'a, str>>,
}

/// Classifies a message; `check` returns what the result for a request id has to be.
pub fn classify_message<'a, 'b>(
    text: &'a [u8],
    check: impl FnOnce(u64) -> Option<&'b ResultCheck>,
) -> MessageKind<'a> {
    let Ok(envelope) = serde_json::from_slice::<Envelope<'_>>(text) else {
        return MessageKind::Invalid;
    };
    if let Some(method) = envelope.method {
        return envelope.id.map_or(MessageKind::Notification, |id| MessageKind::Request {
            id: id.get(),
            method: method.get().trim_matches('"'),
        });
    }
    if envelope.result.is_none() && envelope.error.is_none() {
        return MessageKind::Invalid;
    }
    let Some(id) = envelope.id.and_then(|id| id.get().parse().ok()) else {
        let id = envelope.id.map_or("", RawValue::get);
        return MessageKind::UnmatchedResponse { id, is_error: envelope.error.is_some() };
    };
    let failure = match envelope.result {
        _ if envelope.error.is_some() => envelope.error.map(error_failure),
        Some(result) => check_result(result.get(), check(id)),
        None => Some(Failure::Garbage),
    };
    MessageKind::Response { id, failure }
}

/// Returns the failure of a result, or `None` if it is as expected.
pub(super) fn check_result(result: &str, check: Option<&ResultCheck>) -> Option<Failure> {
    let view = serde_json::from_str::<ResultView<'_>>(result);
    if view.as_ref().is_ok_and(|view| view.is_error) {
        return Some(Failure::Tool);
    }
    let result_type = view.as_ref().ok().and_then(|view| view.result_type.as_deref());
    if result_type == Some("input_required") {
        return Some(Failure::InputRequired);
    }
    if !result.starts_with('{') {
        return Some(Failure::Wrong);
    }
    // In an unreadable view `content` has another shape.
    let content = view.ok().and_then(|view| view.content);
    let texts = content.as_deref().map(|all| all.iter().filter_map(|block| block.text.as_deref()));
    (!check?.is_met(result, texts.as_ref())).then_some(Failure::Wrong)
}

/// Returns how an error object is counted.
fn error_failure(error: &RawValue) -> Failure {
    let data = serde_json::from_str::<ErrorView<'_>>(error.get()).ok().and_then(|error| error.data);
    match data {
        Some(ErrorData { retry_after: Some(_) }) => Failure::RpcRetryAfter,
        _ => Failure::Rpc,
    }
}

/// Explains why the result in a response is not as expected.
pub(super) fn explain_result(text: &[u8], check: &ResultCheck) -> Option<String> {
    let envelope = serde_json::from_slice::<Envelope<'_>>(text).ok()?;
    check.explain(envelope.result?.get())
}

/// Returns the result in a response.
pub(super) fn result_text(text: &[u8]) -> Option<&str> {
    Some(serde_json::from_slice::<Envelope<'_>>(text).ok()?.result?.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classify(text: &str) -> MessageKind<'_> {
        let check = ResultCheck::text("hello");
        classify_message(text.as_bytes(), |_| Some(&check))
    }

    fn failure(text: &str) -> Option<Failure> {
        match classify(text) {
            MessageKind::Response { id: 7, failure } => failure,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn response_with_expected_text_is_success() {
        let right =
            r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"hello"}]}}"#;
        assert_eq!(failure(right), None);
        assert_eq!(failure(&right.replace("hello", "h\\u0065llo")), None);
        assert_eq!(failure(&right.replace("hello", "hullo")), Some(Failure::Wrong));
        assert_eq!(failure(r#"{"jsonrpc":"2.0","id":7,"result":{}}"#), Some(Failure::Wrong));
        assert_eq!(failure(r#"{"jsonrpc":"2.0","id":7,"result":[]}"#), Some(Failure::Wrong));
    }

    #[test]
    fn response_with_error_is_failure() {
        let tool =
            r#"{"id":7,"result":{"isError":true,"content":[{"type":"text","text":"hello"}]}}"#;
        assert_eq!(failure(tool), Some(Failure::Tool));
        let error = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"no"}}"#;
        assert_eq!(failure(error), Some(Failure::Rpc));
        let later = r#"{"id":7,"error":{"code":1002,"message":"a","data":{"retryAfterMs":9}}}"#;
        assert_eq!(failure(later), Some(Failure::RpcRetryAfter));
        assert_eq!(failure(&later.replace("{\"retryAfterMs\":9}", "\"a\"")), Some(Failure::Rpc));
        let both = r#"{"id":7,"result":{"content":[{"text":"hello"}]},"error":{"code":1}}"#;
        assert_eq!(failure(both), Some(Failure::Rpc));
    }

    #[test]
    fn response_without_expected_text_is_success() {
        let text = br#"{"id":9,"result":{"tools":[],"content":"other"}}"#;
        let judgement = classify_message(text, |_| None);
        assert_eq!(judgement, MessageKind::Response { id: 9, failure: None });
    }

    #[test]
    fn server_messages_are_distinguished_from_responses() {
        let ping = r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#;
        assert_eq!(classify(ping), MessageKind::Request { id: "\"p\"", method: "ping" });
        assert_eq!(classify(r#"{"method":"notifications/message"}"#), MessageKind::Notification);
        let unmatched = |id, is_error| MessageKind::UnmatchedResponse { id, is_error };
        assert_eq!(classify(r#"{"id":null,"error":{}}"#), unmatched("", true));
        assert_eq!(classify(r#"{"id":"x","result":{}}"#), unmatched("\"x\"", false));
        assert_eq!(classify(r#"{"id":7}"#), MessageKind::Invalid);
        assert_eq!(classify("<html>"), MessageKind::Invalid);
        assert_eq!(classify("[]"), MessageKind::Invalid);
    }
}
