//! The body of a fuzz target: any bytes over HTTP, through a whole shard, and what must hold for
//! the answers.
//!
//! It panics when the server breaks a promise, which no input may bring about. A fuzzer calls it
//! with bytes of its own; the tests call it with seeded damage. The ring is simulated, and time
//! with it. It is not part of the road.

use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use crate::engine::host::{Host, Native};
use crate::engine::ring::sim::{SimRing, World};
use crate::engine::ring::{Patience, Ring, RingOptions};
use crate::engine::shard::{Shard, Turn};
use crate::observe::label::Transport;
use crate::server::{Handle, Inlet, Options, Origin, Server, ShardDriver};
use crate::service::Catalog;
use crate::transport::http::fuzz::{self, Said};
use crate::transport::http::head::Verb;

/// What became of one stream of requests.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Outcome {
    /// Requests that were read.
    pub requests: usize,
    /// Answers to them, whole or begun.
    pub answers: usize,
}

/// Sends `stream` to a server that offers `catalog`, in pieces of the given `lengths` (the last one
/// again and again; all of it where there are none), and goes away.
///
/// # Panics
///
/// When something that is promised does not hold: a request without an answer, an answer without a
/// request, an answer that is none, anything that is left behind.
pub fn http(catalog: Catalog, stream: &[u8], lengths: &[usize]) -> Outcome {
    let options = options();
    let limits = options.request_limits();
    let asked = fuzz::stream(stream, &[stream.len().max(1)], &limits);
    let mut house = House::open(catalog, options);
    let heard = house.send(stream, lengths);
    let outcome = judge(&asked, &heard);
    house.close();
    outcome
}

/// One shard that listens in a world of its own.
struct House {
    world: World,
    shard: Shard<SimRing, ShardDriver>,
    host: Rc<Native>,
    handle: Handle,
}

/// What a client has heard, and whether the server has said its end.
struct Heard {
    bytes: Vec<u8>,
    has_ended: bool,
}

impl House {
    fn open(catalog: Catalog, options: Options) -> Self {
        let world = World::seeded(1);
        let origin = Origin { secret: [7; 32], unix_ms: 1_800_000_000_000 };
        let ring_sizes = options.engine.ring_sizes;
        let server = Server::new(catalog).options(options).origin(origin);
        let (mut seeds, handle) = server.seeds(1).expect("one shard");
        let mut ring = world.ring(ring_sizes);
        let listener = ring.listen(address()).expect("an address that is free");
        let host = Rc::new(Native::new(ring.waker()));
        let inlet = Inlet::Listener { listener, transport: Transport::Http };
        let seed = seeds.remove(0);
        let built = seed.build(ring, Rc::clone(&host) as Rc<dyn Host>, &[inlet]);
        Self { world, shard: built.expect("room for a listener"), host, handle }
    }

    fn send(&mut self, stream: &[u8], lengths: &[usize]) -> Heard {
        let client = self.world.connect(address());
        let (mut rest, mut bytes) = (stream, Vec::new());
        let last = lengths.last().copied().unwrap_or(stream.len());
        let mut lengths = lengths.iter().copied().chain(std::iter::repeat(last));
        while !rest.is_empty() {
            let length = lengths.next().unwrap_or(1).clamp(1, rest.len());
            let (piece, later) = rest.split_at(length);
            rest = later;
            client.write(piece);
            self.turn(2);
        }
        // Every call has its answer by then, or its error.
        for _ in 0..CALLS_MS {
            self.turn(1);
            bytes.extend(client.heard());
        }
        let has_ended = client.has_ended() || client.is_reset();
        client.close();
        Heard { bytes, has_ended }
    }

    fn turn(&mut self, turns: u32) {
        for _ in 0..turns {
            let turn = self.shard.turn(Patience::For(Duration::from_millis(1)));
            assert_eq!(turn, Turn::More, "the shard has ended");
        }
    }

    /// Everybody has gone: nothing may be left, and the server ends when it is told to.
    fn close(mut self) {
        for _ in 0..GOODBYE_MS {
            if self.left() == 0 {
                break;
            }
            self.turn(1);
        }
        assert_eq!(self.left(), 0, "something is left behind: {:?}", self.shard.driver());
        self.handle.try_drain().expect("room for a notice");
        let mut turns = 0..GOODBYE_MS;
        let mut turn = || self.shard.turn(Patience::For(Duration::from_millis(1)));
        assert!(turns.any(|_| turn() == Turn::Finished), "the server does not end");
        assert_eq!(self.host.panicked(), 0, "a handler panicked");
        assert!(self.world.ledger().is_settled(), "not everything was given back");
    }

    fn left(&self) -> usize {
        let driver = self.shard.driver();
        let told = driver.exchanges_open() + driver.sessions_open() + driver.streams_open();
        let asked = driver.calls_open() + driver.questions_open() + driver.tasks_kept();
        driver.connections_open() + told + asked + self.host.alive()
    }
}

/// Holds what was heard against what was asked.
fn judge(asked: &[Said], heard: &Heard) -> Outcome {
    let (mut rest, mut answers, mut ends) = (&heard.bytes[..], 0, false);
    while !rest.is_empty() {
        assert!(!ends, "words after the last: {}", rest.escape_ascii());
        let wants_head =
            |said: &Said| matches!(said, Said::Request(_, asking, _) if asking.verb == Verb::Head);
        let is_bare = asked.get(answers).is_some_and(wants_head);
        let Some(answer) = Answer::read(rest, is_bare) else {
            panic!("no answer: {}", rest.escape_ascii())
        };
        rest = &rest[answer.bytes..];
        if answer.status == 100 {
            continue;
        }
        answers += 1;
        ends = answer.closes || !answer.is_whole;
        let is_known = matches!(answer.status, 200 | 202 | 204 | 400..=599);
        assert!(is_known, "status {} answers nothing", answer.status);
    }
    // The head of a request that never came in full may have been refused.
    assert!(answers <= asked.len() + 1, "{answers} answers to {} requests", asked.len());
    let is_complete = answers >= asked.len() || ends || heard.has_ended;
    assert!(is_complete, "{answers} answers to {} requests", asked.len());
    let is_refused = matches!(asked.last(), Some(Said::Refused(_)));
    let is_over = ends || heard.has_ended;
    assert!(!is_refused || is_over, "no request, and no end: {}", heard.bytes.escape_ascii());
    Outcome { requests: asked.len(), answers }
}

/// One answer at the beginning of some bytes.
struct Answer {
    status: u16,
    bytes: usize,
    closes: bool,
    /// Whether its end is there.
    is_whole: bool,
}

impl Answer {
    fn read(bytes: &[u8], is_bare: bool) -> Option<Self> {
        let mut fields = [httparse::EMPTY_HEADER; 32];
        let mut response = httparse::Response::new(&mut fields);
        let head = response.parse(bytes).ok()?;
        let httparse::Status::Complete(start) = head else { return None };
        let status = response.code?;
        let field = |name: &str| {
            let mut fields = response.headers.iter();
            fields.find(|field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
        };
        let closes = field("connection") == Some(b"close");
        if is_bare || matches!(status, 100 | 204) {
            return Some(Self { status, bytes: start, closes, is_whole: true });
        }
        if field("transfer-encoding").is_some() {
            let (length, is_whole) = chunks(&bytes[start..])?;
            return Some(Self { status, bytes: start + length, closes, is_whole });
        }
        let Some(length) = field("content-length") else {
            // The end of the connection is that of the answer.
            return closes.then_some(Self { status, bytes: bytes.len(), closes, is_whole: true });
        };
        let length: usize = std::str::from_utf8(length).ok()?.trim().parse().ok()?;
        let bytes = Some(start + length).filter(|end| *end <= bytes.len())?;
        Some(Self { status, bytes, closes, is_whole: true })
    }
}

/// How far whole chunks go, and whether the last one is among them.
fn chunks(bytes: &[u8]) -> Option<(usize, bool)> {
    let mut at = 0;
    while at < bytes.len() {
        let httparse::Status::Complete((start, length)) =
            httparse::parse_chunk_size(&bytes[at..]).ok()?
        else {
            return None;
        };
        let end = at + start + usize::try_from(length).ok()?;
        if bytes.get(end..end + 2)? != b"\r\n" {
            return None;
        }
        at = end + 2;
        if length == 0 {
            return Some((at, true));
        }
    }
    Some((at, false))
}

/// Times that are over soon.
fn options() -> Options {
    let mut options = Options::default();
    options.limits.message_bytes_max = 4_096;
    options.limits.request_max = Duration::from_millis(20);
    options.limits.question_max = Duration::from_millis(10);
    options.limits.task_ttl = Duration::from_millis(30);
    options.limits.task_ttl_max = Duration::from_millis(50);
    options.http.session_idle_max = Duration::from_millis(20);
    options.http.answer_max = Duration::from_millis(2);
    options.http.silence_max = Duration::from_millis(5);
    options.engine.blocking_threads = 1;
    options.engine.drain_max = Duration::from_millis(50);
    options.engine.ring_sizes = RingOptions { sockets_max: 16, ..RingOptions::default() };
    options
}

fn address() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 8080).into()
}

/// Milliseconds after which every call has ended.
const CALLS_MS: u32 = 30;
/// Milliseconds after which nothing is left of a client that has gone.
const GOODBYE_MS: u32 = 3_000;
