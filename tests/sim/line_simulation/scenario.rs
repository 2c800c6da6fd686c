//! What a seed draws: a server, its rings, its faults, its clients and the events of the run.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use corelane::Options;
use corelane_base::random::Random;
use corelane_engine::ring::RingOptions;
use corelane_engine::ring::sim::{Fault, Faults};

use crate::harness::mesh::simulated_mesh;
use crate::harness::shard::STALL_MAX;
use crate::line_simulation::action::{ActionGenerator, LineAction};
use crate::line_simulation::input_end::HalfCloseRule;
use crate::line_simulation::message_generator::ServerFacts;

/// Kind of a run; each kind has seeds of its own.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ScenarioKind {
    /// Timeouts that are never reached and sizes of every kind: every request is answered.
    Calm,
    /// Like [`Self::Calm`], drained while it works.
    Drained,
    /// The clock jumps ahead while calls are in flight.
    Jumped,
    /// One client over two pipes.
    Piped,
    /// Every limit is small: too many clients, short timeouts, full tables.
    Tight,
    /// Clients that do not read reach the memory limit, beside some that hold little.
    MemoryLimited,
}

impl ScenarioKind {
    pub(crate) const ALL: [Self; 6] =
        [Self::Calm, Self::Drained, Self::Piped, Self::Tight, Self::Jumped, Self::MemoryLimited];

    /// Counts that its runs must reach, besides [`ALWAYS_REQUIRED`].
    pub(crate) const fn required_counts(self) -> &'static [&'static str] {
        match self {
            Self::Calm => &[
                "idle_closes",
                "connection_resets",
                "accepts_failed",
                "shard_messages",
                "catalog_changes_seen",
                "half_close_cancellations",
                "half_close_errors",
            ],
            Self::Drained => &[
                "drain_closes",
                "connection_resets",
                "connections_refused_draining",
                "half_close_cancellations",
            ],
            Self::Jumped => &[
                "clock_jumps",
                "idle_closes",
                "drain_closes",
                "half_close_cancellations",
                "half_close_errors",
            ],
            Self::Piped => &["drain_closes", "shard_messages"],
            Self::Tight => &[
                "idle_closes",
                "connections_refused",
                "connections_refused_by_address",
                "memory_limit_closes",
                "memory_limit_errors",
                "drain_closes",
                "connection_resets",
                "half_close_cancellations",
                "half_close_errors",
            ],
            Self::MemoryLimited => &["memory_limit_closes", "small_client_responses"],
        }
    }

    /// Distinguishes the random streams of the kinds.
    const fn seed_salt(self) -> u64 {
        match self {
            Self::Calm => 1,
            Self::Drained => 2,
            Self::Piped => 3,
            Self::Tight => 4,
            Self::Jumped => 5,
            Self::MemoryLimited => 6,
        }
    }

    /// Filter that selects the test of this kind.
    pub(crate) const fn test_filter(self) -> &'static str {
        match self {
            Self::Calm => "calm_server",
            Self::Drained => "drained_server",
            Self::Jumped => "clock_jumps",
            Self::Piped => "piped_server",
            Self::Tight => "tight_limits",
            Self::MemoryLimited => "memory_limit",
        }
    }
}

/// Counts that the runs of every kind must reach.
pub(crate) const ALWAYS_REQUIRED: [&str; 11] = [
    "responses",
    "batches",
    "progress_notifications",
    "call_timeouts",
    "cancelled_calls_dropped",
    "duplicate_ids_refused",
    "in_flight_limit_errors",
    "messages_too_large",
    "read_pauses",
    "receive_buffer_waits",
    "inboxes_full",
];

/// Everything about one run but the order of its shards.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) seed: u64,
    pub(crate) shards: usize,
    /// One client, on two pipes, and no listener.
    pub(crate) is_piped: bool,
    pub(crate) options: Options,
    pub(crate) faults: Faults,
    pub(crate) clients: Vec<ScenarioClient>,
    /// When commands are given to the server, and how many.
    pub(crate) commands: Vec<(Duration, usize)>,
    /// Time since the last clock jump, and length of the jump.
    pub(crate) clock_jumps: Vec<(Duration, Duration)>,
    /// When the server begins to drain; `None`: after the last client.
    pub(crate) drain_at: Option<Duration>,
    /// One turn of a shard in this many is stalled.
    pub(crate) stall_chance: Option<usize>,
}

/// A client of a run.
#[derive(Debug)]
pub(crate) struct ScenarioClient {
    /// When it connects.
    pub(crate) connects_at: Duration,
    /// Where it connects from.
    pub(crate) address: IpAddr,
    pub(crate) actions: Vec<LineAction>,
    /// It never holds more than its share of the memory limit.
    pub(crate) is_small: bool,
}

impl ScenarioClient {
    pub(crate) const fn new(
        connects_at: Duration,
        address: IpAddr,
        actions: Vec<LineAction>,
    ) -> Self {
        Self { connects_at, address, actions, is_small: false }
    }
}

impl Scenario {
    /// Draws the run of this seed.
    pub(crate) fn draw(chapter: ScenarioKind, seed: u64) -> Self {
        let random = &mut Random::seeded(seed ^ chapter.seed_salt() << 48);
        let mut options = match chapter {
            ScenarioKind::Calm
            | ScenarioKind::Drained
            | ScenarioKind::Jumped
            | ScenarioKind::Piped => large_limits(random),
            ScenarioKind::Tight => small_limits(random),
            ScenarioKind::MemoryLimited => small_memory(random),
        };
        let mut faults = Faults::random(random);
        if random.chance(1, 3) {
            // Without losses, every request has to be answered.
            faults = faults.without(Fault::Reset).without(Fault::AcceptFailure);
        }
        faults = match chapter {
            ScenarioKind::Jumped => faults.with(Fault::ClockJump),
            _ => faults.without(Fault::ClockJump),
        };
        options.engine.mesh = simulated_mesh(faults, random);
        options.tcp.half_close_timeout = draw_half_close_timeout(seed);
        let stall_chance = random.chance(1, 2).then(|| 4 + random.below(16));
        let is_piped = chapter == ScenarioKind::Piped;
        if is_piped {
            options.engine.ring_sizes.sockets_max = 2;
            // The end of the input shortens no call: its client expects the response of each.
            options.engine.drain_timeout = 2 * options.limits.request_timeout;
        }
        let facts = ServerFacts { is_piped, ..server_facts(&options, stall_chance.is_some()) };
        let mut clients = draw_clients(random, seed, facts);
        if chapter == ScenarioKind::MemoryLimited {
            replace_clients(seed, &mut clients, facts);
        }
        let commands = (0..random.below(4)).map(|_| {
            let left = Duration::from_micros(random.below(30_000) as u64);
            // One, or more than a shard takes in one turn.
            (left, if random.chance(1, 4) { 300 + random.below(400) } else { 1 })
        });
        let commands = commands.collect();
        let drain_at = match chapter {
            ScenarioKind::Calm | ScenarioKind::MemoryLimited => None,
            ScenarioKind::Drained => Some(Duration::from_micros(random.below(20_000) as u64)),
            ScenarioKind::Jumped => {
                random.chance(1, 3).then(|| Duration::from_micros(random.below(60_000) as u64))
            }
            ScenarioKind::Piped | ScenarioKind::Tight => {
                random.chance(1, 4).then(|| Duration::from_micros(random.below(300_000) as u64))
            }
        };
        let shards = if is_piped { 1 } else { 1 + random.below(3) };
        let clock_jumps = if faults.has(Fault::ClockJump) {
            draw_clock_jumps(random, &options)
        } else {
            Vec::new()
        };
        Self {
            seed,
            shards,
            is_piped,
            options,
            faults,
            clients,
            commands,
            clock_jumps,
            drain_at,
            stall_chance,
        }
    }

    /// Returns whether an outgoing buffer may fill up, so that progress is skipped.
    pub(crate) fn may_skip_progress(&self) -> bool {
        let has_new_limits = self.commands.iter().any(|&(_, count)| count > 1);
        has_new_limits || self.options.limits.outgoing_bytes_max < 256 << 10
    }

    /// Returns what the server does with the calls of clients that end their input; `None` over
    /// pipes, where they have the drain timeout.
    pub(crate) fn half_close_rule(&self) -> Option<HalfCloseRule> {
        (!self.is_piped).then(|| HalfCloseRule::new(&self.options, self.clients.len()))
    }

    /// Returns whether the memory limit may be reached.
    pub(crate) const fn may_exhaust_memory(&self) -> bool {
        self.options.limits.memory_bytes_max < UNLIMITED_MEMORY_BYTES
    }

    /// Returns whether a client may be refused: more clients come than the connection limit allows,
    /// or more from its address than the share of an address.
    pub(crate) fn may_refuse(&self, client: &ScenarioClient) -> bool {
        let connections_max = self.options.tcp.connections_max as usize;
        let share = connections_max * usize::from(self.options.limits.address_share_percent) / 100;
        let same_address = self.clients.iter().filter(|it| it.address == client.address).count();
        self.clients.len() > connections_max
            || (client.address != EXEMPT_ADDRESS && same_address > share.max(1))
    }
}

/// The address of clients without a share.
pub(crate) const EXEMPT_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// The addresses that clients connect from.
const CLIENT_ADDRESSES: [IpAddr; 3] = [
    EXEMPT_ADDRESS,
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)),
];

/// Distinguishes the addresses of clients from other random streams of the same seed.
const ADDRESS_SALT: u64 = 0x4144_4452;

/// Zero, or less than a slow call takes, or more. From a random stream of its own, so that the
/// other draws of a seed stay the same.
fn draw_half_close_timeout(seed: u64) -> Duration {
    let mut random = Random::seeded(seed ^ HALF_CLOSE_SALT);
    let timeout = Duration::from_millis(1 << random.below(10));
    if random.chance(1, 2) { timeout } else { Duration::ZERO }
}

/// Replaces some clients by ones that hold much, and some by ones that never hold more than their
/// share. From a random stream of its own.
fn replace_clients(seed: u64, clients: &mut [ScenarioClient], facts: ServerFacts) {
    let mut random = Random::seeded(seed ^ REPLACED_CLIENT_SALT);
    for (number, client) in (0_u8..).zip(clients) {
        let facts = ServerFacts { client: usize::from(number), ..facts };
        match random.below(5) {
            0 => {}
            1 | 2 => {
                client.is_small = true;
                client.actions = ActionGenerator::draw_small(&mut random, facts);
                // The share is that of an address, or of one client of an exempt address.
                let own_address = Ipv4Addr::new(198, 51, 100, number).into();
                client.address = if random.chance(1, 2) { own_address } else { EXEMPT_ADDRESS };
            }
            _ => client.actions = ActionGenerator::draw_large(&mut random, facts),
        }
    }
}

/// Up to four jumps: within the request timeout, past it, past the idle timeout, past everything.
fn draw_clock_jumps(random: &mut Random, options: &Options) -> Vec<(Duration, Duration)> {
    let (request_max, idle_max) = (options.limits.request_timeout, options.tcp.idle_timeout);
    let jumps = (0..=random.below(4)).map(|_| {
        let after = Duration::from_micros(random.below(20_000) as u64);
        let most = [request_max / 2, 2 * request_max, 2 * idle_max, Duration::from_hours(24)];
        let most = most[random.below(4)];
        (after, most * from_one_to(random, 100) / 100)
    });
    jumps.collect()
}

fn draw_clients(random: &mut Random, seed: u64, facts: ServerFacts) -> Vec<ScenarioClient> {
    // A stream of its own, so that the other draws of a seed do not depend on it.
    let mut addresses = Random::seeded(seed ^ ADDRESS_SALT);
    let clients = if facts.is_piped { 1 } else { 2 + random.below(8) };
    let clients = (0..clients).map(|client| {
        let connects_at = Duration::from_micros(random.below(8_000) as u64);
        let address = CLIENT_ADDRESSES[addresses.below(CLIENT_ADDRESSES.len())];
        let actions = ActionGenerator::draw(random, ServerFacts { client, ..facts });
        ScenarioClient::new(connects_at, address, actions)
    });
    clients.collect()
}

/// Returns what the first client knows.
fn server_facts(options: &Options, has_naps: bool) -> ServerFacts {
    let nap = if has_naps { STALL_MAX } else { Duration::ZERO };
    ServerFacts {
        client: 0,
        request_timeout: options.limits.request_timeout,
        // A timer tick and a turn of the shard.
        step_late_max: Duration::from_millis(2) + nap,
        message_bytes_max: options.limits.message_bytes_max,
        nesting_max: options.limits.nesting_max,
        batch_messages_max: options.limits.requests_in_flight_max as usize,
        is_piped: false,
    }
}

/// Limits that are reached only on purpose, on rings of any size.
fn large_limits(random: &mut Random) -> Options {
    let mut options = Options::default();
    options.limits.message_bytes_max = 4096 << random.below(4);
    options.limits.request_timeout = Duration::from_millis(500);
    options.limits.outgoing_bytes_max = 256 << random.below(12);
    options.limits.requests_in_flight_max =
        if random.chance(1, 2) { 256 } else { from_one_to(random, 6) };
    options.engine.blocking_threads = 1;
    if random.chance(1, 3) {
        options.engine.drain_timeout = Duration::from_millis(random.below(200) as u64);
    }
    options.engine.ring_sizes = RingOptions {
        sockets_max: if random.chance(1, 4) { from_one_to(random, 4) } else { 64 },
        receive_buffers: 1 << random.below(6),
        receive_buffer_bytes: 16 << random.below(9),
        accepts_in_flight: u16::try_from(from_one_to(random, 4)).unwrap_or(1),
        ..RingOptions::default()
    };
    options
}

/// [`large_limits`] with a memory limit that two clients reach, of which each has a share of 6 KiB
/// at least: that of a few calls that run.
fn small_memory(random: &mut Random) -> Options {
    let mut options = large_limits(random);
    options.limits.outgoing_bytes_max = 256 << 10;
    options.limits.message_bytes_max = 64 << 10;
    options.limits.memory_bytes_max = (96 << 10) << random.below(2);
    options.engine.ring_sizes.sockets_max = 64;
    options
}

/// [`Options::tiny`] with small variations.
fn small_limits(random: &mut Random) -> Options {
    let mut options = Options::tiny();
    options.tcp.connections_max = from_one_to(random, 6);
    options.limits.requests_in_flight_max = from_one_to(random, 5);
    options.limits.outgoing_bytes_max = 128 << random.below(7);
    options.limits.memory_bytes_max = 1024 << random.below(8);
    // Smaller ones could not carry every message within the first-message timeout.
    options.engine.ring_sizes.receive_buffers = 2 << random.below(3);
    options.engine.ring_sizes.receive_buffer_bytes = 64 << random.below(4);
    options
}

/// A random number from 1 to `most`.
fn from_one_to(random: &mut Random, most: usize) -> u32 {
    1 + u32::try_from(random.below(most)).unwrap_or(0)
}

/// Distinguishes the timeout after the end of the input from other draws of the same seed.
const HALF_CLOSE_SALT: u64 = 0x4841_4C46;
/// Distinguishes the random streams of replaced clients.
const REPLACED_CLIENT_SALT: u64 = 0x0053_4D41_4C4C;

/// A limit that no scenario reaches.
const UNLIMITED_MEMORY_BYTES: usize = 1 << 20;
