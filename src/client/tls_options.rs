//! How a client verifies its server, and with which certificate it identifies itself.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
#[cfg(feature = "_tls")]
use std::sync::OnceLock;

use super::error::{ClientError, ClientErrorKind};
use super::target::Target;
use corelane_tls::{Identity, Pin, Roots, TlsClient, TlsClientOptions, Trust};

/// Certificates or a private key in PEM (RFC 7468). The debug format omits the text.
#[derive(Clone, Eq, PartialEq)]
#[non_exhaustive]
pub enum Pem {
    /// A file, which is read when the client is created.
    File(PathBuf),
    /// The text.
    Text(Vec<u8>),
}

/// Which servers a client trusts, and the certificate of the client.
///
/// ```no_run
/// use std::path::Path;
///
/// use corelane::Client;
/// use corelane::client::TlsOptions;
///
/// let tls = TlsOptions::new()
///     .ca(Path::new("issuer.pem"))
///     .client_certificate(Path::new("client.pem"), Path::new("client-key.pem"));
/// let client = Client::builder("https://mcp.example.org").tls(tls).connect_blocking()?;
/// # Ok::<(), corelane::client::ClientError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    ca: Option<Pem>,
    additional_ca: Option<Pem>,
    identity: Option<(Pem, Pem)>,
    pins: Vec<String>,
    server_name: Option<String>,
    /// Any certificate is accepted.
    #[cfg(all(feature = "test-support", feature = "_tls"))]
    is_insecure: bool,
}

impl TlsOptions {
    /// Creates the default options: the root certificates of the system, and no client
    /// certificate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts these authorities instead of those of the system.
    #[must_use]
    pub fn ca(self, certificates: impl Into<Pem>) -> Self {
        Self { ca: Some(certificates.into()), ..self }
    }

    /// Trusts these authorities besides those of the system, or of [`TlsOptions::ca`].
    #[must_use]
    pub fn additional_ca(self, certificates: impl Into<Pem>) -> Self {
        Self { additional_ca: Some(certificates.into()), ..self }
    }

    /// Sets the certificate chain of the client and its private key, for servers that require one
    /// (mutual TLS).
    #[must_use]
    pub fn client_certificate(self, chain: impl Into<Pem>, key: impl Into<Pem>) -> Self {
        Self { identity: Some((chain.into(), key.into())), ..self }
    }

    /// Accepts only a server with this public key, besides the checks of its certificate: the
    /// SHA-256 of its `SubjectPublicKeyInfo` in base64, as RFC 7469 writes it. Of several pins one
    /// must match, so that a server can change its key. For `cert.pem` it is
    ///
    /// ```text
    /// openssl x509 -in cert.pem -pubkey -noout | openssl pkey -pubin -outform der |
    ///     openssl dgst -sha256 -binary | base64
    /// ```
    #[must_use]
    pub fn pin(mut self, pin: &str) -> Self {
        self.pins.push(pin.to_owned());
        self
    }

    /// Sets the name that the certificate of the server must have, and that is sent as SNI.
    /// Default: the host of the target.
    #[must_use]
    pub fn server_name(self, name: &str) -> Self {
        Self { server_name: Some(name.to_owned()), ..self }
    }

    /// Accepts any certificate, so that others can read and change the messages.
    #[cfg(all(feature = "test-support", feature = "_tls"))]
    #[must_use]
    pub fn insecure(self) -> Self {
        Self { is_insecure: true, ..self }
    }

    /// Returns the options for other servers than the target: only the authorities.
    pub(super) fn authorities(&self) -> Self {
        let (ca, additional_ca) = (self.ca.clone(), self.additional_ca.clone());
        Self { ca, additional_ca, ..Self::default() }
    }

    fn trust(&self) -> Result<Trust, ClientError> {
        #[cfg(all(feature = "test-support", feature = "_tls"))]
        if self.is_insecure {
            return Ok(Trust::Insecure);
        }
        let read = |pem: Option<&Pem>| {
            let pem = pem.map(|pem| pem.read("the CA certificate")).transpose()?;
            let roots = pem.map(|(text, name)| Roots::from_pem(&text, &name)).transpose();
            roots.map_err(invalid)
        };
        let roots = match read(self.ca.as_ref())? {
            Some(roots) => roots,
            None => system_roots_or_error(self.additional_ca.is_some())?,
        };
        Ok(Trust::Roots(match read(self.additional_ca.as_ref())? {
            Some(others) => roots.with(&others),
            None => roots,
        }))
    }

    fn client_for(&self, host: &str, is_http: bool) -> Result<TlsClient, ClientError> {
        let identity = self.identity.as_ref().map(|(chain, key)| {
            let (chain, chain_name) = chain.read("the client certificate")?;
            let (key, key_name) = key.read("the key of the client certificate")?;
            Identity::from_pem((&chain, &chain_name), (&key, &key_name)).map_err(invalid)
        });
        let pins: Result<Vec<Pin>, String> = self.pins.iter().map(|pin| Pin::parse(pin)).collect();
        let (identity, pins) = (identity.transpose()?, pins.map_err(invalid)?);
        let options = TlsClientOptions {
            server_name: self.server_name.as_deref().unwrap_or(host),
            is_http,
            trust: self.trust()?,
            pins: &pins,
            identity,
        };
        TlsClient::new(options).map_err(invalid)
    }
}

/// Returns what the connections to `target` share, or `None` if they are not encrypted.
///
/// # Errors
///
/// [`ClientErrorKind::InvalidInput`] for a certificate, key, pin or name that is invalid, and for
/// options without an encrypted target; [`ClientErrorKind::Tls`] if the system has no root
/// certificates.
pub fn tls_client(
    target: &Target,
    options: Option<&TlsOptions>,
) -> Result<Option<TlsClient>, ClientError> {
    let is_http = matches!(target, Target::Http(_) | Target::WebSocket(_));
    match (target.encrypted_host(), options) {
        (Some(host), Some(options)) => options.client_for(host, is_http).map(Some),
        (Some(host), None) => TlsOptions::new().client_for(host, is_http).map(Some),
        (None, None) => Ok(None),
        (None, Some(_)) => {
            let text = "TLS options need a target that begins with https://, wss:// or tls://";
            Err(invalid(text.to_owned()))
        }
    }
}

/// Returns the root certificates of the system, which are read once.
#[cfg(feature = "_tls")]
fn system_roots() -> &'static Roots {
    static ROOTS: OnceLock<Roots> = OnceLock::new();
    // Certificates that cannot be parsed are skipped.
    ROOTS.get_or_init(|| Roots::from_der(rustls_native_certs::load_native_certs().certs))
}

#[cfg(feature = "_tls")]
fn system_roots_or_error(may_be_empty: bool) -> Result<Roots, ClientError> {
    let roots = system_roots();
    if roots.is_empty() && !may_be_empty {
        let text = "the system has no root certificates: install ca-certificates, or pass --ca \
                    FILE";
        return Err(ClientError::new(ClientErrorKind::Tls, text));
    }
    Ok(roots.clone())
}

#[cfg(not(feature = "_tls"))]
fn system_roots_or_error(_: bool) -> Result<Roots, ClientError> {
    Roots::from_pem(&[], "").map_err(invalid)
}

fn invalid(text: String) -> ClientError {
    ClientError::new(ClientErrorKind::InvalidInput, text)
}

impl Pem {
    /// Returns the text and its name in errors.
    fn read(&self, name: &'static str) -> Result<(Cow<'_, [u8]>, Cow<'static, str>), ClientError> {
        match self {
            Self::Text(text) => Ok((Cow::Borrowed(text), Cow::Borrowed(name))),
            Self::File(path) => match std::fs::read(path) {
                Ok(text) => Ok((Cow::Owned(text), Cow::Owned(path.display().to_string()))),
                Err(error) => {
                    let text = format!("cannot read {}: {error}", path.display());
                    Err(ClientError::with_source(ClientErrorKind::InvalidInput, text, error))
                }
            },
        }
    }
}

impl From<PathBuf> for Pem {
    fn from(path: PathBuf) -> Self {
        Self::File(path)
    }
}

impl From<&Path> for Pem {
    fn from(path: &Path) -> Self {
        Self::File(path.to_owned())
    }
}

impl From<Vec<u8>> for Pem {
    fn from(text: Vec<u8>) -> Self {
        Self::Text(text)
    }
}

impl From<&[u8]> for Pem {
    fn from(text: &[u8]) -> Self {
        Self::Text(text.to_owned())
    }
}

impl fmt::Debug for Pem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => formatter.debug_tuple("File").field(path).finish(),
            Self::Text(_) => formatter.write_str("Text(..)"),
        }
    }
}
