//! Tasks as time passes: what their handlers say, what other shards ask, and what is told of it.
//!
//! What it keeps true: whoever waits for the end of a task hears of it once; a change is told to
//! those who want to hear of it, and to nobody else. What a peer does not read in time it misses:
//! it can ask at any time.
//!
//! Source: 2025-11-25, basic/utilities/tasks; Tasks extension 2026-07-28.

use bytes::Bytes;

use super::{ShardDriver, Stage};
use crate::base::slab::Key;
use crate::base::time::Moment;
use crate::engine::ring::Ring;
use crate::protocol::error::Error;
use crate::protocol::message::{self, Change};
use crate::server::desk::role::Role;
use crate::server::party::{Outlet, Party, Said};
use crate::server::pipeline::unknown_task;
use crate::server::questions::Asker;
use crate::server::tasks::{Asking, Birth, TaskLetter, TaskNote, Waiter};
use crate::service::{HandlerError, Yield};

impl ShardDriver {
    /// Sends what the turn has written to other shards.
    pub(super) fn post_letters(&mut self) {
        for (shard, letter) in self.road.letters.drain(..) {
            self.mailbox.send(shard, letter);
        }
    }

    /// A letter about a task.
    pub(super) fn take_task_letter<R: Ring>(
        &mut self,
        ring: &mut R,
        letter: TaskLetter,
        now: Moment,
    ) {
        match letter {
            TaskLetter::Asked(asking) => self.answer_shard(asking, now),
            TaskLetter::Answered { ticket, answer } => {
                self.settle_encoded(ring, ticket, answer, now);
            }
            TaskLetter::Said { task, note } => self.take_task_note(ring, task, note, now),
            TaskLetter::Watched { task, shard } => {
                if let Some(key) = self.road.tasks.find(task, true) {
                    self.road.tasks.watch(key, shard);
                }
            }
            TaskLetter::Changed { task, version, tail } => {
                self.publish_task(ring, (task, version), &tail, now);
            }
        }
    }

    /// A handler that runs as a task has something to say.
    pub(super) fn take_task_note<R: Ring>(
        &mut self,
        ring: &mut R,
        key: Key,
        note: TaskNote,
        now: Moment,
    ) {
        match note {
            TaskNote::Asked => self.weigh_inputs(key, now),
            TaskNote::Progress { done, total, message } => {
                if let Some(told) = self.tell_task_progress(key, done, total, message.as_deref()) {
                    self.weigh_party(ring, told, now);
                }
            }
            TaskNote::Finished(result) => self.end_task(ring, key, result, now),
        }
    }

    /// The handler of a task has ended.
    fn end_task<R: Ring>(
        &mut self,
        ring: &mut R,
        key: Key,
        result: Result<Yield, HandlerError>,
        now: Moment,
    ) {
        let Some(task) = self.road.tasks.task(key) else { return };
        let (party, revision) = (task.party, task.revision);
        let dialogue = std::mem::take(&mut task.dialogue);
        // What it asked without waiting for it; those that it waited for are over.
        for number in dialogue.open() {
            self.withdraw(*number, now);
        }
        if result.is_ok() && revision.dialect().elicitation_ids {
            for address in dialogue.addresses() {
                let mut text = self.draft();
                message::elicitation_complete(&mut text, address);
                self.say(Outlet::general(party), Said::Word, text);
            }
            self.weigh_party(ring, party, now);
        }
        let end = self.road.end_of(revision, result);
        self.road.tasks.finish(key, end, now);
    }

    /// A handler that runs as a call wants to go on as a task: its caller gets the name of one, and
    /// the handler goes on where it is.
    pub(super) fn turn_into_task<R: Ring>(&mut self, ring: &mut R, role: &Role, now: Moment) {
        let Some((ticket, ttl)) = role.wish() else { return };
        let Some(call) = self.road.calls.awaited(ticket) else {
            return role.refuse_task(HandlerError::Cancelled);
        };
        let progress_token = call.progress_token.clone();
        let outlet = call.outlet;
        let birth = Birth { party: outlet.party, client: role.client, progress_token, ttl };
        let key = match self.road.tasks.begin(birth, now) {
            Ok(key) => key,
            Err(error) => return role.refuse_task(HandlerError::Refused(error)),
        };
        let Some(mut call) = self.road.calls.end(ticket) else { return };
        self.repay(outlet.party, call.id.as_id(), now);
        let mut text = self.draft();
        self.road.say_begun(&mut text, call.id.as_id(), key);
        self.say(outlet, Said::Answer, text);
        let dialogue = call.dialogue.take().map(|dialogue| *dialogue).unwrap_or_default();
        self.road.questions.hand_over(dialogue.open(), Asker::Task(key));
        if let Some(task) = self.road.tasks.task(key) {
            task.progress = call.progress;
            task.dialogue = dialogue;
        }
        self.road.tasks.attach(key, call.work);
        self.weigh_inputs(key, now);
        role.become_task(key, self.road.task_asking(key));
        self.after_answer(ring, outlet, now);
    }

    /// A task has asked something by its inputs. Where nothing more is read, nobody can answer.
    fn weigh_inputs(&mut self, key: Key, now: Moment) {
        self.road.tasks.weigh_questions(key, now);
        if self.stage != Stage::Serving {
            self.road.fail_unanswerable(key, now);
        }
    }

    /// Nothing more is read from anybody: tasks that wait for their users do not hold the drain.
    /// Whoever listens hears of it.
    pub(super) fn fail_waiting_tasks<R: Ring>(&mut self, ring: &mut R, now: Moment) {
        for key in self.road.tasks.unfinished() {
            self.road.fail_unanswerable(key, now);
        }
        self.tell_changed_tasks(ring, now);
    }

    /// Another shard asks for a task of this one.
    fn answer_shard(&mut self, asking: Asking, now: Moment) {
        let Asking { task, shard, ticket, deadline, revision, wish } = asking;
        let found = self.road.tasks.find(task, revision.is_modern()).ok_or_else(unknown_task);
        let waits = found.and_then(|key| Ok((key, self.road.must_wait(key, &wish, now)?)));
        let answer = match waits {
            Ok((key, true)) => {
                self.road.wait_for_task(key, Waiter { shard, ticket, deadline });
                return;
            }
            Ok((key, false)) => {
                let mut body = Vec::new();
                self.road.fulfil(key, &wish, revision, now, &mut body).map(|()| body)
            }
            Err(error) => Err(error),
        };
        self.road.post_about_task(shard, TaskLetter::Answered { ticket, answer });
    }

    /// Tells what has changed since the last time: to those who wait for an end, to the connection
    /// that began the task, to those who listen.
    pub(super) fn tell_changed_tasks<R: Ring>(&mut self, ring: &mut R, now: Moment) {
        while let Some(key) = self.road.tasks.take_changed() {
            let Some(task) = self.road.tasks.task(key) else { continue };
            let is_modern = task.revision.is_modern();
            let waiters = if task.is_over() { task.take_waiters() } else { Vec::new() };
            if is_modern {
                self.tell_watchers(ring, key, now);
            } else {
                self.tell_beginner(ring, key, now);
            }
            for waiter in waiters {
                let mut body = Vec::new();
                let answer = self.road.write_result(key, &mut body).map(|()| body);
                self.answer_waiter(ring, waiter, answer, now);
            }
        }
    }

    fn answer_waiter<R: Ring>(
        &mut self,
        ring: &mut R,
        waiter: Waiter,
        answer: Result<Vec<u8>, Error>,
        now: Moment,
    ) {
        let Waiter { shard, ticket, .. } = waiter;
        if shard == self.shard {
            self.settle_encoded(ring, ticket, answer, now);
        } else {
            self.road.post_about_task(shard, TaskLetter::Answered { ticket, answer });
        }
    }

    /// `notifications/tasks/status` (2025-11-25) for the connection that began the task, while it
    /// is there.
    fn tell_beginner<R: Ring>(&mut self, ring: &mut R, key: Key, now: Moment) {
        let Some(party) = self.road.tasks.task(key).map(|task| task.party) else { return };
        if !self.reads_along(party) {
            return;
        }
        let mut text = self.draft();
        let calendar = self.road.calendar;
        let Some(task) = self.road.tasks.task(key) else { return };
        task.tell(calendar, |task, detail| Change::Task { task, detail }.write_legacy(&mut text));
        self.say(Outlet::general(party), Said::Word, text);
        self.weigh_party(ring, party, now);
    }

    /// `notifications/tasks` (2026-07-28) for every shard on which somebody listens.
    fn tell_watchers<R: Ring>(&mut self, ring: &mut R, key: Key, now: Moment) {
        let Some(task) = self.road.tasks.task(key) else { return };
        if task.watchers().is_empty() {
            return;
        }
        let (id, version) = (task.id, task.version);
        let tail = self.tail_of(key);
        let watchers = self.road.tasks.task(key).map(|task| task.watchers().to_vec());
        for shard in watchers.unwrap_or_default() {
            if shard == self.shard {
                self.publish_task(ring, (id, version), &tail, now);
            } else {
                let (task, tail) = (id, tail.clone());
                self.road.post_about_task(shard, TaskLetter::Changed { task, version, tail });
            }
        }
    }

    /// What is said of a task behind the name of a stream.
    fn tail_of(&mut self, key: Key) -> Bytes {
        let calendar = self.road.calendar;
        let mut tail = Vec::new();
        if let Some(task) = self.road.tasks.task(key) {
            task.tell(calendar, |task, detail| Change::Task { task, detail }.write_tail(&mut tail));
        }
        Bytes::from(tail)
    }

    /// Tells the connection that began a task up to 2025-11-25 how far it has come, where it asked
    /// for that, and says which one that was. Modern tasks tell no progress.
    fn tell_task_progress(
        &mut self,
        key: Key,
        done: f64,
        total: Option<f64>,
        text: Option<&str>,
    ) -> Option<Party> {
        let task = self.road.tasks.task(key)?;
        let party = task.party;
        let is_told = !task.revision.is_modern() && !task.is_over() && done > task.progress;
        if !is_told || task.progress_token.is_none() || !self.reads_along(party) {
            return None;
        }
        let mut draft = self.draft();
        let task = self.road.tasks.task(key)?;
        task.progress = done;
        let (token, name) = (task.progress_token.as_ref()?.as_id(), task.name());
        message::task_progress(&mut draft, token, done, total, text, name);
        self.say(Outlet::general(party), Said::Word, draft);
        self.road.counters.requests.progress += 1;
        Some(party)
    }

    /// Forgets tasks whose time is over. Whoever still waits hears it, and so does a handler that
    /// still runs.
    pub(super) fn expire_tasks<R: Ring>(&mut self, ring: &mut R, now: Moment) {
        while let Some(mut task) = self.road.tasks.expire(now) {
            if let Some(work) = task.work() {
                work.cancel();
            }
            for number in task.dialogue.take() {
                self.withdraw(number, now);
            }
            for waiter in task.take_waiters() {
                self.answer_waiter(ring, waiter, Err(unknown_task()), now);
            }
        }
    }

    /// There is no more time: every task that runs is cancelled.
    pub(super) fn stop_tasks(&mut self, now: Moment) {
        for key in self.road.tasks.unfinished() {
            self.road.stop_task(key, "the server ended before the task did", now);
        }
    }

    /// An answer that came from elsewhere: written as it is, where somebody waits for it.
    fn settle_encoded<R: Ring>(
        &mut self,
        ring: &mut R,
        ticket: Key,
        answer: Result<Vec<u8>, Error>,
        now: Moment,
    ) {
        let Some(call) = self.road.calls.end(ticket) else { return };
        let (outlet, id) = (call.outlet, call.id.as_id());
        self.repay(outlet.party, id, now);
        match answer {
            Ok(body) => {
                let mut text = self.draft();
                message::result(&mut text, id, &body);
                self.say(outlet, Said::Answer, text);
            }
            Err(error) => self.say_error(outlet, id, &error, call.revision),
        }
        self.after_answer(ring, outlet, now);
    }
}
