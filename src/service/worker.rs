//! What a blocking handler holds while it runs: the way back to its caller.
//!
//! A blocking handler is a closure on the thread pool. [`Worker`] is its handle to the shard that
//! received the call, across the thread boundary: it tells progress and hears of cancellation. The
//! server stands behind [`WorkerHost`]; this room has no thread of its own.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use crate::protocol::era::LogLevel;
use crate::service::client::Client;
use crate::service::outcome::Cancelled;
use crate::service::problem::CatalogError;
// The one knot of this room: a handler may change the catalog that holds it.
use crate::service::{CatalogBuilder, Edit};

/// What the server gives to one running blocking handler.
pub trait WorkerHost: Send + Sync {
    /// Tells the caller how far the work is; see [`Worker::progress`].
    fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>);

    /// Whether the request was cancelled.
    fn is_cancelled(&self) -> bool;

    /// Who asked.
    fn client(&self) -> Client;

    /// Sends a log message to the client, where it wants to hear of `level`.
    fn log(&self, level: LogLevel, logger: Option<&str>, data: serde_json::Value);

    /// Tells everybody who subscribed to the resource `uri` that it changed.
    fn updated(&self, uri: &str);

    /// Has the catalog changed; returns when the next edition has been built.
    fn change(&self, edit: Edit) -> Result<(), CatalogError>;
}

/// A blocking handler's handle to its request. Cheap to clone; may go to other threads.
#[derive(Clone)]
pub struct Worker {
    host: Arc<dyn WorkerHost>,
}

impl Worker {
    /// A handle over what the server lends.
    pub fn new(host: Arc<dyn WorkerHost>) -> Self {
        Self { host }
    }

    /// Sends `notifications/progress` where the caller asked for it with a progress token, and does
    /// nothing otherwise. `progress` must grow from call to call. Costs a letter to the shard: tell
    /// it every few milliseconds of work, not every step.
    ///
    /// Source: 2026-07-28, basic/patterns/progress.
    pub fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        self.host.progress(progress, total, message);
    }

    /// Whether the request was cancelled; nothing that the handler still says will be sent.
    pub fn is_cancelled(&self) -> bool {
        self.host.is_cancelled()
    }

    /// Ends the handler with `?` where the request was cancelled. A thread cannot be stopped from
    /// outside: long work asks now and then.
    pub fn check(&self) -> Result<(), Cancelled> {
        if self.is_cancelled() { Err(Cancelled) } else { Ok(()) }
    }

    /// Who asked: its revision, and what it can do.
    pub fn client(&self) -> Client {
        self.host.client()
    }

    /// Sends a log message to the client; see [`Live::log`](crate::service::Live::log). Costs a
    /// letter to the shard.
    pub fn log(&self, level: LogLevel, logger: Option<&str>, data: impl Serialize) {
        let data = serde_json::to_value(data).unwrap_or_else(|error| error.to_string().into());
        self.host.log(level, logger, data);
    }

    /// Tells everybody who subscribed to the resource `uri` that it changed. Costs a letter to each
    /// shard.
    pub fn updated(&self, uri: &str) {
        self.host.updated(uri);
    }

    /// Changes the catalog; see [`Live::change`](crate::service::Live::change). Returns when the
    /// next edition has been built.
    pub fn change(
        &self,
        edit: impl FnOnce(CatalogBuilder) -> CatalogBuilder + Send + 'static,
    ) -> Result<(), CatalogError> {
        self.host.change(Box::new(edit))
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Worker").field("is_cancelled", &self.is_cancelled()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::era::ClientCapabilities;
    use crate::protocol::revision::Revision;

    struct Fixed(bool);

    impl WorkerHost for Fixed {
        fn progress(&self, _: f64, _: Option<f64>, _: Option<&str>) {}

        fn is_cancelled(&self) -> bool {
            self.0
        }

        fn client(&self) -> Client {
            let capabilities = ClientCapabilities::default();
            Client { revision: Revision::LATEST, capabilities }
        }

        fn log(&self, _: LogLevel, _: Option<&str>, _: serde_json::Value) {}

        fn updated(&self, _: &str) {}

        fn change(&self, _: Edit) -> Result<(), CatalogError> {
            Err(CatalogError::Fixed)
        }
    }

    #[test]
    fn a_check_passes_until_the_request_is_cancelled() {
        assert_eq!(Worker::new(Arc::new(Fixed(false))).check(), Ok(()));
        assert_eq!(Worker::new(Arc::new(Fixed(true))).check(), Err(Cancelled));
    }
}
