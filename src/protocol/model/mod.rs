//! MCP types and encoders that append one JSON text, without a newline, to the caller's buffer.
//!
//! Invariants: a message has only the members that its revision defines, and encoding allocates
//! only to grow the buffer. Results that are the same for every request (`initialize`,
//! `server/discover`, pages of lists) are encoded once by the catalog.
//!
//! | module | contents |
//! | --- | --- |
//! | `content` | content blocks, resource contents, links, icons |
//! | `response` | responses, errors, progress |
//! | `implementation` | `Implementation`, and the members that end every modern result |
//! | `constant_results` | capabilities of the server; results of `initialize`, `server/discover`, lists |
//! | `call_tool_result` | result of `tools/call` |
//! | `feature_results` | results of `prompts/get`, `resources/read` and `completion/complete` |
//! | `input` | requests from server to client and their results |
//! | `task` | tasks of 2025-11-25 and of the Tasks extension |
//! | `notification` | notifications from server to client |

mod content;

mod response;

mod implementation;

mod constant_results;

mod left_out;

mod call_tool_result;

mod feature_results;

mod input;

mod task;

mod notification;

pub use call_tool_result::CallToolResultWriter;
pub use constant_results::{
    CacheHint, ListKind, PromptsCapability, ResourcesCapability, ServerCapabilities,
    TasksCapability, ToolsCapability, write_discover_result, write_initialize_result,
    write_list_result, write_skill_result,
};
pub use content::{
    Annotations, Content, ContentBlock, Icon, IconTheme, MetaObject, ResourceBody,
    ResourceContents, ResourceLink, Role,
};
pub use feature_results::GetPromptResultWriter;
pub use feature_results::ReadResourceResultWriter;
pub use feature_results::{COMPLETION_VALUES_MAX, write_complete_result};
pub use implementation::{Implementation, result_suffix};
pub use input::{
    CreateMessageRequest, CreateMessageResult, ElicitAction, ElicitRequest, ElicitResult, Field,
    Form, ForwardedKind, ForwardedRequest, IncludeContext, InputRequest, InputResponse,
    ModelPreferences, Root, SamplingMessageContentBlock, SamplingTool, TextFormat, ToolChoice,
    write_input_required_result, write_server_request,
};
pub use left_out::LeftOutTexts;
pub use notification::{
    ChangeNotification, write_cancelled, write_elicitation_complete, write_logging_message,
    write_subscriptions_acknowledged, write_subscriptions_listen_result,
    write_task_logging_message,
};
pub use response::{
    EncodedResponse, begin_response, end_response, write_empty_result, write_error_response,
    write_progress, write_response,
};
pub use task::{
    TaskDetail, TaskStatus, TaskView, write_cancel_task_result, write_create_task_result,
    write_get_task_payload_result, write_get_task_result, write_list_tasks_result,
    write_task_progress,
};
