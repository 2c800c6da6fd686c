//! Errors of handlers, and how each is reported to the client.
//!
//! The client's revision decides whether an error of a tool becomes a result with `isError`, which
//! the model reads, or a JSON-RPC error, which only the client program sees. Prompts, resources and
//! completions have no result for failures: all their errors are JSON-RPC errors.

use std::borrow::Cow;
use std::fmt;

use crate::base::heap_bytes::HeapBytes;
use crate::protocol::eras::ClientCapabilities;
use crate::protocol::error::Error;
use crate::protocol::model::CallToolResultWriter;

/// Why a handler failed.
#[derive(Clone, Debug)]
pub enum HandlerError {
    /// The arguments are invalid. For tools since 2025-11-25 a result with `isError`, so that the
    /// model can correct them (SEP-1303); otherwise invalid params (-32602).
    InvalidParams(Cow<'static, str>),
    /// The request was cancelled. If the client cancelled it nothing is sent; if the server did,
    /// it is reported like [`HandlerError::Failed`].
    Cancelled,
    /// The handler ran and failed. For tools a result with `isError`, which the model reads; for
    /// prompts and resources an internal error (-32603).
    Failed(Cow<'static, str>),
    /// The client did not declare a capability that the handler requires. Since 2026-07-28 the
    /// error missing capability (-32021); before it is reported like [`HandlerError::Failed`].
    MissingCapability(ClientCapabilities),
    /// This JSON-RPC error, which the model does not see.
    Rpc(Error),
}

impl HandlerError {
    /// [`HandlerError::InvalidParams`] with a reason, cut to 400 bytes.
    pub fn invalid_params(reason: impl fmt::Display) -> Self {
        Self::InvalidParams(Cow::Owned(truncate_reason(reason.to_string())))
    }

    /// [`HandlerError::Failed`] with a text or error. The model and the client read it: it should
    /// help them and contain no internal details.
    pub fn failed(reason: impl fmt::Display) -> Self {
        Self::Failed(Cow::Owned(reason.to_string()))
    }

    /// Reports the error of a tool: writes it as content, or returns the JSON-RPC error to send.
    pub(in crate::service) fn write_to(
        self,
        writer: &mut CallToolResultWriter<'_>,
    ) -> Result<(), Error> {
        let dialect = writer.revision().dialect();
        let text = match self {
            Self::InvalidParams(text) if dialect.argument_errors_in_result => text,
            Self::InvalidParams(text) => return Err(Error::invalid_params(text)),
            Self::Cancelled => Cow::Borrowed(CANCELLED),
            Self::Failed(text) => text,
            Self::MissingCapability(needed) if dialect.result_type => {
                return Err(Error::missing_capability(needed));
            }
            Self::MissingCapability(_) => Cow::Borrowed(MISSING_CAPABILITY),
            Self::Rpc(error) => return Err(error),
        };
        writer.text(&text);
        writer.mark_error();
        Ok(())
    }

    /// The JSON-RPC error for prompts, resources and completions.
    pub(in crate::service) fn into_rpc_error(self, is_modern: bool) -> Error {
        match self {
            Self::InvalidParams(text) => Error::invalid_params(text),
            Self::Cancelled => Error::internal(CANCELLED),
            Self::Failed(text) => Error::internal(text),
            Self::MissingCapability(needed) if is_modern => Error::missing_capability(needed),
            Self::MissingCapability(_) => Error::internal(MISSING_CAPABILITY),
            Self::Rpc(error) => error,
        }
    }
}

impl HeapBytes for HandlerError {
    fn heap_bytes(&self) -> usize {
        match self {
            Self::InvalidParams(text) | Self::Failed(text) => text.heap_bytes(),
            Self::Rpc(Error { message, data, .. }) => {
                message.heap_bytes() + data.as_deref().map_or(0, str::heap_bytes)
            }
            Self::Cancelled | Self::MissingCapability(_) => 0,
        }
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidParams(text) => write!(formatter, "invalid params: {text}"),
            Self::Cancelled => formatter.write_str("cancelled"),
            Self::Failed(text) => write!(formatter, "failed: {text}"),
            Self::MissingCapability(missing) => {
                write!(formatter, "the client did not declare {missing:?}")
            }
            Self::Rpc(error) => write!(formatter, "{error}"),
        }
    }
}

impl std::error::Error for HandlerError {}

impl From<Cancelled> for HandlerError {
    fn from(_: Cancelled) -> Self {
        Self::Cancelled
    }
}

impl From<Error> for HandlerError {
    fn from(error: Error) -> Self {
        Self::Rpc(error)
    }
}

/// The request was cancelled. `?` converts it to [`HandlerError::Cancelled`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Cancelled;

impl fmt::Display for Cancelled {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(CANCELLED)
    }
}

impl std::error::Error for Cancelled {}

/// Why a request to the client has no usable response. `?` converts it to a [`HandlerError`].
#[derive(Clone, Debug)]
pub enum ClientRequestError {
    /// The request that the handler serves was cancelled.
    Cancelled,
    /// The response does not match the schema of its result.
    InvalidResponse(Error),
    /// The client responded with a JSON-RPC error; this is its message.
    ErrorResponse(Box<str>),
    /// The client did not respond within `client_request_timeout`.
    Timeout,
    /// The client did not declare these capabilities; nothing was sent.
    MissingCapability(ClientCapabilities),
    /// The request exceeds a limit of the server, such as its memory; nothing was sent.
    Refused(Error),
}

impl ClientRequestError {
    /// Adds the key of the input request to an invalid response.
    pub(in crate::service) fn with_key(self, key: &str) -> Self {
        match self {
            Self::InvalidResponse(mut error) => {
                error.message = format!("response to `{key}`: {}", error.message).into();
                Self::InvalidResponse(error)
            }
            other => other,
        }
    }
}

impl fmt::Display for ClientRequestError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled => formatter.write_str(CANCELLED),
            Self::InvalidResponse(error) => {
                write!(formatter, "invalid response of the client: {error}")
            }
            Self::ErrorResponse(message) => {
                write!(formatter, "the client responded with an error: {message}")
            }
            Self::Timeout => formatter.write_str("the client did not respond in time"),
            Self::MissingCapability(_) => formatter.write_str(MISSING_CAPABILITY),
            Self::Refused(error) => write!(formatter, "the request was not sent: {error}"),
        }
    }
}

impl std::error::Error for ClientRequestError {}

impl From<ClientRequestError> for HandlerError {
    fn from(error: ClientRequestError) -> Self {
        match error {
            ClientRequestError::Cancelled => Self::Cancelled,
            ClientRequestError::InvalidResponse(error) | ClientRequestError::Refused(error) => {
                Self::Rpc(error)
            }
            ClientRequestError::ErrorResponse(_) | ClientRequestError::Timeout => {
                Self::failed(error)
            }
            ClientRequestError::MissingCapability(needed) => Self::MissingCapability(needed),
        }
    }
}

impl From<Cancelled> for ClientRequestError {
    fn from(_: Cancelled) -> Self {
        Self::Cancelled
    }
}

/// Cuts a text that may quote the client, so that a long argument is not sent back.
fn truncate_reason(mut text: String) -> String {
    if text.len() > REASON_BYTES_MAX {
        text.truncate(text.floor_char_boundary(REASON_BYTES_MAX));
        text.push('…');
    }
    text
}

/// Maximum length of a reason: a long sentence with a quoted word.
const REASON_BYTES_MAX: usize = 400;

const CANCELLED: &str = "the request was cancelled";

const MISSING_CAPABILITY: &str = "the client did not declare a required capability";
