//! The memory account has what TLS connections hold: their state, the input of handshakes, and
//! output that is encrypted.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

use corelane::internal::{
    HandshakeThreads, MemoryReport, Shard, TlsCounters, TlsLimits, TlsRing, TlsSlot,
};
use corelane::{Options, Server, Transport};
use corelane_base::trusted_proxies::TrustedProxies;
use corelane_engine::clock::Clock;
use corelane_engine::ring::poll::PollRing;
use corelane_engine::ring::{ParkTimeout, RingOptions};
use corelane_engine::shard_loop::{ShardLoop, TurnStatus};
use corelane_test_support::sockets::connect;
use corelane_test_support::tls::{Certificate, CertificateValidity, Issuer, VERSIONS};
use corelane_tls::{
    ClientCertificates, Identity, KEYS_BYTES, Roots, TicketKeys, TlsServer, TlsServerOptions,
    TrustedClients,
};
use rustls::{StreamOwned, SupportedProtocolVersion};

use crate::account::{Open, Scene, catalog, find_difference_on};
use crate::server::build_shard_after;

type TestShard = ShardLoop<TlsRing<PollRing>, Shard>;

/// The longest turn of an idle shard.
const TURN_MAX: Duration = Duration::from_millis(10);

static ISSUER: LazyLock<Issuer> = LazyLock::new(Issuer::new);
static CLIENT: LazyLock<Certificate> = LazyLock::new(|| ISSUER.client());

/// Returns the configuration of a server that asks clients for certificates, or does not.
fn tls_server(asks_clients: bool) -> TlsServer {
    let certificate = ISSUER.server_certificate(CertificateValidity::Valid);
    let (chain, key) = (certificate.pem(), certificate.key_pem());
    let identity = Identity::from_pem((chain.as_bytes(), "chain"), (key.as_bytes(), "key"));
    let roots = Roots::from_pem(ISSUER.pem().as_bytes(), "roots").expect("a valid configuration");
    let trusted = TrustedClients { roots, revoked: Vec::new() };
    let clients =
        if asks_clients { ClientCertificates::Asked(trusted) } else { ClientCertificates::Off };
    let identities = vec![(identity.expect("a valid configuration"), None)];
    let tickets = TicketKeys::random().expect("a valid configuration");
    TlsServer::new(TlsServerOptions { identities, clients, tickets })
        .expect("a valid configuration")
}

/// Builds a shard whose handshakes are all done on its thread, where allocations are counted.
fn shard(options: Options, asks_clients: bool) -> (TestShard, SocketAddr) {
    let ring = PollRing::new(&RingOptions::default(), Clock::start()).expect("a ring");
    let server = Server::builder(catalog().expect("a catalog")).options(options);
    let limits = TlsLimits {
        handshake_timeout: Duration::from_hours(1),
        handshakes_max: 1024,
        handshakes_per_address_max: 1024,
        shard_percent: 100,
        trusted_proxies: TrustedProxies::default(),
    };
    let slot = TlsSlot::new(tls_server(asks_clients));
    let (counters, threads) = (Arc::new(TlsCounters::default()), HandshakeThreads::new(1));
    build_shard_after(TlsRing::new(ring), Transport::Tcp, &server, |ring, listener| {
        ring.encrypt(listener, slot, limits, &counters, &threads);
    })
    .expect("a shard")
}

/// The versions that clients speak, in turns.
const fn version_of(index: usize) -> &'static SupportedProtocolVersion {
    VERSIONS[index % VERSIONS.len()]
}

/// Opens a connection, and returns the first message of its client.
fn hello(address: SocketAddr, index: usize) -> (TcpStream, Vec<u8>) {
    let client = ISSUER.resuming_client(version_of(index), None);
    let StreamOwned { mut conn, sock } = client.open(address);
    let mut hello = Vec::new();
    conn.write_tls(&mut hello).expect("the bytes are sent");
    (sock, hello)
}

/// Nothing is sent.
fn silent(address: SocketAddr, _: usize) -> (Open, usize) {
    (Box::new(connect(address)), 0)
}

/// A part of the first message, after which nothing comes.
fn half_hello(address: SocketAddr, index: usize) -> (Open, usize) {
    let (mut stream, hello) = hello(address, index);
    stream.write_all(&hello[..100]).expect("the bytes are sent");
    (Box::new(stream), 0)
}

/// The first records of a message of 60 KB.
fn large_hello(address: SocketAddr, index: usize) -> (Open, usize) {
    let mut stream = connect(address);
    let mut message = vec![1, 0, 0xea, 0x60];
    message.resize(20_000 + index * 4_999 % 30_000, 0);
    for part in message.chunks(16_000) {
        let length = u16::try_from(part.len()).expect("a short part").to_be_bytes();
        // The server closes some of a flood.
        if stream.write_all(&[&[22, 3, 1][..], &length, part].concat()).is_err() {
            break;
        }
    }
    (Box::new(stream), message.len())
}

/// The answer to the first message is sent, and nothing comes after it.
fn half_handshake(address: SocketAddr, index: usize) -> (Open, usize) {
    let (mut stream, hello) = hello(address, index);
    stream.write_all(&hello).expect("the bytes are sent");
    stream.read_exact(&mut [0]).expect("the bytes are sent");
    (Box::new(stream), 0)
}

fn established_with(
    address: SocketAddr,
    index: usize,
    certificate: Option<&Certificate>,
) -> (Open, usize) {
    let mut client = ISSUER.resuming_client(version_of(index), certificate).open(address);
    client.conn.complete_io(&mut client.sock).expect("a complete handshake");
    (Box::new(client), 0)
}

fn established(address: SocketAddr, index: usize) -> (Open, usize) {
    established_with(address, index, None)
}

fn established_with_certificate(address: SocketAddr, index: usize) -> (Open, usize) {
    established_with(address, index, Some(&CLIENT))
}

/// Half a record of a message follows the handshake.
fn half_record(address: SocketAddr, index: usize) -> (Open, usize) {
    let mut client = ISSUER.resuming_client(version_of(index), None).open(address);
    client.conn.complete_io(&mut client.sock).expect("a complete handshake");
    client.conn.writer().write_all(&[b' '; 15_000]).expect("the bytes are sent");
    let mut records = Vec::new();
    client.conn.write_tls(&mut records).expect("the bytes are sent");
    client.sock.write_all(&records[..10_000]).expect("the bytes are sent");
    (Box::new(client), 10_000)
}

const fn scene(name: &'static str, open: fn(SocketAddr, usize) -> (Open, usize)) -> Scene {
    Scene { name, transport: Transport::Tcp, peers: [16, 96], foreign_bytes: 0, open }
}

/// Connections that have keys.
const fn keyed(name: &'static str, open: fn(SocketAddr, usize) -> (Open, usize)) -> Scene {
    Scene { foreign_bytes: KEYS_BYTES, ..scene(name, open) }
}

/// Each with whether the server asks clients for certificates.
const SCENES: [(bool, Scene); 9] = [
    (false, scene("silent connections", silent)),
    (false, scene("half hellos", half_hello)),
    (false, scene("large hellos", large_hello)),
    (false, keyed("half handshakes", half_handshake)),
    (true, keyed("half handshakes with certificates", half_handshake)),
    (false, keyed("established connections", established)),
    (true, keyed("established without certificate", established)),
    (true, keyed("established with certificate", established_with_certificate)),
    (false, keyed("half records", half_record)),
];

#[test]
fn account_has_tls_state() {
    let wrong: Vec<String> = SCENES
        .iter()
        .filter_map(|(asks_clients, scene)| {
            let (shard, address) = shard(Options::default(), *asks_clients);
            find_difference_on(scene, shard, address, |ring| ring.inner())
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Opens connections until `count` of them hold the memory of a shard, and returns them with the
/// largest account of a turn.
fn flood(
    shard: &mut TestShard,
    address: SocketAddr,
    count: usize,
    open: fn(SocketAddr, usize) -> (Open, usize),
) -> (Vec<Open>, usize) {
    let peers = thread::spawn(move || (0..count).map(|index| open(address, index).0).collect());
    let mut largest = 0;
    while !peers.is_finished() {
        assert_eq!(shard.run_turn(ParkTimeout::After(TURN_MAX)), TurnStatus::Continue);
        largest = largest.max(MemoryReport::from(shard.driver()).accounted.total());
    }
    (peers.join().expect("all peers are open"), largest)
}

#[test]
fn half_handshakes_keep_memory_limit() {
    let mut options = Options::default();
    options.limits.memory_bytes_max = 1 << 20;
    let (mut shard, address) = shard(options, false);
    let (small, _) = flood(&mut shard, address, 4, half_handshake);
    let (large, accounted) = flood(&mut shard, address, 200, large_hello);
    // The holders are searched for when the account has grown by a 64th.
    assert!(accounted <= (1 << 20) + (1 << 14), "{accounted}");
    let counters = shard.driver().counters();
    assert!(counters.input_errors.memory > 100, "{counters:?}");
    drop((small, large));
}
