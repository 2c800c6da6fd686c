//! Legacy sessions on the shard that keeps them: what is asked of them, from whichever shard it
//! comes, and how they end.
//!
//! What it keeps true: a request for a session that is not there is told so; nothing of a session
//! that is gone goes on.
//!
//! Source: 2025-03-26 to 2025-11-25, `basic/transports`, "Session Management", "Listening for
//! Messages from the Server".

use bytes::Bytes;

use crate::base::slab::Key;
use crate::base::time::Moment;
use crate::protocol::json::{self, Parser};
use crate::server::driver::{ShardDriver, Stage};
use crate::server::http::{
    ExchangeAddress, Gone, HttpLetter, LISTENING, Refusal, SessionId, Utterance, Wish,
};
use crate::server::party::{Outlet, Party, Said};
use crate::server::pipeline::{Passage, Road};
use crate::server::session::{Member, Peer};
use crate::transport::http::ladder::Step;
use crate::transport::http::sse::EventId;
use crate::transport::http::status::Status;

impl ShardDriver {
    /// A letter about an exchange.
    pub(in crate::server::driver) fn take_http_letter(&mut self, letter: HttpLetter, now: Moment) {
        match letter {
            HttpLetter::Asked { session, from, wish } => self.take_wish(session, from, wish, now),
            HttpLetter::Left { session, exchange, is_sent } => {
                self.exchange_left(session, exchange, is_sent);
            }
            HttpLetter::Told { to, utterance } => self.hear(to, utterance),
            HttpLetter::Waits { session, exchange } => self.begin_to_speak(session, exchange),
        }
    }

    /// What a request wants of a session of this shard.
    pub(super) fn take_wish(
        &mut self,
        id: SessionId,
        from: ExchangeAddress,
        wish: Wish,
        now: Moment,
    ) {
        // A session is reached by the endpoint that it began at, and by no other.
        let is_pair = matches!(wish, Wish::Carry { is_pair: true, .. });
        let found = self.http.sessions.find(id).filter(|key| self.is_pair(*key) == is_pair);
        let Some(key) = found else {
            return self.tell(from, Utterance::Refused(Step::SessionOpen));
        };
        match wish {
            Wish::Carry { mut text, is_pair: true } => {
                let length = pad(&mut text);
                self.carry_for_pair(key, (&mut text, length), now);
                self.tell(from, Utterance::Bare(Status::ACCEPTED));
            }
            Wish::Carry { text, .. } => self.carry_for(key, from, text, now),
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
    fn carry_for(&mut self, key: Key, from: ExchangeAddress, mut text: Vec<u8>, now: Moment) {
        self.http.sessions.touch(key, now);
        let stream = self.http.sessions.next_stream(key).unwrap_or(Outlet::NOWHERE);
        let Self { parser, road, http, .. } = self;
        let Some(member) = http.sessions.session(key) else { return };
        let length = pad(&mut text);
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
    pub(super) fn begin_stream(
        &mut self,
        key: Key,
        from: ExchangeAddress,
        awaited: u32,
        (said, text): (Said, Vec<u8>),
    ) {
        let Ok(stream) = self.http.sessions.open(key, from) else {
            // There is room for it, or nothing would wait: the session has gone.
            return self.tell(from, Utterance::Refused(Step::SessionOpen));
        };
        for _ in 0..awaited {
            self.http.sessions.begin_request(key);
        }
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
        let counts = &mut self.road.counters.sessions;
        counts.resumed += u64::from(after.is_some() && begun.is_ok());
        counts.not_resumed += u64::from(after.is_some() && begun.is_err());
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
        if stream == LISTENING {
            self.tell_missed_lists(key);
        }
        if is_finished {
            self.tell(from, Utterance::End { retry_ms: None });
        }
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

    /// Ends the sessions that were idle for too long, and forgets the streams that nobody came back
    /// for.
    pub(in crate::server::driver) fn expire_sessions(&mut self, now: Moment) {
        self.http.sessions.let_go(now);
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

    /// The server drains and no connection is left that a session could answer: none will come, and
    /// what sessions still have ends with them. `true` where there were some.
    pub(in crate::server::driver) fn end_sessions(&mut self, now: Moment) -> bool {
        let is_owing = self.stage != Stage::Cut && self.http.sessions.attached() > 0;
        if self.stage == Stage::Serving || is_owing || !self.link.connections.is_empty() {
            return false;
        }
        let keys: Vec<Key> = self.http.sessions.iter_mut().map(|(key, _)| key).collect();
        for &key in &keys {
            if let Some(gone) = self.http.sessions.remove(key) {
                self.bury(gone, now);
            }
        }
        !keys.is_empty()
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
}

/// Puts behind a message what its parser needs there; the length of the message.
fn pad(text: &mut Vec<u8>) -> usize {
    let length = text.len();
    text.resize(length + json::PADDING_BYTES, 0);
    length
}

/// What has become of a text of a session.
pub(super) struct Carried {
    pub(super) said: Said,
    /// Requests of it whose answers come later.
    pub(super) awaited: u32,
}

/// Carries one text of a session down the road.
#[inline]
pub(super) fn carry(
    (parser, road): (&mut Parser, &mut Road),
    member: &mut Member,
    (key, stream): (Key, u32),
    outgoing: &mut Vec<u8>,
    (text, length): (&mut [u8], usize),
    now: Moment,
) -> Carried {
    let Member { session, standing, .. } = member;
    let (before, unanswered) = (standing.owed, road.unanswered.len());
    let mut peer = Peer { session, standing, outgoing };
    let said = match parser.parse(text, length) {
        Ok(document) => {
            let outlet = Outlet { party: Party::Session(key), stream };
            let passage = Passage { outlet, now, in_batch: false, is_modern: false };
            road.carry(passage, &mut peer, document.root())
        }
        Err(error) => road.refuse(&mut peer, None, &error.into()),
    };
    // What a cancellation takes back was owed before, or was among these: then its stream is ended
    // with the turn.
    let taken_back = road.unanswered.len() - unanswered;
    let owed = standing.owed as usize + taken_back;
    Carried {
        said,
        awaited: u32::try_from(owed.saturating_sub(before as usize)).unwrap_or(u32::MAX),
    }
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
