//! The desk between a shard and the local handlers that run on it.
//!
//! Handlers are futures on the shard's thread; the driver is not re-entrant. So a handler leaves
//! notes here (progress, questions, its end) and the driver reads them once a turn, and a handler
//! that sleeps leaves its waker under a deadline. All of it stays on one thread: cells, no locks.

pub(super) mod draft;

pub(super) mod role;

pub(super) mod voice;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use self::draft::Draft;
use self::role::Role;
use super::questions::{Asker, Pose, Posed, Slot};
use super::tasks::TaskNote;
use crate::base::slab::{Key, Slab};
use crate::base::time::Moment;
use crate::engine::ring::Waker;
use crate::engine::timer::Wheel;
use crate::protocol::era::LogLevel;
use crate::protocol::message::InputRequest;
use crate::service::{HandlerError, Yield};

/// What a handler has to say. `ticket` names its call in the shard's table.
#[derive(Debug)]
pub(super) enum Note {
    /// It asks its client.
    Ask {
        /// Which handler.
        role: Rc<Role>,
        /// Names the question on this shard.
        number: u64,
        /// What it asks.
        request: InputRequest,
        /// Where the answer is to be laid down.
        slot: Rc<Slot>,
    },
    /// Its round has ended: it cannot go on without answers that are not there.
    Asked {
        /// Which call.
        ticket: Key,
        /// What it was told.
        posed: Rc<Posed>,
        /// What it asks.
        open: Vec<Pose>,
    },
    /// It wants to go on as a task.
    Begin(Rc<Role>),
    /// It runs as a task.
    Task {
        /// Which task.
        task: Key,
        /// What it says.
        note: TaskNote,
    },
    /// It changes what is offered.
    Change(Rc<Draft>),
    /// It lets its client go for a while.
    CloseStream {
        /// Which call.
        ticket: Key,
    },
    /// It has ended.
    Finished {
        /// Which call.
        ticket: Key,
        /// How.
        result: Result<Yield, HandlerError>,
    },
    /// It has something to say to the client's log.
    Log(LogMessage),
    /// How far it has come.
    Progress(Progress),
    /// It does not wait for an answer any more.
    Withdraw {
        /// To which question.
        number: u64,
    },
}

/// A log message of a call or a task.
#[derive(Debug)]
pub(super) struct LogMessage {
    /// Whose it is.
    pub(super) from: Asker,
    /// How important it is.
    pub(super) level: LogLevel,
    /// Who says it, where the handler names somebody.
    pub(super) logger: Option<String>,
    /// Any JSON.
    pub(super) data: serde_json::Value,
}

/// How far a call has come, in the handler's own terms.
#[derive(Debug)]
pub(super) struct Progress {
    /// Which call.
    pub(super) ticket: Key,
    /// Grows from note to note.
    pub(super) done: f64,
    /// What it grows towards, where that is known.
    pub(super) total: Option<f64>,
    /// For people.
    pub(super) message: Option<String>,
}

/// One shard's desk.
#[derive(Debug)]
pub(super) struct Desk {
    now: Cell<Moment>,
    notes: RefCell<Vec<Note>>,
    /// Resources that have changed, each once, however often that was said.
    updates: RefCell<BTreeSet<Arc<str>>>,
    sleeps: RefCell<Sleeps>,
    /// Ends the shard's park where a note is left between two turns (a host that runs futures
    /// while the shard waits).
    waker: Waker,
    in_turn: Cell<bool>,
    /// Questions asked so far: the name of the next one.
    questions: Cell<u64>,
}

#[derive(Debug)]
struct Sleeps {
    wakers: Slab<std::task::Waker>,
    wheel: Wheel<Key>,
}

impl Desk {
    /// An empty desk of the shard behind `waker`, for at most `sleeps_max` sleeping handlers.
    pub(super) fn new(waker: Waker, sleeps_max: usize) -> Self {
        let sleeps = Sleeps { wakers: Slab::new(sleeps_max), wheel: Wheel::new() };
        Self {
            now: Cell::new(Moment::ORIGIN),
            notes: RefCell::default(),
            updates: RefCell::default(),
            sleeps: RefCell::new(sleeps),
            waker,
            in_turn: Cell::new(false),
            questions: Cell::new(0),
        }
    }

    /// A turn begins: the present moment for whoever sleeps from here on.
    pub(super) fn begin_turn(&self, now: Moment) {
        self.now.set(now);
        self.in_turn.set(true);
    }

    /// The shard is about to park: notes left from here on must wake it.
    pub(super) fn end_turn(&self) {
        self.in_turn.set(false);
    }

    /// Leaves a note.
    pub(super) fn leave(&self, note: Note) {
        self.notes.borrow_mut().push(note);
        if !self.in_turn.get() {
            self.waker.wake();
        }
    }

    /// A number for one more question: never the same twice on this shard.
    pub(super) fn number(&self) -> u64 {
        self.questions.replace(self.questions.get() + 1)
    }

    /// Resolves after `span`, counted from the present turn.
    pub(super) fn sleep(self: &Rc<Self>, span: Duration) -> Sleep {
        Sleep { desk: Rc::clone(self), deadline: self.now.get().after(span), key: None }
    }

    /// Notes that a resource has changed.
    pub(super) fn note_update(&self, uri: &str) {
        if !self.updates.borrow().contains(uri) {
            self.updates.borrow_mut().insert(uri.into());
        }
        if !self.in_turn.get() {
            self.waker.wake();
        }
    }

    /// Takes the resources that have changed.
    pub(super) fn take_updates(&self) -> BTreeSet<Arc<str>> {
        self.updates.take()
    }

    /// Whether resources have changed.
    pub(super) fn has_updates(&self) -> bool {
        !self.updates.borrow().is_empty()
    }

    /// Swaps the notes left so far into `into`, which must be empty.
    pub(super) fn take_notes(&self, into: &mut Vec<Note>) {
        debug_assert!(into.is_empty());
        std::mem::swap(&mut *self.notes.borrow_mut(), into);
    }

    /// Whether notes wait.
    pub(super) fn has_notes(&self) -> bool {
        !self.notes.borrow().is_empty() || self.has_updates()
    }

    /// When the next sleeper wakes.
    pub(super) fn deadline(&self) -> Option<Moment> {
        self.sleeps.borrow().wheel.next_deadline()
    }

    /// Wakes whoever has slept long enough.
    pub(super) fn expire(&self, now: Moment) {
        loop {
            let mut sleeps = self.sleeps.borrow_mut();
            let Some(key) = sleeps.wheel.pop_expired(now) else { return };
            let waker = sleeps.wakers.get(key).cloned();
            drop(sleeps);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

/// Resolves when its deadline has passed on the shard's clock.
pub(super) struct Sleep {
    desk: Rc<Desk>,
    deadline: Moment,
    key: Option<Key>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.deadline <= self.desk.now.get() {
            return Poll::Ready(());
        }
        let desk = Rc::clone(&self.desk);
        let mut sleeps = desk.sleeps.borrow_mut();
        if let Some(waker) = self.key.and_then(|key| sleeps.wakers.get_mut(key)) {
            waker.clone_from(context.waker());
            return Poll::Pending;
        }
        // A full slab means more sleepers than requests can be in flight: a handler that forks.
        // It goes on at once, early rather than never.
        let Ok(key) = sleeps.wakers.insert(context.waker().clone()) else {
            return Poll::Ready(());
        };
        let Sleeps { wakers, wheel } = &mut *sleeps;
        // Whoever is cancelled while it sleeps is gone long before its deadline.
        wheel.shed(wakers.len(), |key| wakers.get(*key).is_some());
        wheel.insert(self.deadline, key);
        drop(sleeps);
        self.key = Some(key);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.desk.sleeps.borrow_mut().wakers.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;
    use crate::service::Outcome;

    fn desk() -> Rc<Desk> {
        Rc::new(Desk::new(Waker::new(|| {}), 4))
    }

    fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
        pin!(future).poll(&mut Context::from_waker(std::task::Waker::noop()))
    }

    #[test]
    fn a_sleeper_wakes_at_its_deadline_and_not_before() {
        let desk = desk();
        desk.begin_turn(Moment::from_milliseconds(10));
        let mut sleep = desk.sleep(Duration::from_millis(5));
        assert_eq!(poll(&mut sleep), Poll::Pending);
        assert_eq!(desk.deadline(), Some(Moment::from_milliseconds(15)));
        desk.begin_turn(Moment::from_milliseconds(14));
        assert_eq!(poll(&mut sleep), Poll::Pending);
        desk.begin_turn(Moment::from_milliseconds(15));
        desk.expire(Moment::from_milliseconds(15));
        assert_eq!(poll(&mut sleep), Poll::Ready(()));
        drop(sleep);
        assert!(desk.sleeps.borrow().wakers.is_empty());
    }

    #[test]
    fn a_note_left_between_turns_wakes_the_shard() {
        let woken = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let count = Arc::clone(&woken);
        let waker = Waker::new(move || {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        });
        let desk = Desk::new(waker, 4);
        let note =
            || Note::Finished { ticket: Key::from_bits(1), result: Ok(Outcome::text("x").into()) };
        desk.begin_turn(Moment::ORIGIN);
        desk.leave(note());
        assert_eq!(woken.load(std::sync::atomic::Ordering::Relaxed), 0);
        desk.end_turn();
        desk.leave(note());
        assert_eq!(woken.load(std::sync::atomic::Ordering::Relaxed), 1);
    }
}
