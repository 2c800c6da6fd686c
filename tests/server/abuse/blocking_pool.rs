//! The thread pool of blocking handlers: one client cannot take it from the others.

use std::time::Duration;

use corelane::internal::demo;
use corelane::{BlockingContext, CallToolResult, Catalog, Options, TaskSupport, Tool};
use corelane_protocol::model::Implementation;
use corelane_test_support::messages::{
    LEGACY, call, cancelled, echo, expect_error, modern, request, result_text,
};
use corelane_test_support::server::Gate;
use corelane_test_support::{LineClient, TestServer, over_each_ring};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::abuse::honest_clients::{HonestClients, all_transports, expect_healthy};

const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

#[derive(Deserialize, JsonSchema)]
struct Named {
    /// One of [`NAMES`].
    name: String,
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// The demo tools, and two tools that signal their argument when they start, wait for the gate on a
/// thread and return the argument: `wait`, and `wait_as_task`, which may run as a task.
fn catalog(gate: &Gate) -> Catalog {
    let builder = demo::add_services(Catalog::builder(Implementation::new("abuse", "1.0.0")));
    let tools = [("wait", TaskSupport::Forbidden), ("wait_as_task", TaskSupport::Optional)];
    let tools = tools.map(|(name, support)| {
        let gate = gate.clone();
        let wait = move |Named { name }: Named, ctx: BlockingContext| {
            gate.signal(NAMES.into_iter().find(|known| *known == name).unwrap_or("unknown"));
            gate.wait_on_thread(&ctx)?;
            Ok(CallToolResult::text(name))
        };
        Tool::new(name).task_support(support).blocking(wait)
    });
    builder.tools(tools).build().expect("valid catalog")
}

fn wait(id: i64, name: &str) -> Value {
    call(id, "wait", json!({ "name": name }))
}

/// Options of a server with one thread for blocking handlers and `queue_max` waiting calls.
fn one_thread(queue_max: u32) -> Options {
    let mut options = all_transports();
    options.engine.blocking_threads = 1;
    options.engine.blocking_queue_max = queue_max;
    options
}

/// A client that has sent calls of `wait`.
struct WaitingClient {
    client: LineClient,
    name: &'static str,
    sent: i64,
}

impl WaitingClient {
    fn new(client: LineClient, name: &'static str) -> Self {
        let mut client = client;
        client.handshake(LEGACY);
        Self { client, name, sent: 0 }
    }

    fn connect(server: &TestServer, name: &'static str) -> Self {
        Self::new(server.connect_tcp(), name)
    }

    /// Sends `calls` calls, and waits until the server has read them. Returns how many responses it
    /// has sent: errors of refused calls.
    fn send(&mut self, calls: usize) -> usize {
        for _ in 0..calls {
            self.sent += 1;
            self.client.send(wait(self.sent, self.name));
        }
        self.refused()
    }

    /// Returns how many calls were refused since the last time.
    fn refused(&mut self) -> usize {
        self.client.send(echo("read", "all read"));
        let responses = std::iter::from_fn(|| {
            let response = self.client.receive();
            (response["id"] != "read").then_some(response)
        });
        responses.inspect(expect_refused).count()
    }

    /// Receives the results of `calls` calls.
    fn receive_results(&mut self, calls: usize) {
        for _ in 0..calls {
            assert_eq!(result_text(&self.client.receive()), self.name);
        }
    }
}

fn expect_refused(response: &Value) {
    expect_error(response, -32603, Some(response["id"].clone()));
    assert!(response.to_string().contains("blocking threads are busy"), "{response}");
}

#[test]
fn drain_states_whether_blocking_call_started() {
    over_each_ring(one_thread(8), |mut options| {
        options.engine.drain_timeout = Duration::from_millis(50);
        let server = TestServer::with_gate(options, catalog);
        let mut client = WaitingClient::connect(&server, "a");
        assert_eq!(client.send(1), 0);
        assert_eq!(server.next_signal(), "a");
        assert_eq!(client.send(1), 0);
        server.drain();
        for (id, has_started) in [(1, true), (2, false)] {
            let response = client.client.receive();
            expect_error(&response, 1001, Some(json!(id)));
            let data = json!({"started": has_started, "retryable": !has_started});
            assert_eq!(response["error"]["data"], data, "{response}");
        }
        drop(client);
        server.join();
    });
}

#[test]
fn full_pool_serves_other_connections_in_turns() {
    over_each_ring(one_thread(8), |options| {
        let server = TestServer::with_gate(options, catalog);
        let mut honest = HonestClients::connect(&server);
        let mut greedy = WaitingClient::connect(&server, "a");
        assert_eq!(greedy.send(1), 0);
        assert_eq!(server.next_signal(), "a");
        assert_eq!(greedy.send(20), 12);
        let mut others = ["b", "c"].map(|name| WaitingClient::connect(&server, name));
        for client in &mut others {
            assert_eq!(client.send(2), 0);
        }
        assert_eq!(greedy.refused(), 4);
        // It has more than the others.
        assert_eq!(greedy.send(1), 1);
        honest.call_all();
        server.open_gate();
        for client in &mut others {
            client.receive_results(2);
        }
        greedy.receive_results(5);
        let signals: String = (0..8).map(|_| server.next_signal()).collect();
        assert_eq!(signals, "abcabcaa");
        expect_healthy(&server);
        drop((honest, greedy, others));
        let counters = server.close();
        assert_eq!(counters.shard.blocking_refused, 17, "{counters}");
        assert_eq!(counters.shard.blocking_calls, 13, "{counters}");
    });
}

#[test]
fn cancelled_waiting_calls_free_their_places() {
    over_each_ring(one_thread(2), |options| {
        let server = TestServer::with_gate(options, catalog);
        let mut client = WaitingClient::connect(&server, "a");
        assert_eq!(client.send(1), 0);
        assert_eq!(server.next_signal(), "a");
        assert_eq!(client.send(3), 1);
        for id in [2, 3] {
            client.client.send(cancelled(id));
        }
        assert_eq!(client.send(3), 1);
        server.open_gate();
        client.receive_results(3);
        // The cancelled calls have not started.
        for _ in 0..2 {
            assert_eq!(server.next_signal(), "a");
        }
        server.expect_no_signal();
        expect_healthy(&server);
        drop(client);
        let counters = server.close();
        assert_eq!(counters.requests.cancelled, 2, "{counters}");
    });
}

#[test]
fn waiting_calls_of_reset_connection_do_not_run() {
    over_each_ring(one_thread(4), |options| {
        let server = TestServer::with_gate(options, catalog);
        let mut client = WaitingClient::connect(&server, "a");
        assert_eq!(client.send(1), 0);
        assert_eq!(server.next_signal(), "a");
        let mut gone = WaitingClient::connect(&server, "b");
        assert_eq!(gone.send(4), 0);
        gone.client.reset();
        // Until the reset has arrived, half of the places are those of the other connection.
        let mut accepted = 0;
        while accepted < 4 {
            accepted += 1 - client.send(1);
        }
        server.open_gate();
        client.receive_results(5);
        for _ in 0..4 {
            assert_eq!(server.next_signal(), "a");
        }
        server.expect_no_signal();
        expect_healthy(&server);
        drop(client);
        server.close();
    });
}

#[test]
fn displaced_task_fails_like_refused_call() {
    over_each_ring(one_thread(4), |options| {
        let server = TestServer::with_gate(options, catalog);
        let mut client = WaitingClient::connect(&server, "a");
        assert_eq!(client.send(1), 0);
        assert_eq!(server.next_signal(), "a");
        let mut owner = server.connect_tcp();
        let with_tasks = |message| {
            let mut message = modern(message);
            let meta = &mut message["params"]["_meta"];
            meta["io.modelcontextprotocol/clientCapabilities"] =
                json!({ "extensions": { TASKS_EXTENSION: {} } });
            message
        };
        let mut tasks = Vec::new();
        for id in 1..=4 {
            let call = call(id, "wait_as_task", json!({"name": "b"}));
            let response = owner.exchange(with_tasks(call));
            assert_eq!(response["result"]["status"], "working", "{response}");
            tasks.push(response["result"]["taskId"].clone());
        }
        let mut get_task = |task: &Value| {
            owner.exchange(with_tasks(request(9, "tasks/get", json!({ "taskId": task }))))
        };
        assert_eq!(client.send(1), 0);
        let displaced = get_task(&tasks[3]);
        assert_eq!(displaced["result"]["status"], "failed", "{displaced}");
        expect_refused(&json!({"id": 9, "error": displaced["result"]["error"]}));
        assert_eq!(get_task(&tasks[2])["result"]["status"], "working");
        server.open_gate();
        client.receive_results(2);
        expect_healthy(&server);
        drop((owner, client));
        server.close();
    });
}

/// On Linux every address of 127.0.0.0/8 is local.
#[cfg(target_os = "linux")]
mod addresses {
    use std::net::{IpAddr, Ipv4Addr};

    use corelane_test_support::{HttpClient, Request};

    use super::*;

    /// 127.0.0.1 is exempt.
    const fn address(last: u8) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(127, 0, 0, last))
    }

    fn connect_from(server: &TestServer, last: u8, name: &'static str) -> WaitingClient {
        WaitingClient::new(LineClient::connect_from(address(last), server.tcp()), name)
    }

    #[test]
    fn connections_of_one_address_share_their_places() {
        over_each_ring(one_thread(4), |options| {
            let server = TestServer::with_gate(options, catalog);
            let mut greedy = [(); 3].map(|()| connect_from(&server, 2, "a"));
            assert_eq!(greedy[0].send(1), 0);
            assert_eq!(server.next_signal(), "a");
            assert_eq!(greedy[0].send(2), 0);
            assert_eq!(greedy[1].send(3), 1);
            // Its address has the most.
            assert_eq!(greedy[2].send(1), 1);
            let mut other = connect_from(&server, 3, "b");
            assert_eq!(other.send(2), 0);
            assert_eq!(greedy[1].refused(), 2);
            server.open_gate();
            other.receive_results(2);
            greedy[0].receive_results(3);
            let signals: String = (0..4).map(|_| server.next_signal()).collect();
            assert_eq!(signals, "abab");
            expect_healthy(&server);
            drop((greedy, other));
            server.close();
        });
    }

    #[test]
    fn displaced_http_call_gets_status_503() {
        over_each_ring(one_thread(4), |mut options| {
            // The displaced call may be of another shard.
            options.engine.shards = Some(2);
            let server = TestServer::with_gate(options, catalog);
            let mut full = WaitingClient::connect(&server, "a");
            assert_eq!(full.send(1), 0);
            assert_eq!(server.next_signal(), "a");
            assert_eq!(full.send(4), 0);
            let mut http = [1, 2].map(|id| {
                let mut client = HttpClient::connect_from(address(2), server.http());
                client.send(&Request::modern(&modern(wait(id, "b"))));
                // It is queued now.
                expect_refused(&full.client.receive());
                client
            });
            let mut others = ["c", "d"].map(|name| WaitingClient::connect(&server, name));
            assert_eq!(others[0].send(1), 0);
            expect_refused(&full.client.receive());
            assert_eq!(others[1].send(1), 0);
            let response = http[1].read_response();
            expect_refused(&response.expect_error(503, -32603, Some(json!(2))));
            server.open_gate();
            assert_eq!(result_text(&http[0].read_response().message()), "b");
            full.receive_results(2);
            for client in &mut others {
                client.receive_results(1);
            }
            expect_healthy(&server);
            drop((full, http, others));
            let counters = server.close();
            assert_eq!(counters.shard.blocking_refused, 4, "{counters}");
        });
    }
}
