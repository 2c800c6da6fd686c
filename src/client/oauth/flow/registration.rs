//! The client at its authorization server: known before, by its metadata document, or registered
//! now (MCP 2026-07-28 basic/authorization, "Client Registration Approaches").

use serde::Deserialize;
use serde_json::json;
use url::Url;

use super::channel::{Channel, FetchRequest};
use super::token::error_of;
use crate::error::ClientError;
use crate::oauth::metadata::{ServerMetadata, parse_endpoint};
use crate::oauth::options::ClientIdentity;
use crate::oauth::tokens::{ClientAuth, RegisteredClient, Secret};

/// The answer to a registration (RFC 7591, section 3.2.1).
#[derive(Deserialize)]
struct Registration {
    client_id: String,
    client_secret: Option<Secret>,
    token_endpoint_auth_method: Option<String>,
}

/// Returns the client that the options name, if they do.
pub(super) fn known_client(
    identity: &ClientIdentity,
    server: &ServerMetadata,
) -> Result<Option<RegisteredClient>, ClientError> {
    if let Some(id) = &identity.id {
        let auth = choose_auth(server, identity.secret.is_some(), identity.key.is_some())?;
        let (id, secret) = (id.clone(), identity.secret.clone());
        return Ok(Some(RegisteredClient { id, secret, auth, registered_redirect_uri: None }));
    }
    let supports_documents = server.client_id_metadata_document_supported == Some(true);
    let Some(url) = identity.metadata_document.as_ref().filter(|_| supports_documents) else {
        return Ok(None);
    };
    let auth = choose_auth(server, false, identity.key.is_some())?;
    Ok(Some(RegisteredClient {
        id: url.clone(),
        secret: None,
        auth,
        registered_redirect_uri: None,
    }))
}

/// Registers the client (RFC 7591).
pub(super) async fn register(
    channel: &Channel,
    base: &Url,
    identity: &ClientIdentity,
    server: &ServerMetadata,
    redirect_uri: &str,
) -> Result<RegisteredClient, ClientError> {
    let issuer = &server.issuer;
    let Some(endpoint) = &server.registration_endpoint else {
        let text = format!(
            "the authorization server {issuer} registers no clients by itself: register one there \
             and set its client id"
        );
        return Err(ClientError::authorization(text));
    };
    let what = format!("the registration at the authorization server {issuer}");
    let url = parse_endpoint(endpoint, base)
        .map_err(|reason| ClientError::authorization(format!("{what} is refused: {reason}")))?;
    let mut grant_types = vec!["authorization_code"];
    if server.supports_refresh() {
        grant_types.push("refresh_token");
    }
    let body = json!({
        "client_name": identity.name,
        "redirect_uris": [redirect_uri],
        "grant_types": grant_types,
        "response_types": ["code"],
        "token_endpoint_auth_method": requested_auth(server).as_str(),
        "application_type": "native",
    });
    let request = FetchRequest::post(url, "application/json", body.to_string());
    let response = channel.fetch(request).await?;
    let refusal = error_of(&response);
    if !refusal.error.is_empty() {
        return Err(refusal.describe(&what));
    }
    if !response.is_success() {
        return Err(response.failure(&what));
    }
    let registration: Registration = response.json(&what)?;
    let has_secret = registration.client_secret.is_some();
    let method = registration.token_endpoint_auth_method.as_deref();
    let is_usable = |auth: &ClientAuth| match auth {
        ClientAuth::None => true,
        ClientAuth::ClientSecretBasic | ClientAuth::ClientSecretPost => has_secret,
        ClientAuth::PrivateKeyJwt => false,
    };
    let auth = match method.and_then(ClientAuth::from_name).filter(is_usable) {
        Some(auth) => auth,
        None => choose_auth(server, has_secret, false)?,
    };
    Ok(RegisteredClient {
        id: registration.client_id,
        secret: registration.client_secret,
        auth,
        registered_redirect_uri: Some(redirect_uri.to_owned()),
    })
}

/// Returns how a client that is being registered asks to authenticate.
fn requested_auth(server: &ServerMetadata) -> ClientAuth {
    let Some(methods) = &server.token_endpoint_auth_methods_supported else {
        return ClientAuth::None;
    };
    let order = [ClientAuth::None, ClientAuth::ClientSecretBasic, ClientAuth::ClientSecretPost];
    let is_supported = |auth: &ClientAuth| methods.iter().any(|method| method == auth.as_str());
    order.into_iter().find(is_supported).unwrap_or_default()
}

/// Chooses how a client authenticates.
fn choose_auth(
    server: &ServerMetadata,
    has_secret: bool,
    has_key: bool,
) -> Result<ClientAuth, ClientError> {
    let Some(methods) = &server.token_endpoint_auth_methods_supported else {
        return Ok(match (has_key, has_secret) {
            (true, _) => ClientAuth::PrivateKeyJwt,
            // The default of RFC 8414, section 2.
            (false, true) => ClientAuth::ClientSecretBasic,
            (false, false) => ClientAuth::None,
        });
    };
    let mut usable = Vec::new();
    if has_key {
        usable.push(ClientAuth::PrivateKeyJwt);
    }
    if has_secret {
        usable.extend([ClientAuth::ClientSecretBasic, ClientAuth::ClientSecretPost]);
    }
    usable.push(ClientAuth::None);
    let is_supported = |auth: &ClientAuth| methods.iter().any(|method| method == auth.as_str());
    let chosen = usable.into_iter().find(is_supported);
    // A client that has neither secret nor key can do without the statement.
    let chosen = chosen.or_else(|| (!has_key && !has_secret).then_some(ClientAuth::None));
    chosen.ok_or_else(|| {
        let text = format!(
            "the authorization server {} authenticates clients by {}, none of which the client \
             can: set a client secret or a private key",
            server.issuer,
            methods.join(", ")
        );
        ClientError::authorization(text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(methods: &[&str]) -> ServerMetadata {
        let methods = methods.iter().map(|method| (*method).to_owned()).collect();
        ServerMetadata {
            token_endpoint_auth_methods_supported: Some(methods),
            ..Default::default()
        }
    }

    #[test]
    fn auth_method_is_one_that_both_support() {
        let all = server(&["none", "client_secret_post", "client_secret_basic", "private_key_jwt"]);
        let choose = |server: &ServerMetadata, has_secret, has_key| {
            choose_auth(server, has_secret, has_key).unwrap()
        };
        assert_eq!(choose(&all, false, true), ClientAuth::PrivateKeyJwt);
        assert_eq!(choose(&all, true, false), ClientAuth::ClientSecretBasic);
        assert_eq!(choose(&all, false, false), ClientAuth::None);
        assert_eq!(
            choose(&server(&["client_secret_post"]), true, true),
            ClientAuth::ClientSecretPost
        );
        assert_eq!(choose(&server(&["none"]), true, false), ClientAuth::None);
        assert_eq!(choose(&ServerMetadata::default(), true, false), ClientAuth::ClientSecretBasic);
        let error = choose_auth(&server(&["tls_client_auth"]), true, false).unwrap_err();
        assert!(error.to_string().contains("tls_client_auth"), "{error}");
        assert_eq!(requested_auth(&all), ClientAuth::None);
        assert_eq!(requested_auth(&server(&["client_secret_post"])), ClientAuth::ClientSecretPost);
    }
}
