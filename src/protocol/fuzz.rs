//! The body of a fuzz target: any bytes, and what must hold for them.
//!
//! It panics when the protocol breaks a promise, which no input may bring about. A fuzzer calls it
//! with bytes of its own; the tests call it with seeded mutations. `serde_json` is the judge of
//! what is JSON: it accepts and refuses the same texts as [`super::json`] promises to, up to depth
//! and number of tokens. It is not part of the road.

use crate::protocol::era::{Initialize, Lifecycle, Meta, Method};
use crate::protocol::error::Error;
use crate::protocol::json::{PADDING_BYTES, ParseError, Parser, Value};
use crate::protocol::message::{self, Elicitation, Field, Form, InputRequest, Sampling};
use crate::protocol::params::{
    Cancelled, Complete, GetPrompt, List, Listen, Progress, ReadResource, Retry, SetLevel, Task,
    TaskMetadata, TaskUpdate,
};
use crate::protocol::revision::Revision;
use crate::protocol::rpc::{Envelope, Id, Refused};

/// Takes `bytes` through the whole room, as if a peer had sent them, and says whether they were
/// JSON.
///
/// # Panics
///
/// When something that is promised does not hold.
pub fn envelope(parser: &mut Parser, bytes: &[u8]) -> bool {
    let mut text = padded(bytes);
    let judged = serde_json::from_slice::<serde_json::Value>(bytes);
    let encoded = match parser.parse(&mut text, bytes.len()) {
        Err(ParseError::Depth | ParseError::Tokens) => return false,
        Err(ParseError::Syntax | ParseError::Unread | ParseError::Utf8) => {
            assert!(judged.is_err(), "a valid text was refused");
            return false;
        }
        Ok(document) => {
            let root = document.root();
            let theirs = judged.expect("what is accepted is valid");
            assert!(agree(&root.to_json(), &theirs), "a text was misread");
            let mut encoded = Vec::new();
            root.write(&mut encoded);
            read(root);
            encoded
        }
    };
    assert_eq!(reencoded(parser, &encoded), encoded, "an encoded value reads as itself");
    true
}

/// Reads `root` as everything that a message can be.
fn read(root: Value<'_>) {
    let mut out = Vec::new();
    match Envelope::read(root) {
        Ok(Envelope::Request { id, method, params }) => {
            read_id(id);
            read_params(method, params);
            read_features(id, params);
            message::result(&mut out, id, b"{}");
        }
        Ok(Envelope::Notification { method, params }) => {
            read_params(method, params);
            if let Some(cancelled) = Cancelled::read(params) {
                read_id(cancelled.request);
            }
            if let Some(progress) = Progress::read(params) {
                read_id(progress.token);
            }
            return;
        }
        Ok(Envelope::Response { outcome, .. }) => {
            if let Ok(result) = outcome {
                read_answer(&result.to_json());
            }
            return;
        }
        Err(Refused { id, error }) => {
            message::error(&mut out, id, &error, Some(Revision::LATEST_LEGACY));
        }
    }
    assert!(!out.contains(&b'\n'), "a message is one line");
    let answer = serde_json::from_slice::<serde_json::Value>(&out);
    assert!(answer.is_ok_and(|answer| answer.is_object()), "an answer is valid JSON");
}

fn read_params(method: &str, params: Option<Value<'_>>) {
    if let Ok(meta) = Meta::read(params) {
        let modern = meta.modern();
        assert!(meta.is_modern() || modern.is_err(), "only what claims to be modern is");
    }
    let mut lifecycle = Lifecycle::new();
    if let Ok(asked) = Initialize::read(params) {
        let agreed = lifecycle.initialize(&asked);
        assert!(agreed.is_ok_and(|revision| !revision.is_modern()));
        assert!(lifecycle.confirm());
    }
    if let Some(method) = Method::parse(method) {
        let admitted = lifecycle.admit(method);
        assert!(admitted.is_ok() || method != Method::Ping, "ping is answered in every state");
    }
    if let Ok(list) = List::read(params) {
        assert!(list.cursor.is_none() || params.is_some());
    }
}

/// Reads params as those of every feature: what is refused is refused as invalid params.
fn read_features(id: Id<'_>, params: Option<Value<'_>>) {
    let refused: [Option<Error>; 8] = [
        ReadResource::read(params).err(),
        GetPrompt::read(params).err(),
        Complete::read(params).err(),
        SetLevel::read(params).err(),
        Task::read(params).err(),
        TaskUpdate::read(params).err(),
        Retry::read(params).err(),
        TaskMetadata::wanted(params).err(),
    ];
    assert!(refused.iter().flatten().all(|error| error.code == -32602), "the params are wrong");
    if let Ok(update) = TaskUpdate::read(params) {
        for (_, answer) in update.input_responses.as_object().into_iter().flatten() {
            read_answer(&answer.to_json());
        }
    }
    if let Ok(listen) = Listen::read(id, params) {
        let mut out = Vec::new();
        message::acknowledged(&mut out, listen.id, &listen.filter);
        let said = serde_json::from_slice::<serde_json::Value>(&out);
        assert!(said.is_ok_and(|said| said.is_object()), "an acknowledgement is valid JSON");
    }
}

/// Reads an answer as that to every question: what is refused is refused as invalid params.
fn read_answer(answer: &serde_json::Value) {
    let form = Form::new()
        .field(Field::text("name").bounds(1, 9))
        .field(Field::integer("age").between(-1.0, 150.0).required())
        .field(Field::several("some", ["a", "b"]));
    for question in [
        InputRequest::Elicit(Elicitation::form("", form)),
        InputRequest::Elicit(Elicitation::url("", "https://example.com/")),
        InputRequest::Sample(Box::new(Sampling::new(1))),
        InputRequest::Roots,
    ] {
        let refused = question.read_response(answer).err();
        assert!(refused.is_none_or(|error| error.code == -32602), "the answer is wrong");
    }
}

/// An id that was read is written as itself.
fn read_id(id: Id<'_>) {
    let mut written = Vec::new();
    id.write(&mut written);
    let again: serde_json::Value = serde_json::from_slice(&written).expect("an id is valid JSON");
    let same = match id {
        Id::Signed(number) => again.as_i64() == Some(number),
        Id::Unsigned(number) => again.as_u64() == Some(number),
        Id::Text(text) => again.as_str() == Some(text),
    };
    assert!(same, "an id is echoed as it was sent");
}

/// `encoded`, parsed and encoded once more.
fn reencoded(parser: &mut Parser, encoded: &[u8]) -> Vec<u8> {
    let mut text = padded(encoded);
    let document = parser.parse(&mut text, encoded.len()).expect("what is encoded is valid");
    let mut again = Vec::new();
    document.root().write(&mut again);
    again
}

/// Whether both read the same; their doubles may differ in the last place, where `serde_json` is
/// fast rather than exact.
fn agree(ours: &serde_json::Value, theirs: &serde_json::Value) -> bool {
    use serde_json::Value::{Array, Number, Object};
    match (ours, theirs) {
        (Number(one), Number(other)) => match (one.as_f64(), other.as_f64()) {
            (Some(one), Some(other)) => {
                (one - other).abs() <= f64::EPSILON * other.abs() * 4.0 + f64::MIN_POSITIVE
            }
            _ => one == other,
        },
        (Array(one), Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| agree(one, other))
        }
        (Object(one), Object(other)) => {
            let members = one.iter().zip(other);
            one.len() == other.len()
                && members.into_iter().all(|(one, other)| one.0 == other.0 && agree(one.1, other.1))
        }
        (one, other) => one == other,
    }
}

/// `bytes` and the padding behind them, of the kind that would show if it were read.
fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes.len() + PADDING_BYTES);
    text.extend_from_slice(bytes);
    text.resize(bytes.len() + PADDING_BYTES, b'"');
    text
}
