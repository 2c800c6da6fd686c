//! A running `corelane serve` with the HTTP listener only.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Timeout of every wait, generous for a loaded machine.
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_mins(1);

/// A running server process; killed when dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Starts the server on a free port with further `options` and waits until it listens.
    pub(crate) fn start(options: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_corelane"))
            .args(["serve", "--http", "127.0.0.1:0", "--tcp", "off"])
            .args(options)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server process starts");
        let stderr = BufReader::new(child.stderr.take().expect("standard error is a pipe"));
        let (sender, addresses) = channel();
        thread::spawn(move || {
            // Read to the end, so that the server never blocks on a full pipe.
            for line in stderr.lines().map_while(Result::ok) {
                if let Some(address) = line.split("listening http ").nth(1) {
                    sender.send(address.trim().parse().expect("an address")).ok();
                }
            }
        });
        let address = addresses.recv_timeout(WAIT_TIMEOUT).expect("the server listens");
        Self { child, address }
    }

    /// Sends SIGTERM, which drains the server.
    pub(crate) fn drain(&self) {
        let id = Pid::from_child(&self.child);
        kill_process(id, Signal::TERM).expect("the process exists");
    }

    /// Kills the process without draining.
    pub(crate) fn kill(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
