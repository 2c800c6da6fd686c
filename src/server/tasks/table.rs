//! The tasks of one shard, from their beginning until their time is over.
//!
//! What it keeps true: a task stands here before anybody is told its name, and is never forgotten
//! before its ttl has passed; the number of tasks and the bytes of their results are bounded; a
//! task is known in the generation of the protocol that began it, and in no other. It runs nothing
//! and tells nobody: whoever drives it takes what has changed from [`Tasks::take_changed`].

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use super::identity::{Names, TaskId};
use super::inquiry::Inquiries;
use super::task::{Birth, End, Task};
use crate::base::slab::{Key, Slab};
use crate::base::time::Moment;
use crate::engine::mesh::ShardId;
use crate::engine::timer::Wheel;
use crate::protocol::error::{Error, Kind};
use crate::protocol::message::TaskStatus;
use crate::protocol::rpc::{Id, IdBuf};
use crate::server::party::Party;
use crate::server::questions::Dialogue;

/// How many tasks a shard keeps, how long, and how much of them.
#[derive(Clone, Copy, Debug)]
pub(in crate::server) struct Bounds {
    /// Tasks, running or ended.
    pub(in crate::server) tasks_max: usize,
    /// Those of one connection among them.
    pub(in crate::server) tasks_per_connection_max: usize,
    /// How long, where the caller names no time.
    pub(in crate::server) ttl: Duration,
    /// The longest time that a caller may name.
    pub(in crate::server) ttl_max: Duration,
    /// Bytes of results.
    pub(in crate::server) bytes_max: usize,
}

/// The tasks of one shard, each run by a `W`.
#[derive(Debug)]
pub(in crate::server) struct Tasks<W> {
    /// What it keeps to from now on; tasks keep the time that they were promised.
    pub(in crate::server) bounds: Bounds,
    slab: Slab<Task<W>>,
    keys: HashMap<TaskId, Key>,
    /// How many of them each connection began; none that began none.
    shares: HashMap<Party, usize>,
    names: Names,
    wheel: Wheel<Key>,
    /// Tasks whose change has not been told, each once.
    changed: VecDeque<Key>,
    bytes: usize,
    begun: u64,
    running: usize,
    /// Tasks that were not begun.
    pub(in crate::server) refused: Refused,
}

/// Tasks that were not begun, by what was full.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::server) struct Refused {
    /// The shard keeps as many as it may.
    pub(in crate::server) by_shard: u64,
    /// The connection began as many as it may, of those that are kept.
    pub(in crate::server) by_connection: u64,
}

impl<W> Tasks<W> {
    /// No tasks yet.
    pub(in crate::server) fn new(bounds: Bounds, names: Names) -> Self {
        Self {
            bounds,
            slab: Slab::new(usize::MAX),
            keys: HashMap::new(),
            shares: HashMap::new(),
            names,
            wheel: Wheel::new(),
            changed: VecDeque::new(),
            bytes: 0,
            begun: 0,
            running: 0,
            refused: Refused::default(),
        }
    }

    /// Begins a task. Fails where there are as many as may be, on the shard or of the connection,
    /// or no name can be drawn.
    pub(in crate::server) fn begin(&mut self, birth: Birth, now: Moment) -> Result<Key, Error> {
        self.find_room(birth.party)?;
        let id = self.names.draw().ok_or_else(|| Error::internal("no name for a task"))?;
        let Birth { party, client, progress_token, ttl } = birth;
        let Bounds { ttl: ttl_default, ttl_max, .. } = self.bounds;
        let ttl = ttl.map_or(ttl_default, |ttl| ttl.max(TTL_MIN)).min(ttl_max);
        // Told or not is up to the server; what is kept so long must not be long itself.
        let is_short = |token: &IdBuf| match token.as_id() {
            Id::Text(text) => text.len() <= TOKEN_BYTES_MAX,
            Id::Signed(_) | Id::Unsigned(_) => true,
        };
        let progress_token = progress_token.filter(is_short);
        self.begun += 1;
        let task = Task {
            id,
            name: id.to_string(),
            party,
            revision: client.revision,
            progress_token,
            progress: f64::NEG_INFINITY,
            inquiries: Rc::new(Inquiries::default()),
            dialogue: Dialogue::default(),
            number: self.begun,
            status: TaskStatus::Working,
            message: None,
            created: now,
            updated: now,
            version: 1,
            ttl,
            end: None,
            work: None,
            waiters: Vec::new(),
            watchers: Vec::new(),
            has_changed: false,
        };
        let key = self.slab.insert(task).map_err(|_| full())?;
        self.keys.insert(id, key);
        // Those that could not be started leave their deadlines behind.
        self.wheel.shed(self.slab.len(), |key| self.slab.get(*key).is_some());
        self.wheel.insert(now.after(ttl), key);
        self.running += 1;
        *self.shares.entry(party).or_default() += 1;
        Ok(key)
    }

    fn find_room(&mut self, party: Party) -> Result<(), Error> {
        if self.slab.len() >= self.bounds.tasks_max {
            self.refused.by_shard += 1;
            return Err(full());
        }
        let share = self.shares.get(&party).copied().unwrap_or_default();
        if share >= self.bounds.tasks_per_connection_max {
            self.refused.by_connection += 1;
            return Err(own_share_taken());
        }
        Ok(())
    }

    /// Remembers what runs a task.
    pub(in crate::server) fn attach(&mut self, key: Key, work: W) {
        if let Some(task) = self.slab.get_mut(key) {
            task.work = Some(work);
        }
    }

    /// The task of a key, while it is kept.
    pub(in crate::server) fn task(&mut self, key: Key) -> Option<&mut Task<W>> {
        self.slab.get_mut(key)
    }

    /// The task called `id`, where it is kept and was begun by a caller of the same generation.
    pub(in crate::server) fn find(&self, id: TaskId, is_modern: bool) -> Option<Key> {
        let key = *self.keys.get(&id)?;
        let task = self.slab.get(key)?;
        (task.revision.is_modern() == is_modern).then_some(key)
    }

    /// The tasks that were begun by a party among callers up to 2025-11-25, in the order in
    /// which they began: one page, and the cursor of the next one.
    ///
    /// Fails with invalid params (-32602) where the cursor is none of this shard's.
    pub(in crate::server) fn page(
        &self,
        party: Party,
        cursor: Option<&str>,
    ) -> Result<(Vec<&Task<W>>, Option<String>), Error> {
        let after = cursor.map_or(Ok(0), |cursor| self.read_cursor(cursor))?;
        let is_listed = |task: &Task<W>| {
            task.party == party && !task.revision.is_modern() && task.number > after
        };
        let tasks = self.slab.iter().map(|(_, task)| task);
        let mut tasks: Vec<_> = tasks.filter(|task| is_listed(task)).collect();
        tasks.sort_unstable_by_key(|task| task.number);
        let has_more = tasks.len() > PAGE_LENGTH;
        tasks.truncate(PAGE_LENGTH);
        let last = tasks.last().filter(|_| has_more);
        let next = last.map(|task| format!("{:016x}", task.number));
        Ok((tasks, next))
    }

    /// A cursor is the number of the last task that was shown.
    fn read_cursor(&self, cursor: &str) -> Result<u64, Error> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_ours = cursor.len() == 16 && cursor.bytes().all(is_digit);
        let number = u64::from_str_radix(cursor, 16).ok().filter(|_| is_ours);
        number
            .filter(|number| (1..=self.begun).contains(number))
            .ok_or_else(|| Error::invalid_params("params.cursor is none of this server's"))
    }

    /// A handler has ended. What it says counts where the task has not ended before.
    pub(in crate::server) fn finish(&mut self, key: Key, end: End, now: Moment) {
        let room = self.bounds.bytes_max.saturating_sub(self.bytes);
        let Some(task) = self.slab.get_mut(key) else { return };
        task.work = None;
        if task.is_over() {
            return;
        }
        let end = if end.bytes() > room { End::Error(no_room()) } else { end };
        self.bytes += end.bytes();
        let (status, message) = match &end {
            End::Error(error) => (TaskStatus::Failed, Some(error.message.clone())),
            // A tool that failed has a result all the same; only the old generation calls that a
            // failed task.
            End::Result { is_failed: true, .. } if !task.revision.is_modern() => {
                (TaskStatus::Failed, Some(Cow::Borrowed("the tool failed; its result says why")))
            }
            End::Result { .. } => (TaskStatus::Completed, None),
        };
        task.end = Some(end);
        task.inquiries.close();
        task.turn(status, message, now);
        self.running -= 1;
        self.note_change(key);
    }

    /// Ends a task on request; `false` where it has ended before. Its handler is still to be told.
    pub(in crate::server) fn cancel(&mut self, key: Key, why: &'static str, now: Moment) -> bool {
        let Some(task) = self.slab.get_mut(key).filter(|task| !task.is_over()) else {
            return false;
        };
        task.inquiries.close();
        task.turn(TaskStatus::Cancelled, Some(Cow::Borrowed(why)), now);
        self.running -= 1;
        self.note_change(key);
        true
    }

    /// Ends a task that will not have what it asked for; `false` where it has ended before. Its
    /// handler is still to be told.
    pub(in crate::server) fn fail(&mut self, key: Key, error: Error, now: Moment) -> bool {
        let Some(task) = self.slab.get_mut(key).filter(|task| !task.is_over()) else {
            return false;
        };
        let end = End::Error(error.clone());
        self.bytes += end.bytes();
        task.end = Some(end);
        task.inquiries.close();
        task.turn(TaskStatus::Failed, Some(error.message), now);
        self.running -= 1;
        self.note_change(key);
        true
    }

    /// A task asks question `number` by a request; `false` where it has ended, or as many as may be
    /// are open.
    pub(in crate::server) fn ask(
        &mut self,
        key: Key,
        number: u64,
        open_max: usize,
        now: Moment,
    ) -> bool {
        let task = self.slab.get_mut(key).filter(|task| !task.is_over());
        let is_asked = task.is_some_and(|task| task.dialogue.ask(number, open_max, now));
        if is_asked {
            self.weigh_questions(key, now);
        }
        is_asked
    }

    /// Question `number` of a task is over.
    pub(in crate::server) fn hear(&mut self, key: Key, number: u64, now: Moment) {
        if let Some(task) = self.slab.get_mut(key) {
            task.dialogue.hear(number, now);
            self.weigh_questions(key, now);
        }
    }

    /// Questions of a task were asked or answered: it needs input as long as one is open.
    pub(in crate::server) fn weigh_questions(&mut self, key: Key, now: Moment) {
        let Some(task) = self.slab.get_mut(key).filter(|task| !task.is_over()) else { return };
        let is_open = task.inquiries.is_open() || task.dialogue.is_open();
        if !is_open && task.status == TaskStatus::Working {
            return;
        }
        let status = if is_open { TaskStatus::InputRequired } else { TaskStatus::Working };
        task.turn(status, None, now);
        self.note_change(key);
    }

    /// Somebody on `shard` listens to a task from here on, and hears first how it stands.
    pub(in crate::server) fn watch(&mut self, key: Key, shard: ShardId) {
        if let Some(task) = self.slab.get_mut(key) {
            task.watch(shard);
            self.note_change(key);
        }
    }

    fn note_change(&mut self, key: Key) {
        if let Some(task) = self.slab.get_mut(key)
            && !std::mem::replace(&mut task.has_changed, true)
        {
            self.changed.push_back(key);
        }
    }

    /// Takes one task whose change has not been told. Changes between two askings are told as one.
    pub(in crate::server) fn take_changed(&mut self) -> Option<Key> {
        while let Some(key) = self.changed.pop_front() {
            if let Some(task) = self.slab.get_mut(key) {
                task.has_changed = false;
                return Some(key);
            }
        }
        None
    }

    /// Forgets one task whose time has passed, and hands out what is left of it: a handler that may
    /// still run, and those who wait.
    pub(in crate::server) fn expire(&mut self, now: Moment) -> Option<Task<W>> {
        loop {
            let key = self.wheel.pop_expired(now)?;
            // A task that could not be started left its deadline behind.
            if let Some(task) = self.forget(key) {
                return Some(task);
            }
        }
    }

    /// Forgets a task that nobody has been told of: it could not be started.
    pub(in crate::server) fn forget(&mut self, key: Key) -> Option<Task<W>> {
        let task = self.slab.remove(key)?;
        self.keys.remove(&task.id);
        if let Some(share) = self.shares.get_mut(&task.party) {
            *share -= 1;
            if *share == 0 {
                self.shares.remove(&task.party);
            }
        }
        self.bytes -= task.end.as_ref().map_or(0, End::bytes);
        self.running -= usize::from(!task.is_over());
        task.inquiries.close();
        Some(task)
    }

    /// When the time of the next task passes.
    pub(in crate::server) fn deadline(&self) -> Option<Moment> {
        self.wheel.next_deadline()
    }

    /// Deadlines that are watched, those of tasks that are gone included.
    #[cfg(test)]
    pub(super) const fn deadlines(&self) -> usize {
        self.wheel.len()
    }

    /// Tasks that are kept, running or ended.
    pub(in crate::server) const fn len(&self) -> usize {
        self.slab.len()
    }

    /// Tasks that have not ended.
    pub(in crate::server) const fn running(&self) -> usize {
        self.running
    }

    /// What the tasks that a party began have asked it by requests and not been answered.
    pub(in crate::server) fn questions_to(&self, party: Party) -> Vec<u64> {
        if self.running == 0 {
            return Vec::new();
        }
        let own = self.slab.iter().filter(|(_, task)| task.party == party);
        own.flat_map(|(_, task)| task.dialogue.open()).copied().collect()
    }

    /// Every task that has not ended.
    pub(in crate::server) fn unfinished(&self) -> Vec<Key> {
        self.slab.iter().filter(|(_, task)| !task.is_over()).map(|(key, _)| key).collect()
    }
}

#[cold]
fn full() -> Error {
    Error::new(Kind::Busy, "the server keeps as many tasks as it may; try again later")
}

#[cold]
fn own_share_taken() -> Error {
    let told = "as many tasks of this connection are kept as may be; try again when one is over";
    Error::new(Kind::Busy, told)
}

#[cold]
fn no_room() -> Error {
    Error::internal("the result of the task is too large to be kept with those of the others")
}

/// The shortest time that a task is kept: a caller must be able to ask for it at least once.
const TTL_MIN: Duration = Duration::from_secs(1);

/// Bytes of the longest token that progress of a task is told for. A task is kept long after its
/// connection has gone, and a token may be as long as a message.
const TOKEN_BYTES_MAX: usize = 256;

/// Tasks on one page of `tasks/list`.
pub(in crate::server) const PAGE_LENGTH: usize = 50;
