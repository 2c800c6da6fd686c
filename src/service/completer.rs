//! Completers: functions that complete an argument of a prompt or a variable of a resource template
//! (`completion/complete`). They run inline on the shard; a panic becomes an internal error
//! (-32603) of that request.

use std::borrow::Cow;
use std::fmt;

use crate::protocol::params::StringMap;
use crate::service::handler::catch_panic;
use crate::service::results::{Completion, HandlerError};

/// The argument to complete: its value so far and the other arguments.
#[derive(Clone, Copy, Debug)]
pub struct CompletionContext<'a> {
    value: &'a str,
    arguments: StringMap<'a>,
}

impl<'a> CompletionContext<'a> {
    /// A value to complete, with the arguments already filled in.
    pub(in crate::service) const fn new(value: &'a str, arguments: StringMap<'a>) -> Self {
        Self { value, arguments }
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

/// Completion function of one argument.
pub(in crate::service) struct Completer(Box<CompleterFn>);

type CompleterFn = dyn Fn(&CompletionContext<'_>) -> Completion + Send + Sync;

impl Completer {
    pub(in crate::service) fn new(
        function: impl Fn(&CompletionContext<'_>) -> Completion + Send + Sync + 'static,
    ) -> Self {
        Self(Box::new(function))
    }

    /// Runs the function; a panic becomes an error.
    pub(in crate::service) fn complete(
        &self,
        ctx: &CompletionContext<'_>,
    ) -> Result<Completion, HandlerError> {
        catch_panic(|| Ok((self.0)(ctx)))
    }
}

impl fmt::Debug for Completer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Completer")
    }
}
