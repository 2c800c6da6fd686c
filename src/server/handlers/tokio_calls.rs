//! Starts tokio handlers: the calls of one turn together.
//!
//! A spawn from outside of a runtime takes its lock and wakes a worker thread, which on a busy
//! machine finds that one future only. The futures of a turn are spawned as one task instead, which
//! spawns them on its worker thread, where other threads of the runtime can take them.
//!
//! Invariant: a future ends when the receiver of its result is dropped.

use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::task::Poll;

use tokio::runtime::Handle as RuntimeHandle;
use tokio::sync::oneshot::{self, Receiver, Sender};

use crate::server::memory::handler_memory::HandlerResult;
use crate::service::call::TokioFuture;

/// The runtime of tokio handlers, and those that one shard has not started yet.
#[derive(Debug)]
pub struct TokioCalls {
    runtime: Option<RuntimeHandle>,
    queued: RefCell<Vec<QueuedCall>>,
}

/// A handler that is not started.
struct QueuedCall {
    handler: TokioFuture,
    result: Sender<HandlerResult>,
}

impl TokioCalls {
    pub const fn new(runtime: Option<RuntimeHandle>) -> Self {
        Self { runtime, queued: RefCell::new(Vec::new()) }
    }

    /// Queues a handler; returns the receiver of its result. `None` without a runtime.
    pub(super) fn queue(
        &self,
        handler: impl FnOnce() -> TokioFuture,
    ) -> Option<Receiver<HandlerResult>> {
        self.runtime.as_ref()?;
        let (result, receiver) = oneshot::channel();
        self.queued.borrow_mut().push(QueuedCall { handler: handler(), result });
        Some(receiver)
    }

    /// Spawns the queued handlers on the runtime; called at the end of each turn.
    #[inline]
    pub fn start_queued(&self) {
        if !self.queued.borrow().is_empty() {
            self.spawn(self.queued.take());
        }
    }

    fn spawn(&self, mut calls: Vec<QueuedCall>) {
        let Some(runtime) = &self.runtime else { return };
        if calls.len() > 1 {
            runtime.spawn(async {
                for call in calls {
                    drop(tokio::spawn(call.run()));
                }
            });
        } else if let Some(call) = calls.pop() {
            runtime.spawn(call.run());
        }
    }
}

impl QueuedCall {
    async fn run(self) {
        let Self { mut handler, mut result } = self;
        let ended = poll_fn(|context| {
            if result.poll_closed(context).is_ready() {
                return Poll::Ready(None);
            }
            handler.as_mut().poll(context).map(Some)
        });
        if let Some(ended) = ended.await {
            drop(result.send(ended));
        }
    }
}

impl fmt::Debug for QueuedCall {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("QueuedCall")
    }
}
