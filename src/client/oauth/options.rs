//! Options of authorization.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::signing::ClientKey;
#[cfg(feature = "oauth-jwt")]
use super::signing::SigningAlgorithm;
use super::store::{MemoryTokenStore, TokenStore};
use super::tokens::Secret;
use crate::error::{ClientError, ClientErrorKind};
use crate::target::Target;
use crate::tls_options::{TlsOptions, tls_client};
use corelane_tls::TlsClient;
use corelane_transport::http::client::request_writer::ExtraFields;

/// How the user allows access.
#[derive(Clone, Default)]
pub enum UserAgent {
    /// Not at all: only tokens that are stored are used.
    #[default]
    None,
    /// A closure shows or opens the URL, and the redirect arrives on a loopback address.
    Callback(Arc<dyn Fn(&str) + Send + Sync>),
    /// The client requests the URL itself and follows redirects up to its own URI.
    Automatic,
}

impl fmt::Debug for UserAgent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::None => "None",
            Self::Callback(_) => "Callback",
            Self::Automatic => "Automatic",
        })
    }
}

/// How the client obtains tokens.
#[derive(Clone, Debug, Default)]
pub enum Grant {
    #[default]
    AuthorizationCode,
    ClientCredentials,
    /// The assertion of a workload.
    JwtBearer(Secret),
    IdJag(Arc<IdentityAssertion>),
}

/// The sign-on of an enterprise, which is exchanged for access to servers (extension
/// `io.modelcontextprotocol/enterprise-managed-authorization`).
#[derive(Clone, Debug)]
pub struct IdentityAssertion {
    token_endpoint: String,
    client_id: String,
    client_secret: Option<Secret>,
    id_token: Secret,
}

impl IdentityAssertion {
    /// Creates one. `token_endpoint` is that of the identity provider, `client_id` the client as it
    /// knows it, and `id_token` the token of the user.
    pub fn new(
        token_endpoint: impl Into<String>,
        client_id: impl Into<String>,
        id_token: impl Into<String>,
    ) -> Self {
        Self {
            token_endpoint: token_endpoint.into(),
            client_id: client_id.into(),
            client_secret: None,
            id_token: Secret::new(id_token),
        }
    }

    /// Sets the secret with which the client authenticates at the identity provider.
    #[must_use]
    pub fn client_secret(self, secret: impl Into<String>) -> Self {
        Self { client_secret: Some(Secret::new(secret)), ..self }
    }

    pub(crate) fn token_endpoint(&self) -> &str {
        &self.token_endpoint
    }

    pub(crate) fn client_id(&self) -> &str {
        &self.client_id
    }

    pub(crate) const fn secret(&self) -> Option<&Secret> {
        self.client_secret.as_ref()
    }

    pub(crate) const fn id_token(&self) -> &Secret {
        &self.id_token
    }
}

/// How the client authenticates to authorization servers, and which of them knows it.
#[derive(Clone, Debug, Default)]
pub struct ClientIdentity {
    pub id: Option<String>,
    pub secret: Option<Secret>,
    pub key: Option<Arc<ClientKey>>,
    /// The URL of its metadata document.
    pub metadata_document: Option<String>,
    /// The only authorization server that may be used.
    pub issuer: Option<String>,
    pub name: String,
}

/// How a client of HTTP or WebSocket servers obtains access tokens (MCP 2026-07-28
/// basic/authorization).
///
/// By default the user allows access in a browser: [`OAuthOptions::on_authorization_url`] receives
/// the URL. The client registers itself with the authorization server unless it has an id.
///
/// ```no_run
/// use corelane::Client;
/// use corelane::client::OAuthOptions;
///
/// let options = OAuthOptions::new().on_authorization_url(|url| eprintln!("Open {url}"));
/// let client = Client::builder("https://mcp.example.org/mcp").oauth(options).connect_blocking()?;
/// # Ok::<(), corelane::client::ClientError>(())
/// ```
#[derive(Clone)]
pub struct OAuthOptions {
    pub(crate) grant: Grant,
    pub(crate) client: ClientIdentity,
    /// Asked for instead of the scopes that the server names at first.
    pub(crate) scopes: Option<Vec<String>>,
    /// Zero for any.
    pub(crate) redirect_port: u16,
    pub(crate) user_agent: UserAgent,
    pub(crate) login_timeout: Duration,
    /// Requests have no parameter `resource`.
    pub(crate) omits_resource: bool,
    pub(crate) store: Arc<dyn TokenStore>,
    /// Which authorization servers are trusted; `None` for those that the system trusts.
    tls: Option<TlsOptions>,
}

impl OAuthOptions {
    /// Creates options that keep tokens in memory and use those that are stored.
    #[must_use]
    pub fn new() -> Self {
        Self {
            grant: Grant::default(),
            client: ClientIdentity { name: "corelane".to_owned(), ..ClientIdentity::default() },
            scopes: None,
            redirect_port: 0,
            user_agent: UserAgent::default(),
            login_timeout: Duration::from_mins(5),
            omits_resource: false,
            store: Arc::new(MemoryTokenStore::new()),
            tls: None,
        }
    }

    /// Keeps tokens in `store`.
    #[must_use]
    pub fn store(self, store: impl TokenStore + 'static) -> Self {
        Self { store: Arc::new(store), ..self }
    }

    /// Sets the scopes that are asked for at first, separated by spaces. Default: those that the
    /// server names.
    #[must_use]
    pub fn scope(self, scope: &str) -> Self {
        let scopes = scope.split_ascii_whitespace().map(str::to_owned).collect();
        Self { scopes: Some(scopes), ..self }
    }

    /// Leaves out the parameter `resource` (RFC 8707), which names the server that a token is for,
    /// for authorization servers that refuse requests with it. Their tokens may be accepted by
    /// other servers, too. Tokens remember it for their refresh. Default: it is sent, as MCP
    /// requires (2026-07-28 basic/authorization, "Resource Parameter Implementation").
    #[must_use]
    pub fn without_resource(self) -> Self {
        Self { omits_resource: true, ..self }
    }
}

/// Connections.
impl OAuthOptions {
    /// Returns the options for the server at `target`, to which requests are sent with `fields`.
    /// Authorization servers are trusted as the server is.
    pub(crate) fn checked(
        self,
        target: &Target,
        fields: &ExtraFields,
        tls: Option<&TlsOptions>,
    ) -> Result<Arc<Self>, ClientError> {
        let invalid = |text: &'static str| ClientError::new(ClientErrorKind::InvalidInput, text);
        if target.http_url().is_none() {
            let text = "authorization by OAuth needs a target that begins with https://, http://, \
                        wss:// or ws://";
            return Err(invalid(text));
        }
        if fields.contains("authorization") {
            let text = "authorization by OAuth and a header Authorization exclude each other";
            return Err(invalid(text));
        }
        Ok(Arc::new(Self { tls: tls.map(TlsOptions::authorities), ..self }))
    }

    /// Returns what the connections to an authorization server at `target` share.
    pub(crate) fn tls_client(&self, target: &Target) -> Result<Option<TlsClient>, ClientError> {
        let is_encrypted = target.encrypted_host().is_some();
        tls_client(target, self.tls.as_ref().filter(|_| is_encrypted))
    }
}

/// The client.
impl OAuthOptions {
    /// Sets the id with which the client is registered at the authorization server.
    #[must_use]
    pub fn client_id(mut self, id: impl Into<String>) -> Self {
        self.client.id = Some(id.into());
        self
    }

    /// Sets the secret that the authorization server has issued with the client id.
    #[must_use]
    pub fn client_secret(mut self, secret: impl Into<String>) -> Self {
        self.client.secret = Some(Secret::new(secret));
        self
    }

    /// Sets the private key in PEM with which the client authenticates (`private_key_jwt`, RFC
    /// 7523).
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ClientErrorKind::InvalidInput) for a text that is no such
    /// key.
    #[cfg(feature = "oauth-jwt")]
    pub fn private_key(
        mut self,
        pem: &[u8],
        algorithm: SigningAlgorithm,
    ) -> Result<Self, ClientError> {
        self.client.key = Some(Arc::new(ClientKey::from_pem(pem, algorithm)?));
        Ok(self)
    }

    /// Sets the `https` URL of the metadata document of the client, which is its id at
    /// authorization servers that support this. It must list the redirect URI
    /// `http://127.0.0.1/callback`, which stands for every port (RFC 8252, section 7.3).
    #[must_use]
    pub fn client_metadata_document(mut self, url: impl Into<String>) -> Self {
        self.client.metadata_document = Some(url.into());
        self
    }

    /// Sets the only authorization server that may be used: its issuer, exactly. Recommended with a
    /// client id and secret, which another server must not receive.
    #[must_use]
    pub fn issuer(mut self, issuer: impl Into<String>) -> Self {
        self.client.issuer = Some(issuer.into());
        self
    }

    /// Sets the name under which the client registers itself. Default `corelane`.
    #[must_use]
    pub fn client_name(mut self, name: impl Into<String>) -> Self {
        self.client.name = name.into();
        self
    }
}

/// The user.
impl OAuthOptions {
    /// Lets the user allow access at the URL that `on_url` receives. `on_url` is called on the I/O
    /// thread and must not block. The browser is redirected to a port of 127.0.0.1, where the
    /// client waits for it (RFC 8252, section 7.3).
    #[must_use]
    pub fn on_authorization_url(self, on_url: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { user_agent: UserAgent::Callback(Arc::new(on_url)), ..self }
    }

    /// Requests the authorization URL itself, for authorization servers that ask no user: those of
    /// tests.
    #[must_use]
    pub fn approve_automatically(self) -> Self {
        Self { user_agent: UserAgent::Automatic, ..self }
    }

    /// Sets the port to which the browser is redirected. Default: any that is free.
    #[must_use]
    pub const fn redirect_port(mut self, port: u16) -> Self {
        self.redirect_port = port;
        self
    }

    /// Sets the time that the user has to allow access. Default 5 minutes.
    #[must_use]
    pub const fn login_timeout(mut self, timeout: Duration) -> Self {
        self.login_timeout = timeout;
        self
    }
}

/// Access without a user.
impl OAuthOptions {
    /// Obtains tokens for the client itself (extension
    /// `io.modelcontextprotocol/oauth-client-credentials`).
    #[must_use]
    pub fn client_credentials(self) -> Self {
        Self { grant: Grant::ClientCredentials, ..self }
    }

    /// Obtains tokens for the assertion of a workload, a signed JWT (extension
    /// `io.modelcontextprotocol/auth/wif`).
    #[must_use]
    pub fn workload_assertion(self, jwt: impl Into<String>) -> Self {
        Self { grant: Grant::JwtBearer(Secret::new(jwt)), ..self }
    }

    /// Obtains tokens for the sign-on of an enterprise.
    #[must_use]
    pub fn identity_assertion(self, assertion: IdentityAssertion) -> Self {
        Self { grant: Grant::IdJag(Arc::new(assertion)), ..self }
    }
}

impl Default for OAuthOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for OAuthOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("OAuthOptions").field("client", &self.client).finish_non_exhaustive()
    }
}
