//! The options of MCP over standard input and output.

use super::KIB;
#[cfg(doc)]
use super::LimitOptions;

/// Options of standard input and output.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct StdioOptions {
    /// Bytes read from standard input at a time, and buffered for standard output before a write.
    /// Cost: that many bytes, twice. Default 64 KiB.
    pub buffer_bytes: u32,
    /// Starts a request only after the response to the one before. Notifications and responses are
    /// handled meanwhile, so that calls can be cancelled and can ask their client. Requests that
    /// wait take up to [`LimitOptions::message_bytes_max`] and
    /// [`LimitOptions::requests_in_flight_max`]; nothing is read beyond that. Cost: a slow call
    /// delays all others. Default false.
    pub sequential: bool,
}

impl Default for StdioOptions {
    fn default() -> Self {
        Self { buffer_bytes: 64 * KIB, sequential: false }
    }
}
