//! Draining with peers that do not behave.

use std::time::Duration;

use serde_json::json;

use crate::client::{Client, LEGACY, call, echo, endless};
use crate::stage::{Stage, over_each_ring};

#[test]
fn calls_in_flight_are_answered_before_the_end_and_new_ones_are_not_read() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let mut client = stage.session(LEGACY);
        client.send(call(1, "slow", json!({"steps": 10, "step_ms": 10})));
        client.expect_alive();
        stage.drain();
        // Nobody is let in any more; whoever is refused before the door shuts is told so.
        client.send(echo(2, "too late"));
        let ids: Vec<_> = client.rest().iter().map(|answer| answer["id"].clone()).collect();
        assert_eq!(ids.last(), Some(&json!(1)), "{ids:?}");
        assert!(ids.len() == 1 || ids == [json!(2), json!(1)], "{ids:?}");
        drop(client);
        stage.close();
    });
}

#[test]
fn what_takes_longer_than_a_drain_may_is_cut() {
    over_each_ring(|mut options| {
        options.engine.drain_max = Duration::from_millis(50);
        let stage = Stage::open(options);
        let mut client = stage.session(LEGACY);
        client.send(endless(1));
        client.expect_alive();
        let counters = stage.close();
        assert_eq!(client.rest_or_reset().len(), 0);
        assert_eq!(counters.requests.cancelled, 1, "{counters}");
    });
}

#[test]
fn a_peer_that_reads_at_last_does_not_hold_a_drain_back() {
    over_each_ring(|mut options| {
        options.limits.outgoing_bytes_max = 1000;
        options.tcp.send_buffer_bytes = 4 << 10;
        options.engine.drain_max = Duration::from_mins(1);
        let stage = Stage::open(options);
        let mut other = stage.session(LEGACY);
        let mut client = Client::connect_narrow(stage.address(), 4 << 10);
        client.handshake(LEGACY);
        // Answers that wait for the peer, and requests behind them that wait to be read.
        for id in 0..20 {
            client.send(echo(id, &"x".repeat(2000)));
            other.expect_alive();
        }
        stage.drain();
        let ids: Vec<i64> = client.rest().iter().filter_map(|it| it["id"].as_i64()).collect();
        assert!(
            ids.len() < 20 && ids.iter().copied().eq(0..ids.len().try_into().unwrap()),
            "{ids:?}"
        );
        drop((client, other));
        stage.close();
    });
}
