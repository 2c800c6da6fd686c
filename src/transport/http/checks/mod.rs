//! The ordered checks of an HTTP request.
//!
//! [`CheckId`] lists them in order. [`check_head`] runs those that need only a head and
//! returns the [`RequestKind`]; [`era()`] selects the rules for the body, and
//! [`header_consistency`](super::header_consistency) compares the headers with the body. WebSocket
//! requests are also checked by their [`handshake`](crate::websocket::handshake). The
//! other checks run in the guard and the dispatcher, with status and error from the table.
//!
//! What a head can decide is decided before any JSON is parsed. A request that fails several checks
//! gets the error of the first. Session ids are not resolved here.

mod table;

mod profile;

mod request_kind;

mod head_checks;

mod era;

pub use era::{Era, era};
pub use head_checks::{check_head, check_pinned_version, query_parameter, session_id_in_query};
pub use profile::EndpointPaths;
pub use profile::{CheckProfile, OperatorEndpoints};
pub use request_kind::{
    ParityRequest, RequestKind, SESSION_PARAMETER, is_fixed_path, is_health_path, is_metadata_path,
    is_parity_path,
};
pub use table::{CheckId, Rejection};
