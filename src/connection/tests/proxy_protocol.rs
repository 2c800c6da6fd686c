//! Connections that begin with PROXY headers, over a simulated network: split anywhere, with and
//! without faults, in time and too late.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use corelane_base::time::Instant;
use corelane_base::trusted_proxies::TrustedProxies;
use corelane_engine::ring::sim::{Client, Faults, SimRing, World};
use corelane_engine::ring::{Completion, Operation, ParkTimeout, Ring, RingOptions, Socket};

use crate::connection::proxy_protocol::{HEADER_TIMEOUT, ProxyCounters, ProxyRing};

const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 80);
const PROXY: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const LINE: &[u8] = b"PROXY TCP4 192.0.2.1 198.51.100.2 8080 80\r\n";

/// A server that reads what its connections send, and closes them at its end.
struct Reader {
    world: World,
    ring: ProxyRing<SimRing>,
    counters: Arc<ProxyCounters>,
    accepted: Vec<(Socket, Option<SocketAddr>)>,
    received: Vec<u8>,
    ended: usize,
    now: Instant,
}

impl Reader {
    fn new(world: World) -> Self {
        let mut ring =
            world.ring(RingOptions { receive_buffer_bytes: 64, ..RingOptions::default() });
        let listener = ring.listen(SERVER).unwrap();
        let mut ring = ProxyRing::new(ring);
        let (trusted, counters) = (TrustedProxies::parse(&["10.0.0.1"]).unwrap(), Arc::default());
        ring.expect_headers(listener, &trusted, &counters);
        ring.submit(Operation::Accept(listener));
        let (accepted, received, now) = (Vec::new(), Vec::new(), world.now());
        Self { world, ring, counters, accepted, received, ended: 0, now }
    }

    /// Runs until nothing happens any more, or until `end`.
    fn run_until(&mut self, end: impl Fn(&Self) -> bool) {
        for _ in 0..10_000 {
            self.turn();
            if end(self) || (self.world.is_idle() && !self.world.advance()) {
                return;
            }
        }
        panic!("no end: {:?}", self.accepted);
    }

    fn turn(&mut self) {
        let mut completions = Vec::new();
        self.now = self.ring.park(ParkTimeout::Infinite);
        self.ring.reap(&mut completions);
        for completion in completions {
            match completion {
                Completion::Accepted { socket, peer, .. } => {
                    self.accepted.push((socket, peer));
                    self.ring.submit(Operation::Receive(socket));
                }
                Completion::Received { socket, buffer } => {
                    assert!(self.accepted.iter().any(|(it, _)| *it == socket));
                    let length = buffer.len as usize;
                    self.received.extend_from_slice(&self.ring.bytes(&buffer)[..length]);
                    self.ring.release(buffer);
                }
                Completion::EndOfStream { socket, .. } => {
                    self.ring.submit(Operation::Close(socket));
                }
                Completion::Closed { .. } => self.ended += 1,
                // A fault of the network; it is tried again.
                Completion::AcceptFailed { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// Sends pieces, each when the one before has arrived, and the end of the connection.
    fn send(&mut self, client: &Client, pieces: &[&[u8]]) {
        let mut sent = 0;
        for piece in pieces {
            client.write(piece);
            sent += piece.len() as u64;
            self.run_until(|it| it.world.resource_usage().bytes_received >= sent);
        }
        client.shutdown_write();
        self.run_until(|_| false);
    }

    fn count(&self, result: &str) -> u64 {
        self.counters.results().find(|(name, _)| *name == result).unwrap().1
    }
}

fn world(seed: u64) -> World {
    World::with_faults(seed, Faults::default())
}

#[test]
fn proxy_header_is_read_split_at_every_byte() {
    let sent = [LINE, b"ping\n"].concat();
    for at in 0..=sent.len() {
        let mut reader = Reader::new(world(1));
        let client = reader.world.connect_from(PROXY, SERVER);
        let (first, second) = sent.split_at(at);
        reader.send(&client, &[first, second]);
        let peers: Vec<_> =
            reader.accepted.iter().map(|(_, peer)| peer.unwrap().to_string()).collect();
        assert_eq!(peers, ["192.0.2.1:8080"], "split at {at}");
        assert_eq!((&*reader.received, reader.ended), (&b"ping\n"[..], 1), "split at {at}");
        assert_eq!(reader.count("client"), 1);
        assert_eq!(reader.world.resource_usage().receive_buffers_held, 0);
    }
}

#[test]
fn proxy_header_survives_network_faults() {
    for seed in 0..200 {
        let mut reader = Reader::new(World::seeded(seed));
        let client = reader.world.connect_from(PROXY, SERVER);
        reader.send(&client, &[LINE, &[b'x'; 300], b"y"]);
        let whole = [&[b'x'; 300][..], b"y"].concat();
        assert!(whole.starts_with(&reader.received), "seed {seed}");
        assert_eq!(reader.world.resource_usage().receive_buffers_held, 0, "seed {seed}");
    }
}

#[test]
fn connection_without_proxy_header_is_reset() {
    for (from, sent, result) in [
        (PROXY, &b"{\"jsonrpc\":\"2.0\"}\n"[..], "missing"),
        (PROXY, b"PROXY TCP4 192.0.2.1\r\n", "invalid"),
        (PROXY, b"PROXY TCP4", "closed"),
        (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), LINE, "untrusted"),
    ] {
        let mut reader = Reader::new(world(2));
        let client = reader.world.connect_from(from, SERVER);
        reader.send(&client, &[sent]);
        assert_eq!((reader.accepted.len(), reader.count(result)), (0, 1), "{result}");
        assert!(client.is_reset(), "{result}");
        assert_eq!((reader.received.len(), reader.ended), (0, 0), "{result}");
    }
}

#[test]
fn incomplete_proxy_header_is_reset_in_time() {
    let mut reader = Reader::new(world(3));
    let client = reader.world.connect_from(PROXY, SERVER);
    client.write(&LINE[..9]);
    reader.run_until(|it| it.count("timeout") == 1);
    let late = HEADER_TIMEOUT + Duration::from_secs(1);
    assert!(reader.now.since(Instant::ORIGIN) >= HEADER_TIMEOUT);
    assert!(reader.now.since(Instant::ORIGIN) < late);
    reader.run_until(|_| client.is_reset());
    assert!(reader.accepted.is_empty());
}

#[test]
fn refused_connection_of_a_proxy_holds_nothing() {
    let mut reader = Reader::new(world(4));
    let client = reader.world.connect_from(PROXY, SERVER);
    client.write(&[LINE, b"ping\n"].concat());
    let mut completions = Vec::new();
    while completions.is_empty() {
        reader.ring.park(ParkTimeout::Zero);
        reader.ring.reap(&mut completions);
        reader.world.advance();
    }
    let [Completion::Accepted { socket, .. }] = *completions else { panic!("{completions:?}") };
    reader.ring.submit(Operation::Close(socket));
    reader.run_until(|it| it.ended == 1);
    assert_eq!(reader.world.resource_usage().receive_buffers_held, 0);
}

#[test]
fn closed_listener_resets_incomplete_headers() {
    let mut reader = Reader::new(world(5));
    let client = reader.world.connect_from(PROXY, SERVER);
    client.write(&LINE[..9]);
    reader.run_until(|it| it.world.resource_usage().bytes_received == 9);
    let listener = corelane_engine::ring::Listener(0);
    reader.ring.submit(Operation::CloseListener(listener));
    reader.run_until(|_| client.is_reset());
    assert!(client.is_reset() && reader.accepted.is_empty());
    assert_eq!(reader.count("timeout"), 0);
}
