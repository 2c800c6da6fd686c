//! How a handler ends: with what it was asked for, or with one of the errors it can have.
//!
//! | asked for | what a local or blocking handler returns |
//! | --- | --- |
//! | `tools/call` | [`Outcome`] |
//! | `prompts/get` | [`PromptOutcome`] |
//! | `resources/read` | [`ResourceContents`] |
//! | `completion/complete` | [`Completion`] (inline only) |
//!
//! All of them travel as one [`Yield`]. Nothing here writes JSON; the writers of the protocol do.

mod error;

mod tool;

mod prompt;

mod resource;

mod completion;

pub use self::completion::Completion;
pub use self::error::{AskError, Cancelled, HandlerError};
pub use self::prompt::PromptOutcome;
pub use self::resource::ResourceContents;
pub use self::tool::Outcome;

/// What a local or blocking handler made, whatever it was asked for.
#[derive(Clone, Debug)]
pub enum Yield {
    /// How an argument may go on.
    Completion(Completion),
    /// The messages of a prompt.
    Prompt(PromptOutcome),
    /// What a resource holds.
    Resource(ResourceContents),
    /// The result of a tool.
    Tool(Outcome),
}

impl From<Completion> for Yield {
    fn from(completion: Completion) -> Self {
        Self::Completion(completion)
    }
}

impl From<Outcome> for Yield {
    fn from(outcome: Outcome) -> Self {
        Self::Tool(outcome)
    }
}

impl From<PromptOutcome> for Yield {
    fn from(outcome: PromptOutcome) -> Self {
        Self::Prompt(outcome)
    }
}

impl From<ResourceContents> for Yield {
    fn from(contents: ResourceContents) -> Self {
        Self::Resource(contents)
    }
}
