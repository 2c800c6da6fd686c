//! Result of a prompt (`prompts/get`).

use std::borrow::Cow;

use corelane_base::heap_bytes::HeapBytes;
use corelane_protocol::model::{Content, ContentBlock, GetPromptResultWriter, Role};

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
    pub(in crate::service) description: Option<Box<str>>,
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
