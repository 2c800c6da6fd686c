//! The contexts of local and blocking handlers: their connection to the shard of their call, and so
//! to their client.
//!
//! Invariants: a cancelled call or task sends nothing more. Whether the handler runs as a call or
//! as a task is read from its [`HandlerState`] each time, because it may change.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use corelane_engine::mesh::{Sender, ShardId};
use corelane_protocol::eras::LoggingLevel;
use corelane_protocol::in_flight::CallId;
use corelane_protocol::model::InputRequest;

use super::HandlerEvent;
use super::handler_state::HandlerState;
use crate::guard::auth::Authenticator;
use crate::server::client_requests::InputResult;
use crate::server::shard_message::{
    LogMessage, PartialResult, Progress, Requester, ShardMessage, TaskEvent, UpdateResult,
};
use crate::service::{
    BlockingHost, CatalogError, CatalogUpdate, HandlerError, HostFuture, PastRoundTrips,
    RequestHost, RequestInfo,
};

/// The context of one local handler.
#[derive(Debug)]
pub struct LocalContext {
    pub handler: Rc<HandlerState>,
    pub log_filter: LogFilter,
    /// The state that the host has made for the shard.
    pub shard_state: Rc<dyn Any>,
}

/// Which log messages are sent to the client, as far as that is known when the call begins.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LogFilter {
    /// None: the request has no log level, or logging is not offered.
    Off,
    /// Messages from this level on: the level of the request (2026-07-28).
    AtLeast(LoggingLevel),
    /// Decided by the level of the session when the message is sent (up to 2025-11-25).
    BySession,
}

impl LogFilter {
    /// Returns whether a message of `level` is passed on.
    pub fn accepts(self, level: LoggingLevel) -> bool {
        match self {
            Self::Off => false,
            Self::AtLeast(least) => level >= least,
            Self::BySession => true,
        }
    }
}

impl RequestHost for LocalContext {
    fn progress(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        if self.is_cancelled() {
            return;
        }
        let message = message.map(str::to_owned);
        self.handler.queue.push(match self.handler.requester() {
            Requester::Call(call_id) => {
                HandlerEvent::Progress(Progress { call_id, progress: done, total, message })
            }
            Requester::Task(task) => HandlerEvent::Task {
                task,
                event: TaskEvent::Progress { progress: done, total, message },
            },
        });
    }

    fn is_cancelled(&self) -> bool {
        self.handler.token.is_cancelled()
    }

    fn cancelled(&self) -> HostFuture<()> {
        Box::pin(self.handler.cancelled())
    }

    fn sleep(&self, duration: Duration) -> HostFuture<()> {
        Box::pin(self.handler.queue.sleep(duration))
    }

    fn request(&self) -> &Arc<RequestInfo> {
        &self.handler.request
    }

    fn shard_state(&self) -> &dyn Any {
        &*self.shard_state
    }

    fn request_input(&self, key: &str, request: InputRequest) -> HostFuture<InputResult> {
        Box::pin(self.handler.request_input(key, request))
    }

    fn past_round_trips(&self) -> Option<PastRoundTrips> {
        self.handler.past_round_trips()
    }

    fn keep_for_round_trip(&self, kept: Box<str>) {
        self.handler.keep_for_round_trip(kept);
    }

    fn close_sse_stream(&self) {
        if let (Requester::Call(call_id), false) = (self.handler.requester(), self.is_cancelled()) {
            self.handler.queue.push(HandlerEvent::CloseStream { call_id });
        }
    }

    fn begin_task(&self) -> HostFuture<Result<(), HandlerError>> {
        Box::pin(self.handler.begin_task())
    }

    // Modern tasks send no log messages (Tasks extension 2026-07-28).
    fn log(&self, level: LoggingLevel, logger: Option<&str>, data: serde_json::Value) {
        let requester = self.handler.requester();
        let has_log = matches!(requester, Requester::Call(_))
            || !self.handler.request.client().revision.is_modern();
        if has_log && self.log_filter.accepts(level) && !self.is_cancelled() {
            let logger = logger.map(str::to_owned);
            self.handler.queue.push(HandlerEvent::Log(LogMessage {
                requester,
                level,
                logger,
                data,
            }));
        }
    }

    fn partial_result(&self, data: serde_json::Value) {
        if let (Requester::Call(call_id), false) = (self.handler.requester(), self.is_cancelled()) {
            self.handler.queue.push(HandlerEvent::Partial(PartialResult { call_id, data }));
        }
    }

    fn notify_resource_updated(&self, uri: &str) {
        self.handler.queue.mark_resource_updated(uri);
    }

    fn update_catalog(&self, update: CatalogUpdate) -> HostFuture<Result<(), CatalogError>> {
        let (queue, draft) = (Rc::clone(&self.handler.queue), PendingUpdate::new(update));
        Box::pin(async move {
            queue.push(HandlerEvent::UpdateCatalog(Rc::clone(&draft)));
            UpdateFuture(draft).await
        })
    }
}

/// An update, its result, and the waker of the handler that waits for it.
pub struct PendingUpdate {
    update: Cell<Option<CatalogUpdate>>,
    result: Cell<Option<UpdateResult>>,
    waker: RefCell<Option<Waker>>,
}

impl PendingUpdate {
    pub fn new(update: CatalogUpdate) -> Rc<Self> {
        let (update, result, waker) =
            (Cell::new(Some(update)), Cell::default(), RefCell::default());
        Rc::new(Self { update, result, waker })
    }

    /// Takes the update closure, once.
    pub fn take_update(&self) -> Option<CatalogUpdate> {
        self.update.take()
    }

    /// Stores the result and wakes the handler.
    pub fn complete(&self, result: UpdateResult) {
        self.result.set(Some(result));
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl fmt::Debug for PendingUpdate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PendingUpdate").finish_non_exhaustive()
    }
}

/// Resolves with the result of the update. Panics if the update panicked.
#[derive(Debug)]
struct UpdateFuture(pub(super) Rc<PendingUpdate>);

impl Future for UpdateFuture {
    type Output = Result<(), CatalogError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(result) = self.0.result.take() else {
            self.0.waker.replace(Some(context.waker().clone()));
            return Poll::Pending;
        };
        Poll::Ready(result.unwrap_or_else(|| panic!("the catalog update panicked")))
    }
}

/// Access of blocking handlers to the catalog and to all shards.
pub trait CatalogAccess: fmt::Debug + Send + Sync {
    /// Updates the catalog; see [`crate::service::BlockingContext`].
    fn update_catalog(&self, edit: CatalogUpdate) -> Result<(), CatalogError>;

    /// Notifies the subscribers of a resource that it has changed.
    fn notify_resource_updated(&self, uri: &str);
}

/// The connection from one blocking handler to the shard of its call.
#[derive(Debug)]
pub struct BlockingHandle {
    pub sender: Sender<ShardMessage>,
    pub shard: ShardId,
    pub call_id: CallId,
    /// Alive until the call is cancelled.
    pub alive: Weak<()>,
    pub request: Arc<RequestInfo>,
    pub log_filter: LogFilter,
    pub catalog: Arc<dyn CatalogAccess>,
    /// The rules for what callers read, if there are any.
    pub rules: Option<Arc<Authenticator>>,
}

impl BlockingHost for BlockingHandle {
    fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        if !self.is_cancelled() {
            let message = message.map(str::to_owned);
            let progress = Progress { call_id: self.call_id, progress, total, message };
            // Progress is best effort: if the inbox is full, a later value will do.
            drop(self.sender.try_send(self.shard, ShardMessage::Progress(progress)));
        }
    }

    fn is_cancelled(&self) -> bool {
        self.alive.strong_count() == 0
    }

    fn request(&self) -> &RequestInfo {
        &self.request
    }

    fn may_read(&self, uri: &str) -> bool {
        self.rules.as_ref().is_none_or(|rules| rules.may_read(self.request.principal(), uri))
    }

    fn log(&self, level: LoggingLevel, logger: Option<&str>, data: serde_json::Value) {
        if self.log_filter.accepts(level) && !self.is_cancelled() {
            let logger = logger.map(str::to_owned);
            let message =
                LogMessage { requester: Requester::Call(self.call_id), level, logger, data };
            // Best effort: a log message is worthless after the response.
            drop(self.sender.try_send(self.shard, ShardMessage::Log(Box::new(message))));
        }
    }

    fn partial_result(&self, data: serde_json::Value) {
        if !self.is_cancelled() {
            let part = Box::new(PartialResult { call_id: self.call_id, data });
            // Best effort: the result is complete without its parts.
            drop(self.sender.try_send(self.shard, ShardMessage::Partial(part)));
        }
    }

    fn notify_resource_updated(&self, uri: &str) {
        self.catalog.notify_resource_updated(uri);
    }

    fn update_catalog(&self, update: CatalogUpdate) -> Result<(), CatalogError> {
        self.catalog.update_catalog(update)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use corelane_base::slab::Key;
    use corelane_engine::ring::Waker;
    use corelane_protocol::eras::ClientCapabilities;
    use corelane_protocol::model::{ElicitRequest, InputResponse};
    use corelane_protocol::revision::Revision;

    use super::*;
    use crate::server::handlers::HandlerQueue;
    use crate::server::handlers::handler_state::{RequestCarrier, TaskTerms, TaskTransition};
    use crate::server::memory::MemoryLimit;
    use crate::server::memory::handler_memory::HandlerMemory;
    use crate::service::context::request::DetachedRequest;
    use crate::service::{ClientInfo, ClientRequestError};

    fn local_context() -> LocalContext {
        let capabilities = ClientCapabilities::default();
        let client = ClientInfo { revision: Revision::LATEST_LEGACY, capabilities };
        let memory = Rc::new(HandlerMemory::new(MemoryLimit::new(1600)));
        let queue = Rc::new(HandlerQueue::new(Waker::new(|| {}), 4, &memory));
        let requester = Requester::Call(Key::from_bits(7));
        let transition = TaskTransition::Allowed(TaskTerms::default());
        let handler = HandlerState::new(
            &queue,
            RequestInfo::copy("", &DetachedRequest { client }).into(),
            Rc::default(),
            requester,
            RequestCarrier::ServerRequest,
            transition,
        );
        LocalContext {
            handler: Rc::new(handler),
            log_filter: LogFilter::AtLeast(LoggingLevel::Warning),
            shard_state: Rc::new(()),
        }
    }

    fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
        pin!(future).poll(&mut Context::from_waker(std::task::Waker::noop()))
    }

    fn take_events(context: &LocalContext) -> Vec<HandlerEvent> {
        let mut events = Vec::new();
        context.handler.queue.take_events(&mut events);
        events
    }

    #[test]
    fn cancelled_handler_sends_nothing() {
        let context = local_context();
        let mut cancelled = context.cancelled();
        assert_eq!(poll(&mut cancelled), Poll::Pending);
        context.progress(1.0, None, Some("half"));
        context.handler.token.cancel();
        context.progress(2.0, None, None);
        context.log(LoggingLevel::Error, None, serde_json::Value::Null);
        assert_eq!(poll(&mut cancelled), Poll::Ready(()));
        assert_eq!(take_events(&context).len(), 1);
    }

    #[test]
    fn repeated_resource_update_is_deduplicated() {
        let context = local_context();
        for _ in 0..3 {
            context.notify_resource_updated("test://one");
            context.notify_resource_updated("test://two");
        }
        assert!(context.handler.queue.has_events());
        assert_eq!(context.handler.queue.take_updated_resources().len(), 2);
        assert!(!context.handler.queue.has_events());
    }

    #[test]
    fn log_below_request_level_is_dropped() {
        let context = local_context();
        context.log(LoggingLevel::Notice, None, serde_json::Value::Null);
        context.log(LoggingLevel::Warning, Some("here"), serde_json::Value::Null);
        let events = take_events(&context);
        let [HandlerEvent::Log(message)] = &events[..] else { panic!("{} events", events.len()) };
        assert_eq!(message.level, LoggingLevel::Warning);
    }

    #[test]
    fn client_request_is_sent_on_first_poll() {
        let context = local_context();
        drop(context.request_input("never", InputRequest::ListRoots));
        assert!(take_events(&context).is_empty());
        let mut client_request = context.request_input("roots", InputRequest::ListRoots);
        assert!(poll(&mut client_request).is_pending());
        let events = take_events(&context);
        let [HandlerEvent::SendRequest { request, .. }] = &events[..] else { panic!("{events:?}") };
        request.oneshot.send(Ok(InputResponse::ListRoots(Vec::new())));
        assert!(matches!(poll(&mut client_request), Poll::Ready(Ok(InputResponse::ListRoots(_)))));
        drop(client_request);
        assert!(take_events(&context).is_empty());
    }

    #[test]
    fn dropped_client_request_is_cancelled() {
        let context = local_context();
        let mut client_request = context.request_input("roots", InputRequest::ListRoots);
        assert!(poll(&mut client_request).is_pending());
        drop(client_request);
        let events = take_events(&context);
        let [
            HandlerEvent::SendRequest { number, .. },
            HandlerEvent::CancelRequest { number: taken },
        ] = &events[..]
        else {
            panic!("{events:?}");
        };
        assert_eq!(number, taken);
    }

    #[test]
    fn client_request_beyond_memory_is_not_sent() {
        let context = local_context();
        let ask = |bytes| {
            let request = ElicitRequest::url("x".repeat(bytes), "https://example.com");
            context.request_input("page", InputRequest::Elicit(request))
        };
        let refused = poll(&mut ask(500));
        assert!(matches!(refused, Poll::Ready(Err(ClientRequestError::Refused(_)))), "{refused:?}");
        assert!(take_events(&context).is_empty());
        assert!(poll(&mut ask(300)).is_pending());
    }

    #[test]
    fn call_turned_task_sends_task_events() {
        let context = local_context();
        let mut transition = context.begin_task();
        assert!(poll(&mut transition).is_pending());
        let handler = take_events(&context);
        let [HandlerEvent::BeginTask(handler)] = &handler[..] else { panic!("{handler:?}") };
        let (call_id, terms) = handler.requested_task().expect("the call has requested a task");
        assert_eq!((call_id, terms), (Key::from_bits(7), TaskTerms::default()));
        handler.become_task(Key::from_bits(8), RequestCarrier::ServerRequest);
        assert!(matches!(poll(&mut transition), Poll::Ready(Ok(()))));
        assert!(matches!(poll(&mut context.begin_task()), Poll::Ready(Ok(()))), "it is a task");
        context.log(LoggingLevel::Error, None, serde_json::Value::Null);
        context.progress(1.0, None, None);
        let events = take_events(&context);
        let [HandlerEvent::Log(LogMessage { requester, .. }), HandlerEvent::Task { task, .. }] =
            &events[..]
        else {
            panic!("{events:?}");
        };
        assert_eq!((*requester, *task), (Requester::Task(Key::from_bits(8)), Key::from_bits(8)));
    }

    #[test]
    fn rejected_task_transition_fails_each_time() {
        let context = local_context();
        let mut transition = context.begin_task();
        assert!(poll(&mut transition).is_pending());
        context.handler.reject_task(HandlerError::Cancelled);
        for mut transition in [transition, context.begin_task()] {
            assert!(matches!(poll(&mut transition), Poll::Ready(Err(HandlerError::Cancelled))));
        }
    }
}
