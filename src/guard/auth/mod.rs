//! Authentication and authorization as pure functions: who has sent a request, and whether it may.
//!
//! An [`Authenticator`] is immutable: keys that have changed make a new one. It verifies tokens
//! ([`api_keys`], [`jwt`], [`introspection`], [`TokenVerifier`]) and [`certificates`]; [`access`]
//! decides what a caller may do, and [`challenge`] what a refused one is sent. [`token_table`]
//! stores what was verified. A token that is bound to a key needs a [`proof`] of it: a certificate,
//! or a signed request ([`dpop`]).
//!
//! Invariants: a token that cannot be verified at the moment is never accepted, and is not called
//! invalid; no text of an error has a part of a token or of a key.

pub mod bearer;

mod error;

pub mod api_keys;

pub mod access;
pub mod challenge;

pub mod certificates;
pub mod proof;

pub mod jwt;
pub mod metadata;

pub mod dpop;

pub mod introspection;

pub mod token_table;

use std::fmt;
use std::sync::Arc;

use corelane_base::principal::{Binding, Principal};
use corelane_protocol::eras::Method;

use self::access::AccessRules;
use self::api_keys::ApiKeys;
use self::certificates::{CertificateRules, ClientCertificate};
use self::challenge::Challenges;
use self::dpop::DpopRules;
pub use self::error::{AuthError, InvalidToken, TokenError, TokenFault};
use self::introspection::{IntrospectionRules, TokenStatus};
use self::jwt::{JwtError, JwtVerifier};
use self::metadata::ResourceMetadata;

/// Verifies tokens for a host program, before every other way.
///
/// It is called on the thread of a shard, which serves no other request meanwhile: it must neither
/// wait nor compute for long. What it returns is stored with the token until the principal expires,
/// or for a minute if it does not.
pub trait TokenVerifier: Send + Sync {
    /// Returns the caller whose token this is, at the time `unix_seconds` since 1970.
    ///
    /// # Errors
    ///
    /// [`TokenError::Invalid`] if the token is not valid; the response has the reason.
    /// [`TokenError::Expired`] if it was valid once.
    /// [`TokenError::Unknown`] leaves it to API keys and JWT.
    fn verify(&self, token: &str, unix_seconds: u64) -> Result<Principal, TokenError>;
}

/// What a token is verified with, and what its owner may do.
#[derive(Clone, Default)]
pub struct Authenticator {
    /// The verifier of the host program.
    pub verifier: Option<Arc<dyn TokenVerifier>>,
    /// API keys.
    pub api_keys: ApiKeys,
    /// JWT of authorization servers.
    pub jwt: Option<JwtVerifier>,
    /// How tokens of other kinds are introspected.
    pub introspection: Option<IntrospectionRules>,
    /// How proofs of keys are checked; `None` if none is accepted.
    pub dpop: Option<DpopRules>,
    /// Whose TLS client certificates stand for a token.
    pub certificates: CertificateRules,
    /// What callers may do.
    pub access: AccessRules,
    /// What refused callers are sent.
    pub challenges: Challenges,
    /// The metadata document, if there is an authorization server.
    pub metadata: Option<ResourceMetadata>,
    /// Whether callers without a token are served, as far as the rules admit them.
    pub admits_anonymous: bool,
}

/// A verified token.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Verified {
    /// Its owner.
    pub principal: Principal,
    /// Seconds since 1970 until which it needs no further check, as long as the authenticator
    /// stays.
    pub known_until: u64,
}

/// Issuers of callers that no authorization server has named, which keep them apart from callers of
/// the same id of another source.
const API_KEY_ISSUER: &str = "api_key";
const CERTIFICATE_ISSUER: &str = "mtls";
const INTROSPECTION_ISSUER: &str = "introspection";

/// Returns whether an authorization server must not have the name.
fn is_own_issuer(issuer: &str) -> bool {
    [API_KEY_ISSUER, CERTIFICATE_ISSUER, INTROSPECTION_ISSUER].contains(&issuer)
}

/// Time for which the word of a [`TokenVerifier`] holds for a principal without expiry.
const KNOWN_SECONDS: u64 = 60;

/// Why a token was not verified.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum VerifyError {
    /// The error to respond with.
    Auth(AuthError),
    /// The keys of the issuer with this index are needed.
    KeysNeeded(usize),
    /// The authorization server must be asked about it.
    IntrospectionNeeded,
}

impl Authenticator {
    /// Returns whether the rules admit that a caller reads a resource, by its resolved URI.
    pub fn may_read(&self, principal: Option<&Principal>, uri: &str) -> bool {
        self.access.check_uri(principal, Method::ResourcesRead.as_str(), uri).is_ok()
    }

    /// Returns whether the verification of a token may cost more than the hash for API keys: a
    /// signature check, or what the verifier of the program does.
    pub fn needs_check(&self, token: &str) -> bool {
        let is_jwt = || self.jwt.is_some() && jwt::is_jwt(token);
        self.verifier.is_some()
            || self.api_keys.find(token).is_none() && (self.introspection.is_some() || is_jwt())
    }

    /// Verifies a token at the time `unix_seconds`.
    ///
    /// Cost: a SHA-256 of the token for API keys, one signature check for a JWT.
    ///
    /// # Errors
    ///
    /// [`VerifyError`].
    pub fn verify(&self, token: &str, unix_seconds: u64) -> Result<Verified, VerifyError> {
        if let Some(verifier) = &self.verifier {
            match verifier.verify(token, unix_seconds) {
                Ok(principal) => {
                    let forgotten_at = unix_seconds.saturating_add(KNOWN_SECONDS);
                    let known_until = principal.expires_at().unwrap_or(forgotten_at);
                    let principal = self.with_implied_scopes(&principal);
                    return Ok(Verified { principal, known_until });
                }
                Err(TokenError::Unknown) => {}
                Err(TokenError::Invalid(reason)) => {
                    let invalid = InvalidToken { fault: TokenFault::Unknown, reason };
                    return Err(VerifyError::Auth(AuthError::InvalidToken(invalid)));
                }
                Err(TokenError::Expired) => {
                    return Err(VerifyError::Auth(AuthError::InvalidToken(InvalidToken::EXPIRED)));
                }
                Err(TokenError::Unavailable) => return Err(VerifyError::Auth(UNAVAILABLE)),
            }
        }
        if let Some(principal) = self.api_keys.find(token) {
            let principal = self.with_implied_scopes(principal);
            return Ok(Verified { principal, known_until: u64::MAX });
        }
        match &self.jwt {
            Some(jwt) if jwt::is_jwt(token) => {
                match jwt.verify(token, unix_seconds, &self.access) {
                    Ok(principal) => {
                        self.check_binding(&principal).map_err(VerifyError::Auth)?;
                        let known_until = principal.expires_at().unwrap_or(unix_seconds);
                        Ok(Verified { principal, known_until })
                    }
                    Err(JwtError::Invalid(invalid)) => {
                        Err(VerifyError::Auth(AuthError::InvalidToken(invalid)))
                    }
                    Err(JwtError::KeysNeeded(issuer)) => Err(VerifyError::KeysNeeded(issuer)),
                }
            }
            _ if self.introspection.is_some() => Err(VerifyError::IntrospectionNeeded),
            _ => Err(VerifyError::Auth(AuthError::InvalidToken(UNKNOWN))),
        }
    }

    /// Verifies a token by what the authorization server says of it, at the time `unix_seconds`.
    ///
    /// # Errors
    ///
    /// [`AuthError::InvalidToken`].
    pub fn verify_introspected(
        &self,
        status: &TokenStatus,
        unix_seconds: u64,
    ) -> Result<Verified, AuthError> {
        match (&self.introspection, status) {
            (Some(rules), TokenStatus::Active(members)) => {
                let verified = rules.check(members, unix_seconds, &self.access);
                let verified = verified.map_err(AuthError::InvalidToken)?;
                self.check_binding(&verified.principal)?;
                Ok(verified)
            }
            _ => Err(AuthError::InvalidToken(INACTIVE)),
        }
    }

    /// Checks that a token of an authorization server is bound to a key, if it must be.
    fn check_binding(&self, principal: &Principal) -> Result<(), AuthError> {
        let is_required = self.dpop.as_ref().is_some_and(|dpop| dpop.is_required);
        if is_required && !matches!(principal.binding(), Some(Binding::ProofKey(_))) {
            return Err(AuthError::UnprovedToken(NO_KEY));
        }
        Ok(())
    }

    /// Returns the caller that a certificate stands for at the time `unix_seconds`.
    ///
    /// # Errors
    ///
    /// As [`CertificateRules::principal`].
    pub fn verify_certificate(
        &self,
        certificate: &ClientCertificate,
        unix_seconds: u64,
    ) -> Result<Verified, AuthError> {
        let principal = self.certificates.principal(certificate, unix_seconds, &self.access)?;
        Ok(Verified { principal, known_until: certificate.expires_at })
    }

    /// Returns a caller with the scopes that its own imply.
    pub fn with_implied_scopes(&self, principal: &Principal) -> Principal {
        let scopes = self.access.expand_scopes(principal.scopes());
        principal.clone().with_scopes(scopes)
    }
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Authenticator")
            .field("api_keys", &self.api_keys)
            .field("jwt", &self.jwt)
            .finish_non_exhaustive()
    }
}

/// Returns whether a text is a scope (RFC 6749, section 3.3).
pub fn is_scope(text: &str) -> bool {
    let is_scope_byte = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
    !text.is_empty() && text.bytes().all(is_scope_byte)
}

const NO_KEY: &str = "the token is not bound to a key, which this server requires (cnf, jkt)";
const UNKNOWN: InvalidToken = InvalidToken::new(TokenFault::Unknown, "the token is unknown");
const INACTIVE: InvalidToken = InvalidToken::new(TokenFault::Unknown, "the token is not active");
const UNAVAILABLE: AuthError = AuthError::Unavailable("the token cannot be verified at the moment");
