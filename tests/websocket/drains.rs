//! Drains: what is owed is sent, then the connection is closed with 1001.

use std::time::Duration;

use serde_json::json;

use crate::messages::{LEGACY, call, listen, text};
use crate::peer::{Peer, TEXT, frame};
use crate::stage::{Stage, on_one_shard_and_two, over_each_ring};

#[test]
fn what_is_in_flight_is_answered_before_the_close_frame() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let mut peers: Vec<_> = (0..8).map(|_| Peer::begin(stage.address(), LEGACY)).collect();
        for peer in &mut peers {
            peer.say(&call(1, "hold", json!({})));
            assert_eq!(stage.told(), "begun");
        }
        stage.drain();
        stage.open_gate();
        for mut peer in peers {
            assert_eq!(text(&peer.heard()), "held");
            peer.expect_close(1001);
        }
        let counters = stage.join();
        assert_eq!(counters.requests.cancelled, 0, "{counters}");
        assert_eq!(counters.websockets.closed_going_away, 8, "{counters}");
    });
}

#[test]
fn connections_that_wait_for_nothing_are_closed_at_once() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let idle = Peer::begin(stage.address(), LEGACY);
        let mut halfway = Peer::begin(stage.address(), LEGACY);
        halfway.send_bytes(&frame(TEXT, b"{"));
        halfway.expect_alive();
        let mut listening = Peer::open(stage.address());
        let told = listening.ask(&listen("all", json!({"toolsListChanged": true})));
        assert_eq!(told["method"], "notifications/subscriptions/acknowledged", "{told}");
        stage.drain();
        idle.expect_close(1001);
        halfway.expect_close(1001);
        // The stream ends with its result.
        let ended = listening.heard();
        assert_eq!((&ended["id"], ended["result"].is_object()), (&json!("all"), true), "{ended}");
        listening.expect_close(1001);
        stage.join();
    });
}

#[test]
fn what_takes_longer_than_a_drain_may_is_cut() {
    on_one_shard_and_two(|mut options| {
        options.engine.drain_max = Duration::from_millis(50);
        let stage = Stage::open(options);
        let mut peer = Peer::begin(stage.address(), LEGACY);
        peer.say(&call(1, "until-cancelled", json!({})));
        assert_eq!(stage.told(), "begun");
        stage.close();
        let rest = peer.rest();
        assert!(rest.iter().all(crate::peer::is_control), "{rest:?}");
    });
}

#[test]
fn a_question_that_a_drain_leaves_open_fails_its_call_in_time() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let mut peer = Peer::begin(stage.address(), LEGACY);
        let question = peer.ask(&call(1, "ask", json!({})));
        assert_eq!(question["method"], "elicitation/create", "{question}");
        stage.drain();
        let said = peer.heard_until(&json!(1));
        assert_eq!(said[0]["method"], "notifications/cancelled", "{said:?}");
        peer.expect_close(1001);
        stage.join();
    });
}

#[test]
fn whoever_comes_while_the_server_drains_is_not_upgraded() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let mut peer = Peer::begin(stage.address(), LEGACY);
        peer.say(&call(1, "hold", json!({})));
        assert_eq!(stage.told(), "begun");
        let mut client = stage.connect();
        client.expect_alive();
        stage.drain();
        // The drain has come when the connection that waits for nothing has ended.
        client.expect_end_or_reset();
        let late = std::net::TcpStream::connect(stage.address());
        assert!(late.is_err(), "the door is shut");
        stage.open_gate();
        assert_eq!(text(&peer.heard()), "held");
        peer.expect_close(1001);
        stage.join();
    });
}
