//! What the server says without being asked.
//!
//! A legacy connection hears every change as one text. A modern stream hears the same text with its
//! own subscription id inside, so that the text is encoded once as a head and a tail and only the
//! id between them differs from stream to stream.
//!
//! Source: `ServerNotification` in the schema of each revision; 2026-07-28
//! `basic/patterns/subscriptions`; the Tasks extension.

use super::task::{TaskDetail, TaskView, related_meta};
use crate::protocol::era::LogLevel;
use crate::protocol::json::{ObjectWriter, write};
use crate::protocol::params::Filter;
use crate::protocol::revision::Revision;
use crate::protocol::rpc::Id;

/// A change that clients may hear of.
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    /// The list of tools is another one.
    ToolsList,
    /// The list of prompts is another one.
    PromptsList,
    /// The list of resources or of resource templates is another one.
    ResourcesList,
    /// A resource holds something else.
    Resource {
        /// Which one, as it was subscribed to.
        uri: &'a str,
    },
    /// A task got on.
    Task {
        /// Where it stands.
        task: TaskView<'a>,
        /// What else the extension says of it.
        detail: TaskDetail<'a>,
    },
}

impl Change<'_> {
    /// Appends the notification for a connection of a legacy revision, which is whole.
    pub fn write_legacy(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"jsonrpc":"2.0","method":""#);
        out.extend_from_slice(self.method(Revision::LATEST_LEGACY).as_bytes());
        out.push(b'"');
        match self {
            Self::ToolsList | Self::PromptsList | Self::ResourcesList => {}
            Self::Resource { uri } => {
                out.extend_from_slice(br#","params":"#);
                let mut params = ObjectWriter::open(out);
                params.text("uri", uri);
                params.close();
            }
            Self::Task { task, .. } => {
                out.extend_from_slice(br#","params":"#);
                task.write(out, TaskDetail::Nothing, Revision::LATEST_LEGACY);
            }
        }
        out.push(b'}');
    }

    /// Appends what stands before the subscription id on a modern stream.
    pub fn write_head(&self, out: &mut Vec<u8>) {
        head(out, self.method(Revision::LATEST));
    }

    /// Appends what stands behind the subscription id on a modern stream.
    pub fn write_tail(&self, out: &mut Vec<u8>) {
        out.push(b'}');
        match self {
            Self::ToolsList | Self::PromptsList | Self::ResourcesList => {}
            Self::Resource { uri } => {
                out.extend_from_slice(br#","uri":"#);
                write::string(out, uri);
            }
            Self::Task { task, detail } => task.append(out, *detail, Revision::LATEST),
        }
        out.extend_from_slice(b"}}");
    }

    /// Appends the whole notification for one modern stream.
    pub fn write_subscribed(&self, out: &mut Vec<u8>, subscription: Id<'_>) {
        self.write_head(out);
        subscription.write(out);
        self.write_tail(out);
    }

    const fn method(&self, revision: Revision) -> &'static str {
        match self {
            Self::ToolsList => "notifications/tools/list_changed",
            Self::PromptsList => "notifications/prompts/list_changed",
            Self::ResourcesList => "notifications/resources/list_changed",
            Self::Resource { .. } => "notifications/resources/updated",
            Self::Task { .. } if revision.is_modern() => "notifications/tasks",
            Self::Task { .. } => "notifications/tasks/status",
        }
    }
}

/// Appends `notifications/subscriptions/acknowledged`, the first thing said on a modern stream:
/// `granted` is what the client will hear of, a part of what it asked for.
pub fn acknowledged(out: &mut Vec<u8>, subscription: Id<'_>, granted: &Filter<'_>) {
    head(out, "notifications/subscriptions/acknowledged");
    subscription.write(out);
    out.push(b'}');
    let mut params = ObjectWriter::resume(out);
    let mut filter = params.object("notifications");
    for (key, is_granted) in [
        ("toolsListChanged", granted.tools_list_changed),
        ("promptsListChanged", granted.prompts_list_changed),
        ("resourcesListChanged", granted.resources_list_changed),
    ] {
        if is_granted {
            filter.boolean(key, true);
        }
    }
    if !granted.resource_uris.is_empty() {
        filter.texts("resourceSubscriptions", &granted.resource_uris);
    }
    if !granted.task_ids.is_empty() {
        filter.texts("taskIds", &granted.task_ids);
    }
    filter.close();
    params.close();
    out.push(b'}');
}

/// Appends the body of the answer that ends a modern stream in peace. `suffix` is that of
/// [`super::result_suffix`].
pub fn listen_result(out: &mut Vec<u8>, subscription: Id<'_>, suffix: &[u8]) {
    out.extend_from_slice(br#"{"resultType":"complete","_meta":{"#);
    out.extend_from_slice(SUBSCRIPTION_ID);
    subscription.write(out);
    let server = super::server::meta_of(suffix).strip_prefix(br#","_meta":{"#);
    if let Some(server) = server {
        out.push(b',');
        out.extend_from_slice(server);
    } else {
        out.push(b'}');
    }
    out.push(b'}');
}

/// Appends `notifications/message`, the same in every revision. `data` is JSON already. Whether a
/// client wants to hear it is for the caller to know.
pub fn log(out: &mut Vec<u8>, level: LogLevel, logger: Option<&str>, data: &[u8]) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","method":"notifications/message","params":"#);
    let mut params = ObjectWriter::open(out);
    params.text("level", level.as_str()).text_if("logger", logger).encoded("data", data);
    params.close();
    out.push(b'}');
}

/// Appends `notifications/message` for a task (2025-11-25): as for a request, with the task's name
/// in `_meta`, where everything that belongs to a task has it.
pub fn task_log(
    out: &mut Vec<u8>,
    level: LogLevel,
    logger: Option<&str>,
    data: &[u8],
    task_id: &str,
) {
    log(out, level, logger, data);
    out.truncate(out.len() - b"}}".len());
    out.push(b',');
    related_meta(out, task_id);
    out.extend_from_slice(b"}}");
}

/// Appends `notifications/cancelled`: the server does not wait for this answer any more (legacy),
/// or ends this stream (modern).
pub fn cancelled(out: &mut Vec<u8>, request: Id<'_>, reason: Option<&str>) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":"#);
    let mut params = ObjectWriter::open(out);
    request.write(params.key("requestId"));
    params.text_if("reason", reason);
    params.close();
    out.push(b'}');
}

/// Appends `notifications/elicitation/complete` (2025-11-25): what was asked for by an address is
/// done.
pub fn elicitation_complete(out: &mut Vec<u8>, elicitation_id: &str) {
    out.extend_from_slice(
        br#"{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":"#,
    );
    let mut params = ObjectWriter::open(out);
    params.text("elicitationId", elicitation_id);
    params.close();
    out.push(b'}');
}

/// Appends a modern notification up to the subscription id.
fn head(out: &mut Vec<u8>, method: &str) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","method":""#);
    out.extend_from_slice(method.as_bytes());
    out.extend_from_slice(br#"","params":{"_meta":{"#);
    out.extend_from_slice(SUBSCRIPTION_ID);
}

const SUBSCRIPTION_ID: &[u8] = br#""io.modelcontextprotocol/subscriptionId":"#;
