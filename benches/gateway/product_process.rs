//! A product that runs, with all of its processes.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use corelane_bench_support::process::CHILD;
use corelane_engine::clock::Clock;
use tempfile::NamedTempFile;

use crate::process_tree::{self, Process};
use crate::products::Product;

/// Time in which a product must accept connections: imports of Python are slow.
const START_TIMEOUT: Duration = Duration::from_mins(1);
const START_POLL: Duration = Duration::from_millis(20);
/// Bytes of standard error that an error shows.
const SHOWN_BYTES: usize = 2000;

/// A running product; it and all processes below it are killed when it is dropped.
#[derive(Debug)]
pub(crate) struct ProductProcess {
    child: Child,
    address: SocketAddr,
    stderr: NamedTempFile,
}

impl ProductProcess {
    /// Starts the product on the server core, and waits until it accepts connections.
    pub(crate) fn start(product: &Product) -> io::Result<Self> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let stderr = NamedTempFile::new()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args([CHILD, "exec"]).args(product.command(address.port()));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr.reopen()?);
        let mut process = Self { child: command.spawn()?, address, stderr };
        let clock = Clock::start();
        let until = clock.now().after(START_TIMEOUT);
        while TcpStream::connect(address).is_err() {
            if process.child.try_wait()?.is_some() || clock.now() > until {
                return Err(process.describe(product, "it did not start"));
            }
            pause(START_POLL);
        }
        Ok(process)
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns an error with the end of its standard error.
    pub(crate) fn describe(&self, product: &Product, error: impl std::fmt::Display) -> io::Error {
        let text = std::fs::read_to_string(self.stderr.path()).unwrap_or_default();
        let mut from = text.len().saturating_sub(SHOWN_BYTES);
        while !text.is_char_boundary(from) {
            from += 1;
        }
        io::Error::other(format!("{}: {error}\n{}", product.name, &text[from..]))
    }

    /// Returns its first process and all below it.
    pub(crate) fn processes(&self) -> io::Result<Vec<Process>> {
        let mut processes = process_tree::below(std::process::id())?;
        let own = |process: &Process| process.id == self.child.id();
        let below = process_tree::below(self.child.id())?;
        processes.retain(own);
        processes.extend(below);
        Ok(processes)
    }

    /// Returns the resident memory of its first process in bytes.
    pub(crate) fn resident_bytes(&self) -> io::Result<u64> {
        let sizes = std::fs::read_to_string(format!("/proc/{}/statm", self.child.id()))?;
        let pages = sizes.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
        Ok(pages.ok_or(io::ErrorKind::InvalidData)? * rustix::param::page_size() as u64)
    }

    /// Returns the CPU time so far of the product without its children of MCP, and of these.
    pub(crate) fn cpu_times(&self) -> io::Result<[Duration; 2]> {
        let mut times = [Duration::ZERO; 2];
        for process in self.processes()? {
            times[usize::from(is_server(&process))] += process.cpu_time();
        }
        Ok(times)
    }
}

impl Drop for ProductProcess {
    fn drop(&mut self) {
        let processes = self.processes().unwrap_or_default();
        processes.iter().for_each(process_tree::kill);
        drop(self.child.wait());
    }
}

/// Whether it is the server that a product has started: `corelane stdio`.
pub(crate) fn is_server(process: &Process) -> bool {
    let program = process.arguments.first().is_some_and(|it| it.ends_with("corelane"));
    program && process.arguments.get(1).is_some_and(|it| it == "stdio")
}

#[expect(clippy::disallowed_methods, reason = "other processes have no event for this")]
pub(crate) fn pause(span: Duration) {
    thread::sleep(span);
}
