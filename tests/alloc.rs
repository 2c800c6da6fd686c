//! The road allocates nothing: a call of an inline tool over TCP, from the arrival of its bytes to
//! the departure of its answer, once the shard is warm.
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

/// One connection and the calls that it repeats.
struct Client {
    stream: TcpStream,
    calls: Vec<u8>,
    arrival: Vec<u8>,
}

impl Client {
    fn open(address: SocketAddr, era: Era, calls: Vec<u8>) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let mut client = Self { stream, calls, arrival: vec![0; 256 * 1024] };
        if matches!(era, Era::Legacy) {
            client.stream.write_all(INITIALIZE.as_bytes())?;
            client.hear(1)?;
            client.stream.write_all(INITIALIZED.as_bytes())?;
        }
        Ok(client)
    }

    /// Reads until `answers` lines have come; all of them must be results.
    fn hear(&mut self, answers: usize) -> io::Result<()> {
        let mut filled = 0;
        while newlines(&self.arrival[..filled]) < answers {
            let length = self.stream.read(&mut self.arrival[filled..])?;
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            filled += length;
        }
        for line in self.arrival[..filled].split_inclusive(|byte| *byte == b'\n') {
            let text = String::from_utf8_lossy(line);
            assert!(text.contains("\"result\":"), "{text}");
        }
        Ok(())
    }

    /// Everything in flight at once, on every connection, then every answer.
    fn round(clients: &mut [Self]) -> io::Result<()> {
        for client in clients.iter_mut() {
            client.stream.write_all(&client.calls)?;
        }
        for client in clients {
            client.hear(newlines(&client.calls))?;
        }
        Ok(())
    }
}

fn newlines(bytes: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', bytes).count()
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
         \"name\":\"echo\",\"arguments\":{{\"message\":\"{message}\"}}{meta}}}}}\n"
    )
}

/// Small calls in a row, and one that is larger than a receive buffer.
fn calls(era: Era) -> Vec<u8> {
    let lengths = [32, 1, 100, 6_000, 32, 0, 700, 32];
    let lines = (1..).zip(lengths).map(|(id, length)| call(era, id, length));
    lines.collect::<String>().into_bytes()
}

/// Everything the client does: all its connections, round after round, until the shard is gone.
fn load(address: SocketAddr, era: Era) -> io::Result<()> {
    let open = || Client::open(address, era, calls(era));
    let clients: io::Result<Vec<_>> = std::iter::repeat_with(open).take(CONNECTIONS).collect();
    let mut clients = clients?;
    while Client::round(&mut clients).is_ok() {}
    Ok(())
}

/// A shard with the demo's tools on `ring`, and where it listens.
fn shard<R: Ring>(mut ring: R) -> Result<(Shard<R, ShardDriver>, SocketAddr), Box<dyn Error>> {
    let listening = listener::listen(([127, 0, 0, 1], 0).into(), &ListenerOptions::default())?;
    let address = listener::local_address(&listening)?;
    let Registered::Listener(listener) = ring.register(Source::Listener(listening))? else {
        return Err("a listener was registered as a socket".into());
    };
    let server = Server::new(demo::catalog(ServerInfo::new("alloc", "1"))?);
    let (seeds, _handle) = server.options(Options::default()).seeds(1)?;
    let seed = seeds.into_iter().next().ok_or("a server of one shard has a seed")?;
    let host = Rc::new(Native::new(ring.waker()));
    let inlet = Inlet::Listener { listener, transport: Transport::Tcp };
    Ok((seed.build(ring, host, &[inlet])?, address))
}

/// The fewest allocations of a shard between two looks.
fn fewest_allocations<R: Ring>(ring: R, era: Era) -> Result<usize, Box<dyn Error>> {
    let (mut shard, address) = shard(ring)?;
    let client = thread::spawn(move || load(address, era));
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
    for era in [Era::Legacy, Era::Modern] {
        let ring = PollRing::new(&RingOptions::default(), Clock::start()).unwrap();
        assert_eq!(fewest_allocations(ring, era).unwrap(), 0, "{era:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_call_on_io_uring_allocates_nothing_after_warm_up() {
    for era in [Era::Legacy, Era::Modern] {
        let ring = UringRing::new(&RingOptions::default(), Clock::start()).unwrap();
        assert_eq!(fewest_allocations(ring, era).unwrap(), 0, "{era:?}");
    }
}

const INITIALIZE: &str = concat!(
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"#,
    r#""protocolVersion":"2025-11-25","capabilities":{},"#,
    r#""clientInfo":{"name":"alloc","version":"1"}}}"#,
    "\n"
);

const INITIALIZED: &str =
    concat!(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, "\n");

const META: &str = concat!(
    r#","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
    r#""io.modelcontextprotocol/clientCapabilities":{}}"#
);
