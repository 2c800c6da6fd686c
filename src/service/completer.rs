//! Completers: functions that complete an argument of a prompt or a variable of a resource template
//! (`completion/complete`). They run inline on the shard; a panic becomes an internal error
//! (-32603) of that request.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

#[cfg(feature = "gateway")]
use corelane_protocol::params::CompleteRequestParams;
use corelane_protocol::params::StringMap;

#[cfg(feature = "gateway")]
use crate::service::call::LocalWork;
#[cfg(feature = "gateway")]
use crate::service::context::RequestContext;
use crate::service::context::{
    ClientImplementation, ClientInfo, RequestView, StateType, typed_shard_state,
};
use crate::service::handler::catch_panic;
#[cfg(feature = "gateway")]
use crate::service::handler::{local_work, protocol_error};
#[cfg(feature = "gateway")]
use crate::service::results::HandlerOutput;
use crate::service::results::{Completion, HandlerError};

/// The argument to complete: its value so far and the other arguments.
///
/// `S` is the state of the shard; see [`ToolBuilder::state`](crate::service::ToolBuilder::state).
pub struct CompletionContext<'a, S = ()> {
    value: &'a str,
    arguments: StringMap<'a>,
    request: RequestView<'a>,
    state: PhantomData<fn() -> S>,
}

impl<'a> CompletionContext<'a> {
    /// A value to complete, with the arguments already filled in.
    pub(super) const fn new(
        value: &'a str,
        arguments: StringMap<'a>,
        request: RequestView<'a>,
    ) -> Self {
        Self { value, arguments, request, state: PhantomData }
    }

    const fn with_state<S>(&self) -> CompletionContext<'a, S> {
        let Self { value, arguments, request, .. } = *self;
        CompletionContext { value, arguments, request, state: PhantomData }
    }
}

impl<'a, S: 'static> CompletionContext<'a, S> {
    /// The request: its id, headers, `_meta` and what is known of its connection. Its name is that
    /// of the prompt, or the URI template.
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

    /// The state of the shard; see [`ToolBuilder::state`](crate::service::ToolBuilder::state).
    pub fn state(&self) -> &'a S {
        typed_shard_state(self.request.state())
    }

    /// The value typed so far; may be empty.
    pub const fn value(&self) -> &'a str {
        self.value
    }

    /// The value of another argument if the client sent it (`context`, since 2025-06-18).
    /// Cost: one comparison per argument of the request.
    pub fn argument(&self, name: &str) -> Option<&'a str> {
        self.arguments.find(name)
    }

    /// Completes with those of `values` that start with [`CompletionContext::value`], ignoring
    /// ASCII case.
    pub fn complete_from<T>(&self, values: impl IntoIterator<Item = T>) -> Completion
    where
        T: Into<Cow<'static, str>>,
    {
        Completion::with_prefix(values, self.value)
    }
}

impl<S> fmt::Debug for CompletionContext<'_, S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("CompletionContext")
            .field("value", &self.value)
            .field("arguments", &self.arguments)
            .finish_non_exhaustive()
    }
}

/// Completion function of one argument.
pub(super) struct Completer {
    complete: Box<CompleterFn>,
    /// The shard state that it reads.
    pub(super) required_state: Option<StateType>,
}

type CompleterFn = dyn Fn(&CompletionContext<'_>) -> Completion + Send + Sync;

impl Completer {
    pub(super) fn new<S: 'static>(
        function: impl Fn(&CompletionContext<'_, S>) -> Completion + Send + Sync + 'static,
        required_state: Option<StateType>,
    ) -> Self {
        let complete = move |ctx: &CompletionContext<'_>| function(&ctx.with_state());
        Self { complete: Box::new(complete), required_state }
    }

    /// Runs the function; a panic becomes an error.
    pub(super) fn complete(&self, ctx: &CompletionContext<'_>) -> Result<Completion, HandlerError> {
        catch_panic(|| Ok((self.complete)(ctx)))
    }
}

/// Passes the completion of every argument on to another server.
#[cfg(feature = "gateway")]
pub(super) struct CompletionForwarder(Box<ForwarderFn>);

#[cfg(feature = "gateway")]
type ForwarderFn = dyn Fn(ForwardedCompletion) -> LocalWork + Send + Sync;

/// An argument to complete, for another server.
#[cfg(feature = "gateway")]
#[derive(Debug)]
pub struct ForwardedCompletion {
    /// Name of the argument.
    pub argument: Box<str>,
    /// The value typed so far.
    pub value: Box<str>,
    /// Names and values of the other arguments.
    pub others: Vec<(Box<str>, Box<str>)>,
}

#[cfg(feature = "gateway")]
impl CompletionForwarder {
    pub(super) fn new<F, R>(function: F) -> Self
    where
        F: Fn(ForwardedCompletion, RequestContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<HandlerOutput, HandlerError>> + 'static,
    {
        let function = std::sync::Arc::new(function);
        Self(Box::new(move |completion| {
            let function = std::sync::Arc::clone(&function);
            local_work(
                move |ctx| {
                    let is_modern = ctx.client().revision.is_modern();
                    let running = function(completion, ctx);
                    async move {
                        let failed = |error| protocol_error(error, is_modern, "completion", "");
                        running.await.map_err(failed)
                    }
                },
                |output| output,
            )
        }))
    }

    /// The work of a request.
    pub(super) fn start(&self, request: &CompleteRequestParams<'_>) -> LocalWork {
        let others = request.context_arguments.iter();
        (self.0)(ForwardedCompletion {
            argument: request.argument_name.into(),
            value: request.argument_value.into(),
            others: others.map(|(name, value)| (name.into(), value.into())).collect(),
        })
    }
}

#[cfg(feature = "gateway")]
impl fmt::Debug for CompletionForwarder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("CompletionForwarder")
    }
}

impl fmt::Debug for Completer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Completer")
    }
}
