//! What an I/O thread knows of a server from the start.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::call_slot::run_callback;
use super::process::ProgramCallback;
use crate::cache::Cache;
use crate::inputs::InputHandlers;
use crate::notifications::NotificationHandlers;
use crate::oauth::OAuthOptions;
use crate::proxy::ProxyOptions;
use crate::reconnect::{ConnectionEvent, ReconnectOptions};
use crate::retry::RetryEvent;
use crate::session::{ReceivedMessage, SessionConfig};
use crate::target::{HostAddress, Target};
use corelane_tls::TlsClient;
use corelane_transport::http::client::request_writer::ExtraFields;

/// Called on the I/O thread when a connection begins or ends.
pub(crate) type ConnectionCallback = Box<dyn Fn(ConnectionEvent) + Send + Sync>;

/// Called on the I/O thread when a request is sent again.
pub(crate) type RetryCallback = Box<dyn Fn(RetryEvent) + Send + Sync>;

/// How connections are opened.
#[derive(Clone, Debug)]
pub(crate) struct ConnectOptions {
    /// Time to open a connection, with that of its proxy and of its TLS handshake.
    pub(crate) timeout: Duration,
    pub(crate) proxies: Arc<ProxyOptions>,
    /// Connected to instead of the address of the target.
    pub(crate) address: Option<Arc<HostAddress>>,
}

/// The address of a server, and how to talk to it.
pub(crate) struct PeerHandle {
    pub(crate) target: Arc<Target>,
    /// `Some` if the connections are encrypted.
    pub(crate) tls: Option<Box<TlsClient>>,
    pub(crate) config: Arc<SessionConfig>,
    pub(crate) connect: ConnectOptions,
    pub(crate) inputs: InputHandlers,
    /// Fields of each HTTP request.
    pub(crate) extra_fields: ExtraFields,
    /// How the requests over HTTP are authorized.
    pub(crate) oauth: Option<Arc<OAuthOptions>>,
    pub(crate) notifications: NotificationHandlers,
    /// Shared with the callers.
    pub(crate) cache: Arc<Cache>,
    /// Receives the events of a program.
    pub(crate) on_event: Option<ProgramCallback>,
    pub(crate) reconnect: Arc<ReconnectOptions>,
    pub(crate) on_connection_event: Option<ConnectionCallback>,
    pub(crate) on_retry: Option<RetryCallback>,
}

impl PeerHandle {
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

    /// Passes a notification that belongs to no request to the program.
    pub(super) fn notify(&self, message: ReceivedMessage) {
        self.cache.handle_notification(&message);
        run_callback(|| self.notifications.handle(message));
    }
}

impl fmt::Debug for PeerHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PeerHandle").field("target", &self.target).finish_non_exhaustive()
    }
}
