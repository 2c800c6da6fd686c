//! Peers that subscribe wrongly, too often, or and then go.

use serde_json::{Value, json};

use crate::client::{cancelled, expect_error, lines, modern, request};
use crate::stage::{Stage, over_each_ring};

#[expect(clippy::needless_pass_by_value, reason = "a literal stands in most calls")]
fn listen(id: impl Into<Value>, wish: Value) -> Value {
    modern(request(id, "subscriptions/listen", json!({"notifications": wish})))
}

#[test]
fn a_wish_that_is_none_is_refused_and_the_next_one_is_read() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let mut client = stage.connect();
        let wrong = [json!(7), json!([]), json!({"toolsListChanged": "yes"})];
        for (id, wish) in (0..).zip(wrong) {
            let answer = client.ask(listen(id, wish));
            expect_error(&answer, -32602, Some(json!(id)));
        }
        let said = client.ask(listen("right", json!({"toolsListChanged": true})));
        assert_eq!(said["method"], "notifications/subscriptions/acknowledged", "{said}");
        drop(client);
        let counters = stage.close();
        assert_eq!((counters.subscriptions.opened, counters.subscriptions.ended), (1, 1));
    });
}

#[test]
fn a_storm_of_streams_that_begin_and_end_leaves_nothing() {
    over_each_ring(|mut options| {
        options.limits.subscriptions_per_connection_max = 8;
        let stage = Stage::open(options);
        for resets in [false, true] {
            let mut client = stage.connect();
            let mut texts = String::new();
            for round in 0..200 {
                let id = round % 10;
                let uris = [format!("test://{round}"), "test://all".to_owned()];
                let wish = json!({"toolsListChanged": true, "resourceSubscriptions": uris});
                texts += &lines([listen(id, wish), cancelled((round + 7) % 10)]);
            }
            client.send_bytes(texts.as_bytes());
            for _ in 0..200 {
                client.answer();
            }
            if resets {
                client.reset();
            } else {
                client.finish();
                client.expect_end();
            }
        }
        let counters = stage.close();
        let streams = &counters.subscriptions;
        assert!(streams.opened > 0, "{counters}");
        assert_eq!(streams.opened, streams.ended, "{counters}");
    });
}
