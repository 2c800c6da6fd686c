//! Tools, a prompt and a resource that ask their clients: the catalog of the tests about that.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use corelane::Catalog;
use corelane::protocol::era::LogLevel;
use corelane::protocol::message::{
    Content, Elicitation, Elicited, Field, Form, Role, Sampling, ServerInfo,
};
use corelane::service::{
    AskError, Live, NoArguments, Outcome, Prompt, PromptOutcome, Resource, ResourceContents, Tool,
    demo,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// The demo tools and those that ask.
pub(crate) fn catalog() -> Catalog {
    let demo = demo::catalog(ServerInfo::new("askers", "1.0.0")).expect("demo tools");
    let catalog = demo.edit().tool(ask_name()).tool(ask_twice()).tool(ask_both()).tool(ask_model());
    let catalog = catalog.tool(open_page()).tool(ask_in_vain()).tool(log()).tool(log_blocking());
    catalog.prompt(letter()).resource(diary()).build().expect("tools, a prompt and a resource")
}

/// Whom to ask for.
#[derive(Deserialize, JsonSchema)]
struct Greeting {
    /// How to greet.
    #[serde(default)]
    word: String,
}

fn name_form(message: &str) -> Elicitation {
    Elicitation::form(message, Form::new().field(Field::text("name").required()))
}

fn name_of(elicited: &Elicited) -> String {
    elicited.content.get("name").and_then(Value::as_str).unwrap_or("nobody").to_owned()
}

/// Asks for a name and greets it.
fn ask_name() -> Tool {
    Tool::new("ask_name").local(|Greeting { word }, live: Live| async move {
        let elicited = live.elicit("user_name", name_form("Who are you?")).await?;
        Ok(Outcome::text(format!("{word}Hello, {}!", name_of(&elicited))))
    })
}

/// Asks twice, the second time for something that depends on the first answer.
fn ask_twice() -> Tool {
    Tool::new("ask_twice").local(|_: NoArguments, live: Live| async move {
        let first = name_of(&live.elicit("first", name_form("Your name?")).await?);
        let message = format!("And your friend's, {first}?");
        let second = name_of(&live.elicit("second", name_form(&message)).await?);
        Ok(Outcome::text(format!("{first} and {second}")))
    })
}

/// Asks two questions at once.
fn ask_both() -> Tool {
    Tool::new("ask_both").local(|_: NoArguments, live: Live| async move {
        let mut name = pin!(live.elicit("name", name_form("Your name?")));
        let mut roots = pin!(live.roots("roots"));
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
        let (Some(named), Some(rooted)) = (named, rooted) else { unreachable!("both are there") };
        let (named, rooted) = (named?, rooted?);
        Ok(Outcome::text(format!("{} works in {} roots", name_of(&named), rooted.len())))
    })
}

/// Asks the client's model.
fn ask_model() -> Tool {
    Tool::new("ask_model").local(|_: NoArguments, live: Live| async move {
        let sampling =
            Sampling::new(100).message(Role::User, Content::text("The capital of France?"));
        let sampled = live.sample("capital", sampling).await?;
        Ok(Outcome::text(sampled.text().unwrap_or("nothing").to_owned()))
    })
}

/// Sends the user to an address.
fn open_page() -> Tool {
    Tool::new("open_page").local(|_: NoArguments, live: Live| async move {
        let page = Elicitation::url("Please sign in", "https://example.com/sign-in");
        let elicited = live.elicit("page", page).await?;
        Ok(Outcome::text(elicited.action.as_str()))
    })
}

/// Asks, and gives up before anybody can answer.
fn ask_in_vain() -> Tool {
    Tool::new("ask_in_vain").local(|_: NoArguments, live: Live| async move {
        let mut question = Box::pin(live.elicit("user_name", name_form("Quickly?")));
        let asked = poll_fn(|context| Poll::Ready(question.as_mut().poll(context))).await;
        assert!(asked.is_pending());
        live.sleep(Duration::from_millis(1)).await?;
        drop(question);
        Ok(Outcome::text("never mind"))
    })
}

/// Logs at each level.
fn log() -> Tool {
    Tool::new("log").local(|_: NoArguments, live: Live| async move {
        for (level, name) in LogLevel::ALL {
            live.log(level, Some("tests"), json!({"level": name}));
        }
        Ok(Outcome::text("logged"))
    })
}

/// The same from the thread pool.
fn log_blocking() -> Tool {
    Tool::new("log_blocking").blocking(|_: NoArguments, worker| {
        for (level, name) in LogLevel::ALL {
            worker.log(level, None, name);
        }
        Ok(Outcome::text("logged"))
    })
}

/// A prompt that asks for its context.
fn letter() -> Prompt {
    Prompt::new("letter").local(|_, live: Live| async move {
        let context = live.elicit("context", name_form("To whom?")).await?;
        Ok(PromptOutcome::default().user(format!("Write to {}.", name_of(&context))))
    })
}

/// A resource that only opens after a question.
fn diary() -> Resource {
    Resource::new("test://diary", "diary").local(|read, live: Live| async move {
        let name = match live.elicit("who", name_form("Who reads?")).await {
            Ok(elicited) => name_of(&elicited),
            Err(AskError::Unsupported(_)) => "a stranger".to_owned(),
            Err(error) => return Err(error.into()),
        };
        Ok(ResourceContents::text(read.uri().to_owned(), format!("Not for {name}.")))
    })
}
