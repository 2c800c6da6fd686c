//! Methods of client requests and notifications, with the revisions that define them.
//!
//! MCP schema: `ClientRequest` and `ClientNotification` of each revision; tasks of 2026-07-28: the
//! extension `io.modelcontextprotocol/tasks`; skills: `io.modelcontextprotocol/skills`.

use crate::revision::Revision;

/// Sets of revisions, one bit each; the lowest bit is the oldest revision.
const EVERY: u8 = 0b1_1111;
const LEGACY: u8 = 0b0_1111;
const MODERN: u8 = 0b1_0000;
const ONLY_2025_11_25: u8 = 0b0_1000;
const SINCE_2025_11_25: u8 = 0b1_1000;

/// Defines the enum and its tables from one row per method: documentation, variant, name on the
/// wire, set of revisions.
macro_rules! methods {
    ($($(#[$doc:meta])+ $method:ident $name:literal $revisions:ident,)+) => {
        /// A request that clients send.
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        pub enum Method {
            $($(#[$doc])+ $method,)+
        }

        impl Method {
            /// Every method.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$method),+];

            /// Returns the method with this name on the wire; `None` for an unknown method, which
            /// is answered with method not found (-32601).
            #[inline]
            pub fn parse(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$method),)+
                    _ => None,
                }
            }

            /// Returns whether its requests name a resource by `params.uri`.
            pub const fn names_uri(self) -> bool {
                use Method::{ResourcesRead, ResourcesSubscribe, ResourcesUnsubscribe};
                matches!(self, ResourcesRead | ResourcesSubscribe | ResourcesUnsubscribe)
            }

            /// Returns the name on the wire.
            pub const fn as_str(self) -> &'static str {
                const NAMES: [&str; Method::ALL.len()] = [$($name),+];
                NAMES[self as usize]
            }

            /// Returns the revisions that define the method, one bit each.
            const fn revisions(self) -> u8 {
                const REVISIONS: [u8; Method::ALL.len()] = [$($revisions),+];
                REVISIONS[self as usize]
            }
        }
    };
}

methods! {
    /// Calls a tool.
    ToolsCall "tools/call" EVERY,
    /// Lists tools.
    ToolsList "tools/list" EVERY,
    /// Checks that the connection is alive.
    Ping "ping" LEGACY,
    /// Starts the handshake of a legacy connection.
    Initialize "initialize" LEGACY,
    /// Returns the server's revisions, capabilities and instructions.
    Discover "server/discover" MODERN,
    /// Lists resources.
    ResourcesList "resources/list" EVERY,
    /// Reads a resource.
    ResourcesRead "resources/read" EVERY,
    /// Lists resource templates.
    ResourcesTemplatesList "resources/templates/list" EVERY,
    /// Subscribes to updates of a resource.
    ResourcesSubscribe "resources/subscribe" LEGACY,
    /// Ends a subscription to a resource.
    ResourcesUnsubscribe "resources/unsubscribe" LEGACY,
    /// Lists prompts.
    PromptsList "prompts/list" EVERY,
    /// Renders the messages of a prompt.
    PromptsGet "prompts/get" EVERY,
    /// Completes an argument of a prompt or resource template.
    CompletionComplete "completion/complete" EVERY,
    /// Sets the minimum level of log messages.
    LoggingSetLevel "logging/setLevel" LEGACY,
    /// Opens a stream of change notifications.
    SubscriptionsListen "subscriptions/listen" MODERN,
    /// Returns the state of a task.
    TasksGet "tasks/get" SINCE_2025_11_25,
    /// Sends input responses to a task.
    TasksUpdate "tasks/update" MODERN,
    /// Waits for the result of a task.
    TasksResult "tasks/result" ONLY_2025_11_25,
    /// Lists tasks.
    TasksList "tasks/list" ONLY_2025_11_25,
    /// Cancels a task.
    TasksCancel "tasks/cancel" SINCE_2025_11_25,
    /// Lists the files and folders of a folder of a skill (the extension of `skills/list`).
    ResourcesDirectoryRead "resources/directory/read" MODERN,
    /// Lists skills (the extension `io.modelcontextprotocol/skills`).
    SkillsList "skills/list" MODERN,
    /// Returns the entry of a skill (the same extension).
    SkillsGet "skills/get" MODERN,
}

impl Method {
    /// Returns whether `revision` defines the method. Others are answered with method not found
    /// (-32601).
    #[inline]
    pub const fn is_defined_in(self, revision: Revision) -> bool {
        self.revisions() >> (revision as u8) & 1 == 1
    }
}

/// A client notification that the server handles. Unknown notifications are ignored.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ClientNotification {
    /// `notifications/cancelled`: cancels a request.
    Cancelled,
    /// `notifications/initialized`: completes the handshake (legacy).
    Initialized,
    /// `notifications/progress`: progress of a server-to-client request (legacy).
    Progress,
    /// `notifications/roots/list_changed`: the client's roots changed (legacy).
    RootsListChanged,
    /// `notifications/tasks/status`: status of a task that the client runs (2025-11-25).
    TaskStatus,
}

impl ClientNotification {
    /// Names on the wire.
    pub const NAMES: [&'static str; 5] = [
        "notifications/cancelled",
        "notifications/initialized",
        "notifications/progress",
        "notifications/roots/list_changed",
        "notifications/tasks/status",
    ];

    /// Returns the notification with this name on the wire, or `None` if it is unknown.
    #[inline]
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name.strip_prefix("notifications/")? {
            "cancelled" => Self::Cancelled,
            "initialized" => Self::Initialized,
            "progress" => Self::Progress,
            "roots/list_changed" => Self::RootsListChanged,
            "tasks/status" => Self::TaskStatus,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn method_names_round_trip() {
        for method in Method::ALL {
            assert_eq!(Method::parse(method.as_str()), Some(method));
        }
        for unknown in ["", "Ping", "tools/call ", "resources", "notifications/initialized"] {
            assert_eq!(Method::parse(unknown), None);
        }
        assert!(ClientNotification::NAMES.iter().all(|it| ClientNotification::parse(it).is_some()));
        assert_eq!(
            ClientNotification::parse("notifications/cancelled"),
            Some(ClientNotification::Cancelled)
        );
        let changed = ClientNotification::parse("notifications/roots/list_changed");
        assert_eq!(changed, Some(ClientNotification::RootsListChanged));
        assert_eq!(
            ClientNotification::parse("notifications/tasks/status"),
            Some(ClientNotification::TaskStatus)
        );
        assert_eq!(ClientNotification::parse("cancelled"), None);
    }

    #[test]
    fn methods_of_handshake_and_discovery_are_era_specific() {
        for revision in Revision::ALL {
            let modern = revision.is_modern();
            for method in [Method::Discover, Method::SubscriptionsListen, Method::TasksUpdate] {
                assert_eq!(method.is_defined_in(revision), modern, "{method:?}");
            }
            for method in [Method::Initialize, Method::Ping, Method::LoggingSetLevel] {
                assert_eq!(method.is_defined_in(revision), !modern, "{method:?}");
            }
            assert!(Method::ToolsCall.is_defined_in(revision));
        }
    }

    #[test]
    fn task_methods_depend_on_revision() {
        let revisions_with = |method: Method| {
            Revision::ALL
                .into_iter()
                .filter(move |revision| method.is_defined_in(*revision))
                .count()
        };
        assert_eq!(revisions_with(Method::TasksGet), 2);
        assert_eq!(revisions_with(Method::TasksList), 1);
        assert!(Method::TasksResult.is_defined_in(Revision::V2025_11_25));
        assert!(Method::TasksCancel.is_defined_in(Revision::LATEST));
    }
}
