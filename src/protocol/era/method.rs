//! The methods that are known, and the revisions that have them, as one table.
//!
//! Source: `ClientRequest` and `ClientNotification` in the schema of each revision; tasks of
//! 2026-07-28: the extension `io.modelcontextprotocol/tasks`.

use crate::protocol::revision::Revision;

/// Sets of revisions, one bit each, the oldest lowest.
const EVERY: u8 = 0b1_1111;
const LEGACY: u8 = 0b0_1111;
const MODERN: u8 = 0b1_0000;
const ONLY_2025_11_25: u8 = 0b0_1000;
const SINCE_2025_11_25: u8 = 0b1_1000;

/// Makes the enumeration and all that is known of a method from one row each: what it asks for, its
/// name in the code, its name on the wire, the revisions that have it.
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

            /// The method of that name; none where this server does not know it, which is
            /// answered with method not found (-32601).
            #[inline]
            pub fn parse(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$method),)+
                    _ => None,
                }
            }

            /// The name on the wire.
            pub const fn as_str(self) -> &'static str {
                const NAMES: [&str; Method::ALL.len()] = [$($name),+];
                NAMES[self as usize]
            }

            /// The revisions that have it, one bit each.
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
    /// The tools there are.
    ToolsList "tools/list" EVERY,
    /// Are you there?
    Ping "ping" LEGACY,
    /// The handshake.
    Initialize "initialize" LEGACY,
    /// What the server offers.
    Discover "server/discover" MODERN,
    /// The resources there are.
    ResourcesList "resources/list" EVERY,
    /// What a resource holds.
    ResourcesRead "resources/read" EVERY,
    /// The families of resources there are.
    ResourcesTemplatesList "resources/templates/list" EVERY,
    /// Wants to hear when a resource changes.
    ResourcesSubscribe "resources/subscribe" LEGACY,
    /// Does not want to hear it any more.
    ResourcesUnsubscribe "resources/unsubscribe" LEGACY,
    /// The prompts there are.
    PromptsList "prompts/list" EVERY,
    /// The messages of a prompt.
    PromptsGet "prompts/get" EVERY,
    /// How an argument that is being typed may go on.
    CompletionComplete "completion/complete" EVERY,
    /// From which level on log messages are wanted.
    LoggingSetLevel "logging/setLevel" LEGACY,
    /// Wants to hear of changes, on a stream of its own.
    SubscriptionsListen "subscriptions/listen" MODERN,
    /// Where a task stands.
    TasksGet "tasks/get" SINCE_2025_11_25,
    /// Answers the questions of a task.
    TasksUpdate "tasks/update" MODERN,
    /// Waits for the result of a task.
    TasksResult "tasks/result" ONLY_2025_11_25,
    /// The tasks there are.
    TasksList "tasks/list" ONLY_2025_11_25,
    /// Ends a task.
    TasksCancel "tasks/cancel" SINCE_2025_11_25,
}

impl Method {
    /// Whether `revision` has it. What a revision lacks is answered with method not found (-32601).
    #[inline]
    pub const fn is_in(self, revision: Revision) -> bool {
        self.revisions() >> (revision as u8) & 1 == 1
    }
}

/// A notification that clients send. Others are passed over in silence, as JSON-RPC has it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Notice {
    /// `notifications/cancelled`: a request is not wanted any more.
    Cancelled,
    /// `notifications/initialized`: the handshake is complete (legacy).
    Initialized,
    /// `notifications/progress`: how far a request of ours has come (legacy).
    Progress,
    /// `notifications/roots/list_changed`: ask for the roots again (legacy).
    RootsListChanged,
    /// `notifications/tasks/status`: where a task stands that the client runs for us (2025-11-25).
    TaskStatus,
}

impl Notice {
    /// The notification of that name.
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
    fn every_name_reads_back() {
        for method in Method::ALL {
            assert_eq!(Method::parse(method.as_str()), Some(method));
        }
        for unknown in ["", "Ping", "tools/call ", "resources", "notifications/initialized"] {
            assert_eq!(Method::parse(unknown), None);
        }
        assert_eq!(Notice::parse("notifications/cancelled"), Some(Notice::Cancelled));
        let changed = Notice::parse("notifications/roots/list_changed");
        assert_eq!(changed, Some(Notice::RootsListChanged));
        assert_eq!(Notice::parse("notifications/tasks/status"), Some(Notice::TaskStatus));
        assert_eq!(Notice::parse("cancelled"), None);
    }

    #[test]
    fn the_handshake_is_unknown_to_modern_clients_and_discovery_to_legacy_ones() {
        for revision in Revision::ALL {
            let modern = revision.is_modern();
            for method in [Method::Discover, Method::SubscriptionsListen, Method::TasksUpdate] {
                assert_eq!(method.is_in(revision), modern, "{method:?}");
            }
            for method in [Method::Initialize, Method::Ping, Method::LoggingSetLevel] {
                assert_eq!(method.is_in(revision), !modern, "{method:?}");
            }
            assert!(Method::ToolsCall.is_in(revision));
        }
    }

    #[test]
    fn tasks_came_with_2025_11_25_and_half_of_them_stayed() {
        let having = |method: Method| {
            Revision::ALL.into_iter().filter(move |revision| method.is_in(*revision)).count()
        };
        assert_eq!(having(Method::TasksGet), 2);
        assert_eq!(having(Method::TasksList), 1);
        assert!(Method::TasksResult.is_in(Revision::V2025_11_25));
        assert!(Method::TasksCancel.is_in(Revision::LATEST));
    }
}
