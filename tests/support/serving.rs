//! A `corelane serve` that speaks Streamable HTTP on a free port of the loopback.
//!
//! It never outlives its test: it is killed when it is dropped. What it tells on standard error is
//! told by the test again, which shows where the test fails.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// How long a server may take to start on a loaded machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// Rings that fit beside many others: the kernel counts the memory of all rings of a user against
/// one limit (`ulimit -l`, often 8 MiB), and tests run side by side.
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

/// The server, running.
pub(crate) struct Serving {
    child: Child,
    address: SocketAddr,
}

impl Serving {
    /// Starts it with `options` more, and waits until it listens.
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
            .expect("the server starts");
        let events = child.stderr.take().expect("standard error is a pipe");
        // From here on whatever panics ends the server too.
        let mut serving = Self { child, address: SocketAddr::from(([0, 0, 0, 0], 0)) };
        let (sender, listening) = channel();
        thread::spawn(move || {
            for line in BufReader::new(events).lines().map_while(Result::ok) {
                eprintln!("corelane: {line}");
                if let Some(address) = line.strip_prefix("listening http ") {
                    // Nobody waits for a second one.
                    drop(sender.send(address.to_owned()));
                }
            }
        });
        let address = listening.recv_timeout(PATIENCE).expect("the server listens");
        serving.address = address.parse().unwrap_or_else(|error| panic!("{error}: {address}"));
        serving
    }

    /// The URL of one of its paths: `/mcp` is where it speaks MCP.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Both fail only where it has ended already, which is what is wanted.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
