//! How the connections of an I/O thread are opened: those to a numeric address, without a proxy and
//! without TLS, on the ring of the driver, others on a thread that may block.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::commands::{Command, SHARD};
use super::connect;
use super::connect::{OpenError, OpenStream, OpenStreams, Path};
use super::peer_settings::{PeerId, PeerSettings};
use super::process::ProgramCallback;
use crate::oauth::OAuthOptions;
use crate::proxy::Route;
use crate::target::{HostAddress, HttpEndpoint, Target};
use corelane_base::time::Instant;
use corelane_engine::blocking::{BlockingPool, Job, Reservation};
use corelane_engine::mesh::Sender;
use corelane_engine::ring::{Operation, Ring, Socket};
use corelane_engine::timer::TimerWheel;
use corelane_tls::TlsClient;

/// Threads that open connections: name resolution, the start of programs and TLS handshakes block.
/// Each peer that does not answer occupies one for the connect timeout. They are started as they
/// are needed.
const CONNECT_THREADS_MAX: usize = 256;
/// Connections that wait to be opened by a thread, and those that the ring opens at the same time.
const CONNECTS_MAX: usize = 65_536;

/// Opens connections: on the ring where nothing blocks, otherwise on threads, which report them by
/// commands.
pub struct Connector {
    on_ring: RingConnector,
    means: Means,
}

/// What opens the connections that the ring cannot.
enum Means {
    Threads(BlockingPool<ConnectJob>),
    /// Nothing: a simulation, where nothing happens outside the ring. The seed determines the
    /// delays between attempts.
    #[cfg(feature = "test-support")]
    Nothing {
        seed: u64,
    },
}

impl Connector {
    /// Creates a connector that starts a thread when it is needed.
    pub fn with_threads() -> Self {
        let threads = BlockingPool::new(CONNECT_THREADS_MAX, CONNECTS_MAX);
        Self { on_ring: RingConnector::new(), means: Means::Threads(threads) }
    }

    /// Creates a connector for a simulation. `seed` determines the delays between attempts.
    #[cfg(feature = "test-support")]
    pub fn simulated(seed: u64) -> Self {
        Self { on_ring: RingConnector::new(), means: Means::Nothing { seed } }
    }

    /// Begins to open a connection. Returns the report of one that cannot be opened now: this or,
    /// in its place, another.
    pub fn open<R: Ring>(
        &mut self,
        ring: &mut R,
        job: ConnectJob,
        now: Instant,
    ) -> Option<Command> {
        let too_many = || io::Error::other("too many connections are being opened");
        // A thread closes the socket of a peer that does not answer.
        if let Some(address) = address_of(&job).filter(|_| self.on_ring.has_room()) {
            if self.on_ring.len() >= CONNECTS_MAX {
                return Some(job.fail(too_many()));
            }
            self.on_ring.open(ring, job, address, now);
            return None;
        }
        match &mut self.means {
            Means::Threads(threads) => {
                let refused = match threads.spawn(job.peer, job) {
                    Ok(spawned) => spawned.displaced,
                    Err(job) => Some(job),
                };
                refused.map(|job| job.fail(too_many()))
            }
            #[cfg(feature = "test-support")]
            Means::Nothing { .. } => {
                let text = "a simulation opens only connections to numeric addresses without TLS";
                Some(job.fail(io::Error::new(io::ErrorKind::Unsupported, text)))
            }
        }
    }

    /// Returns the report of an attempt on the ring that has completed.
    pub fn report<R: Ring>(
        &mut self,
        ring: &mut R,
        token: u64,
        result: io::Result<Socket>,
    ) -> Option<Command> {
        self.on_ring.report(ring, token, result)
    }

    /// Returns the report of an attempt on the ring whose time is over.
    pub fn expire(&mut self, now: Instant) -> Option<Command> {
        self.on_ring.expire(now)
    }

    /// Returns when the time of an attempt on the ring may be over.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.on_ring.next_deadline()
    }

    /// Returns the seed of the delays between the attempts to connect to a server.
    pub fn backoff_seed(&self, peer: PeerId) -> u64 {
        match self.means {
            Means::Threads(_) => getrandom::u64().unwrap_or(peer.0),
            #[cfg(feature = "test-support")]
            Means::Nothing { seed } => seed ^ peer.0.rotate_left(32),
        }
    }

    /// Returns whether the driver may end.
    pub fn is_idle(&self) -> bool {
        match self.means {
            // What a thread opens later is closed with its command, what the ring opens with it.
            Means::Threads(_) => true,
            #[cfg(feature = "test-support")]
            Means::Nothing { .. } => self.on_ring.len() == 0,
        }
    }
}

/// What a connection is for.
pub enum Purpose {
    /// The messages of the server.
    Server { tls: Option<TlsClient>, on_event: Option<ProgramCallback> },
    /// A request of a flow of authorization, by its number.
    Flow { number: u64, oauth: Option<Arc<OAuthOptions>> },
}

/// Opens the streams of one server and reports them.
pub struct ConnectJob {
    pub peer: PeerId,
    pub purpose: Purpose,
    pub target: Arc<Target>,
    /// Connected to instead of the address of the target.
    pub address: Option<Arc<HostAddress>>,
    pub route: Route,
    pub timeout: Duration,
    pub commands: Sender<Command>,
}

impl ConnectJob {
    /// Creates the job for a server, or for the target of a request of a flow.
    pub fn new(
        peer: PeerId,
        settings: &PeerSettings,
        flow_target: Option<(u64, Arc<Target>)>,
        commands: Sender<Command>,
    ) -> Self {
        let PeerSettings { target, tls, connect, oauth, on_event, .. } = settings;
        let (purpose, target) = if let Some((number, target)) = flow_target {
            (Purpose::Flow { number, oauth: oauth.clone() }, target)
        } else {
            let (tls, on_event) = (tls.as_deref().cloned(), on_event.clone());
            (Purpose::Server { tls, on_event }, Arc::clone(target))
        };
        let is_flow = matches!(purpose, Purpose::Flow { .. });
        let address = connect.address.clone().filter(|_| !is_flow);
        let route = connect.proxies.route(&target);
        // The requests of a flow do not name the proxy.
        let route = if is_flow { route.tunnelled() } else { route };
        Self { peer, purpose, target, address, route, timeout: connect.timeout, commands }
    }

    /// Returns the report of a connection that is not opened because of `error`.
    pub fn fail(self, error: io::Error) -> Command {
        self.report(Err(OpenError::from(error)))
    }

    /// Returns the report of the streams that were opened.
    fn report(self, opened: Result<OpenStreams, OpenError>) -> Command {
        let opened = Box::new(opened);
        match self.purpose {
            Purpose::Server { .. } => Command::Opened(self.peer, opened),
            Purpose::Flow { number, .. } => Command::FlowOpened(self.peer, number, opened),
        }
    }
}

impl Job for ConnectJob {
    type Owner = PeerId;

    fn bytes(&self) -> usize {
        0
    }

    fn run(self, _: Reservation) {
        let Self { peer, target, address, route, timeout, commands, purpose } = self;
        let path = Path { target: &target, address: address.as_deref(), route: &route };
        let command = match purpose {
            Purpose::Server { tls, on_event } => {
                let opened = connect::open(path, tls.as_ref(), timeout, on_event);
                Command::Opened(peer, Box::new(opened))
            }
            Purpose::Flow { number, oauth } => {
                let tls = oauth.and_then(|oauth| oauth.tls_client(&target).transpose()).transpose();
                let tls = tls.map_err(|error| OpenError::from(io::Error::other(error)));
                let opened = tls.and_then(|tls| connect::open(path, tls.as_ref(), timeout, None));
                Command::FlowOpened(peer, number, Box::new(opened))
            }
        };
        // Fails once the thread has ended.
        drop(commands.send_while(SHARD, command, || true));
    }
}

/// Attempts that the kernel may go on with after their time. Each occupies a socket of the ring.
const UNFINISHED_MAX: usize = 1_024;

/// The connections that the ring is opening. They use no thread, and over `io_uring` no open file
/// of the process.
///
/// Invariant: each attempt is reported once: with its socket, its error, or the end of its time.
struct RingConnector {
    jobs: HashMap<u64, ConnectJob>,
    /// By token; of attempts that have ended, too, until then.
    deadlines: TimerWheel<u64>,
    last_token: u64,
    /// Attempts that were reported because their time was over, and that the kernel goes on with.
    unfinished: usize,
}

impl RingConnector {
    fn new() -> Self {
        Self { jobs: HashMap::new(), deadlines: TimerWheel::new(), last_token: 0, unfinished: 0 }
    }

    /// Begins to open the connection of `job` to `address`.
    fn open<R: Ring>(&mut self, ring: &mut R, job: ConnectJob, address: SocketAddr, now: Instant) {
        self.last_token += 1;
        let token = self.last_token;
        self.deadlines.insert(now.after(job.timeout), token);
        self.jobs.insert(token, job);
        ring.submit(Operation::Connect { address, local_address: None, keepalive: true, token });
    }

    /// Returns the report of an attempt that has completed. The socket of one whose time is over
    /// is closed.
    fn report<R: Ring>(
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
    fn expire(&mut self, now: Instant) -> Option<Command> {
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
    const fn has_room(&self) -> bool {
        self.unfinished < UNFINISHED_MAX
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.next_deadline()
    }

    /// Returns the number of attempts.
    fn len(&self) -> usize {
        self.jobs.len()
    }
}

/// Returns the address that the ring can open, if it can open the connection of `job`.
fn address_of(job: &ConnectJob) -> Option<SocketAddr> {
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
