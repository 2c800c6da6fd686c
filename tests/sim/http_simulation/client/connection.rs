//! One connection of a client: its pipelined requests and the state of their responses.

use std::collections::VecDeque;
use std::fmt;

use corelane_base::time::Instant;

use crate::harness::socket::ClientSocket;
use crate::http_simulation::checks::response_reader::{ResponseHead, ResponseReader};
use crate::http_simulation::checks::session_checker::StreamPosition;
use crate::http_simulation::hostile::fault_proxy::ProxyFrames;

/// Kind of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RequestKind {
    /// `initialize`.
    Initialize,
    /// A request in a session.
    Request,
    /// `notifications/initialized`: from here on the session is used.
    Initialized,
    /// A message in a session that gets no response.
    Notification,
    /// Opens the general stream of a session.
    GeneralStream,
    /// Resumes a stream.
    Resume(u32),
    /// Deletes a session.
    Delete,
    /// A request of a modern revision, without a session.
    Modern,
    /// Opens the stream of the legacy HTTP+SSE transport.
    LegacySse,
    /// `subscriptions/listen` of a modern revision.
    Subscribe,
    /// Always answered with this status.
    Status(u16),
    /// Like [`Self::Status`], and the response has no body, whatever its head declares.
    Bodiless(u16),
}

/// A request without a complete response.
#[derive(Clone, Debug)]
pub(crate) struct HttpRequest {
    pub(crate) kind: RequestKind,
    pub(crate) id: Option<u64>,
    /// Index of its session.
    pub(crate) session: Option<usize>,
    pub(crate) sent_at: Instant,
    /// The connection closes after the response.
    pub(crate) closes_connection: bool,
    /// Parsed parts of the response.
    pub(crate) head: Option<ResponseHead>,
    pub(crate) position: StreamPosition,
    pub(crate) is_answered: bool,
    /// The server sent `retry`.
    pub(crate) has_retry: bool,
    pub(crate) progress: u64,
    /// Task that its stream subscribed to.
    pub(crate) task: Option<String>,
    /// When the response head arrived.
    pub(crate) opened_at: Option<Instant>,
    /// List changes received, and the time of the last one.
    pub(crate) list_changes: u64,
    pub(crate) last_list_change: Option<Instant>,
}

impl HttpRequest {
    pub(crate) fn new(
        kind: RequestKind,
        id: Option<u64>,
        session: Option<usize>,
        now: Instant,
    ) -> Self {
        Self {
            kind,
            id,
            session,
            sent_at: now,
            closes_connection: false,
            head: None,
            position: StreamPosition::default(),
            is_answered: false,
            has_retry: false,
            progress: 0,
            task: None,
            opened_at: None,
            list_changes: 0,
            last_list_change: None,
        }
    }

    /// Returns whether its response is a stream without an end.
    pub(crate) const fn is_endless(&self) -> bool {
        matches!(
            self.kind,
            RequestKind::GeneralStream | RequestKind::LegacySse | RequestKind::Subscribe
        )
    }
}

#[derive(Debug)]
pub(crate) struct HttpConnection {
    pub(crate) socket: ClientSocket,
    /// State of the proxy that simulates server faults.
    pub(crate) proxy_frames: ProxyFrames,
    pub(crate) reader: ResponseReader,
    pub(crate) requests: VecDeque<HttpRequest>,
    /// Since when the first of them waits without an obstacle.
    pub(crate) waiting_since: Instant,
    /// The client does not read.
    pub(crate) is_reading_stopped: bool,
    /// The client has shut down its writing side.
    pub(crate) is_write_shut_down: bool,
    /// The server may close it.
    pub(crate) is_closing: bool,
    /// Newest catalog version seen on it.
    newest_version: u64,
}

impl fmt::Display for HttpConnection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            socket: wire,
            reader,
            requests: asked,
            waiting_since: since,
            is_reading_stopped: is_deaf,
            is_write_shut_down: is_finished,
            is_closing: is_ending,
            ..
        } = self;
        let address = wire.address();
        write!(formatter, "{address} since {since:?} (paused {is_deaf}, ended {is_finished}, ")?;
        write!(formatter, "closing {is_ending}) {}", reader.describe())?;
        asked.iter().try_for_each(|asked| write!(formatter, "\n    {asked:?}"))
    }
}

impl HttpConnection {
    pub(crate) fn new(socket: ClientSocket, now: Instant) -> Self {
        Self {
            socket,
            proxy_frames: ProxyFrames::default(),
            reader: ResponseReader::default(),
            requests: VecDeque::new(),
            waiting_since: now,
            is_reading_stopped: false,
            is_write_shut_down: false,
            is_closing: false,
            newest_version: 0,
        }
    }

    /// Checks a catalog version seen on it.
    ///
    /// # Errors
    ///
    /// A newer one was seen before.
    pub(crate) fn check_version(&mut self, edition: u64) -> Result<(), String> {
        if edition < self.newest_version {
            let newest = self.newest_version;
            return Err(format!("catalog version {edition} is seen after version {newest}"));
        }
        self.newest_version = edition;
        Ok(())
    }

    /// Returns whether another request can be sent and will be answered.
    pub(crate) fn is_open(&self) -> bool {
        let is_endless = self.requests.iter().any(HttpRequest::is_endless);
        !(is_endless || self.is_write_shut_down || self.is_closing || self.is_reading_stopped)
    }

    /// Returns the session whose one stream it carries (2024-11-05).
    pub(crate) fn legacy_sse_session(&self) -> Option<usize> {
        self.requests.iter().find(|asked| asked.kind == RequestKind::LegacySse)?.session
    }

    /// Returns whether a response is due.
    pub(crate) fn is_waiting(&self) -> bool {
        self.requests.front().is_some_and(|asked| !asked.is_endless())
    }

    /// Sends a request.
    pub(crate) fn send_request(&mut self, asked: HttpRequest, text: &[u8], now: Instant) {
        if self.requests.is_empty() {
            self.waiting_since = now;
        }
        self.is_closing |= asked.closes_connection;
        self.requests.push_back(asked);
        self.socket.write(text);
    }
}
