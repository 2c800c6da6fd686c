//! Grants: the authorization code flow with PKCE (RFC 7636) in a browser, and those without a
//! browser: for the client itself, for a workload, and for the sign-on of an enterprise.

use std::collections::HashMap;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use url::{Url, form_urlencoded};

use super::channel::{Channel, FetchRequest};
use super::token::{TokenEndpoint, TokenFailure, TokenResponse, error_text};
use crate::error::ClientError;
use crate::oauth::metadata::{OFFLINE_ACCESS, ServerMetadata};
use crate::oauth::options::{ClientIdentity, IdentityAssertion};
use crate::oauth::tokens::{ClientAuth, RegisteredClient, Secret};

/// Redirects of an authorization that is approved automatically, at most.
const REDIRECTS_MAX: u32 = 10;

/// The redirect URI of an authorization that is approved automatically: it is never opened.
pub(super) const AUTOMATIC_REDIRECT_URI: &str = "http://127.0.0.1/callback";

/// One authorization request; its secrets are of no use after it.
#[derive(Debug)]
pub(super) struct AuthorizationRequest<'a> {
    pub(super) endpoint: Url,
    pub(super) server: &'a ServerMetadata,
    pub(super) client_id: &'a str,
    pub(super) redirect_uri: &'a str,
    /// `None` for a server that refuses the parameter.
    pub(super) resource: Option<&'a str>,
    pub(super) scopes: &'a [String],
    pub(super) state: &'a str,
    /// `code_verifier` of PKCE.
    pub(super) verifier: &'a str,
}

impl AuthorizationRequest<'_> {
    /// Returns the URL for the browser.
    pub(super) fn url(&self) -> Url {
        let challenge = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(self.verifier));
        let mut url = self.endpoint.clone();
        let mut query = url.query_pairs_mut();
        query.append_pair("response_type", "code");
        query.append_pair("client_id", self.client_id);
        query.append_pair("redirect_uri", self.redirect_uri);
        query.append_pair("state", self.state);
        query.append_pair("code_challenge", &challenge);
        query.append_pair("code_challenge_method", "S256");
        if let Some(resource) = self.resource {
            query.append_pair("resource", resource);
        }
        if !self.scopes.is_empty() {
            query.append_pair("scope", &self.scopes.join(" "));
        }
        if self.scopes.iter().any(|scope| scope == OFFLINE_ACCESS) {
            // OpenID Connect Core 1.0, section 11.
            query.append_pair("prompt", "consent");
        }
        drop(query);
        url
    }

    /// Returns the code of a redirect with this query (RFC 6749, section 4.1.2; RFC 9207, section
    /// 2.4).
    pub(super) fn read_redirect(&self, query: &str) -> Result<String, ClientError> {
        let mut parameters = HashMap::new();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            if parameters.insert(name.into_owned(), value.into_owned()).is_some() {
                return Err(refused("it has a parameter twice"));
            }
        }
        // A parameter without a value counts as omitted (RFC 6749, section 3.1).
        let mut take = |name: &str| parameters.remove(name).filter(|value| !value.is_empty());
        if take("state").as_deref() != Some(self.state) {
            return Err(refused("its state is not that of the request"));
        }
        let is_announced = self.server.authorization_response_iss_parameter_supported == Some(true);
        match take("iss") {
            // Compared as text.
            Some(issuer) if issuer == self.server.issuer => {}
            Some(issuer) => {
                let text = format!(
                    "it comes from the authorization server {}, not {}",
                    error_text(&issuer, None),
                    self.server.issuer
                );
                return Err(refused(&text));
            }
            None if is_announced => {
                return Err(refused("iss, which the server announces, is missing"));
            }
            None => {}
        }
        if let Some(error) = take("error") {
            let text = error_text(&error, take("error_description").as_deref());
            let text = format!("access was not granted by {}: {text}", self.server.issuer);
            return Err(ClientError::authorization(text));
        }
        take("code").ok_or_else(|| refused("it has no code"))
    }
}

/// Requests `url` and follows redirects; returns the query of that to `redirect_uri`.
pub(super) async fn approve_automatically(
    channel: &Channel,
    url: Url,
    redirect_uri: &str,
) -> Result<Secret, ClientError> {
    let mut url = url;
    for _ in 0..REDIRECTS_MAX {
        let response = channel.fetch(FetchRequest::get(url.clone(), "text/html")).await?;
        let Some(location) = response.redirect() else {
            return Err(response.failure("an authorization without a user"));
        };
        if let Some(rest) = location.strip_prefix(redirect_uri)
            && (rest.is_empty() || rest.starts_with('?'))
        {
            return Ok(Secret::new(rest.trim_start_matches('?')));
        }
        let next = url.join(location).ok().filter(|next| next.origin() == url.origin());
        url = next.ok_or_else(|| {
            refused("an authorization without a user is redirected to another server")
        })?;
    }
    Err(refused("an authorization without a user is redirected too often"))
}

fn refused(reason: &str) -> ClientError {
    ClientError::authorization(format!("the redirect of the authorization is refused: {reason}"))
}

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";

/// `resource` and `scope` of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access<'a> {
    /// `None` for a server that refuses the parameter.
    pub(super) resource: Option<&'a str>,
    /// Empty for none.
    pub(super) scope: &'a str,
}

impl<'a> Access<'a> {
    fn extend(self, form: &mut Vec<(&'static str, &'a str)>) {
        form.extend(self.resource.map(|resource| ("resource", resource)));
        if !self.scope.is_empty() {
            form.push(("scope", self.scope));
        }
    }
}

/// Requests a token for the client itself (RFC 6749, section 4.4).
pub(super) async fn client_credentials(
    channel: &Channel,
    endpoint: &TokenEndpoint<'_>,
    access: Access<'_>,
) -> Result<TokenResponse, TokenFailure> {
    let mut form = vec![("grant_type", "client_credentials")];
    access.extend(&mut form);
    endpoint.request(channel, &form).await
}

/// Requests a token for an assertion (RFC 7523, section 2.1).
pub(super) async fn jwt_bearer(
    channel: &Channel,
    endpoint: &TokenEndpoint<'_>,
    assertion: &str,
    access: Access<'_>,
) -> Result<TokenResponse, TokenFailure> {
    let mut form = vec![("grant_type", JWT_BEARER), ("assertion", assertion)];
    access.extend(&mut form);
    endpoint.request(channel, &form).await
}

/// Exchanges the token of the user at the identity provider for an assertion that the authorization
/// server `issuer` accepts (RFC 8693; draft-ietf-oauth-identity-assertion-authz-grant).
pub(super) async fn exchange_identity(
    channel: &Channel,
    identity: &IdentityAssertion,
    issuer: &str,
    url: Url,
    access: Access<'_>,
) -> Result<String, ClientError> {
    let secret = identity.secret().cloned();
    let auth = if secret.is_some() { ClientAuth::ClientSecretPost } else { ClientAuth::None };
    let id = identity.client_id().to_owned();
    let provider = url.origin().ascii_serialization();
    let endpoint = TokenEndpoint {
        url,
        issuer: &provider,
        client: &RegisteredClient { id, secret, auth, registered_redirect_uri: None },
        identity: &ClientIdentity::default(),
        dpop_key: None,
    };
    let mut form = vec![
        ("grant_type", TOKEN_EXCHANGE),
        ("requested_token_type", ID_JAG),
        ("audience", issuer),
        ("subject_token", identity.id_token().expose()),
        ("subject_token_type", ID_TOKEN),
    ];
    access.extend(&mut form);
    let response = endpoint.request(channel, &form).await?;
    if response.issued_token_type.as_deref() != Some(ID_JAG) {
        let text =
            format!("the identity provider {provider} has issued another type than {ID_JAG}");
        return Err(ClientError::authorization(text));
    }
    Ok(response.access_token.expose().to_owned())
}
