//! The thread of the scripted server that owns its sessions.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use corelane_base::time::Instant;
use corelane_engine::clock::Clock;
use serde_json::{Value, json};

use super::ServerOptions;
use super::messages::{
    NO_TOKEN, error, error_message, error_response, has_feature, idle_timeout, intersect, invalid,
    own_capabilities, unknown_session,
};
use super::mutation::Mutation;
use super::session::{Output, Session};

/// Time between two steps of running calls.
const STEP: Duration = Duration::from_millis(20);

/// A message of a client, or an event of its connection.
pub(crate) struct Input {
    /// The connection; requests of HTTP have one each.
    pub(crate) connection: u64,
    pub(crate) kind: InputKind,
}

pub(crate) enum InputKind {
    /// A connection of lines or WebSocket, whose handshake must follow.
    Opened {
        output: Sender<Output>,
    },
    Message {
        bytes: Vec<u8>,
        reply: Sender<Output>,
        http: Option<HttpContext>,
    },
    /// Attaches an event stream to a session; the acknowledgement is its prelude.
    Attach {
        session: String,
        output: Sender<Output>,
        last_event_id: Option<String>,
    },
    /// The event stream of this connection has ended.
    Detached {
        session: String,
    },
    Delete {
        session: String,
        reply: Sender<Output>,
    },
    Closed,
    Stop,
}

/// What a request of HTTP says in its head.
#[derive(Clone, Debug, Default)]
pub(crate) struct HttpContext {
    pub(crate) session: Option<String>,
    pub(crate) token: Option<String>,
    pub(crate) takes_chunks: bool,
}

pub(crate) struct Engine {
    options: ServerOptions,
    clock: Clock,
    sessions: BTreeMap<String, Session>,
    /// Connections without a handshake so far.
    opened: BTreeMap<u64, Opened>,
    connections: BTreeMap<u64, Connection>,
    created: u64,
}

/// A connection of lines or WebSocket that has no handshake so far.
struct Opened {
    output: Sender<Output>,
    since: Instant,
}

/// A connection of lines or WebSocket.
struct Connection {
    session: String,
    output: Sender<Output>,
}

impl Engine {
    pub(crate) fn new(options: ServerOptions) -> Self {
        Self {
            options,
            clock: Clock::start(),
            sessions: BTreeMap::new(),
            opened: BTreeMap::new(),
            connections: BTreeMap::new(),
            created: 0,
        }
    }

    /// Handles inputs until it is stopped.
    pub(crate) fn run(mut self, inputs: &Receiver<Input>) {
        let mut last_step = self.clock.now();
        loop {
            match inputs.recv_timeout(STEP) {
                Ok(Input { kind: InputKind::Stop, .. }) | Err(RecvTimeoutError::Disconnected) => {
                    return;
                }
                Ok(input) => self.handle(input),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let now = self.clock.now();
            if now.since(last_step) >= STEP {
                last_step = now;
                self.sessions.values_mut().for_each(Session::step);
                self.close_idle(now);
                self.close_without_handshake(now);
            }
        }
    }

    fn close_idle(&mut self, now: Instant) {
        let hint = Duration::from_secs(self.options.hint_seconds);
        let mutation = self.options.mutation;
        if mutation == Mutation::ClosesNever {
            return;
        }
        for session in self.sessions.values_mut().filter(|session| session.is_busy()) {
            session.last_active = now;
        }
        let is_idle = |it: &Session| now.since(it.last_active) >= hint;
        let carried = |it: &Session| {
            let mut connections = self.connections.iter();
            connections.find(|(_, other)| other.session == it.id).map(|(id, _)| *id)
        };
        let idle: Vec<(String, Option<u64>)> = self
            .sessions
            .values()
            .filter(|it| is_idle(it))
            .map(|it| (it.id.clone(), carried(it)))
            .filter(|(id, connection)| connection.is_some() || self.sessions[id].is_http)
            .collect();
        for (session, connection) in idle {
            self.sessions.remove(&session);
            let connection = connection.and_then(|connection| self.connections.remove(&connection));
            let Some(Connection { output, .. }) = connection else { continue };
            if mutation != Mutation::IdleEndSilent {
                output.send(Output::Message(idle_timeout())).ok();
            }
            let code = if mutation == Mutation::IdleCloseCode { 1000 } else { 1011 };
            output.send(Output::Close(code)).ok();
        }
    }

    fn close_without_handshake(&mut self, now: Instant) {
        let is_late = |it: &Opened| now.since(it.since) >= self.options.handshake_timeout;
        let late: Vec<u64> =
            self.opened.iter().filter(|(_, it)| is_late(it)).map(|(id, _)| *id).collect();
        for connection in late {
            let Some(Opened { output, .. }) = self.opened.remove(&connection) else { continue };
            let code = match self.options.mutation {
                Mutation::HandshakeTimeoutInternal => "internal",
                _ => "version_unsupported",
            };
            let mut error = error(code, "no handshake in time");
            error["details"] = json!({"reason": "handshake_timeout"});
            if self.options.mutation != Mutation::HandshakeTimeoutSilent {
                output.send(Output::Message(error_message(&error))).ok();
            }
            output.send(Output::Close(1002)).ok();
        }
    }

    /// Closes a connection; its session stays, so that it can be resumed.
    fn close(&mut self, connection: u64) {
        self.opened.remove(&connection);
        let Some(Connection { session, output, .. }) = self.connections.remove(&connection) else {
            return;
        };
        output.send(Output::Close(1000)).ok();
        if let Some(session) = self.sessions.get_mut(&session) {
            session.output = None;
        }
    }

    fn handle(&mut self, Input { connection, kind }: Input) {
        match kind {
            InputKind::Opened { output } => {
                let since = self.clock.now();
                self.opened.insert(connection, Opened { output, since });
            }
            InputKind::Message { bytes, reply, http } => {
                self.message(connection, bytes, &reply, http);
            }
            InputKind::Attach { session, output, last_event_id } => {
                self.attach(&session, &output, last_event_id.as_deref());
                if let Some(session) = self.sessions.get_mut(&session) {
                    session.event_stream = Some(connection);
                }
            }
            InputKind::Detached { session } => {
                let session = self.sessions.get_mut(&session);
                if let Some(session) = session.filter(|it| it.event_stream == Some(connection)) {
                    session.event_stream = None;
                }
            }
            InputKind::Delete { session, reply } => {
                let session = self.sessions.remove(&session);
                let answer = if session.is_some() { Value::Null } else { unknown_session() };
                let output = session.and_then(|session| session.output);
                if let Some(output) = output
                    && self.options.mutation != Mutation::DeleteSilent
                {
                    let error = error("internal", "DELETE has ended the session");
                    output.send(Output::Message(error_message(&error))).ok();
                }
                reply.send(Output::Message(answer)).ok();
            }
            InputKind::Closed => self.close(connection),
            InputKind::Stop => {}
        }
    }

    fn attach(&mut self, session: &str, output: &Sender<Output>, last_event_id: Option<&str>) {
        let Some(session) = self.sessions.get_mut(session) else {
            output.send(Output::Message(unknown_session())).ok();
            return;
        };
        session.last_active = self.clock.now();
        let mut ack = match self.options.mutation {
            Mutation::PreludeMissing => json!({"type": "keepalive", "timeoutHintSec": 60}),
            _ => session.ack.clone(),
        };
        match last_event_id.and_then(|event| session.continue_after(event)) {
            None => {}
            Some(Ok(streams)) => {
                ack["resumed"] = json!(true);
                ack["streams"] = streams;
            }
            Some(Err(reason)) => {
                ack["resumed"] = json!(false);
                ack["advice"] = json!("restart");
                ack["reason"] = json!(reason);
            }
        }
        output.send(Output::Message(ack)).ok();
        session.attach(output.clone());
        output.send(Output::Message(self.keepalive())).ok();
    }

    fn keepalive(&self) -> Value {
        let hint = self.options.hint_seconds;
        match self.options.mutation {
            Mutation::HintMissing => json!({"type": "keepalive"}),
            _ => json!({"type": "keepalive", "timeoutHintSec": hint}),
        }
    }

    fn message(
        &mut self,
        connection: u64,
        bytes: Vec<u8>,
        reply: &Sender<Output>,
        http: Option<HttpContext>,
    ) {
        let send = |message: Value| {
            reply.send(Output::Message(message)).ok();
        };
        let Ok(text) = String::from_utf8(bytes) else { return self.reject_not_utf8(reply) };
        let Ok(message) = serde_json::from_str::<Value>(&text) else {
            return send(error_message(&invalid(-32700, "not JSON")));
        };
        let named = match (&http, self.connections.get_mut(&connection)) {
            (Some(http), _) => http.session.clone(),
            (None, Some(connection)) => Some(connection.session.clone()),
            (None, None) => None,
        };
        let takes_chunks = http.as_ref().is_some_and(|http| http.takes_chunks);
        let mutation = self.options.mutation;
        match named.map(|name| self.sessions.get_mut(&name)) {
            Some(Some(session)) => {
                let is_counted = mutation != Mutation::KeepaliveNotCounted;
                if is_counted || message["type"] != "keepalive" {
                    session.last_active = self.clock.now();
                }
                session.handle(&message, reply, takes_chunks);
            }
            Some(None) => send(self.reject_session(&message["id"])),
            None if message["type"] == "handshake" => {
                self.handshake(connection, &message, reply, http);
            }
            None => self.reject_first(&message, reply, http.is_some()),
        }
    }

    fn reject_not_utf8(&self, reply: &Sender<Output>) {
        let mutation = self.options.mutation;
        if mutation == Mutation::NotUtf8Ignored {
            return;
        }
        let mut error = invalid(-32700, "not UTF-8");
        error["retryable"] = json!(mutation == Mutation::NotUtf8Retryable);
        reply.send(Output::Message(error_message(&error))).ok();
        if mutation != Mutation::NotUtf8Open {
            let code = if mutation == Mutation::NotUtf8CloseCode { 1000 } else { 1007 };
            reply.send(Output::Close(code)).ok();
        }
    }

    fn reject_session(&self, id: &Value) -> Value {
        let mut answer = match id {
            Value::Null => unknown_session(),
            _ if self.options.mutation == Mutation::UnknownSessionWithoutId => unknown_session(),
            id => error_response(id, &unknown_session()["error"]),
        };
        if self.options.mutation == Mutation::UnknownSessionFinal {
            answer["error"]["retryable"] = json!(false);
        }
        answer
    }

    /// Rejects a first message that is no handshake.
    fn reject_first(&self, message: &Value, reply: &Sender<Output>, is_http: bool) {
        let mutation = self.options.mutation;
        let kind = message["type"].as_str().unwrap_or_default();
        if kind == "keepalive" && mutation == Mutation::FirstKeepaliveIgnored {
            return;
        }
        let transport = if is_http { " over HTTP" } else { "" };
        let mut error = match mutation {
            Mutation::ErrorsDiffer => {
                error("feature_not_available", &format!("no handshake{transport}"))
            }
            _ => error("feature_not_available", "no handshake"),
        };
        if mutation != Mutation::FirstRequestWithoutDetails || kind != "request" {
            error["details"] = json!({"state": "Connecting", "event": kind});
        }
        let answer = match &message["id"] {
            id if kind == "request" && mutation != Mutation::FirstRequestWithoutId => {
                error_response(id, &error)
            }
            _ => error_message(&error),
        };
        reply.send(Output::Message(answer)).ok();
        let is_open = match kind {
            "request" => mutation == Mutation::FirstRequestOpen,
            "cancel" => mutation == Mutation::FirstCancelOpen,
            _ => false,
        };
        if !is_open {
            reply.send(Output::Close(1008)).ok();
        }
    }

    fn handshake(
        &mut self,
        connection: u64,
        handshake: &Value,
        reply: &Sender<Output>,
        http: Option<HttpContext>,
    ) {
        let is_http = http.is_some();
        let token = match http {
            Some(http) => http.token,
            None => handshake["auth_token"].as_str().map(str::to_owned),
        };
        match self.check_handshake(handshake, token.as_deref()) {
            Err((error, code)) => {
                reply.send(Output::Message(error_message(&error))).ok();
                let is_open = match self.options.mutation {
                    Mutation::OpenAfterRejection => true,
                    Mutation::MissingTokenOpen => error["message"] == NO_TOKEN,
                    _ => false,
                };
                if !is_http && !is_open {
                    reply.send(Output::Close(code)).ok();
                }
            }
            Ok(capabilities) => {
                let Some((session, ack)) = self.open(handshake, capabilities) else { return };
                if let Some(session) = self.sessions.get_mut(&session) {
                    session.is_http = is_http;
                }
                reply.send(Output::Message(ack)).ok();
                if is_http {
                    return;
                }
                self.opened.remove(&connection);
                let mut older = self.connections.iter();
                let older = older.find(|(_, it)| it.session == session).map(|(id, _)| *id);
                if let Some(older) = older {
                    self.close(older);
                }
                reply.send(Output::Message(self.keepalive())).ok();
                let new = Connection { session: session.clone(), output: reply.clone() };
                self.connections.insert(connection, new);
                if let Some(session) = self.sessions.get_mut(&session) {
                    session.attach(reply.clone());
                }
            }
        }
    }

    fn check_handshake(
        &self,
        handshake: &Value,
        token: Option<&str>,
    ) -> Result<Value, (Value, u16)> {
        let mutation = self.options.mutation;
        if self.options.token.is_some() && token != self.options.token {
            return Err((self.reject_token(token), 1008));
        }
        let Some(version) = handshake["protocolVersion"].as_str() else {
            return Err((invalid(-32600, "no version"), 1008));
        };
        if version != "1.0" && mutation != Mutation::VersionAccepted {
            return Err((error("version_unsupported", "unknown version"), 1002));
        }
        let offered = &handshake["capabilities"];
        let shared = intersect(&own_capabilities(), offered);
        let is_empty = offered.as_object().is_some_and(serde_json::Map::is_empty);
        let is_accepted = is_empty && mutation == Mutation::EmptyCapabilitiesAccepted;
        if !has_feature(&shared) && !is_accepted {
            return Err((error("feature_not_available", "no common feature"), 1008));
        }
        Ok(shared)
    }

    /// Returns the error of a token that is not valid.
    fn reject_token(&self, token: Option<&str>) -> Value {
        let mutation = self.options.mutation;
        let mut error = match token {
            None => error("auth.unauthorized", NO_TOKEN),
            Some(_) => error("auth.unauthorized", "no valid token"),
        };
        let is_expired = token.is_some() && token == self.options.expired_token;
        if is_expired && mutation != Mutation::ExpiredTokenWithoutAdvice {
            error["details"] = json!({"reason": "token_expired", "advice": "refresh_token"});
        }
        let is_final = match mutation {
            Mutation::ExpiredTokenFinal => true,
            Mutation::MissingTokenRetryable if token.is_none() => false,
            Mutation::InvalidTokenRetryable if token.is_some() => false,
            _ => !is_expired,
        };
        error["retryable"] = json!(!is_final);
        error
    }

    /// Opens or resumes a session; returns its id and the acknowledgement.
    fn open(&mut self, handshake: &Value, capabilities: Value) -> Option<(String, Value)> {
        let mutation = self.options.mutation;
        let presented = handshake["resumeToken"].as_str();
        let resumed = presented.map(|token| {
            if capabilities["resume"] != true {
                return Err("feature_not_available");
            }
            let id = token.strip_prefix("resume-").unwrap_or_default();
            let session = self.sessions.get_mut(id).ok_or("unknown_server")?;
            session.resume(&handshake["lastAckSeq"]).map(|streams| (id.to_owned(), streams))
        });
        self.created += 1;
        let id = match &resumed {
            Some(Ok((id, _))) => id.clone(),
            _ => format!("session-{}", self.created),
        };
        let mut announced = capabilities.clone();
        if mutation == Mutation::WidenedCapabilities {
            announced["tools"] = json!(true);
            announced["prompts"] = json!(true);
        }
        let mut ack = json!({
            "type": "handshakeAck", "protocolVersion": "1.0", "sessionId": id,
            "capabilities": announced, "serverInfo": {"name": "scripted", "version": "1"},
        });
        if capabilities["resume"] == true || mutation == Mutation::TokenWithoutResume {
            ack["resumeToken"] = json!(format!("resume-{id}"));
        }
        match &resumed {
            None => {}
            Some(Ok((_, streams))) => {
                ack["resumed"] = json!(true);
                ack["streams"] = streams.clone();
            }
            Some(Err(_)) if mutation == Mutation::AdviceMissing => ack["resumed"] = json!(false),
            Some(Err(reason)) => {
                ack["resumed"] = json!(false);
                ack["advice"] = json!("restart");
                ack["reason"] = json!(reason);
            }
        }
        if mutation == Mutation::AckWithoutServerInfo {
            ack.as_object_mut().unwrap().remove("serverInfo");
        }
        if mutation == Mutation::NoHandshakeAck {
            return None;
        }
        let exchange_steps = self.options.handshake_timeout.as_millis() / STEP.as_millis();
        let exchange_steps = u32::try_from(exchange_steps).unwrap();
        let now = self.clock.now();
        let new = || Session::new(id.clone(), mutation, capabilities, exchange_steps, now);
        let session = self.sessions.entry(id.clone()).or_insert_with(new);
        session.is_ready = handshake["capabilitiesExchange"] != true;
        session.ack = ack.clone();
        session.last_active = now;
        Some((id, ack))
    }
}
