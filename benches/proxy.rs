//! CPU time of a call that a tool passes on to another server over TCP.
//!
//! ```text
//! cargo bench --bench proxy -- [--rounds 7] [--calls 50000]
//! ```
//!
//! The figure is the CPU time of the process of the proxying server, on core 1 with one shard, per
//! call. The server behind it and the client are on core 0; the client keeps a call in flight on
//! each of 1 or 16 connections. The tool `shard` uses a client on the ring of its shard, `thread`
//! one on an I/O thread, and `none` answers itself. They alternate within one run; medians, with
//! the lowest and highest round. The ratio of each round is that of `shard` to `thread`.

use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use corelane::client::ClientPool;
use corelane::model::Implementation;
use corelane::{Catalog, CatalogError, Client, HandlerError, Options, Server, Tool};
use corelane_bench_support::arguments::number;
use corelane_bench_support::process::{self, CHILD};
use corelane_bench_support::requests::{MESSAGE_BYTES, META, message};
use corelane_bench_support::rounds::format_rounds;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const TOOLS: [&str; 3] = ["shard", "thread", "none"];
const CONNECTIONS: [usize; 2] = [1, 16];
const PROXY_CORE: usize = 1;
const OTHER_CORE: usize = 0;
/// Calls before each measurement, as a fraction of those measured.
const WARM_UP_DIVISOR: usize = 10;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [CHILD] => return serve_echo(),
        [CHILD, target] => return serve_proxy(target),
        _ => {}
    }
    let number = |flag, default| number(&arguments, flag, default);
    let (rounds, calls) = (number("--rounds", 7)?.max(1), number("--calls", 50_000)?.max(1));
    process::pin(&[OTHER_CORE])?;
    let upstream = process::Server::start(&[])?;
    let proxy = process::Server::start(&[format!("tcp://{}", upstream.address()?)])?;
    let mut out = io::stdout().lock();
    writeln!(out, "| connections | on the shard | on a thread | not passed on | shard / thread |")?;
    writeln!(out, "| --- | --- | --- | --- | --- |")?;
    for connections in CONNECTIONS {
        let mut load = Load::new(&proxy, connections)?;
        let mut measured = TOOLS.map(|_| Vec::with_capacity(rounds));
        for _ in 0..rounds {
            for (tool, values) in TOOLS.iter().zip(&mut measured) {
                values.push(load.cpu_per_call(tool, calls)?);
            }
        }
        let ratios = measured[0].iter().zip(&measured[1]).map(|(shard, thread)| shard / thread);
        let ratio = format_rounds(&ratios.collect::<Vec<_>>());
        let [shard, thread, none] = measured.map(|values| format_rounds(&values));
        writeln!(out, "| {connections} | {shard} | {thread} | {none} | {ratio} |")?;
    }
    Ok(())
}

/// Connections to the proxying server.
struct Load<'a> {
    proxy: &'a process::Server,
    connections: Vec<BufReader<TcpStream>>,
}

impl<'a> Load<'a> {
    fn new(proxy: &'a process::Server, connections: usize) -> io::Result<Self> {
        let connect = |_| {
            let stream = TcpStream::connect(proxy.address()?)?;
            stream.set_nodelay(true)?;
            Ok(BufReader::new(stream))
        };
        let connections = (0..connections).map(connect).collect::<io::Result<_>>()?;
        Ok(Self { proxy, connections })
    }

    /// Returns the CPU time of the proxying server per call, in microseconds.
    fn cpu_per_call(&mut self, tool: &str, calls: usize) -> io::Result<f64> {
        let message = message(MESSAGE_BYTES);
        let request = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\
             \"name\":\"{tool}\",\"arguments\":{{\"message\":\"{message}\"}}{META}}}}}\n"
        );
        let turns = calls.div_ceil(self.connections.len());
        self.run(&request, turns / WARM_UP_DIVISOR)?;
        let before = self.proxy.cpu_time()?;
        self.run(&request, turns)?;
        let used = self.proxy.cpu_time()?.saturating_sub(before);
        let calls = u32::try_from(turns * self.connections.len()).unwrap_or(u32::MAX);
        Ok(used.as_secs_f64() * 1e6 / f64::from(calls))
    }

    /// Sends a call on every connection, then reads every response, `turns` times.
    fn run(&mut self, request: &str, turns: usize) -> io::Result<()> {
        let expected = message(MESSAGE_BYTES);
        let mut response = String::new();
        for turn in 0..=turns {
            for connection in &mut self.connections {
                connection.get_mut().write_all(request.as_bytes())?;
            }
            for connection in &mut self.connections {
                response.clear();
                connection.read_line(&mut response)?;
                if turn == turns && !response.contains(&expected) {
                    return Err(io::Error::other(format!("wrong response: {response}")));
                }
            }
        }
        Ok(())
    }
}

#[derive(Deserialize, JsonSchema, Serialize)]
struct Echo {
    message: String,
}

/// The process of the server that is called last.
fn serve_echo() -> io::Result<()> {
    process::setup_child(&[OTHER_CORE])?;
    let echo = Tool::new("echo").inline(|Echo { message }, _| message);
    let info = Implementation::new("echo", "1.0.0");
    let catalog = Catalog::builder(info).tool(echo).build().map_err(io::Error::other)?;
    serve(Server::builder(catalog))
}

/// The process of the server whose tools call the server at `target`.
fn serve_proxy(target: &str) -> io::Result<()> {
    process::setup_child(&[PROXY_CORE])?;
    let on_shards = Arc::new(ClientPool::on_shards());
    let client = Client::builder(target).connect_blocking().map_err(io::Error::other)?;
    let catalog = proxy_catalog(target, &on_shards, client).map_err(io::Error::other)?;
    serve(Server::builder(catalog).client_pool(&*on_shards))
}

fn proxy_catalog(
    target: &str,
    on_shards: &Arc<ClientPool>,
    on_thread: Client,
) -> Result<Catalog, CatalogError> {
    let (pool, target) = (Arc::clone(on_shards), target.to_owned());
    let shard = move |arguments: Echo, _| {
        let call = pool.call_tool(target.as_str(), "echo", &arguments);
        async move { Ok::<_, HandlerError>(call.await?.text()) }
    };
    let thread = move |arguments: Echo, _| {
        let call = on_thread.call_tool("echo", &arguments);
        async move { Ok::<_, HandlerError>(call.await?.text()) }
    };
    Catalog::builder(Implementation::new("proxy", "1.0.0"))
        .tool(Tool::new("shard").local(shard))
        .tool(Tool::new("thread").local(thread))
        .tool(Tool::new("none").local(|Echo { message }, _| async move { message }))
        .build()
}

/// Prints the address and serves until the process is killed.
fn serve(server: Server) -> io::Result<()> {
    let mut options = Options::default();
    options.engine.shards = Some(1);
    options.tcp.idle_timeout = Duration::from_hours(1);
    let running = server.options(options).tcp("127.0.0.1:0").start().map_err(io::Error::other)?;
    let address = running.tcp_address().ok_or(io::ErrorKind::AddrNotAvailable)?;
    eprintln!("listening tcp {address}");
    running.join().map_err(io::Error::other).map(drop)
}
