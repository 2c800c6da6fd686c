//! Client capabilities: reading them, and naming those that are missing.

use crate::parsing::with_value;
use corelane_protocol::eras::ClientCapabilities as Capabilities;
use corelane_protocol::error::Error;
use serde_json::{Value, json};

fn read(declared: &Value) -> Result<Capabilities, Error> {
    with_value(declared.to_string(), Capabilities::read).expect("JSON")
}

#[test]
fn client_capabilities_are_read() {
    let tasks = json!({"tasks": {
        "list": {}, "cancel": {},
        "requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}},
    }});
    let all_tasks = Capabilities::TASKS
        .union(Capabilities::TASKS_LIST)
        .union(Capabilities::TASKS_CANCEL)
        .union(Capabilities::TASKS_SAMPLING)
        .union(Capabilities::TASKS_ELICITATION);
    let extension = json!({"extensions": {"io.modelcontextprotocol/tasks": {}, "a/b": {}}});
    for (declared, expected) in [
        (json!({}), Capabilities::NONE),
        (json!({"elicitation": {}}), Capabilities::ELICITATION_FORM),
        (json!({"elicitation": {"url": {}}}), Capabilities::ELICITATION_URL),
        (
            json!({"roots": {"listChanged": true}}),
            Capabilities::ROOTS.union(Capabilities::ROOTS_LIST_CHANGED),
        ),
        (
            json!({"sampling": {"tools": {}}}),
            Capabilities::SAMPLING.union(Capabilities::SAMPLING_TOOLS),
        ),
        (json!({"tasks": {}}), Capabilities::TASKS),
        (json!({"tasks": {"requests": {"sampling": {}}}}), Capabilities::TASKS),
        (tasks, all_tasks),
        (json!({"extensions": {"a/b": {}}}), Capabilities::EXTENSIONS),
        (extension, Capabilities::EXTENSIONS.union(Capabilities::EXTENSION_TASKS)),
        (json!({"extensions": {"io.modelcontextprotocol/tasks": null}}), Capabilities::EXTENSIONS),
    ] {
        assert_eq!(read(&declared).unwrap(), expected, "{declared}");
    }
}

#[test]
fn client_capabilities_not_an_object_are_rejected() {
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
fn missing_capabilities_are_written_as_a_declaration() {
    let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    for (required, expected) in [
        (Capabilities::NONE, json!({})),
        (Capabilities::SAMPLING, json!({"sampling": {}})),
        (
            Capabilities::SAMPLING.union(Capabilities::SAMPLING_TOOLS),
            json!({"sampling": {"tools": {}}}),
        ),
        (Capabilities::ELICITATION_FORM, json!({"elicitation": {"form": {}}})),
        (
            Capabilities::ROOTS.union(Capabilities::ELICITATION_URL),
            json!({"elicitation": {"url": {}}, "roots": {}}),
        ),
        (Capabilities::EXTENSION_TASKS, tasks),
    ] {
        let error = Error::missing_capability(required);
        assert_eq!(error.code, -32021);
        let data: Value = serde_json::from_str(&error.data.unwrap()).unwrap();
        assert_eq!(data["requiredCapabilities"], expected);
        let declared = read(&expected).unwrap();
        assert!(declared.contains(required));
        assert!(required.difference(declared).is_empty());
    }
    let difference =
        Capabilities::SAMPLING.union(Capabilities::ROOTS).difference(Capabilities::ROOTS);
    assert_eq!(difference, Capabilities::SAMPLING);
}
