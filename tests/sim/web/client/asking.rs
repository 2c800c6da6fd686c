//! What a client asks for: sessions, work, streams, and what is no message at all.

use std::time::Duration;

use corelane::base::time::Moment;
use corelane::engine::ring::sim::World;
use corelane::protocol::revision::Revision;
use serde_json::{Value, json};

use super::guest::Guest;
use super::line::{Asked, Kind};
use super::speech::{self, Style, Work};
use crate::meeting::phrase::{self, Manner};
use crate::web::checks::book::GENERAL;
use crate::web::plan::Deed;

impl Guest {
    pub(super) fn begin(&mut self, world: &World, now: Moment) {
        let id = self.new_id();
        let revision = [Revision::LATEST_LEGACY, Revision::ALL[1], Revision::ALL[2]];
        let revision = revision[self.random.below(revision.len())];
        let revision = self.strict.unwrap_or(revision);
        let style = Style::draw(&mut self.random);
        let text = speech::post(&phrase::initialize(id, revision), None, style);
        let asked = Asked::new(Kind::Begin, Some(id), None, now);
        self.say(Asked { is_last: style.is_last(), ..asked }, &text, world, now);
    }

    pub(super) fn work(&mut self, session: usize, world: &World, now: Moment) {
        let mut order = self.order();
        // Nobody could be asked, and nothing ends for its client to come back.
        order.leaves = order.leaves.filter(|_| self.strict.is_none());
        let least = order.least();
        let mut params = speech::work(self.number, order);
        if self.random.chance(4, 5) {
            params["_meta"] = json!({"progressToken": self.ids + 1});
        }
        self.request(session, "tools/call", params, least, world, now);
    }

    pub(super) fn order(&mut self) -> Work {
        let words = self.random.below(6) as u32;
        let pause_us = [0, 300, 2_000, 20_000][self.random.below(4)];
        let leaves = (words > 0 && self.random.chance(1, 4))
            .then(|| 1 + self.random.below(words as usize) as u32);
        Work { words, pause_us, asks: self.random.chance(1, 6), leaves }
    }

    pub(super) fn request(
        &mut self,
        session: usize,
        method: &str,
        params: Value,
        least: Duration,
        world: &World,
        now: Moment,
    ) {
        let id = self.new_id();
        let book = &self.books[session];
        let (name, revision) = book.name();
        let style = Style::draw(&mut self.random);
        let message = phrase::request(id, method, params, revision);
        let text = speech::post(&message, Some((name, revision)), style);
        let mut asked = Asked::new(Kind::Request, Some(id), Some(session), now);
        if book.is_pair() {
            // Its answer comes elsewhere.
            asked = Asked::new(Kind::Notice, None, Some(session), now);
        }
        self.say(Asked { is_last: style.is_last(), ..asked }, &text, world, now);
        self.books[session].ask(id, least, now);
    }

    pub(super) fn notify(&mut self, deed: Deed, session: usize, world: &World, now: Moment) {
        let message = match deed {
            Deed::Cancel => {
                let open = self.books[session].requests.iter_mut();
                let mut open: Vec<_> = open.filter(|(_, request)| !request.is_answered).collect();
                if open.is_empty() {
                    return;
                }
                let (id, request) = open.swap_remove(self.random.below(open.len()));
                request.is_cancelled = true;
                phrase::cancelled(*id)
            }
            Deed::Reply => {
                let place = self.questions.iter().position(|question| question.0 == session);
                let Some(place) = place else { return };
                let (_, question) = self.questions.remove(place);
                self.tally.replies += 1;
                phrase::response(&question, Manner::Well, "word")
            }
            Deed::Begin => json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            _ => json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}),
        };
        let text = speech::post(&message, Some(self.books[session].name()), Style::default());
        let kind = if deed == Deed::Begin { Kind::Confirm } else { Kind::Notice };
        self.say(Asked::new(kind, None, Some(session), now), &text, world, now);
    }

    pub(super) fn listen(&mut self, session: usize, world: &World, now: Moment) {
        let text = speech::of_session("GET", self.books[session].name(), None, Style::default());
        self.books[session].listens += 1;
        self.say(Asked::new(Kind::Listen, None, Some(session), now), &text, world, now);
    }

    pub(super) fn resume(&mut self, session: usize, last: (u32, u32), world: &World, now: Moment) {
        let (stream, number) = last;
        let book = &mut self.books[session];
        let text = speech::of_session("GET", book.name(), Some(last), Style::default());
        let known = book.streams.entry(stream).or_default();
        known.resumes += 1;
        let request = known.request;
        let kind = if stream == GENERAL { Kind::Listen } else { Kind::Resume(stream) };
        book.listens += u32::from(stream == GENERAL);
        let mut asked = Asked::new(kind, request, Some(session), now);
        asked.carried.stream = Some(stream);
        asked.carried.last = Some(number);
        self.tally.resumed += 1;
        self.say(asked, &text, world, now);
    }

    pub(super) fn ask_modern(&mut self, world: &World, now: Moment) {
        let id = self.new_id();
        let order = self.order();
        let mut params = speech::work(self.number, order);
        let mut message = phrase::request(id, "tools/call", json!({}), Revision::LATEST);
        let meta = &mut message["params"]["_meta"];
        if self.random.chance(4, 5) {
            meta["progressToken"] = json!(id);
        }
        if self.random.chance(1, 3) {
            meta["io.modelcontextprotocol/logLevel"] = json!("info");
        }
        params["_meta"] = meta.take();
        message["params"] = params;
        let style = Style::draw(&mut self.random);
        let asked = Asked::new(Kind::Modern, Some(id), None, now);
        let text = speech::post(&message, None, style);
        self.say(Asked { is_last: style.is_last(), ..asked }, &text, world, now);
    }

    pub(super) fn ask_plainly(&mut self, world: &World, now: Moment) {
        let (asked, text) = self.plain(now);
        self.say(asked, &text, world, now);
    }

    pub(super) fn plain(&mut self, now: Moment) -> (Asked, Vec<u8>) {
        let get = |path| speech::request(("GET", path), &[], None, Style::default());
        let put = |path, body| speech::request(("POST", path), &[], Some(body), Style::default());
        let (kind, text) = match self.random.below(9) {
            0 => (Kind::Plain(200), get("/healthz")),
            1 => (Kind::Plain(200), get("/status")),
            2 => (Kind::Plain(404), get("/nowhere")),
            3 => (Kind::Plain(405), get("/mcp")),
            4 => (Kind::Plain(400), put("/mcp", "{nonsense")),
            5 => (Kind::Plain(405), put("/healthz", "{}")),
            6 => (
                Kind::Bare(200),
                speech::request(("HEAD", "/healthz"), &[], None, Style::default()),
            ),
            7 => {
                (Kind::Bare(204), speech::request(("OPTIONS", "/mcp"), &[], None, Style::default()))
            }
            _ => {
                let fields = [("Mcp-Session-Id", "12345678-1234-4123-8123-123456789abc")];
                let text = speech::request(("DELETE", "/mcp"), &fields, None, Style::default());
                (Kind::Plain(404), text)
            }
        };
        (Asked::new(kind, None, None, now), text)
    }

    /// Several requests in one breath.
    pub(super) fn burst(&mut self, world: &World, now: Moment) {
        let place = self.line(world, now);
        for _ in 0..2 + self.random.below(5) {
            let session = self.session.filter(|_| self.random.chance(1, 2));
            let Some(session) = session else {
                let (asked, text) = self.plain(now);
                self.lines[place].ask(asked, &text, now);
                continue;
            };
            let id = self.new_id();
            let message = phrase::request(id, "ping", json!({}), Revision::LATEST_LEGACY);
            let text = speech::post(&message, Some(self.books[session].name()), Style::default());
            let mut asked = Asked::new(Kind::Request, Some(id), Some(session), now);
            if self.books[session].is_pair() {
                asked = Asked::new(Kind::Notice, None, Some(session), now);
            }
            self.lines[place].ask(asked, &text, now);
            self.books[session].ask(id, Duration::ZERO, now);
        }
    }
}
