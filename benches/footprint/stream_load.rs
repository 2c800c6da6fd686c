//! Listening streams: their memory, their effect on other requests, and the delivery of changes.
//!
//! The server runs in its own process on one core, all clients on another. Each stream
//! (`subscriptions/listen`, revision 2026-07-28) has its own connection. Before the streams are
//! opened and while they are held, an open loop sends `tools/list` on separate connections; the
//! difference is the effect of the streams. Then the catalog changes several times, and the time is
//! measured until the first, median and last stream has its notification. The core of the client
//! has to receive all of them, so the last one depends on both sides.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use corelane::Options;
use corelane_base::time::Instant;
use corelane_bench_support::catalog_server::{self, CatalogServer};
use corelane_bench_support::process;
use corelane_engine::clock::Clock;
use hdrhistogram::Histogram;

use crate::open_loop::{self, OpenLoop};
use crate::streams::Stream;
use corelane_bench_support::client_group::ClientGroup;

/// First argument of the child that runs the server.
pub(crate) const CHILD: &str = "streams";
const SERVER_CORE: usize = 0;
const CLIENT_CORE: usize = 1;
/// Targets for the memory of a stream and the p99 latency.
const TARGET_BYTES: u64 = 1536;
const TARGET_P99_MS: f64 = 1.0;

/// Runs the server for this many streams and shards.
pub(crate) fn serve(arguments: &[String]) -> io::Result<()> {
    process::setup_child(&[SERVER_CORE])?;
    let [streams, shards] = arguments else {
        return Err(io::Error::other("usage: streams STREAMS SHARDS"));
    };
    let streams: u32 = streams.parse().map_err(io::Error::other)?;
    let mut options = Options::default();
    options.tcp.address = None;
    options.http.address = Some(([0, 0, 0, 0], 0).into());
    options.http.connections_max = streams + open_loop::CONNECTIONS;
    options.engine.shards = Some(shards.parse().map_err(io::Error::other)?);
    catalog_server::serve(options)
}

/// Notification times of the streams of a group.
type NotificationTimes = io::Result<Vec<Instant>>;

/// Opens the streams, runs the measurements and prints the results.
pub(crate) fn measure(
    streams: usize,
    shards: usize,
    rate: u32,
    seconds: u32,
    changes: usize,
) -> io::Result<()> {
    process::pin(&[CLIENT_CORE])?;
    let arguments = [CHILD.to_owned(), streams.to_string(), shards.to_string()];
    let mut server = CatalogServer::start(&arguments)?;
    let port = server.address().port();
    let clock = Clock::start();
    let before = server.resident_bytes()?;
    measure_requests("without streams", crate::destination(0, port), clock, rate, seconds)?;
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        let mut triggers = Vec::new();
        let groups = crate::groups(streams);
        let (half, mut at_half) = (groups.len() / 2, before);
        for (number, &(first, count)) in groups.iter().enumerate() {
            // Every group sends once when it is ready, and after every change.
            if number == half {
                collect(&receiver, half)?;
                at_half = server.resident_bytes()?;
            }
            let (trigger, trigger_receiver) = mpsc::channel();
            let (sender, host) = (sender.clone(), crate::destination(number, port));
            scope
                .spawn(move || hold(host, clock, first..first + count, &trigger_receiver, &sender));
            triggers.push(trigger);
        }
        drop(sender);
        collect(&receiver, groups.len() - half)?;
        let after = server.resident_bytes()?;
        let mut out = io::stdout();
        writeln!(out, "{streams} listening streams over HTTP on {shards} shards")?;
        crate::print_memory(&mut out, before, after, streams, "stream", TARGET_BYTES)?;
        let late = crate::late_clients(&groups);
        crate::print_one_more(&mut out, at_half, after, late, "stream")?;
        measure_requests("with streams", crate::destination(0, port), clock, rate, seconds)?;
        for _ in 0..changes {
            for trigger in &triggers {
                trigger.send(()).map_err(io::Error::other)?;
            }
            let start = clock.now();
            server.request_change()?;
            print_change(&mut out, start, collect(&receiver, triggers.len())?, streams)?;
        }
        // The groups end when their triggers are dropped.
        drop(triggers);
        Ok::<_, io::Error>(())
    })?;
    let counters = server.stop()?;
    let (encoded, delivered) = (counters.encoded, counters.published);
    writeln!(io::stdout(), "{changes} changes, {encoded} frames encoded, {delivered} delivered")?;
    let is_correct =
        encoded <= (changes * shards) as u64 && delivered == (changes * streams) as u64;
    let error = || io::Error::other("encoded more than once per shard, or not delivered to all");
    is_correct.then_some(()).ok_or_else(error)
}

/// Sends `tools/list` at this rate and prints the latencies.
fn measure_requests(
    when: &str,
    host: SocketAddr,
    clock: Clock,
    rate: u32,
    seconds: u32,
) -> io::Result<()> {
    let mut latency = open_loop::run(host, clock, OpenLoop { rate, warm_up: rate / 2, seconds })?;
    latency.sort_by_key(|second| second.value_at_quantile(0.99));
    let (Some(median), Some(worst)) = (latency.get(latency.len() / 2), latency.last()) else {
        return Err(io::Error::other("no request was sent"));
    };
    let at = |second: &Histogram<u64>, quantile: f64| {
        Duration::from_nanos(second.value_at_quantile(quantile)).as_secs_f64() * 1e3
    };
    let verdict = if at(median, 0.99) <= TARGET_P99_MS { "within" } else { "above" };
    writeln!(
        io::stdout(),
        "tools/list at {rate} requests/s {when}: in the median of {seconds} seconds \
         p50 {:.3} ms, p99 {:.3} ms, p99.9 {:.3} ms; in the worst p99 {:.3} ms; the median p99 is \
         {verdict} the target of {TARGET_P99_MS} ms",
        at(median, 0.5),
        at(median, 0.99),
        at(median, 0.999),
        at(worst, 0.99),
    )
}

/// Prints when the first, median and last stream were notified of a change.
fn print_change(
    out: &mut impl Write,
    start: Instant,
    mut times: Vec<Instant>,
    streams: usize,
) -> io::Result<()> {
    times.sort_unstable();
    let (Some(&first), Some(&last)) = (times.first(), times.last()) else {
        return Err(io::Error::other("no streams"));
    };
    if times.len() != streams || first < start {
        return Err(io::Error::other("a stream was notified twice or not at all"));
    }
    let ms = |time: Instant| time.since(start).as_secs_f64() * 1e3;
    writeln!(
        out,
        "a change reached the first stream after {:.2} ms, half of them after {:.2} ms, the last \
         after {:.2} ms",
        ms(first),
        ms(times[times.len() / 2]),
        ms(last)
    )
}

/// Runs one group: opens its streams and waits for a change on each trigger.
fn hold(
    host: SocketAddr,
    clock: Clock,
    ids: std::ops::Range<usize>,
    triggers: &Receiver<()>,
    sender: &Sender<NotificationTimes>,
) {
    let streams: Vec<_> = ids.map(|id| Stream::new(host, id)).collect();
    let count = streams.len();
    // The receiver is gone if another group has failed.
    let report = |times: NotificationTimes| sender.send(times).is_ok();
    let mut group = match ClientGroup::open(host, clock, streams) {
        Ok(group) => group,
        Err(error) => {
            report(Err(error));
            return;
        }
    };
    let mut is_running = report(Ok(Vec::new()));
    while is_running && triggers.recv().is_ok() {
        let result = group.wait_for_responses(count);
        is_running =
            report(result.map(|()| group.clients().map(|stream| stream.notified_at).collect()));
    }
}

/// Collects the notification times of all groups.
fn collect(receiver: &Receiver<NotificationTimes>, groups: usize) -> NotificationTimes {
    let mut times = Vec::new();
    for _ in 0..groups {
        times.extend(receiver.recv().map_err(io::Error::other)??);
    }
    Ok(times)
}
