//! Legacy sessions of one shard (2025-03-26 to 2025-11-25), which outlive the connections of their
//! requests.
//!
//! `event_log` stores the events of one stream, `streams` the streams of one session, `store` all
//! sessions of a shard: state machines that run no handler and write to no connection.

mod event_log;

mod streams;

mod store;

pub(super) use self::store::{CreatedSession, RemovedSession, SessionStore};
pub(super) use self::streams::{LISTENING_STREAM, SessionError, SessionStreams};
#[cfg(test)]
use self::{
    store::Eviction,
    streams::listening::ListeningStream,
    streams::{PushedEvent, ResumedStream},
};

#[cfg(test)]
mod tests;
