//! Ids: a response carries the id of its request with the same type and value.

use crate::parsing::with_value;
use corelane_protocol::error::Error;
use corelane_protocol::jsonrpc::{Id, IdBuf, Message};
use corelane_protocol::model;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Reads a request with `id`, encodes a result or an error, and returns the id of that response.
fn echo_id(id: &Value, is_error: bool) -> Value {
    let request = json!({"jsonrpc": "2.0", "id": id, "method": "ping"}).to_string();
    let response = with_value(request, |value| {
        let Ok(Message::Request { id, .. }) = Message::read(value) else {
            panic!("not a request");
        };
        let owned = IdBuf::from(id);
        let mut out = Vec::new();
        if is_error {
            model::write_error_response(
                &mut out,
                Some(owned.as_id()),
                &Error::internal("no"),
                None,
            );
        } else {
            model::write_response(&mut out, owned.as_id(), b"{}");
        }
        out
    });
    let response: Value =
        serde_json::from_slice(&response.expect("JSON")).expect("a response is JSON");
    response["id"].clone()
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
    fn id_is_echoed_exactly(id in ids(), is_error in any::<bool>()) {
        prop_assert_eq!(echo_id(&id, is_error), id);
    }

    #[test]
    fn invalid_id_is_never_echoed(number in any::<f64>(), boolean in any::<bool>()) {
        // Up to 2^53 a whole number with a point is an integer.
        let whole = number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0;
        prop_assume!(number.is_finite() && !whole);
        for id in [json!(number), json!(boolean), json!([1]), json!({"a": 1})] {
            let request = json!({"jsonrpc": "2.0", "id": id, "method": "ping"}).to_string();
            let invalid = with_value(request, |value| match Message::read(value) {
                Err(invalid) => (invalid.id.is_none(), invalid.error.code),
                Ok(_) => (false, 0),
            });
            prop_assert_eq!(invalid, Ok((true, -32600)), "{}", id);
        }
    }
}

#[test]
fn numeric_id_and_string_id_differ() {
    let request = r#"{"jsonrpc":"2.0","id":"1","method":"ping"}"#;
    let text = with_value(request, |value| match Message::read(value) {
        Ok(Message::Request { id, .. }) => (id == Id::Text("1"), id == Id::Signed(1)),
        _ => (false, false),
    });
    assert_eq!(text, Ok((true, false)));
}
