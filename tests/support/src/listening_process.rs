//! `ListeningProcess`: a server of others that is given a free port.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

/// A server in a process of its own, which ends with this.
pub struct ListeningProcess {
    child: Child,
    address: SocketAddr,
}

impl ListeningProcess {
    /// Starts a server that `command` gives a free port, and waits until it accepts connections.
    pub fn start(command: impl Fn(u16) -> Command) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        drop(listener);
        let mut command = command(address.port());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut server = Self { child: command.spawn().expect("the server starts"), address };
        while !server.is_listening() {
            let status = server.child.try_wait().expect("a child");
            assert!(status.is_none(), "the server has ended");
            std::thread::yield_now();
        }
        server
    }

    /// Returns the URL of its MCP endpoint.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Without a listener, a socket may get the port that it connects to, and connect to itself.
    fn is_listening(&self) -> bool {
        let stream = TcpStream::connect(self.address);
        stream.is_ok_and(|stream| stream.local_addr().ok() != Some(self.address))
    }
}

impl Drop for ListeningProcess {
    fn drop(&mut self) {
        self.child.kill().unwrap_or(());
        self.child.wait().expect("a child");
    }
}
