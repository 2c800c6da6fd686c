//! Opens the streams of a target, on a thread that may block.

use std::io;
use std::iter;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};

use super::process::{self, ProgramCallback, ServerProcess, StartedProgram};
use super::tunnel::{self, Deadline};
use crate::error::{ClientError, ClientErrorKind};
use crate::proxy::Route;
use crate::target::{HostAddress, HttpEndpoint, Program, Target};
use corelane_engine::ring::{
    KEEPALIVE_INTERVAL, KEEPALIVE_TIME, Operation, Registered, Ring, Socket, Source,
};
use corelane_tls::{TlsClient, TlsError, TlsFilter, TlsStream};

/// One stream of an open target.
#[derive(Debug)]
pub(super) enum OpenStream {
    /// It is to be registered with the ring.
    Source(Source),
    /// The ring has opened it.
    Socket(Socket),
}

/// The TLS of a stream after its handshake.
#[derive(Debug)]
pub(super) struct TlsConnection {
    pub(super) filter: Box<TlsFilter>,
    /// Plaintext that came with the end of the handshake.
    pub(super) received: Vec<u8>,
}

/// The streams of an open target.
#[derive(Debug)]
pub(super) struct OpenStreams {
    /// Read from.
    pub(super) receive: OpenStream,
    /// Written to; `None` if it is the same as `receive`.
    pub(super) send: Option<OpenStream>,
    /// The TLS of the stream, after its handshake.
    pub(super) tls: Option<TlsConnection>,
    /// The program behind the streams.
    pub(super) process: Option<ServerProcess>,
}

/// Why a target cannot be opened.
#[derive(Debug)]
pub(super) enum OpenError {
    System(io::Error),
    Tls(TlsError),
}

impl OpenError {
    /// Returns why `target` cannot be connected to.
    pub(super) fn describe(self, target: &Target) -> ClientError {
        match self {
            Self::System(error) => {
                let text = format!("cannot connect to {}: {error}", target.without_secrets());
                ClientError::with_source(ClientErrorKind::Connect, text, error)
            }
            Self::Tls(error) => {
                let text = format!("cannot connect to {}: {error}", target.without_secrets());
                ClientError::from_tls(text, error)
            }
        }
    }
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

/// Streams that are registered with a ring.
#[derive(Debug)]
pub(super) struct RegisteredStreams {
    /// The socket to receive from, and the one to send to.
    pub(super) sockets: [Socket; 2],
    pub(super) tls: Option<TlsConnection>,
    pub(super) process: Option<ServerProcess>,
}

impl OpenStreams {
    /// Registers the streams with the ring, which owns their sockets then.
    pub(super) fn register<R: Ring>(self, ring: &mut R) -> io::Result<RegisteredStreams> {
        let mut socket = |stream: OpenStream| match stream {
            OpenStream::Source(source) => match ring.register(source)? {
                Registered::Socket(socket) => Ok(socket),
                Registered::Listener(_) => Err(io::Error::other("the ring registered a listener")),
            },
            OpenStream::Socket(socket) => Ok(socket),
        };
        let receive = socket(self.receive)?;
        let send = self.send.map_or(Ok(receive), socket)?;
        let Self { tls, process, .. } = self;
        Ok(RegisteredStreams { sockets: [receive, send], tls, process })
    }

    /// Closes streams that are not needed.
    pub(super) fn close<R: Ring>(self, ring: &mut R) {
        for stream in iter::once(self.receive).chain(self.send) {
            match stream {
                OpenStream::Source(source) => drop(source),
                OpenStream::Socket(socket) => ring.submit(Operation::Close(socket)),
            }
        }
    }
}

/// Where a connection leads, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path<'a> {
    pub(super) target: &'a Target,
    /// Connected to instead of the address of the target.
    pub(super) address: Option<&'a HostAddress>,
    pub(super) route: &'a Route,
}

/// Opens `path`, encrypted if there is a `tls`; blocks for `timeout` at most, and while a name is
/// resolved. The events of a program are passed to `on_event`.
pub(super) fn open(
    path: Path<'_>,
    tls: Option<&TlsClient>,
    timeout: Duration,
    on_event: Option<ProgramCallback>,
) -> Result<OpenStreams, OpenError> {
    let deadline = Deadline::start(timeout);
    let stream = match path.target {
        Target::Http(HttpEndpoint { host, port, .. })
        | Target::WebSocket(HttpEndpoint { host, port, .. })
        | Target::Tcp { host, port }
        | Target::Tls { host, port } => {
            let of_target = (host.as_str(), *port);
            let (host, port) = path.address.map_or(of_target, |it| (it.host.as_str(), it.port));
            open_route(host, port, path.route, &deadline)?
        }
        Target::Unix(path) => return Ok(stream_of(UnixStream::connect(path)?.into(), None)),
        Target::Stdio(program) => return Ok(start(program, on_event)?),
    };
    let Some(tls) = tls else { return Ok(stream_of(stream.into(), None)) };
    let (stream, connection) = encrypt(stream, tls, &deadline)?;
    Ok(stream_of(stream.into(), Some(connection)))
}

const fn stream_of(fd: OwnedFd, tls: Option<TlsConnection>) -> OpenStreams {
    let receive = OpenStream::Source(Source::Stream(fd));
    OpenStreams { receive, send: None, tls, process: None }
}

/// Completes the TLS handshake.
fn encrypt(
    stream: TcpStream,
    tls: &TlsClient,
    deadline: &Deadline,
) -> Result<(TcpStream, TlsConnection), OpenError> {
    stream.set_write_timeout(Some(deadline.left()?))?;
    let opened = TlsStream::open(tls, stream, |stream| deadline.limit_read(stream));
    let (stream, filter, received) = opened.map_err(OpenError::Tls)?.into_parts();
    stream.set_read_timeout(None)?;
    stream.set_write_timeout(None)?;
    Ok((stream, TlsConnection { filter, received }))
}

/// Opens a connection to a host, or to the proxy for it.
fn open_route(host: &str, port: u16, route: &Route, deadline: &Deadline) -> io::Result<TcpStream> {
    let (proxy, is_tunnel) = match route {
        Route::Direct => return open_tcp(host, port, deadline),
        Route::Tunnel(proxy) => (proxy, true),
        Route::Forward(proxy) => (proxy, false),
    };
    let through = |error: io::Error| {
        io::Error::new(error.kind(), format!("through the proxy {proxy}: {error}"))
    };
    let stream = open_tcp(&proxy.host, proxy.port, deadline).map_err(through)?;
    if is_tunnel {
        tunnel::open(&stream, host, port, proxy, deadline).map_err(through)?;
    }
    Ok(stream)
}

/// Tries the addresses of a host in turn.
fn open_tcp(host: &str, port: u16, deadline: &Deadline) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, deadline.left()?) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_TIME);
                let keepalive = keepalive.with_interval(KEEPALIVE_INTERVAL);
                SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Starts a program; its standard output and input are the streams.
fn start(program: &Program, on_event: Option<ProgramCallback>) -> io::Result<OpenStreams> {
    let StartedProgram { input, output, process } = process::start(program, on_event)?;
    let [receive, send] = [output, input].map(|pipe| OpenStream::Source(Source::Pipe(pipe)));
    Ok(OpenStreams { receive, send: Some(send), tls: None, process: Some(process) })
}
