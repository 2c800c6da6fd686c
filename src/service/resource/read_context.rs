//! The context of a `resources/read` request: URI, path and template variables.

use std::borrow::Cow;
use std::sync::Arc;

use corelane_protocol::error::Error;
use corelane_protocol::revision::Revision;
use corelane_protocol::uri;

use crate::service::resource::uri_decoder;
use crate::service::resource::uri_template::{UriTemplate, VariableSpans};

/// A `resources/read` request, as a resource handler sees it.
///
/// The URI is untrusted input. Validate parts of it before using them as a path, in a query or in a
/// command; for `file:` URIs use [`ReadContext::path`], which is validated.
#[derive(Clone, Debug)]
pub struct ReadContext<'a> {
    uri: Cow<'a, str>,
    path: Option<Cow<'a, str>>,
    variables: Option<(Arc<UriTemplate>, VariableSpans)>,
    revision: Revision,
}

impl<'a> ReadContext<'a> {
    /// A request for `uri`. Fails with invalid params (-32602) if it is an unsafe `file:` URI.
    pub(in crate::service) fn new(uri: Cow<'a, str>, revision: Revision) -> Result<Self, Error> {
        let path = match &uri {
            Cow::Borrowed(uri) => uri_decoder::decode_path(uri)?,
            Cow::Owned(uri) => {
                uri_decoder::decode_path(uri)?.map(|path| Cow::Owned(path.into_owned()))
            }
        };
        Ok(Self { uri, path, variables: None, revision })
    }

    /// The URI of the resource, as it was registered. For a template it is the requested one, with
    /// the scheme in lower case, a `file:` URI as `file:///…`, and percent-encoding as RFC 3986,
    /// section 6.2.2, has it.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The decoded path of a `file:` URI: absolute, without `.` and `..` segments, NUL, control
    /// characters and encoded separators. `None` for other schemes. Symbolic links in it are not
    /// resolved.
    pub fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    /// The decoded value of a template variable; empty if the URI omits it (only possible for query
    /// parameters). `None` if the template has no such variable.
    pub fn variable(&self, name: &str) -> Option<Cow<'_, str>> {
        let (pattern, spans) = self.variables.as_ref()?;
        let value = spans.value(pattern.index_of(name)?, &self.uri);
        // URIs with values that do not decode did not match.
        Some(uri_decoder::decode(value).unwrap_or_default())
    }

    /// Protocol revision of the client.
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// Copies the request, so that it outlives the message.
    pub fn into_owned(self) -> ReadContext<'static> {
        ReadContext {
            uri: Cow::Owned(self.uri.into_owned()),
            path: self.path.map(|path| Cow::Owned(path.into_owned())),
            variables: self.variables,
            revision: self.revision,
        }
    }

    /// Matches the URI against `pattern` and sets the variables. Returns `false` if it does not
    /// match or a value does not decode.
    pub(super) fn match_template(&mut self, pattern: &Arc<UriTemplate>) -> bool {
        // The key has the length of the URI: their values have equal places.
        let key = uri::comparison_key(&self.uri);
        let Some(spans) = pattern.match_uri(&key) else { return false };
        let count = pattern.variable_names().count();
        if (0..count).any(|index| uri_decoder::decode(spans.value(index, &self.uri)).is_none()) {
            return false;
        }
        self.variables = Some((Arc::clone(pattern), spans));
        true
    }
}
