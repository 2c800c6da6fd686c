//! What ends by time: silence, leases that were not used, goodbyes that were not answered.

use super::Link;
use super::connection::Phase;
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

    /// Ends the connections whose time is over; names those that fell silent, so that the driver
    /// can say so.
    pub fn expire<R: Ring>(&mut self, ring: &mut R, now: Moment) {
        for _ in 0..EXPIRED_MAX {
            let Some(key) = self.wheel.pop_expired(now) else { return };
            self.expire_one(ring, key, now);
        }
    }

    fn expire_one<R: Ring>(&mut self, ring: &mut R, key: Key, now: Moment) {
        let options = self.options;
        let Some(connection) = self.connections.get(key) else { return };
        let (due, counter) = match connection.phase {
            Phase::Closing => return,
            Phase::Lingering => {
                // An entry from before the goodbye may come first: the goodbye has its own.
                if connection.active.after(options.linger_max) <= now {
                    self.close(ring, key);
                }
                return;
            }
            Phase::Open | Phase::Draining if !connection.spoke => {
                (connection.active.after(options.lease_max), &mut self.statistics.lease)
            }
            // Whoever waits for an answer is not silent; the answer has a deadline of its own.
            Phase::Open | Phase::Draining if connection.owed > 0 => {
                (now.after(options.idle_max), &mut self.statistics.idle)
            }
            Phase::Open | Phase::Draining => {
                (connection.active.after(options.idle_max), &mut self.statistics.idle)
            }
        };
        if due > now {
            self.wheel.insert(due, key);
            return;
        }
        *counter += 1;
        self.close(ring, key);
    }
}
