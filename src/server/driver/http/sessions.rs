//! Requests that name a legacy session, on the shard of their connection.
//!
//! What it keeps true: a session is carried by whichever connections its client opens, on any
//! shard; a request for one that another shard keeps becomes a letter, and its connection waits for
//! the answer. Where the session is of this shard an answer that is ready at once is written where
//! it stands.
//!
//! Source: 2025-03-26 to 2025-11-25, `basic/transports`, "Session Management", "Listening for
//! Messages from the Server", "Resumability and Redelivery".

use super::Incoming;
use super::hearing::refusal_of;
use super::keeping::carry;
use crate::base::slab::Key;
use crate::link::Connection;
use crate::protocol::json;
use crate::server::driver::ShardDriver;
use crate::server::http::{Bearer, HttpLetter, Manner, SessionId, Wish};
use crate::server::letter::Letter;
use crate::server::party::{Outlet, Said};
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
        let manner = in_session(incoming.manner);
        let incoming = &Incoming { manner, ..*incoming };
        let Some(id) = SessionId::parse(session) else {
            return self.refuse_session(incoming);
        };
        if id.owner(self.road.shards) != self.shard {
            let text = carried(text, length);
            return self.wish_of(incoming, id, Wish::Carry { text, is_pair: false });
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
        let stream = self.http.sessions.next_stream(key).unwrap_or(Outlet::NOWHERE);
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
                let id = manner.session.map(SessionId::text);
                let session = id.as_ref().map(|text| &text[..]);
                let fields = Fields { session, ..incoming.fields() };
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
        let manner = in_session(incoming.manner);
        let incoming = &Incoming { manner, ..*incoming };
        let Some(id) = SessionId::parse(session) else {
            return self.refuse_session(incoming);
        };
        let after = match last_event.map(EventId::parse) {
            Some(None) => {
                let refusal = Step::EventKnown.refuse(refusal_of(Step::EventKnown));
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
        let manner = in_session(incoming.manner);
        let incoming = &Incoming { manner, ..*incoming };
        match SessionId::parse(session) {
            Some(id) => self.wish_of(incoming, id, Wish::End),
            None => self.refuse_session(incoming),
        }
    }

    pub(super) fn wish_of(&mut self, incoming: &Incoming<'_>, id: SessionId, wish: Wish) {
        let manner = self.manner_of(incoming.manner, id);
        let from = self.open_exchange(incoming, manner, Bearer::Session(id));
        let owner = id.owner(self.road.shards);
        if owner == self.shard {
            return self.take_wish(id, from, wish, incoming.now);
        }
        let asked = HttpLetter::Asked { session: id, from, wish };
        self.road.letters.push((owner, Letter::Http(Box::new(asked))));
    }

    /// In the strict profile every answer names its session (seed 003).
    fn manner_of(&self, manner: Manner, id: SessionId) -> Manner {
        let session = self.http.profile.strict.map(|_| id);
        Manner { session, ..manner }
    }

    pub(super) fn refuse_session(&mut self, incoming: &Incoming<'_>) {
        let refusal = Step::SessionOpen.refuse(refusal_of(Step::SessionOpen));
        self.refuse(incoming, &refusal);
    }
}

/// A message as it goes to another shard, with room for the padding that its parser needs there.
pub(super) fn carried(text: &[u8], length: usize) -> Vec<u8> {
    let mut carried = Vec::with_capacity(length + json::PADDING_BYTES);
    carried.extend_from_slice(&text[..length]);
    carried
}

/// How requests of sessions are answered: errors have the status of the legacy era.
pub(super) const fn in_session(manner: Manner) -> Manner {
    Manner { is_modern: false, ..manner }
}
