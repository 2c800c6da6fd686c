//! A connection of bytes with timeouts: TCP, TLS over TCP, or the pipes of a program.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::endpoint::{Address, Duplex};

/// Shortest timeout of a socket; zero would mean none.
const TIMEOUT_MIN: Duration = Duration::from_millis(1);
/// Time that a program has to end after its standard input is closed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// A connection whose reads and writes have a timeout. It is closed when it is dropped.
pub struct ByteStream {
    io: Io,
    read_timeout: Duration,
}

enum Io {
    Plain(TcpStream),
    /// The socket below sets timeouts.
    Tls(Box<dyn Duplex>, TcpStream),
    Program(Program),
}

struct Program {
    child: Child,
    input: Option<ChildStdin>,
    output: ChildStdout,
}

impl ByteStream {
    /// Connects, with TLS if `address` has it.
    pub fn connect(address: &Address, timeout: Duration) -> io::Result<Self> {
        let mut last = io::Error::new(ErrorKind::NotFound, "the host has no address");
        for resolved in (address.host.as_str(), address.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&resolved, timeout) {
                Ok(socket) => return Self::secure(address, socket, timeout),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn secure(address: &Address, socket: TcpStream, timeout: Duration) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(timeout))?;
        socket.set_write_timeout(Some(timeout))?;
        let io = match &address.tls {
            None => Io::Plain(socket),
            Some(tls) => {
                let below = socket.try_clone()?;
                Io::Tls(tls.open(socket)?, below)
            }
        };
        Ok(Self { io, read_timeout: timeout })
    }

    /// Starts a program; its standard error is discarded.
    pub fn start(program: &OsString, arguments: &[OsString]) -> io::Result<Self> {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let output = output.ok_or(ErrorKind::BrokenPipe)?;
        let io = Io::Program(Program { child, input, output });
        Ok(Self { io, read_timeout: EXIT_TIMEOUT })
    }

    /// Waits until one of the streams has input or has ended, or `timeout` is over. What has gone
    /// wrong is found by the next read.
    pub fn wait_for_input<'a>(streams: impl Iterator<Item = &'a Self>, timeout: Duration) {
        let mut waits: Vec<PollFd<'_>> = streams.map(|stream| stream.io.poll_input()).collect();
        if let Ok(timeout) = Timespec::try_from(timeout) {
            poll(&mut waits, Some(&timeout)).ok();
        }
    }

    /// Sets the timeout of reads.
    pub fn set_read_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        self.read_timeout = timeout.max(TIMEOUT_MIN);
        match &self.io {
            Io::Plain(socket) | Io::Tls(_, socket) => {
                socket.set_read_timeout(Some(self.read_timeout))
            }
            Io::Program(_) => Ok(()),
        }
    }

    /// Reads what has arrived within `timeout`: `None` if nothing has, and no bytes at the end.
    pub fn read_within(&mut self, timeout: Duration) -> io::Result<Option<Vec<u8>>> {
        self.set_read_timeout(timeout)?;
        let mut bytes = vec![0; 64 << 10];
        match self.read(&mut bytes) {
            Ok(length) => {
                bytes.truncate(length);
                Ok(Some(bytes))
            }
            Err(error) if is_timeout(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Returns whether a read or write has timed out.
pub fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

impl Read for ByteStream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match &mut self.io {
            Io::Plain(socket) => socket.read(buf),
            Io::Tls(stream, _) => stream.read(buf),
            Io::Program(program) => program.read(buf, self.read_timeout),
        }
    }
}

impl Write for ByteStream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match &mut self.io {
            Io::Plain(socket) => socket.write(buf),
            Io::Tls(stream, _) => stream.write(buf),
            Io::Program(program) => match &mut program.input {
                Some(input) => input.write(buf),
                None => Err(ErrorKind::BrokenPipe.into()),
            },
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.io {
            Io::Plain(socket) => socket.flush(),
            Io::Tls(stream, _) => stream.flush(),
            Io::Program(program) => program.input.as_mut().map_or(Ok(()), Write::flush),
        }
    }
}

impl Io {
    fn poll_input(&self) -> PollFd<'_> {
        match self {
            Self::Plain(socket) | Self::Tls(_, socket) => PollFd::new(socket, PollFlags::IN),
            Self::Program(program) => PollFd::new(&program.output, PollFlags::IN),
        }
    }
}

impl Program {
    fn read(&mut self, buf: &mut [u8], timeout: Duration) -> io::Result<usize> {
        let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
        let mut waits = [PollFd::new(&self.output, PollFlags::IN)];
        if poll(&mut waits, Some(&timeout))? == 0 {
            return Err(ErrorKind::TimedOut.into());
        }
        self.output.read(buf)
    }
}

impl Drop for ByteStream {
    fn drop(&mut self) {
        match &mut self.io {
            Io::Plain(socket) | Io::Tls(_, socket) => {
                socket.shutdown(Shutdown::Both).ok();
            }
            Io::Program(program) => {
                // It ends at the end of its input, which the end of its output shows.
                program.input = None;
                let mut rest = vec![0; 64 << 10];
                while program.read(&mut rest, EXIT_TIMEOUT).is_ok_and(|length| length > 0) {}
                program.child.kill().ok();
                program.child.wait().ok();
            }
        }
    }
}
