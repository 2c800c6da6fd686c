//! Why a TLS handshake or connection failed.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;

#[cfg(feature = "_tls")]
mod convert;
#[cfg(feature = "_tls")]
pub(super) mod of_clients;

#[cfg(feature = "_tls")]
pub(super) use self::convert::UnpinnedKey;

/// Failure of a TLS handshake or connection. The text is one line and names the cause.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TlsError {
    kind: TlsErrorKind,
    message: Cow<'static, str>,
    is_alert: bool,
}

/// What to correct after a [`TlsError`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TlsErrorKind {
    /// The certificate of the server was issued by an authority that is not trusted.
    UnknownIssuer,
    /// The issuer of the certificate has a trusted name and another key: it was created anew.
    InvalidSignature,
    /// The certificate of the server has expired.
    Expired,
    /// The certificate of the server is not valid yet.
    NotYetValid,
    /// The certificate of the server is for another name.
    WrongName,
    /// The certificate of the server is invalid in another way.
    InvalidCertificate,
    /// The public key of the server is not pinned.
    UnpinnedKey,
    /// The server requires a certificate of the client.
    CertificateRequired,
    /// The server rejected the certificate of the client.
    CertificateRejected,
    /// The server has no certificate for the name.
    UnknownName,
    /// The server does not speak TLS.
    NotTls,
    /// The server speaks neither TLS 1.2 nor TLS 1.3.
    OutdatedVersion,
    /// The server ended the connection with an alert that has no kind of its own.
    Alert,
    /// The server closed the connection during the handshake.
    Closed,
    /// The server did not answer the handshake in time.
    Timeout,
    /// Another failure.
    Other,
}

impl TlsError {
    pub(super) fn new(kind: TlsErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, message: message.into(), is_alert: false }
    }

    /// The error of a handshake during which the server closed the connection.
    pub fn closed() -> Self {
        let text = "the server closed the connection during the TLS handshake";
        Self::new(TlsErrorKind::Closed, text)
    }

    /// The error of a handshake that the server did not answer.
    pub fn timeout() -> Self {
        Self::new(TlsErrorKind::Timeout, "no reply to the TLS handshake")
    }

    /// The error of a handshake during which the client closed the connection.
    pub fn client_closed() -> Self {
        let text = "the client closed the connection during the TLS handshake";
        Self::new(TlsErrorKind::Closed, text)
    }

    /// The error of a handshake that the client did not complete.
    pub fn client_timeout() -> Self {
        let text = "the client did not complete the TLS handshake in time";
        Self::new(TlsErrorKind::Timeout, text)
    }

    /// The error of a handshake with too many bytes.
    pub fn long_handshake() -> Self {
        Self::new(TlsErrorKind::Other, "the TLS handshake has too many bytes")
    }

    /// Returns the kind.
    pub const fn kind(&self) -> TlsErrorKind {
        self.kind
    }

    /// Returns whether the server ended the connection with an alert. Otherwise this side failed.
    pub const fn is_alert(&self) -> bool {
        self.is_alert
    }
}

impl TlsErrorKind {
    /// Returns whether the server refuses to serve without another certificate of the client. In
    /// TLS 1.3 it does so after the handshake.
    pub const fn is_client_certificate(self) -> bool {
        matches!(self, Self::CertificateRequired | Self::CertificateRejected)
    }

    /// Returns whether the certificate of the server was not accepted.
    pub const fn is_server_certificate(self) -> bool {
        matches!(
            self,
            Self::UnknownIssuer
                | Self::InvalidSignature
                | Self::Expired
                | Self::NotYetValid
                | Self::WrongName
                | Self::InvalidCertificate
        )
    }

    /// Returns what to do, in the flags that the programs of this project share.
    pub const fn hint(self) -> Option<&'static str> {
        Some(match self {
            Self::UnknownIssuer => "pass --ca FILE with the issuer",
            Self::InvalidSignature => "pass --ca FILE with the current issuer",
            Self::Expired => "renew it",
            Self::NotYetValid => "check both clocks",
            Self::WrongName | Self::UnknownName => "pass --server-name NAME",
            Self::UnpinnedKey => "pass this pin with --pin if the server has a new key",
            Self::CertificateRequired => "pass --cert FILE and --key FILE",
            Self::CertificateRejected => "pass another one with --cert FILE and --key FILE",
            Self::NotTls => {
                "use http://, ws:// or tcp:// for a plaintext server, or correct the port"
            }
            Self::OutdatedVersion => "upgrade it",
            Self::Alert => {
                "check its log, or pass --cert FILE and --key FILE if it requires a client \
                 certificate"
            }
            Self::Timeout => "does the server speak TLS on this port?",
            Self::InvalidCertificate | Self::Closed | Self::Other => return None,
        })
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl StdError for TlsError {}
