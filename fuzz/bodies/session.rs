//! Body of the fuzz target of sessions: calls, messages, inputs and time in any order.
//!
//! It panics if an invariant of a [`Session`] is violated, which no input may cause. The fuzzer
//! passes its own bytes, the tests seeded ones.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use corelane_base::time::Instant;
use corelane_client::session::{
    CallId, CallRequest, EraPreference, InputKey, MessageSink, OutgoingKind, OutgoingMessage,
    Session, SessionBuffers, SessionConfig, SessionContext, SessionEvent, SessionOptions,
};
use corelane_client::{ClientError, ClientErrorKind};
use corelane_protocol::eras::{ClientCapabilities, Method};
use corelane_protocol::json::{PaddedBuffer, ParseLimits, Parser};
use corelane_protocol::revision::Revision;

const METHODS: [Method; 6] = [
    Method::ToolsCall,
    Method::ToolsList,
    Method::ResourcesRead,
    Method::PromptsGet,
    Method::Ping,
    Method::SubscriptionsListen,
];

/// What a server may answer, after the id.
const RESPONSES: [&str; 8] = [
    r#""result":{"resultType":"complete","content":[]}"#,
    r#""result":{"resultType":"complete","supportedVersions":["2026-07-28"],
        "capabilities":{"tools":{},"resources":{},"prompts":{}}}"#,
    r#""result":{"protocolVersion":"2025-03-26","capabilities":{"tools":{},"resources":{}},
        "serverInfo":{"name":"a","version":"1"}}"#,
    r#""result":{"resultType":"input_required","requestState":"s","inputRequests":{"a":{
        "method":"elicitation/create","params":{"message":"b","requestedSchema":{}}}}}"#,
    r#""result":{"resultType":"none"}"#,
    r#""error":{"code":-32603,"message":"a"}"#,
    r#""error":{"code":-32601,"message":"a"}"#,
    r#""none":1"#,
];

/// What a server may send unasked. `0` is replaced by a number.
const MESSAGES: [&str; 6] = [
    r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{
        "progressToken":0,"progress":1}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{
        "io.modelcontextprotocol/subscriptionId":0}}}"#,
    r#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#,
    r#"{"jsonrpc":"2.0","id":0,"method":"elicitation/create","params":{"message":"a",
        "requestedSchema":{}}}"#,
    r#"[{"jsonrpc":"2.0","id":0,"result":{}},{"jsonrpc":"2.0","id":0,"result":{}}]"#,
];

/// How the calls of a session have ended.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct CallCounts {
    /// With a result.
    pub(crate) completed: usize,
    /// With an error.
    pub(crate) failed: usize,
    /// By the client.
    pub(crate) cancelled: usize,
}

/// Runs a session as `steps` say, disconnects it, and returns how its calls have ended.
///
/// # Panics
///
/// If an invariant is violated.
pub(crate) fn run_session(steps: &[u8]) -> CallCounts {
    let mut steps = Steps(steps);
    let mut run = SessionRun::new(&mut steps);
    while let Some(step) = steps.next() {
        run.step(step, &mut steps);
    }
    run.disconnect();
    assert!(run.calls.iter().all(|call| call.has_ended), "a call has not ended");
    run.counts
}

/// The bytes that are left.
struct Steps<'a>(&'a [u8]);

impl<'a> Steps<'a> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> usize {
        self.next().unwrap_or_default().into()
    }

    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

struct CallState {
    id: CallId,
    has_ended: bool,
}

/// Checks the messages of a session.
#[derive(Default)]
struct Output {
    ids: BTreeSet<u64>,
    /// Methods of the requests of a step.
    methods: Vec<Method>,
    is_full: bool,
}

impl MessageSink for Output {
    fn send(&mut self, message: OutgoingMessage<'_>) {
        let text = serde_json::from_slice::<serde_json::Value>(message.text);
        assert!(text.is_ok_and(|text| text.is_object()), "a message is not a JSON object");
        assert!(!message.text.contains(&b'\n'), "a message has a line break");
        if let OutgoingKind::Request { id, method, .. } = message.kind {
            assert!(self.ids.insert(id), "an id was used again");
            self.methods.push(method);
        }
    }

    fn is_full(&self) -> bool {
        self.is_full
    }
}

struct SessionRun {
    session: Session<usize>,
    parser: Parser,
    buffers: SessionBuffers,
    output: Output,
    events: Vec<SessionEvent<usize>>,
    now: Instant,
    calls: Vec<CallState>,
    inputs: Vec<InputKey>,
    counts: CallCounts,
}

impl SessionRun {
    fn new(steps: &mut Steps<'_>) -> Self {
        let era = match steps.number() % 3 {
            0 => EraPreference::Auto,
            1 => EraPreference::Modern,
            _ => EraPreference::Legacy(Revision::V2025_03_26),
        };
        let (in_flight_max, waiting_max) = (1 + steps.number() % 4, steps.number() % 4);
        let mut options = SessionOptions::default();
        options.era = era;
        (options.in_flight_max, options.waiting_max) = (in_flight_max, waiting_max);
        let config = SessionConfig::new(options, ClientCapabilities::ELICITATION_FORM);
        let mut run = Self {
            session: Session::new(Arc::new(config)),
            parser: Parser::new(ParseLimits::default()),
            buffers: SessionBuffers::default(),
            output: Output::default(),
            events: Vec::new(),
            now: Instant::ORIGIN,
            calls: Vec::new(),
            inputs: Vec::new(),
            counts: CallCounts::default(),
        };
        run.act(|session, ctx| session.start(false, ctx));
        run
    }

    fn step(&mut self, step: u8, steps: &mut Steps<'_>) {
        let number = steps.number();
        match step % 10 {
            0 | 1 => self.call(number),
            2 => self.cancel(number),
            3 => {
                self.now = self.now.after(Duration::from_secs(number as u64));
                self.act(Session::expire);
                let deadline = self.session.deadline();
                assert!(deadline.is_none_or(|deadline| deadline > self.now), "nothing expired");
            }
            4 => self.receive(steps.take(number)),
            5 | 6 => {
                let response = RESPONSES[steps.number() % RESPONSES.len()];
                // One of the last requests.
                let last = self.output.ids.last().copied().unwrap_or_default();
                let id = last.saturating_sub(number as u64 % 4);
                self.receive(format!(r#"{{"jsonrpc":"2.0","id":{id},{response}}}"#).as_bytes());
            }
            7 => {
                let message = MESSAGES[steps.number() % MESSAGES.len()];
                let message = message.replace(":0", &format!(":{number}"));
                self.receive(message.as_bytes());
            }
            8 => self.provide_input(number, steps.number()),
            _ if number == 0 && steps.number() == 0 => self.disconnect(),
            _ if number.is_multiple_of(2) => self.output.is_full = !self.output.is_full,
            _ => {
                let error = ClientError::new(ClientErrorKind::Closed, "a failure");
                self.act(|session, ctx| session.fail_request(number as u64, error, ctx));
            }
        }
    }

    fn call(&mut self, number: usize) {
        let token = self.calls.len();
        let mut request = CallRequest::new(METHODS[number % METHODS.len()]);
        request.wants_progress = number.is_multiple_of(3);
        let mut ctx = SessionContext {
            now: self.now,
            sink: &mut self.output,
            events: &mut self.events,
            buffers: &mut self.buffers,
        };
        let id = self.session.call(request, token, &mut ctx);
        self.calls.push(CallState { id, has_ended: false });
        self.check();
    }

    fn cancel(&mut self, number: usize) {
        if self.calls.is_empty() {
            return;
        }
        let token = number % self.calls.len();
        let (id, mut cancelled) = (self.calls[token].id, None);
        self.act(|session, ctx| cancelled = session.cancel(id, Some("a reason"), ctx));
        assert_eq!(cancelled.is_some(), !self.calls[token].has_ended, "a call ends once");
        if let Some(cancelled) = cancelled {
            assert_eq!(cancelled, token, "another call was cancelled");
            self.calls[token].has_ended = true;
            self.counts.cancelled += 1;
        }
    }

    fn receive(&mut self, text: &[u8]) {
        let mut text = PaddedBuffer::copy_of(text);
        let mut ctx = SessionContext {
            now: self.now,
            sink: &mut self.output,
            events: &mut self.events,
            buffers: &mut self.buffers,
        };
        self.session.receive(text.text(), &mut self.parser, &mut ctx);
        self.check();
    }

    fn provide_input(&mut self, number: usize, outcome: usize) {
        if self.inputs.is_empty() {
            return;
        }
        let key = self.inputs.swap_remove(number % self.inputs.len());
        self.act(|session, ctx| {
            let error = || ClientError::new(ClientErrorKind::Input, "a failure");
            let result = if outcome.is_multiple_of(2) { Ok(&b"{}"[..]) } else { Err(error()) };
            session.provide_input(key, result, ctx);
        });
    }

    fn disconnect(&mut self) {
        let error = ClientError::new(ClientErrorKind::Connect, "the end");
        self.act(|session, ctx| session.disconnect(error, ctx.events));
    }

    fn act(
        &mut self,
        act: impl FnOnce(&mut Session<usize>, &mut SessionContext<'_, usize, Output>),
    ) {
        let mut ctx = SessionContext {
            now: self.now,
            sink: &mut self.output,
            events: &mut self.events,
            buffers: &mut self.buffers,
        };
        act(&mut self.session, &mut ctx);
        self.check();
    }

    /// Checks what the session has sent and reported in a step.
    fn check(&mut self) {
        let is_handshake = |method| matches!(method, Method::Discover | Method::Initialize);
        let is_early = self.session.server().is_none() && self.session.end_reason().is_none();
        let methods = std::mem::take(&mut self.output.methods);
        assert!(!is_early || methods.into_iter().all(is_handshake), "a call was sent too early");
        for event in std::mem::take(&mut self.events) {
            match event {
                SessionEvent::Completed { token, result } => {
                    let call = &mut self.calls[token];
                    assert!(!std::mem::replace(&mut call.has_ended, true), "a call ended twice");
                    let count = if result.is_ok() {
                        &mut self.counts.completed
                    } else {
                        &mut self.counts.failed
                    };
                    *count += 1;
                }
                SessionEvent::Progress { token, .. }
                | SessionEvent::TaskStatus { token, .. }
                | SessionEvent::Subscription { token, .. } => {
                    assert!(!self.calls[token].has_ended, "a call that ended is notified");
                }
                SessionEvent::InputRequired(input) => self.inputs.push(input.key),
                SessionEvent::InputCancelled(key) => self.inputs.retain(|other| *other != key),
                _ => {}
            }
        }
    }
}
