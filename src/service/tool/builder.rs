//! Builder of tools.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::protocol::eras::ClientCapabilities;
use crate::protocol::model::{CallToolResultWriter, Icon};
use crate::service::blocking_context::BlockingContext;
use crate::service::call::CallToolRequest;
use crate::service::context::RequestContext;
use crate::service::results::{CallToolResult, HandlerError};
use crate::service::schema::CompiledInputSchema;
use crate::service::tool::Tool;
use crate::service::tool::definition::{TaskSupport, ToolAnnotations, ToolDefinition};
use crate::service::tool::handler::ToolHandler;
use crate::service::tool::output_validator::OutputValidator;
use crate::service::tool::schema;

/// Builder of a tool. Set its properties first; one of the handler methods completes it.
#[derive(Debug)]
#[must_use = "complete the tool with a handler: inline, inline_raw, local or blocking"]
pub struct ToolBuilder {
    definition: ToolDefinition,
    has_input_schema: bool,
    skips_output_validation: bool,
}

impl ToolBuilder {
    pub(super) fn new(name: Box<str>) -> Self {
        Self {
            definition: ToolDefinition::new(name),
            has_input_schema: false,
            skips_output_validation: false,
        }
    }

    /// Display name for people, sent since 2025-03-26. Default none.
    pub fn title(mut self, title: impl Into<Box<str>>) -> Self {
        self.definition.metadata.title = Some(title.into());
        self
    }

    /// Description for the model, which decides by it whether to call the tool. Default none.
    pub fn description(mut self, description: impl Into<Box<str>>) -> Self {
        self.definition.metadata.description = Some(description.into());
        self
    }

    /// Hints about the effects of the tool, sent since 2025-03-26. Default none.
    pub fn annotations(mut self, annotations: ToolAnnotations) -> Self {
        self.definition.annotations = Some(annotations);
        self
    }

    /// Adds an icon, sent since 2025-11-25.
    pub fn icon(mut self, icon: Icon) -> Self {
        self.definition.metadata.icons.push(icon);
        self
    }

    /// Adds an entry to `_meta` of the tool, sent since 2025-06-18. Keys whose prefix contains
    /// `modelcontextprotocol` or `mcp` are reserved.
    pub fn meta(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.definition.metadata.meta.insert(key.into(), value.into());
        self
    }

    /// Sets the JSON Schema of the arguments (2020-12 unless `$schema` names another). Default: the
    /// schema derived from their type. Use it for handlers that take a `serde_json::Value`, or for
    /// constraints that a type cannot express. It is listed as given, and arguments are validated
    /// against it before the handler runs.
    ///
    /// Cost of validation: for simple schemas (types, bounds, `enum`, `required`, nested objects
    /// and arrays) some nanoseconds per member and no allocation; schemas with `$ref`, `pattern`,
    /// `oneOf` and the like use the `jsonschema` crate. References to other documents are rejected.
    pub fn input_schema(mut self, schema: impl Into<Value>) -> Self {
        self.definition.input_schema = schema.into();
        self.definition.is_schema_derived = false;
        self.has_input_schema = true;
        self
    }

    /// Declares structured results of type `T`: its schema becomes the `outputSchema`, sent since
    /// 2025-06-18 (up to 2025-11-25 only if it describes an object). Results are validated against
    /// it; see [`ToolBuilder::skip_output_validation`].
    pub fn output_type<T: JsonSchema>(self) -> Self {
        self.output_schema(schema::derive_output_schema::<T>())
    }

    /// Like [`ToolBuilder::output_type`], with a JSON Schema.
    pub fn output_schema(mut self, schema: impl Into<Value>) -> Self {
        self.definition.output_schema = Some(schema.into());
        self
    }

    /// Sends structured results without validation. By default each one is validated against the
    /// `outputSchema`, and one that does not conform becomes an internal error (-32603); this
    /// parses the result once more and allocates. Debug builds always validate.
    pub const fn skip_output_validation(mut self) -> Self {
        self.skips_output_validation = true;
        self
    }

    /// Whether calls may or must become tasks. Default [`TaskSupport::Forbidden`].
    pub const fn task_support(mut self, support: TaskSupport) -> Self {
        self.definition.task_support = support;
        self
    }

    /// Lets the handler decide when a call becomes a task. The handler starts as part of an
    /// ordinary call, may request input from the client, and turns the call into a task by awaiting
    /// [`RequestContext::begin_task`]. By default the task is created before the handler starts.
    /// Only for local handlers; others ignore it. Cost: until it becomes a task, the call occupies
    /// a slot of the requests in flight and has their deadline.
    ///
    /// ```
    /// use corelane::model::{ElicitRequest, Field, Form};
    /// use corelane::{CallToolResult, NoArguments, RequestContext, TaskSupport, Tool};
    ///
    /// let tool = Tool::new("publish").task_support(TaskSupport::Optional).deferred_task().local(
    ///     |_: NoArguments, ctx: RequestContext| async move {
    ///         let form = Form::new().field(Field::text("title").required());
    ///         ctx.elicit("title", ElicitRequest::form("Which title?", form)).await?;
    ///         ctx.begin_task().await?;
    ///         Ok(CallToolResult::text("published"))
    ///     },
    /// );
    /// # drop(tool);
    /// ```
    ///
    /// Source: MCP Tasks extension 2026-07-28 (SEP-2663), "Task Creation".
    pub const fn deferred_task(mut self) -> Self {
        self.definition.has_deferred_task = true;
        self
    }

    /// Requires the client to have declared `capabilities`. Otherwise calls fail with missing
    /// capability (-32021) since 2026-07-28, and with an `isError` result before.
    pub const fn require(mut self, capabilities: ClientCapabilities) -> Self {
        self.definition.required_capabilities =
            self.definition.required_capabilities.union(capabilities);
        self
    }

    /// Completes the tool with a function that runs on the shard and writes its result to the
    /// [`CallToolResultWriter`](crate::protocol::model::CallToolResultWriter). The arguments are
    /// deserialized into `T`; if that fails, the handler is not run.
    ///
    /// ```
    /// use corelane::Tool;
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Repeat {
    ///     /// Word to repeat.
    ///     word: String,
    ///     /// Number of repetitions.
    ///     times: u8,
    /// }
    ///
    /// let tool = Tool::new("repeat").description("Repeats a word.").inline(
    ///     |Repeat { word, times }, out| {
    ///         out.text(&word.repeat(times.into()));
    ///         Ok(())
    ///     },
    /// );
    /// # drop(tool);
    /// ```
    pub fn inline<T, F>(self, handler: F) -> Tool
    where
        T: DeserializeOwned + JsonSchema,
        F: Fn(T, &mut CallToolResultWriter<'_>) -> Result<(), HandlerError> + Send + Sync + 'static,
    {
        self.with_derived_schema::<T>().build(ToolHandler::inline(handler))
    }

    /// Completes the tool with a function that runs on the shard and reads its arguments from the
    /// parsed message without allocation. `schema` is the input schema.
    ///
    /// ```
    /// use corelane::Tool;
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Shout<'a> {
    ///     word: &'a str,
    /// }
    ///
    /// let schema = serde_json::json!({
    ///     "type": "object",
    ///     "properties": { "word": { "type": "string" } },
    ///     "required": ["word"],
    /// });
    /// let tool = Tool::new("shout").inline_raw(schema, |call, out| {
    ///     let Shout { word } = call.decode()?;
    ///     out.text(word);
    ///     out.text("!");
    ///     Ok(())
    /// });
    /// # drop(tool);
    /// ```
    pub fn inline_raw<F>(self, schema: impl Into<Value>, handler: F) -> Tool
    where
        F: Fn(&CallToolRequest<'_>, &mut CallToolResultWriter<'_>) -> Result<(), HandlerError>
            + Send
            + Sync
            + 'static,
    {
        self.input_schema(schema).build(ToolHandler::inline_raw(handler))
    }

    /// Completes the tool with an async function that runs on the shard that received the call. Its
    /// future may be `!Send`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use corelane::{CallToolResult, NoArguments, RequestContext, Tool};
    ///
    /// let tool = Tool::new("nap").local(|_: NoArguments, ctx: RequestContext| async move {
    ///     ctx.sleep(Duration::from_secs(1)).await?;
    ///     Ok(CallToolResult::text("slept for 1 s"))
    /// });
    /// # drop(tool);
    /// ```
    pub fn local<T, F, R>(self, handler: F) -> Tool
    where
        T: DeserializeOwned + JsonSchema + 'static,
        F: Fn(T, RequestContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<CallToolResult, HandlerError>> + 'static,
    {
        self.with_derived_schema::<T>().build(ToolHandler::local(handler))
    }

    /// Completes the tool with a function that runs on the thread pool, for work that blocks or
    /// computes for more than some microseconds.
    ///
    /// ```
    /// use corelane::{BlockingContext, CallToolResult, Tool};
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Read {
    ///     path: std::path::PathBuf,
    /// }
    ///
    /// let tool = Tool::new("read").blocking(|Read { path }, _: BlockingContext| {
    ///     Ok(CallToolResult::text(std::fs::read_to_string(path)?))
    /// });
    /// # drop(tool);
    /// ```
    pub fn blocking<T, F>(self, handler: F) -> Tool
    where
        T: DeserializeOwned + JsonSchema + Send + 'static,
        F: Fn(T, BlockingContext) -> Result<CallToolResult, HandlerError> + Send + Sync + 'static,
    {
        self.with_derived_schema::<T>().build(ToolHandler::blocking(handler))
    }

    /// Sets the input schema derived from `T`, unless another was set.
    fn with_derived_schema<T: JsonSchema>(mut self) -> Self {
        if !self.has_input_schema {
            self = self.input_schema(schema::derive_input_schema::<T>());
            self.definition.is_schema_derived = true;
        }
        self
    }

    fn build(self, handler: ToolHandler) -> Tool {
        Tool {
            definition: self.definition,
            handler,
            input_schema: CompiledInputSchema::ACCEPT_ALL,
            output_validator: OutputValidator::new(self.skips_output_validation),
            parameter_headers: Box::default(),
        }
    }
}
