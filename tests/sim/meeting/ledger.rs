//! What one client that asks, is asked and listens may hear: the checker of its connection.
//!
//! What it checks: each request is answered once, and not after its cancellation was read; a stream
//! is acknowledged before anything is said on it, hears of what was granted and of nothing after
//! its end; a session hears of what it subscribed to; questions come while something can ask them,
//! and are taken back once. What answers say is looked at elsewhere ([`crate::meeting::commons`]).

use std::collections::{BTreeMap, BTreeSet};

use corelane::base::time::Moment;
use corelane::protocol::revision::Revision;
use serde_json::Value;

use crate::meeting::commons::Span;
use crate::meeting::editions::Shelf;
use crate::tally::Tally;

/// The books of one connection.
#[derive(Debug)]
pub(crate) struct Ledger {
    is_modern: bool,
    /// Messages said so far, responses aside.
    said: u64,
    /// Requests that wait for their answers, by their ids.
    pending: BTreeMap<u64, Pending>,
    streams: BTreeMap<u64, Stream>,
    /// Resources that a session subscribed to, and when it said so last.
    subscribed: BTreeMap<String, u64>,
    /// Those that it wants to hear of no more, by the request that says so.
    leaving: BTreeMap<u64, String>,
    /// Whether the server may take the handshake for complete.
    is_initialized: bool,
    /// Tasks that this connection began.
    begun: BTreeSet<String>,
    /// Whether each question was taken back.
    questions: BTreeMap<String, bool>,
    /// The editions of the catalog that it heard of.
    pub(crate) shelf: Shelf,
    pub(crate) tally: Tally,
}

/// A request that waits.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    method: &'static str,
    number: u64,
    at: Moment,
    /// The message that took it back.
    cancelled: Option<u64>,
}

/// A stream of notifications.
#[derive(Debug)]
struct Stream {
    wish: Value,
    granted: Option<Value>,
    cancelled: Option<u64>,
    is_over: bool,
    /// Tasks that were told to have ended.
    ended: BTreeSet<String>,
}

/// What was heard, where there is more to look at.
#[derive(Debug)]
pub(crate) enum Heard {
    /// The answer to a request.
    Answer { id: u64, method: &'static str, span: Span },
    /// A question to this client.
    Question { id: String },
    /// How a task stands.
    Task,
    /// Nothing of the kind.
    Nothing,
}

impl Ledger {
    pub(crate) fn new(revision: Revision) -> Self {
        Self {
            is_modern: revision.is_modern(),
            said: 0,
            pending: BTreeMap::new(),
            streams: BTreeMap::new(),
            subscribed: BTreeMap::new(),
            leaving: BTreeMap::new(),
            is_initialized: false,
            begun: BTreeSet::new(),
            questions: BTreeMap::new(),
            shelf: Shelf::default(),
            tally: Tally::default(),
        }
    }

    /// A request is said.
    pub(crate) fn ask(&mut self, id: u64, method: &'static str, at: Moment) {
        self.said += 1;
        let pending = Pending { method, number: self.said, at, cancelled: None };
        self.pending.insert(id, pending);
    }

    /// The end of the handshake is said.
    pub(crate) const fn confirm(&mut self) {
        self.said += 1;
        self.is_initialized = true;
    }

    /// A stream is asked for.
    pub(crate) fn listen(&mut self, id: u64, wish: &Value, at: Moment) {
        self.ask(id, "subscriptions/listen", at);
        let wish = wish.clone();
        let ended = BTreeSet::new();
        let stream = Stream { wish, granted: None, cancelled: None, is_over: false, ended };
        self.streams.insert(id, stream);
    }

    /// A request or a stream is taken back.
    pub(crate) fn cancel(&mut self, id: u64) {
        self.said += 1;
        if let Some(pending) = self.pending.get_mut(&id) {
            pending.cancelled.get_or_insert(self.said);
        }
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.cancelled.get_or_insert(self.said);
        }
    }

    /// A session wants to hear of a resource.
    pub(crate) fn subscribe(&mut self, id: u64, uri: &str, at: Moment) {
        self.ask(id, "resources/subscribe", at);
        self.subscribed.insert(uri.to_owned(), self.said);
    }

    /// A session wants to hear of it no more.
    pub(crate) fn unsubscribe(&mut self, id: u64, uri: &str, at: Moment) {
        self.ask(id, "resources/unsubscribe", at);
        self.leaving.insert(id, uri.to_owned());
    }

    /// A task was begun here.
    pub(crate) fn begin(&mut self, task: &str) {
        self.begun.insert(task.to_owned());
    }

    /// Whether a task was begun here.
    pub(crate) fn has_begun(&self, task: &str) -> bool {
        self.begun.contains(task)
    }

    /// Requests that wait and were not taken back; streams are none.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = u64> {
        let is_waiting =
            |pending: &Pending| pending.cancelled.is_none() && !is_stream(pending.method);
        self.pending.iter().filter(move |(_, pending)| is_waiting(pending)).map(|(id, _)| *id)
    }

    /// Streams that stand.
    pub(crate) fn listening(&self) -> impl Iterator<Item = u64> {
        let stands = |stream: &Stream| stream.cancelled.is_none() && !stream.is_over;
        self.streams.iter().filter(move |(_, stream)| stands(stream)).map(|(id, _)| *id)
    }

    /// Whether every request was answered that must be, and every stream acknowledged or refused.
    pub(crate) fn is_settled(&self) -> bool {
        let is_mute = |stream: &Stream| {
            stream.granted.is_none() && stream.cancelled.is_none() && !stream.is_over
        };
        self.waiting().next().is_none() && !self.streams.values().any(is_mute)
    }

    /// A task whose end was not told on a stream that stands and asked for it, where it `must_be`.
    pub(crate) fn untold(&self, must_be: impl Fn(&str) -> bool) -> Option<String> {
        let streams = self.streams.iter().filter(|(_, it)| it.cancelled.is_none() && !it.is_over);
        streams.into_iter().find_map(|(id, stream)| {
            let tasks = stream.granted.as_ref()?["taskIds"].as_array()?;
            let mut tasks = tasks.iter().filter_map(Value::as_str);
            let task = tasks.find(|task| must_be(task) && !stream.ended.contains(*task))?;
            Some(format!("the end of task {task} was not told on stream {id}"))
        })
    }

    /// A message was heard.
    ///
    /// # Errors
    ///
    /// Why it must not have been.
    pub(crate) fn hear(&mut self, message: &Value, now: Moment) -> Result<Heard, String> {
        if message["jsonrpc"] != "2.0" {
            return Err(format!("{message} is no message"));
        }
        match (message["method"].as_str(), message.get("id")) {
            (None, Some(id)) => self.hear_answer(message, id, now),
            (Some(method), Some(id)) => self.hear_question(method, id, message),
            (Some(method), None) => self.hear_notice(method, message),
            (None, None) => Err(format!("{message} answers nobody")),
        }
    }

    fn hear_answer(&mut self, message: &Value, id: &Value, now: Moment) -> Result<Heard, String> {
        let known = id.as_u64().and_then(|id| Some((id, self.pending.remove(&id)?)));
        let Some((id, pending)) = known else {
            return Err(format!("{message} answers nothing that waits"));
        };
        if message.get("result").is_some() == message.get("error").is_some() {
            return Err(format!("{message} is no answer"));
        }
        self.tally.answers += 1;
        if let Some(stream) = self.streams.get_mut(&id) {
            if stream.granted.is_none() && message.get("result").is_some() {
                return Err(format!("{message} ends a stream that was not acknowledged"));
            }
            stream.is_over = true;
        }
        if let Some(uri) = self.leaving.remove(&id)
            && self.subscribed.get(&uri).is_some_and(|said| *said < pending.number)
        {
            self.subscribed.remove(&uri);
        }
        if is_prompt(pending.method) {
            self.prove(pending.number);
        }
        let span = Span { said: pending.at, heard: now };
        Ok(Heard::Answer { id, method: pending.method, span })
    }

    /// Message `number` was read, and so were all before it.
    fn prove(&mut self, number: u64) {
        let is_read = |cancelled: Option<u64>| cancelled.is_some_and(|it| it < number);
        let before = self.pending.len();
        self.pending.retain(|_, pending| !is_read(pending.cancelled));
        self.tally.silenced += (before - self.pending.len()) as u64;
        for stream in self.streams.values_mut().filter(|stream| is_read(stream.cancelled)) {
            stream.is_over = true;
        }
    }

    fn hear_question(
        &mut self,
        method: &str,
        id: &Value,
        message: &Value,
    ) -> Result<Heard, String> {
        let is_known = ["elicitation/create", "roots/list", "sampling/createMessage"];
        let Some(id) = id.as_str().filter(|_| is_known.contains(&method)) else {
            return Err(format!("{message} asks for what nobody can answer"));
        };
        if self.is_modern {
            return Err(format!("{message} asks a client that can only be asked in rounds"));
        }
        let related = &message["params"]["_meta"]["io.modelcontextprotocol/related-task"];
        let may_ask = match related["taskId"].as_str() {
            Some(task) => self.begun.contains(task),
            // A call that was taken back may have asked before that was read.
            None => self.pending.values().any(|pending| pending.method == "tools/call"),
        };
        if !may_ask || self.questions.insert(id.to_owned(), false).is_some() {
            return Err(format!("{message} is asked by nobody, or twice"));
        }
        Ok(Heard::Question { id: id.to_owned() })
    }

    fn hear_notice(&mut self, method: &str, message: &Value) -> Result<Heard, String> {
        let params = &message["params"];
        if method == "notifications/cancelled" {
            let question = params["requestId"].as_str();
            let question = question.and_then(|id| self.questions.get_mut(id));
            if question.is_none_or(|is_over| std::mem::replace(is_over, true)) {
                return Err(format!("{message} takes back what does not stand"));
            }
            self.tally.withdrawn += 1;
            return Ok(Heard::Nothing);
        }
        if let Some(stream) = params["_meta"].get("io.modelcontextprotocol/subscriptionId") {
            return self.hear_frame(method, stream, message);
        }
        self.tally.notices += 1;
        let is_wanted = !self.is_modern
            && match method {
                "notifications/tools/list_changed"
                | "notifications/prompts/list_changed"
                | "notifications/resources/list_changed" => self.is_initialized,
                "notifications/resources/updated" => {
                    params["uri"].as_str().is_some_and(|uri| self.subscribed.contains_key(uri))
                }
                "notifications/tasks/status" => {
                    params["taskId"].as_str().is_some_and(|task| self.begun.contains(task))
                }
                _ => false,
            };
        if !is_wanted {
            return Err(format!("{message} was not asked for"));
        }
        let is_task = method == "notifications/tasks/status";
        Ok(if is_task { Heard::Task } else { Heard::Nothing })
    }

    fn hear_frame(
        &mut self,
        method: &str,
        stream: &Value,
        message: &Value,
    ) -> Result<Heard, String> {
        let params = &message["params"];
        let stream = stream.as_u64().and_then(|id| self.streams.get_mut(&id));
        let Some(stream) = stream.filter(|stream| self.is_modern && !stream.is_over) else {
            return Err(format!("{message} is said on a stream that does not stand"));
        };
        if method == "notifications/subscriptions/acknowledged" {
            let granted = &params["notifications"];
            if stream.granted.is_some() || !is_within(granted, &stream.wish) {
                return Err(format!("{message} grants twice, or more than {}", stream.wish));
            }
            stream.granted = Some(granted.clone());
            self.tally.streams += 1;
            return Ok(Heard::Nothing);
        }
        let Some(granted) = &stream.granted else {
            return Err(format!("{message} comes before the acknowledgement"));
        };
        let holds =
            |list: &Value, name: &Value| list.as_array().is_some_and(|names| names.contains(name));
        let is_granted = match method {
            "notifications/tools/list_changed" => granted["toolsListChanged"] == true,
            "notifications/prompts/list_changed" => granted["promptsListChanged"] == true,
            "notifications/resources/list_changed" => granted["resourcesListChanged"] == true,
            "notifications/resources/updated" => {
                holds(&granted["resourceSubscriptions"], &params["uri"])
            }
            "notifications/tasks" => holds(&granted["taskIds"], &params["taskId"]),
            _ => false,
        };
        if !is_granted {
            return Err(format!("{message} was not asked for by {granted}"));
        }
        self.tally.frames += 1;
        if method != "notifications/tasks" {
            return Ok(Heard::Nothing);
        }
        let task = params["taskId"].as_str().unwrap_or_default();
        if ["completed", "failed", "cancelled"].iter().any(|end| params["status"] == **end) {
            stream.ended.insert(task.to_owned());
        } else if stream.ended.contains(task) {
            return Err(format!("{message} is said of a task that was told to have ended"));
        }
        Ok(Heard::Task)
    }
}

/// Whether a method is answered as soon as it is read.
fn is_prompt(method: &str) -> bool {
    matches!(method, "ping" | "server/discover" | "tools/list" | "resources/unsubscribe")
}

fn is_stream(method: &str) -> bool {
    method == "subscriptions/listen"
}

/// Whether nothing is granted that was not wished for.
fn is_within(granted: &Value, wish: &Value) -> bool {
    match (granted, wish) {
        (Value::Object(granted), _) => {
            granted.iter().all(|(key, granted)| is_within(granted, &wish[key]))
        }
        (Value::Array(granted), Value::Array(wish)) => granted.iter().all(|it| wish.contains(it)),
        (Value::Bool(granted), _) => !granted || *wish == true,
        _ => false,
    }
}
