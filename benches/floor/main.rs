//! Compares server processes with minimal servers (floors), alternating in one run.
//!
//! ```text
//! cargo bench --bench floor -- [--conns 64,1000] [--depth 1,16] [--eras legacy,modern]
//!     [--bytes 32] [--servers "ring echo,corelane"] [--with "--ring-receive-buffers 64"]
//!     [--rounds 5] [--seconds 1] [--stdio] [--http] [--ws]
//! ```
//!
//! Each server is a process on core 0 and is driven over loopback from core 1 by a closed loop of
//! real `tools/call` requests: lines over TCP; with `--stdio` over pipes, 64 in flight; with
//! `--http` POST requests over persistent connections with all header fields of the revision, in a
//! session if there are sessions; with `--ws` masked text frames. The ring floor, the reference of
//! the ratios, echoes the calls, over HTTP sends a fixed response of the size of a correct one, and
//! over WebSocket echoes the unmasked text. `corelane hop` has two shards on its core, and every
//! session is used from the other shard. Over WebSocket, tokio-tungstenite is another echo, with
//! its default and a fitting read buffer, and the targets of Corelane are printed below each table.
//!
//! The floors nearly saturate the load core, so CPU per request is the reliable figure (nanosecond
//! counters of the scheduler); machines drift, so only ratios within one run are meaningful.

mod cross_shard;
mod echo;
mod fixed_response;
mod floor_kind;
mod frame_echo;
mod handshake;
mod load;
mod request_log;
mod run_config;
mod servers;
mod stdio;
mod table;
mod targets;
mod transport;
mod tungstenite;

use std::io;
use std::time::Duration;

use corelane_bench_support::process;
use corelane_bench_support::requests::Era;

use self::load::Load;
use self::run_config::RunConfig;
use self::servers::ServerUnderTest;
use self::table::Row;
use self::transport::Transport;

const LOAD_CORE: usize = 1;
const WARM_UP: Duration = Duration::from_millis(200);

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == process::CHILD) {
        return servers::run_child(&arguments[1..]);
    }
    let config = RunConfig::read(arguments.into_iter())?;
    process::pin(&[LOAD_CORE])?;
    let mut servers = servers::servers_under_test(config.transport, &config.variants);
    if let Some(wanted) = &config.servers {
        servers.retain(|server| {
            wanted.contains(&server.name) || config.variants.contains(&server.name)
        });
    }
    let load = Load {
        connections: 1,
        depth: 1,
        era: Era::Modern,
        message_bytes: config.message_bytes,
        protocol: false,
        transport: config.transport,
        is_cross_shard: false,
        warm_up: WARM_UP,
        span: Duration::from_secs_f64(config.seconds),
    };
    servers.retain(|server| {
        let error = server.start_error(load);
        if let Some(error) = &error {
            eprintln!("skipped: {}: {error}", server.name);
        }
        error.is_none()
    });
    for &connections in &config.connections {
        for &depth in &config.depths {
            for &era in &config.eras {
                compare(&servers, Load { connections, depth, era, ..load }, &config)?;
            }
        }
    }
    Ok(())
}

/// Measures one condition: every server once per round, in turn, then prints the table.
fn compare(servers: &[ServerUnderTest], load: Load, config: &RunConfig) -> io::Result<()> {
    let row = |server: &ServerUnderTest| Row { name: server.name.clone(), outcomes: Vec::new() };
    let servers = servers.iter().filter(|server| server.supports(load));
    let mut rows: Vec<Row> = servers.clone().map(row).collect();
    for _ in 0..config.rounds {
        for (server, row) in servers.clone().zip(&mut rows) {
            row.outcomes.push(server.measure(load)?);
        }
    }
    let (depth, era, bytes) = (load.depth, load.era.name(), load.message_bytes);
    let transport = match load.transport {
        Transport::Stdio => Transport::Stdio.name().to_owned(),
        transport => format!("{}, {} connections", transport.name(), load.connections),
    };
    let title = format!("{transport}, {depth} in flight on each, {era} calls of {bytes} bytes");
    table::print(&title, &rows)?;
    targets::print(load, &rows)
}
