//! CPU time of a tool call of the clients of Corelane and rmcp, in rounds that alternate.
//!
//! Run `cargo bench --manifest-path benches/rmcp/Cargo.toml --bench client_cpu_per_call`. Linux
//! only: reads /proc.
//!
//! One process on core 0 serves an echo tool over TCP, with Corelane. The clients are in this
//! process, on core 1, each with its own connections, and their calls are tasks of the same tokio
//! runtime with one thread. Corelane has an I/O thread besides it; `on I/O thread` are tasks of
//! that thread.

#![expect(clippy::disallowed_methods, reason = "a round of the measurement ends by the clock")]

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use corelane::client::{IoThread, block_on};
use corelane::{Catalog, Client, Options, Server, Tool, model};
use corelane_rmcp_comparison::process::cpu_ticks;
use rmcp::ServiceExt;
use rmcp::model::CallToolRequestParams;
use rmcp::service::{RoleClient, RunningService};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Connections, and calls in flight on each.
const LOADS: [(usize, usize); 2] = [(64, 1), (16, 16)];
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(2);
const TICK_MICROSECONDS: u64 = 10_000;
const CHILD: &str = "--child";
const MESSAGE: &str = "abcdefghijklmnopqrstuvwxyzabcdef";

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;
type RmcpClient = RunningService<RoleClient, ()>;

#[derive(Deserialize, JsonSchema)]
struct Echo {
    message: String,
}

/// Calls per second, and microseconds of CPU time for each.
struct Cost {
    rate: f64,
    microseconds: f64,
}

/// The server, ended with this value.
struct ServerProcess(Child);

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Both fail only if the process has already ended.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn main() -> Outcome<()> {
    if std::env::args().any(|argument| argument == CHILD) {
        return serve();
    }
    let mut command = Command::new("taskset");
    command.args(["-c", "0"]).arg(std::env::current_exe()?).arg(CHILD).stderr(Stdio::piped());
    let mut server = ServerProcess(command.spawn()?);
    let mut address = String::new();
    let output = server.0.stderr.take().ok_or("no output of the server")?;
    BufReader::new(output).read_line(&mut address)?;
    let pid = std::process::id().to_string();
    Command::new("taskset").args(["-acp", "1", &pid]).stdout(Stdio::null()).status()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for (connections, depth) in LOADS {
        println!("{connections} connections, {depth} in flight on each");
        compare(&runtime, address.trim(), connections, depth)?;
    }
    Ok(())
}

fn compare(
    runtime: &tokio::runtime::Runtime,
    address: &str,
    connections: usize,
    depth: usize,
) -> Outcome<()> {
    let thread = IoThread::start()?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..connections {
        let target = format!("tcp://{address}");
        ours.push(Client::builder(target.as_str()).io_thread(&thread).connect_blocking()?);
        theirs.push(runtime.block_on(connect_rmcp(address))?);
    }
    println!("round      corelane   on I/O thread        rmcp  ratio");
    for round in 0..ROUNDS {
        let corelane = measure(|end| {
            let mut calls = JoinSet::new();
            for client in ours.iter().cycle().take(connections * depth) {
                calls.spawn_on(call(client.clone(), end), runtime.handle());
            }
            runtime.block_on(sum(calls))
        })?;
        let on_io_thread = measure(|end| {
            let start = |client: &Client| {
                let client = client.clone();
                thread.spawn(move || call(client, end))
            };
            let tasks = ours.iter().cycle().take(connections * depth).map(start);
            let tasks = tasks.collect::<Result<Vec<_>, _>>()?;
            tasks.into_iter().try_fold(0, |sum, task| Ok(sum + block_on(task)??))
        })?;
        let rmcp = measure(|end| {
            let mut calls = JoinSet::new();
            for client in theirs.iter().cycle().take(connections * depth) {
                calls.spawn_on(call_rmcp(client.peer().clone(), end), runtime.handle());
            }
            runtime.block_on(sum(calls))
        })?;
        let [one, two, three] = [&corelane, &on_io_thread, &rmcp]
            .map(|cost| format!("{:>6.2} us {:>6.0}/s", cost.microseconds, cost.rate));
        let ratio = rmcp.microseconds / corelane.microseconds;
        println!("{round:>5} {one} {two} {three} {ratio:>6.2}");
    }
    Ok(())
}

async fn connect_rmcp(address: &str) -> Outcome<RmcpClient> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(().serve(stream).await?)
}

/// Measures a round, after a short one that is not counted.
fn measure(run: impl Fn(Instant) -> Outcome<u64>) -> Outcome<Cost> {
    run(Instant::now() + ROUND / 10)?;
    let (start, before) = (Instant::now(), cpu_ticks(std::process::id())?);
    let calls = run(start + ROUND)? as f64;
    let used = (cpu_ticks(std::process::id())? - before) * TICK_MICROSECONDS;
    Ok(Cost { rate: calls / start.elapsed().as_secs_f64(), microseconds: used as f64 / calls })
}

async fn sum(mut calls: JoinSet<Outcome<u64>>) -> Outcome<u64> {
    let mut sum = 0;
    while let Some(ended) = calls.join_next().await {
        sum += ended??;
    }
    Ok(sum)
}

async fn call(client: Client, end: Instant) -> Outcome<u64> {
    let arguments = json!({ "message": MESSAGE });
    let mut calls = 0;
    while Instant::now() < end {
        let result = client.call_tool("echo", &arguments).await?;
        assert_eq!(result.text(), MESSAGE);
        calls += 1;
    }
    Ok(calls)
}

async fn call_rmcp(client: rmcp::Peer<RoleClient>, end: Instant) -> Outcome<u64> {
    let mut calls = 0;
    while Instant::now() < end {
        let mut arguments = serde_json::Map::new();
        arguments.insert("message".to_owned(), MESSAGE.into());
        let request = CallToolRequestParams::new("echo").with_arguments(arguments);
        let result = client.call_tool(request).await?;
        let text = result.content.first().and_then(|block| block.as_text());
        assert_eq!(text.map(|text| text.text.as_str()), Some(MESSAGE));
        calls += 1;
    }
    Ok(calls)
}

/// The server process: prints its address and serves until it is killed.
fn serve() -> Outcome<()> {
    let echo = Tool::new("echo").inline(|Echo { message }, _| message);
    let catalog = Catalog::builder(model::Implementation::new("echo", "1.0.0")).tool(echo);
    let mut options = Options::default();
    options.http.address = None;
    options.engine.shards = Some(1);
    let server = Server::builder(catalog.build()?).options(options).tcp("127.0.0.1:0").start()?;
    eprintln!("{}", server.tcp_address().ok_or("no address")?);
    server.join()?;
    Ok(())
}
