//! What a subscription is notified of.

use serde::{Deserialize, Serialize};

use corelane_protocol::json::write;
use corelane_protocol::model::ServerCapabilities;
use corelane_protocol::uri;

/// The member `notifications` of `subscriptions/listen`.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ListenFilter {
    #[serde(rename = "toolsListChanged")]
    tools: bool,
    #[serde(rename = "promptsListChanged")]
    prompts: bool,
    #[serde(rename = "resourcesListChanged")]
    resource_list: bool,
    /// URIs.
    #[serde(rename = "resourceSubscriptions")]
    pub(super) resources: Vec<Box<str>>,
}

impl ListenFilter {
    /// Reads the params of `subscriptions/listen`.
    pub(super) fn read(params: &[u8]) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Params {
            notifications: ListenFilter,
        }
        serde_json::from_slice::<Params>(params).unwrap_or_default().notifications
    }

    /// Returns the part that a server with these capabilities notifies of.
    pub(super) fn granted_by(mut self, declared: &ServerCapabilities) -> Self {
        self.tools &= declared.tools.is_some_and(|tools| tools.list_changed);
        self.prompts &= declared.prompts.is_some_and(|prompts| prompts.list_changed);
        self.resource_list &= declared.resources.is_some_and(|it| it.list_changed);
        if !declared.resources.is_some_and(|resources| resources.subscribe) {
            self.resources.clear();
        }
        self.resources.sort_unstable();
        self.resources.dedup();
        self
    }

    /// Appends the filter as JSON.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match serde_json::to_value(self) {
            Ok(value) => write::json(out, &value),
            Err(_) => out.extend_from_slice(b"{}"),
        }
    }

    /// Returns whether a notification is wanted. `uri` may be that of a part of a resource.
    pub(super) fn accepts(&self, method: &str, uri: Option<&str>) -> bool {
        match method {
            "notifications/tools/list_changed" => self.tools,
            "notifications/prompts/list_changed" => self.prompts,
            "notifications/resources/list_changed" => self.resource_list,
            "notifications/resources/updated" => {
                let uri = uri.unwrap_or_default();
                self.resources.iter().any(|resource| uri::is_part_of(uri, resource))
            }
            _ => false,
        }
    }
}
