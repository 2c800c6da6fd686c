//! TLS client configuration: trusted certificates and the client certificate.
//!
//! Invariant: certificates are verified unless [`Trust::Insecure`] is chosen, which
//! [`TlsClient::describe`] then reports. The module reads no files.

use std::fmt;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::sync::{Arc, OnceLock};

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    StreamOwned,
};

use super::tls_error::{HANDSHAKE_CLOSED, HANDSHAKE_SILENT, TlsError, describe_io_error};

/// TLS sessions that a load thread stores for resumption.
const SESSIONS_MAX: usize = 256;
/// ALPN protocol (RFC 7301) of HTTP and of the WebSocket upgrade.
const ALPN_HTTP: &[u8] = b"http/1.1";

/// Which server certificates are accepted.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Certificates issued by one of these roots.
    Roots {
        /// Root certificates.
        roots: Arc<RootCertStore>,
        /// Where they come from; completes the phrase "checked against".
        source: String,
    },
    /// All certificates. Anyone between client and server can read and change the data.
    Insecure,
}

/// Client certificate chain and its private key.
pub type ClientIdentity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// TLS configuration shared by all connections of a run.
#[derive(Clone)]
pub struct TlsClient {
    pub(super) config: Arc<ClientConfig>,
    pub(super) name: ServerName<'static>,
    verification: Arc<str>,
    /// Parameters negotiated by the first handshake.
    negotiated: Arc<OnceLock<String>>,
}

impl TlsClient {
    /// Creates the configuration for the server `name`, with ALPN if it speaks HTTP.
    ///
    /// # Errors
    ///
    /// Returns a one-line message if the name is invalid for a certificate or the private key does
    /// not match the client certificate.
    pub fn new(
        (name, is_http): (&str, bool),
        trust: Trust,
        identity: Option<ClientIdentity>,
    ) -> Result<Self, String> {
        let name = ServerName::try_from(name.to_owned())
            .map_err(|_| format!("invalid certificate name '{name}': pass --server-name NAME"))?;
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone());
        let builder = builder.with_safe_default_protocol_versions().map_err(|error| {
            // Only possible if rustls supports none of its default TLS versions.
            format!("TLS is not available: {error}")
        })?;
        let (builder, checked) = match trust {
            Trust::Roots { roots, source } => {
                (builder.with_root_certificates(roots), format!("checked against {source}"))
            }
            Trust::Insecure => {
                let verifier = Arc::new(AnyCertificate(provider));
                let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
                (builder, "NOT CHECKED (insecure)".into())
            }
        };
        let mut config = match identity {
            Some((chain, key)) => builder.with_client_auth_cert(chain, key).map_err(|error| {
                format!("the client's certificate and its key do not work: {error}")
            })?,
            None => builder.with_no_client_auth(),
        };
        if is_http {
            config.alpn_protocols = vec![ALPN_HTTP.to_vec()];
        }
        let agreed = Arc::default();
        Ok(Self {
            config: Arc::new(config),
            name,
            verification: checked.into(),
            negotiated: agreed,
        })
    }

    /// Returns a copy with its own session store, so that load threads share no state.
    #[must_use]
    pub fn with_own_sessions(&self) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        config.resumption = Resumption::in_memory_sessions(SESSIONS_MAX);
        Self { config: Arc::new(config), ..self.clone() }
    }

    /// Performs the handshake over `socket`, whose timeouts are set, with blocking calls.
    ///
    /// # Errors
    ///
    /// Returns a one-line message if the handshake fails.
    pub fn open_blocking(
        &self,
        mut socket: TcpStream,
    ) -> Result<StreamOwned<ClientConnection, TcpStream>, String> {
        let connection = ClientConnection::new(self.config.clone(), self.name.clone());
        let mut connection =
            connection.map_err(|error| TlsError::from_handshake(&error).message)?;
        while connection.is_handshaking() {
            if let Err(error) = connection.complete_io(&mut socket) {
                return Err(match error.kind() {
                    ErrorKind::UnexpectedEof
                    | ErrorKind::ConnectionReset
                    | ErrorKind::BrokenPipe => HANDSHAKE_CLOSED.into(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut => HANDSHAKE_SILENT.into(),
                    _ => describe_io_error(&error),
                });
            }
        }
        Ok(StreamOwned::new(connection, socket))
    }

    /// Stores the negotiated parameters of the first handshake.
    pub(super) fn record_negotiated(&self, agreed: impl FnOnce() -> String) {
        self.negotiated.get_or_init(agreed);
    }

    /// Returns the negotiated parameters and how certificates are verified.
    pub fn describe(&self) -> String {
        let agreed = self.negotiated.get().map_or("TLS", String::as_str);
        format!("{agreed} · certificate {}", self.verification)
    }
}

impl fmt::Debug for TlsClient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "TlsClient({} · {})", self.name.to_str(), self.describe())
    }
}

/// Accepts any certificate (`--insecure`).
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
