//! What the server knows of one party.

use super::http::Exchange;
use super::party::Said;
use super::subscriptions::Subscriber;
use super::websocket::Manner;
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
    /// The request of HTTP whose answer is not complete.
    pub(super) exchange: Option<Box<Exchange>>,
    /// How many of those there were.
    pub(super) exchanges: u32,
    /// The connection ends with the answer to its last request; over WebSocket: its peer has closed
    /// it.
    pub(super) closes: bool,
    /// How messages over WebSocket are written to it.
    pub(super) manner: Manner,
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
            exchange: None,
            exchanges: 0,
            closes: false,
            manner: Manner::default(),
            counted,
        }
    }
}

/// A legacy session over HTTP.
#[derive(Debug)]
pub(super) struct Member {
    /// What the server knows of it.
    pub(super) session: Session,
    /// What it waits for.
    pub(super) standing: Standing,
    /// The client is of 2024-11-05: whatever is said comes over the stream that it began with.
    pub(super) is_pair: bool,
    /// Batches of which some requests are not answered: their stream, and how many.
    pub(super) batches: Vec<(u32, u32)>,
}

impl Member {
    /// A session that has not begun.
    pub(super) fn new() -> Self {
        let session = Session::new(Transport::Http, false);
        let standing = Standing::default();
        Self { session, standing, is_pair: false, batches: Vec::new() }
    }

    /// Whether a stream waits for more answers when `said` has been said on it.
    pub(super) fn waits_on(&mut self, stream: u32, said: Said) -> bool {
        let Some(place) = self.batches.iter().position(|(number, _)| *number == stream) else {
            return false;
        };
        let waiting = &mut self.batches[place].1;
        *waiting -= u32::from(said.is_answer());
        if *waiting == 0 {
            self.batches.swap_remove(place);
            return false;
        }
        true
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
