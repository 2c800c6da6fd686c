//! Whatever goes wrong in a call ends that call, in the words of its revision, and nothing else.

use corelane::protocol::error::Error;
use corelane::protocol::json::Value as Span;
use corelane::protocol::message::{Answer, ServerInfo};
use corelane::protocol::revision::Revision;
use corelane::service::{
    Call, Catalog, HandlerError, Live, NoArguments, Outcome, Tool, Worker, demo,
};
use serde_json::{Value, json};

use crate::stage::{call, settle, with_document};

fn catalog_of(tool: Tool) -> Catalog {
    Catalog::builder(ServerInfo::new("test", "1"))
        .tool(tool)
        .build()
        .expect("the tool is a good one")
}

fn demo_catalog() -> Catalog {
    demo::catalog(ServerInfo::new("demo", "1")).expect("the demo tools are good ones")
}

#[test]
fn arguments_that_are_wrong_fail_in_band_from_2025_11_25_on() {
    let catalog = demo_catalog();
    for params in [
        r#"{"name":"echo"}"#,
        r#"{"name":"echo","arguments":null}"#,
        r#"{"name":"echo","arguments":{}}"#,
        r#"{"name":"echo","arguments":{"message":7}}"#,
        r#"{"name":"add","arguments":{"a":1}}"#,
        r#"{"name":"add","arguments":{"a":1,"b":"2"}}"#,
        r#"{"name":"add","arguments":{"a":1,"a":1,"b":2}}"#,
        r#"{"name":"slow","arguments":{"steps":1.5,"step_ms":0}}"#,
        r#"{"name":"hash","arguments":{"bytes":"many"}}"#,
    ] {
        for revision in Revision::ALL {
            match call(&catalog, revision, params) {
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
fn a_missing_argument_is_named() {
    let params = r#"{"name":"add","arguments":{"a":1}}"#;
    let result = call(&demo_catalog(), Revision::LATEST, params).unwrap();
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("`b`"), "{text}");
}

#[test]
fn a_reason_does_not_send_a_long_message_back() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    #[serde(rename_all = "lowercase")]
    enum Direction {
        Up,
    }
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Go {
        direction: Direction,
    }
    let tool = Tool::new("go").inline(|Go { direction }: Go, _: &mut Answer<'_>| match direction {
        Direction::Up => Ok(()),
    });
    let far = "é".repeat(100_000);
    let params = json!({ "name": "go", "arguments": { "direction": far } });
    let result = call(&catalog_of(tool), Revision::LATEST, &params.to_string()).unwrap();
    assert!(result["content"][0]["text"].as_str().unwrap().len() < 500);
}

#[test]
fn params_that_are_no_call_are_invalid() {
    let catalog = demo_catalog();
    for params in [
        "[]",
        "null",
        "{}",
        r#"{"name":7}"#,
        r#"{"name":null}"#,
        r#"{"name":"nobody"}"#,
        r#"{"name":"ECHO","arguments":{"message":"x"}}"#,
        r#"{"name":"echo","name":"add"}"#,
        r#"{"name":"echo","arguments":[]}"#,
        r#"{"name":"echo","arguments":"message"}"#,
        r#"{"name":"echo","arguments":{},"arguments":{"message":"x"}}"#,
    ] {
        for revision in Revision::ALL {
            assert_eq!(call(&catalog, revision, params).unwrap_err().code, -32602, "{params}");
        }
    }
    assert_eq!(Call::read(Revision::LATEST, None).unwrap_err().code, -32602);
}

#[test]
fn a_repeated_argument_is_seen_by_a_raw_handler_and_the_last_one_found() {
    let params = r#"{"name":"echo","arguments":{"message":"first","message":"last"}}"#;
    let result = call(&demo_catalog(), Revision::LATEST, params).unwrap();
    assert_eq!(result["content"][0]["text"], "last");
    with_document(params, |document| {
        let call = Call::read(Revision::LATEST, Some(document.root())).unwrap();
        let arguments = call.arguments().and_then(Span::as_object).unwrap();
        assert_eq!(arguments.iter().count(), 2);
    });
}

#[test]
fn a_tool_without_arguments_takes_none() {
    let tool = || {
        Tool::new("bare").inline(|_: NoArguments, answer: &mut Answer<'_>| {
            answer.text("yes");
            Ok(())
        })
    };
    let ask = |params| call(&catalog_of(tool()), Revision::LATEST, params).unwrap();
    assert_eq!(ask(r#"{"name":"bare"}"#)["content"][0]["text"], "yes");
    assert_eq!(ask(r#"{"name":"bare","arguments":{}}"#)["content"][0]["text"], "yes");
    assert_eq!(ask(r#"{"name":"bare","arguments":{"a":1}}"#)["isError"], true);
}

/// One tool of each kind that ends as `end` says.
fn tools_that(end: fn() -> Result<Outcome, HandlerError>) -> [Tool; 4] {
    [
        Tool::new("inline").inline(move |_: NoArguments, answer: &mut Answer<'_>| {
            answer.text("half a sent");
            Ok(end()?.write(answer)?)
        }),
        Tool::new("inline").inline_raw(json!({}), move |_: &Call<'_>, answer: &mut Answer<'_>| {
            answer.text("half a sent");
            Ok(end()?.write(answer)?)
        }),
        Tool::new("local").local(move |_: NoArguments, live: Live| async move {
            live.sleep(std::time::Duration::ZERO).await?;
            end()
        }),
        Tool::new("blocking").blocking(move |_: NoArguments, _: Worker| end()),
    ]
}

/// What comes of calling each tool of [`tools_that`].
fn ends_of(end: fn() -> Result<Outcome, HandlerError>) -> Vec<Result<Value, Error>> {
    let ends = tools_that(end).map(|tool| {
        let params = json!({ "name": tool.name() }).to_string();
        call(&catalog_of(tool), Revision::LATEST, &params)
    });
    ends.into()
}

#[test]
fn a_panic_ends_its_call_with_an_internal_error_and_tells_nothing() {
    for end in ends_of(|| panic!("the password is swordfish")) {
        let error = end.unwrap_err();
        assert_eq!(error.code, -32603);
        assert!(!error.message.contains("swordfish"));
        assert_eq!(error.data, None);
    }
}

#[test]
fn a_local_handler_that_panics_before_its_first_wait_is_caught_too() {
    let tool = Tool::new("local").local(|_: NoArguments, _: Live| {
        assert!(std::hint::black_box(false), "no future comes of this");
        async { Ok(Outcome::default()) }
    });
    let error = call(&catalog_of(tool), Revision::LATEST, r#"{"name":"local"}"#).unwrap_err();
    assert_eq!(error.code, -32603);
}

#[test]
fn a_refusal_becomes_the_error_of_the_request() {
    for end in ends_of(|| Err(Error::application(42, "not today").into())) {
        let error = end.unwrap_err();
        assert_eq!((error.code, &*error.message), (42, "not today"));
    }
}

#[test]
fn a_failure_is_content_that_a_model_reads() {
    for end in ends_of(|| Err(HandlerError::failed("no such file"))) {
        let result = end.unwrap();
        assert_eq!(result["isError"], true);
        let content = result["content"].as_array().unwrap();
        assert_eq!(content.last().unwrap()["text"], "no such file");
    }
    for end in ends_of(|| Ok(Outcome::failed("no such file"))) {
        assert_eq!(end.unwrap()["isError"], true);
    }
}

#[test]
fn an_outcome_says_all_it_was_given() {
    let outcome = Outcome::structured(&json!([1, 2])).unwrap().and_text("two numbers");
    let result = settle(&demo_catalog(), Revision::LATEST, Ok(outcome.clone().into())).unwrap();
    assert_eq!(result["structuredContent"], json!([1, 2]));
    assert_eq!(result["content"].as_array().unwrap().len(), 2);
    let earlier = settle(&demo_catalog(), Revision::V2025_11_25, Ok(outcome.into())).unwrap();
    assert_eq!(earlier.get("structuredContent"), None, "an array is no object");
}

#[test]
fn a_result_that_is_no_json_is_an_internal_error() {
    let nameless = std::collections::BTreeMap::from([((1, 2), 3)]);
    let error = Outcome::structured(&nameless).unwrap_err();
    assert!(matches!(error, HandlerError::Refused(Error { code: -32603, .. })), "{error}");
}
