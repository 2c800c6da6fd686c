//! A tool: what is told about it and what runs when it is called.
//!
//! What it keeps true: a tool that exists has a name that clients can repeat, schemas that every
//! revision accepts and exactly one handler; all of it is checked once, when the tool enters a
//! catalog, so that a call checks nothing twice. It does not find tools; the catalog does.

mod schema;

mod definition;

mod promise;

mod handler;

mod builder;

use std::borrow::Cow;
use std::fmt;

pub use self::builder::ToolBuilder;
pub use self::definition::{Annotations, TaskSupport};

use self::definition::Definition;
use self::handler::Handler;
use self::promise::Promise;
use crate::protocol::era::ClientCapabilities;
use crate::protocol::message::{Answer, Listed};
use crate::protocol::revision::Revision;
use crate::service::call::{Call, Reply};
use crate::service::entry::Entry;
use crate::service::outcome::HandlerError;
use crate::service::schema::{self as schemas, ArgumentCheck, ParameterHeader};

/// One tool of a catalog.
///
/// A handler is one of three kinds; choose by what it waits for:
///
/// | kind | runs | may |
/// | --- | --- | --- |
/// | [`inline`](ToolBuilder::inline) | on the shard, at once | compute for microseconds |
/// | [`local`](ToolBuilder::local) | on the shard, as a future | wait, without being `Send` |
/// | [`blocking`](ToolBuilder::blocking) | on the thread pool | block, compute for long |
///
/// What a call costs beside the handler itself: inline nothing (typed arguments allocate what they
/// hold, [`inline_raw`](ToolBuilder::inline_raw) not even that), local two allocations, blocking
/// one and two crossings between threads.
///
/// A shard serves nobody else while an inline handler runs or a local one is polled.
pub struct Tool {
    definition: Definition,
    handler: Handler,
    /// What arguments are held against before the handler sees them.
    check: ArgumentCheck,
    promise: Promise,
    headers: Box<[ParameterHeader]>,
}

impl Tool {
    /// Begins a tool called `name`: 1 to 128 characters of `A-Z a-z 0-9 _ . / -`, unique in its
    /// catalog. Keep to 64, which is what some clients take. Names are checked when the catalog
    /// is built.
    ///
    /// ```
    /// use corelane::service::{NoArguments, Tool};
    ///
    /// let tool = Tool::new("hello")
    ///     .describe("Greets whoever asks.")
    ///     .inline(|_: NoArguments, answer| {
    ///         answer.text("Hello!");
    ///         Ok(())
    ///     });
    /// assert_eq!(tool.name(), "hello");
    /// ```
    #[expect(clippy::new_ret_no_self, reason = "a tool without a handler is not a tool yet")]
    pub fn new(name: impl Into<Box<str>>) -> ToolBuilder {
        ToolBuilder::new(name.into())
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.definition.about.name
    }

    /// Whether a call of it may or must become a task.
    pub const fn task_support(&self) -> TaskSupport {
        self.definition.task
    }

    /// Whether a call of it begins as one and becomes a task when its handler says so; see
    /// [`ToolBuilder::asks_before_task`].
    pub const fn asks_before_task(&self) -> bool {
        self.definition.asks_before_task && matches!(self.handler, Handler::Local(_))
    }

    /// What a client must have declared to call it.
    pub const fn needs(&self) -> ClientCapabilities {
        self.definition.needs
    }

    /// The arguments that clients over HTTP repeat as headers (`x-mcp-header`). Known once the tool
    /// stands in a catalog.
    pub fn parameter_headers(&self) -> &[ParameterHeader] {
        &self.headers
    }

    /// Runs the tool, or hands out its work.
    ///
    /// After [`Reply::Ready`], `answer` holds the whole content; after any other reply what stands
    /// in it is void and the caller takes it back. Errors of the tool itself have found their form
    /// already: in the answer, or as [`Reply::Failed`].
    #[inline]
    pub fn call(&self, call: &Call<'_>, answer: &mut Answer<'_>) -> Reply {
        match self.start(call, answer) {
            Ok(reply) => reply,
            Err(error) => match error.settle(answer) {
                Ok(()) => Reply::Ready { is_failed: true },
                Err(error) => Reply::Failed(error),
            },
        }
    }

    #[inline]
    fn start(&self, call: &Call<'_>, answer: &mut Answer<'_>) -> Result<Reply, HandlerError> {
        if !self.definition.needs.is_empty() {
            let missing = self.definition.needs.without(call.capabilities());
            if !missing.is_empty() {
                return Err(HandlerError::Lacking(missing));
            }
        }
        self.check.check(call.arguments()).map_err(HandlerError::arguments)?;
        self.handler.start(call, answer, &self.promise)
    }
}

impl Entry for Tool {
    const LISTED: Listed = Listed::Tools;
    const KIND: &'static str = "tool";

    fn key(&self) -> &str {
        self.name()
    }

    fn fit(&mut self) -> Result<(), Cow<'static, str>> {
        self.definition.fit()?;
        let schema = &self.definition.input_schema;
        self.headers = schemas::parameter_headers(schema)?;
        // Compiled in any case: a schema that nobody can read must not reach a client either.
        let check = ArgumentCheck::compile(schema)?;
        if !(self.definition.is_schema_derived && schemas::is_implied(schema)) {
            self.check = check;
        }
        self.promise.keep(self.definition.output_schema.as_ref())
    }

    fn write(&self, out: &mut Vec<u8>, revision: Revision) {
        self.definition.write(out, revision);
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.handler {
            Handler::Inline(_) => "inline",
            Handler::Local(_) => "local",
            Handler::Blocking(_) => "blocking",
        };
        formatter
            .debug_struct("Tool")
            .field("name", &self.name())
            .field("kind", &kind)
            .finish_non_exhaustive()
    }
}
