//! Results of tools: validation of structured content, and content of every kind.

use corelane::protocol::model::{
    CallToolResultWriter, Implementation, ResourceContents, ResourceLink,
};
use corelane::protocol::revision::Revision;
use corelane::service::{
    BlockingContext, CallToolResult, Catalog, HandlerError, NoArguments, Tool,
};
use serde_json::{Value, json};

use crate::harness::call_tool;

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
        catalog_of(tool().inline(move |_: NoArguments, out: &mut CallToolResultWriter<'_>| {
            Ok(end()?.write_to(out)?)
        })),
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
