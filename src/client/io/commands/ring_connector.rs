//! Opens connections on the ring of the driver: those to a numeric address, without a proxy and
//! without TLS. They use no thread, and over `io_uring` no open file of the process.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;

use super::command::Command;
use super::connect_job::{ConnectJob, Purpose};
use crate::io::connect::{OpenError, OpenStream, OpenStreams};
use crate::proxy::Route;
use crate::target::{HttpEndpoint, Target};
use corelane_base::time::Instant;
use corelane_engine::ring::{Operation, Ring, Socket};
use corelane_engine::timer::TimerWheel;

/// Attempts that the kernel may go on with after their time. Each occupies a socket of the ring.
const UNFINISHED_MAX: usize = 1_024;

/// The connections that are being opened.
///
/// Invariant: each attempt is reported once: with its socket, its error, or the end of its time.
pub(super) struct RingConnector {
    jobs: HashMap<u64, ConnectJob>,
    /// By token; of attempts that have ended, too, until then.
    deadlines: TimerWheel<u64>,
    last_token: u64,
    /// Attempts that were reported because their time was over, and that the kernel goes on with.
    unfinished: usize,
}

impl RingConnector {
    pub(super) fn new() -> Self {
        Self { jobs: HashMap::new(), deadlines: TimerWheel::new(), last_token: 0, unfinished: 0 }
    }

    /// Begins to open the connection of `job` to `address`.
    pub(super) fn open<R: Ring>(
        &mut self,
        ring: &mut R,
        job: ConnectJob,
        address: SocketAddr,
        now: Instant,
    ) {
        self.last_token += 1;
        let token = self.last_token;
        self.deadlines.insert(now.after(job.timeout), token);
        self.jobs.insert(token, job);
        ring.submit(Operation::Connect { address, local_address: None, keepalive: true, token });
    }

    /// Returns the report of an attempt that has completed. The socket of one whose time is over
    /// is closed.
    pub(super) fn report<R: Ring>(
        &mut self,
        ring: &mut R,
        token: u64,
        result: io::Result<Socket>,
    ) -> Option<Command> {
        let streams = |socket| {
            let receive = OpenStream::Socket(socket);
            OpenStreams { receive, send: None, tls: None, process: None }
        };
        let opened = result.map(streams).map_err(|error| {
            // The table of sockets is full: the process may have files to spare.
            let is_full = error.raw_os_error() == Some(rustix::io::Errno::NFILE.raw_os_error());
            let text = "the I/O thread has as many sockets as its ring can have";
            OpenError::from(if is_full { io::Error::other(text) } else { error })
        });
        if let Some(job) = self.jobs.remove(&token) {
            return Some(job.report(opened));
        }
        self.unfinished = self.unfinished.saturating_sub(1);
        if let Ok(streams) = opened {
            streams.close(ring);
        }
        None
    }

    /// Returns the report of an attempt whose time is over. The kernel goes on with it.
    pub(super) fn expire(&mut self, now: Instant) -> Option<Command> {
        loop {
            let token = self.deadlines.pop_expired(now)?;
            if let Some(job) = self.jobs.remove(&token) {
                self.unfinished += 1;
                let error = io::Error::new(io::ErrorKind::TimedOut, "connection timed out");
                return Some(job.fail(error));
            }
        }
    }

    /// Returns whether so few attempts are unfinished that others may begin.
    pub(super) const fn has_room(&self) -> bool {
        self.unfinished < UNFINISHED_MAX
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.next_deadline()
    }

    /// Returns the number of attempts.
    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }
}

/// Returns the address that the ring can open, if it can open the connection of `job`.
pub(super) fn address_of(job: &ConnectJob) -> Option<SocketAddr> {
    let (Target::Http(HttpEndpoint { host, port, .. })
    | Target::WebSocket(HttpEndpoint { host, port, .. })
    | Target::Tcp { host, port }) = &*job.target
    else {
        return None;
    };
    let is_plain = match &job.purpose {
        Purpose::Server { tls, .. } => tls.is_none(),
        Purpose::Flow { .. } => job.target.encrypted_host().is_none(),
    };
    let is_direct = matches!(job.route, Route::Direct);
    let of_target = (host.as_str(), *port);
    let (host, port) = job.address.as_ref().map_or(of_target, |it| (it.host.as_str(), it.port));
    let address = host.parse().ok().filter(|_| is_direct && is_plain)?;
    Some(SocketAddr::new(address, port))
}
