//! The threads of a server: each builds its ring, reports, and runs its shard to the end.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use crate::engine::capacity::descriptors_max;
use crate::engine::clock::Clock;
use crate::engine::host::crew::{self, Berth, Cause, Crew, Failure};
#[cfg(all(target_os = "linux", feature = "glommio"))]
use crate::engine::host::glommio::{self, Glommio};
use crate::engine::host::{Host, Native, native};
use crate::engine::mesh::ShardId;
use crate::engine::placement::Placement;
use crate::engine::ring::poll::PollRing;
#[cfg(target_os = "linux")]
use crate::engine::ring::uring::UringRing;
use crate::engine::ring::{Registered, Ring, RingOptions, Source};
use crate::observe::counters::Counters;
use crate::observe::event::Event;
use crate::observe::label::Transport;
use crate::server::options::{Executor, Options, RingBackend};
use crate::server::shard::{Inlet, ShardSeed, connections_max};

/// What a shard's connections come from, before there is a ring.
#[derive(Debug)]
pub(in crate::server) enum Sources {
    /// Listening sockets of this shard's own.
    Listeners(Vec<(OwnedFd, Transport)>),
    /// One connection over two pipes.
    Pipes {
        /// Standard input.
        input: OwnedFd,
        /// Standard output.
        output: OwnedFd,
    },
}

/// Running shards.
#[derive(Debug)]
pub(in crate::server) struct Threads {
    crew: Crew<Counters>,
}

/// Starts a thread for each seed and returns once every one of them has its ring and its inlets.
pub(in crate::server) fn start(
    placement: &Placement,
    loads: Vec<(ShardSeed, Sources)>,
) -> Result<Threads, StartError> {
    let crew = crew::launch("corelane", placement, loads, |(seed, sources), berth| {
        live(seed, sources, berth)
    });
    Ok(Threads { crew: crew? })
}

/// One thread's life: the best ring that the machine grants, within what was asked for.
fn live(seed: ShardSeed, sources: Sources, berth: &Berth<Counters>) -> io::Result<Counters> {
    let options = seed.options();
    let sizes = match sources {
        Sources::Listeners(_) => ring_sizes(options),
        Sources::Pipes { .. } => pipe_sizes(options),
    };
    let clock = Clock::start();
    #[cfg(target_os = "linux")]
    if options.engine.ring != RingBackend::Poll {
        match UringRing::new(&sizes, clock) {
            Ok(ring) => return run(ring, seed, sources, berth),
            Err(error) if options.engine.ring == RingBackend::Uring => return Err(error),
            // It could not be called by readiness either.
            Err(error) if options.engine.executor == Executor::Glommio => return Err(error),
            Err(error) => Event::RingRefused {
                ring: "io_uring",
                cause: &error.to_string(),
                remedy: "nothing needs to be done: readiness takes over",
                fallback: Some("poll"),
            }
            .emit(),
        }
    }
    if options.engine.executor == Executor::Glommio {
        // Its own event loop is io_uring: where readiness is needed glommio cannot run either.
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "glommio runs on io_uring only; use --executor native",
        ));
    }
    run(PollRing::new(&sizes, clock)?, seed, sources, berth)
}

/// The sizes of one shard's ring: no more slots than connections can be open, and queues that fit
/// them, because queues are locked memory, which the system bounds for each user.
fn ring_sizes(options: &Options) -> RingOptions {
    let sizes = options.engine.ring_sizes;
    let sockets_max = sizes.sockets_max.min(connections_max(options));
    let completions_max = sizes.completions_max.min((2 * sockets_max).next_power_of_two());
    let submissions_max = sizes.submissions_max.min(completions_max);
    RingOptions { sockets_max, submissions_max, completions_max, ..sizes }
}

/// The sizes of a ring that serves two pipes: few buffers, but long ones.
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

/// Runs a shard over `ring` until it has drained, under the executor that was asked for.
fn run<R: Ring>(
    mut ring: R,
    seed: ShardSeed,
    sources: Sources,
    berth: &Berth<Counters>,
) -> io::Result<Counters> {
    let description = ring.describe();
    let inlets = open(&mut ring, sources)?;
    match seed.options().engine.executor {
        Executor::Auto | Executor::Native => {
            let host: Rc<dyn Host> = Rc::new(Native::new(ring.waker()));
            let mut shard = seed.build(ring, host, &inlets)?;
            if !berth.ready(description) {
                return Ok(Counters::default());
            }
            native::run(&mut shard);
            Ok(shard.driver().counters())
        }
        Executor::Glommio => run_on_glommio(ring, seed, &inlets, berth, description),
    }
}

/// The same as the root task of a glommio executor.
#[cfg(all(target_os = "linux", feature = "glommio"))]
fn run_on_glommio<R: Ring>(
    ring: R,
    seed: ShardSeed,
    inlets: &[Inlet],
    berth: &Berth<Counters>,
    description: String,
) -> io::Result<Counters> {
    glommio::enter(async |host: Rc<Glommio>| {
        let mut shard = seed.build(ring, Rc::<Glommio>::clone(&host), inlets)?;
        if !berth.ready(description) {
            return Ok(Counters::default());
        }
        glommio::run(&mut shard, &host).await?;
        Ok(shard.driver().counters())
    })
}

/// A build without glommio says so.
#[cfg(not(all(target_os = "linux", feature = "glommio")))]
fn run_on_glommio<R: Ring>(
    _: R,
    _: ShardSeed,
    _: &[Inlet],
    _: &Berth<Counters>,
    _: String,
) -> io::Result<Counters> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "this build has no glommio (feature \"glommio\", Linux only); use --executor native",
    ))
}

/// Brings the sources of a shard into its ring.
fn open<R: Ring>(ring: &mut R, sources: Sources) -> io::Result<Vec<Inlet>> {
    match sources {
        Sources::Listeners(listeners) => listeners
            .into_iter()
            .map(|(descriptor, transport)| match ring.register(Source::Listener(descriptor))? {
                Registered::Listener(listener) => Ok(Inlet::Listener { listener, transport }),
                Registered::Socket(_) => Err(io::Error::other("the ring took a listener wrongly")),
            })
            .collect(),
        Sources::Pipes { input, output } => {
            let sockets =
                (ring.register(Source::Pipe(input))?, ring.register(Source::Pipe(output))?);
            match sockets {
                (Registered::Socket(input), Registered::Socket(output)) => {
                    Ok(vec![Inlet::Pipes { input, output }])
                }
                _ => Err(io::Error::other("the ring took a pipe wrongly")),
            }
        }
    }
}

impl Threads {
    /// Tells what the shards run on, and how many connections that makes; where they are pipes it
    /// is one.
    pub(in crate::server) fn announce(
        &self,
        options: &Options,
        placement: &Placement,
        is_piped: bool,
    ) {
        let granted = self.crew.descriptions();
        let ring = granted.first().and_then(|granted| granted.split(' ').next()).unwrap_or("poll");
        let shards = u16::try_from(placement.len()).unwrap_or(u16::MAX);
        let (connections_max, bound) = if is_piped {
            (1, "standard input and output")
        } else {
            capacity(options, shards, ring == "io_uring", descriptors_max())
        };
        let spots = (0..shards).map(|shard| placement.spot(ShardId(shard)));
        let cpus: Vec<String> = spots.clone().flatten().map(|spot| spot.cpu.to_string()).collect();
        let cpus = if cpus.is_empty() { "any".to_owned() } else { cpus.join(",") };
        let executor = match options.engine.executor {
            Executor::Auto | Executor::Native => "native",
            Executor::Glommio => "glommio",
        };
        Event::Started { ring, executor, shards, cpus: &cpus, connections_max, bound }.emit();
        for ((shard, granted), spot) in (0_u16..).zip(granted).zip(spots) {
            Event::RingGranted { shard, ring: granted }.emit();
            let node = spot.and_then(|spot| spot.node);
            let sibling = spot.filter(|spot| spot.core != spot.cpu).map(|spot| spot.core);
            let cpu = spot.map(|spot| spot.cpu);
            Event::ShardStarted { shard, cpu, node, sibling }.emit();
        }
    }

    /// Waits for every shard; adds up what they counted. Where one fails the others are drained by
    /// `alarm`.
    pub(in crate::server) fn join(self, alarm: impl Fn()) -> Result<Counters, StartError> {
        let counted = self.crew.join(|failure| {
            Event::ShardFailed { shard: failure.shard.0, cause: &failure.to_string() }.emit();
            alarm();
        })?;
        let mut total = Counters::default();
        for counters in &counted {
            total.add(counters);
        }
        Ok(total)
    }
}

/// Connections that can be open at once over all doors, and what bounds them, where a process or a
/// ring may have `descriptors_max`.
fn capacity(
    options: &Options,
    shards: u16,
    has_slots: bool,
    descriptors_max: u32,
) -> (u64, &'static str) {
    let (wanted, bound) = options.connections_max();
    let descriptors = u64::from(descriptors_max);
    let slots = u64::from(ring_sizes(options).sockets_max).min(descriptors);
    // Readiness shares the descriptors of the process with listeners and files.
    let granted =
        if has_slots { slots * u64::from(shards) } else { descriptors.saturating_sub(64) };
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

/// Why a server did not start, or did not end well. The text names cause and remedy.
#[derive(Debug)]
pub enum StartError {
    /// The system refused something.
    System(io::Error),
    /// A shard's thread panicked: a broken invariant of ours.
    Shard(String),
}

impl fmt::Display for StartError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System(error) => error.fmt(formatter),
            Self::Shard(cause) => write!(formatter, "a shard failed: {cause}"),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
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

impl From<Failure> for StartError {
    fn from(failure: Failure) -> Self {
        let text = failure.to_string();
        match failure.cause {
            Cause::Failed(error) => Self::System(error),
            Cause::Panicked(_) => Self::Shard(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is told of two doors with these bounds, over two shards.
    fn told(
        (tcp, http): (u32, u32),
        sockets_max: u32,
        (has_slots, descriptors_max): (bool, u32),
    ) -> (u64, &'static str) {
        let mut options = Options::default();
        (options.tcp.connections_max, options.http.connections_max) = (tcp, http);
        options.engine.ring_sizes.sockets_max = sockets_max;
        capacity(&options, 2, has_slots, descriptors_max)
    }

    #[test]
    fn both_doors_count_and_what_is_least_bounds_them() {
        let both = "tcp.connections_max and http.connections_max";
        assert_eq!(told((100, 50), 1000, (true, 1000)), (150, both));
        assert_eq!(told((1000, 500), 600, (true, 10_000)), (1200, "ring.sockets_max times shards"));
        let files = "the limit of open files times shards";
        assert_eq!(told((1000, 500), 10_000, (true, 300)), (600, files));
        assert_eq!(told((1000, 500), 1, (false, 1064)), (1000, "the limit of open files"));
        assert_eq!(told((1000, 500), 1, (false, 2000)), (1500, both));
    }

    #[test]
    fn a_door_that_is_shut_does_not_count() {
        let mut options = Options::default();
        options.tcp.address = None;
        assert_eq!(capacity(&options, 1, true, 10_000), (1024, "http.connections_max"));
        options.tcp.address = options.http.address.take();
        assert_eq!(capacity(&options, 1, true, 10_000), (1024, "tcp.connections_max"));
    }
}
