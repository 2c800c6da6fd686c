//! What the server asks its clients: people, models and roots.
//!
//! A question is written once and said in two ways: to a legacy connection as a request of the
//! server's own ([`request`]), to a modern client inside a result that asks for a retry
//! ([`input_required_body`]) or inside a task. What comes back is read by the question itself
//! ([`InputRequest::read_response`]), strictly.
//!
//! Source: `client/elicitation`, `client/sampling` and `client/roots` of each revision; 2026-07-28
//! `basic/patterns/mrtr`.

mod field;

mod fill;

mod asked;

mod form;

mod schema;

mod elicitation;

mod spoken;

mod sampling;

mod response;

pub use elicitation::{Action, Elicitation, Elicited};
pub use field::{Field, TextFormat};
pub use form::Form;
pub use response::{Root, Sampled};
pub use sampling::{IncludeContext, ModelPreferences, Sampling, SamplingTool, ToolChoice};
pub use spoken::Spoken;

use super::server::meta_of;
use crate::protocol::era::ClientCapabilities;
use crate::protocol::error::Error;
use crate::protocol::json::ObjectWriter;
use crate::protocol::revision::Revision;
use crate::protocol::rpc::Id;
use serde_json::Value;

/// A question to a client.
#[derive(Clone, Debug, PartialEq)]
pub enum InputRequest {
    /// To the person.
    Elicit(Elicitation),
    /// To the model.
    Sample(Box<Sampling>),
    /// For the folders that the client lets servers work in.
    Roots,
}

/// An answer of a client.
#[derive(Clone, Debug, PartialEq)]
pub enum InputResponse {
    /// Of the person.
    Elicited(Elicited),
    /// Of the model.
    Sampled(Sampled),
    /// The folders.
    Roots(Vec<Root>),
}

impl InputRequest {
    /// The method that asks it.
    pub const fn method(&self) -> &'static str {
        match self {
            Self::Elicit(_) => "elicitation/create",
            Self::Sample(_) => "sampling/createMessage",
            Self::Roots => "roots/list",
        }
    }

    /// Whether `revision` has the question at all, whatever a client declares.
    pub fn is_in(&self, revision: Revision) -> bool {
        match self {
            Self::Elicit(elicitation) if elicitation.is_url() => revision.dialect().elicitation_url,
            Self::Elicit(_) => revision.dialect().elicitation,
            Self::Sample(_) | Self::Roots => true,
        }
    }

    /// What a client must be able to do to be asked.
    pub fn needs(&self) -> ClientCapabilities {
        match self {
            Self::Elicit(elicitation) if elicitation.is_url() => {
                ClientCapabilities::ELICITATION_URL
            }
            Self::Elicit(_) => ClientCapabilities::ELICITATION_FORM,
            Self::Sample(sampling) => {
                let mut needs = ClientCapabilities::SAMPLING;
                if sampling.needs_tools() {
                    needs = needs.with(ClientCapabilities::SAMPLING_TOOLS);
                }
                needs
            }
            Self::Roots => ClientCapabilities::ROOTS,
        }
    }

    /// Appends the params as `revision` knows them, without `_meta`. `id` is written as the
    /// `elicitationId` of an address that has none of its own, where the revision has one.
    pub fn write_params(&self, out: &mut Vec<u8>, revision: Revision, id: Id<'_>) {
        let mut object = ObjectWriter::open(out);
        self.write_members(&mut object, revision, id);
        object.close();
    }

    /// Appends the question as a modern result holds it: method and params.
    pub fn write_embedded(&self, out: &mut Vec<u8>) {
        let mut object = ObjectWriter::open(out);
        object.text("method", self.method());
        self.write_params(object.key("params"), Revision::LATEST, Id::Signed(0));
        object.close();
    }

    /// Reads the answer: the `result` of a legacy response, or a member of `inputResponses`.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) that names what is missing or wrong.
    pub fn read_response(&self, result: &Value) -> Result<InputResponse, Error> {
        let members = result.as_object().ok_or_else(|| {
            Error::invalid_params(format!("the answer to {} must be an object", self.method()))
        })?;
        match self {
            Self::Elicit(elicitation) => elicitation.read(members).map(InputResponse::Elicited),
            Self::Sample(_) => Sampled::read(members).map(InputResponse::Sampled),
            Self::Roots => Root::read_all(members).map(InputResponse::Roots),
        }
    }

    fn write_members(&self, object: &mut ObjectWriter<'_>, revision: Revision, id: Id<'_>) {
        match self {
            Self::Elicit(elicitation) => {
                elicitation.write(object, revision, |out| id_text(out, id));
            }
            Self::Sample(sampling) => sampling.write(object, revision),
            Self::Roots => {}
        }
    }
}

/// Appends a question to a legacy connection: a request of the server's with this `id`, which is
/// its progress token, too. `related_task` is the task on whose behalf it is asked (2025-11-25).
pub fn request(
    out: &mut Vec<u8>,
    id: Id<'_>,
    request: &InputRequest,
    revision: Revision,
    related_task: Option<&str>,
) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    id.write(out);
    let mut message = ObjectWriter::resume(out);
    message.text("method", request.method());
    let mut params = message.object("params");
    request.write_members(&mut params, revision, id);
    let mut meta = params.object("_meta");
    id.write(meta.key("progressToken"));
    if let Some(task_id) = related_task
        && revision.dialect().core_tasks
    {
        let mut related = meta.object(RELATED_TASK_KEY);
        related.text("taskId", task_id);
        related.close();
    }
    meta.close();
    params.close();
    message.close();
}

/// The key of `_meta` that says which task a message belongs to (2025-11-25).
pub(super) const RELATED_TASK_KEY: &str = "io.modelcontextprotocol/related-task";

/// Appends the body of a modern result that asks for a retry with answers: the questions by their
/// keys, and what the server wants to read again. `suffix` is that of [`super::result_suffix`].
///
/// Source: 2026-07-28 `basic/patterns/mrtr`; such a result carries no cache hints.
pub fn input_required_body<'r>(
    out: &mut Vec<u8>,
    requests: impl IntoIterator<Item = (&'r str, &'r InputRequest)>,
    state: Option<&str>,
    suffix: &[u8],
) {
    let mut object = ObjectWriter::open(out);
    object.text("resultType", "input_required");
    let mut requests = requests.into_iter().peekable();
    if requests.peek().is_some() {
        write_input_requests(object.key("inputRequests"), requests);
    }
    object.text_if("requestState", state);
    out.extend_from_slice(meta_of(suffix));
    out.push(b'}');
}

/// Appends an object of questions by their keys.
pub(super) fn write_input_requests<'r>(
    out: &mut Vec<u8>,
    requests: impl Iterator<Item = (&'r str, &'r InputRequest)>,
) {
    let mut object = ObjectWriter::open(out);
    for (key, request) in requests {
        request.write_embedded(object.key(key));
    }
    object.close();
}

/// Appends an id as a string, whatever it was.
fn id_text(out: &mut Vec<u8>, id: Id<'_>) {
    match id {
        Id::Text(_) => id.write(out),
        Id::Signed(_) | Id::Unsigned(_) => {
            out.push(b'"');
            id.write(out);
            out.push(b'"');
        }
    }
}
