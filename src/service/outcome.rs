//! How a handler ends: with content, or with one of the errors a tool can have.
//!
//! What it keeps true: which errors a model sees (in the result, `isError`) and which only the
//! caller's program sees (a JSON-RPC error) is decided here, by the caller's revision, for all
//! kinds of handlers alike. It does not write JSON; the answer does.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::protocol::error::Error;
use crate::protocol::message::Answer;

/// The result of a tool, held until the shard that received the call writes it: what local and
/// blocking handlers return.
///
/// ```
/// use corelane::service::Outcome;
///
/// let outcome = Outcome::text("3 files").and_text("a.txt, b.txt, c.txt");
/// # drop(outcome);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    texts: Vec<Cow<'static, str>>,
    structured: Option<Value>,
    is_failed: bool,
}

impl Outcome {
    /// A result of one block of text.
    pub fn text(text: impl Into<Cow<'static, str>>) -> Self {
        Self::default().and_text(text)
    }

    /// A structured result: `structuredContent` for revisions that have it (from 2025-06-18 on),
    /// and the same JSON as a block of text for everybody.
    ///
    /// Fails with an internal error where `value` is not JSON, such as a map whose keys are not
    /// strings.
    pub fn structured<T: Serialize + ?Sized>(value: &T) -> Result<Self, HandlerError> {
        let structured = serde_json::to_value(value)
            .map_err(|_| Error::internal("the result of the tool is not JSON"))?;
        Ok(Self { structured: Some(structured), ..Self::default() })
    }

    /// A result that tells of a failure: `isError` is true and a model reads `text` to find out
    /// what to do otherwise.
    pub fn failed(text: impl Into<Cow<'static, str>>) -> Self {
        Self { is_failed: true, ..Self::text(text) }
    }

    /// This result with one more block of text.
    #[must_use]
    pub fn and_text(mut self, text: impl Into<Cow<'static, str>>) -> Self {
        self.texts.push(text.into());
        self
    }

    /// Writes the result into an answer that is still empty.
    pub fn write(&self, answer: &mut Answer<'_>) -> Result<(), Error> {
        for text in &self.texts {
            answer.text(text);
        }
        if let Some(structured) = &self.structured {
            answer.structured(structured)?;
        }
        if self.is_failed {
            answer.mark_failed();
        }
        Ok(())
    }

    /// Writes the end of a handler into an answer that is still empty: the one way from what a
    /// local or blocking handler returned to what its caller reads.
    ///
    /// `Err` is to be sent as a JSON-RPC error; what stands in the answer is void then.
    pub fn settle(
        result: Result<Self, HandlerError>,
        answer: &mut Answer<'_>,
    ) -> Result<(), Error> {
        match result {
            Ok(outcome) => outcome.write(answer),
            Err(error) => error.settle(answer),
        }
    }
}

/// Why a tool did not do what it was asked.
#[derive(Clone, Debug)]
pub enum HandlerError {
    /// The arguments are not what the tool takes. The model sees it from 2025-11-25 on (SEP-1303)
    /// and may correct itself; for earlier revisions it is invalid params (-32602).
    Arguments(Cow<'static, str>),
    /// The request was cancelled. Nobody waits for an answer, except where the server itself
    /// cancelled it: then it reads as a failure.
    Cancelled,
    /// The tool ran and failed: a result with `isError`, for the model to read.
    Failed(Cow<'static, str>),
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

    /// Gives the error its form: content of `answer`, or `Err` with what to send instead of it.
    pub(in crate::service) fn settle(self, answer: &mut Answer<'_>) -> Result<(), Error> {
        let text = match self {
            Self::Arguments(text) if answer.revision().dialect().arguments_fail_in_band => text,
            Self::Arguments(text) => return Err(Error::invalid_params(text)),
            Self::Cancelled => Cow::Borrowed("the request was cancelled"),
            Self::Failed(text) => text,
            Self::Refused(error) => return Err(error),
        };
        answer.text(&text);
        answer.mark_failed();
        Ok(())
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Arguments(text) => write!(formatter, "arguments: {text}"),
            Self::Cancelled => formatter.write_str("cancelled"),
            Self::Failed(text) => write!(formatter, "failed: {text}"),
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
        formatter.write_str("the request was cancelled")
    }
}

impl std::error::Error for Cancelled {}

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
