//! A prompt: a template of messages that a user picks and fills in.
//!
//! What it keeps true: a handler runs only where every required argument is filled in. It does not
//! find prompts; the catalog does.
//!
//! Source: server/prompts of each revision.

mod arguments;

mod builder;

use std::borrow::Cow;
use std::fmt;

pub use self::arguments::Arguments;
pub use self::builder::{PromptArgument, PromptBuilder};

use crate::protocol::error::Error;
use crate::protocol::json::ObjectWriter;
use crate::protocol::message::{Listed, PromptWriter};
use crate::protocol::params::Texts;
use crate::protocol::revision::Revision;
use crate::service::call::{BlockingWork, LocalWork, Reply};
use crate::service::completing::Completer;
use crate::service::entry::{About, Entry};
use crate::service::handler::wall;
use crate::service::outcome::HandlerError;

/// One prompt of a catalog.
pub struct Prompt {
    about: About,
    arguments: Vec<PromptArgument>,
    handler: Handler,
}

/// How a prompt is made.
enum Handler {
    /// On the shard, to completion.
    Inline(InlineHandler),
    /// On the shard, as a future.
    Local(Maker<LocalWork>),
    /// On the thread pool.
    Blocking(Maker<BlockingWork>),
}

type InlineHandler =
    Box<dyn Fn(&Arguments<'_>, &mut PromptWriter<'_>) -> Result<(), HandlerError> + Send + Sync>;

type Maker<W> = Box<dyn Fn(Arguments<'static>, &Prompt) -> W + Send + Sync>;

impl Prompt {
    /// Begins a prompt called `name`, unique among the prompts of its catalog.
    ///
    /// ```
    /// use corelane::protocol::message::Role;
    /// use corelane::service::{Prompt, PromptArgument};
    ///
    /// let prompt = Prompt::new("review")
    ///     .describe("Asks for a review of some code.")
    ///     .argument(PromptArgument::new("code").describe("The code.").required())
    ///     .inline(|arguments, prompt| {
    ///         let code = arguments.text("code");
    ///         prompt.format(Role::User, format_args!("Please review this:\n{code}"));
    ///         Ok(())
    ///     });
    /// assert_eq!(prompt.name(), "review");
    /// ```
    #[expect(clippy::new_ret_no_self, reason = "a prompt without a handler is not a prompt yet")]
    pub fn new(name: impl Into<Box<str>>) -> PromptBuilder {
        PromptBuilder::new(name.into())
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.about.name
    }

    /// What it is for, where that was said.
    pub fn description(&self) -> Option<&str> {
        self.about.description.as_deref()
    }

    /// What it is filled with.
    pub fn arguments(&self) -> &[PromptArgument] {
        &self.arguments
    }

    /// Makes the prompt, or hands out the work. After [`Reply::Ready`] the messages are written;
    /// after any other reply what stands in `writer` is void.
    pub(in crate::service) fn make(
        &self,
        revision: Revision,
        filled: Texts<'_>,
        writer: &mut PromptWriter<'_>,
    ) -> Reply {
        let arguments = Arguments::sent(revision, filled);
        let result = self.require(&arguments).and_then(|()| {
            wall(|| match &self.handler {
                Handler::Inline(handler) => {
                    handler(&arguments, writer)?;
                    Ok(Reply::Ready { is_failed: false })
                }
                Handler::Local(handler) => {
                    Ok(Reply::Local(handler(arguments.clone().into_owned(), self)))
                }
                Handler::Blocking(handler) => {
                    Ok(Reply::Blocking(handler(arguments.clone().into_owned(), self)))
                }
            })
        });
        result.unwrap_or_else(|error| Reply::Failed(error.into_error(revision.is_modern())))
    }

    /// The completer of the argument called `name`, where it has one.
    pub(in crate::service) fn completer(&self, name: &str) -> Option<&Completer> {
        let argument = self.arguments.iter().find(|argument| *argument.name == *name)?;
        argument.completer.as_ref()
    }

    /// Whether any argument has a completer.
    pub(in crate::service) fn is_completed(&self) -> bool {
        self.arguments.iter().any(|argument| argument.completer.is_some())
    }

    fn require(&self, arguments: &Arguments<'_>) -> Result<(), HandlerError> {
        let mut required = self.arguments.iter().filter(|argument| argument.is_required);
        match required.find(|argument| arguments.find(&argument.name).is_none()) {
            None => Ok(()),
            Some(missing) => {
                let message = format!("the prompt needs the argument `{}`", missing.name);
                Err(Error::invalid_params(message).into())
            }
        }
    }
}

impl Entry for Prompt {
    const LISTED: Listed = Listed::Prompts;
    const KIND: &'static str = "prompt";

    fn key(&self) -> &str {
        self.name()
    }

    fn fit(&mut self) -> Result<(), Cow<'static, str>> {
        if self.about.name.is_empty() {
            return Err("its name is empty".into());
        }
        for (place, argument) in self.arguments.iter().enumerate() {
            if argument.name.is_empty() {
                return Err("the name of an argument is empty".into());
            }
            if self.arguments[..place].iter().any(|other| other.name == argument.name) {
                return Err(format!("two of its arguments are called `{}`", argument.name).into());
            }
        }
        Ok(())
    }

    /// Source: `schema/<revision>`, type `Prompt`.
    fn write(&self, out: &mut Vec<u8>, revision: Revision) {
        let mut prompt = ObjectWriter::open(out);
        self.about.open(&mut prompt, revision);
        if !self.arguments.is_empty() {
            let out = prompt.key("arguments");
            out.push(b'[');
            for (place, argument) in self.arguments.iter().enumerate() {
                if place > 0 {
                    out.push(b',');
                }
                argument.write(out, revision);
            }
            out.push(b']');
        }
        self.about.close(&mut prompt, revision);
        prompt.close();
    }
}

impl fmt::Debug for Prompt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.handler {
            Handler::Inline(_) => "inline",
            Handler::Local(_) => "local",
            Handler::Blocking(_) => "blocking",
        };
        formatter
            .debug_struct("Prompt")
            .field("name", &self.name())
            .field("kind", &kind)
            .finish_non_exhaustive()
    }
}
