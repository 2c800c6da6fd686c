//! Connections that break.

use serde_json::json;

use crate::client::{Client, LEGACY, call, echo, echoed, endless, lines};
use crate::door::let_in;
use crate::stage::{Stage, over_each_ring};

#[test]
fn a_reset_in_the_middle_of_a_message_harms_nobody_else() {
    over_each_ring(|mut options| {
        options.tcp.connections_max = 3;
        let stage = Stage::open(options);
        let mut other = stage.session(LEGACY);
        let text = echo(1, &"long ".repeat(1000)).to_string();
        for cut in [1, 10, 100, 1000, 4096, text.len()] {
            let mut client = let_in(&stage);
            client.handshake(LEGACY);
            client.send_bytes(&text.as_bytes()[..cut]);
            other.expect_alive();
            client.reset();
            assert_eq!(echoed(&other.ask(echo(2, "unaffected"))), "unaffected");
        }
        // Every place is free again.
        let mut again = [let_in(&stage), let_in(&stage)];
        again.iter_mut().for_each(Client::expect_alive);
        drop((again, other));
        let counters = stage.close();
        assert!(counters.connections.closed_by_failure >= 6, "{counters}");
    });
}

#[test]
fn a_reset_with_calls_in_flight_cancels_them() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let mut other = stage.session(LEGACY);
        let mut client = stage.session(LEGACY);
        for id in 0..5 {
            client.send(endless(id));
            client.send(call(id + 5, "hash", json!({"bytes": 1 << 30})));
        }
        other.expect_alive();
        client.reset();
        // The threads that hashed for it are free again: otherwise this took minutes.
        let hashed = other.ask(call(1, "hash", json!({"bytes": 1000})));
        assert_eq!(hashed["id"], 1, "{hashed}");
        drop(other);
        let counters = stage.close();
        assert_eq!(counters.requests.cancelled, 10, "{counters}");
        assert_eq!(counters.requests.timed_out, 0, "{counters}");
    });
}

#[test]
fn a_reset_with_answers_on_their_way_harms_nobody_else() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let mut other = stage.session(LEGACY);
        let requests = lines((0..200).map(|id| echo(id, &"x".repeat(2000))));
        for _ in 0..20 {
            let mut client = stage.session(LEGACY);
            client.send_bytes(requests.as_bytes());
            client.reset();
            assert_eq!(echoed(&other.ask(echo(1, "unaffected"))), "unaffected");
        }
        drop(other);
        stage.close();
    });
}
