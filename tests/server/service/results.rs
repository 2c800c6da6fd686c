//! Results of tools: validation of structured content, and content of every kind.

use corelane::{
    BlockingContext, CallToolResult, Catalog, HandlerError, IntoCallToolResult, NoArguments,
    Structured, Tool,
};
use corelane_protocol::model::{
    CallToolResultWriter, Content, Implementation, ResourceContents, ResourceLink,
};
use corelane_protocol::revision::Revision;
use serde_json::{Value, json};

use crate::service::harness::{call_tool, parse_page};

fn catalog_of(tool: Tool) -> Catalog {
    Catalog::builder(Implementation::new("test", "1"))
        .tool(tool)
        .build()
        .expect("the catalog is valid")
}

/// Tools of two handler kinds with output schema `schema` that end with `end`.
fn catalogs_with_output_schema(
    schema: &Value,
    end: fn() -> Result<CallToolResult, HandlerError>,
) -> [Catalog; 2] {
    let tool = || Tool::new("t").output_schema(schema.clone());
    [
        catalog_of(tool().inline_writer(
            move |_: NoArguments, out: &mut CallToolResultWriter<'_>, _| Ok(end()?.write_to(out)?),
        )),
        catalog_of(tool().blocking(move |_: NoArguments, _: BlockingContext| end())),
    ]
}

fn call_results(
    schema: &Value,
    revision: Revision,
    end: fn() -> Result<CallToolResult, HandlerError>,
) -> Vec<Result<Value, i32>> {
    let catalogs = catalogs_with_output_schema(schema, end);
    let ends = catalogs
        .iter()
        .map(|catalog| call_tool(catalog, revision, r#"{"name":"t"}"#).map_err(|error| error.code));
    ends.collect()
}

#[test]
fn conforming_structured_content_is_sent() {
    let schema = json!({ "type": "object", "properties": { "a": { "type": "integer" } } });
    for revision in Revision::ALL {
        for end in
            call_results(&schema, revision, || CallToolResult::structured(&json!({ "a": 1 })))
        {
            assert_eq!(end.unwrap()["content"][0]["text"], r#"{"a":1}"#);
        }
    }
}

#[test]
fn nonconforming_structured_content_is_an_internal_error() {
    let schema = json!({ "type": "object", "required": ["a"] });
    let invalid: [fn() -> Result<CallToolResult, HandlerError>; 3] = [
        || CallToolResult::structured(&json!({ "b": 1 })),
        || CallToolResult::structured(&json!([1])),
        || Ok(CallToolResult::text("not structured")),
    ];
    for end in invalid {
        assert!(call_results(&schema, Revision::LATEST, end).iter().all(|end| *end == Err(-32603)));
    }
}

#[test]
fn failed_result_needs_no_structured_content() {
    let schema = json!({ "type": "object", "required": ["a"] });
    for revision in Revision::ALL {
        for end in call_results(&schema, revision, || Ok(CallToolResult::error("failed"))) {
            assert_eq!(end.unwrap()["isError"], true);
        }
    }
}

#[test]
fn result_holds_content_of_every_kind() {
    let tool = Tool::new("t").blocking(|_: NoArguments, _: BlockingContext| {
        Ok(CallToolResult::text("text")
            .with_image(vec![1], "image/png")
            .with_audio(vec![2], "audio/wav")
            .with_resource_link(ResourceLink::new("test://a", "a"))
            .with_embedded_resource(ResourceContents::blob("test://b", vec![3])))
    });
    let catalog = catalog_of(tool);
    for revision in Revision::ALL {
        let dialect = revision.dialect();
        let result = call_tool(&catalog, revision, r#"{"name":"t"}"#).unwrap();
        let kinds: Vec<&str> = result["content"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|block| block["type"].as_str())
            .collect();
        let audio = if dialect.audio { "audio" } else { "text" };
        let link = if dialect.resource_link { "resource_link" } else { "text" };
        assert_eq!(kinds, ["text", "image", audio, link, "resource"]);
    }
}

/// Calls a tool of each kind that returns the value of `make`.
fn returned<R: IntoCallToolResult + 'static>(make: fn() -> R) -> [Value; 3] {
    [
        Tool::new("t").inline(move |_: NoArguments, _| make()),
        Tool::new("t").local(move |_: NoArguments, _| async move { make() }),
        Tool::new("t").blocking(move |_: NoArguments, _| make()),
    ]
    .map(|tool| {
        let result = call_tool(&catalog_of(tool), Revision::LATEST, r#"{"name":"t"}"#);
        result.expect("the call succeeds")
    })
}

#[test]
fn returned_values_become_content() {
    let text = |text: &str| json!([{ "type": "text", "text": text }]);
    for result in returned(|| "static") {
        assert_eq!(result["content"], text("static"));
    }
    for result in returned(|| Ok(String::from("owned"))) {
        assert_eq!(result["content"], text("owned"));
    }
    for result in returned(|| ()) {
        assert_eq!(result["content"], json!([]));
    }
    for result in returned(|| CallToolResult::text("a").with_meta("com.example/k", 1)) {
        assert_eq!(result["content"], text("a"));
        assert_eq!(result["_meta"]["com.example/k"], 1, "{result}");
    }
    for result in returned(|| vec![Content::text("a"), Content::text("b")]) {
        assert_eq!(result["content"].as_array().unwrap().len(), 2);
    }
    for result in returned(|| Structured(std::collections::BTreeMap::from([("sum", 3)]))) {
        assert_eq!(result["structuredContent"]["sum"], 3);
    }
}

#[test]
fn structured_result_declares_its_output_schema() {
    #[derive(serde::Serialize, schemars::JsonSchema)]
    struct Sum {
        sum: u64,
    }
    let tool = Tool::new("add").inline(|_: NoArguments, _| Structured(Sum { sum: 3 }));
    let catalog = catalog_of(tool);
    let page = catalog.tools_page(Revision::LATEST, None);
    let page = parse_page(Revision::LATEST, "tools/list", page);
    let schema = &page["tools"][0]["outputSchema"];
    assert_eq!(schema["properties"]["sum"]["type"], "integer", "{schema}");
    assert_eq!(schema["properties"]["sum"].get("format"), None, "{schema}");
}
