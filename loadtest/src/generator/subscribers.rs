//! Connections with subscriptions, and the connection that publishes.
//!
//! They come after the connections for requests: first the subscribers, then, on the first load
//! thread, the publisher. Each load thread knows the publish schedule and tracks delivery to its
//! own streams; all load threads share one clock.
//!
//! Invariants: each publication is requested once, at its planned time or as soon after as the load
//! thread runs. Receiving a notification does not allocate.

use corelane::base::time::Instant;
use corelane::engine::ring::Ring;

use super::connection::ConnectionState;
use super::load_thread::{LoadThread, RunPhase};
use super::period::PeriodRecorder;
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
    pub(super) connections: usize,
    /// Index of the publishing connection, on the first load thread.
    pub(super) publisher: Option<usize>,
    /// Number of the last requested publication, from 1.
    published: u32,
    tracker: DeliveryTracker,
    /// Number of open streams.
    pub(super) open_streams: usize,
}

/// Result of a handshake: the reader, its unread bytes, and the session.
type HandshakeResult = (Reader, Vec<u8>, Option<Box<[u8]>>);

/// Actions required by data received on a subscriber connection.
#[derive(Debug, Default)]
pub(super) struct SubscriberActions {
    output: Vec<u8>,
    is_closing: bool,
    error: Option<ConnectError>,
}

impl Subscribers {
    /// Creates a load thread's share of the subscribers, after its connections for requests.
    /// Returns `None` if the run has no subscribers.
    pub(super) fn new(job: &RunConfig, share: Share, first: usize) -> Option<Self> {
        let listen = job.subscribers.as_ref()?;
        let (worker, workers) = (share.thread as usize, share.threads.max(1) as usize);
        // The remainder goes to the last load threads: the first one publishes.
        let connections = (listen.connections() + worker) / workers;
        Some(Self {
            subscription: listen.subscription.clone(),
            first,
            connections,
            publisher: (worker == 0).then_some(first + connections),
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
    pub(super) const fn contains(&self, conn: usize) -> bool {
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

    /// Processes data received on a subscriber connection.
    #[inline]
    pub(super) fn receive(
        &mut self,
        (conn, listening): (usize, &mut Subscriber),
        arrived: &[u8],
        (recorder, now): (&mut PeriodRecorder, Instant),
    ) -> SubscriberActions {
        let Self { subscription, tracker: roll, open_streams: open, first, .. } = self;
        let fanout = &mut recorder.period.fanout;
        roll.advance(now, &mut fanout.deliveries);
        let is_measured = roll.is_measured(now);
        if is_measured {
            fanout.bytes += arrived.len() as u64;
        }
        let stream = (conn - *first) * subscription.streams();
        let mut actions = SubscriberActions::default();
        let heard = listening.receive(subscription, arrived, |hearing| match hearing {
            SubscriberEvent::Notified(place) if roll.receive(stream + place, now) => {}
            SubscriberEvent::Notified(_) | SubscriberEvent::Stray => {
                fanout.stray += u64::from(is_measured);
            }
            SubscriberEvent::Opened => *open += 1,
            SubscriberEvent::Ended => {
                *open -= 1;
                fanout.lost += 1;
            }
            SubscriberEvent::Send(bytes) => actions.output.extend_from_slice(&bytes),
            SubscriberEvent::Closing => actions.is_closing = true,
        });
        actions.error = heard.err();
        actions
    }
}

impl<R: Ring> LoadThread<R> {
    /// Returns whether a connection becomes a subscriber once it is open.
    pub(super) fn is_subscriber(&self, index: usize) -> bool {
        self.subscribers.as_ref().is_some_and(|subscribers| subscribers.is_subscriber(index))
    }

    /// Sends the subscription requests of a connection whose handshake is complete.
    pub(super) fn begin_subscribing(&mut self, index: usize, opened: HandshakeResult) {
        let Some(subscribers) = &mut self.subscribers else { return };
        let conn = &mut self.connections[index];
        if conn.send_buffer.capacity() == 0 {
            conn.send_buffer = self.spare_buffers.pop().unwrap_or_default();
        }
        let mut listening =
            Subscriber::new(&subscribers.subscription, opened, &mut conn.send_buffer);
        let actions =
            subscribers.receive((index, &mut listening), &[], (&mut self.recorder, self.now));
        conn.state = ConnectionState::Subscribed(Box::new(listening));
        self.queue_flush(index);
        self.apply_subscriber_actions(index, actions);
    }

    /// Executes the actions required by received data.
    #[inline]
    pub(super) fn apply_subscriber_actions(&mut self, index: usize, actions: SubscriberActions) {
        let SubscriberActions { output, is_closing, error } = actions;
        if let Some(error) = error {
            return self.fail_subscription(index, error);
        }
        let conn = &mut self.connections[index];
        if let ConnectionState::Subscribed(listening) = &mut conn.state
            && listening.is_newly_complete()
        {
            self.connecting -= 1;
            self.open += 1;
            self.record_opened(index);
        }
        let conn = &mut self.connections[index];
        conn.is_draining |= is_closing;
        if !output.is_empty() {
            self.buffer_output(index, &output);
            self.queue_flush(index);
        }
    }

    /// Ends a connection whose subscription was refused or that received invalid data.
    #[cold]
    fn fail_subscription(&mut self, index: usize, refused: ConnectError) {
        let conn = &mut self.connections[index];
        let is_lost = !conn.is_draining;
        let state = std::mem::replace(&mut conn.state, ConnectionState::Closing);
        if let ConnectionState::Subscribed(listening) = state
            && !self.remove_subscriber(&listening, is_lost)
        {
            return self.fail_handshake(index, refused);
        }
        self.close_sockets(index);
    }

    /// Removes a subscriber from the counts; returns whether it had been open.
    pub(super) fn remove_subscriber(&mut self, listening: &Subscriber, is_lost: bool) -> bool {
        let open = listening.open_streams();
        if let Some(subscribers) = &mut self.subscribers {
            subscribers.open_streams -= open;
        }
        if listening.has_opened() {
            self.open -= 1;
            self.recorder.period.lost += u64::from(is_lost);
            self.recorder.period.fanout.lost += open as u64;
        }
        listening.has_opened()
    }

    /// Checks a subscriber for timeouts and reopens streams that ended.
    pub(super) fn sweep_subscriber(&mut self, index: usize) {
        let Some(subscribers) = &self.subscribers else { return };
        let conn = &mut self.connections[index];
        if conn.is_draining {
            return self.end_connection(index, Failure::Closed);
        }
        let ConnectionState::Subscribed(listening) = &mut conn.state else { return };
        if !listening.has_opened()
            && self.now.since(conn.connect_started) > self.config.limits.connect_timeout
        {
            let message = "the subscription was not acknowledged in time".into();
            return self
                .fail_subscription(index, ConnectError { failure: Failure::Timeout, message });
        }
        if !subscribers.is_complete()
            && listening.reopen_ended_streams(&subscribers.subscription, &mut conn.send_buffer)
        {
            self.queue_flush(index);
        }
    }

    /// Starts the publish schedule.
    pub(super) fn start_publishing(&mut self, begin: Instant, end: Instant) {
        let (Some(subscribers), Some(listen)) = (&mut self.subscribers, &self.config.subscribers)
        else {
            return;
        };
        subscribers.tracker.start(PublishSchedule {
            start: begin,
            end,
            interval: listen.interval,
            delivery_timeout: listen.interval.min(self.config.limits.response_timeout),
            measured_from: self.recorder.measured_from,
        });
    }

    /// Requests the publications that are due.
    #[inline]
    pub(super) fn publish_due_notifications(&mut self) {
        let Some(subscribers) = &mut self.subscribers else { return };
        let period = &mut self.recorder.period;
        subscribers.tracker.advance(self.now, &mut period.fanout.deliveries);
        let (Some(index), Some(call)) = (subscribers.publisher, self.recorder.publish_call) else {
            return;
        };
        if self.phase == RunPhase::Connecting {
            return;
        }
        while subscribers.published < subscribers.tracker.number() {
            subscribers.published += 1;
            let Some(intended) = subscribers.tracker.planned_at(subscribers.published) else {
                return;
            };
            let conn = &mut self.connections[index];
            let is_measured = intended >= self.recorder.measured_from;
            match &mut conn.state {
                ConnectionState::Open(log) if !conn.is_draining => {
                    log.write_request(
                        &self.calls,
                        call,
                        (intended, self.now),
                        &mut conn.send_buffer,
                    );
                    if is_measured {
                        let lag = self.now.since(intended).as_nanos();
                        period.lag.saturating_record(u64::try_from(lag).unwrap_or(u64::MAX));
                    }
                    if !conn.is_flush_queued {
                        conn.is_flush_queued = true;
                        self.flush_queue.push(u32::try_from(index).unwrap_or(u32::MAX));
                    }
                }
                _ if is_measured => period.fanout.record_publish(Some(Failure::Connect)),
                _ => {}
            }
        }
    }

    /// Returns when the next publication is due on this load thread.
    #[inline]
    pub(super) fn next_publish_at(&self) -> Option<Instant> {
        let subscribers = self.subscribers.as_ref()?;
        subscribers.publisher?;
        subscribers.tracker.planned_at(subscribers.published + 1)
    }

    /// Returns whether the last publication was delivered or timed out.
    pub(super) fn is_delivery_complete(&self) -> bool {
        self.subscribers
            .as_ref()
            .is_none_or(|subscribers| subscribers.tracker.is_complete(self.now))
    }

    /// Ends the publication in progress at the end of the run.
    pub(super) fn finish_subscribers(&mut self) {
        if let Some(subscribers) = &mut self.subscribers {
            subscribers.tracker.finish_current(&mut self.recorder.period.fanout.deliveries);
        }
    }
}
