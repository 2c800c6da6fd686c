//! Compares what this tool measures at servers of others with what wrk and an independent script
//! measure.
//!
//! ```text
//! loadtest/tests/install.sh
//! cargo bench -p corelane-load --bench other_servers -- [--rounds 5] [--seconds 3] [--warm-up 5]
//! ```
//!
//! The servers are the reference server of MCP and one with `FastMCP`, on core 0. The clients take
//! turns on core 1: in closed loops wrk over HTTP and `independent.py` over stdio, with several
//! calls in flight, so that the server is the bottleneck; in open loops `independent.py`, at a
//! rate that leaves a server with one connection idle for half of the time or more.
//!
//! The clients do the same:
//!
//! - Each round has new servers and a warm-up: the servers get faster with each call, and slower
//!   with what they keep of the calls of a session. Over stdio each client has its own, over HTTP
//!   both measure the same one twice.
//! - Over HTTP there are as many sessions as connections. wrk sends over each connection the calls
//!   of all sessions in turn, and the script makes and ends the sessions. Both use one thread: the
//!   server wakes each thread that waits for an answer, and pays for it.
//! - Over stdio a client sends a call for each answer of a read, in one write.
//! - A response time counts from when a call is due, a service time from when it is sent, both
//!   until the read that completes the answer returns. A closed loop has no due times.
//!
//! What remains: wrk divides all its responses by the time until its last thread stops, and does
//! not count the calls in flight then; this tool counts the calls that it sends in the measured
//! time, and waits for their answers. Either is the rate of the server, but for the time in which
//! wrk connects.
//!
//! A client can judge a closed loop only while the server uses its whole core, and the client far
//! less of its own; the cores used are printed. The CPU time of the server for each call changes
//! less with neighbours of a shared machine than a rate does. A ratio is that of a round, and the
//! order changes with each round, because neighbours change.

#![expect(clippy::print_stdout, reason = "the output of a benchmark")]

mod servers;

mod clients;

use std::error::Error;

use clap::Parser;
use corelane_bench_support::process;

use self::clients::{Client, Measured, Run, Transport};
use self::servers::OtherServer;

/// Part of the rate of a closed loop that an open loop has: one call in flight reaches twice as
/// much at least.
const OPEN_DIVISOR: f64 = 16.0;

/// Command line arguments.
#[derive(Debug, Parser)]
struct Arguments {
    /// Runs of each client, alternating.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Duration of each run, in whole seconds.
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Seconds before each run, in which a server compiles what it runs often.
    #[arg(long, default_value_t = 5)]
    warm_up: u64,
    /// Passed by cargo to every bench.
    #[arg(long, hide = true)]
    bench: bool,
}

/// A figure of a run: its name, and how it results.
type Figure = (&'static str, fn(&Measured) -> f64);

const RATE: Figure = ("calls a second", |measured| measured.rate);
const RESPONSE: Figure = ("response p50, µs", |measured| measured.p50_us);
const SERVICE: Figure = ("service p50, µs", |measured| measured.service_p50_us);
const SERVER_CPU: Figure =
    ("server CPU, µs a call", |measured| measured.server_cores / measured.rate * 1e6);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    // The clients inherit the affinity; the servers have one of their own.
    process::pin(&[1])?;
    println!("medians (ranges) of {} rounds of {} s", arguments.rounds, arguments.seconds);
    for server in OtherServer::all() {
        compare(&arguments, &server, Transport::Http)?;
        compare(&arguments, &server, Transport::Stdio)?;
    }
    Ok(())
}

/// Compares a closed loop, and an open one of one connection.
fn compare(
    arguments: &Arguments,
    server: &OtherServer,
    transport: Transport,
) -> Result<(), Box<dyn Error>> {
    let Arguments { warm_up, seconds, .. } = *arguments;
    let closed = Run { server, transport, warm_up, seconds, rate: None };
    let measured = take_turns(arguments.rounds, closed)?;
    let other = match transport {
        Transport::Http => "wrk",
        Transport::Stdio => "the script",
    };
    println!("\n{}, {transport:?}, closed loop, beside {other}", server.name);
    show(&[RATE, SERVICE, SERVER_CPU], &measured);

    let rates = measured.iter().map(|(ours, _)| ours.rate);
    let lowest = rates.fold(f64::INFINITY, f64::min);
    let rate = (lowest / OPEN_DIVISOR).floor().max(1.0);
    let measured = take_turns(arguments.rounds, Run { rate: Some(rate), ..closed })?;
    println!("\n{}, {transport:?}, {rate} a second, beside the script", server.name);
    show(&[RATE, RESPONSE, SERVICE], &measured);
    Ok(())
}

/// Runs both clients in each round, in an order that changes; returns what this tool and the other
/// have measured.
fn take_turns(rounds: usize, run: Run<'_>) -> Result<Vec<(Measured, Measured)>, Box<dyn Error>> {
    let mut both = Vec::new();
    for round in 0..rounds {
        let [first, second] = [Client::Load, Client::Other];
        let order = if round.is_multiple_of(2) { [first, second] } else { [second, first] };
        both.push(run.measure(order)?);
    }
    Ok(both)
}

fn show(figures: &[Figure], both: &[(Measured, Measured)]) {
    for (name, figure) in figures {
        let others = both.iter().map(|(_, other)| figure(other)).collect();
        print_median(&format!("{name}, other"), others);
        print_median(name, both.iter().map(|(ours, _)| figure(ours)).collect());
        let ratios = both.iter().map(|(ours, other)| figure(ours) / figure(other)).collect();
        print_median(&format!("{name}, ratio"), ratios);
    }
    let cores: [Figure; 2] = [
        ("cores of the client", |measured| measured.cores),
        ("cores of the server", |measured| measured.server_cores),
    ];
    for (name, figure) in cores {
        let others: Vec<f64> = both.iter().map(|(_, other)| figure(other)).collect();
        if others.iter().any(|cores| *cores > 0.0) {
            print_median(&format!("{name}, other"), others);
        }
        print_median(name, both.iter().map(|(ours, _)| figure(ours)).collect());
    }
}

/// Prints the median and range of figures.
fn print_median(name: &str, mut figures: Vec<f64>) {
    figures.sort_by(f64::total_cmp);
    if let (Some(first), Some(last)) = (figures.first(), figures.last()) {
        let median = figures[figures.len() / 2];
        println!("  {name:<32} {median:>12.3}  ({first:.3} … {last:.3})");
    }
}
