//! Elicitation forms: fields in every revision, and validation of submitted content.

use crate::schema_checks::check_encoded;
use corelane_protocol::jsonrpc::Id;
use corelane_protocol::model::{
    self, ElicitRequest, Field, Form, InputRequest, InputResponse, TextFormat,
};
use corelane_protocol::revision::Revision;
use serde_json::{Value, json};

fn form_with_every_field() -> Form {
    let values = [("v1", "One"), ("v2", "Two"), ("v3", "Three")];
    Form::new()
        .field(Field::text("mail").title("Mail").description("Where?").bounds(3, 80).required())
        .field(Field::text("mail").format(TextFormat::Email).bounds(3, None).default("a@b.c"))
        .field(Field::integer("age").bounds(0, 150).default(30).required())
        .field(Field::number("score").number_bounds(-1.5, 99.5).default(95.5))
        .field(Field::boolean("verified").default(true))
        .field(Field::single_select("status", ["active", "inactive"]).default("active"))
        .field(Field::single_select_titled("titled", values).default("v2"))
        .field(Field::single_select_enum_names("named", values))
        .field(Field::multi_select("some", ["a", "b"]).bounds(1, 2).default(json!(["a"])))
        .field(Field::multi_select_titled("titled_some", values).description("Which?"))
        .field(Field::integer("odd").default("not a number"))
}

fn requested_schema(form: Form, revision: Revision) -> Value {
    let request = InputRequest::Elicit(ElicitRequest::form("m", form));
    let message = if revision.is_modern() {
        let suffix = model::result_suffix(revision, &crate::schema_checks::server_info());
        crate::schema_checks::check_response(revision, "tools/call", |out| {
            model::write_input_required_result(out, [("k", &request)], None, &suffix);
        })["result"]["inputRequests"]["k"]
            .clone()
    } else {
        check_encoded(revision, None, |out| {
            model::write_server_request(out, Id::Signed(1), &request, revision, None);
        })
    };
    message["params"]["requestedSchema"].clone()
}

#[test]
fn form_field_schema_fits_every_revision() {
    for revision in Revision::ALL.into_iter().filter(|revision| revision.dialect().elicitation) {
        let schema = requested_schema(form_with_every_field(), revision);
        let properties = &schema["properties"];
        assert_eq!(properties.as_object().unwrap().len(), 10);
        assert_eq!(schema["required"], json!(["age"]));
        assert_eq!(properties["verified"]["default"], true);
        assert!(properties["odd"].get("default").is_none());
        let one = json!({"const": "v1", "title": "One"});
        if revision.dialect().elicitation_enums {
            assert_eq!(properties["age"]["default"], 30);
            assert_eq!(properties["titled"]["oneOf"][0], one);
            assert_eq!(properties["some"]["items"], json!({"type": "string", "enum": ["a", "b"]}));
            assert_eq!(properties["some"]["maxItems"], 2);
            assert_eq!(properties["titled_some"]["items"]["anyOf"][0], one);
        } else {
            assert!(properties["age"].get("default").is_none());
            assert_eq!(properties["titled"]["enumNames"], json!(["One", "Two", "Three"]));
            let description = "Which? Any of these, separated by commas: v1, v2, v3";
            assert_eq!(properties["titled_some"]["description"], description);
            assert_eq!(properties["some"]["type"], "string");
        }
        assert_eq!(properties["named"]["enumNames"][0], "One");
        assert_eq!(properties["mail"]["format"], "email");
        assert_eq!(properties["mail"]["minLength"], 3);
        assert_eq!(properties["score"]["minimum"], -1.5);
    }
}

#[test]
fn form_from_schema_round_trips() {
    let schema = requested_schema(form_with_every_field(), Revision::LATEST);
    let parsed = Form::from_schema(&schema).unwrap();
    for revision in [Revision::V2025_06_18, Revision::V2025_11_25, Revision::LATEST] {
        assert_eq!(
            requested_schema(parsed.clone(), revision),
            requested_schema(form_with_every_field(), revision)
        );
    }
}

#[test]
fn form_from_unsupported_schema_is_rejected() {
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

/// Returns what the field `name` reads from `value`, or `None` if it is rejected.
fn read_field(name: &str, value: &Value) -> Option<Value> {
    let request = InputRequest::Elicit(ElicitRequest::form("m", form_with_every_field()));
    let result = json!({"action": "accept", "content": {"age": 1, name: value}});
    match request.read_response(&result) {
        Ok(InputResponse::Elicit(result)) => Some(result.content[name].clone()),
        Ok(other) => panic!("{other:?}"),
        Err(error) => {
            assert_eq!(error.code, -32602);
            assert!(error.message.contains(name), "{error}");
            None
        }
    }
}

#[test]
fn form_content_is_validated_by_field() {
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
        assert_eq!(read_field(name, &value), Some(value.clone()), "{name}");
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
        assert_eq!(read_field(name, &value), None, "{name}: {value}");
    }
}

#[test]
fn form_comma_separated_options_become_a_list() {
    assert_eq!(read_field("some", &json!("b, a")), Some(json!(["b", "a"])));
    assert_eq!(read_field("titled_some", &json!("")), Some(json!([])));
    assert_eq!(read_field("some", &json!("a; b")), None);
}

/// A scan of the options for each chosen one would take more than ten minutes.
#[test]
fn many_chosen_options_are_validated() {
    let options: Vec<_> = (0..200_000).map(|index| format!("option{index}")).collect();
    let mut chosen: Vec<_> = options.iter().rev().map(|option| json!(option)).collect();
    let form = Form::new().field(Field::multi_select("some", options));
    let request = InputRequest::Elicit(ElicitRequest::form("m", form));
    let read = |chosen: &[Value]| {
        request.read_response(&json!({"action": "accept", "content": {"some": chosen}}))
    };
    let Ok(InputResponse::Elicit(result)) = read(&chosen) else { panic!("not accepted") };
    assert_eq!(result.content["some"].as_array().map(Vec::len), Some(200_000));
    chosen.push(json!("other"));
    assert_eq!(read(&chosen).unwrap_err().code, -32602);
}
