//! Catalog updates: sharing of unchanged entries, list changes and enabled features.

use corelane::internal::ListChanges;
use corelane::{Catalog, Features, NoArguments, Prompt, Resource, ResourceTemplate, Tool};
use corelane_protocol::eras::Method;
use corelane_protocol::model::{CallToolResultWriter, Implementation};
use corelane_protocol::revision::Revision;
use serde_json::{Value, json};

use crate::service::harness::{call_tool, parse_page};

fn tool_returning(name: &str, text: &'static str) -> Tool {
    Tool::new(name).inline_writer(move |_: NoArguments, out: &mut CallToolResultWriter<'_>, _| {
        out.text(text);
        Ok(())
    })
}

fn first_version() -> Catalog {
    Catalog::builder(Implementation::new("test", "1"))
        .tools([tool_returning("a", "first"), tool_returning("b", "first")])
        .prompt(Prompt::new("p").inline(|_, _, _| Ok(())))
        .resource(Resource::new("test://r", "r").text("r"))
        .template(ResourceTemplate::new("test://{t}", "t").text("t"))
        .page_size(2)
        .build()
        .expect("the catalog is valid")
}

fn tool_names(catalog: &Catalog) -> Vec<&str> {
    catalog.tools().map(Tool::name).collect()
}

#[test]
fn update_adds_and_removes_entries() {
    let first = first_version();
    let second =
        first.to_builder().tool(tool_returning("c", "second")).remove_tool("a").build().unwrap();
    assert_eq!(tool_names(&second), ["b", "c"]);
    assert_eq!(tool_names(&first), ["a", "b"], "the previous version is unchanged");
    assert!(second.tool("a").is_none());
    let result = call_tool(&second, Revision::LATEST, r#"{"name":"b"}"#).unwrap();
    assert_eq!(result["content"][0]["text"], "first");
    assert_eq!(second.server_info(), first.server_info());
    assert!(second.prompt("p").is_some() && second.resource("test://r").is_some());
}

#[test]
fn changes_are_reported_per_list() {
    let first = first_version();
    let changes = |update: fn(corelane::CatalogBuilder) -> corelane::CatalogBuilder| {
        update(first.to_builder()).build().unwrap().changes_from(&first)
    };
    assert!(changes(|catalog| catalog).is_empty());
    let tools = ListChanges { tools: true, ..ListChanges::default() };
    assert_eq!(changes(|catalog| catalog.tool(tool_returning("c", ""))), tools);
    assert_eq!(changes(|catalog| catalog.remove_tool("b")), tools);
    let prompts = ListChanges { prompts: true, ..ListChanges::default() };
    assert_eq!(changes(|catalog| catalog.remove_prompt("p")), prompts);
    let resources = ListChanges { resources: true, ..ListChanges::default() };
    assert_eq!(changes(|catalog| catalog.remove_resource("test://r")), resources);
    assert_eq!(changes(|catalog| catalog.remove_template("test://{t}")), resources);
    assert!(changes(|catalog| catalog.remove_tool("missing").remove_prompt("x")).is_empty());
}

#[test]
fn replaced_handler_changes_no_list() {
    let first = first_version();
    let second =
        first.to_builder().remove_tool("b").tool(tool_returning("b", "second")).build().unwrap();
    assert!(second.changes_from(&first).is_empty());
    let result = call_tool(&second, Revision::LATEST, r#"{"name":"b"}"#).unwrap();
    assert_eq!(result["content"][0]["text"], "second");
}

#[test]
fn unchanged_lists_share_encoded_pages() {
    let first = first_version();
    let second = first.to_builder().tool(tool_returning("c", "")).build().unwrap();
    for revision in Revision::ALL {
        let page = |catalog: &Catalog| catalog.prompts_page(revision, None).unwrap().as_ptr();
        assert_eq!(page(&first), page(&second));
    }
}

#[test]
fn cursor_is_valid_only_for_its_catalog_version() {
    let longer = first_version()
        .to_builder()
        .tools([tool_returning("c", ""), tool_returning("d", "")])
        .build()
        .unwrap();
    let page =
        parse_page(Revision::LATEST, "tools/list", longer.tools_page(Revision::LATEST, None));
    let cursor = page["nextCursor"].as_str();
    assert!(longer.tools_page(Revision::LATEST, cursor).is_ok());
    let other = longer.to_builder().remove_tool("a").build().unwrap();
    assert_eq!(other.tools_page(Revision::LATEST, cursor).unwrap_err().code, -32602);
    assert!(longer.prompts_page(Revision::LATEST, cursor).is_err(), "a cursor of another list");
}

#[test]
fn failed_update_keeps_previous_version() {
    let first = first_version();
    assert!(first.to_builder().tool(tool_returning("a", "twice")).build().is_err());
    assert!(first.to_builder().tool(tool_returning("white space", "")).build().is_err());
    assert_eq!(tool_names(&first), ["a", "b"]);
}

#[test]
fn replaced_resource_keeps_position_and_cursors() {
    let resource = |name: &str| Resource::new(format!("test://{name}"), name);
    let first = Catalog::builder(Implementation::new("test", "1"))
        .resources(["a", "b", "c"].map(|name| resource(name).text("old")))
        .page_size(2)
        .build()
        .unwrap();
    let (revision, list) = (Revision::LATEST, "resources/list");
    let page = parse_page(revision, list, first.resources_page(revision, None));
    let cursor = page["nextCursor"].as_str().unwrap();
    let other = ["b", "c"].map(|name| resource(name).title("New").text("new"));
    let second = first.to_builder().replace_resources(other).build().unwrap();
    let page = parse_page(revision, list, second.resources_page(revision, Some(cursor)));
    assert_eq!(page["resources"][0]["name"], "c");
    assert_eq!(page["resources"][0]["title"], "New");
    let removed = ["test://a", "test://c", "test://x"].map(String::from).into();
    let third = second.to_builder().remove_resources(&removed).build().unwrap();
    let third = third.to_builder().replace_resources([resource("d").text("new")]).build().unwrap();
    assert_eq!(third.resources().map(Resource::name).collect::<Vec<_>>(), ["b", "d"]);
}

#[test]
fn features_are_registered_or_enabled() {
    let empty = Catalog::builder(Implementation::new("test", "1")).build().unwrap();
    assert!(empty.check_method(Method::ToolsList).is_ok());
    for method in [
        Method::PromptsGet,
        Method::ResourcesRead,
        Method::CompletionComplete,
        Method::ResourcesSubscribe,
        Method::TasksGet,
    ] {
        assert_eq!(empty.check_method(method).unwrap_err().code, -32601, "{method:?}");
    }
    let full = first_version();
    assert!(
        full.check_method(Method::PromptsList).is_ok()
            && full.check_method(Method::ResourcesRead).is_ok()
    );
    let enabled = empty.to_builder().enable_features(Features::PROMPTS).build().unwrap();
    assert_eq!(
        server_capabilities(&enabled),
        json!({
            "logging": {},
            "prompts": { "listChanged": true },
            "tools": { "listChanged": true },
        })
    );
}

#[test]
fn emptied_list_keeps_its_feature() {
    let full = first_version();
    let emptied = full.to_builder().remove_prompt("p").build().unwrap();
    assert!(
        emptied.check_method(Method::PromptsList).is_ok()
            && emptied.has_features(Features::LIST_CHANGED)
    );
    let again = emptied.to_builder().build().unwrap();
    assert_eq!(server_capabilities(&again), server_capabilities(&full));
    let disabled = again.to_builder().disable_features(Features::PROMPTS).build().unwrap();
    assert_eq!(disabled.check_method(Method::PromptsList).unwrap_err().code, -32601);
}

#[test]
fn logging_and_list_changed_are_enabled_by_default() {
    let plain = Catalog::builder(Implementation::new("test", "1")).build().unwrap();
    let expected = json!({ "logging": {}, "tools": { "listChanged": true } });
    assert_eq!(server_capabilities(&plain), expected);
    let resource = Resource::new("test://r", "r").text("Here.");
    let full = plain.to_builder().resource(resource).build().unwrap();
    let resources = json!({ "listChanged": true, "subscribe": true });
    assert_eq!(server_capabilities(&full)["resources"], resources);
    assert!(full.check_method(Method::ResourcesSubscribe).is_ok());
    assert!(full.check_method(Method::LoggingSetLevel).is_ok());
}

#[test]
fn disabled_features_stay_disabled_until_enabled() {
    let resource = Resource::new("test://r", "r").text("Here.");
    let notifications = Features::LIST_CHANGED | Features::LOGGING | Features::SUBSCRIPTIONS;
    let full = Catalog::builder(Implementation::new("test", "1")).resource(resource);
    let silent = full.disable_features(notifications | Features::RESOURCES).build().unwrap();
    assert_eq!(server_capabilities(&silent), json!({ "resources": {}, "tools": {} }));
    for method in [Method::ResourcesSubscribe, Method::LoggingSetLevel] {
        assert_eq!(silent.check_method(method).unwrap_err().code, -32601, "{method:?}");
    }
    let logging = silent.to_builder().enable_features(Features::LOGGING).build().unwrap();
    assert_eq!(
        server_capabilities(&logging),
        json!({ "logging": {}, "resources": {}, "tools": {} })
    );
}

/// The server capabilities in the result of `server/discover`.
fn server_capabilities(catalog: &Catalog) -> Value {
    let mut body: Value = serde_json::from_slice(catalog.discover_result()).expect("JSON");
    body["capabilities"].take()
}
