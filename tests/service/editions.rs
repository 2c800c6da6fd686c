//! An edition follows an edition: what stays is shared, what changes is told.

use corelane::protocol::era::Method;
use corelane::protocol::message::{Answer, ServerInfo};
use corelane::protocol::revision::Revision;
use corelane::service::{
    Catalog, Changes, Features, NoArguments, Prompt, Resource, ResourceTemplate, Tool,
};
use serde_json::{Value, json};

use crate::stage::{call, listed};

fn tool(name: &str, says: &'static str) -> Tool {
    Tool::new(name).inline(move |_: NoArguments, answer: &mut Answer<'_>| {
        answer.text(says);
        Ok(())
    })
}

fn first() -> Catalog {
    Catalog::builder(ServerInfo::new("test", "1"))
        .tools([tool("a", "first"), tool("b", "first")])
        .prompt(Prompt::new("p").inline(|_, _| Ok(())))
        .resource(Resource::new("test://r", "r").text("r"))
        .template(ResourceTemplate::new("test://{t}", "t").text("t"))
        .page_length_max(2)
        .build()
        .expect("what it offers is good")
}

fn names(catalog: &Catalog) -> Vec<&str> {
    catalog.tools().map(Tool::name).collect()
}

#[test]
fn an_edition_has_what_was_there_and_what_came_and_not_what_went() {
    let first = first();
    let second = first.edit().tool(tool("c", "second")).remove_tool("a").build().unwrap();
    assert_eq!(names(&second), ["b", "c"]);
    assert_eq!(names(&first), ["a", "b"], "an edition that is offered stays as it is");
    assert!(second.tool("a").is_none());
    let told = call(&second, Revision::LATEST, r#"{"name":"b"}"#).unwrap();
    assert_eq!(told["content"][0]["text"], "first");
    assert_eq!(second.info(), first.info());
    assert!(second.prompt("p").is_some() && second.resource("test://r").is_some());
}

#[test]
fn changes_are_told_by_list() {
    let first = first();
    let changes = |edit: fn(corelane::CatalogBuilder) -> corelane::CatalogBuilder| {
        edit(first.edit()).build().unwrap().changes_from(&first)
    };
    assert!(changes(|catalog| catalog).is_empty());
    let tools = Changes { tools: true, ..Changes::default() };
    assert_eq!(changes(|catalog| catalog.tool(tool("c", ""))), tools);
    assert_eq!(changes(|catalog| catalog.remove_tool("b")), tools);
    let prompts = Changes { prompts: true, ..Changes::default() };
    assert_eq!(changes(|catalog| catalog.remove_prompt("p")), prompts);
    let resources = Changes { resources: true, ..Changes::default() };
    assert_eq!(changes(|catalog| catalog.remove_resource("test://r")), resources);
    assert_eq!(changes(|catalog| catalog.remove_template("test://{t}")), resources);
    assert!(changes(|catalog| catalog.remove_tool("nobody").remove_prompt("x")).is_empty());
}

#[test]
fn a_new_handler_behind_the_same_words_changes_no_list() {
    let first = first();
    let second = first.edit().remove_tool("b").tool(tool("b", "second")).build().unwrap();
    assert!(second.changes_from(&first).is_empty());
    let told = call(&second, Revision::LATEST, r#"{"name":"b"}"#).unwrap();
    assert_eq!(told["content"][0]["text"], "second");
}

#[test]
fn lists_that_an_edition_leaves_alone_are_shared_byte_for_byte() {
    let first = first();
    let second = first.edit().tool(tool("c", "")).build().unwrap();
    for revision in Revision::ALL {
        let page = |catalog: &Catalog| catalog.prompts_page(revision, None).unwrap().as_ptr();
        assert_eq!(page(&first), page(&second));
    }
}

#[test]
fn a_cursor_leads_through_the_edition_that_issued_it_and_no_other() {
    let longer = first().edit().tools([tool("c", ""), tool("d", "")]).build().unwrap();
    let page = listed(Revision::LATEST, "tools/list", longer.tools_page(Revision::LATEST, None));
    let cursor = page["nextCursor"].as_str();
    assert!(longer.tools_page(Revision::LATEST, cursor).is_ok());
    let other = longer.edit().remove_tool("a").build().unwrap();
    assert_eq!(other.tools_page(Revision::LATEST, cursor).unwrap_err().code, -32602);
    assert!(longer.prompts_page(Revision::LATEST, cursor).is_err(), "a cursor of another list");
}

#[test]
fn a_bad_edition_leaves_the_good_one() {
    let first = first();
    assert!(first.edit().tool(tool("a", "twice")).build().is_err());
    assert!(first.edit().tool(tool("white space", "")).build().is_err());
    assert_eq!(names(&first), ["a", "b"]);
}

#[test]
fn an_entry_that_is_replaced_keeps_its_place_and_the_cursors_of_clients() {
    let resource = |name: &str| Resource::new(format!("test://{name}"), name);
    let first = Catalog::builder(ServerInfo::new("test", "1"))
        .resources(["a", "b", "c"].map(|name| resource(name).text("old")))
        .page_length_max(2)
        .build()
        .unwrap();
    let (revision, list) = (Revision::LATEST, "resources/list");
    let page = listed(revision, list, first.resources_page(revision, None));
    let cursor = page["nextCursor"].as_str().unwrap();
    let other = ["b", "c"].map(|name| resource(name).title("New").text("new"));
    let second = first.edit().replace_resources(other).build().unwrap();
    let page = listed(revision, list, second.resources_page(revision, Some(cursor)));
    assert_eq!(page["resources"][0]["name"], "c");
    assert_eq!(page["resources"][0]["title"], "New");
    let gone = ["test://a", "test://c", "test://x"].map(String::from).into();
    let third = second.edit().remove_resources(&gone).build().unwrap();
    let third = third.edit().replace_resources([resource("d").text("new")]).build().unwrap();
    assert_eq!(third.resources().map(Resource::name).collect::<Vec<_>>(), ["b", "d"]);
}

#[test]
fn what_is_offered_is_what_is_there_or_was_reserved() {
    let empty = Catalog::builder(ServerInfo::new("test", "1")).build().unwrap();
    assert!(empty.serves(Method::ToolsList).is_ok());
    for method in [
        Method::PromptsGet,
        Method::ResourcesRead,
        Method::CompletionComplete,
        Method::ResourcesSubscribe,
        Method::TasksGet,
    ] {
        assert_eq!(empty.serves(method).unwrap_err().code, -32601, "{method:?}");
    }
    let full = first();
    assert!(full.serves(Method::PromptsList).is_ok() && full.serves(Method::ResourcesRead).is_ok());
    let reserved = empty.edit().offer(Features::PROMPTS).build().unwrap();
    assert_eq!(
        offered(&reserved),
        json!({
            "logging": {},
            "prompts": { "listChanged": true },
            "tools": { "listChanged": true },
        })
    );
}

#[test]
fn a_list_that_becomes_empty_is_still_offered() {
    let full = first();
    let emptied = full.edit().remove_prompt("p").build().unwrap();
    assert!(emptied.serves(Method::PromptsList).is_ok() && emptied.has(Features::LIST_CHANGED));
    let again = emptied.edit().build().unwrap();
    assert_eq!(offered(&again), offered(&full));
    let given_up = again.edit().withhold(Features::PROMPTS).build().unwrap();
    assert_eq!(given_up.serves(Method::PromptsList).unwrap_err().code, -32601);
}

#[test]
fn changes_and_log_messages_are_announced_by_whoever_does_nothing_for_it() {
    let plain = Catalog::builder(ServerInfo::new("test", "1")).build().unwrap();
    let said = json!({ "logging": {}, "tools": { "listChanged": true } });
    assert_eq!(offered(&plain), said);
    let resource = Resource::new("test://r", "r").text("Here.");
    let full = plain.edit().resource(resource).build().unwrap();
    let resources = json!({ "listChanged": true, "subscribe": true });
    assert_eq!(offered(&full)["resources"], resources);
    assert!(full.serves(Method::ResourcesSubscribe).is_ok());
    assert!(full.serves(Method::LoggingSetLevel).is_ok());
}

#[test]
fn what_was_withheld_is_not_offered_until_it_is_offered_again() {
    let resource = Resource::new("test://r", "r").text("Here.");
    let quiet = Features::LIST_CHANGED | Features::LOGGING | Features::SUBSCRIPTIONS;
    let full = Catalog::builder(ServerInfo::new("test", "1")).resource(resource);
    let silent = full.withhold(quiet | Features::RESOURCES).build().unwrap();
    assert_eq!(offered(&silent), json!({ "resources": {}, "tools": {} }));
    for method in [Method::ResourcesSubscribe, Method::LoggingSetLevel] {
        assert_eq!(silent.serves(method).unwrap_err().code, -32601, "{method:?}");
    }
    let loud = silent.edit().offer(Features::LOGGING).build().unwrap();
    assert_eq!(offered(&loud), json!({ "logging": {}, "resources": {}, "tools": {} }));
}

/// The capabilities that a modern client is told of.
fn offered(catalog: &Catalog) -> Value {
    let mut body: Value = serde_json::from_slice(catalog.discover_body()).expect("JSON");
    body["capabilities"].take()
}
