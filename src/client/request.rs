//! A request that can be configured, sent, awaited and cancelled.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::block_on::block_on;
use super::error::{ClientError, ClientErrorKind};
use super::io::{CallCallbacks, CallSlot, PeerRef};
use super::session::{CallRequest, Progress, ReceivedMessage};
use crate::protocol::json::write;

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
        Self {
            peer: None,
            request: Err(error),
            callbacks: CallCallbacks::default(),
            result: PhantomData,
        }
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
        self.callbacks.on_progress = Some(Box::new(on_progress));
        self
    }

    /// Receives the notifications of a subscription.
    pub(super) fn on_message(
        mut self,
        on_message: impl Fn(ReceivedMessage) + Send + Sync + 'static,
    ) -> Self {
        self.callbacks.on_message = Some(Box::new(on_message));
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
        let slot = Arc::new(CallSlot::new(self.callbacks));
        let call = |request| match &self.peer {
            Some(peer) => peer.call(request, Arc::clone(&slot)),
            None => Ok(()),
        };
        let failure = self.request.and_then(call).err();
        ResponseFuture { peer: self.peer, slot, failure, result: PhantomData }
    }
}

/// The result of a [`Request`] that was sent. Every executor can poll it.
#[must_use = "dropping it cancels the request"]
pub struct ResponseFuture<R> {
    peer: Option<Arc<PeerRef>>,
    slot: Arc<CallSlot>,
    /// Why it was not sent.
    failure: Option<ClientError>,
    result: PhantomData<fn() -> R>,
}

impl<R: DeserializeOwned> Future for ResponseFuture<R> {
    type Output = Result<R, ClientError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_outcome(context)
    }
}

impl<R: DeserializeOwned> ResponseFuture<R> {
    /// Returns the result once it is there.
    pub(super) fn poll_outcome(&self, context: &Context<'_>) -> Poll<Result<R, ClientError>> {
        if let Some(error) = &self.failure {
            return Poll::Ready(Err(error.clone()));
        }
        let outcome = self.slot.outcome().poll_take(context);
        outcome.map(|outcome| read_result(&outcome?))
    }
}

impl<R> Drop for ResponseFuture<R> {
    fn drop(&mut self) {
        if let Some(peer) = &self.peer
            && self.slot.outcome().is_pending()
        {
            peer.cancel(Arc::clone(&self.slot));
        }
    }
}

impl<R> fmt::Debug for ResponseFuture<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}

/// Reads the `result` of a response.
fn read_result<R: DeserializeOwned>(message: &ReceivedMessage) -> Result<R, ClientError> {
    #[derive(Deserialize)]
    struct Response<'a> {
        #[serde(borrow)]
        result: &'a RawValue,
    }
    let invalid = |error: serde_json::Error| {
        let text = format!("the result is invalid: {error}");
        ClientError::with_source(ClientErrorKind::Protocol, text, error)
    };
    let response: Response<'_> = serde_json::from_slice(message.as_bytes()).map_err(invalid)?;
    serde_json::from_str(response.result.get()).map_err(invalid)
}
