//! The options of a client of the parity dialect.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::ClientError;
use crate::handle::ClientBuilder;
use crate::io::{
    IoThread, NewParityPeer, ParityEvent, ParityEventCallback, ParityPeerRef, ProgramEvent,
};
use crate::oauth::Secret;
use crate::parity_session::{ParityConfig, ParityKeepaliveOptions, ParityRetryOptions};
use crate::proxy::ProxyOptions;
use crate::reconnect::ReconnectOptions;
use crate::target::{IntoTarget, Target};
use crate::tls_options::TlsOptions;
use corelane_parity::capabilities::Capabilities;
use corelane_protocol::model::Implementation;

/// Options of a [`ParityClient`](super::ParityClient).
#[must_use = "a builder connects nothing by itself"]
pub struct ParityClientBuilder {
    /// `None` if it is invalid.
    target: Option<Target>,
    /// What the clients of all dialects have in common.
    connection: ClientBuilder,
    config: ParityConfig,
    on_event: Option<ParityEventCallback>,
}

/// Connections.
impl ParityClientBuilder {
    pub(super) fn new(target: impl IntoTarget) -> Self {
        let target = target.into_target().map(Target::for_parity);
        let connection = ClientBuilder::new(target.clone());
        let (target, config) = (target.ok(), ParityConfig::default());
        Self { target, connection, config, on_event: None }
    }

    /// Sets the time to open a connection, with that of its proxy and of its TLS handshake. Default
    /// 5 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connection = self.connection.connect_timeout(timeout);
        self
    }

    /// Connects to `address`, a `HOST:PORT`, instead of host and port of the target, as
    /// [`ClientBuilder::connect_to`].
    pub fn connect_to(mut self, address: &str) -> Self {
        self.connection = self.connection.connect_to(address);
        self
    }

    /// Sets the HTTP proxies. Default: those of the environment.
    pub fn proxy(mut self, proxies: ProxyOptions) -> Self {
        self.connection = self.connection.proxy(proxies);
        self
    }

    /// Sets how the server is verified, for a target with TLS. Default: by the root certificates of
    /// the system.
    pub fn tls(mut self, tls: TlsOptions) -> Self {
        self.connection = self.connection.tls(tls);
        self
    }

    /// Adds a header to each HTTP request, and to the upgrade request of WebSocket. Another target
    /// fails the connection with [`InvalidInput`](crate::ClientErrorKind::InvalidInput).
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.connection = self.connection.header(name, value);
        self
    }

    /// Identifies the caller by this token: in `auth_token` of the handshake on lines, in
    /// `Authorization` of HTTP requests and of the upgrade to WebSocket.
    /// [`ParityClient::set_auth_token`] replaces it.
    ///
    /// [`ParityClient::set_auth_token`]: super::ParityClient::set_auth_token
    pub fn auth_token(mut self, token: &str) -> Self {
        if let Some(Target::Http(_) | Target::WebSocket(_)) = self.target {
            self.connection = self.connection.bearer(token);
        } else {
            self.config.auth_token = Some(Secret::new(token));
        }
        self
    }

    /// Sets how the client connects again after the loss of its connection. Requests and streams
    /// that were not answered wait for the next connection, as
    /// [`ParityClient`](super::ParityClient) says.
    pub fn reconnect(mut self, reconnect: ReconnectOptions) -> Self {
        self.connection = self.connection.reconnect(reconnect);
        self
    }

    /// Receives each line that a program writes to its standard error, and how the program ends.
    /// `on_program_event` is called on threads of its own.
    pub fn on_program_event(
        mut self,
        on_program_event: impl Fn(ProgramEvent<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.connection = self.connection.on_program_event(on_program_event);
        self
    }

    /// Shares an I/O thread with other clients. Default: a thread for each client.
    pub fn io_thread(mut self, thread: &IoThread) -> Self {
        self.connection = self.connection.io_thread(thread);
        self
    }
}

/// The session.
impl ParityClientBuilder {
    /// Sets name and version of the client. Default: those of this library.
    pub fn client_info(mut self, client_info: Implementation) -> Self {
        self.config.client_info = client_info;
        self
    }

    /// Sets what the client offers. Default: every feature, without limits.
    pub const fn capabilities(mut self, offered: Capabilities) -> Self {
        self.config.offered = offered;
        self
    }

    /// Narrows what both sides have by an exchange after the handshake. Cost: one round trip.
    pub const fn refine(mut self, capabilities: Capabilities) -> Self {
        self.config.refinement = Some(capabilities);
        self
    }

    /// Sets the time from a request to its response; of a streamed request also the longest time
    /// between two chunks. Default 30 s.
    pub const fn request_timeout(mut self, timeout: Duration) -> Self {
        self.config.request_timeout = timeout;
        self
    }

    /// Sets the time from the connection to the acknowledgement of the handshake. Default 5 s.
    pub const fn handshake_timeout(mut self, timeout: Duration) -> Self {
        self.config.handshake_timeout = timeout;
        self
    }

    /// Sets how a request is repeated after an error that is retryable.
    pub const fn retry(mut self, retry: ParityRetryOptions) -> Self {
        self.config.retry = retry;
        self
    }

    /// Sets when a silent connection is given up.
    pub const fn keepalive(mut self, keepalive: ParityKeepaliveOptions) -> Self {
        self.config.keepalive = keepalive;
        self
    }

    /// Receives the changes of the session. `on_event` is called on the I/O thread and must not
    /// block.
    pub fn on_event(mut self, on_event: impl Fn(ParityEvent) + Send + Sync + 'static) -> Self {
        self.on_event = Some(Box::new(on_event));
        self
    }
}

/// Connecting.
impl ParityClientBuilder {
    /// Adds the server to its I/O thread, not connected yet.
    pub(super) fn open(self) -> Result<ParityPeerRef, ClientError> {
        let Self { connection, config, on_event, .. } = self;
        let (settings, thread) = connection.into_parts()?;
        let new = NewParityPeer { settings, config: Arc::new(config), on_event };
        ParityPeerRef::of_parity(thread, new)
    }
}

impl fmt::Debug for ParityClientBuilder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ParityClientBuilder")
            .field("connection", &self.connection)
            .finish_non_exhaustive()
    }
}
