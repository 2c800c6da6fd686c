//! JSON-RPC messages: order of members is irrelevant, duplicates are rejected.

use crate::parsing::with_value;
use corelane_protocol::jsonrpc::Message;
use proptest::prelude::*;

/// Reads an object of `members` as a message and describes it in one line.
fn describe_message(members: &[(&str, &str)]) -> String {
    let members: Vec<String> =
        members.iter().map(|(key, text)| format!("\"{key}\":{text}")).collect();
    with_value(format!("{{{}}}", members.join(",")), |value| match Message::read(value) {
        Ok(message) => format!("{message:?}"),
        Err(invalid) => format!("{} {:?}", invalid.error.code, invalid.id),
    })
    .expect("the members are JSON")
}

const REQUEST: [(&str, &str); 6] = [
    ("jsonrpc", r#""2.0""#),
    ("id", r#""r""#),
    ("method", r#""tools/call""#),
    ("params", r#"{"name":"x","id":2,"method":"y"}"#),
    ("extension", r#"{"jsonrpc":"1.0"}"#),
    ("Id", "3"),
];

proptest! {
    #[test]
    fn message_member_order_is_irrelevant(members in Just(REQUEST.to_vec()).prop_shuffle()) {
        prop_assert_eq!(describe_message(&members), describe_message(&REQUEST));
        prop_assert!(describe_message(&members).starts_with("Request"));
    }

    #[test]
    fn message_duplicate_member_is_rejected(
        members in Just(REQUEST.to_vec()).prop_shuffle(),
        twice in 0..4_usize,
        place in 0..=REQUEST.len(),
    ) {
        let mut members = members;
        members.insert(place, REQUEST[twice]);
        let id = if REQUEST[twice].0 == "id" { "None" } else { "Some(Text(\"r\"))" };
        prop_assert_eq!(describe_message(&members), format!("-32600 {id}"));
    }

    #[test]
    fn message_of_any_values_is_read_or_rejected(
        version in value(), id in value(), method in value(), params in value(), result in value(),
    ) {
        let members = [
            ("jsonrpc", version), ("id", id), ("method", method), ("params", params),
            ("result", result),
        ];
        let present: Vec<_> =
            members.iter().filter_map(|(key, text)| Some((*key, text.as_deref()?))).collect();
        let described = describe_message(&present);
        prop_assert!(
            ["Request", "Notification", "Response", "-32600 "]
                .iter()
                .any(|start| described.starts_with(start)),
            "{}", described
        );
    }
}

/// A value of each type, or `None`.
fn value() -> impl Strategy<Value = Option<String>> {
    let texts =
        ["\"2.0\"", "\"ping\"", "1", "-2.5", "null", "true", "[]", "{}", "18446744073709551616"];
    prop_oneof![
        Just(None),
        Just(Some("\"2.0\"".to_owned())),
        prop::sample::select(texts.to_vec()).prop_map(|text| Some(text.to_owned())),
    ]
}
