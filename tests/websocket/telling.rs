//! What is said besides answers: progress, questions, logs, lists that change, tasks.

use serde_json::json;

use crate::messages::{
    LEGACY, MODERN, call, cancelled, listen, modern, request, text, with_progress,
};
use crate::peer::Peer;
use crate::stage::{Stage, on_one_shard_and_two};

#[test]
fn progress_comes_before_the_answer() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let slow = || with_progress(call(1, "slow", json!({"steps": 3, "step_ms": 1})));
        for (mut peer, asking) in [
            (Peer::begin(stage.address(), LEGACY), slow()),
            (Peer::open(stage.address()), modern(slow())),
        ] {
            peer.say(&asking);
            let said = peer.heard_until(&json!(1));
            let (answer, steps) = said.split_last().expect("an answer");
            assert_eq!(text(answer), "took 3 steps of 1 ms");
            assert!(steps.iter().all(|it| it["method"] == "notifications/progress"), "{steps:?}");
            assert!(!steps.is_empty());
            peer.close(1000);
        }
        stage.close();
    });
}

#[test]
fn a_question_is_asked_and_answered_over_the_connection() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let mut peer = Peer::begin(stage.address(), LEGACY);
        let question = peer.ask(&call("asks", "ask", json!({})));
        assert_eq!(question["method"], "elicitation/create", "{question}");
        let result = json!({"action": "accept", "content": {"name": "Ada"}});
        let answer = peer.ask(&json!({"jsonrpc": "2.0", "id": question["id"], "result": result}));
        assert_eq!(text(&answer), "Hello, Ada!");
        // One that closes before it answers leaves nothing behind.
        let question = peer.ask(&call("asks", "ask", json!({})));
        assert_eq!(question["method"], "elicitation/create", "{question}");
        peer.close(1000);
        let counters = stage.close();
        assert_eq!((counters.questions.asked, counters.questions.answered), (2, 1), "{counters}");
    });
}

#[test]
fn legacy_sessions_hear_of_changes_without_asking_and_of_resources_when_they_asked() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let mut peers: Vec<_> = (0..8).map(|_| Peer::begin(stage.address(), LEGACY)).collect();
        for peer in &mut peers {
            let asking = request(1, "resources/subscribe", json!({"uri": "test://one"}));
            assert_eq!(peer.ask(&asking)["result"], json!({}));
        }
        stage.grow("new");
        for peer in &mut peers {
            assert_eq!(peer.heard()["method"], "notifications/tools/list_changed");
        }
        stage.handle().updated("test://one");
        for mut peer in peers {
            let told = peer.heard();
            assert_eq!(told["method"], "notifications/resources/updated", "{told}");
            assert_eq!(told["params"]["uri"], "test://one", "{told}");
            peer.close(1000);
        }
        stage.close();
    });
}

#[test]
fn streams_of_notifications_share_a_connection_and_end_by_cancellation() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let mut peer = Peer::open(stage.address()).speaking(MODERN);
        let wish = json!({"toolsListChanged": true, "resourceSubscriptions": ["test://one"]});
        for id in ["one", "two"] {
            let told = peer.ask(&listen(id, wish.clone()));
            assert_eq!(told["method"], "notifications/subscriptions/acknowledged", "{told}");
        }
        stage.grow("new");
        let subscribed = |told: &serde_json::Value| {
            told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].clone()
        };
        let mut heard: Vec<_> = (0..2).map(|_| subscribed(&peer.heard()).to_string()).collect();
        heard.sort();
        assert_eq!(heard, ["\"one\"", "\"two\""]);
        peer.say(&cancelled("one"));
        // Behind it in the order of the connection.
        assert_eq!(text(&peer.ask(&modern(crate::messages::echo(3, "next")))), "next");
        stage.handle().updated("test://one");
        let told = peer.heard();
        assert_eq!(told["method"], "notifications/resources/updated", "{told}");
        assert_eq!(subscribed(&told), "two");
        assert_eq!(text(&peer.ask(&modern(crate::messages::echo(4, "last")))), "last");
        peer.close(1000);
        stage.close();
    });
}

#[test]
fn a_call_may_become_a_task_that_outlives_its_connection() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let mut peer = Peer::begin(stage.address(), LEGACY);
        let mut asking = call(1, "slow", json!({"steps": 1, "step_ms": 1}));
        asking["params"]["task"] = json!({"ttl": 60_000});
        let begun = peer.ask(&asking);
        let id = begun["result"]["task"]["taskId"].clone();
        if id.is_null() {
            // The demo's tool may not be one that runs as a task.
            assert!(begun["error"].is_object(), "{begun}");
        } else {
            let asked = request(2, "tasks/result", json!({"taskId": id}));
            peer.expect_answer_to(&asked);
            peer.send_bytes(&crate::peer::text_frame(&asked));
            let said = peer.heard_until(&json!(2));
            assert_eq!(text(said.last().expect("an answer")), "took 1 steps of 1 ms");
        }
        peer.close(1000);
        stage.close();
    });
}
