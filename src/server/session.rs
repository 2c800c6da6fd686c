//! What the server knows of one connection.

use super::subscriptions::Subscriber;
use crate::observe::label::Transport;
use crate::protocol::era::{Lifecycle, LogLevel};
use crate::protocol::inflight::Inflight;

/// The state of one connection above the link.
#[derive(Debug)]
pub(super) struct Session {
    /// The door it came through.
    pub(super) transport: Transport,
    /// Where the legacy handshake stands; modern requests never look at it.
    pub(super) lifecycle: Lifecycle,
    /// From which level on log messages are sent; modern requests say it themselves.
    pub(super) log_level: LogLevel,
    /// Requests that answer later, by their ids.
    pub(super) in_flight: Inflight,
    /// What it listens to.
    pub(super) subscriber: Subscriber,
    /// The peer broke a limit and has been told: the connection ends when that is sent.
    pub(super) broken: bool,
    /// Whether it counts among the connections that are served (refused ones do not).
    pub(super) counted: bool,
}

impl Session {
    /// A session whose peer has not spoken.
    pub(super) fn new(transport: Transport, counted: bool) -> Self {
        let lifecycle = Lifecycle::default();
        Self {
            transport,
            lifecycle,
            // Revisions leave it to the server what is sent before a client has said.
            log_level: LogLevel::Info,
            in_flight: Inflight::new(),
            subscriber: Subscriber::default(),
            broken: false,
            counted,
        }
    }
}
