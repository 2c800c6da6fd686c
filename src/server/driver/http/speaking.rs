//! What a session says, on the shard that keeps it.
//!
//! What it keeps true: a request that is answered before anything else is said of it is answered by
//! one JSON text; otherwise what is said is an event of its stream, numbered and kept, until its
//! client has got it or has been away for too long.
//!
//! Source: 2025-11-25 `basic/transports`, "Sending Messages to the Server", "Resumability and
//! Redelivery".

use bytes::Bytes;

use crate::base::slab::Key;
use crate::server::driver::ShardDriver;
use crate::server::http::{ExchangeAddress, LISTENING, SessionId, Utterance};
use crate::server::party::{Outlet, Party, Said};
use crate::transport::http::sse::EventId;

impl ShardDriver {
    /// Says a text on a stream of a session.
    pub(in crate::server::driver) fn say_in_session(
        &mut self,
        key: Key,
        stream: u32,
        said: Said,
        text: &[u8],
    ) {
        let Some(member) = self.http.sessions.session(key) else { return };
        if member.is_pair {
            return self.say_to_pair(key, text);
        }
        let goes_on = stream == LISTENING || member.waits_on(stream, said);
        let said = if goes_on { Said::Word } else { said };
        let now = self.http.now();
        let sessions = &mut self.http.sessions;
        if said.is_answer() && !sessions.has_events(key, stream) {
            // Nobody was promised that it could be had later.
            let exchange = sessions.finish(key, stream, now);
            if let Some(to) = exchange {
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
            self.http.sessions.finish(key, stream, now);
        }
    }

    /// A request of a session has ended and nobody wants its answer: its stream ends with it.
    pub(in crate::server::driver) fn end_without_answer(&mut self, key: Key, stream: u32) {
        let Some(member) = self.http.sessions.session(key) else { return };
        if stream == LISTENING || member.waits_on(stream, Said::Answer) {
            return;
        }
        let now = self.http.now();
        if let Some(to) = self.http.sessions.finish(key, stream, now) {
            self.http.sessions.detach(key, stream, to, true, now);
            self.tell(to, Utterance::End { retry_ms: None });
        }
    }

    /// The client of an exchange has waited long for a word of its session. Where its request is
    /// at work its stream begins; whatever else it is has been answered by now, however long that
    /// is on its way: no status is taken from it.
    pub(super) fn begin_to_speak(&mut self, session: SessionId, exchange: ExchangeAddress) {
        let Some(key) = self.http.sessions.find(session) else { return };
        let stream = self.http.sessions.carried_by(key, exchange);
        let stream = stream.filter(|stream| *stream != LISTENING);
        if let Some(stream) = stream.filter(|stream| !self.http.sessions.has_events(key, *stream)) {
            self.push_event(key, stream, Said::Word, Bytes::new());
        }
    }

    /// Says a text on the one stream of a client of 2024-11-05. It could not come back for it: the
    /// text has no name, and is kept for nobody.
    fn say_to_pair(&mut self, key: Key, text: &[u8]) {
        if let Some(to) = self.http.sessions.exchange(key, LISTENING) {
            self.tell(to, Utterance::Word(Bytes::copy_from_slice(text)));
        }
    }

    fn push_event(&mut self, key: Key, stream: u32, said: Said, text: Bytes) {
        let Some(pushed) = self.http.sessions.push(key, stream, text.clone()) else { return };
        let is_lost = pushed.exchange.is_none() && !pushed.is_kept;
        self.road.counters.sessions.events_lost += u64::from(is_lost);
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
        // In the strict profile nobody could come back.
        if stream == LISTENING || self.http.profile.strict.is_some() {
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
}
