//! Tokio handlers: a future on a runtime of the host, and its counterpart on the shard of the call.
//!
//! ```text
//!   runtime: TokioHandle ── Operation ──▶ shard: Bridge ──▶ RequestHost
//!            TokioCalls  ── result ─────▶
//! ```
//!
//! The counterpart is a local handler. It executes the operations of the handler and waits for its
//! result, so that cancellation, tasks and input requests are those of local handlers.
//!
//! Invariants: the future on the runtime ends when its counterpart is dropped or cancelled; an
//! operation is executed before the result that follows it. Progress, log messages and parts of the
//! result are best effort: while [`NOTIFICATIONS_MAX`] of them wait for the shard, later ones are
//! dropped.
//!
//! The calls of one turn are started together. A spawn from outside of a runtime takes its lock and
//! wakes a worker thread, which on a busy machine finds that one future only. The futures of a turn
//! are spawned as one task instead, which spawns them on its worker thread, where other threads of
//! the runtime can take them.

use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use corelane_protocol::eras::LoggingLevel;
use corelane_protocol::model::{InputRequest, InputResponse};
use tokio::runtime::Handle as RuntimeHandle;
use tokio::sync::mpsc;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot::{self, Receiver, Sender};

use crate::server::memory::handler_memory::{HandlerCharge, HandlerResult, ResultAccount};
use crate::service::call::TokioFuture;
use crate::service::{
    CatalogError, CatalogUpdate, ClientRequestError, HandlerError, HostFuture, LocalWork,
    RequestHost, RequestInfo, SendFuture, TokioContext, TokioHost, TokioWork,
};

/// Returns the counterpart of `work`: it has `calls` start the handler.
pub fn local_work(work: TokioWork, calls: Rc<TokioCalls>) -> LocalWork {
    Box::new(move |ctx| {
        let host = Rc::clone(ctx.host());
        let (sender, receiver) = mpsc::unbounded_channel();
        let (request, notifications) = (Arc::clone(host.request()), AtomicUsize::new(0));
        let handle = Arc::new(TokioHandle { sender, notifications, request });
        let handler = Arc::<TokioHandle>::clone(&handle);
        let running = calls.queue(|| work(TokioContext::new(handler)));
        let Some(running) = running else {
            let error = "the server has no tokio runtime; pass one to Server::tokio";
            return Box::pin(std::future::ready(Err(std::io::Error::other(error).into())));
        };
        let cancelled = host.cancelled();
        let replies = Vec::new();
        Box::pin(Bridge { host, handle, receiver, replies, running, cancelled })
    })
}

/// Progress, log messages and parts of the result of a handler that may wait for its shard.
const NOTIFICATIONS_MAX: usize = 64;

/// A notification to the client of the call.
enum Notification {
    Progress { progress: f64, total: Option<f64>, message: Option<String> },
    Log { level: LoggingLevel, logger: Option<String>, data: serde_json::Value },
    Partial(serde_json::Value),
}

/// What a handler requests of its shard.
enum Operation {
    Notify(Notification),
    NotifyResourceUpdated(String),
    RequestInput { key: String, request: InputRequest, reply: Sender<InputResult> },
    BeginTask(Sender<Result<(), HandlerError>>),
    UpdateCatalog(CatalogUpdate, Sender<Result<(), CatalogError>>),
}

type InputResult = Result<InputResponse, ClientRequestError>;

/// The connection from a tokio handler to the shard of its call.
struct TokioHandle {
    sender: UnboundedSender<Operation>,
    /// Number of notifications that wait for the shard.
    notifications: AtomicUsize,
    request: Arc<RequestInfo>,
}

impl TokioHandle {
    /// Sends an operation. Without a receiver the request was cancelled and the handler ends.
    fn send(&self, operation: Operation) {
        drop(self.sender.send(operation));
    }

    /// Sends a notification unless too many wait.
    fn notify(&self, notification: impl FnOnce() -> Notification) {
        // Relaxed: a bound on memory, which needs no order.
        if self.notifications.load(Ordering::Relaxed) < NOTIFICATIONS_MAX {
            self.notifications.fetch_add(1, Ordering::Relaxed);
            self.send(Operation::Notify(notification()));
        }
    }

    /// Sends an operation and returns its result, or `cancelled` if the request is cancelled.
    fn ask<T: Send + 'static>(
        &self,
        operation: impl FnOnce(Sender<T>) -> Operation,
        cancelled: fn() -> T,
    ) -> SendFuture<T> {
        let (reply, response) = oneshot::channel();
        self.send(operation(reply));
        Box::pin(async move { response.await.unwrap_or_else(|_| cancelled()) })
    }
}

impl TokioHost for TokioHandle {
    fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        self.notify(|| {
            let message = message.map(str::to_owned);
            Notification::Progress { progress, total, message }
        });
    }

    fn is_cancelled(&self) -> bool {
        self.sender.is_closed()
    }

    fn request(&self) -> &RequestInfo {
        &self.request
    }

    fn request_input(&self, key: &str, request: InputRequest) -> SendFuture<InputResult> {
        let key = key.to_owned();
        let operation = |reply| Operation::RequestInput { key, request, reply };
        self.ask(operation, || Err(ClientRequestError::Cancelled))
    }

    fn begin_task(&self) -> SendFuture<Result<(), HandlerError>> {
        self.ask(Operation::BeginTask, || Err(HandlerError::Cancelled))
    }

    fn log(&self, level: LoggingLevel, logger: Option<&str>, data: serde_json::Value) {
        self.notify(|| Notification::Log { level, logger: logger.map(str::to_owned), data });
    }

    fn partial_result(&self, data: serde_json::Value) {
        self.notify(|| Notification::Partial(data));
    }

    fn notify_resource_updated(&self, uri: &str) {
        self.send(Operation::NotifyResourceUpdated(uri.to_owned()));
    }

    fn update_catalog(&self, update: CatalogUpdate) -> SendFuture<Result<(), CatalogError>> {
        self.ask(|reply| Operation::UpdateCatalog(update, reply), || Err(CatalogError::ReadOnly))
    }
}

/// The counterpart of a tokio handler on the shard of its call.
struct Bridge {
    host: Rc<dyn RequestHost>,
    handle: Arc<TokioHandle>,
    receiver: UnboundedReceiver<Operation>,
    /// Operations in progress; each sends its result to the handler.
    replies: Vec<HostFuture<()>>,
    running: Receiver<Ended>,
    cancelled: HostFuture<()>,
}

impl Bridge {
    fn notify(&self, notification: Notification) {
        match notification {
            Notification::Progress { progress, total, message } => {
                self.host.progress(progress, total, message.as_deref());
            }
            Notification::Log { level, logger, data } => {
                self.host.log(level, logger.as_deref(), data);
            }
            Notification::Partial(data) => self.host.partial_result(data),
        }
    }

    fn execute(&mut self, operation: Operation) {
        let host = &self.host;
        match operation {
            Operation::Notify(notification) => {
                self.handle.notifications.fetch_sub(1, Ordering::Relaxed);
                self.notify(notification);
            }
            Operation::NotifyResourceUpdated(uri) => host.notify_resource_updated(&uri),
            Operation::RequestInput { key, request, reply } => {
                let response = host.request_input(&key, request);
                self.replies.push(Box::pin(send_to(reply, response)));
            }
            Operation::BeginTask(reply) => {
                let begun = host.begin_task();
                self.replies.push(Box::pin(send_to(reply, begun)));
            }
            Operation::UpdateCatalog(update, reply) => {
                let updated = host.update_catalog(update);
                self.replies.push(Box::pin(send_to(reply, updated)));
            }
        }
    }
}

/// Sends the result of an operation, unless the handler no longer waits for it.
async fn send_to<T>(reply: Sender<T>, operation: HostFuture<T>) {
    drop(reply.send(operation.await));
}

impl Future for Bridge {
    type Output = HandlerResult;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let bridge = &mut *self;
        if bridge.cancelled.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(HandlerError::Cancelled));
        }
        // Polled first: what the handler has sent before its end is received below.
        let ended = Pin::new(&mut bridge.running).poll(context);
        while let Poll::Ready(Some(operation)) = bridge.receiver.poll_recv(context) {
            bridge.execute(operation);
        }
        bridge.replies.retain_mut(|reply| reply.as_mut().poll(context).is_pending());
        // The runtime drops the handler when it shuts down.
        ended.map(|ended| ended.map_or(Err(HandlerError::Cancelled), |ended| ended.result))
    }
}

/// The runtime of tokio handlers, and those that one shard has not started yet.
#[derive(Debug)]
pub struct TokioCalls {
    runtime: Option<RuntimeHandle>,
    results: ResultAccount,
    queued: RefCell<Vec<QueuedCall>>,
}

/// A handler that is not started.
struct QueuedCall {
    handler: TokioFuture,
    result: Sender<Ended>,
    results: ResultAccount,
}

/// A result on its way to the shard.
pub(super) struct Ended {
    result: HandlerResult,
    /// `None` for a small result.
    _charge: Option<HandlerCharge>,
}

impl TokioCalls {
    pub const fn new(runtime: Option<RuntimeHandle>, results: ResultAccount) -> Self {
        Self { runtime, results, queued: RefCell::new(Vec::new()) }
    }

    /// Queues a handler; returns the receiver of its result. `None` without a runtime.
    pub(super) fn queue(&self, handler: impl FnOnce() -> TokioFuture) -> Option<Receiver<Ended>> {
        self.runtime.as_ref()?;
        let (result, receiver) = oneshot::channel();
        let results = self.results.clone();
        self.queued.borrow_mut().push(QueuedCall { handler: handler(), result, results });
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
        let Self { mut handler, mut result, results } = self;
        let ended = poll_fn(|context| {
            if result.poll_closed(context).is_ready() {
                return Poll::Ready(None);
            }
            handler.as_mut().poll(context).map(Some)
        });
        if let Some(ended) = ended.await {
            let charge = results.charge_result(&ended);
            drop(result.send(Ended { result: ended, _charge: charge }));
        }
    }
}

impl fmt::Debug for QueuedCall {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("QueuedCall")
    }
}
