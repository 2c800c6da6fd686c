//! Results of the server as types, read from JSON.
//!
//! Members that a type does not name are ignored, and those that a revision lacks are `None`.

mod content;
mod lists;
mod meta;
mod optional;
mod tool;

pub use self::content::{
    ContentBlock, PromptMessage, ReadResourceResult, ResourceContents, ResourceInfo,
    ResourceTemplateInfo,
};
pub use self::lists::{CompleteResult, Completion, GetPromptResult, PromptArgument, PromptInfo};
pub use self::meta::MetaObject;
pub(super) use self::meta::MetaReader;
pub use self::tool::{
    CallToolResult, TaskInfo, TaskSupport, ToolAnnotations, ToolExecution, ToolInfo,
};

pub(super) use self::lists::ListResult;
use self::optional::{null_as_default, whole_number};
