//! The context of a running tokio handler: a future on a runtime of the host program.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use corelane_base::principal::Principal;
use corelane_protocol::eras::LoggingLevel;
use corelane_protocol::model::{
    CreateMessageRequest, CreateMessageResult, ElicitRequest, ElicitResult, InputRequest,
    InputResponse, Root,
};
use serde::Serialize;

use super::client::{ClientImplementation, ClientInfo};
use super::request::RequestInfo;
use crate::service::results::{ClientRequestError, HandlerError};
use crate::service::{CatalogBuilder, CatalogError, CatalogUpdate};

/// A future that the server creates for a handler on another thread.
pub type SendFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The server as seen by one running tokio handler; implements [`TokioContext`].
pub trait TokioHost: Send + Sync {
    /// Sends progress; see [`TokioContext::progress`].
    fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>);

    /// Returns whether the request was cancelled.
    fn is_cancelled(&self) -> bool;

    /// The request.
    fn request(&self) -> &RequestInfo;

    /// Requests input from the client, which has declared the capability that it needs.
    fn request_input(
        &self,
        key: &str,
        request: InputRequest,
    ) -> SendFuture<Result<InputResponse, ClientRequestError>>;

    /// Turns the call into a task; see [`TokioContext::begin_task`].
    fn begin_task(&self) -> SendFuture<Result<(), HandlerError>>;

    /// Sends a log message; see [`TokioContext::log`].
    fn log(&self, level: LoggingLevel, logger: Option<&str>, data: serde_json::Value);

    /// Sends a part of the result; see [`TokioContext::partial_result`].
    fn partial_result(&self, data: serde_json::Value);

    /// Sends `notifications/resources/updated` to the subscribers of `uri`.
    fn notify_resource_updated(&self, uri: &str);

    /// Updates the catalog; resolves when the next version is built.
    fn update_catalog(&self, update: CatalogUpdate) -> SendFuture<Result<(), CatalogError>>;
}

/// Context of a tokio handler's request. Cheap to clone; may be sent to other threads.
///
/// When the request is cancelled, the future of the handler is dropped at its next `await`. Work
/// that it has spawned goes on unless the handler ends it.
#[derive(Clone)]
pub struct TokioContext {
    host: Arc<dyn TokioHost>,
}

impl TokioContext {
    /// Creates a context on top of `host`.
    pub fn new(host: Arc<dyn TokioHost>) -> Self {
        Self { host }
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

    /// Sends `notifications/progress` if the request has a progress token; otherwise does nothing.
    /// `progress` must increase with every call. Cost: a message to the shard. A message beyond 64
    /// that the shard has not read yet is dropped.
    ///
    /// Source: MCP 2026-07-28, basic/patterns/progress.
    pub fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        self.host.progress(progress, total, message);
    }

    /// Returns whether the request was cancelled: for work that the handler has spawned.
    pub fn is_cancelled(&self) -> bool {
        self.host.is_cancelled()
    }

    /// Requests input from the user; see
    /// [`RequestContext::elicit`](crate::service::RequestContext::elicit).
    pub fn elicit(
        &self,
        key: &str,
        elicitation: ElicitRequest,
    ) -> impl Future<Output = Result<ElicitResult, ClientRequestError>> + Send + use<> {
        let response = self.request_input(key, InputRequest::Elicit(elicitation));
        async move { super::expect(super::elicited(response.await?)) }
    }

    /// Requests a completion from the client's model; see
    /// [`RequestContext::create_message`](crate::service::RequestContext::create_message).
    pub fn create_message(
        &self,
        key: &str,
        sampling: CreateMessageRequest,
    ) -> impl Future<Output = Result<CreateMessageResult, ClientRequestError>> + Send + use<> {
        let response = self.request_input(key, InputRequest::CreateMessage(Box::new(sampling)));
        async move { super::expect(super::sampled(response.await?)) }
    }

    /// Requests the client's root directories; see
    /// [`RequestContext::list_roots`](crate::service::RequestContext::list_roots).
    pub fn list_roots(
        &self,
        key: &str,
    ) -> impl Future<Output = Result<Vec<Root>, ClientRequestError>> + Send + use<> {
        let response = self.request_input(key, InputRequest::ListRoots);
        async move { super::expect(super::roots(response.await?)) }
    }

    /// Turns the call into a task; see
    /// [`RequestContext::begin_task`](crate::service::RequestContext::begin_task).
    pub fn begin_task(&self) -> SendFuture<Result<(), HandlerError>> {
        self.host.begin_task()
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
    /// message to the shard, and from there to each shard.
    pub fn notify_resource_updated(&self, uri: &str) {
        self.host.notify_resource_updated(uri);
    }

    /// Updates the catalog; see
    /// [`RequestContext::update_catalog`](crate::service::RequestContext::update_catalog).
    pub fn update_catalog(
        &self,
        update: impl FnOnce(CatalogBuilder) -> CatalogBuilder + Send + 'static,
    ) -> SendFuture<Result<(), CatalogError>> {
        self.host.update_catalog(Box::new(update))
    }

    fn request_input(
        &self,
        key: &str,
        request: InputRequest,
    ) -> impl Future<Output = Result<InputResponse, ClientRequestError>> + Send + use<> {
        let checked = super::check_capabilities(&request, self.client());
        let response = checked.map(|()| self.host.request_input(key, request));
        let key = Box::<str>::from(key);
        async move { response?.await.map_err(|error| error.with_key(&key)) }
    }
}

impl fmt::Debug for TokioContext {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_cancelled = self.is_cancelled();
        formatter.debug_struct("TokioContext").field("is_cancelled", &is_cancelled).finish()
    }
}
