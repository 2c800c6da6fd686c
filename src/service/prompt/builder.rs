//! Builder of prompts and their arguments.

use std::sync::Arc;

use serde_json::Value;

use crate::protocol::json::ObjectWriter;
use crate::protocol::model::{GetPromptResultWriter, Icon};
use crate::protocol::revision::Revision;
use crate::service::completer::{Completer, CompletionContext};
use crate::service::context::BlockingContext;
use crate::service::context::RequestContext;
use crate::service::entry::Metadata;
use crate::service::handler::{blocking_work, local_work, protocol_error};
use crate::service::prompt::arguments::PromptArguments;
use crate::service::prompt::{Prompt, PromptHandler};
use crate::service::results::{Completion, GetPromptResult, HandlerError, HandlerOutput};

/// Builder of a prompt. Set its properties first; one of the handler methods completes it.
#[derive(Debug)]
#[must_use = "complete the prompt with a handler: inline, local or blocking"]
pub struct PromptBuilder {
    metadata: Metadata,
    arguments: Vec<PromptArgument>,
}

impl PromptBuilder {
    pub(super) fn new(name: Box<str>) -> Self {
        Self { metadata: Metadata::new(name), arguments: Vec::new() }
    }

    /// Display name for people, sent since 2025-06-18. Default none.
    pub fn title(mut self, title: impl Into<Box<str>>) -> Self {
        self.metadata.title = Some(title.into());
        self
    }

    /// Description of the prompt, sent in lists and with its messages. Default none.
    pub fn description(mut self, description: impl Into<Box<str>>) -> Self {
        self.metadata.description = Some(description.into());
        self
    }

    /// Adds an argument; clients ask for arguments in this order.
    pub fn argument(mut self, argument: PromptArgument) -> Self {
        self.arguments.push(argument);
        self
    }

    /// Adds an icon, sent since 2025-11-25.
    pub fn icon(mut self, icon: Icon) -> Self {
        self.metadata.icons.push(icon);
        self
    }

    /// Adds an entry to `_meta`, sent since 2025-06-18.
    pub fn meta(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.metadata.meta.insert(key.into(), value.into());
        self
    }

    /// Completes the prompt with a function that runs on the shard and writes the messages. Cost:
    /// no allocation beside those of the handler.
    pub fn inline<F>(self, handler: F) -> Prompt
    where
        F: Fn(&PromptArguments<'_>, &mut GetPromptResultWriter<'_>) -> Result<(), HandlerError>
            + Send
            + Sync
            + 'static,
    {
        self.build(PromptHandler::Inline(Box::new(handler)))
    }

    /// Completes the prompt with an async function that runs on the shard that received the
    /// request. Its future may be `!Send`.
    pub fn local<F, R>(self, handler: F) -> Prompt
    where
        F: Fn(PromptArguments<'static>, RequestContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<GetPromptResult, HandlerError>> + 'static,
    {
        let handler = Arc::new(handler);
        self.build(PromptHandler::Local(Box::new(move |arguments, prompt| {
            let (handler, revision) = (Arc::clone(&handler), arguments.revision());
            let finish = convert_result(prompt, revision);
            local_work(move |ctx| handler(arguments, ctx), finish)
        })))
    }

    /// Completes the prompt with a function that runs on the thread pool, for work that blocks.
    pub fn blocking<F>(self, handler: F) -> Prompt
    where
        F: Fn(PromptArguments<'static>, BlockingContext) -> Result<GetPromptResult, HandlerError>
            + Send
            + Sync
            + 'static,
    {
        let handler = Arc::new(handler);
        self.build(PromptHandler::Blocking(Box::new(move |arguments, prompt| {
            let (handler, revision) = (Arc::clone(&handler), arguments.revision());
            let finish = convert_result(prompt, revision);
            blocking_work(move |ctx| handler(arguments, ctx), finish)
        })))
    }

    fn build(self, handler: PromptHandler) -> Prompt {
        Prompt { metadata: self.metadata, arguments: self.arguments, handler }
    }
}

/// Converts the result of a local or blocking handler: adds the prompt's description if it has
/// none, and makes errors JSON-RPC errors.
fn convert_result(
    prompt: &Prompt,
    revision: Revision,
) -> impl FnOnce(Result<GetPromptResult, HandlerError>) -> Result<HandlerOutput, HandlerError>
+ Send
+ use<> {
    let description = prompt.metadata.description.clone();
    let name = prompt.metadata.name.clone();
    move |result| match result {
        Ok(mut result) => {
            result.description = result.description.or(description);
            Ok(HandlerOutput::Prompt(result))
        }
        Err(error) => Err(protocol_error(error, revision.is_modern(), ("prompt", &name))),
    }
}

/// Definition of an argument of a prompt.
#[derive(Debug)]
pub struct PromptArgument {
    pub(super) name: Box<str>,
    title: Option<Box<str>>,
    description: Option<Box<str>>,
    pub(super) is_required: bool,
    pub(super) completer: Option<Completer>,
}

impl PromptArgument {
    /// An optional argument.
    pub fn new(name: impl Into<Box<str>>) -> Self {
        let name = name.into();
        Self { name, title: None, description: None, is_required: false, completer: None }
    }

    /// Name of the argument.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Display name for people, sent since 2025-06-18. Default none.
    #[must_use]
    pub fn title(mut self, title: impl Into<Box<str>>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Description of the argument. Default none.
    #[must_use]
    pub fn description(mut self, description: impl Into<Box<str>>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Makes the argument required. Without it, `prompts/get` fails with invalid params (-32602).
    #[must_use]
    pub const fn required(mut self) -> Self {
        self.is_required = true;
        self
    }

    /// Sets the function that completes the argument. It runs inline on the shard.
    #[must_use]
    pub fn completer(
        mut self,
        completer: impl Fn(&CompletionContext<'_>) -> Completion + Send + Sync + 'static,
    ) -> Self {
        self.completer = Some(Completer::new(completer));
        self
    }

    /// Source: MCP `schema/<revision>`, type `PromptArgument`.
    pub(super) fn write(&self, out: &mut Vec<u8>, revision: Revision) {
        let mut argument = ObjectWriter::open(out);
        argument.string("name", &self.name);
        if revision.dialect().titles {
            argument.string_opt("title", self.title.as_ref());
        }
        argument.string_opt("description", self.description.as_ref());
        if self.is_required {
            argument.boolean("required", true);
        }
        argument.close();
    }
}
