//! Honest clients: one for each transport and each table of the server that clients share.
//!
//! A client sends one call at a time, at a fixed rate, over a connection that stays open. After a
//! failure it opens a new connection with its next call.

use std::io;
use std::path::Path;
use std::time::Duration;

use corelane_bench_support::frames;
use corelane_bench_support::requests::{Era, FIRST_ID, MESSAGE_BYTES, META, RequestTemplate};

use crate::conversation::{Conversation, Framing, Service, authorization_field};
use crate::credentials::{API_KEY, Caller, ProofKey, uri};
use crate::introspection::VALID;
use crate::schedule::{PhaseCalls, Schedule};
use crate::scripts::call_over_http;

/// Message of [`Kind::LargeMessage`].
const LARGE_BYTES: usize = 32 << 10;

/// What an honest client does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    TcpLegacy,
    TcpModern,
    HttpModern,
    HttpSession,
    WebSocket,
    /// Each call over a new connection, TCP, HTTP and WebSocket in turn.
    NewConnection,
    LargeMessage,
    BlockingTool,
    File,
    Task,
    /// A legacy HTTP session with a call now and then.
    IdleSession,
    /// A new session of the parity dialect over TCP for each call.
    Parity,
    /// A new connection over TCP for each subscription.
    Subscription,
    /// `/healthz` and `/readyz` in turn, each over a new connection.
    Health,
    /// Calls over HTTP with a token that is bound to a key.
    Proof,
}

/// What honest clients identify themselves by.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Credential {
    None,
    ApiKey,
    /// Tokens that the server asks the introspection endpoint about: one for each client, and
    /// another one for each new connection.
    Introspected,
}

impl Kind {
    pub(crate) const ALL: [Self; 15] = [
        Self::TcpLegacy,
        Self::TcpModern,
        Self::HttpModern,
        Self::HttpSession,
        Self::WebSocket,
        Self::NewConnection,
        Self::LargeMessage,
        Self::BlockingTool,
        Self::File,
        Self::Task,
        Self::IdleSession,
        Self::Parity,
        Self::Subscription,
        Self::Health,
        Self::Proof,
    ];

    /// Returns its name in the tables.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::TcpLegacy => "TCP, legacy",
            Self::TcpModern => "TCP, modern",
            Self::HttpModern => "HTTP, modern",
            Self::HttpSession => "HTTP session",
            Self::WebSocket => "WebSocket",
            Self::NewConnection => "new connection",
            Self::LargeMessage => "message of 32 KiB",
            Self::BlockingTool => "blocking tool",
            Self::File => "file",
            Self::Task => "task",
            Self::IdleSession => "idle session",
            Self::Parity => "parity session",
            Self::Subscription => "subscription",
            Self::Health => "/healthz, /readyz",
            Self::Proof => "token with proof",
        }
    }

    /// Whether its calls are small inline calls, whose latencies are comparable.
    pub(crate) const fn is_inline(self) -> bool {
        matches!(
            self,
            Self::TcpLegacy
                | Self::TcpModern
                | Self::HttpModern
                | Self::HttpSession
                | Self::WebSocket
                | Self::NewConnection
        )
    }

    /// Returns whether each call has a connection of its own.
    pub(crate) const fn connects_each_time(self) -> bool {
        matches!(self, Self::NewConnection | Self::Parity | Self::Subscription | Self::Health)
    }

    /// Returns the time between two calls.
    const fn interval(self) -> Duration {
        Duration::from_millis(match self {
            Self::LargeMessage | Self::BlockingTool | Self::File | Self::Health => 50,
            Self::Task | Self::Parity | Self::Subscription | Self::Proof => 100,
            Self::IdleSession => 1_000,
            _ => 20,
        })
    }

    const fn framing(self) -> Framing {
        match self {
            Self::HttpModern
            | Self::HttpSession
            | Self::IdleSession
            | Self::Health
            | Self::Proof => Framing::Http,
            Self::WebSocket => Framing::Frames,
            _ => Framing::Lines,
        }
    }

    /// Returns the era of its calls; `None` if they are none of MCP.
    const fn era(self) -> Option<Era> {
        match self {
            Self::TcpModern
            | Self::HttpModern
            | Self::LargeMessage
            | Self::Subscription
            | Self::Proof => Some(Era::Modern),
            Self::Parity | Self::Health => None,
            _ => Some(Era::Legacy),
        }
    }

    /// Whether the response is the message of the request.
    const fn is_echo(self) -> bool {
        self.is_inline() || matches!(self, Self::LargeMessage | Self::IdleSession)
    }
}

/// An honest client.
pub(crate) struct HonestClient<'a> {
    kind: Kind,
    service: &'a Service,
    credential: Credential,
    /// URI of a small file.
    file: String,
    /// Of [`Kind::Proof`].
    proof_key: Option<ProofKey>,
    conversation: Option<(Framing, Conversation)>,
    calls: u64,
}

impl<'a> HonestClient<'a> {
    /// Creates a client without a connection.
    pub(crate) fn new(
        kind: Kind,
        service: &'a Service,
        credential: Credential,
        directory: &Path,
    ) -> io::Result<Self> {
        let proof_key = match kind {
            Kind::Proof => Some(ProofKey::read(directory, Caller::Honest)?),
            _ => None,
        };
        let file = uri(directory, "small.txt");
        Ok(Self { kind, service, credential, file, proof_key, conversation: None, calls: 0 })
    }

    /// Calls until the end of `schedule`.
    pub(crate) fn run(mut self, schedule: &Schedule) -> io::Result<PhaseCalls> {
        let mut calls = PhaseCalls::none().map_err(io::Error::other)?;
        let interval = self.kind.interval();
        let mut due = schedule.now();
        while let Some(phase) = schedule.phase_at(due) {
            schedule.wait_until(due);
            let result = self.call();
            let latency = schedule.now().since(due);
            let is_failure = result.is_err();
            calls.record(phase, due, latency, result)?;
            due = due.after(interval);
            if is_failure {
                self.conversation = None;
                // The calls that were due meanwhile would fail for the same reason.
                due = due.max(schedule.now().after(interval));
            }
        }
        Ok(calls)
    }

    fn call(&mut self) -> io::Result<()> {
        self.calls += 1;
        let token = self.token();
        let (framing, mut conversation) = match self.conversation.take() {
            Some(open) => open,
            None => self.open(token.as_deref())?,
        };
        self.call_over(framing, &mut conversation, token.as_deref())?;
        if !self.kind.connects_each_time() {
            self.conversation = Some((framing, conversation));
        }
        Ok(())
    }

    fn call_over(
        &self,
        framing: Framing,
        conversation: &mut Conversation,
        token: Option<&str>,
    ) -> io::Result<()> {
        match self.kind {
            Kind::Parity => return call_parity(conversation, token),
            Kind::Health => {
                let path = if self.calls.is_multiple_of(2) { "/healthz" } else { "/readyz" };
                let host = self.service.addresses.http;
                let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
                return conversation.exchange_any(request.as_bytes()).map(drop);
            }
            _ => {}
        }
        let id = FIRST_ID + self.calls;
        let template = self.request(framing, token);
        let mut request = template.repeat(1);
        template.set_id(&mut request, 0, id);
        if let Some(session) = conversation.session() {
            template.set_session(&mut request, session);
        }
        if self.kind == Kind::Subscription {
            let message = conversation.exchange_any(&request)?;
            let message = String::from_utf8_lossy(&message);
            return expect(message.contains("subscriptions/acknowledged"), &message);
        }
        let response = conversation.exchange(&request)?;
        if self.kind.is_echo() { template.check(&response, id) } else { check_result(&response) }
    }

    fn open(&self, token: Option<&str>) -> io::Result<(Framing, Conversation)> {
        let framing = match (self.kind, self.calls % 3) {
            (Kind::NewConnection, 1) => Framing::Http,
            (Kind::NewConnection, 2) => Framing::Frames,
            _ => self.kind.framing(),
        };
        let has_session = self.kind.era() == Some(Era::Legacy);
        Ok((framing, Conversation::open(self.service, framing, has_session, token)?))
    }

    /// Returns the token of the next call.
    fn token(&self) -> Option<String> {
        match self.credential {
            _ if matches!(self.kind, Kind::Proof | Kind::Health) => None,
            Credential::None => None,
            Credential::ApiKey => Some(API_KEY.to_owned()),
            Credential::Introspected if self.kind.connects_each_time() => {
                Some(format!("{VALID}-{:?}-{}", self.kind, self.calls))
            }
            Credential::Introspected => Some(format!("{VALID}-{:?}", self.kind)),
        }
    }

    /// Returns its request.
    fn request(&self, framing: Framing, token: Option<&str>) -> RequestTemplate {
        let era = self.kind.era().unwrap_or(Era::Legacy);
        let host = self.service.addresses.http;
        let call = |params: &str| {
            RequestTemplate::new(format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{FIRST_ID},\"method\":{params}}}\n"
            ))
        };
        let template = match self.kind {
            Kind::BlockingTool => {
                call(r#""tools/call","params":{"name":"hash","arguments":{"bytes":1000}}"#)
            }
            Kind::File => call(&format!(r#""resources/read","params":{{"uri":"{}"}}"#, self.file)),
            Kind::Task => call(concat!(
                r#""tools/call","params":{"name":"slow_compute","#,
                r#""arguments":{"seconds":0},"task":{"ttl":1000}}"#
            )),
            Kind::Subscription => call(
                &format!(
                    r#""subscriptions/listen","params":{{"notifications":{{
                "toolsListChanged":true}}{META}}}"#
                )
                .replace('\n', ""),
            ),
            Kind::LargeMessage => RequestTemplate::echo(era, LARGE_BYTES),
            Kind::Proof => {
                let fields = self.proof_key.as_ref().map_or_else(String::new, ProofKey::fields);
                return RequestTemplate::new(call_over_http(host, &fields));
            }
            _ => match framing {
                Framing::Lines => RequestTemplate::echo(era, MESSAGE_BYTES),
                Framing::Http => RequestTemplate::echo_post(era, MESSAGE_BYTES, host),
                Framing::Frames => frames::echo_frame(era, MESSAGE_BYTES),
            },
        };
        match (token, framing) {
            (Some(token), Framing::Http) => {
                template.insert_after("\r\n", &authorization_field(token))
            }
            (Some(token), Framing::Lines) if era == Era::Modern => {
                template.insert_after(r#""_meta":{"#, &format!(r#""auth_token":"{token}","#))
            }
            // The connection has the token.
            _ => template,
        }
    }
}

/// Begins a session of the parity dialect and calls a tool.
fn call_parity(conversation: &mut Conversation, token: Option<&str>) -> io::Result<()> {
    let member = token.map_or_else(String::new, |token| format!(r#","auth_token":"{token}""#));
    let handshake = format!(
        "{{\"type\":\"handshake\",\"protocolVersion\":\"1.0\",\
         \"capabilities\":{{\"tools\":true}}{member}}}\n"
    );
    let call = concat!(
        r#"{"type":"request","id":1,"method":"tools/call","#,
        r#""params":{"name":"echo","arguments":{"message":"parity"}}}"#,
        "\n"
    );
    for (request, expected) in [(handshake.as_str(), "handshakeAck"), (call, r#""parity""#)] {
        let message = conversation.exchange_any(request.as_bytes())?;
        let message = String::from_utf8_lossy(&message);
        expect(message.contains(expected), &message)?;
    }
    Ok(())
}

/// Returns an error unless `response` has a result that is no tool error.
fn check_result(response: &[u8]) -> io::Result<()> {
    let value: serde_json::Value = serde_json::from_slice(response)?;
    let is_result = value.get("result").is_some_and(|result| result["isError"] != true);
    expect(is_result, &value.to_string())
}

/// Returns an error with the response unless it is as expected.
fn expect(is_expected: bool, response: &str) -> io::Result<()> {
    if is_expected {
        return Ok(());
    }
    Err(io::Error::other(format!("wrong response: {response}")))
}
