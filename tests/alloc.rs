//! The road allocates nothing: a call of an inline tool over TCP, HTTP or WebSocket, from the
//! arrival of its bytes to the departure of its answer, once the shard is warm.
//!
//! A real shard runs on the test's own thread, over each ring, and only what that thread allocates
//! is counted. Its client is another thread on the other end of loopback connections.

#[expect(dead_code, reason = "the tests of the parser ask for more")]
#[path = "alloc/counting.rs"]
mod counting;

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use corelane::engine::clock::Clock;
use corelane::engine::host::native::Native;
use corelane::engine::ring::poll::PollRing;
#[cfg(target_os = "linux")]
use corelane::engine::ring::uring::UringRing;
use corelane::engine::ring::{Patience, Registered, Ring, RingOptions, Source};
use corelane::engine::shard::{Shard, Turn};
use corelane::link::listener::{self, ListenerOptions};
use corelane::observe::label::Transport;
use corelane::protocol::message::ServerInfo;
use corelane::server::{Inlet, Options, Server, ShardDriver};
use corelane::service::demo;

const CONNECTIONS: usize = 8;
/// Calls between two looks at the counter, over all connections.
const CALLS: u64 = 6_400;
/// Looks, at most. Buffers travel between connections and grow to the size of the traffic when
/// their turn comes, which no number of calls promises; a road that allocates for each call, or
/// for one in a thousand, never passes a single look.
const LOOKS_MAX: usize = 20;
/// A shard without arrivals looks up this often, to see whether its client is still there.
const LOOK: Duration = Duration::from_secs(1);

/// How the client speaks.
#[derive(Clone, Copy, Debug)]
enum Era {
    Legacy,
    Modern,
}

/// What carries the calls.
#[derive(Clone, Copy, Debug)]
enum Way {
    Http,
    Tcp,
    WebSocket,
}

impl Way {
    const fn transport(self) -> Transport {
        match self {
            Self::Http | Self::WebSocket => Transport::Http,
            Self::Tcp => Transport::Tcp,
        }
    }

    /// A message as it goes over the wire, in the session that `session` names by a line of a head.
    fn frame(self, text: &str, session: &str) -> Vec<u8> {
        match self {
            Self::Tcp => format!("{text}\n").into(),
            Self::WebSocket => masked(text.as_bytes()),
            Self::Http => {
                let length = text.len();
                let modern = if session.is_empty() { MODERN_HEAD } else { session };
                format!("{POST}{modern}Content-Length: {length}\r\n\r\n{text}").into()
            }
        }
    }

    /// Answers that are there in full.
    fn answers(self, bytes: &[u8]) -> usize {
        match self {
            Self::Tcp => memchr::memchr_iter(b'\n', bytes).count(),
            Self::Http => count(bytes, end_of_answer),
            Self::WebSocket => count(bytes, end_of_frame),
        }
    }
}

/// How many answers stand in `bytes`, each of which ends where `end` says.
fn count(mut bytes: &[u8], end: impl Fn(&[u8]) -> Option<usize>) -> usize {
    let mut count = 0;
    while let Some(end) = end(bytes) {
        bytes = &bytes[end..];
        count += 1;
    }
    count
}

/// A frame of a client (RFC 6455, section 5.2).
fn masked(text: &[u8]) -> Vec<u8> {
    let length = u16::try_from(text.len()).expect("a call that is not that long");
    let mut frame = vec![0x81];
    match u8::try_from(length) {
        Ok(short) if short < 126 => frame.push(0x80 | short),
        _ => {
            frame.push(0xfe);
            frame.extend(length.to_be_bytes());
        }
    }
    frame.extend(KEY);
    frame.extend(text.iter().zip(KEY.iter().cycle()).map(|(byte, key)| byte ^ key));
    frame
}

/// Where the first frame of a server ends, where it is there in full.
fn end_of_frame(bytes: &[u8]) -> Option<usize> {
    let length = usize::from(*bytes.get(1)?);
    let end = match length {
        126 => 4 + usize::from(u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?])),
        _ => 2 + length,
    };
    (end <= bytes.len()).then_some(end)
}

/// Where the first answer over HTTP ends, where it is there in full.
fn end_of_answer(bytes: &[u8]) -> Option<usize> {
    let head = memchr::memmem::find(bytes, b"\r\n\r\n")? + 4;
    let length = memchr::memmem::find(&bytes[..head], b"Content-Length:")?;
    let value = String::from_utf8_lossy(&bytes[length + 15..head]);
    let end = head + value.lines().next()?.trim().parse::<usize>().ok()?;
    (end <= bytes.len()).then_some(end)
}

/// One connection and the calls that it repeats.
struct Client {
    way: Way,
    stream: TcpStream,
    calls: Vec<u8>,
    count: usize,
    arrival: Vec<u8>,
}

impl Client {
    fn open(address: SocketAddr, (way, era): (Way, Era)) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let arrival = vec![0; 256 * 1024];
        let mut client = Self { way, stream, calls: Vec::new(), count: 0, arrival };
        let mut session = String::new();
        if matches!(way, Way::WebSocket) {
            client.stream.write_all(UPGRADE)?;
            client.hear_head()?;
        }
        if matches!(era, Era::Legacy) {
            client.stream.write_all(&way.frame(INITIALIZE, "User-Agent: alloc\r\n"))?;
            client.hear(1)?;
            let told = String::from_utf8_lossy(&client.arrival);
            let line = told.lines().find(|line| line.starts_with("Mcp-Session-Id"));
            session = line.map(|line| format!("{line}\r\n")).unwrap_or_default();
            client.stream.write_all(&way.frame(INITIALIZED, &session))?;
            if matches!(way, Way::Http) {
                client.stream.read_exact(&mut [0; ACCEPTED_BYTES])?;
            }
        }
        let lengths = MESSAGES.into_iter();
        let calls = (1..).zip(lengths).map(|(id, length)| call(era, id, length));
        client.count = MESSAGES.len();
        client.calls = calls.flat_map(|text| way.frame(&text, &session)).collect();
        Ok(client)
    }

    /// Reads the head of an answer; what follows it is frames.
    fn hear_head(&mut self) -> io::Result<()> {
        let mut filled = 0;
        while !self.arrival[..filled].ends_with(b"\r\n\r\n") {
            self.stream.read_exact(&mut self.arrival[filled..=filled])?;
            filled += 1;
        }
        assert!(self.arrival.starts_with(b"HTTP/1.1 101 "));
        Ok(())
    }

    /// Reads until so many answers have come; all of them must be results.
    fn hear(&mut self, answers: usize) -> io::Result<()> {
        let mut filled = 0;
        while self.way.answers(&self.arrival[..filled]) < answers {
            let length = self.stream.read(&mut self.arrival[filled..])?;
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            filled += length;
        }
        let results = memchr::memmem::find_iter(&self.arrival[..filled], b"\"result\":").count();
        assert_eq!(results, answers, "{}", String::from_utf8_lossy(&self.arrival[..filled]));
        Ok(())
    }

    /// Everything in flight at once, on every connection, then every answer.
    fn round(clients: &mut [Self]) -> io::Result<()> {
        for client in clients.iter_mut() {
            client.stream.write_all(&client.calls)?;
        }
        for client in clients {
            client.hear(client.count)?;
        }
        Ok(())
    }
}

/// One call of the echo tool with a message of `length` bytes.
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

/// Bytes of the messages of small calls in a row, and of one that is larger than a receive buffer.
const MESSAGES: [usize; 8] = [32, 1, 100, 6_000, 32, 0, 700, 32];

/// Everything the client does: all its connections, round after round, until the shard is gone.
fn load(address: SocketAddr, how: (Way, Era)) -> io::Result<()> {
    let open = || Client::open(address, how);
    let clients: io::Result<Vec<_>> = std::iter::repeat_with(open).take(CONNECTIONS).collect();
    let mut clients = clients?;
    while Client::round(&mut clients).is_ok() {}
    Ok(())
}

/// A shard with the demo's tools on `ring`, and where it listens.
fn shard<R: Ring>(
    mut ring: R,
    way: Way,
) -> Result<(Shard<R, ShardDriver>, SocketAddr), Box<dyn Error>> {
    let listening = listener::listen(([127, 0, 0, 1], 0).into(), &ListenerOptions::default())?;
    let address = listener::local_address(&listening)?;
    let Registered::Listener(listener) = ring.register(Source::Listener(listening))? else {
        return Err("a listener was registered as a socket".into());
    };
    let server = Server::new(demo::catalog(ServerInfo::new("alloc", "1"))?);
    let (seeds, _handle) = server.options(Options::default()).seeds(1)?;
    let seed = seeds.into_iter().next().ok_or("a server of one shard has a seed")?;
    let host = Rc::new(Native::new(ring.waker()));
    let inlet = Inlet::Listener { listener, transport: way.transport() };
    Ok((seed.build(ring, host, &[inlet])?, address))
}

/// The fewest allocations of a shard between two looks.
fn fewest_allocations<R: Ring>(ring: R, how: (Way, Era)) -> Result<usize, Box<dyn Error>> {
    let (mut shard, address) = shard(ring, how.0)?;
    let client = thread::spawn(move || load(address, how));
    let mut fewest = usize::MAX;
    for _ in 0..LOOKS_MAX {
        let end = called(&shard) + CALLS;
        let mut allocated = 0;
        while called(&shard) < end {
            allocated += counting::allocations(|| {
                assert_eq!(shard.turn(Patience::For(LOOK)), Turn::More);
            });
            assert!(!client.is_finished(), "the client gave up");
        }
        fewest = fewest.min(allocated);
        if fewest == 0 {
            break;
        }
    }
    // Ends the client too.
    drop(shard);
    client.join().map_err(|_| "the client panicked")??;
    Ok(fewest)
}

fn called<R: Ring>(shard: &Shard<R, ShardDriver>) -> u64 {
    shard.driver().counters().requests.tools_call
}

#[test]
fn a_call_on_the_readiness_ring_allocates_nothing_after_warm_up() {
    for how in WAYS {
        let ring = PollRing::new(&RingOptions::default(), Clock::start()).unwrap();
        assert_eq!(fewest_allocations(ring, how).unwrap(), 0, "{how:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_call_on_io_uring_allocates_nothing_after_warm_up() {
    for how in WAYS {
        let ring = UringRing::new(&RingOptions::default(), Clock::start()).unwrap();
        assert_eq!(fewest_allocations(ring, how).unwrap(), 0, "{how:?}");
    }
}

const WAYS: [(Way, Era); 6] = [
    (Way::Http, Era::Legacy),
    (Way::Http, Era::Modern),
    (Way::Tcp, Era::Legacy),
    (Way::Tcp, Era::Modern),
    (Way::WebSocket, Era::Legacy),
    (Way::WebSocket, Era::Modern),
];

const POST: &str = "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
                    Accept: application/json, text/event-stream\r\n";

const UPGRADE: &[u8] = b"GET /mcp/ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n\
                         Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// What frames are masked with.
const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

const MODERN_HEAD: &str =
    "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n";

/// Bytes of the answer to a notification.
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
