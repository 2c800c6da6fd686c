//! Responses of token introspection: what an authorization server says of a token.
//!
//! Source: RFC 7662.

use serde_json::{Map, Value};

use super::access::AccessRules;
use super::jwt::ClaimRules;
use super::{InvalidToken, TokenFault, Verified};

/// Time in seconds for which a response holds, at most: a withdrawn token is known until then.
const KNOWN_SECONDS: u64 = 60;

/// How the claims of a response are checked.
#[derive(Clone, Debug)]
pub struct IntrospectionRules {
    /// Values of `iss`, if a response has one. Empty accepts any.
    pub issuers: Vec<Box<str>>,
    /// The checks that claims of a JWT have, too.
    pub claims: ClaimRules,
    /// Time in seconds for which a token stays valid while the server cannot be asked again.
    pub grace_seconds: u64,
}

/// What an authorization server says of a token.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum TokenStatus {
    /// It is valid, with these members.
    Active(Map<String, Value>),
    /// It is not: unknown, expired or withdrawn.
    Inactive,
}

/// The result of asking about a token.
#[derive(Clone, Debug)]
pub struct IntrospectedToken {
    /// SHA-256 of the token.
    pub digest: [u8; 32],
    /// What the authorization server says.
    pub answer: Result<TokenStatus, NotIntrospected>,
}

/// Why the authorization server has said nothing of a token.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NotIntrospected {
    /// It does not respond.
    NoAnswer,
    /// It was not asked: too many tokens wait.
    TooMany,
}

impl TokenStatus {
    /// Reads a response (RFC 7662, section 2.2).
    ///
    /// # Errors
    ///
    /// It is not an object with the boolean member `active`.
    pub fn parse(body: &[u8]) -> Result<Self, String> {
        let members: Map<String, Value> = serde_json::from_slice(body)
            .map_err(|error| format!("the response is not a JSON object: {error}"))?;
        match members.get("active").and_then(Value::as_bool) {
            Some(true) => Ok(Self::Active(members)),
            Some(false) => Ok(Self::Inactive),
            None => Err("the response has no member active (RFC 7662, section 2.2)".to_owned()),
        }
    }
}

impl IntrospectionRules {
    /// Checks the members of a response at the time `unix_seconds`. A client without user is named
    /// by its `client_id`; a token without `exp` is asked about again, and ends if it is not
    /// confirmed within `grace_seconds` more.
    pub(super) fn check(
        &self,
        members: &Map<String, Value>,
        unix_seconds: u64,
        access: &AccessRules,
    ) -> Result<Verified, InvalidToken> {
        let issuer = members.get("iss").and_then(Value::as_str);
        let is_known = |issuer: &str| self.issuers.iter().any(|known| **known == *issuer);
        let is_refused = |issuer: &str| {
            super::is_own_issuer(issuer) || (!self.issuers.is_empty() && !is_known(issuer))
        };
        if issuer.is_some_and(is_refused) {
            return Err(OTHER_ISSUER);
        }
        let forgotten_at = unix_seconds.saturating_add(KNOWN_SECONDS);
        let mut claims = members.clone();
        claims.remove("active");
        let issuer =
            if let [only] = &*self.issuers { &**only } else { super::INTROSPECTION_ISSUER };
        claims.entry("iss").or_insert_with(|| Value::from(issuer));
        let client = claims.get("client_id").cloned();
        if let Some(client) = client {
            claims.entry("sub").or_insert(client);
        }
        let ends_at = forgotten_at.saturating_add(self.grace_seconds);
        claims.entry("exp").or_insert_with(|| ends_at.into());
        let principal = self.claims.check(&claims, unix_seconds, access)?;
        let known_until = principal.expires_at().unwrap_or(forgotten_at).min(forgotten_at);
        Ok(Verified { principal, known_until })
    }
}

const OTHER_ISSUER: InvalidToken =
    InvalidToken::new(TokenFault::Issuer, "the issuer of the token is not accepted");

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::guard::auth::api_keys::ApiKeys;
    use corelane_base::principal::Principal;

    const NOW: u64 = 1_000;

    fn check(change: &Value) -> Result<Verified, InvalidToken> {
        let rules = IntrospectionRules {
            issuers: vec!["https://as.test".into()],
            claims: ClaimRules { audiences: vec!["https://a/mcp".into()], ..ClaimRules::default() },
            grace_seconds: 300,
        };
        let mut members = json!({
            "active": true, "sub": "ada", "aud": "https://a/mcp", "client_id": "cli",
            "scope": "read call",
        });
        for (name, value) in change.as_object().unwrap() {
            members[name] = value.clone();
        }
        let mut members = members.as_object().unwrap().clone();
        members.retain(|_, value| !value.is_null());
        rules.check(&members, NOW, &AccessRules::default())
    }

    #[test]
    fn active_token_has_its_caller() {
        let Verified { principal, known_until } = check(&json!({})).unwrap();
        assert_eq!((principal.id(), principal.client_id()), ("ada", "cli"));
        assert_eq!((principal.issuer(), known_until), ("https://as.test", NOW + 60));
        assert_eq!(principal.scopes().collect::<Vec<_>>(), ["read", "call"]);
        assert_eq!(principal.expires_at(), Some(NOW + 360));
        assert_eq!(check(&json!({"exp": NOW + 10})).unwrap().known_until, NOW + 10);
        assert_eq!(check(&json!({"exp": NOW + 999})).unwrap().known_until, NOW + 60);
        assert_eq!(check(&json!({"sub": null})).unwrap().principal.id(), "cli");
    }

    #[test]
    fn members_are_checked_as_claims() {
        let audience = "the audience of the token is not this server";
        for (change, reason) in [
            (json!({"aud": "https://b/mcp"}), audience),
            (json!({"aud": null}), "the token has no audience"),
            (json!({"exp": NOW}), "the token has expired"),
            (json!({"nbf": NOW + 1}), "the token is not valid yet"),
            (json!({"iss": "https://evil.test"}), "the issuer of the token is not accepted"),
            (json!({"sub": null, "client_id": null}), "the token has no subject"),
        ] {
            assert_eq!(check(&change).unwrap_err().reason, reason, "{change}");
        }
    }

    #[test]
    fn response_needs_member_active() {
        assert_eq!(TokenStatus::parse(br#"{"active":false,"sub":"x"}"#), Ok(TokenStatus::Inactive));
        assert!(matches!(TokenStatus::parse(br#"{"active":true}"#), Ok(TokenStatus::Active(_))));
        for body in ["", "[]", "{}", r#"{"active":"true"}"#, r#"{"active":1}"#] {
            assert!(TokenStatus::parse(body.as_bytes()).is_err(), "{body}");
        }
    }

    /// SHA-256 of `key`.
    const HASH_OF_KEY: &str = "2c70e12b7a0646f92279f427c7b38e7334d8e5389cff167a1dc30e73f826b683";

    #[test]
    fn subject_without_issuer_is_no_other_caller() {
        let claims =
            ClaimRules { audiences: vec!["https://a/mcp".into()], ..ClaimRules::default() };
        let rules = IntrospectionRules { issuers: Vec::new(), claims, grace_seconds: 0 };
        let check = |members: &Value| {
            rules.check(members.as_object().unwrap(), NOW, &AccessRules::default())
        };
        let token = json!({"sub": "ada", "aud": "https://a/mcp"});
        let introspected = check(&token).unwrap().principal;
        let keys = ApiKeys::parse(&format!("ada:{HASH_OF_KEY}")).unwrap();
        let of_key = keys.find("key").unwrap();
        let of_program = Principal::new("ada");
        let of_server = Principal::new("ada").with_issuer("https://as.test");
        let all = [&introspected, of_key, &of_program, &of_server];
        for (index, one) in all.iter().enumerate() {
            assert_eq!(one.id(), "ada");
            assert!(all[index + 1..].iter().all(|other| !one.is_same_caller(other)), "{one:?}");
        }
        for issuer in ["api_key", "mtls", "introspection"] {
            let mut token = token.clone();
            token["iss"] = json!(issuer);
            assert_eq!(check(&token).unwrap_err(), OTHER_ISSUER);
        }
    }
}
