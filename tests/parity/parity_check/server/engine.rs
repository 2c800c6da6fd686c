//! The thread of the scripted server that owns its sessions.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use corelane_base::time::Instant;
use corelane_engine::clock::Clock;
use serde_json::{Value, json};

use super::ServerOptions;
use super::messages::{
    error, error_message, error_response, has_feature, intersect, invalid, own_capabilities,
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
    Message {
        text: String,
        reply: Sender<Output>,
        http: Option<HttpContext>,
    },
    /// Attaches an event stream to a session; the acknowledgement is its prelude.
    Attach {
        session: String,
        output: Sender<Output>,
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
    connections: BTreeMap<u64, Connection>,
    created: u64,
}

/// A connection of lines or WebSocket.
struct Connection {
    session: String,
    output: Sender<Output>,
    last_received: Instant,
}

impl Engine {
    pub(crate) fn new(options: ServerOptions) -> Self {
        Self {
            options,
            clock: Clock::start(),
            sessions: BTreeMap::new(),
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
            }
        }
    }

    fn close_idle(&mut self, now: Instant) {
        let hint = Duration::from_secs(self.options.hint_seconds);
        if self.options.mutation == Mutation::ClosesNever {
            return;
        }
        let is_idle = |it: &Connection| now.since(it.last_received) >= hint;
        let idle: Vec<u64> =
            self.connections.iter().filter(|(_, it)| is_idle(it)).map(|(id, _)| *id).collect();
        for connection in idle {
            self.close(connection);
        }
    }

    /// Closes a connection; its session stays, so that it can be resumed.
    fn close(&mut self, connection: u64) {
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
            InputKind::Message { text, reply, http } => {
                self.message(connection, &text, &reply, http);
            }
            InputKind::Attach { session, output } => self.attach(&session, &output),
            InputKind::Delete { session, reply } => {
                let is_known = self.sessions.remove(&session).is_some();
                let answer = if is_known { Value::Null } else { unknown_session() };
                reply.send(Output::Message(answer)).ok();
            }
            InputKind::Closed => self.close(connection),
            InputKind::Stop => {}
        }
    }

    fn attach(&mut self, session: &str, output: &Sender<Output>) {
        let Some(session) = self.sessions.get_mut(session) else {
            output.send(Output::Message(unknown_session())).ok();
            return;
        };
        let ack = match self.options.mutation {
            Mutation::PreludeMissing => json!({"type": "keepalive", "timeoutHintSec": 60}),
            _ => session.ack.clone(),
        };
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
        text: &str,
        reply: &Sender<Output>,
        http: Option<HttpContext>,
    ) {
        let send = |message: Value| {
            reply.send(Output::Message(message)).ok();
        };
        let now = self.clock.now();
        let named = match (&http, self.connections.get_mut(&connection)) {
            (Some(http), _) => http.session.clone(),
            (None, Some(connection)) => {
                connection.last_received = now;
                Some(connection.session.clone())
            }
            (None, None) => None,
        };
        let Ok(message) = serde_json::from_str::<Value>(text) else {
            return send(error_message(&invalid(-32700, "not JSON")));
        };
        let takes_chunks = http.as_ref().is_some_and(|http| http.takes_chunks);
        let is_http = http.is_some();
        match named.map(|name| self.sessions.get_mut(&name)) {
            Some(Some(session)) => session.handle(&message, reply, takes_chunks),
            Some(None) => send(unknown_session_for(&message["id"])),
            None if message["type"] == "handshake" => {
                self.handshake(connection, &message, reply, http);
            }
            None => {
                let mut error = error("feature_not_available", "no handshake");
                error["details"] = json!({"state": "Connecting", "event": "sendRequest"});
                send(error_response(&message["id"], &error));
                if !is_http {
                    reply.send(Output::Close(1008)).ok();
                }
            }
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
                if !is_http && self.options.mutation != Mutation::OpenAfterRejection {
                    reply.send(Output::Close(code)).ok();
                }
            }
            Ok(capabilities) => {
                let Some((session, ack)) = self.open(handshake, capabilities) else { return };
                reply.send(Output::Message(ack)).ok();
                if is_http {
                    return;
                }
                let mut older = self.connections.iter();
                let older = older.find(|(_, it)| it.session == session).map(|(id, _)| *id);
                if let Some(older) = older {
                    self.close(older);
                }
                reply.send(Output::Message(self.keepalive())).ok();
                let last_received = self.clock.now();
                let new =
                    Connection { session: session.clone(), output: reply.clone(), last_received };
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
            return Err((error("auth.unauthorized", "no valid token"), 1008));
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
        let new = || Session::new(id.clone(), mutation, capabilities, exchange_steps);
        let session = self.sessions.entry(id.clone()).or_insert_with(new);
        session.is_ready = handshake["capabilitiesExchange"] != true;
        session.ack = ack.clone();
        Some((id, ack))
    }
}

fn unknown_session() -> Value {
    let mut error = error("internal", "unknown session");
    error["retryable"] = json!(true);
    error["details"] = json!({"reason": "unknown_session"});
    error_message(&error)
}

fn unknown_session_for(id: &Value) -> Value {
    match id {
        Value::Null => unknown_session(),
        id => error_response(id, &unknown_session()["error"]),
    }
}
