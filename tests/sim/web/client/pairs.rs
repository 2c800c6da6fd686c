//! A client of 2024-11-05: a stream that begins its session, and messages that are posted
//! elsewhere.
//!
//! What it checks: each message is taken with a bare 202, whatever is said to it comes on the one
//! stream, and every request is answered there while that stands.

use std::time::Duration;

use corelane::base::time::Moment;
use corelane::engine::ring::sim::World;
use corelane::protocol::revision::Revision;
use serde_json::Value;

use super::guest::{Facts, Guest};
use super::line::{Asked, Kind, Line};
use super::speech::{self, Style};
use crate::meeting::phrase;
use crate::web::checks::book::Book;

impl Guest {
    /// Opens the stream on a connection of its own.
    pub(super) fn begin_pair(&mut self, world: &World, now: Moment) {
        let text = speech::request(("GET", "/sse"), &[], None, Style::default());
        let place = self.connect(world, now);
        self.lines[place].ask(Asked::new(Kind::Pair, None, None, now), &text, now);
    }

    /// The stream says where to post: the session begins.
    ///
    /// # Errors
    ///
    /// Where that is no such place.
    pub(super) fn begin_to_post(
        &mut self,
        asked: &mut Asked,
        place: &str,
        now: Moment,
    ) -> Result<(), String> {
        let id = place.strip_prefix("/messages?sessionId=");
        let id = id.filter(|_| asked.kind == Kind::Pair && asked.session.is_none());
        let Some(id) = id else { return Err(format!("{place} is said to {asked:?}")) };
        self.chronicle.borrow_mut().begin(id)?;
        self.books.push(Book::new(self.number, id.to_owned(), Revision::V2024_11_05, now));
        self.tally.sessions += 1;
        asked.session = Some(self.books.len() - 1);
        self.unposted = asked.session;
        Ok(())
    }

    /// Posts the first half of the handshake.
    pub(super) fn shake_hands(&mut self, session: usize, world: &World, now: Moment) {
        let id = self.new_id();
        let message = phrase::initialize(id, Revision::V2024_11_05);
        let text = speech::post(&message, Some(self.books[session].name()), Style::default());
        self.say(Asked::new(Kind::Notice, None, Some(session), now), &text, world, now);
        self.books[session].ask(id, Duration::ZERO, now);
    }

    /// A connection is over: so is a session whose stream it carried.
    pub(super) fn give_up(&mut self, line: &Line) {
        for asked in line.asked.iter().filter(|asked| asked.kind == Kind::Pair) {
            if let Some(session) = asked.session {
                self.books[session].is_deleted = true;
            }
        }
    }

    /// Since when the oldest request waits whose answer must come on such a stream.
    pub(super) fn waits_for_pair(&self) -> Option<Moment> {
        let books = self.books.iter().filter(|book| book.is_pair() && !book.is_deleted);
        books.filter_map(Book::waits_since).min()
    }

    /// Whether one of those waits for too long.
    pub(super) fn is_pair_late(&self, now: Moment, facts: Facts, span: Duration) -> bool {
        let is_excused = self.is_slow || self.was_deaf || facts.may_lose();
        let is_late = self.waits_for_pair().is_some_and(|since| now >= since.after(span));
        is_late && !is_excused && self.lines.iter().all(|line| !line.is_finished)
    }
}

/// Which request of a session a message on its one stream is about.
pub(super) fn request_of(message: &Value) -> Option<u64> {
    let token = &message["params"]["progressToken"];
    message["id"].as_u64().filter(|_| message.get("method").is_none()).or_else(|| token.as_u64())
}
