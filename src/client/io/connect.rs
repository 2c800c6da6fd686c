//! Opens the streams of a target, on a thread that may block.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crossbeam::channel::{Receiver, RecvTimeoutError, bounded};
use crossbeam::queue::SegQueue;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use socket2::{SockRef, TcpKeepalive};

use super::stream::TlsConnection;
use crate::base::time::Instant;
use crate::client::error::{ClientError, ClientErrorKind};
use crate::client::oneshot::CloseSlot;
use crate::client::target::{HttpEndpoint, Program, Target};
use crate::engine::clock::Clock;
use crate::engine::ring::{Registered, Ring, Socket, Source};
use crate::transport::tls::{TlsClient, TlsError, TlsStream};

/// Environment variables that a program inherits.
const INHERITED_VARIABLES: [&str; 8] =
    ["HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER"];
/// Time that a program has to end after its input is closed, and again after SIGTERM.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);
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
                let text = format!("cannot connect to {target}: {error}");
                ClientError::with_source(ClientErrorKind::Connect, text, error)
            }
            Self::Tls(error) => {
                let text = format!("cannot connect to {target}: {error}");
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
    /// Registers the streams with the ring.
    pub(super) fn register<R: Ring>(self, ring: &mut R) -> io::Result<RegisteredStreams> {
        let mut socket = |source: Source| match ring.register(source)? {
            Registered::Socket(socket) => Ok(socket),
            Registered::Listener(_) => Err(io::Error::other("the ring registered a listener")),
        };
        let receive = socket(self.receive)?;
        let send = self.send.map_or(Ok(receive), socket)?;
        let Self { tls, process, .. } = self;
        Ok(RegisteredStreams { sockets: [receive, send], tls, process })
    }
}

/// Opens `target`, encrypted if there is a `tls`; blocks for `timeout` at most, twice for an
/// encrypted one, and while a name is resolved.
pub(super) fn open(
    target: &Target,
    tls: Option<&TlsClient>,
    timeout: Duration,
) -> Result<OpenStreams, OpenError> {
    let stream = match target {
        Target::Http(HttpEndpoint { host, port, .. })
        | Target::Tcp { host, port }
        | Target::Tls { host, port } => open_tcp(host, *port, timeout)?,
        Target::Unix(path) => return Ok(stream_of(UnixStream::connect(path)?.into(), None)),
        Target::Stdio(program) => return Ok(start(program)?),
    };
    let Some(tls) = tls else { return Ok(stream_of(stream.into(), None)) };
    let (stream, connection) = encrypt(stream, tls, timeout)?;
    Ok(stream_of(stream.into(), Some(connection)))
}

const fn stream_of(fd: OwnedFd, tls: Option<TlsConnection>) -> OpenStreams {
    OpenStreams { receive: Source::Stream(fd), send: None, tls, process: None }
}

/// Completes the TLS handshake within `timeout`.
fn encrypt(
    stream: TcpStream,
    tls: &TlsClient,
    timeout: Duration,
) -> Result<(TcpStream, TlsConnection), OpenError> {
    let clock = Clock::start();
    let deadline = clock.now().after(timeout);
    stream.set_write_timeout(Some(timeout))?;
    let opened = TlsStream::open(tls, stream, |stream| limit_read(stream, &clock, deadline));
    let (stream, filter, received) = opened.map_err(OpenError::Tls)?.into_parts();
    stream.set_read_timeout(None)?;
    stream.set_write_timeout(None)?;
    Ok((stream, TlsConnection { filter, received }))
}

/// Ends the reads of `stream` at `deadline`.
fn limit_read(stream: &TcpStream, clock: &Clock, deadline: Instant) -> io::Result<()> {
    let left = deadline.since(clock.now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    stream.set_read_timeout(Some(left))
}

/// Tries the addresses of a host in turn.
fn open_tcp(host: &str, port: u16, timeout: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
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

fn start(program: &Program) -> io::Result<OpenStreams> {
    let mut command = Command::new(&program.program);
    command.args(&program.arguments).env_clear().process_group(0);
    for name in INHERITED_VARIABLES {
        #[expect(clippy::disallowed_methods, reason = "the program inherits the variable")]
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.envs(program.environment.iter().map(|(name, value)| (name, value)));
    if let Some(directory) = &program.directory {
        command.current_dir(directory);
    }
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let missing = || io::Error::other("no pipe for a standard stream");
    let input = child.stdin.take().ok_or_else(missing)?;
    let output = child.stdout.take().ok_or_else(missing)?;
    Ok(OpenStreams {
        receive: Source::Pipe(output.into()),
        send: Some(Source::Pipe(input.into())),
        tls: None,
        process: Some(ServerProcess { child: Some(child), exit: None }),
    })
}

/// A running program. Dropping it, after its input is closed, ends it on a thread of its own: it
/// has 5 seconds to exit, then gets SIGTERM, and 5 seconds later SIGKILL, its process group too.
#[derive(Debug)]
pub(super) struct ServerProcess {
    child: Option<Child>,
    /// Dropped once the program has ended.
    exit: Option<Arc<ExitNotifier>>,
}

impl ServerProcess {
    /// Holds `exit` until the program has ended.
    pub(super) fn hold(&mut self, exit: &Arc<ExitNotifier>) {
        self.exit = Some(Arc::clone(exit));
    }
}

/// Sets slots when it is dropped: once the programs that hold it have ended.
#[derive(Debug, Default)]
pub(super) struct ExitNotifier(SegQueue<CloseSlot>);

impl ExitNotifier {
    /// Adds a slot.
    pub(super) fn notify(&self, slot: CloseSlot) {
        self.0.push(slot);
    }
}

impl Drop for ExitNotifier {
    fn drop(&mut self) {
        while let Some(slot) = self.0.pop() {
            slot.set(());
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let exit = self.exit.take();
        let stop = move || {
            stop(&mut child);
            drop(exit);
        };
        if let Err(error) = std::thread::Builder::new().name("corelane-stop".into()).spawn(stop) {
            tracing::warn!(%error, "no thread to end the program of a server");
        }
    }
}

/// Ends `child`. It is reaped last: until then its id names its process group and no other.
fn stop(child: &mut Child) {
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(id) = id {
        let exited = notify_exit(id);
        for signal in [Signal::TERM, Signal::KILL] {
            // Also an error once there is no thread that waits.
            if exited.recv_timeout(EXIT_TIMEOUT) != Err(RecvTimeoutError::Timeout) {
                break;
            }
            send_to_group(id, signal);
        }
        // What the program has started and left behind.
        send_to_group(id, Signal::KILL);
    }
    if let Err(error) = child.wait() {
        tracing::warn!(%error, "the program of a server cannot be awaited");
    }
}

/// Sends `signal` to a process group, which may be empty.
fn send_to_group(id: Pid, signal: Signal) {
    if let Err(error) = kill_process_group(id, signal) {
        tracing::debug!(%error, "the program of a server gets no signal");
    }
}

/// Returns a channel that receives a message when a child exits; the child is not reaped.
fn notify_exit(id: Pid) -> Receiver<()> {
    let (exited_tx, exited_rx) = bounded(1);
    let wait = move || {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        if let Err(error) = waitid(WaitId::Pid(id), options) {
            tracing::debug!(%error, "the program of a server cannot be awaited");
        }
        // Fails if the program was ended before.
        exited_tx.send(()).unwrap_or(());
    };
    if let Err(error) = std::thread::Builder::new().name("corelane-wait".into()).spawn(wait) {
        tracing::warn!(%error, "no thread to wait for the program of a server");
    }
    exited_rx
}
