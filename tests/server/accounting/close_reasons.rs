//! Counters of close reasons.

use std::time::Duration;

use corelane::counters::ConnectionCounters;
use corelane::options::RingBackend;
use corelane::{Counters, NoArguments, Tool};
use corelane_test_support::{LineClient, TestServer, tcp_options};

use crate::accounting::tool_calls::{call_tool, start_server, try_call_tool};

fn echo() -> Tool {
    Tool::new("echo").inline_writer(|_: NoArguments, response, _| {
        response.text("hello");
        Ok(())
    })
}

/// Closes three connections by `end` and checks that `counter` has counted them.
fn expect_close_reason(
    server: TestServer,
    end: impl Fn(&TestServer, LineClient),
    counter: impl Fn(&ConnectionCounters) -> u64,
) -> Counters {
    for _ in 0..3 {
        let mut client = server.connect_tcp();
        call_tool(&mut client, "echo");
        end(&server, client);
    }
    // One more round trip: the earlier closes have been processed by then.
    let mut last = server.connect_tcp();
    call_tool(&mut last, "echo");
    let counters = server.close();
    last.receive_rest_or_reset();
    let connections = &counters.connections;
    assert_eq!((connections.accepted, connections.closed), (4, 4), "{counters}");
    assert!(counter(connections) >= 3, "{counters}");
    let reasons = connections.closed_by_peer
        + connections.closed_socket_error
        + connections.closed_protocol_violation
        + connections.closed_memory_limit
        + connections.closed_invalid_credential
        + connections.closed_idle_timeout
        + connections.closed_message_timeout
        + connections.closed_draining;
    assert_eq!(reasons, 4, "{counters}");
    counters
}

#[test]
fn connections_closed_by_peer_are_counted() {
    let server = start_server(tcp_options(), [echo()]);
    expect_close_reason(server, |_, client| drop(client), |connections| connections.closed_by_peer);
}

#[test]
fn failed_connections_are_counted() {
    let server = start_server(tcp_options(), [echo()]);
    expect_close_reason(
        server,
        |_, client| client.reset(),
        |connections| connections.closed_socket_error,
    );
}

#[test]
fn idle_connections_are_counted() {
    let mut options = tcp_options();
    options.tcp.idle_timeout = Duration::from_millis(30);
    let server = start_server(options, [echo()]);
    expect_close_reason(
        server,
        |_, mut client| drop(client.receive_rest_or_reset()),
        |connections| connections.closed_idle_timeout,
    );
}

#[test]
fn first_message_timeouts_are_counted() {
    let mut options = tcp_options();
    options.tcp.first_message_timeout = Duration::from_millis(30);
    let server = start_server(options, [echo()]);
    for _ in 0..3 {
        server.connect_tcp().receive_rest_or_reset();
    }
    let counters = server.close();
    assert_eq!(counters.connections.closed_message_timeout, 3, "{counters}");
}

#[test]
fn connections_over_message_limit_are_counted() {
    let mut options = tcp_options();
    options.limits.message_bytes_max = 1_000;
    let server = start_server(options, [echo()]);
    let end = |_: &TestServer, mut client: LineClient| {
        client.send_bytes(&[b' '; 1_001]);
        assert_eq!(client.receive()["error"]["code"], -32012);
        client.receive_rest_or_reset();
    };
    let counters =
        expect_close_reason(server, end, |connections| connections.closed_protocol_violation);
    assert_eq!(counters.input_errors.oversize, 3);
}

#[test]
fn drained_connections_are_counted() {
    let server = start_server(tcp_options(), [echo()]);
    let mut clients: Vec<LineClient> = (0..3).map(|_| server.connect_tcp()).collect();
    for client in &mut clients {
        call_tool(client, "echo");
    }
    let counters = server.close();
    assert_eq!(counters.connections.closed_draining, 3, "{counters}");
}

#[test]
fn refused_connection_is_not_counted_as_accepted() {
    let mut options = tcp_options();
    options.tcp.connections_max = 1;
    let server = start_server(options, [echo()]);
    let mut served = server.connect_tcp();
    call_tool(&mut served, "echo");
    let mut refused = server.connect_tcp();
    assert_eq!(refused.receive()["error"]["code"], 1001);
    refused.receive_rest_or_reset();
    let counters = server.close();
    let connections = &counters.connections;
    assert_eq!((connections.accepted, connections.closed), (1, 1), "{counters}");
    assert_eq!(connections.refused_limit, 1);
}

#[test]
fn connections_over_ring_capacity_leak_no_slots() {
    for ring in [RingBackend::Uring, RingBackend::Poll] {
        let mut options = tcp_options();
        options.tcp.connections_max = 4;
        options.engine.ring = ring;
        options.engine.ring_sizes.sockets_max = 8;
        let server = start_server(options, [echo()]);
        for _ in 0..3 {
            let clients: Vec<LineClient> = (0..40).map(|_| server.connect_tcp()).collect();
            // Connections over the limit are refused or dropped while the others stay open.
            let (mut served, mut refused) = (0, 0);
            let mut open = Vec::new();
            for mut client in clients {
                match try_call_tool(&mut client, "echo") {
                    Some(response) if response["error"]["code"] == 1001 => refused += 1,
                    Some(response) => served += u64::from(response["result"].is_object()),
                    None => {}
                }
                open.push(client);
            }
            assert!(served >= 4 && refused >= 1, "{ring:?}: {served} {refused}");
        }
        // All slots are free again: four connections are served at once.
        let mut clients: Vec<LineClient> = Vec::new();
        while clients.len() < 4 {
            let mut client = server.connect_tcp();
            if try_call_tool(&mut client, "echo")
                .is_some_and(|response| response["result"].is_object())
            {
                clients.push(client);
            }
        }
        drop(clients);
        let counters = server.close();
        assert_eq!(counters.connections.accepted, counters.connections.closed, "{counters}");
    }
}
