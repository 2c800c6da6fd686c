//! A prompt in the making.

use std::sync::Arc;

use serde_json::Value;

use crate::protocol::json::ObjectWriter;
use crate::protocol::message::{Icon, PromptWriter};
use crate::protocol::revision::Revision;
use crate::service::completing::{Completer, Completing};
use crate::service::entry::About;
use crate::service::handler::{blocking_work, local_work};
use crate::service::live::Live;
use crate::service::outcome::{Completion, HandlerError, PromptOutcome, Yield};
use crate::service::prompt::arguments::Arguments;
use crate::service::prompt::{Handler, Prompt};
use crate::service::worker::Worker;

/// A prompt that still waits for its handler. What is said about a prompt comes first, the handler
/// last: it ends the sentence.
#[derive(Debug)]
#[must_use = "a prompt begins to exist with its handler: inline, local or blocking"]
pub struct PromptBuilder {
    about: About,
    arguments: Vec<PromptArgument>,
}

impl PromptBuilder {
    pub(super) fn new(name: Box<str>) -> Self {
        Self { about: About::new(name), arguments: Vec::new() }
    }

    /// A name for people, in lists and menus. Told to clients from 2025-06-18 on.
    pub fn title(mut self, title: impl Into<Box<str>>) -> Self {
        self.about.title = Some(title.into());
        self
    }

    /// What the prompt is for. Told in lists and with the prompt itself.
    pub fn describe(mut self, description: impl Into<Box<str>>) -> Self {
        self.about.description = Some(description.into());
        self
    }

    /// Adds an argument; they are asked for in the order in which they were added.
    pub fn argument(mut self, argument: PromptArgument) -> Self {
        self.arguments.push(argument);
        self
    }

    /// Adds a picture. Told to clients from 2025-11-25 on.
    pub fn icon(mut self, icon: Icon) -> Self {
        self.about.icons.push(icon);
        self
    }

    /// Adds an entry to `_meta`, for extensions. Told to clients from 2025-06-18 on.
    pub fn meta(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.about.meta.insert(key.into(), value.into());
        self
    }

    /// Ends with a handler that runs to completion on the shard and writes the messages as it goes.
    /// Allocates nothing of its own.
    pub fn inline<F>(self, handler: F) -> Prompt
    where
        F: Fn(&Arguments<'_>, &mut PromptWriter<'_>) -> Result<(), HandlerError>
            + Send
            + Sync
            + 'static,
    {
        self.with(Handler::Inline(Box::new(handler)))
    }

    /// Ends with a future that runs on the shard that received the request; it may wait, and ask
    /// the client through its [`Live`].
    pub fn local<F, R>(self, handler: F) -> Prompt
    where
        F: Fn(Arguments<'static>, Live) -> R + Send + Sync + 'static,
        R: Future<Output = Result<PromptOutcome, HandlerError>> + 'static,
    {
        let handler = Arc::new(handler);
        self.with(Handler::Local(Box::new(move |arguments, prompt| {
            let (handler, revision) = (Arc::clone(&handler), arguments.revision());
            let finish = finish(prompt, revision);
            local_work(move |live| handler(arguments, live), finish)
        })))
    }

    /// Ends with a closure that runs on the thread pool: for what blocks, such as reading a file.
    pub fn blocking<F>(self, handler: F) -> Prompt
    where
        F: Fn(Arguments<'static>, Worker) -> Result<PromptOutcome, HandlerError>
            + Send
            + Sync
            + 'static,
    {
        let handler = Arc::new(handler);
        self.with(Handler::Blocking(Box::new(move |arguments, prompt| {
            let (handler, revision) = (Arc::clone(&handler), arguments.revision());
            let finish = finish(prompt, revision);
            blocking_work(move |worker| handler(arguments, worker), finish)
        })))
    }

    fn with(self, handler: Handler) -> Prompt {
        Prompt { about: self.about, arguments: self.arguments, handler }
    }
}

/// Gives what a local or blocking handler made its form: a description where it has none of its
/// own, and errors as a prompt can have them.
fn finish(
    prompt: &Prompt,
    revision: Revision,
) -> impl FnOnce(Result<PromptOutcome, HandlerError>) -> Result<Yield, HandlerError> + Send + use<>
{
    let description = prompt.about.description.clone();
    move |result| match result {
        Ok(mut outcome) => {
            outcome.description = outcome.description.or(description);
            Ok(Yield::Prompt(outcome))
        }
        Err(error) => Err(error.into_error(revision.is_modern()).into()),
    }
}

/// One argument of a prompt.
#[derive(Debug)]
pub struct PromptArgument {
    pub(super) name: Box<str>,
    title: Option<Box<str>>,
    description: Option<Box<str>>,
    pub(super) is_required: bool,
    pub(super) completer: Option<Completer>,
}

impl PromptArgument {
    /// An argument that may be left out.
    pub fn new(name: impl Into<Box<str>>) -> Self {
        let name = name.into();
        Self { name, title: None, description: None, is_required: false, completer: None }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A name for people. Told to clients from 2025-06-18 on.
    #[must_use]
    pub fn title(mut self, title: impl Into<Box<str>>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// What it is.
    #[must_use]
    pub fn describe(mut self, description: impl Into<Box<str>>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// The prompt is not made without it: invalid params (-32602).
    #[must_use]
    pub const fn required(mut self) -> Self {
        self.is_required = true;
        self
    }

    /// Says how the argument may go on while somebody types it. Runs on the shard, at once.
    #[must_use]
    pub fn complete(
        mut self,
        completer: impl Fn(&Completing<'_>) -> Completion + Send + Sync + 'static,
    ) -> Self {
        self.completer = Some(Completer::new(completer));
        self
    }

    /// Source: `schema/<revision>`, type `PromptArgument`.
    pub(super) fn write(&self, out: &mut Vec<u8>, revision: Revision) {
        let mut argument = ObjectWriter::open(out);
        argument.text("name", &self.name);
        if revision.dialect().titles {
            argument.text_if("title", self.title.as_ref());
        }
        argument.text_if("description", self.description.as_ref());
        if self.is_required {
            argument.boolean("required", true);
        }
        argument.close();
    }
}
