//! Opens connections on a ring, so that nothing happens outside it.
//!
//! Only for simulations: hosts are numeric addresses, and neither proxies, TLS nor programs are
//! supported. The time of an attempt is that of the ring.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;

use super::command::{Command, PeerId};
use super::connect_job::{ConnectJob, Purpose};
use crate::client::io::connect::{OpenError, OpenStream, OpenStreams};
use crate::client::proxy::Route;
use crate::client::target::{HttpEndpoint, Target};
use crate::engine::ring::{Operation, Ring, Socket};

/// The connections that are being opened.
pub(in crate::client::io) struct RingConnector {
    seed: u64,
    jobs: BTreeMap<u64, ConnectJob>,
    last_token: u64,
}

impl RingConnector {
    /// Creates a connector. `seed` determines the delays between attempts.
    pub(in crate::client::io) const fn new(seed: u64) -> Self {
        Self { seed, jobs: BTreeMap::new(), last_token: 0 }
    }

    /// Begins to open a connection. Returns the report of one that cannot be opened.
    pub(super) fn open<R: Ring>(&mut self, ring: &mut R, job: ConnectJob) -> Option<Command> {
        let address = match address_of(&job) {
            Ok(address) => address,
            Err(error) => return Some(job.fail(error)),
        };
        self.last_token += 1;
        let token = self.last_token;
        self.jobs.insert(token, job);
        ring.submit(Operation::Connect { address, local_address: None, token });
        None
    }

    /// Returns the report of an attempt that has completed.
    pub(super) fn report(&mut self, token: u64, result: io::Result<Socket>) -> Option<Command> {
        let streams = |socket| {
            let receive = OpenStream::Socket(socket);
            OpenStreams { receive, send: None, tls: None, process: None }
        };
        let job = self.jobs.remove(&token)?;
        Some(job.report(result.map(streams).map_err(OpenError::from)))
    }

    pub(super) const fn backoff_seed(&self, peer: PeerId) -> u64 {
        self.seed ^ peer.0.rotate_left(32)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.jobs.is_empty()
    }
}

fn address_of(job: &ConnectJob) -> io::Result<SocketAddr> {
    let unsupported = |text| Err(io::Error::new(io::ErrorKind::Unsupported, text));
    let (Target::Http(HttpEndpoint { host, port, .. })
    | Target::WebSocket(HttpEndpoint { host, port, .. })
    | Target::Tcp { host, port }) = &*job.target
    else {
        return unsupported("the ring opens only connections of TCP without TLS");
    };
    if !matches!(job.route, Route::Direct) {
        return unsupported("the ring opens no connections through proxies");
    }
    if matches!(&job.purpose, Purpose::Server { tls: Some(_), .. }) {
        return unsupported("the ring opens no connections of TLS");
    }
    match host.parse() {
        Ok(address) => Ok(SocketAddr::new(address, *port)),
        Err(error) => Err(io::Error::new(io::ErrorKind::InvalidInput, error)),
    }
}
