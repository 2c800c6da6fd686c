//! What is said: encoders that append exactly one JSON text, without a newline, to the caller's
//! buffer.
//!
//! What they keep true: a message says only what its revision knows, and nothing is allocated but
//! the growth of the buffer. Bodies that are the same for every request (`initialize`,
//! `server/discover`, pages of lists) are encoded once by the catalog and copied here.
//!
//! | child | what stands there |
//! | --- | --- |
//! | `content` | blocks of content, resources, links, icons |
//! | `response` | the frames around a body: results, errors, progress |
//! | `server` | who answers, and the end of every modern result |
//! | `capabilities` | what the server offers |
//! | `body` | `initialize`, `server/discover` and pages of lists |
//! | `answer` | results of tools |
//! | `prompt`, `contents`, `completion` | results of prompts, resources and completions |
//! | `input` | questions to clients and their answers |
//! | `task` | tasks of both generations |
//! | `notification` | what is said without being asked |

mod content;

mod response;

mod server;

mod capabilities;

mod body;

mod answer;

mod prompt;

mod contents;

mod completion;

mod input;

mod task;

mod notification;

pub use answer::Answer;
pub use body::{CacheHint, Listed, discover_result, initialize_result, list_page};
pub use capabilities::{
    PromptsCapability, ResourcesCapability, ServerCapabilities, TasksCapability, ToolsCapability,
};
pub use completion::{COMPLETION_VALUES_MAX, completion_result};
pub use content::{
    Block, Body, Content, ContentAnnotations, Icon, MetaMembers, ResourceContent, ResourceLink,
    Role, Theme,
};
pub use contents::{ContentsWriter, read_result};
pub use input::{
    Action, Elicitation, Elicited, Field, Form, IncludeContext, InputRequest, InputResponse,
    ModelPreferences, Root, Sampled, Sampling, SamplingTool, Spoken, TextFormat, ToolChoice,
    input_required_body, request,
};
pub use notification::{
    Change, acknowledged, cancelled, elicitation_complete, listen_result, log, task_log,
};
pub use prompt::{PromptWriter, prompt_result};
pub use response::{
    empty_result, error, error_object, progress, result, result_close, result_open,
};
pub use server::{ServerInfo, result_suffix};
pub use task::{
    TaskDetail, TaskStatus, TaskView, cancel_task_result, create_task_result, task_payload_result,
    task_progress, task_result, tasks_page,
};
