//! `memory_bytes_max` under attack.

use corelane::internal::demo;
use corelane::{CallToolResult, Catalog, HandlerError, NoArguments, RequestContext, Tool};
use corelane_protocol::model::Implementation;
use corelane_test_support::messages::{LEGACY, call, echo, expect_error, modern, result_text};
use corelane_test_support::server::Gate;
use corelane_test_support::{LineClient, TestServer, over_each_ring};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::abuse::honest_clients::{HonestClients, all_transports};

const LIMIT_BYTES: usize = 16 << 20;

#[derive(Deserialize, JsonSchema)]
struct Held {
    text: String,
}

/// Less than the share of a connection.
const MODERATE_BYTES: usize = 32 << 10;

/// The demo tools, `large` and `moderate`, which return 1 MiB and [`MODERATE_BYTES`] from a thread,
/// and `hold`, which keeps its argument until the gate opens.
fn catalog(gate: &Gate) -> Catalog {
    let gate = gate.clone();
    let [large, moderate] =
        [("large", 1 << 20), ("moderate", MODERATE_BYTES)].map(|(name, bytes)| {
            Tool::new(name).blocking(move |_: NoArguments, _| {
                Ok::<_, HandlerError>(CallToolResult::text("x".repeat(bytes)))
            })
        });
    let builder = demo::add_services(Catalog::builder(Implementation::new("abuse", "1.0.0")));
    let hold = Tool::new("hold").local(move |held: Held, ctx: RequestContext| {
        let gate = gate.clone();
        async move {
            gate.wait(&ctx).await?;
            Ok(CallToolResult::text(held.text.len().to_string()))
        }
    });
    builder.tools([large, moderate, hold]).build().expect("valid catalog")
}

/// Runs `test` with a server of [`LIMIT_BYTES`] for each ring backend.
fn on_small_servers(test: impl Fn(TestServer)) {
    over_each_ring(all_transports(), |mut options| {
        options.limits.json_tokens_max = 2 << 20;
        options.limits.memory_bytes_max = LIMIT_BYTES;
        test(TestServer::with_gate(options, catalog));
    });
}

#[test]
fn unread_results_do_not_harm_other_clients() {
    on_small_servers(|server| {
        let mut honest = HonestClients::connect(&server);
        let mut caller = server.connect_initialized(LEGACY);
        let mut call_moderate = || {
            let response = caller.exchange(call(1, "moderate", json!({})));
            assert_eq!(result_text(&response).len(), MODERATE_BYTES);
        };
        let connect = || LineClient::connect_with_buffers(server.tcp(), 16 << 10);
        let mut slow_readers: Vec<LineClient> = (0..8).map(|_| connect()).collect();
        for client in &mut slow_readers {
            client.handshake(LEGACY);
            for id in 1..=40 {
                client.send(call(id, "large", json!({})));
            }
            honest.call_all();
            call_moderate();
        }
        for _ in 0..100 {
            honest.call_all();
            call_moderate();
        }
        // What the slow readers held is free once they have disconnected.
        drop(slow_readers);
        honest.call_all();
        drop((honest, caller));
        let counters = server.close();
        assert!(counters.input_errors.memory >= 1, "{counters}");
        assert!(counters.connections.closed_memory_limit >= 1, "{counters}");
    });
}

#[test]
fn arguments_of_running_calls_are_limited() {
    on_small_servers(|server| {
        let mut honest = HonestClients::connect(&server);
        let mut client = server.connect_initialized(LEGACY);
        let text = "x".repeat(512 << 10);
        let mut accepted = 0;
        for id in 1..=20 {
            client.send(call(id, "hold", json!({ "text": text })));
            client.send(echo(100, "read"));
            let response = client.receive();
            if response["id"] == 100 {
                accepted += 1;
            } else {
                expect_error(&response, -32603, Some(id.into()));
                assert_eq!(result_text(&client.receive()), "read");
            }
            honest.call_all();
        }
        // A quarter of the limit.
        assert_eq!(accepted, 7);
        let mut other = server.connect_initialized(LEGACY);
        other.send(call(1, "hold", json!({"text": "below its share"})));
        honest.call_all();
        server.open_gate();
        assert_eq!(result_text(&other.receive()), "15");
        for _ in 0..accepted {
            assert_eq!(result_text(&client.receive()), "524288");
        }
        let again = client.exchange(call(1, "hold", json!({ "text": text })));
        assert_eq!(result_text(&again), "524288");
        drop((honest, client, other));
        let counters = server.close();
        assert_eq!(counters.requests.refused_memory, 13, "{counters}");
    });
}

#[test]
fn input_responses_count_by_their_text() {
    on_small_servers(|server| {
        let mut client = server.connect_tcp();
        // The parsed form takes more than the limit.
        let items = vec![json!([0]); 1 << 18];
        let mut accepted = 0;
        for id in 1..=6 {
            let mut call = modern(call(id, "hold", json!({"text": "small"})));
            call["params"]["inputResponses"] = json!({ "items": items });
            client.send(call);
            client.send(modern(echo(100, "read")));
            let response = client.receive();
            if response["id"] == 100 {
                accepted += 1;
            } else {
                expect_error(&response, -32603, Some(id.into()));
                assert_eq!(result_text(&client.receive()), "read");
            }
        }
        // 1 MiB each, a quarter of the limit together.
        assert_eq!(accepted, 3);
        server.open_gate();
        for _ in 0..accepted {
            assert_eq!(result_text(&client.receive()), "5");
        }
    });
}

#[test]
fn long_ids_of_running_calls_are_limited() {
    on_small_servers(|server| {
        let mut honest = HonestClients::connect(&server);
        let mut clients = Vec::new();
        for _ in 0..3 {
            let mut client = server.connect_initialized(LEGACY);
            for number in 0..200 {
                let id = format!("{number:04000}");
                client.send(call(id, "hold", json!({"text": ""})));
            }
            client.send(echo(1, "last"));
            let mut accepted = 200;
            loop {
                let response = client.receive();
                if response["id"] == 1 {
                    break;
                }
                expect_error(&response, -32603, Some(response["id"].clone()));
                accepted -= 1;
            }
            clients.push((client, accepted));
            honest.call_all();
        }
        // An id is stored three times: those of about 300 calls take a quarter of the limit. The
        // calls of another connection may take 64 KiB.
        let accepted: Vec<usize> = clients.iter().map(|(_, accepted)| *accepted).collect();
        assert!(accepted[0] == 200 && (80..110).contains(&accepted[1]), "{accepted:?}");
        assert!((1..9).contains(&accepted[2]), "{accepted:?}");
        server.open_gate();
        for (client, accepted) in &mut clients {
            for _ in 0..*accepted {
                assert_eq!(result_text(&client.receive()), "0");
            }
        }
        drop((honest, clients));
        assert_eq!(server.close().input_errors.memory, 0);
    });
}
