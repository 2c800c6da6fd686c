//! TLS of a run: what its connections share, and how results and errors describe it.
//!
//! The filter of a connection is [`corelane_tls::TlsFilter`].

use std::sync::Arc;

use corelane_client::TlsOptions;
use corelane_tls::{TlsClient, TlsError};

/// TLS configuration shared by all connections of a run.
#[derive(Clone, Debug)]
pub struct RunTls {
    options: TlsOptions,
    client: TlsClient,
    /// How certificates are verified.
    verification: Arc<str>,
}

impl RunTls {
    /// Creates the configuration. `client` was created with `options`; `verification` says how it
    /// verifies certificates.
    pub fn new(options: TlsOptions, client: TlsClient, verification: &str) -> Self {
        Self { options, client, verification: verification.into() }
    }

    /// Returns the options of a client.
    pub const fn options(&self) -> &TlsOptions {
        &self.options
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_error_is_described_with_hint() {
        let error = TlsError::timeout();
        let text = "no reply to the TLS handshake: does the server speak TLS on this port?";
        assert_eq!(describe_tls_error(&error), text);
        assert!(!describe_tls_error(&TlsError::closed()).contains(": "));
    }
}
