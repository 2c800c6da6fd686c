//! Constant results of a catalog, in every revision: lists, `initialize` and `server/discover`.

use std::sync::Arc;

use corelane::internal::demo;
use corelane::model::{Icon, IconTheme};
use corelane::{Catalog, CatalogBuilder, CatalogError, NoArguments, Tool, ToolAnnotations};
use corelane_protocol::model::{CallToolResultWriter, Implementation};
use corelane_protocol::revision::Revision;
use corelane_test_support::mcp_schema::check_message;
use serde_json::{Value, json};

fn builder() -> CatalogBuilder {
    Catalog::builder(Implementation::new("test", "1.0.0"))
}

fn noop_tool(name: impl Into<Box<str>>) -> Tool {
    Tool::new(name).inline_writer(|_: NoArguments, _: &mut CallToolResultWriter<'_>, _| Ok(()))
}

/// A tool with every member of a definition.
fn full_tool() -> Tool {
    Tool::new("full/tool_1.x-y")
        .title("Full")
        .description("Has every member.")
        .annotations(ToolAnnotations { read_only_hint: Some(true), ..ToolAnnotations::default() })
        .icon(Icon {
            src: "https://example.com/icon.png".into(),
            mime_type: Some("image/png".into()),
            sizes: vec!["48x48".into()],
            theme: Some(IconTheme::Dark),
        })
        .meta("example.com/color", "blue")
        .output_schema(json!({ "type": "object", "properties": { "any": true } }))
        .inline_writer(|_: NoArguments, _: &mut CallToolResultWriter<'_>, _| Ok(()))
}

/// The body as the result of `method`, validated against the schema of the revision.
fn validated_result(revision: Revision, method: &str, body: &[u8]) -> Value {
    let result: Value = serde_json::from_slice(body).expect("a body is JSON");
    let message = json!({ "jsonrpc": "2.0", "id": 7, "result": result.clone() });
    check_message(revision.as_str(), &message, Some(method))
        .expect("the result conforms to the schema");
    result
}

fn tools_page(catalog: &Catalog, revision: Revision, cursor: Option<&str>) -> Value {
    let page = catalog.tools_page(revision, cursor).expect("the cursor was issued");
    validated_result(revision, "tools/list", page)
}

fn member_names(tool: &Value) -> Vec<&str> {
    tool.as_object().expect("a tool is an object").keys().map(String::as_str).collect()
}

#[test]
fn catalog_is_send_and_sync() {
    fn assert_send_and_sync<T: Send + Sync>(_: &T) {}
    assert_send_and_sync(&Arc::new(builder().tool(full_tool()).build().unwrap()));
}

#[test]
fn tools_list_writes_members_of_each_revision() {
    let catalog = builder().tool(full_tool()).build().unwrap();
    let tools =
        Revision::ALL.map(|revision| tools_page(&catalog, revision, None)["tools"][0].clone());
    let [first, second, third, fourth, modern] = &tools;
    assert_eq!(member_names(first), ["name", "description", "inputSchema"]);
    assert_eq!(member_names(second), ["name", "description", "inputSchema", "annotations"]);
    assert_eq!(
        second["annotations"],
        json!({ "title": "Full", "readOnlyHint": true }),
        "2025-03-26 has no other member for the title"
    );
    let third_members =
        ["name", "title", "description", "inputSchema", "outputSchema", "annotations", "_meta"];
    assert_eq!(member_names(third), third_members);
    assert_eq!(third["annotations"], json!({ "readOnlyHint": true }));
    assert_eq!(fourth["icons"][0]["theme"], "dark");
    assert_eq!(fourth, modern);
}

#[test]
fn tools_list_is_paginated_by_cursor() {
    let names: Vec<String> = (0..250).map(|count| format!("tool-{count}")).collect();
    let tools = names.iter().map(|name| noop_tool(name.as_str()));
    let catalog = builder().tools(tools).build().unwrap();
    for revision in Revision::ALL {
        let (mut cursor, mut listed, mut lengths) = (None::<String>, Vec::new(), Vec::new());
        loop {
            let page = tools_page(&catalog, revision, cursor.as_deref());
            let tools = page["tools"].as_array().unwrap();
            lengths.push(tools.len());
            listed.extend(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
            let Some(next) = page.get("nextCursor") else { break };
            cursor = Some(next.as_str().unwrap().to_owned());
        }
        assert_eq!(lengths, [100, 100, 50]);
        assert_eq!(listed, names);
    }
}

#[test]
fn unknown_cursor_is_rejected() {
    let catalog = demo::catalog(Implementation::new("demo", "1")).unwrap();
    for cursor in ["", "1", "0", "ffffffff-1", "\u{0}"] {
        let error = catalog.tools_page(Revision::LATEST, Some(cursor)).unwrap_err();
        assert_eq!(error.code, -32602);
    }
}

#[test]
fn modern_lists_have_cache_ttl() {
    let catalog = builder().cache_ttl(std::time::Duration::from_secs(2)).build().unwrap();
    for revision in Revision::ALL {
        let page = tools_page(&catalog, revision, None);
        assert_eq!(page["tools"], json!([]));
        let hint = revision.is_modern().then(|| json!(2000));
        assert_eq!(page.get("ttlMs"), hint.as_ref());
        assert_eq!(page.get("cacheScope").is_some(), revision.is_modern());
        assert_eq!(page.get("resultType").is_some(), revision.is_modern());
    }
}

#[test]
fn initialize_negotiates_requested_revision() {
    let catalog = builder().instructions("Use it well.").tool(full_tool()).build().unwrap();
    for revision in Revision::ALL {
        let negotiated = revision.min(Revision::LATEST_LEGACY);
        let body = validated_result(negotiated, "initialize", catalog.initialize_result(revision));
        assert_eq!(body["protocolVersion"], negotiated.as_str());
        assert_eq!(body["serverInfo"], json!({ "name": "test", "version": "1.0.0" }));
        assert_eq!(body["instructions"], "Use it well.");
        assert!(body["capabilities"]["tools"].is_object());
    }
}

#[test]
fn discover_lists_revisions_and_capabilities() {
    let catalog = builder().tool(full_tool()).build().unwrap();
    let body = validated_result(Revision::LATEST, "server/discover", catalog.discover_result());
    let versions = body["supportedVersions"].as_array().unwrap();
    assert_eq!(versions.len(), Revision::ALL.len());
    assert!(versions.contains(&json!(Revision::LATEST.as_str())));
    assert!(body["capabilities"]["tools"].is_object());
    assert_eq!(body["resultType"], "complete");
    assert_eq!(body["ttlMs"], 300_000);
    assert_eq!(body["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "test");
}

#[test]
fn invalid_tool_is_rejected_by_name() {
    for name in ["", "white space", "umlaut-ä", &"x".repeat(129), "new\nline"] {
        let error = builder().tool(noop_tool(name)).build().unwrap_err();
        assert!(matches!(error, CatalogError::InvalidEntry { .. }), "{name}: {error}");
    }
    assert!(builder().tool(noop_tool("x".repeat(128))).build().is_ok());

    let twice = [full_tool(), full_tool()];
    let error = builder().tools(twice).build().unwrap_err();
    assert_eq!(error.to_string(), "two tools are called `full/tool_1.x-y`; names must be unique");

    let tool =
        Tool::new("text").inline_writer(|_: String, _: &mut CallToolResultWriter<'_>, _| Ok(()));
    let error = builder().tool(tool).build().unwrap_err();
    assert_eq!(error.to_string(), "tool `text`: the input schema must have type `object`");

    let error = builder().page_size(0).build().unwrap_err();
    assert_eq!(error, CatalogError::ZeroPageSize);
}

#[test]
fn tool_is_found_by_exact_name() {
    let catalog = demo::catalog(Implementation::new("demo", "1")).unwrap();
    for tool in catalog.tools() {
        assert_eq!(catalog.tool(tool.name()).map(Tool::name), Some(tool.name()));
    }
    for name in ["", "ech", "echo ", "Echo", "subtract"] {
        assert!(catalog.tool(name).is_none());
    }
}

#[test]
fn demo_tools_are_listed_in_every_revision() {
    let catalog = demo::catalog(Implementation::new("demo", "1")).unwrap();
    for revision in Revision::ALL {
        let page = tools_page(&catalog, revision, None);
        let tools = page["tools"].as_array().unwrap();
        let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
        assert_eq!(names, ["echo", "add", "slow", "hash"]);
        assert_eq!(page.get("nextCursor"), None);
        assert_eq!(tools[0]["inputSchema"]["required"], json!(["message"]));
        assert_eq!(tools[2]["inputSchema"]["properties"]["steps"]["maximum"], 1000);
        let output = revision.dialect().structured_content.then(|| json!("object"));
        assert_eq!(tools[1]["outputSchema"].get("type"), output.as_ref());
    }
}
