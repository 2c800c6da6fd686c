//! Elicitation by a local handler: accepted, declined, unsupported, timed out, invalid.

use std::rc::Rc;
use std::sync::Arc;

use corelane::{CallToolResult, Catalog, NoArguments, RequestContext, Tool};
use corelane_protocol::eras::{ClientCapabilities, LoggingLevel};
use corelane_protocol::error::Error;
use corelane_protocol::model::{ElicitAction, ElicitRequest, Field, Form, Implementation};
use corelane_protocol::revision::Revision;
use serde_json::{Value, json};

use crate::service::harness::{TestRequestHost, call_tool_with_hosts};

fn catalog() -> Catalog {
    let tool = Tool::new("greet").local(|_: NoArguments, ctx: RequestContext| async move {
        let form = Form::new().field(Field::text("name").required());
        let result = ctx.elicit("name", ElicitRequest::form("Who are you?", form)).await?;
        if result.action != ElicitAction::Accept {
            return Ok(CallToolResult::text("As you like."));
        }
        let name = result.content["name"].as_str().unwrap_or_default().to_owned();
        ctx.log(LoggingLevel::Info, Some("greet"), json!({ "name": name }));
        Ok(CallToolResult::text(format!("Hello, {name}!")))
    });
    Catalog::builder(Implementation::new("test", "1"))
        .tool(tool)
        .build()
        .expect("the catalog is valid")
}

fn call_greet(host: &Rc<TestRequestHost>, revision: Revision) -> Result<Value, Error> {
    let params = r#"{"name":"greet"}"#;
    call_tool_with_hosts(&catalog(), revision, params, Rc::clone(host), Arc::default())
}

fn host_with_response(response: Value) -> Rc<TestRequestHost> {
    let host = TestRequestHost::default();
    host.capabilities.set(ClientCapabilities::ELICITATION_FORM);
    host.responses.borrow_mut().insert("name".to_owned(), response);
    Rc::new(host)
}

#[test]
fn elicitation_resumes_handler_with_response() {
    let host = host_with_response(json!({ "action": "accept", "content": { "name": "Ada" } }));
    let result = call_greet(&host, Revision::LATEST).unwrap();
    assert_eq!(result["content"][0]["text"], "Hello, Ada!");
    assert_eq!(*host.logged.borrow(), [(LoggingLevel::Info, json!({ "name": "Ada" }))]);
    let result =
        call_greet(&host_with_response(json!({ "action": "decline" })), Revision::LATEST).unwrap();
    assert_eq!(result["content"][0]["text"], "As you like.");
}

#[test]
fn elicitation_requires_client_capability() {
    for revision in Revision::ALL {
        match call_greet(&Rc::default(), revision) {
            Err(error) => assert_eq!((error.code, revision.is_modern()), (-32021, true)),
            Ok(result) => {
                assert_eq!((&result["isError"], revision.is_modern()), (&json!(true), false));
            }
        }
    }
}

#[test]
fn elicitation_timeout_is_a_tool_error() {
    let host = TestRequestHost::default();
    host.capabilities.set(ClientCapabilities::ELICITATION_FORM);
    let result = call_greet(&Rc::new(host), Revision::LATEST).unwrap();
    assert_eq!(result["isError"], true);
}

#[test]
fn invalid_elicitation_response_is_invalid_params() {
    for response in [json!("accept"), json!({}), json!({ "action": "perhaps" })] {
        let error = call_greet(&host_with_response(response), Revision::LATEST).unwrap_err();
        assert_eq!(error.code, -32602);
    }
}
