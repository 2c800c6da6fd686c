//! One connection and everything that is said over it.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use crate::judge::judge;
use crate::peer::Peer;
use crate::volatile::Volatile;
use crate::{LEGACY, MODERN};

/// A client in one revision that writes down what is said.
pub(crate) struct Dialogue {
    peer: Peer,
    pub(crate) revision: &'static str,
    /// What the client says it can do.
    capabilities: Value,
    requests: u64,
    transcript: String,
    volatile: Volatile,
}

impl Dialogue {
    /// A dialogue in which nothing was said.
    pub(crate) fn new(peer: Peer, revision: &'static str) -> Self {
        Self {
            peer,
            revision,
            capabilities: json!({}),
            requests: 0,
            transcript: String::new(),
            volatile: Volatile::default(),
        }
    }

    /// Names a value that differs from run to run and that the server did not send.
    pub(crate) fn note(&mut self, member: &str, value: &str) {
        self.volatile.note(&json!({ member: value }));
    }

    /// Whether requests stand alone in its revision.
    pub(crate) fn is_modern(&self) -> bool {
        self.revision == MODERN
    }

    /// Begins a new part of the play.
    pub(crate) fn part(&mut self, title: &str) {
        let gap = if self.transcript.is_empty() { "" } else { "\n" };
        writeln!(self.transcript, "{gap}# {title}").expect("a string takes everything");
    }

    /// Makes the client ready: the handshake of legacy revisions, nothing in the modern one.
    pub(crate) fn open(&mut self, capabilities: Value) {
        self.capabilities = capabilities;
        if !LEGACY.contains(&self.revision) {
            return;
        }
        self.part("handshake");
        let params = json!({
            "protocolVersion": self.revision,
            "capabilities": self.capabilities,
            "clientInfo": {"name": "transcript", "version": "1"},
        });
        self.succeed("initialize", params);
        self.notify("notifications/initialized", None);
    }

    /// Says a message.
    pub(crate) fn say(&mut self, message: &Value) {
        self.write('>', &message.to_string());
        self.peer.say(message);
    }

    /// Says bytes that may be no message.
    pub(crate) fn say_text(&mut self, text: &str) {
        self.write('>', text);
        self.peer.say_line(text.as_bytes());
    }

    /// Says a notification.
    pub(crate) fn notify(&mut self, method: &str, params: Option<Value>) {
        let mut message = json!({"jsonrpc": "2.0", "method": method});
        if let Some(params) = params {
            message["params"] = params;
        }
        self.say(&message);
    }

    /// Says a request and returns its id.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.requests += 1;
        let id = self.requests;
        let params = self.with_meta(params);
        let mut message = json!({"jsonrpc": "2.0", "id": id, "method": method});
        if params.as_object().is_some_and(|params| !params.is_empty()) {
            message["params"] = params;
        }
        self.say(&message);
        id
    }

    /// What every modern request says of its client.
    fn with_meta(&self, mut params: Value) -> Value {
        if self.is_modern() {
            let empty = Value::Object(Map::new());
            let mut meta = params.get("_meta").cloned().unwrap_or(empty);
            meta["io.modelcontextprotocol/protocolVersion"] = json!(MODERN);
            meta["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
            params["_meta"] = meta;
        }
        params
    }

    /// Hears one message, judged; `answers` is the method that a response would answer.
    pub(crate) fn hear(&mut self, answers: Option<&str>) -> Value {
        let (message, text) = self.peer.hear_text();
        self.volatile.note(&message);
        self.write('<', &text);
        let together = std::slice::from_ref(&message);
        for each in message.as_array().map_or(together, Vec::as_slice) {
            if let Err(reason) = judge(self.revision, each, answers) {
                panic!("{reason}\n{}", self.transcript);
            }
        }
        message
    }

    /// Hears a request or a notification of the server's.
    pub(crate) fn hear_from_server(&mut self, method: &str) -> Value {
        let message = self.hear(None);
        assert_eq!(message["method"], method, "{}", self.transcript);
        message
    }

    /// Hears until the answer to request `id` has come; what comes before it is written down too.
    pub(crate) fn answer(&mut self, id: u64, method: &str) -> Value {
        loop {
            let message = self.hear(Some(method));
            if message.get("method").is_none() {
                assert_eq!(message["id"], id, "{}", self.transcript);
                return message;
            }
        }
    }

    /// A request that must succeed: its result.
    pub(crate) fn succeed(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        let mut answer = self.answer(id, method);
        assert!(answer.get("result").is_some(), "{method} failed\n{}", self.transcript);
        answer["result"].take()
    }

    /// A request that must fail with this code.
    pub(crate) fn fail(&mut self, method: &str, params: Value, code: i64) -> Value {
        let id = self.ask(method, params);
        let mut answer = self.answer(id, method);
        assert_eq!(answer["error"]["code"], code, "{method}\n{}", self.transcript);
        answer["error"].take()
    }

    /// A tool call that must succeed: its result.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.succeed("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Answers a request of the server's.
    pub(crate) fn respond(&mut self, request: &Value, result: &Value) {
        self.say(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
    }

    /// Asks again until `done` holds of the result; only the last time is written down, because
    /// how often it takes is not the server's to say.
    pub(crate) fn poll(
        &mut self,
        method: &str,
        params: &Value,
        done: impl Fn(&Value) -> bool,
    ) -> Value {
        let (length, requests) = (self.transcript.len(), self.requests);
        for _ in 0..POLLS_MAX {
            self.transcript.truncate(length);
            // Ids may be used again once they were answered.
            self.requests = requests;
            let result = self.succeed(method, params.clone());
            if done(&result) {
                return result;
            }
            std::thread::yield_now();
        }
        panic!("{method} does not come to an end\n{}", self.transcript);
    }

    /// Says nothing more, hears the end and hands the transcript over.
    pub(crate) fn end(mut self) -> String {
        self.peer.finish();
        self.peer.hear_end();
        self.volatile.name_in(&self.transcript)
    }

    fn write(&mut self, who: char, text: &str) {
        writeln!(self.transcript, "{who} {text}").expect("a string takes everything");
    }
}

/// Enough for the slowest machine, and an end for what never ends.
const POLLS_MAX: usize = 100_000;
