//! What ends by time: silence, leases that were not used, goodbyes that were not answered.

use super::connection::{Ending, Phase};
use super::{Link, LinkOptions};
use crate::base::slab::Key;
use crate::base::time::Moment;
use crate::engine::ring::Ring;

/// Connections looked at in one turn, so that a storm of deadlines does not stall the others.
const EXPIRED_MAX: usize = 1024;

impl<S> Link<S> {
    /// When [`Link::expire`] next has something to do.
    pub fn deadline(&self) -> Option<Moment> {
        self.wheel.next_deadline()
    }

    /// Ends the connections whose time is over.
    pub fn expire<R: Ring>(&mut self, ring: &mut R, now: Moment) {
        for _ in 0..EXPIRED_MAX {
            let Some(key) = self.wheel.pop_expired(now) else { return };
            self.expire_one(ring, key, now);
        }
    }

    fn expire_one<R: Ring>(&mut self, ring: &mut R, key: Key, now: Moment) {
        let LinkOptions { idle_max, lease_max, linger_max, .. } = self.options;
        let Some(connection) = self.connections.get(key) else { return };
        let active = connection.active;
        let (due, ending) = match connection.phase {
            Phase::Closing => return,
            // An entry from before the goodbye may come earlier than its own.
            Phase::Lingering => (active.after(linger_max), Ending::Peer),
            Phase::Open | Phase::Draining
                if !connection.spoke || connection.is_inside_request() =>
            {
                (active.after(lease_max), Ending::Lease)
            }
            // Whoever waits for an answer is not silent, and the answer has a deadline of its own;
            // nor is whoever listens, and the system finds those that vanished.
            Phase::Open | Phase::Draining
                if connection.standing.owed > 0 || connection.standing.listens =>
            {
                (now.after(idle_max), Ending::Idle)
            }
            Phase::Open | Phase::Draining => (active.after(idle_max), Ending::Idle),
        };
        if due > now {
            // A request may begin to arrive at any time, and has to be complete within the lease.
            let next = if connection.is_lines() { due } else { due.min(now.after(lease_max)) };
            self.wheel.insert(next, key);
        } else {
            self.close(ring, key, ending);
        }
    }
}
