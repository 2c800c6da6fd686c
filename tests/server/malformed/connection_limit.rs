//! Connections over `connections_max`.

use corelane_test_support::messages::{LEGACY, echo, expect_error, result_text};
use corelane_test_support::{LineClient, TestServer, over_each_ring, tcp_options};
use serde_json::Value;

#[test]
fn connection_over_limit_gets_error_and_closes() {
    over_each_ring(tcp_options(), |mut options| {
        options.tcp.connections_max = 3;
        let server = TestServer::start(options);
        let mut served: Vec<LineClient> =
            (0..3).map(|_| server.connect_initialized(LEGACY)).collect();
        for _ in 0..5 {
            let mut refused = server.connect_tcp();
            let response = refused.receive();
            expect_error(&response, 1001, None);
            refused.expect_end();
        }
        for client in &mut served {
            assert_eq!(result_text(&client.exchange(echo(1, "unaffected"))), "unaffected");
        }
        drop(served);
        let counters = server.close();
        assert_eq!(counters.connections.accepted, 3, "{counters}");
        assert_eq!(counters.connections.refused_limit, 5, "{counters}");
        assert_eq!(counters.errors.count_of(1001), 5, "{counters}");
    });
}

#[test]
fn input_of_refused_connection_is_not_served() {
    over_each_ring(tcp_options(), |mut options| {
        options.tcp.connections_max = 1;
        let server = TestServer::start(options);
        let mut served = server.connect_initialized(LEGACY);
        let mut refused = server.connect_tcp();
        refused.send(echo(1, "let me in"));
        let responses: Vec<Value> = refused.receive_rest_or_reset();
        assert!(responses.len() <= 1, "{responses:?}");
        for response in &responses {
            expect_error(response, 1001, None);
        }
        served.ping();
        drop((served, refused));
        let counters = server.close();
        assert_eq!(counters.traffic.messages_in, 4 - 1, "{counters}");
    });
}

#[test]
fn freed_connection_slot_is_reusable() {
    over_each_ring(tcp_options(), |mut options| {
        options.tcp.connections_max = 2;
        let server = TestServer::start(options);
        let mut stays = server.connect_initialized(LEGACY);
        for _ in 0..50 {
            let mut client = server.connect_accepted();
            client.handshake(LEGACY);
            assert_eq!(result_text(&client.exchange(echo(1, "in"))), "in");
            expect_error(&server.connect_tcp().receive(), 1001, None);
            drop(client);
        }
        stays.ping();
        drop(stays);
        server.close();
    });
}

#[test]
fn connection_limit_spans_all_shards() {
    over_each_ring(tcp_options(), |mut options| {
        options.tcp.connections_max = 8;
        options.engine.shards = Some(2);
        let server = TestServer::start(options);
        let served: Vec<LineClient> = (0..8).map(|_| server.connect_initialized(LEGACY)).collect();
        for _ in 0..8 {
            expect_error(&server.connect_tcp().receive(), 1001, None);
        }
        drop(served);
        let mut again: Vec<LineClient> = (0..8).map(|_| server.connect_accepted()).collect();
        again.iter_mut().for_each(LineClient::ping);
        drop(again);
        server.close();
    });
}
