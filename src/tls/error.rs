//! Why a TLS handshake or connection failed: the errors of rustls in one line.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible};

use super::trust::Pin;

/// Number of certificate names in an error message.
const NAMES_MAX: usize = 3;
/// The text of the error of webpki for a server with the certificate of an authority.
const CA_CERTIFICATE: &str = "CaUsedAsEndEntity";
/// Message for a server with only outdated protocol versions.
const OUTDATED_MESSAGE: &str = "the server speaks neither TLS 1.2 nor TLS 1.3";

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

    /// The error of a handshake that this side has failed to handle.
    pub fn panicked() -> Self {
        Self::new(TlsErrorKind::Other, "the TLS handshake ended by a panic")
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

/// The server has another public key than expected.
#[derive(Debug)]
pub struct UnpinnedKey(pub Pin);

impl fmt::Display for UnpinnedKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the server's public key is not pinned: its pin is {}", self.0)
    }
}

impl StdError for UnpinnedKey {}

impl TlsError {
    /// Describes the error of a handshake with a server.
    pub(super) fn from_handshake(error: &Error) -> Self {
        match error {
            Error::InvalidCertificate(error) => from_certificate(error),
            Error::InvalidMessage(
                InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
            ) => Self::new(TlsErrorKind::NotTls, "the server does not speak TLS on this port"),
            Error::AlertReceived(alert) => from_alert(*alert),
            Error::PeerIncompatible(
                PeerIncompatible::ServerDoesNotSupportTls12Or13
                | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig,
            ) => Self::new(TlsErrorKind::OutdatedVersion, OUTDATED_MESSAGE),
            error => Self::new(TlsErrorKind::Other, format!("TLS handshake failed: {error}")),
        }
    }

    /// Describes the error of an open connection to a server.
    pub(super) fn from_connection(error: &Error) -> Self {
        match error {
            Error::AlertReceived(alert) => from_alert(*alert),
            error => {
                let text = format!("invalid TLS data from the server: {error}");
                Self::new(TlsErrorKind::Other, text)
            }
        }
    }

    /// Describes the error of a handshake with a client.
    pub(super) fn from_client_handshake(error: &Error) -> Self {
        match error {
            Error::InvalidMessage(
                InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
            ) => Self::new(TlsErrorKind::NotTls, "the client does not speak TLS"),
            Error::NoCertificatesPresented => {
                Self::new(TlsErrorKind::CertificateRequired, "the client has sent no certificate")
            }
            Error::InvalidCertificate(error) => Self::new(
                TlsErrorKind::CertificateRejected,
                format!("the client's certificate {}", describe_client_certificate(error)),
            ),
            Error::PeerIncompatible(
                PeerIncompatible::Tls12NotOffered
                | PeerIncompatible::Tls12NotOfferedOrEnabled
                | PeerIncompatible::Tls13RequiredForQuic
                | PeerIncompatible::SupportedVersionsExtensionRequired
                // Also of a client of TLS 1.0 or 1.1, which know no such extension.
                | PeerIncompatible::SignatureAlgorithmsExtensionRequired,
            ) => Self::new(
                TlsErrorKind::OutdatedVersion,
                "the client speaks neither TLS 1.2 nor TLS 1.3",
            ),
            Error::AlertReceived(alert) => {
                let text = format!("the client ended the TLS handshake with the alert {alert:?}");
                Self { is_alert: true, ..Self::new(TlsErrorKind::Alert, text) }
            }
            error => Self::new(TlsErrorKind::Other, format!("TLS handshake failed: {error}")),
        }
    }

    /// Describes the error of an open connection of a client.
    pub(super) fn from_client_connection(error: &Error) -> Self {
        let text = format!("invalid TLS data from the client: {error}");
        Self::new(TlsErrorKind::Other, text)
    }
}

/// Describes an alert of the server (RFC 8446 section 6.2).
fn from_alert(alert: AlertDescription) -> TlsError {
    let (kind, message) = match alert {
        AlertDescription::CertificateRequired => {
            (TlsErrorKind::CertificateRequired, "the server requires a client certificate")
        }
        AlertDescription::UnknownCA
        | AlertDescription::BadCertificate
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::AccessDenied => {
            (TlsErrorKind::CertificateRejected, "the server rejected the client certificate")
        }
        AlertDescription::UnrecognisedName => {
            (TlsErrorKind::UnknownName, "the server has no certificate for this name")
        }
        AlertDescription::ProtocolVersion => (TlsErrorKind::OutdatedVersion, OUTDATED_MESSAGE),
        AlertDescription::NoApplicationProtocol => {
            (TlsErrorKind::Other, "the server does not support HTTP/1.1 (ALPN)")
        }
        alert => {
            let text = format!("the server ended the TLS connection with the alert {alert:?}");
            return TlsError { is_alert: true, ..TlsError::new(TlsErrorKind::Alert, text) };
        }
    };
    TlsError { is_alert: true, ..TlsError::new(kind, message) }
}

/// Describes the error of a server certificate.
fn from_certificate(error: &CertificateError) -> TlsError {
    let (kind, message) = match error {
        CertificateError::UnknownIssuer => {
            (TlsErrorKind::UnknownIssuer, "the server's certificate has an unknown issuer")
        }
        CertificateError::BadSignature => (
            TlsErrorKind::InvalidSignature,
            "the server's certificate has an invalid signature of its issuer",
        ),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            (TlsErrorKind::Expired, "the server's certificate has expired")
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            (TlsErrorKind::NotYetValid, "the server's certificate is not valid yet")
        }
        CertificateError::NotValidForName => {
            (TlsErrorKind::WrongName, "the server's certificate is for another name")
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let names = describe_names(presented);
            let expected = expected.to_str();
            let text = format!("the server's certificate is for {names}, not for {expected}");
            return TlsError::new(TlsErrorKind::WrongName, text);
        }
        CertificateError::Other(error) if error.0.is::<UnpinnedKey>() => {
            return TlsError::new(TlsErrorKind::UnpinnedKey, error.0.to_string());
        }
        // As `openssl req -x509` makes them by default.
        CertificateError::Other(error) if error.0.to_string() == CA_CERTIFICATE => (
            TlsErrorKind::InvalidCertificate,
            "the server's certificate is that of an authority: issue one with CA:FALSE",
        ),
        error => {
            let text = format!("the server's certificate is invalid: {error}");
            return TlsError::new(TlsErrorKind::InvalidCertificate, text);
        }
    };
    TlsError::new(kind, message)
}

/// Returns the first names of a certificate, and how many more there are.
fn describe_names(presented: &[String]) -> String {
    let shown: Vec<&str> = presented.iter().take(NAMES_MAX).map(|name| bare_name(name)).collect();
    match presented.len() {
        0 => "no names".into(),
        1..=NAMES_MAX => shown.join(", "),
        all => format!("{} and {} more", shown.join(", "), all - NAMES_MAX),
    }
}

/// Returns the name in rustls's text of a name with its kind, such as `DnsName("localhost")`.
fn bare_name(name: &str) -> &str {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.unwrap_or(name).trim_matches('"')
}

/// Describes the error of a client certificate.
fn describe_client_certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::UnknownIssuer => "has an unknown issuer".into(),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "has expired".into(),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "is not valid yet".into()
        }
        CertificateError::Revoked => "is revoked".into(),
        CertificateError::UnknownRevocationStatus => "is covered by no revocation list".into(),
        CertificateError::ExpiredRevocationList
        | CertificateError::ExpiredRevocationListContext { .. } => {
            "is covered by an expired revocation list only".into()
        }
        error => format!("is invalid: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_error_is_one_line_with_hint() {
        let certificate = |error| TlsError::from_handshake(&Error::InvalidCertificate(error));
        let alert = |alert| TlsError::from_handshake(&Error::AlertReceived(alert));
        for (error, part, hint) in [
            (certificate(CertificateError::UnknownIssuer), "unknown issuer", "--ca FILE"),
            (certificate(CertificateError::BadSignature), "signature", "the current issuer"),
            (certificate(CertificateError::Expired), "expired", "renew it"),
            (certificate(CertificateError::NotValidYet), "not valid yet", "both clocks"),
            (certificate(CertificateError::NotValidForName), "another", "--server-name NAME"),
            (certificate(CertificateError::Revoked), "invalid", ""),
            (alert(AlertDescription::CertificateRequired), "requires", "--cert FILE and --key"),
            (alert(AlertDescription::UnknownCA), "rejected", "pass another"),
            (alert(AlertDescription::HandshakeFailure), "HandshakeFailure", "its log"),
            (alert(AlertDescription::UnrecognisedName), "this name", "--server-name NAME"),
            (alert(AlertDescription::ProtocolVersion), "neither", "upgrade it"),
            (TlsError::from_handshake(&Error::DecryptError), "handshake failed", ""),
            (TlsError::from_connection(&Error::DecryptError), "invalid TLS data", ""),
        ] {
            let text = error.to_string();
            assert!(text.contains(part) && text.lines().count() == 1, "{text}");
            assert!(error.kind().hint().unwrap_or_default().contains(hint), "{text}");
        }
    }

    #[test]
    fn tls_error_shows_plain_certificate_names() {
        assert_eq!(bare_name("DnsName(\"localhost\")"), "localhost");
        assert_eq!(bare_name("IpAddress(127.0.0.1)"), "127.0.0.1");
        assert_eq!(bare_name("localhost"), "localhost");
    }
}
