//! A tool: what is told about it and what runs when it is called.
//!
//! What it keeps true: a tool that exists has a name that clients can repeat, schemas that every
//! revision accepts and exactly one handler; all of it is checked once, when the tool enters a
//! catalog, so that a call checks nothing twice. It does not find tools; the catalog does.

mod schema;

mod definition;

mod handler;

use std::fmt;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use self::definition::{Annotations, Icon, IconTheme};

use self::definition::Definition;
use self::handler::Handler;
use crate::protocol::message::Answer;
use crate::protocol::revision::Revision;
use crate::service::call::{Call, Reply};
use crate::service::live::Live;
use crate::service::outcome::{HandlerError, Outcome};
use crate::service::worker::Worker;

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
        ToolBuilder { definition: Definition::new(name.into()), has_schema: false }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.definition.name
    }

    /// Runs the tool, or hands out its work.
    ///
    /// After [`Reply::Ready`], `answer` holds the whole content; after any other reply what stands
    /// in it is void and the caller takes it back. Errors of the tool itself have found their form
    /// already: in the answer, or as [`Reply::Failed`].
    pub fn call(&self, call: &Call<'_>, answer: &mut Answer<'_>) -> Reply {
        match self.handler.start(call, answer) {
            Ok(reply) => reply,
            Err(error) => match error.settle(answer) {
                Ok(()) => Reply::Ready { is_failed: true },
                Err(error) => Reply::Failed(error),
            },
        }
    }

    /// The `Tool` object of `revision`.
    pub(in crate::service) fn to_json(&self, revision: Revision) -> Value {
        self.definition.to_json(revision)
    }

    /// Checks the name and fits the schemas; `Err` says what is wrong with the tool.
    pub(in crate::service) fn fit(&mut self) -> Result<(), &'static str> {
        self.definition.fit()
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

/// A tool that still waits for its handler. What is said about a tool comes first, the handler
/// last: it ends the sentence.
#[derive(Debug)]
#[must_use = "a tool begins to exist with its handler: inline, inline_raw, local or blocking"]
pub struct ToolBuilder {
    definition: Definition,
    has_schema: bool,
}

impl ToolBuilder {
    /// A name for people, in lists and dialogs. Told to clients from 2025-03-26 on.
    pub fn title(mut self, title: impl Into<Box<str>>) -> Self {
        self.definition.title = Some(title.into());
        self
    }

    /// What the tool does, for the model that decides whether to call it.
    pub fn describe(mut self, description: impl Into<Box<str>>) -> Self {
        self.definition.description = Some(description.into());
        self
    }

    /// Hints about its effects. Told to clients from 2025-03-26 on.
    pub fn annotations(mut self, annotations: Annotations) -> Self {
        self.definition.annotations = Some(annotations);
        self
    }

    /// Adds a picture. Told to clients from 2025-11-25 on.
    pub fn icon(mut self, icon: Icon) -> Self {
        self.definition.icons.push(icon);
        self
    }

    /// Adds an entry to `_meta` of the tool, for extensions. Told to clients from 2025-06-18 on.
    /// Keys whose prefix names `modelcontextprotocol` or `mcp` are reserved.
    pub fn meta(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.definition.meta.insert(key.into(), value.into());
        self
    }

    /// The JSON Schema of its arguments, in place of the one derived from their type: for handlers
    /// that take a `serde_json::Value`, or to say more than a type can. Nothing checks arguments
    /// against it but the handler and its types.
    pub fn accepts(mut self, schema: impl Into<Value>) -> Self {
        self.definition.input_schema = schema.into();
        self.has_schema = true;
        self
    }

    /// Promises structured results of type `T`: its schema becomes the `outputSchema`, told to
    /// clients from 2025-06-18 on (until 2025-11-25 only where `T` is an object).
    pub fn returns<T: JsonSchema>(self) -> Self {
        self.returns_schema(schema::of_results::<T>())
    }

    /// [`ToolBuilder::returns`] with a JSON Schema.
    pub fn returns_schema(mut self, schema: impl Into<Value>) -> Self {
        self.definition.output_schema = Some(schema.into());
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
    fn typed<T: JsonSchema>(self) -> Self {
        if self.has_schema { self } else { self.accepts(schema::of_arguments::<T>()) }
    }

    fn with(self, handler: Handler) -> Tool {
        Tool { definition: self.definition, handler }
    }
}
