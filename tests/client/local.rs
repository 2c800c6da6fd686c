//! The client of a server in the same thread.

use std::cell::Cell;
use std::rc::Rc;

use corelane::client::{ClientErrorKind, EraPreference, LocalClient};
use corelane::model::{ElicitAction, ElicitRequest, ElicitResult, Field, Form, Implementation};
use corelane::testing::block_on;
use corelane::{Catalog, HandlerError, NoArguments, RequestContext, Server, Tool};
use serde_json::json;

use super::ERAS;

/// A server whose tool `ask` elicits a name.
fn server() -> Server {
    let ask = Tool::new("ask").local(|_: NoArguments, context: RequestContext| async move {
        let form = Form::new().field(Field::text("name").required());
        let answer = context.elicit("name", ElicitRequest::form("Who?", form)).await?;
        Ok::<_, HandlerError>(answer.content["name"].to_string())
    });
    let wait = Tool::new("wait").local(|_: NoArguments, context: RequestContext| async move {
        context.cancelled().await;
        "cancelled"
    });
    let greet = Tool::new("greet").inline(|_: NoArguments, _| "hello");
    let catalog = Catalog::builder(Implementation::new("local", "1.0.0"));
    Server::builder(catalog.tool(ask).tool(wait).tool(greet).build().expect("a valid catalog"))
}

#[test]
fn local_call_in_every_era() {
    for era in ERAS {
        let client = LocalClient::builder(server().connect().unwrap()).era(era).build();
        let result = block_on(client.call_tool("greet", &json!({}))).unwrap();
        assert_eq!(result.text(), "hello", "{era:?}");
        if let EraPreference::Legacy(revision) = era {
            assert_eq!(client.server().unwrap().revision, revision);
        }
        let error = block_on(client.call_tool("none", &json!({}))).unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::Rpc { code: -32602 });
    }
}

#[test]
fn local_elicitation_is_answered() {
    for era in [EraPreference::Auto, EraPreference::Legacy(corelane::model::Revision::V2025_11_25)]
    {
        let client = LocalClient::builder(server().connect().unwrap());
        let client = client.era(era).on_elicitation(|request| async move {
            assert_eq!(request.message, "Who?");
            let content = [("name".to_owned(), json!("Ada"))].into_iter().collect();
            Ok(ElicitResult { action: ElicitAction::Accept, content })
        });
        let client = client.build();
        let result = block_on(client.call_tool("ask", &json!({}))).unwrap();
        assert_eq!(result.text(), "\"Ada\"", "{era:?}");
    }
}

#[test]
fn dropped_local_request_is_cancelled() {
    let client = LocalClient::new(server().connect().unwrap());
    let (waiting, other) = (client.call_tool("wait", &json!({})), client.clone());
    let ended = Rc::new(Cell::new(false));
    block_on(async {
        let mut waiting = Box::pin(waiting);
        std::future::poll_fn(|context| {
            assert!(waiting.as_mut().poll(context).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
        drop(waiting);
        ended.set(other.call_tool("greet", &json!({})).await.unwrap().text() == "hello");
    });
    assert!(ended.get());
}

#[test]
fn local_request_after_drain_is_closed() {
    let connection = server().connect().unwrap();
    let handle = connection.handle();
    let client = LocalClient::new(connection);
    handle.drain();
    let failed = block_on(client.call_tool("greet", &json!({}))).unwrap_err();
    assert_eq!(failed.kind(), ClientErrorKind::Closed, "{failed}");
}
