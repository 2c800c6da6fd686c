//! CPU time of a call of the client over TCP, and memory of a connection.
//!
//! ```text
//! cargo bench --bench client -- [--rounds 7] [--calls 50000] [--in-process | --io-thread]
//! cargo bench --bench client -- --connections 50000 [--legacy]
//! ```
//!
//! With `--connections`: this process opens so many connections, on one I/O thread for each 16,000
//! of them, completes the handshake of revision 2026-07-28 (`--legacy`: 2025-11-25) on each, and
//! reads its resident memory when they are idle; then each client calls a tool once. The difference
//! to one connection is divided. About 28,000 are possible to an address, so they are spread over
//! loopback addresses. Memory of the kernel is not included.
//!
//! The server is a process on core 0 with one shard. The client is this process on core 1: one I/O
//! thread, and tasks that each call an echo tool again and again, on that thread or on a tokio
//! runtime with one thread. The figures are the CPU time of the whole process per call. The bare
//! client writes all requests of a connection at once, reads the responses and parses none. All
//! alternate within one run; medians, with the lowest and highest round. In-process, client and
//! server share one thread, and each call is awaited before the next; `--in-process` measures only
//! that, and `--io-thread` only 16 calls in flight on each of 64 connections of the I/O thread, for
//! tools that count instructions.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use corelane::client::{ClientError, EraPreference, IoThread, LocalClient, block_on};
use corelane::model::{Implementation, Revision};
use corelane::{Catalog, CatalogError, Client, InProcessConnection, Options, Server, Tool};
use corelane_bench_support::arguments::number;
use corelane_bench_support::process::{self, CHILD};
use corelane_bench_support::requests::{MESSAGE_BYTES, META, message};
use corelane_bench_support::rounds::format_rounds;
use corelane_engine::process::raise_open_files_limit;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

/// Connections, and calls in flight on each.
const LOADS: [Load; 3] = [Load::new(64, 1), Load::new(1, 16), Load::new(64, 16)];
/// The first loopback address.
const LOOPBACK: u32 = 0x7f00_0001;
const CONNECTIONS_PER_ADDRESS: usize = 20_000;
/// Connections of an I/O thread, and of a shard of the server.
const CONNECTIONS_PER_THREAD: usize = 16_000;
/// Connections of the server.
const CONNECTIONS_MAX: u32 = 100_000;
const SERVER_CORE: usize = 0;
const CLIENT_CORE: usize = 1;
/// Calls before each measurement, as a fraction of those measured.
const WARM_UP_DIVISOR: usize = 10;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |flag, default| number(&arguments, flag, default);
    if arguments.first().is_some_and(|first| first == CHILD) {
        return serve(number("--shards", 1)?);
    }
    let (rounds, calls) = (number("--rounds", 7)?.max(1), number("--calls", 50_000)?.max(1));
    process::pin(&[CLIENT_CORE])?;
    let has = |flag| arguments.iter().any(|argument| argument == flag);
    if has("--in-process") {
        return measure_in_process(rounds, calls);
    }
    let connections = number("--connections", 0)?;
    let threads = connections.div_ceil(CONNECTIONS_PER_THREAD).max(1);
    let server = process::Server::start(&["--shards".to_owned(), threads.to_string()])?;
    if connections > 0 {
        return measure_memory(&server, connections, has("--legacy"));
    }
    let mut out = io::stdout().lock();
    if has("--io-thread") {
        let client = ClientLoad::new(&server, LOADS[2])?;
        let measure = |_| cpu_per_call(calls, |calls| client.run_on_io_thread(calls));
        let measured = (0..rounds).map(measure).collect::<io::Result<Vec<_>>>()?;
        return writeln!(out, "CPU µs a call (min–max): {}", format_rounds(&measured));
    }
    writeln!(out, "CPU µs a call (min–max)\n")?;
    writeln!(out, "| connections × calls in flight | tasks of tokio | of the I/O thread | bare |")?;
    writeln!(out, "| --- | --- | --- | --- |")?;
    for load in LOADS {
        let Load { connections, depth } = load;
        let client = ClientLoad::new(&server, load)?;
        let mut bare = BareLoad::new(&server, load)?;
        let mut measured = [const { Vec::new() }; 3];
        for _ in 0..rounds {
            measured[0].push(cpu_per_call(calls, |calls| client.run(calls))?);
            measured[1].push(cpu_per_call(calls, |calls| client.run_on_io_thread(calls))?);
            measured[2].push(cpu_per_call(calls, |calls| bare.run(calls))?);
        }
        let [of_tokio, of_io_thread, of_bare] = measured.map(|values| format_rounds(&values));
        writeln!(out, "| {connections} × {depth} | {of_tokio} | {of_io_thread} | {of_bare} |")?;
    }
    drop(out);
    measure_in_process(rounds, calls)
}

/// Prints the cost of a call whose server is in the same thread.
fn measure_in_process(rounds: usize, calls: usize) -> io::Result<()> {
    let server = Server::builder(catalog().map_err(io::Error::other)?);
    let client = LocalClient::new(server.connect().map_err(io::Error::other)?);
    let mut in_process = Vec::new();
    for _ in 0..rounds {
        in_process.push(cpu_per_call(calls, |calls| call_in_process(&client, calls))?);
    }
    writeln!(io::stdout(), "\nin-process, with the server: {}", format_rounds(&in_process))
}

/// Prints the memory of a connection.
fn measure_memory(server: &process::Server, connections: usize, is_legacy: bool) -> io::Result<()> {
    raise_open_files_limit();
    let mut out = io::stdout().lock();
    writeln!(out, "| era | connections | bytes each when idle | after a call |")?;
    writeln!(out, "| --- | --- | --- | --- |")?;
    let legacy = EraPreference::Legacy(Revision::V2025_11_25);
    let era = if is_legacy { legacy } else { EraPreference::Modern };
    let threads = connections.div_ceil(CONNECTIONS_PER_THREAD);
    let threads = (0..threads).map(|_| IoThread::start()).collect::<io::Result<Vec<_>>>()?;
    let connect = |index: usize| {
        let thread = &threads[index % threads.len()];
        let place = u32::try_from(index / CONNECTIONS_PER_ADDRESS).unwrap_or_default();
        let address = Ipv4Addr::from_bits(LOOPBACK + place);
        let target = format!("tcp://{address}:{}", server.address()?.port());
        let client = Client::builder(target.as_str()).io_thread(thread).era(era);
        client.connect_lazy().map_err(io::Error::other)
    };
    let ready = |clients: &[Client]| -> io::Result<()> {
        let all = clients.iter().map(Client::server);
        all.map(block_on).try_for_each(|ready| ready.map(drop)).map_err(io::Error::other)
    };
    let first = (0..threads.len()).map(connect).collect::<io::Result<Vec<_>>>()?;
    ready(&first)?;
    let before = resident_bytes()?;
    let clients = (threads.len()..connections).map(connect).collect::<io::Result<Vec<_>>>()?;
    ready(&clients)?;
    let idle = resident_bytes()?;
    for client in &clients {
        block_on(call(client.clone(), 1)).map_err(io::Error::other)?;
    }
    let called = resident_bytes()?;
    let each = |after: usize| after.saturating_sub(before) / clients.len();
    writeln!(out, "| {era:?} | {connections} | {} | {} |", each(idle), each(called))
}

/// Returns the resident memory of this process.
fn resident_bytes() -> io::Result<usize> {
    let sizes = std::fs::read_to_string("/proc/self/statm")?;
    let pages = sizes.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    Ok(pages.ok_or(io::ErrorKind::InvalidData)? * rustix::param::page_size())
}

fn call_in_process(client: &LocalClient<InProcessConnection>, calls: usize) -> io::Result<usize> {
    let arguments = json!({ "message": message(MESSAGE_BYTES) });
    block_on(async {
        for _ in 0..calls {
            client.call_tool("echo", &arguments).await.map_err(io::Error::other)?;
        }
        Ok(calls)
    })
}

#[derive(Clone, Copy)]
struct Load {
    connections: usize,
    depth: usize,
}

impl Load {
    const fn new(connections: usize, depth: usize) -> Self {
        Self { connections, depth }
    }
}

/// Clients on one I/O thread.
struct ClientLoad {
    runtime: Runtime,
    thread: IoThread,
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
        Ok(Self { runtime, thread, clients, depth: load.depth })
    }

    fn run(&self, calls: usize) -> io::Result<usize> {
        let tasks = self.clients.len() * self.depth;
        let turns = calls.div_ceil(tasks);
        self.runtime.block_on(async {
            let mut running = JoinSet::new();
            for client in self.clients.iter().cycle().take(tasks) {
                running.spawn(call(client.clone(), turns));
            }
            while let Some(ended) = running.join_next().await {
                ended.map_err(io::Error::other)?.map_err(io::Error::other)?;
            }
            Ok(turns * tasks)
        })
    }

    fn run_on_io_thread(&self, calls: usize) -> io::Result<usize> {
        let tasks = self.clients.len() * self.depth;
        let turns = calls.div_ceil(tasks);
        let mut running = Vec::new();
        for client in self.clients.iter().cycle().take(tasks) {
            let client = client.clone();
            running.push(self.thread.spawn(move || call(client, turns)).map_err(io::Error::other)?);
        }
        for task in running {
            block_on(task).map_err(io::Error::other)?.map_err(io::Error::other)?;
        }
        Ok(turns * tasks)
    }
}

async fn call(client: Client, times: usize) -> Result<(), ClientError> {
    let arguments = json!({ "message": message(MESSAGE_BYTES) });
    for _ in 0..times {
        client.call_tool("echo", &arguments).await?;
    }
    Ok(())
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
    let before = process::cpu_time();
    let calls = run(calls)?;
    let used = process::cpu_time().saturating_sub(before);
    let calls = u32::try_from(calls).unwrap_or(u32::MAX);
    Ok(used.as_secs_f64() * 1e6 / f64::from(calls))
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
fn serve(shards: usize) -> io::Result<()> {
    process::setup_child(&[SERVER_CORE])?;
    let mut options = Options::default();
    options.http.address = None;
    options.engine.shards = Some(u16::try_from(shards).map_err(io::Error::other)?);
    options.tcp.connections_max = CONNECTIONS_MAX;
    options.engine.ring_sizes.sockets_max = CONNECTIONS_MAX;
    options.tcp.idle_timeout = Duration::from_hours(1);
    let server = Server::builder(catalog().map_err(io::Error::other)?).options(options);
    let running = server.tcp("0.0.0.0:0").start().map_err(io::Error::other)?;
    let address = running.tcp_address().ok_or(io::ErrorKind::AddrNotAvailable)?;
    eprintln!("listening tcp {address}");
    running.join().map_err(io::Error::other).map(drop)
}
