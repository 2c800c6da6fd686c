//! The fan-out: one change of the catalog, told to ten thousand listening streams.
//!
//! ```text
//! cargo bench --bench fanout -- [--connections 100] [--streams 100] [--changes 21]
//! ```
//!
//! The server is a process of its own with one shard on one core; the client is one thread on
//! another. Each connection opens its streams (`subscriptions/listen`, revision 2026-07-28), so
//! resident memory before the first and after the last of them tells what a stream holds. Then a
//! thread of the server changes its catalog, and the client reads every connection until each of
//! its streams has been told. The time runs from the word to change to the last frame: the edition
//! is made in it, which frames the list of tools anew. Everything is on the loopback; nothing runs
//! longer than the changes that were asked for.

mod audience;
#[expect(dead_code, reason = "the floor bench asks for more")]
#[path = "../rig/process.rs"]
mod process;
#[path = "../rig/service.rs"]
mod service;

use std::io::{self, Write};
use std::time::Duration;

use corelane::server::Options;

use self::audience::Audience;
use self::process::CHILD;
use self::service::Service;

/// What a listening stream may hold (issue 3).
const TARGET_BYTES: u64 = 512;
/// The core of the client; the server has the next one.
const CLIENT_CORE: usize = 0;
const SERVER_CORE: usize = 1;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |flag: &str, default: usize| {
        let place = arguments.iter().position(|argument| argument == flag);
        let value = place.and_then(|place| arguments.get(place + 1));
        value.map_or(Ok(default), |value| value.parse().map_err(io::Error::other))
    };
    let connections = number("--connections", 100)?;
    let streams = number("--streams", 100)?;
    if arguments.first().is_some_and(|first| first == CHILD) {
        process::settle(&[SERVER_CORE])?;
        return service::serve(options(connections, streams)?);
    }
    process::pin(&[CLIENT_CORE])?;
    measure(connections, streams, number("--changes", 21)?.max(1))
}

/// One shard with room for so many connections and streams on each.
fn options(connections: usize, streams: usize) -> io::Result<Options> {
    let mut options = Options::default();
    options.tcp.address = Some(([127, 0, 0, 1], 0).into());
    options.tcp.connections_max = u32::try_from(connections).map_err(io::Error::other)?;
    options.http.address = None;
    options.engine.shards = Some(1);
    options.limits.subscriptions_per_connection_max =
        u32::try_from(streams).map_err(io::Error::other)?;
    Ok(options)
}

fn measure(connections: usize, streams: usize, changes: usize) -> io::Result<()> {
    let all = (connections * streams) as u64;
    let arguments =
        ["--connections".into(), connections.to_string(), "--streams".into(), streams.to_string()];
    let mut service = Service::start(&arguments)?;
    let mut audience = Audience::connect(service.address(), connections)?;
    let before = service.resident_bytes()?;
    audience.listen(streams)?;
    let listening = service.resident_bytes()?;
    let mut times = Vec::with_capacity(changes);
    for _ in 0..changes {
        service.change()?;
        times.push(audience.hear()?);
    }
    let told = service.resident_bytes()?;
    drop(audience);
    let counted = service.end()?;

    let (first, rest) = (times[0], &mut times[1..]);
    rest.sort_unstable();
    let middle = rest.get(rest.len() / 2).copied().unwrap_or(first);
    let worst = rest.last().copied().unwrap_or(first);
    let held = listening.saturating_sub(before) / all.max(1);
    let verdict = if held <= TARGET_BYTES { "within" } else { "above" };
    let mut out = io::stdout().lock();
    writeln!(out, "{all} streams over {connections} connections on one shard")?;
    writeln!(
        out,
        "{held} bytes resident a stream, {verdict} the target of {TARGET_BYTES}; at most {} by \
         the sizes of what it is made of",
        corelane::server::STREAM_BYTES
    )?;
    writeln!(
        out,
        "resident memory grew by {} KiB while told",
        told.saturating_sub(listening) >> 10
    )?;
    writeln!(
        out,
        "{changes} changes, {} frames encoded, {} delivered of {}",
        counted.encoded,
        counted.published,
        all * changes as u64
    )?;
    let shown = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1e3);
    writeln!(
        out,
        "last stream told after {} the first time, then {} (median) and {} (worst)",
        shown(first),
        shown(middle),
        shown(worst)
    )?;
    let right = counted.encoded == changes as u64 && counted.published == all * changes as u64;
    if right { Ok(()) } else { Err(io::Error::other("not encoded once, or not delivered to all")) }
}
