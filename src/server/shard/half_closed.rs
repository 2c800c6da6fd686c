//! TCP connections whose client has ended its input while calls are in flight.
//!
//! Invariants: a connection waits for its calls for at most the timeout, in the order in which the
//! inputs ended; over all shards at most `waiting_max` connections wait. The server cannot know
//! whether such a client still reads (RFC 9293, section 3.6).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use corelane_base::slab::Key;
use corelane_base::time::Instant;
use corelane_engine::mesh::SharedCounter;
use corelane_protocol::error::{Error, ErrorKind};

use crate::server::shard_message::HalfCloseLimits;

/// The half-closed connections of one shard that wait for their calls. An idle connection costs
/// nothing.
#[derive(Debug)]
pub struct HalfClosed {
    limits: HalfCloseLimits,
    /// Number of waiting connections of all shards.
    waiting: Arc<SharedCounter>,
    /// Each connection with the time at which its input ended, in that order.
    queue: VecDeque<(Key, Instant)>,
}

/// What happens to the calls in flight at the end of the input.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HalfClose {
    /// They are cancelled without a response.
    Cancel,
    /// They have the timeout to complete.
    Wait,
    /// They are cancelled with an error, because `waiting_max` connections wait.
    Refuse { waiting_max: usize },
}

impl HalfClosed {
    pub const fn new(limits: HalfCloseLimits, waiting: Arc<SharedCounter>) -> Self {
        Self { limits, waiting, queue: VecDeque::new() }
    }

    /// Applies new limits, the timeout also to connections that wait already.
    pub const fn set_limits(&mut self, limits: HalfCloseLimits) {
        self.limits = limits;
    }

    /// Decides about the calls of a connection whose input has ended.
    pub fn admit(&mut self, key: Key, now: Instant) -> HalfClose {
        let HalfCloseLimits { timeout, waiting_max } = self.limits;
        if timeout.is_zero() {
            return HalfClose::Cancel;
        }
        if !self.waiting.try_acquire(waiting_max) {
            return HalfClose::Refuse { waiting_max };
        }
        self.queue.push_back((key, now));
        HalfClose::Wait
    }

    /// Returns when the next timeout passes.
    #[inline]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.queue.front().map(|(_, ended_at)| ended_at.after(self.limits.timeout))
    }

    /// Removes one connection whose timeout has passed, and returns it with the timeout.
    #[inline]
    pub fn pop_expired(&mut self, now: Instant) -> Option<(Key, Duration)> {
        self.next_deadline().filter(|deadline| *deadline <= now)?;
        let (key, _) = self.queue.pop_front()?;
        self.waiting.release();
        Some((key, self.limits.timeout))
    }

    /// Removes a connection that has closed. Cost: one pass over the waiting connections.
    pub fn remove(&mut self, key: Key) {
        if let Some(index) = self.queue.iter().position(|(waiting, _)| *waiting == key) {
            self.queue.remove(index);
            self.waiting.release();
        }
    }
}

/// The error of calls whose time after the end of the input has passed.
#[cold]
pub fn half_close_timeout(timeout: Duration) -> Error {
    Error::internal(format!(
        "the call was cancelled: {timeout:?} (tcp.half_close_timeout) have passed since the end of \
         the client's input"
    ))
}

/// The error of calls that cannot wait after the end of the input.
#[cold]
pub fn half_close_refused(waiting_max: usize) -> Error {
    Error::new(
        ErrorKind::TooManyRequests,
        format!(
            "the call was cancelled at the end of the client's input: {waiting_max} half-closed \
             connections (tcp.connections_max / 8) wait for their calls; shut down writing after \
             the response"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(100);

    fn key(number: u64) -> Key {
        Key::from_bits(number)
    }

    fn at(milliseconds: u64) -> Instant {
        Instant::from_milliseconds(milliseconds)
    }

    fn limits(waiting_max: usize) -> HalfCloseLimits {
        HalfCloseLimits { timeout: TIMEOUT, waiting_max }
    }

    #[test]
    fn zero_timeout_cancels_calls_at_once() {
        let waiting = Arc::<SharedCounter>::default();
        let limits = HalfCloseLimits { timeout: Duration::ZERO, ..limits(8) };
        let mut half_closed = HalfClosed::new(limits, Arc::clone(&waiting));
        assert_eq!(half_closed.admit(key(1), at(0)), HalfClose::Cancel);
        assert_eq!((half_closed.next_deadline(), waiting.count()), (None, 0));
    }

    #[test]
    fn limit_spans_all_shards_until_release() {
        let waiting = Arc::<SharedCounter>::default();
        let mut shards = [(); 2].map(|()| HalfClosed::new(limits(2), Arc::clone(&waiting)));
        assert_eq!(shards[0].admit(key(1), at(0)), HalfClose::Wait);
        assert_eq!(shards[1].admit(key(1), at(10)), HalfClose::Wait);
        assert_eq!(shards[0].admit(key(2), at(20)), HalfClose::Refuse { waiting_max: 2 });
        shards[0].remove(key(2));
        assert_eq!(waiting.count(), 2);
        shards[1].remove(key(1));
        assert_eq!(shards[0].admit(key(2), at(30)), HalfClose::Wait);
        assert_eq!(shards[0].pop_expired(at(100)), Some((key(1), TIMEOUT)));
        assert_eq!(waiting.count(), 1);
    }

    #[test]
    fn changed_timeout_applies_to_waiting_connections() {
        let mut half_closed = HalfClosed::new(limits(8), Arc::default());
        for number in 1..=3 {
            half_closed.admit(key(number), at(10 * number));
        }
        assert_eq!(half_closed.pop_expired(at(109)), None);
        half_closed.remove(key(2));
        half_closed.set_limits(HalfCloseLimits { timeout: Duration::ZERO, waiting_max: 1 });
        assert_eq!(half_closed.next_deadline(), Some(at(10)));
        assert_eq!(half_closed.pop_expired(at(20)), Some((key(1), Duration::ZERO)));
        assert_eq!(half_closed.pop_expired(at(29)), None);
        assert_eq!(half_closed.pop_expired(at(30)), Some((key(3), Duration::ZERO)));
        assert_eq!(half_closed.next_deadline(), None);
    }
}
