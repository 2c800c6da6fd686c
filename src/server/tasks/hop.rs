//! What shards and threads write to each other about tasks.

use bytes::Bytes;
use serde_json::{Map, Value};

use super::identity::TaskId;
use crate::base::slab::Key;
use crate::base::time::Moment;
use crate::engine::mesh::ShardId;
use crate::protocol::error::Error;
use crate::protocol::revision::Revision;
use crate::service::{HandlerError, Yield};

/// What a handler that runs as a task has to say.
#[derive(Debug)]
pub(in crate::server) enum TaskNote {
    /// It has asked its client something.
    Asked,
    /// How far it has come.
    Progress {
        /// Grows from note to note.
        done: f64,
        /// What it grows towards, where that is known.
        total: Option<f64>,
        /// For people.
        message: Option<String>,
    },
    /// It has ended.
    Finished(Result<Yield, HandlerError>),
}

/// What a caller wants of a task.
#[derive(Debug)]
pub(in crate::server) enum Wish {
    /// To know where it stands.
    Show,
    /// To answer its questions.
    Update(Map<String, Value>),
    /// To end it.
    Cancel,
    /// Its result, as soon as there is one.
    Result,
}

/// A request for a task of another shard.
#[derive(Debug)]
pub(in crate::server) struct Asking {
    /// Which task.
    pub(in crate::server) task: TaskId,
    /// The shard that asks.
    pub(in crate::server) shard: ShardId,
    /// The call that waits there.
    pub(in crate::server) ticket: Key,
    /// When it gives up.
    pub(in crate::server) deadline: Moment,
    /// How the answer must be written.
    pub(in crate::server) revision: Revision,
    /// What it wants.
    pub(in crate::server) wish: Wish,
}

/// A letter about a task.
#[derive(Debug)]
pub(in crate::server) enum TaskLetter {
    /// From a shard to the owner of a task: a request.
    Asked(Asking),
    /// And back.
    Answered {
        /// The call that waits.
        ticket: Key,
        /// The body of the result.
        answer: Result<Vec<u8>, Error>,
    },
    /// From a thread of the pool to the owner: a blocking handler speaks.
    Said {
        /// Which task.
        task: Key,
        /// What.
        note: TaskNote,
    },
    /// From a shard to the owner: somebody listens there.
    Watched {
        /// Which task.
        task: TaskId,
        /// Where.
        shard: ShardId,
    },
    /// From the owner to a shard where somebody listens: the task has changed.
    Changed {
        /// Which task.
        task: TaskId,
        /// How often it has changed.
        version: u32,
        /// What is said of it behind the name of a stream, for every stream the same.
        tail: Bytes,
    },
}
