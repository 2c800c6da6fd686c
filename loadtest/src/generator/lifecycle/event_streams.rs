//! Event streams of the sessions of users over HTTP, each on a connection of its own.
//!
//! The stream of a user has the index of the user behind that of the first stream. It opens when
//! the session of the user has opened, again when the session is a new one, and, after a pause,
//! when the server has ended it.

use std::collections::VecDeque;
use std::time::Duration;

use corelane_base::time::Instant;
use corelane_engine::ring::Ring;

use super::Lifecycle;
use crate::generator::connection::{ConnectionState, Ending};
use crate::generator::context::{RunContext, RunPhase};
use crate::generator::run_config::RunConfig;
use crate::mcp::{EventStream, RequestLog, StreamEvent};
use crate::metrics::outcome::Failure;
use crate::schedule::Share;

/// Pause before a stream that ended is opened again.
const REOPEN_AFTER: Duration = Duration::from_secs(1);

/// Status of a request in a session that the server does not know.
const NOT_FOUND: u16 = 404;

/// Event streams of one load thread.
#[derive(Debug)]
pub struct EventStreams {
    /// Index of the connection of the first one.
    first: usize,
    /// Whether the user with this index has one.
    wanted: Box<[bool]>,
    /// Streams that ended, with the times at which they are opened again.
    ended: VecDeque<(Instant, u32)>,
    /// Whether the server has said that it has none.
    is_unsupported: bool,
}

impl EventStreams {
    /// Returns the streams of the users of a load thread, whose connections begin at `first`, if
    /// the run has any.
    pub fn new(config: &RunConfig, share: Share, first: usize) -> Option<Self> {
        let users = config.users.as_ref().filter(|users| users.has_event_streams())?;
        let threads = share.threads.max(1) as usize;
        let is_wanted = |index: usize| {
            let scenario = users.scenario_of(index * threads + share.thread as usize);
            scenario.is_some_and(|(scenario, _)| users.scenarios[scenario].event_stream)
        };
        let wanted = (0..share.part(users.total())).map(is_wanted).collect();
        Some(Self { first, wanted, ended: VecDeque::new(), is_unsupported: false })
    }

    /// Returns the number of their connections.
    pub const fn connections(&self) -> usize {
        self.wanted.len()
    }

    /// Returns the connection of the stream of a user, if it has one.
    fn connection_of(&self, user: usize) -> Option<usize> {
        let is_wanted = self.wanted.get(user).copied().unwrap_or_default();
        (is_wanted && !self.is_unsupported).then_some(self.first + user)
    }

    /// Returns the user of a connection, if it is that of a stream.
    fn user_of(&self, index: usize) -> Option<usize> {
        index.checked_sub(self.first).filter(|user| *user < self.wanted.len())
    }

    /// Opens no further streams: the server has none.
    const fn set_unsupported(&mut self) {
        self.is_unsupported = true;
    }

    /// Plans to open a stream again that ended at `now`.
    fn reopen_later(&mut self, index: usize, now: Instant) {
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        self.ended.push_back((now.after(REOPEN_AFTER), index));
    }

    /// Takes the next stream that is opened again now.
    fn take_due(&mut self, now: Instant) -> Option<usize> {
        let (_, index) = self.ended.pop_front_if(|(at, _)| *at <= now)?;
        Some(index as usize)
    }
}

impl<R: Ring> Lifecycle<R> {
    /// Opens the event stream of a user whose session has opened; one of an earlier session closes.
    #[cold]
    pub fn open_event_stream(&mut self, user: usize, ctx: &RunContext) {
        let streams = self.event_streams.as_ref();
        let Some(index) = streams.and_then(|streams| streams.connection_of(user)) else { return };
        self.close_event_stream(user);
        if matches!(self.io[index].state, ConnectionState::Disconnected { .. }) {
            self.queue_event_stream(index, ctx);
        }
    }

    /// Closes the event stream of a user.
    pub(super) fn close_event_stream(&mut self, user: usize) {
        let streams = self.event_streams.as_ref();
        let Some(index) = streams.and_then(|streams| streams.connection_of(user)) else { return };
        let conn = &mut self.io[index];
        if matches!(conn.state, ConnectionState::EventStream(_)) {
            self.end_event_stream(index);
        }
    }

    /// Closes the connection of an event stream, which opens again at once if its user has a
    /// session.
    fn end_event_stream(&mut self, index: usize) {
        let conn = &mut self.io[index];
        (conn.state, conn.ending) = (ConnectionState::Closing, Ending::Left);
        self.io.close_sockets(index);
    }

    fn queue_event_stream(&mut self, index: usize, ctx: &RunContext) {
        let conn = &mut self.io[index];
        if !std::mem::replace(&mut conn.is_queued, true) {
            conn.state = ConnectionState::Disconnected { retry_at: ctx.now };
            self.connector.queue_retry(index, ctx.phase);
        }
    }

    /// Opens the event streams again whose pause is over.
    pub fn reopen_event_streams(&mut self, ctx: &RunContext) {
        while let Some(index) =
            self.event_streams.as_mut().and_then(|streams| streams.take_due(ctx.now))
        {
            self.schedule_event_stream(index, ctx);
        }
    }

    /// Opens an event stream again, if its user has a session.
    fn schedule_event_stream(&mut self, index: usize, ctx: &RunContext) {
        let Some(user) = self.user_of_stream(index) else { return };
        let is_wanted =
            self.event_streams.as_ref().is_some_and(|it| it.connection_of(user).is_some());
        let is_free = matches!(self.io[index].state, ConnectionState::Disconnected { .. });
        if is_wanted && is_free && self.session_of(user).is_some() {
            self.queue_event_stream(index, ctx);
        }
    }

    /// Opens the connection of an event stream again: at once for another session, after a pause if
    /// the stream ended or could not be opened.
    pub(super) fn retry_event_stream(&mut self, index: usize, ending: Ending, ctx: &RunContext) {
        let conn = &mut self.io[index];
        conn.state = ConnectionState::Disconnected { retry_at: ctx.now };
        conn.is_queued = false;
        if ending == Ending::Left {
            self.schedule_event_stream(index, ctx);
        } else if let Some(streams) = &mut self.event_streams {
            streams.reopen_later(index, ctx.now);
        }
    }

    /// Returns the user of a connection, if it is that of an event stream.
    pub(super) fn user_of_stream(&self, index: usize) -> Option<usize> {
        self.event_streams.as_ref()?.user_of(index)
    }

    /// Returns the log of the session of a user, if it has one.
    fn session_of(&self, user: usize) -> Option<&RequestLog> {
        match &self.io[user].state {
            ConnectionState::Open(log) => Some(log),
            _ => self.reopening.get(&user),
        }
    }

    /// Requests the event stream for which a connection was opened; returns whether it is one.
    #[cold]
    pub fn begin_event_stream(&mut self, index: usize, ctx: &RunContext) -> bool {
        let Some(user) = self.user_of_stream(index) else { return false };
        self.connector.count_reopened();
        self.io[index].is_queued = false;
        let mut request = Vec::new();
        let stream = self
            .session_of(user)
            .map(|log| EventStream::request(&ctx.settings_of(user), log.session(), &mut request));
        if let Some(stream) = stream {
            self.io[index].state = ConnectionState::EventStream(Box::new(stream));
            self.io.buffer_output(index, &request);
            self.io.queue_flush(index);
        } else {
            self.end_event_stream(index);
        }
        true
    }

    /// Processes data received on an event stream.
    pub fn receive_event_stream(&mut self, index: usize, bytes: &[u8], ctx: &mut RunContext) {
        let is_warm = ctx.phase != RunPhase::Connecting && ctx.now >= ctx.recorder.measured_from;
        let ConnectionState::EventStream(stream) = &mut self.io[index].state else { return };
        let counts = &mut ctx.recorder.period.users.streams;
        let (mut requests, mut refusal, mut ends) = (Vec::new(), None, false);
        let received = stream.receive(bytes, |event| match event {
            StreamEvent::Opened => counts.opened += 1,
            StreamEvent::Notification => counts.notifications += u64::from(is_warm),
            StreamEvent::Request { id, method } => {
                counts.requests += u64::from(is_warm);
                requests.push((id, method));
            }
            StreamEvent::Ended => ends = true,
            StreamEvent::Unsupported => {
                counts.unsupported += 1;
                ends = true;
            }
            StreamEvent::Refused(status) => (ends, refusal) = (true, Some(status)),
        });
        let is_unsupported = counts.unsupported > 0;
        if let (true, Some(streams)) = (is_unsupported, &mut self.event_streams) {
            streams.set_unsupported();
        }
        // A session that has ended is followed by a new one, with a stream of its own.
        if let Some(status) = refusal.filter(|status| *status != NOT_FOUND) {
            let counts = &mut ctx.recorder.period.users.streams;
            counts.refused += 1;
            counts.status = if counts.status == 0 { status } else { counts.status };
        }
        if let Some(user) = self.user_of_stream(index) {
            for (id, method) in requests {
                let settings = ctx.settings_of(user);
                let text = settings.answers().response(&id, &method);
                let session = self.session_of(user).and_then(RequestLog::session);
                let framed = settings.frame_in_session(text.as_bytes(), session);
                // The run has a connection for answers.
                self.post_answer(framed, ctx);
            }
        }
        if ends || received.is_err() {
            self.end_connection(index, Failure::Closed, ctx);
        }
    }
}
