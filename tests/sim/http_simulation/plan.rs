//! What happens in one run over HTTP.

use std::time::Duration;

use corelane::Options;
use corelane::options::SecondStream;
use corelane_base::random::Random;
use corelane_engine::ring::sim::{Fault, Faults};
use corelane_protocol::revision::Revision;

use super::catalog::CLIENTS_MAX;
use crate::feature_simulation::simulation;
use crate::harness::mesh::simulated_mesh;
use crate::http_simulation::hostile::fault_proxy::ServerFault;

/// Everything about one run but the order of its shards.
#[derive(Clone, Debug)]
pub(crate) struct HttpPlan {
    pub(crate) seed: u64,
    pub(crate) shards: usize,
    pub(crate) options: Options,
    pub(crate) faults: Faults,
    /// When each client connects, and its actions.
    pub(crate) clients: Vec<(Duration, Vec<HttpAction>)>,
    /// When the server begins to drain; `None`: when it is at rest.
    pub(crate) drain_at: Option<Duration>,
    /// One turn of a shard in this many is stalled.
    pub(crate) stall_chance: Option<usize>,
    /// Server fault that a proxy simulates, in tests of the checkers.
    pub(crate) server_fault: Option<ServerFault>,
}

/// One action of a client; skipped if it lacks the session or connection for it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum HttpAction {
    /// Starts a session, leaving the previous one.
    Initialize,
    /// Starts a session over the legacy HTTP+SSE transport (2024-11-05).
    LegacySse,
    /// Calls the tool `work` in the session.
    Work,
    /// Pipelines several requests that are answered at once.
    Burst,
    /// Sends a notification in the session.
    Notify,
    /// Cancels a request of the session.
    Cancel,
    /// Responds to a client request.
    Respond,
    /// `resources/subscribe` to its own resource.
    SubscribeResource,
    /// Calls a tool that reports some client's resource as updated.
    TouchResource,
    /// Opens the general stream of the session (GET without `Last-Event-ID`).
    OpenGeneralStream,
    /// Resumes a stream (GET with `Last-Event-ID`).
    ResumeStream,
    /// Deletes the session.
    DeleteSession,
    /// Calls the tool `work` without a session.
    ModernCall,
    /// `subscriptions/listen`.
    OpenSubscription,
    /// Sends a batch, if the session's revision has batches.
    Batch,
    /// Calls a tool as a task, or sends a request for a task.
    TaskRequest,
    /// Calls a tool that changes the catalog.
    ChangeCatalog,
    /// `server/discover`, which returns the catalog version.
    Discover,
    /// Sends an HTTP request without a JSON-RPC message.
    PlainRequest,
    /// Closes or resets a connection.
    CutConnection,
    /// Shuts down writing on a connection and reads on.
    ShutdownWrite,
    /// Stops reading a connection.
    StopReading,
    ResumeReading,
    Wait(Duration),
    /// Waits until every response has arrived; resumes lost streams.
    AwaitResponses,
}

impl HttpPlan {
    /// Draws the run of this seed.
    pub(crate) fn draw(seed: u64) -> Self {
        let mut random = Random::seeded(seed ^ 0x0057_4542 << 16);
        let random = &mut random;
        let mut faults = Faults::random(random).without(Fault::ClockJump);
        if random.chance(1, 2) {
            faults = faults.without(Fault::Reset).without(Fault::AcceptFailure);
        }
        let shards = 1 + random.below(3);
        let mut options = options();
        options.engine.mesh = simulated_mesh(faults, random);
        if random.chance(1, 3) {
            options.engine.mesh.channel_messages_max = 2;
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
        http.session_idle_timeout = Duration::from_millis(ttls_ms[random.below(3)]);
        if random.chance(1, 3) {
            http.replay_events_max = 1 + random.below(4) as u32;
            http.replay_bytes_max = 512 << random.below(6);
        }
        http.sse_start_delay = Duration::from_millis([1, 10, 1_000][random.below(3)]);
        http.sse_keepalive_interval = Duration::from_millis([3, 40, 1_000][random.below(3)]);
        http.legacy_sse = random.chance(1, 2);
        let second_streams = [SecondStream::Refuse, SecondStream::Replace, SecondStream::Join];
        http.second_stream = second_streams[random.below(3)];
        http.strict = random.chance(1, 8).then_some(Revision::V2025_06_18);
        let stall_chance = random.chance(1, 2).then(|| 4 + random.below(16));
        let visits = (0..2 + random.below(CLIENTS_MAX as usize - 4)).map(|_| {
            let comes = Duration::from_micros(random.below(60_000) as u64);
            let actions = draw_actions(random).into_iter();
            (comes, actions.filter(|action| is_supported(*action, &options)).collect())
        });
        let clients = visits.collect();
        let is_cut_short = random.chance(1, 4);
        let drain_at = is_cut_short.then(|| Duration::from_micros(random.below(200_000) as u64));
        Self { seed, shards, options, faults, clients, drain_at, stall_chance, server_fault: None }
    }

    /// Draws the run of this seed, with a memory limit that its clients reach.
    pub(crate) fn draw_memory_limited(seed: u64) -> Self {
        let mut plan = Self::draw(seed);
        let mut random = Random::seeded(seed ^ MEMORY_SALT);
        plan.options.limits.memory_bytes_max = plan.shards * ((4 << 10) << random.below(6));
        plan
    }

    /// Returns whether the memory limit may be reached.
    pub(crate) const fn may_exhaust_memory(&self) -> bool {
        self.options.limits.memory_bytes_max < UNLIMITED_BYTES
    }

    /// Returns whether the server may drop old events before they were received.
    pub(crate) const fn may_drop_events(&self) -> bool {
        let http = &self.options.http;
        let is_small = http.replay_events_max < 100 || http.replay_bytes_max < UNLIMITED_BYTES;
        is_small || self.has_small_buffers() || self.may_exhaust_memory()
    }

    /// Returns whether the outgoing buffer of a client is small.
    pub(crate) const fn has_small_buffers(&self) -> bool {
        self.options.limits.outgoing_bytes_max < UNLIMITED_BYTES
    }

    /// Returns whether sessions may be evicted.
    pub(crate) const fn may_evict_sessions(&self) -> bool {
        self.options.http.sessions_max < 100
    }
}

/// Short timeouts and large limits.
pub(crate) fn options() -> Options {
    let mut options = simulation::options();
    options.engine.ring_sizes.sockets_max = 256;
    options.http.sse_retry = Duration::from_millis(5);
    options.http.session_idle_timeout = Duration::from_millis(200);
    options
}

/// Draws the actions of a client.
fn draw_actions(random: &mut Random) -> Vec<HttpAction> {
    let mut actions = Vec::new();
    let is_modern = random.chance(1, 3);
    if !is_modern {
        actions.push(
            [HttpAction::Initialize, HttpAction::Initialize, HttpAction::LegacySse]
                [random.below(3)],
        );
    }
    for _ in 0..5 + random.below(25) {
        let is_modern = is_modern != random.chance(1, 6);
        actions.push(match random.below(36) {
            0..=3 if is_modern => HttpAction::OpenSubscription,
            4..=12 if is_modern => HttpAction::ModernCall,
            0..=7 => HttpAction::Work,
            8 | 9 => HttpAction::OpenGeneralStream,
            10 => HttpAction::SubscribeResource,
            11 => HttpAction::Cancel,
            12 => HttpAction::Notify,
            13 | 14 => HttpAction::ResumeStream,
            15 => HttpAction::Respond,
            16 => [
                HttpAction::DeleteSession,
                HttpAction::Initialize,
                HttpAction::ShutdownWrite,
                HttpAction::AwaitResponses,
            ][random.below(4)],
            17 | 18 => HttpAction::TouchResource,
            19 | 20 => HttpAction::Burst,
            21 => HttpAction::PlainRequest,
            22 | 23 => HttpAction::CutConnection,
            24 => [HttpAction::StopReading, HttpAction::ResumeReading][random.below(2)],
            25 => draw_wait(random, 250_000),
            28 | 29 => HttpAction::Batch,
            30 | 31 => HttpAction::TaskRequest,
            32 => HttpAction::ChangeCatalog,
            33 | 34 => HttpAction::Discover,
            _ => draw_wait(random, 9_000),
        });
        actions.push(draw_wait(random, 3_000));
    }
    if random.chance(2, 3) {
        actions.push(HttpAction::AwaitResponses);
    }
    if random.chance(1, 4) {
        actions.extend([HttpAction::DeleteSession, HttpAction::AwaitResponses]);
    }
    actions
}

/// Returns whether the server supports an action; a strict server and one without the legacy
/// HTTP+SSE transport support fewer.
const fn is_supported(action: HttpAction, options: &Options) -> bool {
    let is_strict = options.http.strict.is_some();
    match action {
        HttpAction::LegacySse => options.http.legacy_sse && !is_strict,
        HttpAction::Initialize
        | HttpAction::Work
        | HttpAction::Notify
        | HttpAction::Cancel
        | HttpAction::TouchResource
        | HttpAction::DeleteSession => true,
        HttpAction::CutConnection
        | HttpAction::ShutdownWrite
        | HttpAction::StopReading
        | HttpAction::ResumeReading
        | HttpAction::Wait(_)
        | HttpAction::AwaitResponses => true,
        _ => !is_strict,
    }
}

const fn draw_wait(random: &mut Random, microseconds_max: usize) -> HttpAction {
    HttpAction::Wait(Duration::from_micros(random.below(microseconds_max) as u64))
}

/// A limit that no run reaches.
const UNLIMITED_BYTES: usize = 1 << 20;

/// Distinguishes the random stream of memory limits.
const MEMORY_SALT: u64 = 0x4D45_4D4F;
