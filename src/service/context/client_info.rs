//! What a handler knows of the client.

use corelane_protocol::eras::ClientCapabilities;
use corelane_protocol::revision::Revision;

/// Protocol facts of the client of a request, which handlers may depend on. Its name and version
/// are in [`ClientImplementation`](crate::service::ClientImplementation).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ClientInfo {
    /// Negotiated protocol revision; of a modern request, the revision it names.
    pub revision: Revision,
    /// Declared capabilities: of `initialize` in legacy sessions, of each request since 2026-07-28.
    pub capabilities: ClientCapabilities,
}
