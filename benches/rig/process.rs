//! A server as a process of its own: started pinned, watched through `/proc`, gone with its guard.
//!
//! A bench starts its server through itself: the child pins its thread, asks the kernel to be
//! killed with its parent, and then either is the server or becomes (`exec`) the one to measure.

use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};

/// What stands on standard error before the transport and the address when a server is ready.
const LISTENING: &str = "listening ";

/// The first argument of a bench that is to be, or to become, a server.
pub(crate) const CHILD: &str = "--child";

/// A running server; killed and reaped when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    address: Option<SocketAddr>,
}

impl Server {
    /// Starts this very program again with `arguments` behind [`CHILD`] and waits for the line
    /// that tells its address.
    pub(crate) fn start(arguments: &[String]) -> io::Result<Self> {
        let child = command(arguments)?.stderr(Stdio::piped()).spawn()?;
        let mut server = Self { child, address: None };
        let stderr = server.child.stderr.take();
        let mut said = String::new();
        let mut lines = BufReader::new(stderr.ok_or(io::ErrorKind::BrokenPipe)?);
        loop {
            let start = said.len();
            if lines.read_line(&mut said)? == 0 {
                let name = arguments.join(" ");
                return Err(io::Error::other(format!("{name} did not start: {said}")));
            }
            let line = said[start..].trim();
            if let Some(at) = line.find(LISTENING) {
                let address = line[at + LISTENING.len()..].split_whitespace().nth(1);
                server.address = address.and_then(|address| address.parse().ok());
                break;
            }
        }
        // Whatever else it says must not fill the pipe; the thread ends with the pipe.
        std::thread::spawn(move || io::copy(&mut lines, &mut io::sink()));
        Ok(server)
    }

    /// Starts this very program again with its standard input and output as pipes.
    pub(crate) fn start_piped(arguments: &[String]) -> io::Result<(Self, ChildStdin, ChildStdout)> {
        let mut child = command(arguments)?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take());
        let server = Self { child, address: None };
        match pipes {
            (Some(input), Some(output)) => Ok((server, input, output)),
            _ => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.address.ok_or_else(|| io::Error::other("the server told no address"))
    }

    /// CPU time of all its threads so far, from the scheduler's own nanosecond counters
    /// (`/proc/PID/task/*/schedstat`). A running thread's counter is behind by at most one tick.
    pub(crate) fn cpu_time(&self) -> io::Result<Duration> {
        let mut nanoseconds = 0;
        for task in std::fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let Ok(text) = std::fs::read_to_string(task?.path().join("schedstat")) else {
                continue;
            };
            let spent = text.split_whitespace().next();
            nanoseconds += spent.and_then(|spent| spent.parse().ok()).unwrap_or(0);
        }
        Ok(Duration::from_nanos(nanoseconds))
    }

    /// Resident memory in bytes (`VmRSS`).
    pub(crate) fn resident_bytes(&self) -> io::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes = line.and_then(|line| line.split_whitespace().next());
        let kibibytes: Option<u64> = kibibytes.and_then(|text| text.parse().ok());
        kibibytes
            .map(|kibibytes| kibibytes * 1024)
            .ok_or_else(|| io::Error::other("the server has no resident memory: it is gone"))
    }

    /// Descriptors that it has open.
    pub(crate) fn descriptors(&self) -> io::Result<usize> {
        Ok(std::fs::read_dir(format!("/proc/{}/fd", self.child.id()))?.count())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may be gone already, which is what is wanted.
        self.child.kill().unwrap_or(());
        drop(self.child.wait());
    }
}

fn command(arguments: &[String]) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(CHILD).args(arguments).stdin(Stdio::null());
    Ok(command)
}

/// The child's first act: on these cores only, and never longer than its parent.
pub(crate) fn settle(cores: &[usize]) -> io::Result<()> {
    pin(cores)?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    Ok(())
}

/// Becomes another program; returns only where that fails.
pub(crate) fn become_program(program: &str, arguments: &[String]) -> io::Error {
    Command::new(program).args(arguments).exec()
}

/// Keeps the calling thread on these cores. A machine with fewer keeps it on its last one.
pub(crate) fn pin(cores: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    let last = std::thread::available_parallelism().map_or(0, |count| count.get() - 1);
    for core in cores {
        set.set(*core.min(&last));
    }
    sched_setaffinity(None, &set)?;
    Ok(())
}
