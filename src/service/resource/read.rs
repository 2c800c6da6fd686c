//! What a resource is asked for.

use std::borrow::Cow;
use std::sync::Arc;

use crate::protocol::error::Error;
use crate::protocol::revision::Revision;
use crate::service::resource::pattern::{Pattern, Spans};
use crate::service::resource::{file, percent};

/// One `resources/read`: which URI, and what its template finds in it.
///
/// The URI is as the client wrote it. Whoever turns a part of it into a path, a query or a command
/// takes care of what it may hold; for `file:` URIs [`Read::path`] has done that.
#[derive(Clone, Debug)]
pub struct Read<'a> {
    uri: Cow<'a, str>,
    path: Option<Cow<'a, str>>,
    variables: Option<(Arc<Pattern>, Spans)>,
    revision: Revision,
}

impl<'a> Read<'a> {
    /// Reads `uri`. Fails with invalid params (-32602) where it is a `file:` URI that is not safe
    /// to look at.
    pub(in crate::service) fn new(uri: &'a str, revision: Revision) -> Result<Self, Error> {
        Ok(Self { uri: Cow::Borrowed(uri), path: file::path(uri)?, variables: None, revision })
    }

    /// The URI as it was asked for.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The path of a `file:` URI, decoded: absolute, without `.` and `..`, NUL, control characters
    /// and hidden separators. `None` for other schemes. It may still lead through symbolic links.
    pub fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    /// The value of a variable of the template, decoded; empty where the URI leaves it out. `None`
    /// where the template has no such variable.
    pub fn variable(&self, name: &str) -> Option<Cow<'_, str>> {
        let (pattern, spans) = self.variables.as_ref()?;
        let value = spans.value(pattern.place(name)?, &self.uri);
        // A URI that does not decode was refused when it was matched.
        Some(percent::decode(value).unwrap_or_default())
    }

    /// The revision that the caller speaks.
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// The same request, to outlive the message.
    pub fn into_owned(self) -> Read<'static> {
        Read {
            uri: Cow::Owned(self.uri.into_owned()),
            path: self.path.map(|path| Cow::Owned(path.into_owned())),
            variables: self.variables,
            revision: self.revision,
        }
    }

    /// Reads the URI as one of `pattern`; `false` where it is none, or a value does not decode.
    pub(super) fn fill(&mut self, pattern: &Arc<Pattern>) -> bool {
        let Some(spans) = pattern.matches(&self.uri) else { return false };
        let count = pattern.names().count();
        if (0..count).any(|place| percent::decode(spans.value(place, &self.uri)).is_none()) {
            return false;
        }
        self.variables = Some((Arc::clone(pattern), spans));
        true
    }
}
