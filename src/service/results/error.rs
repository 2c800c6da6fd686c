//! Errors of handlers, and how each is reported to the client.
//!
//! The client's revision decides whether an error of a tool becomes a result with `isError`, which
//! the model reads, or a JSON-RPC error, which only the client program sees. Prompts, resources and
//! completions have no result for failures: all their errors are JSON-RPC errors.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use corelane_base::heap_bytes::HeapBytes;
use corelane_protocol::eras::ClientCapabilities;
use corelane_protocol::error::{Error, ErrorKind};
use corelane_protocol::model::CallToolResultWriter;

use crate::service::results::InternalError;

/// Why a handler failed.
///
/// `?` converts every error that implements [`std::error::Error`], and `anyhow::Error`, to
/// [`HandlerError::Internal`], except those of this crate: [`Cancelled`], [`ClientRequestError`]
/// and [`model::Error`](Error) keep their meaning. Therefore this type is no `std::error::Error`
/// itself.
///
/// A mistake of the client is no internal error: [`OrInvalid`](crate::OrInvalid) converts the
/// errors of `parse` and the like to [`HandlerError::InvalidParams`] or [`HandlerError::NotFound`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum HandlerError {
    /// The arguments are invalid. For tools since 2025-11-25 a result with `isError`, so that the
    /// model can correct them (SEP-1303); otherwise invalid params (-32602).
    InvalidParams(Cow<'static, str>),
    /// What the request asks for does not exist. For resources the error of an unknown resource
    /// (-32602 since 2026-07-28, -32002 before), for prompts and completions invalid params
    /// (-32602), for tools as [`HandlerError::InvalidParams`].
    NotFound,
    /// The request was cancelled. If the client cancelled it nothing is sent; if the server did,
    /// it is reported like [`HandlerError::Tool`].
    Cancelled,
    /// The handler ran and failed, for a reason that the model is to read: for tools a result with
    /// `isError`, for prompts and resources an internal error (-32603).
    Tool(Cow<'static, str>),
    /// A failure that the client does not see. It receives a number, under which the log has the
    /// error with its sources: for tools in a result with `isError`, for prompts and resources,
    /// and after a panic, in an internal error (-32603).
    Internal(Box<InternalError>),
    /// The client did not declare a capability that the handler requires. Since 2026-07-28 the
    /// error missing capability (-32021); before it is reported like [`HandlerError::Tool`].
    MissingCapability(ClientCapabilities),
    /// This JSON-RPC error, which the model does not see.
    Rpc(Error),
}

impl HandlerError {
    /// [`HandlerError::InvalidParams`] with a reason, cut to 400 bytes.
    pub fn invalid_params(reason: impl fmt::Display) -> Self {
        Self::InvalidParams(Cow::Owned(truncate_reason(reason.to_string())))
    }

    /// [`HandlerError::NotFound`].
    pub const fn not_found() -> Self {
        Self::NotFound
    }

    /// [`HandlerError::Tool`] with a text. The model reads it: say what went wrong and what to do,
    /// without internal details.
    pub fn tool(reason: impl fmt::Display) -> Self {
        Self::Tool(Cow::Owned(reason.to_string()))
    }

    /// A panic of the handler.
    #[cold]
    pub(in crate::service) fn panicked(message: &str) -> Self {
        Self::Internal(Box::new(InternalError::panicked(message)))
    }

    /// Sets the entry of the catalog whose handler has failed.
    #[must_use]
    pub(in crate::service) fn in_handler(self, kind: &'static str, name: &Arc<str>) -> Self {
        match self {
            Self::Internal(error) => Self::Internal(Box::new(error.in_handler(kind, name))),
            other => other,
        }
    }

    /// Reports the error of a tool: writes it as content, or returns the JSON-RPC error to send.
    /// An internal error is written without its text; the server replaces it before, by
    /// [`InternalError::to_response`].
    pub(in crate::service) fn write_to(
        self,
        writer: &mut CallToolResultWriter<'_>,
    ) -> Result<(), Error> {
        let dialect = writer.revision().dialect();
        let text = match self {
            Self::InvalidParams(text) if dialect.argument_errors_in_result => text,
            Self::InvalidParams(text) => return Err(Error::invalid_params(text)),
            Self::NotFound if dialect.argument_errors_in_result => Cow::Borrowed(NOT_FOUND),
            Self::NotFound => return Err(Error::invalid_params(NOT_FOUND)),
            Self::Cancelled => Cow::Borrowed(CANCELLED),
            Self::Tool(text) => text,
            Self::Internal(error) => Cow::Owned(format!("{} failed", error.handler_kind())),
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

    /// The JSON-RPC error of a prompt, a resource or a completion, or the internal error to report.
    pub(in crate::service) fn into_rpc_error(
        self,
        is_modern: bool,
    ) -> Result<Error, Box<InternalError>> {
        Ok(match self {
            Self::InvalidParams(text) => Error::invalid_params(text),
            Self::NotFound => Error::invalid_params(NOT_FOUND),
            Self::Cancelled => Error::internal(CANCELLED),
            Self::Tool(text) => Error::internal(text),
            Self::MissingCapability(needed) if is_modern => Error::missing_capability(needed),
            Self::MissingCapability(_) => Error::internal(MISSING_CAPABILITY),
            Self::Internal(error) => return Err(error),
            Self::Rpc(error) => error,
        })
    }
}

impl HeapBytes for HandlerError {
    fn heap_bytes(&self) -> usize {
        match self {
            Self::InvalidParams(text) | Self::Tool(text) => text.heap_bytes(),
            Self::Internal(error) => error.heap_bytes(),
            Self::Rpc(Error { message, data, .. }) => {
                message.heap_bytes() + data.as_deref().map_or(0, str::heap_bytes)
            }
            Self::NotFound | Self::Cancelled | Self::MissingCapability(_) => 0,
        }
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidParams(text) => write!(formatter, "invalid params: {text}"),
            Self::NotFound => formatter.write_str(NOT_FOUND),
            Self::Cancelled => formatter.write_str("cancelled"),
            Self::Tool(text) => write!(formatter, "failed: {text}"),
            Self::Internal(error) => write!(formatter, "internal error: {error}"),
            Self::MissingCapability(missing) => {
                write!(formatter, "the client did not declare {missing:?}")
            }
            Self::Rpc(error) => write!(formatter, "{error}"),
        }
    }
}

/// Converts any error; see [`HandlerError`].
impl<E> From<E> for HandlerError
where
    E: Into<Box<dyn StdError + Send + Sync>>,
{
    #[cold]
    fn from(error: E) -> Self {
        let error: Box<dyn StdError + Send + Sync> = error.into();
        let error = match error.downcast::<Error>() {
            Ok(error) => return Self::Rpc(*error),
            Err(error) => error,
        };
        let error = match error.downcast::<ClientRequestError>() {
            Ok(error) => return error.into_handler_error(),
            Err(error) => error,
        };
        let error = InternalError::new(error);
        if error.has_source::<Cancelled>() {
            return Self::Cancelled;
        }
        Self::Internal(Box::new(error))
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
#[non_exhaustive]
pub enum ClientRequestError {
    /// The request that the handler serves was cancelled.
    Cancelled,
    /// The response does not match the schema of its result, or is no response of JSON-RPC. The
    /// error has the code -32602 if the request of the call carries the response (multi-round-trip
    /// requests), else -32603: the call itself was valid.
    InvalidResponse(Error),
    /// The client responded with a JSON-RPC error; this is its message.
    ErrorResponse(Box<str>),
    /// The client did not respond within `client_request_timeout`.
    Timeout,
    /// The client did not send `notifications/initialized` within 5 s of the request; nothing was
    /// sent.
    NotInitialized,
    /// The client did not declare these capabilities; nothing was sent.
    MissingCapability(ClientCapabilities),
    /// The request exceeds a limit of the server, such as its memory; nothing was sent.
    Refused(Error),
}

impl ClientRequestError {
    /// An invalid response that came as a message of its own. The call that waits for it fails like
    /// one whose client does not respond.
    pub(crate) fn invalid_message(error: Error) -> Self {
        Self::InvalidResponse(Error::internal(error.message))
    }

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

    fn into_handler_error(self) -> HandlerError {
        match self {
            Self::Cancelled => HandlerError::Cancelled,
            Self::InvalidResponse(ref error) if error.kind == ErrorKind::Internal => {
                HandlerError::tool(self)
            }
            Self::InvalidResponse(error) | Self::Refused(error) => HandlerError::Rpc(error),
            Self::ErrorResponse(_) | Self::Timeout | Self::NotInitialized => {
                HandlerError::tool(self)
            }
            Self::MissingCapability(needed) => HandlerError::MissingCapability(needed),
        }
    }
}

impl fmt::Display for ClientRequestError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled => formatter.write_str(CANCELLED),
            Self::InvalidResponse(error) => {
                write!(formatter, "invalid response of the client: {}", error.message)
            }
            Self::ErrorResponse(message) => {
                write!(formatter, "the client responded with an error: {message}")
            }
            Self::Timeout => formatter.write_str("the client did not respond in time"),
            Self::NotInitialized => {
                formatter.write_str("the client did not send notifications/initialized in time")
            }
            Self::MissingCapability(_) => formatter.write_str(MISSING_CAPABILITY),
            Self::Refused(error) => write!(formatter, "the request was not sent: {error}"),
        }
    }
}

impl std::error::Error for ClientRequestError {}

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

const NOT_FOUND: &str = "not found";

const CANCELLED: &str = "the request was cancelled";

const MISSING_CAPABILITY: &str = "the client did not declare a required capability";

/// Converts what a client has sent wrong, such as a number that does not parse, to the error that
/// it gets. A plain `?` would make it an internal error (-32603).
///
/// ```
/// use corelane::{OrInvalid, ResourceTemplate};
///
/// let user = ResourceTemplate::new("users://{id}", "user").inline(|read, contents, _| {
///     let id = read.variable("id").unwrap_or_default();
///     let id: u32 = id.parse().or_invalid("id must be a number")?; // -32602
///     let name = ["Ada", "Grace"].get(id as usize).or_not_found()?; // as an unknown resource
///     contents.text(read.uri(), None, name);
///     Ok(())
/// });
/// # drop(user);
/// ```
pub trait OrInvalid<T>: Sized {
    /// Returns the value.
    ///
    /// # Errors
    ///
    /// [`HandlerError::InvalidParams`] with `reason`, and the error behind it: the client reads
    /// both.
    fn or_invalid(self, reason: impl fmt::Display) -> Result<T, HandlerError>;

    /// Returns the value.
    ///
    /// # Errors
    ///
    /// [`HandlerError::NotFound`].
    fn or_not_found(self) -> Result<T, HandlerError>;
}

impl<T, E: fmt::Display> OrInvalid<T> for Result<T, E> {
    fn or_invalid(self, reason: impl fmt::Display) -> Result<T, HandlerError> {
        self.map_err(|error| HandlerError::invalid_params(format_args!("{reason}: {error}")))
    }

    fn or_not_found(self) -> Result<T, HandlerError> {
        self.map_err(|_| HandlerError::NotFound)
    }
}

impl<T> OrInvalid<T> for Option<T> {
    fn or_invalid(self, reason: impl fmt::Display) -> Result<T, HandlerError> {
        self.ok_or_else(|| HandlerError::invalid_params(reason))
    }

    fn or_not_found(self) -> Result<T, HandlerError> {
        self.ok_or(HandlerError::NotFound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_precedes_the_error() {
        let parsed = "x".parse::<u8>().or_invalid("count must be a number");
        let HandlerError::InvalidParams(text) = parsed.unwrap_err() else {
            panic!("another error")
        };
        assert_eq!(text, "count must be a number: invalid digit found in string");
        let missing = None::<u8>.or_invalid("count is missing").unwrap_err();
        assert!(matches!(missing, HandlerError::InvalidParams(text) if text == "count is missing"));
        assert!(matches!(None::<u8>.or_not_found(), Err(HandlerError::NotFound)));
        assert_eq!("7".parse::<u8>().or_not_found().unwrap(), 7);
    }
}
