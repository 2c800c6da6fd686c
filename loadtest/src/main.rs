//! `corelane-load`: the command line.
//!
//! What it keeps true: a result goes to standard output, everything else to standard error; the
//! status tells scripts what happened: 0 passed, 1 a threshold was missed, 2 nothing was measured,
//! 3 the generator spoiled the run itself.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use corelane::engine::clock;
use corelane_load::generator;
use corelane_load::measure::process::Process;
use corelane_load::plan::{CallPlan, PhasePlan, Plan, Span};
use corelane_load::report::{progress, table};
use corelane_load::result::{Manifest, RunResult};
use corelane_load::target::Era;

/// What names a server.
const TARGET: &str =
    "Which server: tcp://HOST:PORT, http://HOST[:PORT]/PATH or ws://HOST[:PORT]/PATH";

/// Capacity planning for any MCP server.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Drive a server and say what it did.
    Run(Box<RunArguments>),
}

/// What a run is to do. Flags go before what a plan says.
#[derive(Args, Debug)]
struct RunArguments {
    #[arg(required_unless_present = "plan", help = TARGET)]
    target: Option<String>,
    /// A plan, as a TOML file.
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// Requests a second; 0 only holds the connections.
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// How long, such as 10s; the warm-up comes on top.
    #[arg(long, value_name = "SPAN")]
    span: Option<Span>,
    /// What of the beginning is not measured.
    #[arg(long, value_name = "SPAN")]
    warm_up: Option<Span>,
    /// Connections.
    #[arg(long, value_name = "N")]
    connections: Option<usize>,
    /// Requests in flight on each connection.
    #[arg(long, value_name = "N")]
    depth: Option<usize>,
    /// modern (2026-07-28) or legacy (2025-11-25).
    #[arg(long, value_name = "ERA", value_parser = era)]
    era: Option<Era>,
    /// Ask again as soon as the one before is answered, instead of when it is due.
    #[arg(long)]
    closed: bool,
    /// Spread requests as those of many users.
    #[arg(long)]
    poisson: bool,
    /// The length of the message of the tool echo.
    #[arg(long, value_name = "BYTES")]
    bytes: Option<usize>,
    /// A tool to call instead of echo, without arguments.
    #[arg(long, value_name = "NAME", conflicts_with = "bytes")]
    tool: Option<String>,
    /// A field of HTTP, such as "Authorization: Bearer …".
    #[arg(long, value_name = "FIELD")]
    header: Vec<String>,
    /// The longest 99th percentile for the run to pass.
    #[arg(long, value_name = "SPAN")]
    p99_max: Option<Span>,
    /// The largest part of requests that may fail for the run to pass.
    #[arg(long, value_name = "PART")]
    errors_max: Option<f64>,
    /// Threads that drive the load.
    #[arg(long, value_name = "N", default_value_t = 1)]
    workers: u32,
    /// Cores for these threads, such as 2,3.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    cores: Vec<usize>,
    /// The server's process, to watch what it costs.
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Where the whole result goes, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// No line a second.
    #[arg(long)]
    quiet: bool,
}

fn era(text: &str) -> Result<Era, String> {
    match text {
        "modern" => Ok(Era::Modern),
        "legacy" => Ok(Era::Legacy),
        _ => Err("an era is modern or legacy".into()),
    }
}

fn main() -> ExitCode {
    let Command::Run(arguments) = Arguments::parse().command;
    match run(&arguments) {
        Ok(result) if !result.verdict.is_valid() => ExitCode::from(3),
        Ok(result) if !result.verdict.has_passed() => ExitCode::from(1),
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("corelane-load: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &RunArguments) -> Result<RunResult, Box<dyn std::error::Error>> {
    let plan = plan(arguments)?;
    let job = plan.job()?;
    let watched = arguments.pid.map(Process::of);
    if let (Some(process), Some(pid)) = (&watched, arguments.pid)
        && process.sample().is_none()
    {
        return Err(
            format!("there is no process {pid} to watch, or it may not be looked at").into()
        );
    }
    let is_shown = !arguments.quiet && std::io::stderr().is_terminal();
    let crew = (arguments.workers, &arguments.cores[..]);
    let finding = generator::run(&job, crew, watched.as_ref(), |number, second| {
        if is_shown {
            eprintln!("{}", progress::line(number, second));
        }
    })?;
    let manifest = Manifest::of(&finding, clock::unix_ms());
    let result = RunResult::new(plan, manifest, &finding);
    std::io::stdout().write_all(table::table(&result).as_bytes())?;
    if let Some(path) = &arguments.json {
        let text = serde_json::to_string_pretty(&result)?;
        std::fs::write(path, text + "\n")
            .map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
    }
    Ok(result)
}

/// The plan of a file or of nothing, with what the flags say instead.
fn plan(arguments: &RunArguments) -> Result<Plan, Box<dyn std::error::Error>> {
    let mut plan = match &arguments.plan {
        Some(path) => Plan::read(path)?,
        None => Plan::new(String::new()),
    };
    if let Some(target) = &arguments.target {
        plan.target.clone_from(target);
    }
    if plan.phases.is_empty() || arguments.rate.is_some() || arguments.span.is_some() {
        let rate = arguments.rate.unwrap_or(1_000.0);
        let span = arguments.span.unwrap_or(Span::seconds(10));
        plan.phases = vec![PhasePlan::constant(rate, span)];
    }
    if let Some(tool) = &arguments.tool {
        plan.calls = vec![CallPlan::tool(tool)];
    } else if arguments.bytes.is_some() {
        plan.calls = vec![CallPlan { bytes: arguments.bytes, ..CallPlan::tool("echo") }];
    }
    for field in &arguments.header {
        let (name, value) = field
            .split_once(':')
            .ok_or_else(|| format!("'{field}' is no field: write 'Name: value'"))?;
        plan.fields.push((name.trim().into(), value.trim().into()));
    }
    plan.warm_up = arguments.warm_up.unwrap_or(plan.warm_up);
    plan.connections = arguments.connections.unwrap_or(plan.connections);
    plan.depth = arguments.depth.unwrap_or(plan.depth);
    plan.era = arguments.era.unwrap_or(plan.era);
    plan.closed |= arguments.closed;
    plan.poisson |= arguments.poisson;
    plan.thresholds.p99 = arguments.p99_max.or(plan.thresholds.p99);
    plan.thresholds.errors = arguments.errors_max.or(plan.thresholds.errors);
    Ok(plan)
}
