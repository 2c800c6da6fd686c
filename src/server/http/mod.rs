//! What a server keeps for HTTP: the exchanges of a shard's connections, and its legacy sessions,
//! which outlive the connections that their requests come through.
//!
//! `exchange` is one request and the answer to it, `letter` what shards write to each other about
//! it, `page` what people see, `census` what all shards have together.
//!
//! A session (2025-03-26 to 2025-11-25) is begun by `initialize` and belongs to the shard that
//! answered it. Its name tells which shard that is (`identity`), so a request that arrives
//! elsewhere becomes a letter to the owner and back, and no shard knows the sessions of another.
//! `log` keeps what was sent on one stream, `stream` the streams of one session, `sessions` all
//! sessions of a shard. This room is a state machine: it runs no handler, writes to no connection
//! and reads no clock.
//!
//! Modern requests have no session: their connection answers them.
//!
//! Source: 2025-03-26 to 2025-11-25, basic/transports, "Streamable HTTP".

mod identity;

mod log;

mod stream;

mod sessions;

mod exchange;

mod letter;

mod page;

mod census;

pub mod fuzz;

pub(super) use self::census::{Census, Population};
pub(super) use self::exchange::{Bearer, Exchange, Manner, RETRY_AFTER_SECONDS};
pub(super) use self::identity::{SessionId, SessionIds};
pub(super) use self::letter::{HttpLetter, Utterance, Wish};
pub(super) use self::log::LogBounds;
pub(super) use self::page::{CONTENT_SECURITY_POLICY, PAGE};
pub(super) use self::sessions::{Bounds, Gone, Sessions};
pub(super) use self::stream::{ExchangeAddress, LISTENING, Refusal, StreamBounds};
#[cfg(test)]
use self::{
    sessions::Begun,
    stream::{Pushed, Resumed},
};

use std::time::Duration;

use crate::base::slab::Key;
use crate::base::time::{Calendar, Moment};
use crate::engine::timer::Wheel;
use crate::guard::origin::{OriginGuard, RememberingGuard};
use crate::transport::http::date::Date;
use crate::transport::http::ladder::Profile;
use crate::transport::http::limits::Limits;

/// What one shard keeps for HTTP; `S` is what the server knows of a session.
#[derive(Debug)]
pub(super) struct Http<S> {
    /// Which ways of HTTP are open.
    pub(super) profile: Profile,
    /// Who may use them.
    pub(super) origin: RememberingGuard,
    /// What one request may take.
    pub(super) limits: Limits,
    /// How long answers may take.
    pub(super) patience: Patience,
    /// The legacy sessions.
    pub(super) sessions: Sessions<S>,
    /// Connections whose exchange is over, or that were told something: they are looked at before
    /// the turn ends.
    pub(super) touched: Vec<Key>,
    /// Sessions that made room for others and are to be ended before the turn does.
    pub(super) evicted: Vec<Gone<S>>,
    /// Exchanges that are not over.
    pub(super) open: usize,
    /// The same, connection and number, by the moment at which they are looked at.
    pub(super) wheel: Wheel<(Key, u32)>,
    date: Date,
    now: Moment,
}

/// How long answers may take until something is said.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Patience {
    /// A request that has no answer after this long gets an event stream.
    pub(super) answer_max: Duration,
    /// A stream that was silent for this long shows that it lives.
    pub(super) silence_max: Duration,
    /// When a client comes back whose stream was ended early.
    pub(super) retry_ms: u32,
}

impl<S> Http<S> {
    /// No sessions and no exchanges.
    pub(super) fn new(
        profile: Profile,
        origin: OriginGuard,
        limits: Limits,
        patience: Patience,
        sessions: Sessions<S>,
    ) -> Self {
        let (touched, wheel, date) = (Vec::new(), Wheel::new(), Date::new(0));
        Self {
            profile,
            origin: RememberingGuard::new(origin),
            limits,
            patience,
            sessions,
            touched,
            evicted: Vec::new(),
            open: 0,
            wheel,
            date,
            now: Moment::ORIGIN,
        }
    }

    /// Goes by this moment from here on.
    #[inline]
    pub(super) fn begin_turn(&mut self, calendar: Calendar, now: Moment) {
        self.now = now;
        self.date.advance(calendar.unix_ms(now) / 1_000);
    }

    /// The moment of the turn.
    #[inline]
    pub(super) const fn now(&self) -> Moment {
        self.now
    }

    /// What `Date` says in this turn.
    #[inline]
    pub(super) const fn date(&self) -> &Date {
        &self.date
    }

    /// When to look at an exchange again.
    pub(super) fn due(&self, exchange: &Exchange) -> Moment {
        let Patience { answer_max, silence_max, .. } = self.patience;
        exchange.spoke.after(if exchange.is_streaming { silence_max } else { answer_max })
    }

    /// When there is something to do next.
    pub(super) fn deadline(&self) -> Option<Moment> {
        let sessions = self.sessions.deadline();
        [self.wheel.next_deadline(), sessions].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests;
