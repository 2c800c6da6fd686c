//! CPU time of a call of the client over TCP.
//!
//! ```text
//! cargo bench --bench client -- [--rounds 7] [--calls 50000]
//! ```
//!
//! The server is a process on core 0 with one shard. The client is this process on core 1: one I/O
//! thread, and tasks of a tokio runtime with one thread that each call an echo tool again and
//! again. The figures are the CPU time of the whole process per call. The bare
//! client writes all requests of a connection at once, reads the responses and parses none. Both
//! alternate within one run; medians, with the lowest and highest round.

use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use corelane::client::{ClientError, IoThread};
use corelane::model::Implementation;
use corelane::{Catalog, CatalogError, Client, Options, Server, Tool};
use corelane_bench_support::arguments::number;
use corelane_bench_support::process::{self, CHILD};
use corelane_bench_support::requests::{MESSAGE_BYTES, META, message};
use rustix::time::{ClockId, clock_gettime};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

/// Connections, and calls in flight on each.
const LOADS: [(usize, usize); 3] = [(64, 1), (1, 16), (64, 16)];
const SERVER_CORE: usize = 0;
const CLIENT_CORE: usize = 1;
/// Calls before each measurement, as a fraction of those measured.
const WARM_UP_DIVISOR: usize = 10;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == CHILD) {
        return serve();
    }
    let number = |flag, default| number(&arguments, flag, default);
    let (rounds, calls) = (number("--rounds", 7)?.max(1), number("--calls", 50_000)?.max(1));
    process::pin(&[CLIENT_CORE])?;
    let server = process::Server::start(&[])?;
    let mut out = io::stdout().lock();
    writeln!(out, "| connections × calls in flight | client, CPU µs (min–max) | bare client |")?;
    writeln!(out, "| --- | --- | --- |")?;
    for (connections, depth) in LOADS {
        let load = Load { connections, depth };
        let client = ClientLoad::new(&server, load)?;
        let mut bare = BareLoad::new(&server, load)?;
        let (mut of_client, mut of_bare) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            of_client.push(cpu_per_call(calls, |calls| client.run(calls))?);
            of_bare.push(cpu_per_call(calls, |calls| bare.run(calls))?);
        }
        let (of_client, of_bare) = (figure(of_client), figure(of_bare));
        writeln!(out, "| {connections} × {depth} | {of_client} | {of_bare} |")?;
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Load {
    connections: usize,
    depth: usize,
}

/// Clients on one I/O thread.
struct ClientLoad {
    runtime: Runtime,
    clients: Vec<Client>,
    depth: usize,
}

impl ClientLoad {
    fn new(server: &process::Server, load: Load) -> io::Result<Self> {
        let thread = IoThread::start()?;
        let target = format!("tcp://{}", server.address()?);
        let connect = |_| {
            let client = Client::builder(target.as_str()).io_thread(&thread);
            client.connect_blocking().map_err(io::Error::other)
        };
        let clients = (0..load.connections).map(connect).collect::<io::Result<_>>()?;
        let runtime = Builder::new_current_thread().build()?;
        Ok(Self { runtime, clients, depth: load.depth })
    }

    fn run(&self, calls: usize) -> io::Result<usize> {
        let tasks = self.clients.len() * self.depth;
        let turns = calls.div_ceil(tasks);
        self.runtime.block_on(async {
            let mut running = JoinSet::new();
            for client in self.clients.iter().cycle().take(tasks) {
                let client = client.clone();
                running.spawn(async move {
                    let arguments = json!({ "message": message(MESSAGE_BYTES) });
                    for _ in 0..turns {
                        client.call_tool("echo", &arguments).await?;
                    }
                    Ok::<(), ClientError>(())
                });
            }
            while let Some(ended) = running.join_next().await {
                ended.map_err(io::Error::other)?.map_err(io::Error::other)?;
            }
            Ok(turns * tasks)
        })
    }
}

/// Connections that are written and read by turns.
struct BareLoad {
    connections: Vec<BufReader<TcpStream>>,
    requests: String,
    depth: usize,
}

impl BareLoad {
    fn new(server: &process::Server, load: Load) -> io::Result<Self> {
        let connect = |_| {
            let stream = TcpStream::connect(server.address()?)?;
            stream.set_nodelay(true)?;
            Ok(BufReader::new(stream))
        };
        let connections = (0..load.connections).map(connect).collect::<io::Result<_>>()?;
        let message = message(MESSAGE_BYTES);
        let requests = (0..load.depth).map(|id| {
            format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{\
                 \"name\":\"echo\",\"arguments\":{{\"message\":\"{message}\"}}{META}}}}}\n"
            )
        });
        Ok(Self { connections, requests: requests.collect(), depth: load.depth })
    }

    fn run(&mut self, calls: usize) -> io::Result<usize> {
        let in_flight = self.connections.len() * self.depth;
        let turns = calls.div_ceil(in_flight);
        let mut response = Vec::new();
        for _ in 0..turns {
            for connection in &mut self.connections {
                connection.get_mut().write_all(self.requests.as_bytes())?;
            }
            for connection in &mut self.connections {
                for _ in 0..self.depth {
                    response.clear();
                    connection.read_until(b'\n', &mut response)?;
                }
            }
        }
        Ok(turns * in_flight)
    }
}

/// Returns the CPU time of this process per call, in microseconds, after a warm-up.
fn cpu_per_call(calls: usize, mut run: impl FnMut(usize) -> io::Result<usize>) -> io::Result<f64> {
    run(calls / WARM_UP_DIVISOR)?;
    let before = process_time();
    let calls = run(calls)?;
    let used = process_time().saturating_sub(before);
    let calls = u32::try_from(calls).unwrap_or(u32::MAX);
    Ok(used.as_secs_f64() * 1e6 / f64::from(calls))
}

fn process_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = Duration::from_secs(time.tv_sec.unsigned_abs());
    seconds + Duration::from_nanos(time.tv_nsec.unsigned_abs())
}

/// Formats the rounds of one load.
fn figure(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let (min, max) = (values[0], values[values.len() - 1]);
    format!("{:.2} ({min:.2}–{max:.2})", values[values.len() / 2])
}

#[derive(Deserialize, JsonSchema)]
struct Echo {
    message: String,
}

fn catalog() -> Result<Catalog, CatalogError> {
    let echo = Tool::new("echo").inline(|Echo { message }, _| message);
    Catalog::builder(Implementation::new("client", "1.0.0")).tool(echo).build()
}

/// The server process: prints its address and serves until it is killed.
fn serve() -> io::Result<()> {
    process::setup_child(&[SERVER_CORE])?;
    let mut options = Options::default();
    options.http.address = None;
    options.engine.shards = Some(1);
    let server = Server::builder(catalog().map_err(io::Error::other)?).options(options);
    let running = server.tcp("127.0.0.1:0").start().map_err(io::Error::other)?;
    let address = running.tcp_address().ok_or(io::ErrorKind::AddrNotAvailable)?;
    eprintln!("listening tcp {address}");
    running.join().map_err(io::Error::other).map(drop)
}
