//! A client's side of MCP in one revision: requests out, judged messages in.

use serde_json::{Map, Value, json};

use crate::judge::judge;
use crate::peer::Peer;
use crate::{LEGACY, MODERN};

/// One client on one connection.
pub(crate) struct Session {
    pub(crate) peer: Peer,
    revision: &'static str,
    requests: u64,
    /// Notifications that came while it waited for answers.
    pub(crate) notifications: Vec<Value>,
}

impl Session {
    /// A session without any handshake: of the modern revision, or of a legacy one that will be
    /// used before it is initialized.
    pub(crate) fn bare(peer: Peer, revision: &'static str) -> Self {
        Self { peer, revision, requests: 0, notifications: Vec::new() }
    }

    /// A session of the modern revision: it is ready at once.
    pub(crate) fn modern(peer: Peer) -> Self {
        Self::bare(peer, MODERN)
    }

    /// A session of a legacy revision after its handshake.
    pub(crate) fn legacy(peer: Peer, revision: &'static str) -> Self {
        let mut session = Self::bare(peer, revision);
        let result = session.succeed("initialize", initialize(revision));
        assert_eq!(result["protocolVersion"], revision);
        assert_eq!(result["serverInfo"]["name"], "corelane");
        session.peer.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        session
    }

    /// A ready session of any revision.
    pub(crate) fn of(peer: Peer, revision: &'static str) -> Self {
        if LEGACY.contains(&revision) { Self::legacy(peer, revision) } else { Self::modern(peer) }
    }

    /// Sends a request and returns its id.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.requests += 1;
        let id = self.requests;
        let params = self.with_meta(params);
        self.peer.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// What every modern request says of itself.
    fn with_meta(&self, mut params: Value) -> Value {
        if self.revision == MODERN {
            let empty = Value::Object(Map::new());
            let mut meta = params.get("_meta").cloned().unwrap_or(empty);
            meta["io.modelcontextprotocol/protocolVersion"] = json!(MODERN);
            meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
            meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "test", "version": "1"});
            params["_meta"] = meta;
        }
        params
    }

    /// Hears one message and judges it. `answers` is the method that a response would answer.
    pub(crate) fn hear(&mut self, answers: Option<&str>) -> Value {
        let message = self.peer.hear();
        if let Err(reason) = judge(self.revision, &message, answers) {
            panic!("{reason}");
        }
        message
    }

    /// Waits for the response to request `id`; notifications before it are kept.
    pub(crate) fn answer(&mut self, id: u64, method: &str) -> Value {
        loop {
            let message = self.hear(Some(method));
            if message.get("method").is_some() {
                self.notifications.push(message);
                continue;
            }
            assert_eq!(message["id"], id, "{message}");
            return message;
        }
    }

    /// A request that must succeed: its result.
    pub(crate) fn succeed(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        let mut answer = self.answer(id, method);
        assert!(answer.get("result").is_some(), "{method} failed: {answer}");
        answer["result"].take()
    }

    /// A request that must fail: the code of its error.
    pub(crate) fn fail(&mut self, method: &str, params: Value) -> i64 {
        let id = self.ask(method, params);
        let answer = self.answer(id, method);
        let code = answer["error"]["code"].as_i64();
        code.unwrap_or_else(|| panic!("{method} did not fail: {answer}"))
    }

    /// A tool call that must succeed: its result.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let result = self.succeed("tools/call", json!({"name": tool, "arguments": arguments}));
        assert_ne!(result["isError"], true, "{tool}: {result}");
        result
    }

    /// Everything that the demo services offer, once.
    pub(crate) fn try_everything(&mut self) {
        let tools = self.succeed("tools/list", json!({}));
        let names: Vec<&str> = tools["tools"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|tool| tool["name"].as_str())
            .collect();
        assert_eq!(names[..4], ["echo", "add", "slow", "hash"]);
        self.echo("ünï ☃ \n 𝄞");
        let sum = self.call("add", &json!({"a": 2, "b": 40}));
        let has_structured = self.revision >= "2025-06-18";
        assert_eq!(sum.get("structuredContent").is_some(), has_structured, "{sum}");
        self.call("hash", &json!({"bytes": 65_536}));
        self.slow(3);
        assert_eq!(self.fail("tools/call", json!({"name": "nobody"})), -32602);
        assert_eq!(self.fail("no/such/method", json!({})), -32601);
    }

    /// One `echo`, and that it is one.
    pub(crate) fn echo(&mut self, message: &str) {
        let result = self.call("echo", &json!({"message": message}));
        assert_eq!(result["content"][0]["text"], message);
    }

    /// Begins a `slow` with progress; returns its id and the progress token.
    pub(crate) fn begin_slow(&mut self, steps: u32, step_ms: u32) -> (u64, String) {
        let token = format!("slow-{}", self.requests + 1);
        let params = json!({
            "name": "slow",
            "arguments": {"steps": steps, "step_ms": step_ms},
            "_meta": {"progressToken": token},
        });
        (self.ask("tools/call", params), token)
    }

    /// A `slow` to its end: the progress names its token and grows to its total.
    fn slow(&mut self, steps: u32) {
        let (id, token) = self.begin_slow(steps, 1);
        let answer = self.answer(id, "tools/call");
        assert!(answer.get("result").is_some(), "{answer}");
        let heard: Vec<Value> = self.notifications.drain(..).collect();
        let done: Vec<f64> = heard
            .iter()
            .map(|message| &message["params"])
            .filter(|params| params["progressToken"] == token && params["total"] == steps)
            .filter_map(|params| params["progress"].as_f64())
            .collect();
        let expected: Vec<f64> = (1..=steps).map(f64::from).collect();
        assert_eq!(done, expected, "{heard:?}");
    }
}

/// The parameters of a handshake.
pub(crate) fn initialize(revision: &str) -> Value {
    json!({
        "protocolVersion": revision,
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    })
}
