//! A warm request path allocates nothing: a call of an inline tool over TCP, HTTP or WebSocket,
//! from the received bytes to the sent response.
//!
//! A shard runs on the test's thread over each ring, and only allocations of that thread count. The
//! client runs on another thread over loopback connections.

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use corelane::internal::{ListenerOptions, Shard, ShardInput, demo, listener};
use corelane::{Catalog, Server, Transport};
use corelane_engine::clock::Clock;
use corelane_engine::executor::native::NativeExecutor;
use corelane_engine::ring::poll::PollRing;
#[cfg(target_os = "linux")]
use corelane_engine::ring::uring::UringRing;
use corelane_engine::ring::{Listener, ParkTimeout, Registered, Ring, RingOptions, Source};
use corelane_engine::shard_loop::{ShardLoop, TurnStatus};
use corelane_protocol::model::Implementation;
use corelane_test_support::alloc_counter::count_allocations;
use corelane_test_support::messages::{LEGACY, echo, initialize, modern, notification};
use corelane_test_support::websocket::text_frame;
use corelane_test_support::{HttpClient, LineClient, Request, WebSocketClient, sockets};
use serde_json::Value;

const CONNECTIONS: usize = 8;
/// Calls per measurement, over all connections.
const CALLS: u64 = 6_400;
/// Measurements, at most. Buffers move between connections and grow to the size of the traffic at
/// first use, which no number of calls guarantees; a request path that allocates for every call,
/// or for one in a thousand, fails every measurement.
const MEASUREMENTS_MAX: usize = 20;
/// Turns of an idle shard end after this time, to check that the client still runs.
const IDLE_TIMEOUT: Duration = Duration::from_secs(1);

/// The protocol era of the client.
#[derive(Clone, Copy, Debug)]
enum Era {
    Legacy,
    Modern,
}

/// The transport of the calls.
#[derive(Clone, Copy, Debug)]
enum TransportKind {
    Http,
    Tcp,
    WebSocket,
}

impl TransportKind {
    const fn label(self) -> Transport {
        match self {
            Self::Http | Self::WebSocket => Transport::Http,
            Self::Tcp => Transport::Tcp,
        }
    }

    /// Connects and makes the handshake of the era. Returns the id of a legacy session over HTTP.
    fn open(self, address: SocketAddr, era: Era) -> io::Result<(TcpStream, Option<String>)> {
        match (self, era) {
            (Self::WebSocket, Era::Legacy) => {
                Ok((WebSocketClient::initialize(address, LEGACY).clone_socket(), None))
            }
            (Self::WebSocket, Era::Modern) => {
                Ok((WebSocketClient::connect(address).clone_socket(), None))
            }
            (Self::Tcp, Era::Legacy) => {
                let mut client = LineClient::connect(address);
                client.handshake(LEGACY);
                Ok((client.socket().try_clone()?, None))
            }
            (Self::Http, Era::Legacy) => {
                let mut client = HttpClient::connect(address).with_revision(LEGACY);
                let response = client.exchange(&Request::post(initialize(0, LEGACY)));
                let id = response.head.field("Mcp-Session-Id").expect("no session id").to_owned();
                let initialized = Request::post(notification("notifications/initialized"));
                let initialized = initialized.field("Mcp-Session-Id", &id);
                client.exchange(&initialized).expect_empty_body(202);
                Ok((client.socket().try_clone()?, Some(id)))
            }
            (Self::Http | Self::Tcp, Era::Modern) => Ok((sockets::connect(address), None)),
        }
    }

    /// Encodes a message, of a legacy session over HTTP if there is one.
    fn frame(self, message: &Value, session: Option<&str>) -> Vec<u8> {
        match (self, session) {
            (Self::Tcp, _) => format!("{message}\n").into(),
            (Self::WebSocket, _) => text_frame(message),
            (Self::Http, None) => Request::modern(message).bytes(),
            (Self::Http, Some(id)) => Request::post(message).field("Mcp-Session-Id", id).bytes(),
        }
    }

    /// Returns the number of complete responses in `bytes`.
    fn count_responses(self, bytes: &[u8]) -> usize {
        match self {
            Self::Tcp => memchr::memchr_iter(b'\n', bytes).count(),
            Self::Http => count_complete(bytes, end_of_response),
            Self::WebSocket => count_complete(bytes, end_of_frame),
        }
    }
}

/// Counts the responses in `bytes`; `end` returns the end of the first one.
fn count_complete(mut bytes: &[u8], end: impl Fn(&[u8]) -> Option<usize>) -> usize {
    let mut count = 0;
    while let Some(end) = end(bytes) {
        bytes = &bytes[end..];
        count += 1;
    }
    count
}

/// Returns the end of the first server frame if it is complete.
fn end_of_frame(bytes: &[u8]) -> Option<usize> {
    let length = usize::from(*bytes.get(1)?);
    let end = match length {
        126 => 4 + usize::from(u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?])),
        _ => 2 + length,
    };
    (end <= bytes.len()).then_some(end)
}

/// Returns the end of the first HTTP response if it is complete.
fn end_of_response(bytes: &[u8]) -> Option<usize> {
    let head = memchr::memmem::find(bytes, b"\r\n\r\n")? + 4;
    let length = memchr::memmem::find(&bytes[..head], b"Content-Length:")?;
    let value = String::from_utf8_lossy(&bytes[length + 15..head]);
    let end = head + value.lines().next()?.trim().parse::<usize>().ok()?;
    (end <= bytes.len()).then_some(end)
}

/// One connection with its repeated calls.
struct Client {
    transport: TransportKind,
    stream: TcpStream,
    calls: Vec<u8>,
    count: usize,
    receive_buffer: Vec<u8>,
}

impl Client {
    fn connect(address: SocketAddr, transport: TransportKind, era: Era) -> io::Result<Self> {
        let (stream, session) = transport.open(address, era)?;
        let count = MESSAGE_LENGTHS.len();
        let calls = (1..).zip(MESSAGE_LENGTHS).map(|(id, length)| call(era, id, length));
        let calls = calls.flat_map(|call| transport.frame(&call, session.as_deref())).collect();
        Ok(Self { transport, stream, calls, count, receive_buffer: vec![0; 256 * 1024] })
    }

    /// Reads `expected` responses, all of which must be results.
    fn receive_results(&mut self, expected: usize) -> io::Result<()> {
        let mut filled = 0;
        while self.transport.count_responses(&self.receive_buffer[..filled]) < expected {
            let length = self.stream.read(&mut self.receive_buffer[filled..])?;
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            filled += length;
        }
        let results =
            memchr::memmem::find_iter(&self.receive_buffer[..filled], b"\"result\":").count();
        assert_eq!(
            results,
            expected,
            "{}",
            String::from_utf8_lossy(&self.receive_buffer[..filled])
        );
        Ok(())
    }

    /// Sends all calls on every connection, then reads all responses.
    fn run_round(clients: &mut [Self]) -> io::Result<()> {
        for client in clients.iter_mut() {
            client.stream.write_all(&client.calls)?;
        }
        for client in clients {
            client.receive_results(client.count)?;
        }
        Ok(())
    }
}

/// A call of the tool `echo` with a message of `length` bytes.
fn call(era: Era, id: u32, length: usize) -> Value {
    let call = echo(id, &"m".repeat(length));
    match era {
        Era::Legacy => call,
        Era::Modern => modern(call),
    }
}

/// Message lengths of pipelined calls: small ones, and one larger than a receive buffer.
const MESSAGE_LENGTHS: [usize; 8] = [32, 1, 100, 6_000, 32, 0, 700, 32];

/// Runs all connections of the client until the shard is dropped.
fn run_client(address: SocketAddr, setup: (TransportKind, Era)) -> io::Result<()> {
    let (transport, era) = setup;
    let open = || Client::connect(address, transport, era);
    let clients: io::Result<Vec<_>> = std::iter::repeat_with(open).take(CONNECTIONS).collect();
    let mut clients = clients?;
    while Client::run_round(&mut clients).is_ok() {}
    Ok(())
}

/// Builds a shard with the demo tools over `ring`, and returns its address.
fn build_shard<R: Ring>(
    ring: R,
    transport: TransportKind,
) -> Result<(ShardLoop<R, Shard>, SocketAddr), Box<dyn Error>> {
    build_shard_of(ring, transport.label(), demo::catalog(Implementation::new("alloc", "1"))?)
}

/// Builds a shard with this catalog over `ring`, and returns its address.
pub(super) fn build_shard_of<R: Ring>(
    ring: R,
    transport: Transport,
    catalog: Catalog,
) -> Result<(ShardLoop<R, Shard>, SocketAddr), Box<dyn Error>> {
    build_shard_with(ring, transport, &Server::builder(catalog))
}

/// Builds a shard of this server over `ring`, and returns its address.
pub(super) fn build_shard_with<R: Ring>(
    ring: R,
    transport: Transport,
    server: &Server,
) -> Result<(ShardLoop<R, Shard>, SocketAddr), Box<dyn Error>> {
    build_shard_after(ring, transport, server, |_, _| ())
}

/// Builds a shard of this server, whose listener is passed to `prepare`.
pub(super) fn build_shard_after<R: Ring>(
    mut ring: R,
    transport: Transport,
    server: &Server,
    prepare: impl FnOnce(&mut R, Listener),
) -> Result<(ShardLoop<R, Shard>, SocketAddr), Box<dyn Error>> {
    let listening = listener::listen(([127, 0, 0, 1], 0).into(), &ListenerOptions::default())?;
    let address = listener::local_address(&listening)?;
    let Registered::Listener(listener) = ring.register(Source::Listener(listening))? else {
        return Err("a listener was registered as a socket".into());
    };
    prepare(&mut ring, listener);
    let (seeds, _handle) = server.shard_builders(1)?;
    let seed = seeds.into_iter().next().ok_or("a server of one shard has one builder")?;
    let host = Rc::new(NativeExecutor::new(ring.waker()));
    let shard_input = ShardInput::Listener { listener, transport };
    Ok((seed.build(ring, host, &[shard_input])?, address))
}

/// Returns the fewest allocations of a shard in one measurement.
fn fewest_allocations<R: Ring>(
    ring: R,
    setup: (TransportKind, Era),
) -> Result<usize, Box<dyn Error>> {
    let (mut shard, address) = build_shard(ring, setup.0)?;
    let client = thread::spawn(move || run_client(address, setup));
    let mut fewest = usize::MAX;
    for _ in 0..MEASUREMENTS_MAX {
        let end = tools_called(&shard) + CALLS;
        let mut allocated = 0;
        while tools_called(&shard) < end {
            allocated += count_allocations(|| {
                assert_eq!(shard.run_turn(ParkTimeout::After(IDLE_TIMEOUT)), TurnStatus::Continue);
            });
            assert!(!client.is_finished(), "the client stopped");
        }
        fewest = fewest.min(allocated);
        if fewest == 0 {
            break;
        }
    }
    // The client stops when its connections are closed.
    drop(shard);
    client.join().map_err(|_| "the client panicked")??;
    Ok(fewest)
}

fn tools_called<R: Ring>(shard: &ShardLoop<R, Shard>) -> u64 {
    shard.driver().counters().requests.tools_call
}

#[test]
fn poll_ring_call_allocates_nothing_when_warm() {
    for setup in SETUPS {
        let ring = PollRing::new(&RingOptions::default(), Clock::start()).unwrap();
        assert_eq!(fewest_allocations(ring, setup).unwrap(), 0, "{setup:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn uring_call_allocates_nothing_when_warm() {
    for setup in SETUPS {
        let ring = UringRing::new(&RingOptions::default(), Clock::start()).unwrap();
        assert_eq!(fewest_allocations(ring, setup).unwrap(), 0, "{setup:?}");
    }
}

const SETUPS: [(TransportKind, Era); 6] = [
    (TransportKind::Http, Era::Legacy),
    (TransportKind::Http, Era::Modern),
    (TransportKind::Tcp, Era::Legacy),
    (TransportKind::Tcp, Era::Modern),
    (TransportKind::WebSocket, Era::Legacy),
    (TransportKind::WebSocket, Era::Modern),
];
