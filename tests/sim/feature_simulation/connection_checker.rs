//! Checker of the messages that one client receives.
//!
//! Checks that each request is answered once, and not after its cancellation was read; that a
//! stream is acknowledged first, carries only what was granted, and nothing after its end; that a
//! legacy session receives what it subscribed to; that client requests come while a call or task
//! can send them, and are cancelled at most once. The content of responses is checked in
//! [`crate::feature_simulation::shared_model`].

use std::collections::{BTreeMap, BTreeSet};

use corelane_base::time::Instant;
use corelane_protocol::revision::Revision;
use serde_json::Value;

use crate::feature_simulation::catalog_versions::CatalogVersionChecker;
use crate::feature_simulation::shared_model::RequestSpan;
use crate::totals::Totals;

/// State of one connection.
#[derive(Debug)]
pub(crate) struct ConnectionChecker {
    is_modern: bool,
    /// Number of messages sent, responses not counted.
    sent: u64,
    /// Requests without a response, by id.
    pending: BTreeMap<u64, PendingRequest>,
    streams: BTreeMap<u64, SubscriptionStream>,
    /// Resources that a session subscribed to, and the number of the last such request.
    subscribed: BTreeMap<String, u64>,
    /// Resources that it unsubscribes from, by request id.
    unsubscribing: BTreeMap<u64, String>,
    /// The server may consider the handshake complete.
    is_initialized: bool,
    /// Tasks that this connection created.
    created_tasks: BTreeSet<String>,
    /// Client requests by id; `true` if cancelled.
    client_requests: BTreeMap<String, bool>,
    pub(crate) catalog_checker: CatalogVersionChecker,
    pub(crate) totals: Totals,
}

/// A request without a response.
#[derive(Clone, Debug)]
pub(crate) struct PendingRequest {
    method: &'static str,
    number: u64,
    sent_at: Instant,
    /// Number of the message that cancelled it.
    cancelled_by: Option<u64>,
}

/// A subscription stream.
#[derive(Debug)]
struct SubscriptionStream {
    requested: Value,
    granted: Option<Value>,
    cancelled_by: Option<u64>,
    has_ended: bool,
    /// Tasks whose end was reported.
    ended_tasks: BTreeSet<String>,
}

/// A received message, as far as the client must handle it.
#[derive(Debug)]
pub(crate) enum ReceivedMessage {
    /// A response.
    Response { id: u64, method: &'static str, span: RequestSpan },
    /// A client request.
    ClientRequest { id: String },
    /// A task notification.
    Task,
    /// Anything else.
    Other,
}

impl ConnectionChecker {
    pub(crate) fn new(revision: Revision) -> Self {
        Self {
            is_modern: revision.is_modern(),
            sent: 0,
            pending: BTreeMap::new(),
            streams: BTreeMap::new(),
            subscribed: BTreeMap::new(),
            unsubscribing: BTreeMap::new(),
            is_initialized: false,
            created_tasks: BTreeSet::new(),
            client_requests: BTreeMap::new(),
            catalog_checker: CatalogVersionChecker::default(),
            totals: Totals::default(),
        }
    }

    /// Records a request.
    pub(crate) fn record_request(&mut self, id: u64, method: &'static str, at: Instant) {
        self.sent += 1;
        let pending = PendingRequest { method, number: self.sent, sent_at: at, cancelled_by: None };
        self.pending.insert(id, pending);
    }

    /// Records `notifications/initialized`.
    pub(crate) const fn record_initialized(&mut self) {
        self.sent += 1;
        self.is_initialized = true;
    }

    /// Records `subscriptions/listen`.
    pub(crate) fn record_listen(&mut self, id: u64, filter: &Value, at: Instant) {
        self.record_request(id, "subscriptions/listen", at);
        let filter = filter.clone();
        let ended = BTreeSet::new();
        let stream = SubscriptionStream {
            requested: filter,
            granted: None,
            cancelled_by: None,
            has_ended: false,
            ended_tasks: ended,
        };
        self.streams.insert(id, stream);
    }

    /// Records the cancellation of a request or a stream.
    pub(crate) fn record_cancellation(&mut self, id: u64) {
        self.sent += 1;
        if let Some(pending) = self.pending.get_mut(&id) {
            pending.cancelled_by.get_or_insert(self.sent);
        }
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.cancelled_by.get_or_insert(self.sent);
        }
    }

    /// Records `resources/subscribe`.
    pub(crate) fn record_subscribe(&mut self, id: u64, uri: &str, at: Instant) {
        self.record_request(id, "resources/subscribe", at);
        self.subscribed.insert(uri.to_owned(), self.sent);
    }

    /// Records `resources/unsubscribe`.
    pub(crate) fn record_unsubscribe(&mut self, id: u64, uri: &str, at: Instant) {
        self.record_request(id, "resources/unsubscribe", at);
        self.unsubscribing.insert(id, uri.to_owned());
    }

    /// Records that this connection created a task.
    pub(crate) fn record_task(&mut self, task: &str) {
        self.created_tasks.insert(task.to_owned());
    }

    /// Returns whether this connection created a task.
    pub(crate) fn has_created(&self, task: &str) -> bool {
        self.created_tasks.contains(task)
    }

    /// Returns the requests without a response that were not cancelled, streams excluded.
    pub(crate) fn unanswered_requests(&self) -> impl Iterator<Item = u64> {
        let is_waiting = |pending: &PendingRequest| {
            pending.cancelled_by.is_none() && !is_subscription(pending.method)
        };
        self.pending.iter().filter(move |(_, pending)| is_waiting(pending)).map(|(id, _)| *id)
    }

    /// Returns the open streams.
    pub(crate) fn open_streams(&self) -> impl Iterator<Item = u64> {
        let stands =
            |stream: &SubscriptionStream| stream.cancelled_by.is_none() && !stream.has_ended;
        self.streams.iter().filter(move |(_, stream)| stands(stream)).map(|(id, _)| *id)
    }

    /// Returns whether every request was answered and every stream acknowledged or refused.
    pub(crate) fn is_complete(&self) -> bool {
        let is_mute = |stream: &SubscriptionStream| {
            stream.granted.is_none() && stream.cancelled_by.is_none() && !stream.has_ended
        };
        self.unanswered_requests().next().is_none() && !self.streams.values().any(is_mute)
    }

    /// Describes a task whose end is missing on an open stream that subscribed to it, if `must_be`.
    pub(crate) fn missing_task_end(&self, must_be: impl Fn(&str) -> bool) -> Option<String> {
        let streams =
            self.streams.iter().filter(|(_, it)| it.cancelled_by.is_none() && !it.has_ended);
        streams.into_iter().find_map(|(id, stream)| {
            let tasks = stream.granted.as_ref()?["taskIds"].as_array()?;
            let mut tasks = tasks.iter().filter_map(Value::as_str);
            let task = tasks.find(|task| must_be(task) && !stream.ended_tasks.contains(*task))?;
            Some(format!("stream {id} has not reported the end of task {task}"))
        })
    }

    /// Checks a received message.
    ///
    /// # Errors
    ///
    /// The reason why it is not expected.
    pub(crate) fn check_message(
        &mut self,
        message: &Value,
        now: Instant,
    ) -> Result<ReceivedMessage, String> {
        if message["jsonrpc"] != "2.0" {
            return Err(format!("{message} is not JSON-RPC 2.0"));
        }
        match (message["method"].as_str(), message.get("id")) {
            (None, Some(id)) => self.check_response(message, id, now),
            (Some(method), Some(id)) => self.check_client_request(method, id, message),
            (Some(method), None) => self.check_notification(method, message),
            (None, None) => Err(format!("{message} has neither method nor id")),
        }
    }

    fn check_response(
        &mut self,
        message: &Value,
        id: &Value,
        now: Instant,
    ) -> Result<ReceivedMessage, String> {
        let known = id.as_u64().and_then(|id| Some((id, self.pending.remove(&id)?)));
        let Some((id, pending)) = known else {
            return Err(format!("{message} answers no open request"));
        };
        if message.get("result").is_some() == message.get("error").is_some() {
            return Err(format!("{message} is not a response"));
        }
        self.totals.responses += 1;
        if let Some(stream) = self.streams.get_mut(&id) {
            if stream.granted.is_none() && message.get("result").is_some() {
                return Err(format!("{message} ends a stream that was not acknowledged"));
            }
            stream.has_ended = true;
        }
        if let Some(uri) = self.unsubscribing.remove(&id)
            && self
                .subscribed
                .get(&uri)
                .is_some_and(|subscribed_at| *subscribed_at < pending.number)
        {
            self.subscribed.remove(&uri);
        }
        if is_immediate(pending.method) {
            self.mark_read(pending.number);
        }
        let span = RequestSpan { sent: pending.sent_at, received: now };
        Ok(ReceivedMessage::Response { id, method: pending.method, span })
    }

    /// Records that message `number` was read, and so were all before it.
    fn mark_read(&mut self, number: u64) {
        let is_read = |cancelled: Option<u64>| cancelled.is_some_and(|it| it < number);
        let before = self.pending.len();
        self.pending.retain(|_, pending| !is_read(pending.cancelled_by));
        self.totals.cancelled_calls_dropped += (before - self.pending.len()) as u64;
        for stream in self.streams.values_mut().filter(|stream| is_read(stream.cancelled_by)) {
            stream.has_ended = true;
        }
    }

    fn check_client_request(
        &mut self,
        method: &str,
        id: &Value,
        message: &Value,
    ) -> Result<ReceivedMessage, String> {
        let is_known = ["elicitation/create", "roots/list", "sampling/createMessage"];
        let Some(id) = id.as_str().filter(|_| is_known.contains(&method)) else {
            return Err(format!("{message} is not a known client request"));
        };
        if self.is_modern {
            return Err(format!("{message} was sent to a client of a modern revision"));
        }
        let related = &message["params"]["_meta"]["io.modelcontextprotocol/related-task"];
        let may_ask = match related["taskId"].as_str() {
            Some(task) => self.created_tasks.contains(task),
            // A cancelled call may have sent it before the cancellation was read.
            None => self.pending.values().any(|pending| pending.method == "tools/call"),
        };
        if !may_ask || self.client_requests.insert(id.to_owned(), false).is_some() {
            return Err(format!("{message} belongs to no call, or came twice"));
        }
        Ok(ReceivedMessage::ClientRequest { id: id.to_owned() })
    }

    fn check_notification(
        &mut self,
        method: &str,
        message: &Value,
    ) -> Result<ReceivedMessage, String> {
        let params = &message["params"];
        if method == "notifications/cancelled" {
            let question = params["requestId"].as_str();
            let question = question.and_then(|id| self.client_requests.get_mut(id));
            if question.is_none_or(|is_over| std::mem::replace(is_over, true)) {
                return Err(format!("{message} cancels no open client request"));
            }
            self.totals.client_requests_cancelled += 1;
            return Ok(ReceivedMessage::Other);
        }
        if let Some(stream) = params["_meta"].get("io.modelcontextprotocol/subscriptionId") {
            return self.check_stream_notification(method, stream, message);
        }
        self.totals.session_notifications += 1;
        let is_wanted = !self.is_modern
            && match method {
                "notifications/tools/list_changed"
                | "notifications/prompts/list_changed"
                | "notifications/resources/list_changed" => self.is_initialized,
                "notifications/resources/updated" => {
                    params["uri"].as_str().is_some_and(|uri| self.subscribed.contains_key(uri))
                }
                "notifications/tasks/status" => {
                    params["taskId"].as_str().is_some_and(|task| self.created_tasks.contains(task))
                }
                _ => false,
            };
        if !is_wanted {
            return Err(format!("{message} was not subscribed to"));
        }
        let is_task = method == "notifications/tasks/status";
        Ok(if is_task { ReceivedMessage::Task } else { ReceivedMessage::Other })
    }

    fn check_stream_notification(
        &mut self,
        method: &str,
        stream: &Value,
        message: &Value,
    ) -> Result<ReceivedMessage, String> {
        let params = &message["params"];
        let stream = stream.as_u64().and_then(|id| self.streams.get_mut(&id));
        let Some(stream) = stream.filter(|stream| self.is_modern && !stream.has_ended) else {
            return Err(format!("{message} belongs to no open stream"));
        };
        if method == "notifications/subscriptions/acknowledged" {
            let granted = &params["notifications"];
            if stream.granted.is_some() || !is_subset(granted, &stream.requested) {
                return Err(format!("{message} grants twice, or more than {}", stream.requested));
            }
            stream.granted = Some(granted.clone());
            self.totals.streams_opened += 1;
            return Ok(ReceivedMessage::Other);
        }
        let Some(granted) = &stream.granted else {
            return Err(format!("{message} comes before the acknowledgement"));
        };
        let holds =
            |list: &Value, name: &Value| list.as_array().is_some_and(|names| names.contains(name));
        let is_granted = match method {
            "notifications/tools/list_changed" => granted["toolsListChanged"] == true,
            "notifications/prompts/list_changed" => granted["promptsListChanged"] == true,
            "notifications/resources/list_changed" => granted["resourcesListChanged"] == true,
            "notifications/resources/updated" => {
                holds(&granted["resourceSubscriptions"], &params["uri"])
            }
            "notifications/tasks" => holds(&granted["taskIds"], &params["taskId"]),
            _ => false,
        };
        if !is_granted {
            return Err(format!("{message} was not granted by {granted}"));
        }
        self.totals.stream_notifications += 1;
        if method != "notifications/tasks" {
            return Ok(ReceivedMessage::Other);
        }
        let task = params["taskId"].as_str().unwrap_or_default();
        if ["completed", "failed", "cancelled"].iter().any(|end| params["status"] == **end) {
            stream.ended_tasks.insert(task.to_owned());
        } else if stream.ended_tasks.contains(task) {
            return Err(format!("{message} follows the reported end of its task"));
        }
        Ok(ReceivedMessage::Task)
    }
}

/// Returns whether a method is answered as soon as it is read.
fn is_immediate(method: &str) -> bool {
    matches!(method, "ping" | "server/discover" | "tools/list" | "resources/unsubscribe")
}

fn is_subscription(method: &str) -> bool {
    method == "subscriptions/listen"
}

/// Returns whether everything granted was requested.
fn is_subset(granted: &Value, filter: &Value) -> bool {
    match (granted, filter) {
        (Value::Object(granted), _) => {
            granted.iter().all(|(key, granted)| is_subset(granted, &filter[key]))
        }
        (Value::Array(granted), Value::Array(filter)) => {
            granted.iter().all(|it| filter.contains(it))
        }
        (Value::Bool(granted), _) => !granted || *filter == true,
        _ => false,
    }
}
