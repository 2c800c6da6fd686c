//! What an I/O thread knows of a server from the start: its name, its address, and how to talk to
//! it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::call_slot::run_callback;
use super::process::ProgramCallback;
use crate::cache::Cache;
use crate::inputs::InputHandlers;
use crate::notifications::NotificationHandlers;
use crate::oauth::OAuthOptions;
use crate::proxy::{ProxyOptions, Route};
use crate::reconnect::{ConnectionEvent, ReconnectOptions};
use crate::retry::RetryEvent;
use crate::session::{ReceivedMessage, SessionConfig};
use crate::target::{HostAddress, HttpEndpoint, Target};
use corelane_tls::TlsClient;
use corelane_transport::http::client::request_writer::{ExtraFields, RequestWriter};

/// Names a server of an I/O thread.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PeerId(pub u64);

/// Called on the I/O thread when a connection begins or ends.
pub type ConnectionCallback = Box<dyn Fn(ConnectionEvent) + Send + Sync>;

/// Called on the I/O thread when a request is sent again.
pub type RetryCallback = Box<dyn Fn(RetryEvent) + Send + Sync>;

/// How connections are opened.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// Time to open a connection, with that of its proxy and of its TLS handshake.
    pub timeout: Duration,
    pub proxies: Arc<ProxyOptions>,
    /// Connected to instead of the address of the target.
    pub address: Option<Arc<HostAddress>>,
}

/// The address of a server, and how to talk to it.
pub struct PeerSettings {
    pub target: Arc<Target>,
    /// `Some` if the connections are encrypted.
    pub tls: Option<Box<TlsClient>>,
    pub config: Arc<SessionConfig>,
    pub connect: ConnectOptions,
    pub inputs: InputHandlers,
    /// Fields of each HTTP request.
    pub extra_fields: ExtraFields,
    /// How the requests over HTTP are authorized.
    pub oauth: Option<Arc<OAuthOptions>>,
    pub notifications: NotificationHandlers,
    /// Shared with the callers.
    pub cache: Arc<Cache>,
    /// Receives the events of a program.
    pub on_event: Option<ProgramCallback>,
    pub reconnect: Arc<ReconnectOptions>,
    pub on_connection_event: Option<ConnectionCallback>,
    pub on_retry: Option<RetryCallback>,
}

impl PeerSettings {
    /// Reports a change of the connection. HTTP has many connections, which are not reported.
    pub(super) fn report(&self, event: ConnectionEvent) {
        tracing::debug!(target = %self.target, ?event, "the connection of a client has changed");
        if let Some(on_connection_event) = &self.on_connection_event {
            run_callback(|| on_connection_event(event));
        }
    }

    /// Reports that a request is sent again.
    pub(super) fn report_retry(&self, event: RetryEvent) {
        tracing::debug!(target = %self.target, ?event, "a request is sent again");
        if let Some(on_retry) = &self.on_retry {
            run_callback(|| on_retry(event));
        }
    }

    /// Returns what writes the HTTP requests to an endpoint of the server.
    pub(super) fn request_writer(&self, endpoint: &HttpEndpoint) -> RequestWriter {
        let (scheme, authority) = (endpoint.scheme(), endpoint.authority());
        let writer = RequestWriter::new(scheme, &authority, &endpoint.path, &self.extra_fields);
        match self.connect.proxies.route(&self.target) {
            Route::Forward(proxy) => writer.for_proxy(proxy.authorization()),
            Route::Direct | Route::Tunnel(_) => writer,
        }
    }

    /// Passes a notification that belongs to no request to the program.
    pub(super) fn notify(&self, message: ReceivedMessage) {
        self.cache.handle_notification(&message);
        run_callback(|| self.notifications.handle(message));
    }
}

impl fmt::Debug for PeerSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PeerSettings").field("target", &self.target).finish_non_exhaustive()
    }
}
