//! The Tasks extension of 2026-07-28: the server decides what becomes a task.

use serde_json::{Map, Value, json};

use crate::peer::{EXTENSION, expect_error, text};
use crate::stage::{Stage, options};

/// Holds a task against the types of the extension: `more` is what its status brings along.
#[track_caller]
fn expect_task(task: &Value, status: &str, more: &[&str]) {
    let members = task.as_object().unwrap_or_else(|| panic!("no task: {task}"));
    assert_eq!(task["status"], status, "{task}");
    for (key, fits) in [
        ("taskId", task["taskId"].is_string()),
        ("createdAt", is_timestamp(&task["createdAt"])),
        ("lastUpdatedAt", is_timestamp(&task["lastUpdatedAt"])),
        ("ttlMs", task["ttlMs"].is_u64()),
        ("pollIntervalMs", task["pollIntervalMs"].is_u64()),
    ] {
        assert!(fits, "{key}: {task}");
    }
    let known = ["taskId", "status", "statusMessage", "createdAt", "lastUpdatedAt", "ttlMs"];
    let known: Vec<_> = known.iter().chain(&["pollIntervalMs", "resultType", "_meta"]).collect();
    let foreign: Vec<_> =
        members.keys().map(String::as_str).filter(|key| !known.contains(&key)).collect();
    assert_eq!(foreign, more, "{task}");
}

fn is_timestamp(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.len() == 24 && text.ends_with('Z'))
}

#[test]
fn a_call_becomes_a_task_for_a_client_that_knows_tasks() {
    let stage = Stage::open(options());
    let mut peer = stage.modern();
    let discovered = peer.request("server/discover", json!({}));
    let extensions = &discovered["result"]["capabilities"]["extensions"];
    assert_eq!(extensions[EXTENSION], json!({}), "{discovered}");
    for tool in ["hold", "block"] {
        stage.close_gate();
        let answer = peer.call(tool, json!({}));
        assert_eq!(answer["result"]["resultType"], "task", "{answer}");
        expect_task(&answer["result"], "working", &[]);
        let id = answer["result"]["taskId"].as_str().unwrap().to_owned();
        let shown = peer.task("tasks/get", &id);
        assert_eq!(shown["result"]["resultType"], "complete", "{shown}");
        expect_task(&shown["result"], "working", &[]);
        stage.open_gate();
        let task = peer.until(&id, "completed");
        expect_task(&task, "completed", &["result"]);
        assert_eq!(text(&task["result"]), "held");
    }
    // An inline tool has answered before anybody could ask.
    let answer = peer.call("greet", json!({}));
    assert_eq!(
        (text(&answer["result"]), &answer["result"]["resultType"]),
        ("hello", &json!("complete"))
    );
    stage.close();
}

#[test]
fn a_client_that_does_not_know_tasks_gets_none() {
    let stage = Stage::open(options());
    stage.open_gate();
    let mut peer = stage.modern();
    let id = peer.begin("hold");
    peer.capabilities = json!({"extensions": {"example.com/other": {}}});
    assert_eq!(text(&peer.call("hold", json!({}))["result"]), "held");
    let required = json!({"extensions": {EXTENSION: {}}});
    let updates = json!({"taskId": id, "inputResponses": {}});
    for answer in [
        peer.call("fail", json!({})),
        peer.task("tasks/get", &id),
        peer.task("tasks/cancel", &id),
        peer.request("tasks/update", updates),
    ] {
        expect_error(&answer, -32021);
        assert_eq!(answer["error"]["data"]["requiredCapabilities"], required, "{answer}");
    }
    stage.close();
}

#[test]
fn the_client_s_wish_for_a_task_is_passed_over() {
    let stage = Stage::open(options());
    let mut peer = stage.modern();
    let answer = peer.call("plain", json!({"task": {"ttl": 5}}));
    assert_eq!(text(&answer["result"]), "plain");
    for method in ["tasks/result", "tasks/list"] {
        expect_error(&peer.request(method, json!({"taskId": "x"})), -32601);
    }
    stage.close();
}

#[test]
fn a_tool_that_failed_completed_its_task_and_an_error_failed_it() {
    let stage = Stage::open(options());
    let mut peer = stage.modern();
    let id = peer.begin("fail");
    let task = peer.until(&id, "completed");
    assert_eq!((text(&task["result"]), &task["result"]["isError"]), ("no luck", &json!(true)));
    let id = peer.begin("refuse");
    let task = peer.until(&id, "failed");
    expect_task(&task, "failed", &["error"]);
    assert_eq!(task["error"], json!({"code": 7, "message": "not today"}));
    assert_eq!(task["statusMessage"], "not today");
    stage.close();
}

#[test]
fn a_cancelled_task_stays_cancelled_and_may_be_cancelled_again() {
    let stage = Stage::open(options());
    let mut peer = stage.modern();
    for tool in ["hold", "block"] {
        stage.close_gate();
        let id = peer.begin(tool);
        for _ in 0..2 {
            let answer = peer.task("tasks/cancel", &id);
            assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
            assert_eq!(answer["result"].get("taskId"), None, "{answer}");
            expect_task(&peer.until(&id, "cancelled"), "cancelled", &[]);
        }
        stage.open_gate();
        expect_task(&peer.until(&id, "cancelled"), "cancelled", &[]);
    }
    stage.close();
}

#[test]
fn a_task_asks_and_updates_answer_in_their_own_time() {
    let stage = Stage::open(options());
    let mut peer = stage.modern();
    let id = peer.begin("confirm");
    let task = peer.until(&id, "input_required");
    expect_task(&task, "input_required", &["inputRequests"]);
    assert_eq!(keys(&task["inputRequests"]), ["first"]);
    assert_eq!(task["inputRequests"]["first"]["method"], "elicitation/create");
    let update = |peer: &mut crate::peer::Peer, responses: Value| {
        let params = json!({"taskId": id, "inputResponses": responses});
        peer.request("tasks/update", params)
    };
    // What is no answer changes nothing, and what nobody asked for is passed over.
    expect_error(&update(&mut peer, json!({"first": {"action": "perhaps"}})), -32602);
    let ignored = update(&mut peer, json!({"second": {"action": "accept"}, "third": 7}));
    assert_eq!(ignored["result"]["resultType"], "complete", "{ignored}");
    assert_eq!(keys(&peer.until(&id, "input_required")["inputRequests"]), ["first"]);
    update(&mut peer, json!({"first": {"action": "accept", "content": {}}}));
    // The next question has another key; an answer to the first one is late.
    while keys(&peer.until(&id, "input_required")["inputRequests"]) != ["second"] {}
    update(&mut peer, json!({"first": {"action": "decline"}, "second": {"action": "cancel"}}));
    let task = peer.until(&id, "completed");
    assert_eq!(text(&task["result"]), "Accept Cancel");
    let late = update(&mut peer, json!({"second": {"action": "accept"}}));
    assert_eq!(late["result"]["resultType"], "complete", "{late}");
    stage.close();
}

#[test]
fn a_task_that_waits_for_answers_can_be_cancelled() {
    let stage = Stage::open(options());
    let mut peer = stage.modern();
    let id = peer.begin("confirm");
    peer.until(&id, "input_required");
    peer.task("tasks/cancel", &id);
    expect_task(&peer.until(&id, "cancelled"), "cancelled", &[]);
    stage.close();
}

#[test]
fn a_question_that_the_client_cannot_answer_fails_the_task() {
    let stage = Stage::open(options());
    let mut peer = stage.modern();
    peer.capabilities = json!({"extensions": {EXTENSION: {}}});
    let id = peer.begin("confirm");
    let task = peer.until(&id, "failed");
    assert_eq!(task["error"]["code"], -32021, "{task}");
    assert_eq!(keys(&task["error"]["data"]["requiredCapabilities"]), ["elicitation"]);
    stage.close();
}

#[test]
fn a_task_tells_no_progress_and_is_not_cancelled_by_a_notification() {
    let stage = Stage::open(options());
    let mut peer = stage.modern();
    let answer = peer.call("steps", json!({"_meta": {"progressToken": "token"}}));
    let id = answer["result"]["taskId"].as_str().unwrap().to_owned();
    let params = json!({"requestId": answer["id"]});
    peer.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
    stage.open_gate();
    peer.until(&id, "completed");
    assert_eq!(peer.left_over().next(), None);
    stage.close();
}

#[test]
fn whoever_listens_hears_how_a_task_goes_on() {
    let stage = Stage::open(options());
    let mut peer = stage.modern();
    let id = peer.begin("confirm");
    let listen = peer.listen(&[&id]);
    let mut task = peer.told_of(&id, listen);
    while task["status"] == "working" {
        task = peer.told_of(&id, listen);
    }
    for key in ["first", "second"] {
        while task["inputRequests"].get(key).is_none() {
            task = peer.told_of(&id, listen);
        }
        let responses = json!({key: {"action": "accept", "content": {}}});
        peer.request("tasks/update", json!({"taskId": id, "inputResponses": responses}));
        task = peer.told_of(&id, listen);
    }
    while task["status"] != "completed" {
        task = peer.told_of(&id, listen);
    }
    assert_eq!(text(&task["result"]), "Accept Accept");
    stage.close();
}

#[test]
fn only_who_knows_tasks_listens_to_them_and_only_to_names_that_may_be_one() {
    let stage = Stage::open(options());
    let mut peer = stage.modern();
    let unknown = "0".repeat(32);
    let wish = json!({"notifications": {"taskIds": ["x", unknown]}});
    peer.send("subscriptions/listen", wish.clone());
    let granted = peer.told("notifications/subscriptions/acknowledged");
    assert_eq!(granted["params"]["notifications"]["taskIds"], json!([unknown]), "{granted}");
    peer.capabilities = json!({});
    let refused = peer.request("subscriptions/listen", wish);
    expect_error(&refused, -32021);
    stage.close();
}

#[test]
fn malformed_names_and_answers_are_invalid_params() {
    let stage = Stage::open(options());
    let mut peer = stage.modern();
    let id = peer.begin("confirm");
    peer.until(&id, "input_required");
    for wrong in ["", "x", &"0".repeat(32), &"f".repeat(32), &id.to_uppercase()] {
        for method in ["tasks/get", "tasks/cancel"] {
            expect_error(&peer.task(method, wrong), -32602);
        }
        let params = json!({"taskId": wrong, "inputResponses": {}});
        expect_error(&peer.request("tasks/update", params), -32602);
    }
    for responses in [json!(null), json!(7), json!([]), json!({"first": null}), json!({"first": 7})]
    {
        let params = json!({"taskId": id, "inputResponses": responses});
        expect_error(&peer.request("tasks/update", params), -32602);
    }
    expect_error(&peer.request("tasks/update", json!({"taskId": id})), -32602);
    peer.until(&id, "input_required");
    stage.close();
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().map(Map::keys).into_iter().flatten().map(String::as_str).collect()
}
