//! What the generator costs beside the least that a server can cost, and how late it is.
//!
//! ```text
//! cargo bench -p corelane-load --bench generator -- [--conns 64,1000] [--over tcp,http]
//!     [--rounds 5] [--seconds 1]
//! ```
//!
//! A floor server is a process of its own on core 0; one worker of the generator drives it from
//! core 1, first as fast as the two can (a closed loop, one request in flight on each connection),
//! then with half as many requests a second when they are due (an open loop). Both check every
//! answer. CPU time is that of the whole process; of what a worker spends awake for the next
//! request that is due it is told apart, as the harness itself does.
//!
//! A machine drifts and is shared, so what counts is the ratio of the two within one run. Two
//! processes of the same program differ by a few per cent, by where their memory happens to lie, so
//! each round has a server of its own; of the ratio the mean is told with the half width of its
//! 95 % confidence interval. How late the generator is means something on an idle machine only.

#![expect(clippy::print_stdout, reason = "what a bench has found is for whoever started it")]

#[path = "../../../benches/rig/answering.rs"]
mod answering;
mod floor;
#[expect(dead_code, reason = "other benches ask for more")]
#[path = "../../../benches/rig/process.rs"]
mod process;

use std::error::Error;
use std::time::Duration;

use clap::Parser;
use corelane_load::generator::{self, Finding};
use corelane_load::measure::process::Process;
use corelane_load::plan::{PhasePlan, Plan, Span};
use corelane_load::result::{Manifest, RunResult};

use self::process::{CHILD, Server};

/// Bytes of the message that is said back.
const MESSAGE_BYTES: usize = 32;
/// The cores of the server and of the generator.
const CORES: (usize, usize) = (0, 1);

/// What to measure.
#[derive(Debug, Parser)]
struct Arguments {
    /// Connections.
    #[arg(long, value_delimiter = ',', default_values_t = [64, 1_000])]
    conns: Vec<usize>,
    /// What carries the requests: tcp, http.
    #[arg(long, value_delimiter = ',', default_values_t = ["tcp".to_owned(), "http".to_owned()])]
    over: Vec<String>,
    /// Servers, each driven by one run of each kind.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How long each is measured.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// What cargo passes to every bench.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    if words.next().as_deref() == Some(CHILD) {
        process::settle(&[CORES.0])?;
        let message: String = ('a'..='z').cycle().take(MESSAGE_BYTES).collect();
        return Ok(floor::run(words.next().as_deref() == Some("http"), &message)?);
    }
    let arguments = Arguments::parse();
    println!(
        "closed loop: CPU us an answer, answers/s; open loop at half of that: how late the \
         generator was, us\n"
    );
    for over in &arguments.over {
        for connections in &arguments.conns {
            compare(&arguments, over, *connections)?;
        }
    }
    Ok(())
}

/// Prints the lines of one transport and number of connections.
fn compare(arguments: &Arguments, over: &str, connections: usize) -> Result<(), Box<dyn Error>> {
    let (mut fast, mut half) = (Vec::new(), Vec::new());
    for _ in 0..arguments.rounds {
        let server = Server::start(&[over.to_owned()])?;
        let mut plan = Plan::new(format!("{over}://{}", server.address()?));
        plan.connections = connections;
        plan.warm_up = Span::from(Duration::from_millis(300));
        let run = |closed: bool, rate: f64| {
            let span = Span::from(Duration::from_secs_f64(arguments.seconds));
            let phases = vec![PhasePlan::constant(rate, span)];
            once(Plan { closed, phases, ..plan.clone() }, &server)
        };
        let fastest = run(true, 1.0)?;
        half.push(run(false, fastest.totals.rate / 2.0)?);
        fast.push(fastest);
    }
    println!("{over}, {connections} connections");
    let cost = |result: &RunResult| result.generator.cpu_us_per_answer;
    let floor = |result: &RunResult| result.server.map_or(0.0, |cost| cost.cpu_us_per_answer);
    show("  floor", &fast, floor);
    show("  generator", &fast, cost);
    let ratio = |result: &RunResult| cost(result) / floor(result);
    show("  generator of the floor", &fast, ratio);
    let (mean, half_width) = mean(&fast.iter().map(ratio).collect::<Vec<_>>());
    println!("    on average             {mean:>10.3}  (± {half_width:.3})");
    show("  answers/s", &fast, |result| result.totals.rate);
    show("  at half: floor", &half, floor);
    show("  at half: generator", &half, cost);
    show("  at half: late, p50", &half, |result| result.lag.p50_us);
    show("  at half: late, p99", &half, |result| result.lag.p99_us);
    show("  at half: response p99", &half, |result| result.response.p99_us);
    for result in fast.iter().chain(&half) {
        if result.totals.failure_ratio > 0.0 || result.totals.unasked > 0 {
            println!("  spoiled: {:?}", result.totals);
        }
    }
    println!();
    Ok(())
}

/// The median of a figure and its range.
fn show(name: &str, results: &[RunResult], figure: impl Fn(&RunResult) -> f64) {
    let mut figures: Vec<f64> = results.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    if let [first, .., last] = figures[..] {
        let median = figures[figures.len() / 2];
        println!("{name:<24} {median:>10.2}  ({first:.2} … {last:.2})");
    }
}

/// The mean of some figures and the half width of its 95 % confidence interval, by the normal
/// distribution: a little narrow where there are few.
#[expect(clippy::cast_precision_loss, reason = "there are as many as rounds")]
fn mean(figures: &[f64]) -> (f64, f64) {
    let count = figures.len() as f64;
    let mean = figures.iter().sum::<f64>() / count;
    let squares: f64 = figures.iter().map(|figure| (figure - mean).powi(2)).sum();
    (mean, 1.96 * (squares / (count - 1.0).max(1.0) / count).sqrt())
}

fn once(plan: Plan, server: &Server) -> Result<RunResult, Box<dyn Error>> {
    let watched = Process::of(server.id());
    let crew = (1, &[CORES.1][..]);
    let finding: Finding = generator::run(&plan.job()?, crew, Some(&watched), |_, _| {})?;
    Ok(RunResult::new(plan, Manifest::default(), &finding))
}
