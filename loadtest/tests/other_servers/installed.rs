//! Servers that install.sh installs, as processes.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A server in a process of its own, which ends with this.
pub(crate) struct ServerProcess {
    child: Child,
    address: SocketAddr,
}

impl ServerProcess {
    /// Starts a server that `command` gives a free port, and waits until it accepts connections.
    pub(crate) fn start(command: impl Fn(u16) -> Command) -> Self {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut command = command(address.port());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut server = Self { child: command.spawn().unwrap(), address };
        while TcpStream::connect(address).is_err() {
            assert!(server.child.try_wait().unwrap().is_none(), "the server has ended");
            std::thread::yield_now();
        }
        server
    }

    /// Returns the address as it is typed.
    pub(crate) fn target(&self) -> String {
        format!("http://{}/mcp", self.address)
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.child.kill().unwrap_or(());
        self.child.wait().unwrap();
    }
}

/// Returns a path in the folder that install.sh fills.
pub(crate) fn installed(path: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("other_servers").join(path)
}

/// Returns the path of a file beside this one.
pub(crate) fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/other_servers").join(name)
}

pub(crate) fn python(name: &str, port: u16) -> Command {
    let mut command = Command::new(installed("python/bin/python"));
    command.arg(script(name)).arg(port.to_string());
    command
}

pub(crate) fn everything() -> PathBuf {
    installed("node/node_modules/@modelcontextprotocol/server-everything/dist/index.js")
}
