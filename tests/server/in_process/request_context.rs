//! What handlers of every kind read of their client and of what the host attaches, and what inline
//! handlers send before their results.

use corelane::model::{Implementation, LoggingLevel, ResourceContents, Revision, Role};
use corelane::testing::{TestServer, block_on};
use corelane::{
    BlockingContext, Catalog, ClientImplementation, Extensions, GetPromptResult, InlineContext,
    NoArguments, Prompt, PromptArgument, RequestContext, Resource, ResourceTemplate, Server, Tool,
};
use corelane_test_support::messages::{call, initialize, modern, notification, result_text};
use serde_json::{Value, json};

use crate::in_process::tools::{builder, server};

/// The user that a middleware has authenticated.
#[derive(Clone)]
struct User(&'static str);

fn describe(client: Option<ClientImplementation<'_>>, user: Option<&User>) -> String {
    let name = client.map(|client| client.name.to_owned());
    format!("{name:?} {:?}", user.map(|User(name)| *name))
}

fn catalog() -> Catalog {
    let inline =
        |ctx: &InlineContext<'_>| describe(ctx.client_implementation(), ctx.extension::<User>());
    let local = |ctx: RequestContext| async move {
        describe(ctx.client_implementation(), ctx.extension::<User>())
    };
    let blocking =
        |ctx: &BlockingContext| describe(ctx.client_implementation(), ctx.extension::<User>());
    let city = PromptArgument::new("city").completer(|ctx| {
        let user = ctx.request().extensions();
        let user = user.as_ref().and_then(|values| values.get());
        ctx.complete_from([describe(ctx.client_implementation(), user)])
    });
    builder()
        .tool(Tool::new("inline").inline(move |_: NoArguments, ctx| inline(ctx)))
        .tool(Tool::new("local").local(move |_: NoArguments, ctx| local(ctx)))
        .tool(Tool::new("blocking").blocking(move |_: NoArguments, ctx| blocking(&ctx)))
        .prompt(Prompt::new("inline").argument(city).inline(move |_, out, ctx| {
            out.text(Role::User, &inline(ctx));
            Ok(())
        }))
        .prompt(Prompt::new("local").local(move |_, ctx| async move {
            Ok(GetPromptResult::default().user(local(ctx).await))
        }))
        .resource(Resource::new("test://inline", "inline").inline(move |read, out, ctx| {
            out.text(read.uri(), None, &inline(ctx));
            Ok(())
        }))
        .template(ResourceTemplate::new("test://local/{id}", "local").local(
            move |read, ctx| async move {
                Ok(ResourceContents::text(read.uri().to_owned(), local(ctx).await))
            },
        ))
        .build()
        .expect("the catalog is valid")
}

/// Returns what handlers of every kind and method read.
fn facts(server: &TestServer) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut texts = Vec::new();
    for tool in ["inline", "local", "blocking"] {
        texts.push(block_on(server.call_tool(tool, json!({}))).expect("a result").text());
    }
    for prompt in ["inline", "local"] {
        let prompt = block_on(server.get_prompt(prompt, json!({}))).expect("a prompt");
        texts.push(text(&prompt["messages"][0]["content"]["text"]));
    }
    for uri in ["test://inline", "test://local/1"] {
        let contents = block_on(server.read_resource(uri)).expect("contents");
        texts.push(text(&contents["contents"][0]["text"]));
    }
    let params = json!({
        "ref": { "type": "ref/prompt", "name": "inline" },
        "argument": { "name": "city", "value": "" },
    });
    let completion = block_on(server.request("completion/complete", params)).expect("values");
    texts.push(text(&completion["completion"]["values"][0]));
    texts
}

#[test]
fn every_handler_reads_client_and_extension() {
    for revision in [Revision::LATEST, Revision::LATEST_LEGACY] {
        let server = TestServer::new(catalog()).expect("it starts").revision(revision);
        assert_eq!(facts(&server), [r#"Some("test") None"#; 8], "{revision}");
        let server = server.extension(User("Ada"));
        assert_eq!(facts(&server), [r#"Some("test") Some("Ada")"#; 8], "{revision}");
    }
}

#[test]
fn extensions_are_those_of_the_request() {
    let mut connection = Server::builder(catalog()).connect().expect("it starts");
    let user = |name| {
        let mut extensions = Extensions::new();
        extensions.insert(User(name));
        extensions
    };
    for name in ["Ada", "Grace"] {
        connection.set_extensions(user(name));
        for tool in ["inline", "local"] {
            connection.send(modern(call(tool, tool, json!({}))).to_string());
            // The local handler has its own when it runs.
            let response = block_on(connection.receive()).expect("a response");
            let response = serde_json::from_slice(response).expect("JSON");
            assert_eq!(result_text(&response), format!(r#"Some("test") Some({name:?})"#));
        }
    }
}

#[test]
fn long_client_info_is_cut() {
    let mut connection = Server::builder(catalog()).connect().expect("it starts");
    let mut handshake = initialize(0, "2025-11-25");
    handshake["params"]["clientInfo"]["name"] = json!("n".repeat(5_000));
    let call = call(1, "local", json!({}));
    for message in [handshake, notification("notifications/initialized"), call] {
        connection.send(message.to_string());
    }
    block_on(connection.receive()).expect("a response");
    let response = block_on(connection.receive()).expect("a response");
    let response = serde_json::from_slice(response).expect("JSON");
    assert_eq!(result_text(&response), format!("Some({:?}) None", "n".repeat(200)));
}

#[test]
fn handler_reads_trace_context() {
    let trace = Tool::new("trace").inline(|_: NoArguments, ctx| {
        let trace = ctx.request().trace_context();
        format!("{:?} {:?} {:?}", trace.traceparent, trace.tracestate, trace.baggage)
    });
    let server = server(trace);
    let call = server.call("trace").meta("traceparent", json!("00-1-2-01"));
    let result = block_on(async { call.meta("baggage", json!("a=b")).await });
    assert_eq!(result.expect("a result").text(), r#"Some("00-1-2-01") None Some("a=b")"#);
}

/// A tool, a prompt and a resource that send progress and a log message before their results.
fn talkative() -> Catalog {
    fn emit(ctx: &InlineContext<'_>) {
        ctx.progress(1.0, Some(2.0), Some("half"));
        ctx.log(LoggingLevel::Info, Some("test"), json!({ "step": 1 }));
        ctx.progress(2.0, Some(2.0), None);
    }
    let info = Implementation::new("talkative", "1");
    Catalog::builder(info)
        .tool(Tool::new("tool").inline(|_: NoArguments, ctx| {
            emit(ctx);
            "done"
        }))
        .tool(Tool::new("failing").inline(|_: NoArguments, ctx| {
            emit(ctx);
            Err::<(), _>(corelane::HandlerError::tool("too late"))
        }))
        .prompt(Prompt::new("prompt").inline(|_, out, ctx| {
            emit(ctx);
            out.text(Role::User, "done");
            Ok(())
        }))
        .resource(Resource::new("test://resource", "resource").inline(|read, out, ctx| {
            emit(ctx);
            out.text(read.uri(), None, "done");
            Ok(())
        }))
        .build()
        .expect("the catalog is valid")
}

#[test]
fn inline_progress_and_log_precede_the_result() {
    for revision in [Revision::LATEST, Revision::LATEST_LEGACY] {
        let server = TestServer::new(talkative()).expect("it starts").revision(revision);
        for (tool, text, is_error) in [("tool", "done", false), ("failing", "too late", true)] {
            let result = block_on(server.call_tool(tool, json!({}))).expect("a result");
            assert_eq!((result.text().as_str(), result.is_error()), (text, is_error), "{revision}");
            let progress: Vec<_> =
                result.progress().iter().map(|it| it["progress"].as_f64()).collect();
            assert_eq!(progress, [Some(1.0), Some(2.0)], "{revision}");
            assert_eq!(result.progress()[0]["message"], "half", "{revision}");
            let [message] = result.log_messages()[..] else { panic!("one message") };
            assert_eq!((&message["level"], &message["data"]["step"]), (&json!("info"), &json!(1)));
        }
        let prompt = block_on(server.get_prompt("prompt", json!({}))).expect("a prompt");
        assert_eq!(prompt["messages"][0]["content"]["text"], "done", "{revision}");
        let contents = block_on(server.read_resource("test://resource")).expect("contents");
        assert_eq!(contents["contents"][0]["text"], "done", "{revision}");
    }
}

#[test]
fn inline_handler_without_listeners_responds_at_once() {
    let mut connection = Server::builder(talkative()).connect().expect("it starts");
    connection.send(modern(call(1, "tool", json!({}))).to_string());
    // Neither a progress token nor a log level was sent: the result is written in place.
    let response = connection.try_receive().expect("a response");
    let response = serde_json::from_slice(response).expect("JSON");
    assert_eq!(result_text(&response), "done");
    assert_eq!(connection.try_receive(), None);
}
