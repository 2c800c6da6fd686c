//! Who is measured, and how its process is started.

use std::io;

use crate::echo;
use crate::load::{self, Load, Outcome};
use crate::over::Over;
use crate::process::{self, Server};
use crate::requests::Era;
use crate::stdio;
use crate::tungstenite;
use crate::words::Words;

/// The server that has to reach the targets.
pub(crate) const CORELANE_NAME: &str = "corelane";
/// What it has to be ahead of over WebSocket: the names of these servers begin with it.
pub(crate) const TUNGSTENITE_NAME: &str = "tokio-tungstenite";
const SERVER_CORE: usize = 0;
/// More than any load opens.
const CONNECTIONS: usize = 20_000;
const ANY_PORT: &str = "127.0.0.1:0";

/// What a contender does with what it hears.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    /// A floor that says it back.
    Echo,
    /// A floor that has a fixed response, which the load tells it.
    Fixed,
    /// It speaks MCP.
    Server,
    /// It speaks MCP on two shards, and no session is used where it lives.
    Hop,
}

/// A server that can be measured.
#[derive(Clone, Debug)]
pub(crate) struct Contender {
    pub(crate) name: String,
    arguments: Vec<String>,
    kind: Kind,
    stdio: bool,
}

impl Contender {
    fn new(kind: Kind, name: &str, line: &str) -> Self {
        let arguments: Vec<_> = line.split(' ').map(str::to_owned).collect();
        Self { name: name.to_owned(), arguments, kind, stdio: false }
    }

    fn stdio(mut self) -> Self {
        self.stdio = true;
        self
    }

    /// Whether it has a place in a comparison under this load: where there are no sessions, none is
    /// used from elsewhere.
    pub(crate) fn takes_part(&self, load: Load) -> bool {
        self.kind != Kind::Hop || load.era == Era::Legacy
    }

    /// The line that starts it for this load.
    fn arguments(&self, load: Load) -> Vec<String> {
        let mut arguments = self.arguments.clone();
        if self.kind == Kind::Fixed {
            arguments.extend([load.era.name().to_owned(), load.message_bytes.to_string()]);
        }
        arguments
    }

    /// Why it cannot run here, where it cannot: a program without this host, a kernel without this
    /// ring.
    pub(crate) fn obstacle(&self, load: Load) -> Option<io::Error> {
        if self.stdio { None } else { Server::start(&self.arguments(load)).err() }
    }

    /// Starts it, drives it, ends it.
    pub(crate) fn measure(&self, load: Load) -> io::Result<Outcome> {
        let (protocol, hops) = match self.kind {
            Kind::Echo | Kind::Fixed => (false, false),
            Kind::Server => (true, false),
            Kind::Hop => (true, true),
        };
        let load = Load { protocol, hops, ..load };
        let outcome = if self.stdio {
            stdio::run(&self.arguments, load)
        } else {
            Server::start(&self.arguments(load)).and_then(|server| load::run(&server, load))
        };
        outcome.map_err(|error| io::Error::other(format!("{}: {error}", self.name)))
    }
}

/// Everybody over this, the floor of all ratios first, `variants` of `corelane` last.
pub(crate) fn contenders(over: Over, variants: &[String]) -> Vec<Contender> {
    let (doors, words, floor) = match over {
        Over::Stdio => return over_stdio(),
        Over::Tcp => {
            let doors = format!("--tcp {ANY_PORT} --http off --tcp-connections-max {CONNECTIONS}");
            (doors, "echo", Kind::Echo)
        }
        Over::Http => (format!("--http {ANY_PORT} --tcp off"), "fixed", Kind::Fixed),
        Over::WebSocket => (format!("--http {ANY_PORT} --tcp off"), "frames", Kind::Echo),
    };
    let bare = |engine: &str| {
        Contender::new(floor, &format!("{engine} {words}"), &format!("floor {engine} {words}"))
    };
    let mut contenders = vec![bare("ring"), bare("poll"), bare("tokio")];
    if over == Over::WebSocket {
        contenders.push(Contender::new(Kind::Echo, TUNGSTENITE_NAME, "tungstenite"));
        let (name, line) = (format!("{TUNGSTENITE_NAME} 4 KiB"), "tungstenite 4096");
        contenders.push(Contender::new(Kind::Echo, &name, line));
    }
    let corelane = |kind: Kind, name: &str, flags: &str| {
        Contender::new(kind, name, &format!("become {CORELANE} serve {doors} {flags}"))
    };
    for (name, host) in [
        (CORELANE_NAME, "--executor native --ring uring"),
        ("corelane glommio", "--executor glommio --ring uring"),
        ("corelane poll", "--executor native --ring poll"),
    ] {
        let flags = format!("--shards 1 --cpus {SERVER_CORE} {host}");
        contenders.push(corelane(Kind::Server, name, &flags));
    }
    if over == Over::Http {
        // Without a list of cpus, which would have to be as long: the process has one.
        let two = "--shards 2 --executor native --ring uring";
        contenders.push(corelane(Kind::Hop, "corelane hop", two));
    }
    contenders.extend(variants.iter().map(|flags| {
        let shards = if flags.contains("--shards") { "" } else { "--shards 1 " };
        corelane(Kind::Server, flags, &format!("{shards}{flags}"))
    }));
    contenders
}

/// Everybody over pipes.
fn over_stdio() -> Vec<Contender> {
    vec![
        Contender::new(Kind::Echo, "cat", "become cat").stdio(),
        Contender::new(Kind::Server, CORELANE_NAME, &format!("become {CORELANE} stdio")).stdio(),
    ]
}

/// The child's life: `floor NAME WORDS` is a floor that says these [`Words`], `tungstenite BYTES`
/// is one on tokio-tungstenite, `become PROGRAM …` is another program.
pub(crate) fn be_child(arguments: &[String]) -> io::Result<()> {
    process::settle(&[SERVER_CORE])?;
    match arguments {
        [word, name, words @ ..] if word == "floor" => echo::serve(name, Words::read(words)?),
        [word] if word == "tungstenite" => tungstenite::serve(None),
        [word, bytes] if word == "tungstenite" => {
            tungstenite::serve(Some(bytes.parse().map_err(io::Error::other)?))
        }
        [word, program, rest @ ..] if word == "become" => {
            Err(process::become_program(program, rest))
        }
        _ => Err(io::Error::other("a child is a floor or becomes a program")),
    }
}

const CORELANE: &str = env!("CARGO_BIN_EXE_corelane");
