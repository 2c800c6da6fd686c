//! Messages that are written outside of dispatch: later responses, notifications and requests to
//! peers.
//!
//! Invariants: a message is written once, whatever the transport, and framed on output.

use super::{Shard, ShardPhase};
use crate::base::time::Instant;
use crate::connection::{Codec, Connection, PendingWork};
use crate::engine::ring::Ring;
use crate::protocol::error::Error;
use crate::protocol::jsonrpc::Id;
use crate::protocol::model;
use crate::protocol::revision::Revision;
use crate::server::connection_state::{ConnectionState, HttpSession};
use crate::server::reply_to::{Outcome, PeerId, ReplyTo};
use crate::transport::ndjson;
use crate::transport::websocket::writer;

impl Shard {
    /// Returns the empty text buffer; the message goes to [`Shard::send_message`].
    pub(super) fn take_text_buffer(&mut self) -> Vec<u8> {
        let mut text = std::mem::take(&mut self.text_buffer);
        text.clear();
        text
    }

    /// Sends a message to a peer, if it is still connected. It leaves at the end of the turn.
    pub(super) fn send_message(&mut self, reply_to: ReplyTo, outcome: Outcome, text: Vec<u8>) {
        match reply_to.peer_id {
            PeerId::Connection(key) if self.connections.codec(key) == Codec::Http => {
                self.write_to_exchange(key, (outcome, None), |out| out.extend_from_slice(&text));
            }
            PeerId::Connection(key) => {
                if let Some(connection) = self.connections.table.get(key)
                    && let compression = connection.state.compression
                    && let framing = self.connections.codec(key)
                    && let Some(out) = self.connections.outgoing(key)
                {
                    if framing == Codec::WebSocket {
                        let mark = writer::begin_message(out);
                        out.extend_from_slice(&text);
                        self.websockets.end_frame(out, mark, compression);
                    } else {
                        out.extend_from_slice(&text);
                        ndjson::end_line(out);
                    }
                    self.dispatcher.count_outcome(outcome);
                }
            }
            PeerId::HttpSession(key) => self.send_on_session(key, reply_to.stream, outcome, &text),
        }
        self.text_buffer = text;
    }

    /// Sends the error response to `id`, and counts it.
    pub(super) fn send_error(
        &mut self,
        reply_to: ReplyTo,
        id: Id<'_>,
        error: &Error,
        revision: Revision,
    ) {
        let mut text = self.take_text_buffer();
        self.dispatcher.count_error(error);
        model::write_error_response(&mut text, Some(id), error, Some(revision));
        self.send_message(reply_to, Outcome::Error(error.kind), text);
    }

    /// Returns the state and pending work of a peer, or `None` if it is gone.
    pub(super) fn peer(
        &mut self,
        peer_id: PeerId,
    ) -> Option<(&mut ConnectionState, &mut PendingWork)> {
        match peer_id {
            PeerId::Connection(key) => {
                let Connection { state, pending_work, .. } = self.connections.table.get_mut(key)?;
                Some((state, pending_work))
            }
            PeerId::HttpSession(key) => {
                let HttpSession { state, pending_work, .. } = self.http.sessions.get_mut(key)?;
                Some((state, pending_work))
            }
        }
    }

    /// Returns whether a peer can still send responses.
    pub(super) fn can_respond(&self, peer_id: PeerId) -> bool {
        match peer_id {
            PeerId::Connection(key) => {
                self.connections.table.get(key).is_some_and(|it| !it.is_discarding())
            }
            PeerId::HttpSession(key) => {
                self.phase == ShardPhase::Serving && self.http.sessions.contains(key)
            }
        }
    }

    /// Returns whether the output queue of a peer has space for best-effort notifications.
    pub(super) fn has_queue_space(&self, peer_id: PeerId) -> bool {
        // What a session has not received is buffered within limits of its own.
        let PeerId::Connection(key) = peer_id else { return true };
        let (connection, options) = (self.connections.table.get(key), &self.connections.options);
        connection.is_some_and(|it| it.queued_bytes() <= it.queue_bytes_max(options))
    }

    /// Accounts the memory of a peer after output, and closes it if it violated a limit.
    pub(super) fn check_peer_memory<R: Ring>(
        &mut self,
        ring: &mut R,
        peer_id: PeerId,
        now: Instant,
    ) {
        if let PeerId::Connection(key) = peer_id {
            self.check_memory_or_close(ring, key, now);
        }
    }

    /// Completes a request in flight: its peer waits for one response less.
    pub(super) fn complete_request(&mut self, peer_id: PeerId, id: Id<'_>, now: Instant) {
        match peer_id {
            PeerId::Connection(key) => {
                if let Some(connection) = self.connections.table.get_mut(key) {
                    connection.state.in_flight.remove(id);
                    connection.complete_request(now);
                }
            }
            PeerId::HttpSession(key) => {
                if let Some(http_session) = self.http.sessions.get_mut(key) {
                    http_session.state.in_flight.remove(id);
                    http_session.pending_work.complete_request();
                    self.http.sessions.end_request(key, now);
                }
            }
        }
    }

    /// Closes the exchanges of HTTP sessions whose requests were cancelled.
    pub(super) fn close_cancelled_replies(&mut self) {
        while let Some(reply_to) = self.dispatcher.cancelled_replies.pop() {
            if let PeerId::HttpSession(key) = reply_to.peer_id {
                self.http.sessions.end_request(key, self.http.now());
                self.end_stream_without_response(key, reply_to.stream);
            }
        }
    }

    /// After a response: resumes reading from, or closes, a connection that waited for it.
    pub(super) fn after_response<R: Ring>(
        &mut self,
        ring: &mut R,
        reply_to: ReplyTo,
        now: Instant,
    ) {
        let PeerId::Connection(key) = reply_to.peer_id else { return };
        self.check_memory_or_close(ring, key, now);
        let next = self.connections.try_resume(key);
        self.handle_connection_event(ring, next, now);
    }
}
