//! Elicitation: requests for input of the user.
//!
//! MCP `client/elicitation` (2025-06-18 and later); schema: `ElicitRequest`, `ElicitResult`.

use super::form::Form;
use crate::error::{Error, ErrorKind};
use crate::json::ObjectWriter;
use crate::revision::Revision;
use corelane_base::heap_bytes::HeapBytes;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// A request for user input: a form to fill in, or a URL to open.
#[derive(Clone, Debug, PartialEq)]
pub struct ElicitRequest {
    message: String,
    mode: ElicitMode,
}

#[derive(Clone, Debug, PartialEq)]
enum ElicitMode {
    Form(Form),
    Url { url: String, id: Option<String> },
}

impl ElicitRequest {
    /// Creates a form mode request. Must not be used for secrets; those require URL mode.
    pub fn form(message: impl Into<String>, form: Form) -> Self {
        Self { message: message.into(), mode: ElicitMode::Form(form) }
    }

    /// Creates a URL mode request with an absolute URI (2025-11-25 and later).
    pub fn url(message: impl Into<String>, url: impl Into<String>) -> Self {
        Self { message: message.into(), mode: ElicitMode::Url { url: url.into(), id: None } }
    }

    /// Sets the `elicitationId` of a URL mode request (2025-11-25), to which
    /// [`write_elicitation_complete`](crate::model::write_elicitation_complete) refers.
    /// The default is the id of the request, which is unique only within its connection.
    #[must_use]
    pub fn with_id(mut self, elicitation_id: impl Into<String>) -> Self {
        if let ElicitMode::Url { id, .. } = &mut self.mode {
            *id = Some(elicitation_id.into());
        }
        self
    }

    /// Returns the `elicitationId` that was set.
    pub fn id(&self) -> Option<&str> {
        match &self.mode {
            ElicitMode::Url { id, .. } => id.as_deref(),
            ElicitMode::Form(_) => None,
        }
    }

    /// Returns the message for the user.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns whether this is a URL mode request.
    pub const fn is_url(&self) -> bool {
        matches!(self.mode, ElicitMode::Url { .. })
    }

    /// Writes the params.
    pub(super) fn write(
        &self,
        object: &mut ObjectWriter<'_>,
        revision: Revision,
        id: impl FnOnce(&mut Vec<u8>),
    ) {
        let dialect = revision.dialect();
        match &self.mode {
            ElicitMode::Form(form) => {
                if dialect.elicitation_url {
                    object.string("mode", "form");
                }
                object.string("message", &self.message);
                form.write(object.key("requestedSchema"), revision);
            }
            ElicitMode::Url { url, id: own_id } => {
                object.string("mode", "url").string("message", &self.message).string("url", url);
                match own_id {
                    _ if !dialect.elicitation_ids => {}
                    Some(own_id) => {
                        object.string("elicitationId", own_id);
                    }
                    None => id(object.key("elicitationId")),
                }
            }
        }
    }

    /// Discards what reading the result does not need.
    pub(super) fn discard_texts(&mut self) {
        self.message = String::new();
        match &mut self.mode {
            ElicitMode::Form(form) => form.discard_texts(),
            ElicitMode::Url { url, .. } => *url = String::new(),
        }
    }

    /// Reads the result.
    pub(super) fn read(&self, result: &Map<String, Value>) -> Result<ElicitResult, Error> {
        let action = match result.get("action").and_then(Value::as_str) {
            Some("accept") => ElicitAction::Accept,
            Some("decline") => ElicitAction::Decline,
            Some("cancel") => ElicitAction::Cancel,
            _ => {
                let message = "action must be \"accept\", \"decline\" or \"cancel\"";
                return Err(Error::invalid_params(message));
            }
        };
        let content = match &self.mode {
            ElicitMode::Form(form) if action == ElicitAction::Accept => {
                form.read(result.get("content"))?
            }
            ElicitMode::Form(_) | ElicitMode::Url { .. } => Map::new(),
        };
        Ok(ElicitResult { action, content })
    }
}

impl HeapBytes for ElicitRequest {
    fn heap_bytes(&self) -> usize {
        let mode = match &self.mode {
            ElicitMode::Form(form) => form.heap_bytes(),
            ElicitMode::Url { url, id } => url.heap_bytes() + id.heap_bytes(),
        };
        self.message.heap_bytes() + mode
    }
}

/// Result of an elicitation.
#[derive(Clone, Debug, PartialEq)]
pub struct ElicitResult {
    /// Action of the user.
    pub action: ElicitAction,
    /// Submitted form fields; empty unless accepted, and in URL mode. Required fields are present
    /// and valid. Others may be missing: clients show defaults, and need not fill them in.
    pub content: Map<String, Value>,
}

impl ElicitResult {
    /// Reads the submitted fields as `T`, whose optional fields are `Option` or have
    /// `#[serde(default)]`.
    ///
    /// # Errors
    ///
    /// The fields are not those of `T`, such as after [`ElicitAction::Decline`].
    pub fn read<T: DeserializeOwned>(self) -> Result<T, serde_json::Error> {
        serde_json::from_value(Value::Object(self.content))
    }
}

/// Action of the user on an elicitation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ElicitAction {
    /// Submitted the form or consented to open the URL.
    Accept,
    /// Declined explicitly.
    Decline,
    /// Dismissed without a choice.
    Cancel,
}

impl ElicitAction {
    /// Returns the name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Decline => "decline",
            Self::Cancel => "cancel",
        }
    }
}

impl Error {
    /// The request requires that the user opens these URLs first (-32042, 2025-11-25 only). Form
    /// mode elicitations are ignored.
    ///
    /// MCP 2025-11-25 `client/elicitation`, "URL Elicitation Required Error".
    pub fn url_elicitation_required<'e>(
        elicitations: impl IntoIterator<Item = &'e ElicitRequest>,
    ) -> Self {
        let mut data = br#"{"elicitations":["#.to_vec();
        let with_url = elicitations.into_iter().filter(|elicitation| elicitation.is_url());
        for (index, elicitation) in with_url.enumerate() {
            if index > 0 {
                data.push(b',');
            }
            let mut object = ObjectWriter::open(&mut data);
            // Without an id of its own, the index in the list is unique.
            elicitation.write(&mut object, Revision::V2025_11_25, |out| {
                crate::json::write::formatted(out, format_args!("{index}"));
            });
            object.close();
        }
        data.extend_from_slice(b"]}");
        Self::new(
            ErrorKind::UrlElicitationRequired,
            "URL elicitation required: see data.elicitations",
        )
        .with_data(String::from_utf8_lossy(&data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Order {
        count: u64,
        size: Option<u64>,
    }

    #[test]
    fn submitted_fields_are_read_as_a_type() {
        let answered = |fields: &[(&str, u64)]| ElicitResult {
            action: ElicitAction::Accept,
            content: fields.iter().map(|&(name, value)| (name.to_owned(), value.into())).collect(),
        };
        let read = |fields| answered(fields).read::<Order>();
        assert_eq!(read(&[("count", 2)]).unwrap(), Order { count: 2, size: None });
        assert_eq!(read(&[("count", 2), ("size", 3)]).unwrap().size, Some(3));
        assert!(read(&[]).unwrap_err().to_string().contains("count"));
    }
}
