//! Completers: functions that say how an argument may go on.
//!
//! What it keeps true: a completer runs to completion on the shard, behind the wall; one that
//! panics is an internal error of that request.

use std::borrow::Cow;
use std::fmt;

use crate::protocol::params::Texts;
use crate::service::handler::wall;
use crate::service::outcome::{Completion, HandlerError};

/// What is being typed.
#[derive(Clone, Copy, Debug)]
pub struct Completing<'a> {
    value: &'a str,
    context: Texts<'a>,
}

impl<'a> Completing<'a> {
    /// A value that is being typed, beside other arguments that are filled in already.
    pub(in crate::service) const fn new(value: &'a str, context: Texts<'a>) -> Self {
        Self { value, context }
    }

    /// What was typed so far; may be empty.
    pub const fn value(&self) -> &'a str {
        self.value
    }

    /// Another argument, where it is filled in already (told by clients from 2025-06-18 on).
    pub fn argument(&self, name: &str) -> Option<&'a str> {
        self.context.find(name)
    }

    /// Those of `values` that begin with what was typed, without regard to ASCII case.
    pub fn among<T>(&self, values: impl IntoIterator<Item = T>) -> Completion
    where
        T: Into<Cow<'static, str>>,
    {
        Completion::starting(values, self.value)
    }
}

/// A function that says how one argument may go on.
pub(in crate::service) struct Completer(Box<CompleterFunction>);

type CompleterFunction = dyn Fn(&Completing<'_>) -> Completion + Send + Sync;

impl Completer {
    pub(in crate::service) fn new(
        function: impl Fn(&Completing<'_>) -> Completion + Send + Sync + 'static,
    ) -> Self {
        Self(Box::new(function))
    }

    /// Asks it.
    pub(in crate::service) fn ask(
        &self,
        completing: &Completing<'_>,
    ) -> Result<Completion, HandlerError> {
        wall(|| Ok((self.0)(completing)))
    }
}

impl fmt::Debug for Completer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Completer")
    }
}
