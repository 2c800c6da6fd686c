//! Timeouts of connections: idle, first message, incomplete messages, backpressure, closing.
//!
//! A connection whose deadline moves later keeps its timer, which is checked when it expires. A
//! WebSocket deadline can also move earlier; then several timers exist, of which only the earliest
//! is valid.

use super::closing::CloseFrame;
use super::state::{CloseReason, Connection, Phase};
use super::websocket_state::WebSocketState;
use super::{ConnectionOptions, Connections, WebSocketFrameOptions};
use crate::base::slab::Key;
use crate::base::time::Instant;
use crate::engine::ring::Ring;
use crate::transport::websocket::writer;

/// Timers handled per turn, so that many expiring at once do not stall the shard.
const TIMERS_PER_TURN_MAX: usize = 1024;

impl<S> Connections<S> {
    /// Returns the next timer deadline.
    pub fn deadline(&self) -> Option<Instant> {
        self.timers.next_deadline()
    }

    /// Handles the timers that have expired at `now`.
    pub fn expire_timers<R: Ring>(&mut self, ring: &mut R, now: Instant) {
        for _ in 0..TIMERS_PER_TURN_MAX {
            let Some(key) = self.timers.pop_expired(now) else { return };
            self.expire_connection(ring, key, now);
        }
    }

    fn expire_connection<R: Ring>(&mut self, ring: &mut R, key: Key, now: Instant) {
        let ConnectionOptions {
            idle_timeout: idle_max,
            first_message_timeout: lease_max,
            linger_timeout: linger_max,
            ..
        } = self.options;
        let Some(connection) = self.table.get_mut(key) else { return };
        if connection.is_websocket() {
            return self.expire_websocket(ring, key, now);
        }
        let active = connection.last_activity;
        let (due, reason) = match connection.phase {
            Phase::Closing | Phase::CloseFrameQueued => return,
            // A timer from before the linger phase may expire earlier.
            Phase::Lingering => (active.after(linger_max), CloseReason::PeerClosed),
            Phase::Open | Phase::Draining
                if !connection.has_received_message || connection.is_inside_request() =>
            {
                (active.after(lease_max), CloseReason::MessageTimeout)
            }
            // Pending responses have deadlines of their own, and dead peers of open streams are
            // detected by TCP keepalive.
            Phase::Open | Phase::Draining
                if connection.pending_work.pending_responses > 0
                    || connection.pending_work.has_open_stream =>
            {
                (now.after(idle_max), CloseReason::IdleTimeout)
            }
            Phase::Open | Phase::Draining => (active.after(idle_max), CloseReason::IdleTimeout),
        };
        if due > now {
            // A new request may begin at any time and must then complete within its timeout.
            let next = if connection.is_ndjson() { due } else { due.min(now.after(lease_max)) };
            self.timers.insert(next, key);
        } else {
            self.close(ring, key, reason);
        }
    }

    /// Handles an expired timer of a WebSocket connection.
    fn expire_websocket<R: Ring>(&mut self, ring: &mut R, key: Key, now: Instant) {
        let linger_max = self.options.linger_timeout;
        let Some(connection) = self.table.get_mut(key) else { return };
        let (phase, active) = (connection.phase, connection.last_activity);
        let Some(frames) = connection.websocket() else { return };
        if frames.next_timer > now {
            // An earlier timer that is no longer valid.
            return;
        }
        frames.next_timer = WebSocketState::NEVER;
        let due = match phase {
            Phase::Open | Phase::Draining => return self.expire_open_websocket(key, now),
            Phase::CloseFrameQueued => frames.close_queued_at.after(linger_max),
            Phase::Lingering => active.after(linger_max),
            Phase::Closing => return,
        };
        if due > now {
            self.arm_timer(key, due);
        } else {
            self.close(ring, key, CloseReason::PeerClosed);
        }
    }

    /// Handles an expired timer of an open WebSocket: checks its timeouts or sends a ping.
    fn expire_open_websocket(&mut self, key: Key, now: Instant) {
        let WebSocketFrameOptions {
            fragment_timeout: fragment_max,
            idle_timeout: idle_max,
            ping_interval: ping_max,
            ..
        } = self.options.websocket;
        let Some(connection) = self.table.get_mut(key) else { return };
        let is_paused = connection.paused;
        let may_ping = connection.phase == Phase::Open && !is_paused;
        let is_over_limit = is_paused && !connection.is_drained(&self.options);
        let Some(frames) = connection.websocket() else { return };
        // While reading is stopped, neither messages nor pongs can arrive.
        let message_start = frames.message_start.filter(|_| !is_paused);
        let message_due = message_start.map(|start| start.after(fragment_max));
        let idle_due = frames.last_received.after(idle_max);
        let ping_due = frames.last_received.max(frames.last_ping).after(ping_max);
        match frames.backpressure.filter(|_| is_over_limit) {
            // Not read: only the send timeout applies.
            Some(strain) if strain.until > now => self.arm_timer(key, strain.until),
            Some(_) => self.close_unread(key, now),
            None if message_due.is_some_and(|due| due <= now) => {
                self.statistics.websocket.message_timeouts += 1;
                self.start_closing(
                    key,
                    CloseFrame::MESSAGE_TIMEOUT,
                    CloseReason::MessageTimeout,
                    now,
                );
            }
            None if idle_due <= now => {
                self.start_closing(key, CloseFrame::IDLE_TIMEOUT, CloseReason::IdleTimeout, now);
            }
            None => {
                let mut due = message_due.map_or(idle_due, |due| due.min(idle_due));
                if may_ping && ping_due <= now {
                    self.send_ping(key, now);
                    due = due.min(now.after(ping_max));
                } else if may_ping {
                    due = due.min(ping_due);
                }
                self.arm_timer(key, due);
            }
        }
    }

    fn send_ping(&mut self, key: Key, now: Instant) {
        if let Some(frames) = self.table.get_mut(key).and_then(Connection::websocket) {
            frames.last_ping = now;
        }
        if let Some(out) = self.outgoing(key) {
            writer::write_ping(out, &[]);
            self.statistics.websocket.pings_out += 1;
        }
    }

    /// Sets a timer for `due`, unless an earlier one is set.
    pub(super) fn arm_timer(&mut self, key: Key, due: Instant) {
        if let Some(frames) = self.table.get_mut(key).and_then(Connection::websocket) {
            if frames.next_timer <= due {
                return;
            }
            frames.next_timer = due;
        }
        self.timers.insert(due, key);
    }
}
