//! The client behind a test server: requests in flight, and answers to those of the server.

use std::collections::BTreeMap;
use std::fmt;
use std::task::{Context, Poll, Waker};

use corelane_protocol::eras::{
    CLIENT_CAPABILITIES_KEY, CLIENT_INFO_KEY, LOG_LEVEL_KEY, PROTOCOL_VERSION_KEY,
};
use corelane_protocol::revision::Revision;
use http::Extensions;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::result::TestError;
use crate::server::InProcessConnection;

/// The result of a request, and the notifications that came before it.
type Response = (Result<Value, TestError>, Vec<Value>);

/// Returns the result of a request of the server, for its params.
type Answer = Box<dyn FnMut(&Value) -> Value>;

/// A client of one connection.
pub(super) struct Client {
    pub(super) connection: InProcessConnection,
    /// Those of every request.
    extensions: Extensions,
    revision: Revision,
    /// The handshake of a legacy revision is complete.
    is_initialized: bool,
    /// By method.
    answers: BTreeMap<&'static str, Answer>,
    last_id: u64,
    /// By id of the first request.
    exchanges: BTreeMap<u64, Exchange>,
    /// Those that belong to no request.
    notifications: Vec<Value>,
}

/// A request in flight. It is sent again, with another id, when the server requires input.
struct Exchange {
    request_id: u64,
    method: String,
    params: Map<String, Value>,
    result: Option<Result<Value, TestError>>,
    notifications: Vec<Value>,
    waker: Option<Waker>,
}

/// A request or notification of the client.
#[derive(Serialize)]
struct OutgoingMessage<'a, P> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    method: &'a str,
    params: &'a P,
}

impl Client {
    pub(super) fn new(connection: InProcessConnection) -> Self {
        Self {
            connection,
            extensions: Extensions::new(),
            revision: Revision::LATEST,
            is_initialized: false,
            answers: BTreeMap::new(),
            last_id: 0,
            exchanges: BTreeMap::new(),
            notifications: Vec::new(),
        }
    }

    /// Sets the revision, before the first request.
    pub(super) const fn set_revision(&mut self, revision: Revision) {
        self.revision = revision;
    }

    /// Attaches a value to all requests from now on.
    pub(super) fn set_extension<T: Clone + Send + Sync + 'static>(&mut self, value: T) {
        self.extensions.insert(value);
        self.connection.set_extensions(self.extensions.clone());
    }

    /// Sets the answer to requests of the server, which declares the capability.
    pub(super) fn set_answer(&mut self, method: &'static str, answer: Answer) {
        self.answers.insert(method, answer);
    }

    /// Sends a request; returns the key of the exchange.
    pub(super) fn start(&mut self, method: &str, params: Map<String, Value>) -> u64 {
        if !self.revision.is_modern() && !std::mem::replace(&mut self.is_initialized, true) {
            self.initialize();
        }
        let request_id = self.allocate_id();
        let params = self.with_meta(params, request_id);
        self.send_request(request_id, method, &params);
        let method = method.to_owned();
        let (result, notifications, waker) = (None, Vec::new(), None);
        let exchange = Exchange { request_id, method, params, result, notifications, waker };
        self.exchanges.insert(request_id, exchange);
        request_id
    }

    /// Returns the response of an exchange, which ends with it.
    pub(super) fn poll_response(&mut self, key: u64, context: &Context<'_>) -> Poll<Response> {
        loop {
            let Some(exchange) = self.exchanges.get_mut(&key) else {
                return Poll::Ready((Err(TestError::Ended), Vec::new()));
            };
            if let Some(result) = exchange.result.take() {
                let notifications = std::mem::take(&mut exchange.notifications);
                self.exchanges.remove(&key);
                self.wake_all();
                return Poll::Ready((result, notifications));
            }
            match self.connection.poll_receive(context) {
                Poll::Ready(Some(message)) => {
                    let message = serde_json::from_slice(message).unwrap_or_default();
                    self.handle_message(message);
                }
                Poll::Ready(None) => exchange.result = Some(Err(TestError::Ended)),
                Poll::Pending => {
                    exchange.waker = Some(context.waker().clone());
                    return Poll::Pending;
                }
            }
        }
    }

    /// Cancels an exchange, which gets no response then. Does nothing if it has ended.
    pub(super) fn cancel(&mut self, key: u64) {
        let Some(exchange) = self.exchanges.remove(&key) else { return };
        if exchange.result.is_none() {
            let params = json!({ "requestId": exchange.request_id });
            self.send_notification("notifications/cancelled", &params);
        }
        self.wake_all();
    }

    /// Takes the notifications that belong to no request.
    pub(super) fn take_notifications(&mut self) -> Vec<Value> {
        self.handle_messages();
        std::mem::take(&mut self.notifications)
    }

    /// Handles what the server has sent by now.
    fn handle_messages(&mut self) {
        while let Some(message) = self.connection.try_receive() {
            let message = serde_json::from_slice(message).unwrap_or_default();
            self.handle_message(message);
        }
        self.wake_all();
    }

    fn handle_message(&mut self, mut message: Value) {
        let id = message["id"].take();
        match message["method"].take() {
            Value::String(method) if id.is_null() => {
                self.record_notification(&method, &message["params"]);
            }
            Value::String(method) => self.answer_request(&id, &method, &message["params"]),
            _ => self.handle_response(id.as_u64().unwrap_or_default(), message),
        }
    }

    /// Progress belongs to its exchange, log messages to all of them.
    fn record_notification(&mut self, method: &str, params: &Value) {
        let notification = json!({ "method": method, "params": params });
        let token = params["progressToken"].as_u64();
        let is_log = method == "notifications/message";
        let mut is_recorded = false;
        for (key, exchange) in &mut self.exchanges {
            if exchange.result.is_none() && (is_log || token == Some(*key)) {
                exchange.notifications.push(notification.clone());
                is_recorded = true;
            }
        }
        if !is_recorded {
            self.notifications.push(notification);
        }
    }

    /// Answers a request of the server (legacy).
    fn answer_request(&mut self, id: &Value, method: &str, params: &Value) {
        let response = match self.answers.get_mut(method) {
            Some(answer) => json!({ "jsonrpc": "2.0", "id": id, "result": answer(params) }),
            None if method == "ping" => json!({ "jsonrpc": "2.0", "id": id, "result": {} }),
            None => {
                let error = json!({ "code": -32601, "message": format!("no answer to {method}") });
                json!({ "jsonrpc": "2.0", "id": id, "error": error })
            }
        };
        self.send(&response);
    }

    fn handle_response(&mut self, request_id: u64, mut response: Value) {
        let result = response["result"].take();
        let result = match response.get("error") {
            Some(error) => Err(TestError::from_object(error)),
            None if result["resultType"] == "input_required" => {
                match self.answer_input_requests(request_id, &result) {
                    Some(()) => return,
                    None => Ok(result),
                }
            }
            None => Ok(result),
        };
        let mut exchanges = self.exchanges.values_mut();
        if let Some(exchange) = exchanges.find(|exchange| exchange.request_id == request_id) {
            exchange.result = Some(result);
            exchange.waker.take().inspect(Waker::wake_by_ref);
        }
    }

    /// Sends a request again with the responses to the input requests of `result`, or returns
    /// `None` without an answer to one of them (modern).
    fn answer_input_requests(&mut self, request_id: u64, result: &Value) -> Option<()> {
        let mut responses = Map::new();
        for (key, request) in result["inputRequests"].as_object()? {
            let answer = self.answers.get_mut(request["method"].as_str()?)?;
            responses.insert(key.clone(), answer(&request["params"]));
        }
        let next_id = self.allocate_id();
        let mut exchanges = self.exchanges.values_mut();
        let exchange = exchanges.find(|exchange| exchange.request_id == request_id)?;
        exchange.request_id = next_id;
        let mut params = exchange.params.clone();
        params.insert("inputResponses".to_owned(), responses.into());
        params.insert("requestState".to_owned(), result["requestState"].clone());
        let method = exchange.method.clone();
        self.send_request(next_id, &method, &params);
        Some(())
    }

    /// Performs the handshake of a legacy revision, and enables all log messages.
    fn initialize(&mut self) {
        let params = json!({
            "protocolVersion": self.revision.as_str(),
            "capabilities": self.capabilities(),
            "clientInfo": client_info(),
        });
        let id = self.allocate_id();
        self.send_request(id, "initialize", &params);
        // Its response is in the first turn; it belongs to no exchange.
        self.handle_messages();
        self.send_notification("notifications/initialized", &json!({}));
        let level = Map::from_iter([("level".to_owned(), "debug".into())]);
        let id = self.allocate_id();
        self.send_request(id, "logging/setLevel", &level);
        self.handle_messages();
    }

    /// Adds the `_meta` of the revision to params.
    fn with_meta(&self, mut params: Map<String, Value>, token: u64) -> Map<String, Value> {
        let mut meta = match params.remove("_meta") {
            Some(Value::Object(meta)) => meta,
            _ => Map::new(),
        };
        meta.insert("progressToken".to_owned(), token.into());
        if self.revision.is_modern() {
            meta.insert(PROTOCOL_VERSION_KEY.to_owned(), self.revision.as_str().into());
            meta.insert(CLIENT_CAPABILITIES_KEY.to_owned(), self.capabilities());
            meta.insert(CLIENT_INFO_KEY.to_owned(), client_info());
            meta.insert(LOG_LEVEL_KEY.to_owned(), "debug".into());
        }
        params.insert("_meta".to_owned(), meta.into());
        params
    }

    /// Returns the capabilities that the answers declare.
    fn capabilities(&self) -> Value {
        let mut capabilities = Map::new();
        for method in self.answers.keys() {
            let (name, members) = match *method {
                "elicitation/create" => ("elicitation", json!({ "form": {}, "url": {} })),
                "sampling/createMessage" => ("sampling", json!({ "context": {}, "tools": {} })),
                _ => ("roots", json!({})),
            };
            capabilities.insert(name.to_owned(), members);
        }
        capabilities.into()
    }

    const fn allocate_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn send_request(&mut self, id: u64, method: &str, params: &impl Serialize) {
        self.send(&OutgoingMessage { jsonrpc: "2.0", id: Some(id), method, params });
    }

    fn send_notification(&mut self, method: &str, params: &Value) {
        self.send(&OutgoingMessage { jsonrpc: "2.0", id: None, method, params });
    }

    fn send(&mut self, message: &impl Serialize) {
        // JSON values serialize without errors.
        self.connection.send(serde_json::to_vec(message).unwrap_or_default());
        self.wake_all();
    }

    /// Wakes the tasks of all exchanges: the connection wakes only the task that polled it last,
    /// and that of another exchange may have ended, or the server may have run since.
    fn wake_all(&mut self) {
        for exchange in self.exchanges.values_mut() {
            exchange.waker.take().inspect(Waker::wake_by_ref);
        }
    }
}

/// Returns the `Implementation` of the client.
fn client_info() -> Value {
    json!({ "name": "test", "version": env!("CARGO_PKG_VERSION") })
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = formatter.debug_struct("Client");
        text.field("revision", &self.revision).finish_non_exhaustive()
    }
}
