//! What declared tools cost: `cargo bench --bench declared`, `-- --rounds N`.
//!
//! Each comparison alternates the two sides in one run and prints the ratio of their medians:
//!
//! - `command`: a call of a tool that runs `true` beside `posix_spawn` and `wait` of `true`.
//! - `sql`: CPU time of the server for a call of a keyed statement over TCP, 16 in flight.
//! - `http`: CPU time of the server for a call that sends a request, beside `reqwest` alone, which
//!   gets the same response from the same server of the bench.
//! - `start`: time until a server of 5,000 declared tools listens, and of the first page of
//!   `tools/list` beside that of 5 tools.

#![expect(clippy::print_stdout, reason = "results of the bench")]

use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use corelane_bench_support::arguments;
use corelane_bench_support::process::{self, Server};
use corelane_bench_support::requests::META;
use corelane_engine::clock::Clock;
use rusqlite::Connection;

/// The program that is measured.
const CORELANE: &str = env!("CARGO_BIN_EXE_corelane");

/// Calls in flight over one connection.
const DEPTH: usize = 16;

/// Calls of one round.
const CALLS: usize = 2_000;

/// Commands of one round: each takes about a millisecond.
const COMMANDS: usize = 200;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(index) = arguments.iter().position(|word| word == process::CHILD) {
        process::setup_child(&[0])?;
        return Err(process::exec_program(CORELANE, &arguments[index + 1..]).into());
    }
    let rounds = arguments::number(&arguments, "--rounds", 5)?;
    let folder = tempfile::tempdir()?;
    let api = start_api()?;
    let config = write_config(folder.path(), api)?;
    let server = start(&config)?;
    process::pin(&[1])?;
    let mut client = Client::connect(server.address()?)?;
    measure_commands(&mut client, rounds)?;
    measure_sql(&server, &mut client, rounds)?;
    measure_http(&server, &mut client, api, rounds)?;
    drop((client, server));
    measure_start(folder.path())
}

/// Starts a server of the declarations in `config`.
fn start(config: &Path) -> io::Result<Server> {
    let config = config.to_string_lossy().into_owned();
    let words = ["serve", "--http", "off", "--tcp", "127.0.0.1:0", "--shards", "1", "--config"];
    let arguments: Vec<String> = words.into_iter().map(str::to_owned).chain([config]).collect();
    Server::start(&arguments)
}

fn write_config(folder: &Path, api: SocketAddr) -> Result<std::path::PathBuf> {
    let database = Connection::open(folder.join("shop.db"))?;
    database.execute_batch(
        "create table items (id integer primary key, name text not null, price real not null);
         insert into items select value, 'item ' || value, value * 0.5
         from (with recursive n(value) as
                 (values(1) union all select value + 1 from n where value < 10000)
               select value from n);",
    )?;
    let text = format!(
        r#"
[[tool]]
name = "true"
command = ["true"]

[[tool]]
name = "item"
sql = {{ database = "sqlite:shop.db", query = "select id, name, price from items where id = :id" }}
arguments.id = {{ type = "integer" }}

[[tool]]
name = "fetch"
http = {{ url = "http://{api}/items/{{id}}", private_addresses = ["127.0.0.1"] }}
arguments.id = {{ type = "integer" }}
"#
    );
    let path = folder.join("corelane.toml");
    std::fs::write(&path, text)?;
    Ok(path)
}

/// A connection that sends calls and counts their responses.
struct Client {
    stream: TcpStream,
    received: BufReader<TcpStream>,
    id: u64,
}

impl Client {
    fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        let received = BufReader::new(stream.try_clone()?);
        Ok(Self { stream, received, id: 0 })
    }

    fn send(&mut self, method: &str, params: &str) -> io::Result<()> {
        self.id += 1;
        let id = self.id;
        let head = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":"#);
        let line = format!("{head}{{{params}{META}}}}}\n");
        self.stream.write_all(line.as_bytes())
    }

    fn receive(&mut self, expected: &str) -> io::Result<()> {
        let mut line = String::new();
        self.received.read_line(&mut line)?;
        if line.contains(expected) && !line.contains("\"isError\":true") {
            return Ok(());
        }
        Err(io::Error::other(format!("unexpected response: {line}")))
    }

    /// Makes `count` calls with `depth` of them in flight.
    fn call(&mut self, params: &str, expected: &str, count: usize, depth: usize) -> io::Result<()> {
        for _ in 0..depth.min(count) {
            self.send("tools/call", params)?;
        }
        for index in 0..count {
            self.receive(expected)?;
            if index + depth < count {
                self.send("tools/call", params)?;
            }
        }
        Ok(())
    }
}

fn measure_commands(client: &mut Client, rounds: usize) -> Result<()> {
    let clock = Clock::start();
    let (mut calls, mut bare) = (Vec::new(), Vec::new());
    let params = r#""name":"true","arguments":{}"#;
    client.call(params, "result", COMMANDS, 1)?;
    for _ in 0..rounds {
        let start = clock.now();
        client.call(params, "result", COMMANDS, 1)?;
        calls.push(micros(clock.now().since(start), COMMANDS));
        let start = clock.now();
        for _ in 0..COMMANDS {
            Command::new("/usr/bin/true").env_clear().status()?;
        }
        bare.push(micros(clock.now().since(start), COMMANDS));
    }
    report("command, µs a call", &mut calls, "posix_spawn + wait", &mut bare);
    Ok(())
}

fn measure_sql(server: &Server, client: &mut Client, rounds: usize) -> Result<()> {
    let params = r#""name":"item","arguments":{"id":4711}"#;
    client.call(params, "item 4711", CALLS, DEPTH)?;
    let mut cpu = Vec::new();
    for _ in 0..rounds {
        let before = server.cpu_time()?;
        client.call(params, "item 4711", CALLS, DEPTH)?;
        cpu.push(micros(server.cpu_time()?.saturating_sub(before), CALLS));
    }
    println!("sql, µs of CPU of the server a call: {:.1}", median(&mut cpu));
    Ok(())
}

fn measure_http(
    server: &Server,
    client: &mut Client,
    api: SocketAddr,
    rounds: usize,
) -> Result<()> {
    let params = r#""name":"fetch","arguments":{"id":7}"#;
    client.call(params, "apple", CALLS, DEPTH)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let http = reqwest::Client::new();
    let url = format!("http://{api}/items/7");
    let (mut calls, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let before = server.cpu_time()?;
        client.call(params, "apple", CALLS, DEPTH)?;
        calls.push(micros(server.cpu_time()?.saturating_sub(before), CALLS));
        let before = process::cpu_time();
        let api_before = api_time();
        runtime.block_on(fetch_all(&http, &url))?;
        let spent = process::cpu_time().saturating_sub(before);
        bare.push(micros(spent.saturating_sub(api_time().saturating_sub(api_before)), CALLS));
    }
    report("http, µs of CPU a call", &mut calls, "reqwest alone", &mut bare);
    Ok(())
}

async fn fetch_all(http: &reqwest::Client, url: &str) -> Result<()> {
    let fetch = |count: usize| async move {
        for _ in 0..count {
            let body = http.get(url).send().await?.bytes().await?;
            let _: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
        }
        Ok::<(), reqwest::Error>(())
    };
    let all: Vec<_> = (0..DEPTH).map(|_| fetch(CALLS / DEPTH)).collect();
    futures_util::future::try_join_all(all).await?;
    Ok(())
}

/// CPU time of the threads of the server of the bench, in nanoseconds.
static API_TIME: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

fn api_time() -> Duration {
    Duration::from_nanos(API_TIME.load(std::sync::atomic::Ordering::Relaxed))
}

/// Starts an HTTP server of the bench: each request gets the same JSON.
fn start_api() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve_api(stream));
        }
    });
    Ok(address)
}

fn serve_api(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let body = r#"{"id":7,"name":"apple","price":0.5}"#;
    let response = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut received = Vec::new();
    let mut chunk = [0; 4096];
    let mut known = thread_time();
    loop {
        let count = stream.read(&mut chunk)?;
        if count == 0 {
            return Ok(());
        }
        received.extend_from_slice(&chunk[..count]);
        while let Some(end) = memchr::memmem::find(&received, b"\r\n\r\n") {
            received.drain(..end + 4);
            stream.write_all(response.as_bytes())?;
        }
        let now = thread_time();
        let spent = u64::try_from(now.saturating_sub(known).as_nanos()).unwrap_or(0);
        API_TIME.fetch_add(spent, std::sync::atomic::Ordering::Relaxed);
        known = now;
    }
}

fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let seconds = Duration::from_secs(time.tv_sec.unsigned_abs());
    seconds + Duration::from_nanos(time.tv_nsec.unsigned_abs())
}

fn measure_start(folder: &Path) -> Result<()> {
    let clock = Clock::start();
    let mut pages = Vec::new();
    for count in [5, 5_000] {
        let mut text = String::new();
        for index in 0..count {
            writeln!(
                text,
                "[[tool]]\nname = \"tool_{index}\"\ndescription = \"Tool {index}.\"\ncommand = \
                 [\"true\", \"{{path}}\"]\narguments.path = {{ type = \"string\" }}\n"
            )?;
        }
        let path = folder.join(format!("{count}.toml"));
        std::fs::write(&path, text)?;
        let started = clock.now();
        let server = start(&path)?;
        println!(
            "{count} tools: listening after {:.0} ms",
            clock.now().since(started).as_secs_f64() * 1e3
        );
        let mut client = Client::connect(server.address()?)?;
        let mut times = Vec::new();
        for _ in 0..200 {
            let started = clock.now();
            client.send("tools/list", "\"cursor\":null")?;
            client.receive("tool_4")?;
            times.push(clock.now().since(started).as_secs_f64() * 1e6);
        }
        pages.push(median(&mut times));
        println!("{count} tools: first page of tools/list {:.0} µs", median(&mut times));
    }
    println!("ratio of the pages: {:.2} (that of 5,000 has a whole page)", pages[1] / pages[0]);
    Ok(())
}

fn micros(time: Duration, count: usize) -> f64 {
    time.as_secs_f64() * 1e6 / f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn report(what: &str, values: &mut [f64], other: &str, others: &mut [f64]) {
    let (value, beside) = (median(values), median(others));
    println!("{what}: {value:.1}; {other}: {beside:.1}; ratio {:.2}", value / beside);
}
