//! Fuzz target of the HTTP server: arbitrary bytes through a whole shard, with checks of the
//! responses.
//!
//! It panics if an invariant is violated, which no input may cause. Called by a fuzzer with its own
//! bytes, and by tests with seeded damage. Ring and time are simulated.

#[path = "requests.rs"]
mod requests;

use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use corelane::internal::{Shard, ShardInput};
use corelane::{Catalog, Handle, Options, Server, Transport};
use corelane_engine::executor::{Executor, NativeExecutor};
use corelane_engine::process::Entropy;
use corelane_engine::ring::sim::{SimRing, World};
use corelane_engine::ring::{ParkTimeout, Ring, RingOptions};
use corelane_engine::shard_loop::{ShardLoop, TurnStatus};
use corelane_transport::http::head::HttpMethod;

use self::requests::RequestOutcome;

/// Counts of one stream of requests.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Outcome {
    /// Complete requests.
    pub(crate) requests: usize,
    /// Responses, complete or begun.
    pub(crate) responses: usize,
}

/// Sends `stream` to a server with `catalog` in pieces of the given `lengths` (the last is
/// repeated; everything at once if empty), and disconnects.
///
/// # Panics
///
/// An invariant is violated: a request without a response, a response without a request, a
/// malformed response, or resources that are not released.
pub(crate) fn run_http(catalog: Catalog, stream: &[u8], lengths: &[usize]) -> Outcome {
    let options = options();
    let limits = options.request_limits();
    let requests = requests::check_stream(stream, &[stream.len().max(1)], &limits);
    let mut simulation = Simulation::open(catalog, options);
    let received = simulation.send(stream, lengths);
    let outcome = check_responses(&requests, &received);
    simulation.close();
    outcome
}

/// One shard with a listener in a simulated network.
struct Simulation {
    world: World,
    shard: ShardLoop<SimRing, Shard>,
    host: Rc<NativeExecutor>,
    handle: Handle,
}

/// What the client received, and whether the server closed the connection.
struct Received {
    bytes: Vec<u8>,
    has_ended: bool,
}

impl Simulation {
    fn open(catalog: Catalog, options: Options) -> Self {
        let world = World::seeded(1);
        let origin = Entropy { secret: [7; 32], unix_ms: 1_800_000_000_000 };
        let ring_sizes = options.engine.ring_sizes;
        let server = Server::builder(catalog).options(options).entropy(origin);
        let (mut builders, handle) = server.shard_builders(1).expect("one shard");
        let mut ring = world.ring(ring_sizes);
        let listener = ring.listen(address()).expect("an address that is free");
        let host = Rc::new(NativeExecutor::new(ring.waker()));
        let input = ShardInput::Listener { listener, transport: Transport::Http };
        let builder = builders.remove(0);
        let built = builder.build(ring, Rc::clone(&host) as Rc<dyn Executor>, &[input]);
        Self { world, shard: built.expect("room for a listener"), host, handle }
    }

    fn send(&mut self, stream: &[u8], lengths: &[usize]) -> Received {
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
        // Every call has a response or an error by then.
        for _ in 0..CALLS_MS {
            self.turn(1);
            bytes.extend(client.take_received());
        }
        let has_ended = client.is_at_end() || client.is_reset();
        client.close();
        Received { bytes, has_ended }
    }

    fn turn(&mut self, turns: u32) {
        for _ in 0..turns {
            let turn = self.shard.run_turn(ParkTimeout::After(Duration::from_millis(1)));
            assert_eq!(turn, TurnStatus::Continue, "the shard has ended");
        }
    }

    /// Checks that no resource is left after the client has gone, and that the server shuts down.
    fn close(mut self) {
        for _ in 0..SHUTDOWN_MS {
            if self.unreleased() == 0 {
                break;
            }
            self.turn(1);
        }
        assert_eq!(self.unreleased(), 0, "not released: {:?}", self.shard.driver());
        self.handle.try_drain().expect("capacity for a message");
        let mut turns = 0..SHUTDOWN_MS;
        let mut turn = || self.shard.run_turn(ParkTimeout::After(Duration::from_millis(1)));
        assert!(turns.any(|_| turn() == TurnStatus::Finished), "the server does not shut down");
        assert_eq!(self.host.panicked(), 0, "a handler panicked");
        assert!(self.world.resource_usage().is_idle(), "ring resources were not released");
    }

    fn unreleased(&self) -> usize {
        self.shard.driver().open_work().total() + self.host.live_futures()
    }
}

/// Checks the received responses against the requests.
fn check_responses(requests: &[RequestOutcome], received: &Received) -> Outcome {
    let (mut rest, mut answers, mut ends) = (&received.bytes[..], 0, false);
    while !rest.is_empty() {
        assert!(!ends, "bytes after the last response: {}", rest.escape_ascii());
        let has_no_body = match requests.get(answers) {
            Some(RequestOutcome::Request(_, request, _)) => request.method == HttpMethod::Head,
            _ => false,
        };
        let Some(answer) = ParsedResponse::read(rest, has_no_body) else {
            panic!("malformed response: {}", rest.escape_ascii())
        };
        rest = &rest[answer.bytes..];
        if answer.status == 100 {
            continue;
        }
        answers += 1;
        ends = answer.closes || !answer.is_whole;
        let is_known = matches!(answer.status, 200 | 202 | 204 | 400..=599);
        assert!(is_known, "unexpected status {}", answer.status);
    }
    // An incomplete request head may have been rejected.
    assert!(answers <= requests.len() + 1, "{answers} responses to {} requests", requests.len());
    let is_complete = answers >= requests.len() || ends || received.has_ended;
    assert!(is_complete, "{answers} responses to {} requests", requests.len());
    let is_refused = matches!(requests.last(), Some(RequestOutcome::Rejected(_, _)));
    let is_over = ends || received.has_ended;
    let bytes = &received.bytes;
    assert!(!is_refused || is_over, "not closed after an error: {}", bytes.escape_ascii());
    Outcome { requests: requests.len(), responses: answers }
}

/// One response at the beginning of some bytes.
struct ParsedResponse {
    status: u16,
    bytes: usize,
    closes: bool,
    /// Whether it is complete.
    is_whole: bool,
}

impl ParsedResponse {
    fn read(bytes: &[u8], has_no_body: bool) -> Option<Self> {
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
        if has_no_body || matches!(status, 100 | 204) {
            return Some(Self { status, bytes: start, closes, is_whole: true });
        }
        if field("transfer-encoding").is_some() {
            let (length, is_whole) = parse_chunks(&bytes[start..])?;
            return Some(Self { status, bytes: start + length, closes, is_whole });
        }
        let Some(length) = field("content-length") else {
            // The end of the connection ends the response.
            return closes.then_some(Self { status, bytes: bytes.len(), closes, is_whole: true });
        };
        let length: usize = std::str::from_utf8(length).ok()?.trim().parse().ok()?;
        let bytes = Some(start + length).filter(|end| *end <= bytes.len())?;
        Some(Self { status, bytes, closes, is_whole: true })
    }
}

/// Returns the length of the complete chunks, and whether the last chunk is among them.
fn parse_chunks(bytes: &[u8]) -> Option<(usize, bool)> {
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

/// Returns options with short timeouts.
fn options() -> Options {
    let mut options = Options::default();
    options.limits.message_bytes_max = 4_096;
    options.limits.request_timeout = Duration::from_millis(20);
    options.limits.client_request_timeout = Duration::from_millis(10);
    options.limits.task_ttl = Duration::from_millis(30);
    options.limits.task_ttl_max = Duration::from_millis(50);
    options.http.session_idle_timeout = Duration::from_millis(20);
    options.http.sse_start_delay = Duration::from_millis(2);
    options.http.sse_keepalive_interval = Duration::from_millis(5);
    options.engine.blocking_threads = 1;
    options.engine.drain_timeout = Duration::from_millis(50);
    options.engine.ring_sizes = RingOptions { sockets_max: 16, ..RingOptions::default() };
    options
}

fn address() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 8080).into()
}

/// Milliseconds after which every call has ended.
const CALLS_MS: u32 = 30;
/// Milliseconds after which nothing is left of a disconnected client.
const SHUTDOWN_MS: u32 = 3_000;
