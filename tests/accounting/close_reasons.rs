//! Counters of close reasons.

use std::time::Duration;

use corelane::server::options::RingBackend;
use corelane::service::{NoArguments, Tool};
use corelane::telemetry::counters::{ConnectionCounters, Counters};

use crate::loopback::options;
use crate::test_server::{TestClient, TestServer};

fn echo() -> Tool {
    Tool::new("echo").inline(|_: NoArguments, response| {
        response.text("hello");
        Ok(())
    })
}

/// Closes three connections by `end` and checks that `counter` has counted them.
fn expect_close_reason(
    server: TestServer,
    end: impl Fn(&TestServer, TestClient),
    counter: impl Fn(&ConnectionCounters) -> u64,
) -> Counters {
    for _ in 0..3 {
        let mut client = server.connect();
        client.call("echo");
        end(&server, client);
    }
    // One more round trip: the earlier closes have been processed by then.
    let mut last = server.connect();
    last.call("echo");
    let counters = server.stop();
    last.wait_for_end();
    let connections = &counters.connections;
    assert_eq!((connections.accepted, connections.closed), (4, 4), "{counters}");
    assert!(counter(connections) >= 3, "{counters}");
    let reasons = connections.closed_by_peer
        + connections.closed_socket_error
        + connections.closed_protocol_violation
        + connections.closed_idle_timeout
        + connections.closed_message_timeout
        + connections.closed_draining;
    assert_eq!(reasons, 4, "{counters}");
    counters
}

#[test]
fn connections_closed_by_peer_are_counted() {
    let server = TestServer::start(options(), [echo()]);
    expect_close_reason(server, |_, client| drop(client), |connections| connections.closed_by_peer);
}

#[test]
fn failed_connections_are_counted() {
    let server = TestServer::start(options(), [echo()]);
    expect_close_reason(
        server,
        |_, client| client.reset(),
        |connections| connections.closed_socket_error,
    );
}

#[test]
fn idle_connections_are_counted() {
    let mut options = options();
    options.tcp.idle_timeout = Duration::from_millis(30);
    let server = TestServer::start(options, [echo()]);
    expect_close_reason(
        server,
        |_, client| client.wait_for_end(),
        |connections| connections.closed_idle_timeout,
    );
}

#[test]
fn first_message_timeouts_are_counted() {
    let mut options = options();
    options.tcp.first_message_timeout = Duration::from_millis(30);
    let server = TestServer::start(options, [echo()]);
    for _ in 0..3 {
        server.connect().wait_for_end();
    }
    let counters = server.stop();
    assert_eq!(counters.connections.closed_message_timeout, 3, "{counters}");
}

#[test]
fn connections_over_message_limit_are_counted() {
    let mut options = options();
    options.limits.message_bytes_max = 1_000;
    let server = TestServer::start(options, [echo()]);
    let end = |_: &TestServer, mut client: TestClient| {
        client.send_bytes(&[b' '; 1_001]);
        assert_eq!(client.receive()["error"]["code"], -32012);
        client.wait_for_end();
    };
    let counters =
        expect_close_reason(server, end, |connections| connections.closed_protocol_violation);
    assert_eq!(counters.input_errors.oversize, 3);
}

#[test]
fn drained_connections_are_counted() {
    let server = TestServer::start(options(), [echo()]);
    let mut clients: Vec<TestClient> = (0..3).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.call("echo");
    }
    let counters = server.stop();
    assert_eq!(counters.connections.closed_draining, 3, "{counters}");
}

#[test]
fn refused_connection_is_not_counted_as_accepted() {
    let mut options = options();
    options.tcp.connections_max = 1;
    let server = TestServer::start(options, [echo()]);
    let mut served = server.connect();
    served.call("echo");
    let mut refused = server.connect();
    assert_eq!(refused.receive()["error"]["code"], 1001);
    refused.wait_for_end();
    let counters = server.stop();
    let connections = &counters.connections;
    assert_eq!((connections.accepted, connections.closed), (1, 1), "{counters}");
    assert_eq!(connections.refused_limit, 1);
}

#[test]
fn connections_over_ring_capacity_leak_no_slots() {
    for ring in [RingBackend::Uring, RingBackend::Poll] {
        let mut options = options();
        options.tcp.connections_max = 4;
        options.engine.ring = ring;
        options.engine.ring_sizes.sockets_max = 8;
        let server = TestServer::start(options, [echo()]);
        for _ in 0..3 {
            let clients: Vec<TestClient> = (0..40).map(|_| server.connect()).collect();
            // Connections over the limit are refused or dropped while the others stay open.
            let (mut served, mut refused) = (0, 0);
            for mut client in clients {
                match client.try_call("echo") {
                    Some(response) if response["error"]["code"] == 1001 => refused += 1,
                    Some(response) => served += u64::from(response["result"].is_object()),
                    None => {}
                }
            }
            assert!(served >= 4 && refused >= 1, "{ring:?}: {served} {refused}");
        }
        // All slots are free again: four connections are served at once.
        let mut clients: Vec<TestClient> = Vec::new();
        while clients.len() < 4 {
            let mut client = server.connect();
            if client.try_call("echo").is_some_and(|response| response["result"].is_object()) {
                clients.push(client);
            }
        }
        drop(clients);
        let counters = server.stop();
        assert_eq!(counters.connections.accepted, counters.connections.closed, "{counters}");
    }
}
