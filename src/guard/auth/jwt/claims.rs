//! The claims of a token whose signature is valid.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use corelane_base::principal::{Binding, Principal};
use serde_json::{Map, Value};

use crate::guard::auth::access::AccessRules;
use crate::guard::auth::{InvalidToken, TokenFault};

/// Checks of claims, and what becomes of them.
#[derive(Clone, Debug, Default)]
pub struct ClaimRules {
    /// Values of `aud`, one of which the token must have.
    pub audiences: Vec<Box<str>>,
    /// Seconds by which clocks may differ.
    pub leeway_seconds: u64,
    /// The claim with the tier of the caller. Without it every caller is of the tier `user`.
    pub tier_claim: Option<Box<str>>,
}

impl ClaimRules {
    /// Checks claims at the time `unix_seconds`, and returns their principal.
    pub fn check(
        &self,
        claims: &Map<String, Value>,
        unix_seconds: u64,
        access: &AccessRules,
    ) -> Result<Principal, InvalidToken> {
        let expires_at = self.check_times(claims, unix_seconds)?;
        let is_audience = |value: &Value| {
            value.as_str().is_some_and(|text| self.audiences.iter().any(|own| **own == *text))
        };
        let has_audience = match claims.get("aud") {
            Some(Value::Array(all)) => all.iter().any(is_audience),
            Some(one) => is_audience(one),
            None => return Err(NO_AUDIENCE),
        };
        if !has_audience {
            return Err(OTHER_AUDIENCE);
        }
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        let subject = text("sub").ok_or(malformed("the token has no subject"))?;
        let binding = claims.get("cnf").map(read_binding).transpose()?;
        let client_id = text("client_id").or_else(|| text("azp")).unwrap_or_default();
        let scopes = access.expand_scopes(scopes_of(claims));
        let principal = Principal::new(subject)
            .with_issuer(text("iss").unwrap_or_default())
            .with_client_id(client_id)
            .with_scopes(scopes)
            .with_claims(claims)
            .with_expiry(expires_at);
        let principal = match binding {
            Some(binding) => principal.with_binding(binding),
            None => principal,
        };
        Ok(match self.tier_claim.as_deref().and_then(text) {
            Some(tier) => principal.with_tier(tier),
            None => principal,
        })
    }

    /// Checks `exp`, which is required, `nbf` and `iat`. Returns when the token expires.
    fn check_times(&self, claims: &Map<String, Value>, now: u64) -> Result<u64, InvalidToken> {
        let expires_at = match claims.get("exp") {
            Some(value) => seconds(value).ok_or(malformed("the claim exp is not a time"))?,
            None => return Err(malformed("the token has no expiry")),
        };
        if now >= expires_at.saturating_add(self.leeway_seconds) {
            return Err(InvalidToken::EXPIRED);
        }
        for (name, reason) in
            [("nbf", "the token is not valid yet"), ("iat", "the token is issued in the future")]
        {
            let Some(value) = claims.get(name) else { continue };
            let begin = seconds(value).ok_or(malformed("a time of the token is not a number"))?;
            if begin > now.saturating_add(self.leeway_seconds) {
                return Err(InvalidToken::new(TokenFault::NotYetValid, reason));
            }
        }
        Ok(expires_at.saturating_add(self.leeway_seconds))
    }
}

/// Reads the key to which a token is bound (RFC 7800, section 3.1): that of a certificate (RFC
/// 8705, section 3.1) or of proofs (RFC 9449, section 6.1). No other kind of key can be proved.
fn read_binding(confirmation: &Value) -> Result<Binding, InvalidToken> {
    let members = confirmation.as_object().filter(|members| members.len() == 1);
    let member = |name: &str| members.and_then(|members| members.get(name)?.as_str());
    let read = |text: &str| -> Result<[u8; 32], InvalidToken> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok();
        bytes
            .and_then(|bytes| bytes.try_into().ok())
            .ok_or(malformed("the claim cnf has no SHA-256"))
    };
    match (member("x5t#S256"), member("jkt")) {
        (Some(certificate), None) => read(certificate).map(Binding::Certificate),
        (None, Some(key)) => read(key).map(Binding::ProofKey),
        _ => Err(UNKNOWN_BINDING),
    }
}

const fn malformed(reason: &'static str) -> InvalidToken {
    InvalidToken::new(TokenFault::Malformed, reason)
}

const NO_AUDIENCE: InvalidToken =
    InvalidToken::new(TokenFault::Audience, "the token has no audience");
const OTHER_AUDIENCE: InvalidToken =
    InvalidToken::new(TokenFault::Audience, "the audience of the token is not this server");
const UNKNOWN_BINDING: InvalidToken = InvalidToken::new(
    TokenFault::Binding,
    "the token is bound to a key of which this server verifies no proofs",
);

/// Reads a `NumericDate` (RFC 7519, section 2): seconds, possibly with a fraction.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the value is in the range, and saturates"
)]
pub fn seconds(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_f64().filter(|it| *it >= 0.0).map(|it| it as u64))
}

/// Returns the scopes of `scope` (RFC 8693, section 4.2) and `scp`.
fn scopes_of(claims: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let values = ["scope", "scp"].into_iter().filter_map(|name| claims.get(name));
    let texts = values.flat_map(|value| match value {
        Value::Array(all) => &all[..],
        one => std::slice::from_ref(one),
    });
    texts.filter_map(Value::as_str).flat_map(str::split_ascii_whitespace)
}
