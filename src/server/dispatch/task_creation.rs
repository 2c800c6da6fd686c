//! Calls that become tasks: answered with a `CreateTaskResult`, executed behind it. Usually at
//! once; tools that need input first ([`crate::service::ToolBuilder`]) when their handler begins
//! the task.
//!
//! Invariants: a task is in the table before its id is sent. An inline handler never runs as a
//! task: a modern caller gets its result at once, and a 2025-11-25 caller that requires a task gets
//! one that has completed. One that has sent progress or log messages ends as a local handler does.
//!
//! Source: 2025-11-25, basic/utilities/tasks, "Creating Tasks"; Tasks extension 2026-07-28, "Task
//! Creation".

use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::admission::Request;
use super::handlers::Handlers;
use super::{MessageContext, NewHandler, write_request_error};
use crate::base::slab::Key;
use crate::base::time::Instant;
use crate::protocol::eras::ClientCapabilities;
use crate::protocol::error::{Error, ErrorKind};
use crate::protocol::jsonrpc::IdBuf;
use crate::protocol::params::TaskMetadata;
use crate::protocol::revision::Revision;
use crate::server::calls::HandlerWork;
use crate::server::connection_state::PeerState;
use crate::server::handlers::handler_state::{CancellationToken, TaskTerms, TaskTransition};
use crate::server::handlers::local_context::LogFilter;
#[cfg(feature = "tokio")]
use crate::server::handlers::tokio_bridge;
use crate::server::job_owner::JobOwner;
use crate::server::outbox::Outbox;
use crate::server::overload::Overload;
use crate::server::reply_to::Outcome;
use crate::server::shard_message::Requester;
use crate::server::tasks::{
    NewTask, TaskOutcome, Tasks, complete_task, create_task, response_body,
};
use crate::service::{
    BlockingWork, CallToolRequest, Catalog, Dispatch, Features, LocalWork, TaskSupport,
};

/// How a call is executed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum CallMode {
    /// As a call.
    Call,
    /// As a call that its handler can turn into a task, with the requested TTL.
    CallThenTask(Option<Duration>),
    /// As a task from the start, with the requested TTL.
    Task(Option<Duration>),
}

/// What calls that become tasks need.
pub(super) struct TaskCalls<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) tasks: &'a mut Tasks,
    pub(super) handlers: &'a mut Handlers,
    pub(super) overload: &'a Overload,
}

impl TaskCalls<'_> {
    /// Executes a call as a task from the start, if it is to be one, and writes the response.
    /// Otherwise returns how the call can become a task.
    pub(super) fn try_task(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
    ) -> ControlFlow<Outcome, TaskTransition> {
        let call = CallToolRequest::from_params(request.revision, request.call_params());
        let mode = call.and_then(|call| Ok((call, self.call_mode(request, call.name())?)));
        match mode {
            Ok((_, CallMode::Call)) => ControlFlow::Continue(TaskTransition::None),
            Ok((_, CallMode::CallThenTask(ttl))) => {
                let address = peer.state.client;
                ControlFlow::Continue(TaskTransition::Allowed(TaskTerms { ttl, address }))
            }
            Ok((call, CallMode::Task(ttl))) => {
                let call = call.with_client_capabilities(request.capabilities);
                ControlFlow::Break(self.call_as_task(ctx, peer, request, &call, ttl))
            }
            Err(error) => ControlFlow::Break(write_request_error(peer, request, &error)),
        }
    }

    /// Decides how a call is executed: up to 2025-11-25 the caller chooses within what the tool
    /// allows, from 2026-07-28 on the server chooses, for clients with the tasks capability.
    ///
    /// Fails if the tool requires a task and the client has no tasks capability, or if the client
    /// requests one that the tool does not support.
    fn call_mode(&self, request: &Request<'_>, name: &str) -> Result<CallMode, Error> {
        let Some(tool) = self.catalog.tool(name) else { return Ok(CallMode::Call) };
        let support = tool.task_support();
        let begin = |ttl| {
            if tool.has_deferred_task() { CallMode::CallThenTask(ttl) } else { CallMode::Task(ttl) }
        };
        if request.revision.is_modern() {
            let knows = request.capabilities.contains(ClientCapabilities::EXTENSION_TASKS);
            return match support {
                TaskSupport::Required if !knows => {
                    Err(Error::missing_capability(ClientCapabilities::EXTENSION_TASKS))
                }
                TaskSupport::Required | TaskSupport::Optional if knows => Ok(begin(None)),
                _ => Ok(CallMode::Call),
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
            (_, None) => Ok(CallMode::Call),
            (_, Some(task)) => Ok(begin(task.ttl_ms.map(Duration::from_millis))),
        }
    }

    /// Executes a call as a task and writes the response.
    fn call_as_task(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
        call: &CallToolRequest<'_>,
        ttl: Option<Duration>,
    ) -> Outcome {
        let start = peer.outgoing.len();
        let source = &request.source(peer.state, &peer.origin, &self.handlers.shard_state);
        let mut call = *call;
        call.set_source(source);
        let call = &call;
        let reply = self.catalog.call_tool(call, request.id(), peer.outgoing);
        let new_task = NewTask {
            peer: ctx.reply_to.peer_id,
            address: peer.state.client,
            client: request.client(),
            progress_token: request.progress_token().map(IdBuf::from),
            ttl,
            principal: peer.principal().map(Arc::clone),
        };
        let created = match reply {
            Dispatch::Ready { is_error } => {
                return self.finish_inline(peer, request, (new_task, start), is_error, ctx.now);
            }
            Dispatch::Internal(error) => {
                match self.handlers.write_failure(self.catalog, &error, request, peer, ctx.now) {
                    Ok(is_error) => {
                        let task = (new_task, start);
                        return self.finish_inline(peer, request, task, is_error, ctx.now);
                    }
                    Err(error) => Err(error),
                }
            }
            Dispatch::Failed(error) => Err(error),
            Dispatch::Local(work) => {
                let handler = self.prepare(work, peer, request);
                let begin = |handler| self.begin_local(new_task, handler, ctx.now, peer.outbox);
                handler.and_then(begin)
            }
            #[cfg(feature = "tokio")]
            Dispatch::Tokio(work) => {
                let work = tokio_bridge::local_work(work, Rc::clone(&self.handlers.tokio));
                let handler = self.prepare(work, peer, request);
                let begin = |handler| self.begin_local(new_task, handler, ctx.now, peer.outbox);
                handler.and_then(begin)
            }
            Dispatch::Blocking(work) => {
                let handler = self.prepare(work, peer, request);
                let owner = self.handlers.job_owner(peer, ctx);
                let begin =
                    |handler| self.begin_blocking((new_task, owner), handler, ctx.now, peer.outbox);
                handler.and_then(begin)
            }
        };
        match created {
            Ok(task) => self.write_created(peer, request, task),
            Err(error) => write_request_error(peer, request, &error),
        }
    }

    /// Prepares the handler of a task and counts it as a running call.
    fn prepare<W>(
        &self,
        work: W,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
    ) -> Result<NewHandler<W>, Error> {
        // The task may outlive its peer: the others of that peer do not count.
        let handler = self.handlers.prepare(work, peer, (request, 0), |_| 0)?;
        handler.count_running(self.overload, request)
    }

    /// Ends a call whose inline handler has written its response behind `start`: a modern caller
    /// gets it, a legacy one a task that has completed.
    fn finish_inline(
        &mut self,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
        (new_task, start): (NewTask, usize),
        is_failed: bool,
        now: Instant,
    ) -> Outcome {
        peer.outbox.counters.requests.tool_errors += u64::from(is_failed);
        if request.revision.is_modern() {
            return Outcome::Response;
        }
        let body = response_body(&peer.outgoing[start..], request.id()).to_vec();
        peer.outgoing.truncate(start);
        let task = match create_task(self.tasks, new_task, now, peer.outbox) {
            Ok(task) => task,
            Err(error) => return write_request_error(peer, request, &error),
        };
        let outcome = self.write_created(peer, request, task);
        let end = TaskOutcome::Result { body, is_failed };
        complete_task(self.tasks, (task, end), now, peer.outbox);
        outcome
    }

    /// Writes the response to a call that has become a task.
    fn write_created(
        &mut self,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
        task: Key,
    ) -> Outcome {
        peer.outbox.counters.requests.tasks_created += 1;
        self.tasks.write_create_result((request.id(), peer.outgoing), task, self.catalog);
        Outcome::Response
    }

    /// Begins a task that runs as a future on this shard.
    fn begin_local(
        &mut self,
        new_task: NewTask,
        handler: NewHandler<LocalWork>,
        now: Instant,
        outbox: &mut Outbox,
    ) -> Result<Key, Error> {
        let log_filter = log_filter(self.catalog, new_task.client.revision);
        let key = create_task(self.tasks, new_task, now, outbox)?;
        let carrier = (Requester::Task(key), self.tasks.carrier(key));
        let (token, argument_bytes) = (Rc::<CancellationToken>::default(), handler.charge.bytes());
        let log = (TaskTransition::None, log_filter);
        let running = self.handlers.start_local(handler, Rc::clone(&token), carrier, log);
        let work = HandlerWork::Local { task: Some(running), token, argument_bytes };
        self.attach_handler(key, work);
        Ok(key)
    }

    /// Begins a task that runs on the thread pool.
    fn begin_blocking(
        &mut self,
        (new_task, owner): (NewTask, JobOwner),
        handler: NewHandler<BlockingWork>,
        now: Instant,
        outbox: &mut Outbox,
    ) -> Result<Key, Error> {
        let log_filter = log_filter(self.catalog, new_task.client.revision);
        let key = create_task(self.tasks, new_task, now, outbox)?;
        let argument_bytes = handler.charge.bytes();
        let requester = (Requester::Task(key), owner);
        let queue = (self.overload, now);
        match self.handlers.start_blocking(handler, log_filter, requester, queue, outbox) {
            Ok(handler) => {
                let work = HandlerWork::Blocking { handler: Some(handler), argument_bytes };
                self.attach_handler(key, work);
                Ok(key)
            }
            Err(error) => {
                self.tasks.table.remove(key);
                Err(error)
            }
        }
    }

    fn attach_handler(&mut self, key: Key, work: HandlerWork) {
        if let Some(task) = self.tasks.table.get_mut(key) {
            task.set_handler(Some(work));
        }
    }
}

/// Returns which log messages a task passes on: up to 2025-11-25 by the level of the session; tasks
/// of 2026-07-28 have no log.
fn log_filter(catalog: &Catalog, revision: Revision) -> LogFilter {
    let has_log = catalog.has_features(Features::LOGGING) && !revision.is_modern();
    if has_log { LogFilter::BySession } else { LogFilter::Off }
}
