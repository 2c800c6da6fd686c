//! TLS client configuration: trusted certificates, the client certificate, and the checks of
//! server certificates besides those of rustls.

use std::fmt;
use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, OtherError, SignatureScheme,
};

use super::error::UnpinnedKey;
use super::provider;
use super::trust::{Identity, Pin, Trust};

/// TLS sessions that a load thread stores for resumption.
const SESSIONS_MAX: usize = 256;
/// ALPN protocol (RFC 7301) of HTTP and of the WebSocket upgrade.
pub(super) const ALPN_HTTP: &[u8] = b"http/1.1";

/// What the connections to one server share: configuration, and sessions to resume. Cloning is
/// cheap, and clones share the sessions.
///
/// Invariant: certificates are verified unless `Trust::Insecure` is chosen.
#[derive(Clone)]
pub struct TlsClient {
    pub(super) config: Arc<ClientConfig>,
    pub(super) name: ServerName<'static>,
    /// Parameters negotiated by the first handshake.
    negotiated: Arc<OnceLock<String>>,
}

/// What a [`TlsClient`] is created from.
#[derive(Debug)]
pub struct TlsClientOptions<'a> {
    /// Name or address that the certificate of the server must have, and that is sent as SNI.
    pub server_name: &'a str,
    /// The server speaks HTTP, which ALPN negotiates.
    pub is_http: bool,
    /// Which certificates are accepted.
    pub trust: Trust,
    /// The public key of the server must have one of these pins, unless there is none.
    pub pins: &'a [Pin],
    /// The certificate of the client.
    pub identity: Option<Identity>,
}

impl TlsClient {
    /// Creates the configuration.
    ///
    /// # Errors
    ///
    /// Returns a one-line message if the name is invalid for a certificate, no authority is
    /// trusted, the private key does not match the client certificate, or the program was built
    /// without cryptography.
    pub fn new(options: TlsClientOptions<'_>) -> Result<Self, String> {
        let provider = Arc::new(provider::default()?);
        let name = ServerName::try_from(options.server_name.to_owned()).map_err(|_| {
            let name = options.server_name;
            format!("invalid certificate name '{name}': pass --server-name NAME")
        })?;
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().map_err(|error| {
            // Only possible if rustls supports none of its default TLS versions.
            format!("TLS is not available: {error}")
        })?;
        let builder = match options.trust {
            Trust::Roots(roots) if options.pins.is_empty() => {
                builder.with_root_certificates(roots.0)
            }
            Trust::Roots(roots) => {
                let inner = WebPkiServerVerifier::builder_with_provider(roots.0, provider).build();
                let inner = inner.map_err(|error| format!("no trusted authority: {error}"))?;
                let verifier = Arc::new(PinVerifier::new(inner, options.pins));
                builder.dangerous().with_custom_certificate_verifier(verifier)
            }
            Trust::Insecure => {
                let verifier = Arc::new(AnyCertificate(provider));
                builder.dangerous().with_custom_certificate_verifier(verifier)
            }
        };
        let mut config = match options.identity {
            Some(Identity { chain, key }) => {
                builder.with_client_auth_cert(chain, key).map_err(|error| {
                    format!("the client's certificate and its key do not work: {error}")
                })?
            }
            None => builder.with_no_client_auth(),
        };
        if options.is_http {
            config.alpn_protocols = vec![ALPN_HTTP.to_vec()];
        }
        Ok(Self { config: Arc::new(config), name, negotiated: Arc::default() })
    }

    /// Returns a copy with its own session store, so that load threads share no state.
    #[must_use]
    pub fn with_own_sessions(&self) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        config.resumption = Resumption::in_memory_sessions(SESSIONS_MAX);
        Self { config: Arc::new(config), ..self.clone() }
    }

    /// Stores the negotiated parameters of the first handshake.
    pub(super) fn record_negotiated(&self, negotiated: impl FnOnce() -> String) {
        self.negotiated.get_or_init(negotiated);
    }

    /// Returns version and cipher suite of the first handshake, once it is complete.
    pub fn negotiated(&self) -> Option<&str> {
        self.negotiated.get().map(String::as_str)
    }
}

impl fmt::Debug for TlsClient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "TlsClient({})", self.name.to_str())
    }
}

/// Accepts a server whose certificate is valid and whose public key has one of the pins.
///
/// The pins are those of the certificate of the server itself: certificates that it adds to the
/// handshake prove nothing.
#[derive(Debug)]
struct PinVerifier {
    inner: Arc<WebPkiServerVerifier>,
    pins: Box<[Pin]>,
}

impl PinVerifier {
    fn new(inner: Arc<WebPkiServerVerifier>, pins: &[Pin]) -> Self {
        Self { inner, pins: pins.into() }
    }
}

impl ServerCertVerifier for PinVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.inner.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        )?;
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let pin = Pin::of_public_key(&certificate.subject_public_key_info());
        if self.pins.contains(&pin) {
            return Ok(verified);
        }
        Err(CertificateError::Other(OtherError(Arc::new(UnpinnedKey(pin)))).into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// Accepts any certificate.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
