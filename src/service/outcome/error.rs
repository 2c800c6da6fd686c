//! Why a handler did not do what it was asked, and which form that takes.
//!
//! What it keeps true: which errors a model sees (in the result of a tool, `isError`) and which
//! only the caller's program sees (a JSON-RPC error) is decided here, by the caller's revision, for
//! all kinds of handlers alike. A prompt or a resource has no result that could fail: every error
//! of theirs is a JSON-RPC error.

use std::borrow::Cow;
use std::fmt;

use crate::protocol::era::ClientCapabilities;
use crate::protocol::error::Error;
use crate::protocol::message::Answer;

/// Why a handler did not do what it was asked.
#[derive(Clone, Debug)]
pub enum HandlerError {
    /// The arguments are not what the tool takes. The model sees it from 2025-11-25 on (SEP-1303)
    /// and may correct itself; for earlier revisions, and for prompts and resources in all of them,
    /// it is invalid params (-32602).
    Arguments(Cow<'static, str>),
    /// The request was cancelled. Nobody waits for an answer, except where the server itself
    /// cancelled it: then it reads as a failure.
    Cancelled,
    /// The handler ran and failed: for a tool a result with `isError`, for the model to read; for
    /// prompts and resources an internal error (-32603).
    Failed(Cow<'static, str>),
    /// The handler needs what the client did not declare: missing capability (-32021) from
    /// 2026-07-28 on, and a failure before.
    Lacking(ClientCapabilities),
    /// The request fails with this JSON-RPC error, which no model sees.
    Refused(Error),
}

impl HandlerError {
    /// [`HandlerError::Arguments`] that says what is wrong with them.
    pub fn arguments(reason: impl fmt::Display) -> Self {
        Self::Arguments(Cow::Owned(shorten(reason.to_string())))
    }

    /// [`HandlerError::Failed`] that says why: a text or any error. Callers read it, so it should
    /// tell what they can use and nothing that is not theirs to know.
    pub fn failed(reason: impl fmt::Display) -> Self {
        Self::Failed(Cow::Owned(reason.to_string()))
    }

    /// Gives the error of a tool its form: content of `answer`, or `Err` with what to send instead.
    pub(in crate::service) fn settle(self, answer: &mut Answer<'_>) -> Result<(), Error> {
        let dialect = answer.revision().dialect();
        let text = match self {
            Self::Arguments(text) if dialect.arguments_fail_in_band => text,
            Self::Arguments(text) => return Err(Error::invalid_params(text)),
            Self::Cancelled => Cow::Borrowed(CANCELLED),
            Self::Failed(text) => text,
            Self::Lacking(needed) if dialect.result_type => {
                return Err(Error::missing_capability(needed));
            }
            Self::Lacking(_) => Cow::Borrowed(LACKING),
            Self::Refused(error) => return Err(error),
        };
        answer.text(&text);
        answer.mark_failed();
        Ok(())
    }

    /// The error of a prompt, a resource or a completion, whose results cannot fail.
    pub(in crate::service) fn into_error(self, is_modern: bool) -> Error {
        match self {
            Self::Arguments(text) => Error::invalid_params(text),
            Self::Cancelled => Error::internal(CANCELLED),
            Self::Failed(text) => Error::internal(text),
            Self::Lacking(needed) if is_modern => Error::missing_capability(needed),
            Self::Lacking(_) => Error::internal(LACKING),
            Self::Refused(error) => error,
        }
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Arguments(text) => write!(formatter, "arguments: {text}"),
            Self::Cancelled => formatter.write_str("cancelled"),
            Self::Failed(text) => write!(formatter, "failed: {text}"),
            Self::Lacking(needed) => write!(formatter, "the client lacks {needed:?}"),
            Self::Refused(error) => write!(formatter, "refused: {error}"),
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
        Self::Refused(error)
    }
}

/// The request that a handler works for was cancelled; `?` ends the handler with it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Cancelled;

impl fmt::Display for Cancelled {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(CANCELLED)
    }
}

impl std::error::Error for Cancelled {}

/// Why a question to the client has no answer. `?` ends the handler with what fits.
#[derive(Clone, Debug)]
pub enum AskError {
    /// The request was cancelled while the question was open.
    Cancelled,
    /// The client answered with something that is no answer to this question.
    Malformed(Error),
    /// The client answered with an error: its words.
    Refused(Box<str>),
    /// Nobody answered in time.
    TimedOut,
    /// The client did not declare these capabilities, so that it must not be asked.
    Unsupported(ClientCapabilities),
}

impl AskError {
    /// The same, with the name of the question where the words alone would leave that open.
    pub(in crate::service) fn about(self, key: &str) -> Self {
        match self {
            Self::Malformed(mut error) => {
                error.message = format!("the answer to `{key}`: {}", error.message).into();
                Self::Malformed(error)
            }
            other => other,
        }
    }
}

impl fmt::Display for AskError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled => formatter.write_str(CANCELLED),
            Self::Malformed(error) => write!(formatter, "the client's answer is none: {error}"),
            Self::Refused(words) => write!(formatter, "the client refused: {words}"),
            Self::TimedOut => formatter.write_str("the client did not answer in time"),
            Self::Unsupported(_) => formatter.write_str(LACKING),
        }
    }
}

impl std::error::Error for AskError {}

impl From<AskError> for HandlerError {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Cancelled => Self::Cancelled,
            AskError::Malformed(error) => Self::Refused(error),
            AskError::Refused(_) | AskError::TimedOut => Self::failed(error),
            AskError::Unsupported(needed) => Self::Lacking(needed),
        }
    }
}

impl From<Cancelled> for AskError {
    fn from(_: Cancelled) -> Self {
        Self::Cancelled
    }
}

/// Bounds a text that may quote its caller, so that a long message does not come back whole.
fn shorten(mut text: String) -> String {
    if text.len() > REASON_BYTES_MAX {
        text.truncate(text.floor_char_boundary(REASON_BYTES_MAX));
        text.push('…');
    }
    text
}

/// The longest reason given for refused arguments: a long sentence with a quoted word.
const REASON_BYTES_MAX: usize = 400;

const CANCELLED: &str = "the request was cancelled";

const LACKING: &str = "the client did not declare a capability that is needed here";
