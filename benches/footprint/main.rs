//! The footprint: what is held costs in user memory, with tens of thousands held.
//!
//! ```text
//! cargo bench --bench footprint -- [--ws] [--sessions 50000] [--shards 3]
//! cargo bench --bench footprint -- --http [--sessions 50000] [--shards 3]
//!     [--streams 50000] [--rate 10000] [--seconds 5] [--changes 6]
//! ```
//!
//! Sessions: one `corelane` process holds all of them, each over a connection of its own: of lines,
//! of HTTP, which is kept, or of WebSocket. Resident memory is read before the first connection and
//! after the last session is ready, with no warm-up in between: the difference holds everything
//! that sessions made the server touch, and is divided by their number. Then a sample of the
//! sessions is asked.
//!
//! Streams (with `--http`): see [`listening`]. `--sessions 0` or `--streams 0` leaves a part out.
//!
//! Connections are direct descriptors at both ends, so the file limit bounds each shard, or ring of
//! the client, and not the process; they are spread over loopback addresses because each has some
//! 28,000 ports to call from. Kernel memory (some 4 KiB a socket) is not part of the figures.

mod crowd;
#[expect(dead_code, reason = "the floor bench asks for more")]
#[path = "../rig/frames.rs"]
mod frames;
mod listening;
mod paced;
#[expect(dead_code, reason = "the floor bench asks for more")]
#[path = "../rig/process.rs"]
mod process;
#[expect(dead_code, reason = "the floor bench asks for more")]
#[path = "../rig/requests.rs"]
mod requests;
#[path = "../rig/responses.rs"]
mod responses;
#[path = "../rig/service.rs"]
mod service;
mod sessions;
mod streams;
#[path = "../rig/wording.rs"]
mod wording;

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Barrier;
use std::thread;

use corelane::engine::clock::Clock;

use self::crowd::Crowd;
use self::process::Server;
use self::sessions::{Over, Session};

/// One session in so many is asked at the end: a prime, so that no pattern of shards is missed.
const ASK_EVERY: usize = 97;
/// Guests of one ring of the client.
const CROWD_MAX: usize = 16_000;
/// What a session may hold over what is its own, and over HTTP.
const OWN_TARGET_BYTES: u64 = 1024;
const HTTP_TARGET_BYTES: u64 = 1536;
const CORELANE: &str = env!("CARGO_BIN_EXE_corelane");

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, program, rest @ ..] = arguments.as_slice()
        && first == process::CHILD
    {
        if program == listening::CHILD {
            return listening::serve(rest);
        }
        process::settle(&[0, 1])?;
        return Err(process::become_program(program, rest));
    }
    let number = |flag: &str, default: usize| {
        let place = arguments.iter().position(|argument| argument == flag);
        let value = place.and_then(|place| arguments.get(place + 1));
        value.map_or(Ok(default), |value| value.parse().map_err(io::Error::other))
    };
    let is_said = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let over = match (is_said("--http"), is_said("--ws")) {
        (true, _) => Over::Posts,
        (_, true) => Over::Frames,
        _ => Over::Lines,
    };
    let (sessions, shards) = (number("--sessions", 50_000)?, number("--shards", 3)?);
    if sessions > 0 {
        measure_sessions(sessions, shards, over)?;
    }
    let streams = number("--streams", 50_000)?;
    if over == Over::Posts && streams > 0 {
        let rate = u32::try_from(number("--rate", 10_000)?).map_err(io::Error::other)?;
        let seconds = u32::try_from(number("--seconds", 5)?).map_err(io::Error::other)?;
        listening::measure(streams, shards, rate, seconds, number("--changes", 6)?.max(1))?;
    }
    Ok(())
}

fn measure_sessions(sessions: usize, shards: usize, over: Over) -> io::Result<()> {
    let door = match over {
        Over::Lines => "--tcp 0.0.0.0:0 --http off --tcp-connections-max",
        Over::Posts | Over::Frames => "--http 0.0.0.0:0 --tcp off --http-connections-max",
    };
    let line = format!("{CORELANE} serve {door} {sessions} --shards {shards}");
    let server = Server::start(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())?;
    let port = server.address()?.port();
    let before = server.resident_bytes()?;

    let crowds = crowds(sessions);
    // All sessions are open; memory has been read.
    let (opened, read) = (Barrier::new(crowds.len() + 1), Barrier::new(crowds.len() + 1));
    let (after, descriptors, asked) = thread::scope(|scope| {
        let hold = |(number, &(first, count)): (usize, &(usize, usize))| {
            let (opened, read) = (&opened, &read);
            // Whatever has become of this crowd: the others and the reader wait too.
            let wait = || {
                opened.wait();
                read.wait();
            };
            let host = destination(number, port);
            scope.spawn(move || {
                let call = over.call(host);
                let guest = || Session::new(over, host, &call);
                let guests = std::iter::repeat_with(guest).take(count).collect();
                let crowd = Crowd::open(host, Clock::start(), guests);
                wait();
                crowd?.ask(first, ASK_EVERY, Session::call)
            })
        };
        let threads: Vec<_> = crowds.iter().enumerate().map(hold).collect();
        opened.wait();
        let after = server.resident_bytes();
        let descriptors = server.descriptors();
        read.wait();
        let asked = threads.into_iter().map(|thread| match thread.join() {
            Ok(asked) => asked,
            Err(_) => Err(io::Error::other("a crowd panicked")),
        });
        let asked: io::Result<Vec<usize>> = asked.collect();
        Ok::<_, io::Error>((after?, descriptors?, asked?.iter().sum::<usize>()))
    })?;
    let (over, target) = match over {
        Over::Lines => ("", OWN_TARGET_BYTES),
        Over::Posts => (" of HTTP", HTTP_TARGET_BYTES),
        Over::Frames => (" of WebSocket", OWN_TARGET_BYTES),
    };
    let mut out = io::stdout().lock();
    writeln!(out, "{sessions} sessions{over} on {shards} shards, {descriptors} descriptors open")?;
    print_memory(&mut out, before, after, sessions, "session", target)?;
    writeln!(out, "{asked} of them, every {ASK_EVERY}th, called a tool and were answered rightly")
}

/// What each of `count` took of the memory, and whether that is within the target.
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
    writeln!(out, "{each} bytes a {name}, {verdict} the target of {target}")
}

/// The crowds that so many guests come in, each with its first guest and their number.
fn crowds(guests: usize) -> Vec<(usize, usize)> {
    let size = guests.div_ceil(guests.div_ceil(CROWD_MAX));
    (0..guests).step_by(size).map(|first| (first, size.min(guests - first))).collect()
}

/// 127.0.0.1 and its neighbours, one for each crowd.
fn destination(crowd: usize, port: u16) -> SocketAddr {
    let last = u8::try_from(crowd % 250).unwrap_or(0) + 1;
    (Ipv4Addr::new(127, 0, 0, last), port).into()
}
