//! What a client says that is asked, keeps tasks and listens: the messages of its deeds, each noted
//! where its answer is looked for.

use corelane::base::time::Moment;
use serde_json::{Value, json};

use crate::meeting::commons::Commons;
use crate::meeting::deed::{Deed, Whose};
use crate::meeting::errand::Errand;
use crate::meeting::phrase::{self, Manner};
use crate::meeting::visitor::Visitor;

impl Visitor {
    /// Says what a deed says, where its era knows it.
    pub(super) fn speak(&mut self, deed: Deed, now: Moment, commons: &mut Commons) {
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

    pub(super) fn shake_hands(&mut self, now: Moment) {
        let id = self.new_id();
        self.ledger.ask(id, "initialize", now);
        self.say(&phrase::initialize(id, self.person.revision));
        self.ledger.confirm();
        self.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    }

    pub(super) fn greet(&mut self, now: Moment) {
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
}
