//! Who is measured, and how its process is started.

use std::io;

use crate::echo;
use crate::load::{self, Load, Outcome};
use crate::process::{self, Server};
use crate::stdio;

const SERVER_CORE: usize = 0;
/// More than any load opens.
const CONNECTIONS_MAX: usize = 20_000;

/// A server that can be measured.
#[derive(Clone, Debug)]
pub(crate) struct Contender {
    pub(crate) name: String,
    arguments: Vec<String>,
    /// It speaks MCP; otherwise it is a floor that says back what it hears.
    protocol: bool,
    stdio: bool,
}

impl Contender {
    fn new(name: &str, line: &str) -> Self {
        let arguments: Vec<_> = line.split(' ').map(str::to_owned).collect();
        Self { name: name.to_owned(), arguments, protocol: true, stdio: false }
    }

    fn floor(mut self) -> Self {
        self.protocol = false;
        self
    }

    fn stdio(mut self) -> Self {
        self.stdio = true;
        self
    }

    /// Why it cannot run here, where it cannot: a program without this host, a kernel without this
    /// ring.
    pub(crate) fn obstacle(&self) -> Option<io::Error> {
        if self.stdio { None } else { Server::start(&self.arguments).err() }
    }

    /// Starts it, drives it, ends it.
    pub(crate) fn measure(&self, load: Load) -> io::Result<Outcome> {
        let load = Load { protocol: self.protocol, ..load };
        let outcome = if self.stdio {
            stdio::run(&self.arguments, load)
        } else {
            Server::start(&self.arguments).and_then(|server| load::run(&server, load))
        };
        outcome.map_err(|error| io::Error::other(format!("{}: {error}", self.name)))
    }
}

/// Everybody over TCP, the floor of all ratios first, `variants` of `corelane` last.
pub(crate) fn over_tcp(variants: &[String]) -> Vec<Contender> {
    let mut contenders = vec![
        Contender::new("ring echo", "floor ring").floor(),
        Contender::new("poll echo", "floor poll").floor(),
        Contender::new("tokio echo", "floor tokio").floor(),
    ];
    let corelane = |name: &str, flags: &str| {
        let line = format!(
            "become {CORELANE} serve --tcp 127.0.0.1:0 --http off --shards 1 --cpus {SERVER_CORE} \
             --tcp-connections-max {CONNECTIONS_MAX} {flags}"
        );
        Contender::new(name, &line)
    };
    contenders.push(corelane("corelane", "--executor native --ring uring"));
    contenders.push(corelane("corelane glommio", "--executor glommio --ring uring"));
    contenders.push(corelane("corelane poll", "--executor native --ring poll"));
    contenders.extend(variants.iter().map(|flags| corelane(flags, flags)));
    contenders
}

/// Everybody over pipes.
pub(crate) fn over_stdio() -> Vec<Contender> {
    vec![
        Contender::new("cat", "become cat").floor().stdio(),
        Contender::new("corelane", &format!("become {CORELANE} stdio")).stdio(),
    ]
}

/// The child's life: `floor NAME` is a floor, `become PROGRAM …` is another program.
pub(crate) fn be_child(arguments: &[String]) -> io::Result<()> {
    process::settle(&[SERVER_CORE])?;
    match arguments {
        [word, name] if word == "floor" => echo::serve(name),
        [word, program, rest @ ..] if word == "become" => {
            Err(process::become_program(program, rest))
        }
        _ => Err(io::Error::other("a child is a floor or becomes a program")),
    }
}

const CORELANE: &str = env!("CARGO_BIN_EXE_corelane");
