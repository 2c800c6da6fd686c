//! Params of every request, valid and malformed.

use crate::parsing::with_value;
use corelane_protocol::eras::LoggingLevel;
use corelane_protocol::error::Error;
use corelane_protocol::json::Value;
use corelane_protocol::jsonrpc::Id;
use corelane_protocol::params::{
    CompleteRequestParams, CompletionReference, GetPromptRequestParams, InputResponseRequestParams,
    ProgressNotificationParams, ReadResourceRequestParams, SetLevelRequestParams,
    SubscribeRequestParams, SubscriptionsListenRequestParams, TaskIdParams, TaskMetadata,
    UpdateTaskRequestParams,
};

/// Parses `params` and returns what `read` returns for them.
fn read_json<T>(params: &str, read: impl FnOnce(Value<'_>) -> T) -> T {
    with_value(params, read).expect("JSON")
}

/// Reads params and discards the value.
type Reader = fn(Option<Value<'_>>) -> Result<(), Error>;

const READERS: [(&str, Reader); 8] = [
    ("resources/read", |params| ReadResourceRequestParams::read(params).map(drop)),
    ("resources/subscribe", |params| SubscribeRequestParams::read(params).map(drop)),
    ("prompts/get", |params| GetPromptRequestParams::read(params).map(drop)),
    ("completion/complete", |params| CompleteRequestParams::read(params).map(drop)),
    ("logging/setLevel", |params| SetLevelRequestParams::read(params).map(drop)),
    ("subscriptions/listen", |params| {
        SubscriptionsListenRequestParams::read(Id::Signed(1), params).map(drop)
    }),
    ("tasks/get", |params| TaskIdParams::read(params).map(drop)),
    ("tasks/update", |params| UpdateTaskRequestParams::read(params).map(drop)),
];

fn reader(method: &str) -> Reader {
    READERS.iter().find(|(known, _)| *known == method).expect("a known reader").1
}

#[test]
fn params_missing_or_not_an_object_are_rejected() {
    for (method, reader) in READERS {
        assert_eq!(reader(None).unwrap_err().code, -32602, "{method}");
        for wrong in ["null", "[]", "7", "\"x\"", "{}", "{\"other\":1}"] {
            let error = read_json(wrong, |params| reader(Some(params))).unwrap_err();
            assert_eq!(error.code, -32602, "{method} {wrong}");
        }
    }
}

#[test]
fn malformed_param_error_names_its_member() {
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
        let error = read_json(params, |params| reader(method)(Some(params))).unwrap_err();
        assert_eq!(error.code, -32602, "{method} {params}");
        assert!(error.message.contains(name), "{method} {params}: {error}");
    }
}

#[test]
fn valid_params_are_read_unchanged() {
    read_json(r#"{"uri":"file:///%C3%A9","_meta":{}}"#, |params| {
        assert_eq!(ReadResourceRequestParams::read(Some(params)).unwrap().uri, "file:///%C3%A9");
        assert_eq!(SubscribeRequestParams::read(Some(params)).unwrap().uri, "file:///%C3%A9");
    });
    read_json(r#"{"name":"p","arguments":{"a":"1","b":"","a":"2"}}"#, |params| {
        let params = GetPromptRequestParams::read(Some(params)).unwrap();
        assert_eq!(params.name, "p");
        assert_eq!(params.arguments.find("a"), Some("2"));
        assert_eq!(params.arguments.find("c"), None);
        let all: Vec<_> = params.arguments.iter().collect();
        assert_eq!(all, [("a", "1"), ("b", ""), ("a", "2")]);
        assert_eq!(params.arguments.len(), 3);
    });
    read_json(r#"{"name":"p","arguments":null}"#, |params| {
        assert!(GetPromptRequestParams::read(Some(params)).unwrap().arguments.is_empty());
    });
    read_json(r#"{"level":"warning"}"#, |params| {
        assert_eq!(SetLevelRequestParams::read(Some(params)).unwrap().level, LoggingLevel::Warning);
    });
    read_json(r#"{"taskId":"t","inputResponses":{"k":{"action":"cancel"}}}"#, |params| {
        assert_eq!(TaskIdParams::read(Some(params)).unwrap().task_id, "t");
        let update = UpdateTaskRequestParams::read(Some(params)).unwrap();
        assert_eq!(update.task_id, "t");
        assert_eq!(update.input_responses.as_object().unwrap().len(), 1);
    });
}

#[test]
fn completion_params_include_reference_and_context() {
    let text = r#"{"ref":{"type":"ref/resource","uri":"test://{a}"},
        "argument":{"name":"a","value":""},"context":{"arguments":{"b":"x"}}}"#;
    read_json(text, |params| {
        let params = CompleteRequestParams::read(Some(params)).unwrap();
        assert_eq!(params.reference, CompletionReference::Resource("test://{a}"));
        assert_eq!((params.argument_name, params.argument_value), ("a", ""));
        assert_eq!(params.context_arguments.find("b"), Some("x"));
    });
    let text = r#"{"ref":{"type":"ref/prompt","name":"p","title":"P"},
        "argument":{"name":"a","value":"v"},"context":null}"#;
    read_json(text, |params| {
        let params = CompleteRequestParams::read(Some(params)).unwrap();
        assert_eq!(params.reference, CompletionReference::Prompt("p"));
        assert!(params.context_arguments.is_empty());
    });
}

#[test]
fn subscription_filter_is_read() {
    let text = r#"{"notifications":{"toolsListChanged":true,"promptsListChanged":false,
        "resourcesListChanged":null,"resourceSubscriptions":["file:///a"],"taskIds":["t"],"x":1}}"#;
    read_json(text, |params| {
        let SubscriptionsListenRequestParams { id, filter } =
            SubscriptionsListenRequestParams::read(Id::Text("l"), Some(params)).unwrap();
        assert_eq!(id, Id::Text("l"));
        assert!(filter.tools_list_changed);
        assert!(!filter.prompts_list_changed && !filter.resources_list_changed);
        assert_eq!(
            (filter.resource_subscriptions, filter.task_ids),
            (vec!["file:///a"], vec!["t"])
        );
    });
}

#[test]
fn retry_params_are_read_or_rejected() {
    assert!(InputResponseRequestParams::read(None).unwrap().is_empty());
    for empty in [
        "[]",
        "{}",
        r#"{"name":"a","arguments":{"requestState":7}}"#,
        r#"{"inputResponses":null,"requestState":null}"#,
        r#"{"task":7}"#,
    ] {
        assert!(
            read_json(empty, |params| InputResponseRequestParams::read(Some(params))
                .unwrap()
                .is_empty()),
            "{empty}"
        );
    }
    read_json(r#"{"inputResponses":{"k":{}},"requestState":"s"}"#, |params| {
        let retry = InputResponseRequestParams::read(Some(params)).unwrap();
        assert!(retry.input_responses.unwrap().as_object().unwrap().find("k").is_some());
        assert_eq!(retry.request_state, Some("s"));
    });
    for wrong in [
        r#"{"inputResponses":[]}"#,
        r#"{"requestState":7}"#,
        r#"{"requestState":"a","requestState":"a"}"#,
    ] {
        let error =
            read_json(wrong, |params| InputResponseRequestParams::read(Some(params)).map(drop))
                .unwrap_err();
        assert_eq!(error.code, -32602, "{wrong}");
    }
}

#[test]
fn task_metadata_is_read_or_rejected() {
    let metadata = |text| read_json(text, |params| TaskMetadata::from_params(Some(params)));
    for absent in ["[]", "{}", r#"{"task":null}"#, r#"{"arguments":{"task":7}}"#] {
        assert_eq!(metadata(absent).unwrap(), None, "{absent}");
    }
    assert_eq!(metadata(r#"{"task":{"ttl":7}}"#).unwrap().unwrap().ttl_ms, Some(7));
    assert_eq!(metadata(r#"{"task":{},"requestState":7}"#).unwrap().unwrap().ttl_ms, None);
    for wrong in [
        r#"{"task":true}"#,
        r#"{"task":{"ttl":-1}}"#,
        r#"{"task":{"ttl":1.5}}"#,
        r#"{"task":{"ttl":1,"ttl":1}}"#,
        r#"{"task":{},"task":{}}"#,
    ] {
        assert_eq!(metadata(wrong).unwrap_err().code, -32602, "{wrong}");
    }
}

#[test]
fn progress_params_without_token_are_ignored() {
    let text = r#"{"progressToken":7,"progress":0.5,"total":2,"message":"half"}"#;
    read_json(text, |params| {
        let progress = ProgressNotificationParams::read(Some(params)).unwrap();
        assert_eq!(progress.progress_token, Id::Signed(7));
        assert_eq!(progress.total.map(f64::to_bits), Some(2.0_f64.to_bits()));
    });
    for ignored in ["{}", "[]", r#"{"progressToken":1}"#, r#"{"progressToken":null,"progress":1}"#]
    {
        assert!(
            read_json(ignored, |params| ProgressNotificationParams::read(Some(params)).is_none()),
            "{ignored}"
        );
    }
}
