//! The road allocates nothing: a call of an inline tool over TCP, from the arrival of its bytes to
//! the departure of its answer, once the shard is warm.
//!
//! A counting allocator counts every thread but the one that drives the load. The server is a real
//! one, started as a host program starts it; what it allocates while connections open and while
//! buffers grow to the size of the traffic is the warm-up.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};

use corelane::protocol::message::ServerInfo;
use corelane::server::options::{Executor, RingBackend};
use corelane::server::{Options, Server};
use corelane::service::demo;

/// Counts what every thread asks of the system's allocator, but for those that opted out.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static IS_EXEMPT: Cell<bool> = const { Cell::new(false) };
}

impl Counting {
    fn count() {
        // A thread whose locals are gone is at its end: it serves nobody.
        if IS_EXEMPT.try_with(Cell::get) == Ok(false) {
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        }
    }
}

// SAFETY: every call goes to the system's allocator as it came; counting touches an atomic and a
// thread-local without a destructor, so it does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::count();
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Self::count();
        // SAFETY: the caller upholds the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        Self::count();
        // SAFETY: the caller upholds the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, new_size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const CONNECTIONS: usize = 8;
/// Rounds of calls between two looks at the counter.
const ROUNDS: usize = 100;
/// Looks, at most. Buffers travel between connections and grow to the size of the traffic when
/// their turn comes, which no number of rounds promises; a road that allocates for each call, or
/// for one in a thousand, never passes a single look.
const LOOKS_MAX: usize = 20;

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
            assert_ne!(length, 0, "the server closed the connection");
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

/// The fewest allocations between two looks.
fn fewest_allocations(
    executor: Executor,
    ring: RingBackend,
    era: Era,
) -> Result<u64, Box<dyn Error>> {
    let mut options = Options::default();
    options.tcp.address = Some(([127, 0, 0, 1], 0).into());
    options.http.address = None;
    options.engine.shards = Some(1);
    options.engine.executor = executor;
    options.engine.ring = ring;
    let catalog = demo::catalog(ServerInfo::new("alloc", "1"))?;
    let running = Server::new(catalog).options(options).start()?;
    let (_, address) = running.addresses()[0];

    let open = || Client::open(address, era, calls(era));
    let clients: io::Result<Vec<Client>> = std::iter::repeat_with(open).take(CONNECTIONS).collect();
    let mut clients = clients?;
    let mut fewest = u64::MAX;
    for _ in 0..LOOKS_MAX {
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        for _ in 0..ROUNDS {
            Client::round(&mut clients)?;
        }
        fewest = fewest.min(ALLOCATIONS.load(Ordering::Relaxed) - before);
        if fewest == 0 {
            break;
        }
    }
    drop(clients);
    running.handle().drain();
    running.join()?;
    Ok(fewest)
}

/// One test only: the counter sees every thread of the process.
#[test]
fn a_call_of_an_inline_tool_over_tcp_allocates_nothing_after_warm_up() -> Result<(), Box<dyn Error>>
{
    IS_EXEMPT.set(true);
    let mut lanes = vec![(Executor::Native, RingBackend::Poll)];
    if cfg!(target_os = "linux") {
        lanes.push((Executor::Native, RingBackend::Uring));
    }
    for (executor, ring) in lanes {
        for era in [Era::Legacy, Era::Modern] {
            let allocations = fewest_allocations(executor, ring, era)?;
            let calls = ROUNDS * CONNECTIONS * newlines(&calls(era));
            assert_eq!(allocations, 0, "{executor:?} {ring:?} {era:?}: {calls} calls");
        }
    }
    Ok(())
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
