//! The context of a running blocking handler: progress, cancellation and logging from a thread of
//! the pool.
//!
//! A blocking handler is a closure on the thread pool. [`BlockingContext`] is its handle to the
//! shard that received the request; the server implements [`BlockingHost`].

use std::fmt;
use std::sync::Arc;

use corelane_base::principal::Principal;
use corelane_protocol::eras::LoggingLevel;
use serde::Serialize;

use crate::service::context::{ClientImplementation, ClientInfo, RequestInfo};
use crate::service::results::Cancelled;
use crate::service::{CatalogBuilder, CatalogError, CatalogUpdate};
// The only import cycle of this module: a handler may update the catalog that contains it.

/// The server as seen by one running blocking handler; implements [`BlockingContext`].
pub trait BlockingHost: Send + Sync {
    /// Sends progress; see [`BlockingContext::progress`].
    fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>);

    /// Returns whether the request was cancelled.
    fn is_cancelled(&self) -> bool;

    /// The request.
    fn request(&self) -> &RequestInfo;

    /// Returns whether rules admit that the caller reads the resource `uri`, in normal form.
    fn may_read(&self, _uri: &str) -> bool {
        true
    }

    /// Sends a log message; see [`BlockingContext::log`].
    fn log(&self, level: LoggingLevel, logger: Option<&str>, data: serde_json::Value);

    /// Sends a part of the result; see [`BlockingContext::partial_result`]. Does nothing where no
    /// request is streamed.
    fn partial_result(&self, _: serde_json::Value) {}

    /// Sends `notifications/resources/updated` to the subscribers of `uri`.
    fn notify_resource_updated(&self, uri: &str);

    /// Updates the catalog; returns when the next version is built.
    fn update_catalog(&self, update: CatalogUpdate) -> Result<(), CatalogError>;
}

/// Context of a blocking handler's request. Cheap to clone; may be sent to other threads.
#[derive(Clone)]
pub struct BlockingContext {
    host: Arc<dyn BlockingHost>,
}

impl BlockingContext {
    /// Creates a context on top of `host`.
    pub fn new(host: Arc<dyn BlockingHost>) -> Self {
        Self { host }
    }

    /// Sends `notifications/progress` if the request has a progress token; otherwise does nothing.
    /// `progress` must increase with every call. Cost: a message to the shard; call it every few
    /// milliseconds, not in an inner loop.
    ///
    /// Source: MCP 2026-07-28, basic/patterns/progress.
    pub fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        self.host.progress(progress, total, message);
    }

    /// Returns whether the request was cancelled. Nothing is sent for it afterwards.
    pub fn is_cancelled(&self) -> bool {
        self.host.is_cancelled()
    }

    /// Fails if the request was cancelled, which ends the handler through `?`. A thread cannot be
    /// interrupted from outside, so long work has to call this regularly.
    pub fn check_cancelled(&self) -> Result<(), Cancelled> {
        if self.is_cancelled() { Err(Cancelled) } else { Ok(()) }
    }

    /// The request: its id, headers, `_meta` and what is known of its connection.
    pub fn request(&self) -> &RequestInfo {
        self.host.request()
    }

    /// Revision and capabilities of the client.
    pub fn client(&self) -> ClientInfo {
        self.request().client()
    }

    /// Name and version of the client program, if it has sent them.
    pub fn client_implementation(&self) -> Option<ClientImplementation<'_>> {
        self.request().client_implementation()
    }

    /// The authenticated caller; `None` without authentication, and of a caller without a token.
    pub fn principal(&self) -> Option<&Principal> {
        self.request().principal()
    }

    /// The value of type `T` that the host has attached to the request; see
    /// [`RequestInfo::extension`].
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.request().extension()
    }

    /// Returns whether rules admit that the caller reads the resource `uri`, in normal form.
    #[cfg(feature = "files")]
    pub(crate) fn may_read(&self, uri: &str) -> bool {
        self.host.may_read(uri)
    }

    /// Sends a log message; see [`RequestContext::log`](crate::service::RequestContext::log). Cost:
    /// a message to the shard.
    pub fn log(&self, level: LoggingLevel, logger: Option<&str>, data: impl Serialize) {
        let data = serde_json::to_value(data).unwrap_or_else(|error| error.to_string().into());
        self.host.log(level, logger, data);
    }

    /// Sends a part of the result ahead of it, if the client streams the result; see
    /// [`RequestContext::partial_result`](crate::service::RequestContext::partial_result). Cost: a
    /// message to the shard.
    pub fn partial_result(&self, data: impl Serialize) {
        if self.request().is_streamed()
            && let Ok(data) = serde_json::to_value(data)
        {
            self.host.partial_result(data);
        }
    }

    /// Sends `notifications/resources/updated` to every client that subscribed to `uri`. Cost: a
    /// message to each shard.
    pub fn notify_resource_updated(&self, uri: &str) {
        self.host.notify_resource_updated(uri);
    }

    /// Updates the catalog; see
    /// [`RequestContext::update_catalog`](crate::service::RequestContext::update_catalog). Blocks
    /// until the next version is built.
    pub fn update_catalog(
        &self,
        update: impl FnOnce(CatalogBuilder) -> CatalogBuilder + Send + 'static,
    ) -> Result<(), CatalogError> {
        self.host.update_catalog(Box::new(update))
    }
}

impl fmt::Debug for BlockingContext {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_cancelled = self.is_cancelled();
        formatter.debug_struct("BlockingContext").field("is_cancelled", &is_cancelled).finish()
    }
}

#[cfg(test)]
mod tests {
    use corelane_protocol::eras::ClientCapabilities;
    use corelane_protocol::revision::Revision;

    use super::*;

    struct TestHost {
        is_cancelled: bool,
        request: RequestInfo,
    }

    fn context(is_cancelled: bool) -> BlockingContext {
        let capabilities = ClientCapabilities::default();
        let client = ClientInfo { revision: Revision::LATEST, capabilities };
        let request = RequestInfo::detached(client);
        BlockingContext::new(Arc::new(TestHost { is_cancelled, request }))
    }

    impl BlockingHost for TestHost {
        fn progress(&self, _: f64, _: Option<f64>, _: Option<&str>) {}

        fn is_cancelled(&self) -> bool {
            self.is_cancelled
        }

        fn request(&self) -> &RequestInfo {
            &self.request
        }

        fn log(&self, _: LoggingLevel, _: Option<&str>, _: serde_json::Value) {}

        fn notify_resource_updated(&self, _: &str) {}

        fn update_catalog(&self, _: CatalogUpdate) -> Result<(), CatalogError> {
            Err(CatalogError::ReadOnly)
        }
    }

    #[test]
    fn check_cancelled_fails_after_cancellation() {
        assert_eq!(context(false).check_cancelled(), Ok(()));
        assert_eq!(context(true).check_cancelled(), Err(Cancelled));
    }
}
