//! The calls of a shard that answer later: one table, tickets, deadlines.
//!
//! What it keeps true: a call stands here from the moment its handler is handed over until the
//! handler has ended, even when nobody waits for its answer any more; its answer is owed to at
//! most one peer; a ticket that is no longer good names nothing.

use std::rc::Rc;
use std::sync::Arc;

use super::desk::role::Flag;
use super::party::Outlet;
use super::questions::Dialogue;
use crate::base::slab::{Key, Slab};
use crate::base::time::Moment;
use crate::engine::host::Task;
use crate::engine::timer::Wheel;
use crate::protocol::revision::Revision;
use crate::protocol::rpc::IdBuf;
use crate::service::Catalog;

/// One call whose answer comes later.
#[derive(Debug)]
pub(super) struct Call {
    /// Who asked, and which way.
    pub(super) outlet: Outlet,
    /// What the answer must name.
    pub(super) id: IdBuf,
    /// How the answer must be written.
    pub(super) revision: Revision,
    /// What was offered when it began, and what it ends with.
    pub(super) catalog: Arc<Catalog>,
    /// What progress must name, where the caller wants to hear of it.
    pub(super) progress_token: Option<IdBuf>,
    /// The last progress told: later ones must be greater.
    pub(super) progress: f64,
    /// Its questions to the client, where it has any.
    pub(super) dialogue: Option<Box<Dialogue>>,
    /// When it must have answered.
    deadline: Moment,
    /// The handler at work.
    pub(super) work: Work,
    /// Whether the peer still waits for the answer.
    awaited: bool,
    /// Its deadline was reached while it stood still, and is watched no more.
    is_unwatched: bool,
}

/// A handler at work.
#[derive(Debug)]
pub(super) enum Work {
    /// A future on this shard. Dropping the task drops the future.
    Local {
        /// The future.
        task: Option<Task>,
        /// Tells it that nobody waits any more.
        flag: Rc<Flag>,
    },
    /// A closure on the thread pool, which watches whether the other half of this is still there.
    Blocking {
        /// Dropped when nobody waits any more.
        interest: Option<Arc<()>>,
    },
    /// None of this call's own: the answer comes from a task, of this shard or another.
    Elsewhere,
}

impl Work {
    /// Tells the handler that nobody waits any more. It ends by itself.
    pub(super) fn cancel(&mut self) {
        match self {
            Self::Local { flag, .. } => flag.raise(),
            Self::Blocking { interest } => *interest = None,
            Self::Elsewhere => {}
        }
    }
}

/// Who asks for a call, and how its answer is to be told.
#[derive(Debug)]
pub(super) struct Caller {
    /// Who asked, and which way.
    pub(super) outlet: Outlet,
    /// What the answer must name.
    pub(super) id: IdBuf,
    /// How the answer must be written.
    pub(super) revision: Revision,
    /// What is offered.
    pub(super) catalog: Arc<Catalog>,
    /// What progress must name.
    pub(super) progress_token: Option<IdBuf>,
}

/// All calls of a shard that answer later.
#[derive(Debug)]
pub(super) struct Calls {
    slab: Slab<Call>,
    wheel: Wheel<Key>,
}

impl Calls {
    /// An empty table for at most `calls_max` calls.
    pub(super) fn new(calls_max: usize) -> Self {
        Self { slab: Slab::new(calls_max), wheel: Wheel::new() }
    }

    /// Enters a call that must have answered by `deadline`; `None` when the table is full.
    pub(super) fn enter(&mut self, caller: Caller, work: Work, deadline: Moment) -> Option<Key> {
        let Caller { outlet, id, revision, catalog, progress_token } = caller;
        let progress = f64::NEG_INFINITY;
        let call = Call {
            outlet,
            id,
            revision,
            catalog,
            progress_token,
            progress,
            dialogue: None,
            deadline,
            work,
            awaited: true,
            is_unwatched: false,
        };
        let ticket = self.slab.insert(call).ok()?;
        // Most calls end long before their deadline.
        self.wheel.shed(self.slab.len(), |ticket| self.slab.get(*ticket).is_some());
        self.wheel.insert(deadline, ticket);
        Some(ticket)
    }

    /// Remembers the running future of a local call.
    pub(super) fn attach(&mut self, ticket: Key, running: Task) {
        if let Some(Call { work: Work::Local { task, .. }, .. }) = self.slab.get_mut(ticket) {
            *task = Some(running);
        }
    }

    /// The call of a ticket, while its answer is awaited.
    pub(super) fn awaited(&mut self, ticket: Key) -> Option<&mut Call> {
        self.slab.get_mut(ticket).filter(|call| call.awaited)
    }

    /// The handler of a call has ended: takes the call out; `None` where nobody waits.
    pub(super) fn end(&mut self, ticket: Key) -> Option<Call> {
        self.slab.remove(ticket).filter(|call| call.awaited)
    }

    /// Nobody waits for this answer any more: tells the handler so. It keeps its place until it
    /// ends by itself. `false` where nobody waited already.
    pub(super) fn cancel(&mut self, ticket: Key) -> bool {
        let Some(call) = self.slab.get_mut(ticket).filter(|call| call.awaited) else {
            return false;
        };
        call.awaited = false;
        call.work.cancel();
        if matches!(call.work, Work::Elsewhere) {
            // There is no handler whose end would make room.
            self.slab.remove(ticket);
        }
        true
    }

    /// A call has asked question `number`: it does not age while its client thinks. `false` where
    /// nobody waits for its answer, or as many as may be are open.
    pub(super) fn ask(&mut self, ticket: Key, number: u64, open_max: usize, now: Moment) -> bool {
        let Some(call) = self.awaited(ticket) else { return false };
        call.dialogue.get_or_insert_default().ask(number, open_max, now)
    }

    /// Question `number` of a call is over; with the last one the call ages again.
    pub(super) fn hear(&mut self, ticket: Key, number: u64, now: Moment) {
        let Some(call) = self.slab.get_mut(ticket) else { return };
        let Some(dialogue) = &mut call.dialogue else { return };
        if let Some(stood_still) = dialogue.hear(number, now) {
            call.deadline = call.deadline.after(stood_still);
            // An entry from before looks again when it is reached: there is never more than one.
            if std::mem::take(&mut call.is_unwatched) {
                self.wheel.insert(call.deadline, ticket);
            }
        }
    }

    /// The user of a call has agreed to open an address.
    pub(super) fn open_address(&mut self, ticket: Key, address: Option<Box<str>>) {
        if let Some(call) = self.awaited(ticket) {
            call.dialogue.get_or_insert_default().open_address(address);
        }
    }

    /// The open questions of a call.
    pub(super) fn questions(&self, ticket: Key) -> &[u64] {
        let dialogue = self.slab.get(ticket).and_then(|call| call.dialogue.as_ref());
        dialogue.map_or(&[], |dialogue| dialogue.open())
    }

    /// Takes the open questions of a call.
    pub(super) fn take_questions(&mut self, ticket: Key) -> Vec<u64> {
        let dialogue = self.slab.get_mut(ticket).and_then(|call| call.dialogue.as_mut());
        dialogue.map(|dialogue| dialogue.take()).unwrap_or_default()
    }

    /// Takes one call whose deadline has passed and whose answer is still awaited.
    pub(super) fn overdue(&mut self, now: Moment) -> Option<Key> {
        loop {
            let ticket = self.wheel.pop_expired(now)?;
            let Some(call) = self.awaited(ticket) else { continue };
            if call.dialogue.as_ref().is_some_and(|dialogue| dialogue.is_open()) {
                // It stands still, and enters again when it goes on.
                call.is_unwatched = true;
                continue;
            }
            let deadline = call.deadline;
            if deadline <= now {
                return Some(ticket);
            }
            self.wheel.insert(deadline, ticket);
        }
    }

    /// When the next deadline passes.
    pub(super) fn deadline(&self) -> Option<Moment> {
        self.wheel.next_deadline()
    }

    /// Handlers at work, those that nobody waits for included.
    pub(super) const fn len(&self) -> usize {
        self.slab.len()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::protocol::message::ServerInfo;
    use crate::protocol::rpc::Id;
    use crate::server::party::Party;

    fn at(milliseconds: u64) -> Moment {
        Moment::from_milliseconds(milliseconds)
    }

    /// A table with one call that must have answered after 100 ms.
    fn one_call() -> (Calls, Key) {
        let mut calls = Calls::new(4);
        let offered = Catalog::builder(ServerInfo::new("calls", "1")).build().unwrap();
        let caller = Caller {
            catalog: Arc::new(offered),
            outlet: Outlet::general(Party::Connection(Key::from_bits(1))),
            id: Id::Signed(1).into(),
            revision: Revision::LATEST_LEGACY,
            progress_token: None,
        };
        let work = Work::Blocking { interest: Some(Arc::new(())) };
        let deadline = Moment::ORIGIN.after(Duration::from_millis(100));
        let ticket = calls.enter(caller, work, deadline).expect("room for one call");
        (calls, ticket)
    }

    #[test]
    fn a_call_stands_still_while_any_of_its_questions_is_open() {
        let (mut calls, ticket) = one_call();
        assert!(calls.ask(ticket, 1, 2, at(10)));
        assert!(calls.ask(ticket, 2, 2, at(20)));
        assert!(!calls.ask(ticket, 3, 2, at(20)), "as many as may be are open");
        calls.hear(ticket, 1, at(50));
        assert_eq!(calls.overdue(at(500)), None);
        calls.hear(ticket, 2, at(510));
        // It stood still for 500 ms.
        assert_eq!(calls.overdue(at(599)), None);
        assert_eq!(calls.overdue(at(600)), Some(ticket));
    }

    #[test]
    fn an_entry_from_before_the_question_does_not_end_the_call_early() {
        let (mut calls, ticket) = one_call();
        assert!(calls.ask(ticket, 1, 2, at(10)));
        calls.hear(ticket, 1, at(40));
        assert_eq!(calls.overdue(at(100)), None);
        assert_eq!(calls.overdue(at(130)), Some(ticket));
    }

    #[test]
    fn a_call_that_asks_again_and_again_keeps_one_deadline() {
        let (mut calls, ticket) = one_call();
        for number in 0..1_000 {
            assert!(calls.ask(ticket, number, 2, at(10)));
            calls.hear(ticket, number, at(11));
        }
        assert_eq!(calls.wheel.len(), 1);
        // It stood still for a second; the question that is open when that is looked at takes the
        // deadline out, and the last one brings it back.
        assert!(calls.ask(ticket, 1_000, 2, at(20)));
        assert_eq!(calls.overdue(at(500)), None);
        assert_eq!(calls.wheel.len(), 0);
        calls.hear(ticket, 1_000, at(500));
        assert_eq!(calls.wheel.len(), 1);
        assert_eq!(calls.overdue(at(1_579)), None);
        assert_eq!(calls.overdue(at(1_580)), Some(ticket));
    }

    #[test]
    fn a_cancelled_call_asks_nothing_more_and_is_never_overdue() {
        let (mut calls, ticket) = one_call();
        assert!(calls.ask(ticket, 1, 2, at(10)));
        assert_eq!(calls.take_questions(ticket), [1]);
        assert!(calls.cancel(ticket));
        assert!(!calls.cancel(ticket));
        assert!(!calls.ask(ticket, 2, 2, at(20)));
        calls.hear(ticket, 1, at(30));
        assert_eq!(calls.overdue(at(1_000)), None);
        assert_eq!(calls.len(), 1, "until its handler ends");
    }
}
