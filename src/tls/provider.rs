//! The cryptography of TLS: that of the feature `tls-ring`, otherwise of `tls`, otherwise none.
//! Without one no certificate or key is read, and neither a client nor a server is created.

#[cfg(all(feature = "_tls", not(any(feature = "tls", feature = "tls-ring"))))]
compile_error!("the feature `_tls` is part of `tls` and `tls-ring`: enable one of them");

use std::sync::Arc;

use rustls::CipherSuite;
use rustls::crypto::CryptoProvider;
#[cfg(all(feature = "_tls", not(feature = "tls-ring")))]
use rustls::crypto::aws_lc_rs as library;
#[cfg(feature = "tls-ring")]
use rustls::crypto::ring as library;
use rustls::server::ProducesTickets;

/// The error of whatever needs a provider.
#[cfg(not(feature = "_tls"))]
const DISABLED: &str = "this program was built without TLS: enable its feature `tls` or `tls-ring`";

/// Returns the provider with its default cipher suites and groups.
///
/// # Errors
///
/// If the program was built without one.
#[cfg(feature = "_tls")]
#[expect(clippy::unnecessary_wraps, reason = "without a library there is none")]
pub(super) fn default() -> Result<CryptoProvider, String> {
    Ok(library::default_provider())
}

#[cfg(not(feature = "_tls"))]
pub(super) fn default() -> Result<CryptoProvider, String> {
    Err(DISABLED.to_owned())
}

/// What reads certificates and keys calls this first.
///
/// # Errors
///
/// If the program was built without one.
pub(super) fn require() -> Result<(), String> {
    default().map(drop)
}

/// Returns the provider of servers, which prefer AES-128-GCM with SHA-256: processors have
/// instructions for both, and SHA-384 has none before 2024.
///
/// # Errors
///
/// If the program was built without one.
pub(super) fn of_server() -> Result<CryptoProvider, String> {
    let mut provider = default()?;
    provider.cipher_suites.sort_by_key(|suite| {
        let is_preferred = matches!(
            suite.suite(),
            CipherSuite::TLS13_AES_128_GCM_SHA256
                | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
                | CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
        );
        !is_preferred
    });
    Ok(provider)
}

/// Returns what seals tickets with random keys, which are renewed every 6 h and accepted for 12 h.
///
/// # Errors
///
/// If the system has no random bytes, or the program was built without a provider.
#[cfg(feature = "_tls")]
pub(super) fn random_ticketer() -> Result<Arc<dyn ProducesTickets>, String> {
    library::Ticketer::new().map_err(|error| format!("no TLS ticket keys: {error}"))
}

#[cfg(not(feature = "_tls"))]
pub(super) fn random_ticketer() -> Result<Arc<dyn ProducesTickets>, String> {
    Err(DISABLED.to_owned())
}
