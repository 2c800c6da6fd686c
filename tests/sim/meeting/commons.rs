//! What all clients of a run know together: tasks and the states of round trips. Both are used from
//! any connection, whichever began them.
//!
//! What it checks: a task that has ended stays as it is, is known until its time is over and to
//! nobody after; a state is taken once, in its time, and never refused as used where nobody used
//! it; no question has the name of another. The order in which connections are heard says nothing
//! about the order in which shards spoke, so it looks at when requests were said and at what the
//! server itself says of the time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use corelane::base::time::Moment;
use serde_json::{Map, Value};

use crate::tally::Tally;

/// When a request was said and when its answer was heard: what it tells was true in between.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Span {
    pub(crate) said: Moment,
    pub(crate) heard: Moment,
}

/// Why a state was refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Why {
    /// Its time was over.
    Late,
    /// It had been brought before.
    Used,
}

/// Everything that is known.
#[derive(Debug)]
pub(crate) struct Commons {
    /// By their ids.
    pub(crate) tasks: BTreeMap<String, Task>,
    /// By themselves.
    pub(crate) states: BTreeMap<String, State>,
    questions: BTreeSet<String>,
    /// Editions of the catalog that changes were answered with.
    pub(crate) editions: BTreeSet<u64>,
    /// How long a state is good for.
    pub(crate) round_max: Duration,
    pub(crate) tally: Tally,
}

/// One task.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) is_modern: bool,
    begun: Span,
    ttl: Duration,
    /// When it last changed, of all that was told, and how it stood.
    updated: String,
    /// How it ended and when the server says so, once somebody knows.
    end: Option<(String, String)>,
    /// Since when somebody knows.
    known: Option<Moment>,
    /// What it was last seen to ask.
    pub(crate) questions: Value,
}

/// The state of a round trip.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) tool: &'static str,
    pub(crate) questions: Value,
    /// What was answered in the rounds so far and must be in the end of all.
    pub(crate) words: Vec<String>,
    given: Span,
    /// How often it was brought.
    pub(crate) brought: u32,
    taken: u32,
    refused_as_used: u32,
}

impl Commons {
    pub(crate) fn new(round_max: Duration) -> Self {
        let (tasks, states) = (BTreeMap::new(), BTreeMap::new());
        let (questions, editions) = (BTreeSet::new(), BTreeSet::new());
        Self { tasks, states, questions, editions, round_max, tally: Tally::default() }
    }

    /// A call has become a task.
    ///
    /// # Errors
    ///
    /// Where the answer names none, or one that there is.
    pub(crate) fn begin(
        &mut self,
        told: &Value,
        is_modern: bool,
        begun: Span,
    ) -> Result<String, String> {
        let ttl = told["ttlMs"].as_u64().or_else(|| told["ttl"].as_u64());
        let (Some(id), Some(ttl)) = (told["taskId"].as_str(), ttl) else {
            return Err(format!("no task begins with {told}"));
        };
        let task = Task {
            is_modern,
            begun,
            ttl: Duration::from_millis(ttl),
            updated: String::new(),
            end: None,
            known: None,
            questions: Value::Null,
        };
        if self.tasks.insert(id.to_owned(), task).is_some() {
            return Err(format!("two tasks are called {id}"));
        }
        self.tally.tasks_begun += 1;
        // Some are over in the turn in which they began, but nobody is told so with their name.
        if told["status"] != "working" {
            return Err(format!("a task begins as {told}"));
        }
        Ok(id.to_owned())
    }

    /// It is told how a task stands, in an answer or, where no `span` is given, without one.
    ///
    /// # Errors
    ///
    /// Where that cannot be after what is known.
    pub(crate) fn see(
        &mut self,
        told: &Value,
        span: Option<Span>,
        now: Moment,
    ) -> Result<(), String> {
        let id = told["taskId"].as_str().unwrap_or_default();
        let task = self.tasks.get_mut(id).ok_or_else(|| format!("nobody began {told}"))?;
        let (Some(status), Some(updated)) =
            (told["status"].as_str(), told["lastUpdatedAt"].as_str())
        else {
            return Err(format!("{told} is no task"));
        };
        if span.is_some_and(|span| span.said > task.begun.heard.after(task.ttl + LATE_MAX)) {
            return Err(format!("{told} is known after its time"));
        }
        match &task.end {
            Some((end, _)) if is_end(status) && end != status => {
                return Err(format!("{told} was {end}"));
            }
            Some((end, when)) if !is_end(status) && **when < *updated => {
                return Err(format!("{told} was {end} at {when}"));
            }
            None if is_end(status) && *updated < *task.updated => {
                return Err(format!("{told} ended before {}", task.updated));
            }
            None if is_end(status) => {
                task.end = Some((status.to_owned(), updated.to_owned()));
                task.known = Some(now);
                self.tally.tasks_ended += 1;
            }
            _ => {}
        }
        if *task.updated <= *updated {
            updated.clone_into(&mut task.updated);
            task.questions = told["inputRequests"].clone();
        }
        Ok(())
    }

    /// Whether everybody who listens to a task must have heard by now how it ended: it is known
    /// for so long, and its time is not over.
    pub(crate) fn must_be_known(&self, id: &str, now: Moment, span: Duration) -> bool {
        self.tasks.get(id).is_some_and(|task| {
            let is_kept = now < task.begun.said.after(task.ttl);
            is_kept && task.known.is_some_and(|known| known.after(span) <= now)
        })
    }

    /// A task was not found.
    ///
    /// # Errors
    ///
    /// Where it is still to be kept.
    pub(crate) fn miss(&mut self, id: &str, span: Span) -> Result<(), String> {
        let Some(task) = self.tasks.get(id) else { return Ok(()) };
        if span.heard < task.begun.said.after(task.ttl) {
            return Err(format!("task {id} is forgotten before its time: {task:?}, {span:?}"));
        }
        self.tally.tasks_expired += 1;
        Ok(())
    }

    /// A round has ended with this state.
    ///
    /// # Errors
    ///
    /// Where it was given out before, or asks nothing.
    pub(crate) fn give(
        &mut self,
        told: &Value,
        tool: &'static str,
        words: Vec<String>,
        given: Span,
    ) -> Result<(), String> {
        let (text, questions) = (told["requestState"].as_str(), told["inputRequests"].clone());
        let Some(text) = text.filter(|_| questions.as_object().is_some_and(is_full)) else {
            return Err(format!("nothing is asked by {told}"));
        };
        let (brought, taken, refused_as_used) = (0, 0, 0);
        let state = State { tool, questions, words, given, brought, taken, refused_as_used };
        self.tally.rounds += 1;
        match self.states.insert(text.to_owned(), state) {
            Some(_) => Err(format!("state {text} was given out twice")),
            None => Ok(()),
        }
    }

    /// Somebody brings a state; returns what it stands for.
    pub(crate) fn bring(&mut self, text: &str) -> Option<State> {
        let state = self.states.get_mut(text)?;
        state.brought += 1;
        self.tally.states_brought_again += u64::from(state.brought > 1);
        Some(state.clone())
    }

    /// A state that was brought counted.
    ///
    /// # Errors
    ///
    /// Where it had counted before, or was too old.
    pub(crate) fn take(&mut self, text: &str, span: Span) -> Result<(), String> {
        let Some(state) = self.states.get_mut(text) else { return Ok(()) };
        state.taken += 1;
        self.tally.states_taken += 1;
        if state.taken > 1 {
            return Err(format!("a state was taken {} times: {state:?}", state.taken));
        }
        if span.said > state.given.heard.after(self.round_max + LATE_MAX) {
            return Err(format!("a state was taken after its time: {state:?}, {span:?}"));
        }
        Ok(())
    }

    /// A state that was brought was refused.
    ///
    /// # Errors
    ///
    /// Where its time was not over.
    pub(crate) fn refuse(&mut self, text: &str, why: Why, span: Span) -> Result<(), String> {
        let Some(state) = self.states.get_mut(text) else { return Ok(()) };
        match why {
            Why::Used => {
                state.refused_as_used += 1;
                self.tally.states_refused += 1;
            }
            Why::Late => {
                self.tally.states_late += 1;
                // The server's calendar counts whole milliseconds.
                if span.heard.after(LATE_MAX) < state.given.said.after(self.round_max) {
                    return Err(format!("a state is late before its time: {state:?}, {span:?}"));
                }
            }
        }
        Ok(())
    }

    /// A question was heard.
    ///
    /// # Errors
    ///
    /// Where another one had the same name.
    pub(crate) fn name_question(&mut self, id: &str) -> Result<(), String> {
        self.tally.asked += 1;
        if self.questions.insert(id.to_owned()) {
            return Ok(());
        }
        Err(format!("two questions are called {id}"))
    }

    /// What holds when everybody has left and so many editions were made.
    ///
    /// # Errors
    ///
    /// A state that was refused as used though nobody used it, an edition that there is not.
    pub(crate) fn close(&self, editions_made: u64) -> Result<(), String> {
        if let Some(number) = self.editions.last().filter(|number| **number > editions_made) {
            return Err(format!("edition {number} was told of, and {editions_made} were made"));
        }
        let is_lost =
            |state: &&State| state.refused_as_used > 0 && state.refused_as_used == state.brought;
        match self.states.values().find(is_lost) {
            Some(state) => Err(format!("nobody has used {state:?}")),
            None => Ok(()),
        }
    }
}

fn is_end(status: &str) -> bool {
    matches!(status, "completed" | "failed" | "cancelled")
}

fn is_full(questions: &Map<String, Value>) -> bool {
    !questions.is_empty()
}

/// How late anything may be: ticks, naps, the way between shards.
const LATE_MAX: Duration = Duration::from_millis(20);
