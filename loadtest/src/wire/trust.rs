//! Whom a client trusts over TLS, and who it is itself.
//!
//! What it keeps true: certificates are checked unless [`Trust::Anyone`] was asked for, and
//! [`TlsClient::describe`] says so then.
//!
//! What it does not do: read a file. What it is handed was read.

use std::fmt;
use std::sync::{Arc, OnceLock};

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// Sessions that a worker keeps for resumption.
const SESSIONS_MAX: usize = 256;
/// What is agreed on inside TLS where the messages are HTTP or begin as HTTP (RFC 7301).
const HTTP: &[u8] = b"http/1.1";

/// Whose certificates are accepted.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Those that one of these has issued.
    Roots {
        /// The issuers.
        roots: Arc<RootCertStore>,
        /// Where they come from, in words: behind "checked against".
        source: String,
    },
    /// All of them: whoever stands between the two can read everything.
    Anyone,
}

/// A certificate of our own, with those that lead to its issuer, and its key.
pub type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// What all encrypted connections of a run have in common.
#[derive(Clone)]
pub struct TlsClient {
    pub(super) config: Arc<ClientConfig>,
    pub(super) name: ServerName<'static>,
    checked: Arc<str>,
    /// What the first handshake has agreed on.
    agreed: Arc<OnceLock<String>>,
}

impl TlsClient {
    /// A client of the server `name`, which speaks HTTP inside TLS or lines.
    ///
    /// # Errors
    ///
    /// Where no certificate can be for that name, or the key is not that of our certificate: in one
    /// line.
    pub fn new(
        (name, is_http): (&str, bool),
        trust: Trust,
        identity: Option<Identity>,
    ) -> Result<Self, String> {
        let name = ServerName::try_from(name.to_owned())
            .map_err(|_| format!("no certificate can be for '{name}': pass --server-name NAME"))?;
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone());
        let builder = builder.with_safe_default_protocol_versions().map_err(|error| {
            // What the versions of TLS that rustls has by default make impossible.
            format!("TLS is not to be had here: {error}")
        })?;
        let (builder, checked) = match trust {
            Trust::Roots { roots, source } => {
                (builder.with_root_certificates(roots), format!("checked against {source}"))
            }
            Trust::Anyone => {
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
            config.alpn_protocols = vec![HTTP.to_vec()];
        }
        let agreed = Arc::default();
        Ok(Self { config: Arc::new(config), name, checked: checked.into(), agreed })
    }

    /// The same with sessions of its own to resume: what a worker takes, so that workers share
    /// nothing.
    #[must_use]
    pub fn apart(&self) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        config.resumption = Resumption::in_memory_sessions(SESSIONS_MAX);
        Self { config: Arc::new(config), ..self.clone() }
    }

    /// Notes what a handshake has agreed on, where none was noted before.
    pub(super) fn note(&self, agreed: impl FnOnce() -> String) {
        self.agreed.get_or_init(agreed);
    }

    /// What was agreed on, and whether certificates are checked, and against what.
    pub fn describe(&self) -> String {
        let agreed = self.agreed.get().map_or("TLS", String::as_str);
        format!("{agreed} · certificate {}", self.checked)
    }
}

impl fmt::Debug for TlsClient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "TlsClient({} · {})", self.name.to_str(), self.describe())
    }
}

/// Accepts any certificate, also one that cannot be read: it was asked for by name.
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
