//! TCP clients that end their input while calls are in flight.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use corelane::internal::demo;
use corelane::{
    BlockingContext, CallToolResult, Catalog, NoArguments, Options, RequestContext, Tool,
};
use corelane_protocol::model::Implementation;
use corelane_test_support::messages::{LEGACY, call, echo, expect_error, modern, result_text};
use corelane_test_support::server::Gate;
use corelane_test_support::{LineClient, TIMEOUT, TestServer, over_each_ring, tcp_options};
use serde_json::{Value, json};

/// The demo tools, and two that wait for the gate: `hold`, and `hold_thread`, which returns how
/// many of its calls have begun. Both signal that they run.
fn catalog(gate: &Gate) -> Catalog {
    let local_gate = gate.clone();
    let hold = Tool::new("hold").local(move |_: NoArguments, ctx: RequestContext| {
        let gate = local_gate.clone();
        async move {
            gate.signal("hold");
            gate.wait(&ctx).await?;
            Ok(CallToolResult::text("held"))
        }
    });
    let (gate, begun) = (gate.clone(), Arc::new(AtomicUsize::new(0)));
    let hold_thread =
        Tool::new("hold_thread").blocking(move |_: NoArguments, ctx: BlockingContext| {
            let begun = begun.fetch_add(1, Ordering::Relaxed) + 1;
            gate.signal("hold_thread");
            gate.wait_on_thread(&ctx)?;
            Ok(CallToolResult::text(begun.to_string()))
        });
    let builder = demo::add_services(Catalog::builder(Implementation::new("abuse", "1.0.0")));
    builder.tools([hold, hold_thread]).build().expect("valid catalog")
}

fn start(options: Options) -> TestServer {
    TestServer::with_gate(options, catalog)
}

fn hold(id: i64) -> Value {
    modern(call(id, "hold", json!({})))
}

fn hold_thread(id: i64) -> Value {
    modern(call(id, "hold_thread", json!({})))
}

/// Connects a client that calls `hold` and then ends its input; the server has read both.
fn half_close_with_call(server: &TestServer) -> LineClient {
    let mut client = server.connect_tcp();
    client.send(hold(1));
    assert_eq!(server.next_signal(), "hold");
    client.send_bytes(modern(echo(2, "last")).to_string().as_bytes());
    client.shutdown_write();
    // An unterminated line is answered once the end of the input is read.
    assert_eq!(result_text(&client.receive()), "last");
    client
}

#[test]
fn closed_clients_with_calls_free_their_connections() {
    const CLIENTS: usize = 16;
    over_each_ring(tcp_options(), |mut options| {
        options.tcp.connections_max = 16;
        options.engine.blocking_threads = 2;
        let server = start(options);
        for is_closed in [true, false] {
            let mut clients: Vec<LineClient> =
                (0..CLIENTS).map(|_| server.connect_accepted()).collect();
            for (number, client) in clients.iter_mut().enumerate() {
                client.send(if number % 2 == 0 { hold(1) } else { hold_thread(1) });
                client.ping();
                if !is_closed {
                    client.shutdown_write();
                }
            }
            if is_closed {
                clients.clear();
            }
            let mut honest: Vec<LineClient> =
                (0..CLIENTS).map(|_| server.connect_accepted()).collect();
            for client in &mut honest {
                client.handshake(LEGACY);
                assert_eq!(result_text(&client.exchange(echo(1, "honest"))), "honest");
            }
            for client in &mut clients {
                client.expect_end();
            }
        }
        let counters = server.close();
        assert_eq!(counters.requests.cancelled, 2 * CLIENTS as u64, "{counters}");
    });
}

#[test]
fn cancelled_call_in_pool_queue_does_not_run() {
    over_each_ring(tcp_options(), |mut options| {
        options.engine.blocking_threads = 1;
        let server = start(options);
        let mut first = server.connect_tcp();
        first.send(hold_thread(1));
        assert_eq!(server.next_signal(), "hold_thread");
        for _ in 0..3 {
            let mut client = server.connect_tcp();
            client.send(hold_thread(1));
            client.shutdown_write();
            client.expect_end();
        }
        let mut last = server.connect_tcp();
        last.send(hold_thread(1));
        last.ping();
        server.open_gate();
        assert_eq!(result_text(&first.receive()), "1");
        assert_eq!(result_text(&last.receive()), "2");
        drop((first, last));
        let counters = server.close();
        assert_eq!(counters.shard.blocking_calls, 5, "{counters}");
    });
}

#[test]
fn half_closed_client_is_answered_within_timeout() {
    over_each_ring(tcp_options(), |mut options| {
        options.tcp.half_close_timeout = TIMEOUT;
        let server = start(options);
        let mut client = half_close_with_call(&server);
        server.open_gate();
        assert_eq!(result_text(&client.receive()), "held");
        client.expect_end();
        let counters = server.close();
        assert_eq!(counters.requests.cancelled, 0, "{counters}");
    });
}

#[test]
fn calls_past_half_close_timeout_get_error() {
    over_each_ring(tcp_options(), |mut options| {
        options.tcp.half_close_timeout = Duration::from_millis(20);
        let server = start(options);
        let mut client = server.connect_tcp();
        client.send(hold(1));
        client.send(hold_thread(2));
        client.shutdown_write();
        let mut errors = client.receive_rest();
        errors.sort_by_key(|error| error["id"].as_i64());
        for (error, id) in errors.iter().zip([1, 2]) {
            expect_error(error, -32603, Some(id.into()));
            let text = error["error"]["message"].as_str().expect("text");
            assert!(text.contains("20ms (tcp.half_close_timeout)"), "{text}");
        }
        assert_eq!(errors.len(), 2, "{errors:?}");
        let counters = server.close();
        assert_eq!((counters.requests.cancelled, counters.requests.timed_out), (2, 0));
    });
}

#[test]
fn eighth_of_connections_may_wait_half_closed() {
    over_each_ring(tcp_options(), |mut options| {
        options.tcp.half_close_timeout = TIMEOUT;
        options.tcp.connections_max = 16;
        let server = start(options);
        let mut waiting = [(); 2].map(|()| half_close_with_call(&server));
        let mut refused = half_close_with_call(&server);
        let error = refused.receive();
        expect_error(&error, -32603, Some(1.into()));
        let text = error["error"]["message"].as_str().expect("text");
        assert!(text.contains("2 half-closed connections (tcp.connections_max / 8)"), "{text}");
        refused.expect_end();
        server.open_gate();
        for client in &mut waiting {
            assert_eq!(result_text(&client.receive()), "held");
            client.expect_end();
        }
        server.close_gate();
        // Both have released their places.
        let mut next = half_close_with_call(&server);
        server.open_gate();
        assert_eq!(result_text(&next.receive()), "held");
        let counters = server.close();
        assert_eq!(counters.connections.refused_half_closed, 1, "{counters}");
        assert_eq!(counters.requests.cancelled, 1, "{counters}");
    });
}

#[test]
fn half_close_timeout_can_be_reloaded() {
    over_each_ring(tcp_options(), |mut options| {
        let server = start(options.clone());
        half_close_with_call(&server).expect_end();
        options.tcp.half_close_timeout = TIMEOUT;
        server.handle().reload_limits(&options);
        let mut client = half_close_with_call(&server);
        // Applies to connections that wait already.
        options.tcp.half_close_timeout = Duration::from_millis(1);
        server.handle().reload_limits(&options);
        expect_error(&client.receive(), -32603, Some(1.into()));
        client.expect_end();
    });
}
