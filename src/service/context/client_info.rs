//! What a handler knows of the client.

use crate::protocol::eras::ClientCapabilities;
use crate::protocol::revision::Revision;

/// Client of a request. Its name and version are not included: servers must not change behaviour by
/// them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ClientInfo {
    /// Negotiated protocol revision; of a modern request, the revision it names.
    pub revision: Revision,
    /// Declared capabilities: of `initialize` in legacy sessions, of each request since 2026-07-28.
    pub capabilities: ClientCapabilities,
}
