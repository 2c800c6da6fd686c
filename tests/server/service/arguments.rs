//! Validation of arguments against the input schema of a tool.

use corelane::{Catalog, CatalogError, NoArguments, TaskSupport, Tool};
use corelane_protocol::eras::ClientCapabilities;
use corelane_protocol::model::{CallToolResultWriter, Implementation};
use corelane_protocol::revision::Revision;
use serde_json::{Map, Value, json};

use crate::service::harness::{
    TestBlockingHost, TestRequestHost, call_tool, call_tool_with_hosts, parse_page,
};

fn build(tool: Tool) -> Result<Catalog, CatalogError> {
    Catalog::builder(Implementation::new("test", "1")).tool(tool).build()
}

/// A tool that returns "yes" for every call whose arguments conform to `schema`.
fn catalog_with_schema(schema: &Value) -> Catalog {
    let tool = Tool::new("t").inline_raw(schema.clone(), |_, out| {
        out.text("yes");
        Ok(())
    });
    build(tool).expect("the schema is valid")
}

/// The error text for the model if `arguments` are rejected; `None` if they are accepted.
fn validation_error(catalog: &Catalog, arguments: &Value) -> Option<String> {
    let params = json!({ "name": "t", "arguments": arguments }).to_string();
    let legacy = call_tool(catalog, Revision::V2025_06_18, &params);
    let result = call_tool(catalog, Revision::LATEST, &params).expect("a result with isError");
    let text = result["content"][0]["text"].as_str().expect("a block of text").to_owned();
    if result.get("isError").is_none() {
        assert_eq!(text, "yes");
        assert!(legacy.is_ok());
        return None;
    }
    let error = legacy.expect_err("a JSON-RPC error before 2025-11-25");
    assert_eq!(error.code, -32602);
    Some(text)
}

#[test]
fn simple_schema_is_enforced_and_names_argument() {
    let catalog = catalog_with_schema(&json!({
        "type": "object",
        "properties": {
            "count": { "type": "integer", "minimum": 1 },
            "mode": { "enum": ["fast", "safe"] },
        },
        "required": ["count"],
        "additionalProperties": false,
    }));
    assert_eq!(validation_error(&catalog, &json!({ "count": 1, "mode": "safe" })), None);
    for (arguments, name) in [
        (json!({}), "`count`"),
        (json!({ "count": 0 }), "`count`"),
        (json!({ "count": "1" }), "`count`"),
        (json!({ "count": 1, "mode": "slow" }), "`mode`"),
        (json!({ "count": 1, "more": 1 }), "`more`"),
    ] {
        let text = validation_error(&catalog, &arguments).unwrap();
        assert!(text.contains(name), "{text}");
    }
}

#[test]
fn complex_schema_is_enforced() {
    let catalog = catalog_with_schema(&json!({
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
        assert_eq!(validation_error(&catalog, &arguments), None, "{arguments}");
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
        assert!(validation_error(&catalog, &arguments).is_some(), "{arguments}");
    }
    let result = call_tool(&catalog, Revision::LATEST, r#"{"name":"t"}"#).unwrap();
    assert_eq!(result["isError"], true, "absent arguments are an empty object");
}

/// A scan of the arguments for each required one would take more than ten minutes.
#[test]
fn many_required_arguments_are_looked_up() {
    let names: Vec<_> = (0..100_000).map(|index| format!("a{index}")).collect();
    // Without `minProperties`, another validator would be used.
    let catalog = catalog_with_schema(
        &json!({ "type": "object", "minProperties": 1, "required": names.clone() }),
    );
    let mut arguments: Map<String, Value> =
        names.into_iter().rev().map(|name| (name, json!(1))).collect();
    assert_eq!(validation_error(&catalog, &arguments.clone().into()), None);
    arguments.swap_remove("a50000");
    arguments.insert("other".to_owned(), json!(1));
    let text = validation_error(&catalog, &arguments.into()).unwrap();
    assert!(text.contains("a50000"), "{}", text.len());
}

#[test]
fn schema_attributes_of_type_are_enforced() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Bounded {
        #[schemars(range(min = 1, max = 3))]
        count: u32,
    }
    let tool =
        Tool::new("t").inline_writer(|Bounded { count }, out: &mut CallToolResultWriter<'_>, _| {
            assert!((1..=3).contains(&count));
            out.text("yes");
            Ok(())
        });
    let catalog = build(tool).unwrap();
    assert_eq!(validation_error(&catalog, &json!({ "count": 3 })), None);
    assert_eq!(
        validation_error(&catalog, &json!({ "count": 4 })).unwrap(),
        "tool `t`: argument `count` must be at most 3, received 4"
    );
}

#[test]
fn schema_format_is_not_enforced() {
    let property = json!({ "type": "string", "format": "email", "pattern": "." });
    let catalog =
        catalog_with_schema(&json!({ "type": "object", "properties": { "to": property } }));
    assert_eq!(validation_error(&catalog, &json!({ "to": "unknown" })), None);
}

#[test]
fn excessive_pattern_backtracking_rejects_argument() {
    let property = json!({ "type": "string", "pattern": "^(a+)+(?=b)$" });
    let catalog =
        catalog_with_schema(&json!({ "type": "object", "properties": { "a": property } }));
    assert!(validation_error(&catalog, &json!({ "a": "a".repeat(40) })).is_some());
}

#[test]
fn invalid_schema_is_rejected_by_catalog_builder() {
    for property in [
        json!({ "type": "strange" }),
        json!({ "pattern": "(" }),
        json!({ "minLength": -1 }),
        json!({ "$ref": "https://example.com/schema.json" }),
        json!({ "$ref": "file:///etc/passwd" }),
        json!({ "$ref": "#/$defs/missing" }),
        json!({ "type": "number", "x-mcp-header": "Region" }),
        json!({ "type": "string", "x-mcp-header": "two words" }),
    ] {
        let schema = json!({ "type": "object", "properties": { "a": property } });
        let tool = Tool::new("t").inline_raw(schema, |_, _| Ok(()));
        let error = build(tool).unwrap_err();
        assert!(
            matches!(error, CatalogError::InvalidEntry { kind: "tool", .. }),
            "{property}: {error}"
        );
    }
}

#[test]
fn schema_is_listed_unchanged() {
    let text = concat!(
        r#"{"type":"object","x-other":1,"properties":{"b":{"type":"string","x-mcp-header":"B"},"#,
        r#""a":{"format":"z"}},"$defs":{"y":{},"x":{}}}"#,
    );
    let schema: Value = serde_json::from_str(text).unwrap();
    let catalog = catalog_with_schema(&schema);
    let page = catalog.tools_page(Revision::LATEST, None).unwrap();
    assert!(String::from_utf8_lossy(page).contains(text), "with keys in the same order");
    let headers = catalog.tool("t").unwrap().parameter_headers();
    assert_eq!((headers.len(), &*headers[0].name, &*headers[0].path[0]), (1, "B", "b"));
}

#[test]
fn tool_rejects_client_without_required_capability() {
    let build = || {
        let tool = Tool::new("t").require(ClientCapabilities::SAMPLING);
        build(tool.inline_writer(|_: NoArguments, out: &mut CallToolResultWriter<'_>, _| {
            out.text("yes");
            Ok(())
        }))
    };
    let catalog = build().unwrap();
    let params = r#"{"name":"t"}"#;
    for revision in Revision::ALL {
        match call_tool(&catalog, revision, params) {
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
        let host = TestRequestHost::default();
        host.capabilities.set(ClientCapabilities::SAMPLING);
        let pool = TestBlockingHost::default();
        let result =
            call_tool_with_hosts(&catalog, revision, params, host.into(), pool.into()).unwrap();
        assert_eq!(result.get("isError"), None);
    }
}

#[test]
fn task_support_is_listed_in_2025_11_25() {
    for (support, word) in [
        (TaskSupport::Forbidden, None),
        (TaskSupport::Optional, Some("optional")),
        (TaskSupport::Required, Some("required")),
    ] {
        let tool = Tool::new("t").task_support(support);
        let tool = tool.inline_writer(|_: NoArguments, _: &mut CallToolResultWriter<'_>, _| Ok(()));
        let catalog = build(tool).unwrap();
        for revision in Revision::ALL {
            let page = parse_page(revision, "tools/list", catalog.tools_page(revision, None));
            let support = page["tools"][0].get("execution").map(|entry| &entry["taskSupport"]);
            let word = word.filter(|_| revision == Revision::V2025_11_25).map(Value::from);
            assert_eq!(support, word.as_ref());
        }
    }
}

#[test]
fn argument_error_names_tool_field_and_values() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Typed {
        a: i64,
        b: Option<i64>,
    }
    let schema = json!({
        "type": "object",
        "properties": { "a": { "type": "integer" }, "b": { "type": ["integer", "null"] } },
        "required": ["a"],
        "additionalProperties": false,
    });
    let mut full = schema.clone();
    full["properties"]["a"]["not"] = json!({ "const": 7 });
    let typed = Tool::new("add").inline(|Typed { a, b }, _| (a + b.unwrap_or(0)).to_string());
    let checked = |schema| Tool::new("add").input_schema(schema).inline(|_: Value, _| "ok");
    let cases = [
        (json!({ "a": "x" }), "argument `a` must be an integer, received string \"x\""),
        (json!({ "b": 1 }), "argument `a` is missing"),
        (json!({ "a": 1, "c": 2 }), "argument `c` is unknown; allowed are `a`, `b`"),
    ];
    for tool in [typed, checked(schema), checked(full)] {
        let catalog = Catalog::builder(Implementation::new("arguments", "1")).tool(tool);
        let catalog = catalog.build().unwrap();
        for (arguments, problem) in &cases {
            let params = json!({ "name": "add", "arguments": arguments }).to_string();
            let result = call_tool(&catalog, Revision::LATEST, &params).unwrap();
            let text = result["content"][0]["text"].as_str().unwrap();
            assert_eq!(text, format!("tool `add`: {problem}"));
        }
    }
}
