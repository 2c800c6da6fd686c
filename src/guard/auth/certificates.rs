//! Certificates of TLS clients as credentials: who has sent a request, if it has no token.
//!
//! A rule is one line: `NAME [requirement…]`, such as `spiffe://prod.example/* tier=admin
//! scope=deploy`. `NAME` may contain `*`, which stands for any text. The first rule whose name
//! matches decides; a certificate that none matches is not a credential.
//!
//! Invariants: a certificate was verified by TLS before; its name is that of one kind: a URI has a
//! colon, a DNS name has none, and a hash begins with `sha256:`, which no URI does.

use std::collections::HashSet;

use corelane_base::heap_bytes;
use corelane_base::principal::{Principal, USER_TIER};
#[cfg(feature = "_tls")]
use sha2::{Digest, Sha256};

use super::access::AccessRules;
use super::{AuthError, InvalidToken, TokenFault};
use crate::guard::pattern::Pattern;

/// A certificate whose private key the client of a connection has.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClientCertificate {
    /// The first URI of the subject alternative name, else its first DNS name, else `sha256:` and
    /// the SHA-256 of the subject in hex.
    pub name: Box<str>,
    /// SHA-256 of the certificate (`x5t#S256`, RFC 8705, section 3.1).
    pub thumbprint: [u8; 32],
    /// Seconds since 1970 until which it is valid.
    pub expires_at: u64,
    /// SHA-256 of its issuer and serial number, by which lists revoke it.
    pub id: [u8; 32],
    /// Its issuer and those of its chain, as [`Authorities`] name them.
    pub issuers: Box<[AuthorityId]>,
}

heap_bytes!(ClientCertificate { name, thumbprint, id, issuers } inline { expires_at });

/// Names an authority: the hash of its name, and of its name and the identifier of its key.
pub type AuthorityId = [u8; 32];

/// The certificates that the lists of their issuers revoke (RFC 5280, section 5), or whose
/// authorities are trusted no more.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RevokedCertificates {
    ids: HashSet<[u8; 32]>,
    authorities: HashSet<AuthorityId>,
}

/// The authorities that are trusted, and those that were.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Authorities {
    trusted: HashSet<AuthorityId>,
    withdrawn: HashSet<AuthorityId>,
}

impl Authorities {
    /// Replaces the trusted authorities by those of PEM files. Those of before that are not among
    /// them are withdrawn, until they are trusted again.
    pub fn replace<'p>(&mut self, files: impl Iterator<Item = &'p [u8]>) {
        let trusted: HashSet<AuthorityId> = files.flat_map(authorities_of).collect();
        self.withdrawn.extend(self.trusted.drain());
        self.withdrawn.retain(|id| !trusted.contains(id));
        self.trusted = trusted;
    }
}

/// Reads the names of the authorities of a PEM file.
#[cfg(feature = "_tls")]
fn authorities_of(pem: &[u8]) -> Vec<AuthorityId> {
    use x509_parser::extensions::ParsedExtension;
    use x509_parser::pem::Pem;
    use x509_parser::prelude::{FromDer, X509Certificate};

    let mut ids = Vec::new();
    for pem in Pem::iter_from_buffer(pem).flatten() {
        let Ok((_, certificate)) = X509Certificate::from_der(&pem.contents) else { continue };
        let keys = certificate.extensions().iter().find_map(|it| match it.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(key) => Some(key.0),
            _ => None,
        });
        ids.extend(authority_ids(certificate.subject().as_raw(), keys));
    }
    ids
}

#[cfg(not(feature = "_tls"))]
const fn authorities_of(_: &[u8]) -> Vec<AuthorityId> {
    Vec::new()
}

/// Returns the names of the issuers of certificates in DER, one behind the other.
#[cfg(feature = "_tls")]
fn issuers_of(mut chain: &[u8]) -> Box<[AuthorityId]> {
    use x509_parser::extensions::ParsedExtension;
    use x509_parser::prelude::{FromDer, X509Certificate};

    let mut ids = Vec::new();
    while let Ok((rest, certificate)) = X509Certificate::from_der(chain) {
        let key = certificate.extensions().iter().find_map(|it| match it.parsed_extension() {
            ParsedExtension::AuthorityKeyIdentifier(key) => key.key_identifier.as_ref(),
            _ => None,
        });
        ids.extend(authority_ids(certificate.issuer().as_raw(), key.map(|key| key.0)));
        chain = rest;
    }
    ids.into()
}

/// Returns what names an authority: with its key, if that is known, and without.
#[cfg(feature = "_tls")]
fn authority_ids(name: &[u8], key: Option<&[u8]>) -> impl Iterator<Item = AuthorityId> {
    let with_key = key.map(|key| id_of(name, key));
    [sha256(name)].into_iter().chain(with_key)
}

impl RevokedCertificates {
    /// Reads the revocation lists in PEM files. What is malformed is left out: TLS refuses it.
    #[cfg(feature = "_tls")]
    pub fn from_pem(pem: &[u8]) -> Self {
        use x509_parser::pem::Pem;
        use x509_parser::prelude::{CertificateRevocationList, FromDer};

        let mut ids = HashSet::new();
        for list in Pem::iter_from_buffer(pem).flatten() {
            let Ok((_, list)) = CertificateRevocationList::from_der(&list.contents) else {
                continue;
            };
            let issuer = list.issuer().as_raw();
            let revoked = list.iter_revoked_certificates();
            ids.extend(revoked.map(|revoked| id_of(issuer, revoked.raw_serial())));
        }
        Self { ids, ..Self::default() }
    }

    /// Reads nothing: this build has no TLS.
    #[cfg(not(feature = "_tls"))]
    pub fn from_pem(_: &[u8]) -> Self {
        Self::default()
    }

    /// Adds those of another one.
    pub fn extend(&mut self, other: Self) {
        self.ids.extend(other.ids);
        self.authorities.extend(other.authorities);
    }

    /// Adds the certificates of withdrawn authorities.
    pub fn add_withdrawn(&mut self, authorities: &Authorities) {
        self.authorities.extend(&authorities.withdrawn);
    }

    /// Returns whether a certificate is revoked, or was issued by a withdrawn authority.
    pub fn contains(&self, certificate: &ClientCertificate) -> bool {
        let is_withdrawn = |id: &AuthorityId| self.authorities.contains(id);
        self.ids.contains(&certificate.id) || certificate.issuers.iter().any(is_withdrawn)
    }
}

/// Returns what names a certificate: the hash of its issuer (DER) and serial number.
#[cfg(feature = "_tls")]
fn id_of(issuer: &[u8], serial: &[u8]) -> [u8; 32] {
    let digest = Sha256::new().chain_update(issuer.len().to_le_bytes());
    digest.chain_update(issuer).chain_update(serial).finalize().into()
}

impl ClientCertificate {
    /// Reads a certificate in DER, and the issuers of its chain behind it; `None` if it is
    /// malformed.
    #[cfg(feature = "_tls")]
    pub fn parse(chain: &[u8]) -> Option<Self> {
        use x509_parser::prelude::{FromDer, X509Certificate};

        let (rest, certificate) = X509Certificate::from_der(chain).ok()?;
        let der = chain.strip_suffix(rest)?;
        let names = certificate.subject_alternative_name().ok()?;
        let names = names.map_or(&[][..], |names| &names.value.general_names);
        let name = alternative_name(names).unwrap_or_else(|| {
            format!("{HASH_PREFIX}{}", hex(&sha256(certificate.subject().as_raw())))
        });
        let expires_at = certificate.validity().not_after.timestamp();
        Some(Self {
            name: name.into(),
            thumbprint: sha256(der),
            expires_at: u64::try_from(expires_at).unwrap_or_default(),
            id: id_of(certificate.issuer().as_raw(), certificate.raw_serial()),
            issuers: issuers_of(chain),
        })
    }

    /// Reads nothing: this build has no TLS.
    #[cfg(not(feature = "_tls"))]
    pub const fn parse(_: &[u8]) -> Option<Self> {
        None
    }
}

/// Returns the first URI, else the first DNS name.
#[cfg(feature = "_tls")]
fn alternative_name(names: &[x509_parser::extensions::GeneralName<'_>]) -> Option<String> {
    use x509_parser::extensions::GeneralName;

    let uri = names.iter().find_map(|name| match name {
        GeneralName::URI(uri) if uri.contains(':') && !uri.starts_with(HASH_PREFIX) => Some(*uri),
        _ => None,
    });
    let dns = || {
        names.iter().find_map(|name| match name {
            GeneralName::DNSName(dns) if !dns.is_empty() && !dns.contains(':') => Some(*dns),
            _ => None,
        })
    };
    uri.or_else(dns).map(str::to_owned)
}

/// Begins the name of a certificate without URI and DNS name.
#[cfg(feature = "_tls")]
const HASH_PREFIX: &str = "sha256:";

#[cfg(feature = "_tls")]
fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

#[cfg(feature = "_tls")]
fn hex(bytes: &[u8]) -> String {
    let digits = |byte: &u8| [byte >> 4, byte & 15].map(|it| char::from_digit(it.into(), 16));
    bytes.iter().flat_map(digits).flatten().collect()
}

/// Whose certificates stand for a token, and what their owners are.
#[derive(Clone, Debug, Default)]
pub struct CertificateRules(Vec<CertificateRule>);

#[derive(Clone, Debug)]
struct CertificateRule {
    name: Pattern,
    tier: Box<str>,
    scopes: Vec<Box<str>>,
}

impl CertificateRules {
    /// Parses rules; their tiers are those of `access`.
    ///
    /// # Errors
    ///
    /// Which line is malformed, and why.
    pub fn parse(lines: &[String], access: &AccessRules) -> Result<Self, String> {
        let parse =
            |line: &String| parse_rule(line, access).map_err(|what| format!("\"{line}\": {what}"));
        lines.iter().map(parse).collect::<Result<_, _>>().map(Self)
    }

    /// Returns the caller that a certificate stands for at the time `unix_seconds`.
    ///
    /// # Errors
    ///
    /// [`AuthError::Missing`] if no rule matches, [`AuthError::InvalidToken`] if the certificate
    /// has expired since the handshake.
    pub fn principal(
        &self,
        certificate: &ClientCertificate,
        unix_seconds: u64,
        access: &AccessRules,
    ) -> Result<Principal, AuthError> {
        let mut rules = self.0.iter();
        let rule = rules.find(|rule| rule.name.matches(&certificate.name));
        let rule = rule.ok_or(AuthError::Missing)?;
        if unix_seconds >= certificate.expires_at {
            return Err(AuthError::InvalidToken(EXPIRED));
        }
        let scopes = access.expand_scopes(rule.scopes.iter().map(|scope| &**scope));
        Ok(Principal::new(&*certificate.name)
            .with_issuer(super::CERTIFICATE_ISSUER)
            .with_tier(&*rule.tier)
            .with_scopes(scopes)
            .with_expiry(certificate.expires_at))
    }
}

const EXPIRED: InvalidToken =
    InvalidToken::new(TokenFault::Expired, "the client certificate has expired");

fn parse_rule(line: &str, access: &AccessRules) -> Result<CertificateRule, String> {
    let mut words = line.split_ascii_whitespace();
    let name = words.next().filter(|word| !is_requirement(word)).ok_or("the name is missing")?;
    let mut rule =
        CertificateRule { name: Pattern::new(name), tier: USER_TIER.into(), scopes: Vec::new() };
    for word in words {
        match word.split_once('=') {
            Some(("scope", scope)) if super::is_scope(scope) => rule.scopes.push(scope.into()),
            Some(("tier", tier)) if access.has_tier(tier) => rule.tier = tier.into(),
            Some(("tier", tier)) => return Err(format!("unknown tier {tier}")),
            _ => return Err(format!("\"{word}\" is not scope=SCOPE or tier=TIER")),
        }
    }
    Ok(rule)
}

fn is_requirement(word: &str) -> bool {
    word.starts_with("scope=") || word.starts_with("tier=")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(lines: &[&str]) -> Result<CertificateRules, String> {
        let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
        CertificateRules::parse(&lines, &access())
    }

    fn access() -> AccessRules {
        AccessRules::parse(&[], &[], &["all read call".to_owned()]).unwrap()
    }

    fn certificate(name: &str) -> ClientCertificate {
        ClientCertificate {
            name: name.into(),
            thumbprint: [1; 32],
            expires_at: 100,
            id: [1; 32],
            issuers: Box::new([[2; 32], [3; 32]]),
        }
    }

    #[test]
    fn first_matching_rule_decides() {
        let rules = rules(&["spiffe://a/ops/* tier=admin scope=all", "spiffe://a/*", "*.test"]);
        let rules = rules.unwrap();
        let find = |name: &str, now| rules.principal(&certificate(name), now, &access());
        let ops = find("spiffe://a/ops/1", 99).unwrap();
        assert_eq!((ops.id(), ops.issuer(), ops.tier()), ("spiffe://a/ops/1", "mtls", "admin"));
        assert_eq!(ops.scopes().collect::<Vec<_>>(), ["all", "call", "read"]);
        assert_eq!(ops.expires_at(), Some(100));
        assert_eq!(find("spiffe://a/x", 0).unwrap().tier(), "user");
        assert_eq!(find("a.test", 0).unwrap().scopes().len(), 0);
        assert_eq!(find("a.other", 0), Err(AuthError::Missing));
        assert!(matches!(find("a.test", 100), Err(AuthError::InvalidToken(_))));
    }

    #[test]
    fn malformed_rule_names_its_line() {
        for line in ["", "scope=x", "a tier=root", "a scope=", "a role=x", "a mfa"] {
            let error = rules(&["a", line]).unwrap_err();
            assert!(error.starts_with(&format!("\"{line}\": ")), "{error}");
        }
    }

    #[cfg(feature = "_tls")]
    #[test]
    fn certificate_is_named_by_uri_then_dns() {
        use rcgen::{CertificateParams, DnType, KeyPair, SanType, date_time_ymd};

        let names_of = |names: Vec<SanType>| {
            let mut params = CertificateParams::default();
            params.subject_alt_names = names;
            params.distinguished_name.push(DnType::CommonName, "ada");
            params.not_after = date_time_ymd(2030, 1, 1);
            let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
            let parsed = ClientCertificate::parse(certificate.der()).unwrap();
            assert_eq!(parsed.expires_at, 1_893_456_000);
            assert_eq!(parsed.thumbprint, sha256(certificate.der()));
            parsed.name.into_string()
        };
        let uri = |text: &str| SanType::URI(text.try_into().unwrap());
        let dns = |text: &str| SanType::DnsName(text.try_into().unwrap());
        assert_eq!(names_of(vec![dns("a.test"), uri("spiffe://a/b"), uri("x:y")]), "spiffe://a/b");
        assert_eq!(names_of(vec![dns("a.test"), dns("b.test")]), "a.test");
        // Neither kind of name can be taken for another one.
        assert_eq!(names_of(vec![uri("a.test"), dns("b.test")]), "b.test");
        let hashed = names_of(vec![uri("sha256:00")]);
        assert_eq!((hashed.len(), names_of(Vec::new())), (7 + 64, hashed.clone()));
        assert!(hashed.starts_with("sha256:"));
        assert_eq!(names_of(vec![dns("")]), hashed);
        assert_eq!(ClientCertificate::parse(b"x"), None);
    }
}
