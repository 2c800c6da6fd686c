//! The `[tls]` section of a plan: trusted certificates and the client certificate.
//!
//! ```toml
//! target = "https://mcp.example.org"
//!
//! [tls]
//! ca = "issuer.pem"
//! ```
//!
//! The section is not needed if the server's certificate chains to a root of this machine. It is an
//! error without an encrypted target.

use std::path::PathBuf;

use corelane_client::{ClientErrorKind, IntoTarget, TlsOptions, tls_client};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PlanError;
use crate::target::Target;
use crate::wire::tls::RunTls;

/// The `[tls]` section. Files are PEM; relative paths start at the working directory.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsPlan {
    /// Trusted issuers. Default: the root certificates of this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// Accepts any certificate; results say so. Default false.
    pub insecure: bool,
    /// Name expected in the certificate and sent as SNI. Default: the host of the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// The client certificate chain. Default none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<PathBuf>,
    /// The private key of the client certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
}

/// Returns the TLS settings of all connections to `target`, or `None` if it is not encrypted.
pub(super) fn build_tls(
    plan: Option<&TlsPlan>,
    target: &Target,
) -> Result<Option<RunTls>, PlanError> {
    if !target.is_encrypted() {
        return match plan {
            None => Ok(None),
            Some(_) => Err(PlanError(format!(
                "[tls] and its flags need an encrypted target, and {target} is not: write \
                 https://, wss:// or tls://"
            ))),
        };
    }
    let standard = TlsPlan::default();
    let plan = plan.unwrap_or(&standard);
    let (options, verification) = plan.options()?;
    let client = target.into_target().and_then(|target| tls_client(&target, Some(&options)));
    match client {
        Ok(Some(client)) => Ok(Some(RunTls::new(options, client, &verification))),
        Ok(None) => Ok(None),
        Err(error) if error.kind() == ClientErrorKind::Tls => {
            Err(PlanError(format!("{error} or --insecure")))
        }
        Err(error) => Err(PlanError(error.to_string())),
    }
}

impl TlsPlan {
    /// Returns the options of a client, and the words for how it verifies certificates.
    fn options(&self) -> Result<(TlsOptions, String), PlanError> {
        let options = match &self.server_name {
            Some(name) => TlsOptions::new().server_name(name),
            None => TlsOptions::new(),
        };
        let options = match (&self.cert, &self.key) {
            (None, None) => options,
            (Some(cert), Some(key)) => options.client_certificate(cert.clone(), key.clone()),
            (Some(_), None) => return Err(PlanError::new("cert is set without key: set key, too")),
            (None, Some(_)) => {
                return Err(PlanError::new("key is set without cert: set cert, too"));
            }
        };
        match (&self.ca, self.insecure) {
            (Some(_), true) => Err(PlanError::new(
                "insecure accepts any certificate, so ca has no effect: leave one of them out",
            )),
            (None, true) => Ok((options.insecure(), "NOT CHECKED (insecure)".into())),
            (Some(path), false) => {
                let verification = format!("checked against {}", path.display());
                Ok((options.ca(path.clone()), verification))
            }
            (None, false) => Ok((options, "checked against the roots of this machine".into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(plan: &TlsPlan, target: &str) -> String {
        build_tls(Some(plan), &target.parse().unwrap()).unwrap_err().to_string()
    }

    #[test]
    fn tls_section_requires_encrypted_target() {
        let target = "http://localhost".parse().unwrap();
        assert!(build_tls(None, &target).unwrap().is_none());
        for target in ["http://localhost", "ws://localhost", "tcp://localhost:1", "stdio:x"] {
            let why = wrong(&TlsPlan::default(), target);
            assert!(why.contains("https://") && why.lines().count() == 1, "{why}");
        }
    }

    #[test]
    fn invalid_tls_plan_error_names_correction() {
        let plan = TlsPlan { insecure: true, ..TlsPlan::default() };
        assert!(build_tls(Some(&plan), &"wss://[::1]".parse().unwrap()).unwrap().is_some());
        let path = || Some(PathBuf::from("/nowhere.pem"));
        let both = TlsPlan { ca: path(), ..plan.clone() };
        assert!(wrong(&both, "https://x").contains("one of them"));
        let gone = TlsPlan { ca: path(), ..TlsPlan::default() };
        assert!(wrong(&gone, "https://x").contains("cannot read /nowhere.pem"));
        let alone = TlsPlan { cert: path(), ..plan.clone() };
        assert!(wrong(&alone, "https://x").contains("set key"));
        let alone = TlsPlan { key: path(), ..plan.clone() };
        assert!(wrong(&alone, "https://x").contains("set cert"));
        let nameless = TlsPlan { server_name: Some("a b".into()), ..plan };
        assert!(wrong(&nameless, "https://x").contains("--server-name"));
    }

    #[test]
    fn insecure_tls_is_reported_in_results() {
        let plan = TlsPlan { insecure: true, ..TlsPlan::default() };
        let client = build_tls(Some(&plan), &"tls://x:1".parse().unwrap()).unwrap().unwrap();
        assert!(client.describe().contains("NOT CHECKED"), "{}", client.describe());
        assert!(client.with_own_sessions().describe().contains("NOT CHECKED"));
    }
}
