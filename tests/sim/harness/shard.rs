//! One shard of the simulated server, and the checks made when it ends.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use corelane::internal::{HeldPlace, MemoryReport, Shard, ShardBuilder, ShardInput};
use corelane::{Counters, Transport};
use corelane_base::random::Random;
use corelane_base::time::Instant;
use corelane_engine::executor::{Executor, NativeExecutor};
use corelane_engine::ring::sim::{SimRing, World};
use corelane_engine::ring::{ParkTimeout, Ring};
use corelane_engine::shard_loop::{Driver, ShardLoop, TurnStatus};

use crate::harness::recording_ring::{RecordingRing, ShardByClient};
use crate::harness::socket::ClientSocket;
use crate::totals::Totals;

/// One shard; its resources are dropped once it has drained.
pub(crate) struct SimShard {
    number: usize,
    shard: Option<ShardLoop<RecordingRing, Shard>>,
    executor: Rc<NativeExecutor>,
    /// It gets no turn before this time.
    stalled_until: Instant,
    checks: ShardChecks,
    turns: u64,
    /// Messages and shard messages it had read when it ended.
    messages: u64,
    shard_messages: u64,
}

/// What is checked of a shard, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShardChecks {
    /// Turns from one check of the memory account to the next.
    pub(crate) memory_interval: u64,
    /// Connections close whose first request was to decide whether they are served, and which have
    /// sent none: they are counted neither as accepted nor as refused.
    pub(crate) has_undecided: bool,
}

impl SimShard {
    /// Replaces the checks: by default the memory account is checked in each turn, and every
    /// connection is accepted or refused.
    pub(crate) fn with_checks(self, checks: ShardChecks) -> Self {
        Self { checks, ..self }
    }

    /// A shard that listens for newline-delimited messages over TCP.
    pub(crate) fn listen_tcp(
        world: &World,
        seed: ShardBuilder,
        address: SocketAddr,
        places: &ShardByClient,
    ) -> io::Result<Self> {
        Self::listen(Transport::Tcp, world, seed, address, places)
    }

    /// A shard that listens for connections of `transport`.
    pub(crate) fn listen(
        transport: Transport,
        world: &World,
        seed: ShardBuilder,
        address: SocketAddr,
        places: &ShardByClient,
    ) -> io::Result<Self> {
        let mut ring = world.ring(seed.options().engine.ring_sizes);
        let listener = ring.listen(address)?;
        let shard_input = ShardInput::Listener { listener, transport };
        Self::open(ring, seed, &[shard_input], places)
    }

    /// A shard that listens for connections of several transports.
    pub(crate) fn listen_all(
        world: &World,
        seed: ShardBuilder,
        listeners: &[(Transport, SocketAddr)],
        places: &ShardByClient,
    ) -> io::Result<Self> {
        let mut ring = world.ring(seed.options().engine.ring_sizes);
        let listen = |(transport, address): &(Transport, SocketAddr)| {
            let listener = ring.listen(*address)?;
            Ok(ShardInput::Listener { listener, transport: *transport })
        };
        let inputs = listeners.iter().map(listen).collect::<io::Result<Vec<_>>>()?;
        Self::open(ring, seed, &inputs, places)
    }

    /// A shard that serves one client through two pipes.
    pub(crate) fn serve_pipes(
        world: &World,
        seed: ShardBuilder,
        places: &ShardByClient,
    ) -> io::Result<(Self, ClientSocket)> {
        let mut ring = world.ring(seed.options().engine.ring_sizes);
        let ((input, client_output), (output, client_input)) = (ring.attach()?, ring.attach()?);
        let shard = Self::open(
            ring,
            seed,
            &[ShardInput::OnlyConnection { input, output, transport: Transport::Stdio }],
            places,
        )?;
        Ok((shard, ClientSocket::pipes(client_output, client_input)))
    }

    fn open(
        ring: SimRing,
        seed: ShardBuilder,
        shard_inputs: &[ShardInput],
        places: &ShardByClient,
    ) -> io::Result<Self> {
        let number = seed.shard_id().index();
        let ring = RecordingRing::new(ring, number, Rc::clone(places));
        let host = Rc::new(NativeExecutor::new(ring.waker()));
        let shard = seed.build(ring, Rc::clone(&host) as Rc<dyn Executor>, shard_inputs)?;
        Ok(Self {
            number,
            shard: Some(shard),
            executor: host,
            stalled_until: Instant::ORIGIN,
            checks: ShardChecks { memory_interval: 1, has_undecided: false },
            turns: 0,
            messages: 0,
            shard_messages: 0,
        })
    }

    pub(crate) const fn number(&self) -> usize {
        self.number
    }

    /// Number of client messages it had read when it ended.
    pub(crate) const fn messages(&self) -> u64 {
        self.messages
    }

    /// Number of shard messages it had read when it ended.
    pub(crate) const fn shard_messages(&self) -> u64 {
        self.shard_messages
    }

    /// Describes its state for a failure report.
    pub(crate) fn describe(&self) -> String {
        let Self { number, shard: Some(shard), .. } = self else {
            return format!("shard {} has drained", self.number);
        };
        let (driver, usage) = (shard.driver(), shard.ring().ring.resource_usage());
        let deadline = Driver::<RecordingRing>::next_deadline(driver);
        format!("shard {number}: {driver:?}, next deadline {deadline:?}, {usage:?}")
    }

    /// Number of objects it holds on behalf of clients; zero at rest.
    pub(crate) fn held_objects(&self) -> usize {
        self.shard.as_ref().map_or(0, |shard| {
            let receive_buffers = shard.ring().ring.resource_usage().receive_buffers_held;
            shard.driver().open_work().total() + receive_buffers + self.executor.live_futures()
        })
    }

    /// Returns its counters; all zero once it has drained.
    pub(crate) fn counters(&self) -> Counters {
        self.shard.as_ref().map_or_else(Counters::default, |shard| shard.driver().counters())
    }

    /// Returns the places that are taken.
    pub(crate) fn held_places(&self) -> Vec<HeldPlace> {
        self.shard.as_ref().map_or_else(Vec::new, |shard| shard.driver().held_places())
    }

    /// Number of open notification streams.
    pub(crate) fn open_streams(&self) -> usize {
        self.shard.as_ref().map_or(0, |shard| shard.driver().open_work().streams)
    }

    pub(crate) const fn has_drained(&self) -> bool {
        self.shard.is_none()
    }

    /// Returns whether it gets no turn now.
    pub(crate) fn is_stalled(&self, now: Instant) -> bool {
        self.shard.is_some() && now < self.stalled_until
    }

    /// Returns when it gets its next turn, if it is stalled.
    pub(crate) fn stalled_until(&self, now: Instant) -> Option<Instant> {
        self.is_stalled(now).then_some(self.stalled_until)
    }

    /// Stalls it for a random time.
    pub(crate) fn stall(&mut self, now: Instant, random: &mut Random) {
        let span = random.below(STALL_MAX.as_nanos() as usize) as u64;
        self.stalled_until = now.after(Duration::from_nanos(span));
    }

    /// Runs one turn. Drops a shard that has drained and returns its counts.
    ///
    /// # Errors
    ///
    /// Its memory account is wrong, its memory limit is exceeded, or it ended without releasing
    /// something.
    pub(crate) fn turn(&mut self, places: &ShardByClient) -> Result<Option<Totals>, String> {
        let Some(shard) = &mut self.shard else { return Ok(None) };
        let status = shard.run_turn(ParkTimeout::Infinite);
        self.turns += 1;
        if self.turns.is_multiple_of(self.checks.memory_interval) {
            let checked = check_memory(&MemoryReport::from(shard.driver()));
            checked.map_err(|reason| format!("shard {}: {reason}", self.number))?;
        }
        if status == TurnStatus::Continue {
            return Ok(None);
        }
        self.shard_messages = shard.driver().counters().shard.messages_received;
        let totals = self.check_released(places)?;
        self.messages = totals.messages;
        self.shard = None;
        Ok(Some(totals))
    }

    /// Checks that a shard that has drained holds nothing and that its counters add up.
    fn check_released(&self, places: &ShardByClient) -> Result<Totals, String> {
        let Some(shard) = &self.shard else { return Ok(Totals::default()) };
        let (driver, usage) = (shard.driver(), shard.ring().ring.resource_usage());
        let (counters, open) = (driver.counters(), driver.open_work());
        let (connections, streams) = (&counters.connections, &counters.subscriptions);
        let accepted = places.borrow().values().filter(|&&place| place == self.number).count();
        let let_in = connections.accepted
            + connections.refused_limit
            + connections.refused_address_share
            + connections.refused_rate
            + connections.refused_draining;
        let undecided =
            if self.checks.has_undecided { (accepted as u64).saturating_sub(let_in) } else { 0 };
        let facts = [
            ("connections open", open.connections as u64, 0),
            ("calls open", open.calls as u64, 0),
            ("streams open", open.streams as u64, 0),
            ("streams ended", streams.closed, streams.opened),
            ("client requests open", open.client_requests as u64, 0),
            ("exchanges open", open.exchanges as u64, 0),
            ("receive buffers in use", usage.receive_buffers_held as u64, 0),
            ("sends in flight", usage.sends_in_flight as u64, 0),
            ("sockets open", usage.sockets_open as u64, 0),
            ("futures alive", self.executor.live_futures() as u64, 0),
            ("futures panicked", self.executor.panicked(), 0),
            ("handlers panicked", counters.requests.handler_panics, 0),
            (
                "WebSocket connections closed",
                closed_websockets(&counters),
                counters.websockets.upgraded,
            ),
            ("connections let in", let_in + undecided, accepted as u64),
            ("connections closed", connections.closed, connections.accepted),
        ];
        for (name, found, expected) in facts {
            if found != expected {
                let number = self.number;
                return Err(format!(
                    "shard {number} ends with {found} {name}, expected {expected}"
                ));
            }
        }
        Ok(Totals {
            read_pauses: counters.traffic.read_pauses,
            receive_buffer_waits: usage.buffer_exhaustions,
            accepts_failed: connections.accept_failed,
            messages: counters.traffic.messages_in,
            inboxes_full: counters.shard.messages_refused,
            shard_messages_skipped: counters.shard.messages_not_sent,
            memory_charges_refused: counters.requests.refused_memory,
            largest_holders_closed: counters.input_errors.memory,
            tasks_evicted: counters.requests.tasks_evicted,
            tasks_refused: counters.requests.tasks_refused_limit
                + counters.requests.tasks_refused_address_share,
            connections_evicted: connections.closed_evicted,
            sessions_evicted: counters.sessions.evicted,
            ..Totals::default()
        })
    }
}

/// Checks that the accounted memory is the sum of what is stored, and that the limit is kept as far
/// as closing connections keeps it. What closed ones hold is freed with their last send; until then
/// as much again may be held. If the rest exceeds the limit by itself, no connection is left that
/// holds anything, until the held bytes have grown so that the holders are searched for again.
fn check_memory(report: &MemoryReport) -> Result<(), String> {
    let MemoryReport { accounted, stored, closed, freeable, bytes_max, .. } = report;
    let search_interval = bytes_max / 64;
    let held_max = bytes_max + search_interval + UNFREED_BYTES_MAX;
    let is_kept = accounted.total() - closed <= held_max && *closed <= held_max;
    let what = if accounted != stored {
        "the account is wrong"
    } else if !is_kept && *freeable >= search_interval {
        "the memory limit is exceeded"
    } else {
        return Ok(());
    };
    Err(format!("{what}: {report:?}"))
}

/// What a search for the holders does not free at once: the arguments of cancelled handlers, and
/// the errors of the connections that it closes.
const UNFREED_BYTES_MAX: usize = 1024;

/// Number of WebSocket connections that have ended.
const fn closed_websockets(counters: &Counters) -> u64 {
    let closed = &counters.websockets;
    let by_peers = closed.closed_by_peer + closed.closed_abnormally;
    let by_rules =
        closed.closed_protocol_error + closed.closed_unsupported + closed.closed_invalid_data;
    let by_bounds = closed.closed_policy + closed.closed_too_big + closed.closed_internal;
    by_peers + by_rules + by_bounds + closed.closed_normal + closed.closed_going_away
}

/// Longest stall of a shard.
pub(crate) const STALL_MAX: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use corelane::internal::HeldMemory;

    use super::*;

    /// Checks a shard whose connections hold `freeable` bytes, the closed ones `closed`, and whose
    /// sessions hold the rest of `total`. The limit is 64 KiB.
    fn check(total: usize, closed: usize, freeable: usize) -> Result<(), String> {
        let connections = closed + freeable;
        let sessions = total - connections;
        let stored = HeldMemory { connections, sessions, ..HeldMemory::default() };
        check_memory(&MemoryReport {
            accounted: stored,
            stored,
            places: 0,
            closed,
            freeable,
            bytes_max: 64 << 10,
        })
    }

    /// Most bytes that open connections and sessions may hold together.
    const HELD_MAX: usize = (64 << 10) + (1 << 10) + UNFREED_BYTES_MAX;

    #[test]
    fn connections_exceed_no_memory_limit() {
        assert_eq!(check(HELD_MAX, 0, HELD_MAX), Ok(()));
        assert!(check(HELD_MAX + 1, 0, HELD_MAX + 1).is_err());
        assert!(check(HELD_MAX + 1, 0, 1 << 10).is_err());
        assert_eq!(check(2 * HELD_MAX, HELD_MAX, HELD_MAX), Ok(()));
        assert!(check(2 * HELD_MAX + 1, HELD_MAX, HELD_MAX + 1).is_err());
        assert!(check(2 * HELD_MAX + 1, HELD_MAX + 1, HELD_MAX).is_err());
    }

    #[test]
    fn sessions_above_limit_leave_small_connections_open() {
        assert_eq!(check(2 * HELD_MAX, 0, (1 << 10) - 1), Ok(()));
        assert!(check(2 * HELD_MAX, 0, 1 << 10).is_err());
    }

    #[test]
    fn account_is_what_is_stored() {
        let accounted = HeldMemory { sessions: 1, ..HeldMemory::default() };
        let stored = HeldMemory::default();
        let report = MemoryReport {
            accounted,
            stored,
            places: 0,
            closed: 0,
            freeable: 0,
            bytes_max: 1 << 10,
        };
        assert!(check_memory(&report).is_err());
    }
}
