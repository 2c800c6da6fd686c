//! Single messages, each with what it must be answered with.
//!
//! The speaker follows the handshake as the server will, since the messages of a connection are
//! read in their order.

use std::time::Duration;

use corelane::base::random::Random;
use corelane::protocol::revision::Revision;
use serde_json::{Value, json};

use crate::talk::answer::{self, Answer};
use crate::talk::conversation::{Deferred, Ending, Note, Owed};
use crate::talk::message;

/// What a client has to know of the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    /// Which client this is.
    pub(crate) client: usize,
    /// How long a call may take.
    pub(crate) request_max: Duration,
    /// How late a step of a call may be.
    pub(crate) step_late_max: Duration,
    /// How long a message may be.
    pub(crate) message_bytes_max: usize,
    /// How deep a message may nest.
    pub(crate) nesting_max: usize,
    /// How many messages a batch may hold.
    pub(crate) batch_messages_max: usize,
    /// Whether it speaks through a pipe, where nothing is worth ending a connection.
    pub(crate) is_piped: bool,
}

/// A message without its terminator, and what follows from it.
pub(crate) type Said = (Vec<u8>, Vec<Note>);

/// Speaks one revision on one connection.
#[derive(Debug)]
pub(crate) struct Speaker<'a> {
    pub(crate) random: &'a mut Random,
    pub(crate) facts: Facts,
    /// The revision that its requests are in.
    revision: Revision,
    handshake: Handshake,
    ids: usize,
    /// Calls that may be in flight and are not cancelled.
    running: Vec<Value>,
}

/// How far the legacy handshake has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Handshake {
    None,
    Asked,
    Complete,
}

impl<'a> Speaker<'a> {
    /// A speaker of a revision that chance decides.
    pub(crate) fn new(random: &'a mut Random, facts: Facts) -> Self {
        let is_legacy = random.chance(3, 5);
        let revision = if is_legacy { Revision::ALL[random.below(4)] } else { Revision::LATEST };
        let handshake = Handshake::None;
        Self { random, facts, revision, handshake, ids: 0, running: Vec::new() }
    }

    /// Whether it needs no handshake.
    pub(crate) const fn is_modern(&self) -> bool {
        self.revision.is_modern()
    }

    /// The first half of the handshake.
    pub(crate) fn ask_for_a_session(&mut self) -> Said {
        self.handshake = Handshake::Asked;
        let id = self.new_id();
        let text = message::initialize(&id, self.revision);
        owed(text, Owed::to(id, Answer::Initialized(self.revision)))
    }

    /// The second half.
    pub(crate) fn confirm_the_session(&mut self) -> Said {
        self.handshake = Handshake::Complete;
        nothing(message::notification("notifications/initialized"))
    }

    /// A message of any kind; two where the second is about the first.
    pub(crate) fn any(&mut self) -> Vec<Said> {
        let said = match self.random.below(16) {
            7..=9 if self.is_served() => self.slow(),
            10 if self.is_served() => return self.slow_and_its_rival(),
            11 if !self.running.is_empty() => self.cancel(),
            12 => self.garbage(),
            13 if self.is_served() => self.batch(),
            14 => self.silent(),
            15 if self.is_served() => self.echo_much(),
            // And often: what most clients do most of the time.
            _ => self.request(),
        };
        vec![said]
    }

    /// A request that is answered at once.
    pub(crate) fn request(&mut self) -> Said {
        let (text, answer) = self.request_and_answer();
        owed(text, answer)
    }

    /// A message that is longer than it may be.
    pub(crate) fn too_much(&self) -> Said {
        let text = "x".repeat(self.facts.message_bytes_max + 1);
        let is_last = !self.facts.is_piped;
        owed(text, Owed { is_last, ..self.without_id(answer::TOO_LARGE) })
    }

    /// The beginning of a message.
    pub(crate) fn half_a_message(&self) -> Said {
        let text = r#"{"jsonrpc":"2.0","id":1,"met"#.to_owned();
        owed(text, self.without_id(answer::PARSE))
    }

    fn request_and_answer(&mut self) -> (String, Owed) {
        let id = self.new_id();
        let (text, answer) = match self.random.below(14) {
            0..=4 => self.echo(&id, 200),
            5 | 6 => self.add(&id),
            7 => self.greeting(&id),
            12 => {
                let text = json!({"jsonrpc": "1.0", "id": id, "method": "ping"}).to_string();
                (text, Answer::Error(answer::INVALID_REQUEST))
            }
            13 => {
                let text = json!({"jsonrpc": "2.0", "id": id}).to_string();
                (text, Answer::Error(answer::INVALID_REQUEST))
            }
            kind => self.odd_request(&id, kind),
        };
        (text, Owed::to(id, answer))
    }

    /// Requests that are refused, and the list of tools.
    fn odd_request(&self, id: &Value, kind: usize) -> (String, Answer) {
        let revision = self.revision;
        let tool = |tool, arguments| message::call(id, tool, &arguments, None, revision);
        let refused = Answer::Error(answer::INVALID_PARAMS);
        let (text, answer) = match kind {
            8 => (message::request(id, "tools/list", json!({}), revision), Answer::Tools),
            9 => (tool("nothing", json!({})), refused),
            10 => {
                let is_in_band = revision.dialect().arguments_fail_in_band;
                let answer = if is_in_band { Answer::Failed } else { refused };
                (tool("echo", json!({"message": 7})), answer)
            }
            _ => {
                let text = message::request(id, "tools/unknown", json!({}), revision);
                (text, Answer::Error(answer::METHOD_NOT_FOUND))
            }
        };
        (text, self.unless_early(answer))
    }

    fn echo(&mut self, id: &Value, bytes_max: usize) -> (String, Answer) {
        let words = self.words(bytes_max);
        let text = message::call(id, "echo", &json!({"message": words}), None, self.revision);
        (text, self.unless_early(Answer::Echo(words)))
    }

    fn add(&mut self, id: &Value) -> (String, Answer) {
        let (a, b) = (self.random.below(1000), self.random.below(1000));
        let text = message::call(id, "add", &json!({"a": a, "b": b}), None, self.revision);
        let is_structured = self.revision.dialect().structured_content;
        #[expect(clippy::cast_precision_loss, reason = "a small sum")]
        let answer = Answer::Sum { sum: (a + b) as f64, is_structured };
        (text, self.unless_early(answer))
    }

    /// What each era has to say hello with.
    fn greeting(&self, id: &Value) -> (String, Answer) {
        let (method, answer) = if self.is_modern() {
            ("server/discover", Answer::Discovered)
        } else {
            ("ping", Answer::Empty)
        };
        (message::request(id, method, json!({}), self.revision), answer)
    }

    /// A large answer.
    fn echo_much(&mut self) -> Said {
        let id = self.new_id();
        let (text, answer) = self.echo(&id, self.facts.message_bytes_max.min(4096) / 4);
        owed(text, Owed::to(id, answer))
    }

    /// A call that is answered later.
    fn slow(&mut self) -> Said {
        let (text, call) = self.slow_call();
        self.running.push(call.id.clone());
        (text.into(), vec![Note::Deferred(call)])
    }

    fn slow_call(&mut self) -> (String, Deferred) {
        let id = self.new_id();
        let request_ms = u32::try_from(self.facts.request_max.as_millis()).unwrap_or(u32::MAX);
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
        let ending = if most < self.facts.request_max {
            Ending::Result
        } else if least > self.facts.request_max + self.facts.step_late_max {
            Ending::Overdue
        } else {
            Ending::Either
        };
        let arguments = json!({"steps": steps, "step_ms": step_ms});
        let tool = if self.random.chance(1, 4) { "stutter" } else { "slow" };
        let text = message::call(&id, tool, &arguments, token.as_ref(), self.revision);
        (text, Deferred { id, answer: Answer::Took { steps, step_ms }, token, steps, ending })
    }

    /// A call and, right behind it, another request under the same id.
    fn slow_and_its_rival(&mut self) -> Vec<Said> {
        let (text, call) = self.slow_call();
        let id = call.id.clone();
        let (rival, answer) = self.echo(&id, 20);
        let answer = Owed { is_rival: true, ..Owed::to(id, answer) };
        vec![(text.into(), vec![Note::Deferred(call)]), owed(rival, answer)]
    }

    fn cancel(&mut self) -> Said {
        let id = self.running.swap_remove(self.random.below(self.running.len()));
        (message::cancelled(&id).into(), vec![Note::Cancelled(id)])
    }

    /// Something that is no message, or none that can be served.
    fn garbage(&mut self) -> Said {
        let too_deep = "[".repeat(self.facts.nesting_max + 1);
        let kind = self.random.below(8);
        let (bytes, code): (&[u8], i64) = match kind {
            0 => (b"nonsense", answer::PARSE),
            1 => (b"{\"jsonrpc\":\"2.0\",\"id\":1,", answer::PARSE),
            2 => (b"{\"jsonrpc\":\"2.0\",\"method\":\"\xFF\xFE\"}", answer::PARSE),
            3 => (b"{\"a\":\"\\ud800\"}", answer::PARSE),
            4 => (b"42", answer::INVALID_REQUEST),
            5 => (b"[]", answer::INVALID_REQUEST),
            6 => (too_deep.as_bytes(), answer::INVALID_REQUEST),
            _ => (b"{}", answer::INVALID_REQUEST),
        };
        // A pipe may carry what is not for us: text in another encoding is passed over.
        let is_passed_over = kind == 2 && self.facts.is_piped;
        let note = if is_passed_over { Note::Nothing } else { Note::Owed(self.without_id(code)) };
        (bytes.to_vec(), vec![note])
    }

    /// Several messages in one array, where the revision has that.
    fn batch(&mut self) -> Said {
        if !self.revision.dialect().batches {
            return self.request();
        }
        let (mut texts, mut answers, mut notes) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..=self.random.below(4) {
            match self.random.below(5) {
                0 => {
                    let (text, call) = self.slow_call();
                    texts.push(text);
                    notes.push(Note::Deferred(call));
                }
                1 => texts.push(message::notification("notifications/unknown")),
                _ => {
                    let (text, answer) = self.request_and_answer();
                    texts.push(text);
                    answers.push(answer);
                }
            }
        }
        if texts.len() > self.facts.batch_messages_max {
            notes = vec![Note::Owed(self.without_id(answer::INVALID_REQUEST))];
        } else if !answers.is_empty() {
            notes.push(Note::Batch(answers));
        }
        (format!("[{}]", texts.join(",")).into(), notes)
    }

    /// A message that gets no answer.
    fn silent(&mut self) -> Said {
        nothing(match self.random.below(4) {
            0 => message::notification("notifications/unknown"),
            1 => message::notification("notifications/progress"),
            2 => message::cancelled(&json!("nothing that was ever asked")),
            _ => json!({"jsonrpc": "2.0", "id": 1, "result": {}}).to_string(),
        })
    }

    /// The answer to what has no id that could be read.
    fn without_id(&self, code: i64) -> Owed {
        let is_agreed = self.handshake != Handshake::None;
        let says_null = is_agreed && self.revision.dialect().error_id_null;
        let id = says_null.then_some(Value::Null);
        Owed { id, answer: Answer::Error(code), is_rival: false, is_last: false }
    }

    /// Whether requests are served by now.
    fn is_served(&self) -> bool {
        self.is_modern() || self.handshake == Handshake::Complete
    }

    /// The answer, unless the request comes before the handshake.
    fn unless_early(&self, answer: Answer) -> Answer {
        if self.is_served() { answer } else { Answer::Error(answer::INVALID_REQUEST) }
    }

    fn new_id(&mut self) -> Value {
        self.ids += 1;
        let Facts { client, .. } = self.facts;
        if self.random.chance(1, 4) {
            return json!(format!("{client}-{}", self.ids));
        }
        json!(client * 1000 + self.ids)
    }

    /// Words of about so many bytes at most, among them what has to be escaped.
    fn words(&mut self, bytes_max: usize) -> String {
        const WORDS: [&str; 8] =
            ["lane", "\"quoted\"", "\n", "müßig", "𝄞", "\\", "{\"id\":1}", "\u{1}"];
        let mut words = format!("{} says ", self.facts.client);
        let length = self.random.below(bytes_max);
        while words.len() < length {
            words.push_str(WORDS[self.random.below(WORDS.len())]);
        }
        words
    }
}

fn owed(text: String, owed: Owed) -> Said {
    (text.into(), vec![Note::Owed(owed)])
}

fn nothing(text: String) -> Said {
    (text.into(), vec![Note::Nothing])
}
