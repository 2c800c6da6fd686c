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

use corelane::connection::listener::{self, ListenerOptions};
use corelane::engine::clock::Clock;
use corelane::engine::executor::native::NativeExecutor;
use corelane::engine::ring::poll::PollRing;
#[cfg(target_os = "linux")]
use corelane::engine::ring::uring::UringRing;
use corelane::engine::ring::{ParkTimeout, Registered, Ring, RingOptions, Source};
use corelane::engine::shard_loop::{ShardLoop, TurnStatus};
use corelane::protocol::model::Implementation;
use corelane::server::{Options, Server, Shard, ShardInput};
use corelane::service::demo;
use corelane::telemetry::label::Transport;
use corelane_test_support::alloc_counter::{CountingAllocator, count_allocations};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

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

    /// Encodes a message; `session` is the session header line of legacy HTTP.
    fn frame(self, text: &str, session: &str) -> Vec<u8> {
        match self {
            Self::Tcp => format!("{text}\n").into(),
            Self::WebSocket => encode_frame(text.as_bytes()),
            Self::Http => {
                let length = text.len();
                let modern = if session.is_empty() { MODERN_HEADERS } else { session };
                format!("{POST_HEAD}{modern}Content-Length: {length}\r\n\r\n{text}").into()
            }
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

/// Encodes a masked client frame (RFC 6455, section 5.2).
fn encode_frame(text: &[u8]) -> Vec<u8> {
    let length = u16::try_from(text.len()).expect("message fits a 16-bit length");
    let mut frame = vec![0x81];
    match u8::try_from(length) {
        Ok(short) if short < 126 => frame.push(0x80 | short),
        _ => {
            frame.push(0xfe);
            frame.extend(length.to_be_bytes());
        }
    }
    frame.extend(MASKING_KEY);
    frame.extend(text.iter().zip(MASKING_KEY.iter().cycle()).map(|(byte, key)| byte ^ key));
    frame
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
    fn connect(address: SocketAddr, (transport, era): (TransportKind, Era)) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let arrival = vec![0; 256 * 1024];
        let mut client =
            Self { transport, stream, calls: Vec::new(), count: 0, receive_buffer: arrival };
        let mut session = String::new();
        if matches!(transport, TransportKind::WebSocket) {
            client.stream.write_all(UPGRADE)?;
            client.receive_upgrade()?;
        }
        if matches!(era, Era::Legacy) {
            client.stream.write_all(&transport.frame(INITIALIZE, "User-Agent: alloc\r\n"))?;
            client.receive_results(1)?;
            let head = String::from_utf8_lossy(&client.receive_buffer);
            let line = head.lines().find(|line| line.starts_with("Mcp-Session-Id"));
            session = line.map(|line| format!("{line}\r\n")).unwrap_or_default();
            client.stream.write_all(&transport.frame(INITIALIZED, &session))?;
            if matches!(transport, TransportKind::Http) {
                client.stream.read_exact(&mut [0; ACCEPTED_BYTES])?;
            }
        }
        let lengths = MESSAGE_LENGTHS.into_iter();
        let calls = (1..).zip(lengths).map(|(id, length)| call(era, id, length));
        client.count = MESSAGE_LENGTHS.len();
        client.calls = calls.flat_map(|text| transport.frame(&text, &session)).collect();
        Ok(client)
    }

    /// Reads the response head of the WebSocket upgrade.
    fn receive_upgrade(&mut self) -> io::Result<()> {
        let mut filled = 0;
        while !self.receive_buffer[..filled].ends_with(b"\r\n\r\n") {
            self.stream.read_exact(&mut self.receive_buffer[filled..=filled])?;
            filled += 1;
        }
        assert!(self.receive_buffer.starts_with(b"HTTP/1.1 101 "));
        Ok(())
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
fn call(era: Era, id: usize, length: usize) -> String {
    let meta = match era {
        Era::Legacy => "",
        Era::Modern => META,
    };
    let message = "m".repeat(length);
    format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{\
         \"name\":\"echo\",\"arguments\":{{\"message\":\"{message}\"}}{meta}}}}}"
    )
}

/// Message lengths of pipelined calls: small ones, and one larger than a receive buffer.
const MESSAGE_LENGTHS: [usize; 8] = [32, 1, 100, 6_000, 32, 0, 700, 32];

/// Runs all connections of the client until the shard is dropped.
fn run_client(address: SocketAddr, setup: (TransportKind, Era)) -> io::Result<()> {
    let open = || Client::connect(address, setup);
    let clients: io::Result<Vec<_>> = std::iter::repeat_with(open).take(CONNECTIONS).collect();
    let mut clients = clients?;
    while Client::run_round(&mut clients).is_ok() {}
    Ok(())
}

/// Builds a shard with the demo tools over `ring`, and returns its address.
fn build_shard<R: Ring>(
    mut ring: R,
    transport: TransportKind,
) -> Result<(ShardLoop<R, Shard>, SocketAddr), Box<dyn Error>> {
    let listening = listener::listen(([127, 0, 0, 1], 0).into(), &ListenerOptions::default())?;
    let address = listener::local_address(&listening)?;
    let Registered::Listener(listener) = ring.register(Source::Listener(listening))? else {
        return Err("a listener was registered as a socket".into());
    };
    let server = Server::new(demo::catalog(Implementation::new("alloc", "1"))?);
    let (seeds, _handle) = server.options(Options::default()).shard_builders(1)?;
    let seed = seeds.into_iter().next().ok_or("a server of one shard has one builder")?;
    let host = Rc::new(NativeExecutor::new(ring.waker()));
    let shard_input = ShardInput::Listener { listener, transport: transport.label() };
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

const POST_HEAD: &str = "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n\
                         Content-Type: application/json\r\n\
                         Accept: application/json, text/event-stream\r\n";

const UPGRADE: &[u8] = b"GET /mcp/ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n\
                         Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// Masking key of the client's frames.
const MASKING_KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

const MODERN_HEADERS: &str =
    "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n";

/// Bytes of the `202 Accepted` response to a notification.
const ACCEPTED_BYTES: usize = 81;

const INITIALIZE: &str = concat!(
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"#,
    r#""protocolVersion":"2025-11-25","capabilities":{},"#,
    r#""clientInfo":{"name":"alloc","version":"1"}}}"#,
);

const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

const META: &str = concat!(
    r#","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
    r#""io.modelcontextprotocol/clientCapabilities":{}}"#
);
