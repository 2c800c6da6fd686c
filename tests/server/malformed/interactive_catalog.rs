//! The catalog of tools, prompts and resources that send client requests and log messages.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use corelane::internal::demo;
use corelane::{
    CallToolResult, Catalog, ClientRequestError, GetPromptResult, NoArguments, Prompt,
    ReadResourceResult, RequestContext, Resource, Tool,
};
use corelane_protocol::eras::LoggingLevel;
use corelane_protocol::model::{
    Content, CreateMessageRequest, ElicitRequest, ElicitResult, Field, Form, Implementation, Role,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// The demo catalog with these tools, one prompt and one resource.
pub(crate) fn catalog() -> Catalog {
    let demo =
        demo::catalog(Implementation::new("askers", "1.0.0")).expect("demo catalog is valid");
    let catalog =
        demo.to_builder().tool(ask_name()).tool(ask_twice()).tool(ask_both()).tool(ask_model());
    let catalog = catalog.tool(open_page()).tool(ask_and_drop()).tool(log()).tool(log_blocking());
    catalog.prompt(invitation()).resource(diary()).build().expect("catalog is valid")
}

/// Arguments of `ask_name`.
#[derive(Deserialize, JsonSchema)]
struct GreetingArguments {
    /// How to greet.
    #[serde(default)]
    word: String,
}

fn name_form(message: &str) -> ElicitRequest {
    ElicitRequest::form(message, Form::new().field(Field::text("name").required()))
}

fn elicited_name(elicited: &ElicitResult) -> String {
    elicited.content.get("name").and_then(Value::as_str).unwrap_or("stranger").to_owned()
}

/// Elicits a name and returns a greeting.
fn ask_name() -> Tool {
    Tool::new("ask_name").local(|GreetingArguments { word }, live: RequestContext| async move {
        let elicited = live.elicit("user_name", name_form("Who are you?")).await?;
        Ok(CallToolResult::text(format!("{word}Hello, {}!", elicited_name(&elicited))))
    })
}

/// Elicits twice; the second message contains the first response.
fn ask_twice() -> Tool {
    Tool::new("ask_twice").local(|_: NoArguments, live: RequestContext| async move {
        let first = elicited_name(&live.elicit("first", name_form("Your name?")).await?);
        let message = format!("And your friend's, {first}?");
        let second = elicited_name(&live.elicit("second", name_form(&message)).await?);
        Ok(CallToolResult::text(format!("{first} and {second}")))
    })
}

/// Sends two client requests concurrently.
fn ask_both() -> Tool {
    Tool::new("ask_both").local(|_: NoArguments, live: RequestContext| async move {
        let mut name = pin!(live.elicit("name", name_form("Your name?")));
        let mut roots = pin!(live.list_roots("roots"));
        let (mut named, mut rooted) = (None, None);
        poll_fn(|context| {
            if named.is_none()
                && let Poll::Ready(reply) = name.as_mut().poll(context)
            {
                named = Some(reply);
            }
            if rooted.is_none()
                && let Poll::Ready(reply) = roots.as_mut().poll(context)
            {
                rooted = Some(reply);
            }
            if named.is_some() && rooted.is_some() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        let (Some(named), Some(rooted)) = (named, rooted) else {
            unreachable!("polled until both")
        };
        let (named, rooted) = (named?, rooted?);
        Ok(CallToolResult::text(format!(
            "{} works in {} roots",
            elicited_name(&named),
            rooted.len()
        )))
    })
}

/// Requests sampling.
fn ask_model() -> Tool {
    Tool::new("ask_model").local(|_: NoArguments, live: RequestContext| async move {
        let sampling = CreateMessageRequest::new(100)
            .message(Role::User, Content::text("The capital of France?"));
        let sampled = live.create_message("capital", sampling).await?;
        Ok(CallToolResult::text(sampled.text().unwrap_or("nothing").to_owned()))
    })
}

/// Elicits by URL.
fn open_page() -> Tool {
    Tool::new("open_page").local(|_: NoArguments, live: RequestContext| async move {
        let page = ElicitRequest::url("Please sign in", "https://example.com/sign-in");
        let elicited = live.elicit("page", page).await?;
        Ok(CallToolResult::text(elicited.action.as_str()))
    })
}

/// Elicits and drops the request before a response can arrive.
fn ask_and_drop() -> Tool {
    Tool::new("ask_in_vain").local(|_: NoArguments, live: RequestContext| async move {
        let mut request = Box::pin(live.elicit("user_name", name_form("Quickly?")));
        let polled = poll_fn(|context| Poll::Ready(request.as_mut().poll(context))).await;
        assert!(polled.is_pending());
        live.sleep(Duration::from_millis(1)).await?;
        drop(request);
        Ok(CallToolResult::text("never mind"))
    })
}

/// Logs one message at each level.
fn log() -> Tool {
    Tool::new("log").local(|_: NoArguments, live: RequestContext| async move {
        for (level, name) in LoggingLevel::ALL {
            live.log(level, Some("tests"), json!({"level": name}));
        }
        Ok(CallToolResult::text("logged"))
    })
}

/// Logs one message at each level from a blocking handler.
fn log_blocking() -> Tool {
    Tool::new("log_blocking").blocking(|_: NoArguments, worker| {
        for (level, name) in LoggingLevel::ALL {
            worker.log(level, None, name);
        }
        Ok(CallToolResult::text("logged"))
    })
}

/// A prompt that elicits its context.
fn invitation() -> Prompt {
    Prompt::new("invitation").local(|_, live: RequestContext| async move {
        let context = live.elicit("context", name_form("To whom?")).await?;
        Ok(GetPromptResult::default().user(format!("Write to {}.", elicited_name(&context))))
    })
}

/// A resource that elicits before it is read.
fn diary() -> Resource {
    Resource::new("test://diary", "diary").local(|read, live: RequestContext| async move {
        let name = match live.elicit("who", name_form("Who reads?")).await {
            Ok(elicited) => elicited_name(&elicited),
            Err(ClientRequestError::MissingCapability(_)) => "a stranger".to_owned(),
            Err(error) => return Err(error.into()),
        };
        Ok(ReadResourceResult::text(read.uri().to_owned(), format!("Not for {name}.")))
    })
}
