//! Tools: their definitions, handlers and validation of arguments and results.
//!
//! Names and schemas are checked once, when a tool enters a catalog.

mod schema;

mod definition;

mod handler;

mod builder;

use std::borrow::Cow;
use std::fmt;

use corelane_protocol::eras::ClientCapabilities;
use corelane_protocol::error::Error;
use corelane_protocol::model::{CallToolResultWriter, ListKind};
use corelane_protocol::parameter_header::{ParameterHeader, collect_headers};
use corelane_protocol::revision::Revision;

pub use self::builder::ToolBuilder;
use self::definition::ToolDefinition;
pub use self::definition::{TaskSupport, ToolAnnotations};
pub use self::handler::ToolArguments;
use self::handler::ToolHandler;
use self::schema::OutputValidator;
use crate::service::call::{CallToolRequest, Dispatch};
use crate::service::context::StateType;
use crate::service::entry::Entry;
use crate::service::results::HandlerError;
use crate::service::schema::{self as schemas, CompiledInputSchema};

/// A tool of a catalog.
///
/// The kind of its handler decides where it runs; choose by what it waits for:
///
/// | kind | runs | may |
/// | --- | --- | --- |
/// | [`inline`](ToolBuilder::inline) | on the shard, to completion | compute for microseconds |
/// | [`local`](ToolBuilder::local) | on the shard, as a future, which may be `!Send` | await |
/// | [`blocking`](ToolBuilder::blocking) | on the thread pool | block, compute for long |
/// | `tokio` (feature `tokio`) | on a tokio runtime of the host, as a future | await what needs tokio |
///
/// Cost of a call beside the handler: inline none (typed arguments allocate what they hold,
/// [`inline_raw`](ToolBuilder::inline_raw) not even that), local two allocations, blocking one
/// allocation and two thread crossings.
///
/// A shard serves no other request while an inline handler runs or a local one is polled.
pub struct Tool {
    definition: ToolDefinition,
    handler: ToolHandler,
    /// Validates arguments: before the handler runs, or after their deserialization has failed, to
    /// describe the problem.
    input_schema: CompiledInputSchema,
    /// Deserialization checks everything that the schema requires.
    is_schema_implied: bool,
    /// Arguments and results are validated by the server that the call is passed on to.
    is_forwarded: bool,
    output_validator: OutputValidator,
    parameter_headers: Box<[ParameterHeader]>,
}

impl Tool {
    /// Starts a tool called `name`: 1 to 128 characters of `A-Z a-z 0-9 _ . / -`, unique in its
    /// catalog. Some clients accept at most 64 characters. Names are checked when the catalog is
    /// built.
    ///
    /// ```
    /// use corelane::{NoArguments, Tool};
    ///
    /// let tool = Tool::new("hello")
    ///     .description("Greets the caller.")
    ///     .inline(|_: NoArguments, _| "Hello!");
    /// assert_eq!(tool.name(), "hello");
    /// ```
    #[expect(clippy::new_ret_no_self, reason = "a tool needs a handler, which the builder takes")]
    pub fn new(name: impl Into<Box<str>>) -> ToolBuilder {
        ToolBuilder::new(name.into())
    }

    /// Name of the tool.
    pub fn name(&self) -> &str {
        &self.definition.metadata.name
    }

    /// Description of the tool, or `None`.
    pub fn description(&self) -> Option<&str> {
        self.definition.metadata.description.as_deref()
    }

    /// Whether calls may or must become tasks.
    pub const fn task_support(&self) -> TaskSupport {
        self.definition.task_support
    }

    /// Whether the handler decides when a call becomes a task; see [`ToolBuilder::deferred_task`].
    #[doc(hidden)]
    pub const fn has_deferred_task(&self) -> bool {
        self.definition.has_deferred_task && matches!(self.handler, ToolHandler::Local(_))
    }

    /// Capabilities that a client must declare to call the tool.
    pub const fn required_capabilities(&self) -> ClientCapabilities {
        self.definition.required_capabilities
    }

    /// Scopes that a caller must have; see [`ToolBuilder::require_scope`].
    pub fn required_scopes(&self) -> &[Box<str>] {
        &self.definition.required_scopes
    }

    /// Whether the handler needs a tokio runtime.
    #[doc(hidden)]
    #[cfg(feature = "tokio")]
    pub const fn needs_tokio(&self) -> bool {
        matches!(self.handler, ToolHandler::Tokio(_))
    }

    /// The shard state that the handler needs, or `None`.
    #[doc(hidden)]
    pub const fn required_state(&self) -> Option<StateType> {
        self.definition.required_state
    }

    /// Arguments that clients repeat as HTTP headers (`x-mcp-header`). Empty until the tool is in a
    /// catalog.
    #[doc(hidden)]
    pub fn parameter_headers(&self) -> &[ParameterHeader] {
        &self.parameter_headers
    }

    /// Runs an inline handler, or returns the work of another kind.
    ///
    /// After [`Dispatch::Ready`], `writer` holds the complete content; otherwise what was written
    /// is void and the caller discards it. Errors of the handler are already reported: in `writer`,
    /// or as [`Dispatch::Failed`] or [`Dispatch::Internal`].
    #[doc(hidden)]
    #[inline]
    pub fn call(
        &self,
        call: &CallToolRequest<'_>,
        writer: &mut CallToolResultWriter<'_>,
    ) -> Dispatch {
        match self.start(call, writer) {
            Ok(reply) => reply,
            Err(error) => self.report_error(call, error, writer),
        }
    }

    /// Validates the arguments; the error names the tool, for the model to repair its call.
    #[inline]
    fn check_arguments(&self, call: &CallToolRequest<'_>) -> Result<(), HandlerError> {
        if self.input_schema.accepts(call.arguments()) {
            return Ok(());
        }
        self.explain_arguments(call)
    }

    /// Validates the arguments again, for the text of the error.
    #[cold]
    fn explain_arguments(&self, call: &CallToolRequest<'_>) -> Result<(), HandlerError> {
        self.input_schema.validate(call.arguments()).map_err(|problem| {
            HandlerError::invalid_params(format_args!("tool `{}`: {problem}", self.name()))
        })
    }

    /// Checks the tool as a catalog does that it enters. `Err` is phrased to follow
    /// "tool `name`: ".
    #[cfg(feature = "gateway")]
    pub(crate) fn checked(mut self) -> Result<Self, Cow<'static, str>> {
        self.prepare()?;
        Ok(self)
    }

    /// The error for a caller who is not known, where callers are not distinguished.
    #[cold]
    fn refuse_without_principal(&self) -> HandlerError {
        let scopes = self.definition.required_scopes.join(" ");
        let message = "the tool requires scopes, and the caller of the request is not known";
        HandlerError::Rpc(Error::insufficient_scope(message, &scopes, false))
    }

    /// Writes the error of a handler, or returns it for the server to report.
    #[cold]
    fn report_error(
        &self,
        call: &CallToolRequest<'_>,
        mut error: HandlerError,
        writer: &mut CallToolResultWriter<'_>,
    ) -> Dispatch {
        if let HandlerError::InvalidParams(_) = error
            && self.is_schema_implied
            && let Err(described) = self.check_arguments(call)
        {
            error = described;
        }
        match error.in_handler(Self::KIND, &self.name().into()) {
            HandlerError::Internal(error) => Dispatch::Internal(error),
            error => match error.write_to(writer) {
                Ok(()) => Dispatch::Ready { is_error: true },
                Err(error) => Dispatch::Failed(error),
            },
        }
    }

    #[inline]
    fn start(
        &self,
        call: &CallToolRequest<'_>,
        writer: &mut CallToolResultWriter<'_>,
    ) -> Result<Dispatch, HandlerError> {
        if !self.definition.required_capabilities.is_empty() {
            let missing = self.definition.required_capabilities.difference(call.capabilities());
            if !missing.is_empty() {
                return Err(HandlerError::MissingCapability(missing));
            }
        }
        if !self.definition.required_scopes.is_empty() && call.view().principal().is_none() {
            return Err(self.refuse_without_principal());
        }
        if !self.is_schema_implied {
            self.check_arguments(call)?;
        }
        self.handler.start(call, writer, &self.output_validator)
    }
}

impl Entry for Tool {
    const LIST: ListKind = ListKind::Tools;
    const KIND: &'static str = "tool";

    fn key(&self) -> &str {
        self.name()
    }

    fn prepare(&mut self) -> Result<(), Cow<'static, str>> {
        self.definition.prepare()?;
        let schema = &self.definition.input_schema;
        self.parameter_headers = collect_headers(schema)?;
        if self.is_forwarded {
            return Ok(());
        }
        self.input_schema = CompiledInputSchema::compile(schema)?;
        self.is_schema_implied = self.definition.is_schema_derived && schemas::is_implied(schema);
        self.output_validator.compile(self.name().into(), self.definition.output_schema.as_ref())
    }

    fn write(&self, out: &mut Vec<u8>, revision: Revision) {
        self.definition.write(out, revision);
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Tool")
            .field("name", &self.name())
            .field("kind", &self.handler.kind())
            .finish_non_exhaustive()
    }
}
