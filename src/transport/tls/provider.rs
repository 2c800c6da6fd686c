//! The cryptography of TLS: that of the feature `tls-ring`, otherwise of `tls`.

#[cfg(not(any(feature = "tls", feature = "tls-ring")))]
compile_error!("the feature `_tls` is part of `tls` and `tls-ring`: enable one of them");

use std::sync::Arc;

use rustls::Error;
use rustls::crypto::CryptoProvider;
#[cfg(not(feature = "tls-ring"))]
use rustls::crypto::aws_lc_rs as library;
#[cfg(feature = "tls-ring")]
use rustls::crypto::ring as library;
use rustls::server::ProducesTickets;

/// Returns the provider with its default cipher suites and groups.
pub(super) fn default() -> CryptoProvider {
    library::default_provider()
}

/// Returns what seals tickets with random keys, which are renewed every 6 h and accepted for 12 h.
pub(super) fn random_ticketer() -> Result<Arc<dyn ProducesTickets>, Error> {
    library::Ticketer::new()
}
