//! Compares the throughput that wrk and this tool measure at the same server.
//!
//! ```text
//! cargo bench -p corelane-load --bench agreement -- [--conns 64,1000] [--rounds 5] [--seconds 2]
//! ```
//!
//! The server is a process on core 0. The two tools drive it alternately from core 1 with the same
//! bytes, each in a closed loop with one request in flight per connection. Two tools can agree on
//! the speed of a server only if the server is the bottleneck: the tool `burn` computes for about
//! 20 us a call, several times the cost of a request in either client. `echo` costs the server less
//! than a request costs wrk, so there each client measures itself, and the more requests arrive at
//! once, the less each costs the server.
//!
//! A rate is meaningful only on an idle machine: on a shared one, a client that loses its core lets
//! the server run idle. So the output also has the CPU usage of the server, and calls per second of
//! its CPU time, which neighbours affect far less. The latter shows that both clients send the same
//! work, not that they are equally fast.
//!
//! Both are checked against the call counter that the server prints at its end. The last line
//! drives the server at half of that rate in an open loop, which wrk does not have.

#![expect(clippy::print_stdout, reason = "the output of a benchmark")]

use std::error::Error;
use std::hint::black_box;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{ChildStdin, ChildStdout};

use clap::Parser;
use corelane::internal::demo;
use corelane::{Catalog, NoArguments, Options, Server, Tool};
use corelane_bench_support::process::{self, CHILD};
use corelane_load::generator;
use corelane_load::mcp::request_template::ID_FIRST;
use corelane_load::mcp::{RequestSettings, RequestTemplate};
use corelane_load::plan::{CallPlan, HumanDuration, PhasePlan, Plan};
use corelane_load::result::{Manifest, RunResult};
use corelane_load::target::{Era, Transport};
use corelane_protocol::model::Implementation;
use corelane_test_support::wrk::{self, MESSAGE_BYTES, WrkSettings};

/// Cores of the server and of the clients.
const CORES: (usize, usize) = (0, 1);
/// Iterations of the tool `burn`: just under a nanosecond each.
const STEPS: u64 = 30_000;

/// Command line arguments.
#[derive(Debug, Parser)]
struct Arguments {
    /// Numbers of connections.
    #[arg(long, value_delimiter = ',', default_values_t = [64, 1_000])]
    conns: Vec<usize>,
    /// Runs of each client, alternating.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Duration of each run, in whole seconds.
    #[arg(long, default_value_t = 2)]
    seconds: u64,
    /// Passed by cargo to every bench.
    #[arg(long, hide = true)]
    bench: bool,
}

/// Result of one run.
#[derive(Clone, Copy, Debug)]
struct Measured {
    /// Responses counted by the client.
    client_count: u64,
    /// Responses per second, measured by the client.
    rate: f64,
    /// Calls counted by the server.
    server_count: u64,
    /// Calls counted by the server per second of its CPU time.
    calls_per_cpu_s: f64,
    /// CPU usage of the server, as a fraction of its core.
    cpu_usage: f64,
}

type Figure = fn(&Measured) -> f64;

impl Measured {
    /// Combines the client's count of a run of `seconds` with the server's.
    #[expect(clippy::cast_precision_loss, reason = "displayed figures")]
    fn new(server: ServerProcess, claimed: u64, seconds: f64) -> io::Result<Self> {
        let cpu_s = server.process.cpu_time()?.as_secs_f64();
        let counted = server.end()?;
        Ok(Self {
            client_count: claimed,
            rate: claimed as f64 / seconds,
            server_count: counted,
            calls_per_cpu_s: counted as f64 / cpu_s,
            cpu_usage: cpu_s / seconds,
        })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    if std::env::args().nth(1).as_deref() == Some(CHILD) {
        process::setup_child(&[CORES.0])?;
        return serve();
    }
    let arguments = Arguments::parse();
    // wrk inherits the affinity; the load threads of the generator pin themselves.
    process::pin(&[CORES.1])?;
    println!("medians (ranges); server count minus client count\n");
    for tool in ["burn", "echo"] {
        for connections in &arguments.conns {
            compare(&arguments, tool, *connections)?;
        }
    }
    Ok(())
}

fn compare(arguments: &Arguments, tool: &str, connections: usize) -> Result<(), Box<dyn Error>> {
    let (mut theirs, mut ours, mut open) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..arguments.rounds {
        theirs.push(run_wrk(tool, connections, arguments.seconds)?);
        let own = run_corelane_load(tool, connections, arguments.seconds, None)?;
        ours.push(own);
        open.push(run_corelane_load(
            tool,
            connections,
            arguments.seconds,
            Some((own.rate / 2.0).floor()),
        )?);
    }
    println!("{tool}, {connections} connections");
    let figures: [(&str, Figure); 3] = [
        ("responses/s", |found| found.rate),
        ("server CPU usage", |found| found.cpu_usage),
        ("calls per CPU second", |found| found.calls_per_cpu_s),
    ];
    for (name, figure) in figures {
        show(&format!("  {name}, wrk"), theirs.iter().map(figure).collect());
        show(&format!("  {name}, corelane-load"), ours.iter().map(figure).collect());
        let ratios = ours.iter().zip(&theirs).map(|(own, other)| figure(own) / figure(other));
        show(&format!("  {name}, ratio"), ratios.collect());
    }
    for (name, found) in
        [("wrk", &theirs), ("corelane-load", &ours), ("open loop, half rate", &open)]
    {
        let beyond: Vec<String> = found
            .iter()
            .map(|one| format!("{:+}", i128::from(one.server_count) - i128::from(one.client_count)))
            .collect();
        let claimed: u64 = found.iter().map(|one| one.client_count).sum();
        println!("  server minus {name:<22} {} of {claimed}", beyond.join(" "));
    }
    println!();
    Ok(())
}

/// Prints the median and range of figures.
fn show(name: &str, mut figures: Vec<f64>) {
    figures.sort_by(f64::total_cmp);
    if let [first, .., last] = figures[..] {
        let median = figures[figures.len() / 2];
        println!("{name:<36} {median:>12.3}  ({first:.3} … {last:.3})");
    }
}

/// Returns the bytes of a tool call as `corelane-load` sends it.
fn request(address: SocketAddr, tool: &str) -> Vec<u8> {
    let (authority, fields) = (address.to_string(), Vec::new());
    let (authority, path) = (&*authority, "/mcp");
    let settings = RequestSettings::new(Transport::Http, Era::Modern, authority, path, fields)
        .expect("a valid target");
    let call = if tool == "echo" {
        RequestTemplate::echo(&settings, MESSAGE_BYTES)
    } else {
        let params = serde_json::json!({ "name": tool, "arguments": {} });
        RequestTemplate::new(&settings, "tools/call", params.as_object(), None)
    };
    let mut bytes = Vec::new();
    call.write_request(&mut bytes, ID_FIRST, None);
    bytes
}

fn run_wrk(tool: &str, connections: usize, seconds: u64) -> Result<Measured, Box<dyn Error>> {
    let server = ServerProcess::start()?;
    let request = request(server.address, tool);
    let script = Path::new(env!("CARGO_TARGET_TMPDIR")).join("agreement.lua");
    let order = WrkSettings { connections, seconds, responses: None };
    let measured = wrk::run(server.address, &[request], &script, order)?;
    if measured.errors > 0 {
        return Err(format!("wrk had errors: {measured:?}").into());
    }
    Ok(Measured::new(server, measured.responses, measured.seconds)?)
}

/// Runs a closed loop, or an open one at `rate`.
fn run_corelane_load(
    tool: &str,
    connections: usize,
    seconds: u64,
    rate: Option<f64>,
) -> Result<Measured, Box<dyn Error>> {
    let server = ServerProcess::start()?;
    let plan = Plan {
        connections,
        closed: rate.is_none(),
        warm_up: HumanDuration::from_secs(0),
        phases: vec![PhasePlan::constant(rate.unwrap_or(1.0), HumanDuration::from_secs(seconds))],
        calls: vec![CallPlan::tool(tool)],
        ..Plan::new(format!("http://{}", server.address))
    };
    let finding = generator::run(&plan.run_config()?, 1, &[CORES.1], None, |_, _| {})?;
    let totals = RunResult::new(plan, Manifest::default(), &finding).totals;
    if totals.failure_ratio > Some(0.0) || totals.unsolicited > 0 {
        return Err(format!("requests failed: {totals:?}").into());
    }
    Ok(Measured::new(server, totals.answered, totals.duration_s)?)
}

/// A server in its own process.
struct ServerProcess {
    address: SocketAddr,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    process: process::Server,
}

impl ServerProcess {
    fn start() -> io::Result<Self> {
        let (process, input, output) = process::Server::start_piped(&[])?;
        let mut output = BufReader::new(output);
        let address = read_number(&mut output)?;
        Ok(Self { address, input, output, process })
    }

    /// Ends the server; returns its count of calls.
    fn end(self) -> io::Result<u64> {
        let Self { input, mut output, process, .. } = self;
        drop(input);
        let counted = read_number(&mut output);
        drop(process);
        counted
    }
}

/// Parses the next line.
fn read_number<T: std::str::FromStr>(output: &mut BufReader<ChildStdout>) -> io::Result<T> {
    let mut line = String::new();
    output.read_line(&mut line)?;
    let text = line.trim();
    text.parse().map_err(|_| io::Error::other(format!("unexpected output of the server: {text}")))
}

/// Main function of the server process: prints its address, and its count of calls when stdin ends.
fn serve() -> Result<(), Box<dyn Error>> {
    let mut options = Options::default();
    options.http.address = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    options.tcp.address = None;
    options.engine.shards = Some(1);
    let catalog = Catalog::builder(Implementation::new("agreement", "1"));
    let catalog = catalog.tools(demo::tools()).tool(burn()).build()?;
    let running = Server::builder(catalog).options(options).start()?;
    let mut out = io::stdout();
    writeln!(out, "{}", running.addresses()[0].1)?;
    io::stdin().read_to_end(&mut Vec::new())?;
    running.handle().drain();
    writeln!(out, "{}", running.join()?.requests.tools_call)?;
    Ok(())
}

/// A tool that computes inline on the shard's core.
fn burn() -> Tool {
    Tool::new("burn").description("Works for a while.").inline_writer(
        |NoArguments {}, answer, _| {
            let sum = (0..STEPS).fold(0_u64, |sum, step| black_box(sum.rotate_left(5) ^ step));
            answer.text(if sum == 1 { "one" } else { "done" });
            Ok(())
        },
    )
}
