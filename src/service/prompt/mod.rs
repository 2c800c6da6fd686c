//! Prompts: message templates that a user selects and fills with arguments.
//!
//! Invariant: a handler runs only if every required argument is present.
//!
//! Source: MCP server/prompts of each revision.

mod builder;

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use corelane_protocol::error::Error;
use corelane_protocol::json::ObjectWriter;
use corelane_protocol::model::{GetPromptResultWriter, ListKind};
use corelane_protocol::params::StringMap;
use corelane_protocol::revision::Revision;

pub use self::builder::{PromptArgument, PromptBuilder};
use crate::service::call::{BlockingWork, Dispatch, LocalWork};
use crate::service::completer::Completer;
#[cfg(feature = "gateway")]
use crate::service::completer::{CompletionForwarder, ForwardedCompletion};
#[cfg(feature = "gateway")]
use crate::service::context::RequestContext;
use crate::service::context::{InlineEnd, RequestSource, RequestView, StateType};
use crate::service::entry::{Entry, Metadata};
use crate::service::handler::{catch_panic, emitted_work, protocol_error};
use crate::service::results::{HandlerError, HandlerOutput};

/// A prompt of a catalog.
pub struct Prompt {
    metadata: Metadata,
    arguments: Vec<PromptArgument>,
    handler: PromptHandler,
    required_state: Option<StateType>,
    #[cfg(feature = "gateway")]
    completion_forwarder: Option<CompletionForwarder>,
}

enum PromptHandler {
    /// On the shard, to completion.
    Inline(InlineHandler),
    /// On the shard, as a future.
    Local(WorkFactory<LocalWork>),
    /// On the thread pool.
    Blocking(WorkFactory<BlockingWork>),
}

type InlineHandler = Box<
    dyn Fn(
            &PromptArguments<'_>,
            &mut GetPromptResultWriter<'_>,
            RequestView<'_>,
        ) -> Result<(), InlineEnd>
        + Send
        + Sync,
>;

type WorkFactory<W> = Box<dyn Fn(PromptArguments<'static>, &Prompt) -> W + Send + Sync>;

impl Prompt {
    /// Starts a prompt called `name`, unique among the prompts of its catalog.
    ///
    /// ```
    /// use corelane::model::Role;
    /// use corelane::{Prompt, PromptArgument};
    ///
    /// let prompt = Prompt::new("review")
    ///     .description("Asks for a code review.")
    ///     .argument(PromptArgument::new("code").description("Code to review.").required())
    ///     .inline(|arguments, out, _| {
    ///         let code = arguments.text("code");
    ///         out.format(Role::User, format_args!("Please review this:\n{code}"));
    ///         Ok(())
    ///     });
    /// assert_eq!(prompt.name(), "review");
    /// ```
    #[expect(clippy::new_ret_no_self, reason = "a prompt needs a handler, which the builder takes")]
    pub fn new(name: impl Into<Box<str>>) -> PromptBuilder {
        PromptBuilder::new(name.into())
    }

    /// Name of the prompt.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// Description of the prompt, or `None`.
    pub fn description(&self) -> Option<&str> {
        self.metadata.description.as_deref()
    }

    /// Arguments of the prompt, in the order in which they were added.
    pub fn arguments(&self) -> &[PromptArgument] {
        &self.arguments
    }

    /// Runs an inline handler, or returns the work of another kind. After [`Dispatch::Ready`] the
    /// messages are written; otherwise what was written to `writer` is void.
    pub(super) fn run(
        &self,
        values: StringMap<'_>,
        source: &dyn RequestSource,
        writer: &mut GetPromptResultWriter<'_>,
    ) -> Dispatch {
        let revision = writer.revision();
        let arguments = PromptArguments::borrowed(revision, values);
        let result = self.check_required_arguments(&arguments).and_then(|()| {
            catch_panic(|| match &self.handler {
                PromptHandler::Inline(handler) => {
                    let view = RequestView::new(self.name(), source);
                    match handler(&arguments, writer, view) {
                        Ok(()) => Ok(Dispatch::Ready { is_error: false }),
                        Err(InlineEnd::Failed(error)) => Err(error),
                        Err(InlineEnd::Emitted(events, written)) => {
                            let is_error = false;
                            let output =
                                |()| HandlerOutput::Encoded { result: writer.take(), is_error };
                            let output = written.map(output).map_err(|error| {
                                protocol_error(error, revision.is_modern(), "prompt", self.name())
                            });
                            Ok(Dispatch::Local(emitted_work(events, output)))
                        }
                    }
                }
                PromptHandler::Local(handler) => {
                    Ok(Dispatch::Local(handler(arguments.clone().into_owned(), self)))
                }
                PromptHandler::Blocking(handler) => {
                    Ok(Dispatch::Blocking(handler(arguments.clone().into_owned(), self)))
                }
            })
        });
        result.unwrap_or_else(|error| {
            let error = error.in_handler("prompt", &self.name().into());
            Dispatch::protocol_error(error, revision.is_modern())
        })
    }

    /// The completer of the argument `name`, or `None`.
    pub(super) fn completer(&self, name: &str) -> Option<&Completer> {
        let argument = self.arguments.iter().find(|argument| *argument.name == *name)?;
        argument.completer.as_ref()
    }

    /// The shard states that the handler and the completers need.
    pub fn required_states(&self) -> impl Iterator<Item = StateType> {
        let completers = self.arguments.iter().filter_map(|argument| argument.completer.as_ref());
        self.required_state.into_iter().chain(completers.filter_map(|it| it.required_state))
    }

    /// Whether any argument has a completer.
    pub(super) fn has_completer(&self) -> bool {
        #[cfg(feature = "gateway")]
        if self.completion_forwarder.is_some() {
            return true;
        }
        self.arguments.iter().any(|argument| argument.completer.is_some())
    }

    /// What passes the completion of arguments on to another server.
    #[cfg(feature = "gateway")]
    pub(super) const fn completion_forwarder(&self) -> Option<&CompletionForwarder> {
        self.completion_forwarder.as_ref()
    }

    /// Passes the completion of arguments on to another server. The result is encoded already.
    #[cfg(feature = "gateway")]
    pub(crate) fn forward_completions<F, R>(mut self, forward: F) -> Self
    where
        F: Fn(ForwardedCompletion, RequestContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<HandlerOutput, HandlerError>> + 'static,
    {
        self.completion_forwarder = Some(CompletionForwarder::new(forward));
        self
    }

    /// Checks the prompt as a catalog does that it enters. `Err` is phrased to follow
    /// "prompt `name`: ".
    #[cfg(feature = "gateway")]
    pub(crate) fn checked(mut self) -> Result<Self, Cow<'static, str>> {
        self.prepare()?;
        Ok(self)
    }

    fn check_required_arguments(
        &self,
        arguments: &PromptArguments<'_>,
    ) -> Result<(), HandlerError> {
        match self.missing_argument(arguments) {
            None => Ok(()),
            Some(missing) => {
                let message = format!("the prompt requires the argument `{}`", missing.name);
                Err(Error::invalid_params(message).into())
            }
        }
    }

    /// The first required argument that is absent. Cost: linear in the arguments of the prompt and
    /// those of the request; a request with few allocates nothing.
    fn missing_argument(&self, arguments: &PromptArguments<'_>) -> Option<&PromptArgument> {
        let mut required = self.arguments.iter().filter(|argument| argument.is_required);
        if arguments.len() <= ARGUMENTS_SCANNED_MAX {
            return required.find(|argument| arguments.get(&argument.name).is_none());
        }
        let mut missing: HashSet<&str> = required.clone().map(PromptArgument::name).collect();
        for (name, _) in arguments.iter() {
            missing.remove(name);
        }
        required.find(|argument| missing.contains(argument.name()))
    }
}

impl Entry for Prompt {
    const LIST: ListKind = ListKind::Prompts;
    const KIND: &'static str = "prompt";

    fn key(&self) -> &str {
        self.name()
    }

    fn prepare(&mut self) -> Result<(), Cow<'static, str>> {
        if self.metadata.name.is_empty() {
            return Err("its name is empty".into());
        }
        let mut names = HashSet::with_capacity(self.arguments.len());
        for argument in &self.arguments {
            if argument.name.is_empty() {
                return Err("the name of an argument is empty".into());
            }
            if !names.insert(argument.name()) {
                return Err(format!("two of its arguments are called `{}`", argument.name).into());
            }
        }
        Ok(())
    }

    /// Source: MCP `schema/<revision>`, type `Prompt`.
    fn write(&self, out: &mut Vec<u8>, revision: Revision) {
        let mut prompt = ObjectWriter::open(out);
        self.metadata.write_leading_members(&mut prompt, revision);
        if !self.arguments.is_empty() {
            let out = prompt.key("arguments");
            out.push(b'[');
            for (index, argument) in self.arguments.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                argument.write(out, revision);
            }
            out.push(b']');
        }
        self.metadata.write_trailing_members(&mut prompt, revision);
        prompt.close();
    }
}

impl fmt::Debug for Prompt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.handler {
            PromptHandler::Inline(_) => "inline",
            PromptHandler::Local(_) => "local",
            PromptHandler::Blocking(_) => "blocking",
        };
        formatter
            .debug_struct("Prompt")
            .field("name", &self.name())
            .field("kind", &kind)
            .finish_non_exhaustive()
    }
}

/// Arguments of a request up to which each required one is looked up in them.
const ARGUMENTS_SCANNED_MAX: usize = 64;

/// Argument values of one `prompts/get`, by name. Every required argument is present.
#[derive(Clone, Debug)]
pub struct PromptArguments<'a> {
    revision: Revision,
    values: ArgumentValues<'a>,
}

#[derive(Clone, Debug)]
enum ArgumentValues<'a> {
    Owned(Box<[(Box<str>, Box<str>)]>),
    Borrowed(StringMap<'a>),
}

impl<'a> PromptArguments<'a> {
    /// Arguments that borrow from the parsed message.
    const fn borrowed(revision: Revision, texts: StringMap<'a>) -> Self {
        Self { revision, values: ArgumentValues::Borrowed(texts) }
    }

    /// The value of the argument `name`, or `None`; the last one if it was sent more than once.
    /// Cost: one comparison per argument of the request.
    pub fn get(&self, name: &str) -> Option<&str> {
        match &self.values {
            ArgumentValues::Borrowed(texts) => texts.find(name),
            ArgumentValues::Owned(values) => {
                values.iter().rfind(|(known, _)| **known == *name).map(|(_, text)| &**text)
            }
        }
    }

    /// The number of arguments, duplicates counted.
    const fn len(&self) -> usize {
        match &self.values {
            ArgumentValues::Borrowed(texts) => texts.len(),
            ArgumentValues::Owned(values) => values.len(),
        }
    }

    /// Names and values in the order of the request, duplicates included.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let (borrowed, owned) = match &self.values {
            ArgumentValues::Borrowed(texts) => (*texts, &[][..]),
            ArgumentValues::Owned(values) => (StringMap::default(), &**values),
        };
        borrowed.iter().chain(owned.iter().map(|(name, text)| (&**name, &**text)))
    }

    /// The value of the argument `name`, or an empty string.
    pub fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    /// Protocol revision of the client.
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// Copies the values, so that they outlive the message. Allocates each of them.
    pub fn into_owned(self) -> PromptArguments<'static> {
        let values = match self.values {
            ArgumentValues::Borrowed(texts) => ArgumentValues::Owned(
                texts.iter().map(|(name, text)| (name.into(), text.into())).collect(),
            ),
            ArgumentValues::Owned(values) => ArgumentValues::Owned(values),
        };
        PromptArguments { revision: self.revision, values }
    }
}
