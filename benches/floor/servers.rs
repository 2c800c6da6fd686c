//! The servers under test and how their processes are started.

use std::io;

use corelane_bench_support::process::{self, Server};
use corelane_bench_support::requests::Era;

use crate::echo;
use crate::floor_kind::FloorKind;
use crate::load::{self, Load, Outcome};
use crate::stdio;
use crate::transport::Transport;
use crate::tungstenite;

/// Name of the server that the targets apply to.
pub(crate) const CORELANE_NAME: &str = "corelane";
/// Prefix of the names of the servers to beat over WebSocket.
pub(crate) const TUNGSTENITE_NAME: &str = "tokio-tungstenite";
const SERVER_CORE: usize = 0;
/// Connection limit, above that of any load.
const CONNECTIONS: usize = 20_000;
const ANY_PORT: &str = "127.0.0.1:0";

/// What a server responds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    /// A floor that echoes.
    Echo,
    /// A floor with a fixed response that depends on the load.
    Fixed,
    /// An MCP server.
    Server,
    /// An MCP server with two shards; every session is used from the other shard.
    CrossShard,
}

/// A server under test.
#[derive(Clone, Debug)]
pub(crate) struct ServerUnderTest {
    pub(crate) name: String,
    arguments: Vec<String>,
    kind: Kind,
    stdio: bool,
}

impl ServerUnderTest {
    fn new(kind: Kind, name: &str, line: &str) -> Self {
        let arguments: Vec<_> = line.split(' ').map(str::to_owned).collect();
        Self { name: name.to_owned(), arguments, kind, stdio: false }
    }

    fn stdio(mut self) -> Self {
        self.stdio = true;
        self
    }

    /// Whether it applies to this load: without sessions there is no cross-shard use.
    pub(crate) fn supports(&self, load: Load) -> bool {
        self.kind != Kind::CrossShard || load.era == Era::Legacy
    }

    /// Returns its command line for this load.
    fn arguments(&self, load: Load) -> Vec<String> {
        let mut arguments = self.arguments.clone();
        if self.kind == Kind::Fixed {
            arguments.extend([load.era.name().to_owned(), load.message_bytes.to_string()]);
        }
        arguments
    }

    /// Returns the error if it cannot start here: executor not built in, ring not supported.
    pub(crate) fn start_error(&self, load: Load) -> Option<io::Error> {
        if self.stdio { None } else { Server::start(&self.arguments(load)).err() }
    }

    /// Starts the server, runs the load and stops it.
    pub(crate) fn measure(&self, load: Load) -> io::Result<Outcome> {
        let (protocol, is_cross_shard) = match self.kind {
            Kind::Echo | Kind::Fixed => (false, false),
            Kind::Server => (true, false),
            Kind::CrossShard => (true, true),
        };
        let load = Load { protocol, is_cross_shard, ..load };
        let outcome = if self.stdio {
            stdio::run(&self.arguments, load)
        } else {
            Server::start(&self.arguments(load)).and_then(|server| load::run(&server, load))
        };
        outcome.map_err(|error| io::Error::other(format!("{}: {error}", self.name)))
    }
}

/// Returns all servers over this transport: the reference of the ratios first, `variants` of
/// `corelane` last.
pub(crate) fn servers_under_test(
    transport: Transport,
    variants: &[String],
) -> Vec<ServerUnderTest> {
    let (listeners, kind_args, floor) = match transport {
        Transport::Stdio => return stdio_servers(),
        Transport::Tcp => {
            let listeners =
                format!("--tcp {ANY_PORT} --http off --tcp-connections-max {CONNECTIONS}");
            (listeners, "echo", Kind::Echo)
        }
        Transport::Http => (format!("--http {ANY_PORT} --tcp off"), "fixed", Kind::Fixed),
        Transport::WebSocket => {
            let flags = format!("--websocket-connections-max {CONNECTIONS}");
            (format!("--http {ANY_PORT} --tcp off {flags}"), "frames", Kind::Echo)
        }
    };
    let bare = |engine: &str| {
        ServerUnderTest::new(
            floor,
            &format!("{engine} {kind_args}"),
            &format!("floor {engine} {kind_args}"),
        )
    };
    let mut servers = vec![bare("ring"), bare("poll"), bare("tokio")];
    if transport == Transport::WebSocket {
        servers.push(ServerUnderTest::new(Kind::Echo, TUNGSTENITE_NAME, "tungstenite"));
        let (name, line) = (format!("{TUNGSTENITE_NAME} 4 KiB"), "tungstenite 4096");
        servers.push(ServerUnderTest::new(Kind::Echo, &name, line));
    }
    let corelane = |kind: Kind, name: &str, flags: &str| {
        ServerUnderTest::new(kind, name, &format!("exec {CORELANE} serve {listeners} {flags}"))
    };
    for (name, executor) in [
        (CORELANE_NAME, "--executor native --ring uring"),
        ("corelane glommio", "--executor glommio --ring uring"),
        ("corelane poll", "--executor native --ring poll"),
    ] {
        let flags = format!("--shards 1 --cpus {SERVER_CORE} {executor}");
        servers.push(corelane(Kind::Server, name, &flags));
    }
    if transport == Transport::Http {
        // Without --cpus, which would need two: the process has one.
        let two = "--shards 2 --executor native --ring uring";
        servers.push(corelane(Kind::CrossShard, "corelane hop", two));
    }
    servers.extend(variants.iter().map(|flags| {
        let shards = if flags.contains("--shards") { "" } else { "--shards 1 " };
        corelane(Kind::Server, flags, &format!("{shards}{flags}"))
    }));
    servers
}

/// Returns the servers over stdio.
fn stdio_servers() -> Vec<ServerUnderTest> {
    vec![
        ServerUnderTest::new(Kind::Echo, "cat", "exec cat").stdio(),
        ServerUnderTest::new(Kind::Server, CORELANE_NAME, &format!("exec {CORELANE} stdio"))
            .stdio(),
    ]
}

/// Runs the child process: `floor ENGINE KIND` is a floor of this [`FloorKind`], `tungstenite
/// BYTES` an echo on tokio-tungstenite, and `exec PROGRAM …` executes another program.
pub(crate) fn run_child(arguments: &[String]) -> io::Result<()> {
    process::setup_child(&[SERVER_CORE])?;
    match arguments {
        [word, name, kind @ ..] if word == "floor" => echo::serve(name, FloorKind::read(kind)?),
        [word] if word == "tungstenite" => tungstenite::serve(None),
        [word, bytes] if word == "tungstenite" => {
            tungstenite::serve(Some(bytes.parse().map_err(io::Error::other)?))
        }
        [word, program, rest @ ..] if word == "exec" => Err(process::exec_program(program, rest)),
        _ => Err(io::Error::other("expected `floor`, `tungstenite` or `exec`")),
    }
}

const CORELANE: &str = env!("CARGO_BIN_EXE_corelane");
