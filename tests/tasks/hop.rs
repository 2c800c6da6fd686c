//! Requests for tasks that live on another shard.

use serde_json::{Value, json};

use crate::peer::{Peer, RELATED, expect_error, text};
use crate::stage::{Stage, two_shards};

/// The shard of two that keeps a task: the first half of all names belongs to the first one.
fn owner(id: &str) -> bool {
    id.as_bytes()[0] >= b'8'
}

/// A task on one shard, and a connection to the other: the kernel deals connections out, so as many
/// are opened as it takes.
fn apart(stage: &Stage, connect: impl Fn(&Stage) -> Peer, tool: &str) -> (String, Peer) {
    let mut first = connect(stage);
    let id = first.begin(tool);
    for _ in 0..CONNECTIONS_MAX {
        let mut other = connect(stage);
        let own = other.begin("hold");
        if owner(&own) != owner(&id) {
            return (id, other);
        }
    }
    panic!("{CONNECTIONS_MAX} connections in a row came to the same shard");
}

const CONNECTIONS_MAX: usize = 200;

#[test]
fn a_task_of_the_extension_is_served_by_every_shard() {
    let stage = Stage::open(two_shards());
    let (id, mut peer) = apart(&stage, Stage::modern, "confirm");
    let task = peer.until(&id, "input_required");
    assert!(task["inputRequests"]["first"].is_object(), "{task}");
    for (key, action) in [("first", "accept"), ("second", "decline")] {
        while peer.until(&id, "input_required")["inputRequests"].get(key).is_none() {}
        let wrong = json!({"taskId": id, "inputResponses": {key: 7}});
        expect_error(&peer.request("tasks/update", wrong), -32602);
        let params = json!({"taskId": id, "inputResponses": {key: {"action": action}}});
        assert_eq!(peer.request("tasks/update", params)["result"]["resultType"], "complete");
    }
    assert_eq!(text(&peer.until(&id, "completed")["result"]), "Accept Decline");
    assert_eq!(peer.task("tasks/cancel", &id)["result"]["resultType"], "complete");
    stage.close();
}

#[test]
fn a_task_is_listened_to_from_another_shard() {
    let stage = Stage::open(two_shards());
    let (id, mut peer) = apart(&stage, Stage::modern, "hold");
    let listen = peer.listen(&[&id]);
    assert_eq!(peer.told_of(&id, listen)["status"], "working");
    stage.open_gate();
    let task = peer.told_of(&id, listen);
    assert_eq!((&task["status"], text(&task["result"])), (&json!("completed"), "held"));
    stage.close();
}

#[test]
fn a_core_task_is_waited_for_from_another_shard() {
    let stage = Stage::open(two_shards());
    let (id, mut peer) = apart(&stage, Stage::core, "hold");
    let waiting = peer.send("tasks/result", json!({"taskId": id}));
    assert_eq!(peer.task("tasks/get", &id)["result"]["status"], "working");
    stage.open_gate();
    let result = peer.answer_to(waiting, "tasks/result");
    assert_eq!(text(&result["result"]), "held");
    assert_eq!(result["result"]["_meta"][RELATED]["taskId"], id.as_str());
    expect_error(&peer.task("tasks/cancel", &id), -32602);
    let listed = peer.request("tasks/list", json!({}));
    let tasks = listed["result"]["tasks"].as_array().unwrap();
    assert!(tasks.iter().all(|task| task["taskId"] != id.as_str()), "{listed}");
    stage.close();
}

#[test]
fn a_call_that_waits_on_another_shard_can_be_cancelled() {
    let stage = Stage::open(two_shards());
    let (id, mut peer) = apart(&stage, Stage::core, "hold");
    let waiting = peer.send("tasks/result", json!({"taskId": id}));
    let params = json!({"requestId": waiting});
    peer.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
    assert_eq!(peer.task("tasks/get", &id)["result"]["status"], "working");
    stage.open_gate();
    assert_eq!(text(&peer.task("tasks/result", &id)["result"]), "held");
    assert!(peer.left_over().all(|message: &Value| message["id"] != waiting));
    stage.close();
}

#[test]
fn a_name_that_no_shard_knows_is_unknown_from_everywhere() {
    let stage = Stage::open(two_shards());
    let (_, mut peer) = apart(&stage, Stage::modern, "hold");
    for digit in ["0", "7", "8", "f"] {
        expect_error(&peer.task("tasks/get", &digit.repeat(32)), -32602);
    }
    stage.close();
}
