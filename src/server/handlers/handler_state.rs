//! The state of a local handler: it runs as a call, as a task, or as a call that becomes a task.
//!
//! ```text
//!   call ──── begin_task ───▶ event to the shard ───▶ task
//!     └─ ends with open input requests: the round trip and the handler end
//! ```
//!
//! Invariants: a handler changes from call to task at most once, while it is not being polled, and
//! continues where it was; if the round trip ends before the shard has read the request for a
//! task, it ends as a call. The carrier of an input request is chosen when it is first polled.
//!
//! Source: Tasks extension 2026-07-28 (SEP-2663), "Task Creation": input that is required first is
//! requested before the task is created.
//!
//! Whether it must pause is known when the shard has processed what it emits, once a turn. Until
//! then it is polled a few times only, so that it emits little before it pauses.

use std::cell::{Cell, OnceCell, RefCell};
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use corelane_base::client_address::ClientAddress;
use corelane_base::slab::Key;
use corelane_protocol::model::InputRequest;

use super::{HandlerEvent, HandlerQueue};
use crate::server::client_requests::{
    InputResult, NewClientRequest, Oneshot, PendingInputs, TaskInputs,
};
use crate::server::memory::handler_memory::RequestAccount;
use crate::server::shard_message::{Requester, TaskEvent};
use crate::service::call::LocalHandlerFuture;
use crate::service::{
    ClientRequestError, HandlerError, HandlerOutput, HostFuture, LocalWork, PastRoundTrips,
    RequestInfo,
};

/// The state of one local handler.
#[derive(Debug)]
pub struct HandlerState {
    pub queue: Rc<HandlerQueue>,
    pub token: Rc<CancellationToken>,
    pub request: Arc<RequestInfo>,
    requester: Cell<Requester>,
    carrier: RefCell<RequestCarrier>,
    transition: RefCell<TaskTransition>,
    /// Wakers that wait for the transition to a task.
    transition_wakers: RefCell<Vec<Waker>>,
    /// The account of its requests to the client, once there is one.
    requests: OnceCell<RequestAccount>,
}

/// How input requests reach the client.
#[derive(Debug)]
pub enum RequestCarrier {
    /// A request from server to client (up to 2025-11-25).
    ServerRequest,
    /// An `input_required` result, which ends the handler (multi round-trip requests, 2026-07-28).
    RoundTrip(Rc<PendingInputs>),
    /// The `inputRequests` of a task (2026-07-28).
    TaskInput(Rc<TaskInputs>),
}

/// Whether a call becomes a task.
#[derive(Clone, Debug)]
pub enum TaskTransition {
    /// No: it stays a call, or is a task already.
    None,
    /// When the handler begins it.
    Allowed(TaskTerms),
    /// The handler has begun it; the shard has not created the task yet.
    Requested(TaskTerms),
    /// The task could not be created.
    Rejected(HandlerError),
}

/// What the task of a call is created with.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TaskTerms {
    pub ttl: Option<Duration>,
    /// Address of the caller, unless it is exempt from the shares.
    pub address: Option<ClientAddress>,
}

impl HandlerState {
    pub fn new(
        queue: &Rc<HandlerQueue>,
        request: Arc<RequestInfo>,
        token: Rc<CancellationToken>,
        requester: Requester,
        carrier: RequestCarrier,
        transition: TaskTransition,
    ) -> Self {
        Self {
            queue: Rc::clone(queue),
            token,
            request,
            requester: Cell::new(requester),
            carrier: RefCell::new(carrier),
            transition: RefCell::new(transition),
            transition_wakers: RefCell::default(),
            requests: OnceCell::new(),
        }
    }

    /// Returns the account of its requests to the client.
    fn request_account(&self) -> &RequestAccount {
        self.requests.get_or_init(|| RequestAccount::new(&self.queue.memory))
    }

    /// Returns the call or task that the handler runs as.
    pub const fn requester(&self) -> Requester {
        self.requester.get()
    }

    /// Resolves when the call or the task is cancelled.
    pub(super) fn cancelled(&self) -> impl Future<Output = ()> + use<> {
        CancelledFuture { token: Rc::clone(&self.token) }
    }

    /// Requests input from the client. The request is sent when the future is first polled.
    pub(super) fn request_input(self: &Rc<Self>, key: &str, request: InputRequest) -> InputFuture {
        InputFuture {
            handler: Rc::clone(self),
            state: InputState::Unsent(Some((key.into(), request))),
        }
    }

    /// Where an input that the client has not given ends the handler: what earlier round trips
    /// have left.
    pub(super) fn past_round_trips(&self) -> Option<PastRoundTrips> {
        match &*self.carrier.borrow() {
            RequestCarrier::RoundTrip(inputs) => Some(PastRoundTrips {
                requested_keys: inputs.state.requested_keys().map(Box::from).collect(),
                responses: inputs.state.responses().to_vec(),
                kept: inputs.state.kept().map(Box::from),
            }),
            RequestCarrier::ServerRequest | RequestCarrier::TaskInput(_) => None,
        }
    }

    /// Keeps `kept` for the next round trip, instead of the responses so far.
    pub(super) fn keep_for_round_trip(&self, kept: Box<str>) {
        if let RequestCarrier::RoundTrip(inputs) = &*self.carrier.borrow() {
            inputs.keep(kept);
        }
    }

    /// Resolves when the handler runs as a task, or stays a call for good.
    pub(super) fn begin_task(
        self: &Rc<Self>,
    ) -> impl Future<Output = Result<(), HandlerError>> + use<> {
        let handler = Rc::clone(self);
        poll_fn(move |context| {
            let mut transition = handler.transition.borrow_mut();
            match &*transition {
                TaskTransition::None => return Poll::Ready(Ok(())),
                TaskTransition::Rejected(error) => return Poll::Ready(Err(error.clone())),
                TaskTransition::Allowed(terms) => {
                    *transition = TaskTransition::Requested(*terms);
                    handler.queue.push(HandlerEvent::BeginTask(Rc::clone(&handler)));
                }
                TaskTransition::Requested(_) => {}
            }
            register_waker(&mut handler.transition_wakers.borrow_mut(), context);
            Poll::Pending
        })
    }

    /// Returns the call that asks to become a task, and what that is created with.
    pub fn requested_task(&self) -> Option<(Key, TaskTerms)> {
        match (self.requester(), &*self.transition.borrow()) {
            (Requester::Call(call_id), TaskTransition::Requested(terms)) => Some((call_id, *terms)),
            _ => None,
        }
    }

    /// Turns the call into task `task`.
    pub fn become_task(&self, task: Key, carrier: RequestCarrier) {
        self.requester.set(Requester::Task(task));
        self.carrier.replace(carrier);
        self.finish_transition(TaskTransition::None);
    }

    /// Rejects the transition with `error`.
    pub fn reject_task(&self, error: HandlerError) {
        self.finish_transition(TaskTransition::Rejected(error));
    }

    fn finish_transition(&self, transition: TaskTransition) {
        self.transition.replace(transition);
        self.transition_wakers.take().into_iter().for_each(Waker::wake);
    }

    /// Ends the round trip if the handler waits for input. Whatever else it waits for, a task
    /// included, starts again with the next round trip.
    fn end_round_trip(&self) -> Option<HandlerEvent> {
        let (Requester::Call(call_id), RequestCarrier::RoundTrip(inputs)) =
            (self.requester(), &*self.carrier.borrow())
        else {
            return None;
        };
        if !inputs.is_open() {
            return None;
        }
        self.transition.replace(TaskTransition::None);
        Some(HandlerEvent::InputRequired {
            call_id,
            open: inputs.take(),
            inputs: Rc::clone(inputs),
        })
    }

    /// Returns whether the result must be delivered by a task that has not begun: up to 2025-11-25
    /// the caller requested a task and accepts no other response.
    fn must_begin_task(&self) -> bool {
        let is_open = matches!(
            *self.transition.borrow(),
            TaskTransition::Allowed(_) | TaskTransition::Requested(_)
        );
        is_open && !self.request.client().revision.is_modern()
    }

    /// Runs a handler until it ends or its round trip ends, then pushes the event.
    pub async fn run(self: Rc<Self>, mut running: HostFuture<Result<HandlerOutput, HandlerError>>) {
        let ended = poll_fn(|context| match running.as_mut().poll(context) {
            Poll::Ready(result) => Poll::Ready(Ok(result)),
            Poll::Pending => {
                self.end_round_trip().map_or(Poll::Pending, |event| Poll::Ready(Err(event)))
            }
        });
        let ended = ended.await;
        // Drop the handler's values before its end is processed.
        drop(running);
        let event = match ended {
            Ok(result) if self.must_begin_task() => {
                let started = self.begin_task().await;
                self.finished_event(started.and(result))
            }
            Ok(result) => self.finished_event(result),
            Err(event) => event,
        };
        self.queue.push(event);
    }

    fn finished_event(&self, result: Result<HandlerOutput, HandlerError>) -> HandlerEvent {
        match self.requester() {
            Requester::Call(call_id) => HandlerEvent::Finished { call_id, result },
            Requester::Task(task) => {
                HandlerEvent::Task { task, event: TaskEvent::Finished(result) }
            }
        }
    }
}

fn register_waker(wakers: &mut Vec<Waker>, context: &Context<'_>) {
    if !wakers.iter().any(|waker| waker.will_wake(context.waker())) {
        wakers.push(context.waker().clone());
    }
}

/// A cancellation flag with the wakers of those that wait for it, and whether the handler is
/// paused.
#[derive(Debug, Default)]
pub struct CancellationToken {
    is_cancelled: Cell<bool>,
    is_paused: Cell<bool>,
    wakers: RefCell<Vec<Waker>>,
}

impl CancellationToken {
    /// Cancels and wakes all waiters.
    pub fn cancel(&self) {
        self.is_cancelled.set(true);
        self.wakers.take().into_iter().for_each(Waker::wake);
    }

    pub const fn is_cancelled(&self) -> bool {
        self.is_cancelled.get()
    }

    /// Pauses the handler, if it can be paused.
    pub fn pause(&self) {
        self.is_paused.set(true);
    }

    /// Continues a paused handler.
    pub fn resume(&self) {
        if self.is_paused.replace(false) {
            self.wakers.take().into_iter().for_each(Waker::wake);
        }
    }

    /// Returns whether a handler must not be polled; its waker is called when it may be. A
    /// cancelled one is polled.
    fn delays(&self, context: &Context<'_>) -> bool {
        let delays = self.is_paused.get() && !self.is_cancelled();
        if delays {
            register_waker(&mut self.wakers.borrow_mut(), context);
        }
        delays
    }
}

struct CancelledFuture {
    token: Rc<CancellationToken>,
}

impl Future for CancelledFuture {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.token.is_cancelled() {
            return Poll::Ready(());
        }
        register_waker(&mut self.token.wakers.borrow_mut(), context);
        Poll::Pending
    }
}

/// An input request: sent when it is first polled; a server request is cancelled if the future is
/// dropped before its response.
pub(super) struct InputFuture {
    handler: Rc<HandlerState>,
    state: InputState,
}

enum InputState {
    Unsent(Option<(Box<str>, InputRequest)>),
    Open { number: u64, oneshot: Rc<Oneshot> },
    Delegated(HostFuture<InputResult>),
    Done,
}

impl InputFuture {
    /// Sends the request.
    ///
    /// # Errors
    ///
    /// The request exceeds a limit; nothing is sent.
    fn send(&self, key: &str, request: InputRequest) -> Result<InputState, ClientRequestError> {
        let HandlerState { queue, token, carrier, .. } = &*self.handler;
        let account = self.handler.request_account();
        match &*carrier.borrow() {
            RequestCarrier::ServerRequest => {
                let request = NewClientRequest::charged(request, account)?;
                let (number, oneshot) =
                    (queue.allocate_request_number(), Rc::clone(&request.oneshot));
                let handler = Rc::clone(&self.handler);
                queue.push(HandlerEvent::SendRequest { handler, number, request });
                Ok(InputState::Open { number, oneshot })
            }
            RequestCarrier::RoundTrip(inputs) => {
                Ok(InputState::Delegated(inputs.request(key, request, account)?))
            }
            RequestCarrier::TaskInput(inputs) => {
                // A cancelled task sends nothing more and gets no response.
                if !token.is_cancelled()
                    && inputs.request(key, request, account)?
                    && let Requester::Task(task) = self.handler.requester()
                {
                    let event = TaskEvent::InputRequested;
                    queue.push(HandlerEvent::Task { task, event });
                }
                Ok(InputState::Delegated(Box::pin(inputs.response_to(key))))
            }
        }
    }
}

impl Future for InputFuture {
    type Output = InputResult;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<InputResult> {
        if let InputState::Unsent(client_request) = &mut self.state
            && let Some((key, request)) = client_request.take()
        {
            match self.send(&key, request) {
                Ok(state) => self.state = state,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        let reply = match &mut self.state {
            InputState::Open { oneshot, .. } => oneshot.poll(context),
            InputState::Delegated(reply) => reply.as_mut().poll(context),
            InputState::Unsent(_) | InputState::Done => Poll::Pending,
        };
        if reply.is_ready() {
            self.state = InputState::Done;
        }
        reply
    }
}

impl Drop for InputFuture {
    fn drop(&mut self) {
        if let InputState::Open { number, .. } = self.state {
            self.handler.queue.push(HandlerEvent::CancelRequest { number });
        }
    }
}

/// Polls of a handler before its events are processed.
const POLLS_MAX: u32 = 4;

/// Returns `work` as one whose handler is not polled while `token` is paused.
pub fn pausable(
    work: LocalWork,
    token: &Rc<CancellationToken>,
    queue: &Rc<HandlerQueue>,
) -> LocalWork {
    let (token, queue) = (Rc::clone(token), Rc::clone(queue));
    Box::new(move |ctx| {
        let polls = (queue.rounds(), 0);
        Box::pin(PausableHandler { running: work(ctx), token, queue, polls })
    })
}

struct PausableHandler {
    running: LocalHandlerFuture,
    token: Rc<CancellationToken>,
    queue: Rc<HandlerQueue>,
    /// The round of events in which it was polled last, and how often.
    polls: (u64, u32),
}

impl Future for PausableHandler {
    type Output = Result<HandlerOutput, HandlerError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.token.delays(context) {
            return Poll::Pending;
        }
        let round = self.queue.rounds();
        self.polls = if self.polls.0 == round { (round, self.polls.1 + 1) } else { (round, 1) };
        if self.polls.1 > POLLS_MAX {
            self.queue.await_round(context.waker());
            return Poll::Pending;
        }
        self.running.as_mut().poll(context)
    }
}
