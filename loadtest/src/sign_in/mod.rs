//! Sign-in of users at an authorization server, and the renewal of their tokens during a run.
//!
//! ```text
//!  plan ─▶ SignInConfig ─▶ client of the library ─▶ AccessToken ─▶ load threads: Authorization
//!                                    ▲                   │
//!                                    └─── TokenRenewal ◀─┘ when 80 % of its life time have passed
//! ```
//!
//! The client of the library performs the whole protocol, from the challenge of the server on. Each
//! token is obtained by a client of its own, which connects, gets a token and closes.
//!
//! Invariants: no secret and no token is in an error, a result or debug output. The requests of a
//! run go on with the old token if it is not renewed.

mod renewal;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use corelane_client::{
    ClientError, ClientErrorKind, FileTokenStore, IntoTarget, MemoryTokenStore, OAuthOptions,
    StoredTokens, TokenLock, TokenStore, block_on,
};

pub(crate) use self::renewal::{NewToken, TokenRenewal};
use crate::mcp::{REDACTED, RequestSettings, Secret};
use crate::target::Target;
use crate::wire::tls::RunTls;

/// What to do if no login is stored.
const LOGIN_HINT: &str = "log in first with corelane tools URL --login";

/// A client as its authorization server knows it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClientCredentials {
    /// Client id.
    pub id: String,
    /// Client secret.
    pub secret: Option<Secret>,
}

/// How some users sign in.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Credentials {
    /// Those of the client itself (client credentials grant); `None` for the login that `corelane`
    /// has stored.
    pub client: Option<ClientCredentials>,
    /// Scopes to ask for, separated by spaces; `None` for those that the server names.
    pub scope: Option<String>,
    /// The only authorization server that may be used; `None` for the one that the server names.
    pub issuer: Option<String>,
}

/// How the users of a run sign in.
#[derive(Clone, Debug)]
pub struct SignInConfig {
    /// The server that the tokens are for.
    pub target: Target,
    /// HTTP fields of requests to it.
    pub settings: RequestSettings,
    /// TLS configuration, if the target is encrypted.
    pub tls: Option<RunTls>,
    /// Time to open a connection.
    pub connect_timeout: Duration,
    /// Time to wait for a response.
    pub response_timeout: Duration,
    /// The credentials; scenarios refer to them by index.
    pub credentials: Vec<Credentials>,
}

/// Why a user cannot sign in. It has no secret.
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    /// The server gives no answer, or another than a challenge.
    #[error("{0}")]
    Server(#[from] ClientError),
    /// There is no token, with what to do.
    #[error("{0}")]
    Refused(String),
}

/// An access token.
#[derive(Clone, Debug)]
pub(crate) struct AccessToken {
    /// Value of `Authorization`.
    pub(crate) authorization: Arc<Secret>,
    /// When it is to be renewed, in seconds since 1970-01-01 UTC.
    renew_at: Option<u64>,
}

impl SignInConfig {
    /// Obtains a token for the credentials with this index.
    pub(crate) fn sign_in(&self, index: usize) -> Result<AccessToken, SignInError> {
        let credentials = &self.credentials[index];
        let (tokens_tx, tokens_rx) = channel();
        let store: Box<dyn TokenStore> = match credentials.client {
            Some(_) => Box::new(MemoryTokenStore::new()),
            None => Box::new(self.stored_login()?),
        };
        let store = RecordingStore { store, tokens: tokens_tx };
        let client = self
            .settings
            .client_builder(&self.target, self.tls.as_ref(), self.connect_timeout)
            .request_timeout(self.response_timeout)
            .oauth(credentials.options(store))
            .connect_lazy()?;
        let outcome = block_on(client.server());
        block_on(client.close());
        outcome.map_err(|error| credentials.describe(error))?;
        let tokens = tokens_rx.try_iter().filter(StoredTokens::has_access).last();
        let tokens = tokens.ok_or_else(|| {
            SignInError::Refused(
                "oauth: the server answers without a token, so that none can be obtained: remove \
                 oauth"
                    .into(),
            )
        })?;
        let authorization = tokens.authorization().ok_or_else(|| {
            SignInError::Refused(
                "oauth: the token is bound to a key (DPoP), with which requests of a load are not \
                 signed: let the authorization server issue bearer tokens"
                    .into(),
            )
        })?;
        let authorization = Arc::new(Secret::from(authorization));
        Ok(AccessToken { authorization, renew_at: tokens.refresh_at() })
    }

    /// Returns the store with the login for the server.
    fn stored_login(&self) -> Result<FileTokenStore, SignInError> {
        let url = (&self.target).into_target()?.http_url();
        let store = FileTokenStore::of_user();
        let refused = |why: &dyn fmt::Display| {
            SignInError::Refused(format!("oauth: no login for {}: {why}", self.target))
        };
        let store = store.ok_or_else(|| refused(&"set HOME or XDG_STATE_HOME"))?;
        let stored = url.map(|url| store.load(url.as_str())).transpose();
        match stored.map_err(|error| refused(&error))?.flatten() {
            Some(tokens) if tokens.has_access() => Ok(store),
            _ => Err(refused(&LOGIN_HINT)),
        }
    }
}

impl Credentials {
    fn options(&self, store: RecordingStore) -> OAuthOptions {
        let mut options = OAuthOptions::new().store(store);
        if let Some(client) = &self.client {
            options = options.client_id(&client.id).client_credentials();
            if let Some(secret) = &client.secret {
                options = options.client_secret(secret.reveal());
            }
        }
        if let Some(scope) = &self.scope {
            options = options.scope(scope);
        }
        if let Some(issuer) = &self.issuer {
            options = options.issuer(issuer);
        }
        options
    }

    /// Adds what to do to a refusal, without secrets.
    fn describe(&self, error: ClientError) -> SignInError {
        let is_refused = |error: &ClientError| {
            matches!(
                error.kind(),
                ClientErrorKind::Authorization | ClientErrorKind::Unauthorized { .. }
            )
        };
        let source = std::error::Error::source(&error);
        let source = source.and_then(<dyn std::error::Error>::downcast_ref::<ClientError>);
        if !is_refused(&error) && !source.is_some_and(is_refused) {
            return SignInError::Server(error);
        }
        let mut text = error.to_string();
        let hint = match &self.client {
            None => LOGIN_HINT,
            Some(client) => {
                if let Some(secret) = client.secret.as_ref().filter(|it| !it.reveal().is_empty()) {
                    text = text.replace(secret.reveal(), REDACTED);
                }
                "correct client_id, client_secret and issuer of oauth in the plan"
            }
        };
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        SignInError::Refused(format!("oauth: {text}; {hint}"))
    }
}

/// A store that sends the tokens to a channel, too.
struct RecordingStore {
    store: Box<dyn TokenStore>,
    tokens: Sender<StoredTokens>,
}

impl RecordingStore {
    /// Records tokens; those after the sign-in are dropped.
    fn record(&self, tokens: &StoredTokens) {
        self.tokens.send(tokens.clone()).unwrap_or(());
    }
}

impl TokenStore for RecordingStore {
    fn load(&self, server: &str) -> io::Result<Option<StoredTokens>> {
        let stored = self.store.load(server)?;
        if let Some(tokens) = &stored {
            self.record(tokens);
        }
        Ok(stored)
    }

    fn save(&self, server: &str, tokens: &StoredTokens) -> io::Result<()> {
        self.record(tokens);
        self.store.save(server, tokens)
    }

    fn try_lock(&self, server: &str) -> io::Result<Option<TokenLock>> {
        self.store.try_lock(server)
    }
}
