//! Eras: how a client declares its revision and capabilities.
//!
//! A **modern** client (2026-07-28 and later) sends its revision and capabilities in the `_meta`
//! of every request, and the server stores no state for it. A **legacy** client sends them once,
//! with `initialize`, and they are stored with its connection. Both may share a connection: a
//! request whose `_meta` has the key [`PROTOCOL_VERSION_KEY`] is modern, regardless of earlier
//! messages; every other request is subject to the connection's [`Lifecycle`].
//!
//! MCP 2026-07-28 `basic/versioning`; 2025-11-25 `basic/lifecycle`.

mod capabilities;

mod method;

mod meta;

mod lifecycle;

pub use capabilities::{ClientCapabilities, TASKS_EXTENSION};
pub use lifecycle::{InitializeRequestParams, Lifecycle, NegotiatedProtocol};
pub use meta::{
    CLIENT_CAPABILITIES_KEY, LOG_LEVEL_KEY, LoggingLevel, ModernRequestMeta, PROTOCOL_VERSION_KEY,
    RequestMetaObject, read_modern_meta,
};
pub use method::{ClientNotification, Method};

use crate::protocol::revision::Revision;

/// The rules that apply to a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Era {
    /// The connection completed the `initialize` handshake with this revision.
    Legacy(Revision),
    /// The request is self-contained (2026-07-28 and later).
    Modern,
}

impl Era {
    /// Returns the revision of the response.
    #[inline]
    pub const fn revision(self) -> Revision {
        match self {
            Self::Legacy(revision) => revision,
            Self::Modern => Revision::LATEST,
        }
    }
}
