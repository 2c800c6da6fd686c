//! The result of a prompt.

use std::borrow::Cow;

use crate::protocol::message::{Block, Content, PromptWriter, Role};

/// The messages of a prompt, held until the shard that received the request writes them.
///
/// ```
/// use corelane::service::PromptOutcome;
///
/// let outcome = PromptOutcome::default()
///     .user("Review this function.")
///     .assistant("Show it to me.");
/// # drop(outcome);
/// ```
#[derive(Clone, Debug, Default)]
pub struct PromptOutcome {
    pub(in crate::service) description: Option<Box<str>>,
    messages: Vec<(Role, Block)>,
}

impl PromptOutcome {
    /// This prompt with one more message of the user's, in text.
    #[must_use]
    pub fn user(self, text: impl Into<Cow<'static, str>>) -> Self {
        self.message(Role::User, Content::text(text))
    }

    /// This prompt with one more message of the assistant's, in text.
    #[must_use]
    pub fn assistant(self, text: impl Into<Cow<'static, str>>) -> Self {
        self.message(Role::Assistant, Content::text(text))
    }

    /// This prompt with one more message of any kind. Kinds that the caller's revision lacks become
    /// text that says what it was.
    #[must_use]
    pub fn message(mut self, role: Role, block: impl Into<Block>) -> Self {
        self.messages.push((role, block.into()));
        self
    }

    /// This prompt with a description of its own, in place of that of its definition.
    #[must_use]
    pub fn describe(mut self, description: impl Into<Box<str>>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Writes the messages.
    pub fn write(&self, writer: &mut PromptWriter<'_>) {
        for (role, block) in &self.messages {
            writer.message(*role, block);
        }
    }
}
