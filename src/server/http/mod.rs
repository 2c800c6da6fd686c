//! HTTP on one shard: requests, the exchanges of connections, and legacy sessions, which outlive
//! the connections of their requests.
//!
//! A request that is answered later opens an exchange (`exchanges`), which pauses its
//! connection. Modern requests have no session: the shard of their connection responds.
//!
//! A session (2025-03-26 to 2025-11-25) is created by `initialize` and owned by the shard that
//! responded (`session_store`). Its id names that shard, so a request that arrives at another shard
//! is forwarded to the owner, and the response is sent back.
//!
//! Invariants: every request gets one response, in the order of the requests; an invalid one
//! affects no other, and closes the connection only if its framing is lost.
//!
//! Source: MCP 2025-03-26 to 2025-11-25, basic/transports, "Streamable HTTP".

mod gauges;
mod page;

mod exchanges;

mod frontend;

#[cfg(feature = "tower")]
use corelane_engine::entropy::Entropy;
use corelane_transport::http::checks::CheckId;
#[cfg(feature = "tower")]
use corelane_transport::http::request_id;

pub(super) use self::exchanges::ExchangePath;
pub(super) use self::frontend::{HttpFrontend, HttpParts, RequestChecks, end_session};
pub(super) use self::gauges::{GaugeTotals, Gauges};
pub(super) use self::page::{CONTENT_SECURITY_POLICY, write_page};

/// Returns the `X-Request-ID` of a response that no shard has written, from the values of the
/// request; `None` if the system has no random source.
#[cfg(feature = "tower")]
pub fn request_id<'v>(sent: impl Iterator<Item = &'v [u8]>) -> Option<Vec<u8>> {
    if let Some(id) = request_id::sent_id_of_all(sent) {
        return Some(id.to_vec());
    }
    let Entropy { secret, .. } = Entropy::from_system().ok()?;
    let random = secret.first_chunk().map(|bytes| u128::from_le_bytes(*bytes))?;
    Some(request_id::random_uuid(random).to_vec())
}

/// Returns the error message for a check that a session has failed.
pub(super) const fn session_error_message(check: CheckId) -> &'static str {
    match check {
        CheckId::SessionExists => {
            "the session has expired or does not exist: send initialize again"
        }
        CheckId::StreamAvailable => {
            "another GET stream of this session is open; only one is allowed"
        }
        CheckId::EventIdKnown => "Last-Event-ID does not identify an event of a resumable stream",
        _ => "the request is rejected",
    }
}
