//! Proofs of possession (DPoP): each request has a JWT of its own, signed with the key to which its
//! token is bound.
//!
//! A proof is checked in a fixed order: number, form, type, algorithm, private parts, claims,
//! method, URL, token, time, key, then by the caller its nonce ([`Nonces`]), then the signature,
//! and by the caller whether it was used before. The reason of a failure is that of the first check
//! that fails; it has no part of the proof.
//!
//! Source: RFC 9449, sections 4.3, 8 and 9.

#[cfg(all(test, feature = "oauth-jwt"))]
mod tests;

use std::borrow::Cow;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use url::Url;

use super::AuthError;
use super::jwt::{EmbeddedKey, seconds};
use super::proof::SentProof;
use crate::guard::state_cipher::{KEY_BYTES, StateCipher};

/// Bytes of a proof, at most.
pub const PROOF_BYTES_MAX: usize = 8 << 10;

/// How proofs are checked.
#[derive(Clone, Debug)]
pub struct DpopRules {
    /// Whether tokens of authorization servers must be bound to a key.
    pub is_required: bool,
    /// Names of the algorithms that are accepted; all are asymmetric.
    pub algorithms: Vec<Box<str>>,
    /// Seconds by which `iat` may differ from the time, before and after.
    pub window_seconds: u64,
    /// Whether a proof needs a nonce of this server.
    pub needs_nonce: bool,
    /// The URL of the MCP endpoint as clients know it, without query.
    resource: Url,
}

/// A proof whose signature is not verified yet.
#[derive(Debug)]
pub struct ReadProof<'a> {
    key: EmbeddedKey,
    algorithm: Box<str>,
    message: &'a str,
    signature: &'a str,
    id: Box<str>,
    nonce: Option<Box<str>>,
    /// Until when it may be sent, in seconds since 1970.
    usable_until: u64,
}

#[derive(Deserialize)]
struct Header<'a> {
    #[serde(borrow)]
    typ: Option<Cow<'a, str>>,
    #[serde(borrow)]
    alg: Option<Cow<'a, str>>,
    jwk: Option<Map<String, Value>>,
    crit: Option<Value>,
}

impl DpopRules {
    /// Creates rules for a resource, without nonces.
    ///
    /// # Errors
    ///
    /// The resource is not a URL.
    pub fn new(
        resource: &str,
        algorithms: Vec<Box<str>>,
        window_seconds: u64,
    ) -> Result<Self, String> {
        let resource = Url::parse(resource).map_err(|error| error.to_string())?;
        let (is_required, needs_nonce) = (false, false);
        let resource = without_query(resource);
        Ok(Self { is_required, algorithms, window_seconds, needs_nonce, resource })
    }

    /// Checks everything of a proof but nonce and signature: that it is for this request with
    /// `token`, which is bound to the key with this thumbprint, at the time `unix_seconds`.
    ///
    /// # Errors
    ///
    /// [`AuthError::InvalidProof`], or [`AuthError::UnprovedToken`] if the key is another one.
    pub fn read<'a>(
        &self,
        sent: &SentProof<'a>,
        token: &str,
        thumbprint: &[u8; 32],
        unix_seconds: u64,
    ) -> Result<ReadProof<'a>, AuthError> {
        let text = only_value(sent).map_err(AuthError::InvalidProof)?;
        let (message, signature) = text.rsplit_once('.').ok_or(MALFORMED)?;
        let (header, payload) = message.split_once('.').ok_or(MALFORMED)?;
        let (algorithm, jwk) = self.read_header(header).map_err(AuthError::InvalidProof)?;
        let claims: Map<String, Value> =
            serde_json::from_slice(&decode(payload)?).map_err(|_| MALFORMED)?;
        let (id, issued_at) =
            self.check_claims(&claims, sent, token).map_err(AuthError::InvalidProof)?;
        self.check_time(issued_at, unix_seconds).map_err(AuthError::InvalidProof)?;
        let key = EmbeddedKey::read(&jwk).ok_or(AuthError::InvalidProof(NO_PUBLIC_KEY))?;
        if key.thumbprint() != thumbprint {
            return Err(AuthError::UnprovedToken(OTHER_KEY));
        }
        let nonce = claims.get("nonce").and_then(Value::as_str).map(Box::from);
        let usable_until = issued_at.saturating_add(self.window_seconds).saturating_add(1);
        Ok(ReadProof { key, algorithm, message, signature, id: id.into(), nonce, usable_until })
    }

    /// Checks type and algorithm. Returns the algorithm and the public key.
    fn read_header(&self, header: &str) -> Result<(Box<str>, Map<String, Value>), &'static str> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(header).map_err(|_| MALFORMED_TEXT)?;
        let Header { typ, alg, jwk, crit } =
            serde_json::from_slice(&bytes).map_err(|_| MALFORMED_TEXT)?;
        if !typ.is_some_and(|typ| typ.eq_ignore_ascii_case("dpop+jwt")) {
            return Err("the type of the proof is not dpop+jwt");
        }
        let alg = alg.filter(|alg| self.algorithms.iter().any(|own| **own == **alg));
        let alg = alg.ok_or("the algorithm of the proof is not accepted")?;
        if crit.is_some() {
            return Err("the proof has a critical header that is not supported");
        }
        let jwk = jwk.ok_or("the proof has no key")?;
        if PRIVATE_MEMBERS.iter().any(|name| jwk.contains_key(*name)) {
            return Err("the key of the proof is private");
        }
        Ok((alg.into(), jwk))
    }

    /// Checks the claims but `iat`. Returns `jti` and `iat`.
    fn check_claims<'c>(
        &self,
        claims: &'c Map<String, Value>,
        sent: &SentProof<'_>,
        token: &str,
    ) -> Result<(&'c str, u64), &'static str> {
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        let id = text("jti").filter(|id| !id.is_empty()).ok_or("the proof has no jti")?;
        let issued_at = claims.get("iat").and_then(seconds).ok_or("the proof has no iat")?;
        if text("htm").ok_or("the proof has no htm")? != sent.method {
            return Err("the method of the proof (htm) is not that of the request");
        }
        if !self.is_target(text("htu").ok_or("the proof has no htu")?, sent) {
            return Err("the URL of the proof (htu) is not that of the request");
        }
        let hash = text("ath").ok_or("the proof has no ath")?;
        if hash != BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(token)) {
            return Err("the proof is for another token (ath)");
        }
        Ok((id, issued_at))
    }

    /// Returns whether a URL is that of the request, as clients know it: of the origin of the
    /// resource, and its path where that of the MCP endpoint is requested, whatever a proxy in
    /// front has made of it. Query and fragment do not count.
    fn is_target(&self, url: &str, sent: &SentProof<'_>) -> bool {
        let Ok(url) = Url::parse(url).map(without_query) else { return false };
        if sent.is_endpoint && url == self.resource {
            return true;
        }
        let mut requested = self.resource.clone();
        requested.set_path(sent.path);
        url == requested
    }

    const fn check_time(&self, issued_at: u64, now: u64) -> Result<(), &'static str> {
        if issued_at.saturating_add(self.window_seconds) < now {
            return Err("the proof is too old (iat)");
        }
        if issued_at > now.saturating_add(self.window_seconds) {
            return Err("the proof is issued in the future (iat)");
        }
        Ok(())
    }
}

/// The signature of a proof, with all that it takes to verify it.
#[derive(Debug)]
pub struct ProofSignature {
    key: EmbeddedKey,
    algorithm: Box<str>,
    message: Box<str>,
    signature: Box<str>,
}

impl ProofSignature {
    /// Returns whether it is valid.
    pub fn is_valid(&self) -> bool {
        let Self { key, algorithm, message, signature } = self;
        key.verify(algorithm, message.as_bytes(), signature)
    }
}

impl ReadProof<'_> {
    /// Returns what is signed, which has the key, and its signature.
    pub const fn signed(&self) -> [&str; 2] {
        [self.message, self.signature]
    }

    /// Returns its signature, for a thread that verifies it.
    pub fn to_signature(&self) -> ProofSignature {
        let Self { key, algorithm, message, signature, .. } = self;
        let (key, algorithm) = (key.clone(), algorithm.clone());
        ProofSignature {
            key,
            algorithm,
            message: (*message).into(),
            signature: (*signature).into(),
        }
    }

    /// Returns its nonce.
    pub fn nonce(&self) -> Option<&str> {
        self.nonce.as_deref()
    }

    /// Returns what must not be used twice until [`ReadProof::usable_until`]: the thumbprint of the
    /// key, and `jti`.
    pub fn id(&self) -> (&[u8; 32], &str) {
        (self.key.thumbprint(), &self.id)
    }

    /// Returns until when it may be sent, in seconds since 1970.
    pub const fn usable_until(&self) -> u64 {
        self.usable_until
    }

    /// Verifies the signature.
    ///
    /// # Errors
    ///
    /// [`INVALID_SIGNATURE`].
    pub fn verify_signature(&self) -> Result<(), AuthError> {
        let Self { key, algorithm, message, signature, .. } = self;
        if key.verify(algorithm, message.as_bytes(), signature) {
            return Ok(());
        }
        Err(INVALID_SIGNATURE)
    }
}

/// Returns the text of the proof, if there is one.
fn only_value<'a>(sent: &SentProof<'a>) -> Result<&'a str, &'static str> {
    match sent.values {
        [None, _] => Err("the request has no proof: the header field DPoP is missing"),
        [Some(_), Some(_)] => Err("the request has more than one proof"),
        [Some(value), None] if value.len() > PROOF_BYTES_MAX => Err("the proof is too long"),
        [Some(value), None] => str::from_utf8(value).map_err(|_| MALFORMED_TEXT),
    }
}

fn without_query(mut url: Url) -> Url {
    url.set_query(None);
    url.set_fragment(None);
    url
}

fn decode(part: &str) -> Result<Vec<u8>, AuthError> {
    BASE64_URL_SAFE_NO_PAD.decode(part).map_err(|_| MALFORMED)
}

/// Members of a JWK with private parts (RFC 7518, sections 6.2.2, 6.3.2 and 6.4.1).
const PRIVATE_MEMBERS: [&str; 8] = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"];

/// The signature of a proof is not that of its key.
pub const INVALID_SIGNATURE: AuthError =
    AuthError::InvalidProof("the signature of the proof is invalid");

const MALFORMED_TEXT: &str = "the proof is malformed";
const MALFORMED: AuthError = AuthError::InvalidProof(MALFORMED_TEXT);
const NO_PUBLIC_KEY: &str = "the key of the proof is not a public key for its algorithm";
const OTHER_KEY: &str = "the token is bound to another key than that of the proof";

/// Time in seconds for which the same nonce is issued.
pub const PERIOD_SECONDS: u64 = 150;

/// Issues nonces, and knows them again, without a table: a nonce is a time that only this server
/// can have written. All clients get the same one during a period of [`PERIOD_SECONDS`]; it is
/// accepted until the end of the next one, so for 150 s to 300 s.
#[derive(Clone, Debug)]
pub struct Nonces(StateCipher);

impl Nonces {
    /// Creates nonces under a key, which must encrypt nothing else.
    pub fn new(key: &[u8; KEY_BYTES]) -> Self {
        Self(StateCipher::new(key))
    }

    /// Returns the nonce of the time `unix_seconds`.
    pub fn current(&self, unix_seconds: u64) -> String {
        // The number of a period is the nonce of the cipher: under one there is one text only.
        self.0.encrypt(unix_seconds / PERIOD_SECONDS, NONCE_CONTEXT, b"").unwrap_or_default()
    }

    /// Returns whether a nonce is accepted at the time `unix_seconds`.
    pub fn accepts(&self, nonce: &str, unix_seconds: u64) -> bool {
        let period = unix_seconds / PERIOD_SECONDS;
        let issued = self.0.decrypt(NONCE_CONTEXT, nonce);
        issued.is_some_and(|it| it.nonce == period || it.nonce + 1 == period)
    }
}

const NONCE_CONTEXT: &[u8] = b"dpop";
