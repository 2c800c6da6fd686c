//! State that only WebSocket connections have. Boxed, and without buffers between messages.

use corelane_base::time::Instant;
use corelane_protocol::json::PaddedBuffer;
use corelane_transport::websocket::limits::{CloseCode, FrameLimits};
use corelane_transport::websocket::reader::{FrameEvent, FrameReader};

use crate::connection::options::WebSocketFrameOptions;
use crate::telemetry::open_work::PingCounts;

/// Additional state of a WebSocket connection.
#[derive(Debug)]
pub struct WebSocketState {
    reader: FrameReader,
    /// Time of the upgrade; once the close frame is queued, time of that.
    since: Instant,
    /// The valid messages before those of which the first has a timeout; [`Self::CLOSE_ANSWERED`]
    /// once the peer has answered the close frame with its own, when there is no timeout any more.
    messages_before: u32,
    /// Time of the last frame of the peer, or the end of the last backpressure.
    last_received: Instant,
    /// Time of the last ping sent.
    last_ping: Instant,
    /// Time at which the incomplete message began; [`Self::NEVER`] if there is none.
    message_start: Instant,
    /// Set while reading is stopped because the peer does not read. Boxed, because that is rare.
    backpressure: Option<Box<Backpressure>>,
    /// Deadline of the earliest timer that is valid.
    next_timer: Instant,
    /// Control frames so far.
    pub pings: PingCounts,
}

/// A close frame of the peer, with its code if any.
#[derive(Clone, Copy, Debug)]
pub struct PeerClose(pub Option<CloseCode>);

/// A period in which a peer is not read because it does not read: since when, and its deadline.
#[derive(Debug)]
struct Backpressure {
    since: Instant,
    until: Instant,
}

/// Whether an open WebSocket is read, for its timeouts.
#[derive(Clone, Copy, Debug)]
pub struct ReadStatus {
    pub is_paused: bool,
    /// The output exceeds half of its limit.
    pub is_over_limit: bool,
    pub may_ping: bool,
    /// Valid messages so far.
    pub messages_in: u64,
}

/// The result of a check of the timeouts of an open WebSocket.
#[derive(Clone, Copy, Debug)]
pub enum TimeoutCheck {
    /// No timeout has expired; the next check is due then.
    Wait(Instant),
    /// A ping is due, and the next check then.
    Ping(Instant),
    /// The peer has not read in time.
    SendTimeout,
    /// The peer has not completed a message in time.
    MessageTimeout,
    /// The peer has sent no valid message in time.
    FirstMessageTimeout,
    /// The peer has sent no frame in time.
    IdleTimeout,
}

impl WebSocketState {
    /// No timer is valid, or no message is incomplete.
    const NEVER: Instant = Instant::from_nanoseconds(u64::MAX);
    const CLOSE_ANSWERED: u32 = u32::MAX;

    pub(super) const fn new(reader: FrameReader, now: Instant) -> Self {
        Self {
            reader,
            since: now,
            messages_before: 0,
            last_received: now,
            last_ping: now,
            message_start: Self::NEVER,
            backpressure: None,
            next_timer: Self::NEVER,
            pings: PingCounts { pings_in: 0, pings_out: 0, pongs_in: 0 },
        }
    }

    /// Parses the next frame in `arrival[*from..]`; see [`FrameReader::next`]. Ends backpressure.
    #[inline]
    pub fn next_frame(
        &mut self,
        arrival: &mut [u8],
        from: &mut usize,
        limits: &FrameLimits,
        take_buffer: impl FnMut() -> Vec<u8>,
        now: Instant,
    ) -> FrameEvent {
        self.end_backpressure(now);
        let next = self.reader.next(arrival, from, limits, take_buffer);
        self.last_received = now;
        if matches!(next, FrameEvent::Assembled { .. }) {
            self.message_start = Self::NEVER;
        }
        next
    }

    /// Records the end of the input. Returns whether an incomplete message began with it, so that
    /// its timeout starts.
    #[inline]
    pub fn end_input(&mut self, now: Instant) -> bool {
        if !self.reader.is_inside_message() {
            self.message_start = Self::NEVER;
            return false;
        }
        let begins = self.message_start == Self::NEVER;
        if begins {
            self.message_start = now;
        }
        begins
    }

    /// Takes the complete message.
    pub(super) fn take_message(&mut self) -> PaddedBuffer {
        self.reader.take()
    }

    /// Returns whether the last message is binary.
    pub(super) const fn is_binary(&self) -> bool {
        self.reader.is_binary()
    }

    /// Returns the payload of the last ping or pong.
    pub fn control_payload(&self) -> &[u8] {
        self.reader.control_payload()
    }

    /// Returns the capacity of the buffer of the incomplete message.
    pub(super) const fn held_capacity(&self) -> usize {
        self.reader.held_capacity()
    }

    /// Returns the buffer of the incomplete message.
    pub(super) fn buffer_mut(&mut self) -> &mut Vec<u8> {
        self.reader.buffer_mut()
    }

    /// Returns the bytes of the incomplete message.
    pub(super) const fn held_bytes(&self) -> usize {
        self.reader.held_bytes()
    }

    /// Returns what was read of the first message, if that is incomplete.
    pub(super) fn first_text(&self, messages_in: u64) -> &[u8] {
        let is_first = messages_in <= u64::from(self.messages_before);
        if is_first { self.reader.held() } else { &[] }
    }

    /// Has none of the `messages_in` valid messages so far count as the first one.
    pub fn discount_messages(&mut self, messages_in: u64) {
        let messages_max = u64::from(Self::CLOSE_ANSWERED - 1);
        self.messages_before = u32::try_from(messages_in.min(messages_max)).unwrap_or_default();
    }

    /// Starts backpressure, which the peer has to end before `until`, unless it has started.
    pub fn start_backpressure(&mut self, now: Instant, until: Instant) {
        self.backpressure.get_or_insert_with(|| Box::new(Backpressure { since: now, until }));
    }

    /// Returns whether backpressure has started.
    pub(super) const fn has_backpressure(&self) -> bool {
        self.backpressure.is_some()
    }

    /// Restarts the idle timeout, and that of the incomplete message.
    pub fn extend_timeouts(&mut self, now: Instant) {
        self.last_received = now;
        if self.message_start != Self::NEVER {
            self.message_start = now;
        }
    }

    /// Ends backpressure, if it has started. The idle and message timeouts are extended by its
    /// duration.
    #[inline]
    pub fn end_backpressure(&mut self, now: Instant) {
        if let Some(backpressure) = self.backpressure.take() {
            self.extend_by_backpressure(&backpressure, now);
        }
    }

    #[cold]
    fn extend_by_backpressure(&mut self, backpressure: &Backpressure, now: Instant) {
        self.last_received = now;
        if self.message_start != Self::NEVER {
            self.message_start = self.message_start.after(now.since(backpressure.since));
        }
    }

    /// Returns whether a timer has to be set for `due`: no earlier one is valid.
    pub fn schedule_timer(&mut self, due: Instant) -> bool {
        let is_earliest = due < self.next_timer;
        if is_earliest {
            self.next_timer = due;
        }
        is_earliest
    }

    /// Returns whether the timer that has expired is the valid one, which then is no more.
    pub fn expire_timer(&mut self, now: Instant) -> bool {
        let is_valid = self.next_timer <= now;
        if is_valid {
            self.next_timer = Self::NEVER;
        }
        is_valid
    }

    /// Checks the timeouts of an open WebSocket.
    pub fn check_timeouts(
        &self,
        status: ReadStatus,
        options: &WebSocketFrameOptions,
        now: Instant,
    ) -> TimeoutCheck {
        let ReadStatus { is_paused, is_over_limit, may_ping, messages_in } = status;
        let has_message = messages_in > u64::from(self.messages_before);
        // While reading is stopped, neither messages nor pongs can arrive.
        let has_begun = self.message_start != Self::NEVER && !is_paused;
        let message_start = has_begun.then_some(self.message_start);
        let message_due = message_start.map(|start| start.after(options.fragment_timeout));
        // A first message that has begun has the time of any other message.
        let first_due = (!has_message && !is_paused && message_start.is_none())
            .then(|| self.since.after(options.first_message_timeout));
        let idle_due = self.last_received.after(options.idle_timeout);
        let ping_due = self.last_received.max(self.last_ping).after(options.ping_interval);
        match self.backpressure.as_deref().filter(|_| is_over_limit) {
            // Not read: only the send timeout applies.
            Some(backpressure) if backpressure.until > now => {
                TimeoutCheck::Wait(backpressure.until)
            }
            Some(_) => TimeoutCheck::SendTimeout,
            None if message_due.is_some_and(|due| due <= now) => TimeoutCheck::MessageTimeout,
            None if first_due.is_some_and(|due| due <= now) => TimeoutCheck::FirstMessageTimeout,
            None if idle_due <= now => TimeoutCheck::IdleTimeout,
            None => {
                let due = message_due.or(first_due).map_or(idle_due, |due| due.min(idle_due));
                if may_ping && ping_due <= now {
                    TimeoutCheck::Ping(due.min(now.after(options.ping_interval)))
                } else if may_ping {
                    TimeoutCheck::Wait(due.min(ping_due))
                } else {
                    TimeoutCheck::Wait(due)
                }
            }
        }
    }

    /// Records a ping sent.
    pub const fn record_ping(&mut self, now: Instant) {
        self.last_ping = now;
    }

    /// Records that the close frame is queued.
    pub const fn record_close(&mut self, now: Instant) {
        self.since = now;
    }

    /// Returns the time at which the close frame was queued.
    pub const fn close_queued_at(&self) -> Instant {
        self.since
    }

    /// Records that the peer has answered the close frame with its own.
    pub const fn record_close_answer(&mut self) {
        self.messages_before = Self::CLOSE_ANSWERED;
    }

    pub(super) const fn is_close_answered(&self) -> bool {
        self.messages_before == Self::CLOSE_ANSWERED
    }

    /// Discards the incomplete message and returns its buffer. Later messages are discarded too.
    pub(super) fn discard_messages(&mut self) -> Vec<u8> {
        self.reader.discard_messages()
    }

    /// Discards pending input. Returns whether it contained a close frame.
    pub(super) fn discard_pending(&mut self, bytes: &mut [u8]) -> bool {
        self.message_start = Self::NEVER;
        self.discard_until_close(bytes).is_some()
    }

    /// Discards input up to a close frame. The reader is in discarding mode already.
    pub fn discard_until_close(&mut self, bytes: &mut [u8]) -> Option<PeerClose> {
        // Discarded messages are not limited.
        let limits = FrameLimits { message_bytes_max: usize::MAX, is_binary_allowed: true };
        let mut from = 0;
        loop {
            match self.reader.next(bytes, &mut from, &limits, Vec::new) {
                FrameEvent::Close(code) => return Some(PeerClose(code)),
                FrameEvent::Invalid(_) | FrameEvent::NeedMore => return None,
                FrameEvent::Assembled { .. } => drop(self.reader.take()),
                FrameEvent::InPlace { .. } | FrameEvent::Ping | FrameEvent::Pong => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    /// Each WebSocket has one; 120 bytes and the word of the allocator are eight blocks of 16.
    fn websocket_state_is_at_most_120_bytes() {
        assert!(size_of::<WebSocketState>() <= 120, "{}", size_of::<WebSocketState>());
    }
}
