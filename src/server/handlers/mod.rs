//! The queue from local handlers to their shard.
//!
//! Handlers are futures on the shard's thread and the shard is not re-entrant. A handler pushes
//! events (progress, client requests, its result), which the shard takes once per turn; a sleeping
//! handler registers its waker with a deadline. Everything is on one thread: cells, no locks.

pub(super) mod handler_state;

pub(super) mod contexts;

pub(super) mod reports;

#[cfg(feature = "tokio")]
pub(super) mod tokio_handlers;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use corelane_base::slab::{Key, Slab};
use corelane_base::time::Instant;
use corelane_engine::ring::Waker;
use corelane_engine::timer::TimerWheel;
use corelane_protocol::in_flight::CallId;

use self::contexts::PendingUpdate;
pub(super) use self::contexts::{BlockingHandle, CatalogAccess};
use self::handler_state::HandlerState;
use self::reports::SlowPoll;
use super::client_requests::{NewClientRequest, PendingInput, PendingInputs};
use super::memory::handler_memory::HandlerMemory;
use super::shard_message::{LogMessage, PartialResult, Progress};
use crate::server::shard_message::TaskEvent;
use crate::service::{HandlerError, HandlerOutput};

/// An event of a handler.
#[derive(Debug)]
pub(super) enum HandlerEvent {
    /// Sends a request to the client.
    SendRequest { handler: Rc<HandlerState>, number: u64, request: NewClientRequest },
    /// The round trip ends: the handler needs input that is not there (2026-07-28).
    InputRequired {
        call_id: CallId,
        inputs: Rc<PendingInputs>,
        /// The inputs that it requests.
        open: Vec<PendingInput>,
    },
    /// The call asks to continue as a task.
    BeginTask(Rc<HandlerState>),
    /// An event of a handler that runs as a task.
    Task { task: Key, event: TaskEvent },
    /// Updates the catalog.
    UpdateCatalog(Rc<PendingUpdate>),
    /// Closes the SSE stream of the call; the client resumes it later (SEP-1699).
    CloseStream { call_id: CallId },
    /// The handler has ended.
    Finished { call_id: CallId, result: Result<HandlerOutput, HandlerError> },
    /// `notifications/message`
    Log(LogMessage),
    /// `notifications/progress`
    Progress(Progress),
    /// A part of the result of a streamed call.
    Partial(PartialResult),
    /// Cancels a request to the client.
    CancelRequest { number: u64 },
}

/// The handler queue of one shard.
#[derive(Debug)]
pub(super) struct HandlerQueue {
    now: Cell<Instant>,
    events: RefCell<Vec<HandlerEvent>>,
    /// Resources that have changed, deduplicated.
    updated_resources: RefCell<BTreeSet<Arc<str>>>,
    sleepers: RefCell<Sleepers>,
    /// Wakes the shard when an event is pushed between two turns (by an executor that runs futures
    /// while the shard waits).
    waker: Waker,
    in_turn: Cell<bool>,
    /// Polls that took long.
    slow_polls: RefCell<Vec<SlowPoll>>,
    /// How often all queued events were processed.
    rounds: Cell<u64>,
    /// Wakers of handlers that wait for the next time.
    round_wakers: RefCell<Vec<std::task::Waker>>,
    /// Number of the next client request.
    next_request: Cell<u64>,
    /// What the handlers of the shard hold.
    memory: Rc<HandlerMemory>,
}

#[derive(Debug)]
struct Sleepers {
    wakers: Slab<std::task::Waker>,
    timers: TimerWheel<Key>,
}

impl HandlerQueue {
    /// Returns an empty queue of the shard behind `waker`, for at most `sleeps_max` sleepers.
    pub(super) fn new(waker: Waker, sleeps_max: usize, memory: &Rc<HandlerMemory>) -> Self {
        let sleepers = Sleepers { wakers: Slab::new(sleeps_max), timers: TimerWheel::new() };
        Self {
            now: Cell::new(Instant::ORIGIN),
            events: RefCell::default(),
            updated_resources: RefCell::default(),
            sleepers: RefCell::new(sleepers),
            waker,
            in_turn: Cell::new(false),
            slow_polls: RefCell::default(),
            rounds: Cell::new(0),
            round_wakers: RefCell::default(),
            next_request: Cell::new(0),
            memory: Rc::clone(memory),
        }
    }

    /// Begins a turn at `now`, which is the current time for new sleepers.
    pub(super) fn begin_turn(&self, now: Instant) {
        self.now.set(now);
        self.in_turn.set(true);
    }

    /// Ends the turn: events pushed from here on wake the shard.
    pub(super) fn end_turn(&self) {
        self.in_turn.set(false);
    }

    pub(super) fn push(&self, event: HandlerEvent) {
        self.events.borrow_mut().push(event);
        if !self.in_turn.get() {
            self.waker.wake();
        }
    }

    /// Records a poll that took long. The turn that follows it takes it; no other one is needed.
    #[cold]
    pub(super) fn record_slow_poll(&self, poll: SlowPoll) {
        self.slow_polls.borrow_mut().push(poll);
    }

    /// Takes the polls that took long.
    #[inline]
    pub(super) fn take_slow_polls(&self) -> Vec<SlowPoll> {
        self.slow_polls.take()
    }

    /// Returns how often all queued events were processed.
    pub(super) fn rounds(&self) -> u64 {
        self.rounds.get()
    }

    /// Calls a waker once all queued events are processed.
    fn await_round(&self, waker: &std::task::Waker) {
        self.round_wakers.borrow_mut().push(waker.clone());
    }

    /// All queued events are processed: handlers that wait for that are polled in the next turn.
    pub(super) fn end_round(&self) {
        self.rounds.set(self.rounds.get() + 1);
        if !self.round_wakers.borrow().is_empty() {
            self.round_wakers.take().into_iter().for_each(std::task::Waker::wake);
        }
    }

    /// Returns a number for a client request, unique on this shard.
    pub(super) fn allocate_request_number(&self) -> u64 {
        self.next_request.replace(self.next_request.get() + 1)
    }

    /// Returns a future that resolves after `duration`, counted from the current turn.
    pub(super) fn sleep(self: &Rc<Self>, duration: Duration) -> Sleep {
        Sleep { queue: Rc::clone(self), deadline: self.now.get().after(duration), key: None }
    }

    /// Marks a resource as changed.
    pub(super) fn mark_resource_updated(&self, uri: &str) {
        if !self.updated_resources.borrow().contains(uri) {
            self.updated_resources.borrow_mut().insert(uri.into());
        }
        if !self.in_turn.get() {
            self.waker.wake();
        }
    }

    pub(super) fn take_updated_resources(&self) -> BTreeSet<Arc<str>> {
        self.updated_resources.take()
    }

    pub(super) fn has_updated_resources(&self) -> bool {
        !self.updated_resources.borrow().is_empty()
    }

    /// Swaps the queued events into `into`, which must be empty.
    pub(super) fn take_events(&self, into: &mut Vec<HandlerEvent>) {
        debug_assert!(into.is_empty());
        std::mem::swap(&mut *self.events.borrow_mut(), into);
    }

    /// Returns whether events or changed resources are queued.
    pub(super) fn has_events(&self) -> bool {
        !self.events.borrow().is_empty() || self.has_updated_resources()
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.sleepers.borrow().timers.next_deadline()
    }

    /// Wakes every sleeper whose deadline has passed.
    pub(super) fn wake_expired(&self, now: Instant) {
        loop {
            let mut sleepers = self.sleepers.borrow_mut();
            let Some(key) = sleepers.timers.pop_expired(now) else { return };
            let waker = sleepers.wakers.get(key).cloned();
            drop(sleepers);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

/// Resolves when its deadline has passed on the shard's clock.
pub(super) struct Sleep {
    queue: Rc<HandlerQueue>,
    deadline: Instant,
    key: Option<Key>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.deadline <= self.queue.now.get() {
            return Poll::Ready(());
        }
        let queue = Rc::clone(&self.queue);
        let mut sleepers = queue.sleepers.borrow_mut();
        if let Some(waker) = self.key.and_then(|key| sleepers.wakers.get_mut(key)) {
            waker.clone_from(context.waker());
            return Poll::Pending;
        }
        // A full slab means more sleepers than requests in flight: a handler that forks. The sleep
        // returns early instead of never.
        let Ok(key) = sleepers.wakers.insert(context.waker().clone()) else {
            return Poll::Ready(());
        };
        let Sleepers { wakers, timers } = &mut *sleepers;
        // A cancelled sleeper is gone long before its deadline: drop stale timers.
        timers.purge_stale(wakers.len(), |key| wakers.get(*key).is_some());
        timers.insert(self.deadline, key);
        drop(sleepers);
        self.key = Some(key);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.queue.sleepers.borrow_mut().wakers.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;
    use crate::server::memory::MemoryLimit;
    use crate::service::CallToolResult;

    fn handler_queue(waker: Waker) -> Rc<HandlerQueue> {
        let memory = Rc::new(HandlerMemory::new(MemoryLimit::new(1 << 20)));
        Rc::new(HandlerQueue::new(waker, 4, &memory))
    }

    fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
        pin!(future).poll(&mut Context::from_waker(std::task::Waker::noop()))
    }

    #[test]
    fn sleep_resolves_at_deadline_not_before() {
        let queue = handler_queue(Waker::new(|| {}));
        queue.begin_turn(Instant::from_milliseconds(10));
        let mut sleep = queue.sleep(Duration::from_millis(5));
        assert_eq!(poll(&mut sleep), Poll::Pending);
        assert_eq!(queue.next_deadline(), Some(Instant::from_milliseconds(15)));
        queue.begin_turn(Instant::from_milliseconds(14));
        assert_eq!(poll(&mut sleep), Poll::Pending);
        queue.begin_turn(Instant::from_milliseconds(15));
        queue.wake_expired(Instant::from_milliseconds(15));
        assert_eq!(poll(&mut sleep), Poll::Ready(()));
        drop(sleep);
        assert!(queue.sleepers.borrow().wakers.is_empty());
    }

    #[test]
    fn event_pushed_between_turns_wakes_shard() {
        let woken = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let count = Arc::clone(&woken);
        let waker = Waker::new(move || {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        });
        let queue = handler_queue(waker);
        let note = || HandlerEvent::Finished {
            call_id: Key::from_bits(1),
            result: Ok(CallToolResult::text("x").into()),
        };
        queue.begin_turn(Instant::ORIGIN);
        queue.push(note());
        assert_eq!(woken.load(std::sync::atomic::Ordering::Relaxed), 0);
        queue.end_turn();
        queue.push(note());
        assert_eq!(woken.load(std::sync::atomic::Ordering::Relaxed), 1);
    }
}
