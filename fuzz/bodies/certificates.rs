//! Fuzz target body of client certificates.
//!
//! It panics if an invariant is violated, which no input may cause. Called by a fuzzer with its own
//! bytes, and by a test with damaged certificates.

use corelane::internal::{AccessRules, CertificateRules, ClientCertificate};

/// Reads `der` as a certificate, and looks for the rule that names its owner. Returns whether it is
/// a certificate.
///
/// # Panics
///
/// If an invariant is violated: a name that could be of another kind, or a principal of a
/// certificate that has expired or has another name.
pub(crate) fn check_certificate(der: &[u8]) -> bool {
    let Some(certificate) = ClientCertificate::parse(der) else { return false };
    let ClientCertificate { name, expires_at, .. } = &certificate;
    assert!(!name.is_empty());
    if let Some(hash) = name.strip_prefix("sha256:") {
        assert_eq!(hash.len(), 64, "{name}");
        assert!(hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name}");
    }
    let lines = ["a.test tier=admin".to_owned(), "*".to_owned()];
    let parsed = AccessRules::parse(&[], &[], &[])
        .and_then(|access| Ok((CertificateRules::parse(&lines, &access)?, access)));
    let Ok((rules, access)) = parsed else { panic!("the rules are valid") };
    assert!(rules.principal(&certificate, *expires_at, &access).is_err(), "{name}");
    if let Some(before) = expires_at.checked_sub(1) {
        let Ok(principal) = rules.principal(&certificate, before, &access) else {
            panic!("every name has a rule: {name}")
        };
        assert_eq!((principal.id(), principal.expires_at()), (&**name, Some(*expires_at)));
        assert_eq!(principal.tier() == "admin", &**name == "a.test", "{name}");
    }
    true
}
