//! One call, as it is sent to the I/O thread.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::client::error::{ClientError, ClientErrorKind};
use crate::client::io::{CallCallbacks, CallSlot, PeerRef};
use crate::client::session::{CallRequest, ReceivedMessage};
use crate::protocol::eras::Method;

/// A call that was sent. Dropping it cancels the call.
pub(super) struct Call {
    peer: Option<Arc<PeerRef>>,
    slot: Arc<CallSlot>,
    /// Why it was not sent.
    failure: Option<ClientError>,
}

impl Call {
    /// Sends a request.
    pub(super) fn send(
        peer: Arc<PeerRef>,
        mut request: CallRequest,
        callbacks: CallCallbacks,
    ) -> Self {
        if request.method == Method::ToolsCall
            && let Some(headers) = peer.tool_headers()
            && let Some(name) = &request.name
        {
            request.parameters = headers.of_call(name, &request.params);
        }
        let slot = Arc::new(CallSlot::new(callbacks));
        let failure = peer.call(request, Arc::clone(&slot)).err();
        Self { peer: Some(peer), slot, failure }
    }

    /// Creates a call that was not sent because of `error`.
    pub(super) fn failed(error: ClientError) -> Self {
        let slot = Arc::new(CallSlot::new(CallCallbacks::default()));
        Self { peer: None, slot, failure: Some(error) }
    }
}

impl Future for Call {
    type Output = Result<ReceivedMessage, ClientError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.failure.take() {
            Some(error) => Poll::Ready(Err(error)),
            None => self.slot.outcome().poll_take(context),
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if let Some(peer) = &self.peer
            && self.slot.outcome().is_pending()
        {
            peer.cancel(Arc::clone(&self.slot));
        }
    }
}

/// Reads the `result` of a response.
pub(in crate::client) fn read_result<R: DeserializeOwned>(
    message: &ReceivedMessage,
) -> Result<R, ClientError> {
    #[derive(Deserialize)]
    #[serde(bound = "R: DeserializeOwned")]
    struct Response<R> {
        result: R,
    }
    let response: Result<Response<R>, _> = serde_json::from_slice(message.as_bytes());
    response.map(|response| response.result).map_err(|error| {
        let text = format!("the result is invalid: {error}");
        ClientError::with_source(ClientErrorKind::Protocol, text, error)
    })
}
