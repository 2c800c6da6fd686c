//! Arguments are held against their schema before a handler sees them.

use corelane::protocol::era::ClientCapabilities;
use corelane::protocol::message::{Answer, ServerInfo};
use corelane::protocol::revision::Revision;
use corelane::service::{Catalog, CatalogError, NoArguments, TaskSupport, Tool};
use serde_json::{Value, json};

use crate::stage::{Pool, Stage, call, call_watched, listed};

fn build(tool: Tool) -> Result<Catalog, CatalogError> {
    Catalog::builder(ServerInfo::new("test", "1")).tool(tool).build()
}

/// A tool that says yes to whatever passes `schema`.
fn guarded(schema: &Value) -> Catalog {
    let tool = Tool::new("t").inline_raw(schema.clone(), |_, answer| {
        answer.text("yes");
        Ok(())
    });
    build(tool).expect("the schema is one")
}

/// What a model reads where `arguments` break the schema; `None` where they do not.
fn refusal(catalog: &Catalog, arguments: &Value) -> Option<String> {
    let params = json!({ "name": "t", "arguments": arguments }).to_string();
    let earlier = call(catalog, Revision::V2025_06_18, &params);
    let result = call(catalog, Revision::LATEST, &params).expect("modern tools fail in band");
    let text = result["content"][0]["text"].as_str().expect("a block of text").to_owned();
    if result.get("isError").is_none() {
        assert_eq!(text, "yes");
        assert!(earlier.is_ok());
        return None;
    }
    let earlier = earlier.expect_err("in band from 2025-11-25 on alone");
    assert_eq!(earlier.code, -32602);
    Some(text)
}

#[test]
fn an_everyday_schema_is_enforced_and_names_the_argument() {
    let catalog = guarded(&json!({
        "type": "object",
        "properties": {
            "count": { "type": "integer", "minimum": 1 },
            "mode": { "enum": ["fast", "safe"] },
        },
        "required": ["count"],
        "additionalProperties": false,
    }));
    assert_eq!(refusal(&catalog, &json!({ "count": 1, "mode": "safe" })), None);
    for (arguments, place) in [
        (json!({}), "`count`"),
        (json!({ "count": 0 }), "`count`"),
        (json!({ "count": "1" }), "`count`"),
        (json!({ "count": 1, "mode": "slow" }), "`mode`"),
        (json!({ "count": 1, "more": 1 }), "`more`"),
    ] {
        let text = refusal(&catalog, &arguments).unwrap();
        assert!(text.contains(place), "{text}");
    }
}

#[test]
fn a_schema_of_any_complexity_is_enforced() {
    let catalog = guarded(&json!({
        "type": "object",
        "properties": {
            "code": { "type": "string", "pattern": "^[A-Z]{3}$" },
            "tree": { "$ref": "#/$defs/tree" },
            "tags": { "type": "array", "uniqueItems": true, "contains": { "const": "a" } },
        },
        "oneOf": [{ "required": ["code"] }, { "required": ["tree"] }, { "required": ["tags"] }],
        "propertyNames": { "maxLength": 4 },
        "$defs": {
            "tree": {
                "type": "object",
                "properties": { "left": { "$ref": "#/$defs/tree" } },
                "additionalProperties": false,
            },
        },
    }));
    for arguments in [
        json!({ "code": "ABC" }),
        json!({ "tree": { "left": { "left": {} } } }),
        json!({ "tags": ["b", "a"] }),
    ] {
        assert_eq!(refusal(&catalog, &arguments), None, "{arguments}");
    }
    for arguments in [
        json!({}),
        json!({ "code": "abc" }),
        json!({ "code": "ABC", "tree": {} }),
        json!({ "tree": { "left": { "right": {} } } }),
        json!({ "tags": ["a", "a"] }),
        json!({ "tags": ["b"] }),
        json!({ "tags": ["a"], "longer": 1 }),
    ] {
        assert!(refusal(&catalog, &arguments).is_some(), "{arguments}");
    }
    let nothing = call(&catalog, Revision::LATEST, r#"{"name":"t"}"#).unwrap();
    assert_eq!(nothing["isError"], true, "no arguments are an empty object");
}

#[test]
fn a_type_with_bounds_beside_it_is_held_to_them() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Bounded {
        #[schemars(range(min = 1, max = 3))]
        count: u32,
    }
    let tool = Tool::new("t").inline(|Bounded { count }, answer: &mut Answer<'_>| {
        assert!((1..=3).contains(&count));
        answer.text("yes");
        Ok(())
    });
    let catalog = build(tool).unwrap();
    assert_eq!(refusal(&catalog, &json!({ "count": 3 })), None);
    assert_eq!(refusal(&catalog, &json!({ "count": 4 })).unwrap(), "`count` must be at most 3");
}

#[test]
fn formats_assert_nothing() {
    let property = json!({ "type": "string", "format": "email", "pattern": "." });
    let catalog = guarded(&json!({ "type": "object", "properties": { "to": property } }));
    assert_eq!(refusal(&catalog, &json!({ "to": "nobody" })), None);
}

#[test]
fn a_pattern_that_would_step_back_for_ages_refuses_instead() {
    let property = json!({ "type": "string", "pattern": "^(a+)+(?=b)$" });
    let catalog = guarded(&json!({ "type": "object", "properties": { "a": property } }));
    assert!(refusal(&catalog, &json!({ "a": "a".repeat(40) })).is_some());
}

#[test]
fn a_schema_that_is_none_or_refers_elsewhere_is_refused_when_it_is_registered() {
    for property in [
        json!({ "type": "strange" }),
        json!({ "pattern": "(" }),
        json!({ "minLength": -1 }),
        json!({ "$ref": "https://example.com/schema.json" }),
        json!({ "$ref": "file:///etc/passwd" }),
        json!({ "$ref": "#/$defs/nobody" }),
        json!({ "type": "number", "x-mcp-header": "Region" }),
        json!({ "type": "string", "x-mcp-header": "two words" }),
    ] {
        let schema = json!({ "type": "object", "properties": { "a": property } });
        let tool = Tool::new("t").inline_raw(schema, |_, _| Ok(()));
        let error = build(tool).unwrap_err();
        assert!(matches!(error, CatalogError::Unfit { kind: "tool", .. }), "{property}: {error}");
    }
}

#[test]
fn a_schema_is_told_as_it_was_given() {
    let text = concat!(
        r#"{"type":"object","x-other":1,"properties":{"b":{"type":"string","x-mcp-header":"B"},"#,
        r#""a":{"format":"z"}},"$defs":{"y":{},"x":{}}}"#,
    );
    let schema: Value = serde_json::from_str(text).unwrap();
    let catalog = guarded(&schema);
    let page = catalog.tools_page(Revision::LATEST, None).unwrap();
    assert!(String::from_utf8_lossy(page).contains(text), "key by key, in the same order");
    let headers = catalog.tool("t").unwrap().parameter_headers();
    assert_eq!((headers.len(), &*headers[0].name, &*headers[0].path[0]), (1, "B", "b"));
}

#[test]
fn what_a_tool_needs_of_its_client_is_asked_for() {
    let build = || {
        let tool = Tool::new("t").needs(ClientCapabilities::SAMPLING);
        build(tool.inline(|_: NoArguments, answer: &mut Answer<'_>| {
            answer.text("yes");
            Ok(())
        }))
    };
    let catalog = build().unwrap();
    let params = r#"{"name":"t"}"#;
    for revision in Revision::ALL {
        match call(&catalog, revision, params) {
            Ok(result) => {
                assert_eq!((result["isError"] == true, revision.is_modern()), (true, false));
            }
            Err(error) => {
                assert!(revision.is_modern());
                assert_eq!(error.code, -32021);
                let data: Value = serde_json::from_str(&error.data.unwrap()).unwrap();
                assert_eq!(data["requiredCapabilities"], json!({ "sampling": {} }));
            }
        }
        let stage = Stage::default();
        stage.capabilities.set(ClientCapabilities::SAMPLING);
        let pool = Pool::default();
        let result = call_watched(&catalog, revision, params, stage.into(), pool.into()).unwrap();
        assert_eq!(result.get("isError"), None);
    }
}

#[test]
fn whether_a_tool_may_be_a_task_is_told_in_2025_11_25_alone() {
    for (support, word) in [
        (TaskSupport::Forbidden, None),
        (TaskSupport::Optional, Some("optional")),
        (TaskSupport::Required, Some("required")),
    ] {
        let tool = Tool::new("t").task(support);
        let tool = tool.inline(|_: NoArguments, _: &mut Answer<'_>| Ok(()));
        let catalog = build(tool).unwrap();
        for revision in Revision::ALL {
            let page = listed(revision, "tools/list", catalog.tools_page(revision, None));
            let told = page["tools"][0].get("execution").map(|told| &told["taskSupport"]);
            let word = word.filter(|_| revision == Revision::V2025_11_25).map(Value::from);
            assert_eq!(told, word.as_ref());
        }
    }
}
