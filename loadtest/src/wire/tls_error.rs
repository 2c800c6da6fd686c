//! User-facing errors of TLS connections: one line each, with the hint if there is one.

use std::io;

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible};

/// Error of a handshake that the server ended.
pub const HANDSHAKE_CLOSED: &str = "the server closed the connection during the TLS handshake";
/// Error of a handshake that the server did not answer.
pub const HANDSHAKE_SILENT: &str =
    "no reply to the TLS handshake: does the server speak TLS on this port?";

/// Failure of a TLS handshake or connection.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct TlsError {
    /// Message with the cause and the hint.
    pub message: String,
    /// Whether the server ended the connection with an alert. Otherwise this side failed.
    pub is_alert: bool,
}

/// Describes the error of a stream that may be encrypted.
pub fn describe_io_error(error: &io::Error) -> String {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    tls.map_or_else(|| error.to_string(), |error| TlsError::from_handshake(error).message)
}

impl TlsError {
    /// Describes the error of a handshake.
    pub(super) fn from_handshake(error: &Error) -> Self {
        let message = match error {
            Error::InvalidCertificate(error) => certificate_message(error),
            Error::InvalidMessage(
                InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
            ) => "the server does not speak TLS on this port: use http://, ws:// or tcp:// for a \
                 plaintext server, or correct the port"
                .into(),
            Error::AlertReceived(alert) => return Self::from_alert(*alert),
            Error::PeerIncompatible(
                PeerIncompatible::ServerDoesNotSupportTls12Or13
                | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig,
            ) => OUTDATED_TLS_MESSAGE.into(),
            error => format!("TLS handshake failed: {error}"),
        };
        Self { message, is_alert: false }
    }

    /// Describes the error of an open connection.
    pub(super) fn from_connection(error: &Error) -> Self {
        match error {
            Error::AlertReceived(alert) => Self::from_alert(*alert),
            error => {
                let message = format!("invalid TLS data from the server: {error}");
                Self { message, is_alert: false }
            }
        }
    }

    /// Describes an alert of the server (RFC 8446 section 6.2).
    fn from_alert(alert: AlertDescription) -> Self {
        let message = match alert {
            AlertDescription::CertificateRequired => {
                "the server requires a client certificate: pass --cert FILE and --key FILE"
            }
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::AccessDenied => {
                "the server rejected the client certificate: pass another one with --cert FILE and \
                 --key FILE"
            }
            AlertDescription::UnrecognisedName => {
                "the server has no certificate for this name: pass --server-name NAME"
            }
            AlertDescription::ProtocolVersion => OUTDATED_TLS_MESSAGE,
            AlertDescription::NoApplicationProtocol => {
                "the server does not support HTTP/1.1 (ALPN)"
            }
            alert => {
                let message = format!(
                    "the server ended the TLS connection with the alert {alert:?}: check its log, \
                     or pass --cert FILE and --key FILE if it requires a client certificate"
                );
                return Self { message, is_alert: true };
            }
        };
        Self { message: message.into(), is_alert: true }
    }
}

/// Number of certificate names in an error message.
const NAMES_MAX: usize = 3;
/// Message for a server with only outdated protocol versions.
const OUTDATED_TLS_MESSAGE: &str = "the server speaks neither TLS 1.2 nor TLS 1.3: upgrade it";

/// Describes the error of a server certificate.
fn certificate_message(error: &CertificateError) -> String {
    match error {
        CertificateError::UnknownIssuer => {
            "the server's certificate has an unknown issuer: pass --ca FILE with the issuer, or \
             --insecure"
                .into()
        }
        // An issuer with the right name and another key: it has been created anew.
        CertificateError::BadSignature => {
            "the server's certificate has an invalid signature of its issuer: pass --ca FILE with \
             the current issuer, or --insecure"
                .into()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the server's certificate has expired: renew it, or pass --insecure".into()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the server's certificate is not valid yet: check both clocks, or pass --insecure"
                .into()
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let shown = presented.iter().take(NAMES_MAX).map(|name| bare_name(name));
            let names = match presented.len() {
                0 => "no names".into(),
                1..=NAMES_MAX => shown.collect::<Vec<_>>().join(", "),
                all => {
                    let (shown, more) = (shown.collect::<Vec<_>>(), all - NAMES_MAX);
                    format!("{} and {more} more", shown.join(", "))
                }
            };
            format!(
                "the server's certificate is for {names}, not for {}: pass --server-name NAME, or \
                 --insecure",
                expected.to_str()
            )
        }
        CertificateError::NotValidForName => {
            "the server's certificate is for another name: pass --server-name NAME, or --insecure"
                .into()
        }
        error => format!("the server's certificate is invalid: {error}; or pass --insecure"),
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
        for (error, part) in [
            (certificate(CertificateError::UnknownIssuer), "pass --ca FILE with the issuer"),
            (certificate(CertificateError::BadSignature), "the current issuer"),
            (certificate(CertificateError::Expired), "renew it"),
            (certificate(CertificateError::NotValidYet), "both clocks"),
            (certificate(CertificateError::NotValidForName), "--server-name NAME"),
            (certificate(CertificateError::Revoked), "or pass --insecure"),
            (alert(AlertDescription::CertificateRequired), "--cert FILE and --key FILE"),
            (alert(AlertDescription::UnknownCA), "pass another"),
            (alert(AlertDescription::HandshakeFailure), "HandshakeFailure"),
            (alert(AlertDescription::UnrecognisedName), "--server-name NAME"),
            (alert(AlertDescription::ProtocolVersion), "upgrade it"),
            (TlsError::from_handshake(&Error::DecryptError), "handshake failed"),
            (TlsError::from_connection(&Error::DecryptError), "invalid TLS data"),
        ] {
            assert!(error.message.contains(part), "{error}");
            assert_eq!(error.message.lines().count(), 1, "{error}");
        }
    }

    #[test]
    fn tls_error_shows_plain_certificate_names() {
        assert_eq!(bare_name("DnsName(\"localhost\")"), "localhost");
        assert_eq!(bare_name("IpAddress(127.0.0.1)"), "127.0.0.1");
        assert_eq!(bare_name("localhost"), "localhost");
    }
}
