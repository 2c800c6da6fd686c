//! A client that records the transcript of its connection.

use std::fmt::Write;

use corelane_test_support::LineClient;
use corelane_test_support::messages::{LEGACY_REVISIONS, MODERN};
use serde_json::{Map, Value, json};

use crate::transcripts::volatile::Volatile;
use corelane_test_support::mcp_schema::check_message;

/// A client of one revision that records every message.
pub(crate) struct TranscriptClient {
    peer: LineClient,
    pub(crate) revision: &'static str,
    capabilities: Value,
    requests_sent: u64,
    transcript: String,
    volatile: Volatile,
}

impl TranscriptClient {
    pub(crate) fn new(peer: LineClient, revision: &'static str) -> Self {
        Self {
            peer,
            revision,
            capabilities: json!({}),
            requests_sent: 0,
            transcript: String::new(),
            volatile: Volatile::default(),
        }
    }

    /// Marks a value as volatile that the server does not send.
    pub(crate) fn mark_volatile(&mut self, member: &str, value: &str) {
        self.volatile.collect(&json!({ member: value }));
    }

    /// Whether the revision has no handshake.
    pub(crate) fn is_modern(&self) -> bool {
        self.revision == MODERN
    }

    /// Starts a section of the transcript.
    pub(crate) fn start_section(&mut self, title: &str) {
        let gap = if self.transcript.is_empty() { "" } else { "\n" };
        writeln!(self.transcript, "{gap}# {title}").expect("writing to a string succeeds");
    }

    /// Performs the handshake in legacy revisions; sets the client capabilities.
    pub(crate) fn open(&mut self, capabilities: Value) {
        self.capabilities = capabilities;
        if !LEGACY_REVISIONS.contains(&self.revision) {
            return;
        }
        self.start_section("handshake");
        let params = json!({
            "protocolVersion": self.revision,
            "capabilities": self.capabilities,
            "clientInfo": {"name": "transcript", "version": "1"},
        });
        self.expect_result("initialize", params);
        self.notify("notifications/initialized", None);
    }

    /// Sends a message.
    pub(crate) fn send(&mut self, message: &Value) {
        self.record('>', &message.to_string());
        self.peer.send(message);
    }

    /// Sends a line that may be invalid.
    pub(crate) fn send_raw(&mut self, text: &str) {
        self.record('>', text);
        self.peer.send_line(text.as_bytes());
    }

    /// Sends a notification.
    pub(crate) fn notify(&mut self, method: &str, params: Option<Value>) {
        let mut message = json!({"jsonrpc": "2.0", "method": method});
        if let Some(params) = params {
            message["params"] = params;
        }
        self.send(&message);
    }

    /// Sends a request and returns its id.
    pub(crate) fn send_request(&mut self, method: &str, params: Value) -> u64 {
        self.requests_sent += 1;
        let id = self.requests_sent;
        let params = self.with_meta(params);
        let mut message = json!({"jsonrpc": "2.0", "id": id, "method": method});
        if params.as_object().is_some_and(|params| !params.is_empty()) {
            message["params"] = params;
        }
        self.send(&message);
        id
    }

    /// Adds the `_meta` of modern requests.
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

    /// Receives one message and validates it against the schema of the revision; a response is that
    /// of a request of `method`.
    pub(crate) fn receive(&mut self, method: Option<&str>) -> Value {
        let (message, text) = self.peer.receive_text();
        self.volatile.collect(&message);
        self.record('<', &text);
        let single = std::slice::from_ref(&message);
        for item in message.as_array().map_or(single, Vec::as_slice) {
            if let Err(reason) = check_message(self.revision, item, method) {
                panic!("{reason}\n{}", self.transcript);
            }
        }
        message
    }

    /// Receives a request or notification of the server.
    pub(crate) fn receive_method(&mut self, method: &str) -> Value {
        let message = self.receive(None);
        assert_eq!(message["method"], method, "{}", self.transcript);
        message
    }

    /// Receives until the response to request `id`; messages before it are recorded too.
    pub(crate) fn receive_response(&mut self, id: u64, method: &str) -> Value {
        loop {
            let message = self.receive(Some(method));
            if message.get("method").is_none() {
                assert_eq!(message["id"], id, "{}", self.transcript);
                return message;
            }
        }
    }

    /// Sends a request that must succeed; returns its result.
    pub(crate) fn expect_result(&mut self, method: &str, params: Value) -> Value {
        let id = self.send_request(method, params);
        let mut response = self.receive_response(id, method);
        assert!(response.get("result").is_some(), "{method} failed\n{}", self.transcript);
        response["result"].take()
    }

    /// Sends a request that must fail with `code`; returns the error.
    pub(crate) fn expect_error(&mut self, method: &str, params: Value, code: i64) -> Value {
        let id = self.send_request(method, params);
        let mut response = self.receive_response(id, method);
        assert_eq!(response["error"]["code"], code, "{method}\n{}", self.transcript);
        response["error"].take()
    }

    /// Calls a tool, which must succeed; returns its result.
    pub(crate) fn call_tool(&mut self, tool: &str, arguments: &Value) -> Value {
        self.expect_result("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Responds to a request of the server.
    pub(crate) fn respond(&mut self, request: &Value, result: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
    }

    /// Repeats a request until `done` returns true; only the last one is recorded, because the
    /// number of attempts varies.
    pub(crate) fn poll(
        &mut self,
        method: &str,
        params: &Value,
        done: impl Fn(&Value) -> bool,
    ) -> Value {
        let (length, requests) = (self.transcript.len(), self.requests_sent);
        for _ in 0..POLLS_MAX {
            self.transcript.truncate(length);
            // An id may be reused after its response.
            self.requests_sent = requests;
            let result = self.expect_result(method, params.clone());
            if done(&result) {
                return result;
            }
            std::thread::yield_now();
        }
        panic!("{method} was not done after {POLLS_MAX} polls\n{}", self.transcript);
    }

    /// Shuts down writing, waits for the end of the stream and returns the transcript.
    pub(crate) fn finish(mut self) -> String {
        self.peer.shutdown_write();
        self.peer.expect_end_or_reset();
        self.volatile.replace_in(&self.transcript)
    }

    fn record(&mut self, direction: char, text: &str) {
        writeln!(self.transcript, "{direction} {text}").expect("writing to a string succeeds");
    }
}

/// Polls before a test fails, generous for a loaded machine.
const POLLS_MAX: usize = 100_000;
