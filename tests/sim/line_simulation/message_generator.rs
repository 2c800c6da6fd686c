//! Random messages, each with its expected response.
//!
//! The generator tracks the state of the handshake as the server does, because the messages of a
//! connection are read in order.

use std::time::Duration;

use corelane_base::random::Random;
use corelane_protocol::revision::Revision;
use serde_json::{Value, json};

use crate::line_simulation::expectation::{
    CallEnd, DeferredResponse, Expectation, ImmediateResponse,
};
use crate::line_simulation::expected_response::{self, ExpectedResponse};
use crate::line_simulation::message;

/// What a client has to know of the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerFacts {
    /// Index of the client.
    pub(crate) client: usize,
    /// Request timeout.
    pub(crate) request_timeout: Duration,
    /// How late a step of a call may be.
    pub(crate) step_late_max: Duration,
    /// Limit of the message size.
    pub(crate) message_bytes_max: usize,
    /// Limit of the nesting depth.
    pub(crate) nesting_max: usize,
    /// Limit of messages per batch.
    pub(crate) batch_messages_max: usize,
    /// The client uses a pipe, where no error closes the connection.
    pub(crate) is_piped: bool,
}

/// A message without its terminator, and its expectations.
#[derive(Debug)]
pub(crate) struct GeneratedMessage {
    pub(crate) bytes: Vec<u8>,
    pub(crate) expectations: Vec<Expectation>,
}

impl GeneratedMessage {
    fn new(bytes: impl Into<Vec<u8>>, expectations: Vec<Expectation>) -> Self {
        Self { bytes: bytes.into(), expectations }
    }
}

/// Generates the messages of one connection.
#[derive(Debug)]
pub(crate) struct MessageGenerator<'a> {
    pub(crate) random: &'a mut Random,
    pub(crate) facts: ServerFacts,
    /// Revision of its requests.
    revision: Revision,
    handshake: HandshakeState,
    last_id: usize,
    /// Ids of calls that may be in flight and are not cancelled.
    cancellable_ids: Vec<Value>,
}

/// State of the legacy handshake.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum HandshakeState {
    None,
    Requested,
    Complete,
}

impl<'a> MessageGenerator<'a> {
    /// Uses a random revision.
    pub(crate) fn new(random: &'a mut Random, facts: ServerFacts) -> Self {
        let is_legacy = random.chance(3, 5);
        let revision = if is_legacy { Revision::ALL[random.below(4)] } else { Revision::LATEST };
        let handshake = HandshakeState::None;
        Self { random, facts, revision, handshake, last_id: 0, cancellable_ids: Vec::new() }
    }

    /// Returns whether the revision needs no handshake.
    pub(crate) const fn is_modern(&self) -> bool {
        self.revision.is_modern()
    }

    /// `initialize`.
    pub(crate) fn initialize(&mut self) -> GeneratedMessage {
        self.handshake = HandshakeState::Requested;
        let id = self.new_id();
        let text = message::initialize(&id, self.revision);
        expecting(text, ImmediateResponse::new(id, ExpectedResponse::Initialize(self.revision)))
    }

    /// `notifications/initialized`.
    pub(crate) fn initialized(&mut self) -> GeneratedMessage {
        self.handshake = HandshakeState::Complete;
        expecting_nothing(message::notification("notifications/initialized"))
    }

    /// A message of any kind; two if the second refers to the first.
    pub(crate) fn any_messages(&mut self) -> Vec<GeneratedMessage> {
        let generated = match self.random.below(16) {
            7..=9 if self.is_initialized() => self.slow_request(),
            10 if self.is_initialized() => return self.slow_with_duplicate_id(),
            11 if !self.cancellable_ids.is_empty() => self.cancel(),
            12 => self.invalid_message(),
            13 if self.is_initialized() => self.batch_message(),
            14 => self.unanswered_message(),
            15 if self.is_initialized() => {
                self.large_echo(self.facts.message_bytes_max.min(4096) / 4)
            }
            // Most often: what most clients do most of the time.
            _ => self.request(),
        };
        vec![generated]
    }

    /// A request that is answered at once.
    pub(crate) fn request(&mut self) -> GeneratedMessage {
        let (text, answer) = self.request_with_response();
        expecting(text, answer)
    }

    /// A request of which little is held: request, arguments and response.
    pub(crate) fn small_message(&mut self) -> GeneratedMessage {
        let kind = self.random.below(3);
        if kind == 0 {
            return self.slow_request();
        }
        let id = self.new_id();
        let (text, answer) = if kind == 1 { self.echo(&id, 40) } else { self.add(&id) };
        expecting(text, ImmediateResponse::new(id, answer))
    }

    /// A message that exceeds the size limit.
    pub(crate) fn oversized_message(&self) -> GeneratedMessage {
        let text = "x".repeat(self.facts.message_bytes_max + 1);
        let is_last = !self.facts.is_piped;
        expecting(
            text,
            ImmediateResponse {
                closes_connection: is_last,
                ..self.error_without_id(expected_response::TOO_LARGE)
            },
        )
    }

    /// An incomplete message.
    pub(crate) fn incomplete_message(&self) -> GeneratedMessage {
        let text = r#"{"jsonrpc":"2.0","id":1,"met"#.to_owned();
        expecting(text, self.error_with_id(json!(1), expected_response::PARSE))
    }

    fn request_with_response(&mut self) -> (String, ImmediateResponse) {
        let id = self.new_id();
        let (text, answer) = match self.random.below(14) {
            0..=4 => self.echo(&id, 200),
            5 | 6 => self.add(&id),
            7 => self.discover_or_ping(&id),
            12 => {
                let text = json!({"jsonrpc": "1.0", "id": id, "method": "ping"}).to_string();
                (text, ExpectedResponse::Error(expected_response::INVALID_REQUEST))
            }
            13 => {
                let text = json!({"jsonrpc": "2.0", "id": id}).to_string();
                (text, ExpectedResponse::Error(expected_response::INVALID_REQUEST))
            }
            kind => self.unusual_request(&id, kind),
        };
        (text, ImmediateResponse::new(id, answer))
    }

    /// Requests that are refused, and `tools/list`.
    fn unusual_request(&self, id: &Value, kind: usize) -> (String, ExpectedResponse) {
        let revision = self.revision;
        let tool = |tool, arguments| message::call(id, tool, &arguments, None, revision);
        let refused = ExpectedResponse::Error(expected_response::INVALID_PARAMS);
        let (text, answer) = match kind {
            8 => (
                message::request(id, "tools/list", json!({}), revision),
                ExpectedResponse::ToolList,
            ),
            9 => (tool("nothing", json!({})), refused),
            10 => {
                let is_in_band = revision.dialect().argument_errors_in_result;
                let answer = if is_in_band { ExpectedResponse::ToolError } else { refused };
                (tool("echo", json!({"message": 7})), answer)
            }
            _ => {
                let text = message::request(id, "tools/unknown", json!({}), revision);
                (text, ExpectedResponse::Error(expected_response::METHOD_NOT_FOUND))
            }
        };
        (text, self.unless_uninitialized(answer))
    }

    fn echo(&mut self, id: &Value, bytes_max: usize) -> (String, ExpectedResponse) {
        let words = self.random_text(bytes_max);
        let text = message::call(id, "echo", &json!({"message": words}), None, self.revision);
        (text, self.unless_uninitialized(ExpectedResponse::Echo(words)))
    }

    fn add(&mut self, id: &Value) -> (String, ExpectedResponse) {
        let (a, b) = (self.random.below(1000), self.random.below(1000));
        let text = message::call(id, "add", &json!({"a": a, "b": b}), None, self.revision);
        let is_structured = self.revision.dialect().structured_content;
        #[expect(clippy::cast_precision_loss, reason = "a small sum")]
        let answer = ExpectedResponse::Sum { sum: (a + b) as f64, is_structured };
        (text, self.unless_uninitialized(answer))
    }

    /// `server/discover` or `ping`, depending on the era.
    fn discover_or_ping(&self, id: &Value) -> (String, ExpectedResponse) {
        let (method, answer) = if self.is_modern() {
            ("server/discover", ExpectedResponse::Discover)
        } else {
            ("ping", ExpectedResponse::Empty)
        };
        (message::request(id, method, json!({}), self.revision), answer)
    }

    /// A request with a response of about `bytes_max` at most.
    pub(crate) fn large_echo(&mut self, bytes_max: usize) -> GeneratedMessage {
        let id = self.new_id();
        let (text, answer) = self.echo(&id, bytes_max);
        expecting(text, ImmediateResponse::new(id, answer))
    }

    /// A call that is answered later.
    fn slow_request(&mut self) -> GeneratedMessage {
        let (text, call) = self.slow_call();
        self.cancellable_ids.push(call.id.clone());
        GeneratedMessage::new(text, vec![Expectation::Deferred(call)])
    }

    fn slow_call(&mut self) -> (String, DeferredResponse) {
        let id = self.new_id();
        let request_ms = u32::try_from(self.facts.request_timeout.as_millis()).unwrap_or(u32::MAX);
        let steps = 1 + u32::try_from(self.random.below(4)).unwrap_or(0);
        let lengths = [0, 1, 3, 20, request_ms / 8, request_ms / 2];
        let step_ms = lengths[self.random.below(lengths.len())];
        let token = match self.random.below(3) {
            0 => None,
            1 => Some(json!(format!("token of {id}"))),
            _ => Some(id.clone()),
        };
        let least = Duration::from_millis(u64::from(steps * step_ms));
        let most = least + steps * self.facts.step_late_max;
        let ending = if most < self.facts.request_timeout {
            CallEnd::Result
        } else if least > self.facts.request_timeout + self.facts.step_late_max {
            CallEnd::Timeout
        } else {
            CallEnd::Either
        };
        let arguments = json!({"steps": steps, "step_ms": step_ms});
        let tool = if self.random.chance(1, 4) { "stutter" } else { "slow" };
        let text = message::call(&id, tool, &arguments, token.as_ref(), self.revision);
        (
            text,
            DeferredResponse {
                id,
                expected: ExpectedResponse::Slow { steps, step_ms },
                token,
                steps,
                end: ending,
            },
        )
    }

    /// A call and, right behind it, another request with the same id.
    fn slow_with_duplicate_id(&mut self) -> Vec<GeneratedMessage> {
        let (text, call) = self.slow_call();
        let id = call.id.clone();
        let (rival, answer) = self.echo(&id, 20);
        let answer =
            ImmediateResponse { is_duplicate_id: true, ..ImmediateResponse::new(id, answer) };
        let call = GeneratedMessage::new(text, vec![Expectation::Deferred(call)]);
        vec![call, expecting(rival, answer)]
    }

    fn cancel(&mut self) -> GeneratedMessage {
        let id = self.cancellable_ids.swap_remove(self.random.below(self.cancellable_ids.len()));
        GeneratedMessage::new(message::cancelled(&id), vec![Expectation::Cancellation(id)])
    }

    /// Bytes that are not a valid message.
    fn invalid_message(&mut self) -> GeneratedMessage {
        let too_deep = "[".repeat(self.facts.nesting_max + 1);
        let kind = self.random.below(8);
        let (bytes, code): (&[u8], i64) = match kind {
            0 => (b"nonsense", expected_response::PARSE),
            1 => (b"{\"jsonrpc\":\"2.0\",\"id\":1,", expected_response::PARSE),
            2 => (b"{\"jsonrpc\":\"2.0\",\"method\":\"\xFF\xFE\"}", expected_response::PARSE),
            3 => (b"{\"a\":\"\\ud800\"}", expected_response::INVALID_REQUEST),
            4 => (b"42", expected_response::INVALID_REQUEST),
            5 => (b"[]", expected_response::INVALID_REQUEST),
            6 => (too_deep.as_bytes(), expected_response::INVALID_REQUEST),
            _ => (b"{}", expected_response::INVALID_REQUEST),
        };
        // A pipe may carry foreign output: text that is not UTF-8 is skipped.
        let is_passed_over = kind == 2 && self.facts.is_piped;
        let note = match kind {
            _ if is_passed_over => Expectation::Nothing,
            1 => Expectation::Immediate(self.error_with_id(json!(1), code)),
            _ => Expectation::Immediate(self.error_without_id(code)),
        };
        GeneratedMessage::new(bytes, vec![note])
    }

    /// A batch, if the revision has batches.
    fn batch_message(&mut self) -> GeneratedMessage {
        if !self.revision.dialect().batches {
            return self.request();
        }
        let (mut texts, mut answers, mut notes) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..=self.random.below(4) {
            match self.random.below(5) {
                0 => {
                    let (text, call) = self.slow_call();
                    texts.push(text);
                    notes.push(Expectation::Deferred(call));
                }
                1 => texts.push(message::notification("notifications/unknown")),
                _ => {
                    let (text, answer) = self.request_with_response();
                    texts.push(text);
                    answers.push(answer);
                }
            }
        }
        if texts.len() > self.facts.batch_messages_max {
            notes = vec![Expectation::Immediate(
                self.error_without_id(expected_response::INVALID_REQUEST),
            )];
        } else if !answers.is_empty() {
            notes.push(Expectation::Batch(answers));
        }
        GeneratedMessage::new(format!("[{}]", texts.join(",")), notes)
    }

    /// A message that gets no response.
    fn unanswered_message(&mut self) -> GeneratedMessage {
        expecting_nothing(match self.random.below(4) {
            0 => message::notification("notifications/unknown"),
            1 => message::notification("notifications/progress"),
            2 => message::cancelled(&json!("nothing that was ever asked")),
            _ => json!({"jsonrpc": "2.0", "id": 1, "result": {}}).to_string(),
        })
    }

    /// The error response to a message that does not parse, but whose id can be read.
    fn error_with_id(&self, id: Value, code: i64) -> ImmediateResponse {
        ImmediateResponse { id: Some(id), ..self.error_without_id(code) }
    }

    /// The error response to a message without a readable id.
    fn error_without_id(&self, code: i64) -> ImmediateResponse {
        let is_agreed = self.handshake != HandshakeState::None;
        let says_null = is_agreed && self.revision.dialect().error_id_null;
        let id = says_null.then_some(Value::Null);
        ImmediateResponse {
            id,
            expected: ExpectedResponse::Error(code),
            is_duplicate_id: false,
            closes_connection: false,
        }
    }

    /// Returns whether requests are served by now.
    fn is_initialized(&self) -> bool {
        self.is_modern() || self.handshake != HandshakeState::None
    }

    /// The response, or an error if the request comes before the handshake.
    fn unless_uninitialized(&self, answer: ExpectedResponse) -> ExpectedResponse {
        if self.is_initialized() {
            answer
        } else {
            ExpectedResponse::Error(expected_response::INVALID_REQUEST)
        }
    }

    fn new_id(&mut self) -> Value {
        self.last_id += 1;
        let ServerFacts { client, .. } = self.facts;
        if self.random.chance(1, 4) {
            return json!(format!("{client}-{}", self.last_id));
        }
        json!(client * 1000 + self.last_id)
    }

    /// A random text of about `bytes_max` bytes at most, with characters that need escaping.
    fn random_text(&mut self, bytes_max: usize) -> String {
        const WORDS: [&str; 8] =
            ["lane", "\"quoted\"", "\n", "müßig", "𝄞", "\\", "{\"id\":1}", "\u{1}"];
        let mut words = format!("{} sent ", self.facts.client);
        let length = self.random.below(bytes_max);
        while words.len() < length {
            words.push_str(WORDS[self.random.below(WORDS.len())]);
        }
        words
    }
}

fn expecting(text: String, response: ImmediateResponse) -> GeneratedMessage {
    GeneratedMessage::new(text, vec![Expectation::Immediate(response)])
}

fn expecting_nothing(text: String) -> GeneratedMessage {
    GeneratedMessage::new(text, vec![Expectation::Nothing])
}
