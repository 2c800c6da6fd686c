//! A request that can be configured, sent, awaited and cancelled.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{ClientError, ClientErrorKind};
use crate::io::{ChunkCallback, ParityPeerRef, ParitySlot};
use crate::parity_session::{ParityCallRequest, ParityChunk};
use corelane_parity::idempotency::KEY_CHARS_MAX;

/// A request of the parity dialect whose result is an `R`. It is sent when it is first awaited;
/// [`ParityRequest::wait`] sends it and blocks the thread instead.
///
/// Dropping a future that was sent cancels the request on the server.
#[must_use = "a request is sent when it is awaited"]
pub struct ParityRequest<R> {
    peer: Arc<ParityPeerRef>,
    /// An error of the arguments ends the request before it is sent.
    request: Result<Box<ParityCallRequest>, ClientError>,
    on_chunk: Option<ChunkCallback>,
    result: PhantomData<fn() -> R>,
}

impl<R: DeserializeOwned> ParityRequest<R> {
    /// Creates the request of a method. `params` must serialize to a JSON object.
    pub(super) fn new(
        peer: Arc<ParityPeerRef>,
        method: &str,
        params: &(impl Serialize + ?Sized),
    ) -> Self {
        let request = encode(params).map(|params| {
            Box::new(ParityCallRequest {
                method: method.into(),
                params,
                streams: false,
                idempotency_key: None,
                timeout: None,
            })
        });
        Self { peer, request, on_chunk: None, result: PhantomData }
    }

    /// Sets the time to the response; of a streamed request also the longest time between two
    /// chunks. Default: that of the client.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        if let Ok(request) = &mut self.request {
            request.timeout = Some(timeout);
        }
        self
    }

    /// Has the server accept the request once: another request of the session with this key, of 1
    /// to 128 characters, fails with `error.already_processed`. The request is sent again if its
    /// connection is lost and the session continues on another.
    pub fn idempotency_key(mut self, key: &str) -> Self {
        if key.is_empty() || key.chars().count() > KEY_CHARS_MAX {
            let text = format!("an idempotency key has 1 to {KEY_CHARS_MAX} characters");
            self.request = Err(ClientError::new(ClientErrorKind::InvalidInput, text));
        }
        if let Ok(request) = &mut self.request {
            request.idempotency_key = Some(key.into());
        }
        self
    }

    /// Streams the result: `on_chunk` receives progress, log messages and partial results, each
    /// once and in order, also across a lost connection. The future still ends with the result.
    /// `on_chunk` is called on the I/O thread and must not block: while it runs nothing is read, so
    /// that a slow one slows the server down.
    pub fn on_chunk(mut self, on_chunk: impl Fn(ParityChunk) + Send + Sync + 'static) -> Self {
        if let Ok(request) = &mut self.request {
            request.streams = true;
        }
        self.on_chunk = Some(Box::new(on_chunk));
        self
    }

    /// Sends the request and blocks the thread until it has ended.
    ///
    /// # Errors
    ///
    /// Those of the future; [`ClientErrorKind::InvalidInput`] on the thread that does the I/O of
    /// the client.
    pub fn wait(self) -> Result<R, ClientError> {
        let peer = Arc::clone(&self.peer);
        peer.wait(self)
    }
}

impl<R: DeserializeOwned> IntoFuture for ParityRequest<R> {
    type Output = Result<R, ClientError>;
    type IntoFuture = ParityResponse<R>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { peer, request, on_chunk, .. } = self;
        let slot = Arc::new(ParitySlot::new(on_chunk));
        let sent = request.and_then(|request| peer.call(request, Arc::clone(&slot)));
        if let Err(error) = sent {
            slot.outcome().set(Err(error));
        }
        ParityResponse { peer, slot: Some(slot), result: PhantomData }
    }
}

impl<R> fmt::Debug for ParityRequest<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let method = self.request.as_ref().map(|request| &*request.method);
        formatter.debug_struct("ParityRequest").field("method", &method).finish_non_exhaustive()
    }
}

fn encode(params: &(impl Serialize + ?Sized)) -> Result<Vec<u8>, ClientError> {
    let invalid = |text: String| ClientError::new(ClientErrorKind::InvalidInput, text);
    let encoded = serde_json::to_vec(params);
    let encoded = encoded.map_err(|error| invalid(format!("the params are no JSON: {error}")))?;
    if encoded.first() != Some(&b'{') {
        return Err(invalid("the params are no JSON object".to_owned()));
    }
    Ok(encoded)
}

/// The result of a [`ParityRequest`] that was sent. Every executor can poll it.
#[must_use = "dropping it cancels the request"]
pub struct ParityResponse<R> {
    peer: Arc<ParityPeerRef>,
    /// `None` once the outcome is taken.
    slot: Option<Arc<ParitySlot>>,
    result: PhantomData<fn() -> R>,
}

impl<R> ParityResponse<R> {
    /// Returns what cancels the request from elsewhere.
    pub fn canceller(&self) -> ParityCancel {
        ParityCancel { peer: Arc::clone(&self.peer), slot: self.slot.clone() }
    }
}

impl<R: DeserializeOwned> Future for ParityResponse<R> {
    type Output = Result<R, ClientError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(slot) = &self.slot else { return Poll::Pending };
        let outcome = ready!(slot.outcome().poll_take(context));
        self.slot = None;
        Poll::Ready(outcome.and_then(|text| {
            serde_json::from_slice(&text).map_err(|error| {
                let text = format!("the result is invalid: {error}");
                ClientError::new(ClientErrorKind::Protocol, text)
            })
        }))
    }
}

impl<R> Drop for ParityResponse<R> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take()
            && slot.outcome().is_pending()
        {
            self.peer.cancel(slot);
        }
    }
}

impl<R> fmt::Debug for ParityResponse<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ParityResponse").finish_non_exhaustive()
    }
}

/// Cancels one request: see [`ParityResponse::canceller`].
#[derive(Clone)]
pub struct ParityCancel {
    peer: Arc<ParityPeerRef>,
    slot: Option<Arc<ParitySlot>>,
}

impl ParityCancel {
    /// Ends the request with [`ClientErrorKind::Cancelled`], and has the server stop its work. Has
    /// no effect on a request that has ended.
    pub fn cancel(&self) {
        if let Some(slot) = &self.slot
            && slot.outcome().is_pending()
        {
            self.peer.cancel(Arc::clone(slot));
        }
    }
}

impl fmt::Debug for ParityCancel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ParityCancel").finish_non_exhaustive()
    }
}
