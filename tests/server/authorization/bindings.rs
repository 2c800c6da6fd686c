//! Sessions, tasks and the state of calls belong to the caller that began them.

use corelane::model::{ElicitRequest, Field, Form, Implementation};
use corelane::{NoArguments, TaskSupport, Tool};
use corelane_test_support::{TestServer, on_one_shard_and_two};
use serde_json::{Value, json};

use crate::authorization::http::{Response, open_session, post, post_legacy, send};
use crate::authorization::{Authority, call, catalog};

/// Connections; enough to reach each of two shards.
const CONNECTIONS: usize = 16;

fn fields(token: &str, session: &str) -> String {
    format!("Authorization: Bearer {token}\r\nMcp-Session-Id: {session}\r\n")
}

fn expect_unknown(response: &Response) {
    let message = "the session has expired or does not exist: send initialize again";
    response.expect_error(404, "", None, &json!({"code": -32600, "message": message}));
}

#[test]
fn session_of_another_caller_gets_404() {
    on_one_shard_and_two(|mut options| {
        let authority = Authority::new();
        options.auth = authority.key_options();
        let server = TestServer::with_catalog(options, catalog());
        let address = server.address();
        let session = open_session(address, "key-ada");
        for _ in 0..CONNECTIONS {
            let own = post_legacy(address, &call("whoami"), &fields("key-ada", &session));
            assert_eq!(own.text(), "ada (admin)");
            expect_unknown(&post_legacy(address, &call("whoami"), &fields("key-bob", &session)));
            let accept = "Accept: text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\n";
            let stream = format!("{}{accept}", fields("key-bob", &session));
            expect_unknown(&send(address, "GET", "/mcp", &stream));
            let resumed = format!("{stream}Last-Event-ID: 0-1\r\n");
            expect_unknown(&send(address, "GET", "/mcp", &resumed));
            expect_unknown(&send(address, "DELETE", "/mcp", &fields("key-bob", &session)));
            // An unknown session gets the same response.
            let unknown = fields("key-bob", "0123456789abcdef0123456789abcdef");
            expect_unknown(&post_legacy(address, &call("whoami"), &unknown));
        }
        let without =
            post_legacy(address, &call("whoami"), &format!("Mcp-Session-Id: {session}\r\n"));
        without.expect_missing_token("Bearer");
        assert_eq!(send(address, "DELETE", "/mcp", &fields("key-ada", &session)).status, 204);
        server.close();
    });
}

#[test]
fn refreshed_token_continues_a_session() {
    let authority = Authority::new();
    let mut options = corelane_test_support::http_options();
    options.auth = authority.jwt_options();
    let server = TestServer::with_catalog(options, catalog());
    let address = server.address();
    let session = open_session(address, &authority.issuer.token("ada", ""));
    let later = authority.issuer.token("ada", "tools:deploy");
    let deployed = post_legacy(address, &call("deploy_app"), &fields(&later, &session));
    assert_eq!(deployed.text(), "deployed");
    let mut claims = authority.issuer.claims("ada", "");
    claims["client_id"] = json!("other");
    let other = authority.issuer.sign(&claims);
    expect_unknown(&post_legacy(address, &call("whoami"), &fields(&other, &session)));
    server.close();
}

/// A message of a client that supports tasks and elicitation.
fn able(method: &str, params: &Value) -> Value {
    let mut params = params.clone();
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({
        "elicitation": {"form": {}},
        "extensions": {"io.modelcontextprotocol/tasks": {}},
    });
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

/// Starts a server with a tool that is a task, and one that asks the user.
fn start_server(mut options: corelane::Options, authority: &Authority) -> TestServer {
    options.auth = authority.key_options();
    let task = Tool::new("task")
        .task_support(TaskSupport::Required)
        .local(|_: NoArguments, _| async { Ok::<_, corelane::HandlerError>("done") });
    let ask = Tool::new("ask").local(|_: NoArguments, ctx| async move {
        let form = Form::new().field(Field::text("name").required());
        let answer = ctx.elicit("name", ElicitRequest::form("Who?", form)).await?;
        Ok::<_, corelane::HandlerError>(format!("{:?}", answer.action))
    });
    let builder = corelane::Catalog::builder(Implementation::new("test", "1")).tools([task, ask]);
    TestServer::with_catalog(options, builder.build().expect("a valid catalog"))
}

#[test]
fn task_of_another_caller_is_not_found() {
    on_one_shard_and_two(|options| {
        let authority = Authority::new();
        let server = start_server(options, &authority);
        let post = |key: &str, method: &str, params: &Value| {
            post(server.address(), &able(method, params), Some(key))
        };
        let send = |key: &str, method: &str, params: &Value| post(key, method, params).json();
        let error = json!({"code": -32602, "message": "unknown or expired task id"});
        let call = json!({"name": "task", "arguments": {}});
        let begun = send("key-ada", "tools/call", &call);
        let task = begun["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{begun}"));
        let task = json!({ "taskId": task });
        let unknown = json!({"taskId": "0123456789abcdef0123456789abcdef"});
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            // An unknown task gets the same response.
            for mut params in [task.clone(), unknown.clone()] {
                params["inputResponses"] = json!({});
                post("key-bob", method, &params).expect_error(400, "", Some(1), &error);
            }
        }
        for _ in 0..CONNECTIONS {
            let found = send("key-ada", "tasks/get", &task);
            assert!(found["result"]["status"].is_string(), "{found}");
            let refused = post("key-bob", "tasks/get", &task);
            refused.expect_error(400, "", Some(1), &error);
        }
        server.close();
    });
}

#[test]
fn request_state_of_another_caller_is_refused() {
    on_one_shard_and_two(|options| {
        let authority = Authority::new();
        let server = start_server(options, &authority);
        let post = |key: &str, params: &Value| {
            post(server.address(), &able("tools/call", params), Some(key))
        };
        let send = |key: &str, params: &Value| post(key, params).json();
        let call = json!({"name": "ask", "arguments": {}});
        let first = send("key-ada", &call);
        assert_eq!(first["result"]["resultType"], "input_required", "{first}");
        let mut retry = call.clone();
        retry["requestState"] = first["result"]["requestState"].clone();
        retry["inputResponses"] = json!({"name": {"action": "accept", "content": {"name": "Ada"}}});
        let message = "params.requestState was not issued for this request, or is corrupt: retry \
                       without requestState and inputResponses";
        let error = json!({"code": -32602, "message": message});
        post("key-bob", &retry).expect_error(400, "", Some(1), &error);
        // It is not consumed by the attempt.
        let answer = send("key-ada", &retry);
        assert_eq!(answer["result"]["content"][0]["text"], "Accept", "{answer}");
        server.close();
    });
}
