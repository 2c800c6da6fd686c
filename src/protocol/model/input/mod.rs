//! Requests from server to client (elicitation, sampling, roots) and their results.
//!
//! An [`InputRequest`] is encoded in two ways: for a legacy connection as a JSON-RPC request
//! ([`write_server_request`]), for a modern client inside an `InputRequiredResult`
//! ([`write_input_required_result`]) or a task. [`InputRequest::read_response`] validates the
//! response.
//!
//! MCP `client/elicitation`, `client/sampling` and `client/roots` of each revision; 2026-07-28
//! `basic/patterns/mrtr`.

mod field;

mod field_schema;

mod form;

mod elicitation;

mod sampling;

mod forwarded;

mod results;

pub use elicitation::{ElicitAction, ElicitRequest, ElicitResult};
pub use field::{Field, TextFormat};
pub use form::Form;
pub use forwarded::{ForwardedKind, ForwardedRequest};
pub use results::{CreateMessageResult, Root};
pub use sampling::SamplingMessageContentBlock;
pub use sampling::{
    CreateMessageRequest, IncludeContext, ModelPreferences, SamplingTool, ToolChoice,
};

use super::implementation::suffix_meta;
use crate::eras::ClientCapabilities;
use crate::error::Error;
use crate::json::ObjectWriter;
use crate::jsonrpc::Id;
use crate::revision::Revision;
use corelane_base::heap_bytes::{ALLOCATION_BYTES, HeapBytes};
use serde_json::Value;

/// A request from server to client.
#[derive(Clone, Debug, PartialEq)]
pub enum InputRequest {
    /// `elicitation/create`
    Elicit(ElicitRequest),
    /// `sampling/createMessage`
    CreateMessage(Box<CreateMessageRequest>),
    /// `roots/list`
    ListRoots,
    /// Any of them, as another server has made it.
    Forwarded(Box<ForwardedRequest>),
}

/// The result of an [`InputRequest`].
#[derive(Clone, Debug, PartialEq)]
pub enum InputResponse {
    /// Result of `elicitation/create`.
    Elicit(ElicitResult),
    /// Result of `sampling/createMessage`.
    CreateMessage(CreateMessageResult),
    /// Result of `roots/list`.
    ListRoots(Vec<Root>),
    /// The result of a forwarded request, an object without `_meta`.
    Forwarded(Value),
}

impl InputRequest {
    /// Returns the method name.
    pub const fn method(&self) -> &'static str {
        match self {
            Self::Elicit(_) => "elicitation/create",
            Self::CreateMessage(_) => "sampling/createMessage",
            Self::ListRoots => "roots/list",
            Self::Forwarded(request) => request.method(),
        }
    }

    /// Returns whether `revision` defines the request, regardless of the client's capabilities.
    pub fn is_defined_in(&self, revision: Revision) -> bool {
        match self {
            Self::Elicit(elicitation) if elicitation.is_url() => revision.dialect().elicitation_url,
            Self::Elicit(_) => revision.dialect().elicitation,
            Self::CreateMessage(_) | Self::ListRoots => true,
            Self::Forwarded(request) => request.is_defined_in(revision),
        }
    }

    /// Returns the client capabilities that the request requires.
    pub fn required_capabilities(&self) -> ClientCapabilities {
        match self {
            Self::Elicit(elicitation) if elicitation.is_url() => {
                ClientCapabilities::ELICITATION_URL
            }
            Self::Elicit(_) => ClientCapabilities::ELICITATION_FORM,
            Self::CreateMessage(sampling) => {
                let mut needs = ClientCapabilities::SAMPLING;
                if sampling.requires_tools() {
                    needs = needs.union(ClientCapabilities::SAMPLING_TOOLS);
                }
                needs
            }
            Self::ListRoots => ClientCapabilities::ROOTS,
            Self::Forwarded(request) => request.required_capabilities(),
        }
    }

    /// Appends the params as `revision` defines them, without `_meta`. `id` becomes the
    /// `elicitationId` of a URL elicitation that has none, if the revision has that member.
    pub fn write_params(&self, out: &mut Vec<u8>, revision: Revision, id: Id<'_>) {
        let mut object = ObjectWriter::open(out);
        self.write_members(&mut object, revision, id);
        object.close();
    }

    /// Appends method and params, as in the `inputRequests` of a modern result.
    pub fn write_input_request(&self, out: &mut Vec<u8>) {
        let mut object = ObjectWriter::open(out);
        object.string("method", self.method());
        self.write_params(object.key("params"), Revision::LATEST, Id::Signed(0));
        object.close();
    }

    /// Reads the result: of a legacy response, or of a member of `inputResponses`.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) that names the missing or invalid member.
    pub fn read_response(&self, result: &Value) -> Result<InputResponse, Error> {
        let members = result.as_object().ok_or_else(|| {
            Error::invalid_params(format!("the result of {} must be an object", self.method()))
        })?;
        match self {
            Self::Elicit(elicitation) => elicitation.read(members).map(InputResponse::Elicit),
            Self::CreateMessage(_) => {
                CreateMessageResult::read(members).map(InputResponse::CreateMessage)
            }
            Self::ListRoots => Root::read_all(members).map(InputResponse::ListRoots),
            Self::Forwarded(request) => {
                request.read_response(members).map(InputResponse::Forwarded)
            }
        }
    }

    /// Discards what [`InputRequest::read_response`] does not need, after the request was written.
    pub fn discard_texts(&mut self) {
        match self {
            Self::Elicit(elicitation) => elicitation.discard_texts(),
            Self::CreateMessage(sampling) => **sampling = CreateMessageRequest::default(),
            Self::ListRoots => {}
            Self::Forwarded(request) => request.discard_texts(),
        }
    }

    fn write_members(&self, object: &mut ObjectWriter<'_>, revision: Revision, id: Id<'_>) {
        match self {
            Self::Elicit(elicitation) => {
                elicitation.write(object, revision, |out| write_id_as_string(out, id));
            }
            Self::CreateMessage(sampling) => sampling.write(object, revision),
            Self::ListRoots => {}
            Self::Forwarded(request) => {
                request.write(object, revision, |out| write_id_as_string(out, id));
            }
        }
    }
}

impl HeapBytes for InputRequest {
    fn heap_bytes(&self) -> usize {
        match self {
            Self::Elicit(elicitation) => elicitation.heap_bytes(),
            Self::CreateMessage(sampling) => {
                ALLOCATION_BYTES + size_of::<CreateMessageRequest>() + sampling.heap_bytes()
            }
            Self::ListRoots => 0,
            Self::Forwarded(request) => size_of::<ForwardedRequest>() + request.heap_bytes(),
        }
    }
}

impl HeapBytes for InputResponse {
    fn heap_bytes(&self) -> usize {
        match self {
            Self::Elicit(ElicitResult { action: _, content }) => content.heap_bytes(),
            Self::CreateMessage(message) => message.heap_bytes(),
            Self::ListRoots(roots) => roots.heap_bytes(),
            Self::Forwarded(result) => result.heap_bytes(),
        }
    }
}

/// Appends `request` as a JSON-RPC request for a legacy connection, with `id` as its id and
/// progress token. `related_task` is the id of the task that sends it (2025-11-25).
pub fn write_server_request(
    out: &mut Vec<u8>,
    id: Id<'_>,
    request: &InputRequest,
    revision: Revision,
    related_task: Option<&str>,
) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    id.write(out);
    let mut message = ObjectWriter::resume(out);
    message.string("method", request.method());
    let mut params = message.object("params");
    request.write_members(&mut params, revision, id);
    let mut meta = params.object("_meta");
    id.write(meta.key("progressToken"));
    if let Some(task_id) = related_task
        && revision.dialect().core_tasks
    {
        let mut related = meta.object(RELATED_TASK_KEY);
        related.string("taskId", task_id);
        related.close();
    }
    meta.close();
    params.close();
    message.close();
}

/// The `_meta` key of the task that a message belongs to (2025-11-25).
pub(super) const RELATED_TASK_KEY: &str = "io.modelcontextprotocol/related-task";

/// Appends an `InputRequiredResult`: the input requests by their keys, and the `requestState` that
/// the client must send back. `suffix` is the [`super::result_suffix`] of the revision.
///
/// MCP 2026-07-28 `basic/patterns/mrtr`; such a result has no cache hints.
pub fn write_input_required_result<'r>(
    out: &mut Vec<u8>,
    requests: impl IntoIterator<Item = (&'r str, &'r InputRequest)>,
    state: Option<&str>,
    suffix: &[u8],
) {
    let mut object = ObjectWriter::open(out);
    object.string("resultType", "input_required");
    let mut requests = requests.into_iter().peekable();
    if requests.peek().is_some() {
        write_input_requests(object.key("inputRequests"), requests);
    }
    object.string_opt("requestState", state);
    out.extend_from_slice(suffix_meta(suffix));
    out.push(b'}');
}

/// Appends an object of input requests by their keys.
pub(super) fn write_input_requests<'r>(
    out: &mut Vec<u8>,
    requests: impl Iterator<Item = (&'r str, &'r InputRequest)>,
) {
    let mut object = ObjectWriter::open(out);
    for (key, request) in requests {
        request.write_input_request(object.key(key));
    }
    object.close();
}

/// Appends an id as a JSON string, also if it is a number.
fn write_id_as_string(out: &mut Vec<u8>, id: Id<'_>) {
    match id {
        Id::Text(_) => id.write(out),
        Id::Signed(_) | Id::Unsigned(_) | Id::Whole(_) => {
            out.push(b'"');
            id.write(out);
            out.push(b'"');
        }
    }
}
