//! The MCP protocol, sans-IO: JSON text is parsed into requests, responses are encoded to text.
//!
//! [`json`] parses one text, [`jsonrpc`] reads the message in it, [`eras`] decides which revision
//! and methods apply, and the encoders of [`model`] append the response to a buffer of the caller.
//! Nothing here blocks, reads a clock, opens a socket or logs; the caller stores the state of a
//! connection.
//!
//! | module | contents |
//! | --- | --- |
//! | [`json`] | parser, borrowed views of values, writers |
//! | [`revision`] | the five revisions of the specification and their differences |
//! | [`error`] | error kinds with their JSON-RPC, HTTP and WebSocket codes |
//! | [`jsonrpc`] | JSON-RPC 2.0 ids and messages |
//! | [`eras`] | the legacy handshake, the modern `_meta`, methods and client capabilities |
//! | [`params`] | params of requests and notifications |
//! | [`model`] | MCP types and the encoders of results, errors and notifications |
//! | [`uri`] | comparison of URIs |
//! | [`parameter_header`] | arguments that clients repeat as HTTP headers |
//! | [`in_flight`] | the unanswered requests of one connection |

#![forbid(unsafe_code)]

pub mod json;

pub mod revision;

pub mod error;

pub mod jsonrpc;

pub mod message_head;

pub mod eras;

pub mod params;

pub mod uri;

pub mod model;

pub mod parameter_header;

pub mod in_flight;

/// The beginning of the paths of the metadata of a protected resource, before that of an endpoint
/// (RFC 9728, section 3; MCP 2026-07-28, basic/authorization).
pub const RESOURCE_METADATA_PATH: &str = "/.well-known/oauth-protected-resource";
