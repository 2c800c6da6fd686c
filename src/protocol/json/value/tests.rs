//! Tests of borrowed JSON values.

use super::*;
use crate::json::{PADDING_BYTES, PaddedText, ParseLimits, Parser};

/// `{"a":[1,{"b":null}],"c":"x","a":true}` as the parser produces it.
const NODES: &[Node<'static>] = &[
    Node::Object { len: 3, count: 10 },
    Node::String("a"),
    Node::Array { len: 2, count: 4 },
    Node::Static(StaticNode::U64(1)),
    Node::Object { len: 1, count: 2 },
    Node::String("b"),
    Node::Static(StaticNode::Null),
    Node::String("c"),
    Node::String("x"),
    Node::String("a"),
    Node::Static(StaticNode::Bool(true)),
];

fn object() -> Object<'static> {
    Value::from_nodes(NODES).and_then(Value::as_object).unwrap()
}

#[test]
fn members_iterate_in_order_over_own_nodes() {
    let members: Vec<_> = object().iter().map(|(key, value)| (key, value.kind())).collect();
    assert_eq!(
        members,
        [("a", ValueKind::Array), ("c", ValueKind::String), ("a", ValueKind::Boolean)]
    );
    let items: Vec<_> = object().iter().next().unwrap().1.as_array().unwrap().iter().collect();
    assert_eq!(items.len(), 2);
    assert_eq!(items[0].as_u64(), Some(1));
    assert!(items[1].as_object().unwrap().find("b").unwrap().is_null());
}

#[test]
fn duplicate_key_find_returns_last_unique_fails() {
    assert_eq!(object().find("a").unwrap().as_bool(), Some(true));
    assert!(object().find("b").is_none());
    assert_eq!(object().find_unique(["c", "a"]).unwrap_err(), DuplicateKey { key: "a" });
    let [text, absent] = object().find_unique(["c", "d"]).unwrap();
    assert_eq!(text.and_then(Value::as_str), Some("x"));
    assert!(absent.is_none());
}

/// Parses `text` and returns its duplicate key.
fn duplicate_key_of(text: &str) -> Option<String> {
    let mut parser = Parser::new(ParseLimits::default());
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(text.len() + PADDING_BYTES, 0);
    let document = parser.parse(PaddedText::new(&mut bytes, text.len())).unwrap();
    document.root().duplicate_key().map(str::to_owned)
}

#[test]
fn duplicate_key_is_found_at_any_depth() {
    for (text, key) in [
        (r#"{"a":1,"b":2}"#, None),
        (r#"{"a":1,"b":2,"a":3}"#, Some("a")),
        (r#"{"a":1,"b":{"a":2},"c":[{"a":3},{"a":4}]}"#, None),
        (r#"{"a":1,"b":[[{"c":{"d":1,"d":2}}]]}"#, Some("d")),
        (r#"{"a":{"b":1,"c":2},"d":[],"a":"e"}"#, Some("a")),
        (r#"{"a":"a","b":"a"}"#, None),
        (r#"[{"":1,"":2}]"#, Some("")),
        (r#"["a","a"]"#, None),
        (r#""a""#, None),
        ("{}", None),
    ] {
        assert_eq!(duplicate_key_of(text).as_deref(), key, "{text}");
    }
}

#[test]
fn duplicate_key_is_found_among_any_number() {
    for count in 2..40 {
        let keys: Vec<String> = (0..count).map(|key| format!("\"{key}\":0")).collect();
        assert_eq!(duplicate_key_of(&format!("{{{}}}", keys.join(","))), None);
        for twice in 0..count {
            let text = format!("{{{},\"{twice}\":1}}", keys.join(","));
            assert_eq!(duplicate_key_of(&text), Some(twice.to_string()), "{text}");
        }
    }
}

#[test]
fn truncated_nodes_are_not_a_value() {
    assert!(Value::from_nodes(&[]).is_none());
    assert!(Value::from_nodes(&[Node::Array { len: 1, count: 1 }]).is_none());
}

#[test]
fn value_view_is_two_words() {
    assert_eq!(size_of::<Value<'_>>(), 2 * size_of::<usize>());
}
