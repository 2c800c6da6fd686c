//! Envelopes: the order of members means nothing, a second one of a kind is refused.

use crate::stage::with_value;
use corelane::protocol::rpc::Envelope;
use proptest::prelude::*;

/// Says in one line what `members` are when they are put into one object.
fn described(members: &[(&str, &str)]) -> String {
    let members: Vec<String> =
        members.iter().map(|(key, text)| format!("\"{key}\":{text}")).collect();
    with_value(format!("{{{}}}", members.join(",")), |value| match Envelope::read(value) {
        Ok(message) => format!("{message:?}"),
        Err(refused) => format!("{} {:?}", refused.error.code, refused.id),
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
    fn members_may_come_in_any_order(members in Just(REQUEST.to_vec()).prop_shuffle()) {
        prop_assert_eq!(described(&members), described(&REQUEST));
        prop_assert!(described(&members).starts_with("Request"));
    }

    #[test]
    fn a_second_member_of_a_kind_is_refused_wherever_it_stands(
        members in Just(REQUEST.to_vec()).prop_shuffle(),
        twice in 0..4_usize,
        place in 0..=REQUEST.len(),
    ) {
        let mut members = members;
        members.insert(place, REQUEST[twice]);
        let id = if REQUEST[twice].0 == "id" { "None" } else { "Some(Text(\"r\"))" };
        prop_assert_eq!(described(&members), format!("-32600 {id}"));
    }

    #[test]
    fn any_value_is_a_message_or_refused_with_one_code(
        version in value(), id in value(), method in value(), params in value(), result in value(),
    ) {
        let members = [
            ("jsonrpc", version), ("id", id), ("method", method), ("params", params),
            ("result", result),
        ];
        let present: Vec<_> =
            members.iter().filter_map(|(key, text)| Some((*key, text.as_deref()?))).collect();
        let described = described(&present);
        prop_assert!(
            ["Request", "Notification", "Response", "-32600 "]
                .iter()
                .any(|start| described.starts_with(start)),
            "{}", described
        );
    }
}

/// A value of each kind, or none.
fn value() -> impl Strategy<Value = Option<String>> {
    let texts =
        ["\"2.0\"", "\"ping\"", "1", "-2.5", "null", "true", "[]", "{}", "18446744073709551616"];
    prop_oneof![
        Just(None),
        Just(Some("\"2.0\"".to_owned())),
        prop::sample::select(texts.to_vec()).prop_map(|text| Some(text.to_owned())),
    ]
}
