//! Tools that ask before they become a task: an ordinary call first, a task when the handler says
//! so, and one handler through all of it.

use serde_json::{Value, json};

use crate::peer::{EXTENSION, Peer, RELATED, expect_error, text};
use crate::stage::{Stage, options};

/// Answers the round of a modern call with a name, and hands back what the retry is answered.
fn retry(peer: &mut Peer, round: &Value) -> Value {
    let state = &round["result"]["requestState"];
    let name = json!({"action": "accept", "content": {"name": "Ada"}});
    let more = json!({"inputResponses": {"user_name": name}, "requestState": state});
    peer.call("name", more)
}

fn ask(peer: &mut Peer) -> Value {
    let round = peer.call("name", json!({}));
    assert_eq!(round["result"]["resultType"], "input_required", "{round}");
    assert!(round["result"]["inputRequests"]["user_name"].is_object(), "{round}");
    round
}

#[test]
fn a_modern_call_asks_in_rounds_and_then_becomes_a_task() {
    let stage = Stage::open(options());
    let mut peer = stage.modern();
    let round = ask(&mut peer);
    let begun = retry(&mut peer, &round);
    assert_eq!(begun["result"]["resultType"], "task", "{begun}");
    assert_eq!(begun["result"].get("requestState"), None, "{begun}");
    let id = begun["result"]["taskId"].as_str().expect("a name").to_owned();
    peer.until(&id, "working");
    // The state has done its work.
    expect_error(&retry(&mut peer, &round), -32602);
    // Cancelling the call does not touch the task.
    let params = json!({"requestId": begun["id"]});
    peer.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
    stage.open_gate();
    let task = peer.until(&id, "input_required");
    assert!(task["inputRequests"]["later"].is_object(), "{task}");
    let responses = json!({"later": {"action": "decline"}});
    peer.request("tasks/update", json!({"taskId": id, "inputResponses": responses}));
    assert_eq!(text(&peer.until(&id, "completed")["result"]), "Hello, Ada! Decline");
    assert_eq!(stage.close().requests.tasks_begun, 1);
}

#[test]
fn a_call_of_the_core_asks_by_requests_and_then_becomes_a_task() {
    let stage = Stage::open(options());
    let mut peer = stage.core();
    let params = json!({"name": "name", "task": {"ttl": 60_000}, "_meta": {"progressToken": "p"}});
    let call = peer.send("tools/call", params);
    let asked = peer.told("elicitation/create");
    assert_eq!(asked["params"]["_meta"].get(RELATED), None, "there is no task: {asked}");
    let result = json!({"action": "accept", "content": {"name": "Ada"}});
    peer.say(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}));
    let begun = peer.answer_to(call, "tools/call");
    let task = &begun["result"]["task"];
    assert_eq!((&task["status"], &task["ttl"]), (&json!("working"), &json!(60_000)), "{begun}");
    let id = task["taskId"].as_str().expect("a name").to_owned();
    let told = peer.told("notifications/progress");
    assert_eq!(told["params"]["_meta"][RELATED]["taskId"], id.as_str(), "{told}");
    stage.open_gate();
    let asked = peer.told("elicitation/create");
    assert_eq!(asked["params"]["_meta"][RELATED]["taskId"], id.as_str(), "{asked}");
    peer.say(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "cancel"}}));
    let result = peer.task("tasks/result", &id);
    assert_eq!(text(&result["result"]), "Hello, Ada! Cancel");
    stage.close();
}

#[test]
fn a_task_that_began_late_is_cancelled_like_any_other() {
    let stage = Stage::open(options());
    let mut peer = stage.modern();
    let round = ask(&mut peer);
    let begun = retry(&mut peer, &round);
    let id = begun["result"]["taskId"].as_str().expect("a name").to_owned();
    peer.task("tasks/cancel", &id);
    peer.until(&id, "cancelled");
    assert_eq!(stage.close().requests.tasks_cancelled, 1);
}

#[test]
fn a_call_that_is_cancelled_before_its_task_begins_leaves_none() {
    let stage = Stage::open(options());
    let mut peer = stage.core();
    let call = peer.send("tools/call", json!({"name": "name", "task": {}}));
    let asked = peer.told("elicitation/create");
    let params = json!({"requestId": call});
    peer.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
    assert_eq!(peer.told("notifications/cancelled")["params"]["requestId"], asked["id"]);
    assert_eq!(peer.request("tasks/list", json!({}))["result"]["tasks"], json!([]));
    assert_eq!(stage.close().requests.tasks_begun, 0);
}

#[test]
fn a_handler_that_ends_before_its_task_has_answered_the_call() {
    let stage = Stage::open(options());
    assert_eq!(text(&stage.modern().call("hasty", json!({}))["result"]), "done");
    // A client of the core has asked for a task and gets one.
    let mut peer = stage.core();
    assert_eq!(text(&peer.call("hasty", json!({}))["result"]), "done");
    let id = peer.begin("hasty");
    assert_eq!(text(&peer.task("tasks/result", &id)["result"]), "done");
    stage.close();
}

#[test]
fn a_full_table_refuses_a_late_task_too() {
    let mut options = options();
    options.limits.tasks_max = 1;
    let stage = Stage::open(options);
    let mut peer = stage.modern();
    peer.begin("hold");
    let round = ask(&mut peer);
    expect_error(&retry(&mut peer, &round), -32603);
    stage.close();
}

#[test]
fn who_knows_no_tasks_is_refused_before_it_is_asked() {
    let stage = Stage::open(options());
    let mut peer = stage.modern();
    peer.capabilities = json!({"elicitation": {}});
    let refused = peer.call("name", json!({}));
    expect_error(&refused, -32021);
    let required = json!({"extensions": {EXTENSION: {}}});
    assert_eq!(refused["error"]["data"]["requiredCapabilities"], required, "{refused}");
    expect_error(&stage.core().call("name", json!({})), -32601);
    stage.close();
}
