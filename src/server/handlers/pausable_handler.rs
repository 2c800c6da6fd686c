//! A local handler that can be paused: it is not polled until it continues.
//!
//! Whether it must pause is known when the shard has processed what it emits, once a turn. Until
//! then it is polled a few times only, so that it emits little before it pauses.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::HandlerQueue;
use super::handler_state::CancellationToken;
use crate::service::call::LocalFuture;
use crate::service::{HandlerError, HandlerOutput, LocalWork};

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
    running: LocalFuture,
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
