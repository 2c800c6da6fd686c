//! Core tasks of 2025-11-25, which clients request.

use serde_json::{Value, json};

use crate::tasks::task_client::{RELATED_TASK, TaskClient, expect_error, result_text};
use crate::tasks::task_tools::{options, start_server};

#[test]
fn requested_task_is_created_and_its_result_awaited() {
    let server = start_server(options());
    let mut client = TaskClient::connect_core(&server);
    let response = client.call_tool("hold", json!({"task": {"ttl": 60_000}}));
    let task = &response["result"]["task"];
    assert_eq!((&task["status"], &task["ttl"]), (&json!("working"), &json!(60_000)));
    assert!(task["pollInterval"].is_u64(), "{response}");
    let id = task["taskId"].as_str().unwrap().to_owned();
    let waiting = client.send_request("tasks/result", json!({"taskId": id}));
    let shown = client.request_task("tasks/get", &id);
    assert_eq!(shown["result"]["status"], "working");
    assert_eq!(shown["result"]["createdAt"], task["createdAt"]);
    assert_eq!(shown["result"].get("_meta"), None, "{shown}");
    server.open_gate();
    let result = client.read_response(waiting, "tasks/result");
    assert_eq!(result_text(&result["result"]), "held");
    assert_eq!(result["result"]["_meta"][RELATED_TASK]["taskId"], id.as_str(), "{result}");
    let notification = client.wait_for_message("notifications/tasks/status");
    assert_eq!(notification["params"]["status"], "completed", "{notification}");
    assert_eq!(notification["params"]["taskId"], id.as_str());
    // The result can be retrieved repeatedly.
    assert_eq!(client.request_task("tasks/result", &id)["result"], result["result"]);
    assert_eq!(client.request_task("tasks/get", &id)["result"]["status"], "completed");
    server.close();
}

#[test]
fn tool_task_support_is_listed_and_enforced() {
    let server = start_server(options());
    let mut client = TaskClient::connect_core(&server);
    let offered = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
    assert_eq!(client.initialize_response["result"]["capabilities"]["tasks"], offered);
    let listed = client.request("tools/list", json!({}));
    let support = |name: &str| {
        let tools = listed["result"]["tools"].as_array().unwrap();
        let tool = tools.iter().find(|tool| tool["name"] == name).unwrap();
        tool["execution"]["taskSupport"].clone()
    };
    assert_eq!((support("hold"), support("fail")), (json!("optional"), json!("required")));
    assert!([Value::Null, json!("forbidden")].contains(&support("plain")));
    expect_error(&client.call_tool("plain", json!({"task": {}})), -32601);
    expect_error(&client.call_tool("fail", json!({})), -32601);
    assert_eq!(result_text(&client.call_tool("plain", json!({}))["result"]), "plain");
    server.open_gate();
    assert_eq!(result_text(&client.call_tool("hold", json!({}))["result"]), "held");
    server.close();
}

#[test]
fn revision_without_tasks_ignores_the_task_parameter() {
    let server = start_server(options());
    server.open_gate();
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18"] {
        let mut client = TaskClient::connect_legacy(&server, revision);
        assert_eq!(result_text(&client.call_tool("hold", json!({"task": {}}))["result"]), "held");
        expect_error(&client.call_tool("fail", json!({"task": {}})), -32601);
        expect_error(&client.request_task("tasks/get", "x"), -32601);
    }
    server.close();
}

#[test]
fn inline_tool_task_completes_immediately() {
    let server = start_server(options());
    let mut client = TaskClient::connect_core(&server);
    let id = client.start_task("greet");
    let result = client.request_task("tasks/result", &id);
    assert_eq!(result_text(&result["result"]), "hello");
    assert_eq!(result["result"]["_meta"][RELATED_TASK]["taskId"], id.as_str());
    assert_eq!(
        client.wait_for_message("notifications/tasks/status")["params"]["status"],
        "completed"
    );
    server.close();
}

#[test]
fn tool_failure_and_error_fail_core_task() {
    let server = start_server(options());
    let mut client = TaskClient::connect_core(&server);
    let id = client.start_task("fail");
    let task = client.wait_for_status(&id, "failed");
    assert!(task["statusMessage"].is_string(), "{task}");
    let result = client.request_task("tasks/result", &id);
    assert_eq!(result["result"]["isError"], true);
    assert_eq!(result_text(&result["result"]), "no luck");
    let id = client.start_task("refuse");
    assert_eq!(client.wait_for_status(&id, "failed")["statusMessage"], "not today");
    let result = client.request_task("tasks/result", &id);
    expect_error(&result, 7);
    assert_eq!(result["error"]["message"], "not today");
    server.close();
}

#[test]
fn core_task_is_cancelled_only_by_tasks_cancel() {
    let server = start_server(options());
    let mut client = TaskClient::connect_core(&server);
    for tool in ["hold", "block"] {
        server.close_gate();
        let response = client.call_tool(tool, json!({"task": {}}));
        let id = response["result"]["task"]["taskId"].as_str().unwrap().to_owned();
        let waiting = client.send_request("tasks/result", json!({"taskId": id}));
        let params = json!({"requestId": response["id"]});
        let method = "notifications/cancelled";
        client.send_message(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
        assert_eq!(client.request_task("tasks/get", &id)["result"]["status"], "working");
        let cancelled = client.request_task("tasks/cancel", &id);
        assert_eq!(cancelled["result"]["status"], "cancelled", "{cancelled}");
        expect_error(&client.read_response(waiting, "tasks/result"), -32603);
        expect_error(&client.request_task("tasks/cancel", &id), -32602);
        server.open_gate();
        assert_eq!(client.request_task("tasks/get", &id)["result"]["status"], "cancelled");
    }
    server.close();
}

#[test]
fn cancelled_tasks_result_call_keeps_the_task() {
    let server = start_server(options());
    let mut client = TaskClient::connect_core(&server);
    let id = client.start_task("hold");
    let waiting = client.send_request("tasks/result", json!({"taskId": id}));
    let params = json!({"requestId": waiting});
    client.send_message(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}),
    );
    assert_eq!(client.request_task("tasks/get", &id)["result"]["status"], "working");
    server.open_gate();
    assert_eq!(result_text(&client.request_task("tasks/result", &id)["result"]), "held");
    assert!(
        client.unread_messages().all(|message| message["id"] != waiting),
        "the call was cancelled"
    );
    server.close();
}

#[test]
fn tasks_list_pages_contain_only_own_tasks() {
    let server = start_server(options());
    let (mut client, mut other) =
        (TaskClient::connect_core(&server), TaskClient::connect_core(&server));
    other.start_task("hold");
    let own: Vec<String> = (0..60).map(|_| client.start_task("hold")).collect();
    let (mut listed, mut params) = (Vec::new(), json!({}));
    loop {
        let page = client.request("tasks/list", params);
        let tasks = page["result"]["tasks"].as_array().unwrap();
        listed.extend(tasks.iter().map(|task| task["taskId"].as_str().unwrap().to_owned()));
        let Some(cursor) = page["result"].get("nextCursor") else { break };
        params = json!({"cursor": cursor});
    }
    assert_eq!(listed, own);
    expect_error(&client.request("tasks/list", json!({"cursor": "mine"})), -32602);
    // The other connection can still get the task by its id.
    assert_eq!(other.request_task("tasks/get", &own[0])["result"]["status"], "working");
    server.close();
}

#[test]
fn task_progress_names_token_and_task() {
    let server = start_server(options());
    let mut client = TaskClient::connect_core(&server);
    let response =
        client.call_tool("steps", json!({"task": {}, "_meta": {"progressToken": "token"}}));
    let id = &response["result"]["task"]["taskId"];
    for step in 1..=3 {
        let notification = client.wait_for_message("notifications/progress");
        assert_eq!(
            notification["params"]["progress"].as_f64(),
            Some(f64::from(step)),
            "{notification}"
        );
        assert_eq!(notification["params"]["progressToken"], "token");
        assert_eq!(&notification["params"]["_meta"][RELATED_TASK]["taskId"], id, "{notification}");
    }
    server.close();
}

#[test]
fn task_elicitation_requests_name_the_task() {
    let server = start_server(options());
    let mut client = TaskClient::connect_core(&server);
    let id = client.start_task("confirm");
    let waiting = client.send_request("tasks/result", json!({"taskId": id}));
    for action in ["accept", "decline"] {
        let elicitation = client.wait_for_message("elicitation/create");
        assert_eq!(
            elicitation["params"]["_meta"][RELATED_TASK]["taskId"],
            id.as_str(),
            "{elicitation}"
        );
        assert_eq!(client.wait_for_status(&id, "input_required")["taskId"], id.as_str());
        let result = json!({
            "action": action,
            "content": {},
            "_meta": {RELATED_TASK: {"taskId": id}},
        });
        client.send_message(&json!({"jsonrpc": "2.0", "id": elicitation["id"], "result": result}));
    }
    let result = client.read_response(waiting, "tasks/result");
    assert_eq!(result_text(&result["result"]), "Accept Decline");
    server.close();
}

#[test]
fn cancelled_task_cancels_its_elicitation() {
    let server = start_server(options());
    let mut client = TaskClient::connect_core(&server);
    let id = client.start_task("confirm");
    let elicitation = client.wait_for_message("elicitation/create");
    client.request_task("tasks/cancel", &id);
    assert_eq!(
        client.wait_for_message("notifications/cancelled")["params"]["requestId"],
        elicitation["id"]
    );
    server.close();
}

#[test]
fn elicitation_response_of_another_client_is_ignored() {
    let server = start_server(options());
    let (mut client, mut other) =
        (TaskClient::connect_core(&server), TaskClient::connect_core(&server));
    let id = client.start_task("confirm");
    let elicitation = client.wait_for_message("elicitation/create");
    let response =
        |result: Value| json!({"jsonrpc": "2.0", "id": elicitation["id"], "result": result});
    other.send_message(&response(json!({"action": "decline"})));
    other.request_task("tasks/get", &id);
    for wrong in ["task/", "task/x/first", "first", ""] {
        client.send_message(&json!({"jsonrpc": "2.0", "id": wrong, "result": {}}));
    }
    assert_eq!(client.request_task("tasks/get", &id)["result"]["status"], "input_required");
    // An invalid result fails the task.
    client.send_message(&response(json!({"action": "perhaps"})));
    client.wait_for_status(&id, "failed");
    let id = client.start_task("confirm");
    let elicitation = client.wait_for_message("elicitation/create");
    let error = json!({"code": -1, "message": "the user went home"});
    client.send_message(&json!({"jsonrpc": "2.0", "id": elicitation["id"], "error": error}));
    client.wait_for_status(&id, "failed");
    server.close();
}

#[test]
fn elicitation_without_connection_fails_the_task() {
    let server = start_server(options());
    let mut client = TaskClient::connect_core(&server);
    let id = client.start_task("confirm");
    client.wait_for_message("elicitation/create");
    drop(client);
    let mut client = TaskClient::connect_core(&server);
    while client.request_task("tasks/get", &id)["result"]["status"] == "input_required" {}
    assert_eq!(client.wait_for_status(&id, "failed")["taskId"], id.as_str());
    server.close();
}

#[test]
fn malformed_task_ids_and_parameters_are_invalid_params() {
    let server = start_server(options());
    let mut client = TaskClient::connect_core(&server);
    let long = "0".repeat(100_000);
    let id = client.start_task("hold");
    let zeros = "0".repeat(32);
    for wrong in ["", "x", &zeros, &long, &id.to_uppercase(), &format!(" {id}")] {
        for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
            expect_error(&client.request_task(method, wrong), -32602);
        }
    }
    for params in [json!({}), json!({"taskId": 7}), json!({"taskId": null}), json!({"task": id})] {
        expect_error(&client.request("tasks/get", params), -32602);
    }
    for task in [json!(7), json!({"ttl": "1"}), json!({"ttl": -1}), json!([])] {
        expect_error(&client.call_tool("hold", json!({"task": task})), -32602);
    }
    expect_error(&client.request_task("tasks/update", &id), -32601);
    server.close();
}

#[test]
fn response_to_unknown_request_changes_no_task() {
    let server = start_server(options());
    let mut client = TaskClient::connect_core(&server);
    let id = client.start_task("confirm");
    let request_id =
        client.wait_for_message("elicitation/create")["id"].as_str().unwrap().to_owned();
    let task = client.wait_for_status(&id, "input_required");
    for other in [format!("{request_id}?"), format!("task/{id}/"), format!("task/{id}/second")] {
        let result = json!({"action": "accept", "content": {}});
        client.send_message(&json!({"jsonrpc": "2.0", "id": other, "result": result}));
    }
    assert_eq!(client.wait_for_status(&id, "input_required"), task);
    let is_status = |message: &&Value| message["method"] == "notifications/tasks/status";
    assert_eq!(client.unread_messages().filter(is_status).count(), 1);
    server.close();
}

#[test]
fn task_log_messages_follow_level_and_name_task() {
    let server = start_server(options());
    let mut client = TaskClient::connect_core(&server);
    for (tool, data) in [("say", "aloud"), ("shout", "from afar")] {
        let id = client.start_task(tool);
        let notification = client.wait_for_message("notifications/message");
        assert_eq!(
            (&notification["params"]["data"], &notification["params"]["level"]),
            (&json!(data), &json!("warning"))
        );
        assert_eq!(
            notification["params"]["_meta"][RELATED_TASK]["taskId"],
            id.as_str(),
            "{notification}"
        );
        client.request_task("tasks/result", &id);
    }
    client.request("logging/setLevel", json!({"level": "error"}));
    let id = client.start_task("say");
    client.request_task("tasks/result", &id);
    // Tasks of the extension send no log messages, whatever log level the call requests.
    let mut modern = TaskClient::connect_modern(&server);
    let meta = json!({"io.modelcontextprotocol/logLevel": "debug"});
    let begun = modern.request("tools/call", json!({"name": "say", "_meta": meta}));
    let id = begun["result"]["taskId"].as_str().expect("no task id").to_owned();
    modern.wait_for_status(&id, "completed");
    for client in [&client, &modern] {
        assert!(
            client.unread_messages().all(|message| message["method"] != "notifications/message")
        );
    }
    assert_eq!(server.close().requests.log_notifications, 2);
}
