//! Encoders of notifications from server to client.
//!
//! On a modern stream a change notification carries the subscription id. It is encoded once as a
//! head and a tail for all streams; only the id between them differs. Legacy connections all get
//! the same text.
//!
//! MCP schema: `ServerNotification` of each revision; 2026-07-28 `basic/patterns/subscriptions`;
//! the Tasks extension.

use std::ops::Range;

use super::task::{TaskDetail, TaskView, write_related_task_meta};
use crate::eras::LoggingLevel;
use crate::json::{ObjectWriter, write};
use crate::jsonrpc::Id;
use crate::params::SubscriptionFilter;
use crate::revision::Revision;

/// A change of which clients are notified.
#[derive(Clone, Copy, Debug)]
pub enum ChangeNotification<'a> {
    /// `notifications/tools/list_changed`
    ToolListChanged,
    /// `notifications/prompts/list_changed`
    PromptListChanged,
    /// `notifications/resources/list_changed`
    ResourceListChanged,
    /// `notifications/resources/updated`
    ResourceUpdated {
        /// URI of the resource, as in the subscription.
        uri: &'a str,
    },
    /// `notifications/tasks/status` (2025-11-25), `notifications/tasks` (Tasks extension)
    TaskStatus {
        /// State of the task.
        task: TaskView<'a>,
        /// Additional member of the extension.
        detail: TaskDetail<'a>,
    },
}

impl ChangeNotification<'_> {
    /// Appends the whole notification for a legacy connection.
    pub fn write_legacy(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"jsonrpc":"2.0","method":""#);
        out.extend_from_slice(self.method(Revision::LATEST_LEGACY).as_bytes());
        out.push(b'"');
        match self {
            Self::ToolListChanged | Self::PromptListChanged | Self::ResourceListChanged => {}
            Self::ResourceUpdated { uri } => {
                out.extend_from_slice(br#","params":"#);
                let mut params = ObjectWriter::open(out);
                params.string("uri", uri);
                params.close();
            }
            Self::TaskStatus { task, .. } => {
                out.extend_from_slice(br#","params":"#);
                task.write(out, TaskDetail::None, Revision::LATEST_LEGACY);
            }
        }
        out.push(b'}');
    }

    /// Appends the part before the subscription id of a modern stream.
    pub fn write_head(&self, out: &mut Vec<u8>) {
        write_subscription_head(out, self.method(Revision::LATEST));
    }

    /// Appends the part after the subscription id of a modern stream.
    pub fn write_tail(&self, out: &mut Vec<u8>) {
        out.push(b'}');
        match self {
            Self::ToolListChanged | Self::PromptListChanged | Self::ResourceListChanged => {}
            Self::ResourceUpdated { uri } => {
                out.extend_from_slice(br#","uri":"#);
                write::string(out, uri);
            }
            Self::TaskStatus { task, detail } => {
                task.append_members(out, *detail, Revision::LATEST);
            }
        }
        out.extend_from_slice(b"}}");
    }

    const fn method(&self, revision: Revision) -> &'static str {
        match self {
            Self::ToolListChanged => "notifications/tools/list_changed",
            Self::PromptListChanged => "notifications/prompts/list_changed",
            Self::ResourceListChanged => "notifications/resources/list_changed",
            Self::ResourceUpdated { .. } => "notifications/resources/updated",
            Self::TaskStatus { .. } if revision.is_modern() => "notifications/tasks",
            Self::TaskStatus { .. } => "notifications/tasks/status",
        }
    }
}

/// Appends `notifications/subscriptions/acknowledged`, the first message on a modern stream;
/// `granted` is the subset of the requested notifications that the server will send.
pub fn write_subscriptions_acknowledged(
    out: &mut Vec<u8>,
    subscription: Id<'_>,
    granted: &SubscriptionFilter<'_>,
) {
    write_subscription_head(out, "notifications/subscriptions/acknowledged");
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
    if !granted.resource_subscriptions.is_empty() {
        filter.strings("resourceSubscriptions", &granted.resource_subscriptions);
    }
    if !granted.task_ids.is_empty() {
        filter.strings("taskIds", &granted.task_ids);
    }
    filter.close();
    params.close();
    out.push(b'}');
}

/// Appends a `SubscriptionsListenResult`, which ends a modern stream normally. `suffix` is the
/// [`super::result_suffix`] of the revision.
pub fn write_subscriptions_listen_result(out: &mut Vec<u8>, subscription: Id<'_>, suffix: &[u8]) {
    out.extend_from_slice(br#"{"resultType":"complete","_meta":{"#);
    out.extend_from_slice(SUBSCRIPTION_ID_KEY);
    subscription.write(out);
    let server_meta = super::implementation::suffix_meta(suffix).strip_prefix(br#","_meta":{"#);
    if let Some(server_meta) = server_meta {
        out.push(b',');
        out.extend_from_slice(server_meta);
    } else {
        out.push(b'}');
    }
    out.push(b'}');
}

/// Appends `notifications/message`, the same in every revision. `data` is encoded JSON. The caller
/// checks the client's log level. Returns where the params stand.
pub fn write_logging_message(
    out: &mut Vec<u8>,
    level: LoggingLevel,
    logger: Option<&str>,
    data: &[u8],
) -> Range<usize> {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","method":"notifications/message","params":"#);
    let start = out.len();
    let mut params = ObjectWriter::open(out);
    params.string("level", level.as_str()).string_opt("logger", logger).raw("data", data);
    params.close();
    let end = out.len();
    out.push(b'}');
    start..end
}

/// Appends `notifications/message` for a task (2025-11-25), with the task's id in `_meta`.
pub fn write_task_logging_message(
    out: &mut Vec<u8>,
    level: LoggingLevel,
    logger: Option<&str>,
    data: &[u8],
    task_id: &str,
) {
    write_logging_message(out, level, logger, data);
    out.truncate(out.len() - b"}}".len());
    out.push(b',');
    write_related_task_meta(out, task_id);
    out.extend_from_slice(b"}}");
}

/// Appends `notifications/cancelled`: cancels a server-to-client request (legacy), or ends a stream
/// (modern).
pub fn write_cancelled(out: &mut Vec<u8>, request: Id<'_>, reason: Option<&str>) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":"#);
    let mut params = ObjectWriter::open(out);
    request.write(params.key("requestId"));
    params.string_opt("reason", reason);
    params.close();
    out.push(b'}');
}

/// Appends `notifications/elicitation/complete` (2025-11-25): a URL elicitation is complete.
pub fn write_elicitation_complete(out: &mut Vec<u8>, elicitation_id: &str) {
    out.extend_from_slice(
        br#"{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":"#,
    );
    let mut params = ObjectWriter::open(out);
    params.string("elicitationId", elicitation_id);
    params.close();
    out.push(b'}');
}

/// Appends a modern notification up to the subscription id.
fn write_subscription_head(out: &mut Vec<u8>, method: &str) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","method":""#);
    out.extend_from_slice(method.as_bytes());
    out.extend_from_slice(br#"","params":{"_meta":{"#);
    out.extend_from_slice(SUBSCRIPTION_ID_KEY);
}

const SUBSCRIPTION_ID_KEY: &[u8] = br#""io.modelcontextprotocol/subscriptionId":"#;
