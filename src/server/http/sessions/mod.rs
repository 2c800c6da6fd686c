//! Legacy sessions of one shard (2025-03-26 to 2025-11-25), which outlive the connections of their
//! requests.
//!
//! `event_log` stores the events of one stream, `streams` the streams of one session, `store` all
//! sessions of a shard; these are state machines that run no handler and write to no connection.
//! `owner` runs the operations that requests ask for, `output` sends the messages to clients.

mod event_log;

mod streams;

mod store;

mod output;

mod owner;

pub(in crate::server) use self::output::SessionOutput;
pub(in crate::server) use self::owner::SessionOwner;
pub(super) use self::owner::clean_up;
pub(in crate::server) use self::store::CreatedSession;
pub(in crate::server) use self::store::SessionStore;
pub(super) use self::streams::SessionError;
#[cfg(test)]
use self::{
    store::{Eviction, RemovedSession},
    streams::listening::ListeningStream,
    streams::{LISTENING_STREAM, PushedEvent, ResumedStream},
};

#[cfg(test)]
mod tests;
