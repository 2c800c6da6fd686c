//! Tokens without a browser: for the client itself, for a workload, and for the sign-on of an
//! enterprise.

use url::Url;

use super::channel::Channel;
use super::token::{TokenEndpoint, TokenFailure, TokenResponse};
use crate::error::ClientError;
use crate::oauth::options::{ClientIdentity, IdentityAssertion};
use crate::oauth::tokens::{ClientAuth, RegisteredClient};

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
