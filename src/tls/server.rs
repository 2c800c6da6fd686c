//! TLS server configuration: certificates by name with their OCSP responses (RFC 6066 section 8),
//! certificates of clients, tickets.

use std::fmt;
use std::sync::Arc;

use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateRevocationListDer, ServerName};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{
    ClientHello, NoClientAuth, ParsedCertificate, ResolvesServerCert, WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::{Error, ServerConfig};
use sha2::{Digest, Sha256};

use super::client::ALPN_HTTP;
use super::tickets::TicketKeys;
use super::trust::{Identity, Roots};
use super::{der, provider};

/// Tickets that a TLS 1.3 handshake gives to the client. Each resumes one connection.
const TICKETS_PER_HANDSHAKE: usize = 1;

/// What the TLS connections of a listener share. Cloning is cheap.
///
/// Invariant: each certificate fits its private key.
#[derive(Clone)]
pub struct TlsServer {
    pub(super) config: Arc<ServerConfig>,
    /// Clients are asked for certificates.
    pub(super) asks_clients: bool,
}

/// What a [`TlsServer`] is created from.
#[derive(Debug)]
pub struct TlsServerOptions {
    /// At least one. A client gets the first one that is for the name it asks for (SNI, RFC 6066
    /// section 3), and otherwise the first. The staple is sent with its certificate to clients
    /// that ask for one.
    pub identities: Vec<(Identity, Option<OcspStaple>)>,
    /// Whether clients have certificates.
    pub clients: ClientCertificates,
    /// Seals and opens the tickets.
    pub tickets: TicketKeys,
}

/// Whether a server asks its clients for certificates (RFC 8446 section 4.3.2).
#[derive(Debug)]
pub enum ClientCertificates {
    /// No.
    Off,
    /// Clients without one are served; one that is not trusted ends the handshake.
    Asked(TrustedClients),
    /// Clients without one are not served.
    Required(TrustedClients),
}

/// Which certificates of clients are accepted.
#[derive(Debug)]
pub struct TrustedClients {
    /// The authorities that issue them.
    pub roots: Roots,
    /// Lists of revoked ones. Without a list nothing is revoked; with one, each certificate must
    /// be covered by a list of its issuer.
    pub revoked: Vec<Revocations>,
}

/// Certificate revocation lists (RFC 5280 section 5).
pub struct Revocations(Vec<CertificateRevocationListDer<'static>>);

impl Revocations {
    /// Reads the lists of a PEM text, at least one.
    ///
    /// # Errors
    ///
    /// Why the text, which an error calls `name`, is unusable.
    pub fn from_pem(pem: &[u8], name: &str) -> Result<Self, String> {
        provider::require()?;
        let all: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(pem).collect();
        match all {
            Ok(all) if all.is_empty() => Err(format!(
                "{name} contains no revocation list: a PEM file has -----BEGIN X509 CRL-----"
            )),
            Ok(all) => Ok(Self(all)),
            Err(error) => Err(format!("{name} is not PEM: {error}")),
        }
    }
}

impl fmt::Debug for Revocations {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Revocations({})", self.0.len())
    }
}

impl TlsServer {
    /// Creates the configuration.
    ///
    /// # Errors
    ///
    /// Returns a one-line message if there is no certificate, one does not fit its private key, or
    /// no authority of clients is usable, or the program was built without cryptography.
    pub fn new(options: TlsServerOptions) -> Result<Self, String> {
        let provider = Arc::new(provider::of_server()?);
        let certificates = Certificates::new(options.identities, &provider)?;
        let asks_clients = !matches!(options.clients, ClientCertificates::Off);
        let context = options.clients.digest();
        let verifier = options.clients.verifier(&provider)?;
        let builder = ServerConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().map_err(|error| {
            // Only possible if rustls supports none of its default TLS versions.
            format!("TLS is not available: {error}")
        })?;
        let builder = builder.with_client_cert_verifier(verifier);
        let mut config = builder.with_cert_resolver(Arc::new(certificates));
        config.ticketer = options.tickets.with_context(context);
        config.ignore_client_order = true;
        config.send_tls13_tickets = TICKETS_PER_HANDSHAKE;
        Ok(Self { config: Arc::new(config), asks_clients })
    }

    /// Returns the same for clients that speak HTTP, which ALPN negotiates (RFC 7301).
    #[must_use]
    pub fn for_http(&self) -> Self {
        let mut config = ServerConfig::clone(&self.config);
        config.alpn_protocols = vec![ALPN_HTTP.to_vec()];
        Self { config: Arc::new(config), asks_clients: self.asks_clients }
    }
}

impl fmt::Debug for TlsServer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TlsServer").finish_non_exhaustive()
    }
}

impl ClientCertificates {
    /// Returns a digest of all that decides which certificates are accepted.
    fn digest(&self) -> [u8; 16] {
        let mut hash = Sha256::new();
        if let Self::Asked(clients) | Self::Required(clients) = self {
            hash.update([u8::from(matches!(self, Self::Required(_)))]);
            for root in &clients.roots.0.roots {
                let constraints = root.name_constraints.as_deref().unwrap_or_default();
                for part in [&root.subject[..], &root.subject_public_key_info, constraints] {
                    hash.update((part.len() as u64).to_le_bytes());
                    hash.update(part);
                }
            }
            for list in clients.revoked.iter().flat_map(|lists| &lists.0) {
                hash.update(list);
            }
        }
        let mut digest = [0; 16];
        digest.copy_from_slice(&hash.finalize()[..16]);
        digest
    }

    fn verifier(
        self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ClientCertVerifier>, String> {
        let (clients, is_required) = match self {
            Self::Off => return Ok(Arc::new(NoClientAuth)),
            Self::Asked(clients) => (clients, false),
            Self::Required(clients) => (clients, true),
        };
        let roots = Arc::clone(&clients.roots.0);
        let builder = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider));
        let builder = builder.with_crls(clients.revoked.into_iter().flat_map(|lists| lists.0));
        let builder = if is_required { builder } else { builder.allow_unauthenticated() };
        let verifier = builder.build();
        verifier.map_err(|error| format!("no client certificate can be verified: {error}"))
    }
}

/// The certificates of a server.
#[derive(Debug)]
struct Certificates {
    default: Arc<CertifiedKey>,
    others: Vec<Arc<CertifiedKey>>,
}

impl Certificates {
    fn new(
        identities: Vec<(Identity, Option<OcspStaple>)>,
        provider: &CryptoProvider,
    ) -> Result<Self, String> {
        let keys = identities.into_iter().map(|(Identity { chain, key }, staple)| {
            let key = CertifiedKey::from_der(chain, key, provider);
            let key = key.map(|key| CertifiedKey { ocsp: staple.map(|it| it.0), ..key });
            key.map(Arc::new).map_err(|error| match error {
                Error::InconsistentKeys(_) => {
                    "the certificate is for another private key".to_owned()
                }
                error => format!("the certificate and its private key do not work: {error}"),
            })
        });
        let mut keys = keys.collect::<Result<Vec<_>, String>>()?.into_iter();
        let default = keys.next().ok_or("TLS needs a certificate")?;
        Ok(Self { default, others: keys.collect() })
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, client_hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let named = client_hello.server_name().filter(|_| !self.others.is_empty());
        let name = named.and_then(|name| ServerName::try_from(name).ok());
        let is_named = |key: &&Arc<CertifiedKey>| {
            let certificate = key.cert.first().map(ParsedCertificate::try_from);
            name.as_ref().is_some_and(|name| {
                matches!(&certificate, Some(Ok(certificate))
                    if verify_server_name(certificate, name).is_ok())
            })
        };
        let all = std::iter::once(&self.default).chain(&self.others);
        Some(Arc::clone(all.into_iter().find(is_named).unwrap_or(&self.default)))
    }
}

/// `responseStatus` of a response that says something of a certificate (RFC 6960 section 4.2.1).
const SUCCESSFUL: u32 = 0;

/// An OCSP response in DER. Clients verify its signature, its times and whose certificate it is of.
#[derive(Debug)]
pub struct OcspStaple(Vec<u8>);

impl OcspStaple {
    /// Takes a successful response.
    ///
    /// # Errors
    ///
    /// Why the file, which an error calls `name`, is unusable.
    pub fn from_der(der: Vec<u8>, name: &str) -> Result<Self, String> {
        provider::require()?;
        match der::read_ocsp_status(&der) {
            Some(SUCCESSFUL) => Ok(Self(der)),
            Some(status) => Err(format!(
                "{name} is an OCSP response with the error {status}: request another one"
            )),
            None => Err(format!("{name} is no OCSP response in DER (RFC 6960)")),
        }
    }
}

#[cfg(feature = "_tls")]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ocsp_response_without_certificate_is_error() {
        // `OCSPResponse { responseStatus successful }`, and `unauthorized`.
        assert!(OcspStaple::from_der(vec![0x30, 3, 0x0a, 1, 0], "a.der").is_ok());
        for (der, part) in [
            (&[0x30, 3, 0x0a, 1, 6][..], "a.der is an OCSP response with the error 6"),
            (&[0x30, 3, 0x0a, 1, 0, 0], "no OCSP response"),
            (&[0x30, 4, 0x0a, 1, 0], "no OCSP response"),
            (b"-----BEGIN", "no OCSP response"),
            (b"", "no OCSP response"),
        ] {
            let error = OcspStaple::from_der(der.to_vec(), "a.der").unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
