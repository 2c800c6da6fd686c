//! What a seed draws: a server, its rings, its faults, its clients and what happens to it.

use std::time::Duration;

use corelane::base::random::Random;
use corelane::engine::mesh::MeshOptions;
use corelane::engine::ring::RingOptions;
use corelane::engine::ring::sim::{Fault, Faults};
use corelane::server::Options;

use crate::talk::dialogue::{Act, Dialogue};
use crate::talk::speaker::Facts;
use crate::world::lane::NAP_MAX;

/// A kind of run; each has seeds of its own.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Chapter {
    /// Times that nobody reaches, sizes of every kind: what is asked is answered.
    Calm,
    /// The same, drained while it works.
    Drained,
    /// Time jumps ahead while calls are in flight.
    Jumped,
    /// One client over two pipes.
    Piped,
    /// Every limit shrunk: too many clients, too little time, tables that are full.
    Tight,
}

impl Chapter {
    /// Every chapter.
    pub(crate) const ALL: [Self; 5] =
        [Self::Calm, Self::Drained, Self::Piped, Self::Tight, Self::Jumped];

    /// What its runs must reach besides answers, calls and full queues.
    pub(crate) const fn reaches(self) -> &'static [&'static str] {
        match self {
            Self::Calm => &["silences", "resets", "accepts_failed", "letters", "catalogs_changed"],
            Self::Drained => &["drained", "resets"],
            Self::Jumped => &["jumps", "silences", "drained"],
            Self::Piped => &["drained", "letters"],
            Self::Tight => &["silences", "refused", "short_of_memory", "drained", "resets"],
        }
    }

    /// Keeps the seeds of chapters apart.
    const fn salt(self) -> u64 {
        match self {
            Self::Calm => 1,
            Self::Drained => 2,
            Self::Piped => 3,
            Self::Tight => 4,
            Self::Jumped => 5,
        }
    }

    /// A word that only the test of this chapter has in its name.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Calm => "calm",
            Self::Drained => "drained",
            Self::Jumped => "jumps",
            Self::Piped => "piped",
            Self::Tight => "tight",
        }
    }
}

/// What every chapter reaches.
pub(crate) const ALWAYS: [&str; 11] = [
    "answers",
    "batches",
    "progress",
    "overdue",
    "silenced",
    "duplicates",
    "crowded",
    "too_large",
    "pauses",
    "starved",
    "letters_refused",
];

/// Everything about one run but the order of its shards.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) seed: u64,
    pub(crate) shards: usize,
    /// Whether there is one client, on two pipes, and no listener.
    pub(crate) is_piped: bool,
    pub(crate) options: Options,
    pub(crate) faults: Faults,
    /// When each client connects, and what it does then.
    pub(crate) clients: Vec<(Duration, Vec<Act>)>,
    /// When letters are left, and how many with each shard.
    pub(crate) letters: Vec<(Duration, usize)>,
    /// How long after the last one time jumps, and how far.
    pub(crate) jumps: Vec<(Duration, Duration)>,
    /// When the server is told to drain, where that is not after the last client.
    pub(crate) drain: Option<Duration>,
    /// One turn of a shard in so many comes late.
    pub(crate) naps: Option<usize>,
}

impl Scenario {
    /// The run of this seed.
    pub(crate) fn draw(chapter: Chapter, seed: u64) -> Self {
        let mut random = Random::seeded(seed ^ chapter.salt() << 48);
        let random = &mut random;
        let mut options = match chapter {
            Chapter::Calm | Chapter::Drained | Chapter::Jumped | Chapter::Piped => roomy(random),
            Chapter::Tight => tight(random),
        };
        let mut faults = Faults::drawn(random);
        if random.chance(1, 3) {
            // With nothing lost, everything has to be answered.
            faults = faults.without(Fault::Reset).without(Fault::FailedAccept);
        }
        faults = match chapter {
            Chapter::Jumped => faults.with(Fault::ClockJump),
            _ => faults.without(Fault::ClockJump),
        };
        options.engine.mesh = MeshOptions::simulated(faults, random);
        let naps = random.chance(1, 2).then(|| 4 + random.below(16));
        let is_piped = chapter == Chapter::Piped;
        if is_piped {
            options.engine.ring_sizes.sockets_max = 2;
        }
        let clients = if is_piped { 1 } else { 2 + random.below(8) };
        let clients = (0..clients).map(|client| {
            let facts = Facts { is_piped, ..facts(client, &options, naps.is_some()) };
            let connects = Duration::from_micros(random.below(8_000) as u64);
            (connects, Dialogue::write(random, facts))
        });
        let clients = clients.collect();
        let letters = (0..random.below(4)).map(|_| {
            let left = Duration::from_micros(random.below(30_000) as u64);
            // A few, or more than a shard takes in one turn.
            (left, if random.chance(1, 4) { 300 + random.below(400) } else { 1 })
        });
        let letters = letters.collect();
        let drain = match chapter {
            Chapter::Calm => None,
            Chapter::Drained => Some(Duration::from_micros(random.below(20_000) as u64)),
            Chapter::Jumped => {
                random.chance(1, 3).then(|| Duration::from_micros(random.below(60_000) as u64))
            }
            Chapter::Piped | Chapter::Tight => {
                random.chance(1, 4).then(|| Duration::from_micros(random.below(300_000) as u64))
            }
        };
        let shards = if is_piped { 1 } else { 1 + random.below(3) };
        let jumps = if faults.has(Fault::ClockJump) { jumps(random, &options) } else { Vec::new() };
        Self { seed, shards, is_piped, options, faults, clients, letters, jumps, drain, naps }
    }

    /// Whether more may wait for a client than is told of progress.
    pub(crate) fn may_fill_up(&self) -> bool {
        let has_new_limits = self.letters.iter().any(|&(_, count)| count > 1);
        has_new_limits || self.options.limits.outgoing_bytes_max < 256 << 10
    }

    /// Whether more clients come than there is room for.
    pub(crate) fn is_crowded(&self) -> bool {
        self.clients.len() > self.options.tcp.connections_max as usize
    }
}

/// Up to four jumps: within a call's time, past it, past an idle time, past everything.
fn jumps(random: &mut Random, options: &Options) -> Vec<(Duration, Duration)> {
    let (request_max, idle_max) = (options.limits.request_max, options.tcp.idle_max);
    let jumps = (0..=random.below(4)).map(|_| {
        let after = Duration::from_micros(random.below(20_000) as u64);
        let most = [request_max / 2, 2 * request_max, 2 * idle_max, Duration::from_hours(24)];
        let most = most[random.below(4)];
        (after, most * below(random, 100) / 100)
    });
    jumps.collect()
}

fn facts(client: usize, options: &Options, has_naps: bool) -> Facts {
    let nap = if has_naps { NAP_MAX } else { Duration::ZERO };
    Facts {
        client,
        request_max: options.limits.request_max,
        // A tick of the timers, a turn of the shard.
        step_late_max: Duration::from_millis(2) + nap,
        message_bytes_max: options.limits.message_bytes_max,
        nesting_max: options.limits.nesting_max,
        batch_messages_max: options.limits.requests_in_flight_max as usize,
        is_piped: false,
    }
}

/// Limits that only those reach who go for them, on rings of any size.
fn roomy(random: &mut Random) -> Options {
    let mut options = Options::default();
    options.limits.message_bytes_max = 4096 << random.below(4);
    options.limits.request_max = Duration::from_millis(500);
    options.limits.outgoing_bytes_max = 256 << random.below(12);
    options.limits.requests_in_flight_max =
        if random.chance(1, 2) { 256 } else { below(random, 6) };
    options.engine.blocking_threads = 1;
    if random.chance(1, 3) {
        options.engine.drain_max = Duration::from_millis(random.below(200) as u64);
    }
    options.engine.ring_sizes = RingOptions {
        sockets_max: if random.chance(1, 4) { below(random, 4) } else { 64 },
        receive_buffers: 1 << random.below(6),
        receive_buffer_bytes: 16 << random.below(9),
        accepts_in_flight: u16::try_from(below(random, 4)).unwrap_or(1),
        ..RingOptions::default()
    };
    options
}

/// [`Options::tiny`] in small variations.
fn tight(random: &mut Random) -> Options {
    let mut options = Options::tiny();
    options.tcp.connections_max = below(random, 6);
    options.limits.requests_in_flight_max = below(random, 5);
    options.limits.outgoing_bytes_max = 128 << random.below(7);
    options.limits.memory_bytes_max = 1024 << random.below(8);
    // Smaller ones would not carry everybody's words within a lease.
    options.engine.ring_sizes.receive_buffers = 2 << random.below(3);
    options.engine.ring_sizes.receive_buffer_bytes = 64 << random.below(4);
    options
}

/// A number of at least one and at most so many.
fn below(random: &mut Random, most: usize) -> u32 {
    1 + u32::try_from(random.below(most)).unwrap_or(0)
}
