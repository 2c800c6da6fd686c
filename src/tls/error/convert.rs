//! The errors of rustls in one line.

use std::error::Error as StdError;
use std::fmt;

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible};

use super::{TlsError, TlsErrorKind};
use crate::pin::Pin;

/// Number of certificate names in an error message.
const NAMES_MAX: usize = 3;
/// The text of the error of webpki for a server with the certificate of an authority.
const CA_CERTIFICATE: &str = "CaUsedAsEndEntity";
/// Message for a server with only outdated protocol versions.
const OUTDATED_MESSAGE: &str = "the server speaks neither TLS 1.2 nor TLS 1.3";

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
    /// Describes the error of a handshake.
    pub(crate) fn from_handshake(error: &Error) -> Self {
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

    /// Describes the error of an open connection.
    pub(crate) fn from_connection(error: &Error) -> Self {
        match error {
            Error::AlertReceived(alert) => from_alert(*alert),
            error => {
                let text = format!("invalid TLS data from the server: {error}");
                Self::new(TlsErrorKind::Other, text)
            }
        }
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
