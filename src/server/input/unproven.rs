//! Incomplete messages of unproven peers: of those whose token or certificate is not accepted.
//!
//! Invariants: where a token is required, a message over TCP or WebSocket has 64 KiB before the
//! first accepted one; otherwise what exceeds that comes from the pool of the shard
//! ([`crate::server::memory::input_pool`]), and the connection is read as long as it has room.

use corelane_base::slab::Key;
use corelane_engine::ring::Ring;
use corelane_protocol::error::{Error, ErrorKind};
use corelane_protocol::message_head::MessageHead;
use corelane_transport::websocket::limits::ProtocolError;

use crate::connection::{CloseReason, Codec, Connection};
use crate::server::auth::Credential;
use crate::server::connection_state::ConnectionState;
use crate::server::memory::incomplete_too_long;
use crate::server::memory::input_pool::InputRoom;
use crate::server::shard::{Shard, Transports};

/// Bytes of a message before the first accepted token, where one is required.
const UNPROVEN_MESSAGE_MAX: usize = 64 << 10;

/// Bytes of an incomplete message in which its id is looked for.
const HEAD_BYTES: usize = 64 << 10;

impl Shard {
    /// Stops reading a connection whose incomplete message has no room, or refuses the message.
    /// Returns why the connection has to be closed.
    #[cold]
    pub(super) fn limit_input<R: Ring>(&mut self, ring: &mut R, key: Key) -> Option<CloseReason> {
        let connection = self.transports.connections.table.get(key)?;
        // A message that waits for the answer about its token proves the peer, or ends.
        if !is_limited(connection) || self.dispatcher.held.contains(key) {
            let violation = connection.state.violation;
            self.transports.input_pool.release(key, self.now);
            self.transports.connections.entry(key)?.enlarge_input(true);
            return violation;
        }
        let (input_bytes, client) = (connection.input_bytes(), connection.state.client);
        let auth = &self.dispatcher.auth;
        let requires_token = auth.verifies_tokens() && !auth.admits_anonymous();
        let codec = connection.codec();
        if requires_token && input_bytes > UNPROVEN_MESSAGE_MAX && codec != Codec::Http {
            self.transports.input_pool.release(key, self.now);
            return self.refuse_unproven(key, codec);
        }
        let Transports { connections, input_pool, .. } = &mut self.transports;
        if input_pool.record(key, client, input_bytes, self.now) == InputRoom::Waits {
            connections.shared.statistics.read_pauses += 1;
            self.hold_input(ring, key);
        } else {
            let has_room = input_pool.admits_large_buffer(key);
            if connections.entry(key)?.enlarge_input(has_room) {
                input_pool.record_large_buffer(key);
            }
        }
        None
    }

    /// Refuses a message that is too large for a peer whose token is not accepted yet.
    #[cold]
    fn refuse_unproven(&mut self, key: Key, codec: Codec) -> Option<CloseReason> {
        let error = Error::new(
            ErrorKind::MessageTooLarge,
            format!(
                "message too large: limit {UNPROVEN_MESSAGE_MAX} bytes before a token is accepted"
            ),
        );
        let connections = &mut self.transports.connections;
        let text = connections.table.get(key)?.incomplete_text();
        let head = MessageHead::read(&text[..text.len().min(HEAD_BYTES)]);
        connections.outgoing(key)?;
        self.write_rejection(key, &head, &error);
        if codec == Codec::WebSocket {
            self.fail_websocket(key, ProtocolError::MESSAGE_TOO_BIG);
            return None;
        }
        self.outbox.counters.input_errors.oversize += 1;
        self.transports.connections.skip_line(key);
        let connection = self.transports.connections.table.get_mut(key)?;
        connection.state.violation = Some(CloseReason::ProtocolViolation);
        connection.state.violation
    }

    /// Closes connections that do not use their room while others wait. Returns those that have
    /// waited and are to be read again.
    #[cold]
    pub fn check_input_pool<R: Ring>(&mut self, ring: &mut R) -> Vec<Key> {
        let now = self.now;
        if let Some(holders) = self.transports.input_pool.begin_check(now) {
            for key in holders {
                self.check_holder(key);
            }
            while let Some(key) = self.transports.input_pool.next_stalled(now) {
                self.close_stalled(ring, key);
            }
            while let Some(key) = self.transports.input_pool.end_stalled_preference(now) {
                self.close_stalled(ring, key);
            }
        }
        self.transports.input_pool.resume(now)
    }

    fn close_stalled<R: Ring>(&mut self, ring: &mut R, key: Key) {
        self.close_holder(ring, key, &incomplete_too_long());
        self.transports.input_pool.release(key, self.now);
    }

    /// Removes a connection from the pool that is no longer read, and excuses one that cannot
    /// receive anything. One that waits has no timeout.
    fn check_holder(&mut self, key: Key) {
        let Transports { connections, input_pool, large_work, .. } = &mut self.transports;
        let options = &connections.shared.options;
        let Some(connection) = connections.table.get(key).filter(|it| it.is_open()) else {
            return input_pool.release(key, self.now);
        };
        if input_pool.is_waiting(key) {
            if let Some(mut entry) = connections.entry(key) {
                entry.extend_timeouts(self.now);
            }
        } else if !connection.awaits_peer(options) || large_work.is_postponed(key) {
            input_pool.excuse(key, self.now);
        }
    }
}

/// Returns whether the input of a connection is limited: it is read, its peer is unproven, and no
/// HTTP request is complete that waits to be dispatched. That of a connection with a request in
/// progress has a limit of its own.
fn is_limited(connection: &Connection<ConnectionState>) -> bool {
    let state = &connection.state;
    let is_read = connection.is_open() && state.violation.is_none();
    is_read
        && !state.transport.is_only_connection()
        && !connection.is_suspended()
        && !connection.holds_complete_request()
        && state.certificate().is_none()
        && !state.credential().is_some_and(Credential::is_verified)
}
