//! Calls that become tasks: answered with a `CreateTaskResult`, executed behind it. Usually at
//! once; tools that need input first ([`crate::service::ToolBuilder`]) when their handler begins
//! the task.
//!
//! Invariants: a task is in the table before its id is sent. An inline handler never runs as a
//! task: a modern caller gets its result at once, and a 2025-11-25 caller that requires a task gets
//! one that has completed. One that has sent progress or log messages ends as a local handler does.
//!
//! Task requests are `tasks/get`, `tasks/update`, `tasks/result`, `tasks/list` and `tasks/cancel`.
//! A task of this shard is accessed at once. For one of another shard a message is sent, and the
//! request waits in the call table, with deadline and cancellation, until the result returns.
//!
//! Source: 2025-11-25, basic/utilities/tasks; Tasks extension 2026-07-28.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use corelane_base::slab::Key;
use corelane_protocol::eras::{ClientCapabilities, Method};
use corelane_protocol::error::{Error, ErrorKind};
use corelane_protocol::in_flight::RequestsInFlight;
use corelane_protocol::jsonrpc::IdBuf;
use corelane_protocol::model;
use corelane_protocol::params::{
    self, PaginatedRequestParams, TaskMetadata, UpdateTaskRequestParams,
};
use corelane_protocol::revision::Revision;
use serde::Deserialize;
use serde_json::Map;

use super::admission::Request;
use super::handlers::{CallEnd, HandlerStart};
use super::{DeferredWork, Dispatcher, MessageContext, NewHandler, write_request_error};
use crate::server::calls::HandlerWork;
use crate::server::connection_state::PeerState;
use crate::server::handlers::contexts::LogFilter;
use crate::server::handlers::handler_state::{CancellationToken, TaskTerms, TaskTransition};
#[cfg(feature = "tokio")]
use crate::server::handlers::tokio_handlers;
use crate::server::owner_id::TaskId;
use crate::server::reply_to::Outcome;
use crate::server::shard_message::{RemoteTaskRequest, Requester, TaskMessage, TaskOp};
use crate::server::tasks::{
    NewTask, TaskOutcome, TaskOwner, TaskWaiter, complete_task, create_task, find_task,
    response_body, send_task_message, unknown_task_error,
};
use crate::service::{
    BlockingWork, CallToolRequest, Catalog, Dispatch, Features, LocalWork, TaskSupport,
};

/// How a call is executed.
#[derive(Clone, Debug)]
pub(super) enum CallMode {
    /// As a call, which its handler can turn into a task if that is allowed.
    Call(TaskTransition),
    /// As a task from the start, with the requested TTL.
    Task(Option<Duration>),
}

impl CallMode {
    /// A call that stays one.
    const PLAIN: Self = Self::Call(TaskTransition::None);
}

impl Dispatcher {
    /// Decides how a call of a tool is executed: up to 2025-11-25 the caller chooses within what
    /// the tool allows, from 2026-07-28 on the server chooses, for clients with the tasks
    /// capability.
    ///
    /// # Errors
    ///
    /// The tool requires a task and the client has no tasks capability, or the client requests one
    /// that the tool does not support.
    pub(super) fn call_mode(
        &self,
        peer: &PeerState<'_>,
        request: &Request<'_>,
    ) -> Result<CallMode, Error> {
        let call = CallToolRequest::from_params(request.revision, request.call_params())?;
        let Some(tool) = self.catalog.tool(call.name()) else { return Ok(CallMode::PLAIN) };
        let support = tool.task_support();
        let begin = |ttl| {
            if tool.has_deferred_task() {
                let terms = TaskTerms { ttl, address: peer.state.client };
                CallMode::Call(TaskTransition::Allowed(terms))
            } else {
                CallMode::Task(ttl)
            }
        };
        if request.revision.is_modern() {
            let knows = request.capabilities.contains(ClientCapabilities::EXTENSION_TASKS);
            return match support {
                TaskSupport::Required if !knows => {
                    Err(Error::missing_capability(ClientCapabilities::EXTENSION_TASKS))
                }
                TaskSupport::Required | TaskSupport::Optional if knows => Ok(begin(None)),
                _ => Ok(CallMode::PLAIN),
            };
        }
        let may_want =
            request.revision.dialect().core_tasks && request.call_params().has_retry_or_task();
        let wanted = if may_want { TaskMetadata::from_params(request.params())? } else { None };
        match (support, wanted) {
            (TaskSupport::Forbidden, Some(_)) => {
                Err(Error::new(ErrorKind::MethodNotFound, "the tool does not support tasks"))
            }
            (TaskSupport::Required, None) => {
                Err(Error::new(ErrorKind::MethodNotFound, "the tool requires params.task"))
            }
            (_, None) => Ok(CallMode::PLAIN),
            (_, Some(task)) => Ok(begin(task.ttl_ms.map(Duration::from_millis))),
        }
    }

    /// Executes a call as a task and writes the response.
    pub(super) fn call_as_task(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
        ttl: Option<Duration>,
    ) -> Result<CallEnd, Error> {
        let start = peer.outgoing.len();
        let source = &request.source(peer.state, &peer.origin, &self.handlers.shard_state);
        let call = CallToolRequest::from_source(request.client(), request.call_params(), source)?;
        let started = self.catalog.call_tool(&call, request.id(), peer.outgoing);
        let new_task = NewTask {
            owner: TaskOwner { peer: ctx.reply_to.peer_id, address: peer.state.client },
            client: request.client(),
            progress_token: request.progress_token().map(IdBuf::from),
            ttl,
            principal: peer.principal().map(Arc::clone),
        };
        let end = match started {
            Dispatch::Ready { is_error: is_failed } => CallEnd::Answered { is_failed },
            Dispatch::Internal(error) => self.write_failure(ctx, peer, request, &error)?,
            Dispatch::Failed(error) => return Err(error),
            Dispatch::Local(work) => {
                return self.begin_local_task(ctx, peer, request, new_task, work);
            }
            #[cfg(feature = "tokio")]
            Dispatch::Tokio(work) => {
                let work = tokio_handlers::local_work(work, Rc::clone(&self.handlers.tokio));
                return self.begin_local_task(ctx, peer, request, new_task, work);
            }
            Dispatch::Blocking(work) => {
                return self.begin_blocking_task(ctx, peer, request, new_task, work);
            }
        };
        // A modern caller gets the response of an inline handler itself.
        match end {
            CallEnd::Answered { is_failed } if !request.revision.is_modern() => {
                peer.outbox.counters.requests.tool_errors += u64::from(is_failed);
                let body = response_body(&peer.outgoing[start..], request.id()).to_vec();
                peer.outgoing.truncate(start);
                let result = TaskOutcome::Result { body, is_failed };
                self.create_completed_task(ctx, peer, request, new_task, result)?;
                Ok(CallEnd::Task { is_failed })
            }
            end => Ok(end),
        }
    }

    /// Creates a task that has ended.
    fn create_completed_task(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
        new_task: NewTask,
        end: TaskOutcome,
    ) -> Result<(), Error> {
        let key = create_task(&mut self.deferred.tasks, new_task, ctx.now, peer.outbox)?;
        self.write_created(peer, request, key);
        complete_task(&mut self.deferred.tasks, key, end, ctx.now, peer.outbox);
        Ok(())
    }

    /// Prepares the handler of a task and counts it as a running call.
    fn prepare_task<W: HandlerStart>(
        &self,
        work: W,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
    ) -> Result<NewHandler<W>, Error> {
        // The task may outlive its peer: the others of that peer do not count.
        let handler = self.handlers.prepare(work, peer, request, 0, |_| 0)?;
        handler.count_running(&self.deferred.overload, peer, request)
    }

    /// Writes the response to a call that has become a task.
    fn write_created(&mut self, peer: &mut PeerState<'_>, request: &Request<'_>, task: Key) {
        peer.outbox.counters.requests.tasks_created += 1;
        let Self { deferred, catalog, .. } = self;
        deferred.tasks.write_create_result(request.id(), peer.outgoing, task, catalog);
    }

    /// Begins a task that runs as a future on this shard, and writes the response.
    fn begin_local_task(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
        new_task: NewTask,
        work: LocalWork,
    ) -> Result<CallEnd, Error> {
        let handler = self.prepare_task(work, peer, request)?;
        let tasks = &mut self.deferred.tasks;
        let key = create_task(tasks, new_task, ctx.now, peer.outbox)?;
        let token = Rc::<CancellationToken>::default();
        let started = self.handlers.start_local(
            handler,
            Rc::clone(&token),
            Requester::Task(key),
            tasks.carrier(key),
            TaskTransition::None,
            task_log_filter(&self.catalog, request.revision),
        );
        let argument_bytes = started.charged_bytes;
        let work = HandlerWork::Local { task: Some(started.task), token, argument_bytes };
        self.attach_handler(key, work);
        self.write_created(peer, request, key);
        Ok(CallEnd::Task { is_failed: false })
    }

    /// Begins a task that runs on the thread pool, and writes the response.
    fn begin_blocking_task(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
        new_task: NewTask,
        work: BlockingWork,
    ) -> Result<CallEnd, Error> {
        let handler = self.prepare_task(work, peer, request)?;
        let log_filter = task_log_filter(&self.catalog, request.revision);
        let key = create_task(&mut self.deferred.tasks, new_task, ctx.now, peer.outbox)?;
        let argument_bytes = handler.charge.bytes();
        match self.start_blocking(ctx, peer, Requester::Task(key), handler, log_filter) {
            Ok(handler) => {
                let work = HandlerWork::Blocking { handler: Some(handler), argument_bytes };
                self.attach_handler(key, work);
                self.write_created(peer, request, key);
                Ok(CallEnd::Task { is_failed: false })
            }
            Err(error) => {
                self.deferred.tasks.table.remove(key);
                Err(error)
            }
        }
    }

    fn attach_handler(&mut self, key: Key, work: HandlerWork) {
        if let Some(mut task) = self.deferred.tasks.table.get_mut(key) {
            task.set_handler(Some(work));
        }
    }
}

/// Returns which log messages a task passes on: up to 2025-11-25 by the level of the session; tasks
/// of 2026-07-28 have no log.
fn task_log_filter(catalog: &Catalog, revision: Revision) -> LogFilter {
    let has_log = catalog.has_features(Features::LOGGING) && !revision.is_modern();
    if has_log { LogFilter::BySession } else { LogFilter::Off }
}

impl Dispatcher {
    /// Dispatches a task request.
    pub(super) fn dispatch_task_request(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
    ) -> Outcome {
        let start = peer.outgoing.len();
        let answered = match check_tasks_capability(request) {
            Ok(()) if request.method == Method::TasksList => {
                PaginatedRequestParams::read(request.params()).and_then(|params| {
                    let (peer_id, tasks) = (ctx.reply_to.peer_id, &self.deferred.tasks);
                    tasks.write_list(peer_id, params.cursor, request.id(), peer.outgoing)?;
                    Ok(Outcome::Response)
                })
            }
            Ok(()) => self.run_task_op(ctx, peer, request),
            Err(error) => Err(error),
        };
        answered.unwrap_or_else(|error| {
            peer.outgoing.truncate(start);
            write_request_error(peer, request, &error)
        })
    }

    /// Inserts a call that a task answers.
    fn insert_remote_call(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
    ) -> Result<Key, Error> {
        let calls = &self.deferred.calls;
        let held_bytes = |in_flight: &RequestsInFlight| calls.argument_bytes(in_flight);
        let charge = self.handlers.charge(peer, request.id_bytes(), held_bytes)?;
        self.register_call(ctx, peer, request, HandlerWork::Remote(charge), None)
    }

    /// Runs a task operation, here or on the shard that owns the task.
    fn run_task_op(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
    ) -> Result<Outcome, Error> {
        let (task, op) = read_task_op(request)?;
        let revision = request.revision;
        let deadline = ctx.now.after(self.deferred.request_timeout);
        let (owner, shard) = (self.deferred.tasks.owner(task), self.deferred.tasks.shards.own());
        if owner != shard {
            self.deferred.tasks.check_backlog(owner, peer.outbox)?;
            let call = self.insert_remote_call(ctx, peer, request)?;
            let principal = peer.principal().map(Arc::clone);
            let remote = RemoteTaskRequest { task, shard, call, deadline, revision, principal, op };
            send_task_message(owner, TaskMessage::Request(remote), peer.outbox);
            return Ok(Outcome::None);
        }
        let principal = peer.principal().map(|principal| &**principal);
        let found = find_task(&mut self.deferred.tasks, task, revision, principal);
        let key = found.ok_or_else(unknown_task_error)?;
        if self.deferred.tasks.must_wait(key, &op, ctx.now)? {
            let call = self.insert_remote_call(ctx, peer, request)?;
            self.deferred.tasks.wait(key, TaskWaiter { shard, call, deadline });
            return Ok(Outcome::None);
        }
        let Self { catalog, deferred, .. } = self;
        let DeferredWork { tasks, client_requests, .. } = deferred;
        let PeerState { outgoing, outbox, .. } = peer;
        model::begin_response(outgoing, request.id());
        tasks.apply(key, &op, client_requests, ctx.now, outbox)?;
        tasks.write_result_of(key, &op, revision, catalog, outgoing)?;
        model::end_response(outgoing);
        Ok(Outcome::Response)
    }
}

/// Checks that the client supports tasks; the server's support was checked before.
fn check_tasks_capability(request: &Request<'_>) -> Result<(), Error> {
    let needed = ClientCapabilities::EXTENSION_TASKS;
    if request.revision.is_modern() && !request.capabilities.contains(needed) {
        return Err(Error::missing_capability(needed));
    }
    Ok(())
}

/// Reads the task id and the operation of a request.
fn read_task_op(request: &Request<'_>) -> Result<(TaskId, TaskOp), Error> {
    let (id, op) = match request.method {
        Method::TasksUpdate => {
            let UpdateTaskRequestParams { task_id: id, input_responses } =
                UpdateTaskRequestParams::read(request.params())?;
            let responses = Map::deserialize(input_responses);
            let responses = responses.map_err(|error| Error::invalid_params(error.to_string()))?;
            (id, TaskOp::Update(responses))
        }
        Method::TasksCancel => {
            (params::TaskIdParams::read(request.params())?.task_id, TaskOp::Cancel)
        }
        Method::TasksResult => {
            (params::TaskIdParams::read(request.params())?.task_id, TaskOp::Result)
        }
        _ => (params::TaskIdParams::read(request.params())?.task_id, TaskOp::Get),
    };
    Ok((TaskId::parse(id).ok_or_else(unknown_task_error)?, op))
}
