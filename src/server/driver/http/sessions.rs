//! Legacy sessions: requests that name one, on the shard that keeps it and on those that do not.
//!
//! What it keeps true: a session is carried by whichever connections its client opens, on any
//! shard; what it says belongs to one of its streams and goes by the exchange that carries it; what
//! finds none is kept until the client comes back for it, within bounds.
//!
//! Source: 2025-03-26 to 2025-11-25, `basic/transports`, "Session Management", "Listening for
//! Messages from the Server", "Resumability and Redelivery"; 2024-11-05 `basic/transports`, "HTTP
//! with SSE".

use bytes::Bytes;

use super::super::ShardDriver;
use super::Incoming;
use crate::base::slab::Key;
use crate::base::time::Moment;
use crate::link::Connection;
use crate::protocol::json::{self, Parser};
use crate::server::http::{
    Bearer, ExchangeAddress, Gone, HttpLetter, LISTENING, Manner, Refusal, SessionId, Utterance,
    Wish,
};
use crate::server::letter::Letter;
use crate::server::party::{Outlet, Party, Said};
use crate::server::pipeline::{Passage, Road};
use crate::server::session::{Member, Peer};
use crate::transport::http::fields::Fields;
use crate::transport::http::ladder::Step;
use crate::transport::http::response::{self, Body};
use crate::transport::http::sse::EventId;
use crate::transport::http::status::Status;

impl ShardDriver {
    /// A message of a session.
    #[inline]
    pub(super) fn post_to_session(
        &mut self,
        incoming: &Incoming<'_>,
        session: &[u8],
        (text, length): (&mut [u8], usize),
    ) {
        let manner = self.manner_in_session(incoming.manner);
        let incoming = &Incoming { manner, ..*incoming };
        let Some(id) = SessionId::parse(session) else {
            return self.refuse_session(incoming);
        };
        let owner = id.owner(self.road.shards);
        if owner != self.shard {
            let from =
                self.open_exchange(incoming, self.manner_of(manner, id), Bearer::Session(id));
            // The parser reads in whole vectors: the padding travels along.
            let padded = text.len().min(length + json::PADDING_BYTES);
            let wish = Wish::Carry { text: text[..padded].to_vec(), length };
            let asked = HttpLetter::Asked { session: id, from, wish };
            self.road.letters.push((owner, Letter::Http(Box::new(asked))));
            return;
        }
        let Some(key) = self.http.sessions.find(id) else {
            return self.refuse_session(incoming);
        };
        self.carry_here(incoming, (id, key), (text, length));
    }

    /// Carries a message of a session of this shard.
    fn carry_here(
        &mut self,
        incoming: &Incoming<'_>,
        (id, key): (SessionId, Key),
        (text, length): (&mut [u8], usize),
    ) {
        let Incoming { now, .. } = *incoming;
        let manner = self.manner_of(incoming.manner, id);
        let (origin, date) = (incoming.origin(), *self.http.date());
        self.http.sessions.touch(key, now);
        let stream = self.http.sessions.next_stream(key);
        let Self { parser, link, road, http, .. } = self;
        let (Some(connection), Some(member)) =
            (link.connections.get_mut(incoming.key), http.sessions.session(key))
        else {
            return;
        };
        if member.is_pair {
            return self.refuse_session(incoming);
        }
        let Connection { outgoing, .. } = connection;
        let mark = manner.begin(outgoing, (Status::OK, Body::Json), origin, &date);
        let carried = carry((parser, road), member, (key, stream), outgoing, (text, length), now);
        match (carried.said, carried.awaited) {
            (Said::Answer, 0) => response::end(outgoing, mark),
            (Said::Refusal(kind), 0) => {
                let mark = manner.amend(outgoing, (mark, kind), origin, &date);
                response::end(outgoing, mark);
            }
            (Said::Nothing, 0) => {
                outgoing.truncate(mark.head());
                let fields = Fields { session: None, ..self.fields(incoming, origin) };
                return self.answer(incoming, (Status::ACCEPTED, Body::Nothing, fields), &[]);
            }
            (said, awaited) => {
                let text = outgoing.split_off(mark.body());
                outgoing.truncate(mark.head());
                let from = self.open_exchange(incoming, manner, Bearer::Session(id));
                self.begin_stream(key, from, awaited, (said, text));
                return;
            }
        }
        self.close_after(incoming);
    }

    /// A stream of a session, by GET.
    pub(super) fn listen_to(
        &mut self,
        incoming: &Incoming<'_>,
        session: &[u8],
        last_event: Option<&[u8]>,
    ) {
        let manner = self.manner_in_session(incoming.manner);
        let incoming = &Incoming { manner, ..*incoming };
        let Some(id) = SessionId::parse(session) else {
            return self.refuse_session(incoming);
        };
        let after = match last_event.map(EventId::parse) {
            Some(None) => {
                let refusal = Step::EventKnown.refuse(super::hearing::refusal_of(Step::EventKnown));
                return self.refuse(incoming, &refusal);
            }
            Some(after) => after,
            None => None,
        };
        self.wish_of(incoming, id, Wish::Listen(after));
        // Nothing is owed to it: it neither holds a drain back nor is its silence a reason to end.
        if let Some(connection) = self.link.connections.get_mut(incoming.key)
            && connection.session.exchange.is_some()
        {
            connection.standing.repay();
            connection.standing.listens = true;
        }
    }

    /// The end of a session, by DELETE.
    pub(super) fn end_of_session(&mut self, incoming: &Incoming<'_>, session: &[u8]) {
        let manner = self.manner_in_session(incoming.manner);
        let incoming = &Incoming { manner, ..*incoming };
        match SessionId::parse(session) {
            Some(id) => self.wish_of(incoming, id, Wish::End),
            None => self.refuse_session(incoming),
        }
    }

    fn wish_of(&mut self, incoming: &Incoming<'_>, id: SessionId, wish: Wish) {
        let manner = self.manner_of(incoming.manner, id);
        let from = self.open_exchange(incoming, manner, Bearer::Session(id));
        let owner = id.owner(self.road.shards);
        if owner == self.shard {
            return self.take_wish(id, from, wish, incoming.now);
        }
        let asked = HttpLetter::Asked { session: id, from, wish };
        self.road.letters.push((owner, Letter::Http(Box::new(asked))));
    }

    const fn manner_in_session(&self, manner: Manner) -> Manner {
        Manner { is_modern: false, ..manner }
    }

    /// In the strict profile every answer names its session (seed 003).
    fn manner_of(&self, manner: Manner, id: SessionId) -> Manner {
        let session = self.http.profile.strict.map(|_| id);
        Manner { session, ..manner }
    }

    fn refuse_session(&mut self, incoming: &Incoming<'_>) {
        let refusal = Step::SessionOpen.refuse(super::hearing::refusal_of(Step::SessionOpen));
        self.refuse(incoming, &refusal);
    }

    /// A letter about an exchange.
    pub(in crate::server::driver) fn take_http_letter(&mut self, letter: HttpLetter, now: Moment) {
        match letter {
            HttpLetter::Asked { session, from, wish } => self.take_wish(session, from, wish, now),
            HttpLetter::Left { session, exchange, is_sent } => {
                self.exchange_left(session, exchange, is_sent);
            }
            HttpLetter::Told { to, utterance } => self.hear(to, utterance),
        }
    }

    /// What a request wants of a session of this shard.
    fn take_wish(&mut self, id: SessionId, from: ExchangeAddress, wish: Wish, now: Moment) {
        let Some(key) = self.http.sessions.find(id) else {
            return self.tell(from, Utterance::Refused(Step::SessionOpen));
        };
        match wish {
            Wish::Carry { text, length } => self.carry_for(key, from, (text, length), now),
            Wish::End => {
                // Told before its streams end: its own exchange is none of them.
                if let Some(gone) = self.http.sessions.remove(key) {
                    self.bury(gone, now);
                }
                self.tell(from, Utterance::Bare(Status::NO_CONTENT));
            }
            Wish::Listen(after) => self.attend(key, from, after),
        }
    }

    /// Carries a message that came by another shard.
    fn carry_for(
        &mut self,
        key: Key,
        from: ExchangeAddress,
        (mut text, length): (Vec<u8>, usize),
        now: Moment,
    ) {
        self.http.sessions.touch(key, now);
        let stream = self.http.sessions.next_stream(key);
        let Self { parser, road, http, .. } = self;
        let Some(member) = http.sessions.session(key) else { return };
        text.resize(length + json::PADDING_BYTES, 0);
        let mut out = Vec::new();
        let text = (&mut text[..], length);
        let carried = carry((parser, road), member, (key, stream), &mut out, text, now);
        match (carried.said, carried.awaited) {
            (Said::Nothing, 0) => self.tell(from, Utterance::Bare(Status::ACCEPTED)),
            (said @ (Said::Answer | Said::Refusal(_)), 0) => {
                self.tell(from, Utterance::Answer { said, text: out });
            }
            (said, awaited) => self.begin_stream(key, from, awaited, (said, out)),
        }
    }

    /// Requests of a session wait for their answers: a stream for them, with what was said at once.
    fn begin_stream(
        &mut self,
        key: Key,
        from: ExchangeAddress,
        awaited: u32,
        (said, text): (Said, Vec<u8>),
    ) {
        for _ in 0..awaited {
            self.http.sessions.begin_request(key);
        }
        let Ok(stream) = self.http.sessions.open(key, from) else {
            return self.tell(from, Utterance::Bare(Status::UNAVAILABLE));
        };
        if awaited != 1
            && let Some(member) = self.http.sessions.session(key)
        {
            member.batches.push((stream, awaited));
        }
        if said != Said::Nothing {
            self.say_in_session(key, stream, Said::Word, &text);
        }
    }

    /// A client wants to hear what belongs to no request, or goes on with a stream that broke.
    fn attend(&mut self, key: Key, from: ExchangeAddress, after: Option<EventId>) {
        let sessions = &mut self.http.sessions;
        let begun = match after {
            None => sessions.listen(key, from).map(|after| (LISTENING, after, None, false)),
            Some(EventId { stream, number }) => {
                let resumed = sessions.resume(key, stream, number, from);
                resumed.map(|it| (stream, number, it.replaced, it.is_finished))
            }
        };
        let (stream, after, replaced, is_finished) = match begun {
            Ok(begun) => begun,
            Err(refusal) => return self.tell(from, Utterance::Refused(step_of(refusal))),
        };
        if let Some(replaced) = replaced {
            self.tell(replaced, Utterance::End { retry_ms: None });
        }
        self.tell(from, Utterance::Open);
        let events = self.http.sessions.replay(key, stream, after);
        let events: Vec<(u32, Bytes)> = events.map(|(n, text)| (n, text.clone())).collect();
        for (number, text) in events {
            let id = EventId { stream, number };
            self.tell(from, Utterance::Event { id, said: Said::Word, text });
        }
        if is_finished {
            self.tell(from, Utterance::End { retry_ms: None });
        }
    }

    /// Says a text on a stream of a session.
    pub(in crate::server::driver) fn say_in_session(
        &mut self,
        key: Key,
        stream: u32,
        said: Said,
        text: &[u8],
    ) {
        let Some(member) = self.http.sessions.session(key) else { return };
        let goes_on = stream == LISTENING || member.waits_on(stream, said);
        let said = if goes_on { Said::Word } else { said };
        let sessions = &mut self.http.sessions;
        if said.is_answer() && !sessions.has_events(key, stream) {
            // Nobody was promised that it could be had later.
            let exchange = sessions.finish(key, stream);
            if let Some(to) = exchange {
                let now = self.http.now();
                self.http.sessions.detach(key, stream, to, true, now);
                self.tell(to, Utterance::Answer { said, text: text.to_vec() });
            }
            return;
        }
        if stream != LISTENING && !sessions.has_events(key, stream) {
            self.push_event(key, stream, Said::Word, Bytes::new());
        }
        self.push_event(key, stream, said, Bytes::copy_from_slice(text));
        if said.is_answer() {
            self.http.sessions.finish(key, stream);
        }
    }

    /// A request of a session has ended and nobody wants its answer: its stream ends with it.
    pub(in crate::server::driver) fn end_without_answer(&mut self, key: Key, stream: u32) {
        let Some(member) = self.http.sessions.session(key) else { return };
        if stream == LISTENING || member.waits_on(stream, Said::Answer) {
            return;
        }
        if let Some(to) = self.http.sessions.finish(key, stream) {
            let now = self.http.now();
            self.http.sessions.detach(key, stream, to, true, now);
            self.tell(to, Utterance::End { retry_ms: None });
        }
    }

    fn push_event(&mut self, key: Key, stream: u32, said: Said, text: Bytes) {
        let Some(pushed) = self.http.sessions.push(key, stream, text.clone()) else { return };
        if let Some(to) = pushed.exchange {
            let id = EventId { stream, number: pushed.number };
            self.tell(to, Utterance::Event { id, said, text });
        }
    }

    /// Ends the exchange that carries a stream, which goes on: its client comes back for the rest.
    ///
    /// Source: 2025-11-25 `basic/transports`, "Sending Messages to the Server" (SEP-1699).
    pub(in crate::server::driver) fn interrupt(&mut self, outlet: Outlet) {
        let (Party::Session(key), stream) = (outlet.party, outlet.stream) else { return };
        if stream == LISTENING {
            return;
        }
        if !self.http.sessions.has_events(key, stream) {
            self.push_event(key, stream, Said::Word, Bytes::new());
        }
        let Some(to) = self.http.sessions.exchange(key, stream) else { return };
        let now = self.http.now();
        self.http.sessions.detach(key, stream, to, true, now);
        let retry_ms = Some(self.http.patience.retry_ms);
        self.tell(to, Utterance::End { retry_ms });
    }

    /// An exchange that carried a stream is over.
    pub(super) fn exchange_left(
        &mut self,
        session: SessionId,
        exchange: ExchangeAddress,
        is_sent: bool,
    ) {
        let now = self.http.now();
        let Some(key) = self.http.sessions.find(session) else { return };
        self.http.sessions.leave(key, exchange, is_sent, now);
        // The client of 2024-11-05 has one stream, and its session ends with it.
        if self.http.sessions.session(key).is_some_and(|member| member.is_pair)
            && !self.http.sessions.is_listening(key)
            && let Some(gone) = self.http.sessions.remove(key)
        {
            self.bury(gone, now);
        }
    }

    /// Ends the sessions that were idle for too long.
    pub(in crate::server::driver) fn expire_sessions(&mut self, now: Moment) {
        while let Some(gone) = self.http.sessions.expire(now) {
            self.bury(gone, now);
        }
    }

    /// Ends what a session that is gone still has: its calls, its streams, its questions.
    pub(in crate::server::driver) fn bury(&mut self, gone: Gone<Member>, now: Moment) {
        let Gone { key, session: mut member, exchanges, .. } = gone;
        for exchange in exchanges {
            self.tell(exchange, Utterance::End { retry_ms: None });
        }
        self.forget_streams(&mut member.session.subscriber);
        for (_, ticket) in member.session.in_flight.drain() {
            if self.road.give_up(Key::from_bits(ticket.0)) {
                self.road.counters.requests.cancelled += 1;
            }
        }
        self.dismiss_questions(Some(Party::Session(key)), now);
    }

    /// The server drains: every session ends when what is in flight has its answer; streams that
    /// wait for nothing end now.
    pub(in crate::server::driver) fn drain_sessions(&mut self) {
        let keys: Vec<Key> = self.http.sessions.iter_mut().map(|(key, _)| key).collect();
        for key in keys {
            if let Some(to) = self.http.sessions.exchange(key, LISTENING) {
                let now = self.http.now();
                self.http.sessions.detach(key, LISTENING, to, true, now);
                self.tell(to, Utterance::End { retry_ms: None });
            }
        }
    }

    /// The endpoint of 2024-11-05: a stream that begins a session, and says where to post.
    pub(super) fn begin_pair(&mut self, incoming: &Incoming<'_>) {
        let manner = self.manner_in_session(incoming.manner);
        let incoming = &Incoming { manner, ..*incoming };
        let member = Member { is_pair: true, ..Member::new() };
        let Ok(begun) = self.http.sessions.begin(member, incoming.now) else {
            let fields = Fields {
                retry_after_seconds: Some(super::RETRY_AFTER_SECONDS),
                ..self.fields(incoming, incoming.origin())
            };
            let answer = (Status::UNAVAILABLE, Body::Nothing, fields);
            return self.answer(incoming, answer, &[]);
        };
        self.http.evicted.extend(begun.evicted);
        let from = self.open_exchange(incoming, manner, Bearer::Session(begun.id));
        if let Some(connection) = self.link.connections.get_mut(incoming.key) {
            connection.standing.repay();
            connection.standing.listens = true;
        }
        if self.http.sessions.listen(begun.key, from).is_ok() {
            let id = begun.id.text();
            let id = String::from_utf8_lossy(&id);
            let parameter = crate::transport::http::ladder::SESSION_PARAMETER;
            let uri = format!("/messages?{parameter}={id}");
            self.tell(from, Utterance::Endpoint(uri.into()));
        }
    }

    /// A message of a client of 2024-11-05: taken at once, answered on its stream.
    pub(super) fn post_to_pair(
        &mut self,
        incoming: &Incoming<'_>,
        session: &[u8],
        (text, length): (&mut [u8], usize),
    ) {
        let manner = self.manner_in_session(incoming.manner);
        let incoming = &Incoming { manner, ..*incoming };
        let id = SessionId::parse(session);
        let found = id.filter(|id| id.owner(self.road.shards) == self.shard);
        let Some(key) = found.and_then(|id| self.http.sessions.find(id)) else {
            return match id {
                Some(id) if id.owner(self.road.shards) != self.shard => {
                    let padded = text[..length].to_vec();
                    self.wish_of(incoming, id, Wish::Carry { text: padded, length });
                }
                _ => self.refuse_session(incoming),
            };
        };
        self.carry_for_pair(key, (text, length), incoming.now);
        let fields = self.fields(incoming, incoming.origin());
        self.answer(incoming, (Status::ACCEPTED, Body::Nothing, fields), &[]);
    }

    fn carry_for_pair(&mut self, key: Key, text: (&mut [u8], usize), now: Moment) {
        let Self { parser, road, http, .. } = self;
        let Some(member) = http.sessions.session(key) else { return };
        let mut out = Vec::new();
        let carried = carry((parser, road), member, (key, LISTENING), &mut out, text, now);
        for _ in 0..carried.awaited {
            self.http.sessions.begin_request(key);
        }
        if carried.said != Said::Nothing {
            self.say_in_session(key, LISTENING, Said::Word, &out);
        }
    }
}

/// What has become of a text of a session.
struct Carried {
    said: Said,
    /// Requests of it whose answers come later.
    awaited: u32,
}

/// Carries one text of a session down the road.
#[inline]
fn carry(
    (parser, road): (&mut Parser, &mut Road),
    member: &mut Member,
    (key, stream): (Key, u32),
    outgoing: &mut Vec<u8>,
    (text, length): (&mut [u8], usize),
    now: Moment,
) -> Carried {
    let Member { session, standing, .. } = member;
    let before = standing.owed;
    let mut peer = Peer { session, standing, outgoing };
    let said = match parser.parse(text, length) {
        Ok(document) => {
            let outlet = Outlet { party: Party::Session(key), stream };
            let passage = Passage { outlet, now, in_batch: false, is_modern: false };
            road.carry(passage, &mut peer, document.root())
        }
        Err(error) => road.refuse(&mut peer, None, &error.into()),
    };
    // A cancellation among them takes one back that was owed before.
    Carried { said, awaited: standing.owed.saturating_sub(before) }
}

fn step_of(refusal: Refusal) -> Step {
    match refusal {
        Refusal::Conflict => Step::StreamFree,
        Refusal::Event => Step::EventKnown,
        Refusal::Chance | Refusal::Full | Refusal::Session | Refusal::Streams(_) => {
            Step::SessionOpen
        }
    }
}
