//! One run of the flow, from its cause to tokens.

use std::rc::Rc;
use std::sync::Arc;

use url::Url;

use super::FlowCause;
use super::channel::Channel;
use super::discovery::{Discovered, discover};
use super::grants::{
    AUTOMATIC_REDIRECT_URI, Access, AuthorizationRequest, approve_automatically,
    client_credentials, exchange_identity, jwt_bearer,
};
use super::registration::{known_client, register};
use super::token::{TokenEndpoint, TokenFailure, TokenResponse};
use crate::error::ClientError;
use crate::oauth::challenge::{Challenge, PROOF_ALGORITHM};
use crate::oauth::metadata::{OFFLINE_ACCESS, ServerMetadata, parse_endpoint};
use crate::oauth::options::{Grant, OAuthOptions, UserAgent};
use crate::oauth::signing::DpopKey;
use crate::oauth::tokens::{RegisteredClient, Secret, StoredTokens};

/// The client, the token that it was issued, and whether the token is bound to its key.
type IssuedToken = (RegisteredClient, TokenResponse, bool);

/// What a run needs.
pub(super) struct FlowTask {
    pub(super) channel: Rc<Channel>,
    /// The URL of the server.
    pub(super) server: Url,
    pub(super) options: Arc<OAuthOptions>,
}

impl FlowTask {
    pub(super) async fn run(
        self,
        stored: Option<StoredTokens>,
        cause: FlowCause,
    ) -> Result<StoredTokens, ClientError> {
        let mut stored = stored;
        let (challenge, is_forbidden, may_refresh) = match cause {
            FlowCause::Refresh => {
                if let Some(tokens) = self.refresh(&mut stored).await? {
                    return Ok(tokens);
                }
                (Challenge::default(), false, false)
            }
            FlowCause::Challenge { challenge, is_forbidden, attempt } => {
                (challenge, is_forbidden, !is_forbidden && attempt == 1)
            }
        };
        let only_issuer = self.options.client.issuer.as_deref();
        let known_issuer = stored.as_ref().map(|stored| stored.issuer.as_str());
        let channel = &*self.channel;
        let found = discover(channel, &self.server, &challenge, known_issuer, only_issuer).await?;
        // Nothing of one authorization server is used at another.
        let issuer = &found.authorization_server.issuer;
        let mut stored = self.of_issuer(stored, issuer)?;
        if may_refresh && let Some(tokens) = self.refresh(&mut stored).await? {
            return Ok(tokens);
        }
        let dpop_key = select_dpop_key(&found, &challenge, stored.as_ref())?;
        let scopes = self.select_scopes(
            &found,
            challenge.scope(dpop_key.is_some()),
            is_forbidden,
            stored.as_ref(),
        );
        let (client, response, is_bound) = match &self.options.grant {
            Grant::AuthorizationCode => {
                self.authorize(&found, stored.as_ref(), &scopes, dpop_key.as_ref()).await?
            }
            grant => self.request_directly(grant, &found, &scopes, dpop_key.as_ref()).await?,
        };
        if challenge.requires_dpop() && !is_bound {
            let text = format!("the server requires DPoP, and {issuer} has issued another token");
            return Err(ClientError::authorization(text));
        }
        let dpop_key = dpop_key.filter(|_| is_bound);
        Ok(StoredTokens {
            issuer: issuer.clone(),
            token_endpoint: self.token_endpoint(&found)?.to_string(),
            resource: found.resource,
            client,
            scopes,
            access_token: response.access_token,
            refresh_token: response.refresh_token,
            issued_at: channel.unix_seconds(),
            expires_in: response.expires_in,
            dpop_key: dpop_key.map(|key| Secret::new(key.encode())),
            omits_resource: self.options.omits_resource,
        })
    }

    /// Returns what is stored if it is of `issuer`.
    fn of_issuer(
        &self,
        stored: Option<StoredTokens>,
        issuer: &str,
    ) -> Result<Option<StoredTokens>, ClientError> {
        let Some(tokens) = stored else { return Ok(None) };
        if tokens.issuer == issuer {
            return Ok(Some(tokens));
        }
        let identity = &self.options.client;
        if identity.id.is_some() && identity.issuer.is_none() {
            let text = format!(
                "the authorization server has changed from {} to {issuer}, and the client id may \
                 belong to the first: set the issuer of the client id",
                tokens.issuer
            );
            return Err(ClientError::authorization(text));
        }
        Ok(None)
    }

    /// Refreshes the access token (RFC 6749, section 6). Returns `None` if there is no refresh
    /// token or the server refuses it for good; it is removed then, and a registration that the
    /// server has forgotten too. Another client may have used the refresh token: its tokens are
    /// used then.
    async fn refresh(
        &self,
        stored: &mut Option<StoredTokens>,
    ) -> Result<Option<StoredTokens>, ClientError> {
        let Some(tokens) = stored else { return Ok(None) };
        let Some(refresh_token) = tokens.refresh_token.take() else { return Ok(None) };
        let dpop_key = tokens.dpop_key.as_ref().and_then(|key| DpopKey::decode(key.expose()));
        let url = parse_endpoint(&tokens.token_endpoint, &self.server);
        let endpoint = TokenEndpoint {
            url: url.map_err(ClientError::authorization)?,
            issuer: &tokens.issuer,
            client: &tokens.client,
            identity: &self.options.client,
            dpop_key: dpop_key.as_ref(),
        };
        let mut form =
            vec![("grant_type", "refresh_token"), ("refresh_token", refresh_token.expose())];
        if !tokens.omits_resource && !self.options.omits_resource {
            form.push(("resource", &tokens.resource));
        }
        let response = endpoint.request(&self.channel, &form).await;
        let is_bound = response.as_ref().map(|response| response.is_bound(&endpoint, true));
        let is_bound = is_bound.unwrap_or(Ok(false))?;
        match response {
            Ok(response) => Ok(Some(StoredTokens {
                dpop_key: tokens.dpop_key.clone().filter(|_| is_bound),
                access_token: response.access_token,
                refresh_token: response.refresh_token.or(Some(refresh_token)),
                issued_at: self.channel.unix_seconds(),
                expires_in: response.expires_in,
                ..tokens.clone()
            })),
            Err(TokenFailure::Refused { error, message }) => {
                tracing::debug!(error = %message, "the access token is not refreshed");
                if matches!(error.as_str(), "server_error" | "temporarily_unavailable") {
                    return Err(message);
                }
                let replaced = self.options.store.load(self.server.as_str()).ok().flatten();
                let is_other = |other: &StoredTokens| {
                    other.has_access() && other.access_token != tokens.access_token
                };
                if let Some(replaced) = replaced.filter(is_other) {
                    return Ok(Some(replaced));
                }
                if error == "invalid_client" {
                    tokens.client.registered_redirect_uri = None;
                }
                Ok(None)
            }
            Err(TokenFailure::Failed(error)) => Err(error),
        }
    }

    /// Selects the scopes to ask for (MCP 2026-07-28 basic/authorization, "Scope Selection
    /// Strategy" and "Step-Up Authorization Flow"): with those that were asked for before.
    fn select_scopes(
        &self,
        found: &Discovered,
        challenged: Option<&str>,
        is_forbidden: bool,
        stored: Option<&StoredTokens>,
    ) -> Vec<String> {
        let challenged = challenged.map(|scope| {
            scope.split_ascii_whitespace().map(str::to_owned).collect::<Vec<String>>()
        });
        let chosen = self.options.scopes.clone().filter(|_| !is_forbidden);
        let mut scopes = stored.map_or_else(Vec::new, |stored| stored.scopes.clone());
        let supported = || found.scopes_supported.clone().filter(|_| scopes.is_empty());
        let selected = chosen.or(challenged).or_else(supported);
        for scope in selected.unwrap_or_default() {
            if !scopes.contains(&scope) {
                scopes.push(scope);
            }
        }
        let needs_offline_access = matches!(self.options.grant, Grant::AuthorizationCode)
            && found.authorization_server.supports_offline_access()
            && !scopes.is_empty();
        if needs_offline_access && !scopes.iter().any(|scope| scope == OFFLINE_ACCESS) {
            scopes.push(OFFLINE_ACCESS.to_owned());
        }
        scopes
    }

    fn token_endpoint(&self, found: &Discovered) -> Result<Url, ClientError> {
        let server = &found.authorization_server;
        self.endpoint(server.token_endpoint.as_deref(), "token endpoint", &server.issuer)
    }

    fn endpoint(
        &self,
        endpoint: Option<&str>,
        what: &str,
        issuer: &str,
    ) -> Result<Url, ClientError> {
        let url = endpoint.ok_or_else(|| "the metadata names none".to_owned());
        url.and_then(|url| parse_endpoint(url, &self.server)).map_err(|reason| {
            let text = format!("the {what} of the authorization server {issuer} is refused");
            ClientError::authorization(format!("{text}: {reason}"))
        })
    }

    /// Lets the user allow access, and exchanges the code.
    async fn authorize(
        &self,
        found: &Discovered,
        stored: Option<&StoredTokens>,
        scopes: &[String],
        dpop_key: Option<&DpopKey>,
    ) -> Result<IssuedToken, ClientError> {
        let (channel, options) = (&*self.channel, &*self.options);
        let server = &found.authorization_server;
        let issuer = &server.issuer;
        if !server.supports_pkce() {
            let text = format!(
                "the authorization server {issuer} does not support PKCE with S256 \
                 (code_challenge_methods_supported), without which codes can be stolen"
            );
            return Err(ClientError::authorization(text));
        }
        let endpoint = server.authorization_endpoint.as_deref();
        let endpoint = self.endpoint(endpoint, "authorization endpoint", issuer)?;
        let token_endpoint = self.token_endpoint(found)?;
        let (redirect_uri, client) = self.prepare_client(server, stored).await?;
        self.note_registration(found, &token_endpoint, &client);
        let (state, verifier) = (channel.random_text(), channel.random_text());
        let request = AuthorizationRequest {
            endpoint,
            server,
            client_id: &client.id,
            redirect_uri: &redirect_uri,
            resource: self.resource(found),
            scopes,
            state: &state,
            verifier: &verifier,
        };
        let query = match options.user_agent {
            UserAgent::Automatic => {
                approve_automatically(channel, request.url(), &redirect_uri).await?
            }
            UserAgent::None | UserAgent::Callback(_) => {
                channel.authorize(request.url(), &state).await?
            }
        };
        let code = request.read_redirect(query.expose())?;
        let endpoint = TokenEndpoint {
            url: token_endpoint,
            issuer,
            client: &client,
            identity: &options.client,
            dpop_key,
        };
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", &*code),
            ("redirect_uri", &redirect_uri),
            ("code_verifier", &verifier),
        ];
        form.extend(self.resource(found).map(|resource| ("resource", resource)));
        let response = endpoint.request(channel, &form).await?;
        let is_bound = response.is_bound(&endpoint, false)?;
        Ok((client, response, is_bound))
    }

    /// Notes a registration, which is used again if the login fails.
    fn note_registration(
        &self,
        found: &Discovered,
        token_endpoint: &Url,
        client: &RegisteredClient,
    ) {
        if client.registered_redirect_uri.is_none() {
            return;
        }
        self.channel.note_registration(StoredTokens {
            issuer: found.authorization_server.issuer.clone(),
            token_endpoint: token_endpoint.to_string(),
            resource: found.resource.clone(),
            client: client.clone(),
            scopes: Vec::new(),
            access_token: Secret::new(""),
            refresh_token: None,
            issued_at: self.channel.unix_seconds(),
            expires_in: None,
            dpop_key: None,
            omits_resource: self.options.omits_resource,
        });
    }

    /// Returns `resource` of requests, unless it is left out.
    fn resource<'a>(&self, found: &'a Discovered) -> Option<&'a str> {
        (!self.options.omits_resource).then_some(&*found.resource)
    }

    /// Returns a redirect URI, and the client for which it is registered.
    async fn prepare_client(
        &self,
        server: &ServerMetadata,
        stored: Option<&StoredTokens>,
    ) -> Result<(String, RegisteredClient), ClientError> {
        let (channel, options) = (&*self.channel, &*self.options);
        let registered = stored.and_then(|stored| {
            stored.client.registered_redirect_uri.as_deref().map(|uri| (uri, &stored.client))
        });
        let redirect_uri = match options.user_agent {
            UserAgent::None => return Err(login_required(&server.issuer)),
            UserAgent::Automatic => AUTOMATIC_REDIRECT_URI.to_owned(),
            UserAgent::Callback(_) => {
                let known_port = || {
                    let url = Url::parse(registered?.0).ok()?;
                    url.port()
                };
                let port = Some(options.redirect_port).filter(|port| *port > 0);
                channel.listen(port.or_else(known_port).unwrap_or(0)).await?
            }
        };
        let client = match known_client(&options.client, server)? {
            Some(client) => client,
            None => match registered.filter(|(uri, _)| *uri == redirect_uri) {
                Some((_, client)) => client.clone(),
                None => {
                    register(channel, &self.server, &options.client, server, &redirect_uri).await?
                }
            },
        };
        Ok((redirect_uri, client))
    }

    /// Requests a token without the user.
    async fn request_directly(
        &self,
        grant: &Grant,
        found: &Discovered,
        scopes: &[String],
        dpop_key: Option<&DpopKey>,
    ) -> Result<IssuedToken, ClientError> {
        let (channel, identity) = (&*self.channel, &self.options.client);
        let issuer = &found.authorization_server.issuer;
        let client = known_client(identity, &found.authorization_server)?.ok_or_else(|| {
            let text = format!("no client id is set for the authorization server {issuer}");
            ClientError::authorization(text)
        })?;
        let endpoint = TokenEndpoint {
            url: self.token_endpoint(found)?,
            issuer,
            client: &client,
            identity,
            dpop_key,
        };
        let scope = scopes.join(" ");
        let access = Access { resource: self.resource(found), scope: &scope };
        let response = match grant {
            Grant::AuthorizationCode | Grant::ClientCredentials => {
                client_credentials(channel, &endpoint, access).await?
            }
            Grant::JwtBearer(assertion) => {
                jwt_bearer(channel, &endpoint, assertion.expose(), access).await?
            }
            Grant::IdJag(sign_on) => {
                let url = Some(sign_on.token_endpoint());
                let url = self.endpoint(url, "token endpoint", "that is the identity provider")?;
                let assertion = exchange_identity(channel, sign_on, issuer, url, access).await?;
                jwt_bearer(channel, &endpoint, &assertion, access).await?
            }
        };
        let is_bound = response.is_bound(&endpoint, false)?;
        Ok((client, response, is_bound))
    }
}

/// Returns the key to bind tokens to, if the server accepts such tokens.
fn select_dpop_key(
    found: &Discovered,
    challenge: &Challenge,
    stored: Option<&StoredTokens>,
) -> Result<Option<DpopKey>, ClientError> {
    let is_required = challenge.requires_dpop();
    let server = &found.authorization_server;
    let refused = |text: String| {
        if is_required {
            let text = format!("the server requires DPoP, and {text}");
            return Err(ClientError::authorization(text));
        }
        Ok(None)
    };
    if !found.supports_dpop {
        let named = challenge.algorithms().unwrap_or_default();
        let named: String =
            named.chars().filter(|character| !character.is_control()).take(200).collect();
        return refused(format!(
            "accepts proofs signed with {named} only; this client signs with {PROOF_ALGORITHM}"
        ));
    }
    if !server.supports_dpop() {
        return refused(format!(
            "the authorization server {} does not support it with {PROOF_ALGORITHM}",
            server.issuer
        ));
    }
    let known = stored.and_then(|stored| stored.dpop_key.as_ref());
    match known.and_then(|key| DpopKey::decode(key.expose())) {
        Some(key) => Ok(Some(key)),
        None if is_required => DpopKey::generate().map(Some),
        // The server accepts other tokens, too.
        None => Ok(DpopKey::generate().ok()),
    }
}

/// The error of a client that may not ask the user.
fn login_required(issuer: &str) -> ClientError {
    let text = format!(
        "the server requires a login at {issuer}, and the client has no way to ask the user for it"
    );
    ClientError::authorization(text)
}
