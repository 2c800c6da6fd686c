//! Requests to clients that are not answered, under `memory_bytes_max`.

use corelane::internal::demo;
use corelane::model::{ElicitRequest, Field, Form};
use corelane::{
    CallToolResult, Catalog, HandlerError, NoArguments, RequestContext, TaskSupport, Tool,
};
use corelane_protocol::model::Implementation;
use corelane_test_support::messages::{
    call, echo, expect_error, initialize_with_elicitation, modern, notification, request,
    result_text,
};
use corelane_test_support::{LineClient, TestServer, over_each_ring};
use serde_json::{Value, json};

use crate::abuse::honest_clients::{HonestClients, all_transports};

const LIMIT_BYTES: usize = 16 << 20;

/// Bytes of the text of each elicitation.
const TEXT_BYTES: usize = 1 << 20;

/// The demo tools, and `ask`, which asks for a note and returns its length: as a task for clients
/// with the capability.
fn catalog() -> Catalog {
    let ask = Tool::new("ask").task_support(TaskSupport::Optional).local(
        |_: NoArguments, ctx: RequestContext| async move {
            let form = Form::new().field(Field::text("note"));
            let request = ElicitRequest::form("x".repeat(TEXT_BYTES), form);
            let answer = ctx.elicit("note", request).await?;
            let note = answer.content.get("note").and_then(Value::as_str).map_or(0, str::len);
            Ok::<_, HandlerError>(CallToolResult::text(note.to_string()))
        },
    );
    let builder = demo::add_services(Catalog::builder(Implementation::new("abuse", "1.0.0")));
    builder.tool(ask).build().expect("valid catalog")
}

fn on_small_servers(test: impl Fn(TestServer)) {
    over_each_ring(all_transports(), |mut options| {
        options.limits.memory_bytes_max = LIMIT_BYTES;
        test(TestServer::with_catalog(options, catalog()));
    });
}

/// A modern request of a client with the capabilities for tasks and elicitation.
pub(crate) fn with_tasks(request: Value) -> Value {
    let mut request = modern(request);
    request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({
        "elicitation": {"form": {}},
        "extensions": {"io.modelcontextprotocol/tasks": {}},
    });
    request
}

/// Sends a task request and returns the result.
fn exchange_task(client: &mut LineClient, method: &str, params: Value) -> Value {
    client.exchange(with_tasks(request(1, method, params)))
}

#[test]
fn server_requests_hold_no_text_once_sent() {
    on_small_servers(|server| {
        let mut honest = HonestClients::connect(&server);
        let mut client = server.connect_tcp();
        client.exchange(initialize_with_elicitation(0, "2025-11-25"));
        client.send(notification("notifications/initialized"));
        let mut last = Value::Null;
        for id in 1..=40 {
            client.send(call(id, "ask", json!({})));
            last = client.receive();
            assert_eq!(last["method"], "elicitation/create", "{last}");
            honest.call_all();
        }
        let content = json!({"action": "accept", "content": {"note": "seven"}});
        client.send(json!({"jsonrpc": "2.0", "id": last["id"], "result": content}));
        assert_eq!(result_text(&client.receive()), "5");
        drop((honest, client));
        let counters = server.close();
        assert_eq!((counters.requests.refused_memory, counters.input_errors.memory), (0, 0));
    });
}

#[test]
fn task_inputs_are_limited_by_memory() {
    on_small_servers(|server| {
        let mut honest = HonestClients::connect(&server);
        let mut client = server.connect_tcp();
        let mut tasks = Vec::new();
        for id in 1..=10 {
            let created = client.exchange(with_tasks(call(id, "ask", json!({}))));
            tasks.push(json!({"taskId": created["result"]["taskId"]}));
            client.exchange(with_tasks(echo(100, "turn")));
            honest.call_all();
        }
        let mut status_of = |task: &Value| {
            let shown = exchange_task(&mut client, "tasks/get", task.clone());
            (shown["result"]["status"].clone(), shown["result"]["error"].clone())
        };
        // Three texts of a little more than 1 MiB are a quarter of the limit.
        for (number, task) in tasks.iter().enumerate() {
            let (status, error) = status_of(task);
            assert_eq!(status, if number < 3 { "input_required" } else { "failed" });
            if number >= 3 {
                expect_error(&json!({ "error": error }), -32603, None);
            }
        }
        // A response is stored in place of its request.
        let respond = |bytes: usize, task: &Value| {
            let content = json!({"note": "y".repeat(bytes)});
            let responses = json!({"note": {"action": "accept", "content": content}});
            json!({"taskId": task["taskId"], "inputResponses": responses})
        };
        let refused = exchange_task(&mut client, "tasks/update", respond(2 << 20, &tasks[0]));
        expect_error(&refused, -32603, Some(1.into()));
        let accepted = exchange_task(&mut client, "tasks/update", respond(512 << 10, &tasks[0]));
        assert!(accepted["result"].is_object(), "{accepted}");
        honest.call_all();
        drop((honest, client));
        let counters = server.close();
        assert_eq!(counters.requests.refused_memory, 8, "{counters}");
        assert_eq!(counters.input_errors.memory, 0, "{counters}");
    });
}
