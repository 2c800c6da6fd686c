//! Two drivers over one ring: the driver of a shard, and a driver that is attached to it.
//!
//! Invariants:
//!
//! - The completions of a socket go to the driver that has registered or connected it, all others
//!   to the driver of the shard. An attached driver does not accept, and the driver of the shard
//!   does not submit [`Operation::Connect`].
//! - In a turn the attached driver receives its messages after the futures of the shard have run:
//!   what they ask of it is submitted in the same turn.
//! - The driver of the shard drains first. The attached driver stops then, and has [`STOP_TIMEOUT`]
//!   to close its sockets.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::ring::{
    Completion, Operation, ParkTimeout, ReceiveBuffer, Registered, Ring, Shortage, Socket, Source,
    Waker,
};
use super::shard_loop::Driver;
use corelane_base::time::Instant;

/// Time that an attached driver has to close its sockets once the shard has drained.
pub const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// I/O that a server may run on its shards: a pool of clients.
pub trait AttachedIo {
    /// Returns what creates the drivers, or `None` if it needs none.
    fn driver_factory(&self) -> Option<Arc<dyn DriverFactory>>;
}

/// Creates the attached driver of each shard of a server.
pub trait DriverFactory: fmt::Debug + Send + Sync {
    /// Creates a driver on the thread of a shard whose ring is behind `waker`.
    fn create(&self, waker: Waker) -> Box<dyn AttachedDriver>;

    /// Returns the number of sockets that a driver may have open.
    fn sockets_max(&self) -> u32;
}

/// A driver that shares the ring of a shard.
pub trait AttachedDriver: for<'r> Driver<SharedRing<'r>> {
    /// Refuses what is new and begins to close everything; [`Driver::is_finished`] returns `true`
    /// afterwards.
    fn begin_stop(&mut self);
}

/// The ring of a shard, as its attached driver uses it.
pub struct SharedRing<'r> {
    ring: &'r mut dyn Ring,
    sockets: &'r mut SocketSet,
}

impl Ring for SharedRing<'_> {
    fn register(&mut self, source: Source) -> io::Result<Registered> {
        let registered = self.ring.register(source)?;
        if let Registered::Socket(socket) = registered {
            self.sockets.insert(socket);
        }
        Ok(registered)
    }

    fn submit(&mut self, operation: Operation) {
        self.ring.submit(operation);
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        self.ring.reap(completions);
    }

    fn park(&mut self, timeout: ParkTimeout) -> Instant {
        self.ring.park(timeout)
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.ring.next_deadline()
    }

    fn waker(&self) -> Waker {
        self.ring.waker()
    }

    fn wake(&mut self, other: &Waker) {
        self.ring.wake(other);
    }

    fn bytes(&mut self, buffer: &ReceiveBuffer) -> &mut [u8] {
        self.ring.bytes(buffer)
    }

    fn release(&mut self, buffer: ReceiveBuffer) {
        self.ring.release(buffer);
    }

    fn register_eventfd(&mut self, eventfd: std::os::fd::BorrowedFd<'_>) -> io::Result<()> {
        self.ring.register_eventfd(eventfd)
    }

    fn exhaustion(&self) -> super::ring::Exhaustion {
        self.ring.exhaustion()
    }

    fn shortage(&mut self, socket: Socket) -> Option<Shortage> {
        self.ring.shortage(socket)
    }

    fn held_bytes(&self) -> usize {
        self.ring.held_bytes()
    }

    fn held_bytes_of(&self, socket: Socket) -> usize {
        self.ring.held_bytes_of(socket)
    }

    fn describe(&self) -> String {
        self.ring.describe()
    }
}

/// A set of sockets: a bit each.
#[derive(Debug, Default)]
struct SocketSet(Vec<u64>);

impl SocketSet {
    const fn place(socket: Socket) -> (usize, u64) {
        (socket.index() / 64, 1 << (socket.index() % 64))
    }

    fn insert(&mut self, socket: Socket) {
        let (word, bit) = Self::place(socket);
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= bit;
    }

    fn contains(&self, socket: Socket) -> bool {
        let (word, bit) = Self::place(socket);
        self.0.get(word).is_some_and(|bits| bits & bit != 0)
    }

    fn remove(&mut self, socket: Socket) {
        let (word, bit) = Self::place(socket);
        if let Some(bits) = self.0.get_mut(word) {
            *bits &= !bit;
        }
    }
}

/// The driver of a shard and its attached driver, as one driver.
pub struct DriverPair<D> {
    shard: D,
    attached: Box<dyn AttachedDriver>,
    /// The sockets of the attached driver.
    sockets: SocketSet,
    stop: Stop,
}

/// Whether the attached driver stops.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stop {
    /// The shard has not drained.
    No,
    /// It has until this time.
    Until(Instant),
    /// It has not stopped within [`STOP_TIMEOUT`].
    Over,
}

impl<D> DriverPair<D> {
    /// Attaches a driver to that of a shard.
    pub fn new(shard: D, attached: Box<dyn AttachedDriver>) -> Self {
        Self { shard, attached, sockets: SocketSet::default(), stop: Stop::No }
    }

    /// Returns the driver of the shard.
    pub const fn shard(&self) -> &D {
        &self.shard
    }

    /// Runs `act` with the attached driver and its view of `ring`.
    fn with_attached<R: Ring, O>(
        &mut self,
        ring: &mut R,
        act: impl FnOnce(&mut dyn AttachedDriver, &mut SharedRing<'_>) -> O,
    ) -> O {
        let mut ring = SharedRing { ring, sockets: &mut self.sockets };
        act(&mut *self.attached, &mut ring)
    }

    fn attached_deadline(&self) -> Option<Instant> {
        Driver::<SharedRing<'_>>::next_deadline(&*self.attached)
    }

    const fn stop_deadline(&self) -> Option<Instant> {
        match self.stop {
            Stop::Until(deadline) => Some(deadline),
            Stop::No | Stop::Over => None,
        }
    }
}

impl<R: Ring, D: Driver<R>> Driver<R> for DriverPair<D> {
    #[inline]
    fn handle_completion(&mut self, ring: &mut R, completion: Completion, now: Instant) {
        if let Completion::Connected { result, .. } = &completion {
            if let Ok(socket) = result {
                self.sockets.insert(*socket);
            }
            return self.with_attached(ring, |attached, ring| {
                attached.handle_completion(ring, completion, now);
            });
        }
        let socket = completion.socket().filter(|socket| self.sockets.contains(*socket));
        let Some(socket) = socket else {
            return self.shard.handle_completion(ring, completion, now);
        };
        if matches!(completion, Completion::Closed { .. }) {
            self.sockets.remove(socket);
        }
        self.with_attached(ring, |attached, ring| {
            attached.handle_completion(ring, completion, now);
        });
    }

    #[inline]
    fn handle_late_completions(&mut self, ring: &mut R, now: Instant) -> bool {
        self.shard.handle_late_completions(ring, now)
    }

    fn expire_timers(&mut self, ring: &mut R, now: Instant) {
        let is_due = |deadline: Option<Instant>| deadline.is_some_and(|deadline| deadline <= now);
        if is_due(self.shard.next_deadline()) {
            self.shard.expire_timers(ring, now);
        }
        if is_due(self.attached_deadline()) {
            self.with_attached(ring, |attached, ring| attached.expire_timers(ring, now));
        }
        if is_due(self.stop_deadline()) {
            self.stop = Stop::Over;
        }
    }

    fn receive_messages(&mut self, ring: &mut R, now: Instant) -> bool {
        self.shard.receive_messages(ring, now)
    }

    fn poll_futures(&mut self, ring: &mut R, now: Instant) -> bool {
        let has_futures = self.shard.poll_futures(ring, now);
        self.with_attached(ring, |attached, ring| {
            let has_messages = attached.receive_messages(ring, now);
            attached.poll_futures(ring, now) || has_messages || has_futures
        })
    }

    fn flush(&mut self, ring: &mut R, now: Instant) {
        self.shard.flush(ring, now);
        self.with_attached(ring, |attached, ring| attached.flush(ring, now));
        if self.stop == Stop::No && self.shard.is_finished() {
            self.stop = Stop::Until(now.after(STOP_TIMEOUT));
            self.attached.begin_stop();
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let deadlines =
            [self.shard.next_deadline(), self.attached_deadline(), self.stop_deadline()];
        deadlines.into_iter().flatten().min()
    }

    fn prepare_park(&mut self) -> bool {
        self.shard.prepare_park() && Driver::<SharedRing<'_>>::prepare_park(&mut *self.attached)
    }

    fn is_finished(&self) -> bool {
        let is_closed = match self.stop {
            Stop::No => false,
            Stop::Until(_) => Driver::<SharedRing<'_>>::is_finished(&*self.attached),
            Stop::Over => true,
        };
        is_closed && self.shard.is_finished()
    }
}

impl<D: fmt::Debug> fmt::Debug for DriverPair<D> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = formatter.debug_struct("DriverPair");
        text.field("shard", &self.shard).field("stop", &self.stop).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;
    use crate::shard_loop::{ShardLoop, TurnStatus};

    /// A ring whose test passes it completions and the time.
    #[derive(Default)]
    struct ScriptedRing {
        sockets: u32,
        completions: Rc<RefCell<Vec<Completion>>>,
        now: Rc<RefCell<Instant>>,
    }

    impl Ring for ScriptedRing {
        fn register(&mut self, _: Source) -> io::Result<Registered> {
            self.sockets += 1;
            Ok(Registered::Socket(Socket(self.sockets)))
        }

        fn submit(&mut self, _: Operation) {}

        fn reap(&mut self, completions: &mut Vec<Completion>) {
            completions.append(&mut self.completions.borrow_mut());
        }

        fn park(&mut self, _: ParkTimeout) -> Instant {
            *self.now.borrow()
        }

        fn waker(&self) -> Waker {
            Waker::new(|| {})
        }

        fn bytes(&mut self, _: &ReceiveBuffer) -> &mut [u8] {
            &mut []
        }

        fn release(&mut self, _: ReceiveBuffer) {}

        fn describe(&self) -> String {
            String::new()
        }
    }

    /// What a driver was asked for, in order.
    type Log = Rc<RefCell<Vec<String>>>;

    /// A driver that logs its completions and the steps of a turn.
    struct RecordingDriver {
        name: &'static str,
        log: Log,
        /// Registered in the first turn.
        source: Option<Source>,
        is_finished: Rc<RefCell<bool>>,
    }

    impl RecordingDriver {
        fn record(&self, event: &str) {
            self.log.borrow_mut().push(format!("{} {event}", self.name));
        }
    }

    impl<R: Ring> Driver<R> for RecordingDriver {
        fn handle_completion(&mut self, _: &mut R, completion: Completion, _: Instant) {
            self.record(&format!("completes {}", completion.socket().map_or(0, |it| it.0)));
        }

        fn expire_timers(&mut self, _: &mut R, _: Instant) {
            self.record("expires");
        }

        fn receive_messages(&mut self, ring: &mut R, _: Instant) -> bool {
            self.record("receives");
            if let Some(source) = self.source.take() {
                ring.register(source).unwrap();
            }
            false
        }

        fn poll_futures(&mut self, _: &mut R, _: Instant) -> bool {
            self.record("polls");
            false
        }

        fn flush(&mut self, _: &mut R, _: Instant) {
            self.record("flushes");
        }

        fn next_deadline(&self) -> Option<Instant> {
            None
        }

        fn prepare_park(&mut self) -> bool {
            true
        }

        fn is_finished(&self) -> bool {
            *self.is_finished.borrow()
        }
    }

    impl AttachedDriver for RecordingDriver {
        fn begin_stop(&mut self) {
            self.record("stops");
        }
    }

    struct Pair {
        shard: ShardLoop<ScriptedRing, DriverPair<RecordingDriver>>,
        completions: Rc<RefCell<Vec<Completion>>>,
        now: Rc<RefCell<Instant>>,
        log: Log,
        has_drained: Rc<RefCell<bool>>,
        has_closed: Rc<RefCell<bool>>,
    }

    impl Pair {
        fn new() -> Self {
            let ring = ScriptedRing::default();
            let (completions, now) = (Rc::clone(&ring.completions), Rc::clone(&ring.now));
            let log = Log::default();
            let (has_drained, has_closed) = (Rc::default(), Rc::default());
            let driver = |name, is_finished: &Rc<RefCell<bool>>, source| RecordingDriver {
                name,
                log: Rc::clone(&log),
                source,
                is_finished: Rc::clone(is_finished),
            };
            let source = || Some(Source::Stream(std::fs::File::open("/dev/null").unwrap().into()));
            let attached = driver("attached", &has_closed, source());
            let pair = DriverPair::new(driver("shard", &has_drained, source()), Box::new(attached));
            let mut shard = ShardLoop::new(ring, pair);
            assert_eq!(shard.run_turn(ParkTimeout::Zero), TurnStatus::Continue);
            Self { shard, completions, now, log, has_drained, has_closed }
        }

        /// Runs one turn; returns what the drivers were asked for.
        fn run_turn(&mut self) -> (TurnStatus, Vec<String>) {
            self.log.take();
            let status = self.shard.run_turn(ParkTimeout::Zero);
            (status, self.log.take())
        }

        /// Passes a completion to the next turn and returns who handles it.
        fn complete(&mut self, completion: Completion) -> String {
            self.completions.borrow_mut().push(completion);
            self.run_turn();
            let events = self.run_turn().1;
            events.into_iter().find(|event| event.contains("completes")).unwrap_or_default()
        }
    }

    fn end_of(socket: u32) -> Completion {
        Completion::EndOfStream { socket: Socket(socket), result: Ok(()) }
    }

    #[test]
    fn completion_goes_to_driver_of_socket() {
        let mut pair = Pair::new();
        assert_eq!(pair.complete(end_of(1)), "shard completes 1");
        assert_eq!(pair.complete(end_of(2)), "attached completes 2");
        assert_eq!(pair.complete(end_of(70)), "shard completes 70");
        let closed = Completion::Closed { socket: Socket(2) };
        assert_eq!(pair.complete(closed), "attached completes 2");
        assert_eq!(pair.complete(end_of(2)), "shard completes 2", "accepted since");
    }

    #[test]
    fn connected_socket_goes_to_attached_driver() {
        let mut pair = Pair::new();
        assert_eq!(pair.complete(end_of(9)), "shard completes 9");
        let connected = Completion::Connected { token: 1, result: Ok(Socket(9)) };
        assert_eq!(pair.complete(connected), "attached completes 0");
        assert_eq!(pair.complete(end_of(9)), "attached completes 9");
    }

    #[test]
    fn attached_driver_receives_after_shard_futures() {
        let expected = [
            "shard receives",
            "shard polls",
            "attached receives",
            "attached polls",
            "shard flushes",
            "attached flushes",
        ];
        assert_eq!(Pair::new().run_turn().1, expected);
    }

    #[test]
    fn attached_driver_stops_after_shard_drain() {
        let mut pair = Pair::new();
        *pair.has_closed.borrow_mut() = true;
        assert_eq!(pair.run_turn().0, TurnStatus::Continue, "the shard serves");
        *pair.has_closed.borrow_mut() = false;
        *pair.has_drained.borrow_mut() = true;
        let (status, events) = pair.run_turn();
        assert_eq!((status, &*events[6]), (TurnStatus::Continue, "attached stops"));
        let (status, events) = pair.run_turn();
        assert_eq!((status, events.len()), (TurnStatus::Continue, 6), "it stops once");
        *pair.has_closed.borrow_mut() = true;
        assert_eq!(pair.run_turn().0, TurnStatus::Finished);
    }

    #[test]
    fn stop_timeout_ends_attached_driver() {
        let mut pair = Pair::new();
        *pair.has_drained.borrow_mut() = true;
        pair.run_turn();
        *pair.now.borrow_mut() = Instant::default().after(STOP_TIMEOUT);
        assert_eq!(pair.run_turn().0, TurnStatus::Continue);
        assert_eq!(pair.run_turn().0, TurnStatus::Finished);
    }
}
