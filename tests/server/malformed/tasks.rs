//! Invalid, late and repeated task requests, for the tasks of 2025-11-25 and the Tasks extension.

use std::time::Duration;

use corelane::internal::demo;
use corelane::{Catalog, Options};
use corelane_protocol::model::Implementation;
use corelane_test_support::mcp_schema::expect_valid;
use corelane_test_support::messages::{
    LEGACY, MODERN, echo, expect_error, initialize_with_elicitation, modern, notification, request,
    result_text,
};
use corelane_test_support::{LineClient, TestServer, over_each_ring, tcp_options};
use serde_json::{Value, json};

/// Starts a server with the conformance fixture, which has long-running task tools.
fn start_with_fixture(mut options: Options) -> TestServer {
    options.engine.drain_timeout = Duration::from_millis(50);
    let catalog = demo::add_services(Catalog::builder(Implementation::new("malformed", "1.0.0")));
    TestServer::with_catalog(options, catalog.build().expect("fixture catalog is valid"))
}

/// A connection with one protocol version and its request ids.
struct TaskClient {
    client: LineClient,
    revision: &'static str,
    next_id: u64,
}

impl TaskClient {
    fn modern(server: &TestServer) -> Self {
        Self { client: server.connect_tcp(), revision: MODERN, next_id: 1 }
    }

    fn legacy_core(server: &TestServer) -> Self {
        Self::legacy(server, LEGACY)
    }

    fn legacy(server: &TestServer, revision: &'static str) -> Self {
        let mut client = Self { client: server.connect_tcp(), revision, next_id: 1 };
        client.client.exchange(initialize_with_elicitation(0, revision));
        client.client.send(notification("notifications/initialized"));
        client
    }

    /// Sends a request and returns its response; an error must match the schema.
    fn send_request(&mut self, method: &str, params: Value) -> Value {
        let mut request = request(self.next_id, method, params);
        if self.revision == MODERN && request["params"].is_object() {
            let capabilities = json!({"elicitation": {}, "extensions": {EXTENSION: {}}});
            request = modern(request);
            request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
        }
        self.send(&request)
    }

    fn send(&mut self, request: &Value) -> Value {
        self.client.send(request);
        self.next_id += 1;
        loop {
            let response = self.client.receive();
            if response.get("method").is_some() {
                continue;
            }
            assert_eq!(response["id"], request["id"], "{response}");
            if response.get("error").is_some() {
                expect_valid(self.revision, &response, None);
            }
            return response;
        }
    }

    /// Sends a request that must fail with `code`.
    #[track_caller]
    fn expect_error(&mut self, code: i64, method: &str, params: Value) -> Value {
        let response = self.send_request(method, params);
        expect_error(&response, code, Some(json!(self.next_id - 1)));
        response
    }

    /// Starts a task and returns its id.
    #[expect(clippy::needless_pass_by_value, reason = "most callers pass a literal")]
    fn start_task(&mut self, tool: &str, arguments: Value) -> String {
        let mut params = json!({"name": tool, "arguments": arguments});
        if self.revision == LEGACY {
            params["task"] = json!({});
        }
        let response = self.send_request("tools/call", params);
        let result = &response["result"];
        let task = if self.revision == MODERN { result } else { &result["task"] };
        task["taskId"].as_str().unwrap_or_else(|| panic!("no task id: {response}")).to_owned()
    }

    /// Starts a task that takes longer than any test.
    fn start_long_task(&mut self) -> String {
        self.start_task("slow_compute", json!({"seconds": 600}))
    }

    fn status(&mut self, id: &str) -> Value {
        self.send_request("tasks/get", json!({"taskId": id}))["result"]["status"].take()
    }

    /// Polls until the task has `status`.
    fn wait_for_status(&mut self, id: &str, status: &str) {
        while self.status(id) != status {}
    }

    /// Polls until the task is unknown.
    fn wait_until_unknown(&mut self, id: &str) {
        while self.send_request("tasks/get", json!({"taskId": id})).get("error").is_none() {}
    }

    fn check_echo(&mut self) {
        let mut request = echo(self.next_id, "alive");
        if self.revision == MODERN {
            request = modern(request);
        }
        assert_eq!(result_text(&self.send(&request)), "alive");
    }
}

/// Task ids that the server did not create.
fn unknown_task_ids() -> Vec<String> {
    ["", " ", "x", "../..", "0", "\u{0}", "日本語", "task/0/first", "null", "-1"]
        .into_iter()
        .map(str::to_owned)
        .chain(["0", "f", "F", "g", "é"].map(|digit| digit.repeat(32)))
        .chain([format!("0x{}", "0".repeat(30)), format!("+{}", "0".repeat(31))])
        .chain(["0".repeat(31), "0".repeat(33), "a".repeat(200_000)])
        .collect()
}

/// Params without a valid `taskId`.
fn invalid_task_params() -> Vec<Value> {
    let wrong = [json!(7), json!(-1.5), json!(null), json!(true), json!([]), json!({})];
    let members = wrong.into_iter().map(|wrong| json!({"taskId": wrong}));
    let others = [json!({}), json!({"task": "x"}), json!({"taskid": "x"}), json!({"TASKID": "x"})];
    members.chain(others).collect()
}

/// The methods that take a task id, by protocol version.
const METHODS: [(&str, &[&str]); 2] = [
    (LEGACY, &["tasks/get", "tasks/result", "tasks/cancel"]),
    (MODERN, &["tasks/get", "tasks/update", "tasks/cancel"]),
];

fn connect(server: &TestServer, revision: &str) -> TaskClient {
    if revision == MODERN { TaskClient::modern(server) } else { TaskClient::legacy_core(server) }
}

#[test]
fn unknown_task_id_is_invalid_params() {
    over_each_ring(tcp_options(), |options| {
        let server = start_with_fixture(options);
        for (revision, methods) in METHODS {
            let mut client = connect(&server, revision);
            let task_id = client.start_long_task();
            for method in methods {
                for name in unknown_task_ids()
                    .into_iter()
                    .chain([task_id.to_uppercase(), format!("{task_id} ")])
                {
                    let params = json!({"taskId": name, "inputResponses": {}});
                    client.expect_error(-32602, method, params);
                }
                for mut params in invalid_task_params() {
                    params["inputResponses"] = json!({});
                    client.expect_error(-32602, method, params);
                }
            }
            assert_eq!(client.status(&task_id), "working");
            client.check_echo();
        }
        server.close();
    });
}

#[test]
fn duplicate_task_id_or_non_object_params_fail() {
    over_each_ring(tcp_options(), |options| {
        let server = start_with_fixture(options);
        let mut client = TaskClient::legacy_core(&server);
        let task_id = client.start_long_task();
        let twice = format!(r#"{{"taskId":"{task_id}","taskId":"{task_id}"}}"#);
        for params in [twice.as_str(), "[]", "7", "\"x\"", "null", "[{}]"] {
            let text = format!(
                r#"{{"jsonrpc":"2.0","id":"odd","method":"tasks/cancel","params":{params}}}"#
            );
            let response = client.client.exchange(text);
            let code = response["error"]["code"].as_i64();
            assert!(matches!(code, Some(-32602 | -32600)), "{params}: {response}");
        }
        assert_eq!(client.status(&task_id), "working");
        server.close();
    });
}

#[test]
fn expired_task_is_unknown() {
    over_each_ring(tcp_options(), |mut options| {
        options.limits.task_ttl = Duration::from_millis(50);
        options.limits.task_ttl_max = Duration::from_millis(50);
        let server = start_with_fixture(options);
        for (revision, methods) in METHODS {
            let mut client = connect(&server, revision);
            let never = client.expect_error(-32602, "tasks/get", json!({"taskId": "0".repeat(32)}));
            for arguments in [json!({"seconds": 600}), json!({"seconds": 0})] {
                let task_id = client.start_task("slow_compute", arguments);
                client.wait_until_unknown(&task_id);
                for method in methods {
                    let params = json!({"taskId": task_id, "inputResponses": {}});
                    let response = client.expect_error(-32602, method, params);
                    assert_eq!(response["error"], never["error"]);
                }
            }
            client.check_echo();
        }
        server.close();
    });
}

#[test]
fn task_methods_depend_on_protocol_version() {
    over_each_ring(tcp_options(), |options| {
        let server = start_with_fixture(options);
        let (mut core, mut modern) =
            (TaskClient::legacy_core(&server), TaskClient::modern(&server));
        let (old, new) = (core.start_long_task(), modern.start_long_task());
        for id in [&old, &new] {
            modern.expect_error(-32601, "tasks/result", json!({"taskId": id}));
            let params = json!({"taskId": id, "inputResponses": {}});
            core.expect_error(-32601, "tasks/update", params);
        }
        modern.expect_error(-32601, "tasks/list", json!({}));
        core.expect_error(-32602, "tasks/get", json!({"taskId": new}));
        core.expect_error(-32602, "tasks/cancel", json!({"taskId": new}));
        core.expect_error(-32602, "tasks/result", json!({"taskId": new}));
        modern.expect_error(-32602, "tasks/get", json!({"taskId": old}));
        modern.expect_error(-32602, "tasks/cancel", json!({"taskId": old}));
        for cursor in [json!("x"), json!(7), json!(""), json!("0".repeat(16))] {
            core.expect_error(-32602, "tasks/list", json!({"cursor": cursor}));
        }
        for revision in ["2024-11-05", "2025-03-26", "2025-06-18"] {
            let mut earlier = TaskClient::legacy(&server, revision);
            for method in ["tasks/get", "tasks/result", "tasks/list", "tasks/cancel"] {
                earlier.expect_error(-32601, method, json!({"taskId": old}));
            }
        }
        server.close();
    });
}

#[test]
fn task_request_without_extension_names_required_capability() {
    over_each_ring(tcp_options(), |options| {
        let server = start_with_fixture(options);
        let task_id = TaskClient::modern(&server).start_long_task();
        let mut client = server.connect_tcp();
        let required = json!({"extensions": {EXTENSION: {}}});
        let ids = json!({"taskIds": [task_id]});
        for (method, params) in [
            ("tasks/get", json!({"taskId": task_id})),
            ("tasks/get", json!({"taskId": 7})),
            ("tasks/update", json!({"taskId": task_id, "inputResponses": {}})),
            ("tasks/cancel", json!({"taskId": task_id})),
            ("tools/call", json!({"name": "failing_job", "arguments": {}})),
            ("tools/call", json!({"name": "test_tool_with_task", "arguments": {}})),
            ("subscriptions/listen", json!({"notifications": ids})),
        ] {
            let response = client.exchange(modern(request(1, method, params)));
            expect_error(&response, -32021, Some(json!(1)));
            assert_eq!(response["error"]["data"]["requiredCapabilities"], required, "{response}");
        }
        // No protocol version has these methods together with the extension.
        for method in ["tasks/result", "tasks/list"] {
            let response = client.exchange(modern(request(2, method, json!({"taskId": task_id}))));
            expect_error(&response, -32601, Some(json!(2)));
        }
        server.close();
    });
}

#[test]
fn tasks_update_rejects_invalid_and_ignores_unknown_responses() {
    over_each_ring(tcp_options(), |options| {
        let server = start_with_fixture(options);
        let mut client = TaskClient::modern(&server);
        let task_id = client.start_task("multi_input", json!({}));
        client.wait_for_status(&task_id, "input_required");
        let good = json!({"action": "accept", "content": {"confirm": true}});
        for responses in [
            json!(7),
            json!([]),
            json!("first"),
            json!(null),
            json!({"first": null}),
            json!({"first": 7}),
            json!({"first": {}}),
            json!({"first": {"action": "perhaps"}}),
            json!({"first": {"action": "accept", "content": 7}}),
            json!({"first": good, "second": {"action": 7}}),
            json!({"first": good, "second": []}),
        ] {
            let params = json!({"taskId": task_id, "inputResponses": responses});
            client.expect_error(-32602, "tasks/update", params);
        }
        client.expect_error(-32602, "tasks/update", json!({"taskId": task_id}));
        for responses in [json!({}), json!({"third": 7, "": null, "FIRST": good})] {
            let params = json!({"taskId": task_id, "inputResponses": responses});
            let response = client.send_request("tasks/update", params);
            assert_eq!(response["result"]["resultType"], "complete", "{response}");
        }
        let shown = client.send_request("tasks/get", json!({"taskId": task_id}));
        let open = shown["result"]["inputRequests"].as_object().expect("inputRequests object");
        assert_eq!(open.keys().collect::<Vec<_>>(), ["first", "second"], "{shown}");
        let responses =
            json!({"taskId": task_id, "inputResponses": {"first": good, "second": good}});
        client.send_request("tasks/update", responses.clone());
        client.wait_for_status(&task_id, "completed");
        // A late update is not an error.
        for params in [responses, json!({"taskId": task_id, "inputResponses": {"first": 7}})] {
            let response = client.send_request("tasks/update", params);
            assert_eq!(response["result"]["resultType"], "complete", "{response}");
        }
        assert_eq!(client.status(&task_id), "completed");
        server.close();
    });
}

#[test]
fn repeated_tasks_cancel_cancels_once() {
    over_each_ring(tcp_options(), |options| {
        let server = start_with_fixture(options);
        let mut modern = TaskClient::modern(&server);
        let mut core = TaskClient::legacy_core(&server);
        let (new, old) = (modern.start_long_task(), core.start_long_task());
        for _ in 0..3 {
            let response = modern.send_request("tasks/cancel", json!({"taskId": new}));
            assert_eq!(response["result"]["resultType"], "complete", "{response}");
        }
        core.send_request("tasks/cancel", json!({"taskId": old}));
        for _ in 0..2 {
            core.expect_error(-32602, "tasks/cancel", json!({"taskId": old}));
            core.expect_error(-32603, "tasks/result", json!({"taskId": old}));
        }
        let done = core.start_task("slow_compute", json!({"seconds": 0}));
        core.send_request("tasks/result", json!({"taskId": done}));
        core.expect_error(-32602, "tasks/cancel", json!({"taskId": done}));
        assert_eq!(
            (modern.status(&new), core.status(&old)),
            (json!("cancelled"), json!("cancelled"))
        );
        assert_eq!(server.close().requests.tasks_cancelled, 2);
    });
}

#[test]
fn invalid_task_parameter_of_call_is_rejected() {
    over_each_ring(tcp_options(), |options| {
        let server = start_with_fixture(options);
        let wrong = [
            json!(7),
            json!("60000"),
            json!(true),
            json!([]),
            json!({"ttl": -1}),
            json!({"ttl": 1.5}),
            json!({"ttl": "60000"}),
            json!({"ttl": true}),
            json!({"ttl": {}}),
        ];
        let mut core = TaskClient::legacy_core(&server);
        let mut modern = TaskClient::modern(&server);
        for task in wrong {
            for tool in ["slow_compute", "test_tool_with_task"] {
                let arguments = json!({"seconds": 600});
                let params = json!({"name": tool, "arguments": arguments, "task": task});
                core.expect_error(-32602, "tools/call", params);
            }
            // 2026-07-28 has no `task` member, so it is ignored.
            let arguments = json!({"message": "x"});
            let params = json!({"name": "echo", "arguments": arguments, "task": task});
            let response = modern.send_request("tools/call", params);
            assert_eq!(result_text(&response), "x", "{response}");
        }
        let params = json!({"name": "echo", "arguments": {"message": "x"}, "task": {}});
        core.expect_error(-32601, "tools/call", params);
        core.expect_error(-32601, "tools/call", json!({"name": "failing_job", "arguments": {}}));
        assert_eq!(server.close().requests.tasks_created, 0);
    });
}

#[test]
fn invalid_task_ids_of_subscription_are_rejected() {
    over_each_ring(tcp_options(), |options| {
        let server = start_with_fixture(options);
        let mut client = TaskClient::modern(&server);
        for wrong in [json!(7), json!("x"), json!({}), json!([7]), json!([null]), json!(["x", []])]
        {
            let params = json!({"notifications": {"taskIds": wrong}});
            client.expect_error(-32602, "subscriptions/listen", params);
        }
        client.check_echo();
        assert_eq!(server.close().subscriptions.opened, 0);
    });
}

#[test]
fn task_call_rejects_invalid_input_responses_and_states() {
    over_each_ring(tcp_options(), |options| {
        let server = start_with_fixture(options);
        let mut client = TaskClient::modern(&server);
        let mut call = |more: &[(&str, Value)]| {
            let mut params = json!({"name": "test_tool_with_task", "arguments": {}});
            for (key, value) in more {
                params[*key] = value.clone();
            }
            client.send_request("tools/call", params)
        };
        for state in [json!(7), json!(""), json!("x"), json!("A".repeat(1000))] {
            let response = call(&[("requestState", state)]);
            assert_eq!(response["error"]["code"], -32602, "{response}");
        }
        let state_of = |input_required: &Value| {
            ("requestState", input_required["result"]["requestState"].clone())
        };
        let input_required = call(&[]);
        let wrong = json!({"user_name": {"action": "perhaps"}});
        let response = call(&[state_of(&input_required), ("inputResponses", wrong)]);
        assert_eq!(response["error"]["code"], -32602, "{response}");
        // A response to another input request is ignored: the input is requested again.
        let input_required = call(&[]);
        let other = json!({"password": {"action": "accept", "content": {}}});
        let again = call(&[state_of(&input_required), ("inputResponses", other)]);
        assert_eq!(again["result"]["resultType"], "input_required", "{again}");
        let named = json!({"user_name": {"action": "accept", "content": {"name": "Ada"}}});
        let created = call(&[state_of(&again), ("inputResponses", named.clone())]);
        assert_eq!(created["result"]["resultType"], "task", "{created}");
        let again = call(&[state_of(&again), ("inputResponses", named)]);
        assert_eq!(again["error"]["code"], -32602, "replayed state: {again}");
        assert_eq!(server.close().requests.tasks_created, 1);
    });
}

#[test]
fn tasks_of_disconnected_clients_are_cancelled() {
    over_each_ring(tcp_options(), |mut options| {
        options.limits.tasks_max = 50;
        let server = start_with_fixture(options);
        for revision in [LEGACY, MODERN] {
            let mut client = connect(&server, revision);
            let tasks: Vec<_> = (0..20).map(|_| client.start_long_task()).collect();
            for id in &tasks[..10] {
                client.send_request("tasks/cancel", json!({"taskId": id}));
            }
            client.client.reset();
        }
        let counters = server.close();
        assert_eq!(counters.requests.tasks_created, 40, "{counters}");
        assert_eq!(counters.requests.tasks_cancelled, 40, "{counters}");
    });
}

/// Extension key of tasks in the capabilities.
const EXTENSION: &str = "io.modelcontextprotocol/tasks";
