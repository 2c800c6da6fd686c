//! The params that open a stream of changes.

use super::fields::{members, object, present, texts, wrong};
use crate::protocol::error::Error;
use crate::protocol::json::Value;
use crate::protocol::rpc::Id;

/// A `subscriptions/listen`.
#[derive(Clone, Debug, PartialEq)]
pub struct Listen<'a> {
    /// The id of the request, which every notification on the stream carries.
    pub id: Id<'a>,
    /// What the client wants to hear of.
    pub filter: Filter<'a>,
}

/// What a stream is about: as a client asks for it, and the part of it that the server grants.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Filter<'a> {
    /// The list of tools changes.
    pub tools_list_changed: bool,
    /// The list of prompts changes.
    pub prompts_list_changed: bool,
    /// The list of resources or of resource templates changes.
    pub resources_list_changed: bool,
    /// One of these resources changes.
    pub resource_uris: Vec<&'a str>,
    /// One of these tasks gets on (the Tasks extension).
    pub task_ids: Vec<&'a str>,
}

impl<'a> Listen<'a> {
    /// Reads the params of the request with this `id`. Allocates the two lists, where there are
    /// any.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) where `notifications` is missing or not an object, or a known member
    /// of it is twice or not what it should be.
    ///
    /// Source: 2026-07-28 `basic/patterns/subscriptions`; `taskIds`: the Tasks extension.
    pub fn read(id: Id<'a>, params: Option<Value<'a>>) -> Result<Self, Error> {
        let [notifications] = object(params)?.once(["notifications"])?;
        let [tools, prompts, resources, uris, task_ids] =
            members(notifications, "params.notifications")?.once([
                "toolsListChanged",
                "promptsListChanged",
                "resourcesListChanged",
                "resourceSubscriptions",
                "taskIds",
            ])?;
        let filter = Filter {
            tools_list_changed: truth(tools, "params.notifications.toolsListChanged")?,
            prompts_list_changed: truth(prompts, "params.notifications.promptsListChanged")?,
            resources_list_changed: truth(resources, "params.notifications.resourcesListChanged")?,
            resource_uris: texts(uris, "params.notifications.resourceSubscriptions")?,
            task_ids: texts(task_ids, "params.notifications.taskIds")?,
        };
        Ok(Self { id, filter })
    }
}

/// `true` or `false`, where there is one; `false` otherwise.
fn truth(value: Option<Value<'_>>, place: &'static str) -> Result<bool, Error> {
    let Some(value) = present(value) else { return Ok(false) };
    value.as_bool().ok_or_else(|| wrong(place, "true or false"))
}
