//! Memory footprint of tens of thousands of sessions and listening streams.
//!
//! ```text
//! cargo bench --bench footprint -- [--ws] [--sessions 50000] [--shards 3]
//! cargo bench --bench footprint -- --parity [--window CHUNKS] [--sessions 50000] [--shards 3]
//! cargo bench --bench footprint -- --http [--sessions 50000] [--shards 3]
//!     [--streams 50000] [--rate 10000] [--seconds 5] [--changes 6]
//! cargo bench --bench footprint -- --stdio
//! ```
//!
//! Sessions: one `corelane` process holds all of them, each over its own connection: TCP,
//! persistent HTTP, or WebSocket. Resident memory is read before the first connection, when half of
//! the sessions are ready, after the last one is ready, and twice when the server has been idle.
//! The difference of the first and the last reading is divided by the number of sessions; it
//! includes what does not depend on that, chiefly the receive buffers, which no connection has
//! touched before. The memory that one more session takes is the difference between half of them
//! and all. There is no warm-up.
//! Then a sample of the sessions calls a tool.
//!
//! With `--parity` the sessions are those of the parity dialect, over TCP, and can be resumed. They
//! have no stream, or with `--window` one each, of whose chunks the server keeps this many: an open
//! one with 0, and one that has ended otherwise.
//!
//! Streams (with `--http`): see [`stream_load`]. `--sessions 0` or `--streams 0` skips a part.
//!
//! With `--stdio`: see [`stdio_start`].
//!
//! Connections are direct descriptors on both sides, so the file limit applies to each shard or
//! ring and not to the process; they are spread over loopback addresses, each of which has about
//! 28,000 client ports. Kernel memory (about 4 KiB per socket) is not included.

mod open_loop;
mod parity_sessions;
mod sessions;
mod stdio_start;
mod stream_load;
mod streams;

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use corelane_bench_support::arguments::number;
use corelane_bench_support::client_group::{BenchClient, ClientGroup};
use corelane_bench_support::process::{self, Server};
use corelane_engine::clock::Clock;

use self::parity_sessions::{ParitySession, SessionStream};
use self::sessions::{Session, Transport};

/// Interval of the sampled sessions: a prime, so that all shards are sampled.
const SAMPLE_EVERY: usize = 97;
/// Clients of one ring.
const GROUP_MAX: usize = 16_000;
/// Targets for the memory of a session: with its own connection, and over HTTP.
const TARGET_BYTES: u64 = 1024;
const HTTP_TARGET_BYTES: u64 = 1536;
/// Time in which the server becomes idle, and returns memory that it does not use.
const IDLE: Duration = Duration::from_secs(3);
const CORELANE: &str = env!("CARGO_BIN_EXE_corelane");

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, program, rest @ ..] = arguments.as_slice()
        && first == process::CHILD
    {
        if program == stream_load::CHILD {
            return stream_load::serve(rest);
        }
        process::setup_child(&[0, 1])?;
        return Err(process::exec_program(program, rest));
    }
    let number = |flag, default| number(&arguments, flag, default);
    let has_flag = |flag: &str| arguments.iter().any(|argument| argument == flag);
    if has_flag("--stdio") {
        return stdio_start::measure(CORELANE);
    }
    let transport = match (has_flag("--http"), has_flag("--ws")) {
        (true, _) => Transport::Http,
        (_, true) => Transport::WebSocket,
        _ => Transport::Tcp,
    };
    let dialect = match (has_flag("--parity"), has_flag("--window")) {
        (true, true) => Dialect::Parity(SessionStream::with_window(number("--window", 0)?)),
        (true, false) => Dialect::Parity(SessionStream::None),
        (false, _) => Dialect::Mcp(transport),
    };
    let (sessions, shards) = (number("--sessions", 50_000)?, number("--shards", 3)?);
    if sessions > 0 {
        measure_sessions(sessions, shards, dialect)?;
    }
    let streams = number("--streams", 50_000)?;
    if transport == Transport::Http && streams > 0 {
        let rate = u32::try_from(number("--rate", 10_000)?).map_err(io::Error::other)?;
        let seconds = u32::try_from(number("--seconds", 5)?).map_err(io::Error::other)?;
        stream_load::measure(streams, shards, rate, seconds, number("--changes", 6)?.max(1))?;
    }
    Ok(())
}

/// What the sessions speak.
#[derive(Clone, Copy, Debug)]
enum Dialect {
    Mcp(Transport),
    Parity(SessionStream),
}

impl Dialect {
    /// Returns the options of the server for its listener.
    const fn listener(self) -> &'static str {
        match self {
            Self::Mcp(Transport::Tcp) | Self::Parity(_) => {
                "--insecure-public --tcp 0.0.0.0:0 --http off --tcp-connections-max"
            }
            Self::Mcp(Transport::Http) => {
                "--insecure-public --http 0.0.0.0:0 --tcp off --http-connections-max"
            }
            Self::Mcp(Transport::WebSocket) => {
                "--insecure-public --http 0.0.0.0:0 --tcp off --websocket-connections-max"
            }
        }
    }

    /// Returns what is printed behind "sessions", and the target for the memory of each.
    const fn name_and_target(self) -> (&'static str, u64) {
        match self {
            Self::Mcp(Transport::Tcp) => ("", TARGET_BYTES),
            Self::Mcp(Transport::Http) => (" over HTTP", HTTP_TARGET_BYTES),
            Self::Mcp(Transport::WebSocket) => (" over WebSocket", TARGET_BYTES),
            Self::Parity(SessionStream::None) => (" of the parity dialect", TARGET_BYTES),
            Self::Parity(_) => (" of the parity dialect, each with a stream,", TARGET_BYTES),
        }
    }
}

fn measure_sessions(sessions: usize, shards: usize, dialect: Dialect) -> io::Result<()> {
    let listener = dialect.listener();
    let line = format!("{CORELANE} serve {listener} {sessions} --shards {shards}");
    let server = Server::start(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())?;
    let port = server.address()?.port();
    let before = server.resident_bytes()?;

    let groups = groups(sessions);
    let barriers = Barriers::new(groups.len());
    let (at_half, after, descriptors, called) = thread::scope(|scope| {
        let hold = |(number, &(first, count)): (usize, &(usize, usize))| {
            let (barriers, host) = (&barriers, destination(number, port));
            scope.spawn(move || {
                barriers.wait_to_open(number);
                hold_group(dialect, host, first, count, || barriers.wait_when_open(number))
            })
        };
        let threads: Vec<_> = groups.iter().enumerate().map(hold).collect();
        barriers.half_opened.wait();
        let at_half = resident_when_idle(&server);
        barriers.half_read.wait();
        barriers.opened.wait();
        let after = resident_when_idle(&server);
        let descriptors = descriptors(&server);
        barriers.read.wait();
        let called = threads.into_iter().map(|thread| match thread.join() {
            Ok(called) => called,
            Err(_) => Err(io::Error::other("a client thread panicked")),
        });
        let called: io::Result<Vec<usize>> = called.collect();
        let (_, at_half) = at_half?;
        Ok::<_, io::Error>((at_half, after?, descriptors?, called?.iter().sum::<usize>()))
    })?;
    let (name, target) = dialect.name_and_target();
    let mut out = io::stdout().lock();
    writeln!(out, "{sessions} sessions{name} on {shards} shards, {descriptors} descriptors open")?;
    let (at_once, after) = after;
    writeln!(out, "resident memory {} KiB before the server is idle", at_once >> 10)?;
    print_memory(&mut out, before, after, sessions, "session", target)?;
    print_one_more(&mut out, at_half, after, late_clients(&groups), "session")?;
    writeln!(out, "{called} of them, every {SAMPLE_EVERY}th, called a tool with the correct result")
}

/// What the groups and the reader of memory wait for.
struct Barriers {
    /// Number of the groups that open first.
    half: usize,
    /// These are open.
    half_opened: Barrier,
    /// The others may open.
    half_read: Barrier,
    /// All groups are open.
    opened: Barrier,
    /// Memory has been read.
    read: Barrier,
}

impl Barriers {
    fn new(groups: usize) -> Self {
        let half = groups / 2;
        Self {
            half,
            half_opened: Barrier::new(half + 1),
            half_read: Barrier::new(groups - half + 1),
            opened: Barrier::new(groups + 1),
            read: Barrier::new(groups + 1),
        }
    }

    /// Waits until the group with this number may open.
    fn wait_to_open(&self, number: usize) {
        if number >= self.half {
            self.half_read.wait();
        }
    }

    /// Waits until memory has been read. To be called after a failure, too: the other groups and
    /// the reader wait for it.
    fn wait_when_open(&self, number: usize) {
        if number < self.half {
            self.half_opened.wait();
        }
        self.opened.wait();
        self.read.wait();
    }
}

/// Opens a group of sessions of `dialect`, waits, and has a sample of them call a tool; returns
/// their number.
fn hold_group(
    dialect: Dialect,
    host: SocketAddr,
    first: usize,
    count: usize,
    wait: impl Fn(),
) -> io::Result<usize> {
    match dialect {
        Dialect::Mcp(transport) => {
            let call = transport.call(host);
            let client = || Session::new(transport, host, &call);
            hold_sessions(host, first, count, client, wait, Session::call)
        }
        Dialect::Parity(stream) => {
            let client = || ParitySession::new(stream);
            hold_sessions(host, first, count, client, wait, ParitySession::call)
        }
    }
}

/// Opens a group of sessions, waits, and has a sample of them call a tool; returns their number.
fn hold_sessions<C: BenchClient>(
    host: SocketAddr,
    first: usize,
    count: usize,
    client: impl FnMut() -> C,
    wait: impl Fn(),
    call: impl Fn(&C) -> Vec<u8>,
) -> io::Result<usize> {
    let clients = std::iter::repeat_with(client).take(count).collect();
    let group = ClientGroup::open(host, Clock::start(), clients);
    wait();
    group?.request(first, SAMPLE_EVERY, call)
}

/// Returns the resident memory of the server now, and when it has been idle.
#[expect(clippy::disallowed_methods, reason = "the server has no event for an idle time")]
fn resident_when_idle(server: &Server) -> io::Result<(u64, u64)> {
    let now = server.resident_bytes()?;
    thread::sleep(IDLE);
    Ok((now, server.resident_bytes()?))
}

/// Returns the number of open descriptors of the server.
fn descriptors(server: &Server) -> io::Result<usize> {
    Ok(std::fs::read_dir(format!("/proc/{}/fd", server.id()))?.count())
}

/// Prints the memory of each of `count` items and whether it is within the target.
fn print_memory(
    out: &mut impl Write,
    before: u64,
    after: u64,
    count: usize,
    name: &str,
    target: u64,
) -> io::Result<()> {
    let each = after.saturating_sub(before) / count as u64;
    let verdict = if each <= target { "within" } else { "above" };
    writeln!(out, "resident memory {} KiB before, {} KiB after", before >> 10, after >> 10)?;
    writeln!(out, "{each} bytes per {name}, {verdict} the target of {target}")
}

/// Prints the memory of each of the `late` items that have come since half of the groups were open.
fn print_one_more(
    out: &mut impl Write,
    at_half: u64,
    after: u64,
    late: usize,
    name: &str,
) -> io::Result<()> {
    let each = after.saturating_sub(at_half) / late.max(1) as u64;
    writeln!(out, "{each} bytes for one more {name}: the difference between half of them and all")
}

/// Splits `clients` into two or more groups, each with the number of its first client and its size.
fn groups(clients: usize) -> Vec<(usize, usize)> {
    let size = clients.div_ceil(clients.div_ceil(GROUP_MAX).max(2));
    (0..clients).step_by(size).map(|first| (first, size.min(clients - first))).collect()
}

/// Returns the number of clients in the later half of `groups`.
fn late_clients(groups: &[(usize, usize)]) -> usize {
    groups[groups.len() / 2..].iter().map(|(_, count)| count).sum()
}

/// Returns the loopback address of a group: 127.0.0.1 and its neighbours.
fn destination(group: usize, port: u16) -> SocketAddr {
    let last = u8::try_from(group % 250).unwrap_or(0) + 1;
    (Ipv4Addr::new(127, 0, 0, last), port).into()
}
