//! What a session sends, and what it reports.

use std::any::Any;

use super::inputs::{InputKey, RequiredInput};
use super::request::ParameterField;
use crate::error::ClientError;
use crate::results::CallToolResult;
use crate::retry::RetryEvent;
use corelane_protocol::eras::Method;
use corelane_protocol::json::Value;
use corelane_protocol::jsonrpc::Id;
use corelane_protocol::revision::Revision;
use corelane_transport::http::client::request_writer::ExtraFields;

/// A message to send to the server.
#[derive(Clone, Copy, Debug)]
pub struct OutgoingMessage<'a> {
    pub kind: OutgoingKind<'a>,
    /// The revision of the session, or the one that the client asks for.
    pub revision: Revision,
    /// The JSON text, on one line.
    pub text: &'a [u8],
}

/// Kind of an [`OutgoingMessage`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OutgoingKind<'a> {
    /// A request, which has a response.
    Request {
        /// Its id.
        id: u64,
        /// Its method.
        method: Method,
        /// What it is about, see [`CallRequest::name`](super::CallRequest::name).
        name: Option<&'a str>,
        /// Arguments that its head repeats, see
        /// [`CallRequest::parameters`](super::CallRequest::parameters).
        parameters: &'a [ParameterField],
        /// Fields that its head has besides.
        fields: Option<&'a ExtraFields>,
        /// It may run twice without harm although its method may not, see
        /// [`CallRequest::is_idempotent`](super::CallRequest::is_idempotent).
        is_idempotent: bool,
    },
    /// `notifications/cancelled` for this request.
    Cancellation {
        /// The id of the request.
        id: u64,
    },
    /// Another notification.
    Notification,
    /// The response to a request of the server.
    Response,
}

/// Where a session writes its messages: the output buffer of a connection, or HTTP requests.
pub trait MessageSink {
    /// Sends one message.
    fn send(&mut self, message: OutgoingMessage<'_>);

    /// Returns whether calls must wait, because the server does not read what was sent.
    fn is_full(&self) -> bool {
        false
    }

    /// Returns whether a request that the server refused was sent again already, as often as the
    /// policy of the client allows.
    fn repeats_refusals(&self) -> bool {
        false
    }

    /// Returns whether notifications that belong to no request can arrive. Legacy sessions over
    /// HTTP have a stream for them.
    fn receives_notifications(&self) -> bool {
        true
    }

    /// Asks again for the notifications that belong to no request, if the server of a session of
    /// `revision` has refused them.
    fn request_notifications(&mut self, _revision: Revision) {}
}

/// A complete message of the server, as it was received.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceivedMessage {
    text: Vec<u8>,
    /// The result, read from the message, if the call asked for it. There is no text then.
    tool_result: Option<CallToolResult>,
    revision: Revision,
    used_input: bool,
}

impl ReceivedMessage {
    /// Creates a message of a session of `revision`. `used_input` marks the result of a call that
    /// was sent again with input of the client.
    pub(crate) const fn new(text: Vec<u8>, revision: Revision, used_input: bool) -> Self {
        Self { text, tool_result: None, revision, used_input }
    }

    /// Creates the response to a call that
    /// [asks for the result](super::CallRequest::reads_tool_result).
    pub(super) const fn with_tool_result(
        result: CallToolResult,
        revision: Revision,
        used_input: bool,
    ) -> Self {
        Self { text: Vec::new(), tool_result: Some(result), revision, used_input }
    }

    /// Takes the result that was read from the message, if it was and is an `R`.
    pub(crate) fn take_result<R: 'static>(&mut self) -> Option<R> {
        let result: &mut dyn Any = &mut self.tool_result;
        result.downcast_mut::<Option<R>>()?.take()
    }

    /// Returns the JSON text.
    pub fn as_bytes(&self) -> &[u8] {
        &self.text
    }

    /// Returns the JSON text.
    #[doc(hidden)]
    pub fn into_bytes(self) -> Vec<u8> {
        self.text
    }

    /// Returns the revision of its session.
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// Returns another message of the same session.
    pub(crate) fn with_text(&self, text: Vec<u8>) -> Self {
        Self::new(text, self.revision, self.used_input)
    }

    /// Returns whether the result depends on input of the client.
    pub(crate) const fn used_input(&self) -> bool {
        self.used_input
    }
}

/// Progress of a call.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// How much is done.
    pub progress: f64,
    /// How much there is to do, if known.
    pub total: Option<f64>,
    /// What is being done.
    pub message: Option<String>,
}

impl Progress {
    /// Reads the params of `notifications/progress`, with the token. Returns `None` if they are
    /// invalid.
    pub(super) fn read(params: Value<'_>) -> Option<(Id<'_>, Self)> {
        let params = params.as_object()?;
        let token = Id::from_value(params.find("progressToken")?)?;
        let progress = Self {
            progress: params.find("progress")?.as_f64()?,
            total: params.find("total").and_then(Value::as_f64),
            message: params.find("message").and_then(Value::as_str).map(str::to_owned),
        };
        Some((token, progress))
    }
}

/// What a session reports. `T` identifies a call to its caller.
#[derive(Debug)]
#[non_exhaustive]
pub enum SessionEvent<T> {
    /// The handshake is complete; see [`Session::server`](super::Session::server).
    Ready,
    /// The handshake failed. Calls that waited have failed, too; the connection is of no use.
    HandshakeFailed(ClientError),
    /// A call has ended: with the message that holds its `result`, or an error.
    Completed {
        /// The call.
        token: T,
        /// Its outcome.
        result: Result<ReceivedMessage, ClientError>,
    },
    /// A call makes progress.
    Progress {
        /// The call.
        token: T,
        /// Its progress.
        progress: Progress,
    },
    /// The task that a call waits for has been looked at. Reported if the call
    /// [asks for it](super::CallRequest::wants_task_status).
    TaskStatus {
        /// The call.
        token: T,
        /// A response whose `result` is the task.
        message: ReceivedMessage,
    },
    /// The server requires input: see [`Session::provide_input`](super::Session::provide_input).
    InputRequired(RequiredInput),
    /// An input is not required any more.
    InputCancelled(InputKey),
    /// A notification of a subscription (2026-07-28).
    Subscription {
        /// The request `subscriptions/listen`.
        token: T,
        /// The notification.
        message: ReceivedMessage,
    },
    /// Another notification of the server.
    Notification(ReceivedMessage),
    /// A request is sent again after a failure.
    Repeated(Box<RetryEvent>),
    /// The server sent what the protocol does not allow; it was ignored.
    Violation(&'static str),
}
