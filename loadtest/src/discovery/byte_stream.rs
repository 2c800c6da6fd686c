//! A blocking byte stream to the server: a socket, with or without TLS, or the pipes of a program.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use corelane::base::time::Instant;
use corelane::engine::clock::Clock;
use corelane::transport::tls::TlsStream;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::request_error::RequestError;
use crate::children::{ChildEvent, EXIT_TIMEOUT, ProcessPool, Program};
use crate::generator::run_config::CONNECT_HINT;
use crate::generator::{Endpoint, RunConfig};
use crate::metrics::process_group::ProcessGroup;
use crate::wire::tls::{describe_io_error, describe_tls_error};

/// Interval of checks for an event of a program.
const EVENT_POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Size of one read.
const READ_BYTES: usize = 64 << 10;

/// Result of a read.
#[derive(Debug)]
pub(super) enum ReadOutcome {
    /// These bytes arrived.
    Bytes(Vec<u8>),
    /// The stream ended, for this reason.
    End(String),
    /// Nothing arrived in time.
    Timeout,
}

/// A blocking byte stream.
#[derive(Debug)]
pub(super) enum ByteStream {
    /// A socket.
    Plain(TcpStream),
    /// A socket with TLS.
    Encrypted(Box<TlsStream<TcpStream>>),
    /// A program.
    Program(ProgramStream),
}

/// The pipes of a program, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct ProgramStream {
    /// Write end of the standard input and read end of the standard output. Closed before `pool` is
    /// dropped.
    pipes: Option<(File, File)>,
    pool: ProcessPool,
    clock: Clock,
}

impl ByteStream {
    /// Connects to the server, or starts its program. Returns the error with a correction.
    pub(super) fn open(config: &RunConfig, timeout: Duration) -> Result<Self, RequestError> {
        let addresses = match &config.endpoint {
            Endpoint::Program(program) => {
                let started = ProgramStream::start(program, timeout);
                return started.map(Self::Program).map_err(RequestError::Connect);
            }
            Endpoint::Addresses(addresses) => addresses,
        };
        let socket = connect(addresses, timeout).map_err(|error| {
            let why = format!("{error}; {CONNECT_HINT}");
            match error.kind() {
                ErrorKind::ConnectionRefused => RequestError::Refused(why),
                _ => RequestError::Connect(why),
            }
        })?;
        let Some(tls) = &config.tls else { return Ok(Self::Plain(socket)) };
        socket
            .set_read_timeout(Some(timeout))
            .and_then(|()| socket.set_write_timeout(Some(timeout)))
            .map_err(|error| RequestError::Connect(error.to_string()))?;
        let opened = TlsStream::open(tls.client(), socket, |_| Ok(()));
        let opened = opened.map_err(|error| RequestError::Connect(describe_tls_error(&error)))?;
        Ok(Self::Encrypted(Box::new(opened)))
    }

    /// Sends `bytes`, or returns the error.
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        let sent = match self {
            Self::Plain(socket) => socket.write_all(bytes),
            Self::Encrypted(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
            Self::Program(program) => match &mut program.pipes {
                Some((input, _)) => input.write_all(bytes),
                None => Err(ErrorKind::BrokenPipe.into()),
            },
        };
        match (sent, self) {
            (Ok(()), _) => Ok(()),
            // The reason is how the program ended.
            (Err(_), Self::Program(program)) => Err(program.end()),
            (Err(error), _) => Err(describe_io_error(&error)),
        }
    }

    /// Reads what arrives within `timeout`.
    pub(super) fn receive(&mut self, timeout: Duration) -> ReadOutcome {
        if timeout.is_zero() {
            return ReadOutcome::Timeout;
        }
        let mut buf = vec![0; READ_BYTES];
        let read = match self {
            Self::Plain(socket) => {
                socket.set_read_timeout(Some(timeout)).and_then(|()| socket.read(&mut buf))
            }
            Self::Encrypted(stream) => {
                let set = stream.stream().set_read_timeout(Some(timeout));
                set.and_then(|()| stream.read(&mut buf))
            }
            Self::Program(program) => match program.read(&mut buf, timeout) {
                Ok(0) => return ReadOutcome::End(program.end()),
                read => read,
            },
        };
        match read {
            Ok(0) => ReadOutcome::End("the server closed the connection".into()),
            Ok(len) => {
                buf.truncate(len);
                ReadOutcome::Bytes(buf)
            }
            Err(error) if is_timeout(&error) => ReadOutcome::Timeout,
            Err(error) => ReadOutcome::End(describe_io_error(&error)),
        }
    }
}

impl ProgramStream {
    fn start(program: &Program, timeout: Duration) -> Result<Self, String> {
        let pool = ProcessPool::new(program.clone(), Arc::new(ProcessGroup::default()));
        let pool = pool.map_err(|error| format!("no program can be started: {error}"))?;
        pool.start(0);
        let clock = Clock::start();
        match next_event(&pool, &clock, timeout) {
            Some(ChildEvent::Started { stdin, stdout, .. }) => {
                let pipes = Some((File::from(stdin), File::from(stdout)));
                Ok(Self { pipes, pool, clock })
            }
            Some(ChildEvent::Failed { message, .. } | ChildEvent::Exited { message, .. }) => {
                Err(message)
            }
            None => Err("the program did not start in time".into()),
        }
    }

    fn read(&mut self, buf: &mut [u8], timeout: Duration) -> io::Result<usize> {
        let Some((_, output)) = &mut self.pipes else { return Ok(0) };
        let timeout = Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        match poll(&mut [PollFd::new(output, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => Err(ErrorKind::TimedOut.into()),
            Ok(_) => output.read(buf),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends the program; returns how it ended, with the last lines of its standard error.
    fn end(&mut self) -> String {
        self.pipes = None;
        self.pool.stop(0);
        match next_event(&self.pool, &self.clock, EXIT_TIMEOUT * 3) {
            Some(ChildEvent::Exited { message, .. }) => message,
            _ => "the program closed its standard output".into(),
        }
    }
}

/// Waits for an event of the program.
fn next_event(pool: &ProcessPool, clock: &Clock, timeout: Duration) -> Option<ChildEvent> {
    let deadline = clock.now().after(timeout);
    loop {
        let event = pool.next_event();
        if event.is_some() || clock.now() >= deadline {
            return event;
        }
        thread::park_timeout(EVENT_POLL_INTERVAL);
    }
}

/// Connects to the first address that accepts.
fn connect(addresses: &[SocketAddr], timeout: Duration) -> io::Result<TcpStream> {
    let mut failed = io::Error::from(ErrorKind::AddrNotAvailable);
    for address in addresses {
        match TcpStream::connect_timeout(address, timeout) {
            Ok(socket) => {
                socket.set_nodelay(true)?;
                return Ok(socket);
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Returns how long it is until `deadline`.
pub(super) fn remaining(clock: &Clock, deadline: Instant) -> Duration {
    deadline.since(clock.now())
}
