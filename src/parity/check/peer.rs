//! A connection to the server: messages sent, received and waited for.
//!
//! A step that does not succeed is a failure of the check that calls it; `ready` returns
//! [`CheckError::Blocked`], because handshakes have checks of their own.

use std::collections::VecDeque;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::deadline::Deadline;
use super::rules::{FLAGS, Violation, is_error_code};
use super::suite::{CheckError, CheckResult, Context};
use super::trace::Trace;
use super::wire::exchange::{Head, SseEvent};
use super::wire::{Channel, OpenError, Received};

/// A message of the server.
#[derive(Clone, Debug)]
pub struct Message {
    pub text: String,
    pub value: Value,
    /// The head of the response of HTTP that it is in.
    pub head: Option<Head>,
    /// The event that it came in.
    pub event: Option<SseEvent>,
}

/// A connection, or a session over HTTP. It is closed when it is dropped.
pub struct Peer<'a> {
    context: &'a Context<'a>,
    channel: Channel,
    trace: Trace,
    /// Messages that no step has asked for so far.
    pending: VecDeque<Message>,
    /// Close code and reason, once the server has closed the connection.
    closed: Option<(Option<u16>, String)>,
    /// Statuses of HTTP responses without a body.
    empty_statuses: Vec<u16>,
    ack: Value,
    next_id: i64,
    /// The session is left to the server, so that it can be resumed.
    is_abandoned: bool,
}

impl Message {
    /// Returns whether it has this `type`.
    pub fn is(&self, kind: &str) -> bool {
        self.value["type"] == kind
    }

    /// Returns the status of the response of HTTP that it is in.
    pub fn status(&self) -> Option<u16> {
        self.head.as_ref().map(|head| head.status)
    }

    /// Returns whether it is the response to one of the requests, or an error that names one of
    /// them or nothing.
    pub fn is_answer(&self, ids: &[Value]) -> bool {
        let id = self.value.get("id");
        let is_named = id.is_some_and(|id| ids.contains(id));
        self.is("error") && (is_named || id.is_none()) || self.is("response") && is_named
    }

    /// Returns whether it is the response to this request.
    pub fn is_response(&self, id: &Value) -> bool {
        self.is("response") && self.value["id"] == *id
    }

    /// Returns `seq` of a chunk, or zero.
    pub fn seq(&self) -> u64 {
        self.value["seq"].as_u64().unwrap_or_default()
    }

    /// Returns whether it is a chunk of this type.
    pub fn is_chunk(&self, kind: &str) -> bool {
        self.is("stream.chunk") && self.value["chunkType"] == kind
    }

    /// Returns the bytes of a member as they were sent.
    pub fn raw_member(&self, name: &str) -> Option<String> {
        let members: std::collections::BTreeMap<String, Box<RawValue>> =
            serde_json::from_str(&self.text).ok()?;
        members.get(name).map(|raw| raw.get().to_owned())
    }
}

/// Returns capabilities with these flags.
pub fn capabilities(flags: &[&str]) -> Value {
    Value::Object(flags.iter().map(|flag| ((*flag).to_owned(), Value::Bool(true))).collect())
}

/// Returns a handshake with these capabilities.
pub fn handshake(context: &Context<'_>, capabilities: &Value) -> Value {
    let client = json!({"name": "corelane parity-check", "version": env!("CARGO_PKG_VERSION")});
    let mut message = json!({
        "type": "handshake", "protocolVersion": "1.0", "capabilities": capabilities,
        "clientInfo": client,
    });
    if let Some(token) = context.settings.token.as_ref().filter(|_| !is_http(context)) {
        message["auth_token"] = json!(token);
    }
    message
}

/// Returns a handshake with every capability.
pub fn full_handshake(context: &Context<'_>) -> Value {
    handshake(context, &capabilities(&FLAGS))
}

fn is_http(context: &Context<'_>) -> bool {
    context.settings.endpoint.is_http()
}

/// Checks the code of an error, and `details.mcpCode` where one is wanted.
pub fn expect_error(message: &Message, code: &str, mcp_code: Option<i64>) -> CheckResult {
    let error =
        if message.is_chunk("error") { &message.value["data"] } else { &message.value["error"] };
    let found = error["code"].as_str().unwrap_or_default();
    if found != code {
        // An unknown code is the failure of another check.
        let reason = format!("expected {code}, received {}", message.text);
        let error = CheckError::failed(reason);
        return Err(if is_error_code(found) || found.is_empty() { error } else { error.blocked() });
    }
    match mcp_code {
        Some(wanted) if error["details"]["mcpCode"] != wanted => {
            let text = &message.text;
            Err(CheckError::failed(format!("expected details.mcpCode {wanted}, received {text}")))
        }
        _ => Ok(()),
    }
}

impl<'a> Peer<'a> {
    /// Opens a connection without a handshake.
    pub fn open(context: &'a Context<'a>) -> Result<Self, CheckError> {
        let token = context.settings.token.as_deref();
        Self::open_with_token(context, token)
            .map_err(|error| CheckError::Blocked(format!("no connection: {}", error.message)))
    }

    /// Opens a connection with another bearer token than that of the command line.
    pub fn open_with_token(
        context: &'a Context<'a>,
        token: Option<&str>,
    ) -> Result<Self, OpenError> {
        let settings = context.settings;
        Ok(Self {
            context,
            channel: Channel::open(&settings.endpoint, token, settings.timeout)?,
            trace: Trace::new(is_http(context)),
            pending: VecDeque::new(),
            closed: None,
            empty_statuses: Vec::new(),
            ack: Value::Null,
            next_id: 1,
            is_abandoned: false,
        })
    }

    /// Opens a connection with every capability that is Ready.
    pub fn ready(context: &'a Context<'a>) -> Result<Self, CheckError> {
        Self::ready_with(context, &full_handshake(context))
    }

    /// Opens a connection, and makes this handshake.
    pub fn ready_with(context: &'a Context<'a>, handshake: &Value) -> Result<Self, CheckError> {
        let mut peer = Self::open(context)?;
        peer.handshake(handshake).map_err(CheckError::blocked)?;
        if is_http(context) && handshake["capabilitiesExchange"] != true {
            peer.attach().map_err(CheckError::blocked)?;
        }
        Ok(peer)
    }

    /// Opens a connection, and makes a handshake with every capability. Over HTTP it has no event
    /// stream.
    pub fn acked(context: &'a Context<'a>) -> Result<Self, CheckError> {
        let mut peer = Self::open(context)?;
        peer.handshake(&full_handshake(context)).map_err(CheckError::blocked)?;
        Ok(peer)
    }

    /// Sends a handshake and returns its acknowledgement.
    pub fn handshake(&mut self, handshake: &Value) -> Result<Message, CheckError> {
        let reply = self.handshake_reply(handshake)?;
        if !reply.is("handshakeAck") {
            let cause = self.channel.http().and_then(|channel| channel.explain_missing_token());
            let cause = cause.map(|cause| format!("; {cause}")).unwrap_or_default();
            let reason = format!("the handshake was answered by {}{cause}", reply.text);
            return Err(CheckError::failed(reason));
        }
        self.ack = reply.value.clone();
        Ok(reply)
    }

    /// Sends a handshake and returns its acknowledgement or its error.
    pub fn handshake_reply(&mut self, handshake: &Value) -> Result<Message, CheckError> {
        self.send(handshake)?;
        self.wait("answer to the handshake", |message| {
            message.is("handshakeAck") || message.is("error")
        })
    }

    /// Attaches the event stream of HTTP, which begins with the acknowledgement of the session.
    pub fn attach(&mut self) -> Result<(Head, SseEvent), CheckError> {
        let deadline = self.context.settings.deadline();
        match self.channel.http() {
            Some(channel) => channel.attach(deadline).map_err(CheckError::Failed),
            None => Err(CheckError::Skipped("only for HTTP".to_owned())),
        }
    }

    /// Returns the acknowledgement of the handshake.
    pub const fn ack(&self) -> &Value {
        &self.ack
    }

    /// Returns the transport.
    pub const fn channel(&mut self) -> &mut Channel {
        &mut self.channel
    }

    /// Records that the connection is Ready without an acknowledgement.
    pub const fn set_ready(&mut self) {
        self.trace.set_ready();
    }

    /// Sends a message.
    pub fn send(&mut self, message: &Value) -> CheckResult {
        self.trace.send(message);
        self.send_text(&message.to_string())
    }

    /// Sends a text that need not be a message.
    pub fn send_text(&mut self, text: &str) -> CheckResult {
        self.send_bytes(text.as_bytes())
    }

    /// Sends a text that need not be UTF-8.
    pub fn send_bytes(&mut self, text: &[u8]) -> CheckResult {
        if self.closed.is_some() {
            return Ok(());
        }
        match self.channel.send(text) {
            Ok(()) => Ok(()),
            // What the server sent before it closed is still read.
            Err(_) if !is_http(self.context) => Ok(()),
            Err(error) => Err(CheckError::failed(format!("the request was not sent: {error}"))),
        }
    }

    /// Sends a request and returns its id.
    pub fn request(&mut self, mut request: Value) -> Result<Value, CheckError> {
        let id = json!(self.next_id);
        self.next_id += 1;
        request["type"] = json!("request");
        if request.get("id").is_none() {
            request["id"] = id;
        }
        self.send(&request)?;
        Ok(request["id"].clone())
    }

    /// Receives the next message; `None` if none comes before `deadline`, or after the end.
    fn receive(&mut self, deadline: Deadline) -> Option<Message> {
        while self.closed.is_none() {
            match self.channel.receive(deadline) {
                Received::Nothing => return None,
                Received::Empty { status } => self.empty_statuses.push(status),
                Received::Closed { code, reason } => self.closed = Some((code, reason)),
                Received::Message { text, head, event } => {
                    let Ok(value) = serde_json::from_str::<Value>(&text) else {
                        let reason = format!("not JSON: {text}");
                        let check = "requests.response_schema";
                        self.context.record(vec![Violation { check, reason }]);
                        continue;
                    };
                    let violations = self.trace.receive(&value);
                    // No step has asked for a second response.
                    let is_second = violations.iter().any(|it| it.check == "requests.one_response");
                    self.context.record(violations);
                    if !is_second {
                        return Some(Message { text, value, head, event });
                    }
                }
            }
        }
        None
    }

    /// Waits for a message; `wanted` is what a failure says is missing.
    pub fn wait(
        &mut self,
        wanted: &str,
        is_wanted: impl Fn(&Message) -> bool,
    ) -> Result<Message, CheckError> {
        self.wait_until(self.context.settings.deadline(), wanted, is_wanted)
    }

    /// Waits for a message until `deadline`.
    pub fn wait_until(
        &mut self,
        deadline: Deadline,
        wanted: &str,
        is_wanted: impl Fn(&Message) -> bool,
    ) -> Result<Message, CheckError> {
        if let Some(index) = self.pending.iter().position(&is_wanted)
            && let Some(message) = self.pending.remove(index)
        {
            return Ok(message);
        }
        while let Some(message) = self.receive(deadline) {
            if is_wanted(&message) {
                return Ok(message);
            }
            self.pending.push_back(message);
        }
        let seen = self.pending.back().map(|last| format!("; last received: {}", last.text));
        let seen = seen.unwrap_or_default();
        Err(CheckError::failed(match &self.closed {
            Some((_, reason)) => format!("the connection closed without {wanted} ({reason}){seen}"),
            None => format!("no {wanted} in time{seen}"),
        }))
    }

    /// Waits for the response to a request, or for an error that names it or nothing.
    pub fn answer(&mut self, id: &Value) -> Result<Message, CheckError> {
        self.first_answer(std::slice::from_ref(id))
    }

    /// Waits for the first response to one of the requests, or for such an error.
    pub fn first_answer(&mut self, ids: &[Value]) -> Result<Message, CheckError> {
        let names: Vec<String> = ids.iter().map(Value::to_string).collect();
        let wanted = format!("response to the request {}", names.join(" or "));
        self.wait(&wanted, |message| message.is_answer(ids))
    }

    /// Waits for the answer to what is no request: an error.
    pub fn error(&mut self) -> Result<Message, CheckError> {
        self.wait("error", |message| {
            message.is("error") || (message.is("response") && message.value.get("error").is_some())
        })
    }

    /// Returns all other messages than keep-alives that come within a while. It begins once each
    /// message that was sent over HTTP has its response.
    pub fn drain(&mut self) -> Vec<Message> {
        let mut messages = self.drain_all();
        messages.retain(|message| !message.is("keepalive"));
        messages
    }

    /// Returns what [`Self::drain`] does, and the keep-alives.
    pub fn drain_all(&mut self) -> Vec<Message> {
        let settings = self.context.settings;
        if let Some(channel) = self.channel.http() {
            channel.settle(settings.deadline());
        }
        let deadline = Deadline::after(settings.quiet);
        while let Some(message) = self.receive(deadline) {
            self.pending.push_back(message);
        }
        self.pending.drain(..).collect()
    }

    /// Takes the messages that no step has asked for so far.
    pub fn take_pending(&mut self) -> VecDeque<Message> {
        std::mem::take(&mut self.pending)
    }

    /// Waits until the server closes the connection, and returns the close code of a WebSocket.
    pub fn closed(&mut self, deadline: Deadline) -> Result<Option<u16>, CheckError> {
        while let Some(message) = self.receive(deadline) {
            self.pending.push_back(message);
        }
        match &self.closed {
            Some((code, _)) => Ok(*code),
            None => Err(CheckError::failed("the server did not close the connection in time")),
        }
    }

    /// Returns whether the connection, or the event stream of HTTP, has ended.
    pub const fn is_closed(&self) -> bool {
        self.closed.is_some()
    }

    /// Returns the statuses of HTTP responses without a body so far.
    pub fn empty_statuses(&self) -> &[u16] {
        &self.empty_statuses
    }

    /// Drops the connection without an end of the session.
    pub const fn abandon(&mut self) {
        self.is_abandoned = true;
    }
}

impl Drop for Peer<'_> {
    fn drop(&mut self) {
        if let Some(channel) = self.channel.http().filter(|_| !self.is_abandoned) {
            channel.delete_session();
        }
    }
}
