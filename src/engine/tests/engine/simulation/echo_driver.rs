//! An echo driver with one send in flight, bounded pending bytes, and a close when the peer has
//! ended or failed.

use std::collections::BTreeMap;
use std::time::Duration;

use corelane_base::random::Random;
use corelane_base::time::Instant;
use corelane_engine::ring::sim::{SimRing, World};
use corelane_engine::ring::{
    Completion, Operation, ParkTimeout, ReceiveBuffer, Ring, RingOptions, Socket,
};
use corelane_engine::shard_loop::{Driver, ShardLoop};

/// A driver that sends back what it receives.
pub(super) struct EchoDriver {
    streams: BTreeMap<Socket, Stream>,
    /// Receive buffers held for some turns, as a busy driver would.
    held_buffers: Vec<ReceiveBuffer>,
    random: Random,
    /// Hash over all events: equal for equal runs.
    pub(super) trace: u64,
    pub(super) accepts_failed: usize,
}

#[derive(Default)]
struct Stream {
    pending: Vec<u8>,
    sending_bytes: usize,
    is_paused: bool,
    is_ended: bool,
    phase: Phase,
}

#[derive(Clone, Copy, Default, Eq, PartialEq)]
enum Phase {
    #[default]
    Open,
    Broken,
    Closing,
}

/// Pending bytes above which receiving is stopped.
const PENDING_BYTES_MAX: usize = 2_000;

/// Builds a shard that echoes at the simulated address.
pub(super) fn shard(world: &World, options: RingOptions) -> ShardLoop<SimRing, EchoDriver> {
    let mut ring = world.ring(options);
    let listener = ring.listen(super::ADDRESS).unwrap();
    ring.submit(Operation::Accept(listener));
    let echo = EchoDriver {
        streams: BTreeMap::new(),
        held_buffers: Vec::new(),
        random: Random::seeded(world.seed()),
        trace: 0,
        accepts_failed: 0,
    };
    ShardLoop::new(ring, echo)
}

/// Turns the only shard until `is_over` returns `true`, checked after every turn.
pub(super) fn run_shard(
    world: &World,
    shard: &mut ShardLoop<SimRing, EchoDriver>,
    mut is_over: impl FnMut() -> bool,
) {
    let deadline = world.now().after(super::MAX_RUN_TIME);
    while !is_over() {
        let (seed, usage) = (world.seed(), world.resource_usage());
        assert!(world.now() < deadline, "seed {seed} does not end: {usage:?}");
        shard.run_turn(ParkTimeout::After(Duration::from_millis(5)));
    }
}

impl EchoDriver {
    fn record(&mut self, what: u64, now: Instant) {
        let mixed = self.trace ^ what.wrapping_mul(31) ^ now.nanoseconds();
        self.trace = Random::seeded(mixed).next_u64();
    }

    fn handle_received(&mut self, ring: &mut SimRing, socket: Socket, buffer: ReceiveBuffer) {
        let bytes = &ring.bytes(&buffer)[..buffer.len as usize];
        let stream = self.streams.get_mut(&socket).expect("socket is open");
        assert!(!stream.is_ended && stream.phase != Phase::Closing, "bytes after end of stream");
        stream.pending.extend_from_slice(bytes);
        if stream.pending.len() > PENDING_BYTES_MAX && !stream.is_paused {
            stream.is_paused = true;
            ring.submit(Operation::StopReceive(socket));
        }
        if self.random.chance(1, 3) && self.held_buffers.len() < 6 {
            self.held_buffers.push(buffer);
        } else {
            ring.release(buffer);
        }
    }

    fn handle_sent(&mut self, socket: Socket, buffer: &[u8], result: &std::io::Result<usize>) {
        let stream = self.streams.get_mut(&socket).expect("socket is open");
        assert_eq!(buffer.len(), stream.sending_bytes, "the buffer was returned unchanged");
        stream.sending_bytes = 0;
        match result {
            // Unsent bytes go in front of those received since.
            Ok(count) => drop(stream.pending.splice(0..0, buffer[*count..].iter().copied())),
            Err(_) if stream.phase == Phase::Open => stream.phase = Phase::Broken,
            Err(_) => {}
        }
    }
}

impl Driver<SimRing> for EchoDriver {
    fn handle_completion(&mut self, ring: &mut SimRing, completion: Completion, now: Instant) {
        match completion {
            Completion::Accepted { socket, .. } => {
                self.record(u64::from(socket.0), now);
                let previous = self.streams.insert(socket, Stream::default());
                assert!(previous.is_none(), "an open socket number was reused");
                ring.submit(Operation::Receive(socket));
            }
            Completion::AcceptFailed { .. } => self.accepts_failed += 1,
            Completion::Received { socket, buffer } => {
                self.record(u64::from(buffer.len), now);
                self.handle_received(ring, socket, buffer);
            }
            Completion::EndOfStream { socket, result } => {
                self.record(u64::from(result.is_ok()), now);
                let stream = self.streams.get_mut(&socket).expect("socket is open");
                assert!(!stream.is_ended, "second end of stream");
                stream.is_ended = true;
                if result.is_err() {
                    stream.phase = Phase::Broken;
                }
            }
            Completion::Sent { socket, buffer, result } => {
                self.handle_sent(socket, &buffer, &result);
            }
            Completion::Closed { socket } => {
                let stream = self.streams.remove(&socket).expect("closed twice");
                assert!(stream.phase == Phase::Closing && stream.sending_bytes == 0);
            }
            Completion::Connected { .. } | Completion::PeerCertificate { .. } => {
                panic!("the driver neither connects nor has TLS")
            }
        }
    }

    fn expire_timers(&mut self, _ring: &mut SimRing, _now: Instant) {}

    fn receive_messages(&mut self, _ring: &mut SimRing, _now: Instant) -> bool {
        false
    }

    fn poll_futures(&mut self, ring: &mut SimRing, _now: Instant) -> bool {
        // Buffers are released one at a time; while some are left there is more work.
        if let Some(buffer) = self.held_buffers.pop() {
            ring.release(buffer);
        }
        !self.held_buffers.is_empty()
    }

    fn flush(&mut self, ring: &mut SimRing, _now: Instant) {
        for (&socket, stream) in &mut self.streams {
            let is_idle = stream.sending_bytes == 0 && stream.phase != Phase::Closing;
            if is_idle && stream.phase == Phase::Open && !stream.pending.is_empty() {
                let buffer = std::mem::take(&mut stream.pending);
                stream.sending_bytes = buffer.len();
                ring.submit(Operation::Send { socket, buffer, offset: 0 });
                if std::mem::take(&mut stream.is_paused) {
                    ring.submit(Operation::Receive(socket));
                }
            } else if is_idle && (stream.phase == Phase::Broken || stream.is_ended) {
                let is_broken = stream.phase == Phase::Broken;
                stream.phase = Phase::Closing;
                let close = if is_broken { Operation::Reset } else { Operation::Close };
                ring.submit(close(socket));
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    fn prepare_park(&mut self) -> bool {
        true
    }

    fn is_finished(&self) -> bool {
        false
    }
}
