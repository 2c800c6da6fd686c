//! The core tasks of 2025-11-25: the caller asks for a task.

use serde_json::{Value, json};

use crate::peer::{RELATED, expect_error, text};
use crate::stage::{Stage, options};

#[test]
fn a_caller_that_wants_a_task_gets_one_and_waits_for_its_result() {
    let stage = Stage::open(options());
    let mut peer = stage.core();
    let answer = peer.call("hold", json!({"task": {"ttl": 60_000}}));
    let task = &answer["result"]["task"];
    assert_eq!((&task["status"], &task["ttl"]), (&json!("working"), &json!(60_000)));
    assert!(task["pollInterval"].is_u64(), "{answer}");
    let id = task["taskId"].as_str().unwrap().to_owned();
    let waiting = peer.send("tasks/result", json!({"taskId": id}));
    let shown = peer.task("tasks/get", &id);
    assert_eq!(shown["result"]["status"], "working");
    assert_eq!(shown["result"]["createdAt"], task["createdAt"]);
    assert_eq!(shown["result"].get("_meta"), None, "{shown}");
    stage.open_gate();
    let result = peer.answer_to(waiting, "tasks/result");
    assert_eq!(text(&result["result"]), "held");
    assert_eq!(result["result"]["_meta"][RELATED]["taskId"], id.as_str(), "{result}");
    let told = peer.told("notifications/tasks/status");
    assert_eq!(told["params"]["status"], "completed", "{told}");
    assert_eq!(told["params"]["taskId"], id.as_str());
    // Again, as often as one likes.
    assert_eq!(peer.task("tasks/result", &id)["result"], result["result"]);
    assert_eq!(peer.task("tasks/get", &id)["result"]["status"], "completed");
    stage.close();
}

#[test]
fn each_tool_says_whether_it_runs_as_a_task_and_is_held_to_it() {
    let stage = Stage::open(options());
    let mut peer = stage.core();
    let offered = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
    assert_eq!(peer.hello["result"]["capabilities"]["tasks"], offered);
    let listed = peer.request("tools/list", json!({}));
    let support = |name: &str| {
        let tools = listed["result"]["tools"].as_array().unwrap();
        let tool = tools.iter().find(|tool| tool["name"] == name).unwrap();
        tool["execution"]["taskSupport"].clone()
    };
    assert_eq!((support("hold"), support("fail")), (json!("optional"), json!("required")));
    assert!([Value::Null, json!("forbidden")].contains(&support("plain")));
    expect_error(&peer.call("plain", json!({"task": {}})), -32601);
    expect_error(&peer.call("fail", json!({})), -32601);
    assert_eq!(text(&peer.call("plain", json!({}))["result"]), "plain");
    stage.open_gate();
    assert_eq!(text(&peer.call("hold", json!({}))["result"]), "held");
    stage.close();
}

#[test]
fn a_revision_without_tasks_passes_the_wish_over() {
    let stage = Stage::open(options());
    stage.open_gate();
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18"] {
        let mut peer = stage.earlier(revision);
        assert_eq!(text(&peer.call("hold", json!({"task": {}}))["result"]), "held");
        expect_error(&peer.call("fail", json!({"task": {}})), -32601);
        expect_error(&peer.task("tasks/get", "x"), -32601);
    }
    stage.close();
}

#[test]
fn an_inline_tool_is_a_task_whose_result_is_there_already() {
    let stage = Stage::open(options());
    let mut peer = stage.core();
    let id = peer.begin("greet");
    let result = peer.task("tasks/result", &id);
    assert_eq!(text(&result["result"]), "hello");
    assert_eq!(result["result"]["_meta"][RELATED]["taskId"], id.as_str());
    assert_eq!(peer.told("notifications/tasks/status")["params"]["status"], "completed");
    stage.close();
}

#[test]
fn a_tool_that_failed_and_an_error_are_failed_tasks() {
    let stage = Stage::open(options());
    let mut peer = stage.core();
    let id = peer.begin("fail");
    let task = peer.until(&id, "failed");
    assert!(task["statusMessage"].is_string(), "{task}");
    let result = peer.task("tasks/result", &id);
    assert_eq!(result["result"]["isError"], true);
    assert_eq!(text(&result["result"]), "no luck");
    let id = peer.begin("refuse");
    assert_eq!(peer.until(&id, "failed")["statusMessage"], "not today");
    let result = peer.task("tasks/result", &id);
    expect_error(&result, 7);
    assert_eq!(result["error"]["message"], "not today");
    stage.close();
}

#[test]
fn a_task_is_cancelled_once_and_only_by_its_own_method() {
    let stage = Stage::open(options());
    let mut peer = stage.core();
    for tool in ["hold", "block"] {
        stage.close_gate();
        let answer = peer.call(tool, json!({"task": {}}));
        let id = answer["result"]["task"]["taskId"].as_str().unwrap().to_owned();
        let waiting = peer.send("tasks/result", json!({"taskId": id}));
        let params = json!({"requestId": answer["id"]});
        let method = "notifications/cancelled";
        peer.say(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
        assert_eq!(peer.task("tasks/get", &id)["result"]["status"], "working");
        let cancelled = peer.task("tasks/cancel", &id);
        assert_eq!(cancelled["result"]["status"], "cancelled", "{cancelled}");
        expect_error(&peer.answer_to(waiting, "tasks/result"), -32603);
        expect_error(&peer.task("tasks/cancel", &id), -32602);
        stage.open_gate();
        assert_eq!(peer.task("tasks/get", &id)["result"]["status"], "cancelled");
    }
    stage.close();
}

#[test]
fn a_call_that_waits_for_a_result_can_be_cancelled_without_the_task() {
    let stage = Stage::open(options());
    let mut peer = stage.core();
    let id = peer.begin("hold");
    let waiting = peer.send("tasks/result", json!({"taskId": id}));
    let params = json!({"requestId": waiting});
    peer.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
    assert_eq!(peer.task("tasks/get", &id)["result"]["status"], "working");
    stage.open_gate();
    assert_eq!(text(&peer.task("tasks/result", &id)["result"]), "held");
    assert!(peer.left_over().all(|message| message["id"] != waiting), "nobody waits for that one");
    stage.close();
}

#[test]
fn a_connection_lists_its_own_tasks_page_by_page() {
    let stage = Stage::open(options());
    let (mut peer, mut other) = (stage.core(), stage.core());
    other.begin("hold");
    let own: Vec<String> = (0..60).map(|_| peer.begin("hold")).collect();
    let (mut listed, mut params) = (Vec::new(), json!({}));
    loop {
        let page = peer.request("tasks/list", params);
        let tasks = page["result"]["tasks"].as_array().unwrap();
        listed.extend(tasks.iter().map(|task| task["taskId"].as_str().unwrap().to_owned()));
        let Some(cursor) = page["result"].get("nextCursor") else { break };
        params = json!({"cursor": cursor});
    }
    assert_eq!(listed, own);
    expect_error(&peer.request("tasks/list", json!({"cursor": "mine"})), -32602);
    // The other connection can ask for what it was told of, all the same.
    assert_eq!(other.task("tasks/get", &own[0])["result"]["status"], "working");
    stage.close();
}

#[test]
fn progress_is_told_for_as_long_as_the_task_runs() {
    let stage = Stage::open(options());
    let mut peer = stage.core();
    let answer = peer.call("steps", json!({"task": {}, "_meta": {"progressToken": "token"}}));
    let id = &answer["result"]["task"]["taskId"];
    for step in 1..=3 {
        let told = peer.told("notifications/progress");
        assert_eq!(told["params"]["progress"].as_f64(), Some(f64::from(step)), "{told}");
        assert_eq!(told["params"]["progressToken"], "token");
        assert_eq!(&told["params"]["_meta"][RELATED]["taskId"], id, "{told}");
    }
    stage.close();
}

#[test]
fn a_task_asks_its_client_by_requests_that_name_the_task() {
    let stage = Stage::open(options());
    let mut peer = stage.core();
    let id = peer.begin("confirm");
    let waiting = peer.send("tasks/result", json!({"taskId": id}));
    for action in ["accept", "decline"] {
        let asked = peer.told("elicitation/create");
        assert_eq!(asked["params"]["_meta"][RELATED]["taskId"], id.as_str(), "{asked}");
        assert_eq!(peer.until(&id, "input_required")["taskId"], id.as_str());
        let result = json!({
            "action": action,
            "content": {},
            "_meta": {RELATED: {"taskId": id}},
        });
        peer.say(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}));
    }
    let result = peer.answer_to(waiting, "tasks/result");
    assert_eq!(text(&result["result"]), "Accept Decline");
    stage.close();
}

#[test]
fn a_question_is_taken_back_when_its_task_is_cancelled() {
    let stage = Stage::open(options());
    let mut peer = stage.core();
    let id = peer.begin("confirm");
    let asked = peer.told("elicitation/create");
    peer.task("tasks/cancel", &id);
    assert_eq!(peer.told("notifications/cancelled")["params"]["requestId"], asked["id"]);
    stage.close();
}

#[test]
fn nobody_else_answers_for_the_client_of_a_task() {
    let stage = Stage::open(options());
    let (mut peer, mut other) = (stage.core(), stage.core());
    let id = peer.begin("confirm");
    let asked = peer.told("elicitation/create");
    let answer = |result: Value| json!({"jsonrpc": "2.0", "id": asked["id"], "result": result});
    other.say(&answer(json!({"action": "decline"})));
    other.task("tasks/get", &id);
    for wrong in ["task/", "task/x/first", "first", ""] {
        peer.say(&json!({"jsonrpc": "2.0", "id": wrong, "result": {}}));
    }
    assert_eq!(peer.task("tasks/get", &id)["result"]["status"], "input_required");
    // An answer that is none ends the task, like everything that its handler does not expect.
    peer.say(&answer(json!({"action": "perhaps"})));
    peer.until(&id, "failed");
    let id = peer.begin("confirm");
    let asked = peer.told("elicitation/create");
    let error = json!({"code": -1, "message": "the user went home"});
    peer.say(&json!({"jsonrpc": "2.0", "id": asked["id"], "error": error}));
    peer.until(&id, "failed");
    stage.close();
}

#[test]
fn a_task_whose_connection_is_over_asks_in_vain() {
    let stage = Stage::open(options());
    let mut peer = stage.core();
    let id = peer.begin("confirm");
    peer.told("elicitation/create");
    drop(peer);
    let mut peer = stage.core();
    while peer.task("tasks/get", &id)["result"]["status"] == "input_required" {}
    assert_eq!(peer.until(&id, "failed")["taskId"], id.as_str());
    stage.close();
}

#[test]
fn malformed_names_and_wishes_are_invalid_params() {
    let stage = Stage::open(options());
    let mut peer = stage.core();
    let long = "0".repeat(100_000);
    let id = peer.begin("hold");
    let zeros = "0".repeat(32);
    for wrong in ["", "x", &zeros, &long, &id.to_uppercase(), &format!(" {id}")] {
        for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
            expect_error(&peer.task(method, wrong), -32602);
        }
    }
    for params in [json!({}), json!({"taskId": 7}), json!({"taskId": null}), json!({"task": id})] {
        expect_error(&peer.request("tasks/get", params), -32602);
    }
    for task in [json!(7), json!({"ttl": "1"}), json!({"ttl": -1}), json!([])] {
        expect_error(&peer.call("hold", json!({"task": task})), -32602);
    }
    expect_error(&peer.task("tasks/update", &id), -32601);
    stage.close();
}

#[test]
fn an_answer_to_what_a_task_never_asked_is_no_news_of_it() {
    let stage = Stage::open(options());
    let mut peer = stage.core();
    let id = peer.begin("confirm");
    let asked = peer.told("elicitation/create")["id"].as_str().unwrap().to_owned();
    let task = peer.until(&id, "input_required");
    for other in [format!("{asked}?"), format!("task/{id}/"), format!("task/{id}/second")] {
        let result = json!({"action": "accept", "content": {}});
        peer.say(&json!({"jsonrpc": "2.0", "id": other, "result": result}));
    }
    assert_eq!(peer.until(&id, "input_required"), task);
    let told = |message: &&Value| message["method"] == "notifications/tasks/status";
    assert_eq!(peer.left_over().filter(told).count(), 1);
    stage.close();
}

#[test]
fn a_task_sends_log_messages_under_its_name_where_the_session_wants_them() {
    let stage = Stage::open(options());
    let mut peer = stage.core();
    for (tool, data) in [("say", "aloud"), ("shout", "from afar")] {
        let id = peer.begin(tool);
        let told = peer.told("notifications/message");
        assert_eq!(
            (&told["params"]["data"], &told["params"]["level"]),
            (&json!(data), &json!("warning"))
        );
        assert_eq!(told["params"]["_meta"][RELATED]["taskId"], id.as_str(), "{told}");
        peer.task("tasks/result", &id);
    }
    peer.request("logging/setLevel", json!({"level": "error"}));
    let id = peer.begin("say");
    peer.task("tasks/result", &id);
    // A task of the extension sends nothing but its state, whatever its call says.
    let mut modern = stage.modern();
    let meta = json!({"io.modelcontextprotocol/logLevel": "debug"});
    let begun = modern.request("tools/call", json!({"name": "say", "_meta": meta}));
    let id = begun["result"]["taskId"].as_str().expect("a task").to_owned();
    modern.until(&id, "completed");
    for peer in [&peer, &modern] {
        assert!(peer.left_over().all(|message| message["method"] != "notifications/message"));
    }
    assert_eq!(stage.close().requests.logs, 2);
}
