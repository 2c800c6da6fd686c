//! `subscriptions/listen` over HTTP: one stream a request, for as long as its client stays.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::Client;
use crate::messages::listen;
use crate::request::Request;
use crate::stage::{Stage, on_one_shard_and_two, options, over_each_ring};

const TOOLS: &str = "notifications/tools/list_changed";
const UPDATED: &str = "notifications/resources/updated";

/// Opens a stream, and returns what was granted.
fn open(stage: &Stage, id: &str, wish: Value) -> (Client, Value) {
    let mut client = stage.connect();
    client.ask_stream(&Request::modern(&listen(id, wish)));
    let mut said = client.heard_once();
    assert_eq!(said["method"], "notifications/subscriptions/acknowledged", "{said}");
    assert_eq!(stream_of(&said), id, "{said}");
    let granted = said["params"]["notifications"].take();
    (client, granted)
}

fn stream_of(message: &Value) -> &Value {
    &message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"]
}

fn hear(client: &mut Client, method: &str, id: &str) {
    let said = client.heard_once();
    assert_eq!(said["method"], method, "{said}");
    assert_eq!(stream_of(&said), id, "{said}");
}

#[test]
fn a_stream_begins_with_what_was_granted_and_goes_on_with_what_happens() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let wish = json!({"toolsListChanged": true, "resourceSubscriptions": ["test://one"]});
        let mut clients: Vec<_> = (0..8).map(|_| open(&stage, "s", wish.clone())).collect();
        for (_, granted) in &clients {
            assert_eq!(granted["toolsListChanged"], true, "{granted}");
        }
        stage.grow("more");
        for (client, _) in &mut clients {
            hear(client, TOOLS, "s");
        }
        stage.handle().updated("test://one");
        for (client, _) in &mut clients {
            hear(client, UPDATED, "s");
        }
        drop(clients);
        let counters = stage.close();
        assert_eq!(counters.subscriptions.frames_published, 16, "{counters}");
    });
}

#[test]
fn whoever_goes_away_listens_no_more() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        for resets in [false, true] {
            let (client, _) = open(&stage, "s", json!({"toolsListChanged": true}));
            if resets {
                client.reset();
            } else {
                drop(client);
            }
            stage.until_connections(0);
        }
        stage.grow("more");
        let counters = stage.close();
        let streams = &counters.subscriptions;
        assert_eq!((streams.ended, streams.frames_published), (2, 0), "{counters}");
    });
}

#[test]
fn a_drain_ends_every_stream_with_its_result() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let mut clients: Vec<_> =
            (0..4).map(|_| open(&stage, "s", json!({"toolsListChanged": true})).0).collect();
        stage.drain();
        for client in &mut clients {
            let answer = client.heard_once();
            assert_eq!(answer["id"], "s", "{answer}");
            assert!(answer["result"].is_object(), "{answer}");
            client.expect_end_of_stream();
            client.expect_end_or_reset();
        }
        drop(clients);
        stage.join();
    });
}

#[test]
fn whoever_listens_is_not_silent_and_hears_that_its_stream_lives() {
    over_each_ring(|mut options| {
        options.tcp.idle_max = Duration::from_millis(40);
        options.http.silence_max = Duration::from_millis(15);
        let stage = Stage::open(options);
        let mut idle = stage.connect();
        idle.expect_alive();
        let (mut client, _) = open(&stage, "s", json!({"toolsListChanged": true}));
        idle.expect_end_or_reset();
        for _ in 0..5 {
            assert!(client.event().expect("a comment").is_comment);
        }
        stage.grow("more");
        let event = loop {
            let event = client.event().expect("an event");
            if !event.is_comment {
                break event;
            }
        };
        assert!(event.data.is_some_and(|data| data.contains(TOOLS)));
        drop(client);
        stage.close();
    });
}

#[test]
fn a_wish_that_cannot_be_granted_is_refused_with_a_status() {
    let stage = Stage::open(options());
    let mut client = stage.connect();
    let wrong = Request::modern(&listen("s", json!({"resourceSubscriptions": 7})));
    client.ask(&wrong).expect_error(400, -32602, Some(json!("s")));
    client.expect_alive();
    drop(client);
    stage.close();
}

#[test]
fn what_comes_behind_a_stream_waits_until_it_ends() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let (mut client, _) = open(&stage, "s", json!({"toolsListChanged": true}));
        client.send(&Request::new("GET", "/healthz"));
        stage.grow("more");
        hear(&mut client, TOOLS, "s");
        // Its stream ends with its connection only, so nobody will read the request.
        drop(client);
        stage.until_connections(0);
        stage.close();
    });
}

#[test]
fn ten_thousand_streams_that_are_opened_and_abandoned_leave_nothing() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        for _ in 0..10_000 / TOGETHER {
            let clients: Vec<_> = (0..TOGETHER)
                .map(|_| open(&stage, "s", json!({"toolsListChanged": true})).0)
                .collect();
            clients.into_iter().for_each(Client::reset);
        }
        stage.until(|status| status["streams"] == 0 && status["connections"] == 1);
        let counters = stage.close();
        assert_eq!(counters.subscriptions.ended, 10_000, "{counters}");
    });
}

/// Streams that are open at once.
const TOGETHER: usize = 100;
