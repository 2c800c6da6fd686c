//! Steps of handshakes, on the shard while they take little of its time, otherwise on threads in
//! the background, so that calls do not wait for them.
//!
//! Invariants: a step that has begun comes back once, and is completed by the same code wherever it
//! ran; of one that panics on a thread its shard learns that at once; client addresses are served
//! in turns.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use corelane_base::client_address::ClientAddress;
use corelane_base::time::Instant;
use corelane_engine::blocking::{BlockingPool, Job, Reservation, WaitingJob};
use corelane_engine::clock::Clock;
use corelane_engine::ring::{Socket, Waker};
use corelane_engine::stream::ByteFilter;
use corelane_tls::{ServerSide, TlsError, TlsFilter};

/// Input of a handshake, which its filter handles.
pub(super) struct HandshakeStep {
    pub(super) socket: Socket,
    /// Number of the handshake.
    pub(super) number: u64,
    /// The address of the client, if it has one.
    pub(super) address: Option<ClientAddress>,
    pub(super) filter: TlsFilter<ServerSide>,
    pub(super) input: Vec<u8>,
    /// The first byte of the input, 0 if there is none.
    pub(super) first_byte: u8,
    /// Data that has arrived with the end of the handshake.
    pub(super) plaintext: Vec<u8>,
    pub(super) result: Result<(), TlsError>,
}

impl HandshakeStep {
    /// Handles the input.
    pub(super) fn run(&mut self) {
        let mut decoded = Vec::new();
        let result = self.filter.decode(&mut self.input, &mut decoded);
        match result {
            Ok(Some(length)) => self.plaintext.extend_from_slice(&self.input[..length]),
            _ => self.plaintext.append(&mut decoded),
        }
        self.result = result.map(drop);
    }
}

/// The threads of handshakes of a server; a clone is the same threads.
#[derive(Clone, Debug)]
pub struct HandshakeThreads(Arc<BlockingPool<ThreadStep>>);

impl HandshakeThreads {
    /// Returns up to `threads` threads, each started when steps wait for it.
    pub fn new(threads: usize) -> Self {
        // A handshake in progress has at most one step here, and their number is limited.
        Self(Arc::new(BlockingPool::background("corelane-handshakes", threads, usize::MAX)))
    }
}

/// Whose steps are served in turns: an address, or a connection without one.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct StepOwner {
    address: Option<ClientAddress>,
    handshake: u64,
}

/// A step on a thread.
struct ThreadStep {
    step: Box<HandshakeStep>,
    completed: Arc<Completed>,
}

impl Job for ThreadStep {
    type Owner = StepOwner;

    fn bytes(&self) -> usize {
        0
    }

    fn run(self, _: Reservation) {
        let Self { mut step, completed } = self;
        let HandshakeStep { socket, number, .. } = *step;
        completed.push(end_of(socket, number, move || {
            step.run();
            step
        }));
    }
}

/// The end of a step on a thread.
pub(super) enum ThreadEnd {
    Completed(Box<HandshakeStep>),
    /// The step has panicked, and its filter is gone.
    Panicked {
        socket: Socket,
        number: u64,
    },
}

/// Runs a step on a thread.
fn end_of(socket: Socket, number: u64, run: impl FnOnce() -> Box<HandshakeStep>) -> ThreadEnd {
    // The step is dropped by a panic, with all that it has changed.
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(step) => ThreadEnd::Completed(step),
        Err(_) => ThreadEnd::Panicked { socket, number },
    }
}

/// Where a step runs.
pub(super) enum StepRun {
    /// It is done.
    Done(Box<HandshakeStep>),
    /// It comes back from a thread.
    OnThread(WaitingStep),
}

/// A step that waits for a thread, or has waited.
#[derive(Debug)]
pub(super) struct WaitingStep(WaitingJob<ThreadStep>);

impl WaitingStep {
    /// Removes the step, unless a thread has begun it.
    pub(super) fn withdraw(self) {
        drop(self.0.withdraw());
    }
}

/// Where the threads put the steps of a shard.
struct Completed {
    steps: Sender<ThreadEnd>,
    /// The shard has not looked at them since it was woken.
    has_woken: AtomicBool,
    waker: Waker,
}

impl Completed {
    fn push(&self, end: ThreadEnd) {
        // Fails once the shard has ended.
        let is_sent = self.steps.send(end).is_ok();
        if is_sent && !self.has_woken.swap(true, Ordering::AcqRel) {
            self.waker.wake();
        }
    }
}

/// The steps of a shard.
pub(super) struct HandshakeSteps {
    threads: HandshakeThreads,
    completed: Arc<Completed>,
    received: Receiver<ThreadEnd>,
    on_shard: ShardTime,
    clock: Clock,
}

impl HandshakeSteps {
    /// Returns steps that take at most `percent` of the time of the shard behind `waker`.
    pub(super) fn new(threads: HandshakeThreads, percent: u8, waker: Waker) -> Self {
        let (steps, received) = channel();
        let completed = Completed { steps, has_woken: AtomicBool::new(false), waker };
        let on_shard = ShardTime { percent, used_until: Instant::ORIGIN };
        Self { threads, completed: Arc::new(completed), received, on_shard, clock: Clock::start() }
    }

    /// Runs a step, or has it come back from a thread.
    pub(super) fn run(&mut self, mut step: Box<HandshakeStep>, now: Instant) -> StepRun {
        if !self.on_shard.admits(now) {
            let HandshakeStep { address, number, .. } = *step;
            let handshake = if address.is_some() { 0 } else { number };
            let completed = Arc::clone(&self.completed);
            let owner = StepOwner { address, handshake };
            match self.threads.0.spawn(owner, ThreadStep { step, completed }) {
                Ok(spawned) => return StepRun::OnThread(WaitingStep(spawned.waiting)),
                // The system allows no thread.
                Err(refused) => step = refused.step,
            }
        }
        let begin = self.clock.now();
        step.run();
        self.on_shard.record(self.clock.now().since(begin), now);
        StepRun::Done(step)
    }

    /// Returns whether threads have completed steps since the last call.
    pub(super) fn has_completed(&self) -> bool {
        // The store comes before the steps are received: a later one wakes the shard again.
        self.completed.has_woken.load(Ordering::Relaxed)
            && self.completed.has_woken.swap(false, Ordering::AcqRel)
    }

    /// Takes a step that has ended on a thread.
    pub(super) fn pop_completed(&self) -> Option<ThreadEnd> {
        self.received.try_recv().ok()
    }
}

impl fmt::Debug for HandshakeSteps {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = formatter.debug_struct("HandshakeSteps");
        fields.field("on_shard", &self.on_shard).finish_non_exhaustive()
    }
}

/// The time of a shard that steps have taken.
#[derive(Debug)]
struct ShardTime {
    percent: u8,
    /// When the part of the time is over that steps have taken already.
    used_until: Instant,
}

/// Time that a shard which had no handshakes gives them in advance.
const BURST: Duration = Duration::from_millis(100);

impl ShardTime {
    /// Returns whether the next step may run on the shard.
    fn admits(&self, now: Instant) -> bool {
        self.percent >= 100 || self.percent > 0 && self.used_until <= now.after(BURST)
    }

    /// Records the time that a step has taken.
    fn record(&mut self, took: Duration, now: Instant) {
        let part = took * 100 / u32::from(self.percent.max(1));
        self.used_until = self.used_until.max(now).after(part);
    }
}

#[cfg(test)]
mod tests {
    use corelane_engine::ring::RingOptions;
    use corelane_engine::ring::sim::{Faults, World};

    use super::*;

    #[test]
    fn panic_on_thread_is_an_end() {
        let world = World::with_faults(1, Faults::NONE);
        let (socket, _peer) = world.ring(RingOptions::default()).attach().unwrap();
        let end = end_of(socket, 7, || panic!("as a step might"));
        assert!(matches!(end, ThreadEnd::Panicked { socket: it, number: 7 } if it == socket));
    }

    #[test]
    fn steps_take_part_of_shard_time() {
        let mut time = ShardTime { percent: 1, used_until: Instant::ORIGIN };
        let at = Instant::from_milliseconds;
        let step = Duration::from_millis(1);
        for _ in 0..2 {
            assert!(time.admits(at(1_000)));
            time.record(step, at(1_000));
        }
        assert!(!time.admits(at(1_000)) && !time.admits(at(1_099)));
        assert!(time.admits(at(1_100)));
        time.record(step, at(1_100));
        assert!(!time.admits(at(1_199)) && time.admits(at(1_200)));
    }

    #[test]
    fn percent_bounds_admit_all_or_no_steps() {
        let mut whole = ShardTime { percent: 100, used_until: Instant::ORIGIN };
        whole.record(Duration::from_secs(10), Instant::ORIGIN);
        assert!(whole.admits(Instant::ORIGIN));
        assert!(!ShardTime { percent: 0, used_until: Instant::ORIGIN }.admits(Instant::ORIGIN));
    }
}
