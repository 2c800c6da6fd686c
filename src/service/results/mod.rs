//! Results and errors of handlers.
//!
//! | method | result of a local or blocking handler |
//! | --- | --- |
//! | `tools/call` | [`CallToolResult`] |
//! | `prompts/get` | [`GetPromptResult`] |
//! | `resources/read` | [`ReadResourceResult`] |
//! | `completion/complete` | [`Completion`] (inline only) |
//!
//! [`HandlerOutput`] is any of them. Nothing here writes JSON; the writers of `protocol::model` do.

mod error;
mod internal_error;

mod tool;

use std::borrow::Cow;

use bytes::Bytes;
use corelane_base::heap_bytes::HeapBytes;
use corelane_protocol::model::{
    COMPLETION_VALUES_MAX, CacheHint, Content, ContentBlock, GetPromptResultWriter,
    ReadResourceResultWriter, ResourceContents, Role,
};

pub use self::error::{Cancelled, ClientRequestError, HandlerError, OrInvalid};
pub use self::internal_error::InternalError;
pub use self::tool::{CallToolResult, IntoCallToolResult, Structured};

/// Output of a handler that ends later, for any method.
#[derive(Clone, Debug)]
pub enum HandlerOutput {
    /// Result of `completion/complete`.
    Completion(Completion),
    /// What an inline handler has written. Its notifications are sent before it, so that its call
    /// ends later.
    Encoded {
        /// The result, an object.
        result: Vec<u8>,
        /// Whether it has `isError: true`.
        is_error: bool,
    },
    /// Result of `prompts/get`.
    Prompt(GetPromptResult),
    /// Result of `resources/read`.
    Resource(ReadResourceResult),
    /// Result of `tools/call`.
    Tool(CallToolResult),
}

impl HeapBytes for HandlerOutput {
    fn heap_bytes(&self) -> usize {
        match self {
            Self::Completion(completion) => completion.heap_bytes(),
            Self::Encoded { result, .. } => result.capacity(),
            Self::Prompt(prompt) => prompt.heap_bytes(),
            Self::Resource(contents) => contents.heap_bytes(),
            Self::Tool(result) => result.heap_bytes(),
        }
    }
}

impl From<Completion> for HandlerOutput {
    fn from(completion: Completion) -> Self {
        Self::Completion(completion)
    }
}

impl From<CallToolResult> for HandlerOutput {
    fn from(outcome: CallToolResult) -> Self {
        Self::Tool(outcome)
    }
}

impl From<GetPromptResult> for HandlerOutput {
    fn from(outcome: GetPromptResult) -> Self {
        Self::Prompt(outcome)
    }
}

impl From<ReadResourceResult> for HandlerOutput {
    fn from(contents: ReadResourceResult) -> Self {
        Self::Resource(contents)
    }
}

/// Result of a local or blocking prompt handler: messages and an optional description.
///
/// ```
/// use corelane::GetPromptResult;
///
/// let result = GetPromptResult::default()
///     .user("Review this function.")
///     .assistant("Show it to me.");
/// # drop(result);
/// ```
#[derive(Clone, Debug, Default)]
pub struct GetPromptResult {
    pub(super) description: Option<Box<str>>,
    messages: Vec<(Role, ContentBlock)>,
}

impl GetPromptResult {
    /// Adds a text message of the user.
    #[must_use]
    pub fn user(self, text: impl Into<Cow<'static, str>>) -> Self {
        self.message(Role::User, Content::text(text))
    }

    /// Adds a text message of the assistant.
    #[must_use]
    pub fn assistant(self, text: impl Into<Cow<'static, str>>) -> Self {
        self.message(Role::Assistant, Content::text(text))
    }

    /// Adds a message with any content. Content that the client's revision does not define is
    /// replaced by a text that describes it.
    #[must_use]
    pub fn message(mut self, role: Role, block: impl Into<ContentBlock>) -> Self {
        self.messages.push((role, block.into()));
        self
    }

    /// Sets the description. Default: that of the prompt's definition.
    #[must_use]
    pub fn description(mut self, description: impl Into<Box<str>>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Writes the messages to `writer`.
    #[doc(hidden)]
    pub fn write_to(&self, writer: &mut GetPromptResultWriter<'_>) {
        for (role, block) in &self.messages {
            writer.message(*role, block);
        }
    }
}

impl HeapBytes for GetPromptResult {
    fn heap_bytes(&self) -> usize {
        let blocks: usize = self.messages.iter().map(|(_, block)| block.heap_bytes()).sum();
        let description = self.description.as_deref().map_or(0, str::heap_bytes);
        description + self.messages.capacity() * size_of::<(Role, ContentBlock)>() + blocks
    }
}

/// Result of a local or blocking resource handler: one content, or several if the resource is a
/// collection.
///
/// ```
/// use corelane::ReadResourceResult;
///
/// let result = ReadResourceResult::text("test://greeting", "Hello!");
/// # drop(result);
/// ```
#[derive(Clone, Debug)]
pub struct ReadResourceResult {
    contents: Vec<ResourceContents>,
    pub(super) cache_hint: Option<CacheHint>,
}

impl ReadResourceResult {
    /// A text content; `uri` is usually the requested URI.
    pub fn text(uri: impl Into<String>, text: impl Into<String>) -> Self {
        ResourceContents::text(uri, text).into()
    }

    /// A binary content, sent as base64; `uri` is usually the requested URI.
    pub fn blob(uri: impl Into<String>, bytes: impl Into<Bytes>) -> Self {
        ResourceContents::blob(uri, bytes).into()
    }

    /// Adds another content.
    #[must_use]
    pub fn with_content(mut self, content: ResourceContents) -> Self {
        self.contents.push(content);
        self
    }

    /// Sets how long clients may cache the contents (`ttlMs`, since 2026-07-28). Default: the hint
    /// of the resource.
    #[must_use]
    pub const fn cache_hint(mut self, cache: CacheHint) -> Self {
        self.cache_hint = Some(cache);
        self
    }

    /// Writes the contents to `writer`.
    #[doc(hidden)]
    pub fn write_to(&self, writer: &mut ReadResourceResultWriter<'_>) {
        for content in &self.contents {
            writer.content(content);
        }
    }
}

impl From<ResourceContents> for ReadResourceResult {
    fn from(content: ResourceContents) -> Self {
        Self { contents: vec![content], cache_hint: None }
    }
}

impl HeapBytes for ReadResourceResult {
    fn heap_bytes(&self) -> usize {
        self.contents.heap_bytes()
    }
}

/// Values that complete an argument, best first.
///
/// ```
/// use corelane::Completion;
///
/// let completion = Completion::with_prefix(["green", "grey", "red"], "gr");
/// assert_eq!(completion.values(), ["green", "grey"]);
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Completion {
    values: Vec<Cow<'static, str>>,
    total: Option<u64>,
    has_more: bool,
}

impl Completion {
    /// No values.
    pub const EMPTY: Self = Self { values: Vec::new(), total: None, has_more: false };

    /// Completes with `values` in this order. The first 100 are sent (the limit of the
    /// specification); `total` counts all of them, and `hasMore` is true if there are more.
    pub fn from_values<T: Into<Cow<'static, str>>>(values: impl IntoIterator<Item = T>) -> Self {
        let mut values = values.into_iter();
        let kept: Vec<_> = values.by_ref().take(COMPLETION_VALUES_MAX).map(Into::into).collect();
        let rest = values.count();
        let total = Some((kept.len() + rest) as u64);
        Self { values: kept, total, has_more: rest > 0 }
    }

    /// Completes with those of `values` that start with `typed`, ignoring ASCII case.
    pub fn with_prefix<T>(values: impl IntoIterator<Item = T>, typed: &str) -> Self
    where
        T: Into<Cow<'static, str>>,
    {
        let has_prefix = |value: &Cow<'_, str>| {
            let prefix = value.as_bytes().get(..typed.len());
            prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case(typed.as_bytes()))
        };
        Self::from_values(values.into_iter().map(Into::into).filter(has_prefix))
    }

    /// Sets `total`, the number of values including those not passed to this completion.
    #[must_use]
    pub fn with_total(self, total: u64) -> Self {
        let has_more = self.has_more || total > self.values.len() as u64;
        Self { total: Some(total), has_more, ..self }
    }

    /// Values to send, at most 100.
    pub fn values(&self) -> &[Cow<'static, str>] {
        &self.values
    }

    /// Number of all values, or `None` if unknown.
    pub const fn total(&self) -> Option<u64> {
        self.total
    }

    /// Whether there are more values than are sent.
    pub const fn has_more(&self) -> bool {
        self.has_more
    }
}

impl HeapBytes for Completion {
    fn heap_bytes(&self) -> usize {
        self.values.heap_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completion_keeps_100_values_and_counts_all() {
        let completion = Completion::from_values((0..150).map(|count| count.to_string()));
        assert_eq!(completion.values().len(), 100);
        assert_eq!((completion.total(), completion.has_more()), (Some(150), true));
        let completion = Completion::from_values(["a"]);
        assert_eq!((completion.total(), completion.has_more()), (Some(1), false));
        assert!(completion.with_total(2).has_more());
    }

    #[test]
    fn completion_prefix_ignores_ascii_case() {
        let values = ["Paris", "Päris", "park", "Oslo"];
        assert_eq!(Completion::with_prefix(values, "PA").values(), ["Paris", "park"]);
        assert_eq!(Completion::with_prefix(values, "").values().len(), 4);
        let count = Completion::with_prefix(values, "pä").values().len();
        assert!(count <= 1, "no panic inside a multi-byte character");
    }
}
