//! The parity dialect: its messages, and the order of the chunks of its streams.
//!
//! Messages are read by the codec of the library, and the handshake is that of its client's
//! session.

pub(super) mod messages;
pub(super) mod streams;

#[cfg(test)]
mod tests;

use corelane_parity::error::ErrorCode;
use corelane_protocol::json::Value;

use crate::metrics::outcome::Failure;

/// Returns how an error object is counted: by its code.
pub(super) fn failure_of(error: Value<'_>) -> Failure {
    let code = error.as_object().and_then(|error| error.find("code")?.as_str());
    code.and_then(ErrorCode::parse).map_or(Failure::Rpc, Failure::Parity)
}
