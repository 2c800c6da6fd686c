//! What rustls does not read of certificates and OCSP responses. In a build without a provider
//! nothing is read: [`require`](super::provider::require) fails before.

#[cfg(feature = "_tls")]
use x509_parser::asn1_rs::{Enumerated, FromDer, Sequence};
#[cfg(feature = "_tls")]
use x509_parser::certificate::X509Certificate;

/// Returns when a certificate expires, in seconds since 1970-01-01 UTC, or `None` if it cannot be
/// read.
#[cfg(feature = "_tls")]
pub(super) fn read_expiry(certificate: &[u8]) -> Option<i64> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    Some(certificate.validity().not_after.timestamp())
}

#[cfg(not(feature = "_tls"))]
pub(super) const fn read_expiry(_: &[u8]) -> Option<i64> {
    None
}

/// Returns `responseStatus` of an OCSP response (RFC 6960 section 4.2.1), or `None` if it is none.
#[cfg(feature = "_tls")]
pub(super) fn read_ocsp_status(response: &[u8]) -> Option<u32> {
    let (rest, response) = Sequence::from_der(response).ok()?;
    let (_, status) = Enumerated::from_der(&response.content).ok()?;
    rest.is_empty().then_some(status.0)
}

#[cfg(not(feature = "_tls"))]
pub(super) const fn read_ocsp_status(_: &[u8]) -> Option<u32> {
    None
}
