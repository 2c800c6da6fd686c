//! JSON Web Tokens of authorization servers, as access tokens.
//!
//! A token is checked in a fixed order: form, algorithm, type, issuer, key, signature, times,
//! audience, scopes, binding. The reason of a failure is that of the first check that fails; it
//! has no part of the token.
//!
//! Source: RFC 7519, RFC 8725 (best current practices), RFC 9068 (profile for access tokens).

#[cfg(feature = "oauth-jwt")]
mod public_key;
/// Without the feature no key is read.
#[cfg(not(feature = "oauth-jwt"))]
mod public_key {
    use serde_json::Value;

    #[derive(Clone, Debug)]
    pub enum PublicKey {}

    impl PublicKey {
        pub fn read(_: Value) -> Option<Self> {
            None
        }

        pub fn read_with_thumbprint(_: Value) -> Option<(Self, [u8; 32])> {
            None
        }

        pub const fn id(&self) -> Option<&str> {
            match *self {}
        }

        pub const fn is_for(&self, _: &str) -> bool {
            match *self {}
        }

        pub const fn verify(&self, _: &str, _: &[u8], _: &str) -> bool {
            match *self {}
        }
    }
}

mod key_set;

mod claims;

#[cfg(all(test, feature = "oauth-jwt"))]
mod tests;

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use corelane_base::principal::Principal;
use serde::Deserialize;
use serde_json::{Map, Value};

pub use self::claims::ClaimRules;
pub(super) use self::claims::seconds;
pub use self::key_set::{EmbeddedKey, KeySet};
use super::access::AccessRules;
use super::{InvalidToken, TokenFault};

/// The algorithms that may be configured: all are asymmetric.
pub const ALGORITHMS: [&str; 9] =
    ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"];

/// An authorization server whose tokens are accepted.
#[derive(Clone, Debug)]
pub struct Issuer {
    /// Equals the claim `iss`, byte for byte.
    pub name: Box<str>,
    /// Its keys; `None` until they have been read.
    pub keys: Option<Arc<KeySet>>,
    /// Number of requests for its keys that these answer.
    pub answered: u64,
}

/// How tokens of all issuers are checked.
#[derive(Clone, Debug)]
pub struct JwtVerifier {
    /// The issuers, by different names.
    pub issuers: Vec<Issuer>,
    /// Names of the algorithms that are accepted.
    pub algorithms: Vec<Box<str>>,
    /// Whether the type of a token must be `at+jwt` (RFC 9068, section 2.1).
    pub requires_access_token_type: bool,
    /// Checks of the claims.
    pub claims: ClaimRules,
}

/// Why a signature is not accepted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SignatureError {
    /// No key has the id and the algorithm of the token.
    NoKey,
    /// The signature is not that of the key.
    Invalid,
}

/// Why a token is not accepted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum JwtError {
    /// It is invalid.
    Invalid(InvalidToken),
    /// The keys of the issuer with this index have not been read, or lack the one of the token.
    KeysNeeded(usize),
}

/// The header of a token. Its members `jwk`, `jku`, `x5u` and `x5c` are never used.
#[derive(Deserialize)]
struct Header<'a> {
    #[serde(borrow)]
    alg: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    typ: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow)]
    kid: Option<std::borrow::Cow<'a, str>>,
    crit: Option<Value>,
}

/// Returns whether a token has the form of a JWT: three parts.
pub fn is_jwt(token: &str) -> bool {
    token.bytes().filter(|byte| *byte == b'.').count() == 2
}

impl JwtVerifier {
    /// Verifies a token at the time `unix_seconds`.
    ///
    /// # Errors
    ///
    /// [`JwtError`].
    pub fn verify(
        &self,
        token: &str,
        unix_seconds: u64,
        access: &AccessRules,
    ) -> Result<Principal, JwtError> {
        let (message, signature) = token.rsplit_once('.').ok_or(MALFORMED)?;
        let (header, payload) = message.split_once('.').ok_or(MALFORMED)?;
        let header = decode(header)?;
        let header: Header<'_> = serde_json::from_slice(&header).map_err(|_| MALFORMED)?;
        if header.crit.is_some() {
            return Err(CRITICAL_HEADER);
        }
        if !self.algorithms.iter().any(|algorithm| **algorithm == *header.alg) {
            return Err(OTHER_ALGORITHM);
        }
        self.check_type(header.typ.as_deref())?;
        let payload = decode(payload)?;
        let claims: Map<String, Value> = serde_json::from_slice(&payload).map_err(|_| MALFORMED)?;
        let issuer = claims.get("iss").and_then(Value::as_str);
        let index = self.issuers.iter().position(|known| Some(&*known.name) == issuer);
        let index = index.ok_or(OTHER_ISSUER)?;
        let Some(keys) = &self.issuers[index].keys else {
            return Err(JwtError::KeysNeeded(index));
        };
        let (algorithm, id) = (&*header.alg, header.kid.as_deref());
        match keys.verify(algorithm, id, message.as_bytes(), signature) {
            Ok(()) => self.claims.check(&claims, unix_seconds, access).map_err(JwtError::Invalid),
            Err(SignatureError::NoKey) => Err(JwtError::KeysNeeded(index)),
            Err(SignatureError::Invalid) => Err(BAD_SIGNATURE),
        }
    }

    /// Checks the type (RFC 8725, section 3.11). Tokens of other types are for another purpose.
    fn check_type(&self, of_token: Option<&str>) -> Result<(), JwtError> {
        let of_token = of_token.map(|it| it.strip_prefix("application/").unwrap_or(it));
        let is_access_token = of_token.is_some_and(|it| it.eq_ignore_ascii_case("at+jwt"));
        let is_plain = of_token.is_none_or(|it| it.eq_ignore_ascii_case("JWT"));
        if is_access_token || (is_plain && !self.requires_access_token_type) {
            return Ok(());
        }
        Err(OTHER_TYPE)
    }
}

fn decode(part: &str) -> Result<Vec<u8>, JwtError> {
    BASE64_URL_SAFE_NO_PAD.decode(part).map_err(|_| MALFORMED)
}

const fn invalid(fault: TokenFault, reason: &'static str) -> JwtError {
    JwtError::Invalid(InvalidToken::new(fault, reason))
}

const MALFORMED: JwtError = invalid(TokenFault::Malformed, "the token is malformed");
const CRITICAL_HEADER: JwtError =
    invalid(TokenFault::Unsupported, "the token has a critical header that is not supported");
const OTHER_ALGORITHM: JwtError =
    invalid(TokenFault::Unsupported, "the algorithm of the token is not accepted");
const OTHER_TYPE: JwtError =
    invalid(TokenFault::Unsupported, "the type of the token is not that of an access token");
const OTHER_ISSUER: JwtError =
    invalid(TokenFault::Issuer, "the issuer of the token is not accepted");
const BAD_SIGNATURE: JwtError =
    invalid(TokenFault::Signature, "the signature of the token is invalid");
