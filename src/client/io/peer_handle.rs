//! What an I/O thread knows of a server from the start.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::call_slot::run_callback;
use super::process::ProgramCallback;
use crate::client::cache::Cache;
use crate::client::inputs::InputHandlers;
use crate::client::notifications::NotificationHandlers;
use crate::client::oauth::OAuthOptions;
use crate::client::proxy::ProxyOptions;
use crate::client::reconnect::{ConnectionEvent, ReconnectOptions};
use crate::client::retry::RetryEvent;
use crate::client::session::{ReceivedMessage, SessionConfig};
use crate::client::target::{HostAddress, Target};
use crate::tls::TlsClient;
use crate::transport::http::client::request_writer::ExtraFields;

/// Called on the I/O thread when a connection begins or ends.
pub(in crate::client) type ConnectionCallback = Box<dyn Fn(ConnectionEvent) + Send + Sync>;

/// Called on the I/O thread when a request is sent again.
pub(in crate::client) type RetryCallback = Box<dyn Fn(RetryEvent) + Send + Sync>;

/// How connections are opened.
#[derive(Clone, Debug)]
pub(in crate::client) struct ConnectOptions {
    /// Time to open a connection, with that of its proxy and of its TLS handshake.
    pub(in crate::client) timeout: Duration,
    pub(in crate::client) proxies: Arc<ProxyOptions>,
    /// Connected to instead of the address of the target.
    pub(in crate::client) address: Option<Arc<HostAddress>>,
}

/// The address of a server, and how to talk to it.
pub(in crate::client) struct PeerHandle {
    pub(in crate::client) target: Arc<Target>,
    /// `Some` if the connections are encrypted.
    pub(in crate::client) tls: Option<Box<TlsClient>>,
    pub(in crate::client) config: Arc<SessionConfig>,
    pub(in crate::client) connect: ConnectOptions,
    pub(in crate::client) inputs: InputHandlers,
    /// Fields of each HTTP request.
    pub(in crate::client) extra_fields: ExtraFields,
    /// How the requests over HTTP are authorized.
    pub(in crate::client) oauth: Option<Arc<OAuthOptions>>,
    pub(in crate::client) notifications: NotificationHandlers,
    /// Shared with the callers.
    pub(in crate::client) cache: Arc<Cache>,
    /// Receives the events of a program.
    pub(in crate::client) on_event: Option<ProgramCallback>,
    pub(in crate::client) reconnect: Arc<ReconnectOptions>,
    pub(in crate::client) on_connection_event: Option<ConnectionCallback>,
    pub(in crate::client) on_retry: Option<RetryCallback>,
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
