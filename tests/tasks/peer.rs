//! A peer over a plain socket that keeps what it was not waiting for.

use std::collections::VecDeque;
use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::client::{Client, notification};
use crate::judge::judge;

/// The revision whose tasks are part of the core.
pub(crate) const CORE: &str = "2025-11-25";

/// The revision whose tasks are an extension.
pub(crate) const MODERN: &str = "2026-07-28";

/// The key of the extension.
pub(crate) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// The key that ties a message to a task.
pub(crate) const RELATED: &str = "io.modelcontextprotocol/related-task";

/// One connection.
pub(crate) struct Peer {
    client: Client,
    revision: &'static str,
    /// What a modern peer declares with each request.
    pub(crate) capabilities: Value,
    /// What the server said of itself in the handshake.
    pub(crate) hello: Value,
    id_next: i64,
    /// What came while something else was waited for.
    inbox: VecDeque<Value>,
}

impl Peer {
    fn over(address: SocketAddr, revision: &'static str) -> Self {
        let capabilities = json!({"elicitation": {}, "extensions": {EXTENSION: {}}});
        let (client, inbox) = (Client::connect(address), VecDeque::new());
        Self { client, revision, capabilities, hello: Value::Null, id_next: 0, inbox }
    }

    /// A peer of 2026-07-28.
    pub(crate) fn modern(address: SocketAddr) -> Self {
        Self::over(address, MODERN)
    }

    /// A peer of 2025-11-25, with its handshake made.
    pub(crate) fn core(address: SocketAddr) -> Self {
        Self::legacy(address, CORE)
    }

    /// A peer of any revision with a handshake, which is made.
    pub(crate) fn legacy(address: SocketAddr, revision: &'static str) -> Self {
        let mut peer = Self::over(address, revision);
        let by_address = revision == CORE;
        let elicitation = if by_address { json!({"form": {}, "url": {}}) } else { json!({}) };
        peer.hello = peer.request(
            "initialize",
            json!({
                "protocolVersion": revision,
                "capabilities": {"elicitation": elicitation},
                "clientInfo": {"name": "tasks", "version": "1"},
            }),
        );
        assert_eq!(peer.hello["result"]["protocolVersion"], revision, "{}", peer.hello);
        peer.say(&notification("notifications/initialized"));
        peer
    }

    /// Sends one message.
    pub(crate) fn say(&mut self, message: &Value) {
        self.client.send(message);
    }

    /// Says nothing more; what the server says may still be heard.
    pub(crate) fn finish(&self) {
        self.client.finish();
    }

    /// Sends a request and returns its id.
    pub(crate) fn send(&mut self, method: &str, mut params: Value) -> i64 {
        self.id_next += 1;
        let id = self.id_next;
        if self.revision == MODERN {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(MODERN);
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
                self.capabilities.clone();
        }
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Sends a request and waits for its answer, which is held against the schema of its method.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.answer_to(id, method)
    }

    /// Waits for the answer to a request.
    pub(crate) fn answer_to(&mut self, id: i64, method: &str) -> Value {
        let answer = self.find(|message| message["id"] == id && message.get("method").is_none());
        judge(self.revision, &answer, Some(method)).unwrap_or_else(|reason| panic!("{reason}"));
        answer
    }

    /// Waits for a notification or a request of this method.
    pub(crate) fn told(&mut self, method: &str) -> Value {
        let message = self.find(|message| message["method"] == method);
        judge(self.revision, &message, None).unwrap_or_else(|reason| panic!("{reason}"));
        message
    }

    /// What has come and nobody has waited for.
    pub(crate) fn left_over(&self) -> impl Iterator<Item = &Value> {
        self.inbox.iter()
    }

    /// Waits for a message that fits.
    fn find(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        if let Some(place) = self.inbox.iter().position(&fits) {
            return self.inbox.remove(place).expect("a place that was just found");
        }
        loop {
            let message = self.client.answer();
            if fits(&message) {
                return message;
            }
            self.inbox.push_back(message);
        }
    }

    /// Waits for the end of the connection.
    pub(crate) fn expect_end(&mut self) {
        self.client.rest();
    }

    /// `tools/call` without arguments, with `more` beside the name.
    pub(crate) fn call(&mut self, tool: &str, more: Value) -> Value {
        self.request("tools/call", with(json!({"name": tool}), more))
    }

    /// Begins a task and returns its name.
    pub(crate) fn begin(&mut self, tool: &str) -> String {
        let is_modern = self.revision == MODERN;
        let more = if is_modern { json!({}) } else { json!({"task": {}}) };
        let answer = self.call(tool, more);
        let result = &answer["result"];
        let task = if is_modern { result } else { &result["task"] };
        assert_eq!(task["status"], "working", "{answer}");
        task["taskId"].as_str().expect("a name").to_owned()
    }

    /// Opens a stream for tasks and returns its id.
    pub(crate) fn listen(&mut self, tasks: &[&str]) -> i64 {
        let id = self.send("subscriptions/listen", json!({"notifications": {"taskIds": tasks}}));
        let granted = self.told("notifications/subscriptions/acknowledged");
        assert_eq!(granted["params"]["notifications"]["taskIds"], json!(tasks), "{granted}");
        id
    }

    /// The next that is told of a task on a stream.
    pub(crate) fn told_of(&mut self, task: &str, stream: i64) -> Value {
        let params = self.told("notifications/tasks")["params"].take();
        assert_eq!(params["taskId"], task, "{params}");
        assert_eq!(params["_meta"]["io.modelcontextprotocol/subscriptionId"], stream, "{params}");
        params
    }

    /// A request that names a task.
    pub(crate) fn task(&mut self, method: &str, id: &str) -> Value {
        self.request(method, json!({"taskId": id}))
    }

    /// Asks for a task until it stands so, and returns it.
    pub(crate) fn until(&mut self, id: &str, status: &str) -> Value {
        loop {
            let answer = self.task("tasks/get", id);
            let task = &answer["result"];
            if task["status"] == status {
                return task.clone();
            }
            let is_over =
                ["completed", "failed", "cancelled"].iter().any(|over| task["status"] == **over);
            assert!(task["status"].is_string() && !is_over, "{answer}");
        }
    }
}

fn with(mut value: Value, more: Value) -> Value {
    if let (Value::Object(members), Value::Object(more)) = (&mut value, more) {
        members.extend(more);
    }
    value
}

/// The answer must be an error with this code.
#[track_caller]
pub(crate) fn expect_error(answer: &Value, code: i64) {
    assert_eq!(answer["error"]["code"], code, "{answer}");
    assert!(answer["error"]["message"].as_str().is_some_and(|text| !text.is_empty()), "{answer}");
}

/// What a result says.
#[track_caller]
pub(crate) fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result}"))
}
