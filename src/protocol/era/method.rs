//! The methods that are known, and the eras that have them.
//!
//! Source: `ClientRequest` and `ClientNotification` in the schema of each revision.

/// A request that clients send.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Method {
    /// `server/discover`: what the server offers (modern).
    Discover,
    /// `initialize`: the handshake (legacy).
    Initialize,
    /// `ping`: are you there (legacy).
    Ping,
    /// `tools/call`
    ToolsCall,
    /// `tools/list`
    ToolsList,
}

impl Method {
    /// Every method.
    pub const ALL: [Self; 5] =
        [Self::Discover, Self::Initialize, Self::Ping, Self::ToolsCall, Self::ToolsList];

    /// The method of that name; none where this server does not know it, which is answered with
    /// method not found (-32601).
    #[inline]
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "tools/call" => Self::ToolsCall,
            "tools/list" => Self::ToolsList,
            "ping" => Self::Ping,
            "initialize" => Self::Initialize,
            "server/discover" => Self::Discover,
            _ => return None,
        })
    }

    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Discover => "server/discover",
            Self::Initialize => "initialize",
            Self::Ping => "ping",
            Self::ToolsCall => "tools/call",
            Self::ToolsList => "tools/list",
        }
    }

    /// Whether a request that is modern (or is not) may ask for it.
    #[inline]
    pub const fn is_known_to(self, modern: bool) -> bool {
        match self {
            Self::Discover => modern,
            Self::Initialize | Self::Ping => !modern,
            Self::ToolsCall | Self::ToolsList => true,
        }
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
}

impl Notice {
    /// The notification of that name.
    #[inline]
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name.strip_prefix("notifications/")? {
            "cancelled" => Self::Cancelled,
            "initialized" => Self::Initialized,
            "progress" => Self::Progress,
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
        for unknown in ["", "Ping", "tools/call ", "resources/list", "notifications/initialized"] {
            assert_eq!(Method::parse(unknown), None);
        }
        assert_eq!(Notice::parse("notifications/cancelled"), Some(Notice::Cancelled));
        assert_eq!(Notice::parse("cancelled"), None);
    }

    #[test]
    fn the_handshake_is_unknown_to_modern_clients_and_discovery_to_legacy_ones() {
        let of = |modern| {
            Method::ALL.into_iter().filter(move |m| m.is_known_to(modern)).collect::<Vec<_>>()
        };
        assert_eq!(of(true), [Method::Discover, Method::ToolsCall, Method::ToolsList]);
        let legacy = [Method::Initialize, Method::Ping, Method::ToolsCall, Method::ToolsList];
        assert_eq!(of(false), legacy);
    }
}
