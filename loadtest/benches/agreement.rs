//! Whether wrk and this tool find the same server equally fast, and count what it counts.
//!
//! ```text
//! cargo bench -p corelane-load --bench agreement -- [--conns 64,1000] [--rounds 5] [--seconds 2]
//! ```
//!
//! The server is a process of its own on core 0; the two take turns in driving it from core 1 with
//! the same bytes, each a closed loop with one request in flight on each connection. Two tools can
//! only agree on how fast a server is where it is the server that is slow: `burn` works for about
//! 20 us a call, several times what a request costs either tool. `echo` costs the server less than
//! a request costs wrk, so that there each tool measures itself; and the server does it for less
//! the more arrives at once, which is up to the tool.
//!
//! A rate is that of an idle machine or it is nothing: on a shared one, whoever is kept off its
//! core for a while lets the server run dry. So the server's share of its core stands beside it,
//! and the calls that it answers in a second of its own CPU time, which neighbours change far less.
//!
//! Both are held against the counters of the server itself, which it tells at its end. A last line
//! drives it at half of that rate in an open loop, which wrk does not have.

#![expect(clippy::print_stdout, reason = "what a bench has found is for whoever started it")]

#[expect(dead_code, reason = "other benches ask for more")]
#[path = "../../benches/rig/process.rs"]
mod process;
#[expect(dead_code, reason = "the tests look at the answers, too")]
#[path = "../tests/support/wrk.rs"]
mod wrk;

use std::error::Error;
use std::hint::black_box;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{ChildStdin, ChildStdout};

use clap::Parser;
use corelane::protocol::message::ServerInfo;
use corelane::server::{Options, Server};
use corelane::service::{Catalog, NoArguments, Tool, demo};
use corelane_load::generator;
use corelane_load::plan::{CallPlan, PhasePlan, Plan, Span};
use corelane_load::result::{Manifest, RunResult};

use self::process::CHILD;
use self::wrk::Order;

/// The cores of the server and of those that drive it.
const CORES: (usize, usize) = (0, 1);
/// Steps of the tool `burn`: somewhat less than a nanosecond each.
const STEPS: u64 = 30_000;

/// What to measure.
#[derive(Debug, Parser)]
struct Arguments {
    /// Connections.
    #[arg(long, value_delimiter = ',', default_values_t = [64, 1_000])]
    conns: Vec<usize>,
    /// Runs of each tool, alternating.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How long each is measured, in whole seconds.
    #[arg(long, default_value_t = 2)]
    seconds: u64,
    /// What cargo passes to every bench.
    #[arg(long, hide = true)]
    bench: bool,
}

/// What one run has found.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// Answers that the tool says it has got.
    claimed: u64,
    /// Answers a second, as the tool says.
    rate: f64,
    /// Calls that the server has counted.
    counted: u64,
    /// Calls that it has counted in a second of its own CPU time.
    bound: f64,
    /// The part of its core that it had.
    share: f64,
}

/// One of its figures.
type Figure = fn(&Found) -> f64;

impl Found {
    /// What a tool claims of a run of so many seconds, and what the server says of it.
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    fn new(server: Served, claimed: u64, seconds: f64) -> io::Result<Self> {
        let cpu_s = server.process.cpu_time()?.as_secs_f64();
        let counted = server.end()?;
        Ok(Self {
            claimed,
            rate: claimed as f64 / seconds,
            counted,
            bound: counted as f64 / cpu_s,
            share: cpu_s / seconds,
        })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    if std::env::args().nth(1).as_deref() == Some(CHILD) {
        process::settle(&[CORES.0])?;
        return serve();
    }
    let arguments = Arguments::parse();
    // wrk has it from us; the workers of the generator pin themselves.
    process::pin(&[CORES.1])?;
    println!("medians (ranges); what the server counted beyond what the tool claims\n");
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
        theirs.push(by_wrk(tool, connections, arguments.seconds)?);
        let own = by_us(tool, connections, arguments.seconds, None)?;
        ours.push(own);
        open.push(by_us(tool, connections, arguments.seconds, Some((own.rate / 2.0).floor()))?);
    }
    println!("{tool}, {connections} connections");
    let figures: [(&str, Figure); 3] = [
        ("answers/s", |found| found.rate),
        ("share of its core", |found| found.share),
        ("calls a CPU second", |found| found.bound),
    ];
    for (name, figure) in figures {
        show(&format!("  {name}, wrk"), theirs.iter().map(figure).collect());
        show(&format!("  {name}, corelane-load"), ours.iter().map(figure).collect());
        let ratios = ours.iter().zip(&theirs).map(|(own, other)| figure(own) / figure(other));
        show(&format!("  {name}, ratio"), ratios.collect());
    }
    for (name, found) in
        [("wrk", &theirs), ("corelane-load", &ours), ("the same, half, open", &open)]
    {
        let beyond: Vec<String> = found
            .iter()
            .map(|one| format!("{:+}", i128::from(one.counted) - i128::from(one.claimed)))
            .collect();
        let claimed: u64 = found.iter().map(|one| one.claimed).sum();
        println!("  counted beyond {name:<20} {} of {claimed}", beyond.join(" "));
    }
    println!();
    Ok(())
}

/// The median of figures and their range.
fn show(name: &str, mut figures: Vec<f64>) {
    figures.sort_by(f64::total_cmp);
    if let [first, .., last] = figures[..] {
        let median = figures[figures.len() / 2];
        println!("{name:<36} {median:>12.3}  ({first:.3} … {last:.3})");
    }
}

fn by_wrk(tool: &str, connections: usize, seconds: u64) -> Result<Found, Box<dyn Error>> {
    let server = Served::start()?;
    let named = (tool != "echo").then_some(tool);
    let request = wrk::request(server.address, named);
    let script = Path::new(env!("CARGO_TARGET_TMPDIR")).join("agreement.lua");
    let order = Order { connections, seconds, answers: None };
    let told = wrk::run(server.address, &request, &script, order)?;
    if told.errors > 0 {
        return Err(format!("wrk had errors: {told:?}").into());
    }
    Ok(Found::new(server, told.answers, told.seconds)?)
}

/// A closed loop, or an open one at this rate.
fn by_us(
    tool: &str,
    connections: usize,
    seconds: u64,
    rate: Option<f64>,
) -> Result<Found, Box<dyn Error>> {
    let server = Served::start()?;
    let plan = Plan {
        connections,
        closed: rate.is_none(),
        warm_up: Span::seconds(0),
        phases: vec![PhasePlan::constant(rate.unwrap_or(1.0), Span::seconds(seconds))],
        calls: vec![CallPlan::tool(tool)],
        ..Plan::new(format!("http://{}", server.address))
    };
    let finding = generator::run(&plan.job()?, (1, &[CORES.1]), None, |_, _| {})?;
    let totals = RunResult::new(plan, Manifest::default(), &finding).totals;
    if totals.failure_ratio > 0.0 || totals.unasked > 0 {
        return Err(format!("requests failed: {totals:?}").into());
    }
    Ok(Found::new(server, totals.answered, totals.span_s)?)
}

/// A server in a process of its own.
struct Served {
    address: SocketAddr,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    process: process::Server,
}

impl Served {
    fn start() -> io::Result<Self> {
        let (process, input, output) = process::Server::start_piped(&[])?;
        let mut output = BufReader::new(output);
        let address = number(&mut output)?;
        Ok(Self { address, input, output, process })
    }

    /// Ends it; how many calls it has counted.
    fn end(self) -> io::Result<u64> {
        let Self { input, mut output, process, .. } = self;
        drop(input);
        let counted = number(&mut output);
        drop(process);
        counted
    }
}

/// What the next line says.
fn number<T: std::str::FromStr>(output: &mut BufReader<ChildStdout>) -> io::Result<T> {
    let mut line = String::new();
    output.read_line(&mut line)?;
    let said = line.trim();
    said.parse().map_err(|_| io::Error::other(format!("the server said: {said}")))
}

/// The life of the server: an address, and when its input ends what it has counted.
fn serve() -> Result<(), Box<dyn Error>> {
    let mut options = Options::default();
    options.http.address = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    options.tcp.address = None;
    options.engine.shards = Some(1);
    let catalog = Catalog::builder(ServerInfo::new("agreement", "1"));
    let catalog = catalog.tools(demo::tools()).tool(burn()).build()?;
    let running = Server::new(catalog).options(options).start()?;
    let mut out = io::stdout();
    writeln!(out, "{}", running.addresses()[0].1)?;
    io::stdin().read_to_end(&mut Vec::new())?;
    running.handle().drain();
    writeln!(out, "{}", running.join()?.requests.tools_call)?;
    Ok(())
}

/// A tool that works on the core that got the call.
fn burn() -> Tool {
    Tool::new("burn").describe("Works for a while.").inline(|NoArguments {}, answer| {
        let sum = (0..STEPS).fold(0_u64, |sum, step| black_box(sum.rotate_left(5) ^ step));
        answer.text(if sum == 1 { "one" } else { "done" });
        Ok(())
    })
}
