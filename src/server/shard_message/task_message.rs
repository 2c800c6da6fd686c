//! Messages about tasks between shards, and from blocking threads to shards.

use std::sync::Arc;

use bytes::Bytes;
use corelane_base::principal::Principal;
use corelane_base::slab::Key;
use corelane_base::time::Instant;
use corelane_engine::mesh::ShardId;
use corelane_protocol::error::Error;
use corelane_protocol::in_flight::CallId;
use corelane_protocol::revision::Revision;
use serde_json::{Map, Value};

use crate::server::owner_id::TaskId;
use crate::service::{HandlerError, HandlerOutput};

/// An event of a handler that runs as a task.
#[derive(Debug)]
pub enum TaskEvent {
    /// An input request was made.
    InputRequested,
    /// Progress was made.
    Progress {
        /// Increases with each event.
        progress: f64,
        /// Final value, if known.
        total: Option<f64>,
        /// Text for users.
        message: Option<String>,
    },
    /// The handler has completed.
    Finished(Result<HandlerOutput, HandlerError>),
}

/// An operation on a task.
#[derive(Debug)]
pub enum TaskOp {
    /// Returns the state of the task (`tasks/get`).
    Get,
    /// Responds to its input requests (`tasks/update`).
    Update(Map<String, Value>),
    /// Cancels it (`tasks/cancel`).
    Cancel,
    /// Waits for its result (`tasks/result`).
    Result,
}

/// A request for a task of another shard.
#[derive(Debug)]
pub struct RemoteTaskRequest {
    /// Id of the task.
    pub task: TaskId,
    /// Shard that gets the response.
    pub shard: ShardId,
    /// Call on that shard.
    pub call: CallId,
    /// Deadline of the call.
    pub deadline: Instant,
    /// Revision of the response.
    pub revision: Revision,
    /// The authenticated caller.
    pub principal: Option<Arc<Principal>>,
    /// The requested operation.
    pub op: TaskOp,
}

/// A message about a task.
#[derive(Debug)]
pub enum TaskMessage {
    /// To the owner of a task: a request.
    Request(RemoteTaskRequest),
    /// From the owner: the response.
    Response {
        /// The call.
        call: CallId,
        /// Body of the result.
        result: Result<Vec<u8>, Error>,
    },
    /// From a blocking thread to the owner: an event of the handler.
    HandlerEvent {
        /// Key of the task.
        task: Key,
        /// The event.
        event: TaskEvent,
    },
    /// To the owner: a client of `shard` subscribed to the task.
    Watch {
        /// Id of the task.
        task: TaskId,
        /// Shard with a subscription.
        shard: ShardId,
    },
    /// From the owner to a shard with a subscription: the task has changed.
    Changed {
        /// Id of the task.
        task: TaskId,
        /// Number of changes.
        version: u32,
        /// Who began it, if callers are authenticated: only streams of this caller get it.
        caller: Option<Arc<Principal>>,
        /// Part of the notification after the subscription id, the same for all streams.
        tail: Bytes,
    },
}
