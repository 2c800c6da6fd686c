//! Body of the protocol's fuzz target: properties that must hold for any input bytes.
//!
//! It panics when a property is violated. The fuzzer passes its own bytes, the tests seeded
//! mutations. `serde_json` is the reference for what is JSON: it must accept and reject the same
//! texts as [`corelane_protocol::json`], up to nesting and token limits.

use corelane_protocol::eras::{InitializeRequestParams, Lifecycle, Method, RequestMetaObject};
use corelane_protocol::error::Error;
use corelane_protocol::json::{
    PADDING_BYTES, PaddedBuffer, PaddedText, ParseError, Parser, Value, whole_number,
};
use corelane_protocol::jsonrpc::{ID_BYTES_MAX, Id, InvalidMessage, Message};
use corelane_protocol::message_head::MessageHead;
use corelane_protocol::model::{
    self, CreateMessageRequest, ElicitRequest, Field, Form, InputRequest,
};
use corelane_protocol::params::{
    CancelledNotificationParams, CompleteRequestParams, GetPromptRequestParams,
    InputResponseRequestParams, PaginatedRequestParams, ProgressNotificationParams,
    ReadResourceRequestParams, SetLevelRequestParams, SubscriptionsListenRequestParams,
    TaskIdParams, TaskMetadata, UpdateTaskRequestParams,
};
use corelane_protocol::revision::Revision;

/// Parses `bytes` as a message from a peer, checks every reader and encoder, and returns whether
/// the bytes were accepted as JSON.
///
/// # Panics
///
/// Panics if a property does not hold.
pub(crate) fn check_message(parser: &mut Parser, bytes: &[u8]) -> bool {
    check_apart(parser, bytes);
    let mut text = padded(bytes);
    let reference = serde_json::from_slice::<serde_json::Value>(bytes);
    let is_rejected = reference.is_err();
    let parsed = match parser.parse(PaddedText::new(&mut text, bytes.len())) {
        Err(error) => Err(error),
        Ok(document) => {
            let root = document.root();
            check_head(bytes, root);
            let theirs = reference.expect("accepted text is valid JSON");
            assert!(is_equal(&root.to_json(), &theirs), "value differs from serde_json");
            let mut encoded = Vec::new();
            root.write(&mut encoded);
            read_message(root);
            Ok(encoded)
        }
    };
    let encoded = match parsed {
        Ok(encoded) => encoded,
        Err(error) => {
            let is_limit = matches!(error, ParseError::Depth | ParseError::Tokens);
            assert!(is_limit || is_rejected, "valid JSON was rejected");
            check_repair(parser, text, bytes, error);
            return false;
        }
    };
    assert_eq!(reencode(parser, &encoded), encoded, "re-encoding changed the text");
    true
}

/// Checks that a text that is parsed apart has the values that it has otherwise.
fn check_apart(parser: &mut Parser, bytes: &[u8]) {
    let read = |parser: &mut Parser, buffer: &mut PaddedBuffer| {
        parser.read(&mut buffer.text(), |document| {
            let mut encoded = Vec::new();
            document.root().write(&mut encoded);
            encoded
        })
    };
    let expected = read(parser, &mut PaddedBuffer::copy_of(bytes));
    let mut apart = PaddedBuffer::copy_of(bytes);
    let parsed = parser.parse_apart(&mut apart);
    assert_eq!(parsed.is_ok(), apart.is_parsed(), "only a text that is accepted is parsed");
    assert_eq!(parsed.and_then(|()| read(parser, &mut apart)), expected, "parsed apart");
}

/// Repairs a text that was rejected because of `error`, and reads the head of what remains.
fn check_repair(parser: &mut Parser, mut text: Vec<u8>, bytes: &[u8], error: ParseError) {
    let length = bytes.len();
    let original = MessageHead::read(bytes);
    assert_eq!(MessageHead::read(&original.to_text()), original, "a head has changed");
    let is_repaired = parser.repair(&mut PaddedText::new(&mut text, length), error);
    let head = MessageHead::read(&text[..length]);
    if is_repaired {
        let parsed = parser.parse(PaddedText::new(&mut text, length)).map(drop);
        if let Err(error) = parsed {
            let again = parser.repair(&mut PaddedText::new(&mut text, length), error);
            assert!(!again, "a text was repaired twice");
        }
    } else {
        assert_eq!(head, original, "a rejected text has changed");
        let is_limit = matches!(error, ParseError::Depth | ParseError::Tokens);
        let is_json = serde_json::from_slice::<serde_json::Value>(&text[..length]).is_ok();
        assert!(is_limit || !is_json, "a rejected text became valid");
    }
}

/// Checks that the head of a valid text has the id of the message.
fn check_head(bytes: &[u8], root: Value<'_>) {
    let ids = root.as_object().into_iter().flatten().filter(|(key, _)| *key == "id");
    let ids: Vec<Value<'_>> = ids.map(|(_, id)| id).collect();
    let id = if let [id] = ids[..] { Id::from_value(id) } else { None };
    let is_short = bytes.len() < ID_BYTES_MAX;
    let head = MessageHead::read(bytes);
    assert!(!is_short || head.id() == id, "the head has another id: {:?}, {id:?}", head.id());
}

/// Reads `root` as a message and, where it is one, its params or result.
fn read_message(root: Value<'_>) {
    let mut out = Vec::new();
    match Message::read(root) {
        Ok(Message::Request { id, method, params }) => {
            check_id(id);
            check_params(method, params);
            check_method_params(id, params);
            model::write_response(&mut out, id, b"{}");
        }
        Ok(Message::Notification { method, params }) => {
            check_params(method, params);
            if let Some(cancelled) = CancelledNotificationParams::read(params) {
                check_id(cancelled.request_id);
            }
            if let Some(progress) = ProgressNotificationParams::read(params) {
                check_id(progress.progress_token);
            }
            return;
        }
        Ok(Message::Response { outcome, .. }) => {
            if let Ok(result) = outcome {
                check_input_response(&result.to_json());
            }
            return;
        }
        Err(InvalidMessage { id, error, .. }) => {
            model::write_error_response(&mut out, id, &error, Some(Revision::LATEST_LEGACY));
        }
    }
    assert!(!out.contains(&b'\n'), "a message contains a newline");
    let response = serde_json::from_slice::<serde_json::Value>(&out);
    assert!(response.is_ok_and(|response| response.is_object()), "a response is not valid JSON");
}

fn check_params(method: &str, params: Option<Value<'_>>) {
    if let Ok(meta) = RequestMetaObject::read(params) {
        let modern = meta.parse_modern();
        assert!(meta.is_modern() || modern.is_err(), "request without a version read as modern");
    }
    let mut lifecycle = Lifecycle::default();
    if let Ok(params) = InitializeRequestParams::read(params) {
        let negotiated = lifecycle.initialize(&params, None);
        assert!(negotiated.is_ok_and(|revision| !revision.is_modern()));
        assert!(lifecycle.complete_handshake());
    }
    if let Some(method) = Method::parse(method) {
        let admitted = lifecycle.check_method(method);
        assert!(admitted.is_ok() || method != Method::Ping, "ping was rejected");
    }
    if let Ok(list) = PaginatedRequestParams::read(params) {
        assert!(list.cursor.is_none() || params.is_some());
    }
}

/// Reads the params of every method: each error must be invalid params (-32602).
fn check_method_params(id: Id<'_>, params: Option<Value<'_>>) {
    let errors: [Option<Error>; 8] = [
        ReadResourceRequestParams::read(params).err(),
        GetPromptRequestParams::read(params).err(),
        CompleteRequestParams::read(params).err(),
        SetLevelRequestParams::read(params).err(),
        TaskIdParams::read(params).err(),
        UpdateTaskRequestParams::read(params).err(),
        InputResponseRequestParams::read(params).err(),
        TaskMetadata::from_params(params).err(),
    ];
    assert!(errors.iter().flatten().all(|error| error.code == -32602), "code is not -32602");
    if let Ok(update) = UpdateTaskRequestParams::read(params) {
        for (_, response) in update.input_responses.as_object().into_iter().flatten() {
            check_input_response(&response.to_json());
        }
    }
    if let Ok(listen) = SubscriptionsListenRequestParams::read(id, params) {
        let mut out = Vec::new();
        model::write_subscriptions_acknowledged(&mut out, listen.id, &listen.filter);
        let sent = serde_json::from_slice::<serde_json::Value>(&out);
        assert!(sent.is_ok_and(|sent| sent.is_object()), "an acknowledgement is not valid JSON");
    }
}

/// Reads `response` as the response to every input request: each error must be invalid params.
fn check_input_response(response: &serde_json::Value) {
    let form = Form::new()
        .field(Field::text("name").bounds(1, 9))
        .field(Field::integer("age").number_bounds(-1.0, 150.0).required())
        .field(Field::multi_select("some", ["a", "b"]));
    for request in [
        InputRequest::Elicit(ElicitRequest::form("", form)),
        InputRequest::Elicit(ElicitRequest::url("", "https://example.com/")),
        InputRequest::CreateMessage(Box::new(CreateMessageRequest::new(1))),
        InputRequest::ListRoots,
    ] {
        let error = request.read_response(response).err();
        assert!(error.is_none_or(|error| error.code == -32602), "code is not -32602");
    }
}

/// Checks that an id is written as it was read.
fn check_id(id: Id<'_>) {
    let mut written = Vec::new();
    id.write(&mut written);
    let again: serde_json::Value = serde_json::from_slice(&written).expect("an id is valid JSON");
    let same = match id {
        Id::Signed(number) => again.as_i64() == Some(number),
        Id::Unsigned(number) => again.as_u64() == Some(number),
        Id::Text(text) => again.as_str() == Some(text),
        Id::Whole(number) => again.as_f64().and_then(whole_number) == Some(number),
    };
    assert!(same, "the id changed when it was written");
}

/// Parses `encoded` and encodes it again.
fn reencode(parser: &mut Parser, encoded: &[u8]) -> Vec<u8> {
    let mut text = padded(encoded);
    let document = parser
        .parse(PaddedText::new(&mut text, encoded.len()))
        .expect("encoded text is valid JSON");
    let mut again = Vec::new();
    document.root().write(&mut again);
    again
}

/// Returns whether both values are equal; doubles may differ in the last place, where `serde_json`
/// is inexact.
fn is_equal(ours: &serde_json::Value, theirs: &serde_json::Value) -> bool {
    use serde_json::Value::{Array, Number, Object};
    match (ours, theirs) {
        (Number(one), Number(other)) => match (one.as_f64(), other.as_f64()) {
            (Some(one), Some(other)) => {
                (one - other).abs() <= f64::EPSILON * other.abs() * 4.0 + f64::MIN_POSITIVE
            }
            _ => one == other,
        },
        (Array(one), Array(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|(one, other)| is_equal(one, other))
        }
        (Object(one), Object(other)) => {
            let members = one.iter().zip(other);
            one.len() == other.len()
                && members
                    .into_iter()
                    .all(|(one, other)| one.0 == other.0 && is_equal(one.1, other.1))
        }
        (one, other) => one == other,
    }
}

/// Returns `bytes` followed by padding that would change the result if it were read.
fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes.len() + PADDING_BYTES);
    text.extend_from_slice(bytes);
    text.resize(bytes.len() + PADDING_BYTES, b'"');
    text
}
