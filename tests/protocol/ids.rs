//! Ids: an answer carries the id of its request with the same type and value.

use crate::stage::with_value;
use corelane::protocol::error::Error;
use corelane::protocol::message;
use corelane::protocol::rpc::{Envelope, Id, IdBuf};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Reads a request with `id`, answers it with a result or an error, and gives the answer's id.
fn echoed(id: &Value, fail: bool) -> Value {
    let request = json!({"jsonrpc": "2.0", "id": id, "method": "ping"}).to_string();
    let answer = with_value(request, |value| {
        let Ok(Envelope::Request { id, .. }) = Envelope::read(value) else {
            panic!("a request is a request");
        };
        let kept = IdBuf::from(id);
        let mut out = Vec::new();
        if fail {
            message::error(&mut out, Some(kept.as_id()), &Error::internal("no"), None);
        } else {
            message::result(&mut out, kept.as_id(), b"{}");
        }
        out
    });
    let answer: Value = serde_json::from_slice(&answer.expect("JSON")).expect("an answer is JSON");
    answer["id"].clone()
}

fn ids() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[0-9\"\\\\]{0,5}".prop_map(Value::from),
    ]
}

proptest! {
    #[test]
    fn an_id_is_echoed_exactly(id in ids(), fail in any::<bool>()) {
        prop_assert_eq!(echoed(&id, fail), id);
    }

    #[test]
    fn what_is_no_id_is_never_echoed(number in any::<f64>(), truth in any::<bool>()) {
        let whole = number.fract() == 0.0 && number.abs() < 1e15;
        prop_assume!(number.is_finite() && !whole);
        for id in [json!(number), json!(truth), json!([1]), json!({"a": 1})] {
            let request = json!({"jsonrpc": "2.0", "id": id, "method": "ping"}).to_string();
            let refused = with_value(request, |value| match Envelope::read(value) {
                Err(refused) => (refused.id.is_none(), refused.error.code),
                Ok(_) => (false, 0),
            });
            prop_assert_eq!(refused, Ok((true, -32600)), "{}", id);
        }
    }
}

#[test]
fn a_number_and_its_text_are_two_ids() {
    let request = r#"{"jsonrpc":"2.0","id":"1","method":"ping"}"#;
    let text = with_value(request, |value| match Envelope::read(value) {
        Ok(Envelope::Request { id, .. }) => (id == Id::Text("1"), id == Id::Signed(1)),
        _ => (false, false),
    });
    assert_eq!(text, Ok((true, false)));
}
