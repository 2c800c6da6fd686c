//! Requests of the client for tests besides calls, and its answers to those of the server.

use std::cell::Cell;
use std::rc::Rc;

use corelane::model::{Revision, Role};
use corelane::testing::{TestServer, block_on};
use corelane::{Prompt, PromptArgument, Resource};
use serde_json::json;

use crate::in_process::tools::{builder, greet, interview, nap, server};

fn answering_server(revision: Revision, asked: &Rc<Cell<u32>>) -> TestServer {
    let (of_model, of_roots) = (Rc::clone(asked), Rc::clone(asked));
    server(interview())
        .revision(revision)
        .on_elicitation(|params| {
            assert_eq!(params["message"], "Who are you?");
            json!({ "action": "accept", "content": { "name": "Ada" } })
        })
        .on_sampling(move |params| {
            of_model.set(of_model.get() + 1);
            assert_eq!(params["maxTokens"], 10);
            let content = json!({ "type": "text", "text": "Good morning" });
            json!({ "role": "assistant", "model": "polite", "content": content })
        })
        .on_roots(move |_| {
            of_roots.set(of_roots.get() + 1);
            json!({ "roots": [{ "uri": "file:///a" }, { "uri": "file:///b" }] })
        })
}

#[test]
fn answers_reach_handler_in_both_eras() {
    for revision in [Revision::LATEST, Revision::LATEST_LEGACY] {
        let asked = Rc::default();
        let server = answering_server(revision, &asked);
        let result = block_on(server.call_tool("interview", json!({}))).expect("a result");
        assert_eq!((result.text().as_str(), asked.get()), ("polite \"Ada\" 2", 2), "{revision}");
        assert_eq!(result.meta("example.com/seen"), Some(&json!(1)));
    }
}

#[test]
fn declined_elicitation_is_a_result() {
    for revision in [Revision::LATEST, Revision::V2025_06_18] {
        let server = server(interview()).revision(revision);
        let server = server.on_elicitation(|_| json!({ "action": "decline" }));
        let result = block_on(server.call_tool("interview", json!({}))).expect("a result");
        assert_eq!(result.text(), "no name", "{revision}");
    }
}

#[test]
fn missing_answer_is_an_undeclared_capability() {
    let error = block_on(server(interview()).call_tool("interview", json!({})));
    assert_eq!(error.expect_err("a capability is missing").code(), Some(-32021));
    let legacy = server(interview()).revision(Revision::LATEST_LEGACY);
    let result = block_on(legacy.call_tool("interview", json!({}))).expect("a result");
    assert!(result.is_error(), "{}", result.value());
}

#[test]
fn lists_resources_and_prompts_are_read() {
    let review = Prompt::new("review").argument(PromptArgument::new("code").required()).inline(
        |arguments, out, _| {
            out.text(Role::User, &format!("Review {}", arguments.text("code")));
            Ok(())
        },
    );
    let greeting = Resource::new("test://greeting", "greeting").text("Hello!");
    let catalog = builder().page_size(1).tool(greet()).tool(nap()).prompt(review);
    let catalog = catalog.resource(greeting).build().expect("the catalog is valid");
    let server = TestServer::new(catalog).expect("it starts");
    let tools = block_on(server.list_tools()).expect("a list");
    let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str()).collect();
    assert_eq!(names, [Some("greet"), Some("nap")]);
    let contents = block_on(server.read_resource("test://greeting")).expect("contents");
    assert_eq!(contents["contents"][0]["text"], "Hello!");
    let prompt = block_on(server.get_prompt("review", json!({ "code": "x" }))).expect("a prompt");
    assert_eq!(prompt["messages"][0]["content"]["text"], "Review x");
    assert!(block_on(server.get_prompt("review", json!({}))).is_err());
    assert!(block_on(server.read_resource("test://unknown")).is_err());
}

#[test]
fn catalog_update_precedes_the_next_request() {
    let server = server(greet());
    server.handle().update_catalog(|catalog| catalog.tool(nap())).expect("it is valid");
    assert_eq!(block_on(server.list_tools()).expect("a list").len(), 2);
}

#[test]
fn list_change_is_a_notification_without_request() {
    let server = server(greet()).revision(Revision::LATEST_LEGACY);
    block_on(server.list_tools()).expect("a list");
    server.handle().update_catalog(|catalog| catalog.tool(nap())).expect("it is valid");
    let notifications = server.take_notifications();
    assert_eq!(notifications.len(), 1);
    assert_eq!(notifications[0]["method"], "notifications/tools/list_changed");
    assert_eq!(block_on(server.list_tools()).expect("a list").len(), 2);
}
