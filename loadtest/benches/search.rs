//! Searches a server whose capacity is known while its core is disturbed.
//!
//! ```text
//! cargo bench -p corelane-load --bench search -- [--runs 20] [--connections 32] [--wait-ms 50]
//! ```
//!
//! The server is a process on core 0 with a tool that waits: with one request in flight on each
//! connection its capacity is the number of connections divided by the wait. The command
//! `corelane-load search` runs on core 1. Every 5 s both cores are stolen for 100 ms: the server is
//! stopped, and a thread occupies the core of the generator.
//!
//! Prints for each search the rate, its error and its time, and at the end how many of them were
//! within 5 % in less than 2 minutes; exits with 1 if any was not.

#![expect(clippy::print_stdout, reason = "the output of a benchmark")]

use std::error::Error;
use std::hint::spin_loop;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use clap::Parser;
use corelane::{Catalog, NoArguments, Options, RequestContext, Server, Tool, ToolAnnotations};
use corelane_bench_support::process::{self, CHILD};
use corelane_engine::clock::Clock;
use corelane_load::search::SearchOutcome;
use corelane_load::sweep::SweepResult;
use corelane_protocol::model::Implementation;
use rustix::process::{Pid, Signal, kill_process};

/// Cores of the server and of the generator.
const CORES: (usize, usize) = (0, 1);
/// Time that the cores are stolen.
const STOLEN: Duration = Duration::from_millis(100);
/// Time until they are stolen again.
const BETWEEN: Duration = Duration::from_millis(4_900);
/// Largest relative error of a found rate.
const ERROR_MAX: f64 = 0.05;
/// Longest time of a search.
const SEARCH_MAX: Duration = Duration::from_mins(2);

/// Command line arguments.
#[derive(Debug, Parser)]
struct Arguments {
    /// Searches.
    #[arg(long, default_value_t = 20)]
    runs: u32,
    /// Connections.
    #[arg(long, default_value_t = 32)]
    connections: u32,
    /// Time that the tool waits, in milliseconds.
    #[arg(long, default_value_t = 50)]
    wait_ms: u32,
    /// Leave the cores undisturbed.
    #[arg(long)]
    undisturbed: bool,
    /// Passed by cargo to every bench.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<ExitCode, SearchError> {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some(CHILD) {
        process::setup_child(&[CORES.0])?;
        serve(Duration::from_millis(arguments.next().unwrap_or_default().parse()?))?;
        return Ok(ExitCode::SUCCESS);
    }
    let arguments = Arguments::parse();
    process::pin(&[CORES.1])?;
    let (server, input, output) = process::Server::start_piped(&[arguments.wait_ms.to_string()])?;
    let mut address = String::new();
    BufReader::new(output).read_line(&mut address)?;
    let target = format!("tcp://{}", address.trim());
    let pid = Pid::from_raw(server.id().cast_signed()).ok_or("the server has no id")?;
    let (searching, searches) = mpsc::channel();
    let disturbing =
        (!arguments.undisturbed).then(|| thread::spawn(move || disturb(pid, &searches)));
    let found = search_all(&arguments, &target)?;
    drop(searching);
    disturbing.map(thread::JoinHandle::join).transpose().map_err(|_| "the disturbance ended")?;
    drop(input);
    println!("{found} of {} within {} % in {SEARCH_MAX:?}", arguments.runs, ERROR_MAX * 100.0);
    Ok(if found == arguments.runs { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// An error of a thread.
type SearchError = Box<dyn Error + Send + Sync>;

/// Performs all searches; returns how many of them found the capacity in time.
fn search_all(arguments: &Arguments, target: &str) -> Result<u32, SearchError> {
    let capacity = f64::from(arguments.connections) * 1e3 / f64::from(arguments.wait_ms);
    println!("capacity {capacity:.0}/s: {arguments:?}");
    let mut good = 0;
    for number in 1..=arguments.runs {
        let clock = Clock::start();
        let started = clock.now();
        let result = search(arguments.connections, target)?;
        let took = clock.now().since(started);
        let rate = result.search.answer.rate().unwrap_or_default();
        let error = rate / capacity - 1.0;
        let is_found = matches!(result.search.answer, SearchOutcome::Found { .. });
        let is_good = is_found && error.abs() <= ERROR_MAX && took <= SEARCH_MAX;
        good += u32::from(is_good);
        println!(
            "{number:>3}  {rate:>8.1}/s  {:>+6.2} %  {:>5.1} s  {:>3} runs  {}",
            error * 100.0,
            took.as_secs_f64(),
            result.search.probes.len(),
            match (is_good, is_found) {
                (true, _) => "",
                (false, true) => "MISSED",
                (false, false) => "MISSED, unconfirmed",
            }
        );
    }
    Ok(good)
}

/// Performs one search by the command, with its defaults.
fn search(connections: u32, target: &str) -> Result<SweepResult, SearchError> {
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("search-bench.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_corelane-load"));
    command.args(["search", target, "--errors-max", "0.01", "--quiet", "--connections"]);
    command.arg(connections.to_string()).args(["--cores", &CORES.1.to_string(), "--json"]);
    let status = command.arg(&kept).stdout(Stdio::null()).status()?;
    // An unconfirmed rate is stored, too.
    if !matches!(status.code(), Some(0 | 1 | 3)) {
        return Err(format!("the search ended with {status}").into());
    }
    Ok(serde_json::from_str(&std::fs::read_to_string(kept)?)?)
}

/// Steals both cores at fixed intervals until the search drops its end of `searches`. The thread
/// inherits the core of the generator.
fn disturb(server: Pid, searches: &Receiver<()>) {
    let clock = Clock::start();
    while searches.recv_timeout(BETWEEN) == Err(RecvTimeoutError::Timeout) {
        if kill_process(server, Signal::STOP).is_err() {
            return;
        }
        let end = clock.now().after(STOLEN);
        while clock.now() < end {
            spin_loop();
        }
        if kill_process(server, Signal::CONT).is_err() {
            return;
        }
    }
}

/// Main function of the server process: prints its address, and ends when stdin does.
fn serve(wait: Duration) -> Result<(), SearchError> {
    let mut options = Options::default();
    options.tcp.address = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    options.http.address = None;
    options.engine.shards = Some(1);
    let catalog = Catalog::builder(Implementation::new("search", "1")).tool(waiting(wait));
    let running = Server::builder(catalog.build()?).options(options).start()?;
    writeln!(io::stdout(), "{}", running.addresses()[0].1)?;
    io::stdin().read_to_end(&mut Vec::new())?;
    running.handle().drain();
    running.join()?;
    Ok(())
}

/// A tool that answers after `wait`.
fn waiting(wait: Duration) -> Tool {
    Tool::new("wait")
        .description("Answers after a while.")
        .annotations(ToolAnnotations::pure())
        .local(move |NoArguments {}, ctx: RequestContext| async move {
            ctx.sleep(wait).await?;
            Ok("done")
        })
}
