//! What comes by the thousand: names of sessions that are guessed, streams that are opened and
//! left.
//!
//! What it checks: nobody finds a session by guessing; each guess is counted, and a crowd holds no
//! more memory at its end than near its beginning; whoever has a session is served meanwhile.

use std::sync::Arc;

use corelane::base::random::Random;
use corelane::engine::ring::RingOptions;
use corelane::engine::ring::sim::{Faults, World};
use corelane::observe::label::Transport;
use corelane::protocol::revision::Revision;
use corelane::server::{Options, Origin, Server};
use serde_json::{Value, json};

use crate::counting::peak_bytes;
use crate::meeting::phrase;
use crate::web::checks::reading::{Piece, Reader};
use crate::web::client::speech::{self, Style};
use crate::web::offer;
use crate::web::plan;
use crate::world::lane::Lane;
use crate::world::notices::{Notice, Notices};
use crate::world::street::{Street, address};
use crate::world::watched::Places;
use crate::world::wire::Wire;

/// A server of two shards where nothing goes wrong by itself.
struct Square {
    street: Street,
    notices: Notices,
    random: Random,
}

/// A client that keeps to what it was told: it has a session, uses it and listens.
struct Honest {
    wire: Wire,
    reader: Reader,
    session: String,
    listener: Wire,
    asked: u64,
}

impl Square {
    fn open(shards: usize) -> Self {
        let world = World::with_faults(1, Faults::NONE);
        let origin = Origin { secret: [7; 32], unix_ms: 1_800_000_000_000 };
        let server =
            Server::new(offer::catalog(&Arc::default()).expect("a catalog")).options(roomy());
        let (seeds, handle) = server.origin(origin).seeds(shards).expect("seeds");
        let places = Places::default();
        let lanes = seeds.into_iter().map(|seed| {
            Lane::listen_for(Transport::Http, &world, seed, address(), &places).expect("a shard")
        });
        let street = Street::new(world.clone(), lanes.collect(), places, None);
        Self { street, notices: Notices::new(handle), random: Random::seeded(1) }
    }

    /// One round of everybody; time passes where nobody has anything left to do.
    fn turn(&mut self) {
        let now = self.street.world.now();
        self.street.turn(now, &mut self.random).expect("nothing is left behind");
        self.notices.pass_on();
        self.street.let_time_pass(now, None).expect("something happens");
    }

    fn connect(&self) -> Wire {
        let wire = Wire::stream(self.street.world.connect(address()));
        wire.read_eagerly();
        wire
    }

    /// Turns until this holds.
    fn until(&mut self, mut holds: impl FnMut(&Self) -> bool) {
        for _ in 0..ROUNDS_MAX {
            if holds(self) {
                return;
            }
            self.turn();
        }
        panic!("{}", self.street.describe("nothing comes of it", std::iter::empty()));
    }

    /// Requests that were refused as HTTP, over all shards.
    fn refused(&self) -> u64 {
        self.street.lanes.iter().map(|lane| lane.counters().faults.http).sum()
    }

    /// Streams that are open, and all that were opened and ended, over all shards.
    fn streams(&self) -> usize {
        self.street.lanes.iter().map(Lane::streams).sum()
    }

    fn subscriptions(&self) -> (u64, u64) {
        let counted = self.street.lanes.iter().map(|lane| lane.counters().subscriptions);
        counted.fold((0, 0), |sum, it| (sum.0 + it.opened, sum.1 + it.ended))
    }

    /// Everybody has gone: nothing is left, and the server ends when it is told to.
    fn close(mut self) {
        self.until(|square| square.street.holdings() == 0);
        self.notices.say_at_once(Notice::Drain);
        self.until(|square| square.street.has_drained());
    }
}

impl Honest {
    fn come(square: &mut Square) -> Self {
        let (wire, mut reader) = (square.connect(), Reader::default());
        let hello = phrase::initialize(0, Revision::LATEST_LEGACY);
        wire.write(&speech::post(&hello, None, Style::default()));
        let mut session = None;
        square.until(|_| {
            reader.hear(&wire.heard());
            while let Ok(Some(piece)) = reader.next(false, false) {
                if let Piece::Head(head) = piece {
                    session = head.session;
                }
            }
            session.is_some() && reader.is_between()
        });
        let session = session.expect("a session");
        let listener = square.connect();
        let mut honest = Self { wire, reader, session, listener, asked: 0 };
        honest.ask(square, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        let name = (&*honest.session, Revision::LATEST_LEGACY);
        honest.listener.write(&speech::of_session("GET", name, None, Style::default()));
        honest
    }

    /// Says something in the session and hears the body of its answer.
    fn ask(&mut self, square: &mut Square, message: &Value) -> Vec<u8> {
        let name = (&*self.session, Revision::LATEST_LEGACY);
        self.wire.write(&speech::post(message, Some(name), Style::default()));
        let (wire, reader, mut body) = (&self.wire, &mut self.reader, None);
        square.until(|_| {
            reader.hear(&wire.heard());
            while let Some(piece) = reader.next(false, false).expect("an answer") {
                match piece {
                    Piece::Head(head) => assert!(matches!(head.status, 200 | 202), "{head:?}"),
                    Piece::Body(bytes) => body = Some(bytes),
                    piece => panic!("{piece:?} is no answer"),
                }
            }
            body.is_some()
        });
        body.expect("an answer")
    }

    /// Is served as if nobody else were there.
    fn expect_served(&mut self, square: &mut Square) {
        self.asked += 1;
        let ping = phrase::request(self.asked, "ping", json!({}), Revision::LATEST_LEGACY);
        let answer: Value = serde_json::from_slice(&self.ask(square, &ping)).expect("JSON");
        assert_eq!(answer, json!({"jsonrpc": "2.0", "id": self.asked, "result": {}}));
        let heard = self.listener.heard();
        assert!(!self.listener.has_ended() && !self.listener.is_reset(), "it listens no more");
        assert!(!heard.windows(4).any(|word| word == b"404 "), "{}", heard.escape_ascii());
    }

    fn leave(self) {
        self.wire.close();
        self.listener.close();
    }
}

/// Many requests in one breath, each for a session whose name is guessed.
struct Guesser {
    wire: Wire,
    text: Vec<u8>,
    /// Where the names stand in it.
    names: Vec<usize>,
    awaited: usize,
}

impl Guesser {
    fn new(wire: Wire) -> Self {
        let head = "DELETE /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: ";
        let request = format!("{head}00000000-0000-4000-8000-000000000000\r\n\r\n");
        let text = request.repeat(BREATH).into_bytes();
        let names = (0..BREATH).map(|place| place * request.len() + head.len()).collect();
        Self { wire, text, names, awaited: 0 }
    }

    fn guess(&mut self, random: &mut Random) {
        for &name in &self.names {
            let drawn = random.next_u64().to_le_bytes();
            for (place, byte) in drawn.into_iter().enumerate() {
                // The first group of a name and the last, in hexadecimal.
                let at = if place < 4 { name + 2 * place } else { name + 20 + 2 * place };
                self.text[at] = DIGITS[usize::from(byte >> 4)];
                self.text[at + 1] = DIGITS[usize::from(byte & 15)];
            }
        }
        self.wire.write(&self.text);
        self.awaited = BREATH;
    }

    /// Takes the answers that have come.
    fn hear(&mut self) {
        let heard = self.wire.heard();
        let answers = memchr::memmem::find_iter(&heard, b"HTTP/1.1 ");
        for answer in answers {
            assert_eq!(heard.get(answer + 9..answer + 12), Some(&b"404"[..]));
            self.awaited -= 1;
        }
    }
}

/// Guesses so many names and returns how many were counted as refused. An honest client is served
/// meanwhile; nothing more is held for later guesses than for the first.
fn guess_all(shards: usize, count: usize) -> u64 {
    let mut square = Square::open(shards);
    let mut honest = Honest::come(&mut square);
    let before = square.refused();
    let mut guessers: Vec<Guesser> =
        (0..GUESSERS).map(|_| Guesser::new(square.connect())).collect();
    let mut random = Random::seeded(2);
    let mut breathe = |square: &mut Square, rounds: usize| {
        for _ in 0..rounds {
            for guesser in &mut guessers {
                guesser.guess(&mut random);
            }
            square.until(|_| {
                guessers.iter_mut().for_each(Guesser::hear);
                guessers.iter().all(|guesser| guesser.awaited == 0)
            });
            honest.expect_served(square);
        }
    };
    let rounds = count / GUESSERS / BREATH;
    let ((), early) = peak_bytes(|| breathe(&mut square, rounds / 4));
    let ((), later) = peak_bytes(|| breathe(&mut square, rounds - rounds / 4));
    assert!(later <= early, "{later} bytes more are held after {early}");
    let counted = square.refused() - before;
    for guesser in &guessers {
        guesser.wire.close();
    }
    honest.leave();
    square.close();
    counted
}

#[test]
fn a_million_guessed_names_find_no_session_and_hold_no_memory() {
    assert_eq!(guess_all(1, 1_000_000), 1_000_000);
}

#[test]
fn names_that_are_looked_for_on_another_shard_find_no_session_either() {
    assert_eq!(guess_all(2, 40_000), 40_000);
}

#[test]
fn ten_thousand_streams_that_are_opened_and_left_hold_nothing() {
    let mut square = Square::open(2);
    let mut honest = Honest::come(&mut square);
    let params = json!({"notifications": {
        "toolsListChanged": true, "resourceSubscriptions": [offer::note(1)],
    }});
    let message = phrase::request(1, "subscriptions/listen", params, Revision::LATEST);
    let listen = speech::post(&message, None, Style::default());
    let mut open_and_leave = |square: &mut Square, rounds: usize| {
        for round in 0..rounds {
            let wires: Vec<Wire> = (0..STREAMS_AT_ONCE).map(|_| square.connect()).collect();
            for wire in &wires {
                wire.write(&listen);
            }
            let mut begun = 0;
            square.until(|square| {
                let heard = wires.iter().filter(|wire| wire.heard().starts_with(b"HTTP/1.1 200"));
                begun += heard.count();
                begun == STREAMS_AT_ONCE && square.streams() == STREAMS_AT_ONCE
            });
            for wire in wires {
                if round % 2 == 0 { wire.close() } else { wire.reset() }
            }
            square.until(|square| square.streams() == 0);
            honest.expect_served(square);
        }
    };
    let rounds = STREAMS / STREAMS_AT_ONCE;
    let ((), early) = peak_bytes(|| open_and_leave(&mut square, rounds / 4));
    let ((), later) = peak_bytes(|| open_and_leave(&mut square, rounds - rounds / 4));
    // The network of the test remembers every connection that there ever was.
    let remembered = STREAMS * REMEMBERED_BYTES;
    assert!(later <= early + remembered, "{later} bytes more are held after {early}");
    let (opened, ended) = square.subscriptions();
    assert_eq!((opened, ended), (STREAMS as u64, STREAMS as u64));
    honest.leave();
    square.close();
}

/// Room for everybody, and sessions that are over soon.
fn roomy() -> Options {
    let mut options = plan::options();
    options.http.connections_max = 100_000;
    options.engine.ring_sizes = RingOptions { sockets_max: 20_000, ..RingOptions::default() };
    options
}

/// Connections that guess at once.
const GUESSERS: usize = 50;
/// Requests that a guesser sends in one breath.
const BREATH: usize = 200;
const STREAMS: usize = 10_000;
const STREAMS_AT_ONCE: usize = 250;
/// What the simulated network keeps of a connection that is over, at most.
const REMEMBERED_BYTES: usize = 1 << 10;
const ROUNDS_MAX: usize = 100_000;
const DIGITS: &[u8; 16] = b"0123456789abcdef";
