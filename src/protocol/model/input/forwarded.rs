//! A request from server to client that a gateway passes on as another server has made it.

use corelane_base::heap_bytes::{ALLOCATION_BYTES, HeapBytes};
use serde_json::{Map, Value};

use crate::eras::ClientCapabilities;
use crate::error::Error;
use crate::json::{ObjectWriter, write};
use crate::revision::Revision;

/// What a [`ForwardedRequest`] asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ForwardedKind {
    /// `elicitation/create`
    Elicit,
    /// `sampling/createMessage`
    CreateMessage,
    /// `roots/list`
    ListRoots,
}

/// A request that another server has made, with its params as they were received.
#[derive(Clone, Debug, PartialEq)]
pub struct ForwardedRequest {
    kind: ForwardedKind,
    /// Without `_meta`.
    params: Map<String, Value>,
}

impl ForwardedKind {
    /// Returns the method name.
    pub const fn method(self) -> &'static str {
        match self {
            Self::Elicit => "elicitation/create",
            Self::CreateMessage => "sampling/createMessage",
            Self::ListRoots => "roots/list",
        }
    }
}

impl ForwardedRequest {
    /// Creates a request. Its `_meta` belongs to the other connection and is left out.
    pub fn new(kind: ForwardedKind, mut params: Map<String, Value>) -> Self {
        params.remove("_meta");
        Self { kind, params }
    }

    /// Returns the method name.
    pub const fn method(&self) -> &'static str {
        self.kind.method()
    }

    fn is_url(&self) -> bool {
        self.params.get("mode").and_then(Value::as_str) == Some("url")
    }

    /// Returns whether `revision` defines the request.
    pub fn is_defined_in(&self, revision: Revision) -> bool {
        match self.kind {
            ForwardedKind::Elicit if self.is_url() => revision.dialect().elicitation_url,
            ForwardedKind::Elicit => revision.dialect().elicitation,
            ForwardedKind::CreateMessage | ForwardedKind::ListRoots => true,
        }
    }

    /// Returns the client capabilities that the request requires.
    pub fn required_capabilities(&self) -> ClientCapabilities {
        match self.kind {
            ForwardedKind::Elicit if self.is_url() => ClientCapabilities::ELICITATION_URL,
            ForwardedKind::Elicit => ClientCapabilities::ELICITATION_FORM,
            ForwardedKind::CreateMessage if self.params.contains_key("tools") => {
                ClientCapabilities::SAMPLING.union(ClientCapabilities::SAMPLING_TOOLS)
            }
            ForwardedKind::CreateMessage => ClientCapabilities::SAMPLING,
            ForwardedKind::ListRoots => ClientCapabilities::ROOTS,
        }
    }

    /// Writes the params. A URL elicitation without `elicitationId` gets one from `id` where
    /// `revision` has that member; no other revision gets it.
    pub(super) fn write(
        &self,
        object: &mut ObjectWriter<'_>,
        revision: Revision,
        write_id: impl FnOnce(&mut Vec<u8>),
    ) {
        const ID: &str = "elicitationId";
        let dialect = revision.dialect();
        let has_id = self.is_url() && dialect.elicitation_ids;
        for (key, value) in &self.params {
            let is_defined = match key.as_str() {
                ID => has_id,
                "mode" => dialect.elicitation_url,
                _ => true,
            };
            if is_defined {
                write::json(object.key(key), value);
            }
        }
        if has_id && !self.params.contains_key(ID) {
            write_id(object.key(ID));
        }
    }

    /// Reads the result.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) if the member that every result of the kind has is missing.
    pub fn read_response(&self, members: &Map<String, Value>) -> Result<Value, Error> {
        let required = match self.kind {
            ForwardedKind::Elicit => "action",
            ForwardedKind::CreateMessage => "content",
            ForwardedKind::ListRoots => "roots",
        };
        if !members.contains_key(required) {
            let text = format!("the result of {} has no {required}", self.method());
            return Err(Error::invalid_params(text));
        }
        let members = members.iter().filter(|(key, _)| *key != "_meta");
        Ok(Value::Object(members.map(|(key, value)| (key.clone(), value.clone())).collect()))
    }

    /// Discards the params.
    pub(super) fn discard_texts(&mut self) {
        self.params = Map::new();
    }
}

impl HeapBytes for ForwardedRequest {
    fn heap_bytes(&self) -> usize {
        ALLOCATION_BYTES + self.params.heap_bytes()
    }
}
