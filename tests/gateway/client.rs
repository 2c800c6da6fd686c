//! An MCP client of one protocol version over TCP or HTTP that checks every received message, and
//! answers what it is asked.

use std::collections::BTreeMap;

use corelane_test_support::mcp_schema::expect_valid;
use corelane_test_support::messages::{MODERN, modern, notification, request};
use corelane_test_support::{HttpClient, LineClient, Request};
use serde_json::{Value, json};

use crate::gateway::{Gateway, Kind};

/// Capabilities of a client that answers whatever it is asked.
pub(crate) fn all_inputs() -> Value {
    json!({"elicitation": {}, "sampling": {}, "roots": {}})
}

/// One client.
pub(crate) struct Client {
    pub(crate) kind: Kind,
    transport: Transport,
    pub(crate) capabilities: Value,
    /// Its API key.
    pub(crate) key: Option<String>,
    /// Whether requests of the server stay without an answer.
    pub(crate) holds_input_requests: bool,
    last_id: u64,
    pub(crate) notifications: Vec<Value>,
    /// What the server has asked: requests up to 2025-11-25, or entries of `inputRequests`.
    pub(crate) input_requests: Vec<Value>,
}

enum Transport {
    Tcp { peer: LineClient, methods: BTreeMap<u64, String>, early: BTreeMap<u64, Value> },
    Http(Http),
}

/// Every request has a connection of its own.
struct Http {
    address: std::net::SocketAddr,
    session: Option<String>,
    exchanges: BTreeMap<u64, Exchange>,
    /// The stream of notifications.
    stream: Option<HttpClient>,
}

struct Exchange {
    client: HttpClient,
    method: String,
    is_started: bool,
    is_stream: bool,
}

impl Client {
    /// A client without capabilities.
    pub(crate) fn connect(gateway: &Gateway, kind: Kind) -> Self {
        Self::with_capabilities(gateway, kind, json!({}))
    }

    /// A client with `capabilities`.
    pub(crate) fn with_capabilities(gateway: &Gateway, kind: Kind, capabilities: Value) -> Self {
        Self::with_key(gateway, kind, capabilities, None)
    }

    /// A client with an API key, over HTTP.
    pub(crate) fn with_key(
        gateway: &Gateway,
        kind: Kind,
        capabilities: Value,
        key: Option<&str>,
    ) -> Self {
        let transport = if kind.is_http {
            let (exchanges, session, stream) = (BTreeMap::new(), None, None);
            Transport::Http(Http { address: gateway.http, session, exchanges, stream })
        } else {
            let peer = LineClient::connect(gateway.tcp);
            Transport::Tcp { peer, methods: BTreeMap::new(), early: BTreeMap::new() }
        };
        let mut client = Self {
            kind,
            transport,
            capabilities,
            key: key.map(str::to_owned),
            holds_input_requests: false,
            last_id: 0,
            notifications: Vec::new(),
            input_requests: Vec::new(),
        };
        if !client.is_modern() {
            client.handshake();
        }
        client
    }

    pub(crate) fn is_modern(&self) -> bool {
        self.kind.revision == MODERN
    }

    fn handshake(&mut self) {
        let params = json!({
            "protocolVersion": self.kind.revision,
            "capabilities": self.capabilities,
            "clientInfo": {"name": "test", "version": "1"},
        });
        let result = self.result("initialize", params);
        assert_eq!(result["protocolVersion"], self.kind.revision, "{result}");
        self.notify(&notification("notifications/initialized"));
    }

    /// Sends a request; returns its id.
    pub(crate) fn start(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        let mut message = request(id, method, params);
        if self.is_modern() {
            message = modern(message);
            let key = "io.modelcontextprotocol/clientCapabilities";
            message["params"]["_meta"][key] = self.capabilities.clone();
        }
        let http_request = self.http_request(&message);
        match &mut self.transport {
            Transport::Tcp { peer, methods, .. } => {
                methods.insert(id, method.to_owned());
                peer.send(&message);
            }
            Transport::Http(http) => {
                let mut client =
                    HttpClient::connect(http.address).with_revision(self.kind.revision);
                client.send(&http_request);
                let method = method.to_owned();
                let exchange = Exchange { client, method, is_started: false, is_stream: false };
                http.exchanges.insert(id, exchange);
            }
        }
        id
    }

    fn http_request(&self, message: &Value) -> Request {
        let mut request = if self.is_modern() {
            Request::modern(message)
        } else {
            Request::post(message).field("MCP-Protocol-Version", self.kind.revision)
        };
        if let Transport::Http(Http { session: Some(session), .. }) = &self.transport {
            request = request.field("Mcp-Session-Id", session);
        }
        match &self.key {
            Some(key) => request.field("Authorization", format!("Bearer {key}")),
            None => request,
        }
    }

    /// Sends a notification, or a response.
    pub(crate) fn notify(&mut self, message: &Value) {
        let request = self.http_request(message);
        match &mut self.transport {
            Transport::Tcp { peer, .. } => peer.send(message),
            Transport::Http(http) => {
                let response = HttpClient::connect(http.address).exchange(&request);
                response.expect_empty_body(202);
            }
        }
    }

    /// Cancels a request: by a notification, or over HTTP in 2026-07-28 by the end of its stream.
    pub(crate) fn cancel(&mut self, id: u64) {
        if self.is_modern()
            && let Transport::Http(http) = &mut self.transport
        {
            http.exchanges.remove(&id).expect("a request").client.reset();
            return;
        }
        let params = json!({"requestId": id});
        let method = "notifications/cancelled";
        self.notify(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Waits for the response of a request. Handles what comes before it.
    pub(crate) fn response(&mut self, id: u64) -> Value {
        loop {
            let message = self.next_of(id);
            if message.get("method").is_none() {
                assert_eq!(message["id"], id, "{message}");
                if let Transport::Http(http) = &mut self.transport {
                    http.exchanges.remove(&id);
                }
                return message;
            }
            self.handle(message);
        }
    }

    /// Waits until something comes before the response of a request, and handles it.
    pub(crate) fn handle_next(&mut self, id: u64) {
        let message = self.next_of(id);
        assert!(message.get("method").is_some(), "{message}");
        self.handle(message);
    }

    fn handle(&mut self, message: Value) {
        if message.get("id").is_none() {
            self.notifications.push(message);
            return;
        }
        let reply = json!({"jsonrpc": "2.0", "id": message["id"], "result": answer(&message)});
        self.input_requests.push(message);
        if !self.holds_input_requests {
            self.notify(&reply);
        }
    }

    fn next_of(&mut self, id: u64) -> Value {
        let revision = self.kind.revision;
        match &mut self.transport {
            Transport::Tcp { peer, methods, early } => {
                if let Some(response) = early.remove(&id) {
                    return response;
                }
                loop {
                    let message = receive(peer, methods, revision);
                    match message["id"].as_u64().filter(|_| message.get("method").is_none()) {
                        Some(other) if other != id => drop(early.insert(other, message)),
                        _ => return message,
                    }
                }
            }
            Transport::Http(http) => {
                let exchange = http.exchanges.get_mut(&id).expect("a request");
                let message = exchange.next(&mut http.session);
                let is_response = message.get("method").is_none();
                expect_valid(revision, &message, is_response.then_some(&*exchange.method));
                message
            }
        }
    }

    /// Sends a request that must succeed; returns its result.
    #[track_caller]
    pub(crate) fn result(&mut self, method: &str, params: Value) -> Value {
        let mut response = self.request(method, params);
        assert!(response.get("result").is_some(), "{method} failed: {response}");
        response["result"].take()
    }

    /// Sends a request; returns its first response.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.start(method, params);
        self.response(id)
    }

    /// Calls a tool to its end, and answers the input requests.
    #[expect(clippy::needless_pass_by_value, reason = "most callers pass a literal")]
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        let mut response = self.request("tools/call", params.clone());
        while response["result"]["resultType"] == "input_required" {
            let answers = self.answers_to(&response);
            let params = retry(&params, &response, answers);
            response = self.request("tools/call", params);
        }
        response
    }

    /// The answers to the input requests of a result, which are kept.
    pub(crate) fn answers_to(&mut self, response: &Value) -> Value {
        let input_requests =
            response["result"]["inputRequests"].as_object().expect("input_requests");
        self.input_requests.extend(input_requests.values().cloned());
        input_requests
            .iter()
            .map(|(key, input_request)| (key.clone(), answer(input_request)))
            .collect()
    }

    /// Calls a tool that must succeed; returns its text.
    #[track_caller]
    pub(crate) fn text(&mut self, tool: &str, arguments: Value) -> String {
        text_of(&self.call(tool, arguments)).to_owned()
    }

    /// The values of `key` of all items of a list, over all its pages.
    pub(crate) fn list(&mut self, method: &str, list: &str, key: &str) -> Vec<String> {
        let (mut values, mut cursor) = (Vec::new(), Value::Null);
        loop {
            let params = if cursor.is_null() { json!({}) } else { json!({"cursor": cursor}) };
            let mut result = self.result(method, params);
            let items = result[list].as_array().expect("a list");
            values.extend(items.iter().map(|item| item[key].as_str().expect("text").to_owned()));
            cursor = result["nextCursor"].take();
            if cursor.is_null() {
                return values;
            }
        }
    }

    pub(crate) fn tools(&mut self) -> Vec<String> {
        self.list("tools/list", "tools", "name")
    }

    /// What the fixture knows of its client and its calls.
    pub(crate) fn state(&mut self) -> Value {
        serde_json::from_str(&self.text("state", json!({}))).expect("JSON")
    }

    /// Opens the stream of notifications, of changed lists and of `uris`.
    pub(crate) fn listen(&mut self, uris: &[&str]) {
        if self.is_modern() {
            let filter = json!({
                "toolsListChanged": true, "promptsListChanged": true,
                "resourcesListChanged": true, "resourceSubscriptions": uris,
            });
            let id = self.start("subscriptions/listen", json!({"notifications": filter}));
            self.handle_next(id);
            let first = self.notifications.pop().expect("a notification");
            assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{first}");
            if let Transport::Http(http) = &mut self.transport {
                http.stream = http.exchanges.remove(&id).map(|exchange| exchange.client);
            }
            return;
        }
        if let Transport::Http(http) = &mut self.transport {
            let request = Request::new("GET", "/mcp")
                .field("Accept", "text/event-stream")
                .field("MCP-Protocol-Version", self.kind.revision)
                .field("Mcp-Session-Id", http.session.as_deref().expect("a session"));
            let mut client = HttpClient::connect(http.address);
            client.request_stream(&request);
            http.stream = Some(client);
        }
        for uri in uris {
            assert_eq!(self.result("resources/subscribe", json!({"uri": uri})), json!({}));
        }
    }

    /// Waits for a notification with this method and takes it.
    pub(crate) fn notification(&mut self, method: &str) -> Value {
        loop {
            let known = self.notifications.iter().position(|it| it["method"] == method);
            if let Some(index) = known {
                return self.notifications.remove(index);
            }
            let message = match &mut self.transport {
                Transport::Tcp { peer, methods, .. } => receive(peer, methods, self.kind.revision),
                Transport::Http(http) => {
                    let stream = http.stream.as_mut().expect("a stream is open");
                    let message = next_event(stream);
                    expect_valid(self.kind.revision, &message, None);
                    message
                }
            };
            assert!(message.get("method").is_some(), "{message}");
            self.handle(message);
        }
    }

    /// Responses that have come and that nothing has waited for.
    pub(crate) fn unclaimed(&self) -> usize {
        match &self.transport {
            Transport::Tcp { early, .. } => early.len(),
            Transport::Http(http) => http.exchanges.len(),
        }
    }

    /// Ends the session: over HTTP up to 2025-11-25 by a request, else with the connection.
    pub(crate) fn end_session(self, gateway: &Gateway) {
        if let Transport::Http(Http { session: Some(session), .. }) = &self.transport {
            let request = Request::new("DELETE", "/mcp").field("Mcp-Session-Id", session);
            let status = HttpClient::connect(gateway.http).exchange(&request).status();
            assert!([200, 202, 204].contains(&status), "{status}");
        }
        self.reset();
    }

    /// Breaks the connection off.
    pub(crate) fn reset(self) {
        match self.transport {
            Transport::Tcp { peer, .. } => peer.reset(),
            Transport::Http(Http { exchanges, stream, .. }) => {
                for exchange in exchanges.into_values() {
                    exchange.client.reset();
                }
                stream.into_iter().for_each(HttpClient::reset);
            }
        }
    }
}

impl Exchange {
    fn next(&mut self, session: &mut Option<String>) -> Value {
        if !self.is_started {
            self.is_started = true;
            let head = self.client.read_head();
            if let Some(id) = head.field("Mcp-Session-Id") {
                *session = Some(id.to_owned());
            }
            if head.field("Content-Type") != Some("text/event-stream") {
                return self.client.read_body(head).message();
            }
            self.is_stream = true;
            self.client.start_stream(&head);
        }
        assert!(self.is_stream, "a response without a stream is one message");
        next_event(&mut self.client)
    }
}

/// The message of the next event that has one.
fn next_event(client: &mut HttpClient) -> Value {
    loop {
        let event = client.read_event().expect("the stream has ended");
        if let Some(data) = event.data.filter(|data| !data.is_empty()) {
            return serde_json::from_str(&data).expect("event is JSON");
        }
    }
}

fn receive(peer: &mut LineClient, methods: &BTreeMap<u64, String>, revision: &str) -> Value {
    let message = peer.receive();
    let id = message["id"].as_u64().filter(|_| message.get("method").is_none());
    let method = id.and_then(|id| methods.get(&id));
    expect_valid(revision, &message, method.map(String::as_str));
    message
}

/// What the client answers to a request of the server.
pub(crate) fn answer(input_request: &Value) -> Value {
    match input_request["method"].as_str().unwrap_or_default() {
        "elicitation/create" => json!({
            "action": "accept",
            "content": {"name": input_request["params"]["message"]},
        }),
        "sampling/createMessage" => json!({
            "role": "assistant",
            "content": {"type": "text", "text": "Paris"},
            "model": "test-model",
            "stopReason": "endTurn",
        }),
        "roots/list" => json!({"roots": [{"uri": "file:///home/ada", "name": "home"}]}),
        "ping" => json!({}),
        method => panic!("{method} is not answered"),
    }
}

/// The params of the request that answers the input requests of `response`.
pub(crate) fn retry(params: &Value, response: &Value, answers: Value) -> Value {
    let mut params = params.clone();
    params["inputResponses"] = answers;
    if let Some(state) = response["result"].get("requestState") {
        params["requestState"] = state.clone();
    }
    params
}

/// The text of a result without error.
#[track_caller]
pub(crate) fn text_of(response: &Value) -> &str {
    assert_ne!(response["result"]["isError"], true, "{response}");
    corelane_test_support::messages::result_text(response)
}

/// The text of an error of JSON-RPC.
#[track_caller]
pub(crate) fn error_text(response: &Value) -> &str {
    let text = response["error"]["message"].as_str();
    text.unwrap_or_else(|| panic!("it did not fail: {response}"))
}
