//! State of one connection.

mod phase;
mod websocket_state;

mod codec;

mod input;

use std::net::{IpAddr, SocketAddr};

use corelane_base::heap_bytes;
use corelane_base::heap_bytes::HeapBytes;
use corelane_base::pool::{BufferPool, counted_bytes};
use corelane_base::time::Instant;
use corelane_engine::ring::{Operation, Ring, Socket};
use corelane_engine::stream::Sending;

pub use self::codec::Codec;
pub(super) use self::codec::MessageMark;
use self::codec::OutputMarks;
pub(super) use self::input::{DiscardedInput, Input};
pub use self::phase::CloseReason;
pub(super) use self::phase::{CloseState, Phase, ReadState};
pub(super) use self::websocket_state::{PeerClose, ReadStatus, TimeoutCheck};
use super::options::ConnectionOptions;
use crate::telemetry::open_work::{ConnectionTraffic, PingCounts};

/// The sockets of a new connection.
#[derive(Clone, Copy, Debug)]
pub struct SocketPair {
    /// Socket to receive from.
    pub receive: Socket,
    /// Socket to send to: the same socket, or the other pipe.
    pub send: Socket,
    /// Address of the peer, if known.
    pub peer: Option<SocketAddr>,
    /// The codec of the connection.
    pub codec: Codec,
}

/// One connection: two sockets, the input being parsed, the output being sent, and the state `S`
/// of its owner.
///
/// ```text
///    close_gracefully, end of stream    all responses sent        peer closed, timeout
///  Open ─────────────────────▶ Draining ─────────────▶ Lingering ─────────────────▶ Closing
///    └────────────────────── error, timeout, close ──────────────────────────────────▲
/// ```
///
/// A WebSocket passes through `CloseFrameQueued` between Draining and Lingering. A close frame of
/// the peer, a protocol violation or a timeout leads there directly.
///
/// The fields used by each receive, flush and send completion come first, so that they share cache
/// lines.
#[derive(Debug)]
#[repr(C)]
pub struct Connection<S> {
    pub(super) close_state: CloseState,
    output_marks: OutputMarks,
    pub(super) reading: ReadState,
    pub(super) sockets: Sockets,
    /// The send in flight.
    pub(super) sending: Sending,
    /// Output buffered in this turn: complete texts with their terminators.
    pub outgoing: Vec<u8>,
    /// Bytes last accounted for this connection, see
    /// [`crate::connection::Connections::account_memory`].
    pub(super) accounted_bytes: usize,
    /// Time of the last complete message, response or send progress; initially the time of opening.
    pub(super) last_activity: Instant,
    pub(super) input: Input,
    /// Responses the peer is waiting for.
    pub pending_work: PendingWork,
    /// What is recorded of it.
    pub record: ConnectionRecord,
    /// State of the connection's owner.
    pub state: S,
}

/// The sockets of a connection: one for both directions, or two pipes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sockets {
    pub(super) receive: Socket,
    pub(super) send: Socket,
}

impl Sockets {
    /// Returns whether one socket is used for both directions.
    pub(super) fn is_single(self) -> bool {
        self.receive == self.send
    }
}

/// Responses a peer is waiting for.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PendingWork {
    /// Requests not yet answered in the output buffer.
    pub pending_responses: u32,
    /// The peer has an open notification stream. The idle timeout does not apply, and closing does
    /// not wait for it.
    pub has_open_stream: bool,
}

impl PendingWork {
    /// Counts one request as answered.
    pub const fn count_response(&mut self) {
        self.pending_responses = self.pending_responses.saturating_sub(1);
    }
}

impl<S> Connection<S> {
    pub(super) fn new(stream: SocketPair, state: S, now: Instant) -> Self {
        let SocketPair { receive, send, peer, codec } = stream;
        Self {
            close_state: CloseState::new(),
            output_marks: OutputMarks::default(),
            reading: ReadState::default(),
            sockets: Sockets { receive, send },
            sending: Sending::default(),
            outgoing: Vec::new(),
            accounted_bytes: 0,
            last_activity: now,
            input: Input::new(codec, now),
            pending_work: PendingWork { pending_responses: 0, has_open_stream: false },
            record: ConnectionRecord::new(peer, now),
            state,
        }
    }

    /// Returns the codec, which decides the framing of the output.
    #[inline]
    pub const fn codec(&self) -> Codec {
        self.input.codec()
    }

    /// Sets the window of the compressor of the messages that are sent over a WebSocket: 9 to 15
    /// bits, or 0, which is the default, for none.
    pub const fn set_window_bits(&mut self, bits: u8) {
        self.output_marks.set_window_bits(bits);
    }

    /// Returns the window of the compressor of messages; 0 if they are not compressed.
    #[inline]
    pub(super) const fn window_bits(&self) -> u8 {
        self.output_marks.window_bits()
    }

    /// Returns the control frames of a WebSocket.
    pub const fn pings(&self) -> PingCounts {
        self.input.pings()
    }

    /// Returns what was read of the first text of a stream of texts, if that is incomplete; empty
    /// otherwise.
    #[cold]
    pub fn first_text(&self) -> &[u8] {
        self.input.first_text(self.record.traffic.messages_in)
    }

    /// Records that a received message, or one text of a WebSocket message, is invalid.
    ///
    /// The timeout of the first message is satisfied by all messages that are not recorded as
    /// invalid: a message is counted when it arrives, and no longer once it turns out to be
    /// invalid, so that a valid one costs nothing for this.
    #[cold]
    pub const fn record_invalid_message(&mut self) {
        self.close_state.record_invalid();
        let messages_in = &mut self.record.traffic.messages_in;
        *messages_in = messages_in.saturating_sub(1);
    }

    /// Records a text of a WebSocket message after its first one.
    pub const fn record_further_text(&mut self) {
        self.record.traffic.messages_in += 1;
    }

    /// Counts one request as answered and restarts the idle timeout.
    pub const fn count_response(&mut self, now: Instant) {
        self.pending_work.count_response();
        self.last_activity = now;
    }

    /// Returns the bytes waiting to be sent: buffered plus submitted.
    pub const fn queued_bytes(&self) -> usize {
        self.outgoing.len() + self.sending.bytes()
    }

    /// Returns the output limit in bytes; above it reading stops and optional messages are dropped.
    #[inline]
    pub const fn queue_bytes_max(&self, options: &ConnectionOptions) -> usize {
        if self.is_websocket() {
            options.websocket.outgoing_bytes_max
        } else {
            options.outgoing_bytes_max
        }
    }

    /// Returns whether the output is low enough to resume reading.
    pub(super) const fn is_drained(&self, options: &ConnectionOptions) -> bool {
        self.queued_bytes() <= self.queue_bytes_max(options) / 2
    }

    /// Returns the bytes held for this connection: incomplete message, pending input and output.
    #[inline]
    pub fn held_bytes(&self) -> usize {
        self.heap_bytes()
    }

    /// Returns the bytes that `ring` holds for this connection besides.
    pub fn ring_bytes<R: Ring>(&self, ring: &R) -> usize {
        let Sockets { receive, send } = self.sockets;
        let sent = if self.sockets.is_single() { 0 } else { ring.held_bytes_of(send) };
        ring.held_bytes_of(receive) + sent
    }

    const fn input_bytes_held(&self) -> usize {
        self.input.held_bytes()
    }

    const fn outgoing_bytes(&self) -> usize {
        counted_bytes(self.outgoing.len(), self.outgoing.capacity())
    }

    const fn sending_bytes_held(&self) -> usize {
        self.sending.held_bytes()
    }

    /// Returns the length of the incomplete message and of pending input.
    pub const fn input_bytes(&self) -> usize {
        self.input.input_bytes()
    }

    /// Returns whether an HTTP request is complete that was given back to be read again.
    pub fn holds_complete_request(&self) -> bool {
        self.input.holds_complete_request()
    }

    /// Returns whether an HTTP request was given back that has arrived as a whole.
    pub fn holds_restored_request(&self) -> bool {
        self.reading.is_restored() || self.holds_complete_request()
    }

    /// Returns what was read of the incomplete text of a stream of texts; empty if there is none.
    #[cold]
    pub fn incomplete_text(&self) -> &[u8] {
        self.input.first_text(0)
    }

    /// Returns whether reading is stopped until the request in progress is answered.
    pub const fn is_suspended(&self) -> bool {
        self.reading.is_suspended()
    }

    /// Returns whether more of the peer can be received, or could if the peer read its output.
    pub const fn awaits_peer(&self, options: &ConnectionOptions) -> bool {
        let waits_for_room = self.reading.is_paused() && self.is_drained(options);
        !self.reading.is_suspended() && !waits_for_room
    }

    /// Restarts the timeouts of the incomplete message, which is not read at present.
    pub(super) fn extend_timeouts(&mut self, now: Instant) {
        self.last_activity = now;
        if let Some(frames) = self.input.websocket() {
            frames.extend_timeouts(now);
        }
    }

    /// Returns the bytes submitted to the ring and not yet sent.
    pub const fn sending_bytes(&self) -> usize {
        self.sending.bytes()
    }

    /// Returns whether it is read: it does not close.
    pub const fn is_open(&self) -> bool {
        self.close_state.is_open()
    }

    /// Returns whether close was submitted to the ring.
    pub fn is_closed(&self) -> bool {
        self.close_state.phase() == Phase::Closing
    }

    /// Records a complete message and takes an output buffer for its response.
    #[inline]
    pub(super) fn record_message(&mut self, now: Instant, pool: &mut BufferPool) {
        self.last_activity = now;
        self.reserve_output(pool);
    }

    /// Takes an output buffer from the pool unless the connection has one.
    #[inline]
    pub(super) fn reserve_output(&mut self, pool: &mut BufferPool) {
        if self.outgoing.capacity() == 0 {
            self.outgoing = pool.take();
        }
    }

    /// Marks the connection for the flush at the end of the turn. Returns `false` if it is marked
    /// already.
    #[inline]
    pub(super) const fn schedule_flush(&mut self) -> bool {
        self.output_marks.schedule()
    }

    /// Marks output as to be accounted by the next flush.
    #[inline]
    pub(super) const fn account_output_later(&mut self) {
        self.output_marks.add_unaccounted_output();
    }

    /// Removes the mark of the flush. Returns whether there is output to account.
    #[inline]
    pub(super) fn start_flush(&mut self) -> bool {
        self.output_marks.start()
    }

    /// Returns whether input is parsed at present.
    #[inline]
    pub const fn is_read(&self) -> bool {
        self.close_state.is_open() && self.reading.is_running()
    }

    /// Returns whether input waits until the output allows to read it.
    #[inline]
    pub(super) const fn waits_to_be_read(&self) -> bool {
        let has_work = self.reading.is_paused() || self.input.has_pending();
        has_work && !self.reading.is_suspended() && self.close_state.is_open()
    }

    /// Returns whether input is discarded.
    #[inline]
    pub const fn is_discarding(&self) -> bool {
        !self.close_state.is_open()
    }

    /// Returns whether responses are pending or output is unsent.
    pub(crate) const fn has_pending_work(&self) -> bool {
        self.pending_work.pending_responses > 0 || self.queued_bytes() > 0
    }

    /// Returns whether the peer has closed its sending side and all input is parsed, or reading is
    /// suspended for a request whose response the peer no longer waits for.
    pub(super) const fn is_input_over(&self) -> bool {
        let is_parsed = !self.input.has_pending() && !self.reading.is_paused();
        self.reading.has_ended() && (is_parsed || self.reading.is_suspended())
    }

    /// Returns the time of its last message, or of its opening, if it is read, nothing waits to be
    /// read, and the peer waits for nothing.
    pub fn idle_since(&self) -> Option<Instant> {
        let is_busy = self.input.has_pending()
            || self.has_pending_work()
            || self.pending_work.has_open_stream;
        (self.is_read() && !is_busy).then_some(self.last_activity)
    }

    /// Returns whether no byte has arrived.
    #[inline]
    pub const fn is_silent(&self) -> bool {
        self.record.traffic.bytes_in == 0
    }

    /// Returns whether a message is incomplete.
    pub const fn is_inside_message(&self) -> bool {
        self.input.held_bytes() > 0 || self.input.is_inside_request()
    }

    /// Returns whether the codec is WebSocket.
    pub(super) const fn is_websocket(&self) -> bool {
        matches!(self.input.codec(), Codec::WebSocket)
    }

    /// Returns whether the send timeout of a WebSocket runs.
    pub(super) const fn has_send_timeout(&self) -> bool {
        self.input.has_backpressure()
    }

    /// Submits a stop of the multishot receive if reading is paused.
    pub(super) fn stop_paused_receive<R: Ring>(&self, ring: &mut R) {
        if self.reading.is_paused() && self.close_state.is_open() {
            ring.submit(Operation::StopReceive(self.sockets.receive));
        }
    }

    /// Closes the sockets immediately; unsent output is lost.
    pub(super) fn close<R: Ring>(&mut self, ring: &mut R, reason: CloseReason) {
        self.submit_close(ring, reason, Operation::Close);
    }

    /// Closes the sockets immediately and has the kernel discard what it has not sent. Unless all
    /// output is sent, the peer does not take its end for an orderly one.
    pub(super) fn reset<R: Ring>(&mut self, ring: &mut R, reason: CloseReason) {
        self.submit_close(ring, reason, Operation::Reset);
    }

    fn submit_close<R: Ring>(
        &mut self,
        ring: &mut R,
        reason: CloseReason,
        operation: fn(Socket) -> Operation,
    ) {
        self.close_state.set_close_reason(reason);
        if self.close_state.phase() == Phase::Closing {
            return;
        }
        self.close_state.enter(Phase::Closing);
        ring.submit(operation(self.sockets.receive));
        if !self.sockets.is_single() {
            ring.submit(operation(self.sockets.send));
        }
    }
}

heap_bytes!(
    impl<S> Connection<S> {}
    counted {
        input: Self::input_bytes_held,
        outgoing: Self::outgoing_bytes,
        sending: Self::sending_bytes_held,
    }
    inline {
        close_state, output_marks, reading, sockets, accounted_bytes, last_activity, pending_work,
        record,
    }
    // The owner counts it.
    elsewhere { state }
);

/// Where a connection comes from, since when it is open, and what it has carried.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionRecord {
    /// Bytes and messages so far.
    pub traffic: ConnectionTraffic,
    peer: Option<PeerAddress>,
    /// Time of opening in seconds after the origin of the clock.
    opened_seconds: u32,
}

/// The address of a peer in 20 bytes, 12 less than [`SocketAddr`]: without the zone of an IPv6
/// address.
#[derive(Clone, Copy, Debug)]
pub struct PeerAddress {
    ip: IpAddr,
    port: u16,
}

impl ConnectionRecord {
    fn new(peer: Option<SocketAddr>, now: Instant) -> Self {
        Self {
            traffic: ConnectionTraffic::default(),
            peer: peer.map(PeerAddress::from),
            opened_seconds: u32::try_from(now.milliseconds() / 1_000).unwrap_or(u32::MAX),
        }
    }

    /// Returns the address of the peer, if known.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.peer.map(SocketAddr::from)
    }

    /// Returns the address of the peer as it is stored.
    pub const fn peer_address(&self) -> Option<&PeerAddress> {
        self.peer.as_ref()
    }

    /// Sets the address of the peer: that of the client of the current request, if a proxy sends
    /// requests of several.
    #[inline]
    pub const fn set_peer(&mut self, peer: PeerAddress) {
        self.peer = Some(peer);
    }

    /// Returns when the connection was opened, to the second.
    pub const fn opened_at(&self) -> Instant {
        Instant::from_nanoseconds(self.opened_seconds as u64 * 1_000_000_000)
    }
}

impl PeerAddress {
    /// Returns the address without the port.
    pub const fn ip(&self) -> IpAddr {
        self.ip
    }
}

impl From<SocketAddr> for PeerAddress {
    fn from(address: SocketAddr) -> Self {
        Self { ip: address.ip(), port: address.port() }
    }
}

impl From<PeerAddress> for SocketAddr {
    fn from(PeerAddress { ip, port }: PeerAddress) -> Self {
        Self::new(ip, port)
    }
}

/// Bytes held by all connections, each as last accounted.
#[derive(Debug, Default)]
pub struct MemoryAccount {
    held_bytes: usize,
}

impl MemoryAccount {
    /// Returns the bytes held by all connections.
    #[inline]
    pub const fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Updates the accounted memory of one connection.
    #[inline]
    pub(super) fn update<S>(&mut self, connection: &mut Connection<S>) {
        let held_bytes = connection.held_bytes();
        self.held_bytes = self.held_bytes - connection.accounted_bytes + held_bytes;
        connection.accounted_bytes = held_bytes;
    }

    /// Removes a connection from the account.
    pub(super) const fn remove<S>(&mut self, connection: &Connection<S>) {
        self.held_bytes -= connection.accounted_bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_without_state_is_at_most_168_bytes() {
        assert!(size_of::<Connection<()>>() <= 168);
    }

    #[test]
    fn record_takes_56_bytes() {
        assert_eq!(size_of::<ConnectionRecord>(), 56);
        for text in ["192.0.2.1:80", "[2001:db8::1]:443"] {
            let address = text.parse().ok();
            let opened = Instant::from_milliseconds(7_900);
            let record = ConnectionRecord::new(address, opened);
            assert_eq!(record.peer(), address);
            assert_eq!(record.opened_at(), Instant::from_milliseconds(7_000));
        }
    }
}
