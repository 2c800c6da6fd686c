//! What a message of a server is worth.
//!
//! What it keeps true: whatever a server says, it gets a judgement; nothing counts as an answer
//! that has no id of ours, and nothing as a good one that says of itself that it is not.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::measure::outcome::Failure;

/// What a message is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Judgement<'a> {
    /// The answer to the request of this id: good, or failed in this way.
    Answer {
        /// The id.
        id: u64,
        /// How it failed.
        failure: Option<Failure>,
    },
    /// An answer that has no id of ours: an error that the server could not assign, or a stranger.
    Nameless,
    /// A request of the server, which waits for its answer.
    Question {
        /// Its id, as it was written.
        id: &'a str,
        /// Whether it only asks whether we live.
        is_ping: bool,
    },
    /// Something that wants no answer.
    Notice,
    /// No message.
    Garbage,
}

/// The members of a message that are looked at.
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

/// The members of a result that are looked at.
#[derive(Deserialize)]
struct ResultView<'a> {
    #[serde(default, rename = "isError")]
    is_error: bool,
    #[serde(borrow, default)]
    content: Vec<Content<'a>>,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow, default)]
    text: Option<std::borrow::Cow<'a, str>>,
}

/// Judges a message; `expected_text` tells what the request of an id wants to hear.
pub fn judge<'a, 'b>(
    text: &'a [u8],
    expected_text: impl FnOnce(u64) -> Option<&'b str>,
) -> Judgement<'a> {
    let Ok(envelope) = serde_json::from_slice::<Envelope<'_>>(text) else {
        return Judgement::Garbage;
    };
    if let Some(method) = envelope.method {
        return envelope.id.map_or(Judgement::Notice, |id| Judgement::Question {
            id: id.get(),
            is_ping: method.get() == "\"ping\"",
        });
    }
    if envelope.result.is_none() && envelope.error.is_none() {
        return Judgement::Garbage;
    }
    let Some(id) = envelope.id.and_then(|id| id.get().parse().ok()) else {
        return Judgement::Nameless;
    };
    let failure = match envelope.result {
        _ if envelope.error.is_some() => Some(Failure::Rpc),
        Some(result) => judge_result(result.get(), expected_text(id)),
        None => Some(Failure::Garbage),
    };
    Judgement::Answer { id, failure }
}

fn judge_result(result: &str, expected_text: Option<&str>) -> Option<Failure> {
    let Ok(view) = serde_json::from_str::<ResultView<'_>>(result) else {
        // Content of another shape: what is no object is no result at all, and what should say a
        // text and does not is wrong.
        let is_wrong = expected_text.is_some() || !result.starts_with('{');
        return is_wrong.then_some(Failure::Wrong);
    };
    if view.is_error {
        return Some(Failure::Tool);
    }
    let said = view.content.first().and_then(|content| content.text.as_deref());
    let is_right = expected_text.is_none_or(|expected| said == Some(expected));
    (!is_right).then_some(Failure::Wrong)
}

/// The answer to a question of the server: empty to a ping, and otherwise that we cannot.
pub fn answer(id: &str, is_ping: bool) -> String {
    if is_ping {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)
    } else {
        let error = r#"{"code":-32601,"message":"a load generator does not do that"}"#;
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(text: &str) -> Judgement<'_> {
        judge(text.as_bytes(), |_| Some("hello"))
    }

    fn failure(text: &str) -> Option<Failure> {
        match judged(text) {
            Judgement::Answer { id: 7, failure } => failure,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_right_answer_says_what_was_asked_for() {
        let right =
            r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"hello"}]}}"#;
        assert_eq!(failure(right), None);
        assert_eq!(failure(&right.replace("hello", "h\\u0065llo")), None);
        assert_eq!(failure(&right.replace("hello", "hullo")), Some(Failure::Wrong));
        assert_eq!(failure(r#"{"jsonrpc":"2.0","id":7,"result":{}}"#), Some(Failure::Wrong));
        assert_eq!(failure(r#"{"jsonrpc":"2.0","id":7,"result":[]}"#), Some(Failure::Wrong));
    }

    #[test]
    fn what_says_that_it_failed_has_failed() {
        let tool =
            r#"{"id":7,"result":{"isError":true,"content":[{"type":"text","text":"hello"}]}}"#;
        assert_eq!(failure(tool), Some(Failure::Tool));
        let error = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"no"}}"#;
        assert_eq!(failure(error), Some(Failure::Rpc));
        let both = r#"{"id":7,"result":{"content":[{"text":"hello"}]},"error":{"code":1}}"#;
        assert_eq!(failure(both), Some(Failure::Rpc));
    }

    #[test]
    fn without_an_expectation_every_result_is_right() {
        let text = br#"{"id":9,"result":{"tools":[],"content":"other"}}"#;
        let judgement = judge(text, |_| None);
        assert_eq!(judgement, Judgement::Answer { id: 9, failure: None });
    }

    #[test]
    fn what_a_server_says_by_itself_is_told_from_answers() {
        let ping = r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#;
        assert_eq!(judged(ping), Judgement::Question { id: "\"p\"", is_ping: true });
        assert_eq!(judged(r#"{"method":"notifications/message"}"#), Judgement::Notice);
        assert_eq!(judged(r#"{"id":null,"error":{}}"#), Judgement::Nameless);
        assert_eq!(judged(r#"{"id":"x","result":{}}"#), Judgement::Nameless);
        assert_eq!(judged(r#"{"id":7}"#), Judgement::Garbage);
        assert_eq!(judged("<html>"), Judgement::Garbage);
        assert_eq!(judged("[]"), Judgement::Garbage);
    }

    #[test]
    fn a_question_gets_its_answer() {
        assert_eq!(answer("\"p\"", true), r#"{"jsonrpc":"2.0","id":"p","result":{}}"#);
        assert!(answer("3", false).contains("-32601"));
    }
}
