//! Errors of tool calls: invalid params, panics, tool errors and JSON-RPC errors.

use corelane::internal::demo;
use corelane::{
    BlockingContext, CallToolRequest, CallToolResult, Cancelled, Catalog, ClientRequestError,
    HandlerError, NoArguments, RequestContext, Tool,
};
use corelane_protocol::error::Error;
use corelane_protocol::model::{CallToolResultWriter, Implementation};
use corelane_protocol::revision::Revision;
use serde_json::{Value, json};

use crate::service::harness::{call_tool, write_tool_output};

fn catalog_of(tool: Tool) -> Catalog {
    Catalog::builder(Implementation::new("test", "1"))
        .tool(tool)
        .build()
        .expect("the tool is valid")
}

fn demo_catalog() -> Catalog {
    demo::catalog(Implementation::new("demo", "1")).expect("the demo tools are valid")
}

#[test]
fn invalid_arguments_error_depends_on_revision() {
    let catalog = demo_catalog();
    for params in [
        r#"{"name":"echo"}"#,
        r#"{"name":"echo","arguments":null}"#,
        r#"{"name":"echo","arguments":{}}"#,
        r#"{"name":"echo","arguments":{"message":7}}"#,
        r#"{"name":"add","arguments":{"a":1}}"#,
        r#"{"name":"add","arguments":{"a":1,"b":"2"}}"#,
        r#"{"name":"slow","arguments":{"steps":1.5,"step_ms":0}}"#,
        r#"{"name":"hash","arguments":{"bytes":"many"}}"#,
    ] {
        for revision in Revision::ALL {
            match call_tool(&catalog, revision, params) {
                Ok(result) => {
                    assert!(revision >= Revision::V2025_11_25, "{revision} {params}");
                    assert_eq!(result["isError"], true);
                    assert!(result["content"][0]["text"].is_string());
                }
                Err(error) => {
                    assert!(revision < Revision::V2025_11_25, "{revision} {params}");
                    assert_eq!(error.code, -32602);
                }
            }
        }
    }
}

#[test]
fn missing_argument_is_named() {
    let params = r#"{"name":"add","arguments":{"a":1}}"#;
    let result = call_tool(&demo_catalog(), Revision::LATEST, params).unwrap();
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("`b`"), "{text}");
}

#[test]
fn error_does_not_echo_long_argument() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    #[serde(rename_all = "lowercase")]
    enum Direction {
        Up,
    }
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Go {
        direction: Direction,
    }
    let tool = Tool::new("go").inline_writer(
        |Go { direction }: Go, _: &mut CallToolResultWriter<'_>, _| match direction {
            Direction::Up => Ok(()),
        },
    );
    let long = "é".repeat(100_000);
    let params = json!({ "name": "go", "arguments": { "direction": long } });
    let result = call_tool(&catalog_of(tool), Revision::LATEST, &params.to_string()).unwrap();
    assert!(result["content"][0]["text"].as_str().unwrap().len() < 500);
}

#[test]
fn malformed_call_is_invalid_params() {
    let catalog = demo_catalog();
    for params in [
        "[]",
        "null",
        "{}",
        r#"{"name":7}"#,
        r#"{"name":null}"#,
        r#"{"name":"missing"}"#,
        r#"{"name":"ECHO","arguments":{"message":"x"}}"#,
        r#"{"name":"echo","name":"add"}"#,
        r#"{"name":"echo","arguments":[]}"#,
        r#"{"name":"echo","arguments":"message"}"#,
        r#"{"name":"echo","arguments":{},"arguments":{"message":"x"}}"#,
        r#"{"name":"echo","arguments":{"message":"first","message":"last"}}"#,
        r#"{"name":"add","arguments":{"a":1,"a":1,"b":2}}"#,
    ] {
        for revision in Revision::ALL {
            assert_eq!(call_tool(&catalog, revision, params).unwrap_err().code, -32602, "{params}");
        }
    }
    assert_eq!(CallToolRequest::read(Revision::LATEST, None).unwrap_err().code, -32602);
}

#[test]
fn tool_without_arguments_rejects_any() {
    let tool = || {
        Tool::new("bare").inline_writer(|_: NoArguments, out: &mut CallToolResultWriter<'_>, _| {
            out.text("yes");
            Ok(())
        })
    };
    let ask = |params| call_tool(&catalog_of(tool()), Revision::LATEST, params).unwrap();
    assert_eq!(ask(r#"{"name":"bare"}"#)["content"][0]["text"], "yes");
    assert_eq!(ask(r#"{"name":"bare","arguments":{}}"#)["content"][0]["text"], "yes");
    assert_eq!(ask(r#"{"name":"bare","arguments":{"a":1}}"#)["isError"], true);
}

/// A tool of each handler kind that ends with `end`.
fn tools_ending_with(end: fn() -> Result<CallToolResult, HandlerError>) -> [Tool; 4] {
    [
        Tool::new("inline").inline_writer(
            move |_: NoArguments, out: &mut CallToolResultWriter<'_>, _| {
                out.text("half a sent");
                Ok(end()?.write_to(out)?)
            },
        ),
        Tool::new("inline").inline_raw(
            json!({}),
            move |_: &CallToolRequest<'_>, out: &mut CallToolResultWriter<'_>| {
                out.text("half a sent");
                Ok(end()?.write_to(out)?)
            },
        ),
        Tool::new("local").local(move |_: NoArguments, ctx: RequestContext| async move {
            ctx.sleep(std::time::Duration::ZERO).await?;
            end()
        }),
        Tool::new("blocking").blocking(move |_: NoArguments, _: BlockingContext| end()),
    ]
}

/// The outcome of a call of each tool of [`tools_ending_with`].
fn call_results(end: fn() -> Result<CallToolResult, HandlerError>) -> Vec<Result<Value, Error>> {
    let ends = tools_ending_with(end).map(|tool| {
        let params = json!({ "name": tool.name() }).to_string();
        call_tool(&catalog_of(tool), Revision::LATEST, &params)
    });
    ends.into()
}

#[test]
fn handler_panic_is_an_internal_error_without_details() {
    for end in call_results(|| panic!("the password is swordfish")) {
        let error = end.unwrap_err();
        assert_eq!(error.code, -32603);
        assert!(!error.message.contains("swordfish"));
        assert_eq!(error.data, None);
    }
}

#[test]
fn local_handler_panic_before_first_await_is_caught() {
    let tool = Tool::new("local").local(|_: NoArguments, _: RequestContext| {
        assert!(std::hint::black_box(false), "panics before it returns a future");
        async { Ok(CallToolResult::default()) }
    });
    let error = call_tool(&catalog_of(tool), Revision::LATEST, r#"{"name":"local"}"#).unwrap_err();
    assert_eq!(error.code, -32603);
}

#[test]
fn json_rpc_error_of_handler_is_sent() {
    for end in call_results(|| Err(Error::application(42, "not today").into())) {
        let error = end.unwrap_err();
        assert_eq!((error.code, &*error.message), (42, "not today"));
    }
}

#[test]
fn failed_handler_is_a_tool_error() {
    for end in call_results(|| Err(HandlerError::tool("no such file"))) {
        let result = end.unwrap();
        assert_eq!(result["isError"], true);
        let content = result["content"].as_array().unwrap();
        assert_eq!(content.last().unwrap()["text"], "no such file");
    }
    for end in call_results(|| Ok(CallToolResult::error("no such file"))) {
        assert_eq!(end.unwrap()["isError"], true);
    }
}

#[test]
fn foreign_error_is_hidden_behind_a_number() {
    let open = || {
        std::fs::File::open("/no/such/file")?;
        Ok(CallToolResult::default())
    };
    for end in call_results(open) {
        let result = end.unwrap();
        assert_eq!(result["isError"], true);
        let text = &result["content"].as_array().unwrap().last().unwrap()["text"];
        assert_eq!(text, "tool failed (request 42)");
    }
}

#[test]
fn wrapped_cancellation_is_a_cancellation() {
    #[derive(Debug)]
    struct Wrapper(Cancelled);
    impl std::fmt::Display for Wrapper {
        fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            formatter.write_str("the query was not run")
        }
    }
    impl std::error::Error for Wrapper {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }
    assert!(matches!(HandlerError::from(Wrapper(Cancelled)), HandlerError::Cancelled));
    assert!(matches!(HandlerError::from(Cancelled), HandlerError::Cancelled));
    let timeout = HandlerError::from(ClientRequestError::Timeout);
    assert!(matches!(timeout, HandlerError::Tool(_)), "{timeout}");
}

#[test]
fn structured_result_keeps_text_and_structured_content() {
    let outcome = CallToolResult::structured(&json!([1, 2])).unwrap().with_text("two numbers");
    let result =
        write_tool_output(&demo_catalog(), Revision::LATEST, Ok(outcome.clone().into())).unwrap();
    assert_eq!(result["structuredContent"], json!([1, 2]));
    assert_eq!(result["content"].as_array().unwrap().len(), 2);
    let legacy =
        write_tool_output(&demo_catalog(), Revision::V2025_11_25, Ok(outcome.into())).unwrap();
    assert_eq!(legacy.get("structuredContent"), None, "an array is not an object");
}

#[test]
fn unserializable_result_is_an_internal_error() {
    let invalid_keys = std::collections::BTreeMap::from([((1, 2), 3)]);
    let error = CallToolResult::structured(&invalid_keys).unwrap_err();
    assert!(matches!(error, HandlerError::Rpc(Error { code: -32603, .. })), "{error}");
}
