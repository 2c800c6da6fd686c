//! Start and end of an I/O thread, and of the driver of clients on a shard of a server; the I/O of
//! the calling thread.

mod peer_ref;

use std::cell::RefCell;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};
use std::thread::ThreadId;
use std::{fmt, io};

use crossbeam::channel::bounded;

pub use self::peer_ref::{ParityPeerRef, PeerRef};
use super::call_slot::stopped;
use super::commands::{Command, OwnCommands, SHARD};
use super::connector::Connector;
use super::driver::IoDriver;
use super::tasks::{IoTask, NewTask};
use crate::error::{ClientError, ClientErrorKind};
use crate::sync::block_on;
use corelane_engine::clock::Clock;
use corelane_engine::driver_pair::{AttachedDriver, DriverFactory};
use corelane_engine::executor::native;
use corelane_engine::mesh::{Endpoint, MeshOptions, Sender, TrySendError, build_mesh};
use corelane_engine::ring::poll::PollRing;
#[cfg(target_os = "linux")]
use corelane_engine::ring::uring::UringRing;
use corelane_engine::ring::{Ring, RingOptions, Waker};
use corelane_engine::shard_loop::ShardLoop;

/// A thread that moves the bytes of clients, over `io_uring` or, where that is not available, over
/// the readiness interface of the system. It ends when the last handle is dropped.
///
/// A shard of a server that runs clients is one too ([`ClientPool::on_shards`]), over the ring of
/// the shard: [`IoThread::current`] returns it. It ends with its server.
///
/// [`ClientPool::on_shards`]: crate::ClientPool::on_shards
#[derive(Clone)]
pub struct IoThread {
    shared: Arc<Shared>,
}

struct Shared {
    commands: Sender<Command>,
    /// `None` if the caller runs the loop: every command passes through the inbox.
    thread: Option<ThreadId>,
    last_peer: AtomicU64,
    /// The thread ends with the last handle.
    is_owned: bool,
}

thread_local! {
    /// The calling thread. [`std::thread::current`] costs two atomic operations each time.
    static THREAD: ThreadId = std::thread::current().id();
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.is_owned {
            // Fails if the thread has ended.
            drop(self.send(Command::Stop));
        }
    }
}

impl Shared {
    /// Creates the state of the handles of the calling thread.
    fn new(commands: Sender<Command>, is_owned: bool) -> Self {
        let thread = Some(std::thread::current().id());
        Self { commands, thread, last_peer: AtomicU64::new(0), is_owned }
    }

    /// Passes a command to the thread when it has read some of those of other threads. Another I/O
    /// thread or shard does not wait for long: it may have as many commands of this thread.
    #[cold]
    fn send_to_full(&self, command: Command) -> Result<(), ClientError> {
        let mut attempts = 0;
        let retry = || {
            attempts += 1;
            attempts <= ATTEMPTS_OF_IO_THREAD || !Current::is_set()
        };
        self.commands.send_while(SHARD, command, retry).map_err(|_| {
            if self.commands.has_ended(SHARD) {
                return stopped();
            }
            let text = "too many commands of other threads wait for the I/O thread";
            ClientError::new(ClientErrorKind::Busy, text)
        })
    }

    /// Passes a command to the thread; waits while it has too many of other threads.
    fn send(&self, command: Command) -> Result<(), ClientError> {
        if THREAD.with(|thread| Some(*thread) == self.thread) {
            return OwnCommands::push(command).map_err(|()| stopped());
        }
        match self.commands.try_send(SHARD, command) {
            Ok(()) => Ok(()),
            Err(TrySendError::Closed(_)) => Err(stopped()),
            Err(TrySendError::Full(command)) => self.send_to_full(command),
        }
    }
}

/// Attempts of an I/O thread to pass a command to another one, 50 µs apart.
const ATTEMPTS_OF_IO_THREAD: u32 = 100;

/// Sizes of the ring: queues are locked memory.
const RING_OPTIONS: RingOptions = RingOptions {
    sockets_max: 16_384,
    submissions_max: 1_024,
    completions_max: 4_096,
    receive_buffers: 256,
    receive_buffer_bytes: 8_192,
    burst_buffers_max: 64,
    accepts_in_flight: 1,
    zero_copy_bytes_min: u32::MAX,
};

impl IoThread {
    /// Starts a thread.
    ///
    /// # Errors
    ///
    /// The error of the system if it grants no thread or no ring.
    pub fn start() -> io::Result<Self> {
        let (mut endpoints, commands) = build_mesh(1, &MeshOptions::default());
        let endpoint = endpoints.pop().ok_or_else(|| io::Error::other("a mesh without shards"))?;
        let (started_tx, started_rx) = bounded(1);
        let run = move || {
            let sender = commands.clone();
            let started = || {
                let thread = Self::new(Shared::new(commands, true));
                CURRENT.set(Current::Thread(Arc::downgrade(&thread.shared)));
                // Fails if the starting thread is gone.
                drop(started_tx.send(Ok(thread)));
            };
            let clock = Clock::start();
            #[cfg(target_os = "linux")]
            if let Ok(ring) = UringRing::new(&RING_OPTIONS, clock) {
                started();
                return run(ring, endpoint, sender);
            }
            match PollRing::new(&RING_OPTIONS, clock) {
                Ok(ring) => {
                    started();
                    run(ring, endpoint, sender);
                }
                Err(error) => drop(started_tx.send(Err(error))),
            }
        };
        std::thread::Builder::new().name("corelane-client".into()).spawn(run)?;
        started_rx.recv().unwrap_or_else(|_| Err(io::Error::other("the I/O thread has ended")))
    }

    fn new(shared: Shared) -> Self {
        Self { shared: Arc::new(shared) }
    }

    /// Returns the thread that runs the caller: in a task of [`IoThread::spawn`], and in the
    /// handlers on a shard of a server that runs clients. `None` on every other thread.
    ///
    /// A client of it ([`ClientBuilder::io_thread`](crate::ClientBuilder::io_thread)) is
    /// called without a wake-up of another thread, and can be called from others too.
    pub fn current() -> Option<Self> {
        Current::thread()
    }

    /// Returns the shard that runs the caller.
    pub(crate) fn current_shard() -> Option<Self> {
        Current::shard()
    }

    /// Creates the loop of a thread over `ring`, for the caller to run: a simulation. The ring
    /// opens the connections, to numeric addresses without TLS; `seed` determines the delays
    /// between attempts. The loop must run before its inbox is full, which holds 4,096 commands.
    ///
    /// # Errors
    ///
    /// If the loop cannot be created.
    #[cfg(feature = "test-support")]
    pub fn simulated<R: Ring>(ring: R, seed: u64) -> io::Result<(Self, ShardLoop<R, IoDriver>)> {
        let (mut endpoints, commands) = build_mesh(1, &MeshOptions::default());
        let endpoint = endpoints.pop().ok_or_else(|| io::Error::other("a mesh without shards"))?;
        let connector = Connector::simulated(seed);
        let shard = shard_loop(ring, endpoint, commands.clone(), connector);
        let mut shared = Shared::new(commands, true);
        shared.thread = None;
        Ok((Self::new(shared), shard))
    }

    /// Runs a task on this thread, between the turns of the I/O: its requests to clients of this
    /// thread cross no thread, which is the fastest way to make many. `make` makes the future on
    /// the thread, so it need not be [`Send`]; the future must not block.
    ///
    /// # Errors
    ///
    /// [`ClientErrorKind::Closed`], also for the task, if the thread has ended, or the task has
    /// panicked.
    pub fn spawn<F, O>(&self, make: F) -> Result<IoTask<O::Output>, ClientError>
    where
        F: FnOnce() -> O + Send + 'static,
        O: Future + 'static,
        O::Output: Send + 'static,
    {
        let (task, output) = NewTask::new(make);
        self.send(Command::Spawn(task))?;
        Ok(output)
    }

    fn send(&self, command: Command) -> Result<(), ClientError> {
        self.shared.send(command)
    }

    /// Blocks the calling thread until `request` ends, unless the thread is this one.
    fn wait<O>(
        &self,
        request: impl IntoFuture<Output = Result<O, ClientError>>,
    ) -> Result<O, ClientError> {
        if Some(std::thread::current().id()) == self.shared.thread {
            let text = "this thread does the I/O of the client, and must not wait for it: await \
                        the request";
            return Err(ClientError::new(ClientErrorKind::InvalidInput, text));
        }
        block_on(request)
    }
}

impl fmt::Debug for IoThread {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("IoThread").finish_non_exhaustive()
    }
}

/// Runs the thread over `ring` until it is stopped.
fn run<R: Ring>(ring: R, endpoint: Endpoint<Command>, sender: Sender<Command>) {
    native::run_shard(&mut shard_loop(ring, endpoint, sender, Connector::with_threads()));
}

fn shard_loop<R: Ring>(
    ring: R,
    endpoint: Endpoint<Command>,
    sender: Sender<Command>,
    connector: Connector,
) -> ShardLoop<R, IoDriver> {
    let waker = ring.waker();
    let driver = IoDriver::new(endpoint.open(waker.clone()), sender, waker, connector);
    ShardLoop::new(ring, driver)
}

thread_local! {
    static CURRENT: RefCell<Current> = const { RefCell::new(Current::None) };
}

/// What drives clients on a thread.
enum Current {
    None,
    /// A thread that ends with its last handle.
    Thread(Weak<Shared>),
    /// A shard of a server, which ends with its server.
    Shard(IoThread),
}

impl Current {
    /// Returns whether the calling thread does I/O.
    fn is_set() -> bool {
        Self::with(|current| !matches!(current, Self::None)).unwrap_or(false)
    }

    /// Returns the I/O of the calling thread.
    fn thread() -> Option<IoThread> {
        Self::with(|current| match current {
            Self::None => None,
            Self::Thread(shared) => shared.upgrade().map(|shared| IoThread { shared }),
            Self::Shard(io) => Some(io.clone()),
        })
        .flatten()
    }

    /// Returns the I/O of the calling thread if that is a shard.
    fn shard() -> Option<IoThread> {
        Self::with(|current| match current {
            Self::Shard(io) => Some(io.clone()),
            Self::None | Self::Thread(_) => None,
        })
        .flatten()
    }

    /// Reads the I/O of the calling thread; `None` if the thread is ending.
    fn with<O>(read: impl FnOnce(&Self) -> O) -> Option<O> {
        CURRENT.try_with(|current| read(&current.borrow())).ok()
    }
}

/// Has each shard of a server drive clients.
#[derive(Debug)]
pub struct ShardIo;

/// Commands of other threads that may wait; those of the shard itself do not count.
const COMMANDS_MAX: u32 = 1_024;

impl DriverFactory for ShardIo {
    fn create(&self, waker: Waker) -> Box<dyn AttachedDriver> {
        let options = MeshOptions { inbox_messages_max: COMMANDS_MAX, ..MeshOptions::default() };
        let (mut endpoints, commands) = build_mesh(1, &options);
        let endpoint = endpoints.pop().expect("a mesh of one shard has one endpoint");
        let driver = IoDriver::new(
            endpoint.open(waker.clone()),
            commands.clone(),
            waker,
            Connector::with_threads(),
        );
        CURRENT.set(Current::Shard(IoThread::new(Shared::new(commands, false))));
        Box::new(driver)
    }

    fn sockets_max(&self) -> u32 {
        RING_OPTIONS.sockets_max
    }
}

impl AttachedDriver for IoDriver {
    fn begin_stop(&mut self) {
        // Fails if the thread is ending.
        OwnCommands::push(Command::Stop).unwrap_or(());
    }
}
