//! Model of what all clients of a run share: tasks and `requestState` values. Both may be used on
//! any connection, whichever received them.
//!
//! Checks that a finished task keeps its status, is known until its TTL ends and unknown later;
//! that a state is accepted once, before it expires, and refused as used only after a use; and that
//! ids of client requests are unique. The order in which connections receive messages does not
//! prove the order in which shards sent them, so checks compare when requests were sent and the
//! server's own timestamps.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use corelane_base::time::Instant;
use serde_json::{Map, Value};

use crate::totals::Totals;

/// When a request was sent and its response received: the response was true at some time between.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct RequestSpan {
    pub(crate) sent: Instant,
    pub(crate) received: Instant,
}

/// Why a `requestState` was refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum StateRefusal {
    /// It had expired.
    Expired,
    /// It had been used before.
    Used,
}

/// What the clients of a run know.
#[derive(Debug)]
pub(crate) struct SharedModel {
    /// By task id.
    pub(crate) tasks: BTreeMap<String, TaskRecord>,
    /// By `requestState`.
    pub(crate) states: BTreeMap<String, StateRecord>,
    client_request_ids: BTreeSet<String>,
    /// Tasks that were not found before their TTL was over.
    evicted_tasks: BTreeSet<String>,
    /// Catalog versions that handlers reported as made.
    pub(crate) catalog_versions: BTreeSet<u64>,
    /// TTL of a `requestState`.
    pub(crate) request_state_ttl: Duration,
    /// Requests may be refused because the server is short of memory.
    pub(super) may_exhaust_memory: bool,
    pub(crate) totals: Totals,
}

#[derive(Debug)]
pub(crate) struct TaskRecord {
    pub(crate) is_modern: bool,
    created: RequestSpan,
    ttl: Duration,
    /// Latest `lastUpdatedAt` that was seen.
    last_updated: String,
    /// Final status and its `lastUpdatedAt`, once seen.
    final_status: Option<(String, String)>,
    /// When the final status was first seen.
    final_since: Option<Instant>,
    /// Input requests as last seen.
    pub(crate) input_requests: Value,
}

/// A `requestState` and what it stands for.
#[derive(Clone, Debug)]
pub(crate) struct StateRecord {
    pub(crate) tool: &'static str,
    pub(crate) input_requests: Value,
    /// Texts of all rounds so far; the final result must contain them.
    pub(crate) expected_texts: Vec<String>,
    issued: RequestSpan,
    /// How often it was sent.
    pub(crate) uses: u32,
    accepted: u32,
    refused_as_used: u32,
}

impl SharedModel {
    pub(crate) fn new(request_state_ttl: Duration) -> Self {
        let (tasks, states) = (BTreeMap::new(), BTreeMap::new());
        let (client_request_ids, catalog_versions) = (BTreeSet::new(), BTreeSet::new());
        Self {
            tasks,
            states,
            client_request_ids,
            evicted_tasks: BTreeSet::new(),
            catalog_versions,
            request_state_ttl,
            may_exhaust_memory: false,
            totals: Totals::default(),
        }
    }

    /// Sets whether requests may be refused because the server is short of memory.
    pub(crate) fn with_memory_limit(self, may_exhaust_memory: bool) -> Self {
        Self { may_exhaust_memory, ..self }
    }

    /// Records that a call became a task.
    ///
    /// # Errors
    ///
    /// The response names no task, or one that exists.
    pub(crate) fn add_task(
        &mut self,
        value: &Value,
        is_modern: bool,
        begun: RequestSpan,
    ) -> Result<String, String> {
        let ttl = value["ttlMs"].as_u64().or_else(|| value["ttl"].as_u64());
        let (Some(id), Some(ttl)) = (value["taskId"].as_str(), ttl) else {
            return Err(format!("not a new task: {value}"));
        };
        let task = TaskRecord {
            is_modern,
            created: begun,
            ttl: Duration::from_millis(ttl),
            last_updated: String::new(),
            final_status: None,
            final_since: None,
            input_requests: Value::Null,
        };
        if self.tasks.insert(id.to_owned(), task).is_some() {
            return Err(format!("two tasks have the id {id}"));
        }
        self.totals.tasks_created += 1;
        // Even a task that finishes in the turn of its creation is announced as working.
        if value["status"] != "working" {
            return Err(format!("a new task must be working: {value}"));
        }
        Ok(id.to_owned())
    }

    /// Records the state of a task, from a response or, without a `span`, from a notification.
    ///
    /// # Errors
    ///
    /// It contradicts what is known.
    pub(crate) fn update_task(
        &mut self,
        value: &Value,
        span: Option<RequestSpan>,
        now: Instant,
    ) -> Result<(), String> {
        let id = value["taskId"].as_str().unwrap_or_default();
        let task = self.tasks.get_mut(id).ok_or_else(|| format!("unknown task {value}"))?;
        let (Some(status), Some(updated)) =
            (value["status"].as_str(), value["lastUpdatedAt"].as_str())
        else {
            return Err(format!("{value} is not a task"));
        };
        if span.is_some_and(|span| span.sent > task.created.received.after(task.ttl + LATE_MAX)) {
            return Err(format!("{value} is known after its TTL"));
        }
        match &task.final_status {
            Some((end, _)) if is_final_status(status) && end != status => {
                return Err(format!("{value} was {end}"));
            }
            Some((end, when)) if !is_final_status(status) && **when < *updated => {
                return Err(format!("{value} was {end} at {when}"));
            }
            None if is_final_status(status) && *updated < *task.last_updated => {
                return Err(format!("{value} ended before {}", task.last_updated));
            }
            None if is_final_status(status) => {
                task.final_status = Some((status.to_owned(), updated.to_owned()));
                task.final_since = Some(now);
                self.totals.tasks_finished += 1;
            }
            _ => {}
        }
        if *task.last_updated <= *updated {
            updated.clone_into(&mut task.last_updated);
            task.input_requests = value["inputRequests"].clone();
        }
        Ok(())
    }

    /// Returns whether every subscriber of a task must have been notified of its end: it has been
    /// known for `span`, and the TTL is not over.
    pub(crate) fn must_be_notified(&self, id: &str, now: Instant, span: Duration) -> bool {
        self.tasks.get(id).is_some_and(|task| {
            let is_kept = now < task.created.sent.after(task.ttl);
            is_kept && task.final_since.is_some_and(|known| known.after(span) <= now)
        })
    }

    /// Records that a task was not found.
    ///
    /// # Errors
    ///
    /// Its TTL is not over, and the server has memory for it. With little memory the task may have
    /// been evicted, see [`SharedModel::check_evicted`].
    pub(crate) fn task_not_found(&mut self, id: &str, span: RequestSpan) -> Result<(), String> {
        let Some(task) = self.tasks.get(id) else { return Ok(()) };
        if span.received < task.created.sent.after(task.ttl) {
            if !self.may_exhaust_memory {
                return Err(format!("task {id} expired before its TTL: {task:?}, {span:?}"));
            }
            self.evicted_tasks.insert(id.to_owned());
        }
        self.totals.tasks_expired += 1;
        Ok(())
    }

    /// Records a result with `inputRequests` and its `requestState`.
    ///
    /// # Errors
    ///
    /// The state was issued before, or there are no input requests.
    pub(crate) fn issue_state(
        &mut self,
        value: &Value,
        tool: &'static str,
        words: Vec<String>,
        given: RequestSpan,
    ) -> Result<(), String> {
        let (text, questions) = (value["requestState"].as_str(), value["inputRequests"].clone());
        let Some(text) = text.filter(|_| questions.as_object().is_some_and(is_not_empty)) else {
            return Err(format!("no input is requested by {value}"));
        };
        let (brought, taken, refused_as_used) = (0, 0, 0);
        let state = StateRecord {
            tool,
            input_requests: questions,
            expected_texts: words,
            issued: given,
            uses: brought,
            accepted: taken,
            refused_as_used,
        };
        self.totals.input_required_results += 1;
        match self.states.insert(text.to_owned(), state) {
            Some(_) => Err(format!("state {text} was issued twice")),
            None => Ok(()),
        }
    }

    /// Records that a client sends a state; returns what it stands for.
    pub(crate) fn use_state(&mut self, text: &str) -> Option<StateRecord> {
        let state = self.states.get_mut(text)?;
        state.uses += 1;
        self.totals.states_sent_again += u64::from(state.uses > 1);
        Some(state.clone())
    }

    /// Records that a state was accepted.
    ///
    /// # Errors
    ///
    /// It had been accepted before, or had expired.
    pub(crate) fn state_accepted(&mut self, text: &str, span: RequestSpan) -> Result<(), String> {
        let Some(state) = self.states.get_mut(text) else { return Ok(()) };
        state.accepted += 1;
        self.totals.states_accepted += 1;
        if state.accepted > 1 {
            return Err(format!("a state was accepted {} times: {state:?}", state.accepted));
        }
        if span.sent > state.issued.received.after(self.request_state_ttl + LATE_MAX) {
            return Err(format!("a state was accepted after it expired: {state:?}, {span:?}"));
        }
        Ok(())
    }

    /// Records that a state was refused.
    ///
    /// # Errors
    ///
    /// It was refused as expired too early.
    pub(crate) fn state_refused(
        &mut self,
        text: &str,
        why: StateRefusal,
        span: RequestSpan,
    ) -> Result<(), String> {
        let Some(state) = self.states.get_mut(text) else { return Ok(()) };
        match why {
            StateRefusal::Used => {
                state.refused_as_used += 1;
                self.totals.states_refused_as_used += 1;
            }
            StateRefusal::Expired => {
                self.totals.states_expired += 1;
                // The server's wall clock counts whole milliseconds.
                if span.received.after(LATE_MAX) < state.issued.sent.after(self.request_state_ttl) {
                    return Err(format!("a state expired too early: {state:?}, {span:?}"));
                }
            }
        }
        Ok(())
    }

    /// Records the id of a client request.
    ///
    /// # Errors
    ///
    /// The id was used before.
    pub(crate) fn add_client_request(&mut self, id: &str) -> Result<(), String> {
        self.totals.client_requests += 1;
        if self.client_request_ids.insert(id.to_owned()) {
            return Ok(());
        }
        Err(format!("two client requests have the id {id}"))
    }

    /// Checks the tasks that were not found before their TTL was over.
    ///
    /// # Errors
    ///
    /// The server has evicted fewer.
    pub(crate) fn check_evicted(&self, tasks_evicted: u64) -> Result<(), String> {
        if self.evicted_tasks.len() as u64 <= tasks_evicted {
            return Ok(());
        }
        let tasks = &self.evicted_tasks;
        Err(format!("{tasks:?} expired before their TTL, {tasks_evicted} evicted"))
    }

    /// Checks what must hold after all clients have left and `editions_made` versions were made.
    ///
    /// # Errors
    ///
    /// A state was refused as used without a use, or a catalog version does not exist.
    pub(crate) fn check_end(&self, editions_made: u64) -> Result<(), String> {
        if let Some(number) = self.catalog_versions.last().filter(|number| **number > editions_made)
        {
            return Err(format!("catalog version {number} was seen, {editions_made} were made"));
        }
        let is_lost =
            |state: &&StateRecord| state.refused_as_used > 0 && state.refused_as_used == state.uses;
        match self.states.values().find(is_lost) {
            Some(state) => Err(format!("refused as used, but never accepted: {state:?}")),
            None => Ok(()),
        }
    }
}

fn is_final_status(status: &str) -> bool {
    matches!(status, "completed" | "failed" | "cancelled")
}

fn is_not_empty(questions: &Map<String, Value>) -> bool {
    !questions.is_empty()
}

/// How late an event may be: timer ticks, stalls, the way between shards.
const LATE_MAX: Duration = Duration::from_millis(20);
