//! What one end of a connection trusts the other for: certificates of authorities, a pinned public
//! key of the server; and the certificate chain that it shows itself.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sha2::{Digest, Sha256};

use super::{der, provider};

/// Certificates of trusted authorities. Cloning is cheap.
#[derive(Clone)]
pub struct Roots(pub(super) Arc<RootCertStore>);

/// Which certificates of servers are accepted.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Those that one of these authorities has issued.
    Roots(Roots),
    /// All. Anyone between client and server can read and change the data.
    Insecure,
}

/// A certificate chain of this end and its private key, which the debug format omits.
pub struct Identity {
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
}

impl Roots {
    /// Reads the certificates of a PEM text, at least one.
    ///
    /// # Errors
    ///
    /// Why the text, which an error calls `name`, is unusable.
    pub fn from_pem(pem: &[u8], name: &str) -> Result<Self, String> {
        provider::require()?;
        let mut roots = RootCertStore::empty();
        for certificate in read_certificates(pem, name)? {
            roots
                .add(certificate)
                .map_err(|error| format!("{name} contains an unusable certificate: {error}"))?;
        }
        Ok(Self(Arc::new(roots)))
    }

    /// Collects certificates in DER. Those that cannot be parsed are skipped.
    pub fn from_der<C: AsRef<[u8]>>(certificates: impl IntoIterator<Item = C>) -> Self {
        let mut roots = RootCertStore::empty();
        let certificates = certificates.into_iter();
        roots.add_parsable_certificates(
            certificates.map(|certificate| CertificateDer::from(certificate.as_ref().to_vec())),
        );
        Self(Arc::new(roots))
    }

    /// Returns these and `others`.
    #[must_use]
    pub fn with(&self, others: &Self) -> Self {
        let mut roots = RootCertStore::clone(&self.0);
        roots.roots.extend_from_slice(&others.0.roots);
        Self(Arc::new(roots))
    }

    /// Returns whether no authority is trusted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Roots {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Roots({})", self.0.len())
    }
}

impl Identity {
    /// Reads a certificate chain and a private key, each a PEM text with its name for errors.
    ///
    /// # Errors
    ///
    /// Why one of the texts is unusable.
    pub fn from_pem(chain: (&[u8], &str), key: (&[u8], &str)) -> Result<Self, String> {
        provider::require()?;
        let chain = read_certificates(chain.0, chain.1)?;
        let (key, name) = key;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| format!("{name} contains no PEM private key: {error}"))?;
        Ok(Self { chain, key })
    }

    /// Returns when the first certificate of the chain expires, in seconds since 1970-01-01 UTC, or
    /// `None` if none states it.
    pub fn expires_at(&self) -> Option<i64> {
        self.chain.iter().filter_map(|certificate| der::read_expiry(certificate)).min()
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Identity").finish_non_exhaustive()
    }
}

fn read_certificates(pem: &[u8], name: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match all {
        Ok(all) if all.is_empty() => Err(format!(
            "{name} contains no certificate: a PEM file has -----BEGIN CERTIFICATE-----"
        )),
        Ok(all) => Ok(all),
        Err(error) => Err(format!("{name} is not PEM: {error}")),
    }
}

/// SHA-256 of the `SubjectPublicKeyInfo` of a certificate (RFC 7469, section 2.4).
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct Pin([u8; 32]);

impl Pin {
    /// Reads a pin as RFC 7469 writes it: 32 bytes in base64.
    ///
    /// # Errors
    ///
    /// What a pin looks like.
    pub fn parse(text: &str) -> Result<Self, String> {
        let bytes = BASE64_STANDARD.decode(text).ok();
        let bytes = bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        bytes.map(Self).ok_or_else(|| {
            format!(
                "'{text}' is not a pin: write the SHA-256 of the public key of the server in \
                 base64, 44 characters"
            )
        })
    }

    /// Returns the pin of a `SubjectPublicKeyInfo` in DER.
    pub fn of_public_key(public_key: &[u8]) -> Self {
        Self(Sha256::digest(public_key).into())
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&BASE64_STANDARD.encode(self.0))
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Pin({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pin_is_read_and_written_in_base64() {
        // RFC 7469, section 2.1.5.
        let text = "d6qzRu9zOECb90Uez27xWltNsj0e1Md7GkYYkVoZWmM=";
        assert_eq!(Pin::parse(text).unwrap().to_string(), text);
        for invalid in ["", "d6qz", "sha256//d6qzRu9zOECb90Uez27xWltNsj0e1Md7GkYYkVoZWmM=", "é"] {
            assert!(Pin::parse(invalid).unwrap_err().contains("44 characters"), "{invalid}");
        }
    }

    #[test]
    fn pin_is_sha256_of_public_key() {
        // printf abc | openssl dgst -sha256 -binary | base64
        let expected = "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=";
        assert_eq!(Pin::of_public_key(b"abc").to_string(), expected);
    }
}
