//! Structured results keep the promise of their schema, and content reaches every revision.

use corelane::protocol::message::{Answer, ResourceContent, ResourceLink, ServerInfo};
use corelane::protocol::revision::Revision;
use corelane::service::{Catalog, HandlerError, NoArguments, Outcome, Tool, Worker};
use serde_json::{Value, json};

use crate::stage::call;

fn catalog_of(tool: Tool) -> Catalog {
    Catalog::builder(ServerInfo::new("test", "1"))
        .tool(tool)
        .build()
        .expect("what it offers is good")
}

/// Tools of two kinds that promise `schema` and give `end`.
fn promising(schema: &Value, end: fn() -> Result<Outcome, HandlerError>) -> [Catalog; 2] {
    let tool = || Tool::new("t").returns_schema(schema.clone());
    [
        catalog_of(
            tool().inline(move |_: NoArguments, answer: &mut Answer<'_>| Ok(end()?.write(answer)?)),
        ),
        catalog_of(tool().blocking(move |_: NoArguments, _: Worker| end())),
    ]
}

fn ends(
    schema: &Value,
    revision: Revision,
    end: fn() -> Result<Outcome, HandlerError>,
) -> Vec<Result<Value, i32>> {
    let catalogs = promising(schema, end);
    let ends = catalogs
        .iter()
        .map(|catalog| call(catalog, revision, r#"{"name":"t"}"#).map_err(|error| error.code));
    ends.collect()
}

#[test]
fn a_result_that_keeps_its_promise_is_sent() {
    let schema = json!({ "type": "object", "properties": { "a": { "type": "integer" } } });
    for revision in Revision::ALL {
        for end in ends(&schema, revision, || Outcome::structured(&json!({ "a": 1 }))) {
            assert_eq!(end.unwrap()["content"][0]["text"], r#"{"a":1}"#);
        }
    }
}

#[test]
fn a_result_that_breaks_its_promise_is_an_error_of_ours() {
    let schema = json!({ "type": "object", "required": ["a"] });
    let broken: [fn() -> Result<Outcome, HandlerError>; 3] = [
        || Outcome::structured(&json!({ "b": 1 })),
        || Outcome::structured(&json!([1])),
        || Ok(Outcome::text("no structure at all")),
    ];
    for end in broken {
        assert!(ends(&schema, Revision::LATEST, end).iter().all(|end| *end == Err(-32603)));
    }
}

#[test]
fn a_failure_promised_nothing() {
    let schema = json!({ "type": "object", "required": ["a"] });
    for revision in Revision::ALL {
        for end in ends(&schema, revision, || Ok(Outcome::failed("no luck"))) {
            assert_eq!(end.unwrap()["isError"], true);
        }
    }
}

#[test]
fn a_result_holds_every_kind_of_content_that_the_revision_has() {
    let tool = Tool::new("t").blocking(|_: NoArguments, _: Worker| {
        Ok(Outcome::text("text")
            .image(vec![1], "image/png")
            .audio(vec![2], "audio/wav")
            .link(ResourceLink::new("test://a", "a"))
            .embed(ResourceContent::blob("test://b", vec![3])))
    });
    let catalog = catalog_of(tool);
    for revision in Revision::ALL {
        let dialect = revision.dialect();
        let result = call(&catalog, revision, r#"{"name":"t"}"#).unwrap();
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
