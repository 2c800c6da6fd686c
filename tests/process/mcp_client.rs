//! An MCP client of one protocol version that checks every received message.

use corelane_test_support::LineClient;
use corelane_test_support::mcp_schema::expect_valid;
use corelane_test_support::messages::{LEGACY_REVISIONS, MODERN, modern, notification, request};
use serde_json::{Value, json};

/// An MCP client on one connection.
pub(crate) struct McpClient {
    pub(crate) peer: LineClient,
    revision: &'static str,
    last_id: u64,
    /// Notifications received while waiting for responses.
    pub(crate) notifications: Vec<Value>,
}

impl McpClient {
    /// Creates a client without a handshake.
    pub(crate) fn without_handshake(peer: LineClient, revision: &'static str) -> Self {
        Self { peer, revision, last_id: 0, notifications: Vec::new() }
    }

    /// Creates a client of the modern protocol version.
    pub(crate) fn modern(peer: LineClient) -> Self {
        Self::without_handshake(peer, MODERN)
    }

    /// Creates a client and completes the handshake of a legacy version.
    pub(crate) fn legacy(peer: LineClient, revision: &'static str) -> Self {
        let mut session = Self::without_handshake(peer, revision);
        let result = session.expect_result("initialize", initialize_params(revision));
        assert_eq!(result["protocolVersion"], revision);
        assert_eq!(result["serverInfo"]["name"], "corelane");
        session.peer.send(notification("notifications/initialized"));
        session
    }

    /// Creates a ready client of any protocol version.
    pub(crate) fn connect(peer: LineClient, revision: &'static str) -> Self {
        if LEGACY_REVISIONS.contains(&revision) {
            Self::legacy(peer, revision)
        } else {
            Self::modern(peer)
        }
    }

    /// Sends a request and returns its id.
    pub(crate) fn send_request(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        let request = request(id, method, params);
        self.peer.send(if self.revision == MODERN { modern(request) } else { request });
        id
    }

    /// Receives and checks one message. `request_method` is the method of the request
    /// that a response belongs to.
    pub(crate) fn receive(&mut self, request_method: Option<&str>) -> Value {
        let message = self.peer.receive();
        expect_valid(self.revision, &message, request_method);
        message
    }

    /// Waits for the response to request `id`; stores notifications that arrive before it.
    pub(crate) fn receive_response(&mut self, id: u64, method: &str) -> Value {
        loop {
            let message = self.receive(Some(method));
            if message.get("method").is_some() {
                self.notifications.push(message);
                continue;
            }
            assert_eq!(message["id"], id, "{message}");
            return message;
        }
    }

    /// Sends a request that must succeed; returns its result.
    pub(crate) fn expect_result(&mut self, method: &str, params: Value) -> Value {
        let id = self.send_request(method, params);
        let mut response = self.receive_response(id, method);
        assert!(response.get("result").is_some(), "{method} failed: {response}");
        response["result"].take()
    }

    /// Sends a request that must fail; returns its error code.
    pub(crate) fn expect_error_code(&mut self, method: &str, params: Value) -> i64 {
        let id = self.send_request(method, params);
        let response = self.receive_response(id, method);
        let code = response["error"]["code"].as_i64();
        code.unwrap_or_else(|| panic!("{method} did not fail: {response}"))
    }

    /// Calls a tool that must succeed; returns its result.
    pub(crate) fn call_tool(&mut self, tool: &str, arguments: &Value) -> Value {
        let result =
            self.expect_result("tools/call", json!({"name": tool, "arguments": arguments}));
        assert_ne!(result["isError"], true, "{tool}: {result}");
        result
    }

    /// Uses each demo tool once.
    pub(crate) fn use_all_tools(&mut self) {
        let tools = self.expect_result("tools/list", json!({}));
        let names: Vec<&str> = tools["tools"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|tool| tool["name"].as_str())
            .collect();
        assert_eq!(names, ["echo", "add", "slow", "hash"]);
        self.check_echo("ünï ☃ \n 𝄞");
        let sum = self.call_tool("add", &json!({"a": 2, "b": 40}));
        let has_structured = self.revision >= "2025-06-18";
        assert_eq!(sum.get("structuredContent").is_some(), has_structured, "{sum}");
        self.call_tool("hash", &json!({"bytes": 65_536}));
        self.check_slow(3);
        assert_eq!(self.expect_error_code("tools/call", json!({"name": "unknown"})), -32602);
        assert_eq!(self.expect_error_code("no/such/method", json!({})), -32601);
    }

    /// Calls `echo` and checks its result.
    pub(crate) fn check_echo(&mut self, message: &str) {
        let result = self.call_tool("echo", &json!({"message": message}));
        assert_eq!(result["content"][0]["text"], message);
    }

    /// Sends a call of `slow` with progress; returns its id and progress token.
    pub(crate) fn start_slow(&mut self, steps: u32, step_ms: u32) -> (u64, String) {
        let token = format!("slow-{}", self.last_id + 1);
        let params = json!({
            "name": "slow",
            "arguments": {"steps": steps, "step_ms": step_ms},
            "_meta": {"progressToken": token},
        });
        (self.send_request("tools/call", params), token)
    }

    /// Calls `slow` and checks that its progress increases to the total.
    fn check_slow(&mut self, steps: u32) {
        let (id, token) = self.start_slow(steps, 1);
        let response = self.receive_response(id, "tools/call");
        assert!(response.get("result").is_some(), "{response}");
        let received: Vec<Value> = self.notifications.drain(..).collect();
        let done: Vec<f64> = received
            .iter()
            .map(|message| &message["params"])
            .filter(|params| params["progressToken"] == token && params["total"] == steps)
            .filter_map(|params| params["progress"].as_f64())
            .collect();
        let expected: Vec<f64> = (1..=steps).map(f64::from).collect();
        assert_eq!(done, expected, "{received:?}");
    }
}

/// The params of `initialize`.
pub(crate) fn initialize_params(revision: &str) -> Value {
    json!({
        "protocolVersion": revision,
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    })
}
