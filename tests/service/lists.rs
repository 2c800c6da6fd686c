//! What a catalog tells about itself, in every revision.

use std::sync::Arc;

use corelane::protocol::message::{Answer, ServerInfo};
use corelane::protocol::revision::Revision;
use corelane::service::{
    Annotations, Catalog, CatalogBuilder, CatalogError, Icon, IconTheme, NoArguments, Tool, demo,
};
use serde_json::{Value, json};

use crate::judge::judge;

fn builder() -> CatalogBuilder {
    Catalog::builder(ServerInfo::new("test", "1.0.0"))
}

/// A tool that does nothing.
fn idle(name: impl Into<Box<str>>) -> Tool {
    Tool::new(name).inline(|_: NoArguments, _: &mut Answer<'_>| Ok(()))
}

/// A tool with everything that can be told about one.
fn full() -> Tool {
    Tool::new("full/tool_1.x-y")
        .title("Full")
        .describe("Tells everything.")
        .annotations(Annotations { read_only: Some(true), ..Annotations::default() })
        .icon(Icon {
            src: "https://example.com/icon.png".into(),
            mime_type: Some("image/png".into()),
            sizes: vec!["48x48".into()],
            theme: Some(IconTheme::Dark),
        })
        .meta("example.com/color", "blue")
        .returns_schema(json!({ "type": "object", "properties": { "any": true } }))
        .inline(|_: NoArguments, _: &mut Answer<'_>| Ok(()))
}

/// The body as the result of `method`, which the revision must know.
fn result(revision: Revision, method: &str, body: &[u8]) -> Value {
    let result: Value = serde_json::from_slice(body).expect("a body is one JSON text");
    let message = json!({ "jsonrpc": "2.0", "id": 7, "result": result.clone() });
    judge(revision.as_str(), &message, Some(method)).expect("the revision knows it");
    result
}

fn page(catalog: &Catalog, revision: Revision, cursor: Option<&str>) -> Value {
    let page = catalog.tools_page(revision, cursor).expect("the cursor was issued");
    result(revision, "tools/list", page)
}

fn members(tool: &Value) -> Vec<&str> {
    tool.as_object().expect("a tool is an object").keys().map(String::as_str).collect()
}

#[test]
fn a_catalog_is_shared_between_shards() {
    fn shared<T: Send + Sync>(_: &T) {}
    shared(&Arc::new(builder().tool(full()).build().unwrap()));
}

#[test]
fn a_tool_is_told_in_the_words_of_each_revision() {
    let catalog = builder().tool(full()).build().unwrap();
    let told = Revision::ALL.map(|revision| page(&catalog, revision, None)["tools"][0].clone());
    let [first, second, third, fourth, modern] = &told;
    assert_eq!(members(first), ["name", "description", "inputSchema"]);
    assert_eq!(members(second), ["name", "description", "inputSchema", "annotations"]);
    assert_eq!(
        second["annotations"],
        json!({ "title": "Full", "readOnlyHint": true }),
        "2025-03-26 has no other place for the title"
    );
    let third_members =
        ["name", "title", "description", "inputSchema", "outputSchema", "annotations", "_meta"];
    assert_eq!(members(third), third_members);
    assert_eq!(third["annotations"], json!({ "readOnlyHint": true }));
    assert_eq!(fourth["icons"][0]["theme"], "dark");
    assert_eq!(fourth, modern);
}

#[test]
fn a_list_is_cut_into_pages_that_lead_from_one_to_the_next() {
    let names: Vec<String> = (0..250).map(|count| format!("tool-{count}")).collect();
    let tools = names.iter().map(|name| idle(name.as_str()));
    let catalog = builder().tools(tools).build().unwrap();
    for revision in Revision::ALL {
        let (mut cursor, mut told, mut lengths) = (None::<String>, Vec::new(), Vec::new());
        loop {
            let page = page(&catalog, revision, cursor.as_deref());
            let tools = page["tools"].as_array().unwrap();
            lengths.push(tools.len());
            told.extend(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
            let Some(next) = page.get("nextCursor") else { break };
            cursor = Some(next.as_str().unwrap().to_owned());
        }
        assert_eq!(lengths, [100, 100, 50]);
        assert_eq!(told, names);
    }
}

#[test]
fn a_cursor_of_nobody_is_refused() {
    let catalog = demo::catalog(ServerInfo::new("demo", "1")).unwrap();
    for cursor in ["", "1", "0", "ffffffff-1", "\u{0}"] {
        let error = catalog.tools_page(Revision::LATEST, Some(cursor)).unwrap_err();
        assert_eq!(error.code, -32602);
    }
}

#[test]
fn modern_lists_say_how_long_they_are_fresh() {
    let catalog = builder().fresh_for(std::time::Duration::from_secs(2)).build().unwrap();
    for revision in Revision::ALL {
        let page = page(&catalog, revision, None);
        assert_eq!(page["tools"], json!([]));
        let hint = revision.is_modern().then(|| json!(2000));
        assert_eq!(page.get("ttlMs"), hint.as_ref());
        assert_eq!(page.get("cacheScope").is_some(), revision.is_modern());
        assert_eq!(page.get("resultType").is_some(), revision.is_modern());
    }
}

#[test]
fn initialize_agrees_on_the_revision_it_is_asked_for() {
    let catalog = builder().instructions("Use it well.").tool(full()).build().unwrap();
    for revision in Revision::ALL {
        let agreed = revision.min(Revision::LATEST_LEGACY);
        let body = result(agreed, "initialize", catalog.initialize_body(revision));
        assert_eq!(body["protocolVersion"], agreed.as_str());
        assert_eq!(body["serverInfo"], json!({ "name": "test", "version": "1.0.0" }));
        assert_eq!(body["instructions"], "Use it well.");
        assert!(body["capabilities"]["tools"].is_object());
    }
}

#[test]
fn discovery_names_every_revision_and_what_is_offered() {
    let catalog = builder().tool(full()).build().unwrap();
    let body = result(Revision::LATEST, "server/discover", catalog.discover_body());
    let versions = body["supportedVersions"].as_array().unwrap();
    assert_eq!(versions.len(), Revision::ALL.len());
    assert!(versions.contains(&json!(Revision::LATEST.as_str())));
    assert!(body["capabilities"]["tools"].is_object());
    assert_eq!(body["resultType"], "complete");
    assert_eq!(body["ttlMs"], 300_000);
    assert_eq!(body["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "test");
}

#[test]
fn a_tool_that_clients_could_not_use_is_refused_by_name() {
    for name in ["", "white space", "umlaut-ä", &"x".repeat(129), "new\nline"] {
        let error = builder().tool(idle(name)).build().unwrap_err();
        assert!(matches!(error, CatalogError::Unfit { .. }), "{name}: {error}");
    }
    assert!(builder().tool(idle("x".repeat(128))).build().is_ok());

    let twice = [full(), full()];
    let error = builder().tools(twice).build().unwrap_err();
    assert_eq!(error.to_string(), "two tools are called `full/tool_1.x-y`; names must be unique");

    let tool = Tool::new("text").inline(|_: String, _: &mut Answer<'_>| Ok(()));
    let error = builder().tool(tool).build().unwrap_err();
    assert!(error.to_string().starts_with("tool `text`: its arguments must be an object"));

    let error = builder().page_length_max(0).build().unwrap_err();
    assert_eq!(error, CatalogError::EmptyPages);
}

#[test]
fn every_tool_is_found_by_its_name_and_no_other() {
    let catalog = demo::catalog(ServerInfo::new("demo", "1")).unwrap();
    for tool in catalog.tools() {
        assert_eq!(catalog.tool(tool.name()).map(Tool::name), Some(tool.name()));
    }
    for name in ["", "ech", "echo ", "Echo", "subtract"] {
        assert!(catalog.tool(name).is_none());
    }
}

#[test]
fn the_demo_tools_are_told_to_every_revision() {
    let catalog = demo::catalog(ServerInfo::new("demo", "1")).unwrap();
    for revision in Revision::ALL {
        let page = page(&catalog, revision, None);
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
