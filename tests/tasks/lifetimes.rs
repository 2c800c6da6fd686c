//! How long tasks are kept, how many, and what becomes of them when the server ends.

use std::time::Duration;

use serde_json::json;

use crate::peer::expect_error;
use crate::stage::{Stage, options};

#[test]
fn a_task_is_kept_for_the_time_that_the_server_grants() {
    let mut options = options();
    options.limits.task_ttl = Duration::from_secs(20);
    options.limits.task_ttl_max = Duration::from_secs(30);
    let stage = Stage::open(options);
    let mut peer = stage.core();
    for (wish, granted) in [
        (json!({}), 20_000),
        (json!({"ttl": 25_000}), 25_000),
        (json!({"ttl": 31_000}), 30_000),
        (json!({"ttl": u64::MAX}), 30_000),
        (json!({"ttl": null}), 20_000),
    ] {
        let answer = peer.call("hold", json!({"task": wish}));
        assert_eq!(answer["result"]["task"]["ttl"], granted, "{answer}");
    }
    assert_eq!(stage.modern().call("hold", json!({}))["result"]["ttlMs"], 20_000);
    stage.close();
}

#[test]
fn a_task_whose_time_is_over_is_unknown_and_who_waits_hears_it() {
    let mut options = options();
    options.limits.task_ttl = Duration::from_millis(100);
    options.limits.task_ttl_max = Duration::from_millis(100);
    let stage = Stage::open(options);
    let (mut core, mut modern) = (stage.core(), stage.modern());
    let id = modern.begin("hold");
    for tool in ["hold", "block"] {
        let old = core.begin(tool);
        let waiting = core.send("tasks/result", json!({"taskId": old}));
        expect_error(&core.answer_to(waiting, "tasks/result"), -32602);
        expect_error(&core.task("tasks/get", &old), -32602);
    }
    // Younger tasks have gone: this one has, too.
    expect_error(&modern.task("tasks/get", &id), -32602);
    stage.close();
}

#[test]
fn a_full_table_refuses_and_serves_again_when_there_is_room() {
    let mut options = options();
    options.limits.tasks_max = 2;
    options.limits.task_ttl = Duration::from_millis(200);
    let stage = Stage::open(options);
    stage.open_gate();
    let mut peer = stage.modern();
    peer.begin("hold");
    peer.begin("hold");
    loop {
        let answer = peer.call("hold", json!({}));
        if answer.get("result").is_some() {
            break;
        }
        expect_error(&answer, -32603);
    }
    stage.close();
}

#[test]
fn one_peer_begins_its_share_of_tasks_and_leaves_room_for_others() {
    let mut options = options();
    options.limits.tasks_max = 4;
    options.limits.tasks_per_connection_max = 2;
    let stage = Stage::open(options);
    stage.open_gate();
    let (mut modern, mut core) = (stage.modern(), stage.core());
    for peer in [&mut modern, &mut core] {
        peer.begin("hold");
        peer.begin("block");
    }
    expect_error(&modern.call("hold", json!({})), -32603);
    let requests = stage.close().requests;
    assert_eq!((requests.tasks_refused_full, requests.tasks_refused_share), (1, 0));
}

#[test]
fn one_task_too_many_of_a_peer_is_refused_and_counted() {
    let mut options = options();
    options.limits.tasks_per_connection_max = 2;
    let stage = Stage::open(options);
    stage.open_gate();
    let (mut greedy, mut other) = (stage.core(), stage.modern());
    greedy.begin("hold");
    greedy.begin("hold");
    let refused = greedy.request("tools/call", json!({"name": "hold", "task": {}}));
    expect_error(&refused, -32603);
    other.begin("hold");
    let requests = stage.close().requests;
    assert_eq!((requests.tasks_refused_full, requests.tasks_refused_share), (0, 1));
}

#[test]
fn a_result_that_finds_no_room_is_an_error() {
    let mut options = options();
    options.limits.task_bytes_max = 10;
    let stage = Stage::open(options);
    stage.open_gate();
    let mut peer = stage.modern();
    let id = peer.begin("hold");
    assert_eq!(peer.until(&id, "failed")["error"]["code"], -32603);
    stage.close();
}

#[test]
fn a_drain_gives_tasks_their_time() {
    let mut options = options();
    options.engine.drain_max = Duration::from_mins(1);
    let stage = Stage::open(options);
    let mut peer = stage.modern();
    for tool in ["hold", "block"] {
        peer.begin(tool);
    }
    stage.drain();
    peer.expect_end();
    stage.open_gate();
    assert_eq!(stage.join().requests.tasks_cancelled, 0);
}

#[test]
fn a_drain_cancels_what_takes_longer() {
    let mut options = options();
    options.engine.drain_max = Duration::from_millis(100);
    let stage = Stage::open(options);
    let mut peer = stage.modern();
    for tool in ["hold", "block"] {
        peer.begin(tool);
    }
    peer.request("server/discover", json!({}));
    assert_eq!(stage.close().requests.tasks_cancelled, 2);
}

#[test]
fn a_drain_waits_for_no_task_that_waits_for_its_user() {
    let mut options = options();
    options.engine.drain_max = Duration::from_hours(1);
    let stage = Stage::open(options);
    let mut peer = stage.modern();
    let id = peer.begin("confirm");
    peer.until(&id, "input_required");
    let wish = json!({"notifications": {"taskIds": [id]}});
    peer.send("subscriptions/listen", wish);
    peer.told("notifications/subscriptions/acknowledged");
    assert_eq!(peer.told("notifications/tasks")["params"]["status"], "input_required");
    // It ends, or the test takes an hour.
    let counters = stage.close();
    let told = peer.told("notifications/tasks");
    assert_eq!(told["params"]["status"], "failed", "{told}");
    assert_eq!(told["params"]["error"]["code"], -32603, "{told}");
    assert!(told["params"]["statusMessage"].is_string(), "{told}");
    peer.expect_end();
    assert_eq!((counters.requests.tasks_cancelled, counters.questions.withdrawn), (0, 1));
}

#[test]
fn a_task_that_asks_its_user_while_the_server_drains_holds_it_no_longer() {
    let mut options = options();
    options.engine.drain_max = Duration::from_hours(1);
    let stage = Stage::open(options);
    let mut peer = stage.modern();
    let id = peer.begin("ask_late");
    peer.until(&id, "working");
    stage.drain();
    peer.expect_end();
    stage.open_gate();
    let counters = stage.join();
    assert_eq!((counters.requests.tasks_cancelled, counters.questions.withdrawn), (0, 1));
}
