//! Thousands of clients: guessed session ids, and streams that are opened and abandoned.
//!
//! Checks that guessing finds no session, that each guess is counted, that memory does not grow
//! with the number of guesses or streams, and that a well-behaved client is served meanwhile.

use std::sync::Arc;

use corelane::{Options, Server, Transport};
use corelane_base::random::Random;
use corelane_engine::process::Entropy;
use corelane_engine::ring::RingOptions;
use corelane_engine::ring::sim::{Faults, World};
use corelane_protocol::revision::Revision;
use corelane_test_support::alloc_counter::peak_bytes;
use serde_json::{Value, json};

use crate::feature_simulation::messages;
use crate::harness::commands::{CommandQueue, ServerCommand};
use crate::harness::recording_ring::ShardByClient;
use crate::harness::server::{SimServer, listen_address};
use crate::harness::shard::SimShard;
use crate::harness::socket::ClientSocket;
use crate::http_simulation::catalog;
use crate::http_simulation::checks::response_reader::{ResponsePart, ResponseReader};
use crate::http_simulation::client::http_requests::{self, RequestStyle, SessionName};
use crate::http_simulation::plan;

/// A simulated server without faults.
struct CrowdSimulation {
    server: SimServer,
    commands: CommandQueue,
    random: Random,
}

/// A client that has a session, uses it and keeps its general stream open.
struct WellBehavedClient {
    socket: ClientSocket,
    reader: ResponseReader,
    session: String,
    listener: ClientSocket,
    last_id: u64,
}

impl CrowdSimulation {
    fn new(shards: usize) -> Self {
        let world = World::with_faults(1, Faults::NONE);
        let origin = Entropy { secret: [7; 32], unix_ms: 1_800_000_000_000 };
        let server = Server::builder(catalog::build_catalog(&Arc::default()).expect("a catalog"))
            .options(large_options());
        let (seeds, handle) = server.entropy(origin).shard_builders(shards).expect("seeds");
        let places = ShardByClient::default();
        let shards = seeds.into_iter().map(|seed| {
            SimShard::listen(Transport::Http, &world, seed, listen_address(), &places)
                .expect("a shard")
        });
        let server = SimServer::new(world.clone(), shards.collect(), places, None);
        Self { server, commands: CommandQueue::new(handle), random: Random::seeded(1) }
    }

    /// Runs one round; time advances if no shard has work.
    fn turn(&mut self) {
        let now = self.server.world.now();
        self.server.turn(now, &mut self.random).expect("everything is released");
        self.commands.send_pending();
        self.server.advance_time(now, None).expect("an event is left");
    }

    fn connect(&self) -> ClientSocket {
        let wire = ClientSocket::stream(self.server.world.connect(listen_address()));
        wire.read_eagerly();
        wire
    }

    /// Runs rounds until `holds` returns `true`.
    fn turn_until(&mut self, mut holds: impl FnMut(&Self) -> bool) {
        for _ in 0..ROUNDS_MAX {
            if holds(self) {
                return;
            }
            self.turn();
        }
        panic!("{}", self.server.describe("no progress", std::iter::empty()));
    }

    /// Number of requests refused by the HTTP layer, over all shards.
    fn refused_requests(&self) -> u64 {
        self.server.shards.iter().map(|shard| shard.counters().input_errors.http).sum()
    }

    /// Number of open streams, over all shards.
    fn open_streams(&self) -> usize {
        self.server.shards.iter().map(SimShard::open_streams).sum()
    }

    fn subscription_counts(&self) -> (u64, u64) {
        let counted = self.server.shards.iter().map(|shard| shard.counters().subscriptions);
        counted.fold((0, 0), |sum, it| (sum.0 + it.opened, sum.1 + it.closed))
    }

    /// Checks, after all clients have left, that nothing is held and that the server drains.
    fn finish(mut self) {
        self.turn_until(|simulation| simulation.server.held_objects() == 0);
        self.commands.push_front(ServerCommand::Drain);
        self.turn_until(|simulation| simulation.server.has_drained());
    }
}

impl WellBehavedClient {
    fn connect(simulation: &mut CrowdSimulation) -> Self {
        let (wire, mut reader) = (simulation.connect(), ResponseReader::default());
        let hello = messages::initialize(0, Revision::LATEST_LEGACY);
        wire.write(&http_requests::post_message(&hello, None, RequestStyle::default()));
        let mut session = None;
        simulation.turn_until(|_| {
            reader.feed(&wire.take_received());
            while let Ok(Some(piece)) = reader.next_part(false, false) {
                if let ResponsePart::Head(head) = piece {
                    session = head.session;
                }
            }
            session.is_some() && reader.is_idle()
        });
        let session = session.expect("a session");
        let listener = simulation.connect();
        let mut client = Self { socket: wire, reader, session, listener, last_id: 0 };
        client.send(simulation, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        let name = SessionName { id: &client.session, revision: Revision::LATEST_LEGACY };
        client.listener.write(&http_requests::session_request(
            "GET",
            name,
            None,
            RequestStyle::default(),
        ));
        client
    }

    /// Sends a message in the session and returns the body of the response.
    fn send(&mut self, simulation: &mut CrowdSimulation, message: &Value) -> Vec<u8> {
        let name = SessionName { id: &self.session, revision: Revision::LATEST_LEGACY };
        self.socket.write(&http_requests::post_message(
            message,
            Some(name),
            RequestStyle::default(),
        ));
        let (wire, reader, mut body) = (&self.socket, &mut self.reader, None);
        simulation.turn_until(|_| {
            reader.feed(&wire.take_received());
            while let Some(piece) = reader.next_part(false, false).expect("a response") {
                match piece {
                    ResponsePart::Head(head) => {
                        assert!(matches!(head.status, 200 | 202), "{head:?}");
                    }
                    ResponsePart::Body(bytes) => body = Some(bytes),
                    piece => panic!("unexpected {piece:?}"),
                }
            }
            body.is_some()
        });
        body.expect("a response")
    }

    /// Checks that the client is served.
    fn expect_served(&mut self, simulation: &mut CrowdSimulation) {
        self.last_id += 1;
        let ping = messages::request(self.last_id, "ping", json!({}), Revision::LATEST_LEGACY);
        let answer: Value = serde_json::from_slice(&self.send(simulation, &ping)).expect("JSON");
        assert_eq!(answer, json!({"jsonrpc": "2.0", "id": self.last_id, "result": {}}));
        let received = self.listener.take_received();
        assert!(!self.listener.has_ended() && !self.listener.is_reset(), "its stream was closed");
        assert!(!received.windows(4).any(|word| word == b"404 "), "{}", received.escape_ascii());
    }

    fn close(self) {
        self.socket.close();
        self.listener.close();
    }
}

/// A connection that pipelines many requests, each with a guessed session id.
struct SessionIdGuesser {
    socket: ClientSocket,
    text: Vec<u8>,
    /// Offsets of the ids in it.
    id_offsets: Vec<usize>,
    responses_due: usize,
}

impl SessionIdGuesser {
    fn new(socket: ClientSocket) -> Self {
        let head = "DELETE /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: ";
        let request = format!("{head}00000000-0000-4000-8000-000000000000\r\n\r\n");
        let text = request.repeat(PIPELINED_REQUESTS).into_bytes();
        let id_offsets =
            (0..PIPELINED_REQUESTS).map(|place| place * request.len() + head.len()).collect();
        Self { socket, text, id_offsets, responses_due: 0 }
    }

    fn send_guesses(&mut self, random: &mut Random) {
        for &name in &self.id_offsets {
            let drawn = random.next_u64().to_le_bytes();
            for (place, byte) in drawn.into_iter().enumerate() {
                // The first and the last group of an id, in hexadecimal.
                let at = if place < 4 { name + 2 * place } else { name + 20 + 2 * place };
                self.text[at] = DIGITS[usize::from(byte >> 4)];
                self.text[at + 1] = DIGITS[usize::from(byte & 15)];
            }
        }
        self.socket.write(&self.text);
        self.responses_due = PIPELINED_REQUESTS;
    }

    /// Checks the received responses.
    fn check_responses(&mut self) {
        let received = self.socket.take_received();
        let answers = memchr::memmem::find_iter(&received, b"HTTP/1.1 ");
        for answer in answers {
            assert_eq!(received.get(answer + 9..answer + 12), Some(&b"404"[..]));
            self.responses_due -= 1;
        }
    }
}

/// Guesses `count` ids and returns how many were counted as refused. Checks that a well-behaved
/// client is served meanwhile, and that later guesses hold no more memory than the first.
fn count_refused_guesses(shards: usize, count: usize) -> u64 {
    let mut simulation = CrowdSimulation::new(shards);
    let mut client = WellBehavedClient::connect(&mut simulation);
    let before = simulation.refused_requests();
    let mut guessers: Vec<SessionIdGuesser> =
        (0..GUESSERS).map(|_| SessionIdGuesser::new(simulation.connect())).collect();
    let mut random = Random::seeded(2);
    let mut breathe = |simulation: &mut CrowdSimulation, rounds: usize| {
        for _ in 0..rounds {
            for guesser in &mut guessers {
                guesser.send_guesses(&mut random);
            }
            simulation.turn_until(|_| {
                guessers.iter_mut().for_each(SessionIdGuesser::check_responses);
                guessers.iter().all(|guesser| guesser.responses_due == 0)
            });
            client.expect_served(simulation);
        }
    };
    let rounds = count / GUESSERS / PIPELINED_REQUESTS;
    let ((), early) = peak_bytes(|| breathe(&mut simulation, rounds / 4));
    let ((), later) = peak_bytes(|| breathe(&mut simulation, rounds - rounds / 4));
    assert!(later <= early, "{later} bytes held, limit {early}");
    let counted = simulation.refused_requests() - before;
    for guesser in &guessers {
        guesser.socket.close();
    }
    client.close();
    simulation.finish();
    counted
}

#[test]
fn million_guessed_session_ids_hold_no_memory() {
    assert_eq!(count_refused_guesses(1, 1_000_000), 1_000_000);
}

#[test]
fn guessed_session_ids_of_other_shards_find_nothing() {
    assert_eq!(count_refused_guesses(2, 40_000), 40_000);
}

#[test]
fn ten_thousand_abandoned_streams_hold_no_memory() {
    let mut simulation = CrowdSimulation::new(2);
    let mut client = WellBehavedClient::connect(&mut simulation);
    let params = json!({"notifications": {
        "toolsListChanged": true, "resourceSubscriptions": [catalog::resource_uri(1)],
    }});
    let message = messages::request(1, "subscriptions/listen", params, Revision::LATEST);
    let listen = http_requests::post_message(&message, None, RequestStyle::default());
    let mut open_and_leave = |simulation: &mut CrowdSimulation, rounds: usize| {
        for round in 0..rounds {
            let wires: Vec<ClientSocket> =
                (0..STREAMS_AT_ONCE).map(|_| simulation.connect()).collect();
            for wire in &wires {
                wire.write(&listen);
            }
            let mut begun = 0;
            simulation.turn_until(|simulation| {
                let received =
                    wires.iter().filter(|wire| wire.take_received().starts_with(b"HTTP/1.1 200"));
                begun += received.count();
                begun == STREAMS_AT_ONCE && simulation.open_streams() == STREAMS_AT_ONCE
            });
            for wire in wires {
                if round % 2 == 0 { wire.close() } else { wire.reset() }
            }
            simulation.turn_until(|simulation| simulation.open_streams() == 0);
            client.expect_served(simulation);
        }
    };
    let rounds = STREAMS / STREAMS_AT_ONCE;
    let ((), early) = peak_bytes(|| open_and_leave(&mut simulation, rounds / 4));
    let ((), later) = peak_bytes(|| open_and_leave(&mut simulation, rounds - rounds / 4));
    // The simulated network remembers every connection.
    let remembered = STREAMS * CONNECTION_RECORD_BYTES;
    assert!(later <= early + remembered, "{later} bytes held, limit {}", early + remembered);
    let (opened, ended) = simulation.subscription_counts();
    assert_eq!((opened, ended), (STREAMS as u64, STREAMS as u64));
    client.close();
    simulation.finish();
}

/// Large limits, and short session timeouts.
fn large_options() -> Options {
    let mut options = plan::options();
    options.http.connections_max = 100_000;
    options.engine.ring_sizes = RingOptions { sockets_max: 20_000, ..RingOptions::default() };
    options
}

/// Connections that guess at the same time.
const GUESSERS: usize = 50;
/// Requests that a guesser pipelines.
const PIPELINED_REQUESTS: usize = 200;
const STREAMS: usize = 10_000;
const STREAMS_AT_ONCE: usize = 250;
/// Upper bound of what the simulated network keeps of a closed connection.
const CONNECTION_RECORD_BYTES: usize = 1 << 10;
const ROUNDS_MAX: usize = 100_000;
const DIGITS: &[u8; 16] = b"0123456789abcdef";
