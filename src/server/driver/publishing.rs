//! What has happened, on its way to those who listen: catalogs, resources, the end of streams.
//!
//! What it keeps true: every shard offers an edition before any tells of it; a frame is encoded
//! once and goes to every stream that asked for it, behind the acknowledgement of that stream; a
//! peer that does not read costs no queue: past `outgoing_bytes_max` it misses frames and is told
//! once, when half of that has drained, that there was something.

use std::rc::Rc;
use std::sync::Arc;

use super::ShardDriver;
use crate::base::slab::Key;
use crate::base::time::Moment;
use crate::engine::mesh::Tally;
use crate::engine::ring::{Ring, Socket};
use crate::link::{Framing, Link};
use crate::observe::counters::Counters;
use crate::protocol::era::Lifecycle;
use crate::protocol::message::{self, Change, TaskDetail, TaskStatus, TaskView};
use crate::protocol::revision::Revision;
use crate::protocol::rpc::{Id, IdBuf};
use crate::server::letter::{Letter, Notice};
use crate::server::party::{Outlet, Party, Said};
use crate::server::pipeline::Road;
use crate::server::session::Session;
use crate::server::subscriptions::{
    List, Lists, Missed, Publication, Stream, Subject, Subscriber, Subscriptions,
};
use crate::server::tasks::TaskId;
use crate::server::websocket::WebSockets;
use crate::service::Catalog;
use crate::transport::http::date::Date;
use crate::transport::ndjson;
use crate::transport::websocket::writer;

impl ShardDriver {
    /// Offers the next edition of the catalog. When every shard does, all tell who listens what is
    /// new in it: a client may ask any shard for what it was told by one.
    pub(super) fn offer<R: Ring>(
        &mut self,
        ring: &mut R,
        catalog: Arc<Catalog>,
        (changes, offered): (Lists, &Tally),
        now: Moment,
    ) {
        self.road.catalog = catalog;
        if offered.take() < usize::from(self.road.shards) {
            return;
        }
        for neighbour in self.mailbox.neighbours() {
            self.mailbox.send(neighbour, Letter::Notice(Notice::Changed(changes)));
        }
        self.tell_lists(ring, changes, now);
    }

    /// Tells who listens that lists have changed.
    pub(super) fn tell_lists<R: Ring>(&mut self, ring: &mut R, changes: Lists, now: Moment) {
        for list in List::ALL.into_iter().filter(|list| changes.has(*list)) {
            self.publish(ring, &list.change(), now);
            if self.road.tells(list) {
                self.tell_sessions(ring, list, now);
            }
        }
    }

    /// Tells every legacy session that a list has changed: they hear it without asking.
    ///
    /// Source: 2025-11-25, server/tools, "List Changed Notification", and its like.
    fn tell_sessions<R: Ring>(&mut self, ring: &mut R, list: List, now: Moment) {
        let is_ready = |session: &Session| matches!(session.lifecycle, Lifecycle::Initialized(_));
        let connections = self.link.connections.iter();
        let ready = connections.filter(|(_, connection)| is_ready(&connection.session));
        let ready: Vec<Key> = ready.map(|(key, _)| key).collect();
        // The form for sessions may stand there already, for those that subscribed.
        let mut press = self.press();
        for key in ready {
            press.say_session(list, key);
        }
        let members = self.http.sessions.iter_mut();
        let ready = members.filter(|(_, member)| is_ready(&member.session));
        let ready: Vec<Key> = ready.map(|(key, _)| key).collect();
        for key in ready {
            if self.http.sessions.is_listening(key) {
                self.told_sessions.push((key, None));
            } else if let Some(member) = self.http.sessions.session(key) {
                // Told when it listens: once, however often the list has changed.
                let is_news = member.session.subscriber.miss(list);
                self.road.counters.subscriptions.frames_withheld += u64::from(is_news);
            }
        }
        self.tell_told_sessions(&list.change());
        self.weigh_told(ring, now);
    }

    /// Tells everybody who listens to it what has happened.
    pub(super) fn publish<R: Ring>(&mut self, ring: &mut R, change: &Change<'_>, now: Moment) {
        self.publication.begin();
        let (mut press, subscriptions) = self.press_and_subscriptions();
        let say = |stream: &Stream| press.say(change, stream);
        match change {
            Change::ToolsList => subscriptions.tell_list(List::Tools, say),
            Change::PromptsList => subscriptions.tell_list(List::Prompts, say),
            Change::ResourcesList => subscriptions.tell_list(List::Resources, say),
            Change::Resource { uri } => subscriptions.tell_name(Subject::Resource, uri, say),
            Change::Task { task, .. } => subscriptions.tell_name(Subject::Task, task.id, say),
        }
        self.tell_told_sessions(change);
        self.weigh_told(ring, now);
    }

    /// Tells everybody on this shard who listens to a task how it stands in this version of its
    /// state and was not told that: `tail`, as its own shard has encoded it.
    pub(super) fn publish_task<R: Ring>(
        &mut self,
        ring: &mut R,
        (task, version): (TaskId, u32),
        tail: &[u8],
        now: Moment,
    ) {
        let name = task.to_string();
        let task = TaskView {
            id: &name,
            status: TaskStatus::Working,
            status_message: None,
            created_ms: 0,
            updated_ms: 0,
            ttl_ms: None,
            poll_ms: 0,
        };
        // Only its kind is looked at: all there is to tell stands in the tail.
        let change = Change::Task { task, detail: TaskDetail::Nothing };
        self.publication.begin_task(&change, tail);
        let (mut press, subscriptions) = self.press_and_subscriptions();
        let say = |stream: &Stream| press.say(&change, stream);
        subscriptions.tell_task(&name, version, say);
        self.tell_told_sessions(&change);
        self.weigh_told(ring, now);
    }

    /// Tells all shards of the resources that local handlers say have changed. While letters to
    /// another shard wait for room, what has changed waits here: each resource once.
    pub(super) fn tell_updates<R: Ring>(&mut self, ring: &mut R, now: Moment) {
        if !self.road.desk.has_updates() || self.mailbox.waiting() > 0 {
            return;
        }
        for uri in self.road.desk.take_updates() {
            for neighbour in self.mailbox.neighbours() {
                let letter = Letter::Notice(Notice::Updated(Arc::clone(&uri)));
                self.mailbox.send(neighbour, letter);
            }
            self.publish(ring, &Change::Resource { uri: &uri }, now);
        }
    }

    /// A send is over: the streams of a connection that has read half of what waited are told what
    /// they missed. Nobody looks before a first frame has been withheld.
    #[inline]
    pub(super) fn catch_up<R: Ring>(&mut self, ring: &mut R, socket: Socket, now: Moment) {
        if self.road.counters.subscriptions.frames_withheld > 0
            && let Some(key) = self.link.key(socket)
        {
            self.catch_up_one(ring, key, now);
        }
    }

    fn catch_up_one<R: Ring>(&mut self, ring: &mut R, key: Key, now: Moment) {
        let Some(connection) = self.link.connections.get(key) else { return };
        let mut subscriber = connection.session.subscriber;
        let drained_bytes = connection.queue_bytes_max(&self.link.options) / 2;
        if !subscriber.is_behind() || connection.queued_bytes() > drained_bytes {
            return;
        }
        let (mut press, subscriptions) = self.press_and_subscriptions();
        while let Some(list) = subscriber.take_missed() {
            press.publication.begin();
            press.counters.subscriptions.frames_caught_up += 1;
            press.write(&list.change(), key, None);
        }
        let mut list_before = None;
        let mut late: Vec<Rc<str>> = Vec::new();
        subscriptions.catch_up(&mut subscriber, |stream, missed| {
            let (change, list) = match missed {
                Missed::List(list) => (list.change(), Some(list)),
                Missed::Name(Subject::Resource, uri) => (Change::Resource { uri }, None),
                // Its shard is asked how it stands by now.
                Missed::Name(Subject::Task, name) => {
                    late.push(name.clone());
                    return true;
                }
            };
            // Most often every stream of a connection has missed the same.
            if list.is_none() || list != list_before {
                press.publication.begin();
                list_before = list;
            }
            let said = press.say(&change, stream);
            press.counters.subscriptions.frames_caught_up += u64::from(said);
            said
        });
        for name in late {
            self.road.watch_task(&name);
        }
        if let Some(connection) = self.link.connections.get_mut(key) {
            connection.session.subscriber = subscriber;
        }
        self.weigh_told(ring, now);
    }

    /// What was told waits to be sent, and weighs as everything that does.
    fn weigh_told<R: Ring>(&mut self, ring: &mut R, now: Moment) {
        self.road.counters.subscriptions.publications_encoded = self.publication.encoded;
        let mut told = std::mem::take(&mut self.told);
        for key in told.drain(..) {
            self.weigh_or_end(ring, key, now);
        }
        self.told = told;
    }

    /// Ends the streams of a connection with their results, the server being about to go.
    ///
    /// Source: 2026-07-28, basic/patterns/subscriptions, "Ending a subscription".
    pub(super) fn conclude_streams(&mut self, key: Key) {
        let Some(mut subscriber) = self.take_subscriber(key) else { return };
        let mut ended = Vec::new();
        self.road.subscriptions.end_all(&mut subscriber, |stream| ended.push(stream));
        for stream in ended {
            self.road.counters.subscriptions.ended += 1;
            let Some(id) = stream.id() else { continue };
            if let Some(connection) = self.link.connections.get_mut(key) {
                connection.session.in_flight.remove(id);
            }
            let mut text = self.draft();
            let suffix = self.road.catalog.result_suffix(Revision::LATEST);
            message::result_open(&mut text, id);
            message::listen_result(&mut text, id, suffix);
            message::result_close(&mut text);
            self.say(Outlet::general(Party::Connection(key)), Said::Answer, text);
        }
    }

    /// Ends the streams of a connection without a word: it is over, or was cancelled as a whole.
    pub(super) fn end_streams(&mut self, key: Key) {
        if let Some(mut subscriber) = self.take_subscriber(key) {
            self.forget_streams(&mut subscriber);
        }
    }

    /// Ends the streams of a connection that is gone.
    pub(super) fn forget_streams(&mut self, subscriber: &mut Subscriber) {
        let Road { subscriptions, counters, .. } = &mut self.road;
        subscriptions.end_all(subscriber, |_| counters.subscriptions.ended += 1);
    }

    /// A legacy session listens over HTTP: it is told of the lists that have changed meanwhile.
    pub(super) fn tell_missed_lists(&mut self, key: Key) {
        while let Some(member) = self.http.sessions.session(key)
            && let Some(list) = member.session.subscriber.take_missed()
        {
            self.publication.begin();
            self.told_sessions.push((key, None));
            self.road.counters.subscriptions.frames_caught_up += 1;
            self.tell_told_sessions(&list.change());
        }
    }

    /// Tells the legacy sessions over HTTP that are to hear of `change`.
    fn tell_told_sessions(&mut self, change: &Change<'_>) {
        for (key, id) in std::mem::take(&mut self.told_sessions) {
            let mut text = self.draft();
            self.publication.say(change, id.as_ref().map(IdBuf::as_id), &mut text);
            self.road.counters.subscriptions.frames_published += 1;
            self.say(Outlet::general(Party::Session(key)), Said::Word, text);
        }
    }

    fn press(&mut self) -> Press<'_> {
        self.press_and_subscriptions().0
    }

    fn press_and_subscriptions(&mut self) -> (Press<'_>, &mut Subscriptions) {
        let Self { link, http, websockets, road, publication, told, told_sessions, .. } = self;
        let Road { subscriptions, counters, .. } = road;
        let date = *http.date();
        let (now, touched) = (http.now(), &mut http.touched);
        let press = Press {
            link,
            websockets,
            publication,
            counters,
            told,
            told_sessions,
            touched,
            date,
            now,
        };
        (press, subscriptions)
    }

    fn take_subscriber(&mut self, key: Key) -> Option<Subscriber> {
        let connection = self.link.connections.get_mut(key)?;
        connection.standing.listens = false;
        Some(std::mem::take(&mut connection.session.subscriber))
    }
}

/// What writes frames to streams.
struct Press<'a> {
    link: &'a mut Link<Session>,
    websockets: &'a mut WebSockets,
    publication: &'a mut Publication,
    counters: &'a mut Counters,
    told: &'a mut Vec<Key>,
    /// Legacy sessions over HTTP, to be told behind the others.
    told_sessions: &'a mut Vec<(Key, Option<IdBuf>)>,
    /// Connections over HTTP that were told something.
    touched: &'a mut Vec<Key>,
    date: Date,
    now: Moment,
}

impl Press<'_> {
    /// Tells one stream of a change; `false` where its peer is too slow for it.
    #[inline]
    fn say(&mut self, change: &Change<'_>, stream: &Stream) -> bool {
        let key = match stream.party {
            Party::Connection(key) => key,
            Party::Session(key) => {
                self.told_sessions.push((key, stream.id().map(IdBuf::from)));
                return true;
            }
        };
        let Some(connection) = self.link.connections.get_mut(key) else { return true };
        if connection.queued_bytes() > connection.queue_bytes_max(&self.link.options) {
            connection.session.subscriber.fall_behind();
            self.counters.subscriptions.frames_withheld += 1;
            return false;
        }
        self.write(change, key, stream.id());
        true
    }

    /// Tells one legacy session that a list has changed.
    fn say_session(&mut self, list: List, key: Key) {
        let Some(connection) = self.link.connections.get_mut(key) else { return };
        if connection.queued_bytes() > connection.queue_bytes_max(&self.link.options) {
            let is_news = connection.session.subscriber.miss(list);
            self.counters.subscriptions.frames_withheld += u64::from(is_news);
        } else {
            self.write(&list.change(), key, None);
        }
    }

    /// Writes one frame. Whoever is about to go misses nothing.
    #[inline]
    fn write(&mut self, change: &Change<'_>, key: Key, id: Option<Id<'_>>) {
        let Some(connection) = self.link.connections.get(key) else { return };
        let manner = connection.session.manner;
        let framing = self.link.framing(key);
        if framing == Framing::Requests {
            return self.write_event(change, key, id);
        }
        let Some(out) = self.link.outgoing(key) else { return };
        if framing == Framing::Frames {
            let mark = writer::begin(out);
            self.publication.say(change, id, out);
            self.websockets.end_frame(out, mark, manner);
        } else {
            self.publication.say(change, id, out);
            ndjson::end_line(out);
        }
        self.counters.traffic.messages_out += 1;
        self.counters.subscriptions.frames_published += 1;
        self.note_told(key);
    }

    /// Writes one frame as an event of the stream that its connection is.
    fn write_event(&mut self, change: &Change<'_>, key: Key, id: Option<Id<'_>>) {
        let Some(connection) = self.link.connections.get_mut(key) else { return };
        let Some(mut exchange) = connection.session.exchange.take() else { return };
        if let Some(out) = self.link.outgoing(key) {
            let publication = &mut *self.publication;
            exchange.say(out, (Said::Word, None), &self.date, |out| {
                publication.say(change, id, out);
            });
            exchange.spoke = self.now;
        }
        if let Some(connection) = self.link.connections.get_mut(key) {
            connection.session.exchange = Some(exchange);
        }
        self.touched.push(key);
        self.counters.traffic.messages_out += 1;
        self.counters.subscriptions.frames_published += 1;
    }

    fn note_told(&mut self, key: Key) {
        // Streams of one connection often stand together: most of them are one look.
        if self.told.last() != Some(&key) {
            self.told.push(key);
        }
    }
}
