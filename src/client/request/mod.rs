//! A request that can be configured, sent, awaited and cancelled.

mod call;

mod list;

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use serde::de::DeserializeOwned;

use self::call::Call;
use super::block_on::block_on;
use super::error::{ClientError, ClientErrorKind};
use super::io::{CallCallbacks, PeerRef};
use super::session::{CallRequest, Progress, ReceivedMessage};
use crate::protocol::eras::Method;
use crate::protocol::json::write;

pub(super) use self::call::read_result;
pub(super) use self::list::{read_list, read_tools};

/// Code of an HTTP request whose headers do not repeat its body (2026-07-28).
const HEADER_MISMATCH: ClientErrorKind = ClientErrorKind::Rpc { code: -32020 };

/// A request whose result is an `R`. It is sent when it is first awaited; [`Request::wait`] sends
/// it and blocks the thread instead.
///
/// Dropping a future that was sent cancels the request on the server.
#[must_use = "a request is sent when it is awaited"]
pub struct Request<R> {
    peer: Option<Arc<PeerRef>>,
    /// An error of the arguments ends the request before it is sent.
    request: Result<CallRequest, ClientError>,
    callbacks: CallCallbacks,
    result: PhantomData<fn() -> R>,
}

impl<R: DeserializeOwned> Request<R> {
    pub(super) fn new(peer: Arc<PeerRef>, request: Result<CallRequest, ClientError>) -> Self {
        Self { peer: Some(peer), request, callbacks: CallCallbacks::default(), result: PhantomData }
    }

    /// Creates a request that fails with `error`.
    pub(super) fn failed(error: ClientError) -> Self {
        let callbacks = CallCallbacks::default();
        Self { peer: None, request: Err(error), callbacks, result: PhantomData }
    }

    /// Sets the time to the response. Default: that of the client.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        if let Ok(request) = &mut self.request {
            request.timeout = Some(timeout);
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

    /// Receives the notifications of a subscription.
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

    /// Sends the request and blocks the thread until it has ended.
    ///
    /// # Errors
    ///
    /// Those of the future.
    pub fn wait(self) -> Result<R, ClientError> {
        block_on(self.into_future())
    }
}

impl<R> fmt::Debug for Request<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let method = self.request.as_ref().map(|request| request.method);
        formatter.debug_struct("Request").field("method", &method).finish_non_exhaustive()
    }
}

impl<R: DeserializeOwned> IntoFuture for Request<R> {
    type Output = Result<R, ClientError>;
    type IntoFuture = ResponseFuture<R>;

    fn into_future(self) -> Self::IntoFuture {
        let attempt = match (self.peer, self.request) {
            (Some(peer), Ok(request)) => Attempt::first(peer, request, self.callbacks),
            (_, Err(error)) => Attempt::failed(error),
            (None, Ok(_)) => {
                let text = "the request has no server";
                Attempt::failed(ClientError::new(ClientErrorKind::InvalidInput, text))
            }
        };
        ResponseFuture { attempt, result: PhantomData }
    }
}

/// The result of a [`Request`] that was sent. Every executor can poll it.
#[must_use = "dropping it cancels the request"]
pub struct ResponseFuture<R> {
    attempt: Attempt,
    result: PhantomData<fn() -> R>,
}

impl<R: DeserializeOwned> Future for ResponseFuture<R> {
    type Output = Result<R, ClientError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = ready!(self.attempt.poll(context));
        Poll::Ready(outcome.and_then(|message| read_result(&message)))
    }
}

impl<R> fmt::Debug for ResponseFuture<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}

/// A request in flight.
enum Attempt {
    First(Call, Option<Box<ToolCall>>),
    /// After the tools were listed again.
    Second(Pin<Box<dyn Future<Output = Result<ReceivedMessage, ClientError>> + Send + Sync>>),
}

/// A tool call over HTTP, which is sent again if its headers are not those that the tool requires.
struct ToolCall {
    peer: Arc<PeerRef>,
    request: CallRequest,
    callbacks: CallCallbacks,
}

impl Attempt {
    /// Sends a request.
    fn first(peer: Arc<PeerRef>, request: CallRequest, callbacks: CallCallbacks) -> Self {
        let may_repeat = request.method == Method::ToolsCall && peer.tool_headers().is_some();
        let tool_call = may_repeat.then(|| {
            let (peer, callbacks) = (Arc::clone(&peer), callbacks.clone());
            Box::new(ToolCall { peer, request: request.clone(), callbacks })
        });
        Self::First(Call::send(peer, request, callbacks), tool_call)
    }

    /// Creates a request that was not sent because of `error`.
    fn failed(error: ClientError) -> Self {
        Self::First(Call::failed(error), None)
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<ReceivedMessage, ClientError>> {
        if let Self::First(call, tool_call) = self {
            match (ready!(Pin::new(call).poll(context)), tool_call.take()) {
                (Err(error), Some(tool_call)) if error.kind() == HEADER_MISMATCH => {
                    *self = Self::Second(Box::pin(tool_call.repeat(error)));
                }
                (outcome, _) => return Poll::Ready(outcome),
            }
        }
        match self {
            Self::First(call, _) => Pin::new(call).poll(context),
            Self::Second(repeated) => repeated.as_mut().poll(context),
        }
    }
}

impl ToolCall {
    /// Lists the tools and calls again. Fails with `error` if the tool may not be called any more.
    async fn repeat(self: Box<Self>, error: ClientError) -> Result<ReceivedMessage, ClientError> {
        let Self { peer, request, callbacks } = *self;
        let tools = read_tools(&peer).await?;
        if !tools.iter().any(|tool| Some(tool.name.as_str()) == request.name.as_deref()) {
            return Err(error);
        }
        Call::send(peer, request, callbacks).await
    }
}
