//! A request in flight. A tool call over HTTP is sent again if its headers are not those that the
//! tool requires.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::Request;
use super::call::Call;
use super::pages::Pages;
use crate::error::{ClientError, ClientErrorKind};
use crate::io::{CallCallbacks, PeerRef};
use crate::results::ToolInfo;
use crate::session::{CallRequest, ReceivedMessage};
use corelane_protocol::eras::Method;

/// Code of an HTTP request whose headers do not repeat its body (2026-07-28).
const HEADER_MISMATCH: ClientErrorKind = ClientErrorKind::Rpc { code: -32020 };

/// A request in flight.
pub(super) enum Attempt {
    First(Call, Option<Box<ToolCall>>),
    /// After the tools were listed again.
    Second(Pin<Box<dyn Future<Output = Result<ReceivedMessage, ClientError>> + Send + Sync>>),
}

/// A tool call over HTTP, which is sent again if its headers are not those that the tool requires.
pub(super) struct ToolCall {
    peer: Arc<PeerRef>,
    request: Box<CallRequest>,
    callbacks: CallCallbacks,
}

impl Attempt {
    /// Sends a request, unless it is answered already.
    pub(super) fn of_request<R>(request: Request<R>) -> Self {
        match (request.answer, request.peer, request.request) {
            (Some(message), ..) => Self::First(Call::answered(message), None),
            (None, Some(peer), Ok(call)) => Self::first(peer, call, request.callbacks),
            (None, _, Err(error)) => Self::First(Call::failed(error), None),
            (None, None, Ok(_)) => {
                let error =
                    ClientError::new(ClientErrorKind::InvalidInput, "the request has no server");
                Self::First(Call::failed(error), None)
            }
        }
    }

    fn first(peer: Arc<PeerRef>, request: Box<CallRequest>, callbacks: CallCallbacks) -> Self {
        let may_repeat = request.method == Method::ToolsCall && peer.shared.tools.has_headers();
        let tool_call = may_repeat.then(|| {
            let (peer, callbacks) = (Arc::clone(&peer), callbacks.clone());
            Box::new(ToolCall { peer, request: request.clone(), callbacks })
        });
        Self::First(Call::send(peer, request, callbacks), tool_call)
    }
}

impl Future for Attempt {
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
        Call::send(peer, request, callbacks).await
    }
}
