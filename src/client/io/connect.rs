//! Opens the streams of a target, on a thread that may block.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};

use super::process::{self, ServerProcess, StartedProgram, StderrCallback};
use crate::client::target::{HttpEndpoint, Program, Target};
use crate::engine::ring::Source;

/// Idle time of a TCP connection before its peer is probed, and the interval of the probes.
const KEEPALIVE_TIME: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// The streams of an open target.
#[derive(Debug)]
pub(super) struct OpenStreams {
    /// Read from.
    pub(super) receive: Source,
    /// Written to; `None` if it is the same as `receive`.
    pub(super) send: Option<Source>,
    /// The program behind the streams.
    pub(super) process: Option<ServerProcess>,
}

/// Opens `target`; blocks for `timeout` at most, and while a name is resolved. The lines that a
/// program writes to its standard error are passed to `on_stderr`.
pub(super) fn open(
    target: &Target,
    timeout: Duration,
    on_stderr: Option<StderrCallback>,
) -> io::Result<OpenStreams> {
    match target {
        Target::Http(HttpEndpoint { host, port, .. })
        | Target::WebSocket(HttpEndpoint { host, port, .. })
        | Target::Tcp { host, port } => Ok(stream(open_tcp(host, *port, timeout)?)),
        Target::Unix(path) => Ok(stream(UnixStream::connect(path)?.into())),
        Target::Stdio(program) => start(program, on_stderr),
    }
}

const fn stream(fd: OwnedFd) -> OpenStreams {
    OpenStreams { receive: Source::Stream(fd), send: None, process: None }
}

/// Tries the addresses of a host in turn.
fn open_tcp(host: &str, port: u16, timeout: Duration) -> io::Result<OwnedFd> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_TIME);
                let keepalive = keepalive.with_interval(KEEPALIVE_INTERVAL);
                SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
                return Ok(stream.into());
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Starts a program.
fn start(program: &Program, on_stderr: Option<StderrCallback>) -> io::Result<OpenStreams> {
    let StartedProgram { input, output, process } = process::start(program, on_stderr)?;
    let (receive, send) = (Source::Pipe(output), Some(Source::Pipe(input)));
    Ok(OpenStreams { receive, send, process: Some(process) })
}
