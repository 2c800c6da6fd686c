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

mod or_invalid;

mod tool;

mod into_result;

mod prompt;

mod resource;

mod completion;

use corelane_base::heap_bytes::HeapBytes;

pub use self::completion::Completion;
pub use self::error::{Cancelled, ClientRequestError, HandlerError};
pub use self::internal_error::InternalError;
pub use self::into_result::{IntoCallToolResult, Structured};
pub use self::or_invalid::OrInvalid;
pub use self::prompt::GetPromptResult;
pub use self::resource::ReadResourceResult;
pub use self::tool::CallToolResult;

/// Output of a handler that ends later, for any method.
#[derive(Clone, Debug)]
pub enum HandlerOutput {
    /// Result of `completion/complete`.
    Completion(Completion),
    /// The encoded result of an inline handler.
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
