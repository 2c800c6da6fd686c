//! Params of `subscriptions/listen`.

use super::members::{invalid_member, non_null, optional_strings, require_object, require_params};
use crate::error::Error;
use crate::json::Value;
use crate::jsonrpc::Id;

/// The params of `subscriptions/listen`.
#[derive(Clone, Debug, PartialEq)]
pub struct SubscriptionsListenRequestParams<'a> {
    /// Id of the request, which every notification on the stream carries as its subscription id.
    pub id: Id<'a>,
    /// The notifications that the client requests.
    pub filter: SubscriptionFilter<'a>,
}

/// Notification types of a subscription: those requested, or the subset that the server grants.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SubscriptionFilter<'a> {
    /// `notifications/tools/list_changed`
    pub tools_list_changed: bool,
    /// `notifications/prompts/list_changed`
    pub prompts_list_changed: bool,
    /// `notifications/resources/list_changed`
    pub resources_list_changed: bool,
    /// URIs of the resources for `notifications/resources/updated`.
    pub resource_subscriptions: Vec<&'a str>,
    /// Ids of the tasks for `notifications/tasks` (the Tasks extension).
    pub task_ids: Vec<&'a str>,
}

impl<'a> SubscriptionsListenRequestParams<'a> {
    /// Reads the params of the request with this `id`. Allocates only for non-empty lists.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) if `notifications` is missing or not an object, or a known member
    /// of it is duplicated or has the wrong type.
    ///
    /// MCP 2026-07-28 `basic/patterns/subscriptions`; `taskIds`: the Tasks extension.
    pub fn read(id: Id<'a>, params: Option<Value<'a>>) -> Result<Self, Error> {
        let [notifications] = require_params(params)?.find_unique(["notifications"])?;
        let [tools, prompts, resources, uris, task_ids] =
            require_object(notifications, "params.notifications")?.find_unique([
                "toolsListChanged",
                "promptsListChanged",
                "resourcesListChanged",
                "resourceSubscriptions",
                "taskIds",
            ])?;
        let filter = SubscriptionFilter {
            tools_list_changed: optional_bool(tools, "params.notifications.toolsListChanged")?,
            prompts_list_changed: optional_bool(
                prompts,
                "params.notifications.promptsListChanged",
            )?,
            resources_list_changed: optional_bool(
                resources,
                "params.notifications.resourcesListChanged",
            )?,
            resource_subscriptions: optional_strings(
                uris,
                "params.notifications.resourceSubscriptions",
            )?,
            task_ids: optional_strings(task_ids, "params.notifications.taskIds")?,
        };
        Ok(Self { id, filter })
    }
}

/// Reads an optional boolean; absent is `false`.
fn optional_bool(value: Option<Value<'_>>, path: &'static str) -> Result<bool, Error> {
    let Some(value) = non_null(value) else { return Ok(false) };
    value.as_bool().ok_or_else(|| invalid_member(path, "true or false"))
}
