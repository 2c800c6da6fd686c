//! Messages to the shard: from other shards, from other threads, and from its own handlers.

use corelane_base::slab::Key;
use corelane_engine::ring::Ring;

use super::{pressure, reports};
use crate::guard::pressure::PressureStep;
use crate::server::auth::AuthTime;
use crate::server::dispatch::notifies_list_changed;
use crate::server::handlers::HandlerEvent;
use crate::server::shard::{Broadcaster, Recipients, Shard};
use crate::server::shard_message::{
    BroadcastMessage, Requester, ShardMessage, TaskEvent, TaskMessage,
};
use crate::server::subscriptions::{CatalogList, SubscriptionRegistry};

impl Shard {
    pub(in crate::server) fn handle_message<R: Ring>(
        &mut self,
        ring: &mut R,
        message: ShardMessage,
    ) {
        let Self { dispatcher, outbox, now, .. } = self;
        let now = *now;
        match message {
            ShardMessage::Broadcast(message) => self.handle_broadcast(ring, message),
            ShardMessage::CatalogUpdated { key, result } => {
                dispatcher.handlers.pending_updates.complete((key, result), now, outbox);
            }
            ShardMessage::Session(message) => self.handle_session_message(*message),
            ShardMessage::Task(message) => match *message {
                TaskMessage::Changed { task, version, caller, tail } => {
                    self.broadcast(ring, |broadcaster, registry, recipients| {
                        let caller = caller.as_deref();
                        broadcaster
                            .publish_task(task, version, caller, &tail, registry, recipients);
                    });
                }
                message => dispatcher.handle_task_message(message, now, outbox),
            },
            ShardMessage::Rate(message) => dispatcher.rate.handle_message(*message, now, outbox),
            ShardMessage::Report(report) => reports::continue_report(self, *report),
            #[cfg(feature = "tower")]
            ShardMessage::AdoptStream(stream, extensions) => {
                self.adopt_stream(ring, stream, extensions);
            }
            ShardMessage::PublishCounters { request, snapshots } => {
                snapshots.publish(self.id, request, self.counters());
            }
            ShardMessage::Log(message) => {
                dispatcher.handle_event(HandlerEvent::Log(*message), now, outbox);
            }
            ShardMessage::Progress(progress) => {
                dispatcher.handle_event(HandlerEvent::Progress(progress), now, outbox);
            }
            ShardMessage::Partial(part) => {
                dispatcher.handle_event(HandlerEvent::Partial(*part), now, outbox);
            }
            ShardMessage::Finished { requester, result, charge } => {
                let event = match requester {
                    Requester::Call(call_id) => HandlerEvent::Finished { call_id, result },
                    Requester::Task(task) => {
                        HandlerEvent::Task { task, event: TaskEvent::Finished(result) }
                    }
                };
                dispatcher.handle_event(event, now, outbox);
                if charge.is_some() {
                    // Writes the result to the output of its peer, which is accounted there. Such a
                    // message is not an effect: it comes from the inbox.
                    self.apply_outbox(ring);
                }
            }
        }
    }

    fn handle_broadcast<R: Ring>(&mut self, ring: &mut R, message: BroadcastMessage) {
        match message {
            BroadcastMessage::Drain(timeout) => self.request_drain(ring, timeout),
            BroadcastMessage::Catalog { catalog, changes, installed } => {
                let outbox = &mut self.outbox;
                self.dispatcher.install_catalog(catalog, changes, &installed, outbox);
            }
            BroadcastMessage::ListsChanged(changes) => {
                for list in CatalogList::ALL.into_iter().filter(|list| changes.contains(*list)) {
                    let notifies = notifies_list_changed(&self.dispatcher.catalog, list);
                    self.broadcast(ring, |broadcaster, registry, recipients| {
                        broadcaster.publish_list(list, notifies, registry, recipients);
                    });
                }
            }
            BroadcastMessage::ResourceUpdated(uri) => {
                self.broadcast(ring, |broadcaster, registry, recipients| {
                    broadcaster.publish_resource(&uri, registry, recipients);
                });
            }
            BroadcastMessage::Limits(limits, overload) => {
                self.limits = limits;
                if !overload.guards_memory() {
                    self.transports.acceptor.set_pressure(PressureStep::None);
                }
                self.dispatcher.deferred.overload.set_rules(overload);
                self.apply_limits();
            }
            BroadcastMessage::Pressure(step) => pressure::apply_step(self, ring, step),
            BroadcastMessage::RateRules(rules) => self.dispatcher.rate.install(rules),
            BroadcastMessage::Authenticator(authenticator) => {
                self.dispatcher.auth.install(authenticator);
            }
            BroadcastMessage::Introspected(token) => {
                let time = AuthTime::at(self.now, self.dispatcher.deferred.wall_clock);
                let counted = (time, &mut self.outbox.counters.auth);
                for key in self.dispatcher.auth.complete(&token, counted) {
                    self.outbox.resume_reading(key);
                }
            }
        }
    }

    /// Notifies subscribers, and accounts the memory of their connections.
    fn broadcast<R: Ring, T>(
        &mut self,
        ring: &mut R,
        publish: impl FnOnce(&mut Broadcaster, &mut SubscriptionRegistry, &mut Recipients<'_>) -> T,
    ) -> T {
        let Self { broadcaster, transports, dispatcher, outbox, now, .. } = self;
        let now = *now;
        let mut recipients = Recipients { transports, outbox, now };
        let published = publish(broadcaster, &mut dispatcher.subscriptions, &mut recipients);
        while let Some(key) = self.broadcaster.take_notified() {
            self.check_memory(ring, key);
        }
        published
    }

    /// After a send: notifies the streams of a connection whose queue has drained to half of what
    /// they missed. Does nothing before the first skipped notification.
    #[inline]
    pub(super) fn send_missed<R: Ring>(&mut self, ring: &mut R, key: Option<Key>) {
        if self.outbox.counters.subscriptions.notifications_deferred > 0
            && let Some(key) = key
        {
            let missed_tasks = self.broadcast(ring, |broadcaster, registry, recipients| {
                broadcaster.send_missed(key, registry, recipients)
            });
            for task in missed_tasks {
                self.dispatcher.deferred.tasks.watch(&task, &mut self.outbox);
            }
        }
    }

    /// Processes the events of local handlers.
    pub(super) fn handle_events(&mut self) {
        self.dispatcher.report_slow_polls(self.now, &mut self.outbox);
        loop {
            if self.inbox.queued() == 0 {
                self.dispatcher.handlers.publish_resource_updates(&mut self.outbox);
            }
            let mut events = std::mem::take(&mut self.events);
            self.dispatcher.handlers.queue.take_events(&mut events);
            let is_idle = events.is_empty();
            for event in events.drain(..) {
                self.dispatcher.handle_event(event, self.now, &mut self.outbox);
            }
            self.events = events;
            if is_idle {
                self.dispatcher.handlers.queue.end_round();
                return;
            }
        }
    }
}
