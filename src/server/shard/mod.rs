//! The shard: the components of one thread.
//!
//! The steps of its turn stand in `turn`; what input passes through on its way to a handler in
//! `input`; what peers are sent in `peers`; the effects of components in `effects`.

mod half_closed;
mod large_work;
mod phase;

mod transports;

mod broadcaster;
mod held_memory;

use std::fmt;
use std::sync::Arc;

use corelane_base::time::{Instant, WallClock};
use corelane_engine::mesh::{Inbox, ShardId};
use corelane_protocol::json::Parser;

pub(super) use self::broadcaster::{Broadcaster, Recipients};
pub(super) use self::half_closed::{HalfClose, HalfClosed, half_close_refused, half_close_timeout};
pub(super) use self::held_memory::{freeable_bytes, held_memory};
pub(super) use self::large_work::{LargeWork, NextWork};
pub(super) use self::phase::ShardPhase;
pub(super) use self::transports::Transports;
use super::dispatch::Dispatcher;
use super::handlers::HandlerEvent;
use super::http::ExchangePath;
use super::outbox::Outbox;
use super::parity::ParityPath;
use super::shard_message::{ShardLimits, ShardMessage};
use crate::telemetry::counters::Counters;
use crate::telemetry::event::Event;
use crate::telemetry::open_work::OpenWork;
use crate::telemetry::throttle::EventThrottle;

/// One shard of a server, built by [`super::ShardBuilder::build`] and run by its shard loop.
pub struct Shard {
    pub(super) id: ShardId,
    pub(super) transports: Transports,
    pub(super) parser: Parser,
    pub(super) dispatcher: Dispatcher,
    pub(super) broadcaster: Broadcaster,
    pub(super) phase: ShardPhase,
    pub(super) inbox: Inbox<ShardMessage>,
    pub(super) outbox: Outbox,
    pub(super) unsent_messages: UnsentMessages,
    /// Buffers for reuse.
    pub(super) messages: Vec<ShardMessage>,
    pub(super) events: Vec<HandlerEvent>,
    /// The limits while memory is not short.
    pub(super) limits: Arc<ShardLimits>,
    /// Time of the step of the turn that runs.
    pub(super) now: Instant,
}

impl Shard {
    /// Sets the clock of timestamps.
    pub(super) const fn set_wall_clock(&mut self, wall_clock: WallClock) {
        self.transports.http.set_wall_clock(wall_clock);
        self.dispatcher.deferred.wall_clock = wall_clock;
        self.dispatcher.deferred.tasks.wall_clock = wall_clock;
    }

    /// Returns the number of objects held on behalf of clients.
    pub fn open_work(&self) -> OpenWork {
        let mut open_work = OpenWork::default();
        self.transports.count_open(&mut open_work);
        self.dispatcher.count_open(&mut open_work);
        open_work
    }

    /// Returns the counters of this shard.
    pub fn counters(&self) -> Counters {
        let mut counters = self.outbox.counters.clone();
        self.transports.add_counters(&mut counters);
        self.dispatcher.add_counters(&mut counters);
        let (messages, shard) = (self.inbox.counts(), &mut counters.shard);
        (shard.messages_received, shard.messages_sent) = (messages.received, messages.sent);
        shard.messages_refused = messages.channel_full + messages.inbox_full;
        counters
    }

    /// Returns the exchanges of this shard with what their output passes through.
    pub(super) const fn exchanges(&mut self) -> ExchangePath<'_> {
        let Self { transports: Transports { http, connections, .. }, outbox, now, .. } = self;
        http.exchange_path(connections, outbox, *now)
    }

    /// Returns the sessions of the parity dialect with what their messages pass through.
    pub(super) const fn parity_path(&mut self) -> ParityPath<'_> {
        let Self { transports, dispatcher, outbox, now, .. } = self;
        transports.parity_path(dispatcher, outbox, *now)
    }
}

impl fmt::Debug for Shard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open_work = self.open_work();
        write!(formatter, "Shard {{ id: {:?}, open_work: {open_work:?}, .. }}", self.id)
    }
}

/// Logs how many messages were refused, at the end of a turn.
#[derive(Debug, Default)]
pub(super) struct UnsentMessages {
    /// The count that was logged last.
    logged: u64,
    throttle: EventThrottle,
}

impl UnsentMessages {
    /// Logs what was added to `total`, the messages refused since the start.
    #[inline]
    pub fn report(&mut self, ShardId(shard): ShardId, total: u64, now: Instant) {
        if total != self.logged {
            let refused = total - self.logged;
            self.logged = total;
            Event::MessagesNotSent { shard, refused }.emit_within(&mut self.throttle, now);
        }
    }
}
