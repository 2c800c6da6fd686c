//! How connections to a server are encrypted: `sslmode` and `sslrootcert` of its URL, with the
//! meaning that they have for the clients of PostgreSQL.
//!
//! | `sslmode` | |
//! | --- | --- |
//! | `disable` | no TLS |
//! | `prefer`, the default | TLS if the server offers it; the certificate is not checked |
//! | `require` | TLS; the certificate is checked if there is `sslrootcert` |
//! | `verify-full` | TLS; certificate and name are checked, by `sslrootcert` or the system |

use std::path::{Path, PathBuf};
use std::sync::Arc;

use percent_encoding::percent_decode_str;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

/// A URL for the driver, which knows neither `verify-full` nor `sslrootcert`, and what it said.
#[derive(Debug)]
pub(crate) struct EncryptedUrl {
    /// The URL without them.
    pub(crate) url: String,
    roots: Roots,
}

/// What certificates are checked by.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Roots {
    /// They are not.
    None,
    /// The root certificates of the system.
    System,
    /// Those in a file, in PEM.
    File(PathBuf),
}

impl EncryptedUrl {
    /// Reads a URL; a relative path of `sslrootcert` is below `folder`.
    ///
    /// # Errors
    ///
    /// What is wrong with `sslmode`.
    pub(crate) fn parse(url: &str, folder: &Path) -> Result<Self, String> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut kept, mut mode, mut file) = (Vec::new(), None, None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = percent_decode_str(value).decode_utf8_lossy().into_owned();
            match name {
                "sslmode" => mode = Some(value),
                "sslrootcert" => file = Some(value),
                _ => kept.push(pair.to_owned()),
            }
        }
        let system = file.as_deref() == Some("system");
        let file = file.filter(|file| file != "system").map(|file| folder.join(file));
        let of_file = file.map(Roots::File).or_else(|| system.then_some(Roots::System));
        let (mode, roots) = match mode.as_deref() {
            Some(mode @ "disable") => (mode, Roots::None),
            None | Some("allow" | "prefer") => ("prefer", Roots::None),
            Some(mode @ "require") => (mode, of_file.unwrap_or(Roots::None)),
            Some("verify-full") => ("require", of_file.unwrap_or(Roots::System)),
            Some(_) => {
                return Err("sslmode is disable, prefer, require or verify-full".to_owned());
            }
        };
        kept.push(format!("sslmode={mode}"));
        Ok(Self { url: format!("{base}?{}", kept.join("&")), roots })
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
        let builder = if let Some(roots) = self.roots.read()? {
            builder.with_root_certificates(roots)
        } else {
            let verifier = Arc::new(AnyCertificate(provider));
            builder.dangerous().with_custom_certificate_verifier(verifier)
        };
        Ok(MakeRustlsConnect::new(builder.with_no_client_auth()))
    }
}

impl Roots {
    fn read(&self) -> Result<Option<RootCertStore>, String> {
        let mut roots = RootCertStore::empty();
        match self {
            Self::None => return Ok(None),
            Self::System => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
            Self::File(path) => {
                let failed = |error: &dyn std::fmt::Display| {
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
        Ok(Some(roots))
    }
}

/// Accepts every certificate whose key the server has.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
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
            let parsed = parse(&format!("postgres://a@b/c{query}")).unwrap();
            (parsed.url.split_once('?').unwrap().1.to_owned(), parsed.roots)
        };
        let text = |text: &str| text.to_owned();
        assert_eq!(read(""), (text("sslmode=prefer"), Roots::None));
        assert_eq!(read("?sslmode=disable"), (text("sslmode=disable"), Roots::None));
        assert_eq!(read("?sslmode=require"), (text("sslmode=require"), Roots::None));
        assert_eq!(read("?sslmode=verify-full"), (text("sslmode=require"), Roots::System));
        let file = Roots::File("/srv/ca 1.pem".into());
        for mode in ["require", "verify-full"] {
            let query = format!("?connect_timeout=3&sslrootcert=ca%201.pem&sslmode={mode}");
            assert_eq!(read(&query), (text("connect_timeout=3&sslmode=require"), file.clone()));
        }
        assert!(parse("postgres://a@b/c?sslmode=verify-ca").unwrap_err().contains("verify-full"));
    }

    #[test]
    fn missing_root_certificates_are_named() {
        let parsed = parse("postgres://a@b/c?sslmode=verify-full&sslrootcert=none.pem").unwrap();
        assert!(parsed.connector().err().unwrap().contains("/srv/none.pem"));
    }
}
