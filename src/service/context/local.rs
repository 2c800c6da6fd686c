//! The context of a running local handler: progress, cancellation, timers, logging, and requests to
//! the client.
//!
//! A local handler is a future on the shard that received the request. [`RequestContext`] is its
//! handle to the server, which implements [`RequestHost`].
//!
//! # Requests to the client
//!
//! A handler requests input with [`RequestContext::elicit`], [`RequestContext::create_message`] and
//! [`RequestContext::list_roots`]; the same code serves every revision. Before 2026-07-28 each of
//! them is a request from the server to the client. Since 2026-07-28 the result is
//! `input_required` with the open input requests; the client repeats its request with the
//! responses, and **the handler runs again from its start**, where input requests that already have
//! a response resolve immediately. Therefore each input request needs a key that is the same in
//! every run, the same responses must lead to the same input requests, and side effects belong
//! after the last input request.

use std::any::Any;
use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use corelane_base::principal::Principal;
use corelane_protocol::eras::LoggingLevel;
#[cfg(feature = "gateway")]
use corelane_protocol::model::ForwardedRequest;
use corelane_protocol::model::{
    CreateMessageRequest, CreateMessageResult, ElicitRequest, ElicitResult, InputRequest,
    InputResponse, Root,
};
use serde::Serialize;
use serde_json::value::RawValue;

use super::client::{ClientImplementation, ClientInfo};
use super::request::RequestInfo;
use super::typed_shard_state;
use crate::service::results::{Cancelled, ClientRequestError, HandlerError};
// The only import cycle of this module: a handler may update the catalog that contains it.
use crate::service::{CatalogBuilder, CatalogError, CatalogUpdate};

/// A future that the server creates for a handler.
pub type HostFuture<T> = Pin<Box<dyn Future<Output = T>>>;

/// What the earlier round trips of a request have left (2026-07-28).
#[derive(Clone, Debug, Default)]
pub struct PastRoundTrips {
    /// Keys of the inputs that were requested, answered or not.
    pub requested_keys: Vec<Box<str>>,
    /// The responses of the client with their keys. In the first round trip those that it gives
    /// without a request.
    pub responses: Vec<(Box<str>, Box<RawValue>)>,
    /// What the handler has kept.
    pub kept: Option<Box<str>>,
}

/// The server as seen by one running local handler; implements [`RequestContext`].
pub trait RequestHost {
    /// Sends progress; see [`RequestContext::progress`].
    fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>);

    /// Returns whether the request was cancelled.
    fn is_cancelled(&self) -> bool;

    /// Resolves when the request is cancelled; immediately if it already is.
    fn cancelled(&self) -> HostFuture<()>;

    /// Resolves after `duration` on the shard's clock.
    fn sleep(&self, duration: Duration) -> HostFuture<()>;

    /// The request.
    fn request(&self) -> &Arc<RequestInfo>;

    /// The state of the shard.
    fn shard_state(&self) -> &dyn Any;

    /// Requests input from the client. `key` identifies the input request within the request; the
    /// client has declared the capability that it needs.
    fn request_input(
        &self,
        key: &str,
        request: InputRequest,
    ) -> HostFuture<Result<InputResponse, ClientRequestError>>;

    /// Where an input that the client has not given ends the handler (2026-07-28): what earlier
    /// round trips of the request have left. `None` elsewhere.
    fn past_round_trips(&self) -> Option<PastRoundTrips> {
        None
    }

    /// Keeps a text for the next round trip of the request, instead of the responses so far.
    fn keep_for_round_trip(&self, _: Box<str>) {}

    /// Ends the SSE stream of the request; see [`RequestContext::close_sse_stream`].
    fn close_sse_stream(&self);

    /// Turns the call into a task; see [`RequestContext::begin_task`].
    fn begin_task(&self) -> HostFuture<Result<(), HandlerError>>;

    /// Sends a log message; see [`RequestContext::log`].
    fn log(&self, level: LoggingLevel, logger: Option<&str>, data: serde_json::Value);

    /// Sends a part of the result; see [`RequestContext::partial_result`]. Does nothing where no
    /// request is streamed.
    fn partial_result(&self, _: serde_json::Value) {}

    /// Sends `notifications/resources/updated` to the subscribers of `uri`.
    fn notify_resource_updated(&self, uri: &str);

    /// Updates the catalog; resolves when the next version is built.
    fn update_catalog(&self, update: CatalogUpdate) -> HostFuture<Result<(), CatalogError>>;
}

/// Context of a local handler's request. Cheap to clone; stays on its shard.
///
/// When the request is cancelled, [`RequestContext::sleep`] and
/// [`RequestContext::run_until_cancelled`] return [`Cancelled`], which ends the handler through
/// `?`. Await other futures through [`RequestContext::run_until_cancelled`]; otherwise cancellation
/// has no effect until they complete.
///
/// `S` is the state of the shard; see [`ToolBuilder::state`](crate::service::ToolBuilder::state).
pub struct RequestContext<S = ()> {
    host: Rc<dyn RequestHost>,
    state: PhantomData<fn() -> S>,
}

impl RequestContext {
    /// The server.
    #[cfg(feature = "tokio")]
    pub(crate) fn host(&self) -> &Rc<dyn RequestHost> {
        &self.host
    }

    /// Creates a context on top of `host`.
    pub fn new(host: Rc<dyn RequestHost>) -> Self {
        Self { host, state: PhantomData }
    }

    pub(in crate::service) fn with_state<S>(self) -> RequestContext<S> {
        RequestContext { host: self.host, state: PhantomData }
    }
}

impl<S: 'static> RequestContext<S> {
    /// The state of the shard; see [`ToolBuilder::state`](crate::service::ToolBuilder::state).
    pub fn state(&self) -> &S {
        typed_shard_state(self.host.shard_state())
    }

    /// Sends `notifications/progress` if the request has a progress token; otherwise does nothing.
    /// `progress` must increase with every call. `message` is sent since 2025-03-26.
    ///
    /// Source: MCP 2026-07-28, basic/patterns/progress.
    pub fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        self.host.progress(progress, total, message);
    }

    /// Ends the SSE stream that carries this request. Later messages of the handler are stored and
    /// sent when the client reconnects with `Last-Event-ID`. Has an effect only in a Streamable
    /// HTTP session of 2025-11-25: clients of earlier revisions do not reconnect.
    ///
    /// Source: MCP 2025-11-25, basic/transports, "Sending Messages to the Server" (SEP-1699).
    pub fn close_sse_stream(&self) {
        self.host.close_sse_stream();
    }

    /// Returns whether the request was cancelled. Nothing is sent for it afterwards.
    pub fn is_cancelled(&self) -> bool {
        self.host.is_cancelled()
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

    /// Requests input from the user, through a form or a URL to open (`elicitation/create`). `key`
    /// identifies the input request; see [Ask the user](crate#ask-the-user).
    ///
    /// Fails if the client did not declare elicitation
    /// ([`ClientRequestError::MissingCapability`]), does not respond in time, does not complete its
    /// handshake within 5 s ([`ClientRequestError::NotInitialized`]), or if the request is
    /// cancelled. A user who declines is a response, not an error: see [`ElicitResult::action`].
    ///
    /// The elicitation is never sent as a task (`tasks.requests.elicitation`, experimental in
    /// 2025-11-25, removed in 2026-07-28): the handler waits for the response either way, and
    /// polling a task costs both sides more. The client has `client_request_timeout` to respond,
    /// restarted by each progress notification.
    ///
    /// ```
    /// use corelane::model::{ElicitRequest, Field, Form};
    /// use corelane::{CallToolResult, NoArguments, RequestContext, Tool};
    ///
    /// let tool = Tool::new("rename").local(|_: NoArguments, ctx: RequestContext| async move {
    ///     let form = Form::new().field(Field::text("name").title("New name").required());
    ///     let result = ctx.elicit("name", ElicitRequest::form("Enter a name.", form)).await?;
    ///     Ok(CallToolResult::text(format!("{:?}", result.content.get("name"))))
    /// });
    /// # drop(tool);
    /// ```
    ///
    /// Source: MCP 2025-06-18 and later, client/elicitation; MCP 2026-07-28, basic/patterns/mrtr.
    pub fn elicit(
        &self,
        key: &str,
        elicitation: ElicitRequest,
    ) -> impl Future<Output = Result<ElicitResult, ClientRequestError>> + use<S> {
        self.request_input(key, InputRequest::Elicit(elicitation), super::elicited)
    }

    /// Requests a completion from the client's model (`sampling/createMessage`). `key` and errors
    /// as for [`RequestContext::elicit`]; never sent as a task either.
    ///
    /// Source: all MCP revisions, client/sampling (deprecated in 2026-07-28).
    pub fn create_message(
        &self,
        key: &str,
        sampling: CreateMessageRequest,
    ) -> impl Future<Output = Result<CreateMessageResult, ClientRequestError>> + use<S> {
        self.request_input(key, InputRequest::CreateMessage(Box::new(sampling)), super::sampled)
    }

    /// Requests the client's root directories (`roots/list`). `key` and errors as for
    /// [`RequestContext::elicit`].
    ///
    /// Source: all MCP revisions, client/roots (deprecated in 2026-07-28).
    pub fn list_roots(
        &self,
        key: &str,
    ) -> impl Future<Output = Result<Vec<Root>, ClientRequestError>> + use<S> {
        self.request_input(key, InputRequest::ListRoots, super::roots)
    }

    /// Requests an input from the client as another server has requested it. `key` and errors as
    /// for [`RequestContext::elicit`]. The result is an object.
    #[cfg(feature = "gateway")]
    pub(crate) fn forward_input(
        &self,
        key: &str,
        request: ForwardedRequest,
    ) -> impl Future<Output = Result<serde_json::Value, ClientRequestError>> + use<S> {
        self.request_input(key, InputRequest::Forwarded(Box::new(request)), |response| {
            if let InputResponse::Forwarded(result) = response { Some(result) } else { None }
        })
    }

    /// Where an input that the client has not given ends the handler: what earlier round trips
    /// have left. `None` elsewhere.
    #[cfg(feature = "gateway")]
    pub(crate) fn past_round_trips(&self) -> Option<PastRoundTrips> {
        self.host.past_round_trips()
    }

    /// Where an input that the client has not given ends the handler: keeps `kept` for the next
    /// round trip. The responses so far are dropped, and their inputs can be requested again.
    #[cfg(feature = "gateway")]
    pub(crate) fn keep_for_round_trip(&self, kept: impl Into<Box<str>>) {
        self.host.keep_for_round_trip(kept.into());
    }

    /// Turns the call into a task. For a tool with
    /// [`deferred_task`](crate::service::ToolBuilder::deferred_task) and a client that supports
    /// tasks, the call is answered with the created task, and this resolves when that has happened;
    /// afterwards input requests, progress and the result belong to the task. Otherwise, and within
    /// a task, it resolves immediately and has no effect. Request input that must precede the task
    /// before calling this.
    ///
    /// A handler that returns without calling this answers the call itself. A client of 2025-11-25
    /// that requested a task still receives one, already completed.
    ///
    /// Fails if the server's task limit is reached ([`HandlerError::Rpc`]) or the call was
    /// cancelled.
    ///
    /// Source: MCP Tasks extension 2026-07-28 (SEP-2663), "Task Creation".
    pub fn begin_task(&self) -> impl Future<Output = Result<(), HandlerError>> + use<S> {
        self.host.begin_task()
    }

    /// Sends a log message (`notifications/message`) if the client enabled `level`: with
    /// `logging/setLevel` up to 2025-11-25, with the log level of the request since 2026-07-28.
    /// If `data` cannot be serialized, the serialization error is logged in its place. Tasks of
    /// 2025-11-25 send log messages with their task id; tasks of 2026-07-28 send none, because the
    /// extension only has status notifications.
    ///
    /// Source: MCP server/utilities/logging; MCP 2025-11-25, basic/utilities/tasks, "Associating
    /// Task-Related Messages"; MCP Tasks extension 2026-07-28, "Notifications".
    pub fn log(&self, level: LoggingLevel, logger: Option<&str>, data: impl Serialize) {
        let data = serde_json::to_value(data).unwrap_or_else(|error| error.to_string().into());
        self.host.log(level, logger, data);
    }

    /// Sends a part of the result ahead of it, as a chunk of type `partial`, if the client streams
    /// the result (a request with `stream` of the dialect of
    /// [`ParityOptions`](crate::options::ParityOptions)); otherwise does nothing, at no cost. The
    /// result is complete without its parts: they are dropped while the client reads too slowly. So
    /// is `data` that cannot be serialized.
    pub fn partial_result(&self, data: impl Serialize) {
        if self.host.request().is_streamed()
            && let Ok(data) = serde_json::to_value(data)
        {
            self.host.partial_result(data);
        }
    }

    /// Sends `notifications/resources/updated` to every client that subscribed to `uri`.
    ///
    /// Source: MCP server/resources, "Subscriptions".
    pub fn notify_resource_updated(&self, uri: &str) {
        self.host.notify_resource_updated(uri);
    }

    /// Updates the catalog for all shards and clients. `update` receives a builder with all current
    /// entries. Resolves when the next version is built; shards switch to it shortly after, and
    /// calls in flight end with the definition they began with. Concurrent updates are applied one
    /// after the other in unspecified order.
    ///
    /// Fails without any effect if the builder rejects an entry.
    ///
    /// ```
    /// use corelane::{CallToolResult, HandlerError, NoArguments, RequestContext, Tool};
    ///
    /// let tool = Tool::new("unlock").local(|_: NoArguments, ctx: RequestContext| async move {
    ///     let secret = Tool::new("secret").inline_writer(|_: NoArguments, out, _| {
    ///         out.text("42");
    ///         Ok(())
    ///     });
    ///     let update = ctx.update_catalog(|catalog| catalog.tool(secret));
    ///     update.await?;
    ///     Ok(CallToolResult::text("Added the tool `secret`."))
    /// });
    /// # drop(tool);
    /// ```
    pub fn update_catalog(
        &self,
        update: impl FnOnce(CatalogBuilder) -> CatalogBuilder + Send + 'static,
    ) -> HostFuture<Result<(), CatalogError>> {
        self.host.update_catalog(Box::new(update))
    }

    /// Resolves when the request is cancelled; never otherwise.
    pub fn cancelled(&self) -> HostFuture<()> {
        self.host.cancelled()
    }

    /// Waits for `duration`, or fails as soon as the request is cancelled. Cost: one timer.
    pub fn sleep(
        &self,
        duration: Duration,
    ) -> impl Future<Output = Result<(), Cancelled>> + use<S> {
        self.run_until_cancelled(self.host.sleep(duration))
    }

    /// Awaits `work`, or drops it and fails as soon as the request is cancelled.
    pub fn run_until_cancelled<F: Future>(
        &self,
        work: F,
    ) -> impl Future<Output = Result<F::Output, Cancelled>> + use<F, S> {
        let mut cancelled = self.host.cancelled();
        async move {
            let mut work = pin!(work);
            poll_fn(|cx| {
                // Cancellation is polled first, so that `work` is not polled after it.
                if cancelled.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Err(Cancelled));
                }
                work.as_mut().poll(cx).map(Ok)
            })
            .await
        }
    }

    /// Sends `request` if the client declared its capability, and extracts the response.
    fn request_input<T, F>(
        &self,
        key: &str,
        request: InputRequest,
        extract: F,
    ) -> impl Future<Output = Result<T, ClientRequestError>> + use<T, F, S>
    where
        F: FnOnce(InputResponse) -> Option<T>,
    {
        let checked = super::check_capabilities(&request, self.client());
        let response = checked.map(|()| self.host.request_input(key, request));
        let key = Box::<str>::from(key);
        async move {
            let response = response?.await.map_err(|error| error.with_key(&key))?;
            super::expect(extract(response))
        }
    }
}

impl<S> Clone for RequestContext<S> {
    fn clone(&self) -> Self {
        Self { host: Rc::clone(&self.host), state: PhantomData }
    }
}

impl<S> fmt::Debug for RequestContext<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_cancelled = self.host.is_cancelled();
        formatter.debug_struct("RequestContext").field("is_cancelled", &is_cancelled).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, OnceCell};
    use std::future::{pending, ready};
    use std::task::{Context, Waker};

    use corelane_protocol::eras::ClientCapabilities;
    use corelane_protocol::revision::Revision;

    use super::*;

    /// A host whose timers fire immediately or never.
    #[derive(Default)]
    struct TestHost {
        cancelled: Cell<bool>,
        timers_never_fire: Cell<bool>,
        capabilities: Cell<ClientCapabilities>,
        request: OnceCell<Arc<RequestInfo>>,
    }

    impl RequestHost for TestHost {
        fn progress(&self, _: f64, _: Option<f64>, _: Option<&str>) {}

        fn is_cancelled(&self) -> bool {
            self.cancelled.get()
        }

        fn cancelled(&self) -> HostFuture<()> {
            if self.cancelled.get() { Box::pin(ready(())) } else { Box::pin(pending()) }
        }

        fn sleep(&self, _: Duration) -> HostFuture<()> {
            if self.timers_never_fire.get() { Box::pin(pending()) } else { Box::pin(ready(())) }
        }

        fn request(&self) -> &Arc<RequestInfo> {
            self.request.get_or_init(|| {
                let capabilities = self.capabilities.get();
                let client = ClientInfo { revision: Revision::LATEST, capabilities };
                RequestInfo::detached(client).into()
            })
        }

        fn shard_state(&self) -> &dyn Any {
            &()
        }

        fn request_input(
            &self,
            _: &str,
            request: InputRequest,
        ) -> HostFuture<Result<InputResponse, ClientRequestError>> {
            assert!(matches!(request, InputRequest::ListRoots));
            Box::pin(ready(Ok(InputResponse::ListRoots(Vec::new()))))
        }

        fn close_sse_stream(&self) {}

        fn begin_task(&self) -> HostFuture<Result<(), HandlerError>> {
            Box::pin(ready(Ok(())))
        }

        fn log(&self, _: LoggingLevel, _: Option<&str>, _: serde_json::Value) {}

        fn notify_resource_updated(&self, _: &str) {}

        fn update_catalog(&self, _: CatalogUpdate) -> HostFuture<Result<(), CatalogError>> {
            Box::pin(ready(Err(CatalogError::ReadOnly)))
        }
    }

    fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
        pin!(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn sleep_resolves_when_its_timer_fires() {
        let ctx = RequestContext::new(Rc::new(TestHost::default()));
        assert_eq!(poll_once(ctx.sleep(Duration::from_secs(1))), Poll::Ready(Ok(())));
    }

    #[test]
    fn cancelled_request_ends_sleep_and_wait() {
        let host = Rc::new(TestHost::default());
        host.timers_never_fire.set(true);
        let ctx = RequestContext::new(Rc::<TestHost>::clone(&host));
        assert_eq!(poll_once(ctx.sleep(Duration::from_secs(1))), Poll::Pending);
        host.cancelled.set(true);
        assert!(ctx.is_cancelled());
        assert_eq!(poll_once(ctx.sleep(Duration::from_secs(1))), Poll::Ready(Err(Cancelled)));
        assert_eq!(
            poll_once(ctx.run_until_cancelled(pending::<()>())),
            Poll::Ready(Err(Cancelled))
        );
        assert_eq!(poll_once(ctx.cancelled()), Poll::Ready(()));
    }

    #[test]
    fn run_until_cancelled_returns_output_of_work() {
        let ctx = RequestContext::new(Rc::new(TestHost::default()));
        assert_eq!(poll_once(ctx.run_until_cancelled(ready(7))), Poll::Ready(Ok(7)));
        assert_eq!(poll_once(ctx.run_until_cancelled(pending::<()>())), Poll::Pending);
    }

    #[test]
    fn input_request_needs_declared_capability() {
        let ctx = RequestContext::new(Rc::new(TestHost::default()));
        let result = poll_once(ctx.list_roots("roots"));
        let Poll::Ready(Err(ClientRequestError::MissingCapability(missing))) = result else {
            panic!("{result:?}");
        };
        assert_eq!(missing, ClientCapabilities::ROOTS);
        let host = TestHost::default();
        host.capabilities.set(ClientCapabilities::ROOTS);
        let ctx = RequestContext::new(Rc::new(host));
        assert!(matches!(poll_once(ctx.list_roots("roots")), Poll::Ready(Ok(_))));
    }
}
