//! Keys and rules from options and their files.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::Authentication;
use super::introspection::Introspector;
use crate::guard::auth::access::AccessRules;
use crate::guard::auth::api_keys::ApiKeys;
use crate::guard::auth::certificates::CertificateRules;
use crate::guard::auth::challenge::Challenges;
use crate::guard::auth::dpop::DpopRules;
use crate::guard::auth::introspection::IntrospectionRules;
use crate::guard::auth::jwt::{ALGORITHMS, ClaimRules, Issuer, JwtVerifier, KeySet};
use crate::guard::auth::metadata::{ResourceMetadata, TokenMetadata};
use crate::guard::auth::{Authenticator, TokenVerifier, is_scope};
use crate::server::fetch::{self, Fetcher};
use crate::server::options::{AuthOptions, DpopMode};
use crate::server::secret_file;

/// What the options and files say.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) authenticator: Arc<Authenticator>,
    /// Reaches the servers of keys.
    pub(super) fetcher: Arc<Fetcher>,
    /// Asks about tokens.
    pub(super) introspector: Option<Arc<Introspector>>,
}

/// Reads options and files; fetched keys are those of the authenticator `before`. Also takes
/// whether clients may have TLS certificates, to which tokens are bound.
///
/// # Errors
///
/// Which option or file cannot be used, and why.
pub(super) fn read(
    options: &AuthOptions,
    binds_certificates: bool,
    verifier: Option<Arc<dyn TokenVerifier>>,
    before: Option<&Authenticator>,
) -> Result<Settings, String> {
    let fetcher = Fetcher::load(&options.server_authorities)
        .map_err(|error| format!("auth.server_authorities: {error}"))?;
    let introspector = Introspector::load(options)?;
    let authenticator = read_authenticator(options, binds_certificates, verifier, before)?;
    Ok(Settings {
        authenticator: Arc::new(authenticator),
        fetcher: Arc::new(fetcher),
        introspector: introspector.map(Arc::new),
    })
}

fn read_authenticator(
    options: &AuthOptions,
    binds_certificates: bool,
    verifier: Option<Arc<dyn TokenVerifier>>,
    before: Option<&Authenticator>,
) -> Result<Authenticator, String> {
    if options.introspection.is_some() && options.verified_tokens_max == 0 {
        return Err("auth.introspection needs auth.verified_tokens_max above 0".to_owned());
    }
    let access = read_access(options)?;
    let certificates = CertificateRules::parse(&options.client_certificates, &access)
        .map_err(|error| format!("auth.client_certificates: {error}"))?;
    let api_keys = read_api_keys(options, &access)?;
    for scope in options.scopes_supported.iter().chain(&options.challenge_scopes) {
        if !is_scope(scope) {
            return Err(format!(
                "auth.scopes_supported or auth.challenge_scopes: {scope:?} is not a scope"
            ));
        }
    }
    let has_keys = !options.key_sets.is_empty() || options.introspection.is_none();
    let has_jwt = !options.issuers.is_empty() && has_keys;
    let jwt = if has_jwt { Some(read_jwt(options, before)?) } else { None };
    let introspection = match &options.introspection {
        Some(_) => Some(IntrospectionRules {
            issuers: options.issuers.iter().map(|issuer| issuer.as_str().into()).collect(),
            claims: read_claim_rules(options, "auth.introspection")?,
            grace_seconds: options.introspection_grace.as_secs(),
        }),
        None => None,
    };
    let dpop = read_dpop(options)?;
    let metadata = match (&options.resource, options.issuers.is_empty()) {
        (Some(resource), false) => {
            let issuers = options.issuers.iter().map(String::as_str);
            let tokens = TokenMetadata {
                scopes: &options.scopes_supported,
                dpop_algorithms: dpop.as_ref().map(|dpop| &*dpop.algorithms),
                requires_dpop: options.dpop == DpopMode::Required,
                binds_certificates,
            };
            let metadata = ResourceMetadata::new(resource, issuers, tokens);
            Some(metadata.map_err(|error| format!("auth.resource: {resource}: {error}"))?)
        }
        _ => None,
    };
    Ok(Authenticator {
        verifier,
        api_keys,
        jwt,
        introspection,
        certificates,
        access,
        challenges: Challenges {
            resource_metadata: metadata.as_ref().map(|metadata| metadata.url.clone()),
            scopes: options.challenge_scopes.join(" ").into(),
            dpop_algorithms: dpop.as_ref().map(|dpop| dpop.algorithms.join(" ").into()),
            requires_dpop: options.dpop == DpopMode::Required,
        },
        dpop,
        metadata,
        admits_anonymous: options.anonymous,
    })
}

/// Reads the rules for callers that the host attaches, where no tokens are verified.
///
/// # Errors
///
/// Which option cannot be used, and why.
pub(super) fn read_rules(options: &AuthOptions) -> Result<Arc<Authenticator>, String> {
    let access = read_access(options)?;
    Ok(Arc::new(Authenticator { access, admits_anonymous: true, ..Authenticator::default() }))
}

fn read_access(options: &AuthOptions) -> Result<AccessRules, String> {
    let rules = AccessRules::parse(&options.rules, &options.tiers, &options.scope_implies);
    let rules = rules.map_err(|error| format!("auth.rules or auth.scope_implies: {error}"))?;
    Ok(rules.with_audited(&options.audit))
}

fn read_api_keys(options: &AuthOptions, access: &AccessRules) -> Result<ApiKeys, String> {
    let mut api_keys = ApiKeys::default();
    for path in &options.api_keys {
        let text = secret_file::read_text(path);
        let text = text.map_err(|error| format!("auth.api_keys: {}: {error}", path.display()))?;
        let keys = ApiKeys::parse(&text).and_then(|keys| {
            let unknown = keys.tiers().find(|tier| !access.has_tier(tier)).map(str::to_owned);
            match unknown {
                Some(tier) => Err(format!("the tier {tier} is not in auth.tiers")),
                None => api_keys.extend(keys),
            }
        });
        keys.map_err(|error| format!("auth.api_keys: {}: {error}", path.display()))?;
    }
    Ok(api_keys)
}

fn read_jwt(options: &AuthOptions, before: Option<&Authenticator>) -> Result<JwtVerifier, String> {
    let AuthOptions { issuers: names, key_sets, .. } = options;
    if names.len() != key_sets.len() {
        let (names, sets) = (names.len(), key_sets.len());
        return Err(format!(
            "auth.issuers lists {names} issuers and auth.key_sets {sets} key sets"
        ));
    }
    let claims = read_claim_rules(options, "auth.issuers")?;
    let mut issuers: Vec<Issuer> = Vec::new();
    for (name, location) in names.iter().zip(key_sets) {
        if issuers.iter().any(|issuer| *issuer.name == **name) {
            return Err(format!("auth.issuers lists {name} twice"));
        }
        let (keys, answered) = if is_url(location) {
            fetch::parse_url(location).map_err(|error| format!("auth.key_sets: {error}"))?;
            // Fails early in a build that verifies no JWT.
            if let Err(error) = KeySet::parse(b"")
                && !cfg!(feature = "oauth-jwt")
            {
                return Err(format!("auth.key_sets: {error}"));
            }
            let jwt = before.and_then(|before| before.jwt.as_ref());
            let known = jwt.and_then(|jwt| jwt.issuers.iter().find(|it| *it.name == **name));
            known.map_or((None, 0), |issuer| (issuer.keys.clone(), issuer.answered))
        } else {
            let keys = secret_file::read(Path::new(location)).and_then(|text| KeySet::parse(&text));
            let keys = keys.map_err(|error| format!("auth.key_sets: {location}: {error}"))?;
            (Some(Arc::new(keys)), 0)
        };
        issuers.push(Issuer { name: name.as_str().into(), keys, answered });
    }
    Ok(JwtVerifier {
        issuers,
        algorithms: read_algorithms(options)?,
        requires_access_token_type: options.require_at_jwt,
        claims,
    })
}

/// Reads the algorithms of tokens and proofs.
fn read_algorithms(options: &AuthOptions) -> Result<Vec<Box<str>>, String> {
    let unknown = options.algorithms.iter().find(|name| !ALGORITHMS.contains(&name.as_str()));
    if let Some(unknown) = unknown {
        let all = ALGORITHMS.join(", ");
        return Err(format!("auth.algorithms: {unknown} is not one of {all}"));
    }
    Ok(match &options.algorithms[..] {
        [] => ALGORITHMS.map(Box::from).to_vec(),
        chosen => chosen.iter().map(|name| name.as_str().into()).collect(),
    })
}

/// Reads how proofs of keys are checked; `None` if none is accepted.
fn read_dpop(options: &AuthOptions) -> Result<Option<DpopRules>, String> {
    if options.dpop == DpopMode::Off {
        return Ok(None);
    }
    if !cfg!(feature = "oauth-jwt") {
        return Err("auth.dpop: build with the feature oauth-jwt to verify proofs".to_owned());
    }
    let resource = options.resource.as_ref();
    let resource = resource.ok_or("auth.dpop needs auth.resource: the URL that proofs name")?;
    let algorithms = read_algorithms(options)?;
    let mut rules = DpopRules::new(resource, algorithms, options.dpop_window.as_secs())
        .map_err(|error| format!("auth.resource: {resource}: {error}"))?;
    rules.is_required = options.dpop == DpopMode::Required;
    rules.needs_nonce = options.dpop_nonce;
    Ok(Some(rules))
}

/// Reads the checks of claims, which the option `key` needs.
fn read_claim_rules(options: &AuthOptions, key: &str) -> Result<ClaimRules, String> {
    let resource = options.resource.as_ref();
    let resource =
        resource.ok_or_else(|| format!("{key} needs auth.resource: the audience of tokens"))?;
    let audiences = std::iter::once(resource).chain(&options.audiences);
    Ok(ClaimRules {
        audiences: audiences.map(|audience| audience.as_str().into()).collect(),
        leeway_seconds: options.leeway.as_secs(),
        tier_claim: options.tier_claim.as_deref().map(Box::from),
    })
}

/// Returns the contents of all files of `options`; `None` for one that cannot be read.
pub(super) fn read_files(options: &AuthOptions) -> Vec<Option<Vec<u8>>> {
    files(options).map(|path| fs::read(path).ok()).collect()
}

/// Returns whether `options` name files.
pub(super) fn has_files(options: &AuthOptions) -> bool {
    files(options).next().is_some()
}

fn files(options: &AuthOptions) -> impl Iterator<Item = &Path> {
    let key_sets = options.key_sets.iter().filter(|location| !is_url(location)).map(Path::new);
    let others = options.introspection_client.iter().chain(&options.server_authorities);
    options.api_keys.iter().chain(others).map(|path| &**path).chain(key_sets)
}

/// Returns whether a key set is fetched.
pub(super) fn is_url(location: &str) -> bool {
    location.contains("://")
}

impl Authentication {
    /// Returns the bytes of the verified tokens.
    pub fn held_bytes(&self) -> usize {
        self.verification.as_ref().map_or(0, |it| it.tokens.held_bytes())
    }

    /// Returns [`Authentication::held_bytes`], counted anew.
    pub fn recount_bytes(&self) -> usize {
        self.verification.as_ref().map_or(0, |it| it.tokens.recount_bytes())
    }

    /// Limits the bytes of the verified tokens.
    pub fn limit_bytes(&mut self, bytes_max: usize) {
        if let Some(active) = &mut self.verification {
            active.tokens.limit_bytes(bytes_max);
        }
    }
}
