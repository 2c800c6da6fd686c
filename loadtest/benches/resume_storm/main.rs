//! Reconnect storm of the parity dialect: how long until all streams continue, and that no chunk is
//! lost.
//!
//! ```text
//! cargo bench -p corelane-load --bench resume_storm -- [--rounds 7] [--streams 10000]
//!     [--per-session 1,100] [--shards 1] [--interval-ms 500] [--burst 5] [--connecting 10000]
//!     [--away-ms 0]
//! ```
//!
//! A Corelane server is a process on core 0; the clients are on core 1, each session with its own
//! TCP connection. A stream sends `--burst` chunks at once, then one in every `--interval-ms`. In a
//! round all connections are reset at once (RST), and each client connects again as soon as its
//! socket is closed, with its `resumeToken` and `lastAckSeq`; at most `--connecting` of them have
//! not their acknowledgement. The time of a round runs from the reset until the acknowledgements
//! of all sessions are received, and until each stream has its next chunk: one that the client has
//! missed, or a later one. The latter includes the time to the next chunk of a stream that has
//! missed none. With `--away-ms` the clients stay away for that long, and the time runs from their
//! return.
//!
//! Each `nextSeq` has to be that of `lastAckSeq + 1`, and each chunk the next one of its stream by
//! its `seq` and by the number that its handler has sent: a chunk that is lost, out of order, or
//! sent twice with another `seq` fails the bench. Repeated ones are dropped and counted. The
//! streams live through all rounds. Medians, with the lowest and highest round.

#![expect(clippy::print_stdout, reason = "the output of a benchmark")]

mod messages;
mod session;
mod storm;

use std::error::Error;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use clap::Parser;

use corelane::{
    CallToolResult, Catalog, HandlerError, Options, RequestContext, Server, Tool, model,
};
use corelane_bench_support::process::{self, CHILD};
use corelane_bench_support::rounds::format_rounds;
use schemars::JsonSchema;
use serde::Deserialize;

use self::messages::TicksRequest;
use self::storm::{Round, Storm};

/// Cores of the server and of the clients.
const CORES: (usize, usize) = (0, 1);
/// Target for the time until all streams continue.
const TARGET: Duration = Duration::from_secs(2);

/// Command line arguments.
#[derive(Debug, Parser)]
struct Arguments {
    #[arg(long, default_value_t = 7)]
    rounds: u8,
    /// Streams of all sessions.
    #[arg(long, default_value_t = 10_000)]
    streams: usize,
    /// Streams of each session, one measurement for each number.
    #[arg(long, value_delimiter = ',', default_value = "1,100")]
    per_session: Vec<usize>,
    /// Shards of the server, all on one core.
    #[arg(long, default_value_t = 1)]
    shards: u16,
    /// Time between two chunks of a stream.
    #[arg(long, default_value_t = 500)]
    interval_ms: u64,
    /// Chunks that a stream begins with.
    #[arg(long, default_value_t = 5)]
    burst: u32,
    /// Clients that connect at a time.
    #[arg(long, default_value_t = 10_000)]
    connecting: usize,
    /// Time in which the clients stay away.
    #[arg(long, default_value_t = 0)]
    away_ms: u64,
    /// Passed by cargo to every bench.
    #[arg(long, hide = true)]
    bench: bool,
}

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, shards] = arguments.as_slice()
        && first == CHILD
    {
        return Ok(serve(shards.parse()?)?);
    }
    let arguments = Arguments::parse();
    process::pin(&[CORES.1])?;
    println!("| sessions × streams | all acknowledged ms | all continued ms | server CPU ms |");
    println!("| --- | --- | --- | --- |");
    for per_session in &arguments.per_session {
        measure(&arguments, (*per_session).max(1))?;
    }
    Ok(())
}

/// Runs all rounds with this many streams in each session, and prints a row.
fn measure(arguments: &Arguments, per_session: usize) -> Outcome<()> {
    let server = process::Server::start(&[arguments.shards.to_string()])?;
    let port = server.address()?.port();
    let sessions = arguments.streams.div_ceil(per_session);
    let ticks = TicksRequest { burst: arguments.burst, interval_ms: arguments.interval_ms };
    let mut storm = Storm::open(address(0, port), sessions, per_session, ticks)?;
    storm.connecting_max = arguments.connecting.max(1);
    let away = Duration::from_millis(arguments.away_ms);
    let mut rounds: Vec<(Round, Duration)> = Vec::new();
    for number in 1..=arguments.rounds.max(1) {
        let before = server.cpu_time()?;
        let round = storm.run(address(number, port), away)?;
        rounds.push((round, server.cpu_time()?.saturating_sub(before)));
    }
    storm.check_streams()?;
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let times = |of: fn(&(Round, Duration)) -> Duration| {
        format_rounds(&rounds.iter().map(|round| ms(of(round))).collect::<Vec<_>>())
    };
    let acknowledged = times(|(round, _)| round.acknowledged);
    let continued = times(|(round, _)| round.continued);
    let cpu = times(|(_, cpu)| *cpu);
    println!("| {sessions} × {per_session} | {acknowledged} | {continued} | {cpu} |");
    let slowest = rounds.iter().map(|(round, _)| round.continued).max().unwrap_or_default();
    let verdict = if slowest <= TARGET { "within" } else { "above" };
    let (chunks, repeated) = storm.totals();
    println!(
        "\n{} streams, {chunks} chunks, none lost, {repeated} repeated and dropped; the slowest \
         round is {verdict} the target of {} s\n",
        sessions * per_session,
        TARGET.as_secs()
    );
    Ok(())
}

/// Returns the loopback address of a round, so that each has all ports of the clients.
fn address(round: u8, port: u16) -> SocketAddr {
    (Ipv4Addr::new(127, 0, 0, round % 250 + 1), port).into()
}

#[derive(Deserialize, JsonSchema)]
struct Ticks {
    /// Chunks at the beginning.
    burst: u32,
    /// Time between two later ones.
    interval_ms: u64,
}

/// Sends chunks of progress, each with its number, until it is cancelled.
async fn send_ticks(ticks: Ticks, ctx: RequestContext) -> Result<CallToolResult, HandlerError> {
    for number in 1_u32.. {
        if number > ticks.burst {
            ctx.sleep(Duration::from_millis(ticks.interval_ms)).await?;
        }
        ctx.progress(number.into(), None, None);
    }
    Ok(CallToolResult::text("done"))
}

/// The server process: prints its address and serves until it is killed.
fn serve(shards: u16) -> io::Result<()> {
    process::setup_child(&[CORES.0])?;
    let ticks = Tool::new("ticks").local(send_ticks);
    let catalog = Catalog::builder(model::Implementation::new("storm", "1.0.0")).tool(ticks);
    let catalog = catalog.build().map_err(io::Error::other)?;
    let mut options = Options::default();
    options.http.address = None;
    options.engine.shards = Some(shards);
    // Clients may be back before the end of their connections is seen.
    options.tcp.connections_max = 19_000;
    options.parity.concurrent_max = 1_000;
    options.parity.streams_max = 1_000;
    options.limits.requests_in_flight_max = 1_000;
    options.limits.request_timeout = Duration::from_hours(1);
    let server = Server::builder(catalog).options(options).tcp("0.0.0.0:0");
    let running = server.start().map_err(io::Error::other)?;
    let address = running.tcp_address().ok_or(io::ErrorKind::AddrNotAvailable)?;
    eprintln!("listening tcp {address}");
    running.join().map_err(io::Error::other).map(drop)
}
