//! The result of a tool.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

use crate::protocol::error::Error;
use crate::protocol::message::{Answer, Block, Content, ResourceContent, ResourceLink};
use crate::service::outcome::error::HandlerError;

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
    blocks: Vec<Block>,
    /// Apart, because an outcome travels by value and most have none.
    structured: Option<Box<Value>>,
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
        Ok(Self { structured: Some(Box::new(structured)), ..Self::default() })
    }

    /// A result that tells of a failure: `isError` is true and a model reads `text` to find out
    /// what to do otherwise.
    pub fn failed(text: impl Into<Cow<'static, str>>) -> Self {
        Self { is_failed: true, ..Self::text(text) }
    }

    /// This result with one more block of text.
    #[must_use]
    pub fn and_text(self, text: impl Into<Cow<'static, str>>) -> Self {
        self.block(Content::text(text))
    }

    /// This result with one more block of any kind. Kinds that the caller's revision lacks become
    /// text that says what it was.
    #[must_use]
    pub fn block(mut self, block: impl Into<Block>) -> Self {
        self.blocks.push(block.into());
        self
    }

    /// This result with a picture.
    #[must_use]
    pub fn image(self, data: impl Into<Bytes>, mime_type: impl Into<Cow<'static, str>>) -> Self {
        self.block(Content::image(data, mime_type))
    }

    /// This result with a sound.
    #[must_use]
    pub fn audio(self, data: impl Into<Bytes>, mime_type: impl Into<Cow<'static, str>>) -> Self {
        self.block(Content::audio(data, mime_type))
    }

    /// This result with a link to a resource.
    #[must_use]
    pub fn link(self, link: ResourceLink) -> Self {
        self.block(Content::Link(link))
    }

    /// This result with a resource and what it holds.
    #[must_use]
    pub fn embed(self, resource: ResourceContent) -> Self {
        self.block(Content::Embedded(resource))
    }

    /// Whether it tells of a failure.
    pub const fn is_failed(&self) -> bool {
        self.is_failed
    }

    /// The structured result, where there is one.
    pub fn structured_value(&self) -> Option<&Value> {
        self.structured.as_deref()
    }

    /// Writes the result into an answer that is still empty.
    pub fn write(&self, answer: &mut Answer<'_>) -> Result<(), Error> {
        for block in &self.blocks {
            answer.block(block);
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
