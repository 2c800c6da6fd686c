//! A local handler that can be paused: it is not polled until it continues.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::handler_state::CancellationToken;
use crate::service::call::LocalFuture;
use crate::service::{HandlerError, HandlerOutput, LocalWork};

/// Returns `work` as one whose handler is not polled while `token` is paused.
pub(in crate::server) fn pausable(work: LocalWork, token: &Rc<CancellationToken>) -> LocalWork {
    let token = Rc::clone(token);
    Box::new(move |ctx| Box::pin(PausableHandler { running: work(ctx), token }))
}

struct PausableHandler {
    running: LocalFuture,
    token: Rc<CancellationToken>,
}

impl Future for PausableHandler {
    type Output = Result<HandlerOutput, HandlerError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.token.delays(context) {
            return Poll::Pending;
        }
        self.running.as_mut().poll(context)
    }
}
