//! CPU cost and lateness of the load generator, compared with a minimal server.
//!
//! ```text
//! cargo bench -p corelane-load --bench generator -- [--conns 64,1000] [--over tcp,http]
//!     [--rounds 5] [--seconds 1]
//! ```
//!
//! A floor server is a process on core 0. One load thread drives it from core 1: first as fast as
//! possible (a closed loop with one request in flight per connection), then at half of that rate in
//! an open loop. Both check every response. CPU time is that of the whole process, without the time
//! the load thread spins.
//!
//! A machine drifts and is shared, so only the ratio within one run counts. Two processes of the
//! same program differ by a few per cent, depending on memory layout, so each round has its own
//! server; the mean ratio is printed with the half width of its 95 % confidence interval. Lateness
//! is meaningful only on an idle machine.

#![expect(clippy::print_stdout, reason = "the output of a benchmark")]

mod floor;

use std::error::Error;
use std::time::Duration;

use clap::Parser;
use corelane_bench_support::process::{self, CHILD, Server};
use corelane_load::generator::{self, Measurements};
use corelane_load::metrics::process_group::ProcessGroup;
use corelane_load::plan::{HumanDuration, PhasePlan, Plan};
use corelane_load::result::{Manifest, RunResult};

/// Bytes of the echoed message.
const MESSAGE_BYTES: usize = 32;
/// Cores of the server and of the generator.
const CORES: (usize, usize) = (0, 1);

/// Command line arguments.
#[derive(Debug, Parser)]
struct Arguments {
    /// Numbers of connections.
    #[arg(long, value_delimiter = ',', default_values_t = [64, 1_000])]
    conns: Vec<usize>,
    /// Transports: tcp, http.
    #[arg(long, value_delimiter = ',', default_values_t = ["tcp".to_owned(), "http".to_owned()])]
    over: Vec<String>,
    /// Rounds; each has its own server and one run of each kind.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Duration of each run, in seconds.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Passed by cargo to every bench.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() == Some(CHILD) {
        process::setup_child(&[CORES.0])?;
        let message: String = ('a'..='z').cycle().take(MESSAGE_BYTES).collect();
        return Ok(floor::run(args.next().as_deref() == Some("http"), &message)?);
    }
    let arguments = Arguments::parse();
    println!(
        "closed loop: CPU us per response, responses/s; open loop at half of that: lateness of \
         the generator, us\n"
    );
    for over in &arguments.over {
        for connections in &arguments.conns {
            compare(&arguments, over, *connections)?;
        }
    }
    Ok(())
}

/// Runs and prints one transport and number of connections.
fn compare(arguments: &Arguments, over: &str, connections: usize) -> Result<(), Box<dyn Error>> {
    let (mut fast, mut half) = (Vec::new(), Vec::new());
    for _ in 0..arguments.rounds {
        let server = Server::start(&[over.to_owned()])?;
        let mut plan = Plan::new(format!("{over}://{}", server.address()?));
        plan.connections = connections;
        plan.warm_up = HumanDuration::from(Duration::from_millis(300));
        let run = |closed: bool, rate: f64| {
            let span = HumanDuration::from(Duration::from_secs_f64(arguments.seconds));
            let phases = vec![PhasePlan::constant(rate, span)];
            run_once(Plan { closed, phases, ..plan.clone() }, &server)
        };
        let fastest = run(true, 1.0)?;
        half.push(run(false, fastest.totals.rate / 2.0)?);
        fast.push(fastest);
    }
    println!("{over}, {connections} connections");
    let cost = |result: &RunResult| result.generator.cpu_us_per_response.unwrap_or(f64::NAN);
    let floor = |result: &RunResult| {
        result.server.and_then(|cost| cost.cpu_us_per_response).unwrap_or(f64::NAN)
    };
    show("  floor CPU", &fast, floor);
    show("  generator CPU", &fast, cost);
    let ratio = |result: &RunResult| cost(result) / floor(result);
    show("  generator / floor", &fast, ratio);
    let (mean, half_width) = mean(&fast.iter().map(ratio).collect::<Vec<_>>());
    println!("    mean                   {mean:>10.3}  (± {half_width:.3})");
    show("  responses/s", &fast, |result| result.totals.rate);
    show("  half rate: floor CPU", &half, floor);
    show("  half rate: gen. CPU", &half, cost);
    show("  half rate: late p50", &half, |result| result.lag.p50_us.unwrap_or_default());
    show("  half rate: late p99", &half, |result| result.lag.p99_us.unwrap_or_default());
    show("  half rate: resp. p99", &half, |result| result.response.p99_us.unwrap_or_default());
    for result in fast.iter().chain(&half) {
        if result.totals.failure_ratio > Some(0.0) || result.totals.unsolicited > 0 {
            println!("  failed requests: {:?}", result.totals);
        }
    }
    println!();
    Ok(())
}

/// Prints the median and range of a figure.
fn show(name: &str, results: &[RunResult], figure: impl Fn(&RunResult) -> f64) {
    let mut figures: Vec<f64> = results.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    if let [first, .., last] = figures[..] {
        let median = figures[figures.len() / 2];
        println!("{name:<24} {median:>10.2}  ({first:.2} … {last:.2})");
    }
}

/// Returns the mean and the half width of its 95 % confidence interval, by the normal distribution
/// (slightly too narrow for few values).
#[expect(clippy::cast_precision_loss, reason = "as many values as rounds")]
fn mean(figures: &[f64]) -> (f64, f64) {
    let count = figures.len() as f64;
    let mean = figures.iter().sum::<f64>() / count;
    let squares: f64 = figures.iter().map(|figure| (figure - mean).powi(2)).sum();
    (mean, 1.96 * (squares / (count - 1.0).max(1.0) / count).sqrt())
}

fn run_once(plan: Plan, server: &Server) -> Result<RunResult, Box<dyn Error>> {
    let watched = ProcessGroup::of_process(server.id());
    let finding: Measurements =
        generator::run(&plan.run_config()?, 1, &[CORES.1], Some(&watched), |_, _| {})?;
    Ok(RunResult::new(plan, Manifest::default(), &finding))
}
