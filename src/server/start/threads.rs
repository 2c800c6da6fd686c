//! The shard threads: each creates its ring, reports readiness, and runs its shard to the end.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use corelane_engine::clock::Clock;
use corelane_engine::driver_pair::{AttachedDriver, DriverPair};
#[cfg(all(target_os = "linux", feature = "glommio"))]
use corelane_engine::executor::glommio::{self, GlommioExecutor};
use corelane_engine::executor::thread_group::{
    self, FailureCause, ShardFailure, ThreadGroup, ThreadHandle,
};
use corelane_engine::executor::{Executor, NativeExecutor, native};
use corelane_engine::mesh::ShardId;
use corelane_engine::placement::Placement;
use corelane_engine::process::raise_open_files_limit;
use corelane_engine::ring::poll::PollRing;
#[cfg(target_os = "linux")]
use corelane_engine::ring::uring::UringRing;
use corelane_engine::ring::{Registered, Ring, RingOptions, SocketLimit, Source};

use super::limits::{connections_max, silent_connections_max};
use super::proxies::ProxyListener;
use super::shard_builder::{ShardBuilder, ShardInput};
use super::tls::TlsListener;
use crate::connection::proxy_protocol::ProxyRing;
use crate::connection::tls::TlsRing;
use crate::server::acceptance::ListenerKind;
use crate::server::diagnostics::CounterSnapshots;
use crate::server::options::{ExecutorKind, Options, RingBackend};
use crate::service::CatalogError;
use crate::telemetry::counters::Counters;
use crate::telemetry::event::Event;
use crate::telemetry::label::Transport;

/// The descriptors of a shard's connections, before they are registered with a ring.
#[derive(Debug)]
pub enum InputFds {
    /// Listening sockets of this shard.
    Listeners(Vec<ListenerFd>),
    /// One connection over two pipes (stdio).
    Pipes { input: OwnedFd, output: OwnedFd },
}

/// A listening socket of a shard.
#[derive(Debug)]
pub struct ListenerFd {
    pub descriptor: OwnedFd,
    pub kind: ListenerKind,
    /// `None` if its connections are not encrypted.
    pub tls: Option<TlsListener>,
    /// `None` if its connections begin without a header of the PROXY protocol.
    pub proxies: Option<ProxyListener>,
}

#[derive(Debug)]
pub struct ShardThreads {
    threads: ThreadGroup<Counters>,
}

/// Starts a thread per builder and returns when every one has its ring and inputs. Each publishes
/// its counters when it ends. A shard that fails later calls `on_failure` on its thread.
pub fn start(
    placement: &Placement,
    loads: Vec<(ShardBuilder, InputFds)>,
    snapshots: &Arc<CounterSnapshots>,
    on_failure: impl Fn() + Send + Sync + 'static,
) -> Result<ShardThreads, StartError> {
    let snapshots = Arc::clone(snapshots);
    let on_failure = move |failure: &ShardFailure| {
        Event::ShardFailed { shard: failure.shard.0, cause: &failure.to_string() }.emit();
        on_failure();
    };
    let run = move |(builder, sources): (ShardBuilder, InputFds), thread: &ThreadHandle<_>| {
        let shard = builder.shard_id();
        let counters = run_shard_thread(builder, sources, thread)?;
        snapshots.publish_last(shard, counters.clone());
        Ok(counters)
    };
    let threads = thread_group::spawn_threads("corelane", placement, loads, run, on_failure);
    Ok(ShardThreads { threads: threads? })
}

/// Runs one shard thread with the best ring that the system grants and the options allow.
fn run_shard_thread(
    builder: ShardBuilder,
    sources: InputFds,
    thread: &ThreadHandle<Counters>,
) -> io::Result<Counters> {
    let options = builder.options();
    let mut sizes = match sources {
        InputFds::Listeners(_) => ring_sizes(options),
        InputFds::Pipes { .. } => pipe_sizes(options),
    };
    if builder.attached().is_some() {
        add_attached_queues(&mut sizes, &options.engine.ring_sizes);
    }
    let clock = Clock::start();
    #[cfg(target_os = "linux")]
    if options.engine.ring != RingBackend::Poll {
        match UringRing::new(&sizes, clock) {
            Ok(ring) => return run(ring, builder, sources, thread),
            Err(error) if options.engine.ring == RingBackend::Uring => return Err(error),
            // glommio needs io_uring, so there is no fallback.
            Err(error) if options.engine.executor == ExecutorKind::Glommio => return Err(error),
            Err(error) => Event::RingUnavailable {
                ring: "io_uring",
                cause: &error.to_string(),
                hint: "none needed: epoll or kqueue is used instead",
                fallback: Some("poll"),
            }
            .emit(),
        }
    }
    #[cfg(not(target_os = "linux"))]
    if options.engine.ring == RingBackend::Uring {
        let text = "this system has no io_uring; use --ring poll";
        return Err(io::Error::new(io::ErrorKind::Unsupported, text));
    }
    if options.engine.executor == ExecutorKind::Glommio {
        // glommio's own event loop is io_uring, so it cannot run on a polling ring.
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "the glommio executor requires io_uring; use --executor native",
        ));
    }
    // The sockets of io_uring that are registered take none of its slots.
    let attached = builder.attached().map_or(0, |attached| attached.sockets_max());
    sizes.sockets_max = sizes.sockets_max.saturating_add(attached);
    run(PollRing::new(&sizes, clock)?, builder, sources, thread)
}

/// Entries of the queues of a ring that an attached driver shares, unless the options have fewer.
const ATTACHED_QUEUE: (u32, u32) = (1_024, 4_096);

/// Enlarges queues that fit the connections of the server only.
fn add_attached_queues(sizes: &mut RingOptions, options: &RingOptions) {
    let (submissions, completions) = ATTACHED_QUEUE;
    sizes.submissions_max = sizes.submissions_max.max(submissions.min(options.submissions_max));
    sizes.completions_max = sizes.completions_max.max(completions.min(options.completions_max));
}

/// The ring sizes of one shard: no more slots than connections, and queues to match those with a
/// place, because queues are locked memory (`RLIMIT_MEMLOCK`).
pub(super) fn ring_sizes(options: &Options) -> RingOptions {
    let sizes = options.engine.ring_sizes;
    let served_max = sizes.sockets_max.min(connections_max(options));
    let completions_max = sizes.completions_max.min((2 * served_max).next_power_of_two());
    let submissions_max = sizes.submissions_max.min(completions_max);
    let open_max = connections_max(options).saturating_add(silent_connections_max(options, 1));
    let sockets_max = sizes.sockets_max.min(open_max);
    RingOptions { sockets_max, submissions_max, completions_max, ..sizes }
}

/// The ring sizes for two pipes: few but large buffers.
fn pipe_sizes(options: &Options) -> RingOptions {
    RingOptions {
        sockets_max: 2,
        submissions_max: 64,
        completions_max: 256,
        receive_buffers: 16,
        receive_buffer_bytes: options.stdio.buffer_bytes,
        ..options.engine.ring_sizes
    }
}

/// Runs a shard over `ring` until it has drained, on the configured executor.
fn run<R: Ring>(
    ring: R,
    builder: ShardBuilder,
    sources: InputFds,
    thread: &ThreadHandle<Counters>,
) -> io::Result<Counters> {
    let description = ring.describe();
    let mut ring = TlsRing::new(ProxyRing::new(ring));
    let inputs = register_inputs(&mut ring, sources)?;
    // Before the state of the shard, which may use it.
    let attached = builder.attached().map(|factory| factory.create(ring.waker()));
    match builder.options().engine.executor {
        ExecutorKind::Auto | ExecutorKind::Native => {
            let executor: Rc<dyn Executor> = Rc::new(NativeExecutor::new(ring.waker()));
            let mut shard = builder.build(ring, executor, &inputs)?;
            if !thread.report_ready(description) {
                return Ok(Counters::default());
            }
            let Some(attached) = attached else {
                native::run_shard(&mut shard);
                return Ok(shard.driver().counters());
            };
            let mut shard = shard.map_driver(|shard| DriverPair::new(shard, attached));
            native::run_shard(&mut shard);
            Ok(shard.driver().shard().counters())
        }
        ExecutorKind::Glommio => {
            run_on_glommio(ring, builder, &inputs, attached, thread, description)
        }
    }
}

/// Runs a shard as the root task of a glommio executor.
#[cfg(all(target_os = "linux", feature = "glommio"))]
fn run_on_glommio<R: Ring>(
    ring: R,
    builder: ShardBuilder,
    inputs: &[ShardInput],
    attached: Option<Box<dyn AttachedDriver>>,
    thread: &ThreadHandle<Counters>,
    description: String,
) -> io::Result<Counters> {
    glommio::enter_executor(async |executor: Rc<GlommioExecutor>| {
        let mut shard = builder.build(ring, Rc::<GlommioExecutor>::clone(&executor), inputs)?;
        if !thread.report_ready(description) {
            return Ok(Counters::default());
        }
        let Some(attached) = attached else {
            glommio::run_shard(&mut shard, &executor).await?;
            return Ok(shard.driver().counters());
        };
        let mut shard = shard.map_driver(|shard| DriverPair::new(shard, attached));
        glommio::run_shard(&mut shard, &executor).await?;
        Ok(shard.driver().shard().counters())
    })
}

/// Fails: this build has no glommio.
#[cfg(not(all(target_os = "linux", feature = "glommio")))]
fn run_on_glommio<R: Ring>(
    _: R,
    _: ShardBuilder,
    _: &[ShardInput],
    _: Option<Box<dyn AttachedDriver>>,
    _: &ThreadHandle<Counters>,
    _: String,
) -> io::Result<Counters> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "this build has no glommio (feature \"glommio\", Linux only); use --executor native",
    ))
}

/// Registers the descriptors of a shard with its ring.
fn register_inputs<R: Ring>(
    ring: &mut TlsRing<ProxyRing<R>>,
    sources: InputFds,
) -> io::Result<Vec<ShardInput>> {
    match sources {
        InputFds::Listeners(listeners) => {
            listeners.into_iter().map(|source| register_listener(ring, source)).collect()
        }
        InputFds::Pipes { input, output } => {
            let sockets =
                (ring.register(Source::Pipe(input))?, ring.register(Source::Pipe(output))?);
            match sockets {
                (Registered::Socket(input), Registered::Socket(output)) => {
                    let transport = Transport::Stdio;
                    Ok(vec![ShardInput::OnlyConnection { input, output, transport }])
                }
                _ => Err(io::Error::other("the ring registered a pipe as a listener")),
            }
        }
    }
}

fn register_listener<R: Ring>(
    ring: &mut TlsRing<ProxyRing<R>>,
    ListenerFd { descriptor, kind, tls, proxies }: ListenerFd,
) -> io::Result<ShardInput> {
    let Registered::Listener(listener) = ring.register(Source::Listener(descriptor))? else {
        return Err(io::Error::other("the ring registered a listener as a socket"));
    };
    if let Some(ProxyListener { trusted, counters }) = proxies {
        ring.inner_mut().expect_headers(listener, &trusted, &counters);
    }
    if let Some(TlsListener { slot, limits, counters, threads }) = tls {
        ring.encrypt(listener, slot, limits, &counters, &threads);
    }
    Ok(match kind {
        ListenerKind::Clients(transport) => ShardInput::Listener { listener, transport },
        ListenerKind::Operators => ShardInput::AdminListener { listener },
    })
}

impl ShardThreads {
    /// Logs the executor, the rings and the connection capacity; on stdio that is one connection.
    pub fn log_started(&self, options: &Options, placement: &Placement, is_piped: bool) {
        let granted = self.threads.descriptions();
        let ring = granted.first().and_then(|granted| granted.split(' ').next()).unwrap_or("poll");
        let shards = u16::try_from(placement.shard_count()).unwrap_or(u16::MAX);
        let (connections_max, bound) = if is_piped {
            (1, "standard input and output")
        } else {
            connection_capacity(options, shards, ring == "io_uring", raise_open_files_limit())
        };
        let spots = (0..shards).map(|shard| placement.cpu_of(ShardId(shard)));
        let cpus: Vec<String> = spots.clone().flatten().map(|spot| spot.cpu.to_string()).collect();
        let cpus = if cpus.is_empty() { "any".to_owned() } else { cpus.join(",") };
        let executor = match options.engine.executor {
            ExecutorKind::Auto | ExecutorKind::Native => "native",
            ExecutorKind::Glommio => "glommio",
        };
        Event::Started { ring, executor, shards, cpus: &cpus, connections_max, bound }.emit();
        for ((shard, granted), spot) in (0_u16..).zip(granted).zip(spots) {
            Event::RingOpened { shard, ring: granted }.emit();
            let node = spot.and_then(|spot| spot.node);
            let sibling = spot.filter(|spot| spot.core != spot.cpu).map(|spot| spot.core);
            let cpu = spot.map(|spot| spot.cpu);
            Event::ShardStarted { shard, cpu, node, sibling }.emit();
        }
    }

    /// Waits for every shard and returns the sum of their counters; once.
    pub fn join(&mut self) -> Result<Counters, StartError> {
        Ok(sum(&self.threads.join()?))
    }

    /// [`ShardThreads::join`] as a task.
    pub fn poll_join(&mut self, context: &Context<'_>) -> Poll<Result<Counters, StartError>> {
        self.threads.poll_join(context).map(|ended| Ok(sum(&ended?)))
    }
}

fn sum(shards: &[Counters]) -> Counters {
    let mut total = Counters::default();
    for counters in shards {
        total.add(counters);
    }
    total
}

/// Returns the maximum number of open connections over all listeners and what limits it, given the
/// `descriptors_max` of a process or ring.
fn connection_capacity(
    options: &Options,
    shards: u16,
    has_slots: bool,
    descriptors_max: u32,
) -> (u64, &'static str) {
    let (wanted, bound) = options.connections_max();
    let descriptors = u64::from(descriptors_max);
    let slots = u64::from(ring_sizes(options).sockets_max).min(descriptors);
    let files_spare = u64::from(SocketLimit::OpenFiles(descriptors_max).spare());
    let slots_spare = SocketLimit::SocketsMax(u32::try_from(slots).unwrap_or(u32::MAX)).spare();
    let slots_spare = if slots < descriptors { slots_spare.into() } else { files_spare };
    // With polling, connections share the process's descriptors with listeners and files.
    let granted = if has_slots {
        (slots - slots_spare) * u64::from(shards)
    } else {
        descriptors.saturating_sub(64 + files_spare)
    };
    if wanted <= granted {
        (wanted, bound)
    } else if has_slots && slots < descriptors {
        (granted, "ring.sockets_max times shards")
    } else if has_slots {
        (granted, "the limit of open files times shards")
    } else {
        (granted, "the limit of open files")
    }
}

/// Why a server did not start, or failed. The text names the cause and what to do; `Debug` prints
/// it, too, because that is what a `main` that returns the error shows.
#[non_exhaustive]
pub enum StartError {
    /// The catalog does not fit the server.
    Catalog(CatalogError),
    /// An operating system error.
    System(io::Error),
    /// A shard's thread panicked, which is a bug.
    Shard(String),
}

impl fmt::Display for StartError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Catalog(error) => error.fmt(formatter),
            Self::System(error) => error.fmt(formatter),
            Self::Shard(cause) => write!(formatter, "a shard failed: {cause}"),
        }
    }
}

impl fmt::Debug for StartError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Catalog(error) => Some(error),
            Self::System(error) => Some(error),
            Self::Shard(_) => None,
        }
    }
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl From<CatalogError> for StartError {
    fn from(error: CatalogError) -> Self {
        Self::Catalog(error)
    }
}

impl From<ShardFailure> for StartError {
    fn from(failure: ShardFailure) -> Self {
        let text = failure.to_string();
        match failure.cause {
            FailureCause::Io(error) => Self::System(error),
            FailureCause::Panicked(_) => Self::Shard(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the capacity of two listeners with these limits, over two shards.
    fn capacity_of(
        tcp: u32,
        http: u32,
        sockets_max: u32,
        has_slots: bool,
        descriptors_max: u32,
    ) -> (u64, &'static str) {
        let mut options = Options::default();
        (options.tcp.connections_max, options.http.connections_max) = (tcp, http);
        options.websocket.path = None;
        options.engine.ring_sizes.sockets_max = sockets_max;
        connection_capacity(&options, 2, has_slots, descriptors_max)
    }

    #[test]
    fn capacity_is_least_of_all_limits() {
        let both = "tcp.connections_max and http.connections_max";
        assert_eq!(capacity_of(100, 50, 1000, true, 1000), (150, both));
        assert_eq!(
            capacity_of(1000, 500, 600, true, 10_000),
            (1182, "ring.sockets_max times shards")
        );
        let files = "the limit of open files times shards";
        assert_eq!(capacity_of(1000, 500, 10_000, true, 300), (526, files));
        assert_eq!(capacity_of(1000, 500, 1, false, 1064), (867, "the limit of open files"));
        assert_eq!(capacity_of(1000, 500, 1, false, 2000), (1500, both));
    }

    #[test]
    fn disabled_listener_does_not_count_towards_capacity() {
        let mut options = Options::default();
        options.http.connections_max = 500;
        let capacity = |options: &Options| connection_capacity(options, 1, true, 10_000);
        let all = "tcp.connections_max, http.connections_max and websocket.connections_max";
        assert_eq!(capacity(&options), (2524, all));
        options.tcp.address = None;
        let both = "http.connections_max and websocket.connections_max";
        assert_eq!(capacity(&options), (1500, both));
        options.websocket.path = None;
        assert_eq!(capacity(&options), (500, "http.connections_max"));
        options.tcp.address = options.http.address.take();
        assert_eq!(capacity(&options), (1024, "tcp.connections_max"));
    }
}
