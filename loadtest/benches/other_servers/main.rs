//! Compares what this tool measures at servers of others with what wrk and an independent script
//! measure.
//!
//! ```text
//! loadtest/tests/install.sh
//! cargo bench -p corelane-load --bench other_servers -- [--rounds 5] [--seconds 3]
//! ```
//!
//! The servers are the reference server of MCP and one with `FastMCP`, on core 0. The clients take
//! turns on core 1: in closed loops wrk over HTTP and `independent.py` over stdio, with several
//! calls in flight, so that the server is the bottleneck; in open loops `independent.py`, at a
//! rate that leaves a server with one connection idle for half of the time or more.
//!
//! The clients do the same. Over HTTP each connection has a session of its own: wrk has a thread
//! for each, because a thread of wrk sends one request only, and the script makes and ends the
//! sessions. Over stdio a client sends a call for each answer of a read, in one write. A response
//! time counts from when a call is due, a service time from when it is sent, both until the read
//! that completes the answer returns. The script prints the cores that it and the server use: it
//! is a judge of a closed loop only if it uses far less of its core than the server of its own.
//!
//! wrk divides its responses by the time from its start until its last thread stops, so its rate
//! is that of the server from the first request on. This tool counts the calls sent after a
//! warm-up, and waits for their answers; without a warm-up that would be the calls in flight too
//! many. The server of all HTTP rounds is the same, and the first round is not counted.
//!
//! A ratio is that of a round: neighbours of a shared machine change the rate of a server between
//! rounds. The order changes with each round, because servers get faster.

#![expect(clippy::print_stdout, reason = "the output of a benchmark")]

use std::error::Error;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use clap::Parser;
use corelane_bench_support::process;
use corelane_load::target::Target;
use corelane_test_support::wrk::{self, WrkSettings};
use serde::Deserialize;
use serde_json::{Value, json};

/// Version of all calls.
const VERSION: &str = "2025-11-25";
/// Calls in flight in closed loops.
const IN_FLIGHT: usize = 8;

/// Command line arguments.
#[derive(Debug, Parser)]
struct Arguments {
    /// Runs of each client, alternating.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Duration of each run, in whole seconds.
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Passed by cargo to every bench.
    #[arg(long, hide = true)]
    bench: bool,
}

/// What a client measures: calls a second, and the medians of response time and service time in
/// microseconds. The cores used are known of the script only.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct Measured {
    rate: f64,
    p50_us: f64,
    service_p50_us: f64,
    cores: f64,
    server_cores: f64,
}

type Figure = (&'static str, fn(&Measured) -> f64);

const RATE: Figure = ("calls a second", |measured| measured.rate);
const RESPONSE: Figure = ("response p50, µs", |measured| measured.p50_us);
const SERVICE: Figure = ("service p50, µs", |measured| measured.service_p50_us);

/// A server of others: its command for each transport, and the parameters of the call.
struct OtherServer {
    name: &'static str,
    program: PathBuf,
    script: PathBuf,
    stdio_flags: &'static [&'static str],
    call: Value,
}

impl OtherServer {
    fn all() -> [Self; 2] {
        let installed = Path::new(env!("CARGO_TARGET_TMPDIR")).join("other_servers");
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/other_servers");
        let everything = "node/node_modules/@modelcontextprotocol/server-everything/dist/index.js";
        let message = "abcdefghijklmnopqrstuvwxyzabcdef";
        [
            Self {
                name: "server-everything",
                program: "node".into(),
                script: installed.join(everything),
                stdio_flags: &["stdio"],
                call: json!({ "name": "echo", "arguments": { "message": message } }),
            },
            Self {
                name: "FastMCP",
                program: installed.join("python/bin/python"),
                script: tests.join("fastmcp_server.py"),
                stdio_flags: &[],
                call: json!({ "name": "add", "arguments": { "a": 1, "b": 2 } }),
            },
        ]
    }

    /// Returns the words of its command over stdio, on core 0.
    fn stdio_command(&self) -> Vec<String> {
        let (program, script) = (self.program.display(), self.script.display());
        let words = ["taskset".into(), "-c".into(), "0".into(), program.to_string()].into_iter();
        let flags = self.stdio_flags.iter().map(ToString::to_string);
        words.chain([script.to_string()]).chain(flags).collect()
    }

    /// Starts it over HTTP, and waits until it accepts connections.
    fn start(&self) -> Result<HttpServer, Box<dyn Error>> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let port = address.port().to_string();
        let mut command = Command::new("taskset");
        command.args(["-c", "0"]).arg(&self.program).arg(&self.script).env("PORT", &port);
        command.arg(if self.stdio_flags.is_empty() { &port } else { "streamableHttp" });
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut server = HttpServer { child: command.spawn()?, address };
        while TcpStream::connect(address).is_err() {
            if let Some(status) = server.child.try_wait()? {
                return Err(format!("{} has ended: {status}", self.name).into());
            }
            std::thread::yield_now();
        }
        Ok(server)
    }
}

/// A server over HTTP, killed when dropped.
struct HttpServer {
    child: Child,
    address: SocketAddr,
}

impl HttpServer {
    fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        // Both fail only if it has ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    // The clients inherit the affinity; the servers have one of their own.
    process::pin(&[1])?;
    println!("medians (ranges) of {} rounds of {} s", arguments.rounds, arguments.seconds);
    for server in OtherServer::all() {
        compare_http(&arguments, &server)?;
        compare_stdio(&arguments, &server)?;
    }
    Ok(())
}

fn compare_http(arguments: &Arguments, server: &OtherServer) -> Result<(), Box<dyn Error>> {
    let running = server.start()?;
    let url = running.url();
    let seconds = arguments.seconds;
    let in_flight = format!("--connections={IN_FLIGHT}");
    let mut closed = Vec::new();
    let flags = ["--closed", "--warm-up=1", &in_flight];
    for round in 0..=arguments.rounds {
        let ours = || run_load(&url, server, seconds, &flags);
        closed.push(take_turns(round, ours, || run_wrk(&running, server, seconds))?);
    }
    closed.remove(0);
    show(&format!("{}, HTTP, closed loop, beside wrk", server.name), &[RATE, SERVICE], &closed);
    let rate = open_rate(&closed);
    let open = compare_open(arguments, server, (&url, std::slice::from_ref(&url)), rate)?;
    let name = format!("{}, HTTP, {rate} a second, beside the script", server.name);
    show(&name, &[RATE, RESPONSE, SERVICE], &open);
    Ok(())
}

fn compare_stdio(arguments: &Arguments, server: &OtherServer) -> Result<(), Box<dyn Error>> {
    let command = server.stdio_command();
    let target = Target::Command(command.clone()).to_string();
    let in_flight = format!("--depth={IN_FLIGHT}");
    let mut closed = Vec::new();
    let flags = ["--closed", "--warm-up=1", &in_flight];
    for round in 0..arguments.rounds {
        let ours = || run_load(&target, server, arguments.seconds, &flags);
        let other = || run_script(server, arguments.seconds, None, &command);
        closed.push(take_turns(round, ours, other)?);
    }
    let name = format!("{}, stdio, closed loop, beside the script", server.name);
    show(&name, &[RATE, SERVICE], &closed);
    let rate = open_rate(&closed);
    let open = compare_open(arguments, server, (&target, &command), rate)?;
    let name = format!("{}, stdio, {rate} a second, beside the script", server.name);
    show(&name, &[RATE, RESPONSE, SERVICE], &open);
    Ok(())
}

/// Compares open loops of one connection.
fn compare_open(
    arguments: &Arguments,
    server: &OtherServer,
    (target, words): (&str, &[String]),
    rate: f64,
) -> Result<Vec<(Measured, Measured)>, Box<dyn Error>> {
    let rate_flag = format!("--rate={rate}");
    let flags = ["--warm-up=1", "--connections=1", "--lag-max=1s", &rate_flag];
    let mut both = Vec::new();
    for round in 0..arguments.rounds {
        let ours = || run_load(target, server, arguments.seconds, &flags);
        let other = || run_script(server, arguments.seconds, Some(rate), words);
        both.push(take_turns(round, ours, other)?);
    }
    Ok(both)
}

/// Runs both clients, in an order that changes with each round.
fn take_turns(
    round: usize,
    ours: impl Fn() -> Result<Measured, Box<dyn Error>>,
    other: impl Fn() -> Result<Measured, Box<dyn Error>>,
) -> Result<(Measured, Measured), Box<dyn Error>> {
    if round.is_multiple_of(2) {
        return Ok((ours()?, other()?));
    }
    let other = other()?;
    Ok((ours()?, other))
}

/// Returns half of what one call in flight reaches at least.
#[expect(clippy::cast_precision_loss, reason = "a small number")]
fn open_rate(closed: &[(Measured, Measured)]) -> f64 {
    let rates = closed.iter().map(|(ours, _)| ours.rate);
    let lowest = rates.fold(f64::INFINITY, f64::min);
    (lowest / (2 * IN_FLIGHT) as f64).floor().max(1.0)
}

fn show(name: &str, figures: &[Figure], both: &[(Measured, Measured)]) {
    println!("\n{name}");
    for (figure_name, figure) in figures {
        let others = both.iter().map(|(_, other)| figure(other)).collect();
        print_median(&format!("{figure_name}, other"), others);
        let ours = both.iter().map(|(ours, _)| figure(ours)).collect();
        print_median(&format!("{figure_name}, corelane-load"), ours);
        let ratios = both.iter().map(|(ours, other)| figure(ours) / figure(other)).collect();
        print_median(&format!("{figure_name}, ratio"), ratios);
    }
    let cores: [Figure; 2] = [
        ("cores, other", |measured| measured.cores),
        ("cores, server of other", |measured| measured.server_cores),
    ];
    for (figure_name, figure) in cores {
        let used: Vec<f64> = both.iter().map(|(_, other)| figure(other)).collect();
        if used.iter().any(|cores| *cores > 0.0) {
            print_median(figure_name, used);
        }
    }
}

/// Prints the median and range of figures.
fn print_median(name: &str, mut figures: Vec<f64>) {
    figures.sort_by(f64::total_cmp);
    if let [first, .., last] = figures[..] {
        let median = figures[figures.len() / 2];
        println!("  {name:<32} {median:>12.3}  ({first:.3} … {last:.3})");
    }
}

/// Runs `corelane-load`.
fn run_load(
    target: &str,
    server: &OtherServer,
    seconds: u64,
    flags: &[&str],
) -> Result<Measured, Box<dyn Error>> {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("other-servers-agreement.json");
    let tool = format!("--tool={}", server.call["name"].as_str().unwrap_or_default());
    let output = Command::new(env!("CARGO_BIN_EXE_corelane-load"))
        .args(["run", target, "--quiet", "--cores=1", &tool])
        .args([&format!("--era={VERSION}"), &format!("--duration={seconds}")])
        .arg(format!("--arguments={}", server.call["arguments"]))
        .args(flags)
        .arg("--json")
        .arg(&file)
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let result: Value = serde_json::from_str(&std::fs::read_to_string(&file)?)?;
    // Neighbours of a shared machine may make a run late: its figures are shown nonetheless.
    if result["totals"]["failure_ratio"] != 0.0 {
        return Err(format!("{text}{}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let rate = result["totals"]["rate"].as_f64().ok_or("no rate")?;
    let p50_us = result["response"]["p50_us"].as_f64().ok_or("no median")?;
    let service_p50_us = result["service"]["p50_us"].as_f64().ok_or("no median")?;
    Ok(Measured { rate, p50_us, service_p50_us, ..Measured::default() })
}

/// Runs the script, in a closed loop without a rate.
fn run_script(
    server: &OtherServer,
    seconds: u64,
    rate: Option<f64>,
    target: &[String],
) -> Result<Measured, Box<dyn Error>> {
    let seconds = seconds.to_string();
    let loop_arguments = rate.map_or_else(
        || ["closed".into(), seconds.clone(), IN_FLIGHT.to_string()],
        |rate| ["open".into(), rate.to_string(), seconds.clone()],
    );
    let call = [server.call.to_string()];
    let output = script_output(&[&loop_arguments[..], &call, target].concat())?;
    Ok(serde_json::from_str(&output)?)
}

/// Returns what the script prints.
fn script_output(arguments: &[String]) -> Result<String, Box<dyn Error>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/other_servers/independent.py");
    let output = Command::new("python3").arg(script).args(arguments).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Runs wrk with a session for each connection, which the script makes and ends.
fn run_wrk(
    running: &HttpServer,
    server: &OtherServer,
    seconds: u64,
) -> Result<Measured, Box<dyn Error>> {
    let opened = script_output(&["sessions".into(), running.url(), IN_FLIGHT.to_string()])?;
    let sessions: Vec<String> = opened.lines().map(ToOwned::to_owned).collect();
    let requests: Vec<Vec<u8>> =
        sessions.iter().map(|session| session_request(running, server, session)).collect();
    let script = Path::new(env!("CARGO_TARGET_TMPDIR")).join("other-servers.lua");
    let settings = WrkSettings { connections: IN_FLIGHT, seconds, responses: None };
    let counts = wrk::run(running.address, &requests, &script, settings)?;
    script_output(&[&["end".into(), running.url()], &sessions[..]].concat())?;
    if counts.errors > 0 {
        return Err(format!("wrk had errors: {counts:?}").into());
    }
    #[expect(clippy::cast_precision_loss, reason = "displayed figures")]
    let (responses, p50_us) = (counts.responses as f64, counts.p50_us as f64);
    let rate = responses / counts.seconds;
    Ok(Measured { rate, p50_us, service_p50_us: p50_us, ..Measured::default() })
}

/// Returns the bytes of a call in a session.
fn session_request(running: &HttpServer, server: &OtherServer, session: &str) -> Vec<u8> {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": server.call });
    let body = body.to_string();
    let fields = [
        format!("POST /mcp HTTP/1.1\r\nHost: {}", running.address),
        "Content-Type: application/json\r\nAccept: application/json, text/event-stream".into(),
        format!("MCP-Protocol-Version: {VERSION}\r\nMCP-Session-Id: {session}"),
        format!("Content-Length: {}\r\n\r\n{body}", body.len()),
    ];
    fields.join("\r\n").into_bytes()
}
