//! CPU time of a `tools/call` by kind of handler: in-process, and over TCP.
//!
//! ```text
//! cargo bench --bench handlers -- [--rounds 7] [--calls 50000]
//! ```
//!
//! In-process, client, server and tokio runtime share one thread, and the figure is its CPU time.
//! Over TCP the server is a process on core 0, with one shard and a tokio runtime of one worker
//! thread; the client on core 1 keeps one call in flight on each of 16 connections, and the figure
//! is the CPU time of the server process. All tools echo a message of 32 bytes; the calls are of
//! 2026-07-28. The kinds alternate within one run; medians, with the lowest and highest round.

use std::hint::black_box;
use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use corelane::model::Implementation;
use corelane::{Catalog, CatalogError, InProcessConnection, Options, Server, Tool};
use corelane_bench_support::arguments::number;
use corelane_bench_support::process::{self, CHILD};
use corelane_bench_support::requests::{MESSAGE_BYTES, META, message};
use rustix::time::{ClockId, clock_gettime};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::runtime::{Builder, Runtime};

const KINDS: [&str; 3] = ["inline", "local", "tokio"];
const CONNECTIONS: usize = 16;
const SERVER_CORE: usize = 0;
const CLIENT_CORE: usize = 1;
/// Calls before each measurement, as a fraction of those measured.
const WARM_UP_DIVISOR: usize = 10;
/// Targets: microseconds of an in-process call, and of a tokio handler beyond those of a local one.
const IN_PROCESS_TARGET: f64 = 1.0;
const TOKIO_TARGET: f64 = 3.0;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == CHILD) {
        return serve();
    }
    let number = |flag, default| number(&arguments, flag, default);
    let (rounds, calls) = (number("--rounds", 7)?.max(1), number("--calls", 50_000)?.max(1));
    process::pin(&[CLIENT_CORE])?;

    let mut in_process = InProcess::new()?;
    let figures = measure(rounds, |kind| in_process.cpu_per_call(kind, calls))?;
    print("in-process", figures)?;
    let [inline, ..] = figures.map(|figure| figure.median);
    print_target("an inline call in-process", inline, IN_PROCESS_TARGET)?;

    let mut over_tcp = OverTcp::new()?;
    let figures = measure(rounds, |kind| over_tcp.cpu_per_call(kind, calls))?;
    print("over TCP", figures)?;
    let [_, local, tokio] = figures.map(|figure| figure.median);
    print_target("a tokio handler beyond a local one over TCP", tokio - local, TOKIO_TARGET)
}

#[derive(Deserialize, JsonSchema)]
struct Echo {
    message: String,
}

/// Returns a catalog with one echo tool of each kind.
fn catalog() -> Result<Catalog, CatalogError> {
    Catalog::builder(Implementation::new("handlers", "1.0.0"))
        .tool(Tool::new("inline").inline(|Echo { message }, _| message))
        .tool(Tool::new("local").local(|Echo { message }, _| async move { message }))
        .tool(Tool::new("tokio").tokio(|Echo { message }, _| async move { message }))
        .build()
}

/// Returns a call of the tool `kind`, with its newline.
fn request(kind: &str) -> String {
    let message = message(MESSAGE_BYTES);
    format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"{kind}\",\
         \"arguments\":{{\"message\":\"{message}\"}}{META}}}}}\n"
    )
}

/// Fails unless `response` is a result with the message.
fn check(response: &[u8]) -> io::Result<()> {
    let response = String::from_utf8_lossy(response);
    let is_result = response.contains("\"result\"") && response.contains(&message(MESSAGE_BYTES));
    if is_result { Ok(()) } else { Err(io::Error::other(format!("wrong response: {response}"))) }
}

/// Client and server in this thread.
struct InProcess {
    runtime: Runtime,
    connection: InProcessConnection,
}

impl InProcess {
    fn new() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().build()?;
        let server = Server::builder(catalog().map_err(io::Error::other)?);
        let server = server.tokio(runtime.handle().clone());
        let connection = server.connect().map_err(io::Error::other)?;
        Ok(Self { runtime, connection })
    }

    fn cpu_per_call(&mut self, kind: &str, calls: usize) -> io::Result<f64> {
        let request = request(kind);
        let Self { runtime, connection } = self;
        let mut run = |calls: usize| {
            runtime.block_on(async {
                for _ in 0..calls {
                    connection.send(black_box(request.trim_ascii_end()));
                    black_box(connection.receive().await);
                }
                connection.send(request.trim_ascii_end());
                check(connection.receive().await.unwrap_or_default())
            })
        };
        run(calls / WARM_UP_DIVISOR)?;
        let before = thread_time();
        run(calls)?;
        Ok(per_call(thread_time().saturating_sub(before), calls))
    }
}

/// Returns the CPU time of this thread.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = Duration::from_secs(time.tv_sec.unsigned_abs());
    seconds + Duration::from_nanos(time.tv_nsec.unsigned_abs())
}

/// A server process and its connections.
struct OverTcp {
    server: process::Server,
    connections: Vec<BufReader<TcpStream>>,
}

impl OverTcp {
    fn new() -> io::Result<Self> {
        let server = process::Server::start(&[])?;
        let connect = |_| {
            let stream = TcpStream::connect(server.address()?)?;
            stream.set_nodelay(true)?;
            Ok(BufReader::new(stream))
        };
        let connections = (0..CONNECTIONS).map(connect).collect::<io::Result<_>>()?;
        Ok(Self { server, connections })
    }

    fn cpu_per_call(&mut self, kind: &str, calls: usize) -> io::Result<f64> {
        let request = request(kind);
        let turns = calls.div_ceil(CONNECTIONS);
        self.run(&request, turns / WARM_UP_DIVISOR)?;
        let before = self.server.cpu_time()?;
        self.run(&request, turns)?;
        let used = self.server.cpu_time()?.saturating_sub(before);
        Ok(per_call(used, turns * CONNECTIONS))
    }

    /// Sends a call on every connection, then reads every response, `turns` times.
    fn run(&mut self, request: &str, turns: usize) -> io::Result<()> {
        let mut response = Vec::new();
        for turn in 0..=turns {
            for connection in &mut self.connections {
                connection.get_mut().write_all(request.as_bytes())?;
            }
            for connection in &mut self.connections {
                response.clear();
                connection.read_until(b'\n', &mut response)?;
                if turn == turns {
                    check(&response)?;
                }
            }
        }
        Ok(())
    }
}

/// The server process: prints its address and serves until it is killed.
fn serve() -> io::Result<()> {
    process::setup_child(&[SERVER_CORE])?;
    let runtime = Builder::new_multi_thread().worker_threads(1).build()?;
    let mut options = Options::default();
    options.http.address = None;
    options.engine.shards = Some(1);
    let server = Server::builder(catalog().map_err(io::Error::other)?).options(options);
    let server = server.tokio(runtime.handle().clone()).tcp("127.0.0.1:0");
    let running = server.start().map_err(io::Error::other)?;
    let address = running.tcp_address().ok_or(io::ErrorKind::AddrNotAvailable)?;
    eprintln!("listening tcp {address}");
    running.join().map_err(io::Error::other).map(drop)
}

/// The rounds of one kind, in microseconds per call.
#[derive(Clone, Copy)]
struct Figure {
    min: f64,
    median: f64,
    max: f64,
}

/// Measures every kind once a round.
fn measure(
    rounds: usize,
    mut cpu_per_call: impl FnMut(&str) -> io::Result<f64>,
) -> io::Result<[Figure; KINDS.len()]> {
    let mut measured = KINDS.map(|_| Vec::with_capacity(rounds));
    for _ in 0..rounds {
        for (kind, values) in KINDS.iter().zip(&mut measured) {
            values.push(cpu_per_call(kind)?);
        }
    }
    Ok(measured.map(|mut values| {
        values.sort_by(f64::total_cmp);
        Figure { min: values[0], median: values[rounds / 2], max: values[rounds - 1] }
    }))
}

fn per_call(used: Duration, calls: usize) -> f64 {
    let calls = u32::try_from(calls).unwrap_or(u32::MAX);
    used.as_secs_f64() * 1e6 / f64::from(calls)
}

fn print(title: &str, figures: [Figure; KINDS.len()]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "| handler, {title} | CPU µs per call (min–max) |")?;
    writeln!(out, "| --- | --- |")?;
    for (kind, Figure { min, median, max }) in KINDS.iter().zip(figures) {
        writeln!(out, "| {kind} | {median:.2} ({min:.2}–{max:.2}) |")?;
    }
    writeln!(out)
}

fn print_target(what: &str, figure: f64, target: f64) -> io::Result<()> {
    let verdict = if figure <= target { "within" } else { "above" };
    writeln!(io::stdout(), "{what}: {figure:.2} µs, {verdict} the target of {target} µs\n")
}
