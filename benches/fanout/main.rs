//! Fan-out of one catalog change to ten thousand listening streams.
//!
//! ```text
//! cargo bench --bench fanout -- [--connections 100] [--streams 100] [--changes 21]
//! ```
//!
//! The server is a process with one shard on one core; the client is one thread on another. Each
//! connection opens its streams (`subscriptions/listen`, revision 2026-07-28); the resident memory
//! before the first and after the last gives the memory of a stream. Then a thread of the server
//! changes its catalog, and the client reads every connection until each stream has its
//! notification. The time runs from the request to change to the last frame, and includes the new
//! catalog version with its encoded tool list. Everything runs on loopback.

mod subscribers;

use std::io::{self, Write};
use std::time::Duration;

use corelane::Options;
use corelane_bench_support::arguments::number;
use corelane_bench_support::catalog_server::{self, CatalogServer};
use corelane_bench_support::process::{self, CHILD};

use self::subscribers::Subscribers;

/// Target for the memory of a listening stream.
const TARGET_BYTES: u64 = 512;
/// Core of the client; the server uses the next one.
const CLIENT_CORE: usize = 0;
const SERVER_CORE: usize = 1;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |flag, default| number(&arguments, flag, default);
    let connections = number("--connections", 100)?;
    let streams = number("--streams", 100)?;
    if arguments.first().is_some_and(|first| first == CHILD) {
        process::setup_child(&[SERVER_CORE])?;
        return catalog_server::serve(options(connections, streams)?);
    }
    process::pin(&[CLIENT_CORE])?;
    measure(connections, streams, number("--changes", 21)?.max(1))
}

/// Options of one shard for this many connections and streams on each.
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
    let total = (connections * streams) as u64;
    let arguments =
        ["--connections".into(), connections.to_string(), "--streams".into(), streams.to_string()];
    let mut server = CatalogServer::start(&arguments)?;
    let mut subscribers = Subscribers::connect(server.address(), connections)?;
    let before = server.resident_bytes()?;
    subscribers.listen(streams)?;
    let listening = server.resident_bytes()?;
    let mut times = Vec::with_capacity(changes);
    for _ in 0..changes {
        server.request_change()?;
        times.push(subscribers.receive_change()?);
    }
    let after_changes = server.resident_bytes()?;
    drop(subscribers);
    let counters = server.stop()?;

    let (first, rest) = (times[0], &mut times[1..]);
    rest.sort_unstable();
    let median = rest.get(rest.len() / 2).copied().unwrap_or(first);
    let worst = rest.last().copied().unwrap_or(first);
    let stream_bytes = listening.saturating_sub(before) / total.max(1);
    let verdict = if stream_bytes <= TARGET_BYTES { "within" } else { "above" };
    let mut out = io::stdout().lock();
    writeln!(out, "{total} streams over {connections} connections on one shard")?;
    writeln!(
        out,
        "{stream_bytes} bytes resident per stream, {verdict} the target of {TARGET_BYTES}; at most \
         {} by the sizes of its parts",
        corelane::internal::STREAM_BYTES
    )?;
    writeln!(
        out,
        "resident memory grew by {} KiB during the changes",
        after_changes.saturating_sub(listening) >> 10
    )?;
    writeln!(
        out,
        "{changes} changes, {} frames encoded, {} delivered of {}",
        counters.encoded,
        counters.published,
        total * changes as u64
    )?;
    let shown = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1e3);
    writeln!(
        out,
        "last stream notified after {} the first time, then {} (median) and {} (worst)",
        shown(first),
        shown(median),
        shown(worst)
    )?;
    let is_correct =
        counters.encoded == changes as u64 && counters.published == total * changes as u64;
    if is_correct {
        Ok(())
    } else {
        Err(io::Error::other("encoded more than once, or not delivered to all"))
    }
}
