//! What is said to parties while no text of theirs is on the road: answers that come later, what is
//! said on the way to them, what nobody asked for.
//!
//! What it keeps true: a text is written once, whatever carries it, and framed where it leaves.

use super::{ShardDriver, Stage};
use crate::base::time::Moment;
use crate::engine::ring::Ring;
use crate::link::{Connection, Framing, Standing};
use crate::protocol::error::Error;
use crate::protocol::message;
use crate::protocol::revision::Revision;
use crate::protocol::rpc::Id;
use crate::server::party::{Outlet, Party, Said};
use crate::server::session::{Member, Session};
use crate::transport::ndjson;
use crate::transport::websocket::writer;

impl ShardDriver {
    /// Where to write a text that is to be said; it goes to [`ShardDriver::say`].
    pub(super) fn draft(&mut self) -> Vec<u8> {
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        text
    }

    /// Says a text where somebody still listens. It leaves at the end of the turn.
    pub(super) fn say(&mut self, outlet: Outlet, said: Said, text: Vec<u8>) {
        match outlet.party {
            Party::Connection(key) if self.link.framing(key) == Framing::Requests => {
                self.say_over(key, (said, None), |out| out.extend_from_slice(&text));
            }
            Party::Connection(key) => {
                if let Some(connection) = self.link.connections.get(key)
                    && let manner = connection.session.manner
                    && let framing = self.link.framing(key)
                    && let Some(out) = self.link.outgoing(key)
                {
                    if framing == Framing::Frames {
                        let mark = writer::begin(out);
                        out.extend_from_slice(&text);
                        self.websockets.end_frame(out, mark, manner);
                    } else {
                        out.extend_from_slice(&text);
                        ndjson::end_line(out);
                    }
                    self.road.count_said(said);
                }
            }
            Party::Session(key) => self.say_in_session(key, outlet.stream, said, &text),
        }
        self.text = text;
    }

    /// Says the error that is the answer to `id`, and counts it.
    pub(super) fn say_error(
        &mut self,
        outlet: Outlet,
        id: Id<'_>,
        error: &Error,
        revision: Revision,
    ) {
        let mut text = self.draft();
        self.road.count_error(error);
        message::error(&mut text, Some(id), error, Some(revision));
        self.say(outlet, Said::Refusal(error.kind), text);
    }

    /// What the server knows of a party, and what that waits for, while it is there.
    pub(super) fn party(&mut self, party: Party) -> Option<(&mut Session, &mut Standing)> {
        match party {
            Party::Connection(key) => {
                let Connection { session, standing, .. } = self.link.connections.get_mut(key)?;
                Some((session, standing))
            }
            Party::Session(key) => {
                let Member { session, standing, .. } = self.http.sessions.session(key)?;
                Some((session, standing))
            }
        }
    }

    /// Whether a party can still answer what it is asked.
    pub(super) fn is_heard(&self, party: Party) -> bool {
        match party {
            Party::Connection(key) => {
                self.link.connections.get(key).is_some_and(|it| !it.is_discarding())
            }
            Party::Session(key) => self.stage == Stage::Serving && self.http.sessions.has(key),
        }
    }

    /// Whether a party reads what it is told, so that advice does not pile up.
    pub(super) fn reads_along(&self, party: Party) -> bool {
        // What a session does not read waits for it within bounds of its own.
        let Party::Connection(key) = party else { return true };
        let (connection, options) = (self.link.connections.get(key), &self.link.options);
        connection.is_some_and(|it| it.queued_bytes() <= it.queue_bytes_max(options))
    }

    /// Weighs what was said to a party; one that broke a limit ends.
    pub(super) fn weigh_party<R: Ring>(&mut self, ring: &mut R, party: Party, now: Moment) {
        if let Party::Connection(key) = party {
            self.weigh_or_end(ring, key, now);
        }
    }

    /// A request less is in flight, and its party waits for one answer less.
    pub(super) fn repay(&mut self, party: Party, id: Id<'_>, now: Moment) {
        match party {
            Party::Connection(key) => {
                if let Some(connection) = self.link.connections.get_mut(key) {
                    connection.session.in_flight.remove(id);
                    connection.repay(now);
                }
            }
            Party::Session(key) => {
                if let Some(member) = self.http.sessions.session(key) {
                    member.session.in_flight.remove(id);
                    member.standing.repay();
                    self.http.sessions.end_request(key, now);
                }
            }
        }
    }

    /// Requests of sessions that will not be answered because their client does not want it: what
    /// carries them ends.
    pub(super) fn end_unanswered(&mut self) {
        while let Some(outlet) = self.road.unanswered.pop() {
            if let Party::Session(key) = outlet.party {
                self.http.sessions.end_request(key, self.http.now());
                self.end_without_answer(key, outlet.stream);
            }
        }
    }

    /// An answer more, a debt less: a connection that waited for that is read again or ends.
    pub(super) fn after_answer<R: Ring>(&mut self, ring: &mut R, outlet: Outlet, now: Moment) {
        let Party::Connection(key) = outlet.party else { return };
        self.weigh_or_end(ring, key, now);
        let next = self.link.try_resume(key);
        self.follow(ring, next, now);
    }
}
