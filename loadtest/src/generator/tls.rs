//! TLS of connections: decrypts received data, encrypts data to send.
//!
//! An unencrypted connection pays one branch per receive and per send for this.

use corelane::engine::ring::{Operation, Ring, Socket};

use super::connection::ConnectionState;
use super::load_thread::LoadThread;
use crate::mcp::ConnectError;
use crate::metrics::outcome::Failure;
use crate::wire::tls::TlsFilter;
use crate::wire::tls_error::TlsError;

/// TLS handshakes that may fail before any has succeeded.
const HANDSHAKES_FAILED_MAX: usize = 16;

impl<R: Ring> LoadThread<R> {
    /// Begins the TLS handshake of a connected socket. The MCP handshake follows.
    #[cold]
    pub(super) fn begin_tls_handshake(&mut self, index: usize) {
        let Some(client) = &self.config.tls else { return };
        match TlsFilter::new(client) {
            Ok(filter) => {
                self.connections[index].tls = Some(Box::new(filter));
                self.queue_flush(index);
            }
            Err(error) => self.fail_tls(index, error),
        }
    }

    /// Processes decrypted data and the state change of the TLS filter.
    pub(super) fn receive_plaintext(
        &mut self,
        index: usize,
        (was_opening, heard): (bool, Result<(), TlsError>),
        plain: &[u8],
    ) {
        let Some(filter) = &self.connections[index].tls else { return };
        let (is_open, is_ended, owes) = (filter.is_open(), filter.is_closed(), filter.has_output());
        if was_opening && is_open {
            self.begin_mcp_handshake(index);
        }
        if !plain.is_empty() {
            self.receive_bytes(index, plain);
        }
        match heard {
            Err(error) => self.fail_tls(index, error),
            Ok(()) if is_ended => self.end_connection(index, Failure::Closed),
            Ok(()) if owes => self.queue_flush(index),
            Ok(()) => {}
        }
    }

    /// Ends a connection whose TLS handshake or decryption failed.
    #[cold]
    pub(super) fn fail_tls(&mut self, index: usize, error: TlsError) {
        let TlsError { message, is_alert } = error;
        let failure = match &self.connections[index].state {
            ConnectionState::Handshake(_) => {
                self.tls_failures += 1;
                return self
                    .fail_handshake(index, ConnectError { failure: Failure::Connect, message });
            }
            ConnectionState::Disconnected { .. }
            | ConnectionState::Connecting
            | ConnectionState::Closing => return,
            _ if is_alert => Failure::Closed,
            _ => Failure::Garbage,
        };
        self.record_error(ConnectError { failure, message });
        self.end_connection(index, failure);
    }

    /// Encrypts the plaintext in `buf`, after pending TLS records; returns `false` if that failed
    /// and the connection ended.
    #[inline]
    pub(super) fn encrypt_output(&mut self, index: usize, buf: &mut Vec<u8>) -> bool {
        let conn = &mut self.connections[index];
        let Some(filter) = &mut conn.tls else { return true };
        let mut ciphertext = self.spare_buffers.pop().unwrap_or_default();
        let outcome = filter.encrypt(buf, &mut ciphertext);
        buf.clear();
        let plain = std::mem::replace(buf, ciphertext);
        if plain.capacity() > 0 {
            self.spare_buffers.push(plain);
        }
        if let Err(error) = outcome {
            conn.is_sending = false;
            self.fail_tls(index, error);
            return false;
        }
        true
    }

    /// Sends `close_notify` of a TLS connection, as far as the socket accepts it before the close.
    pub(super) fn send_close_notify(&mut self, index: usize, socket: Socket) {
        let conn = &mut self.connections[index];
        // The result of this send is ignored.
        let Some(mut filter) = conn.tls.take().filter(|_| !conn.is_sending) else { return };
        let mut buffer = self.spare_buffers.pop().unwrap_or_default();
        filter.close(&mut buffer);
        if buffer.is_empty() {
            return self.spare_buffers.push(buffer);
        }
        conn.is_sending = true;
        self.ring.submit(Operation::Send { socket, buffer, offset: 0 });
    }

    /// Returns whether opening connections cannot succeed: a rejected certificate stays rejected,
    /// whereas a server that is not listening yet may come up.
    pub(super) fn is_unreachable(&self) -> bool {
        self.open == 0 && self.tls_failures >= self.connections.len().min(HANDSHAKES_FAILED_MAX)
    }

    /// Records an error for connections that are stuck in the TLS handshake, if there is no other:
    /// a plaintext server waits for input that it understands.
    #[cold]
    pub(super) fn record_handshake_timeout(&mut self) {
        let stuck = self.connections.iter().find(|conn| conn.is_tls_handshaking());
        if let (None, Some(conn)) = (&self.recorder.period.last_error, stuck) {
            self.recorder.period.last_error = Some(conn.timeout_error().message);
        }
    }
}
