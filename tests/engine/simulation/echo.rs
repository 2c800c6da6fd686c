//! A driver that sends back what it receives, as a real one would: one send at a time, no more
//! than so many bytes waiting, closed when the peer is done or gone.

use std::collections::BTreeMap;
use std::time::Duration;

use corelane::base::random::Random;
use corelane::base::time::Moment;
use corelane::engine::ring::sim::{SimRing, World};
use corelane::engine::ring::{Completion, Lease, Operation, Patience, Ring, RingOptions, Socket};
use corelane::engine::shard::{Driver, Shard};

/// The driver.
pub(super) struct Echo {
    streams: BTreeMap<Socket, Stream>,
    /// Leases that it keeps for some turns, as a driver with much to do would.
    kept: Vec<Lease>,
    random: Random,
    /// Everything that it saw, folded: two runs are the same where this is.
    pub(super) trace: u64,
    pub(super) accepts_failed: usize,
}

#[derive(Default)]
struct Stream {
    waiting: Vec<u8>,
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

/// More than this waits: nothing more is received.
const WAITING_BYTES_MAX: usize = 2_000;

/// A shard that echoes at the simulated address.
pub(super) fn shard(world: &World, options: RingOptions) -> Shard<SimRing, Echo> {
    let mut ring = world.ring(options);
    let listener = ring.listen(super::ADDRESS).unwrap();
    ring.submit(Operation::Accept(listener));
    let echo = Echo {
        streams: BTreeMap::new(),
        kept: Vec::new(),
        random: Random::seeded(world.seed()),
        trace: 0,
        accepts_failed: 0,
    };
    Shard::new(ring, echo)
}

/// Turns until a run is over: `is_over` is asked after every turn of the only shard.
pub(super) fn run(
    world: &World,
    shard: &mut Shard<SimRing, Echo>,
    mut is_over: impl FnMut() -> bool,
) {
    let deadline = world.now().after(super::LONG);
    while !is_over() {
        let (seed, ledger) = (world.seed(), world.ledger());
        assert!(world.now() < deadline, "seed {seed} takes forever: {ledger:?}");
        shard.turn(Patience::For(Duration::from_millis(5)));
    }
}

impl Echo {
    fn note(&mut self, what: u64, now: Moment) {
        let mixed = self.trace ^ what.wrapping_mul(31) ^ now.nanoseconds();
        self.trace = Random::seeded(mixed).next_u64();
    }

    fn receive(&mut self, ring: &mut SimRing, socket: Socket, lease: Lease) {
        let bytes = &ring.bytes(&lease)[..lease.length as usize];
        let stream = self.streams.get_mut(&socket).expect("bytes of a socket that is not open");
        assert!(!stream.is_ended && stream.phase != Phase::Closing, "bytes after the end");
        stream.waiting.extend_from_slice(bytes);
        if stream.waiting.len() > WAITING_BYTES_MAX && !stream.is_paused {
            stream.is_paused = true;
            ring.submit(Operation::Pause(socket));
        }
        if self.random.chance(1, 3) && self.kept.len() < 6 {
            self.kept.push(lease);
        } else {
            ring.release(lease);
        }
    }

    fn sent(&mut self, socket: Socket, buffer: &[u8], result: &std::io::Result<usize>) {
        let stream = self.streams.get_mut(&socket).expect("a send of a socket that is not open");
        assert_eq!(buffer.len(), stream.sending_bytes, "the buffer came back changed");
        stream.sending_bytes = 0;
        match result {
            // What did not go goes in front of what came since.
            Ok(count) => drop(stream.waiting.splice(0..0, buffer[*count..].iter().copied())),
            Err(_) if stream.phase == Phase::Open => stream.phase = Phase::Broken,
            Err(_) => {}
        }
    }
}

impl Driver<SimRing> for Echo {
    fn arrive(&mut self, ring: &mut SimRing, completion: Completion, now: Moment) {
        match completion {
            Completion::Accepted { socket, .. } => {
                self.note(u64::from(socket.0), now);
                let former = self.streams.insert(socket, Stream::default());
                assert!(former.is_none(), "a name in use was given again");
                ring.submit(Operation::Receive(socket));
            }
            Completion::AcceptFailed { .. } => self.accepts_failed += 1,
            Completion::Received { socket, lease } => {
                self.note(u64::from(lease.length), now);
                self.receive(ring, socket, lease);
            }
            Completion::Ended { socket, result } => {
                self.note(u64::from(result.is_ok()), now);
                let stream = self.streams.get_mut(&socket).expect("the end of a closed socket");
                assert!(!stream.is_ended, "an end is told once");
                stream.is_ended = true;
                if result.is_err() {
                    stream.phase = Phase::Broken;
                }
            }
            Completion::Sent { socket, buffer, result } => self.sent(socket, &buffer, &result),
            Completion::Closed { socket } => {
                let stream = self.streams.remove(&socket).expect("closed twice");
                assert!(stream.phase == Phase::Closing && stream.sending_bytes == 0);
            }
            Completion::Connected { .. } => panic!("it connects to nobody"),
        }
    }

    fn expire(&mut self, _ring: &mut SimRing, _now: Moment) {}

    fn take_letters(&mut self, _ring: &mut SimRing, _now: Moment) -> bool {
        false
    }

    fn run_ready(&mut self, ring: &mut SimRing, _now: Moment) -> bool {
        // Leases go back one at a time; while some are left there is more to do.
        if let Some(lease) = self.kept.pop() {
            ring.release(lease);
        }
        !self.kept.is_empty()
    }

    fn flush(&mut self, ring: &mut SimRing, _now: Moment) {
        for (&socket, stream) in &mut self.streams {
            let is_idle = stream.sending_bytes == 0 && stream.phase != Phase::Closing;
            if is_idle && stream.phase == Phase::Open && !stream.waiting.is_empty() {
                let buffer = std::mem::take(&mut stream.waiting);
                stream.sending_bytes = buffer.len();
                ring.submit(Operation::Send { socket, buffer, from: 0 });
                if std::mem::take(&mut stream.is_paused) {
                    ring.submit(Operation::Receive(socket));
                }
            } else if is_idle && (stream.phase == Phase::Broken || stream.is_ended) {
                stream.phase = Phase::Closing;
                ring.submit(Operation::Close(socket));
            }
        }
    }

    fn deadline(&self) -> Option<Moment> {
        None
    }

    fn prepare_park(&mut self) -> bool {
        true
    }

    fn is_finished(&self) -> bool {
        false
    }
}
