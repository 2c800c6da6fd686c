//! Tools of every handler kind.

use std::sync::mpsc;
use std::time::Duration;

use corelane::model::{
    CreateMessageRequest, ElicitAction, ElicitRequest, Field, Form, Implementation, LoggingLevel,
    Role,
};
use corelane::testing::TestServer;
use corelane::{
    CallToolResult, Catalog, CatalogBuilder, HandlerError, NoArguments, RequestContext, Tool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Greet {
    pub(crate) name: String,
}

pub(crate) fn builder() -> CatalogBuilder {
    Catalog::builder(Implementation::new("in-process", "1"))
}

pub(crate) fn catalog(tool: Tool) -> Catalog {
    builder().tool(tool).build().expect("the catalog is valid")
}

pub(crate) fn server(tool: Tool) -> TestServer {
    TestServer::new(catalog(tool)).expect("the server starts")
}

pub(crate) fn greet() -> Tool {
    Tool::new("greet").inline(|Greet { name }, _| format!("Hello, {name}!"))
}

/// Sleeps for a millisecond, twice, with progress and a log message.
pub(crate) fn nap() -> Tool {
    Tool::new("nap").local(|_: NoArguments, ctx| async move {
        for step in 1..=2 {
            ctx.sleep(Duration::from_millis(1)).await?;
            ctx.progress(step.into(), Some(2.0), Some("asleep"));
        }
        ctx.log(LoggingLevel::Debug, Some("nap"), json!({ "steps": 2 }));
        Ok("awake")
    })
}

pub(crate) fn add_up() -> Tool {
    Tool::new("add_up").blocking(|Greet { name }, ctx| {
        ctx.progress(1.0, None, None);
        match name.as_str() {
            "" => Err(HandlerError::tool("the name is empty: pass one")),
            name => Ok(format!("{} bytes", name.len())),
        }
    })
}

/// Asks the user, the model and for the roots of the client.
pub(crate) fn interview() -> Tool {
    Tool::new("interview").local(|_: NoArguments, ctx: RequestContext| async move {
        let form = Form::new().field(Field::text("name").required());
        let name = ctx.elicit("name", ElicitRequest::form("Who are you?", form)).await?;
        if name.action != ElicitAction::Accept {
            return Ok(CallToolResult::text("no name"));
        }
        let prompt = corelane::model::Content::text("A greeting, please.");
        let request = CreateMessageRequest::new(10).message(Role::User, prompt);
        let greeting = ctx.create_message("greeting", request).await?;
        let roots = ctx.list_roots("roots").await?;
        let text = format!("{} {} {}", greeting.model, name.content["name"], roots.len());
        Ok(CallToolResult::text(text).with_meta("example.com/seen", 1))
    })
}

/// A tool that sleeps for an hour and reports whether its sleep was cancelled.
pub(crate) fn sleeper() -> (Tool, mpsc::Receiver<bool>) {
    let (sender, ends) = mpsc::channel();
    let tool = Tool::new("sleeper").local(move |_: NoArguments, ctx| {
        let sender = sender.clone();
        async move {
            let slept = ctx.sleep(Duration::from_hours(1)).await;
            sender.send(slept.is_err()).expect("the test receives");
            Ok("awake")
        }
    });
    (tool, ends)
}

/// A tool that blocks until it is cancelled, and reports its start and its end.
pub(crate) fn busy() -> (Tool, mpsc::Receiver<()>, mpsc::Receiver<()>) {
    let (started, starts) = mpsc::channel();
    let (sender, ends) = mpsc::channel();
    let tool = Tool::new("busy").blocking(move |_: NoArguments, ctx| {
        started.send(()).expect("the test receives");
        while !ctx.is_cancelled() {
            std::thread::yield_now();
        }
        sender.send(()).expect("the test receives");
        "cancelled"
    });
    (tool, starts, ends)
}
