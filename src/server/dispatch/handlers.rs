//! Starting handlers: futures on the shard, closures on the thread pool, and the handle of those
//! that run as tasks.
//!
//! Invariants: a cancelled task sends nothing more. Cancellation and catalog access are those of a
//! call.

use std::any::Any;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use corelane_base::heap_bytes::ALLOCATION_BYTES;
use corelane_base::slab::Key;
use corelane_engine::executor::{Executor, Task};
use corelane_engine::mesh::{Sender, ShardId};
use corelane_engine::ring::cycles::CycleCount;
use corelane_protocol::eras::{LoggingLevel, Method};
use corelane_protocol::error::Error;
use corelane_protocol::in_flight::{CallId, RequestsInFlight};
use corelane_protocol::json::Value;
use corelane_protocol::jsonrpc::IdBuf;

use super::admission::Request;
use super::{Dispatcher, MessageContext};
use crate::server::blocking_jobs::{self, BlockingJob, BlockingPool};
use crate::server::calls::{BlockingHandler, HandlerWork, NewCall};
use crate::server::catalog_updates::{CatalogWriter, PendingUpdates};
use crate::server::connection_state::PeerState;
use crate::server::dispatch::DeferredWork;
use crate::server::handlers::contexts::{LocalContext, LogFilter};
use crate::server::handlers::handler_state::{
    CancellationToken, HandlerState, RequestCarrier, TaskTransition,
};
use crate::server::handlers::reports::{HandlerFailures, SlowPoll};
#[cfg(feature = "tokio")]
use crate::server::handlers::tokio_handlers::TokioCalls;
use crate::server::handlers::{BlockingHandle, CatalogAccess, HandlerQueue};
use crate::server::memory::handler_memory::{
    HandlerCharge, HandlerMemory, JobOwner, ResultMemory, reserved_bytes, result_bytes,
};
use crate::server::outbox::Outbox;
use crate::server::overload::{CallPermit, CallerId, Overload, RunningCall};
use crate::server::shard_message::{
    self, BroadcastMessage, LARGE_RESULT_BYTES, LogMessage, Requester, ShardMessage, TaskEvent,
    TaskMessage,
};
use crate::service::{
    self, BlockingContext, BlockingHost, BlockingWork, CatalogError, CatalogUpdate, InternalError,
    LocalWork, RequestContext, RequestInfo,
};
use crate::telemetry::event::OverloadEvent;

/// A handler to start.
pub(super) struct NewHandler<W> {
    pub(super) work: W,
    pub(super) request: Arc<RequestInfo>,
    /// The charge for its arguments, released when it ends.
    pub(super) charge: HandlerCharge,
    /// Counts the call until it ends.
    pub(super) running: RunningCall,
}

impl<W> NewHandler<W> {
    /// Counts it as a running call.
    ///
    /// # Errors
    ///
    /// A limit of running calls is reached.
    pub(super) fn count_running(
        self,
        overload: &Overload,
        peer: &PeerState<'_>,
        request: &Request<'_>,
    ) -> Result<Self, Error> {
        let is_tool = request.method == Method::ToolsCall;
        let tool = if is_tool { request.target_name() } else { "" };
        let principal = peer.principal().map(Arc::as_ref);
        let caller = CallerId { principal, address: peer.state.client };
        Ok(Self { running: overload.start_call(tool, caller)?, ..self })
    }

    /// Changes its work.
    pub(super) fn map(self, change: impl FnOnce(W) -> W) -> Self {
        Self { work: change(self.work), ..self }
    }
}

/// A local handler that runs, and what is charged for it.
pub(super) struct StartedHandler {
    pub(super) task: Task,
    pub(super) charged_bytes: usize,
}

/// What a handler is started with.
pub(super) trait HandlerStart {
    /// What its handler takes besides its arguments and its future.
    const HANDLER_BYTES: usize;
}

impl HandlerStart for LocalWork {
    const HANDLER_BYTES: usize = REQUEST_BYTES
        + SHARED_BYTES
        + size_of::<HandlerState>()
        + SHARED_BYTES
        + size_of::<LocalContext>()
        + SHARED_BYTES
        + size_of::<CancellationToken>()
        + SPAWNED_BYTES;
}

impl HandlerStart for BlockingWork {
    const HANDLER_BYTES: usize = REQUEST_BYTES + JOB_BYTES;
}

/// What a handler knows of its request.
const REQUEST_BYTES: usize = SHARED_BYTES + size_of::<RequestInfo>();

/// Overhead of an allocation that is shared.
pub(super) const SHARED_BYTES: usize = ALLOCATION_BYTES + 2 * size_of::<usize>();

/// A spawned future around that of the handler, with its task: about 24 words.
const SPAWNED_BYTES: usize = ALLOCATION_BYTES + 24 * size_of::<usize>();

/// A job of the thread pool: about 16 words.
const JOB_BYTES: usize = ALLOCATION_BYTES + 16 * size_of::<usize>();

/// How a call leaves its turn, unless with an error.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum CallEnd {
    /// Its handler has written the response, which has `isError` if the handler has failed.
    Answered { is_failed: bool },
    /// The response names a task, whose handler runs or has ended.
    Task { is_failed: bool },
    /// The response comes later.
    Pending,
}

/// Starts the handlers of one shard.
pub struct Handlers {
    pub queue: Rc<HandlerQueue>,
    /// The updates that local handlers wait for.
    pub pending_updates: PendingUpdates,
    /// The single writer of the catalog.
    pub catalog_writer: Arc<CatalogWriter>,
    /// The executor of local handlers.
    pub executor: Rc<dyn Executor>,
    /// The thread pool of blocking handlers.
    pub blocking_pool: Arc<BlockingPool>,
    /// Cycles below which a poll of a local handler is not slow.
    pub slow_poll_cycles_min: u64,
    /// Their internal errors.
    pub failures: HandlerFailures,
    /// The state that the host has made for this shard.
    pub shard_state: Rc<dyn Any>,
    /// The tokio handlers of this turn.
    #[cfg(feature = "tokio")]
    pub tokio: Rc<TokioCalls>,
    /// What they hold.
    pub memory: Rc<HandlerMemory>,
    /// What the results of blocking handlers take on their way to this shard.
    pub results: ResultMemory,
    /// The id of this shard, and the sender to it for blocking handlers.
    pub shard: ShardId,
    pub sender: Sender<ShardMessage>,
}

impl Handlers {
    /// Prepares `work` for its start. Charges what it keeps of its request, and `stored_bytes`, to
    /// its peer, whose other calls hold `held_bytes`.
    pub(super) fn prepare<W: HandlerStart>(
        &self,
        work: W,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
        stored_bytes: usize,
        held_bytes: impl FnOnce(&RequestsInFlight) -> usize,
    ) -> Result<NewHandler<W>, Error> {
        let name = request.target_name();
        let source = &request.source(peer.state, &peer.origin, &self.shard_state);
        let stored_bytes = stored_bytes + service::context::request::copied_bytes(name, source);
        let params = request.params().and_then(Value::as_object).into_iter().flatten();
        // These are read when the call begins; responses are stored as text, if at all.
        let is_kept = |key| !matches!(key, "_meta" | "inputResponses" | "requestState");
        let members = params.filter(|(key, _)| is_kept(*key));
        let bytes = stored_bytes + members.map(|(_, value)| value.owned_bytes()).sum::<usize>();
        let bytes = W::HANDLER_BYTES + bytes + request.id_bytes();
        let charge = self.charge(peer, bytes, held_bytes)?;
        let source = &request.source(peer.state, &peer.origin, &self.shard_state);
        let request = Arc::new(RequestInfo::copy(name, source));
        Ok(NewHandler { work, request, charge, running: RunningCall::default() })
    }

    /// Charges `bytes` to a peer, whose calls hold `held_bytes`.
    pub(super) fn charge(
        &self,
        peer: &mut PeerState<'_>,
        bytes: usize,
        held_bytes: impl FnOnce(&RequestsInFlight) -> usize,
    ) -> Result<HandlerCharge, Error> {
        let charge = self.memory.charge(bytes, || held_bytes(&peer.state.in_flight));
        charge.inspect_err(|_| {
            let ShardId(shard) = self.shard;
            peer.outbox.log(OverloadEvent::CallRefused { shard, limit: "memory_bytes_max" }.into());
        })
    }

    /// Starts a local handler: a future on this shard.
    pub(super) fn start_local(
        &self,
        NewHandler { work, request, mut charge, running }: NewHandler<LocalWork>,
        token: Rc<CancellationToken>,
        requester: Requester,
        carrier: RequestCarrier,
        transition: TaskTransition,
        log_filter: LogFilter,
    ) -> StartedHandler {
        let handler =
            HandlerState::new(&self.queue, request, token, requester, carrier, transition);
        let handler = Rc::new(handler);
        let context = LocalContext {
            handler: Rc::clone(&handler),
            log_filter,
            shard_state: Rc::clone(&self.shard_state),
        };
        let work = work(RequestContext::new(Rc::new(context)));
        charge.extend(size_of_val(&*work));
        let charged_bytes = charge.bytes();
        let cycles_min = self.slow_poll_cycles_min;
        let task = self.executor.spawn(Box::pin(async move {
            let mut handling = pin!(Rc::clone(&handler).run(work));
            let timed = poll_fn(|context| {
                let begun = CycleCount::now();
                let polled = handling.as_mut().poll(context);
                let cycles = CycleCount::now().since(begun);
                if cycles >= cycles_min {
                    let request = Arc::clone(&handler.request);
                    handler.queue.record_slow_poll(SlowPoll { cycles, request });
                }
                polled
            });
            timed.await;
            drop((charge, running));
        }));
        StartedHandler { task, charged_bytes }
    }

    /// Publishes on all shards the resources that local handlers have marked as updated, each once.
    pub fn publish_resource_updates(&self, outbox: &mut Outbox) {
        if self.queue.has_updated_resources() {
            for uri in self.queue.take_updated_resources() {
                self.broadcast(&BroadcastMessage::ResourceUpdated(uri), outbox);
            }
        }
    }

    /// Sends a message to every shard.
    pub(super) fn broadcast(&self, message: &BroadcastMessage, outbox: &mut Outbox) {
        for shard in self.sender.shards() {
            outbox.forward(shard, ShardMessage::Broadcast(message.clone()));
        }
    }
}

impl Dispatcher {
    /// Starts a blocking handler: a closure on the thread pool.
    ///
    /// # Errors
    ///
    /// The queue of the pool is full.
    pub(super) fn start_blocking(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        requester: Requester,
        handler: NewHandler<BlockingWork>,
        log_filter: LogFilter,
    ) -> Result<BlockingHandler, Error> {
        let Self { handlers, deferred: DeferredWork { overload, .. }, .. } = self;
        let NewHandler { work, request, charge, running } = handler;
        let owner = JobOwner::new(peer.state.client, handlers.shard, ctx.reply_to.peer_id);
        let (sender, shard) = (handlers.sender.clone(), handlers.shard);
        let catalog: Arc<dyn CatalogAccess> = Arc::<CatalogWriter>::clone(&handlers.catalog_writer);
        let results = handlers.results.account();
        let rules = self.auth.read_rules();
        let (offered, revision) = (Arc::clone(&self.catalog), request.client().revision);
        let BlockingWork { run, result_size } = work;
        let result_size = handlers.results.expected_size(result_size);
        let size = result_size.clone();
        let alive = Arc::new(());
        let watched = Arc::downgrade(&alive);
        let job = BlockingJob::handler(shard, requester, size, move |reserved| {
            let mut taken = results.charge(reserved);
            let handle = |call_id: CallId| {
                let (sender, alive) = (sender.clone(), Weak::clone(&watched));
                BlockingHandle {
                    sender,
                    shard,
                    call_id,
                    alive,
                    request,
                    log_filter,
                    catalog,
                    rules,
                }
            };
            let mut result = run(BlockingContext::new(match requester {
                Requester::Call(call_id) => Arc::new(handle(call_id)),
                Requester::Task(task) => Arc::new(TaskBlockingHandle { call: handle(task), task }),
            }));
            drop((charge, running));
            let mut bytes = result_bytes(&result);
            if bytes >= LARGE_RESULT_BYTES {
                // Not on the shard. Both exist for a while.
                taken.resize(bytes.saturating_mul(2));
                result = offered.encode_output(revision, result);
                bytes = result_bytes(&result);
            }
            result_size.record(bytes);
            taken.resize(reserved_bytes(bytes));
            let charge = (taken.bytes() > 0).then(|| Box::new(taken));
            let message = ShardMessage::Finished { requester, result, charge };
            shard_message::send_blocking(&sender, shard, message);
        });
        match job.spawn(&handlers.blocking_pool, owner, Some((overload, ctx.now)), peer.outbox) {
            Ok(job) => {
                peer.outbox.counters.shard.blocking_calls += 1;
                Ok(BlockingHandler { alive, job })
            }
            Err(_) => match overload.shed_error() {
                Some(error) => Err(error),
                None => Err(blocking_jobs::refuse(shard, peer.outbox)),
            },
        }
    }

    /// Inserts a call that is answered later, if its response can be delivered.
    pub(super) fn register_call(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
        work: HandlerWork,
        permit: Option<CallPermit>,
    ) -> Result<Key, Error> {
        let call = NewCall {
            reply_to: ctx.reply_to,
            id: request.id().into(),
            revision: request.revision,
            progress_token: request.progress_token().map(IdBuf::from),
            catalog: Arc::clone(&self.catalog),
            permit,
            request_id: peer.origin.request_id_buf(),
        };
        self.deferred.insert_call(peer, call, work, ctx.now)
    }

    /// Reports the internal error of an inline handler and writes the response: a tool error, or
    /// the JSON-RPC error that is returned.
    #[cold]
    pub(super) fn write_failure(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
        error: &InternalError,
    ) -> Result<CallEnd, Error> {
        let failures = &mut self.handlers.failures;
        let result = Err(failures.report(error, peer.origin.request_id(), ctx.now));
        let (revision, id) = (request.revision, request.id());
        let is_failed = self.catalog.write_output(revision, id, result, peer.outgoing)?;
        Ok(CallEnd::Answered { is_failed })
    }
}

#[derive(Debug)]
struct TaskBlockingHandle {
    pub(super) call: BlockingHandle,
    pub(super) task: Key,
}

impl BlockingHost for TaskBlockingHandle {
    fn progress(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        if !self.is_cancelled() {
            let event =
                TaskEvent::Progress { progress: done, total, message: message.map(str::to_owned) };
            let shard_message =
                ShardMessage::Task(Box::new(TaskMessage::HandlerEvent { task: self.task, event }));
            // Progress is best effort: if the inbox is full, a later value will do.
            drop(self.call.sender.try_send(self.call.shard, shard_message));
        }
    }

    fn is_cancelled(&self) -> bool {
        self.call.is_cancelled()
    }

    fn request(&self) -> &RequestInfo {
        self.call.request()
    }

    fn log(&self, level: LoggingLevel, logger: Option<&str>, data: serde_json::Value) {
        if self.call.log_filter.accepts(level) && !self.is_cancelled() {
            let (requester, logger) = (Requester::Task(self.task), logger.map(str::to_owned));
            let message =
                ShardMessage::Log(Box::new(LogMessage { requester, level, logger, data }));
            // Best effort, as for calls.
            drop(self.call.sender.try_send(self.call.shard, message));
        }
    }

    fn notify_resource_updated(&self, uri: &str) {
        self.call.notify_resource_updated(uri);
    }

    fn update_catalog(&self, update: CatalogUpdate) -> Result<(), CatalogError> {
        self.call.update_catalog(update)
    }
}
