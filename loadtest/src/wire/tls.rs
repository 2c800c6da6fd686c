//! TLS of a run: what its connections share, and how results and errors describe it.
//!
//! The filter of a connection is [`corelane::transport::tls::TlsFilter`].

use std::io;
use std::sync::Arc;

use corelane::transport::tls::{TlsClient, TlsError};

/// TLS configuration shared by all connections of a run.
#[derive(Clone, Debug)]
pub struct RunTls {
    client: TlsClient,
    /// How certificates are verified.
    verification: Arc<str>,
}

impl RunTls {
    /// Creates the configuration; `verification` says how `client` verifies certificates.
    pub fn new(client: TlsClient, verification: &str) -> Self {
        Self { client, verification: verification.into() }
    }

    /// Returns what the connections share.
    pub const fn client(&self) -> &TlsClient {
        &self.client
    }

    /// Returns a copy with its own session store, so that load threads share no state.
    #[must_use]
    pub fn with_own_sessions(&self) -> Self {
        Self { client: self.client.with_own_sessions(), ..self.clone() }
    }

    /// Returns the parameters that the first connection negotiated, and how certificates are
    /// verified.
    pub fn describe(&self) -> String {
        let negotiated = self.client.negotiated().unwrap_or("TLS");
        format!("{negotiated} · certificate {}", self.verification)
    }
}

/// Describes a failure in one line, with the hint if there is one.
pub fn describe_tls_error(error: &TlsError) -> String {
    let kind = error.kind();
    match (kind.hint(), kind.is_server_certificate()) {
        (Some(hint), true) => format!("{error}: {hint}, or pass --insecure"),
        (Some(hint), false) => format!("{error}: {hint}"),
        (None, true) => format!("{error}; or pass --insecure"),
        (None, false) => error.to_string(),
    }
}

/// Describes the error of a stream that may be encrypted.
pub fn describe_io_error(error: &io::Error) -> String {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>());
    tls.map_or_else(|| error.to_string(), describe_tls_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_error_is_described_with_hint() {
        let error = TlsError::timeout();
        let text = "no reply to the TLS handshake: does the server speak TLS on this port?";
        assert_eq!(describe_tls_error(&error), text);
        assert_eq!(describe_io_error(&io::Error::other(error)), text);
        assert!(!describe_tls_error(&TlsError::closed()).contains(": "));
    }
}
