//! What a client whose request is not authorized is sent: status, `WWW-Authenticate`, and a body.
//!
//! Source: RFC 6750, section 3; RFC 9449, section 7.1; RFC 9728, section 5.1; MCP 2026-07-28,
//! basic/authorization.

use std::time::Duration;

use corelane_protocol::json::write;

use super::AuthError;

/// The parts of a challenge that all requests have.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Challenges {
    /// The URL of the protected resource metadata.
    pub resource_metadata: Option<Box<str>>,
    /// The least scopes, separated by spaces. May be empty.
    pub scopes: Box<str>,
    /// Algorithms of proofs, separated by spaces, if proofs of keys are verified.
    pub dpop_algorithms: Option<Box<str>>,
    /// Whether tokens must be bound to a key.
    pub requires_dpop: bool,
}

/// The authentication scheme of a challenge.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Scheme {
    /// RFC 6750.
    Bearer,
    /// RFC 9449.
    Dpop,
}

/// The status of a refused request, and the fields and the body of its response.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// The value of `WWW-Authenticate`; none if a credential would not help.
    pub challenge: Option<String>,
    /// The value of `Retry-After` in seconds.
    pub retry_after_seconds: Option<u32>,
    /// A JSON object: `error` and `error_description`, as of OAuth.
    pub body: String,
}

impl Challenges {
    /// Returns the response to a request that is not authenticated.
    pub fn refuse(&self, error: &AuthError) -> Refusal {
        let (status, code, description) = match error {
            AuthError::Missing => (401, None, MISSING),
            AuthError::InvalidToken(token) => (401, Some("invalid_token"), &*token.reason),
            AuthError::UnprovedToken(reason) => (401, Some("invalid_token"), *reason),
            AuthError::InvalidProof(reason) => (401, Some("invalid_dpop_proof"), *reason),
            AuthError::NonceNeeded(reason) => (401, Some("use_dpop_nonce"), *reason),
            AuthError::InvalidRequest(reason) => (400, Some("invalid_request"), *reason),
            AuthError::Unavailable(_) | AuthError::Pending => {
                let reason = error.unavailable_reason();
                let body = write_body("temporarily_unavailable", reason);
                let retry_after_seconds = Some(RETRY_AFTER_SECONDS);
                return Refusal { status: 503, challenge: None, retry_after_seconds, body };
            }
            AuthError::TooManyFailures(retry_after) => {
                let body = write_body("too_many_failures", &error.detail());
                let retry_after_seconds = Some(whole_seconds(*retry_after));
                return Refusal { status: 429, challenge: None, retry_after_seconds, body };
            }
        };
        let mut parameters = Parameters::default();
        if let Some(code) = code {
            parameters.push("error", code);
        }
        let scheme = match error {
            AuthError::UnprovedToken(_)
            | AuthError::InvalidProof(_)
            | AuthError::NonceNeeded(_) => Scheme::Dpop,
            _ => self.token_scheme(),
        };
        let is_of_proof = matches!(error, AuthError::InvalidProof(_) | AuthError::NonceNeeded(_));
        if status == 401 && !is_of_proof {
            if code.is_some() {
                parameters.push("error_description", description);
            }
            self.push_algorithms(&mut parameters, scheme);
            self.push_requirements(&mut parameters, &self.scopes);
        } else if matches!(error, AuthError::InvalidProof(_)) {
            self.push_algorithms(&mut parameters, scheme);
        }
        let body = write_body(code.unwrap_or("unauthorized"), description);
        let challenge = Some(parameters.finish(scheme));
        Refusal { status, challenge, retry_after_seconds: None, body }
    }

    /// Returns the scheme of tokens.
    const fn token_scheme(&self) -> Scheme {
        if self.requires_dpop { Scheme::Dpop } else { Scheme::Bearer }
    }

    /// Returns `WWW-Authenticate` for a caller who lacks some of `scopes`, which are all that its
    /// operation needs, or else a higher tier. Its token has this scheme.
    pub fn insufficient_scope(&self, scopes: &str, description: &str, scheme: Scheme) -> String {
        let mut parameters = Parameters::default();
        parameters.push("error", "insufficient_scope");
        if !scopes.is_empty() {
            parameters.push("scope", scopes);
        }
        if let Some(url) = &self.resource_metadata {
            parameters.push("resource_metadata", url);
        }
        parameters.push("error_description", description);
        self.push_algorithms(&mut parameters, scheme);
        parameters.finish(scheme)
    }

    /// Returns `WWW-Authenticate` for a request without a credential whose operation needs one,
    /// with all `scopes` of the operation.
    pub fn missing(&self, scopes: &str) -> String {
        let mut parameters = Parameters::default();
        let scheme = self.token_scheme();
        self.push_algorithms(&mut parameters, scheme);
        self.push_requirements(
            &mut parameters,
            if scopes.is_empty() { &self.scopes } else { scopes },
        );
        parameters.finish(scheme)
    }

    fn push_algorithms(&self, parameters: &mut Parameters, scheme: Scheme) {
        if let (Scheme::Dpop, Some(algorithms)) = (scheme, &self.dpop_algorithms) {
            parameters.push("algs", algorithms);
        }
    }

    fn push_requirements(&self, parameters: &mut Parameters, scopes: &str) {
        if let Some(url) = &self.resource_metadata {
            parameters.push("resource_metadata", url);
        }
        if !scopes.is_empty() {
            parameters.push("scope", scopes);
        }
    }
}

/// The parameters of a challenge.
#[derive(Debug, Default)]
struct Parameters(String);

impl Parameters {
    /// Adds a parameter. Characters that would end the quoted text are replaced.
    fn push(&mut self, name: &str, value: &str) {
        self.0.push_str(if self.0.is_empty() { " " } else { ", " });
        self.0.push_str(name);
        self.0.push_str("=\"");
        let plain = |char: char| match char {
            '"' | '\\' => '\'',
            char if char.is_ascii_graphic() || char == ' ' => char,
            _ => '?',
        };
        self.0.extend(value.chars().map(plain));
        self.0.push('"');
    }

    fn finish(self, scheme: Scheme) -> String {
        let scheme = match scheme {
            Scheme::Bearer => "Bearer",
            Scheme::Dpop => "DPoP",
        };
        format!("{scheme}{}", self.0)
    }
}

fn write_body(error: &str, description: &str) -> String {
    let mut out = br#"{"error":"#.to_vec();
    write::string(&mut out, error);
    out.extend_from_slice(br#","error_description":"#);
    write::string(&mut out, description);
    out.push(b'}');
    String::from_utf8_lossy(&out).into_owned()
}

const MISSING: &str = "the request has no bearer token";

/// Value of `Retry-After` while a token cannot be verified.
const RETRY_AFTER_SECONDS: u32 = 1;

/// Returns seconds for `Retry-After`, rounded up so that the client does not come too early (RFC
/// 9110, section 10.2.3).
pub fn whole_seconds(time: Duration) -> u32 {
    let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    u32::try_from(seconds).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::auth::{InvalidToken, TokenFault};

    fn challenges() -> Challenges {
        Challenges {
            resource_metadata: Some("https://a/.well-known/oauth-protected-resource/mcp".into()),
            scopes: "tools:read".into(),
            ..Challenges::default()
        }
    }

    const REQUIREMENTS: &str = concat!(
        "resource_metadata=\"https://a/.well-known/oauth-protected-resource/mcp\", ",
        "scope=\"tools:read\"",
    );

    #[test]
    fn missing_token_has_no_error_parameter() {
        let refusal = challenges().refuse(&AuthError::Missing);
        assert_eq!(refusal.status, 401);
        assert_eq!(refusal.challenge.unwrap(), format!("Bearer {REQUIREMENTS}"));
        let bare = Challenges::default().refuse(&AuthError::Missing);
        assert_eq!(bare.challenge.unwrap(), "Bearer");
    }

    #[test]
    fn invalid_token_names_its_reason() {
        let expired = InvalidToken::new(TokenFault::Expired, "the token has expired");
        let refusal = challenges().refuse(&AuthError::InvalidToken(expired));
        assert_eq!(refusal.status, 401);
        let error = "error=\"invalid_token\", error_description=\"the token has expired\"";
        assert_eq!(refusal.challenge.unwrap(), format!("Bearer {error}, {REQUIREMENTS}"));
        let body: serde_json::Value = serde_json::from_str(&refusal.body).unwrap();
        let fields = [&body["error"], &body["error_description"]];
        assert_eq!(fields, ["invalid_token", "the token has expired"]);
    }

    #[test]
    fn invalid_request_has_status_400() {
        let refusal = challenges().refuse(&AuthError::InvalidRequest("two tokens"));
        assert_eq!(refusal.status, 400);
        assert_eq!(refusal.challenge.unwrap(), "Bearer error=\"invalid_request\"");
    }

    #[test]
    fn unavailable_keys_get_503_without_challenge() {
        let refusal = challenges().refuse(&AuthError::Unavailable("no keys"));
        let Refusal { status, challenge, retry_after_seconds, .. } = refusal;
        assert_eq!((status, challenge, retry_after_seconds), (503, None, Some(1)));
    }

    #[test]
    fn insufficient_scope_lists_all_scopes() {
        let text = challenges().insufficient_scope("a b", "lacks \"b\"\r\n", Scheme::Bearer);
        assert_eq!(
            text,
            "Bearer error=\"insufficient_scope\", scope=\"a b\", resource_metadata=\
             \"https://a/.well-known/oauth-protected-resource/mcp\", \
             error_description=\"lacks 'b'??\""
        );
    }

    #[test]
    fn retry_after_is_rounded_up() {
        let seconds =
            [0, 1, 1_000, 1_001, 59_999].map(|ms| whole_seconds(Duration::from_millis(ms)));
        assert_eq!(seconds, [1, 1, 1, 2, 60]);
        let refusal =
            challenges().refuse(&AuthError::TooManyFailures(Duration::from_millis(1_001)));
        assert_eq!((refusal.status, refusal.retry_after_seconds), (429, Some(2)));
        assert_eq!(refusal.challenge, None);
    }

    #[test]
    fn refused_proof_has_challenge_of_dpop() {
        let algorithms = Some("ES256 EdDSA".into());
        let challenges = Challenges { dpop_algorithms: algorithms, ..challenges() };
        let challenge = |error: &AuthError| {
            let refusal = challenges.refuse(error);
            assert_eq!(refusal.status, 401);
            refusal.challenge.unwrap()
        };
        assert_eq!(
            challenge(&AuthError::InvalidProof("old")),
            "DPoP error=\"invalid_dpop_proof\", algs=\"ES256 EdDSA\""
        );
        assert_eq!(challenge(&AuthError::NonceNeeded("none")), "DPoP error=\"use_dpop_nonce\"");
        let error = "error=\"invalid_token\", error_description=\"bound\", algs=\"ES256 EdDSA\"";
        assert_eq!(
            challenge(&AuthError::UnprovedToken("bound")),
            format!("DPoP {error}, {REQUIREMENTS}")
        );
        assert_eq!(challenge(&AuthError::Missing), format!("Bearer {REQUIREMENTS}"));
        let required = Challenges { requires_dpop: true, ..challenges.clone() };
        assert_eq!(
            required.refuse(&AuthError::Missing).challenge.unwrap(),
            format!("DPoP algs=\"ES256 EdDSA\", {REQUIREMENTS}")
        );
    }
}
