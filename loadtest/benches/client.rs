//! CPU time of a call of the client, compared with a request of the load generator.
//!
//! ```text
//! cargo bench -p corelane-load --bench client -- [--rounds 7] [--calls 100000] [--seconds 0.5]
//! ```
//!
//! A Corelane server is a process on core 0. On core 1 the load generator and tasks on the I/O
//! thread of the client call its echo tool by turns, in a closed loop, in revision 2026-07-28. The
//! generator compares each response with the expected one; the client returns a result to its
//! caller. CPU time is that of the process, of the generator without the time it spins. Medians,
//! with the lowest and highest round.

#![expect(clippy::print_stdout, reason = "the output of a benchmark")]

use std::error::Error;
use std::io;
use std::time::Duration;

use clap::Parser;
use corelane::client::{ClientError, EraPreference, IoThread, block_on};
use corelane::{Catalog, Client, Options, Server, Tool, model};
use corelane_bench_support::process::{self, CHILD};
use corelane_bench_support::rounds::format_rounds;
use corelane_load::generator;
use corelane_load::metrics::process_group::ProcessGroup;
use corelane_load::plan::{HumanDuration, PhasePlan, Plan};
use corelane_load::result::{Manifest, RunResult};
use corelane_load::target::Era;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// Bytes of the echoed message.
const MESSAGE_BYTES: usize = 32;
/// Cores of the server and of the clients.
const CORES: (usize, usize) = (0, 1);
/// Connections, and calls in flight on each.
const LOADS: [(usize, usize); 3] = [(64, 1), (1, 16), (64, 16)];
/// Calls before each measurement, as a fraction of those measured.
const WARM_UP_DIVISOR: usize = 10;

/// Command line arguments.
#[derive(Debug, Parser)]
struct Arguments {
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Calls of the client in a round.
    #[arg(long, default_value_t = 100_000)]
    calls: usize,
    /// Time of the generator in a round.
    #[arg(long, default_value_t = 0.5)]
    seconds: f64,
    /// Passed by cargo to every bench.
    #[arg(long, hide = true)]
    bench: bool,
}

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    if std::env::args().nth(1).as_deref() == Some(CHILD) {
        return Ok(serve()?);
    }
    let arguments = Arguments::parse();
    process::pin(&[CORES.1])?;
    let server = process::Server::start(&[])?;
    println!("CPU µs a call (min–max)\n");
    println!("| connections × calls in flight | generator | client | ratio |");
    println!("| --- | --- | --- | --- |");
    for (connections, depth) in LOADS {
        let clients = Clients::connect(&server, connections, depth)?;
        let (mut generated, mut called, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..arguments.rounds.max(1) {
            generated.push(generator_cost(&server, connections, depth, arguments.seconds)?);
            called.push(clients.cost(arguments.calls)?);
            ratios.extend(generated.last().zip(called.last()).map(|(one, other)| other / one));
        }
        let [generated, called, ratios] =
            [generated, called, ratios].map(|values| format_rounds(&values));
        println!("| {connections} × {depth} | {generated} | {called} | {ratios} |");
    }
    Ok(())
}

/// Returns the CPU time of the generator for each response, in microseconds.
fn generator_cost(
    server: &process::Server,
    connections: usize,
    depth: usize,
    seconds: f64,
) -> Outcome<f64> {
    let span = HumanDuration::from(Duration::from_secs_f64(seconds));
    let mut plan = Plan::new(format!("tcp://{}", server.address()?));
    (plan.connections, plan.depth, plan.closed) = (connections, depth, true);
    plan.era = Some(Era::Modern);
    plan.warm_up = HumanDuration::from(Duration::from_millis(100));
    plan.phases = vec![PhasePlan::constant(1.0, span)];
    let watched = ProcessGroup::of_process(server.id());
    let measured = generator::run(&plan.run_config()?, 1, &[CORES.1], Some(&watched), |_, _| {})?;
    let result = RunResult::new(plan, Manifest::default(), &measured);
    if result.totals.failure_ratio > Some(0.0) {
        return Err(format!("failed requests: {:?}", result.totals).into());
    }
    Ok(result.generator.cpu_us_per_response.unwrap_or(f64::NAN))
}

/// Clients on one I/O thread.
struct Clients {
    thread: IoThread,
    clients: Vec<Client>,
    depth: usize,
}

impl Clients {
    fn connect(server: &process::Server, connections: usize, depth: usize) -> Outcome<Self> {
        let thread = IoThread::start()?;
        let target = format!("tcp://{}", server.address()?);
        let connect = |_| {
            let client = Client::builder(target.as_str()).io_thread(&thread);
            client.era(EraPreference::Modern).connect_blocking()
        };
        let clients = (0..connections).map(connect).collect::<Result<_, _>>()?;
        Ok(Self { thread, clients, depth })
    }

    /// Returns the CPU time of this process for each call, in microseconds, after a warm-up.
    fn cost(&self, calls: usize) -> Outcome<f64> {
        self.run(calls / WARM_UP_DIVISOR)?;
        let before = process::cpu_time();
        let calls = u32::try_from(self.run(calls)?)?;
        Ok(process::cpu_time().saturating_sub(before).as_secs_f64() * 1e6 / f64::from(calls))
    }

    fn run(&self, calls: usize) -> Result<usize, ClientError> {
        let tasks = self.clients.len() * self.depth;
        let turns = calls.div_ceil(tasks);
        let mut running = Vec::with_capacity(tasks);
        for client in self.clients.iter().cycle().take(tasks) {
            let client = client.clone();
            running.push(self.thread.spawn(move || call(client, turns))?);
        }
        for task in running {
            block_on(task)??;
        }
        Ok(turns * tasks)
    }
}

async fn call(client: Client, times: usize) -> Result<(), ClientError> {
    let arguments = json!({ "message": message() });
    for _ in 0..times {
        client.call_tool("echo", &arguments).await?;
    }
    Ok(())
}

fn message() -> String {
    ('a'..='z').cycle().take(MESSAGE_BYTES).collect()
}

#[derive(Deserialize, JsonSchema)]
struct Echo {
    message: String,
}

/// The server process: prints its address and serves until it is killed.
fn serve() -> io::Result<()> {
    process::setup_child(&[CORES.0])?;
    let echo = Tool::new("echo").inline(|Echo { message }, _| message);
    let catalog = Catalog::builder(model::Implementation::new("client", "1.0.0")).tool(echo);
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
