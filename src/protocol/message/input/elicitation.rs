//! Questions to the person behind the client.
//!
//! Source: `client/elicitation` (2025-06-18 and later); `ElicitRequest` and `ElicitResult` in the
//! schemas.

use super::form::Form;
use crate::protocol::error::{Error, Kind};
use crate::protocol::json::ObjectWriter;
use crate::protocol::revision::Revision;
use serde_json::{Map, Value};

/// A question to a person: a form to fill in, or an address to visit.
#[derive(Clone, Debug, PartialEq)]
pub struct Elicitation {
    message: String,
    mode: Mode,
}

#[derive(Clone, Debug, PartialEq)]
enum Mode {
    Form(Form),
    Url { url: String, id: Option<String> },
}

impl Elicitation {
    /// Asks for a form to be filled in. Never for secrets: those belong behind an address.
    pub fn form(message: impl Into<String>, form: Form) -> Self {
        Self { message: message.into(), mode: Mode::Form(form) }
    }

    /// Asks for an address to be visited, an absolute URI (2025-11-25 and later).
    pub fn url(message: impl Into<String>, url: impl Into<String>) -> Self {
        Self { message: message.into(), mode: Mode::Url { url: url.into(), id: None } }
    }

    /// The same question with the `elicitationId` under which its end is told by
    /// [`elicitation_complete`](crate::protocol::message::elicitation_complete) (2025-11-25,
    /// addresses only). Without one it is the id of the request, which two connections may share.
    #[must_use]
    pub fn with_id(mut self, wanted: impl Into<String>) -> Self {
        if let Mode::Url { id, .. } = &mut self.mode {
            *id = Some(wanted.into());
        }
        self
    }

    /// The `elicitationId` that it was given.
    pub fn id(&self) -> Option<&str> {
        match &self.mode {
            Mode::Url { id, .. } => id.as_deref(),
            Mode::Form(_) => None,
        }
    }

    /// What the person reads.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether it asks for an address to be visited.
    pub const fn is_url(&self) -> bool {
        matches!(self.mode, Mode::Url { .. })
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
            Mode::Form(form) => {
                if dialect.elicitation_url {
                    object.text("mode", "form");
                }
                object.text("message", &self.message);
                form.write(object.key("requestedSchema"), revision);
            }
            Mode::Url { url, id: own } => {
                object.text("mode", "url").text("message", &self.message).text("url", url);
                match own {
                    _ if !dialect.elicitation_ids => {}
                    Some(own) => {
                        object.text("elicitationId", own);
                    }
                    None => id(object.key("elicitationId")),
                }
            }
        }
    }

    /// Reads what came back.
    pub(super) fn read(&self, result: &Map<String, Value>) -> Result<Elicited, Error> {
        let action = match result.get("action").and_then(Value::as_str) {
            Some("accept") => Action::Accept,
            Some("decline") => Action::Decline,
            Some("cancel") => Action::Cancel,
            _ => {
                let message = "action must be \"accept\", \"decline\" or \"cancel\"";
                return Err(Error::invalid_params(message));
            }
        };
        let content = match &self.mode {
            Mode::Form(form) if action == Action::Accept => form.read(result.get("content"))?,
            Mode::Form(_) | Mode::Url { .. } => Map::new(),
        };
        Ok(Elicited { action, content })
    }
}

/// What a person did with a question.
#[derive(Clone, Debug, PartialEq)]
pub struct Elicited {
    /// The answer.
    pub action: Action,
    /// The form as it was filled in; empty where it was not accepted, and for an address.
    pub content: Map<String, Value>,
}

/// How a question was answered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Action {
    /// Yes.
    Accept,
    /// No.
    Decline,
    /// Not at all: the question was put away.
    Cancel,
}

impl Action {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Decline => "decline",
            Self::Cancel => "cancel",
        }
    }
}

impl Error {
    /// A request that cannot go on before the person has visited these addresses (-32042,
    /// 2025-11-25 only), which are questions of [`Elicitation::url`]; others are passed over.
    ///
    /// Source: 2025-11-25 `client/elicitation`, "URL Elicitation Required Error".
    pub fn url_elicitation_required<'e>(
        elicitations: impl IntoIterator<Item = &'e Elicitation>,
    ) -> Self {
        let mut data = br#"{"elicitations":["#.to_vec();
        let asked = elicitations.into_iter().filter(|elicitation| elicitation.is_url());
        for (index, elicitation) in asked.enumerate() {
            if index > 0 {
                data.push(b',');
            }
            let mut object = ObjectWriter::open(&mut data);
            // Without an id of its own the place in the list tells them apart.
            elicitation.write(&mut object, Revision::V2025_11_25, |out| {
                crate::protocol::json::write::formatted(out, format_args!("{index}"));
            });
            object.close();
        }
        data.extend_from_slice(b"]}");
        Self::new(Kind::UrlElicitationRequired, "an address has to be visited first")
            .with_data(String::from_utf8_lossy(&data))
    }
}
