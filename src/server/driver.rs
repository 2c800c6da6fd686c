//! The driver of one shard: where completions, letters and time meet the road.
//!
//! What it keeps true: it never waits; a connection that is refused is told why; when it drains,
//! nothing new is read, what is owed is sent, and what takes too long is cut.

mod arrivals;
mod asking;
mod http;
mod publishing;
mod saying;
mod settle;
mod tasking;
mod websocket;

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use super::desk::Note;
use super::http::{Census, Http};
use super::letter::{Letter, Limits, Notice};
use super::pipeline::Road;
use super::session::{Member, Session};
use super::subscriptions::Publication;
use super::websocket::WebSockets;
use crate::base::slab::Key;
use crate::base::time::Moment;
use crate::engine::mesh::{Mailbox, ShardId, Tally};
use crate::engine::ring::{Completion, Listener, Operation, Ring};
use crate::engine::shard::Driver;
use crate::link::{Ending, Link, Statistics};
use crate::observe::counters::Counters;
use crate::observe::label::Transport;
use crate::observe::throttle::Throttle;
use crate::protocol::json::Parser;
use crate::protocol::message::Change;
use crate::protocol::rpc::IdBuf;

/// Local futures run in one turn before the ring is looked at again.
const FUTURES_PER_TURN_MAX: usize = 256;

/// Letters taken in one turn.
const LETTERS_PER_TURN_MAX: usize = 256;

/// What one shard of a server carries. Made by [`super::ShardSeed::build`], run by its shard.
pub struct ShardDriver {
    pub(super) shard: ShardId,
    pub(super) link: Link<Session>,
    pub(super) parser: Parser,
    pub(super) road: Road,
    pub(super) mailbox: Mailbox<Letter>,
    pub(super) doors: Vec<Door>,
    /// Connections served by all shards together.
    pub(super) served: Arc<Tally>,
    pub(super) limits: Limits,
    /// What is kept for HTTP.
    pub(super) http: Http<Member>,
    /// What is kept for WebSocket.
    pub(super) websockets: WebSockets,
    /// Connections over HTTP, upgraded ones among them, served by all shards together.
    pub(super) served_http: Arc<Tally>,
    /// Sessions and streams of all shards together.
    pub(super) census: Census,
    pub(super) stage: Stage,
    /// The shard ends with its connections: there will be no other (stdio).
    pub(super) ends_with_input: bool,
    /// Sessions have ended in this turn because the shard does.
    ends_sessions: bool,
    pub(super) throttle: Throttle,
    letters: Vec<Letter>,
    notes: Vec<Note>,
    /// What is being told to those who listen.
    publication: Publication,
    /// Connections that were told something and are to be weighed.
    told: Vec<Key>,
    /// Legacy sessions over HTTP that are to be told the same.
    told_sessions: Vec<(Key, Option<IdBuf>)>,
    /// Where texts are written that come later, one at a time.
    text: Vec<u8>,
}

/// A listener and what comes through it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Door {
    pub(super) listener: Listener,
    pub(super) transport: Transport,
}

/// How far the shard has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Stage {
    /// Serving.
    Serving,
    /// Serving what is in flight until this moment at the latest.
    Draining(Moment),
    /// That moment has passed: everything was cut and is about to be closed.
    Cut,
}

/// What a driver is made of.
pub(super) struct Parts {
    pub(super) link: Link<Session>,
    pub(super) parser: Parser,
    pub(super) road: Road,
    pub(super) mailbox: Mailbox<Letter>,
    pub(super) served: Arc<Tally>,
    pub(super) served_http: Arc<Tally>,
    pub(super) census: Census,
    pub(super) http: Http<Member>,
    pub(super) websockets: WebSockets,
    pub(super) limits: Limits,
}

impl ShardDriver {
    /// A driver without connections.
    pub(super) fn new(parts: Parts) -> Self {
        let Parts { link, parser, road, mailbox, limits, .. } = parts;
        let Parts { served, served_http, census, http, websockets, .. } = parts;
        Self {
            shard: road.shard,
            link,
            parser,
            road,
            mailbox,
            doors: Vec::new(),
            served,
            http,
            websockets,
            served_http,
            census,
            limits,
            stage: Stage::Serving,
            ends_with_input: false,
            ends_sessions: false,
            throttle: Throttle::default(),
            letters: Vec::with_capacity(LETTERS_PER_TURN_MAX),
            notes: Vec::new(),
            publication: Publication::default(),
            told: Vec::new(),
            told_sessions: Vec::new(),
            text: Vec::new(),
        }
    }

    /// What this shard has counted so far.
    pub fn counters(&self) -> Counters {
        let mut counters = self.road.counters.clone();
        let Statistics { paused, sends, bytes_in, bytes_out, frames } = self.link.statistics;
        let traffic = &mut counters.traffic;
        (traffic.bytes_in, traffic.bytes_out) = (bytes_in, bytes_out);
        (traffic.sends, traffic.pauses) = (sends, paused);
        counters.websockets = self.websockets.count(&frames);
        let letters = self.mailbox.counts();
        let shard = &mut counters.shard;
        (shard.letters_in, shard.letters_out) = (letters.received, letters.sent);
        shard.letters_refused = letters.refused + letters.refused_post;
        let refused = self.road.tasks.refused;
        let requests = &mut counters.requests;
        (requests.tasks_refused_full, requests.tasks_refused_share) =
            (refused.by_shard, refused.by_connection);
        shard.events_withheld = self.throttle.withheld_total();
        counters
    }

    /// Connections that are open at this moment, those that are being refused or ended included.
    pub const fn connections_open(&self) -> usize {
        self.link.connections.len()
    }

    /// Handlers at work at this moment, those that nobody waits for included.
    pub const fn calls_open(&self) -> usize {
        self.road.calls.len()
    }

    /// Streams of notifications at this moment, those of legacy sessions included.
    pub const fn streams_open(&self) -> usize {
        self.road.subscriptions.len()
    }

    /// Questions to clients that are not answered at this moment, those of tasks included.
    pub fn questions_open(&self) -> usize {
        self.road.questions.len()
    }

    /// Requests over HTTP whose answers are not complete at this moment, streams included.
    pub const fn exchanges_open(&self) -> usize {
        self.http.open
    }

    /// Legacy sessions over HTTP that are kept at this moment, whether a client is there or not.
    pub const fn sessions_open(&self) -> usize {
        self.http.sessions.len()
    }

    /// Tasks that are kept at this moment, running or ended.
    pub const fn tasks_kept(&self) -> usize {
        self.road.tasks.len()
    }

    /// Takes new limits. Connections that are past one already are not cut for it.
    fn keep_to(&mut self, limits: &Limits) {
        self.limits = *limits;
        self.link.options = limits.link;
        self.road.request_max = limits.request_max;
        self.road.tasks.bounds = limits.tasks;
        self.road.requests_in_flight_max = limits.requests_in_flight_max;
        self.road.rounds.round_max = limits.round_max;
        self.road.questions.question_max = limits.question_max;
        self.road.subscriptions.bounds = limits.subscriptions;
        self.http.sessions.bounds = limits.sessions;
        self.http.limits = limits.http;
        self.http.patience = limits.patience;
        self.websockets.rules = limits.websocket;
    }

    /// Begins to drain: nothing new is accepted or read, what is owed may still be sent.
    pub(super) fn drain<R: Ring>(&mut self, ring: &mut R, now: Moment) {
        if self.stage != Stage::Serving {
            return;
        }
        self.stage = Stage::Draining(now.after(self.limits.drain_max));
        for door in self.doors.drain(..) {
            ring.submit(Operation::CloseListener(door.listener));
        }
        // Before the connections end: those that owe nothing end at once.
        self.dismiss_questions(None, now);
        self.drain_sessions();
        self.fail_waiting_tasks(ring, now);
        for key in self.open_keys() {
            self.end_listening(key);
            self.conclude_streams(key);
            self.link.finish(ring, key, Ending::Drain, now);
        }
    }

    /// Time for draining is over: whatever is still open is cut.
    fn cut<R: Ring>(&mut self, ring: &mut R) {
        self.stage = Stage::Cut;
        for key in self.open_keys() {
            self.abandon(key);
            self.link.close(ring, key, Ending::Drain);
        }
    }

    fn open_keys(&self) -> Vec<Key> {
        self.link.connections.iter().map(|(key, _)| key).collect()
    }

    fn take_letter<R: Ring>(&mut self, ring: &mut R, letter: Letter, now: Moment) {
        match letter {
            Letter::Notice(Notice::Drain) => self.drain(ring, now),
            Letter::Notice(Notice::Catalog { catalog, changes, offered }) => {
                self.offer(ring, catalog, (changes, &offered), now);
            }
            Letter::Notice(Notice::Changed(changes)) => self.tell_lists(ring, changes, now),
            Letter::Notice(Notice::Updated(uri)) => {
                self.publish(ring, &Change::Resource { uri: &uri }, now);
            }
            Letter::Notice(Notice::Limits(limits)) => self.keep_to(&limits),
            Letter::Changed { key, made } => self.road.drafts.settle(key, made),
            Letter::Log(message) => self.tell_log(ring, &message, now),
            Letter::Progress(progress) => self.tell_progress(ring, &progress, now),
            Letter::Http(letter) => self.take_http_letter(*letter, now),
            Letter::Task(letter) => self.take_task_letter(ring, *letter, now),
            Letter::Finished { ticket, result } => self.settle(ring, ticket, result, now),
        }
    }

    /// Reads the notes that local handlers have left.
    fn take_notes<R: Ring>(&mut self, ring: &mut R, now: Moment) {
        let desk = Rc::clone(&self.road.desk);
        loop {
            self.tell_updates(ring, now);
            let mut notes = std::mem::take(&mut self.notes);
            desk.take_notes(&mut notes);
            if notes.is_empty() {
                self.notes = notes;
                return;
            }
            for note in notes.drain(..) {
                match note {
                    Note::Ask { role, number, request, slot } => {
                        self.ask(ring, (role.asker(), number), request, slot, now);
                    }
                    Note::Asked { ticket, posed, open } => {
                        self.end_round(ring, ticket, (&posed, &open), now);
                    }
                    Note::Begin(role) => self.turn_into_task(ring, &role, now),
                    Note::Change(draft) => self.road.drafts.begin(draft, now),
                    Note::CloseStream { ticket } => {
                        let outlet = self.road.calls.awaited(ticket).map(|call| call.outlet);
                        if let Some(outlet) = outlet {
                            self.interrupt(outlet);
                        }
                    }
                    Note::Finished { ticket, result } => self.settle(ring, ticket, result, now),
                    Note::Log(message) => self.tell_log(ring, &message, now),
                    Note::Task { task, note } => self.take_task_note(ring, task, note, now),
                    Note::Progress(progress) => self.tell_progress(ring, &progress, now),
                    Note::Withdraw { number } => self.withdraw(number, now),
                }
            }
            self.notes = notes;
        }
    }
}

impl fmt::Debug for ShardDriver {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ShardDriver")
            .field("shard", &self.shard)
            .field("connections_open", &self.connections_open())
            .field("calls_open", &self.calls_open())
            .field("streams_open", &self.streams_open())
            .field("questions_open", &self.questions_open())
            .field("exchanges_open", &self.exchanges_open())
            .field("sessions_open", &self.sessions_open())
            .field("tasks_kept", &self.tasks_kept())
            .finish_non_exhaustive()
    }
}

impl<R: Ring> Driver<R> for ShardDriver {
    #[inline]
    fn arrive(&mut self, ring: &mut R, completion: Completion, now: Moment) {
        match completion {
            Completion::Received { socket, lease } => self.received(ring, socket, lease, now),
            Completion::Sent { socket, buffer, result } => {
                let key = self.link.key(socket);
                let next = self.link.sent(ring, socket, buffer, &result, now);
                if let Some(key) = key {
                    self.sent_over(key);
                }
                self.follow(ring, next, now);
                self.catch_up(ring, socket, now);
            }
            Completion::Accepted { listener, socket, peer } => {
                self.accepted(ring, listener, socket, peer, now);
            }
            Completion::AcceptFailed { listener, error } => {
                self.accept_failed(listener, &error, now);
            }
            Completion::Ended { socket, result } => {
                let next = self.link.ended(ring, socket, &result);
                self.follow(ring, next, now);
            }
            Completion::Closed { socket } => self.closed(socket, now),
            // A server opens no connections.
            Completion::Connected { .. } => {}
        }
    }

    fn expire(&mut self, ring: &mut R, now: Moment) {
        self.road.desk.begin_turn(now);
        self.http.begin_turn(self.road.calendar, now);
        self.link.expire(ring, now);
        self.expire_exchanges(now);
        self.expire_sessions(now);
        self.road.desk.expire(now);
        self.expire_questions(now);
        self.road.drafts.expire(now);
        while let Some(ticket) = self.road.calls.overdue(now) {
            self.time_out(ring, ticket, now);
        }
        self.expire_tasks(ring, now);
        if let Stage::Draining(deadline) = self.stage
            && deadline <= now
        {
            self.stop_tasks(now);
            self.cut(ring);
        }
    }

    fn take_letters(&mut self, ring: &mut R, now: Moment) -> bool {
        let mut letters = std::mem::take(&mut self.letters);
        self.http.begin_turn(self.road.calendar, now);
        self.mailbox.receive(&mut letters, LETTERS_PER_TURN_MAX);
        let full = letters.len() >= LETTERS_PER_TURN_MAX;
        for letter in letters.drain(..) {
            self.take_letter(ring, letter, now);
        }
        self.letters = letters;
        full
    }

    fn run_ready(&mut self, ring: &mut R, now: Moment) -> bool {
        self.road.desk.begin_turn(now);
        self.http.begin_turn(self.road.calendar, now);
        // Their handlers have this turn and the next one to end.
        self.ends_sessions = self.end_sessions(now);
        let more = self.road.host.run_ready(FUTURES_PER_TURN_MAX);
        self.take_notes(ring, now);
        more || self.ends_sessions
    }

    fn flush(&mut self, ring: &mut R, now: Moment) {
        self.tell_changed_tasks(ring, now);
        self.end_unanswered();
        self.settle_exchanges(ring, now);
        self.be_counted();
        self.post_letters();
        self.link.flush(ring, now);
        self.mailbox.wake_targets(|waker| ring.wake(waker));
        self.mailbox.find_slow(self.road.letters_waiting_max, &mut self.road.slow_shards);
        self.road.counters.shard.turns += 1;
    }

    fn deadline(&self) -> Option<Moment> {
        let drain = match self.stage {
            Stage::Serving | Stage::Cut => None,
            Stage::Draining(deadline) => Some(deadline),
        };
        let Road { calls, desk, drafts, questions, tasks, .. } = &self.road;
        let handlers = [calls.deadline(), desk.deadline(), drafts.deadline(), tasks.deadline()];
        let others = [questions.deadline(), self.link.deadline(), self.http.deadline(), drain];
        handlers.into_iter().chain(others).flatten().min()
    }

    fn prepare_park(&mut self) -> bool {
        self.road.desk.end_turn();
        self.mailbox.prepare_park() && self.road.host.prepare_park() && !self.road.desk.has_notes()
    }

    fn is_finished(&self) -> bool {
        let ends = self.stage != Stage::Serving || self.ends_with_input;
        // What runs as a task has the time of a drain, though nobody is there to ask for it. With
        // the one client of a process (stdio) that has said its last, it is let go at once.
        // So has what another shard's connection waits for: a session ends when there is none. So
        // has a handler whose change is being made.
        let waits = matches!(self.stage, Stage::Draining(_))
            && (self.road.tasks.running() > 0
                || self.http.sessions.len() > 0
                || self.road.drafts.are_awaited());
        let is_left = !self.link.connections.is_empty() || self.mailbox.waiting() > 0;
        ends && !waits && !self.ends_sessions && !is_left
    }
}
