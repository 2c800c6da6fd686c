//! Eras: how a client declares its revision and capabilities.
//!
//! A **modern** client (2026-07-28 and later) sends its revision and capabilities in the `_meta`
//! of every request, and the server stores no state for it. A **legacy** client sends them once,
//! with `initialize`, and they are stored with its connection. Both may share a connection: a
//! request whose `_meta` has the key `io.modelcontextprotocol/protocolVersion` is modern,
//! regardless of earlier messages; every other request is subject to the [`Lifecycle`] of its
//! connection.
//!
//! MCP 2026-07-28 `basic/versioning`; 2025-11-25 `basic/lifecycle`.

mod capabilities;

mod method;

mod meta;

mod lifecycle;

pub use capabilities::{ClientCapabilities, SKILLS_EXTENSION, TASKS_EXTENSION};
pub use lifecycle::{InitializeRequestParams, Lifecycle};
pub use meta::{
    CLIENT_CAPABILITIES_KEY, CLIENT_INFO_KEY, LOG_LEVEL_KEY, LoggingLevel, PROTOCOL_VERSION_KEY,
    RequestMetaObject,
};
pub use method::{ClientNotification, Method};
