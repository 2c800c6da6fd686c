//! `TaskClient`: an MCP client that stores messages until a test reads them.

use std::collections::VecDeque;

use corelane_test_support::mcp_schema::expect_valid;
use corelane_test_support::messages::{LEGACY, MODERN, notification};
use corelane_test_support::{LineClient, TestServer};
use serde_json::{Value, json};

/// The key of the tasks extension in `capabilities.extensions`.
pub(crate) const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// The `_meta` key that names the task of a message.
pub(crate) const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// One connection.
pub(crate) struct TaskClient {
    client: LineClient,
    revision: &'static str,
    /// Capabilities that a modern client declares in each request.
    pub(crate) capabilities: Value,
    /// Response to `initialize`.
    pub(crate) initialize_response: Value,
    next_id: i64,
    /// Messages that arrived while the client waited for another one.
    unread: VecDeque<Value>,
}

impl TaskClient {
    fn connect(server: &TestServer, revision: &'static str) -> Self {
        let capabilities = json!({"elicitation": {}, "extensions": {TASKS_EXTENSION: {}}});
        let (client, unread) = (server.connect_tcp(), VecDeque::new());
        Self {
            client,
            revision,
            capabilities,
            initialize_response: Value::Null,
            next_id: 0,
            unread,
        }
    }

    /// Connects a client of 2026-07-28.
    pub(crate) fn connect_modern(server: &TestServer) -> Self {
        Self::connect(server, MODERN)
    }

    /// Connects a client of 2025-11-25 and makes the handshake.
    pub(crate) fn connect_core(server: &TestServer) -> Self {
        Self::connect_legacy(server, LEGACY)
    }

    /// Connects a client of a revision with a handshake, and makes it.
    pub(crate) fn connect_legacy(server: &TestServer, revision: &'static str) -> Self {
        let mut client = Self::connect(server, revision);
        let has_modes = revision == LEGACY;
        let elicitation = if has_modes { json!({"form": {}, "url": {}}) } else { json!({}) };
        client.initialize_response = client.request(
            "initialize",
            json!({
                "protocolVersion": revision,
                "capabilities": {"elicitation": elicitation},
                "clientInfo": {"name": "tasks", "version": "1"},
            }),
        );
        assert_eq!(
            client.initialize_response["result"]["protocolVersion"], revision,
            "{}",
            client.initialize_response
        );
        client.send_message(&notification("notifications/initialized"));
        client
    }

    pub(crate) fn send_message(&mut self, message: &Value) {
        self.client.send(message);
    }

    /// Shuts down the write side; messages can still be read.
    pub(crate) fn shutdown_write(&mut self) {
        self.client.shutdown_write();
    }

    /// Sends a request and returns its id.
    pub(crate) fn send_request(&mut self, method: &str, mut params: Value) -> i64 {
        self.next_id += 1;
        let id = self.next_id;
        if self.revision == MODERN {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(MODERN);
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
                self.capabilities.clone();
        }
        self.send_message(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Sends a request and returns its response.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send_request(method, params);
        self.read_response(id, method)
    }

    /// Waits for the response to a request and checks its schema.
    pub(crate) fn read_response(&mut self, id: i64, method: &str) -> Value {
        let response =
            self.wait_for_match(|message| message["id"] == id && message.get("method").is_none());
        expect_valid(self.revision, &response, Some(method));
        response
    }

    /// Waits for a notification or request of this method and checks its schema.
    pub(crate) fn wait_for_message(&mut self, method: &str) -> Value {
        let message = self.wait_for_match(|message| message["method"] == method);
        expect_valid(self.revision, &message, None);
        message
    }

    /// Returns messages that arrived and were not waited for.
    pub(crate) fn unread_messages(&self) -> impl Iterator<Item = &Value> {
        self.unread.iter()
    }

    /// Returns the first message that `matches` accepts.
    fn wait_for_match(&mut self, matches: impl Fn(&Value) -> bool) -> Value {
        if let Some(index) = self.unread.iter().position(&matches) {
            return self.unread.remove(index).expect("index of a message");
        }
        loop {
            let message = self.client.receive();
            if matches(&message) {
                return message;
            }
            self.unread.push_back(message);
        }
    }

    /// Waits until the server closes the connection.
    pub(crate) fn wait_for_eof(&mut self) {
        self.client.receive_rest();
    }

    /// Sends `tools/call` without arguments, with `extra` members in `params`.
    pub(crate) fn call_tool(&mut self, tool: &str, extra: Value) -> Value {
        self.request("tools/call", merge_objects(json!({"name": tool}), extra))
    }

    /// Starts a task and returns its id.
    pub(crate) fn start_task(&mut self, tool: &str) -> String {
        let is_modern = self.revision == MODERN;
        let extra = if is_modern { json!({}) } else { json!({"task": {}}) };
        let response = self.call_tool(tool, extra);
        let result = &response["result"];
        let task = if is_modern { result } else { &result["task"] };
        assert_eq!(task["status"], "working", "{response}");
        task["taskId"].as_str().expect("no task id").to_owned()
    }

    /// Subscribes to tasks and returns the id of the subscription.
    pub(crate) fn subscribe(&mut self, tasks: &[&str]) -> i64 {
        let id =
            self.send_request("subscriptions/listen", json!({"notifications": {"taskIds": tasks}}));
        let granted = self.wait_for_message("notifications/subscriptions/acknowledged");
        assert_eq!(granted["params"]["notifications"]["taskIds"], json!(tasks), "{granted}");
        id
    }

    /// Waits for a notification of a task on a subscription and returns its `params`.
    pub(crate) fn wait_for_task_notification(&mut self, task: &str, stream: i64) -> Value {
        let params = self.wait_for_message("notifications/tasks")["params"].take();
        assert_eq!(params["taskId"], task, "{params}");
        assert_eq!(params["_meta"]["io.modelcontextprotocol/subscriptionId"], stream, "{params}");
        params
    }

    /// Sends a request whose only parameter is a task id.
    pub(crate) fn request_task(&mut self, method: &str, id: &str) -> Value {
        self.request(method, json!({"taskId": id}))
    }

    /// Polls a task until it has this status, and returns it.
    pub(crate) fn wait_for_status(&mut self, id: &str, status: &str) -> Value {
        loop {
            let response = self.request_task("tasks/get", id);
            let task = &response["result"];
            if task["status"] == status {
                return task.clone();
            }
            let is_final =
                ["completed", "failed", "cancelled"].iter().any(|it| task["status"] == **it);
            assert!(task["status"].is_string() && !is_final, "{response}");
        }
    }
}

fn merge_objects(mut value: Value, extra: Value) -> Value {
    if let (Value::Object(members), Value::Object(extra)) = (&mut value, extra) {
        members.extend(extra);
    }
    value
}

/// Asserts an error with this code.
#[track_caller]
pub(crate) fn expect_error(response: &Value, code: i64) {
    assert_eq!(response["error"]["code"], code, "{response}");
    assert!(
        response["error"]["message"].as_str().is_some_and(|text| !text.is_empty()),
        "{response}"
    );
}

/// Returns the text of a tool result.
#[track_caller]
pub(crate) fn result_text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result}"))
}
