//! Subscriptions on the road: streams of modern clients, resources of legacy sessions.
//!
//! What it keeps true: a stream is acknowledged before anything is said on it; what is acknowledged
//! is what will be told; whatever is refused has left nothing behind.

use super::admission::Admitted;
use super::{Passage, Road, say_result};
use crate::base::slab::Key;
use crate::protocol::era::ClientCapabilities;
use crate::protocol::error::Error;
use crate::protocol::message;
use crate::protocol::params::{Filter, Listen, Subscribe};
use crate::server::party::{Party, Said};
use crate::server::session::{Peer, Session};
use crate::server::subscriptions::{List, Lists, Subscriptions, Wish};
use crate::service::Features;

impl Road {
    /// `subscriptions/listen`: a stream that is acknowledged now and answered at its end. It is in
    /// flight by its id, but counts neither as a request that waits nor against any deadline.
    ///
    /// Source: 2026-07-28, basic/patterns/subscriptions.
    pub(super) fn listen(
        &mut self,
        passage: Passage,
        peer: &mut Peer<'_>,
        admitted: &Admitted<'_>,
    ) -> Said {
        match self.open_stream(passage.outlet.party, peer, admitted) {
            Ok(()) => Said::Word,
            Err(error) => self.refuse_admitted(peer, admitted, &error),
        }
    }

    fn open_stream(
        &mut self,
        party: Party,
        peer: &mut Peer<'_>,
        admitted: &Admitted<'_>,
    ) -> Result<(), Error> {
        let id = admitted.id;
        let wish = Listen::read(id, admitted.params)?.filter;
        let needed = ClientCapabilities::EXTENSION_TASKS;
        if !wish.task_ids.is_empty() && !admitted.capabilities.has(needed) {
            return Err(Error::missing_capability(needed));
        }
        let granted = self.grant(wish);
        let lists = Lists::of(|list| match list {
            List::Prompts => granted.prompts_list_changed,
            List::Resources => granted.resources_list_changed,
            List::Tools => granted.tools_list_changed,
        });
        let (uris, task_ids) = (&granted.resource_uris[..], &granted.task_ids[..]);
        let Session { subscriber, in_flight, .. } = &mut *peer.session;
        let opened =
            self.subscriptions.listen(party, subscriber, id, Wish { lists, uris, task_ids });
        self.counters.subscriptions.refused += u64::from(opened.is_err());
        // Looked up when the request was admitted: nothing in flight has this id.
        in_flight.insert(id, Subscriptions::ticket(opened?), usize::MAX)?;
        self.counters.subscriptions.opened += 1;
        peer.standing.listens = true;
        message::acknowledged(peer.outgoing, id, &granted);
        for task in &granted.task_ids {
            self.watch_task(task);
        }
        Ok(())
    }

    /// The part of a wish that this server can grant: what it offers nothing of never changes.
    fn grant<'a>(&mut self, wish: Filter<'a>) -> Filter<'a> {
        let tells_resources = self.catalog.has(Features::SUBSCRIPTIONS);
        Filter {
            tools_list_changed: wish.tools_list_changed && self.tells(List::Tools),
            prompts_list_changed: wish.prompts_list_changed && self.tells(List::Prompts),
            resources_list_changed: wish.resources_list_changed && self.tells(List::Resources),
            resource_uris: if tells_resources { wish.resource_uris } else { Vec::new() },
            task_ids: self.known_names(wish.task_ids),
        }
    }

    /// Whether changes of `list` are told.
    pub(in crate::server) fn tells(&self, list: List) -> bool {
        let feature = match list {
            List::Prompts => Features::PROMPTS,
            List::Resources => Features::RESOURCES,
            List::Tools => Features::TOOLS,
        };
        self.catalog.has(Features::LIST_CHANGED | feature)
    }

    /// A client does not want a stream any more; nothing more is said about it.
    pub(super) fn end_stream(&mut self, peer: &mut Peer<'_>, key: Key) {
        let subscriber = &mut peer.session.subscriber;
        if self.subscriptions.end(subscriber, key).is_some() {
            self.counters.subscriptions.ended += 1;
            peer.standing.listens = subscriber.listens();
        }
    }

    /// `resources/subscribe`: answered with nothing; once more changes nothing.
    ///
    /// Source: 2025-11-25, server/resources, "Subscriptions".
    pub(super) fn subscribe(
        &mut self,
        passage: Passage,
        peer: &mut Peer<'_>,
        admitted: &Admitted<'_>,
    ) -> Said {
        let done = self.note_subscription(passage.outlet.party, peer, admitted);
        self.say_done(peer, admitted, done)
    }

    fn note_subscription(
        &mut self,
        party: Party,
        peer: &mut Peer<'_>,
        admitted: &Admitted<'_>,
    ) -> Result<(), Error> {
        let uri = Subscribe::read(admitted.params)?.uri;
        if !self.catalog.has_resource(uri, admitted.revision) {
            return Err(Error::resource_not_found(uri, admitted.revision));
        }
        let before = self.subscriptions.len();
        let subscriber = &mut peer.session.subscriber;
        let noted = self.subscriptions.subscribe(party, subscriber, uri);
        self.counters.subscriptions.refused += u64::from(noted.is_err());
        self.counters.subscriptions.opened += (self.subscriptions.len() - before) as u64;
        noted?;
        peer.standing.listens = true;
        Ok(())
    }

    /// `resources/unsubscribe`: answered with nothing, also where there was no subscription: the
    /// client wants to hear no more, and will not.
    pub(super) fn unsubscribe(&mut self, peer: &mut Peer<'_>, admitted: &Admitted<'_>) -> Said {
        let done = Subscribe::read(admitted.params).map(|Subscribe { uri }| {
            let subscriber = &mut peer.session.subscriber;
            let before = self.subscriptions.len();
            self.subscriptions.unsubscribe(subscriber, uri);
            self.counters.subscriptions.ended += (before - self.subscriptions.len()) as u64;
            peer.standing.listens = subscriber.listens();
        });
        self.say_done(peer, admitted, done)
    }

    fn say_done(
        &mut self,
        peer: &mut Peer<'_>,
        admitted: &Admitted<'_>,
        done: Result<(), Error>,
    ) -> Said {
        match done {
            Ok(()) => say_result(peer, admitted, b"{}"),
            Err(error) => self.refuse_admitted(peer, admitted, &error),
        }
    }
}
