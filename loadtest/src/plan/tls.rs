//! The section `[tls]` of a plan: whom to trust, and who we are.
//!
//! ```toml
//! target = "https://mcp.example.org"
//!
//! [tls]
//! ca = "issuer.pem"
//! ```
//!
//! An encrypted target needs no such section where one of the issuers that this machine trusts has
//! issued its certificate. The section without an encrypted target makes no sense and is refused.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde::{Deserialize, Serialize};

use super::Wrong;
use crate::target::{Target, Transport};
use crate::wire::trust::{Identity, TlsClient, Trust};

/// How a server is trusted. Files are in PEM; their paths are as seen from where the program runs.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsPlan {
    /// The issuers that are trusted. Default: those that this machine trusts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// Any certificate is accepted. Results say so. Default no.
    pub insecure: bool,
    /// The name that the certificate has to be for, and that the server is told. Default: the host
    /// of the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// The client's certificate, with those that lead to its issuer. Default: none is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<PathBuf>,
    /// The key of the client's certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
}

/// What all encrypted connections to this target have in common; none where it is not encrypted.
pub(super) fn client(plan: Option<&TlsPlan>, target: &Target) -> Result<Option<TlsClient>, Wrong> {
    let Some(host) = target.host().filter(|_| target.is_encrypted()) else {
        return match plan {
            None => Ok(None),
            Some(_) => Err(Wrong(format!(
                "[tls] and its flags are for encrypted targets, and {target} is none: write \
                 https://, wss:// or tls://"
            ))),
        };
    };
    let standard = TlsPlan::default();
    let plan = plan.unwrap_or(&standard);
    let name = plan.server_name.as_deref().unwrap_or(host);
    let is_http = target.transport() != Transport::Tcp;
    let client = TlsClient::new((name, is_http), plan.trust()?, plan.identity()?);
    client.map(Some).map_err(Wrong)
}

impl TlsPlan {
    fn trust(&self) -> Result<Trust, Wrong> {
        match (&self.ca, self.insecure) {
            (Some(_), true) => Err(Wrong::new(
                "insecure accepts any certificate, so ca would mean nothing: leave one of them out",
            )),
            (None, true) => Ok(Trust::Anyone),
            (Some(path), false) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(path)? {
                    roots.add(certificate).map_err(|error| {
                        Wrong(format!("{} holds no issuer that can be used: {error}", shown(path)))
                    })?;
                }
                Ok(Trust::Roots { roots: Arc::new(roots), source: shown(path) })
            }
            (None, false) => {
                Ok(Trust::Roots { roots: machine()?, source: "the roots of this machine".into() })
            }
        }
    }

    fn identity(&self) -> Result<Option<Identity>, Wrong> {
        let (certificate, key) = match (&self.cert, &self.key) {
            (None, None) => return Ok(None),
            (Some(certificate), Some(key)) => (certificate, key),
            (Some(_), None) => return Err(Wrong::new("cert without its key: name key, too")),
            (None, Some(_)) => return Err(Wrong::new("key without its cert: name cert, too")),
        };
        let chain = certificates(certificate)?;
        let key = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|error| {
            Wrong(format!("{} holds no private key in PEM: {error}", shown(key)))
        })?;
        Ok(Some((chain, key)))
    }
}

/// The certificates of a file, at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Wrong> {
    let text = read(path)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match all {
        Ok(all) if all.is_empty() => Err(Wrong(format!(
            "{} holds no certificate: a file in PEM has -----BEGIN CERTIFICATE-----",
            shown(path)
        ))),
        Ok(all) => Ok(all),
        Err(error) => Err(Wrong(format!("{} is no PEM: {error}", shown(path)))),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Wrong> {
    std::fs::read(path).map_err(|error| {
        Wrong(format!("{} cannot be read: {error}; name a PEM file that is there", shown(path)))
    })
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// The issuers that this machine trusts, read once: a search has many runs.
fn machine() -> Result<Arc<RootCertStore>, Wrong> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    let roots = ROOTS.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        // One that cannot be read is not trusted, the others are.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Arc::new(roots)
    });
    if roots.is_empty() {
        return Err(Wrong::new(
            "this machine trusts no issuer of certificates: install its ca-certificates, or pass \
             --ca FILE, or --insecure",
        ));
    }
    Ok(roots.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(plan: &TlsPlan, target: &str) -> String {
        client(Some(plan), &target.parse().unwrap()).unwrap_err().to_string()
    }

    #[test]
    fn a_plain_target_has_no_tls_and_may_not_have_its_section() {
        let target = "http://localhost".parse().unwrap();
        assert!(client(None, &target).unwrap().is_none());
        for target in ["http://localhost", "ws://localhost", "tcp://localhost:1", "stdio:x"] {
            let why = wrong(&TlsPlan::default(), target);
            assert!(why.contains("https://") && why.lines().count() == 1, "{why}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_told_in_a_line() {
        let plan = TlsPlan { insecure: true, ..TlsPlan::default() };
        assert!(client(Some(&plan), &"wss://[::1]".parse().unwrap()).unwrap().is_some());
        let path = || Some(PathBuf::from("/nowhere.pem"));
        let both = TlsPlan { ca: path(), ..plan.clone() };
        assert!(wrong(&both, "https://x").contains("one of them"));
        let gone = TlsPlan { ca: path(), ..TlsPlan::default() };
        assert!(wrong(&gone, "https://x").contains("/nowhere.pem cannot be read"));
        let alone = TlsPlan { cert: path(), ..plan.clone() };
        assert!(wrong(&alone, "https://x").contains("name key"));
        let alone = TlsPlan { key: path(), ..plan.clone() };
        assert!(wrong(&alone, "https://x").contains("name cert"));
        let nameless = TlsPlan { server_name: Some("a b".into()), ..plan };
        assert!(wrong(&nameless, "https://x").contains("--server-name"));
    }

    #[test]
    fn a_result_that_does_not_check_certificates_says_so() {
        let plan = TlsPlan { insecure: true, ..TlsPlan::default() };
        let client = client(Some(&plan), &"tls://x:1".parse().unwrap()).unwrap().unwrap();
        assert!(client.describe().contains("NOT CHECKED"), "{}", client.describe());
        assert!(client.apart().describe().contains("NOT CHECKED"));
    }
}
