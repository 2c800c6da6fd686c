//! The errors of rustls about clients, in one line.

use rustls::{CertificateError, Error, InvalidMessage, PeerIncompatible};

use super::{TlsError, TlsErrorKind};

/// Describes the error of the handshake of a client.
pub fn handshake_error(error: &Error) -> TlsError {
    match error {
        Error::InvalidMessage(
            InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
        ) => TlsError::new(TlsErrorKind::NotTls, "the client does not speak TLS"),
        Error::NoCertificatesPresented => {
            TlsError::new(TlsErrorKind::CertificateRequired, "the client has sent no certificate")
        }
        Error::InvalidCertificate(error) => TlsError::new(
            TlsErrorKind::CertificateRejected,
            format!("the client's certificate {}", describe(error)),
        ),
        Error::PeerIncompatible(
            PeerIncompatible::Tls12NotOffered
            | PeerIncompatible::Tls12NotOfferedOrEnabled
            | PeerIncompatible::Tls13RequiredForQuic
            | PeerIncompatible::SupportedVersionsExtensionRequired
            // Also of a client of TLS 1.0 or 1.1, which know no such extension.
            | PeerIncompatible::SignatureAlgorithmsExtensionRequired,
        ) => TlsError::new(
            TlsErrorKind::OutdatedVersion,
            "the client speaks neither TLS 1.2 nor TLS 1.3",
        ),
        Error::AlertReceived(alert) => {
            let text = format!("the client ended the TLS handshake with the alert {alert:?}");
            TlsError { is_alert: true, ..TlsError::new(TlsErrorKind::Alert, text) }
        }
        error => TlsError::new(TlsErrorKind::Other, format!("TLS handshake failed: {error}")),
    }
}

/// Describes the error of an open connection of a client.
pub fn connection_error(error: &Error) -> TlsError {
    let text = format!("invalid TLS data from the client: {error}");
    TlsError::new(TlsErrorKind::Other, text)
}

fn describe(error: &CertificateError) -> String {
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
