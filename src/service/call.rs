//! One `tools/call`, and what comes of it or of any other request that a handler serves.
//!
//! What it keeps true: a call borrows everything from the parsed message, so that reading one
//! allocates nothing; a key of `params` that the protocol itself reads occurs at most once. It does
//! not read `_meta`, which belongs to the eras.

use std::pin::Pin;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::value::{Error as Nothing, MapDeserializer};

use crate::protocol::era::ClientCapabilities;
use crate::protocol::error::Error;
use crate::protocol::json::{Kind, Value};
use crate::protocol::params::CallParams;
use crate::protocol::revision::Revision;
use crate::service::live::Live;
use crate::service::outcome::{HandlerError, Yield};
use crate::service::worker::Worker;

/// A request to run one tool.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    name: &'a str,
    arguments: Option<Value<'a>>,
    revision: Revision,
    capabilities: ClientCapabilities,
}

impl<'a> Call<'a> {
    /// A call of the tool `name`. `None` stands for no arguments and is the same as an empty
    /// object; what is no object fails in the handler.
    pub const fn new(revision: Revision, name: &'a str, arguments: Option<Value<'a>>) -> Self {
        Self { name, arguments, revision, capabilities: ClientCapabilities::NONE }
    }

    /// The same call, from a client that declared `capabilities`; from one that declared none
    /// otherwise.
    #[must_use]
    pub const fn from_client(self, capabilities: ClientCapabilities) -> Self {
        Self { capabilities, ..self }
    }

    /// Reads the `params` of a `tools/call`: `name`, and `arguments` where there are any (`null` is
    /// taken as none, because clients written in Go send it for an empty map).
    ///
    /// Fails with invalid params (-32602) where `params` is missing or not an object, where `name`
    /// is missing, twice or not a string, and where `arguments` is there twice or not an object.
    ///
    /// Source: 2026-07-28, server/tools, "Calling Tools"; the same in all revisions.
    pub fn read(revision: Revision, params: Option<Value<'a>>) -> Result<Self, Error> {
        Self::from_params(revision, &CallParams::read(params))
    }

    /// Reads params that were looked through already, like [`Call::read`].
    #[inline]
    pub fn from_params(revision: Revision, params: &CallParams<'a>) -> Result<Self, Error> {
        if !params.is_object() {
            return Err(Error::invalid_params("tools/call needs params with the tool's name"));
        }
        let [name, arguments] = params.call()?;
        let name = name
            .and_then(Value::as_str)
            .ok_or_else(|| Error::invalid_params("params.name must be a string"))?;
        let arguments = arguments.filter(|arguments| !arguments.is_null());
        if arguments.is_some_and(|arguments| arguments.kind() != Kind::Object) {
            return Err(Error::invalid_params("params.arguments must be an object"));
        }
        Ok(Self::new(revision, name, arguments))
    }

    /// The tool that is asked for.
    pub const fn name(&self) -> &'a str {
        self.name
    }

    /// The revision that the caller speaks.
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// What the caller declared that it can do.
    pub const fn capabilities(&self) -> ClientCapabilities {
        self.capabilities
    }

    /// The arguments as they were sent, an object; `None` where there are none.
    pub const fn arguments(&self) -> Option<Value<'a>> {
        self.arguments
    }

    /// The argument called `key`, the last one where it was sent more than once.
    #[inline]
    pub fn argument(&self, key: &str) -> Option<Value<'a>> {
        self.arguments.and_then(Value::as_object).and_then(|object| object.find(key))
    }

    /// Reads the arguments into `T`, which may borrow its strings from the message; missing
    /// arguments read as an empty object, a repeated key is refused. Allocates only what `T` does.
    ///
    /// Fails with [`HandlerError::Arguments`].
    pub fn decode<T: Deserialize<'a>>(&self) -> Result<T, HandlerError> {
        if let Some(arguments) = self.arguments {
            return T::deserialize(arguments).map_err(HandlerError::arguments);
        }
        let nothing = MapDeserializer::<_, Nothing>::new(std::iter::empty::<(&str, &str)>());
        T::deserialize(nothing).map_err(HandlerError::arguments)
    }
}

/// The arguments of a tool that takes none. Refuses a call that brings some.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoArguments {}

/// What comes of a call at once.
pub enum Reply {
    /// The answer is written; it needs closing and sending.
    Ready {
        /// It says that the tool failed (`isError`).
        is_failed: bool,
    },
    /// The call failed with a JSON-RPC error; what stands in the answer is void.
    Failed(Error),
    /// A future has to run on this shard; the answer comes later.
    Local(LocalWork),
    /// A closure has to run on the thread pool; the answer comes later.
    Blocking(BlockingWork),
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ready { is_failed } => {
                formatter.debug_struct("Ready").field("is_failed", is_failed).finish()
            }
            Self::Failed(error) => formatter.debug_tuple("Failed").field(error).finish(),
            Self::Local(_) => formatter.write_str("Local(..)"),
            Self::Blocking(_) => formatter.write_str("Blocking(..)"),
        }
    }
}

/// A local handler with its arguments, waiting for the shard to run it. A panic inside becomes an
/// internal error, never the shard's.
pub type LocalWork = Box<dyn FnOnce(Live) -> LocalFuture>;

/// A local handler at work.
pub type LocalFuture = Pin<Box<dyn Future<Output = Result<Yield, HandlerError>>>>;

/// A blocking handler with its arguments, waiting for a thread. A panic inside becomes an internal
/// error, never the thread's.
pub type BlockingWork = Box<dyn FnOnce(Worker) -> Result<Yield, HandlerError> + Send>;
