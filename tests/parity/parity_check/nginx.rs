//! nginx in front of a server, with the configuration that docs/parity/README.md states.

use std::env;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;

use corelane_test_support::Process;
use corelane_test_support::tls::Certificate;
use socket2::{Domain, Socket, Type};
use tempfile::TempDir;

const README: &str = include_str!("../../../docs/parity/README.md");
/// The address of the server in the documented configuration.
const UPSTREAM: &str = "127.0.0.1:8080";

/// The documented `location` block, and changes of it.
pub(crate) struct Location(String);

impl Location {
    /// Reads the block of the documentation.
    pub(crate) fn documented() -> Self {
        let (_, rest) = README.split_once("```nginx\n").unwrap();
        let (block, rest) = rest.split_once("```").unwrap();
        assert!(!rest.contains("```nginx"), "more than one configuration");
        Self(block.to_owned())
    }

    /// Replaces a directive, which the block has once.
    pub(crate) fn replace(self, directive: &str, other: &str) -> Self {
        assert_eq!(self.0.matches(directive).count(), 1, "{directive}: {}", self.0);
        Self(self.0.replace(directive, other))
    }
}

/// A running nginx, until the end of the test.
pub(crate) struct Nginx {
    _process: Process,
    _directory: TempDir,
    _reserved: Socket,
    address: SocketAddr,
}

/// Reserves a free port: nginx may listen on it (`reuseport`), and no other port 0 becomes it.
fn reserve_port() -> (Socket, SocketAddr) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_reuse_port(true).unwrap();
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    (socket, address)
}

/// Returns where programs are searched. Debian has nginx where users other than root have none.
#[expect(clippy::disallowed_methods, reason = "programs are found as the shell finds them")]
fn program_path() -> String {
    format!("{}:/usr/sbin", env::var("PATH").unwrap_or_default())
}

impl Nginx {
    /// Starts nginx in front of `upstream`; with a certificate it terminates TLS.
    pub(crate) fn start(
        upstream: SocketAddr,
        location: Location,
        certificate: Option<&Certificate>,
    ) -> Self {
        let (reserved, address) = reserve_port();
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
        let Location(location) = location.replace(UPSTREAM, &upstream.to_string());
        let tls = certificate.map_or("", |certificate| {
            write("server.pem", &certificate.pem());
            write("key.pem", &certificate.key_pem());
            "ssl_certificate server.pem; ssl_certificate_key key.pem;"
        });
        let ssl = if certificate.is_some() { "ssl" } else { "" };
        let kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let temporary = kinds.map(|kind| format!("{kind}_temp_path {kind};\n")).concat();
        let text = format!(
            "daemon off; master_process off; pid nginx.pid; error_log stderr notice;
             events {{ worker_connections 1024; }}
             http {{ access_log off; {temporary}
             server {{ listen {address} reuseport {ssl}; {tls}\n{location}}} }}\n"
        );
        write("nginx.conf", &text);
        let mut command = Command::new("nginx");
        command.arg("-p").arg(directory.path()).args(["-c", "nginx.conf", "-e", "stderr"]);
        let mut process = Process::spawn(command.env_clear().env("PATH", program_path()));
        // Its version is logged once it listens.
        process.wait_for(|line| line.contains(": nginx/"));
        Self { _process: process, _directory: directory, _reserved: reserved, address }
    }

    /// Returns the URL of the dialect.
    pub(crate) fn target(&self, scheme: &str) -> String {
        format!("{scheme}://localhost:{}/parity", self.address.port())
    }
}
