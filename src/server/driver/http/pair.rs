//! The two endpoints of 2024-11-05: a stream that begins a session, and one to which its messages
//! are posted.
//!
//! What it keeps true: whatever is said to such a client comes on its stream, and its session ends
//! with that: there is no name by which it could come back.
//!
//! Source: 2024-11-05 `basic/transports`, "HTTP with SSE".

use super::Incoming;
use super::keeping::carry;
use super::sessions::{carried, in_session};
use crate::base::slab::Key;
use crate::base::time::Moment;
use crate::server::driver::ShardDriver;
use crate::server::http::{
    Bearer, LISTENING, Manner, RETRY_AFTER_SECONDS, SessionId, Utterance, Wish,
};
use crate::server::party::Said;
use crate::server::session::Member;
use crate::transport::http::fields::Fields;
use crate::transport::http::ladder::SESSION_PARAMETER;
use crate::transport::http::response::Body;
use crate::transport::http::status::Status;

impl ShardDriver {
    /// The endpoint of 2024-11-05: a stream that begins a session, and says where to post.
    pub(super) fn begin_pair(&mut self, incoming: &Incoming<'_>) {
        // Whoever asks for this path takes a stream, whatever its `Accept` says.
        let manner = Manner { may_stream: true, ..in_session(incoming.manner) };
        let incoming = &Incoming { manner, ..*incoming };
        let member = Member { is_pair: true, ..Member::new() };
        let Ok(begun) = self.http.sessions.begin(member, incoming.now) else {
            let fields =
                Fields { retry_after_seconds: Some(RETRY_AFTER_SECONDS), ..incoming.fields() };
            let answer = (Status::UNAVAILABLE, Body::Nothing, fields);
            return self.answer(incoming, answer, &[]);
        };
        let evicted = self.http.sessions.make_room(begun.key);
        let counts = &mut self.road.counters.sessions;
        counts.begun += 1;
        counts.evicted += u64::from(evicted.is_some());
        self.http.evicted.extend(evicted);
        let from = self.open_exchange(incoming, manner, Bearer::Session(begun.id));
        if let Some(connection) = self.link.connections.get_mut(incoming.key) {
            connection.standing.repay();
            connection.standing.listens = true;
        }
        if self.http.sessions.listen(begun.key, from).is_ok() {
            let id = begun.id.text();
            let id = String::from_utf8_lossy(&id);
            let uri = format!("/messages?{SESSION_PARAMETER}={id}");
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
        let manner = in_session(incoming.manner);
        let incoming = &Incoming { manner, ..*incoming };
        let Some(id) = SessionId::parse(session) else {
            return self.refuse_session(incoming);
        };
        if id.owner(self.road.shards) != self.shard {
            let text = carried(text, length);
            return self.wish_of(incoming, id, Wish::Carry { text, is_pair: true });
        }
        let Some(key) = self.http.sessions.find(id).filter(|key| self.is_pair(*key)) else {
            return self.refuse_session(incoming);
        };
        self.carry_for_pair(key, (text, length), incoming.now);
        let fields = incoming.fields();
        self.answer(incoming, (Status::ACCEPTED, Body::Nothing, fields), &[]);
    }

    /// Whether a session is that of a client of 2024-11-05.
    pub(super) fn is_pair(&mut self, key: Key) -> bool {
        self.http.sessions.session(key).is_some_and(|member| member.is_pair)
    }

    /// Carries a message of such a client; whatever is said to it is said on its stream.
    pub(super) fn carry_for_pair(&mut self, key: Key, text: (&mut [u8], usize), now: Moment) {
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
