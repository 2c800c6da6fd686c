//! What one connection owes its client: the checker of answers.
//!
//! A server carries the messages of one connection in their order. So requests that are answered
//! at once are answered in order, and whatever is heard proves that everything said before its
//! request was read. From that follows all that is checked here:
//!
//! - every answer is asked for, once, under its own id, with the right content;
//! - answers given at once keep the order of their requests;
//! - progress grows, step by step where nothing stands in its way, and stops at the result;
//! - nothing is said of a call whose cancellation was certainly read;
//! - a call is refused for being one too many only while as many are in flight as may be;
//! - a second request under an id is refused exactly while the first one is in flight;
//! - after a last word (no room, a message too large) nothing follows;
//! - of two calls that took too long the one that was read earlier is ended first;
//! - of two catalogs the one that was offered later is not seen before the other.

use std::collections::VecDeque;

use corelane::base::time::Moment;
use corelane::engine::timer::TICK;
use serde_json::Value;

use crate::talk::answer::{Answer, CONNECTION_LIMIT, INTERNAL, INVALID_REQUEST, TOO_LARGE};
use crate::tally::Tally;

/// What follows from one message, known before it is said.
#[derive(Clone, Debug)]
pub(crate) enum Note {
    /// One answer at once.
    Owed(Owed),
    /// Several answers at once, in one array.
    Batch(Vec<Owed>),
    /// An answer that comes later.
    Deferred(Deferred),
    /// The request with this id is not wanted any more.
    Cancelled(Value),
    /// The server asks something of its own, and may take that back.
    Asked,
    /// Nothing: a notification.
    Nothing,
}

/// An answer that is owed at once.
#[derive(Clone, Debug)]
pub(crate) struct Owed {
    /// The id as it must be said; `None` where the member must be left out.
    pub(crate) id: Option<Value>,
    pub(crate) answer: Answer,
    /// A call that may still be in flight has the same id: while it is, this one is refused.
    pub(crate) is_rival: bool,
    /// The server ends the connection after it.
    pub(crate) is_last: bool,
}

/// A call that is answered when its handler has ended.
#[derive(Clone, Debug)]
pub(crate) struct Deferred {
    pub(crate) id: Value,
    pub(crate) answer: Answer,
    /// How many steps it tells of, where the caller wants to hear of them.
    pub(crate) token: Option<Value>,
    pub(crate) steps: u32,
    pub(crate) ending: Ending,
}

/// How a call ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Ending {
    /// With its result.
    Result,
    /// With an error, because it takes longer than a call may.
    Overdue,
    /// With either: it takes about as long as a call may.
    Either,
}

/// How a connection stands with its client.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Standing {
    /// Whatever is asked is answered.
    Open,
    /// The server had no room for it and has said so.
    Refused,
    /// The server ends it for what the client sent, and has said so.
    Broken,
}

/// One connection, as its client sees it.
#[derive(Debug)]
pub(crate) struct Conversation {
    ordered: VecDeque<Due>,
    deferred: Vec<Running>,
    /// Messages said so far: the number of the last one.
    said: u64,
    /// The last message that was certainly read.
    read: u64,
    standing: Standing,
    lines: usize,
    /// The newest catalog that an answer came from.
    catalog: u64,
    has_catalog: bool,
    /// The present moment, as far as anybody has told.
    now: Moment,
    /// Progress is left out where too much waits for the client.
    may_miss_progress: bool,
    calls_in_flight_max: usize,
    /// Questions of the server's that are still to come.
    questions: usize,
    /// The ids of those that have come.
    asked: Vec<Value>,
    pub(crate) tally: Tally,
}

#[derive(Debug)]
struct Due {
    number: u64,
    owed: Vec<Owed>,
    is_batch: bool,
}

#[derive(Debug)]
struct Running {
    number: u64,
    call: Deferred,
    told: u32,
    /// The number of the message that cancels it.
    cancelled: Option<u64>,
    said: Moment,
    /// By when it was certainly read.
    read: Option<Moment>,
}

impl Conversation {
    /// A connection on which nothing was said.
    pub(crate) fn new(may_miss_progress: bool, calls_in_flight_max: usize) -> Self {
        Self {
            may_miss_progress,
            calls_in_flight_max,
            questions: 0,
            asked: Vec::new(),
            ordered: VecDeque::new(),
            deferred: Vec::new(),
            said: 0,
            read: 0,
            standing: Standing::Open,
            lines: 0,
            catalog: 0,
            has_catalog: false,
            now: Moment::ORIGIN,
            tally: Tally::default(),
        }
    }

    /// Tells the present moment.
    pub(crate) const fn at(&mut self, now: Moment) {
        self.now = now;
    }

    /// Notes what follows from messages that are about to be said, one note each.
    pub(crate) fn say(&mut self, notes: Vec<Vec<Note>>) {
        for message in notes {
            self.said += 1;
            for note in message {
                self.note(note);
            }
        }
    }

    fn note(&mut self, note: Note) {
        let number = self.said;
        match note {
            Note::Owed(owed) => {
                self.ordered.push_back(Due { number, owed: vec![owed], is_batch: false });
            }
            Note::Batch(owed) => self.ordered.push_back(Due { number, owed, is_batch: true }),
            Note::Deferred(call) => {
                let said = self.now;
                let running = Running { number, call, told: 0, cancelled: None, said, read: None };
                self.deferred.push(running);
            }
            Note::Cancelled(id) => {
                let running = self.deferred.iter_mut().find(|running| running.call.id == id);
                if let Some(running) = running {
                    running.cancelled = Some(number);
                }
            }
            Note::Asked => self.questions += 1,
            Note::Nothing => {}
        }
    }

    /// Hears one line.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub(crate) fn hear(&mut self, line: &[u8]) -> Result<(), String> {
        self.lines += 1;
        let text = String::from_utf8_lossy(line);
        if self.standing != Standing::Open {
            return Err(format!("more is said after the last word: {text}"));
        }
        let message: Value =
            serde_json::from_slice(line).map_err(|error| format!("{error}: {text}"))?;
        if let Some(batch) = message.as_array() {
            return self.hear_batch(batch);
        }
        match message["method"].as_str() {
            Some("notifications/progress") => self.hear_progress(&message["params"]),
            Some("roots/list") if self.questions > 0 => {
                self.questions -= 1;
                self.asked.push(message["id"].clone());
                self.tally.asked += 1;
                Ok(())
            }
            Some("notifications/cancelled") => self.hear_withdrawal(&message["params"]),
            Some(_) => Err(format!("nobody expects this: {text}")),
            None if self.is_last_word(&message) => Ok(()),
            None => self.hear_answer(&message),
        }
    }

    /// A question that was asked is taken back, once.
    fn hear_withdrawal(&mut self, params: &Value) -> Result<(), String> {
        let asked = self.asked.iter().position(|id| *id == params["requestId"]);
        let asked = asked.ok_or_else(|| format!("a question that was never asked: {params}"))?;
        self.asked.swap_remove(asked);
        self.tally.withdrawn += 1;
        Ok(())
    }

    /// Takes the two words after which a server ends a connection whatever was asked.
    fn is_last_word(&mut self, message: &Value) -> bool {
        if message.get("id").is_some_and(|id| !id.is_null()) {
            return false;
        }
        let code = message["error"]["code"].as_i64();
        if self.lines == 1 && code == Some(CONNECTION_LIMIT) {
            self.standing = Standing::Refused;
            self.tally.refused += 1;
        } else if code == Some(INTERNAL) {
            self.standing = Standing::Broken;
            self.tally.short_of_memory += 1;
        }
        self.standing != Standing::Open
    }

    fn hear_answer(&mut self, message: &Value) -> Result<(), String> {
        let front = self.ordered.front().filter(|due| !due.is_batch);
        if front.is_some_and(|due| due.owed[0].is_answered_by(message)) {
            let Some(due) = self.ordered.pop_front() else { return Ok(()) };
            self.settle(&due.owed[0], message)?;
            return self.prove(due.number);
        }
        if let Some(number) = self.take_refusal(message)? {
            return self.prove(number);
        }
        let found = self.deferred.iter().position(|running| running.call.is_answered_by(message));
        let Some(found) = found else {
            return Err(format!("nobody expects {message}; {}", self.expectations()));
        };
        let Running { number, call, told, said, .. } = self.deferred.remove(found);
        if message.get("error").is_some() {
            self.tally.overdue += 1;
            if self.deferred.iter().any(|other| other.ends_before(said)) {
                return Err(format!("{message} came too early; {}", self.expectations()));
            }
        } else if call.token.is_some() && told != call.steps && !self.may_miss_progress {
            return Err(format!("{told} of {} steps were told before {message}", call.steps));
        }
        self.tally.answers += 1;
        self.prove(number)
    }

    /// Takes the refusal of a call that is one too many; tells which message it was in. Everything
    /// that was answered before it was read has been heard by now.
    fn take_refusal(&mut self, message: &Value) -> Result<Option<u64>, String> {
        let text = message["error"]["message"].as_str().unwrap_or_default();
        if !text.contains("requests are in flight") {
            return Ok(None);
        }
        let found = self.deferred.iter().position(|it| Some(&it.call.id) == message.get("id"));
        let Some(found) = found else { return Err(format!("nobody expects {message}")) };
        let refused = self.deferred.remove(found);
        let before = self.deferred[..found].iter();
        let in_flight =
            before.filter(|it| it.cancelled.is_none_or(|cancelled| cancelled > refused.number));
        if in_flight.count() < self.calls_in_flight_max {
            return Err(format!("{message}, though fewer were; {}", self.expectations()));
        }
        self.tally.answers += 1;
        self.tally.crowded += 1;
        Ok(Some(refused.number))
    }

    fn hear_batch(&mut self, batch: &[Value]) -> Result<(), String> {
        let (mut answers, mut refused) = (Vec::new(), None);
        for message in batch {
            match self.take_refusal(message)? {
                Some(number) => refused = Some(number),
                None => answers.push(message),
            }
        }
        if let Some(number) = refused.filter(|_| answers.is_empty()) {
            return self.prove(number);
        }
        let batch = answers;
        let front = self.ordered.front().filter(|due| due.is_batch);
        let fits = front.is_some_and(|due| {
            due.owed.len() == batch.len()
                && due.owed.iter().zip(&batch).all(|(owed, said)| owed.is_answered_by(said))
        });
        let Some(due) = self.ordered.pop_front().filter(|_| fits) else {
            return Err(format!("nobody expects the batch {batch:?}; {}", self.expectations()));
        };
        for (owed, message) in due.owed.iter().zip(batch) {
            self.settle(owed, message)?;
        }
        self.tally.batches += 1;
        self.prove(due.number)
    }

    fn hear_progress(&mut self, params: &Value) -> Result<(), String> {
        let token = params.get("progressToken");
        let found = self.deferred.iter_mut().find(|running| running.call.token.as_ref() == token);
        let Some(running) = found.filter(|_| token.is_some()) else {
            return Err(format!("progress of nothing in flight: {params}"));
        };
        let (last, steps) = (running.told, running.call.steps);
        let furthest = if self.may_miss_progress { steps } else { steps.min(last + 1) };
        let next = last + 1..=furthest;
        let told = next.clone().find(|&step| params["progress"].as_f64() == Some(step.into()));
        let Some(told) = told.filter(|_| params["total"].as_f64() == Some(steps.into())) else {
            return Err(format!("step {next:?} of {steps} is due, not {params}"));
        };
        running.told = told;
        self.tally.progress += 1;
        let number = running.number;
        self.prove(number)
    }

    /// An answer has come in its turn.
    fn settle(&mut self, owed: &Owed, message: &Value) -> Result<(), String> {
        self.look_at_catalog(&message["result"])?;
        self.tally.answers += 1;
        self.tally.too_large += u64::from(owed.answer == Answer::Error(TOO_LARGE));
        if owed.is_last {
            self.standing = Standing::Broken;
        }
        if !owed.is_rival {
            return Ok(());
        }
        let is_refused = message.get("error").is_some();
        let is_in_flight =
            self.deferred.iter().any(|running| Some(&running.call.id) == owed.id.as_ref());
        self.tally.duplicates += u64::from(is_refused);
        if is_refused == is_in_flight {
            return Ok(());
        }
        Err(format!("{message}, though its id was in flight: {is_in_flight}"))
    }

    /// Checks that catalogs come in the order in which they were offered. Only answers given at
    /// once tell: a call ends with what it began with.
    fn look_at_catalog(&mut self, result: &Value) -> Result<(), String> {
        let modern = &result["_meta"]["io.modelcontextprotocol/serverInfo"];
        let server = result.get("serverInfo").unwrap_or(modern);
        let version = server["version"].as_str().and_then(|version| version.strip_prefix("1.0."));
        let Some(catalog) = version.and_then(|number| number.parse().ok()) else { return Ok(()) };
        let last = std::mem::replace(&mut self.catalog, catalog);
        self.tally.catalogs_changed += u64::from(last != catalog && self.has_catalog);
        self.has_catalog = true;
        if catalog < last {
            return Err(format!("catalog {catalog} is offered after {last}"));
        }
        Ok(())
    }

    /// Time is about to jump: whatever was asked for may be late, through nobody's fault. Returns
    /// how many calls are in flight.
    pub(crate) fn jump(&mut self) -> usize {
        for running in &mut self.deferred {
            if running.call.ending == Ending::Result {
                running.call.ending = Ending::Either;
            }
        }
        self.deferred.len()
    }

    /// Something was heard that follows from message `number`: so all before it were read, and
    /// what they asked for at once was answered.
    fn prove(&mut self, number: u64) -> Result<(), String> {
        self.read = self.read.max(number);
        if self.ordered.front().is_some_and(|due| due.number < number) {
            return Err(format!("message {number} overtook; {}", self.expectations()));
        }
        let before = self.deferred.len();
        let (read, now) = (self.read, self.now);
        for running in self.deferred.iter_mut().filter(|running| running.number <= read) {
            running.read.get_or_insert(now);
        }
        self.deferred.retain(|running| running.cancelled.is_none_or(|cancelled| cancelled > read));
        self.tally.silenced += (before - self.deferred.len()) as u64;
        Ok(())
    }

    /// How many messages were said.
    pub(crate) const fn said(&self) -> u64 {
        self.said
    }

    /// How it stands.
    pub(crate) const fn standing(&self) -> Standing {
        self.standing
    }

    /// Whether the server has been given reason to end the connection.
    pub(crate) fn awaits_last_word(&self) -> bool {
        self.ordered.iter().any(|due| due.owed.iter().any(|owed| owed.is_last))
    }

    /// Whether everything was answered that must be; cancelled calls need not.
    pub(crate) fn is_settled(&self) -> bool {
        self.ordered.is_empty() && self.deferred.iter().all(|running| running.cancelled.is_some())
    }

    /// Whether everything was answered that was certainly read.
    pub(crate) fn is_settled_as_far_as_read(&self) -> bool {
        let is_owed =
            |running: &Running| running.cancelled.is_none() && running.number <= self.read;
        !self.deferred.iter().any(is_owed)
    }

    /// What is still to be said, for whoever reads a failure.
    pub(crate) fn expectations(&self) -> String {
        let next = self.ordered.front();
        let running: Vec<String> =
            self.deferred.iter().map(|running| format!("{running:?}")).collect();
        format!("next in order: {next:?}; later: [{}]", running.join(", "))
    }
}

impl Running {
    /// Whether its time is over before that of a call that was said at this moment.
    fn ends_before(&self, said: Moment) -> bool {
        self.cancelled.is_none() && self.read.is_some_and(|read| read.after(2 * TICK) <= said)
    }
}

impl Owed {
    /// The answer to the request with this id.
    pub(crate) const fn to(id: Value, answer: Answer) -> Self {
        Self { id: Some(id), answer, is_rival: false, is_last: false }
    }

    fn is_answered_by(&self, message: &Value) -> bool {
        let is_refused = self.is_rival && Answer::Error(INVALID_REQUEST).is_said_by(message);
        message.get("id") == self.id.as_ref() && (is_refused || self.answer.is_said_by(message))
    }
}

impl Deferred {
    fn is_answered_by(&self, message: &Value) -> bool {
        message.get("id") == Some(&self.id)
            && ((self.ending != Ending::Overdue && self.answer.is_said_by(message))
                || (self.ending != Ending::Result && Answer::Error(INTERNAL).is_said_by(message)))
    }
}
