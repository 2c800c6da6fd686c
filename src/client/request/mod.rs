//! A request that can be configured, sent, awaited and cancelled.

mod call;
mod pages;
mod task;

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use serde::de::DeserializeOwned;

use self::call::CallFuture;
pub(super) use self::call::{put_request, take_request, take_result};
#[cfg(feature = "skills")]
pub(super) use self::pages::Listed;
pub use self::pages::{ListItem, Page, Pages};
pub use self::task::{Task, TaskRequest};
use super::error::{ClientError, ClientErrorKind};
use super::io::{CallCallbacks, PeerRef};
use super::results::ToolInfo;
use super::session::{CallRequest, Progress, ReceivedMessage, TaskMode};
use super::sync::block_on;
use crate::inputs::{CallInput, InputFuture};
use corelane_protocol::eras::{ClientCapabilities, Method};
use corelane_protocol::json::write;
use corelane_transport::http::client::request_writer::ExtraFields;

/// A request whose result is an `R`. It is sent when it is first awaited; [`Request::wait`] sends
/// it and blocks the thread instead.
///
/// Dropping a future that was sent cancels the request on the server.
#[must_use = "a request is sent when it is awaited"]
pub struct Request<R> {
    peer: Option<Arc<PeerRef>>,
    /// An error of the arguments ends the request before it is sent.
    request: Result<Box<CallRequest>, ClientError>,
    /// The response, if it is known without the request.
    answer: Option<ReceivedMessage>,
    callbacks: CallCallbacks,
    result: PhantomData<fn() -> R>,
}

impl<R: DeserializeOwned + 'static> Request<R> {
    pub(super) fn new(
        peer: Arc<PeerRef>,
        request: Result<impl Into<Box<CallRequest>>, ClientError>,
    ) -> Self {
        let request = request.map(Into::into);
        let (answer, callbacks) = (None, CallCallbacks::default());
        Self { peer: Some(peer), request, answer, callbacks, result: PhantomData }
    }

    /// Creates a request whose response is known.
    fn answered(message: ReceivedMessage) -> Self {
        let failed = Self::failed(ClientError::new(ClientErrorKind::Closed, "it is not sent"));
        Self { answer: Some(message), ..failed }
    }

    /// Creates a request that fails with `error`.
    pub(super) fn failed(error: ClientError) -> Self {
        let (answer, callbacks) = (None, CallCallbacks::default());
        Self { peer: None, request: Err(error), answer, callbacks, result: PhantomData }
    }

    fn set_task_mode(&mut self, task: TaskMode) {
        if let Ok(request) = &mut self.request {
            request.task = task;
            request.reads_tool_result = false;
        }
    }

    /// Sets the time to the response. Default: that of the client.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        if let Ok(request) = &mut self.request {
            request.timeout = Some(timeout);
        }
        self
    }

    /// Sends the request even if the client has a fresh result ([`CachePolicy`]).
    ///
    /// [`CachePolicy`]: crate::CachePolicy
    pub fn fresh(mut self) -> Self {
        if let Ok(request) = &mut self.request {
            request.is_fresh = true;
        }
        self
    }

    /// Asks for progress; `on_progress` is called on the I/O thread and must not block.
    pub fn on_progress(mut self, on_progress: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        if let Ok(request) = &mut self.request {
            request.wants_progress = true;
        }
        self.callbacks.on_progress = Some(Arc::new(on_progress));
        self
    }

    /// Lets each progress notification give the request its whole time again.
    #[doc(hidden)]
    pub fn extended_by_progress(mut self) -> Self {
        if let Ok(request) = &mut self.request {
            request.is_extended_by_progress = true;
        }
        self
    }

    /// Declares `capabilities` for this request, whose input `on_input` provides. It is called on
    /// the I/O thread and must not block. A legacy server has the capabilities of the client
    /// ([`ClientBuilder::declare`](crate::ClientBuilder::declare)), and does not say which request
    /// its input is for: the first one in flight with `on_input` provides it.
    #[doc(hidden)]
    pub fn on_input(
        mut self,
        capabilities: ClientCapabilities,
        on_input: impl Fn(CallInput) -> InputFuture + Send + Sync + 'static,
    ) -> Self {
        if let Ok(request) = &mut self.request {
            request.declared = Some(capabilities);
        }
        self.callbacks.on_input = Some(Arc::new(on_input));
        self
    }

    /// Sends `members` of `_meta`, encoded and without braces, and none of the client, whatever
    /// the revision.
    #[doc(hidden)]
    pub fn own_meta(mut self, members: &[u8]) -> Self {
        if let Ok(request) = &mut self.request {
            request.meta.clear();
            request.meta.extend_from_slice(members);
            request.has_own_meta = true;
        }
        self
    }

    /// Asks a legacy server to make the call a task, and waits for the result of it.
    #[doc(hidden)]
    pub fn as_task(mut self) -> Self {
        self.set_task_mode(TaskMode::CreateAndFollow);
        self
    }

    /// Returns a result that requires input (2026-07-28) as the response.
    #[doc(hidden)]
    pub fn returns_input_required(mut self) -> Self {
        if let Ok(request) = &mut self.request {
            request.returns_input_required = true;
        }
        self
    }

    /// Sends the request. Its result is the response, as it was received.
    #[doc(hidden)]
    pub fn received(mut self) -> ReceivedFuture {
        if let Ok(request) = &mut self.request {
            request.reads_tool_result = false;
        }
        ReceivedFuture(SentRequest::of_request(self))
    }

    /// Receives the notifications of a subscription, or the states of a task.
    pub(super) fn on_message(
        mut self,
        on_message: impl Fn(ReceivedMessage) + Send + Sync + 'static,
    ) -> Self {
        self.callbacks.on_message = Some(Arc::new(on_message));
        self
    }

    /// Adds a member to `_meta` of the request, such as `traceparent`.
    pub fn meta(mut self, key: &str, value: &serde_json::Value) -> Self {
        if let Ok(request) = &mut self.request {
            if !request.meta.is_empty() {
                request.meta.push(b',');
            }
            write::string(&mut request.meta, key);
            request.meta.push(b':');
            write::json(&mut request.meta, value);
        }
        self
    }

    /// Adds a header to the HTTP request, as [`ClientBuilder::header`] adds it to all of a client.
    /// An invalid name or value fails the request with [`ClientErrorKind::InvalidInput`]; other
    /// transports have no headers.
    ///
    /// [`ClientBuilder::header`]: crate::ClientBuilder::header
    pub fn header(mut self, name: &str, value: &str) -> Self {
        if let Ok(request) = &mut self.request
            && let Err(text) = request.fields.push(name, value)
        {
            self.request = Err(ClientError::new(ClientErrorKind::InvalidInput, text));
        }
        self
    }

    /// Sends the request and blocks the thread until it has ended.
    ///
    /// # Errors
    ///
    /// Those of the future; [`ClientErrorKind::InvalidInput`] on the thread that does the I/O of
    /// the client, such as in a handler on its shard.
    pub fn wait(self) -> Result<R, ClientError> {
        match self.peer.clone() {
            Some(peer) => peer.wait(self),
            None => block_on(self),
        }
    }
}

impl<R> fmt::Debug for Request<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let method = self.request.as_ref().map(|request| request.method);
        formatter.debug_struct("Request").field("method", &method).finish_non_exhaustive()
    }
}

impl<R: DeserializeOwned + 'static> IntoFuture for Request<R> {
    type Output = Result<R, ClientError>;
    type IntoFuture = ResponseFuture<R>;

    fn into_future(self) -> Self::IntoFuture {
        ResponseFuture { attempt: SentRequest::of_request(self), result: PhantomData }
    }
}

/// The result of a [`Request`] that was sent. Every executor can poll it.
#[must_use = "dropping it cancels the request"]
pub struct ResponseFuture<R> {
    attempt: SentRequest,
    result: PhantomData<fn() -> R>,
}

impl<R: DeserializeOwned + 'static> Future for ResponseFuture<R> {
    type Output = Result<R, ClientError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = ready!(Pin::new(&mut self.attempt).poll(context));
        Poll::Ready(outcome.and_then(take_result))
    }
}

/// The response to a request that was sent, as it was received. Every executor can poll it.
#[doc(hidden)]
#[must_use = "dropping it cancels the request"]
pub struct ReceivedFuture(SentRequest);

impl Future for ReceivedFuture {
    type Output = Result<ReceivedMessage, ClientError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context)
    }
}

impl fmt::Debug for ReceivedFuture {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ReceivedFuture").finish_non_exhaustive()
    }
}

impl<R> fmt::Debug for ResponseFuture<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}

/// Checks a header of [`Request::header`].
///
/// # Errors
///
/// [`ClientErrorKind::InvalidInput`]; the text has no part of the value.
#[doc(hidden)]
pub fn check_header(name: &str, value: &str) -> Result<(), ClientError> {
    let added = ExtraFields::new().push(name, value);
    added.map_err(|text| ClientError::new(ClientErrorKind::InvalidInput, text))
}

/// Code of an HTTP request whose headers do not repeat its body (2026-07-28).
const HEADER_MISMATCH: ClientErrorKind = ClientErrorKind::Rpc { code: -32020 };

/// A request in flight.
enum SentRequest {
    First(CallFuture, Option<Box<ToolCall>>),
    /// After the tools were listed again.
    Second(Pin<Box<dyn Future<Output = Result<ReceivedMessage, ClientError>> + Send + Sync>>),
}

/// A tool call over HTTP, which is sent again if its headers are not those that the tool requires.
struct ToolCall {
    peer: Arc<PeerRef>,
    request: Box<CallRequest>,
    callbacks: CallCallbacks,
}

impl SentRequest {
    /// Sends a request, unless it is answered already.
    fn of_request<R>(request: Request<R>) -> Self {
        match (request.answer, request.peer, request.request) {
            (Some(message), ..) => Self::First(CallFuture::answered(message), None),
            (None, Some(peer), Ok(call)) => Self::first(peer, call, request.callbacks),
            (None, _, Err(error)) => Self::First(CallFuture::failed(error), None),
            (None, None, Ok(_)) => {
                let error =
                    ClientError::new(ClientErrorKind::InvalidInput, "the request has no server");
                Self::First(CallFuture::failed(error), None)
            }
        }
    }

    fn first(peer: Arc<PeerRef>, request: Box<CallRequest>, callbacks: CallCallbacks) -> Self {
        let may_repeat = request.method == Method::ToolsCall && peer.shared.tools.has_headers();
        let tool_call = may_repeat.then(|| {
            let (peer, callbacks) = (Arc::clone(&peer), callbacks.clone());
            Box::new(ToolCall { peer, request: request.clone(), callbacks })
        });
        Self::First(CallFuture::send(peer, request, callbacks), tool_call)
    }
}

impl Future for SentRequest {
    type Output = Result<ReceivedMessage, ClientError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Self::First(call, tool_call) = &mut *self {
            match (ready!(Pin::new(call).poll(context)), tool_call.take()) {
                (Err(error), Some(tool_call)) if error.kind() == HEADER_MISMATCH => {
                    *self = Self::Second(Box::pin(tool_call.repeat(error)));
                }
                (outcome, _) => return Poll::Ready(outcome),
            }
        }
        match &mut *self {
            Self::First(call, _) => Pin::new(call).poll(context),
            Self::Second(repeated) => repeated.as_mut().poll(context),
        }
    }
}

impl ToolCall {
    /// Lists the tools and calls again. Fails with `error` if the tool may not be called any more.
    async fn repeat(self: Box<Self>, error: ClientError) -> Result<ReceivedMessage, ClientError> {
        let Self { peer, request, callbacks } = *self;
        let tools = Pages::<ToolInfo>::new(Arc::clone(&peer));
        let tools = tools.fresh().collect().await?;
        if !tools.iter().any(|tool| Some(tool.name.as_str()) == request.name.as_deref()) {
            return Err(error);
        }
        CallFuture::send(peer, request, callbacks).await
    }
}
