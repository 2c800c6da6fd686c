//! Cost of TLS: calls, handshakes, memory, and latency beside a flood of handshakes.
//!
//! ```text
//! cargo bench --bench tls -- [--calls] [--handshakes] [--memory] [--flood] [--nginx]
//!     [--rounds 5] [--count 20000] [--connections 4000]
//! ```
//!
//! Without a flag that selects a part, all are measured but that with nginx, which must be
//! installed. The server is a process on core 0 with one shard, the client is this process on
//! core 1. Figures are CPU time of the server; variants alternate within a run; medians, with the
//! lowest and highest round.
//!
//! - Calls of an echo tool: all connections are written, then all are read, by turns.
//! - Handshakes: the floor is a buffered connection of rustls in memory, without a socket, of which
//!   only the server's part is measured. Ours has the accept, sends, receives and the close, too.
//!   So has a plain connection, which makes a call for each time that the handshake has the server
//!   send.
//! - Memory: resident bytes of an idle connection that has made a call.
//! - Flood: response times of calls on open connections, alone and while 32 other connections are
//!   always in a handshake: each sends the same `ClientHello` and is closed by the first answer, so
//!   that the flood costs the client little. The calls interrupt it at once (`SCHED_IDLE`).

mod authority;
mod calls;
mod flood;
mod handshakes;
mod stream;

use std::io::{self, Write};

use corelane_bench_support::arguments::number;
use corelane_bench_support::process::{self, Server};
use corelane_engine::process::raise_open_files_limit;

use self::authority::Authority;

const CORELANE: &str = env!("CARGO_BIN_EXE_corelane");
const NGINX: &str = "nginx";
const SERVER_CORE: usize = 0;
const CLIENT_CORE: usize = 1;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, program, rest @ ..] = arguments.as_slice()
        && first == process::CHILD
    {
        process::setup_child(&[SERVER_CORE])?;
        if let (NGINX, [address, rest @ ..]) = (&program[..], rest) {
            writeln!(io::stderr(), "listening https {address}")?;
            return Err(process::exec_program(program, rest));
        }
        return Err(process::exec_program(program, rest));
    }
    process::pin(&[CLIENT_CORE])?;
    raise_open_files_limit();
    let number = |flag, default| number(&arguments, flag, default);
    let rounds = number("--rounds", 5)?.max(1);
    let parts = ["--calls", "--handshakes", "--memory", "--flood", "--nginx"];
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let all = !parts.into_iter().any(has);
    let authority = Authority::new()?;
    let out = &mut io::stdout().lock();
    if all || has("--calls") {
        calls::measure(&authority, rounds, number("--count", 20_000)?, out)?;
    }
    if all || has("--handshakes") {
        handshakes::measure(&authority, rounds, number("--count", 20_000)? / 40, out)?;
    }
    if all || has("--memory") {
        calls::measure_memory(&authority, number("--connections", 4_000)?, out)?;
    }
    if all || has("--flood") {
        flood::measure(&authority, rounds, out)?;
    }
    if has("--nginx") {
        calls::measure_nginx(&authority, rounds, number("--count", 20_000)?, out)?;
    }
    Ok(())
}

/// Starts the server with one listener, and more arguments.
fn start(arguments: &[&str]) -> io::Result<Server> {
    let program = [CORELANE, "serve", "--shards", "1", "--cpus", "0", "--executor", "native"];
    let arguments: Vec<String> =
        program.iter().chain(arguments).map(|argument| (*argument).to_owned()).collect();
    Server::start(&arguments)
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
