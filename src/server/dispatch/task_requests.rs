//! Task requests: `tasks/get`, `tasks/update`, `tasks/result`, `tasks/list`, `tasks/cancel`.
//!
//! A task of this shard is accessed at once. For one of another shard a message is sent, and the
//! request waits in the call table, with deadline and cancellation, until the result returns.
//!
//! Source: 2025-11-25, basic/utilities/tasks; Tasks extension 2026-07-28.

use std::sync::Arc;

use corelane_protocol::eras::{ClientCapabilities, Method};
use corelane_protocol::error::Error;
use corelane_protocol::model;
use corelane_protocol::params::{self, PaginatedRequestParams, UpdateTaskRequestParams};
use serde::Deserialize;
use serde_json::Map;

use super::admission::Request;
use super::{Dispatcher, MessageContext, write_request_error};
use crate::server::connection_state::PeerState;
use crate::server::dispatch::DeferredWork;
use crate::server::owner_id::TaskId;
use crate::server::reply_to::Outcome;
use crate::server::shard_message::{RemoteTaskRequest, TaskMessage, TaskOp};
use crate::server::tasks::{TaskWaiter, find_task, send_task_message, unknown_task_error};

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
                    let response = (request.id(), &mut *peer.outgoing);
                    self.deferred.tasks.write_list(
                        ctx.reply_to.peer_id,
                        params.cursor,
                        response,
                    )?;
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
        let target = (revision, &mut **outgoing);
        tasks.apply(key, &op, target, (catalog, client_requests), ctx.now, outbox)?;
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
