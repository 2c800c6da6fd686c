//! Trusted certificates, and the certificate of the client.

use std::fmt;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

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

/// A certificate chain of the client and its private key, which the debug format omits.
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
        let chain = read_certificates(chain.0, chain.1)?;
        let (key, name) = key;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| format!("{name} contains no PEM private key: {error}"))?;
        Ok(Self { chain, key })
    }
}

impl Identity {
    /// Returns when the first certificate of the chain expires, in seconds since 1970-01-01 UTC, or
    /// `None` if none states it.
    pub fn expires_at(&self) -> Option<i64> {
        let ends = self.chain.iter().filter_map(|certificate| {
            let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
            Some(certificate.validity().not_after.timestamp())
        });
        ends.min()
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
