//! What the server knows of one party.

use super::subscriptions::Subscriber;
use crate::link::Standing;
use crate::observe::label::Transport;
use crate::protocol::era::{Lifecycle, LogLevel};
use crate::protocol::inflight::Inflight;

/// The state of one party: of a connection above the link, or of a legacy session over HTTP.
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

/// One party while a text of it is on the road.
#[derive(Debug)]
pub(super) struct Peer<'a> {
    /// What the server knows of it.
    pub(super) session: &'a mut Session,
    /// What it waits for.
    pub(super) standing: &'a mut Standing,
    /// Where the road writes what is to be said at once: one text, without a frame.
    pub(super) outgoing: &'a mut Vec<u8>,
}
