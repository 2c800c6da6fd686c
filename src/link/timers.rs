//! What ends by time: silence, leases that were not used, messages that did not become whole, peers
//! that do not read, goodbyes that were not answered.
//!
//! What it keeps true: a connection whose deadline moves on keeps its entry in the wheel, which is
//! looked at when it expires. Where a deadline can also come closer (frames) there may be several
//! entries, of which the earliest counts and sees to the next.

use super::connection::{Connection, Ending, Phase};
use super::framed::Frames;
use super::parting::Farewell;
use super::{FrameOptions, Link, LinkOptions};
use crate::base::slab::Key;
use crate::base::time::Moment;
use crate::engine::ring::Ring;
use crate::transport::websocket::writer;

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
        let Some(connection) = self.connections.get_mut(key) else { return };
        if connection.is_frames() {
            return self.expire_frames(ring, key, now);
        }
        let active = connection.active;
        let (due, ending) = match connection.phase {
            Phase::Closing | Phase::Parting => return,
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

    /// The same for a connection of frames.
    fn expire_frames<R: Ring>(&mut self, ring: &mut R, key: Key, now: Moment) {
        let linger_max = self.options.linger_max;
        let Some(connection) = self.connections.get_mut(key) else { return };
        let (phase, active) = (connection.phase, connection.active);
        let Some(frames) = connection.frames() else { return };
        if frames.armed > now {
            // A later entry has been set up since, and sees to the rest.
            return;
        }
        frames.armed = Frames::NEVER;
        let due = match phase {
            Phase::Open | Phase::Draining => return self.expire_open(key, now),
            Phase::Parting => frames.parted.after(linger_max),
            Phase::Lingering => active.after(linger_max),
            Phase::Closing => return,
        };
        if due > now {
            self.arm(key, due);
        } else {
            self.close(ring, key, Ending::Peer);
        }
    }

    /// A connection of frames that has not parted: asks for a sign of life, or parts.
    fn expire_open(&mut self, key: Key, now: Moment) {
        let FrameOptions { fragment_max, idle_max, ping_max, .. } = self.options.frames;
        let Some(connection) = self.connections.get_mut(key) else { return };
        let is_paused = connection.paused;
        let may_speak = connection.phase == Phase::Open && !is_paused;
        let is_strained = is_paused && !connection.is_drained(&self.options);
        let Some(frames) = connection.frames() else { return };
        // While nothing of it is read nothing can become whole, nor a sign of life be seen.
        let began = frames.began.filter(|_| !is_paused);
        let unfinished = began.map(|began| began.after(fragment_max));
        let idle = frames.heard.after(idle_max);
        let silent = frames.heard.max(frames.pinged).after(ping_max);
        match frames.strain.filter(|_| is_strained) {
            // It is not read: nothing else can be held against it.
            Some(strain) if strain.until > now => self.arm(key, strain.until),
            Some(_) => self.part_undrained(key, now),
            None if unfinished.is_some_and(|due| due <= now) => {
                self.statistics.frames.unfinished += 1;
                self.part(key, Farewell::UNFINISHED, Ending::Lease, now);
            }
            None if idle <= now => self.part(key, Farewell::IDLE, Ending::Idle, now),
            None => {
                let mut due = unfinished.map_or(idle, |due| due.min(idle));
                if may_speak && silent <= now {
                    self.ping(key, now);
                    due = due.min(now.after(ping_max));
                } else if may_speak {
                    due = due.min(silent);
                }
                self.arm(key, due);
            }
        }
    }

    /// Asks a peer for a sign of life.
    fn ping(&mut self, key: Key, now: Moment) {
        if let Some(frames) = self.connections.get_mut(key).and_then(Connection::frames) {
            frames.pinged = now;
        }
        if let Some(out) = self.outgoing(key) {
            writer::ping(out, &[]);
            self.statistics.frames.pings_out += 1;
        }
    }

    /// Sees to it that a connection is looked at when `due`, or before that.
    pub(super) fn arm(&mut self, key: Key, due: Moment) {
        if let Some(frames) = self.connections.get_mut(key).and_then(Connection::frames) {
            if frames.armed <= due {
                return;
            }
            frames.armed = due;
        }
        self.wheel.insert(due, key);
    }
}
