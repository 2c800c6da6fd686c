//! A tool in the making.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::protocol::era::ClientCapabilities;
use crate::protocol::message::{Answer, Icon};
use crate::service::call::Call;
use crate::service::live::Live;
use crate::service::outcome::{HandlerError, Outcome};
use crate::service::schema::ArgumentCheck;
use crate::service::tool::Tool;
use crate::service::tool::definition::{Annotations, Definition, TaskSupport};
use crate::service::tool::handler::Handler;
use crate::service::tool::promise::Promise;
use crate::service::tool::schema;
use crate::service::worker::Worker;

/// A tool that still waits for its handler. What is said about a tool comes first, the handler
/// last: it ends the sentence.
#[derive(Debug)]
#[must_use = "a tool begins to exist with its handler: inline, inline_raw, local or blocking"]
pub struct ToolBuilder {
    definition: Definition,
    has_schema: bool,
    is_trusted: bool,
}

impl ToolBuilder {
    pub(super) fn new(name: Box<str>) -> Self {
        Self { definition: Definition::new(name), has_schema: false, is_trusted: false }
    }

    /// A name for people, in lists and dialogs. Told to clients from 2025-03-26 on.
    pub fn title(mut self, title: impl Into<Box<str>>) -> Self {
        self.definition.about.title = Some(title.into());
        self
    }

    /// What the tool does, for the model that decides whether to call it.
    pub fn describe(mut self, description: impl Into<Box<str>>) -> Self {
        self.definition.about.description = Some(description.into());
        self
    }

    /// Hints about its effects. Told to clients from 2025-03-26 on.
    pub fn annotations(mut self, annotations: Annotations) -> Self {
        self.definition.annotations = Some(annotations);
        self
    }

    /// Adds a picture. Told to clients from 2025-11-25 on.
    pub fn icon(mut self, icon: Icon) -> Self {
        self.definition.about.icons.push(icon);
        self
    }

    /// Adds an entry to `_meta` of the tool, for extensions. Told to clients from 2025-06-18 on.
    /// Keys whose prefix names `modelcontextprotocol` or `mcp` are reserved.
    pub fn meta(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.definition.about.meta.insert(key.into(), value.into());
        self
    }

    /// The JSON Schema of its arguments (2020-12 where it names no other), in place of the one
    /// derived from their type: for handlers that take a `serde_json::Value`, or to say more than a
    /// type can. It is told to clients as it is, and arguments are held against it before the
    /// handler sees them.
    ///
    /// Cost of a check: an everyday schema (types, bounds, `enum`, `required`, nested objects and
    /// arrays) some nanoseconds a member and no allocation; one with `$ref`, `pattern`, `oneOf` and
    /// the like is walked by the `jsonschema` crate. It may refer to its own parts only.
    pub fn accepts(mut self, schema: impl Into<Value>) -> Self {
        self.definition.input_schema = schema.into();
        self.definition.is_schema_derived = false;
        self.has_schema = true;
        self
    }

    /// Promises structured results of type `T`: its schema becomes the `outputSchema`, told to
    /// clients from 2025-06-18 on (until 2025-11-25 only where `T` is an object). What the handler
    /// then gives is held against it; see [`ToolBuilder::trust_results`].
    pub fn returns<T: JsonSchema>(self) -> Self {
        self.returns_schema(schema::of_results::<T>())
    }

    /// [`ToolBuilder::returns`] with a JSON Schema.
    pub fn returns_schema(mut self, schema: impl Into<Value>) -> Self {
        self.definition.output_schema = Some(schema.into());
        self
    }

    /// Sends structured results as they are. Without it each one is held against the
    /// `outputSchema`, and one that breaks the promise is an internal error (-32603) instead of an
    /// answer that clients reject: at the cost of reading the result once more, with allocations.
    /// Debug builds look at every result all the same.
    pub const fn trust_results(mut self) -> Self {
        self.is_trusted = true;
        self
    }

    /// Whether a call of it may or must become a task. Default [`TaskSupport::Forbidden`].
    pub const fn task(mut self, support: TaskSupport) -> Self {
        self.definition.task = support;
        self
    }

    /// Lets its handler decide when a call becomes a task: it begins as an ordinary call, may ask
    /// its client as one, and becomes a task where the handler awaits [`Live::begin_task`]. The
    /// client then gets the name of the task, and the handler goes on. Without this a call that is
    /// to be a task is one before its handler runs. For local handlers; with others it means
    /// nothing. Cost: the call counts as one in flight, with its deadline, until it is a task.
    ///
    /// ```
    /// use corelane::protocol::message::{Elicitation, Field, Form};
    /// use corelane::service::{Live, NoArguments, Outcome, TaskSupport, Tool};
    ///
    /// let tool = Tool::new("publish").task(TaskSupport::Optional).asks_before_task().local(
    ///     |_: NoArguments, live: Live| async move {
    ///         let form = Form::new().field(Field::text("title").required());
    ///         live.elicit("title", Elicitation::form("Which title?", form)).await?;
    ///         live.begin_task().await?;
    ///         Ok(Outcome::text("published"))
    ///     },
    /// );
    /// # drop(tool);
    /// ```
    ///
    /// Source: Tasks extension 2026-07-28 (SEP-2663), "Task Creation": what must be asked before
    /// there is a task is asked by ordinary rounds.
    pub const fn asks_before_task(mut self) -> Self {
        self.definition.asks_before_task = true;
        self
    }

    /// What a client must have declared to call it. A modern client that did not is told so
    /// (-32021); an earlier one gets a failed result.
    pub const fn needs(mut self, capabilities: ClientCapabilities) -> Self {
        self.definition.needs = self.definition.needs.with(capabilities);
        self
    }

    /// Ends with a handler that runs to completion on the shard and writes its answer as it goes.
    /// Arguments arrive as a `T`; those that are none fail before the handler runs.
    ///
    /// ```
    /// use corelane::service::Tool;
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Repeat {
    ///     /// What to say.
    ///     word: String,
    ///     /// How often.
    ///     times: u8,
    /// }
    ///
    /// let tool = Tool::new("repeat").describe("Says a word several times.").inline(
    ///     |Repeat { word, times }, answer| {
    ///         answer.text(&word.repeat(times.into()));
    ///         Ok(())
    ///     },
    /// );
    /// # drop(tool);
    /// ```
    pub fn inline<T, F>(self, handler: F) -> Tool
    where
        T: DeserializeOwned + JsonSchema,
        F: Fn(T, &mut Answer<'_>) -> Result<(), HandlerError> + Send + Sync + 'static,
    {
        self.typed::<T>().with(Handler::inline(handler))
    }

    /// Ends with a handler that runs to completion on the shard and reads its arguments where they
    /// lie in the message: the way without an allocation. `schema` is what clients are told.
    ///
    /// ```
    /// use corelane::service::Tool;
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
    /// let tool = Tool::new("shout").inline_raw(schema, |call, answer| {
    ///     let Shout { word } = call.decode()?;
    ///     answer.text(word);
    ///     answer.text("!");
    ///     Ok(())
    /// });
    /// # drop(tool);
    /// ```
    pub fn inline_raw<F>(self, schema: impl Into<Value>, handler: F) -> Tool
    where
        F: Fn(&Call<'_>, &mut Answer<'_>) -> Result<(), HandlerError> + Send + Sync + 'static,
    {
        self.accepts(schema).with(Handler::inline_raw(handler))
    }

    /// Ends with a future that runs on the shard that received the call. It need not be `Send`; it
    /// may wait, tell progress and hear of cancellation through its [`Live`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use corelane::service::{Live, NoArguments, Outcome, Tool};
    ///
    /// let tool = Tool::new("nap").local(|_: NoArguments, live: Live| async move {
    ///     live.sleep(Duration::from_secs(1)).await?;
    ///     Ok(Outcome::text("slept well"))
    /// });
    /// # drop(tool);
    /// ```
    pub fn local<T, F, R>(self, handler: F) -> Tool
    where
        T: DeserializeOwned + JsonSchema + 'static,
        F: Fn(T, Live) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Outcome, HandlerError>> + 'static,
    {
        self.typed::<T>().with(Handler::local(handler))
    }

    /// Ends with a closure that runs on the thread pool: for what blocks or computes for long. It
    /// tells progress and asks for cancellation through its [`Worker`].
    ///
    /// ```
    /// use corelane::service::{Outcome, Tool, HandlerError, Worker};
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Read {
    ///     path: std::path::PathBuf,
    /// }
    ///
    /// let tool = Tool::new("read").blocking(|Read { path }, _: Worker| {
    ///     std::fs::read_to_string(path).map(Outcome::text).map_err(HandlerError::failed)
    /// });
    /// # drop(tool);
    /// ```
    pub fn blocking<T, F>(self, handler: F) -> Tool
    where
        T: DeserializeOwned + JsonSchema + Send + 'static,
        F: Fn(T, Worker) -> Result<Outcome, HandlerError> + Send + Sync + 'static,
    {
        self.typed::<T>().with(Handler::blocking(handler))
    }

    /// Takes the schema of `T` where no other was given.
    fn typed<T: JsonSchema>(mut self) -> Self {
        if !self.has_schema {
            self = self.accepts(schema::of_arguments::<T>());
            self.definition.is_schema_derived = true;
        }
        self
    }

    fn with(self, handler: Handler) -> Tool {
        Tool {
            definition: self.definition,
            handler,
            check: ArgumentCheck::NOTHING,
            promise: Promise::new(self.is_trusted),
            headers: Box::default(),
        }
    }
}
