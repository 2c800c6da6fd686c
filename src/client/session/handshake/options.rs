//! Options of a session.

use std::time::Duration;

use crate::retry::RetryPolicy;
use corelane_protocol::eras::{
    CLIENT_CAPABILITIES_KEY, CLIENT_INFO_KEY, ClientCapabilities, PROTOCOL_VERSION_KEY,
};
use corelane_protocol::json::write;
use corelane_protocol::model::Implementation;
use corelane_protocol::revision::Revision;

/// Which revisions the client uses.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum EraPreference {
    /// 2026-07-28 if the server supports it, else the newest revision that it negotiates.
    #[default]
    Auto,
    /// Only 2026-07-28.
    Modern,
    /// `initialize`, asking for this revision or for 2025-11-25 if it is a modern one.
    Legacy(Revision),
}

/// Options of a session, shared by many.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SessionOptions {
    /// Name and version of the client.
    pub client_info: Implementation,
    /// Which revisions to use. Default [`EraPreference::Auto`].
    pub era: EraPreference,
    /// Time from a call to its response, unless the call has its own. Default 30 s.
    pub request_timeout: Duration,
    /// Time that a server has to answer `server/discover` before the client tries `initialize`
    /// ([`EraPreference::Auto`]). Default 5 s.
    pub discover_timeout: Duration,
    /// Lets servers answer tool calls with tasks (2026-07-28), whose results the calls wait for.
    /// Default `true`.
    pub tasks: bool,
    /// Requests in flight; further calls wait. Default 1,024. Cost: about 100 bytes each.
    pub in_flight_max: usize,
    /// Calls that wait for the handshake or for a response to others; further calls fail with
    /// [`ClientErrorKind::Busy`](crate::ClientErrorKind::Busy). Default 16,384. Cost: the
    /// encoded params and about 200 bytes each.
    pub waiting_max: usize,
    /// Longest message of the server in bytes. Default 16 MiB.
    pub message_bytes_max: usize,
    /// Which requests are sent again after a failure. Default [`RetryPolicy::safe`].
    pub retry: RetryPolicy,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            client_info: Implementation::new("corelane", env!("CARGO_PKG_VERSION")),
            era: EraPreference::Auto,
            request_timeout: Duration::from_secs(30),
            discover_timeout: Duration::from_secs(5),
            tasks: true,
            in_flight_max: 1_024,
            waiting_max: 16_384,
            message_bytes_max: 16 << 20,
            retry: RetryPolicy::safe(),
        }
    }
}

impl SessionOptions {
    /// Returns the members of `_meta` that every modern request carries, without braces.
    pub(crate) fn modern_meta(&self, capabilities: ClientCapabilities) -> Box<[u8]> {
        let revision = Revision::LATEST;
        let mut out = Vec::new();
        write::string(&mut out, PROTOCOL_VERSION_KEY);
        out.push(b':');
        write::string(&mut out, revision.as_str());
        out.push(b',');
        write::string(&mut out, CLIENT_INFO_KEY);
        out.push(b':');
        self.client_info.write(&mut out, revision);
        out.push(b',');
        write::string(&mut out, CLIENT_CAPABILITIES_KEY);
        out.push(b':');
        capabilities.write_required(&mut out);
        out.into()
    }

    /// Returns the revision to ask for with `initialize`.
    pub(crate) const fn legacy_revision(&self) -> Revision {
        match self.era {
            EraPreference::Legacy(revision) if !revision.is_modern() => revision,
            _ => Revision::LATEST_LEGACY,
        }
    }
}
