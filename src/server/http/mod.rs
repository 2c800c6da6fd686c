//! HTTP state of one shard: the exchanges of its connections, and its legacy sessions, which
//! outlive the connections of their requests.
//!
//! `exchange` holds one request with its response, `http_message` the messages about it between
//! shards, `page` the web page, `gauges` the totals over all shards.
//!
//! A session (2025-03-26 to 2025-11-25) is created by `initialize` and owned by the shard that
//! responded. Its id names that shard (`session_id`), so a request that arrives at another shard is
//! forwarded to the owner, and the response is sent back. `event_log` stores the events of one
//! stream, `streams` the streams of one session, `sessions` all sessions of a shard. This module is
//! a state machine: it runs no handler, writes to no connection and reads no clock.
//!
//! Modern requests have no session: the shard of their connection responds.
//!
//! Source: MCP 2025-03-26 to 2025-11-25, basic/transports, "Streamable HTTP".

mod session_id;

mod event_log;

mod streams;

mod sessions;

mod exchange;

mod http_message;

mod page;

mod gauges;

#[cfg(feature = "internals")]
pub mod fuzz;

pub(super) use self::event_log::EventLogLimits;
pub(super) use self::exchange::{HttpExchange, RETRY_AFTER_SECONDS, ResponseFormat, ResponseOwner};
pub(super) use self::gauges::{GaugeValues, Gauges};
pub(super) use self::http_message::{HttpMessage, HttpOutput, SessionOp};
pub(super) use self::page::{CONTENT_SECURITY_POLICY, PAGE};
pub(super) use self::session_id::{SessionId, SessionIds};
pub(super) use self::sessions::{RemovedSession, SessionLimits, SessionStore};
pub(super) use self::streams::{ExchangeAddress, LISTENING_STREAM, SessionError, StreamLimits};
#[cfg(test)]
use self::{
    sessions::CreatedSession,
    streams::{PushedEvent, ResumedStream},
};

use std::time::Duration;

use crate::base::slab::Key;
use crate::base::time::{Instant, WallClock};
use crate::engine::timer::TimerWheel;
use crate::guard::origin::{CachedOriginGuard, OriginGuard};
use crate::transport::http::checks::CheckProfile;
use crate::transport::http::date::Date;
use crate::transport::http::limits::RequestLimits;

/// HTTP state of one shard; `S` is the server's state of a session.
#[derive(Debug)]
pub(super) struct HttpFrontend<S> {
    /// Which HTTP endpoints are enabled.
    pub(super) profile: CheckProfile,
    /// Checks of the headers `Host` and `Origin`.
    pub(super) origin_guard: CachedOriginGuard,
    /// Size limits of a request.
    pub(super) limits: RequestLimits,
    /// Delays of event streams.
    pub(super) timeouts: HttpTimeouts,
    /// Legacy sessions.
    pub(super) sessions: SessionStore<S>,
    /// Connections whose exchange is complete or has output: processed before the turn ends.
    pub(super) dirty_connections: Vec<Key>,
    /// Sessions evicted in favour of others: ended before the turn ends.
    pub(super) evicted_sessions: Vec<RemovedSession<S>>,
    /// Number of incomplete exchanges.
    pub(super) open_exchanges: usize,
    /// Timers of incomplete exchanges, by connection and serial number.
    pub(super) exchange_timers: TimerWheel<(Key, u32)>,
    date: Date,
    now: Instant,
}

/// Delays of event streams.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct HttpTimeouts {
    /// Time after which a request without a response is answered as an event stream.
    pub(super) sse_start_delay: Duration,
    /// Time after which a silent stream gets a comment.
    pub(super) sse_keepalive_interval: Duration,
    /// Reconnection time sent when a stream is closed early.
    pub(super) sse_retry_ms: u32,
}

impl<S> HttpFrontend<S> {
    pub(super) fn new(
        profile: CheckProfile,
        origin: OriginGuard,
        limits: RequestLimits,
        timeouts: HttpTimeouts,
        sessions: SessionStore<S>,
    ) -> Self {
        let (dirty_connections, exchange_timers, date) =
            (Vec::new(), TimerWheel::new(), Date::new(0));
        Self {
            profile,
            origin_guard: CachedOriginGuard::new(origin),
            limits,
            timeouts,
            sessions,
            dirty_connections,
            evicted_sessions: Vec::new(),
            open_exchanges: 0,
            exchange_timers,
            date,
            now: Instant::ORIGIN,
        }
    }

    /// Sets the time and the `Date` header of the turn, if there are exchanges or sessions.
    #[inline]
    pub(super) fn begin_turn_if_active(&mut self, calendar: WallClock, now: Instant) {
        if self.open_exchanges > 0 || self.sessions.len() > 0 {
            self.begin_turn(calendar, now);
        }
    }

    /// Sets the time and the `Date` header of the turn.
    pub(super) fn begin_turn(&mut self, calendar: WallClock, now: Instant) {
        self.now = now;
        self.date.advance(calendar.unix_ms(now) / 1_000);
    }

    /// Returns the time of the turn.
    #[inline]
    pub(super) const fn now(&self) -> Instant {
        self.now
    }

    /// Returns the value of the `Date` header.
    #[inline]
    pub(super) const fn date(&self) -> &Date {
        &self.date
    }

    /// Returns when the timer of `exchange` expires.
    pub(super) fn exchange_deadline(&self, exchange: &HttpExchange) -> Instant {
        let HttpTimeouts {
            sse_start_delay: answer_max, sse_keepalive_interval: silence_max, ..
        } = self.timeouts;
        exchange.last_output.after(if exchange.is_streaming { silence_max } else { answer_max })
    }

    /// Returns the next deadline of exchanges and sessions.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let sessions = self.sessions.next_deadline();
        [self.exchange_timers.next_deadline(), sessions].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests;
