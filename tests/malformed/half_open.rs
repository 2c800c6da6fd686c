//! Peers that have said their last and still listen.

use serde_json::{Value, json};

use crate::client::{LEGACY, bare, call, echo, lines};
use crate::stage::{Stage, over_each_ring};

#[test]
fn a_peer_that_has_said_its_last_still_gets_every_answer() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let mut client = stage.session(LEGACY);
        let now = (0..100).map(|id| echo(id, "now"));
        let later = (100..110).flat_map(|id| {
            let slow = call(id, "slow", json!({"steps": 3, "step_ms": 5}));
            [slow, call(id + 10, "hash", json!({"bytes": 100_000}))]
        });
        let requests = lines(now.chain(later));
        client.send_bytes(requests.as_bytes());
        client.finish();
        let answers = client.rest();
        let mut ids: Vec<i64> = answers.iter().filter_map(|answer| answer["id"].as_i64()).collect();
        assert!(answers.iter().all(|answer| answer.get("result").is_some()));
        assert!(ids[..100].is_sorted());
        ids.sort_unstable();
        assert_eq!(ids, (0..120).collect::<Vec<_>>());
        drop(client);
        stage.close();
    });
}

#[test]
fn the_last_line_counts_without_its_terminator() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        for (text, code) in [(bare(1, "ping").to_string(), None), ("{".to_owned(), Some(-32700))] {
            let mut client = stage.connect();
            client.send_bytes(text.as_bytes());
            client.finish();
            let answers = client.rest();
            assert_eq!(answers.len(), 1, "{answers:?}");
            assert_eq!(answers[0]["error"]["code"].as_i64(), code, "{answers:?}");
        }
        let mut client = stage.session(LEGACY);
        client
            .send_bytes(call(2, "slow", json!({"steps": 1, "step_ms": 5})).to_string().as_bytes());
        client.finish();
        assert_eq!(client.rest()[0]["id"], 2);
        drop(client);
        stage.close();
    });
}

#[test]
fn a_peer_that_says_nothing_and_finishes_is_let_go() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let mut client = stage.connect();
        client.finish();
        assert_eq!(client.rest(), Vec::<Value>::new());
        let mut client = stage.session(LEGACY);
        client.finish();
        assert_eq!(client.rest(), Vec::<Value>::new());
        drop(client);
        stage.close();
    });
}

#[test]
fn a_peer_that_has_finished_behind_a_full_queue_still_gets_every_answer() {
    over_each_ring(|mut options| {
        options.limits.outgoing_bytes_max = 1000;
        let stage = Stage::open(options);
        let mut client = stage.session(LEGACY);
        let requests = lines((0..40).flat_map(|id| {
            let slow = call(id, "slow", json!({"steps": 1, "step_ms": 1}));
            [slow, echo(id + 40, &"x".repeat(400))]
        }));
        client.send_bytes(requests.as_bytes());
        client.finish();
        let mut ids: Vec<i64> = client.rest().iter().filter_map(|it| it["id"].as_i64()).collect();
        ids.sort_unstable();
        assert_eq!(ids, (0..80).collect::<Vec<_>>());
        drop(client);
        let counters = stage.close();
        assert!(counters.traffic.pauses > 0, "{counters}");
    });
}
