//! What a seed draws: the server, its faults, and what each client does.

use std::time::Duration;

use corelane::Options;
use corelane::options::CapabilitiesTimeoutPolicy;
use corelane_base::random::Random;
use corelane_engine::ring::RingOptions;
use corelane_engine::ring::sim::{Fault, Faults};
use serde_json::{Value, json};

use super::fault::ChunkFault;
use super::link::Carrier;
use super::resumption::ResumeKind;
use super::work::Work;
use crate::harness::mesh::simulated_mesh;

/// Everything about one run but the order of its shards.
#[derive(Clone, Debug)]
pub(crate) struct ParityPlan {
    pub(crate) seed: u64,
    pub(crate) shards: usize,
    pub(crate) options: Options,
    pub(crate) faults: Faults,
    /// One client, over two pipes.
    pub(crate) is_piped: bool,
    /// When each client comes, and its connections.
    pub(crate) peers: Vec<(Duration, Vec<Visit>)>,
    /// When all clients lose their connections and come back at once.
    pub(crate) storm_at: Option<Duration>,
    /// When the server begins to drain; `None`: when it is at rest.
    pub(crate) drain_at: Option<Duration>,
    /// One turn of a shard in this many is stalled.
    pub(crate) stall_chance: Option<usize>,
    /// A fault of the server that the checkers must find.
    pub(crate) fault: Option<ChunkFault>,
    /// Clients need tokens, which expire during connections that end so.
    pub(crate) has_tokens: bool,
}

/// One connection of a client.
#[derive(Clone, Debug)]
pub(crate) struct Visit {
    pub(crate) carrier: Carrier,
    /// Time since the connection before.
    pub(crate) after: Duration,
    pub(crate) opening: Opening,
    pub(crate) offered: Value,
    /// Actions that follow the handshake without its acknowledgement.
    pub(crate) pipelined: usize,
    pub(crate) actions: Vec<Action>,
    pub(crate) ending: Ending,
}

/// How a connection begins.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Opening {
    /// With a handshake; with an exchange of capabilities.
    Handshake { exchanges: bool },
    /// With a handshake in the query of the event stream; otherwise as [`Self::Handshake`].
    Query,
    /// With a token, if there is one.
    Resume(ResumeKind),
    /// With an unknown version.
    WrongVersion,
    /// Without a capability in common.
    NoCapabilities,
    /// With a keepalive.
    EarlyKeepalive,
    /// With half a handshake.
    Half,
    /// With nothing.
    Silent,
}

/// What a client does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Action {
    Request {
        work: Work,
        streams: bool,
        key: Option<u8>,
    },
    Cancel(CancelTarget),
    /// Announced or not.
    Capabilities,
    SecondHandshake,
    Malformed,
    Keepalive,
    OpenEvents,
    StopReading,
    ReadSlowly,
    ReadEagerly,
    Wait(Duration),
    /// Waits for every response and the end of every stream.
    Await,
}

/// What a client cancels.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum CancelTarget {
    Request,
    Stream,
    UnknownRequest,
    UnknownStream,
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Ending {
    /// When nothing is due.
    Finish,
    Close,
    Reset,
    /// Before anything has come.
    AtOnce,
    /// By the server, because the client is silent.
    Silence,
    /// By the server, because the token has expired.
    Expiry,
    /// Over HTTP by the end of the session, otherwise as [`Self::Close`].
    EndSession,
    /// It stays open until the session has continued on the next one.
    TakenOver,
}

/// Random numbers of this salt are drawn for plans.
const PLAN_SALT: u64 = 0x0050_4152_4954_5900;

impl ParityPlan {
    /// Draws the run of this seed.
    pub(crate) fn draw(seed: u64) -> Self {
        let mut random = Random::seeded(seed ^ PLAN_SALT);
        let random = &mut random;
        let mut faults = Faults::random(random).without(Fault::ClockJump);
        if random.chance(2, 3) {
            faults = faults.without(Fault::Reset).without(Fault::AcceptFailure);
        }
        let is_piped = random.chance(1, 12);
        let is_storm = !is_piped && random.chance(1, 5);
        let options = draw_options(faults, random);
        let count = match (is_piped, is_storm) {
            (true, _) => 1,
            (_, true) => 6 + random.below(12),
            _ => 1 + random.below(5),
        };
        let peers = (0..count).map(|_| {
            let comes = Duration::from_micros(random.below(20_000) as u64);
            let visits = if is_piped { 1 } else { 1 + random.below(4) };
            let visits = (0..visits).map(|index| Visit::draw(random, index, is_piped));
            (comes, visits.collect())
        });
        let peers = peers.collect();
        let is_cut_short = random.chance(1, 8);
        Self {
            seed,
            shards: if is_piped { 1 } else { 1 + random.below(3) },
            options,
            faults,
            is_piped,
            peers,
            storm_at: is_storm.then(|| Duration::from_micros(5_000 + random.below(40_000) as u64)),
            drain_at: is_cut_short.then(|| Duration::from_micros(random.below(100_000) as u64)),
            stall_chance: random.chance(1, 3).then(|| 4 + random.below(16)),
            fault: None,
            has_tokens: false,
        }
    }

    /// Draws a run of this seed in which the tokens of clients expire while calls and streams run.
    /// Each client resumes its session with another token.
    pub(crate) fn draw_expiry(seed: u64) -> Self {
        let mut random = Random::seeded(seed ^ PLAN_SALT);
        let random = &mut random;
        let faults = Faults::random(random).without(Fault::ClockJump);
        let faults = faults.without(Fault::Reset).without(Fault::AcceptFailure);
        let mut options = options();
        options.engine.mesh = simulated_mesh(faults, random);
        // Nothing but the token ends a request.
        options.limits.request_timeout = Duration::from_mins(1);
        options.parity.resume_window = Duration::from_secs(20);
        let carriers = [Carrier::Tcp, Carrier::WebSocket, Carrier::Http];
        let peers = (0..=random.below(4)).map(|_| {
            let comes = Duration::from_micros(random.below(3_000_000) as u64);
            let wait = |streams| Action::Request { work: Work::Wait, streams, key: None };
            let mut actions = vec![Action::OpenEvents, Action::Wait(Duration::from_millis(1))];
            actions.extend((0..random.below(3)).map(|_| wait(true)));
            actions.extend((0..random.below(3)).map(|_| wait(false)));
            let handshake = Opening::Handshake { exchanges: false };
            let mut first = Visit::new(carriers[random.below(3)], handshake, &actions);
            first.ending = Ending::Expiry;
            let resume = Opening::Resume(ResumeKind::Right);
            let next = Visit::new(carriers[random.below(3)], resume, &[Action::Await]);
            (comes, vec![first, next])
        });
        let peers = peers.collect();
        let shards = 1 + random.below(3);
        Self { seed, shards, options, faults, peers, has_tokens: true, ..Self::calm(seed, vec![]) }
    }

    /// Clients on one shard, without faults.
    pub(crate) fn calm(seed: u64, peers: Vec<Vec<Visit>>) -> Self {
        let peers = peers.into_iter().enumerate();
        let peers = peers.map(|(index, visits)| (Duration::from_millis(index as u64), visits));
        Self {
            seed,
            shards: 1,
            options: options(),
            faults: Faults::NONE,
            is_piped: false,
            peers: peers.collect(),
            storm_at: None,
            drain_at: None,
            stall_chance: None,
            fault: None,
            has_tokens: false,
        }
    }

    /// Returns whether silent sessions and connections end soon.
    pub(crate) fn may_idle_out(&self) -> bool {
        self.options.parity.timeouts.idle < Duration::from_secs(10)
    }

    /// Returns whether connections may break without cause.
    pub(crate) const fn may_break(&self) -> bool {
        self.faults.has(Fault::Reset) || self.faults.has(Fault::AcceptFailure)
    }
}

/// Short timeouts and large limits.
pub(crate) fn options() -> Options {
    let mut options = Options::default();
    options.limits.request_timeout = Duration::from_millis(400);
    options.engine.blocking_threads = 1;
    options.engine.drain_timeout = Duration::from_millis(300);
    options.engine.ring_sizes = RingOptions { sockets_max: 256, ..RingOptions::default() };
    options.parity.resume_window = Duration::from_secs(2);
    options.parity.timeouts.keepalive = Duration::from_secs(2);
    options.parity.timeouts.sse_keepalive = Duration::from_secs(2);
    options.parity.timeouts.idle = Duration::from_secs(20);
    options
}

fn draw_options(faults: Faults, random: &mut Random) -> Options {
    let mut options = options();
    options.engine.mesh = simulated_mesh(faults, random);
    options.engine.ring_sizes.receive_buffers = 2 << random.below(6);
    options.engine.ring_sizes.receive_buffer_bytes = 64 << random.below(7);
    if random.chance(1, 4) {
        options.limits.outgoing_bytes_max = 1024 << random.below(6);
    }
    let parity = &mut options.parity;
    parity.timeouts.handshake = Duration::from_millis([60, 5_000][random.below(2)]);
    parity.timeouts.capabilities = Duration::from_millis([20, 5_000][random.below(2)]);
    if random.chance(1, 3) {
        parity.timeouts.capabilities_policy = CapabilitiesTimeoutPolicy::Fail;
    }
    parity.timeouts.keepalive = Duration::from_millis([15, 100, 5_000][random.below(3)]);
    parity.timeouts.sse_keepalive = Duration::from_millis([15, 2_000][random.below(2)]);
    if random.chance(1, 3) {
        parity.timeouts.idle = Duration::from_millis([150, 1_000][random.below(2)]);
    }
    parity.resume_window = Duration::from_secs([1, 2, 5][random.below(3)]);
    if random.chance(1, 5) {
        parity.resume_window_chunks = 4 << random.below(5);
    }
    if random.chance(1, 6) {
        parity.streams_max = 2;
    }
    options
}

impl Visit {
    /// A connection that does this, and ends when everything has come.
    pub(crate) fn new(carrier: Carrier, opening: Opening, actions: &[Action]) -> Self {
        Self {
            carrier,
            after: Duration::ZERO,
            opening,
            offered: everything(),
            pipelined: 0,
            actions: actions.to_vec(),
            ending: Ending::Finish,
        }
    }

    fn draw(random: &mut Random, index: usize, is_piped: bool) -> Self {
        let carriers = [Carrier::Tcp, Carrier::WebSocket, Carrier::Http];
        let carrier = if is_piped { Carrier::Pipes } else { carriers[random.below(3)] };
        let opening = draw_opening(random, index);
        let ending = match random.below(14) {
            0..=3 => Ending::Finish,
            4..=6 => Ending::Close,
            7 | 8 => Ending::Reset,
            9 => Ending::AtOnce,
            10 => Ending::Silence,
            11 | 12 => Ending::TakenOver,
            _ => Ending::EndSession,
        };
        let after = [0, 0, 200, 5_000, 400_000][random.below(5)];
        Self {
            carrier,
            after: Duration::from_micros(random.below(after + 1) as u64),
            opening,
            offered: draw_capabilities(random),
            pipelined: if random.chance(1, 5) { random.below(4) } else { 0 },
            actions: (0..random.below(14)).map(|_| Action::draw(random)).collect(),
            ending: if is_piped { Ending::Finish } else { ending },
        }
    }
}

fn draw_opening(random: &mut Random, index: usize) -> Opening {
    match random.below(24) {
        0 => return Opening::WrongVersion,
        1 => return Opening::NoCapabilities,
        2 => return Opening::Half,
        3 => return Opening::Silent,
        4 => return Opening::EarlyKeepalive,
        _ => {}
    }
    if index == 0 || random.chance(1, 8) {
        return match random.below(5) {
            0 => Opening::Handshake { exchanges: true },
            1 => Opening::Query,
            _ => Opening::Handshake { exchanges: false },
        };
    }
    Opening::Resume(match random.below(16) {
        0 => ResumeKind::Future,
        1 => ResumeKind::UnknownStream,
        2 => ResumeKind::Forged,
        3 => ResumeKind::Used,
        4 | 5 => ResumeKind::Twin,
        6 | 7 => ResumeKind::Lower,
        _ => ResumeKind::Right,
    })
}

/// All capabilities, without limits.
pub(crate) fn everything() -> Value {
    json!({
        "tools": true, "resources": true, "prompts": true, "streaming": true, "resume": true,
        "cancellation": true,
    })
}

fn draw_capabilities(random: &mut Random) -> Value {
    let mut capabilities = everything();
    if random.chance(1, 2) {
        return capabilities;
    }
    for (flag, chance) in
        [("tools", 12), ("resources", 4), ("prompts", 2), ("streaming", 8), ("cancellation", 4)]
    {
        if random.chance(1, chance) {
            capabilities[flag] = json!(false);
        }
    }
    if random.chance(1, 5) {
        capabilities["resume"] = json!(false);
    }
    if capabilities["tools"] == false {
        capabilities["resources"] = json!(true);
    }
    if random.chance(1, 4) {
        capabilities["maxConcurrent"] = json!(1 + random.below(4));
    }
    if random.chance(1, 4) {
        capabilities["maxPayloadBytes"] = json!(300);
    }
    if random.chance(1, 6) {
        capabilities["resumeWindow"] = json!({"chunks": random.below(8), "seconds": 1});
    }
    capabilities
}

impl Action {
    fn draw(random: &mut Random) -> Self {
        match random.below(32) {
            0..=13 => Self::draw_request(random),
            14..=16 => Self::Cancel(match random.below(6) {
                0 => CancelTarget::UnknownRequest,
                1 => CancelTarget::UnknownStream,
                2 | 3 => CancelTarget::Request,
                _ => CancelTarget::Stream,
            }),
            17 => Self::Capabilities,
            18 => Self::SecondHandshake,
            19 => Self::Malformed,
            20 => Self::Keepalive,
            21 | 22 => Self::OpenEvents,
            23 => Self::StopReading,
            24 => Self::ReadSlowly,
            25 => Self::ReadEagerly,
            26 | 27 => Self::Await,
            _ => Self::Wait(Duration::from_micros(random.below(12_000) as u64)),
        }
    }

    fn draw_request(random: &mut Random) -> Self {
        let work = match random.below(16) {
            0 => Work::Ping,
            1 | 2 => Work::Echo([3, 400][random.below(2)]),
            3 => Work::Wait,
            4 => Work::ListTools,
            5 => Work::ReadResource,
            6 => Work::ListPrompts,
            7 => Work::UnknownTool,
            8 => Work::UnknownMethod,
            _ => Work::Emit {
                count: [0, 1, 5, 12, 40][random.below(5)],
                log_every: 1 + random.below(4) as u32,
                pause_us: [0, 100, 1_000, 5_000][random.below(4)],
            },
        };
        let key = random.chance(1, 6).then(|| random.below(3) as u8);
        Self::Request { work, streams: random.chance(2, 3), key }
    }
}
