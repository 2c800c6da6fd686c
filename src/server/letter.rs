//! Letters: all that a shard hears from other threads.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::desk::Progress;
use crate::base::slab::Key;
use crate::engine::mesh::{Post, ShardId};
use crate::link::LinkOptions;
use crate::protocol::era::LogLevel;
use crate::service::{Catalog, CatalogError, Client, Edit, HandlerError, WorkerHost, Yield};

/// One letter to a shard.
#[derive(Debug)]
pub(super) enum Letter {
    /// Serve what is in flight, accept nothing more, end.
    Drain,
    /// Offer this from now on; calls in flight end with what they began with.
    Catalog(Arc<Catalog>),
    /// Keep to these limits from now on.
    Limits(Limits),
    /// A blocking handler has come this far.
    Progress(Progress),
    /// A blocking handler has ended.
    Finished {
        /// Which call.
        ticket: Key,
        /// How.
        result: Result<Yield, HandlerError>,
    },
}

/// The limits that can change while a shard runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) link: LinkOptions,
    pub(super) connections_max: usize,
    pub(super) request_max: Duration,
    pub(super) drain_max: Duration,
}

/// The way from one blocking handler to the shard of its call.
#[derive(Debug)]
pub(super) struct WorkerVoice {
    pub(super) post: Post<Letter>,
    pub(super) shard: ShardId,
    pub(super) ticket: Key,
    /// Alive as long as somebody waits for the answer.
    pub(super) interest: Weak<()>,
    pub(super) client: Client,
}

impl WorkerHost for WorkerVoice {
    fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        if !self.is_cancelled() {
            let message = message.map(str::to_owned);
            let progress = Progress { ticket: self.ticket, done: progress, total, message };
            // Progress is advice: where the box is full the next one will do.
            drop(self.post.send(self.shard, Letter::Progress(progress)));
        }
    }

    fn is_cancelled(&self) -> bool {
        self.interest.strong_count() == 0
    }

    fn client(&self) -> Client {
        self.client
    }

    /// This server offers no log messages, so that nobody waits for them.
    fn log(&self, _: LogLevel, _: Option<&str>, _: serde_json::Value) {}

    /// This server offers no subscriptions, so that nobody waits to hear it.
    fn updated(&self, _: &str) {}

    /// This server offers what it was started with.
    fn change(&self, _: Edit) -> Result<(), CatalogError> {
        Err(CatalogError::Fixed)
    }
}

/// Leaves a letter that must not be lost, from a thread that may wait: a shard empties its box once
/// a turn, so a full one has room again within microseconds. Gives up where nobody waits any more,
/// the shard itself included.
pub(super) fn deliver(post: &Post<Letter>, shard: ShardId, letter: Letter, interest: &Weak<()>) {
    let mut undelivered = letter;
    while let Err(refused) = post.send(shard, undelivered) {
        if interest.strong_count() == 0 {
            return;
        }
        undelivered = refused;
        std::thread::yield_now();
    }
}
