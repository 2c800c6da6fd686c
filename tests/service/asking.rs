//! A local handler asks its client, and every way of not answering ends it in its own way.

use std::rc::Rc;
use std::sync::Arc;

use corelane::protocol::era::{ClientCapabilities, LogLevel};
use corelane::protocol::error::Error;
use corelane::protocol::message::{Action, Elicitation, Field, Form, ServerInfo};
use corelane::protocol::revision::Revision;
use corelane::service::{Catalog, Live, NoArguments, Outcome, Tool};
use serde_json::{Value, json};

use crate::stage::{Stage, call_watched};

fn catalog() -> Catalog {
    let tool = Tool::new("greet").local(|_: NoArguments, live: Live| async move {
        let form = Form::new().field(Field::text("name").required());
        let asked = live.elicit("name", Elicitation::form("Who are you?", form)).await?;
        if asked.action != Action::Accept {
            return Ok(Outcome::text("As you like."));
        }
        let name = asked.content["name"].as_str().unwrap_or_default().to_owned();
        live.log(LogLevel::Info, Some("greet"), json!({ "name": name }));
        Ok(Outcome::text(format!("Hello, {name}!")))
    });
    Catalog::builder(ServerInfo::new("test", "1"))
        .tool(tool)
        .build()
        .expect("what it offers is good")
}

fn ask(stage: &Rc<Stage>, revision: Revision) -> Result<Value, Error> {
    let params = r#"{"name":"greet"}"#;
    call_watched(&catalog(), revision, params, Rc::clone(stage), Arc::default())
}

fn stage_with(answer: Value) -> Rc<Stage> {
    let stage = Stage::default();
    stage.capabilities.set(ClientCapabilities::ELICITATION_FORM);
    stage.answers.borrow_mut().insert("name".to_owned(), answer);
    Rc::new(stage)
}

#[test]
fn a_handler_goes_on_with_what_it_was_answered() {
    let stage = stage_with(json!({ "action": "accept", "content": { "name": "Ada" } }));
    let result = ask(&stage, Revision::LATEST).unwrap();
    assert_eq!(result["content"][0]["text"], "Hello, Ada!");
    assert_eq!(*stage.logged.borrow(), [(LogLevel::Info, json!({ "name": "Ada" }))]);
    let result = ask(&stage_with(json!({ "action": "decline" })), Revision::LATEST).unwrap();
    assert_eq!(result["content"][0]["text"], "As you like.");
}

#[test]
fn a_client_that_cannot_answer_is_not_asked() {
    for revision in Revision::ALL {
        match ask(&Rc::default(), revision) {
            Err(error) => assert_eq!((error.code, revision.is_modern()), (-32021, true)),
            Ok(result) => {
                assert_eq!((&result["isError"], revision.is_modern()), (&json!(true), false));
            }
        }
    }
}

#[test]
fn an_answer_that_never_comes_is_a_failure_that_a_model_reads() {
    let stage = Stage::default();
    stage.capabilities.set(ClientCapabilities::ELICITATION_FORM);
    let result = ask(&Rc::new(stage), Revision::LATEST).unwrap();
    assert_eq!(result["isError"], true);
}

#[test]
fn an_answer_that_is_none_is_an_invalid_param() {
    for answer in [json!("accept"), json!({}), json!({ "action": "perhaps" })] {
        let error = ask(&stage_with(answer), Revision::LATEST).unwrap_err();
        assert_eq!(error.code, -32602);
    }
}
