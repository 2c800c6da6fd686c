//! The context of an inline handler, and what it sends before its result: progress and log
//! messages.
//!
//! A handler that sends none writes its result in place. The result of one that does is taken from
//! the output and completed by a local handler, behind the messages: where notifications go,
//! whether an HTTP response becomes an event stream, and the order of all this are those of local
//! handlers.

use std::cell::{Cell, OnceCell};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use corelane_base::principal::Principal;
use corelane_protocol::eras::LoggingLevel;
use http::Extensions;
use serde::Serialize;

use crate::service::context::{
    ClientImplementation, ClientInfo, RequestContext, RequestView, typed_shard_state,
};
use crate::service::results::HandlerError;

/// Context of an inline handler's request. Reads the message in place: what the handler does not
/// use costs nothing.
///
/// An inline handler runs to completion before its shard handles anything else. Therefore it cannot
/// wait for the client (elicitation, sampling, roots), and it cannot be cancelled; handlers of the
/// other kinds can.
///
/// `S` is the state of the shard; see [`ToolBuilder::state`](crate::service::ToolBuilder::state).
pub struct InlineContext<'a, S = ()> {
    request: RequestView<'a>,
    events: Cell<Option<Box<InlineEvents>>>,
    extensions: OnceCell<Option<Arc<Extensions>>>,
    state: PhantomData<fn() -> S>,
}

impl<'a, S: 'static> InlineContext<'a, S> {
    #[inline]
    pub(in crate::service) const fn new(request: RequestView<'a>) -> Self {
        Self { request, events: Cell::new(None), extensions: OnceCell::new(), state: PhantomData }
    }

    /// The request: its id, headers, `_meta` and what is known of its connection.
    pub const fn request(&self) -> RequestView<'a> {
        self.request
    }

    /// Revision and capabilities of the client.
    pub fn client(&self) -> ClientInfo {
        self.request.client()
    }

    /// Name and version of the client program, if it has sent them.
    pub fn client_implementation(&self) -> Option<ClientImplementation<'a>> {
        self.request.client_implementation()
    }

    /// The authenticated caller; `None` without authentication, and of a caller without a token.
    pub fn principal(&self) -> Option<&'a Principal> {
        self.request.principal()
    }

    /// The value of type `T` that the host has attached to the request; see
    /// [`RequestInfo::extension`](crate::service::RequestInfo::extension). Cost: one lock for all
    /// extensions that the handler reads.
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.extensions.get_or_init(|| self.request.extensions()).as_ref()?.get()
    }

    /// The state of the shard; see [`ToolBuilder::state`](crate::service::ToolBuilder::state).
    pub fn state(&self) -> &'a S {
        typed_shard_state(self.request.state())
    }

    /// Sends `notifications/progress` if the request has a progress token; otherwise does nothing.
    /// `progress` must increase with every call. The client receives it when the handler has ended,
    /// before the result.
    ///
    /// Cost: nothing without a token. With one the result is completed as that of a local handler:
    /// it is copied, and the call counts as a request in flight. Where the server may run the tool
    /// as a task ([`ToolBuilder::task_support`](crate::service::ToolBuilder::task_support)), the
    /// call becomes one.
    ///
    /// Source: MCP 2026-07-28, basic/patterns/progress.
    pub fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        if self.request.wants_progress() {
            self.emit(|events| events.push_progress(progress, total, message));
        }
    }

    /// Sends a log message if the client enabled `level`; see
    /// [`RequestContext::log`](crate::service::RequestContext::log). Cost: nothing if it did not,
    /// otherwise that of [`InlineContext::progress`].
    pub fn log(&self, level: LoggingLevel, logger: Option<&str>, data: impl Serialize) {
        if self.request.accepts_log(level) {
            let data = serde_json::to_value(data).unwrap_or_else(|error| error.to_string().into());
            self.emit(|events| events.push_log(level, logger, data));
        }
    }

    #[cold]
    fn emit(&self, push: impl FnOnce(&mut InlineEvents)) {
        let mut events = self.events.take().unwrap_or_default();
        push(&mut events);
        self.events.set(Some(events));
    }

    /// Ends the handler with `result`.
    #[inline]
    pub(in crate::service) fn end(self, result: Result<(), HandlerError>) -> Result<(), InlineEnd> {
        match self.events.into_inner() {
            None => result.map_err(InlineEnd::Failed),
            Some(events) => Err(InlineEnd::Emitted(events, result)),
        }
    }
}

impl<S> fmt::Debug for InlineContext<'_, S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("InlineContext")
            .field("request", &self.request)
            .finish_non_exhaustive()
    }
}

/// The messages of one inline handler, in order.
#[derive(Debug, Default)]
pub struct InlineEvents(Vec<InlineEvent>);

#[derive(Debug)]
enum InlineEvent {
    Progress { progress: f64, total: Option<f64>, message: Option<Box<str>> },
    Log { level: LoggingLevel, logger: Option<Box<str>>, data: serde_json::Value },
}

impl InlineEvents {
    fn push_progress(&mut self, progress: f64, total: Option<f64>, message: Option<&str>) {
        self.0.push(InlineEvent::Progress { progress, total, message: message.map(Box::from) });
    }

    fn push_log(&mut self, level: LoggingLevel, logger: Option<&str>, data: serde_json::Value) {
        self.0.push(InlineEvent::Log { level, logger: logger.map(Box::from), data });
    }

    /// Sends the messages.
    pub fn send(self, ctx: &RequestContext) {
        for event in self.0 {
            match event {
                InlineEvent::Progress { progress, total, message } => {
                    ctx.progress(progress, total, message.as_deref());
                }
                InlineEvent::Log { level, logger, data } => {
                    ctx.log(level, logger.as_deref(), data);
                }
            }
        }
    }
}

/// How an inline handler ends, unless its result is complete where it was written.
#[derive(Debug)]
pub enum InlineEnd {
    /// It has failed.
    Failed(HandlerError),
    /// It has sent messages, which must precede its result.
    Emitted(Box<InlineEvents>, Result<(), HandlerError>),
}

impl From<HandlerError> for InlineEnd {
    fn from(error: HandlerError) -> Self {
        Self::Failed(error)
    }
}
