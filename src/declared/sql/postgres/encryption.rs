//! How connections to a server are encrypted: `sslmode` and `sslrootcert` of its URL, with the
//! meaning that they have for the clients of PostgreSQL.
//!
//! | `sslmode` | |
//! | --- | --- |
//! | `disable` | no TLS |
//! | `prefer`, the default | TLS if the server offers it; the certificate is not checked |
//! | `require` | TLS; the certificate is checked, as for `verify-ca`, if there is `sslrootcert` |
//! | `verify-ca` | TLS; the certificate is checked by `sslrootcert`, its name is not |
//! | `verify-full` | TLS; certificate and name are checked, by `sslrootcert` or the system |
//!
//! `sslrootcert=system` stands for the root certificates of the system, and for `verify-full`. It
//! is an error where nothing would be checked.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use percent_encoding::percent_decode_str;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use tokio_postgres_rustls::MakeRustlsConnect;

/// A URL for the driver, which knows fewer modes and no `sslrootcert`, and what it said.
pub(crate) struct EncryptedUrl {
    /// The URL without them.
    pub(crate) url: String,
    check: Check,
}

impl fmt::Debug for EncryptedUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the URL, which has the password.
        formatter.debug_struct("EncryptedUrl").field("check", &self.check).finish_non_exhaustive()
    }
}

/// What of a certificate is checked.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Check {
    Nothing,
    /// Its issuer.
    Issuer(Roots),
    /// Its issuer and the name of the server.
    Name(Roots),
}

/// The root certificates.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Roots {
    /// Those of the system.
    System,
    /// Those in a file, in PEM.
    File(PathBuf),
}

impl EncryptedUrl {
    /// Reads a URL; a relative path of `sslrootcert` is below `folder`.
    ///
    /// # Errors
    ///
    /// What is wrong with `sslmode` or `sslrootcert`.
    pub(crate) fn parse(url: &str, folder: &Path) -> Result<Self, String> {
        // As for the driver, user and password end at the first @.
        let start = url.find('@').map_or(0, |at| at + 1);
        let query = url[start..].find('?').map_or(url.len(), |index| start + index);
        let (base, query) = url.split_at(query);
        let (mut kept, mut mode, mut roots) = (Vec::new(), None, None);
        for pair in query.trim_start_matches('?').split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = percent_decode_str(value).decode_utf8_lossy().into_owned();
            match &*percent_decode_str(name).decode_utf8_lossy() {
                "sslmode" => mode = Some(value),
                "sslrootcert" if value == "system" => roots = Some(Roots::System),
                "sslrootcert" => roots = Some(Roots::File(folder.join(value))),
                _ => kept.push(pair.to_owned()),
            }
        }
        let (mode, check) = read_mode(mode.as_deref(), roots)?;
        kept.push(format!("sslmode={mode}"));
        Ok(Self { url: format!("{base}?{}", kept.join("&")), check })
    }

    /// What encrypts the connections.
    ///
    /// # Errors
    ///
    /// The file of root certificates cannot be used.
    pub(crate) fn connector(&self) -> Result<MakeRustlsConnect, String> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| error.to_string())?;
        let unchecked = |issuer| {
            let provider = Arc::clone(&provider);
            Arc::new(Unchecked { provider, issuer })
        };
        let builder = match &self.check {
            Check::Name(roots) => builder.with_root_certificates(roots.read()?),
            Check::Issuer(roots) => {
                let roots = Arc::new(roots.read()?);
                let issuer =
                    WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider));
                let issuer = issuer.build().map_err(|error| error.to_string())?;
                builder.dangerous().with_custom_certificate_verifier(unchecked(Some(issuer)))
            }
            Check::Nothing => builder.dangerous().with_custom_certificate_verifier(unchecked(None)),
        };
        Ok(MakeRustlsConnect::new(builder.with_no_client_auth()))
    }
}

/// The mode for the driver, and what is checked.
fn read_mode(mode: Option<&str>, roots: Option<Roots>) -> Result<(&'static str, Check), String> {
    let default = if roots == Some(Roots::System) { "verify-full" } else { "prefer" };
    match (mode.unwrap_or(default), roots) {
        ("verify-full", roots) => Ok(("require", Check::Name(roots.unwrap_or(Roots::System)))),
        (_, Some(Roots::System)) => {
            Err("sslrootcert=system stands beside another sslmode than verify-full".to_owned())
        }
        ("verify-ca" | "require", Some(roots)) => Ok(("require", Check::Issuer(roots))),
        ("verify-ca", None) => Err("sslmode=verify-ca needs sslrootcert".to_owned()),
        ("require", None) => Ok(("require", Check::Nothing)),
        ("disable" | "allow" | "prefer", Some(_)) => {
            Err("sslrootcert needs sslmode=verify-full, verify-ca or require".to_owned())
        }
        ("disable", None) => Ok(("disable", Check::Nothing)),
        ("allow" | "prefer", None) => Ok(("prefer", Check::Nothing)),
        _ => Err("sslmode is disable, prefer, require, verify-ca or verify-full".to_owned()),
    }
}

impl Roots {
    fn read(&self) -> Result<RootCertStore, String> {
        let mut roots = RootCertStore::empty();
        match self {
            Self::System => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
            Self::File(path) => {
                let failed = |error: &dyn fmt::Display| {
                    format!("sslrootcert: {} cannot be used: {error}", path.display())
                };
                let certificates =
                    CertificateDer::pem_file_iter(path).map_err(|error| failed(&error))?;
                for certificate in certificates {
                    let certificate = certificate.map_err(|error| failed(&error))?;
                    roots.add(certificate).map_err(|error| failed(&error))?;
                }
                if roots.is_empty() {
                    return Err(failed(&"it has no certificate in PEM"));
                }
            }
        }
        Ok(roots)
    }
}

/// Accepts certificates for every name, of `issuer` or of everyone, whose key the server has.
#[derive(Debug)]
struct Unchecked {
    provider: Arc<CryptoProvider>,
    issuer: Option<Arc<WebPkiServerVerifier>>,
}

impl ServerCertVerifier for Unchecked {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(issuer) = &self.issuer else { return Ok(ServerCertVerified::assertion()) };
        match issuer.verify_server_cert(certificate, chain, name, ocsp, now) {
            // The last check: the issuer is known by then.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            result => result,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<EncryptedUrl, String> {
        EncryptedUrl::parse(url, Path::new("/srv"))
    }

    #[test]
    fn ssl_mode_is_that_of_other_clients() {
        let read = |query: &str| {
            let parsed = parse(&format!("postgres://a:p?w&x@b/c{query}")).unwrap();
            let url = parsed.url.strip_prefix("postgres://a:p?w&x@b/c?").unwrap();
            (url.to_owned(), parsed.check)
        };
        let text = |text: &str| text.to_owned();
        assert_eq!(read(""), (text("sslmode=prefer"), Check::Nothing));
        assert_eq!(read("?sslmode=disable"), (text("sslmode=disable"), Check::Nothing));
        assert_eq!(read("?ssl%6Dode=require"), (text("sslmode=require"), Check::Nothing));
        let (required, file) = (text("sslmode=require"), Roots::File("/srv/ca 1.pem".into()));
        assert_eq!(read("?sslmode=verify-full"), (required.clone(), Check::Name(Roots::System)));
        assert_eq!(read("?sslrootcert=system"), (required.clone(), Check::Name(Roots::System)));
        for (mode, check) in [
            ("require", Check::Issuer(file.clone())),
            ("verify-ca", Check::Issuer(file.clone())),
            ("verify-full", Check::Name(file)),
        ] {
            let query = format!("?connect_timeout=3&sslrootcert=ca%201.pem&sslmode={mode}");
            assert_eq!(read(&query), (text("connect_timeout=3&sslmode=require"), check));
        }
    }

    #[test]
    fn roots_that_check_nothing_are_refused() {
        for query in [
            "sslmode=verify-ca",
            "sslmode=verify",
            "sslrootcert=ca.pem",
            "sslrootcert=ca.pem&sslmode=prefer",
            "sslrootcert=system&sslmode=require",
        ] {
            assert!(parse(&format!("postgres://a@b/c?{query}")).is_err(), "{query}");
        }
    }

    #[test]
    fn missing_root_certificates_are_named() {
        let parsed = parse("postgres://a@b/c?sslmode=verify-full&sslrootcert=none.pem").unwrap();
        assert!(parsed.connector().err().unwrap().contains("/srv/none.pem"));
    }
}
