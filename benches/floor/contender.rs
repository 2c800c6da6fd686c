//! Who is measured, and how its process is started.

use std::io;

use crate::echo::{self, Words};
use crate::fixed;
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
    /// It says a fixed response, which the load tells it.
    fixed: bool,
}

impl Contender {
    fn new(name: &str, line: &str) -> Self {
        let arguments: Vec<_> = line.split(' ').map(str::to_owned).collect();
        let name = name.to_owned();
        Self { name, arguments, protocol: true, stdio: false, fixed: false }
    }

    fn floor(mut self) -> Self {
        self.protocol = false;
        self
    }

    fn stdio(mut self) -> Self {
        self.stdio = true;
        self
    }

    fn fixed(mut self) -> Self {
        self.fixed = true;
        self.floor()
    }

    /// The line that starts it for this load.
    fn arguments(&self, load: Load) -> Vec<String> {
        let mut arguments = self.arguments.clone();
        if self.fixed {
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
        let load = Load { protocol: self.protocol, ..load };
        let outcome = if self.stdio {
            stdio::run(&self.arguments, load)
        } else {
            Server::start(&self.arguments(load)).and_then(|server| load::run(&server, load))
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

/// Everybody over HTTP, the floor of all ratios first, `variants` of `corelane` last.
pub(crate) fn over_http(variants: &[String]) -> Vec<Contender> {
    let mut contenders = vec![
        Contender::new("ring fixed", "fixed ring").fixed(),
        Contender::new("poll fixed", "fixed poll").fixed(),
        Contender::new("tokio fixed", "fixed tokio").fixed(),
    ];
    let corelane = |name: &str, flags: &str| {
        let line = format!(
            "become {CORELANE} serve --http 127.0.0.1:0 --tcp off --cpus {SERVER_CORE} {flags}"
        );
        Contender::new(name, &line)
    };
    contenders.push(corelane("corelane", "--shards 1 --executor native --ring uring"));
    contenders.push(corelane("corelane glommio", "--shards 1 --executor glommio --ring uring"));
    contenders.push(corelane("corelane poll", "--shards 1 --executor native --ring poll"));
    let variant = |flags: &String| corelane(flags, &format!("--shards 1 {flags}"));
    contenders.extend(variants.iter().map(variant));
    contenders
}

/// Everybody over pipes.
pub(crate) fn over_stdio() -> Vec<Contender> {
    vec![
        Contender::new("cat", "become cat").floor().stdio(),
        Contender::new("corelane", &format!("become {CORELANE} stdio")).stdio(),
    ]
}

/// The child's life: `floor NAME` is a floor that echoes, `fixed NAME ERA BYTES` is one that has a
/// fixed response, `become PROGRAM …` is another program.
pub(crate) fn be_child(arguments: &[String]) -> io::Result<()> {
    process::settle(&[SERVER_CORE])?;
    match arguments {
        [word, name] if word == "floor" => echo::serve(name, Words::Echo),
        [word, name, era, bytes] if word == "fixed" => {
            echo::serve(name, Words::Fixed(fixed::read(era, bytes)?.into()))
        }
        [word, program, rest @ ..] if word == "become" => {
            Err(process::become_program(program, rest))
        }
        _ => Err(io::Error::other("a child is a floor or becomes a program")),
    }
}

const CORELANE: &str = env!("CARGO_BIN_EXE_corelane");
