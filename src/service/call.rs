//! A `tools/call` request, and what dispatching a request returns.
//!
//! Reading a request borrows from the parsed message and allocates nothing. `_meta` is not read
//! here: its keys depend on the era.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use corelane_protocol::eras::ClientCapabilities;
use corelane_protocol::error::Error;
use corelane_protocol::json::{Value, ValueKind};
use corelane_protocol::params::RequestParams;
use corelane_protocol::revision::Revision;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::value::{Error as EmptyMapError, MapDeserializer};

use crate::service::context::BlockingContext;
use crate::service::context::ClientInfo;
use crate::service::context::RequestContext;
#[cfg(feature = "tokio")]
use crate::service::context::TokioContext;
use crate::service::context::request::{DetachedRequest, RequestSource, RequestView};
use crate::service::results::{HandlerError, HandlerOutput, InternalError};

/// A `tools/call` request.
#[derive(Clone, Copy)]
pub struct CallToolRequest<'a> {
    name: &'a str,
    arguments: Option<Value<'a>>,
    revision: Revision,
    capabilities: ClientCapabilities,
    source: &'a dyn RequestSource,
}

impl<'a> CallToolRequest<'a> {
    /// A call of the tool `name`, from a client without capabilities. `arguments` of `None` means
    /// an empty object; anything but an object is rejected when the handler decodes it.
    #[doc(hidden)]
    pub const fn new(revision: Revision, name: &'a str, arguments: Option<Value<'a>>) -> Self {
        let capabilities = ClientCapabilities::NONE;
        Self { name, arguments, revision, capabilities, source: &DETACHED }
    }

    /// Sets the capabilities that the client declared. Default none.
    #[doc(hidden)]
    #[must_use]
    pub const fn with_client_capabilities(self, capabilities: ClientCapabilities) -> Self {
        Self { capabilities, ..self }
    }

    /// Parses the `params` of a `tools/call`: `name` and optional `arguments`. `null` arguments
    /// count as absent, because Go clients send `null` for an empty map.
    ///
    /// Fails with invalid params (-32602) if `params` is missing or not an object, if `name` is
    /// missing, repeated or not a string, if `arguments` is repeated or not an object, or if a key
    /// occurs twice in an object of the arguments, at any depth.
    ///
    /// Source: MCP 2026-07-28, server/tools, "Calling Tools"; the same in all revisions.
    #[doc(hidden)]
    pub fn read(revision: Revision, params: Option<Value<'a>>) -> Result<Self, Error> {
        Self::from_params(revision, &RequestParams::read(params))
    }

    /// Like [`CallToolRequest::read`], from params whose members were already located.
    #[doc(hidden)]
    #[inline]
    pub fn from_params(revision: Revision, params: &RequestParams<'a>) -> Result<Self, Error> {
        let client = ClientInfo { revision, capabilities: ClientCapabilities::NONE };
        Self::from_source(client, params, &DETACHED)
    }

    /// Like [`CallToolRequest::from_params`], for the request that `source` describes.
    #[inline]
    pub(crate) fn from_source(
        ClientInfo { revision, capabilities }: ClientInfo,
        params: &RequestParams<'a>,
        source: &'a dyn RequestSource,
    ) -> Result<Self, Error> {
        if !params.is_object() {
            return Err(Error::invalid_params("tools/call requires params with the tool's name"));
        }
        let [name, arguments] = params.tool_call()?;
        let name = name
            .and_then(Value::as_str)
            .ok_or_else(|| Error::invalid_params("params.name must be a string"))?;
        let arguments = arguments.filter(|arguments| !arguments.is_null());
        if let Some(arguments) = arguments {
            if arguments.kind() != ValueKind::Object {
                return Err(Error::invalid_params("params.arguments must be an object"));
            }
            if let Some(key) = arguments.duplicate_key() {
                return Err(Error::duplicate_argument(key));
            }
        }
        Ok(Self { name, arguments, revision, capabilities, source })
    }

    /// The request, as the handler reads it.
    pub const fn view(&self) -> RequestView<'a> {
        RequestView::new(self.name, self.source)
    }

    /// Name of the called tool.
    pub const fn name(&self) -> &'a str {
        self.name
    }

    /// Protocol revision of the client.
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// Capabilities that the client declared.
    pub const fn capabilities(&self) -> ClientCapabilities {
        self.capabilities
    }

    /// The arguments as sent, an object; `None` if absent.
    pub const fn arguments(&self) -> Option<Value<'a>> {
        self.arguments
    }

    /// The argument `key`.
    #[inline]
    pub fn argument(&self, key: &str) -> Option<Value<'a>> {
        self.arguments.and_then(Value::as_object).and_then(|object| object.find(key))
    }

    /// Deserializes the arguments into `T`, which may borrow strings from the message. Absent
    /// arguments read as an empty object. Allocates only what `T` allocates.
    ///
    /// Fails with [`HandlerError::InvalidParams`], also for a repeated key.
    pub fn decode<T: Deserialize<'a>>(&self) -> Result<T, HandlerError> {
        if let Some(arguments) = self.arguments {
            return T::deserialize(arguments).map_err(HandlerError::invalid_params);
        }
        let empty = MapDeserializer::<_, EmptyMapError>::new(std::iter::empty::<(&str, &str)>());
        T::deserialize(empty).map_err(HandlerError::invalid_params)
    }
}

impl fmt::Debug for CallToolRequest<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("CallToolRequest")
            .field("name", &self.name)
            .field("arguments", &self.arguments)
            .field("revision", &self.revision)
            .field("capabilities", &self.capabilities)
            .finish_non_exhaustive()
    }
}

/// The source of a call that no server dispatches.
static DETACHED: DetachedRequest = DetachedRequest {
    client: ClientInfo { revision: Revision::LATEST, capabilities: ClientCapabilities::NONE },
};

/// Arguments of a tool that takes none. Rejects a call with any argument.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoArguments {}

/// Immediate result of dispatching a request.
pub enum Dispatch {
    /// The result is written; the caller closes and sends the response.
    Ready {
        /// Whether the result has `isError: true`.
        is_error: bool,
    },
    /// A JSON-RPC error. What was written is void and has to be discarded.
    Failed(Error),
    /// A failure to log; the response is that of [`InternalError::to_response`]. What was written
    /// is void and has to be discarded.
    Internal(Box<InternalError>),
    /// A future to run on this shard; it completes the request later.
    Local(LocalWork),
    /// A closure to run on the thread pool; it completes the request later.
    Blocking(BlockingWork),
    /// A future to run on a tokio runtime; it completes the request later.
    #[cfg(feature = "tokio")]
    Tokio(TokioWork),
}

impl Dispatch {
    /// The result of a prompt, a resource or a completion whose handler has failed.
    #[cold]
    pub(super) fn protocol_error(error: HandlerError, is_modern: bool) -> Self {
        match error.into_rpc_error(is_modern) {
            Ok(error) => Self::Failed(error),
            Err(error) => Self::Internal(error),
        }
    }
}

impl fmt::Debug for Dispatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready { is_error } => {
                formatter.debug_struct("Ready").field("is_error", is_error).finish()
            }
            Self::Failed(error) => formatter.debug_tuple("Failed").field(error).finish(),
            Self::Internal(error) => formatter.debug_tuple("Internal").field(error).finish(),
            Self::Local(_) => formatter.write_str("Local(..)"),
            Self::Blocking(_) => formatter.write_str("Blocking(..)"),
            #[cfg(feature = "tokio")]
            Self::Tokio(_) => formatter.write_str("Tokio(..)"),
        }
    }
}

/// A local handler with its arguments, to start on the shard. A panic inside becomes an internal
/// error (-32603) of the request.
pub type LocalWork = Box<dyn FnOnce(RequestContext) -> LocalHandlerFuture>;

/// Future of a running local handler.
pub type LocalHandlerFuture = Pin<Box<dyn Future<Output = Result<HandlerOutput, HandlerError>>>>;

/// A blocking handler with its arguments, to run on the thread pool. A panic inside becomes an
/// internal error (-32603) of the request.
pub struct BlockingWork {
    /// Runs the handler.
    pub run: Box<dyn FnOnce(BlockingContext) -> Result<HandlerOutput, HandlerError> + Send>,
    /// How large its result can be.
    pub result_size: ResultSize,
}

/// How large the result of a blocking handler can be.
#[derive(Clone, Debug)]
pub enum ResultSize {
    /// At most this number of bytes.
    Declared(usize),
    /// Not known. The results of this handler may have similar sizes.
    Unknown(HandlerIdentity),
}

/// What is the same for all calls of a handler, and differs from that of other handlers that exist.
pub type HandlerIdentity = Arc<()>;

/// A tokio handler with its arguments. A panic inside becomes an internal error (-32603) of the
/// request.
#[cfg(feature = "tokio")]
pub type TokioWork = Box<dyn FnOnce(TokioContext) -> TokioFuture + Send>;

/// Future of a running tokio handler.
#[cfg(feature = "tokio")]
pub type TokioFuture = Pin<Box<dyn Future<Output = Result<HandlerOutput, HandlerError>> + Send>>;
