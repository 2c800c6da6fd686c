//! A server of the library in a process of its own, which changes its catalog when it is told to.

use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{ChildStdin, ChildStdout};

use corelane::protocol::message::ServerInfo;
use corelane::server::{Handle, Options, Server};
use corelane::service::{Catalog, NoArguments, Tool};

use crate::process;

/// What the server counted.
pub(crate) struct Counted {
    pub(crate) encoded: u64,
    pub(crate) published: u64,
}

/// A running server and the two pipes that steer it.
pub(crate) struct Service {
    process: process::Server,
    address: SocketAddr,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Service {
    /// Starts this program again with these arguments, as which it must call [`serve`].
    pub(crate) fn start(arguments: &[String]) -> io::Result<Self> {
        let (process, input, output) = process::Server::start_piped(arguments)?;
        let mut output = BufReader::new(output);
        let address = read(&mut output)?.parse().map_err(io::Error::other)?;
        Ok(Self { process, address, input, output })
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its resident memory.
    pub(crate) fn resident_bytes(&self) -> io::Result<u64> {
        self.process.resident_bytes()
    }

    /// Has it change its catalog, and does not wait for it.
    pub(crate) fn change(&mut self) -> io::Result<()> {
        self.input.write_all(b"change\n")
    }

    /// Ends it and reads what it counted.
    pub(crate) fn end(mut self) -> io::Result<Counted> {
        self.input.write_all(b"end\n")?;
        let line = read(&mut self.output)?;
        let mut numbers = line.split(' ').map(str::parse);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(encoded)), Some(Ok(published))) => Ok(Counted { encoded, published }),
            _ => Err(io::Error::other(format!("no counters: {line}"))),
        }
    }
}

fn read(output: &mut BufReader<ChildStdout>) -> io::Result<String> {
    let mut line = String::new();
    output.read_line(&mut line)?;
    Ok(line.trim().to_owned())
}

/// The life of the server: an address, a change a line, and at the end what it counted.
pub(crate) fn serve(options: Options) -> io::Result<()> {
    let catalog = Catalog::builder(ServerInfo::new("bench", "1.0.0")).tool(tool(0));
    let catalog = catalog.build().map_err(io::Error::other)?;
    let running = Server::new(catalog).options(options).start().map_err(io::Error::other)?;
    let mut out = io::stdout();
    writeln!(out, "{}", running.addresses()[0].1)?;
    let changes = io::stdin().lines().map_while(Result::ok).take_while(|line| line == "change");
    for (number, _) in (1..).zip(changes) {
        change(&running.handle(), number)?;
    }
    running.handle().drain();
    let counted = running.join().map_err(io::Error::other)?.subscriptions;
    writeln!(out, "{} {}", counted.publications_encoded, counted.frames_published)
}

/// One more tool.
fn change(handle: &Handle, number: usize) -> io::Result<()> {
    handle.change(|catalog| catalog.tool(tool(number))).map_err(io::Error::other)
}

fn tool(number: usize) -> Tool {
    Tool::new(format!("tool-{number}")).describe("Does nothing.").inline(
        |NoArguments {}, answer| {
            answer.text("done");
            Ok(())
        },
    )
}
