//! A client that is asked, keeps tasks and listens: does its deeds and checks what it hears.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use corelane::base::random::Random;
use corelane::base::time::Moment;
use corelane::protocol::revision::Revision;
use serde_json::{Value, json};

use crate::frames::carrier::{Carrier, Weather};
use crate::meeting::commons::Commons;
use crate::meeting::deed::{Deed, Whose};
use crate::meeting::errand::Errand;
use crate::meeting::ledger::{Heard, Ledger};
use crate::meeting::phrase::{self, Manner};
use crate::tally::Tally;

/// Who a visitor is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Person {
    pub(crate) number: u64,
    pub(crate) revision: Revision,
    /// It reads slowly.
    pub(crate) is_slow: bool,
}

/// One client.
#[derive(Debug)]
pub(crate) struct Visitor {
    person: Person,
    carrier: Carrier,
    deeds: VecDeque<Deed>,
    random: Random,
    pub(crate) ledger: Ledger,
    ids: u64,
    /// Requests whose answers are looked into.
    errands: BTreeMap<u64, Errand>,
    /// Questions that wait for it, and those that do no more.
    questions: Vec<Value>,
    replied: Vec<Value>,
    /// Bytes that are still to be written.
    unsaid: VecDeque<u8>,
    partial: Vec<u8>,
    next: Moment,
    is_deaf: bool,
    /// It has said goodbye and waits for the end of its connection.
    is_leaving: bool,
    /// Since when it has nothing to wait for, and reads.
    settled: Option<Moment>,
    ended: Option<Moment>,
    digest: u64,
}

impl Visitor {
    /// A client that has just connected.
    pub(crate) fn new(
        person: Person,
        carrier: Carrier,
        deeds: Vec<Deed>,
        random: Random,
        now: Moment,
    ) -> Self {
        let mut visitor = Self {
            person,
            carrier,
            deeds: deeds.into(),
            random,
            ledger: Ledger::new(person.revision),
            ids: person.number * 1000,
            errands: BTreeMap::new(),
            questions: Vec::new(),
            replied: Vec::new(),
            unsaid: VecDeque::new(),
            partial: Vec::new(),
            next: now,
            is_deaf: false,
            is_leaving: false,
            settled: None,
            ended: None,
            digest: 0xCBF2_9CE4_8422_2325,
        };
        visitor.read_as_it_does();
        if person.revision.is_modern() {
            visitor.greet(now);
        } else {
            visitor.shake_hands(now);
        }
        visitor
    }

    /// Whether it has gone.
    pub(crate) const fn is_over(&self) -> bool {
        self.ended.is_some()
    }

    /// When it had gone.
    pub(crate) const fn ended(&self) -> Option<Moment> {
        self.ended
    }

    /// What it heard and when, folded.
    pub(crate) const fn digest(&self) -> u64 {
        self.digest
    }

    /// When it acts next, unless it hears something before; none while it only listens.
    pub(crate) fn next(&self) -> Option<Moment> {
        if self.is_over() {
            return None;
        }
        let carries = self.carrier.next();
        if self.is_leaving {
            return carries;
        }
        if !self.unsaid.is_empty() || self.deeds.front() != Some(&Deed::Settle) || self.is_deaf {
            return carries.into_iter().chain([self.next]).min();
        }
        let wakes =
            self.settled.map_or(self.next, |settled| settled.after(TOLD_MAX).max(self.next));
        let acts = self.ledger.is_settled().then_some(wakes);
        carries.into_iter().chain(acts).min()
    }

    /// What happened on its connection.
    pub(crate) fn tally(&self) -> Tally {
        self.ledger.tally.plus(self.carrier.tally())
    }

    /// Itself, for whoever reads a failure.
    pub(crate) fn describe(&self) -> String {
        let Self { person, deeds, ledger, errands, carrier, .. } = self;
        let carrier = carrier.describe();
        format!("{person:?} is to {deeds:?}; {ledger:?}; {errands:?}; {carrier}")
    }

    /// Hears what has come and does what is due.
    ///
    /// # Errors
    ///
    /// What was heard that must not be, or not heard that must be.
    pub(crate) fn turn(
        &mut self,
        now: Moment,
        commons: &mut Commons,
        weather: Weather,
    ) -> Result<(), String> {
        if self.is_over() {
            return Ok(());
        }
        self.carrier.turn(now);
        let heard = self.hear_all(now, commons, weather);
        heard.map_err(|reason| format!("{reason}; {}", self.describe()))?;
        let has_ended = self.carrier.has_ended(now, weather);
        if has_ended.map_err(|reason| format!("{reason}; {}", self.describe()))? {
            self.end(now);
        }
        while !self.is_over() && !self.is_leaving && self.next <= now {
            let acted = self.act(now, commons);
            if !acted.map_err(|reason| format!("{reason}; {}", self.describe()))? {
                break;
            }
        }
        Ok(())
    }

    fn hear_all(
        &mut self,
        now: Moment,
        commons: &mut Commons,
        weather: Weather,
    ) -> Result<(), String> {
        let heard = self.carrier.heard(now, weather)?;
        if heard.is_empty() {
            return Ok(());
        }
        for byte in now.nanoseconds().to_le_bytes().iter().chain(&heard) {
            self.digest = (self.digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
        }
        self.partial.extend_from_slice(&heard);
        while let Some(end) = self.partial.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.partial.drain(..=end).collect();
            let message = serde_json::from_slice(&line).map_err(|error| error.to_string())?;
            self.hear(&message, now, commons)?;
        }
        Ok(())
    }

    fn hear(&mut self, message: &Value, now: Moment, commons: &mut Commons) -> Result<(), String> {
        match self.ledger.hear(message, now)? {
            Heard::Answer { id, method, span } => {
                self.ledger.shelf.hear(method, message, &mut commons.editions)?;
                let Some(errand) = self.errands.remove(&id) else { return Ok(()) };
                let kind = (method, self.person.revision.is_modern());
                if let Some(task) = errand.settle(message, kind, span, commons)? {
                    self.ledger.begin(&task);
                }
                Ok(())
            }
            Heard::Question { id } => {
                self.questions.push(message.clone());
                commons.name_question(&id)
            }
            Heard::Task => commons.see(&message["params"], None, now),
            Heard::Nothing => Ok(()),
        }
    }

    /// Does one deed; `false` where it has to wait.
    ///
    /// # Errors
    ///
    /// What it has not heard in time.
    fn act(&mut self, now: Moment, commons: &mut Commons) -> Result<bool, String> {
        if !self.unsaid.is_empty() {
            self.write(now);
            return Ok(true);
        }
        let deed = self.deeds.pop_front().unwrap_or(Deed::Close);
        match deed {
            Deed::Wait(span) => self.next = now.after(span),
            Deed::StopReading => {
                self.is_deaf = true;
                self.settled = None;
                self.carrier.stop_reading();
            }
            Deed::ReadAgain => self.read_as_it_does(),
            Deed::Settle => return self.settle(now, commons),
            Deed::Close => self.leave(now),
            Deed::Reset => {
                self.carrier.reset();
                self.end(now);
            }
            deed => self.speak(deed, now, commons),
        }
        if self.random.chance(1, 2) {
            self.next =
                self.next.max(now.after(Duration::from_micros(self.random.below(1_000) as u64)));
        }
        Ok(true)
    }

    /// Waits until everything was answered, and a little longer for what is told unasked.
    fn settle(&mut self, now: Moment, commons: &Commons) -> Result<bool, String> {
        if self.is_deaf {
            self.read_as_it_does();
        }
        match self.settled.filter(|_| self.ledger.is_settled()) {
            Some(settled) if now >= settled.after(TOLD_MAX) => {
                self.settled = None;
                let must_be = |task: &str| commons.must_be_known(task, now, TOLD_MAX);
                let untold = self.ledger.untold(must_be).filter(|_| !self.person.is_slow);
                return untold.map_or(Ok(true), Err);
            }
            Some(_) => {}
            None => self.settled = self.ledger.is_settled().then_some(now),
        }
        self.deeds.push_front(Deed::Settle);
        Ok(false)
    }

    fn speak(&mut self, deed: Deed, now: Moment, commons: &mut Commons) {
        let is_modern = self.person.revision.is_modern();
        match deed {
            Deed::Call(tool) => self.call(tool, None, now),
            Deed::Begin(tool) => self.begin(tool, now),
            Deed::Reply(manner) => self.reply(manner, commons),
            Deed::ReplyAgain if !self.replied.is_empty() => {
                let question = self.replied[self.random.below(self.replied.len())].clone();
                self.say(&phrase::response(&question, Manner::Well, "twice"));
            }
            Deed::Retry(_) | Deed::RetryMute | Deed::Replay if is_modern => {
                self.retry(deed, now, commons);
            }
            Deed::CancelCall => {
                let waiting: Vec<u64> = self.ledger.waiting().collect();
                self.cancel(&waiting);
            }
            Deed::EndStream => {
                let streams: Vec<u64> = self.ledger.listening().collect();
                self.cancel(&streams);
            }
            Deed::Get(whose) => self.ask_task("tasks/get", whose, now, commons),
            Deed::CancelTask(whose) => self.ask_task("tasks/cancel", whose, now, commons),
            Deed::Update(manner) if is_modern => self.update(manner, now, commons),
            Deed::Result if self.has_core_tasks() => {
                self.ask_task("tasks/result", Whose::Anybodys, now, commons);
            }
            Deed::Listen if is_modern => self.listen(now, commons),
            Deed::Subscribe | Deed::Unsubscribe if !is_modern => self.subscribe(deed, now),
            Deed::Touch => self.call_plainly("touch", now),
            Deed::Vary => self.call_plainly("vary", now),
            Deed::Greet => self.greet(now),
            _ => {}
        }
    }

    fn shake_hands(&mut self, now: Moment) {
        let id = self.new_id();
        self.ledger.ask(id, "initialize", now);
        self.say(&phrase::initialize(id, self.person.revision));
        self.ledger.confirm();
        self.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    }

    fn greet(&mut self, now: Moment) {
        let is_modern = self.person.revision.is_modern();
        let method = if is_modern { "server/discover" } else { "ping" };
        self.request(method, json!({}), now);
    }

    fn call_plainly(&mut self, tool: &'static str, now: Moment) {
        let uri = phrase::RESOURCES[self.random.below(phrase::RESOURCES.len())];
        self.request("tools/call", json!({"name": tool, "arguments": {"uri": uri}}), now);
    }

    fn call(&mut self, tool: &'static str, more: Option<(Value, Errand)>, now: Moment) {
        let mut params = json!({"name": tool, "arguments": {}});
        let mut errand = Errand::Call { tool, state: None, words: Vec::new() };
        if let Some((extras, why)) = more {
            params["requestState"] = extras["requestState"].clone();
            params["inputResponses"] = extras["inputResponses"].clone();
            errand = why;
        }
        let id = self.request("tools/call", params, now);
        self.errands.insert(id, errand);
    }

    fn begin(&mut self, tool: &'static str, now: Moment) {
        if !self.person.revision.is_modern() && !self.has_core_tasks() {
            return;
        }
        let seconds = [0.0, 0.01, 0.2, 3.0][self.random.below(4)];
        let arguments = match tool {
            "confirm_delete" => json!({"filename": "nothing"}),
            "slow_compute" => json!({"seconds": seconds}),
            _ => json!({}),
        };
        let mut params = json!({"name": tool, "arguments": arguments});
        if self.has_core_tasks() {
            let ttl = [Value::Null, json!(1), json!(1500)][self.random.below(3)].clone();
            params["task"] = if ttl.is_null() { json!({}) } else { json!({"ttl": ttl}) };
        }
        let id = self.request("tools/call", params, now);
        self.errands.insert(id, Errand::Call { tool, state: None, words: Vec::new() });
    }

    fn reply(&mut self, manner: Manner, commons: &mut Commons) {
        if self.questions.is_empty() {
            return;
        }
        let question = self.questions.remove(self.random.below(self.questions.len()));
        commons.tally.replies += 1;
        self.say(&phrase::response(&question, manner, "a legacy word"));
        self.replied.push(question);
    }

    /// Takes up what some connection left: a state that nobody brought, or one that somebody did.
    fn retry(&mut self, deed: Deed, now: Moment, commons: &mut Commons) {
        let is_replay = deed == Deed::Replay;
        let states = commons.states.iter().filter(|(_, state)| (state.brought > 0) == is_replay);
        let states: Vec<&String> = states.map(|(text, _)| text).collect();
        if states.is_empty() {
            return;
        }
        let text = states[self.random.below(states.len())].clone();
        let Some(state) = commons.bring(&text) else { return };
        let word = format!("word {} of {}", self.ids, self.person.number);
        let manner = if let Deed::Retry(manner) = deed { manner } else { Manner::Well };
        let (mut words, mut answers) = (state.words, json!({}));
        if deed != Deed::RetryMute {
            answers = phrase::answers(&state.questions, manner, &word);
            let questions = state.questions.as_object().into_iter().flatten();
            let is_told = questions.into_iter().any(|(_, asked)| phrase::asks_for_a_word(asked));
            if manner == Manner::Well && is_told {
                words.push(word);
            }
        }
        let extras = json!({"requestState": text, "inputResponses": answers});
        let errand = Errand::Call { tool: state.tool, state: Some(text), words };
        self.call(state.tool, Some((extras, errand)), now);
    }

    fn cancel(&mut self, ids: &[u64]) {
        if ids.is_empty() {
            return;
        }
        let id = ids[self.random.below(ids.len())];
        self.ledger.cancel(id);
        self.say(&phrase::cancelled(id));
    }

    fn ask_task(&mut self, method: &'static str, whose: Whose, now: Moment, commons: &mut Commons) {
        if !self.person.revision.is_modern() && !self.has_core_tasks() {
            return;
        }
        let Some((task, errand)) = self.choose_task(whose, commons) else { return };
        let id = self.request(method, json!({"taskId": task}), now);
        self.errands.insert(id, errand);
    }

    fn choose_task(&mut self, whose: Whose, commons: &mut Commons) -> Option<(String, Errand)> {
        if whose == Whose::Nobodys {
            let name = format!("{:032x}", self.random.next_u64());
            return Some((name, Errand::Nothing));
        }
        let is_ours = self.person.revision.is_modern() == (whose == Whose::Anybodys);
        let tasks = commons.tasks.iter().filter(|(_, task)| task.is_modern == is_ours);
        let tasks: Vec<&String> = tasks.map(|(id, _)| id).collect();
        let count = tasks.len();
        let id = (*tasks.get(self.random.below(count.max(1)))?).clone();
        let is_own = self.ledger.has_begun(&id);
        commons.tally.tasks_visited += u64::from(!is_own);
        let is_known = whose == Whose::Anybodys;
        let errand = if is_known { Errand::Task(id.clone()) } else { Errand::Nothing };
        Some((id, errand))
    }

    fn update(&mut self, manner: Manner, now: Moment, commons: &mut Commons) {
        let Some((task, errand)) = self.choose_task(Whose::Anybodys, commons) else { return };
        let questions = &commons.tasks[&task].questions;
        let mut answers = phrase::answers(questions, manner, "word");
        if self.random.chance(1, 4) {
            answers["nobody asked"] = json!({"action": "accept"});
        }
        commons.tally.replies += u64::from(questions.is_object());
        let params = json!({"taskId": task, "inputResponses": answers});
        let id = self.request("tasks/update", params, now);
        self.errands.insert(id, errand);
    }

    fn listen(&mut self, now: Moment, commons: &Commons) {
        let id = self.new_id();
        let mut tasks = Vec::new();
        for (task, _) in commons.tasks.iter().filter(|(_, task)| task.is_modern) {
            if self.random.chance(1, 2) && tasks.len() < 8 {
                tasks.push(task);
            }
        }
        let wish = phrase::wish(&mut self.random, &tasks);
        self.ledger.listen(id, &wish, now);
        let params = json!({"notifications": wish});
        self.say(&phrase::request(id, "subscriptions/listen", params, self.person.revision));
    }

    fn subscribe(&mut self, deed: Deed, now: Moment) {
        let (id, uri) =
            (self.new_id(), phrase::RESOURCES[self.random.below(phrase::RESOURCES.len())]);
        let method = if deed == Deed::Subscribe {
            self.ledger.subscribe(id, uri, now);
            "resources/subscribe"
        } else {
            self.ledger.unsubscribe(id, uri, now);
            "resources/unsubscribe"
        };
        self.say(&phrase::request(id, method, json!({"uri": uri}), self.person.revision));
    }

    fn has_core_tasks(&self) -> bool {
        self.person.revision.dialect().core_tasks
    }

    const fn new_id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    fn request(&mut self, method: &'static str, params: Value, now: Moment) -> u64 {
        let id = self.new_id();
        self.ledger.ask(id, method, now);
        self.say(&phrase::request(id, method, params, self.person.revision));
        id
    }

    fn say(&mut self, message: &Value) {
        self.settled = None;
        self.unsaid.extend(format!("{message}\n").bytes());
    }

    /// Writes a piece of what it says, most often all of it.
    fn write(&mut self, now: Moment) {
        let length = match self.random.below(6) {
            0 => 1 + self.random.below(self.unsaid.len()),
            _ => self.unsaid.len(),
        };
        let piece: Vec<u8> = self.unsaid.drain(..length).collect();
        self.carrier.write(&piece, now);
        if self.random.chance(1, 3) {
            self.next = now.after(Duration::from_micros(self.random.below(300) as u64));
        }
    }

    fn read_as_it_does(&mut self) {
        self.is_deaf = false;
        if self.person.is_slow {
            let bytes = 256 + self.random.below(4_000);
            let every = Duration::from_micros(1 + self.random.below(1_000) as u64);
            self.carrier.read_slowly(bytes, every);
        } else {
            self.carrier.read_eagerly();
        }
    }

    /// Goes away.
    fn leave(&mut self, now: Moment) {
        if self.is_deaf {
            self.read_as_it_does();
        }
        self.is_leaving = true;
        if self.carrier.leave(now) {
            self.end(now);
        }
    }

    fn end(&mut self, now: Moment) {
        self.ended = Some(now);
        self.ledger.tally.vanished += u64::from(!self.ledger.is_settled());
    }
}

/// How long it may take until everybody who listens was told of something.
const TOLD_MAX: Duration = Duration::from_millis(30);
