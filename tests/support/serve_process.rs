//! Starts `corelane serve` with Streamable HTTP on a free port of 127.0.0.1.
//!
//! The process is killed when the value is dropped. Its standard error is copied to that of the
//! test, where the test harness shows it for failed tests.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// Time limit for the start, generous for a loaded machine.
const START_TIMEOUT: Duration = Duration::from_mins(1);

/// Small rings: the kernel counts the locked memory of all rings of a user against one limit
/// (`ulimit -l`, often 8 MiB), and tests run in parallel.
const SMALL_RINGS: [&str; 8] = [
    "--ring-sockets-max",
    "256",
    "--ring-submissions-max",
    "256",
    "--ring-completions-max",
    "2048",
    "--ring-receive-buffers",
    "64",
];

/// A running server process.
pub(crate) struct ServeProcess {
    child: Child,
    address: SocketAddr,
}

impl ServeProcess {
    /// Starts the server with further `options` and waits until it listens.
    pub(crate) fn start(options: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_corelane"))
            .args(["serve", "--tcp", "off", "--http", "127.0.0.1:0"])
            .args(SMALL_RINGS)
            .args(options)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("server process starts");
        let events = child.stderr.take().expect("standard error is a pipe");
        // From here on a panic drops `serving` and kills the server.
        let mut serving = Self { child, address: SocketAddr::from(([0, 0, 0, 0], 0)) };
        let (sender, listening) = channel();
        thread::spawn(move || {
            for line in BufReader::new(events).lines().map_while(Result::ok) {
                eprintln!("corelane: {line}");
                if let Some(address) = line.strip_prefix("listening http ") {
                    // The receiver is dropped after the first line.
                    drop(sender.send(address.to_owned()));
                }
            }
        });
        let address = listening.recv_timeout(START_TIMEOUT).expect("server prints its address");
        serving.address = address.parse().unwrap_or_else(|error| panic!("{error}: {address}"));
        serving
    }

    /// Returns the URL of `path`; MCP is at `/mcp`.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

impl Drop for ServeProcess {
    fn drop(&mut self) {
        // Both fail only if the process has already exited.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
