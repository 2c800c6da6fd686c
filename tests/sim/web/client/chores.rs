//! What a client asks for besides the tool that works, and what it makes of the answers: several
//! messages in one array, tasks, other editions of the catalog.

use std::time::Duration;

use corelane::base::time::Moment;
use corelane::engine::ring::sim::World;
use corelane::protocol::revision::Revision;
use serde_json::{Value, json};

use super::guest::Guest;
use super::line::{Asked, Kind};
use super::speech::{self, Style};
use crate::meeting::commons::Span;
use crate::meeting::deed::JOBS;
use crate::meeting::editions;
use crate::meeting::errand::Errand;
use crate::meeting::phrase;
use crate::web::offer::note;

/// A request whose answer is looked into.
#[derive(Clone, Debug)]
pub(super) struct Chore {
    method: &'static str,
    is_modern: bool,
    said: Moment,
    /// What it was about, where that is a task.
    errand: Option<Errand>,
}

impl Guest {
    /// Says several messages at once, as sessions of 2025-03-26 may.
    pub(super) fn batch(&mut self, session: usize, world: &World, now: Moment) {
        if self.books[session].revision != Revision::V2025_03_26 {
            return;
        }
        let mut messages = Vec::new();
        let count = 1 + self.random.below(4);
        for _ in 0..count {
            let id = self.new_id();
            let order = self.order();
            let mut params = speech::work(self.number, order);
            params["_meta"] = json!({"progressToken": id});
            let (method, params, least) = match self.random.below(3) {
                0 => ("ping", json!({}), Duration::ZERO),
                _ => ("tools/call", params, order.least()),
            };
            messages.push(phrase::request(id, method, params, Revision::V2025_03_26));
            self.books[session].ask(id, least, now);
        }
        let first = messages[0]["id"].as_u64().unwrap_or_default();
        self.books[session].group(first, count as u64);
        if self.random.chance(1, 3) {
            let notice = json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"});
            messages.insert(self.random.below(count + 1), notice);
        }
        let style = Style::draw(&mut self.random);
        let messages = Value::Array(messages);
        let text = speech::post(&messages, Some(self.books[session].name()), style);
        let asked = Asked::new(Kind::Request, Some(first), Some(session), now);
        self.tally.batches += 1;
        self.say(Asked { is_last: style.is_last(), ..asked }, &text, world, now);
    }

    /// Has a tool run as a task, or asks for one that anybody began.
    pub(super) fn keep_tasks(&mut self, session: Option<usize>, world: &World, now: Moment) {
        let session = session.filter(|session| {
            self.books[*session].revision.dialect().core_tasks && self.random.chance(3, 4)
        });
        if self.random.chance(1, 2) {
            let tool = JOBS[self.random.below(JOBS.len())];
            let seconds = [0.0, 0.01, 0.2][self.random.below(3)];
            let arguments = match tool {
                "confirm_delete" => json!({"filename": "nothing"}),
                "slow_compute" => json!({"seconds": seconds}),
                _ => json!({}),
            };
            let mut params = json!({"name": tool, "arguments": arguments});
            if session.is_some() {
                let ttl = [1, 1_500][self.random.below(2)];
                params["task"] = json!({"ttl": ttl});
            }
            let errand = Errand::Call { tool, state: None, words: Vec::new() };
            return self.entrust(session, ("tools/call", params), Some(errand), world, now);
        }
        let Some(task) = self.choose_task(session.is_none()) else { return };
        let method = ["tasks/get", "tasks/get", "tasks/cancel"][self.random.below(3)];
        let params = json!({"taskId": task});
        self.entrust(session, (method, params), Some(Errand::Task(task)), world, now);
    }

    /// One that anybody of the same era began.
    fn choose_task(&mut self, is_modern: bool) -> Option<String> {
        let chronicle = self.chronicle.borrow();
        let tasks = chronicle.commons.tasks.iter().filter(|(_, task)| task.is_modern == is_modern);
        let tasks: Vec<&String> = tasks.map(|(id, _)| id).collect();
        let place = self.random.below(tasks.len().max(1));
        tasks.get(place).map(|task| (*task).clone())
    }

    /// Has another edition of the catalog made.
    pub(super) fn vary(&mut self, session: Option<usize>, world: &World, now: Moment) {
        let params = json!({"name": "vary", "arguments": {}});
        self.entrust(session, ("tools/call", params), None, world, now);
    }

    /// Asks which edition there is.
    pub(super) fn look(&mut self, world: &World, now: Moment) {
        self.entrust(None, ("server/discover", json!({})), None, world, now);
    }

    /// Asks for what is looked into when it is answered.
    fn entrust(
        &mut self,
        session: Option<usize>,
        (method, params): (&'static str, Value),
        errand: Option<Errand>,
        world: &World,
        now: Moment,
    ) {
        let id = self.ids + 1;
        let is_modern = session.is_none();
        self.chores.insert(id, Chore { method, is_modern, said: now, errand });
        if let Some(session) = session {
            return self.request(session, method, params, Duration::ZERO, world, now);
        }
        let id = self.new_id();
        let style = Style::draw(&mut self.random);
        let message = phrase::request(id, method, params, Revision::LATEST);
        let text = speech::post(&message, None, style);
        let asked = Asked::new(Kind::Modern, Some(id), None, now);
        self.say(Asked { is_last: style.is_last(), ..asked }, &text, world, now);
    }

    /// Opens a modern stream of everything, some tasks included.
    pub(super) fn subscribe(&mut self, world: &World, now: Moment) {
        let id = self.new_id();
        let mut wish = json!({
            "toolsListChanged": true, "resourceSubscriptions": [note(self.number)],
        });
        let task = self.choose_task(true).filter(|_| self.random.chance(1, 2));
        if let Some(task) = &task {
            wish["taskIds"] = json!([task]);
        }
        let params = json!({"notifications": wish});
        let message = phrase::request(id, "subscriptions/listen", params, Revision::LATEST);
        let text = speech::post(&message, None, Style::default());
        let asked = Asked::new(Kind::Subscribe, Some(id), None, now);
        self.say(Asked { task, ..asked }, &text, world, now);
    }

    /// The answer to a request was heard: it fits what everybody knows.
    pub(super) fn conclude(
        &mut self,
        message: &Value,
        session: Option<usize>,
        now: Moment,
    ) -> Result<(), String> {
        let id = message["id"].as_u64().unwrap_or_default();
        let Some(chore) = self.chores.remove(&id) else { return Ok(()) };
        let Chore { method, is_modern, said, errand } = chore;
        let chronicle = &mut *self.chronicle.borrow_mut();
        if let Some(errand) = errand {
            let (span, commons) = (Span { said, heard: now }, &mut chronicle.commons);
            let begun = errand.settle(message, (method, is_modern), span, commons)?;
            if let (Some(task), Some(session)) = (begun, session) {
                self.books[session].begun.insert(task);
            }
            return Ok(());
        }
        let Some(number) = editions::number(method, message) else { return Ok(()) };
        if method != "tools/call" {
            self.seen = Some(number);
            return chronicle.see(number, said);
        }
        chronicle.change(number, said, now);
        if chronicle.commons.editions.insert(number) {
            return Ok(());
        }
        Err(format!("two changes made edition {number}"))
    }

    /// A notification was heard: it is for somebody who listens, and about what they may hear of.
    pub(super) fn notice(
        &mut self,
        asked: &mut Asked,
        message: &Value,
        now: Moment,
    ) -> Result<(), String> {
        let params = &message["params"];
        let mut chronicle = self.chronicle.borrow_mut();
        match message["method"].as_str().unwrap_or_default() {
            "notifications/tools/list_changed" if asked.is_endless() => {
                asked.told = Some(now);
                self.tally.notices += 1;
                if let Some(session) = asked.session {
                    let book = &mut self.books[session];
                    book.lists_told += 1;
                    return chronicle.tell(book.lists_told, book.begun_at);
                }
                asked.lists_told += 1;
                chronicle.tell(asked.lists_told, asked.said)
            }
            "notifications/tasks" if asked.kind == Kind::Subscribe => {
                if params["taskId"].as_str() != asked.task.as_deref() {
                    return Err(format!("{message} was not asked for by {asked:?}"));
                }
                chronicle.commons.see(params, None, now)
            }
            "notifications/tasks/status" => {
                let task = params["taskId"].as_str().unwrap_or_default().to_owned();
                let Some(session) = asked.session else {
                    return Err(format!("{message} is said outside of a session"));
                };
                self.books[session].told.insert(task);
                Ok(())
            }
            name if name.ends_with("list_changed") => Err(format!("{message} was not asked for")),
            _ => Ok(()),
        }
    }
}
