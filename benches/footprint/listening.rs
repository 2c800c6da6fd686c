//! Streams that are held: their memory, what they cost others, and how a change reaches them all.
//!
//! The server is the library in a process of its own on one core, all clients are on another. Each
//! stream (`subscriptions/listen`, revision 2026-07-28) has its connection. Before they come, and
//! while all of them are held, an open loop asks for the list of tools on connections of its own:
//! the difference is theirs, the rest of the tail is the machine's. Afterwards the catalog
//! changes, several times, and the time runs from the word to change until the first, the middle
//! and the last stream have been told. The client's core has to receive all that too, so the last
//! stream tells of both ends.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use corelane::base::time::Moment;
use corelane::engine::clock::Clock;
use corelane::server::Options;
use hdrhistogram::Histogram;

use crate::crowd::Crowd;
use crate::paced::{self, Pace};
use crate::process;
use crate::service::{self, Service};
use crate::streams::Stream;

/// The first argument of the child that is the server.
pub(crate) const CHILD: &str = "listening";
const SERVER_CORE: usize = 0;
const CLIENT_CORE: usize = 1;
/// What one stream may hold, and how long all but one in a hundred requests may take (issue 4).
const TARGET_BYTES: u64 = 1536;
const TARGET_P99_MS: f64 = 1.0;

/// The life of the server, for so many streams on so many shards.
pub(crate) fn serve(arguments: &[String]) -> io::Result<()> {
    process::settle(&[SERVER_CORE])?;
    let [streams, shards] = arguments else {
        return Err(io::Error::other("a listening server is told streams and shards"));
    };
    let streams: u32 = streams.parse().map_err(io::Error::other)?;
    let mut options = Options::default();
    options.tcp.address = None;
    options.http.address = Some(([0, 0, 0, 0], 0).into());
    options.http.connections_max = streams + paced::CONNECTIONS;
    options.engine.shards = Some(shards.parse().map_err(io::Error::other)?);
    service::serve(options)
}

/// When each stream of a crowd was told, or why that is not known.
type Told = io::Result<Vec<Moment>>;

/// Holds so many streams, and prints what came of it.
pub(crate) fn measure(
    streams: usize,
    shards: usize,
    rate: u32,
    seconds: u32,
    changes: usize,
) -> io::Result<()> {
    process::pin(&[CLIENT_CORE])?;
    let arguments = [CHILD.to_owned(), streams.to_string(), shards.to_string()];
    let mut service = Service::start(&arguments)?;
    let port = service.address().port();
    let clock = Clock::start();
    let before = service.resident_bytes()?;
    ask("without streams", crate::destination(0, port), clock, rate, seconds)?;
    thread::scope(|scope| {
        let (tell, told) = mpsc::channel();
        let mut orders = Vec::new();
        for (number, (first, count)) in crate::crowds(streams).into_iter().enumerate() {
            let (order, obey) = mpsc::channel();
            let (tell, host) = (tell.clone(), crate::destination(number, port));
            scope.spawn(move || hold(host, clock, first..first + count, &obey, &tell));
            orders.push(order);
        }
        drop(tell);
        // Every crowd says once that it is in, and after every change when it was told.
        gather(&told, orders.len())?;
        let after = service.resident_bytes()?;
        let mut out = io::stdout();
        writeln!(out, "{streams} listening streams of HTTP on {shards} shards")?;
        crate::print_memory(&mut out, before, after, streams, "stream", TARGET_BYTES)?;
        ask("meanwhile", crate::destination(0, port), clock, rate, seconds)?;
        for _ in 0..changes {
            for order in &orders {
                order.send(()).map_err(io::Error::other)?;
            }
            let start = clock.now();
            service.change()?;
            print_change(&mut out, start, gather(&told, orders.len())?, streams)?;
        }
        // The crowds end with their orders.
        drop(orders);
        Ok::<_, io::Error>(())
    })?;
    let counted = service.end()?;
    let (encoded, told) = (counted.encoded, counted.published);
    writeln!(io::stdout(), "{changes} changes, {encoded} frames encoded, {told} delivered")?;
    let is_right = encoded <= (changes * shards) as u64 && told == (changes * streams) as u64;
    let wrong = || io::Error::other("encoded more than once a shard, or not delivered to all");
    is_right.then_some(()).ok_or_else(wrong)
}

/// Asks for the list of tools at this rate, for so many seconds, and prints how long that took.
fn ask(when: &str, host: SocketAddr, clock: Clock, rate: u32, seconds: u32) -> io::Result<()> {
    let mut latency = paced::run(host, clock, Pace { rate, warm_up: rate / 2, seconds })?;
    latency.sort_by_key(|second| second.value_at_quantile(0.99));
    let (Some(middle), Some(worst)) = (latency.get(latency.len() / 2), latency.last()) else {
        return Err(io::Error::other("nothing was asked"));
    };
    let at = |second: &Histogram<u64>, quantile: f64| {
        Duration::from_nanos(second.value_at_quantile(quantile)).as_secs_f64() * 1e3
    };
    let verdict = if at(middle, 0.99) <= TARGET_P99_MS { "within" } else { "above" };
    writeln!(
        io::stdout(),
        "tools/list at {rate} requests a second {when}: in the middle one of {seconds} seconds \
         p50 {:.3} ms, p99 {:.3} ms, p99.9 {:.3} ms; in the worst p99 {:.3} ms; the middle p99 is \
         {verdict} the target of {TARGET_P99_MS} ms",
        at(middle, 0.5),
        at(middle, 0.99),
        at(middle, 0.999),
        at(worst, 0.99),
    )
}

/// Prints when the first, the middle and the last stream were told of a change, which all were.
fn print_change(
    out: &mut impl Write,
    start: Moment,
    mut moments: Vec<Moment>,
    streams: usize,
) -> io::Result<()> {
    moments.sort_unstable();
    let (Some(&first), Some(&last)) = (moments.first(), moments.last()) else {
        return Err(io::Error::other("there are no streams"));
    };
    if moments.len() != streams || first < start {
        return Err(io::Error::other("a stream was told twice of a change, or not at all"));
    }
    let shown = |moment: Moment| moment.since(start).as_secs_f64() * 1e3;
    writeln!(
        out,
        "a change reached the first stream after {:.2} ms, half of them after {:.2} ms, the last \
         after {:.2} ms",
        shown(first),
        shown(moments[moments.len() / 2]),
        shown(last)
    )
}

/// One crowd on a thread of its own: it comes in, and waits for a change whenever it is told to.
fn hold(
    host: SocketAddr,
    clock: Clock,
    ids: std::ops::Range<usize>,
    orders: &Receiver<()>,
    tell: &Sender<Told>,
) {
    let streams: Vec<_> = ids.map(|id| Stream::new(host, id)).collect();
    let count = streams.len();
    // Where nobody listens any more, another crowd has failed.
    let say = |told: Told| tell.send(told).is_ok();
    let mut crowd = match Crowd::open(host, clock, streams) {
        Ok(crowd) => crowd,
        Err(error) => {
            say(Err(error));
            return;
        }
    };
    let mut goes_on = say(Ok(Vec::new()));
    while goes_on && orders.recv().is_ok() {
        let heard = crowd.hear(count);
        goes_on = say(heard.map(|()| crowd.guests().map(|stream| stream.told_at).collect()));
    }
}

/// What all crowds have to say.
fn gather(told: &Receiver<Told>, crowds: usize) -> Told {
    let mut moments = Vec::new();
    for _ in 0..crowds {
        moments.extend(told.recv().map_err(io::Error::other)??);
    }
    Ok(moments)
}
