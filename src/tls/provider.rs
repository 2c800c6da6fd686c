//! The cryptography of TLS: that of the feature `tls-ring`, otherwise of `tls`.

#[cfg(not(any(feature = "tls", feature = "tls-ring")))]
compile_error!("the feature `_tls` is part of `tls` and `tls-ring`: enable one of them");

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
#[cfg(not(feature = "tls-ring"))]
use rustls::crypto::aws_lc_rs as library;
#[cfg(feature = "tls-ring")]
use rustls::crypto::ring as library;
use rustls::server::ProducesTickets;
use rustls::{CipherSuite, Error};

/// Returns the provider with its default cipher suites and groups.
pub(super) fn default() -> CryptoProvider {
    library::default_provider()
}

/// Returns the provider of servers, which prefer AES-128-GCM with SHA-256: processors have
/// instructions for both, and SHA-384 has none before 2024.
pub(super) fn of_server() -> CryptoProvider {
    let mut provider = library::default_provider();
    provider.cipher_suites.sort_by_key(|suite| {
        let is_preferred = matches!(
            suite.suite(),
            CipherSuite::TLS13_AES_128_GCM_SHA256
                | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
                | CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
        );
        !is_preferred
    });
    provider
}

/// Returns what seals tickets with random keys, which are renewed every 6 h and accepted for 12 h.
pub(super) fn random_ticketer() -> Result<Arc<dyn ProducesTickets>, Error> {
    library::Ticketer::new()
}
