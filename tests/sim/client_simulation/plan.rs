//! What happens in one run.

use std::time::Duration;

use corelane::client::{EraPreference, ReconnectMode, ReconnectOptions};
use corelane::options::SecondStream;
use corelane::{Options, Transport};
use corelane_base::random::Random;
use corelane_engine::ring::RingOptions;
use corelane_engine::ring::sim::{Fault, Faults};
use corelane_protocol::revision::Revision;

use super::call::{CallKind, PlannedCall};
use super::server_host::{ServerEnd, ServerSetup};
use crate::harness::mesh::simulated_mesh;

/// The transport of a run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ClientTransport {
    Lines,
    Http,
    WebSocket,
}

impl ClientTransport {
    pub(crate) const ALL: [Self; 3] = [Self::Lines, Self::Http, Self::WebSocket];
}

/// One client.
#[derive(Clone, Debug)]
pub(crate) struct ClientSetup {
    /// The index of its I/O thread.
    pub(crate) thread: usize,
    pub(crate) era: EraPreference,
    pub(crate) reconnect: ReconnectOptions,
    pub(crate) request_timeout: Duration,
}

/// A wrong client or server that the checkers must detect.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mutation {
    /// The first tool call that is answered ends twice.
    CompletesTwice,
    /// The first answer is that of the call before it.
    SwapsAnswers,
    /// One tool call is executed twice.
    ExecutesTwice,
    /// The outcome of a call is lost.
    LosesOutcome,
    /// One client makes no calls after the faults.
    StaysDisconnected,
}

/// Everything about one run but the order of its shards.
#[derive(Clone, Debug)]
pub(crate) struct ClientPlan {
    pub(crate) seed: u64,
    pub(crate) faults: Faults,
    pub(crate) transport: ClientTransport,
    pub(crate) server: ServerSetup,
    /// The ring of each I/O thread.
    pub(crate) io_threads: Vec<RingOptions>,
    pub(crate) clients: Vec<ClientSetup>,
    /// In the order of their times.
    pub(crate) calls: Vec<PlannedCall>,
    /// When the server ends, how, and after which time the next one starts.
    pub(crate) server_ends: Vec<(Duration, ServerEnd, Duration)>,
    /// One connection in this many is cut.
    pub(crate) cut_chance: Option<usize>,
    pub(crate) mutation: Option<Mutation>,
}

/// Time in which calls are made and faults occur.
pub(crate) const FAULT_TIME: Duration = Duration::from_secs(3);

impl ClientPlan {
    /// Draws the run of this seed.
    pub(crate) fn draw(transport: ClientTransport, seed: u64) -> Self {
        let salt = 0x434C_4945_4E54 ^ ((transport as u64) << 56);
        let random = &mut Random::seeded(seed.wrapping_mul(11) ^ salt);
        let mut faults = Faults::random(random).without(Fault::ClockJump);
        if random.chance(1, 2) {
            faults = faults.without(Fault::Reset).without(Fault::AcceptFailure);
        }
        let io_threads = (0..=random.below(2)).map(|_| draw_ring(random)).collect::<Vec<_>>();
        let clients = (0..=random.below(4))
            .map(|_| draw_client(random, transport, io_threads.len()))
            .collect::<Vec<_>>();
        let server = draw_server(random, transport, faults);
        let mut server_ends: Vec<_> = (0..random.below(3)).map(|_| draw_end(random)).collect();
        server_ends.sort_unstable_by_key(|end| end.0);
        let cut_chance = [None, Some(1), Some(2), Some(6)][random.below(4)];
        let calls = draw_calls(random, &clients);
        let mutation = None;
        Self {
            seed,
            faults,
            transport,
            server,
            io_threads,
            clients,
            calls,
            server_ends,
            cut_chance,
            mutation,
        }
    }
}

fn draw_ring(random: &mut Random) -> RingOptions {
    RingOptions {
        sockets_max: 128,
        receive_buffers: 2 << random.below(6),
        receive_buffer_bytes: 64 << random.below(8),
        ..RingOptions::default()
    }
}

fn draw_time(random: &mut Random, time: Duration) -> Duration {
    Duration::from_micros(random.below(time.as_micros() as usize) as u64)
}

fn draw_end(random: &mut Random) -> (Duration, ServerEnd, Duration) {
    let how = if random.chance(1, 2) { ServerEnd::Crash } else { ServerEnd::Drain };
    (draw_time(random, FAULT_TIME), how, draw_time(random, Duration::from_millis(600)))
}

fn draw_client(random: &mut Random, transport: ClientTransport, threads: usize) -> ClientSetup {
    let legacy = match transport {
        ClientTransport::Lines => Revision::ALL[random.below(Revision::ALL.len())],
        _ => Revision::LATEST_LEGACY,
    };
    let legacy = if legacy.is_modern() { Revision::LATEST_LEGACY } else { legacy };
    let era = match random.below(4) {
        0 | 1 => EraPreference::Legacy(legacy),
        2 => EraPreference::Modern,
        _ => EraPreference::Auto,
    };
    let modes = [ReconnectMode::Auto, ReconnectMode::Always, ReconnectMode::OnDemand];
    let idle_timeout = random.chance(1, 4).then(|| Duration::from_millis(20 << random.below(6)));
    let mut reconnect = ReconnectOptions::default();
    reconnect.mode = modes[random.below(3)];
    reconnect.delay_min = Duration::from_millis(1 << random.below(7));
    reconnect.delay_max = Duration::from_millis(200 << random.below(4));
    reconnect.attempts_max = random.chance(1, 3).then(|| random.below(5) as u32);
    reconnect.retry_first = random.chance(1, 2);
    reconnect.idle_timeout = idle_timeout;
    reconnect.resend_idempotent = random.chance(1, 2);
    let request_timeout = Duration::from_millis(50 << random.below(8));
    ClientSetup { thread: random.below(threads), era, reconnect, request_timeout }
}

fn draw_server(random: &mut Random, transport: ClientTransport, faults: Faults) -> ServerSetup {
    let mut options = Options::default();
    options.engine.mesh = simulated_mesh(faults, random);
    options.engine.drain_timeout = Duration::from_millis(300);
    options.engine.blocking_threads = 1;
    options.engine.ring_sizes = RingOptions { sockets_max: 256, ..draw_ring(random) };
    options.limits.request_timeout = Duration::from_millis([150, 2_000, 30_000][random.below(3)]);
    options.limits.requests_in_flight_max = if random.chance(1, 6) { 2 } else { 64 };
    if random.chance(1, 3) {
        options.limits.outgoing_bytes_max = 4_096 << random.below(6);
    }
    let idle_times = [100, 700, 300_000];
    options.tcp.idle_timeout = Duration::from_millis(idle_times[random.below(3)]);
    let http = &mut options.http;
    http.session_idle_timeout = Duration::from_millis([60, 400, 60_000][random.below(3)]);
    http.sse_retry = Duration::from_millis(5);
    http.sse_start_delay = Duration::from_millis([1, 10, 1_000][random.below(3)]);
    http.sse_keepalive_interval = Duration::from_millis([3, 40, 1_000][random.below(3)]);
    let second_streams = [SecondStream::Refuse, SecondStream::Replace, SecondStream::Join];
    http.second_stream = second_streams[random.below(3)];
    if random.chance(1, 4) {
        http.replay_events_max = 1 + random.below(4) as u32;
    }
    let is_lines = transport == ClientTransport::Lines;
    ServerSetup {
        shards: 1 + random.below(3),
        options,
        transport: if is_lines { Transport::Tcp } else { Transport::Http },
        stall_chance: random.chance(1, 2).then(|| 4 + random.below(16)),
    }
}

fn draw_calls(random: &mut Random, clients: &[ClientSetup]) -> Vec<PlannedCall> {
    let mut calls = Vec::new();
    for client in 0..clients.len() {
        for _ in 0..2 + random.below(16) {
            let timeout = Duration::from_millis(20 << random.below(9));
            let is_cancelled = random.chance(1, 8);
            calls.push(PlannedCall {
                number: 0,
                client,
                at: draw_time(random, FAULT_TIME),
                kind: CallKind::draw(random),
                timeout,
                cancelled_after: is_cancelled.then(|| draw_time(random, Duration::from_millis(60))),
            });
        }
    }
    // Some calls are made together.
    if random.chance(1, 2) {
        for call in &mut calls {
            call.at = Duration::from_millis(call.at.as_millis() as u64 / 500 * 500);
        }
    }
    calls.sort_by_key(|call| call.at);
    for (number, call) in calls.iter_mut().enumerate() {
        call.number = number;
    }
    calls
}
