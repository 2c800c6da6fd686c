//! The footprint: what an initialized session costs in user memory, with tens of thousands held.
//!
//! ```text
//! cargo bench --bench footprint -- [--sessions 50000] [--shards 3]
//! ```
//!
//! One `corelane` process holds all sessions; its connections are direct descriptors, so its file
//! limit bounds each shard and not the process. The client's are too, spread over loopback
//! addresses because each has some 28,000 ports to call from. Resident memory is read before the
//! first connection and after the last session is ready, with no warm-up in between: the
//! difference holds everything that sessions made the server touch, and is divided by their
//! number. Then a sample of the sessions is asked. Kernel memory (some 4 KiB a socket) is not part
//! of it.

mod crowd;
#[expect(dead_code, reason = "the floor bench asks for more")]
#[path = "../rig/process.rs"]
mod process;
#[expect(dead_code, reason = "the floor bench asks for more")]
#[path = "../rig/requests.rs"]
mod requests;

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Barrier;
use std::thread;

use self::crowd::Crowd;
use self::process::Server;

/// One session in so many is asked at the end: a prime, so that no pattern of shards is missed.
const ASK_EVERY: usize = 97;
/// Sessions of one ring of the client.
const CROWD_MAX: usize = 16_000;
const TARGET_BYTES: u64 = 1024;
const CORELANE: &str = env!("CARGO_BIN_EXE_corelane");

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, program, rest @ ..] = arguments.as_slice()
        && first == process::CHILD
    {
        process::settle(&[0, 1])?;
        return Err(process::become_program(program, rest));
    }
    let number = |flag: &str, default: usize| {
        let place = arguments.iter().position(|argument| argument == flag);
        let value = place.and_then(|place| arguments.get(place + 1));
        value.map_or(Ok(default), |value| value.parse().map_err(io::Error::other))
    };
    measure(number("--sessions", 50_000)?, number("--shards", 3)?)
}

fn measure(sessions: usize, shards: usize) -> io::Result<()> {
    let line = format!(
        "{CORELANE} serve --tcp 0.0.0.0:0 --http off --shards {shards} \
         --tcp-connections-max {sessions}"
    );
    let server = Server::start(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())?;
    let port = server.address()?.port();
    let before = server.resident_bytes()?;

    let crowds = sessions.div_ceil(CROWD_MAX);
    let size = sessions.div_ceil(crowds);
    // All sessions are open; memory has been read.
    let (opened, read) = (Barrier::new(crowds + 1), Barrier::new(crowds + 1));
    let (after, descriptors, asked) = thread::scope(|scope| {
        let hold = |number: usize| {
            let (opened, read) = (&opened, &read);
            scope.spawn(move || {
                let first = number * size;
                let count = size.min(sessions - first);
                let crowd = Crowd::open(destination(number, port), count);
                opened.wait();
                read.wait();
                crowd.and_then(|mut crowd| crowd.ask(first, ASK_EVERY))
            })
        };
        let threads: Vec<_> = (0..crowds).map(hold).collect();
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
    let grown = after.saturating_sub(before);
    let each = grown / sessions as u64;
    let verdict = if each <= TARGET_BYTES { "within" } else { "above" };
    let mut out = io::stdout().lock();
    writeln!(out, "{sessions} sessions on {shards} shards, {descriptors} descriptors open")?;
    writeln!(out, "resident memory {} KiB before, {} KiB after", before >> 10, after >> 10)?;
    writeln!(out, "{each} bytes a session, {verdict} the target of {TARGET_BYTES}")?;
    writeln!(out, "{asked} of them, every {ASK_EVERY}th, called a tool and were answered rightly")
}

/// 127.0.0.1 and its neighbours, one for each crowd.
fn destination(crowd: usize, port: u16) -> SocketAddr {
    let last = u8::try_from(crowd % 250).unwrap_or(0) + 1;
    (Ipv4Addr::new(127, 0, 0, last), port).into()
}
