//! The token endpoint (RFC 6749, sections 4 to 6; RFC 8707, section 2.2).

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use url::{Url, form_urlencoded};

use super::channel::{Channel, FetchRequest, FetchResponse};
use crate::error::ClientError;
use crate::oauth::options::ClientIdentity;
use crate::oauth::signing::{Claims, DpopKey, ProofTarget};
use crate::oauth::tokens::{ClientAuth, RegisteredClient, Secret};

/// Longest text of an authorization server that an error quotes, in characters.
const QUOTED_CHARACTERS_MAX: usize = 200;

/// A successful response.
#[derive(Debug, Deserialize)]
pub(super) struct TokenResponse {
    pub(super) access_token: Secret,
    token_type: Option<String>,
    #[serde(default, deserialize_with = "read_seconds")]
    pub(super) expires_in: Option<u64>,
    pub(super) refresh_token: Option<Secret>,
    pub(super) issued_token_type: Option<String>,
}

impl TokenResponse {
    /// Returns whether the access token is bound to the key of the request, and so needs proofs.
    /// `binding` is that of a token which the response does not describe.
    ///
    /// # Errors
    ///
    /// For a type that this client does not understand: such a token must not be used (RFC 6749,
    /// section 7.1).
    pub(super) fn is_bound(
        &self,
        endpoint: &TokenEndpoint<'_>,
        binding: bool,
    ) -> Result<bool, ClientError> {
        let has_key = endpoint.dpop_key.is_some();
        let refused = |reason: &str| {
            let issuer = endpoint.issuer;
            let text = format!("the token of the authorization server {issuer} is refused");
            Err(ClientError::authorization(format!("{text}: {reason}")))
        };
        match self.token_type.as_deref() {
            None | Some("") => Ok(binding && has_key),
            Some(name) if name.eq_ignore_ascii_case("bearer") => Ok(false),
            Some(name) if name.eq_ignore_ascii_case("dpop") && has_key => Ok(true),
            Some(name) if name.eq_ignore_ascii_case("dpop") => {
                refused("its token_type is DPoP, which was not asked for")
            }
            Some(name) => {
                let name = error_text(name, None);
                refused(&format!("its token_type is {name}, neither Bearer nor DPoP"))
            }
        }
    }
}

/// Reads a number, or a text that holds one.
fn read_seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds")]
    let fraction = || value.as_f64().filter(|number| *number >= 0.0).map(|number| number as u64);
    Ok(number.or_else(fraction))
}

/// Why no token was issued.
#[derive(Debug)]
pub(super) enum TokenFailure {
    /// The server refused the request (RFC 6749, section 5.2).
    Refused { error: String, message: ClientError },
    /// There is no valid response.
    Failed(ClientError),
}

impl From<ClientError> for TokenFailure {
    fn from(error: ClientError) -> Self {
        Self::Failed(error)
    }
}

impl From<TokenFailure> for ClientError {
    fn from(failure: TokenFailure) -> Self {
        match failure {
            TokenFailure::Refused { message, .. } | TokenFailure::Failed(message) => message,
        }
    }
}

/// A token endpoint, and the client as it authenticates there.
#[derive(Debug)]
pub(super) struct TokenEndpoint<'a> {
    pub(super) url: Url,
    pub(super) issuer: &'a str,
    pub(super) client: &'a RegisteredClient,
    pub(super) identity: &'a ClientIdentity,
    /// The key to bind the tokens to.
    pub(super) dpop_key: Option<&'a DpopKey>,
}

impl TokenEndpoint<'_> {
    /// Requests a token.
    pub(super) async fn request(
        &self,
        channel: &Channel,
        form: &[(&str, &str)],
    ) -> Result<TokenResponse, TokenFailure> {
        let mut response = self.send(channel, form, None).await?;
        let nonce = response.dpop_nonce.take();
        if let Some(nonce) = nonce.filter(|_| error_of(&response).error == "use_dpop_nonce") {
            response = self.send(channel, form, Some(&nonce)).await?;
        }
        self.read(&response)
    }

    async fn send(
        &self,
        channel: &Channel,
        form: &[(&str, &str)],
        nonce: Option<&str>,
    ) -> Result<FetchResponse, ClientError> {
        let mut body = form_urlencoded::Serializer::new(String::new());
        body.extend_pairs(form);
        let mut authorization = None;
        let RegisteredClient { id, secret, auth, .. } = self.client;
        let secret = secret.as_ref().map_or("", Secret::expose);
        match auth {
            ClientAuth::None => {
                body.append_pair("client_id", id);
            }
            ClientAuth::ClientSecretBasic => {
                // Each part is encoded as in a form first (RFC 6749, section 2.3.1).
                let part = |text: &str| -> String {
                    form_urlencoded::byte_serialize(text.as_bytes()).collect()
                };
                let pair = format!("{}:{}", part(id), part(secret));
                authorization = Some(format!("Basic {}", BASE64_STANDARD.encode(pair)));
            }
            ClientAuth::ClientSecretPost => {
                body.append_pair("client_id", id).append_pair("client_secret", secret);
            }
            ClientAuth::PrivateKeyJwt => {
                let key = self.identity.key.as_ref().ok_or_else(|| {
                    ClientError::authorization("the client has no private key to authenticate with")
                })?;
                let jti = channel.random_text();
                let claims = Claims { unix_seconds: channel.unix_seconds(), id: &jti };
                let assertion = key.assertion(id, self.issuer, claims)?;
                let assertion_type = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
                body.append_pair("client_assertion_type", assertion_type);
                body.append_pair("client_assertion", &assertion);
            }
        }
        let media_type = "application/x-www-form-urlencoded";
        let mut request = FetchRequest::post(self.url.clone(), media_type, body.finish());
        request.fields.extend(authorization.map(|value| ("Authorization", value)));
        if let Some(key) = self.dpop_key {
            let mut url = self.url.clone();
            url.set_query(None);
            url.set_fragment(None);
            let jti = channel.random_text();
            let claims = Claims { unix_seconds: channel.unix_seconds(), id: &jti };
            let target =
                ProofTarget { method: "POST", url: url.as_str(), access_token: None, nonce };
            request.fields.push(("DPoP", key.proof(&target, claims)?));
        }
        channel.fetch(request).await
    }

    fn read(&self, response: &FetchResponse) -> Result<TokenResponse, TokenFailure> {
        let what = format!("the token request at the authorization server {}", self.issuer);
        // Some servers send it with status 200.
        let refusal = error_of(response);
        if !refusal.error.is_empty() {
            let message = refusal.describe(&what);
            return Err(TokenFailure::Refused { error: refusal.error, message });
        }
        if !response.is_success() {
            return Err(response.failure(&what).into());
        }
        let tokens: TokenResponse = response.json(&what)?;
        let is_valid = |token: &Secret| {
            let text = token.expose();
            !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
        };
        if !is_valid(&tokens.access_token) {
            let text = format!("{what} was answered with a token that HTTP cannot carry");
            return Err(ClientError::authorization(text).into());
        }
        Ok(tokens)
    }
}

/// An error of an authorization server (RFC 6749, section 5.2; RFC 7591, section 3.2.2).
#[derive(Debug, Default)]
pub(super) struct ErrorResponse {
    /// Empty for none.
    pub(super) error: String,
    description: Option<String>,
}

impl ErrorResponse {
    /// Returns the error of `what`, which was refused.
    pub(super) fn describe(&self, what: &str) -> ClientError {
        let text = error_text(&self.error, self.description.as_deref());
        ClientError::authorization(format!("{what} was refused: {text}"))
    }
}

/// Returns the error that a response holds, or an empty one.
pub(super) fn error_of(response: &FetchResponse) -> ErrorResponse {
    let body: Value = serde_json::from_slice(response.text()).unwrap_or_default();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let description = text(&body["error_description"]);
    match &body["error"] {
        Value::String(error) => ErrorResponse { error: error.clone(), description },
        // Not of OAuth, but it says why.
        Value::Object(error) => {
            let code = ["code", "status", "type"].iter().find_map(|key| error.get(*key));
            let error = code.map(|code| text(code).unwrap_or_else(|| code.to_string()));
            let description = description.or_else(|| text(&body["error"]["message"]));
            ErrorResponse { error: error.unwrap_or_else(|| "error".to_owned()), description }
        }
        _ => ErrorResponse::default(),
    }
}

/// Returns an error with its description as one line.
pub(super) fn error_text(error: &str, description: Option<&str>) -> String {
    let text = match description {
        Some(description) if !description.is_empty() => format!("{error}: {description}"),
        _ => error.to_owned(),
    };
    let is_shown = |character: &char| !character.is_control();
    text.chars().filter(is_shown).take(QUOTED_CHARACTERS_MAX).collect()
}
