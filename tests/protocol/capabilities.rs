//! What clients declare, and what a request needed of them.

use crate::stage::with_value;
use corelane::protocol::era::ClientCapabilities as Has;
use corelane::protocol::error::Error;
use serde_json::{Value, json};

fn read(declared: &Value) -> Result<Has, Error> {
    with_value(declared.to_string(), Has::read).expect("JSON")
}

#[test]
fn every_capability_is_read_from_its_place() {
    let tasks = json!({"tasks": {
        "list": {}, "cancel": {},
        "requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}},
    }});
    let all_tasks = Has::TASKS
        .with(Has::TASKS_LIST)
        .with(Has::TASKS_CANCEL)
        .with(Has::TASKS_SAMPLING)
        .with(Has::TASKS_ELICITATION);
    let extension = json!({"extensions": {"io.modelcontextprotocol/tasks": {}, "a/b": {}}});
    for (declared, expected) in [
        (json!({}), Has::NONE),
        (json!({"elicitation": {}}), Has::ELICITATION_FORM),
        (json!({"elicitation": {"url": {}}}), Has::ELICITATION_URL),
        (json!({"roots": {"listChanged": true}}), Has::ROOTS.with(Has::ROOTS_LIST_CHANGED)),
        (json!({"sampling": {"tools": {}}}), Has::SAMPLING.with(Has::SAMPLING_TOOLS)),
        (json!({"tasks": {}}), Has::TASKS),
        (json!({"tasks": {"requests": {"sampling": {}}}}), Has::TASKS),
        (tasks, all_tasks),
        (json!({"extensions": {"a/b": {}}}), Has::EXTENSIONS),
        (extension, Has::EXTENSIONS.with(Has::EXTENSION_TASKS)),
        (json!({"extensions": {"io.modelcontextprotocol/tasks": null}}), Has::EXTENSIONS),
    ] {
        assert_eq!(read(&declared).unwrap(), expected, "{declared}");
    }
}

#[test]
fn what_is_no_object_is_refused_wherever_it_stands() {
    for declared in [
        json!([]),
        json!({"tasks": true}),
        json!({"tasks": {"list": true}}),
        json!({"tasks": {"requests": []}}),
        json!({"tasks": {"requests": {"sampling": "x"}}}),
        json!({"extensions": []}),
        json!({"extensions": {"io.modelcontextprotocol/tasks": 1}}),
    ] {
        assert_eq!(read(&declared).unwrap_err().code, -32602, "{declared}");
    }
}

#[test]
fn what_is_missing_is_named_as_a_client_would_declare_it() {
    let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    for (required, named) in [
        (Has::NONE, json!({})),
        (Has::SAMPLING, json!({"sampling": {}})),
        (Has::SAMPLING.with(Has::SAMPLING_TOOLS), json!({"sampling": {"tools": {}}})),
        (Has::ELICITATION_FORM, json!({"elicitation": {"form": {}}})),
        (Has::ROOTS.with(Has::ELICITATION_URL), json!({"elicitation": {"url": {}}, "roots": {}})),
        (Has::EXTENSION_TASKS, tasks),
    ] {
        let error = Error::missing_capability(required);
        assert_eq!(error.code, -32021);
        let data: Value = serde_json::from_str(&error.data.unwrap()).unwrap();
        assert_eq!(data["requiredCapabilities"], named);
        let declared = read(&named).unwrap();
        assert!(declared.has(required));
        assert!(required.without(declared).is_empty());
    }
    let half = Has::SAMPLING.with(Has::ROOTS).without(Has::ROOTS);
    assert_eq!(half, Has::SAMPLING);
}
