//! What a local handler runs as: a call, a task, or a call that becomes a task on the way.
//!
//! ```text
//!   call ──── begin_task ───▶ note to the driver ───▶ task
//!     └─ ends with open questions: the round is over, the handler with it
//! ```
//!
//! What it keeps true: a handler changes its role once at most, at a moment when it is not being
//! polled, and goes on where it was; a round that ends before the driver has read the wish for a
//! task ends as a round. How a question travels is decided when it is first waited for.
//!
//! Source: Tasks extension 2026-07-28 (SEP-2663), "Task Creation": what must be asked first is
//! asked before there is a task.

use std::cell::{Cell, RefCell};
use std::future::{poll_fn, ready};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::{Desk, Note};
use crate::base::slab::Key;
use crate::protocol::message::InputRequest;
use crate::server::questions::{Asker, Posed, Reply, Slot};
use crate::server::tasks::{Inquiries, TaskNote};
use crate::service::{Client, HandlerError, HostFuture, Yield};

/// What one local handler runs as.
#[derive(Debug)]
pub(in crate::server) struct Role {
    pub(in crate::server) desk: Rc<Desk>,
    pub(in crate::server) flag: Rc<Flag>,
    pub(in crate::server) client: Client,
    asker: Cell<Asker>,
    asking: RefCell<Asking>,
    turn: RefCell<Turn>,
    /// Those who wait for the turn.
    wakers: RefCell<Vec<Waker>>,
}

/// How a handler asks its client.
#[derive(Debug)]
pub(in crate::server) enum Asking {
    /// By a request of the server's own (up to 2025-11-25).
    Requests,
    /// By the end of the round (2026-07-28).
    Rounds(Rc<Posed>),
    /// By the inputs of a task (2026-07-28).
    Inputs(Rc<Inquiries>),
}

/// Whether a call turns into a task.
#[derive(Clone, Debug)]
pub(in crate::server) enum Turn {
    /// Never: it is a call to its end, or a task already.
    None,
    /// When the handler says so; kept for as long as the caller wants.
    Possible(Option<Duration>),
    /// The handler has said so.
    Wanted(Option<Duration>),
    /// The handler has said so in vain.
    Refused(HandlerError),
}

impl Role {
    /// A handler that runs as `asker`, asks that way, and is cancelled by `flag`.
    pub(in crate::server) fn new(
        desk: &Rc<Desk>,
        (client, flag): (Client, Rc<Flag>),
        (asker, asking): (Asker, Asking),
        turn: Turn,
    ) -> Self {
        Self {
            desk: Rc::clone(desk),
            flag,
            client,
            asker: Cell::new(asker),
            asking: RefCell::new(asking),
            turn: RefCell::new(turn),
            wakers: RefCell::default(),
        }
    }

    /// What it runs as at present.
    pub(in crate::server) const fn asker(&self) -> Asker {
        self.asker.get()
    }

    /// Resolves when the call or the task is cancelled.
    pub(super) fn cancelled(&self) -> impl Future<Output = ()> + use<> {
        Raised { flag: Rc::clone(&self.flag) }
    }

    /// Asks the client.
    pub(super) fn ask(self: &Rc<Self>, key: &str, request: InputRequest) -> Asked {
        Asked { role: Rc::clone(self), state: State::Unasked(Some((key.into(), request))) }
    }

    /// Resolves when the handler runs as a task, or as a call that becomes none.
    pub(super) fn begin_task(
        self: &Rc<Self>,
    ) -> impl Future<Output = Result<(), HandlerError>> + use<> {
        let role = Rc::clone(self);
        poll_fn(move |context| {
            let mut turn = role.turn.borrow_mut();
            match &*turn {
                Turn::None => return Poll::Ready(Ok(())),
                Turn::Refused(error) => return Poll::Ready(Err(error.clone())),
                Turn::Possible(ttl) => {
                    *turn = Turn::Wanted(*ttl);
                    role.desk.leave(Note::Begin(Rc::clone(&role)));
                }
                Turn::Wanted(_) => {}
            }
            keep(&mut role.wakers.borrow_mut(), context);
            Poll::Pending
        })
    }

    /// The call that wants to become a task, and how long that is to be kept.
    pub(in crate::server) fn wish(&self) -> Option<(Key, Option<Duration>)> {
        match (self.asker(), &*self.turn.borrow()) {
            (Asker::Call(ticket), Turn::Wanted(ttl)) => Some((ticket, *ttl)),
            _ => None,
        }
    }

    /// The call has become a task, and asks that way.
    pub(in crate::server) fn become_task(&self, task: Key, asking: Asking) {
        self.asker.set(Asker::Task(task));
        self.asking.replace(asking);
        self.end_turn(Turn::None);
    }

    /// The call becomes no task.
    pub(in crate::server) fn refuse_task(&self, error: HandlerError) {
        self.end_turn(Turn::Refused(error));
    }

    fn end_turn(&self, turn: Turn) {
        self.turn.replace(turn);
        self.wakers.take().into_iter().for_each(Waker::wake);
    }

    /// Ends the round of a handler that cannot go on without an answer. It may wait for something
    /// else, too, a task included; that begins anew with the next round.
    fn end_round(&self) -> Option<Note> {
        let (Asker::Call(ticket), Asking::Rounds(posed)) = (self.asker(), &*self.asking.borrow())
        else {
            return None;
        };
        if !posed.is_open() {
            return None;
        }
        self.turn.replace(Turn::None);
        Some(Note::Asked { ticket, open: posed.take(), posed: Rc::clone(posed) })
    }

    /// Whether the caller was promised a task that has not begun: up to 2025-11-25 it asked for
    /// one, and knows no other answer.
    fn owes_task(&self) -> bool {
        let is_open = matches!(*self.turn.borrow(), Turn::Possible(_) | Turn::Wanted(_));
        is_open && !self.client.revision.is_modern()
    }

    /// Runs a handler to its end, or to that of its round, and leaves a note of that.
    pub(in crate::server) async fn run(
        self: Rc<Self>,
        mut running: HostFuture<Result<Yield, HandlerError>>,
    ) {
        let ended = poll_fn(|context| match running.as_mut().poll(context) {
            Poll::Ready(result) => Poll::Ready(Ok(result)),
            Poll::Pending => self.end_round().map_or(Poll::Pending, |note| Poll::Ready(Err(note))),
        });
        let ended = ended.await;
        // What it holds goes with it, before anybody hears of its end.
        drop(running);
        let note = match ended {
            Ok(result) if self.owes_task() => {
                let begun = self.begin_task().await;
                self.finished(begun.and(result))
            }
            Ok(result) => self.finished(result),
            Err(note) => note,
        };
        self.desk.leave(note);
    }

    fn finished(&self, result: Result<Yield, HandlerError>) -> Note {
        match self.asker() {
            Asker::Call(ticket) => Note::Finished { ticket, result },
            Asker::Task(task) => Note::Task { task, note: TaskNote::Finished(result) },
        }
    }
}

/// Remembers who waits, once.
fn keep(wakers: &mut Vec<Waker>, context: &Context<'_>) {
    if !wakers.iter().any(|waker| waker.will_wake(context.waker())) {
        wakers.push(context.waker().clone());
    }
}

/// Whether one call or task was cancelled, and who wants to know.
#[derive(Debug, Default)]
pub(in crate::server) struct Flag {
    raised: Cell<bool>,
    wakers: RefCell<Vec<Waker>>,
}

impl Flag {
    /// Cancels; wakes everybody who waits for it.
    pub(in crate::server) fn raise(&self) {
        self.raised.set(true);
        self.wakers.take().into_iter().for_each(Waker::wake);
    }

    /// Whether it was cancelled.
    pub(in crate::server) const fn is_raised(&self) -> bool {
        self.raised.get()
    }
}

/// Resolves when its flag is raised.
struct Raised {
    flag: Rc<Flag>,
}

impl Future for Raised {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.flag.is_raised() {
            return Poll::Ready(());
        }
        keep(&mut self.flag.wakers.borrow_mut(), context);
        Poll::Pending
    }
}

/// A question: asked when it is first waited for; one by a request is taken back when it is not
/// waited for any more.
pub(super) struct Asked {
    role: Rc<Role>,
    state: State,
}

enum State {
    Unasked(Option<(Box<str>, InputRequest)>),
    Open { number: u64, slot: Rc<Slot> },
    Elsewhere(HostFuture<Reply>),
    Over,
}

impl Asked {
    fn begin(&self, key: &str, request: InputRequest) -> State {
        let Role { desk, flag, asking, .. } = &*self.role;
        match &*asking.borrow() {
            Asking::Requests => {
                let (number, slot) = (desk.number(), Rc::<Slot>::default());
                let role = Rc::clone(&self.role);
                desk.leave(Note::Ask { role, number, request, slot: Rc::clone(&slot) });
                State::Open { number, slot }
            }
            Asking::Rounds(posed) => State::Elsewhere(posed.ask(key, request)),
            // A task that has ended asks nothing more, and nobody would answer.
            Asking::Inputs(inquiries) => {
                if !flag.is_raised() {
                    match (inquiries.ask(key, request), self.role.asker()) {
                        (Err(error), _) => return State::Elsewhere(Box::pin(ready(Err(error)))),
                        (Ok(true), Asker::Task(task)) => {
                            desk.leave(Note::Task { task, note: TaskNote::Asked });
                        }
                        (Ok(_), _) => {}
                    }
                }
                State::Elsewhere(Box::pin(inquiries.answer_to(key)))
            }
        }
    }
}

impl Future for Asked {
    type Output = Reply;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Reply> {
        if let State::Unasked(question) = &mut self.state
            && let Some((key, request)) = question.take()
        {
            self.state = self.begin(&key, request);
        }
        let reply = match &mut self.state {
            State::Open { slot, .. } => slot.poll(context),
            State::Elsewhere(reply) => reply.as_mut().poll(context),
            State::Unasked(_) | State::Over => Poll::Pending,
        };
        if reply.is_ready() {
            self.state = State::Over;
        }
        reply
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if let State::Open { number, .. } = self.state {
            self.role.desk.leave(Note::Withdraw { number });
        }
    }
}
