//! The token endpoint (RFC 6749, sections 4 to 6; RFC 8707, section 2.2).

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Deserializer};
use url::{Url, form_urlencoded};

use super::channel::{Channel, FetchRequest, FetchResponse};
use crate::client::error::ClientError;
use crate::client::oauth::options::ClientIdentity;
use crate::client::oauth::secret::Secret;
use crate::client::oauth::signing::{Claims, DpopKey, ProofTarget};
use crate::client::oauth::tokens::{ClientAuth, RegisteredClient};

/// Longest text of an authorization server that an error quotes, in characters.
const QUOTED_CHARACTERS_MAX: usize = 200;

/// A successful response.
#[derive(Debug, Deserialize)]
pub(super) struct TokenResponse {
    pub(super) access_token: Secret,
    #[serde(default)]
    pub(super) token_type: String,
    #[serde(default, deserialize_with = "read_seconds")]
    pub(super) expires_in: Option<u64>,
    pub(super) refresh_token: Option<Secret>,
    pub(super) issued_token_type: Option<String>,
}

/// Reads a number, or a text that holds one.
fn read_seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
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
        if !response.is_success() {
            let ErrorResponse { error, error_description } = error_of(response);
            if error.is_empty() {
                return Err(response.failure(&what).into());
            }
            let message = ClientError::authorization(format!(
                "{what} was refused: {}",
                error_text(&error, error_description.as_deref())
            ));
            return Err(TokenFailure::Refused { error, message });
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

/// An error of an authorization server (RFC 6749, section 5.2).
#[derive(Debug, Default, Deserialize)]
struct ErrorResponse {
    #[serde(default)]
    error: String,
    error_description: Option<String>,
}

/// Returns the error that a response holds, or an empty one.
fn error_of(response: &FetchResponse) -> ErrorResponse {
    serde_json::from_slice(&response.body).unwrap_or_default()
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
