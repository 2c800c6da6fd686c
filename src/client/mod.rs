//! The client of MCP servers of every revision.
//!
//! [`session`] is the protocol, sans-IO: handshake, calls, notifications and cancellation of one
//! session. The rest moves its bytes.

#![forbid(unsafe_code)]

mod error;

pub mod session;

pub use self::error::{ClientError, ClientErrorKind};
