//! CPU time of the server in the parity dialect: calls, compared with legacy calls, and chunks.
//!
//! ```text
//! cargo bench -p corelane-load --bench parity -- [--rounds 7] [--seconds 2] [--connections 64]
//!     [--chunks 1000] [--burst 16]
//! ```
//!
//! A Corelane server with one shard is a process on core 0; the load generator on core 1 drives it
//! over TCP in a closed loop, one request at a time on each connection, by turns in each way. Calls
//! return a text of 32 bytes. A stream has `--chunks` chunks of progress, of which the handler
//! sends `--burst` before it yields. CPU time is that of the server process; chunks count for each
//! second of it. Medians, with the lowest and highest round.

#![expect(clippy::print_stdout, reason = "the output of a benchmark")]

use std::error::Error;
use std::future::poll_fn;
use std::io;
use std::task::Poll;
use std::time::Duration;

use clap::Parser;
use corelane::{Catalog, Options, RequestContext, Server, Tool, model};
use corelane_bench_support::process::{self, CHILD};
use corelane_bench_support::rounds::format_rounds;
use corelane_load::generator;
use corelane_load::metrics::process_group::ProcessGroup;
use corelane_load::plan::{CallPlan, HumanDuration, PhasePlan, Plan};
use corelane_load::result::{Manifest, RunResult};
use corelane_load::target::Era;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// Cores of the server and of the generator.
const CORES: (usize, usize) = (0, 1);

/// Command line arguments.
#[derive(Debug, Parser)]
struct Arguments {
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Measured time of a round in seconds.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Chunks of progress in a stream.
    #[arg(long, default_value_t = 1_000)]
    chunks: u32,
    /// Chunks between two yields of the handler.
    #[arg(long, default_value_t = 16)]
    burst: u32,
    /// Passed by cargo to every bench.
    #[arg(long, hide = true)]
    bench: bool,
}

type Outcome<T> = Result<T, Box<dyn Error>>;

/// What the generator sends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Load {
    LegacyCall,
    ParityCall,
    /// Streams without a window for their chunks.
    Stream,
    /// Streams whose chunks the server keeps.
    ResumableStream,
}

fn main() -> Outcome<()> {
    if std::env::args().nth(1).as_deref() == Some(CHILD) {
        return Ok(serve()?);
    }
    let arguments = Arguments::parse();
    process::pin(&[CORES.1])?;
    let server = process::Server::start(&[])?;
    let loads = [Load::LegacyCall, Load::ParityCall, Load::Stream, Load::ResumableStream];
    let mut results = loads.map(|load| (load, Vec::new()));
    for _ in 0..arguments.rounds.max(1) {
        for (load, results) in &mut results {
            results.push(run(&server, *load, &arguments)?);
        }
    }
    let [(_, legacy), (_, parity), (_, streams), (_, resumable)] = results;
    print_calls(&legacy, &parity);
    print_chunks(&streams, &resumable);
    Ok(())
}

fn print_calls(legacy: &[RunResult], parity: &[RunResult]) {
    let cost = |run: &RunResult| {
        run.server.and_then(|server| server.cpu_us_per_response).unwrap_or(f64::NAN)
    };
    println!("| call | CPU µs of the server (min–max) | responses a second |");
    println!("| --- | --- | --- |");
    for (name, runs) in [("legacy", legacy), ("parity", parity)] {
        let costs: Vec<f64> = runs.iter().map(cost).collect();
        let rates: Vec<f64> = runs.iter().map(|run| run.totals.rate).collect();
        println!("| {name} | {} | {} |", format_rounds(&costs), format_rounds(&rates));
    }
    let ratios: Vec<f64> =
        legacy.iter().zip(parity).map(|(legacy, parity)| cost(parity) / cost(legacy)).collect();
    println!("\nparity / legacy: {}\n", format_rounds(&ratios));
}

fn print_chunks(streams: &[RunResult], resumable: &[RunResult]) {
    println!("| streams | million chunks for each CPU second of the server | million a second |");
    println!("| --- | --- | --- |");
    for (name, runs) in [("without resume", streams), ("with resume", resumable)] {
        let cores = |run: &RunResult| run.server.map_or(f64::NAN, |server| server.cores);
        let rates: Vec<f64> = runs.iter().map(|run| run.totals.chunk_rate() / 1e6).collect();
        let of_core: Vec<f64> =
            runs.iter().zip(&rates).map(|(run, rate)| rate / cores(run)).collect();
        println!("| {name} | {} | {} |", format_rounds(&of_core), format_rounds(&rates));
    }
}

/// Returns the result of one round.
fn run(server: &process::Server, load: Load, arguments: &Arguments) -> Outcome<RunResult> {
    let span = HumanDuration::from(Duration::from_secs_f64(arguments.seconds));
    let is_stream = matches!(load, Load::Stream | Load::ResumableStream);
    let call = if is_stream {
        let arguments = json!({ "count": arguments.chunks, "burst": arguments.burst });
        let call =
            CallPlan { arguments: arguments.as_object().cloned(), ..CallPlan::tool("chunks") };
        CallPlan { stream: true, ..call }
    } else {
        CallPlan::tool("echo")
    };
    let plan = Plan {
        era: Some(if load == Load::LegacyCall { Era::Legacy } else { Era::Parity }),
        connections: arguments.connections,
        closed: true,
        warm_up: HumanDuration::from(Duration::from_millis(500)),
        phases: vec![PhasePlan::constant(1.0, span)],
        calls: vec![call],
        ..Plan::new(format!("tcp://{}", server.address()?))
    };
    let watched = ProcessGroup::of_process(server.id());
    let mut config = plan.run_config()?;
    config.request_settings.offers_resume = load == Load::ResumableStream;
    let measured = generator::run(&config, 1, &[CORES.1], Some(&watched), |_, _| {})?;
    let result = RunResult::new(plan, Manifest::default(), &measured);
    if result.totals.failure_ratio > Some(0.0) || result.totals.unsolicited > 0 {
        return Err(format!("{load:?}: {:?} {:?}", result.totals, result.failure_examples).into());
    }
    Ok(result)
}

#[derive(Deserialize, JsonSchema)]
struct Echo {
    message: String,
}

#[derive(Deserialize, JsonSchema)]
struct Chunks {
    /// Number of chunks.
    count: u32,
    /// Chunks between two yields.
    burst: u32,
}

/// Sends chunks of progress.
async fn send_chunks(chunks: Chunks, ctx: RequestContext) -> &'static str {
    for number in 1..=chunks.count {
        ctx.progress(number.into(), Some(chunks.count.into()), None);
        if number % chunks.burst == 0 {
            yield_once().await;
        }
    }
    "done"
}

async fn yield_once() {
    let mut has_yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// The server process: prints its address and serves until it is killed.
fn serve() -> io::Result<()> {
    process::setup_child(&[CORES.0])?;
    let echo = Tool::new("echo").inline(|Echo { message }, _| message);
    let chunks = Tool::new("chunks").local(send_chunks);
    let implementation = model::Implementation::new("parity", "1.0.0");
    let catalog = Catalog::builder(implementation).tool(echo).tool(chunks);
    let catalog = catalog.build().map_err(io::Error::other)?;
    let mut options = Options::default();
    options.http.address = None;
    options.engine.shards = Some(1);
    let server = Server::builder(catalog).options(options).tcp("127.0.0.1:0");
    let running = server.start().map_err(io::Error::other)?;
    let address = running.tcp_address().ok_or(io::ErrorKind::AddrNotAvailable)?;
    eprintln!("listening tcp {address}");
    running.join().map_err(io::Error::other).map(drop)
}
