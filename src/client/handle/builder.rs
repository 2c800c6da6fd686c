//! The options of a client.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::cache::{Cache, CachePolicy};
use crate::error::{ClientError, ClientErrorKind};
use crate::inputs::{CreateMessageRequestParams, ElicitRequestParams, InputHandlers, InputResult};
use crate::io::{
    ConnectOptions, ConnectionCallback, IoThread, PeerSettings, ProgramCallback, ProgramEvent,
    RetryCallback,
};
use crate::notifications::{LogMessage, NotificationHandlers};
use crate::oauth::{OAuthOptions, Secret};
use crate::proxy::ProxyOptions;
use crate::reconnect::{ConnectionEvent, ReconnectOptions};
use crate::retry::{RetryEvent, RetryPolicy};
use crate::session::{EraPreference, ReceivedMessage, SessionConfig, SessionOptions};
use crate::sync::SharedValue;
use crate::target::{HostAddress, Target};
use crate::tls_options::{TlsOptions, tls_client};
use corelane_protocol::eras::{ClientCapabilities, LoggingLevel};
use corelane_protocol::model::{CreateMessageResult, ElicitResult, Implementation, Root};
use corelane_transport::http::client::request_writer::ExtraFields;

/// Clients of the same server have the same target.
static TARGET: SharedValue<Target> = SharedValue::new();
static PROXIES: SharedValue<ProxyOptions> = SharedValue::new();
static RECONNECT: SharedValue<ReconnectOptions> = SharedValue::new();

/// How the server is verified, and how requests are authorized.
#[derive(Default)]
struct Security {
    tls: Option<TlsOptions>,
    oauth: Option<OAuthOptions>,
    /// Sent in messages, where there are no headers.
    auth_token: Option<Secret>,
}

/// How connections are opened.
struct Connecting {
    timeout: Duration,
    /// Those of the environment if there are none.
    proxies: Option<ProxyOptions>,
    /// Connected to instead of the address of the target.
    address: Option<Arc<HostAddress>>,
}

impl Connecting {
    fn into_options(self) -> ConnectOptions {
        let proxies = self.proxies.unwrap_or_else(ProxyOptions::from_environment);
        let Self { timeout, address, .. } = self;
        ConnectOptions { timeout, proxies: PROXIES.share(proxies), address }
    }
}

/// Options of a [`Client`](crate::Client).
#[must_use = "a builder connects nothing by itself"]
pub struct ClientBuilder {
    target: Result<Target, ClientError>,
    options: SessionOptions,
    connecting: Connecting,
    security: Security,
    inputs: InputHandlers,
    extra_fields: ExtraFields,
    notifications: NotificationHandlers,
    cache: CachePolicy,
    on_program_event: Option<ProgramCallback>,
    reconnect: ReconnectOptions,
    on_connection_event: Option<ConnectionCallback>,
    on_retry: Option<RetryCallback>,
    thread: Option<IoThread>,
}

impl ClientBuilder {
    pub(crate) fn new(target: Result<Target, ClientError>) -> Self {
        Self {
            target,
            options: SessionOptions::default(),
            connecting: Connecting {
                timeout: Duration::from_secs(5),
                proxies: None,
                address: None,
            },
            security: Security::default(),
            inputs: InputHandlers::default(),
            extra_fields: ExtraFields::default(),
            notifications: NotificationHandlers::default(),
            cache: CachePolicy::default(),
            on_program_event: None,
            reconnect: ReconnectOptions::default(),
            on_connection_event: None,
            on_retry: None,
            thread: None,
        }
    }

    /// Sets name and version of the client. Default: those of this library.
    pub fn client_info(mut self, client_info: Implementation) -> Self {
        self.options.client_info = client_info;
        self
    }

    /// Sets which revisions to use. Default [`EraPreference::Auto`].
    pub const fn era(mut self, era: EraPreference) -> Self {
        self.options.era = era;
        self
    }

    /// Sets the time from a request to its response. Default 30 s.
    pub const fn request_timeout(mut self, timeout: Duration) -> Self {
        self.options.request_timeout = timeout;
        self
    }

    /// Sets the time of the whole handshake on a connection. Default: each of its requests has the
    /// time of a request, and `server/discover` at most 5 s.
    pub const fn handshake_timeout(mut self, timeout: Duration) -> Self {
        self.options.handshake_timeout = Some(timeout);
        self
    }

    /// Sets the time to open a connection, with that of its proxy and of its TLS handshake. Default
    /// 5 s.
    pub const fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connecting.timeout = timeout;
        self
    }

    /// Connects to `address`, a `HOST:PORT`, instead of host and port of the target, which remain
    /// in `Host` and in the check of the certificate: for a server that its name does not lead to,
    /// such as one behind a load balancer. A tunnel of a proxy leads there, too; requests of
    /// `http://` through a proxy name the target. An address that is none, and a target without
    /// host, fail the connection with [`ClientErrorKind::InvalidInput`]. Default: the address of
    /// the target.
    pub fn connect_to(mut self, address: &str) -> Self {
        let text = match (&self.target, HostAddress::parse(address)) {
            (Err(_), _) => return self,
            (Ok(Target::Unix(_) | Target::Stdio(_)), _) => {
                "connect_to needs a target with a host".to_owned()
            }
            (Ok(_), Ok(address)) => {
                self.connecting.address = Some(Arc::new(address));
                return self;
            }
            (Ok(_), Err(reason)) => format!("'{address}' is no HOST:PORT: {reason}"),
        };
        self.target = Err(ClientError::new(ClientErrorKind::InvalidInput, text));
        self
    }

    /// Sets the HTTP proxies. Default: those of the environment
    /// ([`ProxyOptions::from_environment`]).
    pub fn proxy(mut self, proxies: ProxyOptions) -> Self {
        self.connecting.proxies = Some(proxies);
        self
    }

    /// Sets how the server is verified, for a target that begins with `https://` or `tls://`.
    /// Default: by the root certificates of the system. Another target fails the connection with
    /// [`ClientErrorKind::InvalidInput`].
    pub fn tls(mut self, tls: TlsOptions) -> Self {
        self.security.tls = Some(tls);
        self
    }

    /// Lets servers answer tool calls with tasks (2026-07-28); the calls wait for their results.
    /// Default `true`.
    pub const fn tasks(mut self, is_allowed: bool) -> Self {
        self.options.tasks = is_allowed;
        self
    }

    /// Sets which results are used again while they are fresh. Default [`CachePolicy::Lists`].
    pub const fn cache(mut self, policy: CachePolicy) -> Self {
        self.cache = policy;
        self
    }

    /// Answers questions of the server to the user. `handler` runs on the I/O thread and must not
    /// block; the time that it takes does not count for the call. Without it the client does not
    /// declare elicitation.
    pub fn on_elicitation<F, O>(mut self, handler: F) -> Self
    where
        F: Fn(ElicitRequestParams) -> O + Send + Sync + 'static,
        O: Future<Output = InputResult<ElicitResult>> + 'static,
    {
        self.inputs.set_elicitation(handler);
        self
    }

    /// Lets the server use the model of the client. As [`ClientBuilder::on_elicitation`].
    pub fn on_sampling<F, O>(mut self, handler: F) -> Self
    where
        F: Fn(CreateMessageRequestParams) -> O + Send + Sync + 'static,
        O: Future<Output = InputResult<CreateMessageResult>> + 'static,
    {
        self.inputs.set_sampling(handler);
        self
    }

    /// Lists the directories and files that the server may use. As
    /// [`ClientBuilder::on_elicitation`].
    pub fn on_roots<F, O>(mut self, handler: F) -> Self
    where
        F: Fn() -> O + Send + Sync + 'static,
        O: Future<Output = InputResult<Vec<Root>>> + 'static,
    {
        self.inputs.set_roots(handler);
        self
    }

    /// Declares capabilities whose input the callers provide ([`Request::on_input`]).
    ///
    /// [`Request::on_input`]: crate::Request::on_input
    #[doc(hidden)]
    pub const fn declare(mut self, capabilities: ClientCapabilities) -> Self {
        self.inputs.declare(capabilities);
        self
    }

    /// Adds a header to each HTTP request, and to the upgrade request of WebSocket. Its value is
    /// never logged. An invalid name or value, one of the headers that the client sends itself, or
    /// another target fails the connection with [`ClientErrorKind::InvalidInput`].
    pub fn header(mut self, name: &str, value: &str) -> Self {
        let added = match &self.target {
            Ok(Target::Http(_) | Target::WebSocket(_)) => self.extra_fields.push(name, value),
            Ok(_) => Err("headers need a target of HTTP or WebSocket".to_owned()),
            Err(_) => return self,
        };
        if let Err(text) = added {
            self.target = Err(ClientError::new(ClientErrorKind::InvalidInput, text));
        }
        self
    }

    /// Identifies the caller by a bearer token (RFC 6750): over HTTP and WebSocket in a header, as
    /// [`ClientBuilder::header`] adds it; over TCP, TLS and Unix sockets in `auth_token`, a member
    /// of the params of `initialize` up to 2025-11-25, and of `_meta` of each request since then.
    /// It is never logged. An invalid token, or a program, which has its token from its
    /// environment ([`Program::env`](crate::Program::env)), fails the connection with
    /// [`ClientErrorKind::InvalidInput`].
    pub fn bearer(mut self, token: &str) -> Self {
        let text = match &self.target {
            Ok(Target::Http(_) | Target::WebSocket(_)) => {
                return self.header("Authorization", &format!("Bearer {token}"));
            }
            Ok(Target::Stdio(_)) => {
                "a program has its token from its environment, not from its client"
            }
            Ok(_) if !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()) => {
                self.security.auth_token = Some(Secret::new(token));
                return self;
            }
            Ok(_) => "a bearer token has only visible ASCII characters (RFC 6750, section 2.1)",
            Err(_) => return self,
        };
        self.target = Err(ClientError::new(ClientErrorKind::InvalidInput, text));
        self
    }

    /// Obtains access tokens with OAuth when the server asks for authorization: with the response
    /// to a request over HTTP, or to the upgrade to WebSocket. Another target, and a header
    /// `Authorization` besides, fail the connection with [`ClientErrorKind::InvalidInput`].
    pub fn oauth(mut self, options: OAuthOptions) -> Self {
        self.security.oauth = Some(options);
        self
    }

    /// Receives the notifications that belong to no request, as JSON text. `on_notification` is
    /// called on the I/O thread and must not block.
    pub fn on_notification(
        mut self,
        on_notification: impl Fn(ReceivedMessage) + Send + Sync + 'static,
    ) -> Self {
        self.notifications.set_all(on_notification);
        self
    }

    /// Receives the log messages of the server from `level` on: `logging/setLevel` up to
    /// 2025-11-25, `io.modelcontextprotocol/logLevel` in each request since then.
    /// [`Client::set_log_level`](crate::Client::set_log_level) changes the level. `on_log` is
    /// called on the I/O thread and must not block.
    pub fn on_log(
        mut self,
        level: LoggingLevel,
        on_log: impl Fn(LogMessage) + Send + Sync + 'static,
    ) -> Self {
        self.notifications.set_log(Some(level), on_log);
        self
    }

    /// Receives the log messages of requests that state their level themselves
    /// ([`Request::own_meta`](crate::Request::own_meta)).
    #[doc(hidden)]
    pub fn on_log_of_requests(
        mut self,
        on_log: impl Fn(LogMessage) + Send + Sync + 'static,
    ) -> Self {
        self.notifications.set_log(None, on_log);
        self
    }

    /// Receives each line that a program writes to its standard error, whatever
    /// [`Program::stderr`](crate::Program::stderr) says, and how the program ends.
    /// [`Client::close`](crate::Client::close) waits for the latter. `on_program_event` is called
    /// on threads of its own.
    pub fn on_program_event(
        mut self,
        on_program_event: impl Fn(ProgramEvent<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.on_program_event = Some(Arc::new(on_program_event));
        self
    }

    /// Sets how the client connects again after the loss of its connection.
    pub fn reconnect(self, reconnect: ReconnectOptions) -> Self {
        Self { reconnect, ..self }
    }

    /// Receives the changes of the connection; not over HTTP. `on_connection_event` is called on
    /// the I/O thread and must not block.
    pub fn on_connection_event(
        mut self,
        on_connection_event: impl Fn(ConnectionEvent) + Send + Sync + 'static,
    ) -> Self {
        self.on_connection_event = Some(Box::new(on_connection_event));
        self
    }

    /// Sets which requests are sent again after a failure. Default [`RetryPolicy::safe`]: only what
    /// certainly did not start, or may run twice without harm.
    pub const fn retry(mut self, policy: RetryPolicy) -> Self {
        self.options.retry = policy;
        self
    }

    /// Receives each request that is about to be sent again after a failure. `on_retry` is called
    /// on the I/O thread and must not block.
    pub fn on_retry(mut self, on_retry: impl Fn(RetryEvent) + Send + Sync + 'static) -> Self {
        self.on_retry = Some(Box::new(on_retry));
        self
    }

    /// Shares an I/O thread with other clients. Default: a thread for each client.
    pub fn io_thread(self, thread: &IoThread) -> Self {
        Self { thread: Some(thread.clone()), ..self }
    }

    /// Returns the server, and its I/O thread.
    pub(crate) fn into_parts(self) -> Result<(PeerSettings, IoThread), ClientError> {
        let target = self.target?;
        let Security { tls, oauth, auth_token } = self.security;
        let oauth = match oauth {
            Some(options) => Some(options.checked(&target, &self.extra_fields, tls.as_ref())?),
            None => None,
        };
        let tls = tls_client(&target, tls.as_ref())?;
        let thread = match self.thread {
            Some(thread) => thread,
            None => IoThread::start().map_err(|error| {
                let text = format!("the I/O thread cannot be started: {error}");
                ClientError::with_source(ClientErrorKind::Connect, text, error)
            })?,
        };
        let config = SessionConfig::new(self.options, self.inputs.capabilities());
        let config = match &auth_token {
            Some(token) => config.with_auth_token(token.expose()),
            None => config,
        };
        if let Some(level) = self.notifications.log_level() {
            config.set_log_level(level);
        }
        let settings = PeerSettings {
            target: TARGET.share(target),
            tls: tls.map(Box::new),
            config: Arc::new(config),
            connect: self.connecting.into_options(),
            inputs: self.inputs,
            extra_fields: self.extra_fields,
            oauth,
            notifications: self.notifications,
            cache: Arc::new(Cache::new(self.cache)),
            on_event: self.on_program_event,
            reconnect: RECONNECT.share(self.reconnect),
            on_connection_event: self.on_connection_event,
            on_retry: self.on_retry,
        };
        Ok((settings, thread))
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ClientBuilder")
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}
