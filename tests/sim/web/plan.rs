//! What is to happen in one run over HTTP.

use std::time::Duration;

use corelane::base::random::Random;
use corelane::engine::mesh::MeshOptions;
use corelane::engine::ring::sim::{Fault, Faults};
use corelane::protocol::revision::Revision;
use corelane::server::Options;

use super::offer::GUESTS_MAX;
use crate::meeting::gathering;
use crate::web::hostile::relay::Break;

/// One run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) shards: usize,
    pub(crate) options: Options,
    pub(crate) faults: Faults,
    /// When each client comes, and what it does then.
    pub(crate) visits: Vec<(Duration, Vec<Deed>)>,
    /// When the server is told to drain, where that is not when it is at rest.
    pub(crate) drain: Option<Duration>,
    /// One turn of a shard in so many comes late.
    pub(crate) naps: Option<usize>,
    /// What is broken between the server and its clients, in a test of the checkers.
    pub(crate) breaks: Option<Break>,
}

/// One thing that a client does; what it has no session or connection for, it passes over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Deed {
    /// Begins a session; what it had before it leaves behind.
    Begin,
    /// Begins a session as clients of 2024-11-05 do.
    Pair,
    /// Has the tool work in the session.
    Work,
    /// Asks several things at once that are answered at once, one behind the other.
    Burst,
    /// Says what wants no answer.
    Notice,
    /// Takes a request of the session back.
    Cancel,
    /// Answers a question.
    Reply,
    /// Wants to hear of its resource.
    Follow,
    /// Has a handler say that somebody's resource has changed.
    Touch,
    /// Opens the general stream of the session.
    Listen,
    /// Asks for the rest of a stream.
    Resume,
    /// Ends the session.
    Delete,
    /// Has the tool work without a session.
    Modern,
    /// Opens a stream of notifications without a session.
    Subscribe,
    /// Says several messages in one array, where its session may.
    Batch,
    /// Has a tool run as a task, or asks for one.
    Tasks,
    /// Has another edition of the catalog made.
    Vary,
    /// Asks which edition there is.
    Look,
    /// Asks for what is no message.
    Plain,
    /// Breaks a connection.
    Cut,
    /// Says its end on a connection and reads on.
    Finish,
    /// Reads nothing on a connection, then again.
    Deafen,
    Hear,
    Wait(Duration),
    /// Goes on when everything was answered; asks for what it has lost.
    Settle,
}

impl Plan {
    /// The run of this seed.
    pub(crate) fn draw(seed: u64) -> Self {
        let mut random = Random::seeded(seed ^ 0x0057_4542 << 16);
        let random = &mut random;
        let mut faults = Faults::drawn(random).without(Fault::ClockJump);
        if random.chance(1, 2) {
            faults = faults.without(Fault::Reset).without(Fault::FailedAccept);
        }
        let shards = 1 + random.below(3);
        let mut options = options();
        options.engine.mesh = MeshOptions::simulated(faults, random);
        if random.chance(1, 3) {
            options.engine.mesh.lane_letters_max = 2;
        }
        options.engine.ring_sizes.receive_buffers = 2 << random.below(6);
        options.engine.ring_sizes.receive_buffer_bytes = 64 << random.below(7);
        options.limits.requests_in_flight_max = if random.chance(1, 4) { 2 } else { 64 };
        if random.chance(1, 3) {
            options.limits.outgoing_bytes_max = 512 << random.below(6);
        }
        let http = &mut options.http;
        if random.chance(1, 3) {
            http.sessions_max = (shards * (1 + random.below(2))) as u32;
        }
        let ttls_ms = [60, 200, 20_000];
        http.session_idle_max = Duration::from_millis(ttls_ms[random.below(3)]);
        if random.chance(1, 3) {
            http.events_max = 1 + random.below(4) as u32;
            http.event_bytes_max = 512 << random.below(6);
        }
        http.answer_max = Duration::from_millis([1, 10, 1_000][random.below(3)]);
        http.silence_max = Duration::from_millis([3, 40, 1_000][random.below(3)]);
        http.sse_pair = random.chance(1, 2);
        http.strict = random.chance(1, 8).then_some(Revision::V2025_06_18);
        let naps = random.chance(1, 2).then(|| 4 + random.below(16));
        let visits = (0..2 + random.below(GUESTS_MAX as usize - 4)).map(|_| {
            let comes = Duration::from_micros(random.below(60_000) as u64);
            let deeds = deeds(random).into_iter();
            (comes, deeds.filter(|deed| is_known(*deed, &options)).collect())
        });
        let visits = visits.collect();
        let is_cut_short = random.chance(1, 4);
        let drain = is_cut_short.then(|| Duration::from_micros(random.below(200_000) as u64));
        Self { seed, shards, options, faults, visits, drain, naps, breaks: None }
    }

    /// Whether old events may be forgotten before they were seen.
    pub(crate) const fn forgets(&self) -> bool {
        let http = &self.options.http;
        let is_small = http.events_max < 100 || http.event_bytes_max < ROOMY_BYTES;
        is_small || self.is_narrow()
    }

    /// Whether little may wait for a client to read it.
    pub(crate) const fn is_narrow(&self) -> bool {
        self.options.limits.outgoing_bytes_max < ROOMY_BYTES
    }

    /// Whether sessions make room for others.
    pub(crate) const fn is_crowded(&self) -> bool {
        self.options.http.sessions_max < 100
    }
}

/// Times that are over soon, and room for everything.
pub(crate) fn options() -> Options {
    let mut options = gathering::options();
    options.engine.ring_sizes.sockets_max = 256;
    options.http.retry = Duration::from_millis(5);
    options.http.session_idle_max = Duration::from_millis(200);
    options
}

/// What a client does.
fn deeds(random: &mut Random) -> Vec<Deed> {
    let mut deeds = Vec::new();
    let is_modern = random.chance(1, 3);
    if !is_modern {
        deeds.push([Deed::Begin, Deed::Begin, Deed::Pair][random.below(3)]);
    }
    for _ in 0..5 + random.below(25) {
        let is_modern = is_modern != random.chance(1, 6);
        deeds.push(match random.below(36) {
            0..=3 if is_modern => Deed::Subscribe,
            4..=12 if is_modern => Deed::Modern,
            0..=7 => Deed::Work,
            8 | 9 => Deed::Listen,
            10 => Deed::Follow,
            11 => Deed::Cancel,
            12 => Deed::Notice,
            13 | 14 => Deed::Resume,
            15 => Deed::Reply,
            16 => [Deed::Delete, Deed::Begin, Deed::Finish, Deed::Settle][random.below(4)],
            17 | 18 => Deed::Touch,
            19 | 20 => Deed::Burst,
            21 => Deed::Plain,
            22 | 23 => Deed::Cut,
            24 => [Deed::Deafen, Deed::Hear][random.below(2)],
            25 => wait(random, 250_000),
            28 | 29 => Deed::Batch,
            30 | 31 => Deed::Tasks,
            32 => Deed::Vary,
            33 | 34 => Deed::Look,
            _ => wait(random, 9_000),
        });
        deeds.push(wait(random, 3_000));
    }
    if random.chance(2, 3) {
        deeds.push(Deed::Settle);
    }
    if random.chance(1, 4) {
        deeds.extend([Deed::Delete, Deed::Settle]);
    }
    deeds
}

/// Whether a server knows what is to be done: a strict one, or one without the endpoints of
/// 2024-11-05.
const fn is_known(deed: Deed, options: &Options) -> bool {
    let is_strict = options.http.strict.is_some();
    match deed {
        Deed::Pair => options.http.sse_pair && !is_strict,
        Deed::Begin | Deed::Work | Deed::Notice | Deed::Cancel | Deed::Touch | Deed::Delete => true,
        Deed::Cut | Deed::Finish | Deed::Deafen | Deed::Hear | Deed::Wait(_) | Deed::Settle => true,
        _ => !is_strict,
    }
}

const fn wait(random: &mut Random, microseconds_max: usize) -> Deed {
    Deed::Wait(Duration::from_micros(random.below(microseconds_max) as u64))
}

/// As much as no run has.
const ROOMY_BYTES: usize = 1 << 20;
