//! Connections with subscriptions, and the connection that publishes.
//!
//! They come after the connections for requests: first the subscribers, then, on the first load
//! thread, the publisher. Each load thread knows the publish schedule and tracks delivery to its
//! own streams; all load threads share one clock.
//!
//! Invariants: each publication is requested once, at its planned time or as soon after as the load
//! thread runs. Receiving a notification does not allocate.

use corelane_base::time::Instant;
use corelane_engine::ring::Ring;

use super::connection::ConnectionState;
use super::connection_io::ConnectionIo;
use super::context::{RunContext, RunPhase};
use super::run_config::RunConfig;
use crate::mcp::{ConnectError, Subscriber, SubscriberEvent, Subscription};
use crate::metrics::fanout::{DeliveryTracker, PublishSchedule};
use crate::metrics::outcome::Failure;
use crate::schedule::Share;
use crate::wire::Reader;

/// Subscribers of one load thread.
#[derive(Debug)]
pub(super) struct Subscribers {
    subscription: Subscription,
    /// Index of the first subscriber connection.
    first: usize,
    /// Number of subscriber connections.
    connections: usize,
    /// Index of the publishing connection, on the first load thread.
    publisher: Option<usize>,
    /// Number of the last requested publication, from 1.
    published: u32,
    tracker: DeliveryTracker,
    /// Number of open streams.
    open_streams: usize,
}

/// Result of a handshake: the reader, its unread bytes, and the session.
pub(super) type HandshakeResult = (Reader, Vec<u8>, Option<Box<str>>);

/// Actions required by data received on a subscriber connection.
#[derive(Debug, Default)]
pub(super) struct SubscriberActions {
    pub(super) output: Vec<u8>,
    pub(super) is_closing: bool,
    pub(super) error: Option<ConnectError>,
}

impl Subscribers {
    /// Creates a load thread's share of the subscribers, after its connections for requests.
    /// Returns `None` if the run has no subscribers.
    pub(super) fn new(config: &RunConfig, share: Share, first: usize) -> Option<Self> {
        let listen = config.roles.subscribers.as_ref()?;
        let (thread, threads) = (share.thread as usize, share.threads.max(1) as usize);
        // The remainder goes to the last load threads: the first one publishes.
        let connections = (listen.connections() + thread) / threads;
        Some(Self {
            subscription: listen.subscription.clone(),
            first,
            connections,
            publisher: (thread == 0).then_some(first + connections),
            published: 0,
            tracker: DeliveryTracker::new(connections * listen.subscription.streams()),
            open_streams: 0,
        })
    }

    /// Returns the number of subscriber and publisher connections.
    pub(super) fn total_connections(&self) -> usize {
        self.connections + usize::from(self.publisher.is_some())
    }

    /// Returns whether a connection is a subscriber or the publisher.
    pub(super) const fn includes(&self, conn: usize) -> bool {
        conn >= self.first
    }

    /// Returns whether a connection is a subscriber.
    pub(super) const fn is_subscriber(&self, conn: usize) -> bool {
        conn >= self.first && conn < self.first + self.connections
    }

    /// Returns whether all streams are open.
    const fn is_complete(&self) -> bool {
        self.open_streams == self.connections * self.subscription.streams()
    }

    /// Returns the index of the publishing connection, on the first load thread.
    pub(super) const fn publisher(&self) -> Option<usize> {
        self.publisher
    }

    /// Returns the number of open streams.
    pub(super) const fn open_streams(&self) -> usize {
        self.open_streams
    }

    /// Creates a subscriber on a connection whose handshake is complete; appends its subscription
    /// requests to `output`.
    pub(super) fn subscribe(
        &mut self,
        index: usize,
        handshake: HandshakeResult,
        output: &mut Vec<u8>,
        ctx: &mut RunContext,
    ) -> (Box<Subscriber>, SubscriberActions) {
        let (reader, buffered, session) = handshake;
        let mut subscriber = Subscriber::new(&self.subscription, reader, buffered, session, output);
        let actions = self.receive(index, &mut subscriber, &[], ctx);
        (Box::new(subscriber), actions)
    }

    /// Processes data received on a subscriber connection.
    #[inline]
    pub(super) fn receive(
        &mut self,
        index: usize,
        subscriber: &mut Subscriber,
        bytes: &[u8],
        ctx: &mut RunContext,
    ) -> SubscriberActions {
        let now = ctx.now;
        let Self { subscription, tracker, open_streams, first, .. } = self;
        let fanout = &mut ctx.recorder.period.fanout;
        tracker.advance(now, &mut fanout.deliveries);
        let is_measured = tracker.is_measured(now);
        if ctx.phase == RunPhase::Sending && is_measured {
            fanout.bytes += bytes.len() as u64;
        }
        let stream = (index - *first) * subscription.streams();
        let mut actions = SubscriberActions::default();
        let received = subscriber.receive(subscription, bytes, |event| match event {
            SubscriberEvent::Notified(place) if tracker.receive(stream + place, now) => {}
            SubscriberEvent::Notified(_) | SubscriberEvent::Stray => {
                fanout.stray += u64::from(is_measured);
            }
            SubscriberEvent::Opened => *open_streams += 1,
            SubscriberEvent::Ended => {
                *open_streams -= 1;
                fanout.lost += 1;
            }
            SubscriberEvent::Send(bytes) => actions.output.extend_from_slice(&bytes),
            SubscriberEvent::Closing => actions.is_closing = true,
        });
        actions.error = received.err();
        actions
    }

    /// Appends the requests that reopen the ended streams of a subscriber to `output`; returns
    /// whether there were any.
    pub(super) fn reopen_streams(&self, subscriber: &mut Subscriber, output: &mut Vec<u8>) -> bool {
        !self.is_complete() && subscriber.reopen_ended_streams(&self.subscription, output)
    }

    /// Removes a subscriber whose connection ended from the counts.
    pub(super) fn remove(&mut self, subscriber: &Subscriber) {
        self.open_streams -= subscriber.open_streams();
    }

    /// Starts the publish schedule.
    pub(super) fn start(&mut self, ctx: &RunContext, begin: Instant, end: Instant) {
        let Some(listen) = &ctx.config.roles.subscribers else { return };
        self.tracker.start(PublishSchedule {
            start: begin,
            end,
            interval: listen.interval,
            delivery_timeout: listen.interval.min(ctx.config.limits.response_timeout),
            measured_from: ctx.recorder.measured_from,
        });
    }

    /// Requests the publications that are due on this load thread.
    #[inline]
    pub(super) fn publish_due<R: Ring>(&mut self, io: &mut ConnectionIo<R>, ctx: &mut RunContext) {
        self.tracker.advance(ctx.now, &mut ctx.recorder.period.fanout.deliveries);
        let (Some(index), Some(call)) = (self.publisher, ctx.recorder.publish_call) else { return };
        if ctx.phase == RunPhase::Connecting {
            return;
        }
        while self.published < self.tracker.number() {
            self.published += 1;
            let Some(intended) = self.tracker.planned_at(self.published) else { return };
            let is_measured = intended >= ctx.recorder.measured_from;
            let conn = &mut io[index];
            match &mut conn.state {
                ConnectionState::Open(log) if !conn.is_draining => {
                    let output = &mut conn.send_buffer;
                    log.write_request(&ctx.templates, call, intended, ctx.now, output);
                    if is_measured {
                        ctx.recorder.record_lag(intended, ctx.now);
                    }
                    io.queue_flush(index);
                }
                _ if is_measured => {
                    ctx.recorder.period.fanout.record_publish(Some(Failure::Connect));
                }
                _ => {}
            }
        }
    }

    /// Returns when the next publication is due on this load thread.
    #[inline]
    pub(super) fn next_publish_at(&self) -> Option<Instant> {
        self.publisher?;
        self.tracker.planned_at(self.published + 1)
    }

    /// Returns whether the last publication was delivered or timed out.
    pub(super) fn is_delivery_complete(&self, now: Instant) -> bool {
        self.tracker.is_complete(now)
    }

    /// Ends the publication in progress at the end of the run.
    pub(super) fn finish(&mut self, ctx: &mut RunContext) {
        self.tracker.finish_current(&mut ctx.recorder.period.fanout.deliveries);
    }
}
