//! The params of every request, good and malformed.

use crate::stage::with_value;
use corelane::protocol::era::LogLevel;
use corelane::protocol::error::Error;
use corelane::protocol::json::Value;
use corelane::protocol::params::{
    Complete, GetPrompt, Listen, Progress, ReadResource, Reference, Retry, SetLevel, Subscribe,
    Task, TaskMetadata, TaskUpdate,
};
use corelane::protocol::rpc::Id;

/// Reads `params` and shows what came of it.
fn read<T>(params: &str, read: impl FnOnce(Value<'_>) -> T) -> T {
    with_value(params, read).expect("JSON")
}

/// A reader that forgets what it read.
type Reader = fn(Option<Value<'_>>) -> Result<(), Error>;

const READERS: [(&str, Reader); 8] = [
    ("resources/read", |params| ReadResource::read(params).map(drop)),
    ("resources/subscribe", |params| Subscribe::read(params).map(drop)),
    ("prompts/get", |params| GetPrompt::read(params).map(drop)),
    ("completion/complete", |params| Complete::read(params).map(drop)),
    ("logging/setLevel", |params| SetLevel::read(params).map(drop)),
    ("subscriptions/listen", |params| Listen::read(Id::Signed(1), params).map(drop)),
    ("tasks/get", |params| Task::read(params).map(drop)),
    ("tasks/update", |params| TaskUpdate::read(params).map(drop)),
];

fn reader(method: &str) -> Reader {
    READERS.iter().find(|(known, _)| *known == method).expect("a known reader").1
}

#[test]
fn params_that_are_missing_or_no_object_are_refused_by_every_reader() {
    for (method, reader) in READERS {
        assert_eq!(reader(None).unwrap_err().code, -32602, "{method}");
        for wrong in ["null", "[]", "7", "\"x\"", "{}", "{\"other\":1}"] {
            let error = read(wrong, |params| reader(Some(params))).unwrap_err();
            assert_eq!(error.code, -32602, "{method} {wrong}");
        }
    }
}

#[test]
fn a_malformed_member_is_refused_and_named() {
    for (method, params, name) in [
        ("resources/read", r#"{"uri":null}"#, "uri"),
        ("resources/read", r#"{"uri":7}"#, "uri"),
        ("resources/read", r#"{"uri":"a","uri":"a"}"#, "uri"),
        ("resources/subscribe", r#"{"uri":[]}"#, "uri"),
        ("prompts/get", r#"{"name":7}"#, "name"),
        ("prompts/get", r#"{"name":"a","arguments":[]}"#, "arguments"),
        ("prompts/get", r#"{"name":"a","arguments":{"b":7}}"#, "arguments"),
        ("prompts/get", r#"{"name":"a","arguments":{},"arguments":{}}"#, "arguments"),
        ("completion/complete", r#"{"ref":{},"argument":{"name":"a","value":"b"}}"#, "ref.type"),
        (
            "completion/complete",
            r#"{"ref":{"type":"ref/tool","name":"a"},"argument":{"name":"a","value":"b"}}"#,
            "ref.type",
        ),
        (
            "completion/complete",
            r#"{"ref":{"type":"ref/prompt","uri":"a"},"argument":{"name":"a","value":"b"}}"#,
            "ref.name",
        ),
        ("completion/complete", r#"{"ref":{"type":"ref/prompt","name":"a"}}"#, "argument"),
        (
            "completion/complete",
            r#"{"ref":{"type":"ref/prompt","name":"a"},"argument":{"name":"a","value":7}}"#,
            "argument.value",
        ),
        (
            "completion/complete",
            r#"{"ref":{"type":"ref/prompt","name":"a"},"argument":{"name":"a","value":"b"},
                "context":{"arguments":{"c":7}}}"#,
            "context.arguments",
        ),
        ("logging/setLevel", r#"{"level":"loud"}"#, "level"),
        ("logging/setLevel", r#"{"level":3}"#, "level"),
        ("subscriptions/listen", r#"{"notifications":[]}"#, "notifications"),
        ("subscriptions/listen", r#"{"notifications":{"toolsListChanged":1}}"#, "toolsListChanged"),
        (
            "subscriptions/listen",
            r#"{"notifications":{"resourceSubscriptions":"file:///a"}}"#,
            "resourceSubscriptions",
        ),
        ("subscriptions/listen", r#"{"notifications":{"taskIds":["a",7]}}"#, "taskIds"),
        ("subscriptions/listen", r#"{"notifications":{"taskIds":[],"taskIds":[]}}"#, "taskIds"),
        ("tasks/get", r#"{"taskId":7}"#, "taskId"),
        ("tasks/update", r#"{"taskId":"a"}"#, "inputResponses"),
        ("tasks/update", r#"{"taskId":"a","inputResponses":[]}"#, "inputResponses"),
        ("tasks/update", r#"{"inputResponses":{}}"#, "taskId"),
    ] {
        let error = read(params, |params| reader(method)(Some(params))).unwrap_err();
        assert_eq!(error.code, -32602, "{method} {params}");
        assert!(error.message.contains(name), "{method} {params}: {error}");
    }
}

#[test]
fn good_params_are_read_as_they_were_sent() {
    read(r#"{"uri":"file:///%C3%A9","_meta":{}}"#, |params| {
        assert_eq!(ReadResource::read(Some(params)).unwrap().uri, "file:///%C3%A9");
        assert_eq!(Subscribe::read(Some(params)).unwrap().uri, "file:///%C3%A9");
    });
    read(r#"{"name":"p","arguments":{"a":"1","b":"","a":"2"}}"#, |params| {
        let asked = GetPrompt::read(Some(params)).unwrap();
        assert_eq!(asked.name, "p");
        assert_eq!(asked.arguments.find("a"), Some("2"));
        assert_eq!(asked.arguments.find("c"), None);
        let all: Vec<_> = asked.arguments.iter().collect();
        assert_eq!(all, [("a", "1"), ("b", ""), ("a", "2")]);
        assert_eq!(asked.arguments.len(), 3);
    });
    read(r#"{"name":"p","arguments":null}"#, |params| {
        assert!(GetPrompt::read(Some(params)).unwrap().arguments.is_empty());
    });
    read(r#"{"level":"warning"}"#, |params| {
        assert_eq!(SetLevel::read(Some(params)).unwrap().level, LogLevel::Warning);
    });
    read(r#"{"taskId":"t","inputResponses":{"k":{"action":"cancel"}}}"#, |params| {
        assert_eq!(Task::read(Some(params)).unwrap().id, "t");
        let update = TaskUpdate::read(Some(params)).unwrap();
        assert_eq!(update.id, "t");
        assert_eq!(update.input_responses.as_object().unwrap().len(), 1);
    });
}

#[test]
fn a_completion_knows_whose_argument_it_is_and_what_is_filled_in() {
    let text = r#"{"ref":{"type":"ref/resource","uri":"test://{a}"},
        "argument":{"name":"a","value":""},"context":{"arguments":{"b":"x"}}}"#;
    read(text, |params| {
        let asked = Complete::read(Some(params)).unwrap();
        assert_eq!(asked.reference, Reference::Resource("test://{a}"));
        assert_eq!((asked.argument, asked.value), ("a", ""));
        assert_eq!(asked.context.find("b"), Some("x"));
    });
    let text = r#"{"ref":{"type":"ref/prompt","name":"p","title":"P"},
        "argument":{"name":"a","value":"v"},"context":null}"#;
    read(text, |params| {
        let asked = Complete::read(Some(params)).unwrap();
        assert_eq!(asked.reference, Reference::Prompt("p"));
        assert!(asked.context.is_empty());
    });
}

#[test]
fn a_stream_hears_what_it_asked_for() {
    let text = r#"{"notifications":{"toolsListChanged":true,"promptsListChanged":false,
        "resourcesListChanged":null,"resourceSubscriptions":["file:///a"],"taskIds":["t"],"x":1}}"#;
    read(text, |params| {
        let Listen { id, filter } = Listen::read(Id::Text("l"), Some(params)).unwrap();
        assert_eq!(id, Id::Text("l"));
        assert!(filter.tools_list_changed);
        assert!(!filter.prompts_list_changed && !filter.resources_list_changed);
        assert_eq!((filter.resource_uris, filter.task_ids), (vec!["file:///a"], vec!["t"]));
    });
}

#[test]
fn what_a_retry_brings_is_read_or_refused() {
    assert!(Retry::read(None).unwrap().is_empty());
    for nothing in [
        "[]",
        "{}",
        r#"{"name":"a","arguments":{"requestState":7}}"#,
        r#"{"inputResponses":null,"requestState":null}"#,
        r#"{"task":7}"#,
    ] {
        assert!(read(nothing, |params| Retry::read(Some(params)).unwrap().is_empty()), "{nothing}");
    }
    read(r#"{"inputResponses":{"k":{}},"requestState":"s"}"#, |params| {
        let retry = Retry::read(Some(params)).unwrap();
        assert!(retry.input_responses.unwrap().as_object().unwrap().find("k").is_some());
        assert_eq!(retry.request_state, Some("s"));
    });
    for wrong in [
        r#"{"inputResponses":[]}"#,
        r#"{"requestState":7}"#,
        r#"{"requestState":"a","requestState":"a"}"#,
    ] {
        let error = read(wrong, |params| Retry::read(Some(params)).map(drop)).unwrap_err();
        assert_eq!(error.code, -32602, "{wrong}");
    }
}

#[test]
fn the_wish_for_a_task_is_read_or_refused() {
    let wanted = |text| read(text, |params| TaskMetadata::wanted(Some(params)));
    for nothing in ["[]", "{}", r#"{"task":null}"#, r#"{"arguments":{"task":7}}"#] {
        assert_eq!(wanted(nothing).unwrap(), None, "{nothing}");
    }
    assert_eq!(wanted(r#"{"task":{"ttl":7}}"#).unwrap().unwrap().ttl_ms, Some(7));
    assert_eq!(wanted(r#"{"task":{},"requestState":7}"#).unwrap().unwrap().ttl_ms, None);
    for wrong in [
        r#"{"task":true}"#,
        r#"{"task":{"ttl":-1}}"#,
        r#"{"task":{"ttl":1.5}}"#,
        r#"{"task":{"ttl":1,"ttl":1}}"#,
        r#"{"task":{},"task":{}}"#,
    ] {
        assert_eq!(wanted(wrong).unwrap_err().code, -32602, "{wrong}");
    }
}

#[test]
fn progress_names_its_token_or_nothing() {
    let text = r#"{"progressToken":7,"progress":0.5,"total":2,"message":"half"}"#;
    read(text, |params| {
        let progress = Progress::read(Some(params)).unwrap();
        assert_eq!(progress.token, Id::Signed(7));
        assert_eq!(progress.total.map(f64::to_bits), Some(2.0_f64.to_bits()));
    });
    for nothing in ["{}", "[]", r#"{"progressToken":1}"#, r#"{"progressToken":null,"progress":1}"#]
    {
        assert!(read(nothing, |params| Progress::read(Some(params)).is_none()), "{nothing}");
    }
}
