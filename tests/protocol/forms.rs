//! Forms: every field in every revision that has forms, and what may be filled in.

use crate::judged::hold;
use corelane::protocol::message::{
    self, Elicitation, Field, Form, InputRequest, InputResponse, TextFormat,
};
use corelane::protocol::revision::Revision;
use corelane::protocol::rpc::Id;
use serde_json::{Value, json};

fn every_field() -> Form {
    let values = [("v1", "One"), ("v2", "Two"), ("v3", "Three")];
    Form::new()
        .field(Field::text("mail").title("Mail").describe("Where?").bounds(3, 80).required())
        .field(Field::text("mail").format(TextFormat::Email).bounds(3, None).default("a@b.c"))
        .field(Field::integer("age").bounds(0, 150).default(30).required())
        .field(Field::number("score").between(-1.5, 99.5).default(95.5))
        .field(Field::boolean("verified").default(true))
        .field(Field::one("status", ["active", "inactive"]).default("active"))
        .field(Field::one_titled("titled", values).default("v2"))
        .field(Field::one_named("named", values))
        .field(Field::several("some", ["a", "b"]).bounds(1, 2).default(json!(["a"])))
        .field(Field::several_titled("titled_some", values).describe("Which?"))
        .field(Field::integer("odd").default("not a number"))
}

fn asked(form: Form, revision: Revision) -> Value {
    let question = InputRequest::Elicit(Elicitation::form("m", form));
    let said = if revision.is_modern() {
        let suffix = message::result_suffix(revision, &crate::judged::info());
        crate::judged::hold_result(revision, "tools/call", |out| {
            message::input_required_body(out, [("k", &question)], None, &suffix);
        })["result"]["inputRequests"]["k"]
            .clone()
    } else {
        hold(revision, None, |out| message::request(out, Id::Signed(1), &question, revision, None))
    };
    said["params"]["requestedSchema"].clone()
}

#[test]
fn every_field_is_asked_for_in_every_revision_that_has_forms() {
    for revision in Revision::ALL.into_iter().filter(|revision| revision.dialect().elicitation) {
        let schema = asked(every_field(), revision);
        let properties = &schema["properties"];
        assert_eq!(properties.as_object().unwrap().len(), 10);
        assert_eq!(schema["required"], json!(["age"]));
        assert_eq!(properties["verified"]["default"], true);
        assert!(properties["odd"].get("default").is_none());
        let one = json!({"const": "v1", "title": "One"});
        if revision.dialect().elicitation_choices {
            assert_eq!(properties["age"]["default"], 30);
            assert_eq!(properties["titled"]["oneOf"][0], one);
            assert_eq!(properties["some"]["items"], json!({"type": "string", "enum": ["a", "b"]}));
            assert_eq!(properties["some"]["maxItems"], 2);
            assert_eq!(properties["titled_some"]["items"]["anyOf"][0], one);
        } else {
            assert!(properties["age"].get("default").is_none());
            assert_eq!(properties["titled"]["enumNames"], json!(["One", "Two", "Three"]));
            let described = "Which? Any of these, separated by commas: v1, v2, v3";
            assert_eq!(properties["titled_some"]["description"], described);
            assert_eq!(properties["some"]["type"], "string");
        }
        assert_eq!(properties["named"]["enumNames"][0], "One");
        assert_eq!(properties["mail"]["format"], "email");
        assert_eq!(properties["mail"]["minLength"], 3);
        assert_eq!(properties["score"]["minimum"], -1.5);
    }
}

#[test]
fn a_form_is_the_same_when_it_is_read_from_its_schema() {
    let schema = asked(every_field(), Revision::LATEST);
    let again = Form::from_schema(&schema).unwrap();
    for revision in [Revision::V2025_06_18, Revision::V2025_11_25, Revision::LATEST] {
        assert_eq!(asked(again.clone(), revision), asked(every_field(), revision));
    }
}

#[test]
fn a_schema_that_is_no_flat_form_is_refused() {
    for schema in [
        json!(true),
        json!({"type": "object"}),
        json!({"type": "array", "properties": {}}),
        json!({"type": "object", "properties": {"a": {"type": "object"}}}),
        json!({"type": "object", "properties": {"a": {}}}),
        json!({"type": "object", "properties": {"a": {"type": "string", "enum": [1]}}}),
        json!({"type": "object", "properties": {"a": {"type": "array"}}}),
        json!({"type": "object", "properties": {"a": {"type": "array", "items": {}}}}),
        json!({"type": "object", "properties": {"a": {"type": "string", "oneOf": [{}]}}}),
    ] {
        assert_eq!(Form::from_schema(&schema).unwrap_err().code, -32603, "{schema}");
    }
}

/// What is read of `value` in the field `name`.
fn filled(name: &str, value: &Value) -> Option<Value> {
    let question = InputRequest::Elicit(Elicitation::form("m", every_field()));
    let answer = json!({"action": "accept", "content": {"age": 1, name: value}});
    match question.read_response(&answer) {
        Ok(InputResponse::Elicited(elicited)) => Some(elicited.content[name].clone()),
        Ok(other) => panic!("{other:?}"),
        Err(error) => {
            assert_eq!(error.code, -32602);
            assert!(error.message.contains(name), "{error}");
            None
        }
    }
}

#[test]
fn what_is_filled_in_fits_its_field_or_is_refused() {
    for (name, value) in [
        ("mail", json!("é@b")),
        ("age", json!(150)),
        ("age", json!(42.0)),
        ("score", json!(-1.5)),
        ("verified", json!(false)),
        ("status", json!("inactive")),
        ("titled", json!("v3")),
        ("some", json!(["b", "a"])),
        ("titled_some", json!([])),
    ] {
        assert_eq!(filled(name, &value), Some(value.clone()), "{name}");
    }
    for (name, value) in [
        ("mail", json!("é@")),
        ("mail", json!(["a@b.c"])),
        ("age", json!(151)),
        ("age", json!(1.5)),
        ("age", json!("1")),
        ("score", json!(99.6)),
        ("score", json!(true)),
        ("verified", json!("true")),
        ("status", json!("Active")),
        ("titled", json!("Three")),
        ("named", json!(1)),
        ("some", json!(["c"])),
        ("some", json!([])),
        ("some", json!(["a", "b", "a"])),
        ("some", json!({"a": true})),
    ] {
        assert_eq!(filled(name, &value), None, "{name}: {value}");
    }
}

#[test]
fn options_between_commas_are_read_as_a_list() {
    assert_eq!(filled("some", &json!("b, a")), Some(json!(["b", "a"])));
    assert_eq!(filled("titled_some", &json!("")), Some(json!([])));
    assert_eq!(filled("some", &json!("a; b")), None);
}
