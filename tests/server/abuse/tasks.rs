//! `tasks_max` and `task_bytes_max` under attack: clients create tasks and disconnect.

use std::net::{IpAddr, Ipv4Addr};

use corelane::{CallToolResult, Catalog, NoArguments, RequestContext, TaskSupport, Tool};
use corelane_protocol::model::Implementation;
use corelane_test_support::messages::{
    LEGACY, call, initialize, modern, notification, request, result_text,
};
use corelane_test_support::server::Gate;
use corelane_test_support::{HttpClient, LineClient, Request, TestServer, over_each_ring};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::abuse::honest_clients::{all_transports, expect_healthy};

const ATTACKER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
const HONEST: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 3));
const EXEMPT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

const TASKS_MAX: u32 = 16;
const TASKS_PER_CONNECTION_MAX: u32 = 4;
/// `address_share_percent` of [`TASKS_MAX`].
const SHARE: usize = 12;
const BYTES_MAX: usize = 64 << 10;

#[derive(Deserialize, JsonSchema)]
struct Large {
    bytes: usize,
}

/// `hold`, which waits for the gate, and `large`, which returns a text of `bytes` at once.
fn catalog(gate: &Gate) -> Catalog {
    let gate = gate.clone();
    let hold = Tool::new("hold").task_support(TaskSupport::Optional);
    let hold = hold.local(move |_: NoArguments, ctx: RequestContext| {
        let gate = gate.clone();
        async move {
            gate.wait(&ctx).await?;
            Ok(CallToolResult::text("held"))
        }
    });
    let large = Tool::new("large").task_support(TaskSupport::Optional);
    let large = large
        .local(|Large { bytes }, _| async move { Ok(CallToolResult::text("x".repeat(bytes))) });
    let builder = Catalog::builder(Implementation::new("abuse", "1.0.0"));
    builder.tools([hold, large]).build().expect("valid catalog")
}

/// Runs `test` with a small server for each ring backend.
fn on_small_servers(test: impl Fn(TestServer)) {
    over_each_ring(all_transports(), |mut options| {
        options.limits.tasks_max = TASKS_MAX;
        options.limits.tasks_per_connection_max = TASKS_PER_CONNECTION_MAX;
        options.limits.task_bytes_max = BYTES_MAX;
        test(TestServer::with_gate(options, catalog));
    });
}

fn with_tasks(message: Value) -> Value {
    let mut message = modern(message);
    let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
    message
}

fn create(client: &mut LineClient, tool: &str, arguments: Value) -> Result<String, String> {
    let response = client.exchange(with_tasks(call(1, tool, arguments)));
    match response["result"]["taskId"].as_str() {
        Some(id) => Ok(id.to_owned()),
        None => Err(response["error"]["message"].as_str().expect("error").to_owned()),
    }
}

/// Polls a task until it has ended; returns it.
fn end(client: &mut LineClient, id: &str) -> Value {
    loop {
        let get = with_tasks(request(2, "tasks/get", json!({"taskId": id})));
        let response = client.exchange(get);
        let status = response["result"]["status"].as_str();
        if status.unwrap_or_else(|| panic!("{response}")) != "working" {
            return response["result"].clone();
        }
    }
}

/// A client connects from `from`, runs a task of `bytes` to its end, and disconnects.
#[track_caller]
fn complete_one(server: &TestServer, from: IpAddr, bytes: usize) {
    let mut client = LineClient::connect_from(from, server.tcp());
    let id = create(&mut client, "large", json!({"bytes": bytes})).expect("task is created");
    let task = end(&mut client, &id);
    let text = task["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{task}"));
    assert_eq!(text.len(), bytes);
}

/// Connects clients from `from` and creates tasks until every client is refused; returns the
/// clients and the errors.
fn fill(
    server: &TestServer,
    from: IpAddr,
    tool: &str,
    arguments: &Value,
) -> (Vec<LineClient>, Vec<String>) {
    let connect = |_| LineClient::connect_from(from, server.tcp());
    let mut clients: Vec<LineClient> = (0..8).map(connect).collect();
    let errors = clients.iter_mut().map(|client| {
        loop {
            if let Err(error) = create(client, tool, arguments.clone()) {
                return error;
            }
        }
    });
    let errors = errors.collect();
    (clients, errors)
}

#[test]
fn running_tasks_of_one_address_leave_room() {
    on_small_servers(|server| {
        let (clients, errors) = fill(&server, ATTACKER, "hold", &json!({}));
        assert!(errors[0].contains("per connection"), "{errors:?}");
        assert!(errors[3].contains("address_share_percent of tasks_max"), "{errors:?}");
        drop(clients);
        // Tasks of clients that have disconnected go on.
        for _ in 0..TASKS_MAX {
            complete_one(&server, HONEST, 100);
            complete_one(&server, EXEMPT, 100);
        }
        let mut attacker = LineClient::connect_from(ATTACKER, server.tcp());
        let error = create(&mut attacker, "hold", json!({})).unwrap_err();
        assert!(error.contains("address_share_percent of tasks_max"), "{error}");
        drop(attacker);
        server.open_gate();
        expect_healthy(&server);
        let counters = server.close();
        let requests = &counters.requests;
        // Each of eight clients, and the last one.
        let refused = requests.tasks_refused_address_share;
        assert_eq!(refused + requests.tasks_refused_per_connection, 9, "{counters}");
        assert_eq!(requests.tasks_refused_limit, 0, "{counters}");
        let honest = 2 * u64::from(TASKS_MAX);
        assert_eq!(requests.tasks_created, SHARE as u64 + honest, "{counters}");
        assert_eq!(requests.tasks_evicted, SHARE as u64 + honest - 16, "{counters}");
    });
}

#[test]
fn many_addresses_leave_task_to_another_caller() {
    on_small_servers(|server| {
        let (first, _) = fill(&server, ATTACKER, "hold", &json!({}));
        let second = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 10));
        let (second, errors) = fill(&server, second, "hold", &json!({}));
        assert!(errors[0].contains("address_share_percent of tasks_max"), "{errors:?}");
        // Another address of the prefix, one of another prefix, and a proxy.
        let other_prefix = IpAddr::V4(Ipv4Addr::new(127, 0, 1, 2));
        for from in [HONEST, other_prefix, EXEMPT] {
            complete_one(&server, from, 100);
        }
        let mut attackers = Vec::new();
        for last in 100..140 {
            let from = IpAddr::V4(Ipv4Addr::new(127, 0, 0, last));
            let mut client = LineClient::connect_from(from, server.tcp());
            while create(&mut client, "hold", json!({})).is_ok() {}
            attackers.push(client);
        }
        for from in [other_prefix, EXEMPT] {
            complete_one(&server, from, 100);
        }
        drop((first, second, attackers));
        server.open_gate();
        expect_healthy(&server);
        server.close();
    });
}

#[test]
fn ended_tasks_of_disconnected_clients_are_evicted() {
    on_small_servers(|server| {
        let (clients, errors) = fill(&server, EXEMPT, "large", &json!({"bytes": 10}));
        assert!(errors.last().expect("eight").contains("limit 16 per shard"), "{errors:?}");
        let mut honest = LineClient::connect_from(HONEST, server.tcp());
        let refused = create(&mut honest, "large", json!({"bytes": 10})).unwrap_err();
        assert!(refused.contains("limit 16 per shard"), "{refused}");
        drop(clients);
        // The server reads the end of their connections soon.
        let id = loop {
            if let Ok(id) = create(&mut honest, "large", json!({"bytes": 10})) {
                break id;
            }
        };
        assert_eq!(end(&mut honest, &id)["status"], "completed");
        for _ in 0..3 * TASKS_MAX {
            complete_one(&server, EXEMPT, 10);
        }
        // That of a connected client stays.
        assert_eq!(end(&mut honest, &id)["status"], "completed");
        expect_healthy(&server);
        drop(honest);
        let counters = server.close();
        assert!(counters.requests.tasks_evicted > u64::from(2 * TASKS_MAX), "{counters}");
    });
}

#[test]
fn results_of_one_address_leave_room() {
    on_small_servers(|server| {
        let bytes = BYTES_MAX / 4;
        let mut attacker = LineClient::connect_from(ATTACKER, server.tcp());
        let tasks: Vec<String> = (0..4)
            .map(|_| create(&mut attacker, "large", json!({"bytes": bytes})).expect("created"))
            .collect();
        let ended: Vec<Value> = tasks.iter().map(|id| end(&mut attacker, id)).collect();
        // Three quarters, without the room for the JSON around the third.
        let failed = ended.iter().filter(|task| task["status"] == "failed");
        let failed: Vec<&Value> = failed.collect();
        assert_eq!(failed.len(), 2, "{failed:?}");
        for task in failed {
            let message = task["error"]["message"].as_str().expect("message");
            assert!(message.contains("address_share_percent of task_bytes_max"), "{task}");
        }
        drop(attacker);
        for _ in 0..TASKS_MAX {
            complete_one(&server, HONEST, bytes);
            complete_one(&server, EXEMPT, bytes);
        }
        expect_healthy(&server);
        let counters = server.close();
        assert_eq!(counters.requests.task_results_refused, 2, "{counters}");
        assert!(counters.requests.tasks_evicted > 0, "{counters}");
    });
}

#[test]
fn tasks_of_deleted_sessions_are_evicted() {
    on_small_servers(|server| {
        for _ in 0..2 * TASKS_MAX {
            let mut client = HttpClient::connect_from(HONEST, server.http()).with_revision(LEGACY);
            let response = client.exchange(&Request::post(initialize(0, LEGACY)));
            let id = response.head.field("Mcp-Session-Id").expect("no Mcp-Session-Id").to_owned();
            let in_session = |request: Request| {
                request.field("Mcp-Session-Id", &id).field("MCP-Protocol-Version", LEGACY)
            };
            let initialized = Request::post(notification("notifications/initialized"));
            client.exchange(&in_session(initialized)).expect_empty_body(202);
            let mut create = call(1, "large", json!({"bytes": 10}));
            create["params"]["task"] = json!({});
            let created = client.exchange(&in_session(Request::post(create))).message();
            let task = &created["result"]["task"]["taskId"];
            assert!(task.is_string(), "{created}");
            let fetch = request(2, "tasks/result", json!({ "taskId": task }));
            let (_, result) = client.exchange_to_end(&in_session(Request::post(fetch)));
            assert_eq!(result_text(&result).len(), 10);
            client.exchange(&in_session(Request::new("DELETE", "/mcp"))).expect_empty_body(204);
        }
        expect_healthy(&server);
        let counters = server.close();
        let evicted = u64::from(2 * TASKS_MAX) - SHARE as u64;
        assert_eq!(counters.requests.tasks_evicted, evicted, "{counters}");
    });
}

#[test]
fn tasks_of_closed_http_connections_are_evicted() {
    on_small_servers(|server| {
        for _ in 0..2 * TASKS_MAX {
            let mut client = HttpClient::connect_from(HONEST, server.http());
            let create = with_tasks(call(1, "large", json!({"bytes": 10})));
            let created = client.exchange(&Request::modern(&create)).message();
            let task = created["result"]["taskId"].clone();
            assert!(task.is_string(), "{created}");
            // Its client polls over another connection.
            drop(client);
            let mut client = HttpClient::connect_from(HONEST, server.http());
            loop {
                let get = with_tasks(request(2, "tasks/get", json!({ "taskId": task })));
                let response = client.exchange(&Request::modern(&get)).message();
                if response["result"]["status"] == "completed" {
                    break;
                }
                assert_eq!(response["result"]["status"], "working", "{response}");
            }
        }
        expect_healthy(&server);
        let counters = server.close();
        let evicted = u64::from(2 * TASKS_MAX) - SHARE as u64;
        assert_eq!(counters.requests.tasks_evicted, evicted, "{counters}");
    });
}
