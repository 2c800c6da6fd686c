//! Principals that the host attaches to requests are their callers, without a token verifier.

use std::time::Duration;

use corelane::auth::Principal;
use corelane::model::{ElicitRequest, Field, Form};
use corelane::testing::{TestServer, block_on};
use corelane::{
    InProcessConnection, NoArguments, Options, RequestContext, Server, TaskSupport, Tool,
};
use corelane_test_support::messages::modern;
use http::Extensions;
use serde_json::{Value, json};

use crate::in_process::tools::{builder, catalog, greet};

/// Returns the id of the caller.
fn whoami() -> Tool {
    Tool::new("whoami")
        .inline(|_: NoArguments, ctx| ctx.principal().map_or("unknown", Principal::id).to_owned())
}

fn deploy() -> Tool {
    Tool::new("deploy").require_scope("deploy").inline(|_: NoArguments, _| "deployed")
}

/// Attaches a principal to the next requests of a connection.
fn become_caller(connection: &mut InProcessConnection, id: &str) {
    let mut extensions = Extensions::new();
    extensions.insert(Principal::new(id));
    connection.set_extensions(extensions);
}

#[expect(clippy::needless_pass_by_value, reason = "callers pass a literal")]
fn request(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

/// Sends a request of 2026-07-28 and returns its response.
fn exchange(connection: &mut InProcessConnection, request: Value) -> Value {
    let mut request = modern(request);
    request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({
        "elicitation": {"form": {}},
        "extensions": {"io.modelcontextprotocol/tasks": {}},
    });
    connection.send(request.to_string());
    let response = block_on(connection.receive()).expect("the server runs");
    serde_json::from_slice(response).expect("it is JSON")
}

#[test]
fn principal_of_test_is_the_caller() {
    let catalog = builder().tool(whoami()).tool(deploy()).build().expect("valid");
    let server = TestServer::new(catalog).expect("it starts");
    let server = server.principal(Principal::new("ada").with_scopes(["deploy"]));
    assert_eq!(block_on(server.call_tool("whoami", json!({}))).expect("a result").text(), "ada");
    assert_eq!(
        block_on(server.call_tool("deploy", json!({}))).expect("a result").text(),
        "deployed"
    );
}

#[test]
fn caller_without_scope_is_refused() {
    for principal in [Some(Principal::new("bob").with_scopes(["read"])), None] {
        let catalog = builder().tool(whoami()).tool(deploy()).build().expect("valid");
        let server = TestServer::new(catalog).expect("it starts");
        let server = match principal {
            Some(principal) => server.principal(principal),
            None => server,
        };
        let error = block_on(server.call_tool("deploy", json!({}))).expect_err("no scope");
        assert_eq!(error.code(), Some(-32011), "{error}");
        // Lists have only what the caller may call.
        let tools = block_on(server.list_tools()).expect("a list");
        assert_eq!(tools.len(), 1, "{tools:?}");
        assert_eq!(tools[0]["name"], "whoami");
    }
}

#[test]
fn rules_apply_to_attached_principal() {
    let mut options = Options::default();
    options.auth.rules = vec!["tools/call greet tier=admin scope=greet".to_owned()];
    options.auth.scope_implies = vec!["all greet".to_owned()];
    options.auth.audit = vec!["greet".to_owned()];
    let call = |principal: Option<Principal>| {
        let server = Server::builder(catalog(greet())).options(options.clone());
        let server = TestServer::with(server).expect("rules need no verifier");
        let server = match principal {
            Some(principal) => server.principal(principal),
            None => server,
        };
        block_on(server.call_tool("greet", json!({ "name": "Ada" })))
    };
    let admin = Principal::new("root").with_tier("admin").with_scopes(["all"]);
    assert_eq!(call(Some(admin)).expect("a result").text(), "Hello, Ada!");
    for refused in [None, Some(Principal::new("bob").with_scopes(["greet"]))] {
        let error = call(refused).expect_err("the tier is too low");
        assert_eq!(error.code(), Some(-32011), "{error}");
    }
}

#[test]
fn principal_of_each_request_is_its_caller() {
    let mut connection = Server::builder(catalog(whoami())).connect().expect("it starts");
    let call = request("tools/call", json!({"name": "whoami"}));
    let text = |response: Value| response["result"]["content"][0]["text"].clone();
    assert_eq!(text(exchange(&mut connection, call.clone())), "unknown");
    for id in ["ada", "bob"] {
        become_caller(&mut connection, id);
        assert_eq!(text(exchange(&mut connection, call.clone())), id);
    }
    connection.set_extensions(Extensions::new());
    assert_eq!(text(exchange(&mut connection, call)), "unknown");
}

#[test]
fn task_belongs_to_attached_principal() {
    let sleep = Tool::new("sleep").task_support(TaskSupport::Required).local(
        |_: NoArguments, ctx: RequestContext| async move {
            ctx.sleep(Duration::from_hours(1)).await?;
            Ok("awake")
        },
    );
    let mut connection = Server::builder(catalog(sleep)).connect().expect("it starts");
    become_caller(&mut connection, "ada");
    let call = request("tools/call", json!({"name": "sleep"}));
    let created = exchange(&mut connection, call);
    let task = created["result"]["taskId"].as_str().expect("a task").to_owned();
    let get = request("tasks/get", json!({ "taskId": task }));
    assert_eq!(exchange(&mut connection, get.clone())["result"]["status"], "working");
    become_caller(&mut connection, "bob");
    let refused = exchange(&mut connection, get);
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
}

#[test]
fn request_state_belongs_to_attached_principal() {
    let ask = Tool::new("ask").local(|_: NoArguments, ctx: RequestContext| async move {
        let form = Form::new().field(Field::text("name"));
        ctx.elicit("name", ElicitRequest::form("Who?", form)).await?;
        Ok("thanks")
    });
    let mut connection = Server::builder(catalog(ask)).connect().expect("it starts");
    for (caller, is_accepted) in [("bob", false), ("ada", true)] {
        become_caller(&mut connection, "ada");
        let asked = exchange(&mut connection, request("tools/call", json!({"name": "ask"})));
        let state = asked["result"]["requestState"].as_str().expect("a state").to_owned();
        become_caller(&mut connection, caller);
        let answer = json!({"name": {"action": "accept", "content": {"name": "x"}}});
        let params = json!({"name": "ask", "requestState": state, "inputResponses": answer});
        let response = exchange(&mut connection, request("tools/call", params));
        assert_eq!(response.get("result").is_some(), is_accepted, "{response}");
    }
}
