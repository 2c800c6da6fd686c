//! Builder of prompts and their arguments.

use std::marker::PhantomData;
use std::sync::Arc;

use corelane_protocol::json::ObjectWriter;
use corelane_protocol::model::{GetPromptResultWriter, Icon};
use corelane_protocol::revision::Revision;
use serde_json::Value;

use crate::service::call::{HandlerIdentity, ResultSize};
use crate::service::completer::{Completer, CompletionContext};
use crate::service::context::{BlockingContext, InlineContext, RequestContext, StateType};
use crate::service::entry::Metadata;
use crate::service::handler::{blocking_work, local_work, protocol_error};
use crate::service::prompt::{Prompt, PromptArguments, PromptHandler};
use crate::service::results::{Completion, GetPromptResult, HandlerError, HandlerOutput};

/// Builder of a prompt. Set its properties first; one of the handler methods completes it.
///
/// `S` is the state of the shard that the handler reads; see [`PromptBuilder::state`].
#[derive(Debug)]
#[must_use = "complete the prompt with a handler: inline, local or blocking"]
pub struct PromptBuilder<S = ()> {
    metadata: Metadata,
    arguments: Vec<PromptArgument>,
    required_state: Option<StateType>,
    state: PhantomData<fn() -> S>,
}

impl PromptBuilder {
    pub(super) fn new(name: Box<str>) -> Self {
        Self {
            metadata: Metadata::new(name),
            arguments: Vec::new(),
            required_state: None,
            state: PhantomData,
        }
    }
}

impl<S: 'static> PromptBuilder<S> {
    /// Lets an inline or local handler read the state of its shard, as that of a tool; see
    /// [`ToolBuilder::state`](crate::service::ToolBuilder::state). Completers of arguments have
    /// [`PromptArgument::state`].
    pub fn state<T: 'static>(self) -> PromptBuilder<T> {
        let Self { metadata, arguments, .. } = self;
        let required_state = Some(StateType::of::<T>());
        PromptBuilder { metadata, arguments, required_state, state: PhantomData }
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
    pub fn argument<T: 'static>(mut self, argument: PromptArgument<T>) -> Self {
        self.arguments.push(argument.with_state());
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
        F: Fn(
                &PromptArguments<'_>,
                &mut GetPromptResultWriter<'_>,
                &InlineContext<'_, S>,
            ) -> Result<(), HandlerError>
            + Send
            + Sync
            + 'static,
    {
        self.build(PromptHandler::Inline(Box::new(move |arguments, writer, view| {
            let ctx = InlineContext::new(view);
            let written = handler(arguments, writer, &ctx);
            ctx.end(written)
        })))
    }

    /// Completes the prompt with an async function that runs on the shard that received the
    /// request. Its future may be `!Send`.
    pub fn local<F, R>(self, handler: F) -> Prompt
    where
        F: Fn(PromptArguments<'static>, RequestContext<S>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<GetPromptResult, HandlerError>> + 'static,
    {
        let handler = Arc::new(handler);
        self.build(PromptHandler::Local(Box::new(move |arguments, prompt| {
            let (handler, revision) = (Arc::clone(&handler), arguments.revision());
            let finish = convert_result(prompt, revision);
            local_work(move |ctx| handler(arguments, ctx.with_state()), finish)
        })))
    }

    /// Completes the prompt with a function on the shard that passes the request on to another
    /// server. Its result is encoded already.
    #[cfg(feature = "gateway")]
    pub(crate) fn forward<F, R>(self, handler: F) -> Prompt
    where
        F: Fn(PromptArguments<'static>, RequestContext<S>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<HandlerOutput, HandlerError>> + 'static,
    {
        let handler = Arc::new(handler);
        self.build(PromptHandler::Local(Box::new(move |arguments, prompt| {
            let (handler, revision) = (Arc::clone(&handler), arguments.revision());
            let name = prompt.metadata.name.clone();
            local_work(
                move |ctx| handler(arguments, ctx.with_state()),
                move |result| {
                    let is_modern = revision.is_modern();
                    result.map_err(|error| protocol_error(error, is_modern, "prompt", &name))
                },
            )
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
        let (handler, identity) = (Arc::new(handler), HandlerIdentity::default());
        self.build(PromptHandler::Blocking(Box::new(move |arguments, prompt| {
            let (handler, revision) = (Arc::clone(&handler), arguments.revision());
            let finish = convert_result(prompt, revision);
            let size = ResultSize::Unknown(Arc::clone(&identity));
            blocking_work(size, move |ctx| handler(arguments, ctx), finish)
        })))
    }

    fn build(self, handler: PromptHandler) -> Prompt {
        let Self { metadata, arguments, required_state, .. } = self;
        Prompt {
            metadata,
            arguments,
            handler,
            required_state,
            #[cfg(feature = "gateway")]
            completion_forwarder: None,
        }
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
        Err(error) => Err(protocol_error(error, revision.is_modern(), "prompt", &name)),
    }
}

/// Definition of an argument of a prompt.
///
/// `S` is the state of the shard that its completer reads; see [`PromptArgument::state`].
#[derive(Debug)]
pub struct PromptArgument<S = ()> {
    pub(super) name: Box<str>,
    title: Option<Box<str>>,
    description: Option<Box<str>>,
    pub(super) is_required: bool,
    pub(super) completer: Option<Completer>,
    required_state: Option<StateType>,
    state: PhantomData<fn() -> S>,
}

impl PromptArgument {
    /// An optional argument.
    pub fn new(name: impl Into<Box<str>>) -> Self {
        Self {
            name: name.into(),
            title: None,
            description: None,
            is_required: false,
            completer: None,
            required_state: None,
            state: PhantomData,
        }
    }
}

impl<S: 'static> PromptArgument<S> {
    /// Lets the completer read the state of its shard; see
    /// [`ToolBuilder::state`](crate::service::ToolBuilder::state).
    #[must_use]
    pub fn state<T: 'static>(self) -> PromptArgument<T> {
        PromptArgument { required_state: Some(StateType::of::<T>()), ..self.with_state() }
    }

    pub(super) fn with_state<T>(self) -> PromptArgument<T> {
        let Self { name, title, description, is_required, completer, required_state, .. } = self;
        let state = PhantomData;
        PromptArgument { name, title, description, is_required, completer, required_state, state }
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
        completer: impl Fn(&CompletionContext<'_, S>) -> Completion + Send + Sync + 'static,
    ) -> Self {
        self.completer = Some(Completer::new(completer, self.required_state));
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
