//! Failures of handlers that clients do not see.
//!
//! The server logs the failure with a number, and the client receives that number in its place, so
//! that an operator finds the cause of what a user reports.

use std::error::Error as StdError;
use std::fmt::{self, Write};
use std::sync::Arc;

use corelane_protocol::error::Error;

use crate::service::results::HandlerError;

/// A failure inside a handler: an error of another library that `?` has converted, or a panic.
///
/// The client receives `tool failed (request 42)`; the log has the error with its sources under the
/// same number. The option `service.expose_errors` sends the text to clients too.
#[derive(Clone, Debug)]
pub struct InternalError {
    cause: Cause,
    handler: Option<HandlerName>,
}

#[derive(Clone, Debug)]
enum Cause {
    Error(Arc<dyn StdError + Send + Sync>),
    Panic(Arc<str>),
}

/// The entry of the catalog whose handler has failed.
#[derive(Clone, Debug)]
struct HandlerName {
    /// `tool`, `prompt`, `resource` or `resource template`.
    kind: &'static str,
    /// Its name, URI or URI template.
    name: Arc<str>,
}

impl InternalError {
    pub(super) fn new(error: Box<dyn StdError + Send + Sync>) -> Self {
        Self { cause: Cause::Error(error.into()), handler: None }
    }

    /// A panic with `message`.
    pub(super) fn panicked(message: &str) -> Self {
        Self { cause: Cause::Panic(message.into()), handler: None }
    }

    /// Sets the entry of the catalog whose handler has failed, unless it is known.
    #[must_use]
    pub(super) fn in_handler(mut self, kind: &'static str, name: &Arc<str>) -> Self {
        self.handler.get_or_insert_with(|| HandlerName { kind, name: Arc::clone(name) });
        self
    }

    /// Whether the handler panicked.
    pub const fn is_panic(&self) -> bool {
        matches!(self.cause, Cause::Panic(_))
    }

    /// Kind of the entry whose handler has failed: `tool`, `prompt`, `resource` or `resource
    /// template`.
    pub fn handler_kind(&self) -> &'static str {
        self.handler.as_ref().map_or("handler", |handler| handler.kind)
    }

    /// Name, URI or URI template of that entry. Empty if unknown.
    pub fn handler_name(&self) -> &str {
        self.handler.as_ref().map_or("", |handler| &handler.name)
    }

    /// The error that the handler returned, or `None` after a panic.
    pub fn error(&self) -> Option<&(dyn StdError + Send + Sync + 'static)> {
        match &self.cause {
            Cause::Error(error) => Some(&**error),
            Cause::Panic(_) => None,
        }
    }

    /// What the client receives: `number` in place of the text, unless `exposes_text`.
    pub fn to_response(&self, number: u64, exposes_text: bool) -> HandlerError {
        let mut message = match &self.cause {
            Cause::Panic(text) if needs_tokio(text) => format!("internal error: {NEEDS_TOKIO}"),
            Cause::Panic(_) => String::from("internal error: the handler panicked"),
            Cause::Error(_) => format!("{} failed", self.handler_kind()),
        };
        write!(message, " (request {number})").unwrap_or_default();
        if exposes_text {
            write!(message, ": {self}").unwrap_or_default();
        }
        match &self.cause {
            Cause::Panic(_) => Error::handler_panicked(message).into(),
            Cause::Error(_) if self.handler_kind() == "tool" => HandlerError::Tool(message.into()),
            Cause::Error(_) => Error::internal(message).into(),
        }
    }

    /// Whether the error or one of its sources is an `E`.
    pub(super) fn has_source<E: StdError + 'static>(&self) -> bool {
        self.chain().any(<dyn StdError>::is::<E>)
    }

    /// The error and its sources.
    fn chain(&self) -> impl Iterator<Item = &(dyn StdError + 'static)> {
        let mut next = self.error().map(|error| error as &(dyn StdError + 'static));
        std::iter::from_fn(move || {
            let error = next?;
            next = error.source();
            Some(error)
        })
    }

    pub(super) fn heap_bytes(&self) -> usize {
        match &self.cause {
            Cause::Panic(text) => text.len(),
            // The size of a foreign error is unknown; it is not the client's.
            Cause::Error(_) => 0,
        }
    }
}

impl fmt::Display for InternalError {
    /// Writes the error and its sources, separated by colons.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Cause::Panic(text) = &self.cause {
            return formatter.write_str(text);
        }
        let mut written = String::new();
        for (index, error) in self.chain().enumerate() {
            let text = error.to_string();
            // Some errors repeat the text of their source.
            if index == 0 || !written.ends_with(&text) {
                write!(formatter, "{}{text}", if index == 0 { "" } else { ": " })?;
            }
            written = text;
        }
        Ok(())
    }
}

/// Whether a panic message is that of tokio outside of its runtime.
fn needs_tokio(message: &str) -> bool {
    message.contains("Tokio 1.x")
}

const NEEDS_TOKIO: &str =
    "the handler needs a tokio runtime, which only handlers of the kind `tokio` have";

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn failed(error: impl Into<Box<dyn StdError + Send + Sync>>) -> InternalError {
        InternalError::new(error.into()).in_handler("tool", &"read".into())
    }

    #[test]
    fn internal_error_hides_text_unless_exposed() {
        let error = failed(io::Error::other("no such table: users"));
        let HandlerError::Tool(text) = error.to_response(42, false) else { panic!("{error}") };
        assert_eq!(text, "tool failed (request 42)");
        let HandlerError::Tool(text) = error.to_response(42, true) else { panic!("{error}") };
        assert_eq!(text, "tool failed (request 42): no such table: users");
    }

    #[test]
    fn panic_outside_tokio_names_the_handler_kind() {
        let message = "there is no reactor running, must be called from the context of a Tokio 1.x \
                       runtime";
        let HandlerError::Rpc(error) = InternalError::panicked(message).to_response(7, false)
        else {
            panic!("a panic is a JSON-RPC error");
        };
        assert_eq!(error.code, -32603);
        assert!(error.message.contains("`tokio`") && error.message.contains("(request 7)"));
    }

    #[test]
    fn error_chain_lists_every_source_once() {
        #[derive(Debug)]
        struct Outer(io::Error);
        impl fmt::Display for Outer {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("query failed")
            }
        }
        impl StdError for Outer {
            fn source(&self) -> Option<&(dyn StdError + 'static)> {
                Some(&self.0)
            }
        }
        let error = failed(Outer(io::Error::other("connection refused")));
        assert_eq!(error.to_string(), "query failed: connection refused");
    }
}
