//! Why a connection is not encrypted, or not any more, in words for the person who asked for it.
//!
//! What it keeps true: one line, which says what to do where the person can do something.

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible};

/// TLS did not come about, or has broken.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{said}")]
pub struct Unsealed {
    /// What is wrong, and what to do.
    pub said: String,
    /// The server has ended it by an alert. Otherwise it was this side that could not go on.
    pub is_alert: bool,
}

impl Unsealed {
    /// What is wrong with a handshake.
    pub(super) fn handshake(error: &Error) -> Self {
        let said = match error {
            Error::InvalidCertificate(error) => certificate(error),
            Error::InvalidMessage(
                InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
            ) => {
                "the server does not speak TLS on this port: write http://, ws:// or tcp:// where \
                  it speaks without, or correct the port"
                    .into()
            }
            Error::AlertReceived(alert) => return Self::alert(*alert),
            Error::PeerIncompatible(
                PeerIncompatible::ServerDoesNotSupportTls12Or13
                | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig,
            ) => OLD.into(),
            error => format!("the TLS handshake has failed: {error}"),
        };
        Self { said, is_alert: false }
    }

    /// What is wrong with a connection that was open.
    pub(super) fn open(error: &Error) -> Self {
        match error {
            Error::AlertReceived(alert) => Self::alert(*alert),
            error => {
                let said = format!("what the server sends is no TLS any more: {error}");
                Self { said, is_alert: false }
            }
        }
    }

    /// What the server says by ending the connection (RFC 8446 section 6.2).
    fn alert(alert: AlertDescription) -> Self {
        let said = match alert {
            AlertDescription::CertificateRequired => {
                "the server wants a certificate of the client: pass --cert FILE and --key FILE"
            }
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::AccessDenied => {
                "the server does not accept the certificate of the client: pass another with \
                 --cert FILE and --key FILE"
            }
            AlertDescription::UnrecognisedName => {
                "the server has no certificate for this name: pass --server-name NAME"
            }
            AlertDescription::ProtocolVersion => OLD,
            AlertDescription::NoApplicationProtocol => "the server does not speak HTTP/1.1 here",
            alert => {
                let said = format!(
                    "the server has ended the TLS connection by the alert {alert:?}; it may want \
                     --cert FILE and --key FILE, or its log says why"
                );
                return Self { said, is_alert: true };
            }
        };
        Self { said: said.into(), is_alert: true }
    }
}

/// Names of a certificate that are told.
const NAMES_MAX: usize = 3;
/// What is said of a server that is behind the times.
const OLD: &str = "the server speaks neither TLS 1.2 nor TLS 1.3: upgrade it";

/// What is wrong with the certificate of a server.
fn certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::UnknownIssuer => {
            "nobody who is trusted has issued the server's certificate: pass --ca FILE, or \
             --insecure"
                .into()
        }
        // An issuer of the same name that has another key: somebody has made it anew.
        CertificateError::BadSignature => {
            "the server's certificate is not signed by the issuer who is trusted under that name: \
             pass --ca FILE with the right one, or --insecure"
                .into()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the server's certificate has expired: renew it, or pass --insecure".into()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the server's certificate is not valid yet: look at both clocks, or pass --insecure"
                .into()
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let shown = presented.iter().take(NAMES_MAX).map(|name| bare(name));
            let names = match presented.len() {
                0 => "no name".into(),
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
        error => format!("the server's certificate is not accepted: {error}; or pass --insecure"),
    }
}

/// A name of a certificate without the word for its kind: they come as `DnsName("localhost")`.
fn bare(name: &str) -> &str {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.unwrap_or(name).trim_matches('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_to_a_person_is_one_line_that_says_what_to_do() {
        let certificate = |error| Unsealed::handshake(&Error::InvalidCertificate(error));
        let alert = |alert| Unsealed::handshake(&Error::AlertReceived(alert));
        for (unsealed, part) in [
            (certificate(CertificateError::UnknownIssuer), "pass --ca FILE, or --insecure"),
            (certificate(CertificateError::BadSignature), "with the right one"),
            (certificate(CertificateError::Expired), "renew it"),
            (certificate(CertificateError::NotValidYet), "both clocks"),
            (certificate(CertificateError::NotValidForName), "--server-name NAME"),
            (certificate(CertificateError::Revoked), "or pass --insecure"),
            (alert(AlertDescription::CertificateRequired), "--cert FILE and --key FILE"),
            (alert(AlertDescription::UnknownCA), "pass another"),
            (alert(AlertDescription::HandshakeFailure), "HandshakeFailure"),
            (alert(AlertDescription::UnrecognisedName), "--server-name NAME"),
            (alert(AlertDescription::ProtocolVersion), "upgrade it"),
            (Unsealed::handshake(&Error::DecryptError), "has failed"),
            (Unsealed::open(&Error::DecryptError), "no TLS any more"),
        ] {
            assert!(unsealed.said.contains(part), "{unsealed}");
            assert_eq!(unsealed.said.lines().count(), 1, "{unsealed}");
        }
    }

    #[test]
    fn names_are_told_as_people_write_them() {
        assert_eq!(bare("DnsName(\"localhost\")"), "localhost");
        assert_eq!(bare("IpAddress(127.0.0.1)"), "127.0.0.1");
        assert_eq!(bare("localhost"), "localhost");
    }
}
