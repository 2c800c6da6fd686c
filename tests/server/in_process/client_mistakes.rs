//! Mistakes of a client are no internal errors, and errors of a program read like sentences.

use corelane::model::{Revision, Role};
use corelane::testing::{TestError, TestServer, block_on};
use corelane::{
    CallToolResult, Catalog, GetPromptResult, HandlerError, NoArguments, OrInvalid, Prompt,
    PromptArgument, ReadContext, ReadResourceResult, Resource, ResourceTemplate, Server, Tool,
};
use serde_json::{Value, json};

use crate::in_process::tools::builder;

/// Returns the name of the user in a URI.
fn find_user(read: &ReadContext<'_>) -> Result<&'static str, HandlerError> {
    let id = read.variable("id").unwrap_or_default();
    let id: usize = id.parse().or_invalid("id must be a number")?;
    ["Ada", "Grace"].get(id).copied().or_not_found()
}

/// Templates of each kind of handler.
fn catalog() -> Catalog {
    let contents = |read: &ReadContext<'_>| {
        Ok::<_, HandlerError>(ReadResourceResult::text(read.uri(), find_user(read)?))
    };
    let inline = ResourceTemplate::new("inline://{id}", "inline").inline(|read, contents, _| {
        contents.text(read.uri(), None, find_user(read)?);
        Ok(())
    });
    let local = ResourceTemplate::new("local://{id}", "local")
        .local(move |read, _| async move { contents(&read) });
    let blocking = ResourceTemplate::new("blocking://{id}", "blocking")
        .blocking(move |read, _| contents(&read));
    let count = PromptArgument::new("count").required();
    let prompt = Prompt::new("repeat").argument(count).inline(|arguments, out, _| {
        let count: usize = arguments.text("count").parse().or_invalid("count must be a number")?;
        out.text(Role::User, &"again ".repeat(count));
        Ok(())
    });
    let missing = Prompt::new("missing")
        .local(|_, _| async { Err::<GetPromptResult, _>(HandlerError::not_found()) });
    let absent = Tool::new("absent")
        .inline(|_: NoArguments, _| Err::<CallToolResult, _>(HandlerError::not_found()));
    let catalog = builder().template(inline).template(local).template(blocking);
    catalog.prompt(prompt).prompt(missing).tool(absent).build().expect("valid")
}

fn server(revision: Revision) -> TestServer {
    TestServer::new(catalog()).expect("it starts").revision(revision)
}

#[test]
fn variable_that_does_not_parse_is_invalid_params() {
    for revision in [Revision::LATEST, Revision::LATEST_LEGACY] {
        let server = server(revision);
        for scheme in ["inline", "local", "blocking"] {
            let read = |id: &str| block_on(server.read_resource(&format!("{scheme}://{id}")));
            let error = read("first").expect_err("it is no number");
            assert_eq!(error.code(), Some(-32602), "{scheme}: {error}");
            let text = error.to_string();
            assert!(text.contains("id must be a number: invalid digit"), "{text}");
            assert_eq!(read("1").expect("contents")["contents"][0]["text"], "Grace");
        }
    }
}

#[test]
fn handler_without_match_is_an_unknown_resource() {
    for (revision, code) in [(Revision::LATEST, -32602), (Revision::LATEST_LEGACY, -32002)] {
        let server = server(revision);
        for scheme in ["inline", "local", "blocking"] {
            let uri = format!("{scheme}://7");
            let error = block_on(server.read_resource(&uri)).expect_err("there is no such user");
            let TestError::Rpc { data, .. } = &error else { panic!("{error}") };
            assert_eq!((error.code(), &data["uri"]), (Some(code), &Value::from(uri)), "{error}");
        }
    }
}

#[test]
fn prompt_and_tool_report_client_mistakes() {
    let server = server(Revision::LATEST);
    for (prompt, arguments) in [("repeat", json!({"count": "x"})), ("missing", json!({}))] {
        let error = block_on(server.get_prompt(prompt, arguments)).expect_err("a mistake");
        assert_eq!(error.code(), Some(-32602), "{prompt}: {error}");
    }
    let result = block_on(server.call_tool("absent", json!({}))).expect("a result");
    assert_eq!((result.is_error(), result.text().as_str()), (true, "not found"));
}

#[test]
fn failed_handler_shows_its_cause() {
    let broken = Resource::new("test://broken", "broken")
        .inline(|_, _, _| Err(std::io::Error::other("disk on fire").into()));
    let catalog = builder().resource(broken).build().expect("valid");
    let server = TestServer::new(catalog).expect("it starts");
    let error = block_on(server.read_resource("test://broken")).expect_err("it fails");
    assert!(error.to_string().contains("disk on fire"), "{error}");
}

#[test]
fn start_error_names_call_and_address() {
    let catalog = || builder().build().expect("valid");
    let unresolved = [
        ("Server::http(\"127.0.0.1\")", Server::builder(catalog()).http("127.0.0.1").start()),
        ("Server::tcp(\"no port\")", Server::builder(catalog()).tcp("no port").start()),
    ];
    for (call, started) in unresolved {
        let error = started.expect_err("there is no port");
        assert!(error.to_string().starts_with(call), "{error}");
        assert_eq!(format!("{error:?}"), error.to_string());
    }
    let taken = Server::builder(catalog()).http("127.0.0.1:0").start().expect("it starts");
    let address = taken.http_address().expect("it listens");
    let error = Server::builder(catalog()).http(address).start().expect_err("it is in use");
    assert!(
        format!("{error:?}").starts_with(&format!("cannot listen on {address}: ")),
        "{error:?}"
    );
}
