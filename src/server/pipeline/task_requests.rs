//! Requests for tasks: `tasks/get`, `tasks/update`, `tasks/result`, `tasks/list`, `tasks/cancel`.
//!
//! A task of this shard is asked at once. One of another shard is asked by letter: the call waits
//! here like any other, with its deadline and its cancellation, until the answer comes back.
//!
//! What it keeps true: a name that is malformed, unknown, of another generation or whose time is
//! over gets the same answer, invalid params (-32602), so that nobody learns which of them it was.
//!
//! Source: 2025-11-25, basic/utilities/tasks; Tasks extension 2026-07-28.

use serde::Deserialize;
use serde_json::Map;

use super::admission::Admitted;
use super::{Passage, Road};
use crate::base::slab::Key;
use crate::base::time::Moment;
use crate::engine::mesh::ShardId;
use crate::protocol::era::{ClientCapabilities, Method};
use crate::protocol::error::{Error, Kind};
use crate::protocol::message;
use crate::protocol::params::{self, List, TaskUpdate};
use crate::protocol::revision::Revision;
use crate::server::calls::Work;
use crate::server::desk::Note;
use crate::server::letter::Letter;
use crate::server::party::{Party, Said};
use crate::server::session::Peer;
use crate::server::tasks::{Asking, End, Task, TaskId, TaskLetter, Waiter, Wish};
use crate::service::Features;

impl Road {
    /// A request for tasks.
    pub(super) fn tasks_request(
        &mut self,
        passage: Passage,
        peer: &mut Peer<'_>,
        admitted: &Admitted<'_>,
    ) -> Said {
        let start = peer.outgoing.len();
        let answered = match know_tasks(admitted) {
            Ok(()) if admitted.method == Method::TasksList => {
                self.list_tasks(passage.outlet.party, peer, admitted)
            }
            Ok(()) => self.ask_task(passage, peer, admitted),
            Err(error) => Err(error),
        };
        answered.unwrap_or_else(|error| {
            peer.outgoing.truncate(start);
            self.refuse_admitted(peer, admitted, &error)
        })
    }

    /// Fulfils a wish, here or on the shard that keeps the task.
    fn ask_task(
        &mut self,
        passage: Passage,
        peer: &mut Peer<'_>,
        admitted: &Admitted<'_>,
    ) -> Result<Said, Error> {
        let (task, wish) = read(admitted)?;
        let revision = admitted.revision;
        let deadline = passage.now.after(self.request_max);
        let (owner, shard) = (task.owner(self.shards), self.shard);
        if owner != shard {
            self.refuse_slow(owner)?;
            let ticket = self.enter(passage, peer, admitted, Work::Elsewhere)?;
            let asking = Asking { task, shard, ticket, deadline, revision, wish };
            self.post_about_task(owner, TaskLetter::Asked(asking));
            return Ok(Said::Nothing);
        }
        let key = self.tasks.find(task, revision.is_modern()).ok_or_else(unknown_task)?;
        if self.must_wait(key, &wish, passage.now)? {
            let ticket = self.enter(passage, peer, admitted, Work::Elsewhere)?;
            self.wait_for_task(key, Waiter { shard, ticket, deadline });
            return Ok(Said::Nothing);
        }
        let out = &mut *peer.outgoing;
        message::result_open(out, admitted.id);
        self.fulfil(key, &wish, revision, passage.now, out)?;
        message::result_close(out);
        Ok(Said::Answer)
    }

    /// Whether a wish can be fulfilled only when the task has ended. Fails where as many wait for
    /// that as may.
    pub(in crate::server) fn must_wait(
        &mut self,
        key: Key,
        wish: &Wish,
        now: Moment,
    ) -> Result<bool, Error> {
        match self.tasks.task(key) {
            Some(task) if matches!(wish, Wish::Result) && !task.is_over() => {
                if task.may_wait(now) {
                    return Ok(true);
                }
                Err(Error::new(Kind::Busy, "as many calls wait for this task as may"))
            }
            _ => Ok(false),
        }
    }

    /// Has a call wait for the end of a task, which [`Road::must_wait`] allowed.
    pub(in crate::server) fn wait_for_task(&mut self, key: Key, waiter: Waiter) {
        if let Some(task) = self.tasks.task(key) {
            task.wait(waiter);
        }
    }

    /// Fulfils a wish that need not wait: appends the body of the answer to `out`. What stands
    /// there after an error is void.
    pub(in crate::server) fn fulfil(
        &mut self,
        key: Key,
        wish: &Wish,
        revision: Revision,
        now: Moment,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        match wish {
            Wish::Show => {}
            Wish::Result => return self.write_result(key, out),
            Wish::Update(responses) => {
                let task = self.tasks.task(key).ok_or_else(unknown_task)?;
                task.inquiries.update(responses)?;
                self.tasks.weigh_questions(key, now);
            }
            Wish::Cancel => self.cancel_task(key, now)?,
        }
        let task = self.tasks.task(key).ok_or_else(unknown_task)?;
        let suffix = self.catalog.result_suffix(revision);
        task.tell(self.calendar, |view, detail| match wish {
            Wish::Update(_) => message::empty_result(out, suffix),
            Wish::Cancel => message::cancel_task_result(out, revision, &view, suffix),
            Wish::Show | Wish::Result => {
                message::task_result(out, revision, &view, detail, suffix);
            }
        });
        Ok(())
    }

    /// `tasks/cancel`: where the task has ended already, a modern caller is content and an earlier
    /// one is told.
    fn cancel_task(&mut self, key: Key, now: Moment) -> Result<(), Error> {
        let task = self.tasks.task(key).ok_or_else(unknown_task)?;
        if task.is_over() {
            if task.revision.is_modern() {
                return Ok(());
            }
            let status = task.status().as_str();
            return Err(Error::invalid_params(format!("the task is {status} already")));
        }
        self.stop_task(key, "the task was cancelled by request", now);
        Ok(())
    }

    /// Ends a task and tells its handler; its open questions are taken back at the end of the turn.
    pub(in crate::server) fn stop_task(&mut self, key: Key, why: &'static str, now: Moment) {
        if self.tasks.cancel(key, why, now) {
            self.counters.requests.tasks_cancelled += 1;
            let Some(task) = self.tasks.task(key) else { return };
            for number in task.dialogue.take() {
                self.desk.leave(Note::Withdraw { number });
            }
            if let Some(work) = task.work() {
                work.cancel();
            }
        }
    }

    /// Fails a task that waits for what its client could say only by requests that are not read any
    /// more (2026-07-28: `tasks/update`), and tells its handler. What tasks up to 2025-11-25 ask is
    /// taken back with all other questions.
    pub(in crate::server) fn fail_unanswerable(&mut self, key: Key, now: Moment) {
        let Some(task) = self.tasks.task(key).filter(|task| task.inquiries.is_open()) else {
            return;
        };
        let open = task.inquiries.tell_open(<[_]>::len);
        let told = "the server ended before the task had the input that it asked for";
        if self.tasks.fail(key, Error::internal(told), now) {
            self.counters.questions.withdrawn += open as u64;
            if let Some(work) = self.tasks.task(key).and_then(Task::work) {
                work.cancel();
            }
        }
    }

    /// The body of the answer to `tasks/result` for a task that has ended: what the call itself
    /// would have been answered.
    pub(in crate::server) fn write_result(
        &mut self,
        key: Key,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let task = self.tasks.task(key).ok_or_else(unknown_task)?;
        match task.end() {
            Some(End::Result { body, .. }) => {
                message::task_payload_result(out, body, task.name());
                Ok(())
            }
            Some(End::Error(error)) => Err(error.clone()),
            None => Err(Error::internal("the task was cancelled and has no result")),
        }
    }

    /// `tasks/list`: the tasks that were begun by this party, which all live on this shard.
    /// Without authorization there is nothing else that would tell whose they are.
    fn list_tasks(
        &self,
        party: Party,
        peer: &mut Peer<'_>,
        admitted: &Admitted<'_>,
    ) -> Result<Said, Error> {
        let List { cursor, .. } = List::read(admitted.params)?;
        let (tasks, next) = self.tasks.page(party, cursor)?;
        let out = &mut *peer.outgoing;
        message::result_open(out, admitted.id);
        let views = tasks.iter().map(|task| task.view(self.calendar));
        message::tasks_page(out, views, next.as_deref());
        message::result_close(out);
        Ok(Said::Answer)
    }

    /// The names of tasks that may be listened to: those that are formed like ours. Whether there
    /// is such a task only its shard knows; of one that is not there nothing is ever told. Where
    /// that shard is slow the name is not granted, so that its listener knows to ask for it.
    pub(super) fn known_names<'a>(&mut self, mut names: Vec<&'a str>) -> Vec<&'a str> {
        let has_tasks = self.catalog.has(Features::TASKS);
        names.retain(|name| {
            let owner = TaskId::parse(name).map(|task| task.owner(self.shards));
            has_tasks && owner.is_some_and(|owner| self.refuse_slow(owner).is_ok())
        });
        names
    }

    /// Refuses a letter to a shard to which as many wait as may: what peers can cause is bounded
    /// here, answers and news of tasks by the requests and tasks that there are.
    fn refuse_slow(&mut self, shard: ShardId) -> Result<(), Error> {
        if !self.slow_shards.contains(&shard) {
            return Ok(());
        }
        self.counters.shard.letters_forgone += 1;
        Err(Error::new(Kind::Busy, "the shard that keeps the task is behind; try again later"))
    }

    /// Somebody on this shard listens to a task from here on. How it stands is told at once, so
    /// that nothing is missed in between: asked again, it is told again.
    pub(in crate::server) fn watch_task(&mut self, name: &str) {
        let Some(task) = TaskId::parse(name) else { return };
        let (owner, shard) = (task.owner(self.shards), self.shard);
        if owner != shard {
            self.post_about_task(owner, TaskLetter::Watched { task, shard });
        } else if let Some(key) = self.tasks.find(task, true) {
            self.tasks.watch(key, shard);
        }
    }

    /// Writes to another shard about a task; the letter leaves at the end of the turn.
    pub(in crate::server) fn post_about_task(&mut self, shard: ShardId, letter: TaskLetter) {
        self.letters.push((shard, Letter::Task(Box::new(letter))));
    }
}

/// Whether the client of a request for tasks knows them; the road has looked whether there are any.
fn know_tasks(admitted: &Admitted<'_>) -> Result<(), Error> {
    let needed = ClientCapabilities::EXTENSION_TASKS;
    if admitted.revision.is_modern() && !admitted.capabilities.has(needed) {
        return Err(Error::missing_capability(needed));
    }
    Ok(())
}

/// What a request wants of which task.
fn read(admitted: &Admitted<'_>) -> Result<(TaskId, Wish), Error> {
    let (id, wish) = match admitted.method {
        Method::TasksUpdate => {
            let TaskUpdate { id, input_responses } = TaskUpdate::read(admitted.params)?;
            let responses = Map::deserialize(input_responses);
            let responses = responses.map_err(|error| Error::invalid_params(error.to_string()))?;
            (id, Wish::Update(responses))
        }
        Method::TasksCancel => (params::Task::read(admitted.params)?.id, Wish::Cancel),
        Method::TasksResult => (params::Task::read(admitted.params)?.id, Wish::Result),
        _ => (params::Task::read(admitted.params)?.id, Wish::Show),
    };
    Ok((TaskId::parse(id).ok_or_else(unknown_task)?, wish))
}

/// A name that names nothing, for whatever reason.
#[cold]
pub(in crate::server) fn unknown_task() -> Error {
    Error::invalid_params("no such task, or its time is over")
}
