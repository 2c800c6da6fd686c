//! Connections of one client address: it takes its share and no more, and what it is refused takes
//! no place of others.

use std::net::{IpAddr, Ipv4Addr};

use corelane::Options;
use corelane_test_support::messages::{LEGACY, call, expect_error};
use corelane_test_support::{HttpClient, LineClient, Request, TestServer, over_each_ring};
use serde_json::json;

use crate::abuse::honest_clients::{all_transports, expect_healthy};

const GREEDY: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
const OTHERS: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V4(Ipv4Addr::new(127, 0, 0, 3))];

const CONNECTIONS_MAX: u32 = 8;
/// `address_share_percent` of [`CONNECTIONS_MAX`].
const SHARE: usize = 6;

/// Runs `test` with a server of [`CONNECTIONS_MAX`] connections for each ring backend.
fn on_full_servers(shards: u16, test: impl Fn(TestServer, Options)) {
    over_each_ring(all_transports(), |mut options| {
        options.tcp.connections_max = CONNECTIONS_MAX;
        options.http.connections_max = CONNECTIONS_MAX;
        options.engine.shards = Some(shards);
        test(TestServer::start(options.clone()), options);
    });
}

fn connect_tcp(server: &TestServer, from: IpAddr) -> LineClient {
    let mut client = LineClient::connect_from(from, server.tcp());
    client.handshake(LEGACY);
    client
}

/// Connects, and begins a call that keeps the place busy.
fn connect_busy(server: &TestServer, from: IpAddr) -> LineClient {
    let mut client = connect_tcp(server, from);
    client.send(call(1, "slow", json!({"steps": 1, "step_ms": 60_000})));
    // The call runs when the response to what follows it has arrived.
    client.ping();
    client
}

fn connect_http(server: &TestServer, from: IpAddr) -> HttpClient {
    let mut client = HttpClient::connect_from(from, server.http());
    client.expect_alive();
    client
}

#[test]
fn tcp_address_beyond_share_is_refused_alone() {
    on_full_servers(2, |server, _| {
        // An idle place that is older than a second is lost to a lighter network.
        let mut greedy: Vec<LineClient> =
            (0..SHARE).map(|_| connect_busy(&server, GREEDY)).collect();
        for _ in 0..5 {
            let mut refused = LineClient::connect_from(GREEDY, server.tcp());
            let response = refused.receive();
            expect_error(&response, 1001, None);
            assert!(response.to_string().contains("address_share_percent"), "{response}");
            refused.expect_end();
        }
        let mut others = OTHERS.map(|from| connect_busy(&server, from));
        let mut refused = LineClient::connect_from(OTHERS[0], server.tcp());
        expect_error(&refused.receive(), 1001, None);
        greedy.iter_mut().chain(&mut others).for_each(LineClient::ping);
        expect_healthy(&server);
        drop((greedy, others, refused));
        let counters = server.close();
        let connections = &counters.connections;
        assert_eq!((connections.refused_address_share, connections.refused_limit), (5, 1));
    });
}

#[test]
fn http_address_beyond_share_gets_503() {
    on_full_servers(2, |server, _| {
        let mut greedy: Vec<HttpClient> =
            (0..SHARE).map(|_| connect_http(&server, GREEDY)).collect();
        let mut refused = HttpClient::connect_from(GREEDY, server.http());
        let response = refused.exchange(&Request::new("GET", "/status"));
        let message = response.expect_error(503, 1001, None);
        assert!(message.to_string().contains("address_share_percent"), "{message}");
        assert!(response.head.field("Retry-After").is_some(), "{response:?}");
        refused.expect_eof_or_reset();
        // The share is that of one transport.
        connect_tcp(&server, GREEDY).ping();
        let mut others = OTHERS.map(|from| connect_http(&server, from));
        greedy.iter_mut().chain(&mut others).for_each(HttpClient::expect_alive);
        expect_healthy(&server);
        drop((greedy, others, refused));
        let counters = server.close();
        assert_eq!(counters.connections.refused_address_share, 1, "{counters}");
    });
}

#[test]
fn closed_connection_frees_share_of_address() {
    on_full_servers(1, |server, _| {
        let mut greedy: Vec<LineClient> =
            (0..SHARE).map(|_| connect_tcp(&server, GREEDY)).collect();
        for _ in 0..20 {
            drop(greedy.pop());
            greedy.push(connect_accepted(&server, GREEDY));
            let mut refused = LineClient::connect_from(GREEDY, server.tcp());
            expect_error(&refused.receive(), 1001, None);
        }
        expect_healthy(&server);
        drop(greedy);
        server.close();
    });
}

#[test]
fn refused_connections_take_no_place_of_others() {
    on_full_servers(1, |server, _| {
        let _greedy: Vec<LineClient> = (0..SHARE).map(|_| connect_tcp(&server, GREEDY)).collect();
        let (mut refused, mut others) = (Vec::new(), Vec::new());
        for from in OTHERS {
            // They neither read the error nor close.
            refused.extend((0..100).map(|_| LineClient::connect_from(GREEDY, server.tcp())));
            others.push(connect_tcp(&server, from));
        }
        expect_healthy(&server);
        drop(others);
        drop(refused);
        let counters = server.close();
        assert_eq!(counters.connections.refused_address_share, 200, "{counters}");
        assert_eq!(counters.connections.accept_failed, 0, "{counters}");
    });
}

#[test]
fn reloaded_share_applies_to_next_connection() {
    on_full_servers(1, |server, mut options| {
        let mut greedy: Vec<LineClient> =
            (0..SHARE).map(|_| connect_tcp(&server, GREEDY)).collect();
        options.limits.address_share_percent = 100;
        server.handle().reload_limits(&options);
        greedy.extend((0..2).map(|_| connect_accepted(&server, GREEDY)));
        greedy.iter_mut().for_each(LineClient::ping);
        expect_healthy(&server);
        drop(greedy);
        server.close();
    });
}

/// Opens connections from `from` until one is accepted: a place is freed, and a limit applied,
/// shortly afterwards.
fn connect_accepted(server: &TestServer, from: IpAddr) -> LineClient {
    for _ in 0..10_000 {
        let mut client = LineClient::connect_from(from, server.tcp());
        client.send(r#"{"jsonrpc":"2.0","id":"in?","method":"ping"}"#);
        match client.receive_line_or_reset() {
            Some(line) if !line.contains("1001") => return client,
            _ => {}
        }
    }
    panic!("no connection was accepted");
}
