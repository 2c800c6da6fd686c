//! A running `corelane serve` that speaks HTTP alone.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// How long a test waits for anything: a loaded machine is no reason to fail.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// The program, running; killed when dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Starts the demo services on a port of the system's choice, with `options` more.
    pub(crate) fn start(options: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_corelane"))
            .args(["serve", "--http", "127.0.0.1:0", "--tcp", "off"])
            .args(options)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let stderr = BufReader::new(child.stderr.take().expect("standard error is a pipe"));
        let (sender, addresses) = channel();
        thread::spawn(move || {
            // Read to its end, so that the server never waits for somebody who listens.
            for line in stderr.lines().map_while(Result::ok) {
                if let Some(address) = line.split("listening http ").nth(1) {
                    sender.send(address.trim().parse().expect("an address")).ok();
                }
            }
        });
        let address = addresses.recv_timeout(PATIENCE).expect("the server listens");
        Self { child, address }
    }

    /// Asks it to end when it has said goodbye to everybody.
    pub(crate) fn drain(&self) {
        let id = Pid::from_child(&self.child);
        kill_process(id, Signal::TERM).expect("a process that was not waited for takes signals");
    }

    /// Ends it at once, as a crash does.
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
