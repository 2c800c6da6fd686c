//! The eras: what a client says about itself, and when.
//!
//! A **modern** client (2026-07-28 and later) says its revision and capabilities in the `_meta` of
//! every request and keeps no state with us. A **legacy** client says them once, by `initialize`,
//! and its connection remembers. Both may use one connection: a request whose `_meta` has the key
//! [`PROTOCOL_VERSION_KEY`] is modern, whatever was said before; everything else goes through the
//! connection's [`Lifecycle`].
//!
//! Source: 2026-07-28 `basic/versioning`; 2025-11-25 `basic/lifecycle`.

mod capabilities;

mod method;

mod meta;

mod lifecycle;

pub use capabilities::{ClientCapabilities, TASKS_EXTENSION};
pub use lifecycle::{Agreement, Initialize, Lifecycle};
pub use meta::{
    CLIENT_CAPABILITIES_KEY, LOG_LEVEL_KEY, LogLevel, Meta, ModernMeta, PROTOCOL_VERSION_KEY,
    read_modern,
};
pub use method::{Method, Notice};

use crate::protocol::revision::Revision;

/// Which rules a request is under.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Era {
    /// The handshake was made, and this is what it agreed on.
    Legacy(Revision),
    /// The request stands alone.
    Modern,
}

impl Era {
    /// The revision to answer in.
    #[inline]
    pub const fn revision(self) -> Revision {
        match self {
            Self::Legacy(revision) => revision,
            Self::Modern => Revision::LATEST,
        }
    }
}
