//! Builder of tools.

use std::marker::PhantomData;

use corelane_protocol::eras::ClientCapabilities;
use corelane_protocol::model::{CallToolResultWriter, Icon};
use schemars::JsonSchema;
use serde_json::Value;

use crate::service::call::CallToolRequest;
#[cfg(feature = "tokio")]
use crate::service::context::TokioContext;
use crate::service::context::{BlockingContext, InlineContext, RequestContext, StateType};
#[cfg(feature = "gateway")]
use crate::service::results::HandlerOutput;
use crate::service::results::{HandlerError, IntoCallToolResult};
use crate::service::schema::{CompiledInputSchema, derive_input_schema, derive_output_schema};
use crate::service::tool::Tool;
use crate::service::tool::definition::{TaskSupport, ToolAnnotations, ToolDefinition};
use crate::service::tool::handler::{ToolArguments, ToolHandler};
use crate::service::tool::schema::OutputValidator;

/// Builder of a tool. Set its properties first; one of the handler methods completes it.
///
/// `S` is the state of the shard that the handler reads; see [`ToolBuilder::state`].
#[derive(Debug)]
#[must_use = "complete the tool with a handler: inline, inline_writer, local or blocking"]
pub struct ToolBuilder<S = ()> {
    definition: ToolDefinition,
    has_input_schema: bool,
    skips_output_validation: bool,
    state: PhantomData<fn() -> S>,
}

impl ToolBuilder {
    pub(super) fn new(name: Box<str>) -> Self {
        Self {
            definition: ToolDefinition::new(name),
            has_input_schema: false,
            skips_output_validation: false,
            state: PhantomData,
        }
    }
}

impl<S: 'static> ToolBuilder<S> {
    /// Lets the handler read the state of its shard: a value that the server makes for each shard
    /// on the thread of the shard, so that it needs no lock and may be `!Send`. The server must be
    /// started with [`Server::with_state`](crate::server::Server::with_state) of the same type.
    /// Only inline and local handlers have access. A value that all shards share is an [`Arc`] that
    /// the handler captures.
    ///
    /// ```
    /// use std::cell::Cell;
    ///
    /// use corelane::model::Implementation;
    /// use corelane::{Catalog, NoArguments, Server, Tool};
    ///
    /// #[derive(Default)]
    /// struct Calls(Cell<u64>);
    ///
    /// let tool = Tool::new("count").state::<Calls>().inline(|_: NoArguments, ctx| {
    ///     let Calls(calls) = ctx.state();
    ///     calls.set(calls.get() + 1);
    ///     format!("call {} of this shard", calls.get())
    /// });
    /// let catalog = Catalog::builder(Implementation::new("counter", "1")).tool(tool).build()?;
    /// let server = Server::with_state(catalog, |_shard| Calls::default());
    /// # drop(server);
    /// # Ok::<(), corelane::CatalogError>(())
    /// ```
    ///
    /// [`Arc`]: std::sync::Arc
    pub fn state<T: 'static>(mut self) -> ToolBuilder<T> {
        self.definition.required_state = Some(StateType::of::<T>());
        let Self { definition, has_input_schema, skips_output_validation, .. } = self;
        ToolBuilder { definition, has_input_schema, skips_output_validation, state: PhantomData }
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
        self.output_schema(derive_output_schema::<T>())
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

    /// Requires the caller to have a scope of its token, such as `tools:deploy`; call it for each
    /// one. Others get status 403 with all scopes of the request, and do not see the tool in
    /// `tools/list`. A server without authentication refuses every call.
    ///
    /// Source: MCP 2026-07-28, basic/authorization, "Scope Challenge Handling".
    pub fn require_scope(mut self, scope: impl Into<Box<str>>) -> Self {
        self.definition.required_scopes.push(scope.into());
        self
    }

    /// Completes the tool with a function that runs on the shard. The arguments are deserialized
    /// into `T`; if that fails, the handler is not run. It returns any [`IntoCallToolResult`].
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
    /// let tool = Tool::new("repeat")
    ///     .description("Repeats a word.")
    ///     .inline(|Repeat { word, times }, _| word.repeat(times.into()));
    /// # drop(tool);
    /// ```
    pub fn inline<T, F, R>(self, handler: F) -> Tool
    where
        T: ToolArguments,
        F: Fn(T, &InlineContext<'_, S>) -> R + Send + Sync + 'static,
        R: IntoCallToolResult,
    {
        self.with_derived_schemas::<T, R>().build(ToolHandler::inline(handler))
    }

    /// Completes the tool with a function that runs on the shard and writes its result to the
    /// [`CallToolResultWriter`], directly into the output buffer.
    ///
    /// ```
    /// use corelane::Tool;
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Greet {
    ///     name: String,
    /// }
    ///
    /// let tool = Tool::new("greet").inline_writer(|Greet { name }, out, _| {
    ///     out.format(format_args!("Hello, {name}!"));
    ///     Ok(())
    /// });
    /// # drop(tool);
    /// ```
    pub fn inline_writer<T, F>(self, handler: F) -> Tool
    where
        T: ToolArguments,
        F: Fn(T, &mut CallToolResultWriter<'_>, &InlineContext<'_, S>) -> Result<(), HandlerError>
            + Send
            + Sync
            + 'static,
    {
        self.with_derived_schemas::<T, ()>().build(ToolHandler::inline_writer(handler))
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
    /// use corelane::{NoArguments, Tool};
    ///
    /// let tool = Tool::new("nap").local(|_: NoArguments, ctx| async move {
    ///     ctx.sleep(Duration::from_secs(1)).await?;
    ///     Ok("slept for 1 s")
    /// });
    /// # drop(tool);
    /// ```
    pub fn local<T, F, R>(self, handler: F) -> Tool
    where
        T: ToolArguments + 'static,
        F: Fn(T, RequestContext<S>) -> R + Send + Sync + 'static,
        R: Future<Output: IntoCallToolResult> + 'static,
    {
        self.with_derived_schemas::<T, R::Output>().build(ToolHandler::local(handler))
    }

    /// Completes the tool with a function on the shard that gets the arguments as JSON text and
    /// passes them on to another server, which validates them. Its result is encoded already.
    #[cfg(feature = "gateway")]
    pub(crate) fn forward<F, R>(self, handler: F) -> Tool
    where
        F: Fn(Vec<u8>, RequestContext<S>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<HandlerOutput, HandlerError>> + 'static,
    {
        let tool = self.build(ToolHandler::forward(handler));
        Tool { is_forwarded: true, ..tool }
    }

    /// Completes the tool with a function that runs on the thread pool, for work that blocks or
    /// computes for more than some microseconds.
    ///
    /// ```
    /// use corelane::Tool;
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Read {
    ///     path: std::path::PathBuf,
    /// }
    ///
    /// let tool = Tool::new("read").blocking(|Read { path }, _|
    /// Ok(std::fs::read_to_string(path)?));
    /// # drop(tool);
    /// ```
    pub fn blocking<T, F, R>(self, handler: F) -> Tool
    where
        T: ToolArguments + Send + 'static,
        F: Fn(T, BlockingContext) -> R + Send + Sync + 'static,
        R: IntoCallToolResult,
    {
        self.with_derived_schemas::<T, R>().build(ToolHandler::blocking(handler))
    }

    /// Completes the tool with an async function that runs on a tokio runtime of the host program,
    /// for libraries that need one: HTTP clients, database drivers. The runtime is that of
    /// [`Server::tokio`](crate::server::Server::tokio), or the one in which the server is started.
    /// Cost beside a local handler: the spawn on the runtime and the wake-up of the shard.
    ///
    /// ```
    /// use corelane::{NoArguments, Tool};
    ///
    /// let tool = Tool::new("nap").tokio(|_: NoArguments, _| async {
    ///     tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    ///     "slept for 1 s"
    /// });
    /// # drop(tool);
    /// ```
    #[cfg(feature = "tokio")]
    pub fn tokio<T, F, R>(self, handler: F) -> Tool
    where
        T: ToolArguments + Send + 'static,
        F: Fn(T, TokioContext) -> R + Send + Sync + 'static,
        R: Future<Output: IntoCallToolResult> + Send + 'static,
    {
        self.with_derived_schemas::<T, R::Output>().build(ToolHandler::tokio(handler))
    }

    /// Sets the schemas of arguments `T` and results `R`, unless others were set.
    fn with_derived_schemas<T: ToolArguments, R: IntoCallToolResult>(mut self) -> Self {
        if !self.has_input_schema {
            self = self.input_schema(derive_input_schema::<T>());
            self.definition.is_schema_derived = true;
        }
        if self.definition.output_schema.is_none() {
            self.definition.output_schema = R::output_schema();
        }
        self
    }

    fn build(self, handler: ToolHandler) -> Tool {
        Tool {
            definition: self.definition,
            handler,
            input_schema: CompiledInputSchema::ACCEPT_ALL,
            is_schema_implied: false,
            is_forwarded: false,
            output_validator: OutputValidator::new(self.skips_output_validation),
            parameter_headers: Box::default(),
        }
    }
}
