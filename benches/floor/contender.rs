//! Who is measured, and how its process is started.

use std::io;

use crate::echo::{self, Words};
use crate::fixed;
use crate::load::{self, Load, Outcome};
use crate::process::{self, Server};
use crate::requests::Era;
use crate::stdio;

const SERVER_CORE: usize = 0;
/// More than any load opens.
const CONNECTIONS_MAX: usize = 20_000;

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

/// Everybody over TCP, the floor of all ratios first, `variants` of `corelane` last.
pub(crate) fn over_tcp(variants: &[String]) -> Vec<Contender> {
    let mut contenders = vec![
        Contender::new(Kind::Echo, "ring echo", "floor ring"),
        Contender::new(Kind::Echo, "poll echo", "floor poll"),
        Contender::new(Kind::Echo, "tokio echo", "floor tokio"),
    ];
    let corelane = |name: &str, flags: &str| {
        let line = format!(
            "become {CORELANE} serve --tcp 127.0.0.1:0 --http off --shards 1 --cpus {SERVER_CORE} \
             --tcp-connections-max {CONNECTIONS_MAX} {flags}"
        );
        Contender::new(Kind::Server, name, &line)
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
        Contender::new(Kind::Fixed, "ring fixed", "fixed ring"),
        Contender::new(Kind::Fixed, "poll fixed", "fixed poll"),
        Contender::new(Kind::Fixed, "tokio fixed", "fixed tokio"),
    ];
    let corelane = |kind: Kind, name: &str, flags: &str| {
        let line = format!("become {CORELANE} serve --http 127.0.0.1:0 --tcp off {flags}");
        Contender::new(kind, name, &line)
    };
    let one = |name: &str, flags: &str| {
        corelane(Kind::Server, name, &format!("--shards 1 --cpus {SERVER_CORE} {flags}"))
    };
    contenders.push(one("corelane", "--executor native --ring uring"));
    contenders.push(one("corelane glommio", "--executor glommio --ring uring"));
    contenders.push(one("corelane poll", "--executor native --ring poll"));
    // Without a list of cpus, which would have to be as long: the process has one.
    let two = "--shards 2 --executor native --ring uring";
    contenders.push(corelane(Kind::Hop, "corelane hop", two));
    let variant = |flags: &String| {
        let shards = if flags.contains("--shards") { "" } else { "--shards 1 " };
        corelane(Kind::Server, flags, &format!("{shards}{flags}"))
    };
    contenders.extend(variants.iter().map(variant));
    contenders
}

/// Everybody over pipes.
pub(crate) fn over_stdio() -> Vec<Contender> {
    vec![
        Contender::new(Kind::Echo, "cat", "become cat").stdio(),
        Contender::new(Kind::Server, "corelane", &format!("become {CORELANE} stdio")).stdio(),
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
