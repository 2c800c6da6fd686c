//! More connections than there may be.

use serde_json::Value;

use crate::client::{Client, LEGACY, echo, echoed, expect_error};
use crate::stage::{Stage, over_each_ring};

/// Asks with new connections until one of them is let in: a place is free again a moment after
/// its former holder has read the end of its connection.
pub(crate) fn let_in(stage: &Stage) -> Client {
    for _ in 0..10_000 {
        let mut client = stage.connect();
        client.send(r#"{"jsonrpc":"2.0","id":"in?","method":"ping"}"#);
        match client.line_or_reset() {
            Some(line) if !line.contains("1001") => return client,
            _ => {}
        }
    }
    panic!("no place became free");
}

#[test]
fn one_connection_too_many_is_told_so_and_ended() {
    over_each_ring(|mut options| {
        options.tcp.connections_max = 3;
        let stage = Stage::open(options);
        let mut served: Vec<Client> = (0..3).map(|_| stage.session(LEGACY)).collect();
        for _ in 0..5 {
            let mut refused = stage.connect();
            let answer = refused.answer();
            expect_error(&answer, 1001, None);
            refused.expect_end();
        }
        for client in &mut served {
            assert_eq!(echoed(&client.ask(echo(1, "unaffected"))), "unaffected");
        }
        drop(served);
        let counters = stage.close();
        assert_eq!(counters.connections.accepted, 3, "{counters}");
        assert_eq!(counters.connections.refused_full, 5, "{counters}");
        assert_eq!(counters.errors.of(1001), 5, "{counters}");
    });
}

#[test]
fn a_refused_connection_that_talks_is_refused_all_the_same() {
    over_each_ring(|mut options| {
        options.tcp.connections_max = 1;
        let stage = Stage::open(options);
        let mut served = stage.session(LEGACY);
        let mut refused = stage.connect();
        refused.send(echo(1, "let me in"));
        let answers: Vec<Value> = refused.rest_or_reset();
        assert!(answers.len() <= 1, "{answers:?}");
        for answer in &answers {
            expect_error(answer, 1001, None);
        }
        served.expect_alive();
        drop((served, refused));
        let counters = stage.close();
        assert_eq!(counters.traffic.messages_in, 4 - 1, "{counters}");
    });
}

#[test]
fn a_place_that_became_free_is_usable_again() {
    over_each_ring(|mut options| {
        options.tcp.connections_max = 2;
        let stage = Stage::open(options);
        let mut stays = stage.session(LEGACY);
        for _ in 0..50 {
            let mut client = let_in(&stage);
            client.handshake(LEGACY);
            assert_eq!(echoed(&client.ask(echo(1, "in"))), "in");
            expect_error(&stage.connect().answer(), 1001, None);
            drop(client);
        }
        stays.expect_alive();
        drop(stays);
        stage.close();
    });
}

#[test]
fn the_limit_counts_the_connections_of_all_shards() {
    over_each_ring(|mut options| {
        options.tcp.connections_max = 8;
        options.engine.shards = Some(2);
        let stage = Stage::open(options);
        let served: Vec<Client> = (0..8).map(|_| stage.session(LEGACY)).collect();
        for _ in 0..8 {
            expect_error(&stage.connect().answer(), 1001, None);
        }
        drop(served);
        let mut again: Vec<Client> = (0..8).map(|_| let_in(&stage)).collect();
        again.iter_mut().for_each(Client::expect_alive);
        drop(again);
        stage.close();
    });
}
