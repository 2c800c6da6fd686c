//! Input and output of all connections of a load thread over its ring.
//!
//! Invariants: a connection has at most one send in progress. A turn submits one send for each
//! connection with output. An unencrypted connection pays one branch per receive and per send for
//! TLS.

use std::io;
use std::ops::{Index, IndexMut};

use corelane_base::time::Instant;
use corelane_engine::ring::{
    Completion, Operation, ParkTimeout, ReceiveBuffer, Registered, Ring, Socket, Source,
};
use corelane_tls::TlsError;

use super::connection::{Connection, ConnectionState};
use super::run_config::Route;
use super::send_buffers::SendBuffers;

/// A ring and its connections. Indexed by connection.
#[derive(Debug)]
pub(super) struct ConnectionIo<R> {
    ring: R,
    connections: Vec<Connection>,
    /// Connection index by socket; `u32::MAX` for none.
    connection_by_socket: Vec<u32>,
    buffers: SendBuffers,
}

impl<R> Index<usize> for ConnectionIo<R> {
    type Output = Connection;

    #[inline]
    fn index(&self, index: usize) -> &Connection {
        &self.connections[index]
    }
}

impl<R> IndexMut<usize> for ConnectionIo<R> {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut Connection {
        &mut self.connections[index]
    }
}

impl<R: Ring> ConnectionIo<R> {
    /// Creates `count` unconnected connections.
    pub(super) fn new(ring: R, count: usize) -> Self {
        Self {
            ring,
            connections: std::iter::repeat_with(Connection::new).take(count).collect(),
            connection_by_socket: Vec::new(),
            buffers: SendBuffers::default(),
        }
    }

    /// Returns all connections.
    #[inline]
    pub(super) fn connections(&self) -> &[Connection] {
        &self.connections
    }

    /// Returns all connections.
    pub(super) fn connections_mut(&mut self) -> &mut [Connection] {
        &mut self.connections
    }

    /// Parks the ring until a completion arrives or the timeout passes; returns the time.
    #[inline]
    pub(super) fn park(&mut self, timeout: ParkTimeout) -> Instant {
        self.ring.park(timeout)
    }

    /// Appends the completions of the ring.
    #[inline]
    pub(super) fn reap(&mut self, completions: &mut Vec<Completion>) {
        self.ring.reap(completions);
    }

    /// Returns the connection of a socket.
    #[inline]
    pub(super) fn connection_of(&self, socket: Socket) -> Option<usize> {
        let index = *self.connection_by_socket.get(socket.index())?;
        (index != u32::MAX).then_some(index as usize)
    }

    /// Returns the connection that received data, its index, and the data.
    #[inline]
    pub(super) fn received(
        &mut self,
        socket: Socket,
        buffer: &ReceiveBuffer,
    ) -> Option<(usize, &mut Connection, &[u8])> {
        let index = self.connection_of(socket)?;
        let bytes = &self.ring.bytes(buffer)[..buffer.len as usize];
        Some((index, &mut self.connections[index], bytes))
    }

    /// Returns a receive buffer to the ring.
    #[inline]
    pub(super) fn release(&mut self, buffer: ReceiveBuffer) {
        self.ring.release(buffer);
    }

    /// Submits the connect of a connection; its completion has the index as token.
    pub(super) fn submit_connect(&mut self, index: u32, route: Route) {
        let Route { address, from } = route;
        let token = u64::from(index);
        self.ring.submit(Operation::Connect {
            address,
            local_address: from,
            keepalive: false,
            token,
        });
    }

    /// Registers both ends of a child's pipes: the one to read from, then the one to write to.
    ///
    /// # Errors
    ///
    /// Returns the errors of the ring if it has no room for both; none of them stays registered.
    pub(super) fn register_pipes(
        &mut self,
        ends: [Source; 2],
    ) -> Result<(Socket, Socket), Vec<io::Error>> {
        match ends.map(|end| self.ring.register(end)) {
            [Ok(Registered::Socket(read)), Ok(Registered::Socket(write))] => Ok((read, write)),
            ends => {
                let mut errors = Vec::new();
                for end in ends {
                    match end {
                        Ok(Registered::Socket(socket)) => {
                            self.ring.submit(Operation::Close(socket));
                        }
                        Ok(Registered::Listener(_)) => {}
                        Err(error) => errors.push(error),
                    }
                }
                Err(errors)
            }
        }
    }

    /// Attaches the sockets for reading and writing to a connection and starts to receive.
    pub(super) fn attach_sockets(&mut self, index: usize, read: Socket, write: Socket) {
        for socket in [read, write] {
            if self.connection_by_socket.len() <= socket.index() {
                self.connection_by_socket.resize(socket.index() + 1, u32::MAX);
            }
            self.connection_by_socket[socket.index()] = u32::try_from(index).unwrap_or(u32::MAX);
        }
        self.ring.submit(Operation::Receive(read));
        let conn = &mut self.connections[index];
        (conn.read_socket, conn.write_socket) = (Some(read), Some(write));
    }

    /// Detaches a closed socket; returns its connection if that has no other socket.
    pub(super) fn detach_socket(&mut self, socket: Socket) -> Option<usize> {
        let index = self.connection_of(socket)?;
        self.connection_by_socket[socket.index()] = u32::MAX;
        let conn = &mut self.connections[index];
        conn.read_socket = conn.read_socket.filter(|read| *read != socket);
        conn.write_socket = conn.write_socket.filter(|write| *write != socket);
        if conn.read_socket.is_some() || conn.write_socket.is_some() {
            return None;
        }
        conn.is_sending = false;
        Some(index)
    }

    /// Closes the sockets of a connection and discards its output.
    pub(super) fn close_sockets(&mut self, index: usize) {
        let conn = &mut self.connections[index];
        conn.send_buffer = Vec::new();
        let (read, write) = (conn.read_socket, conn.write_socket);
        if let Some(read) = read {
            self.send_close_notify(index, read);
            self.ring.submit(Operation::Close(read));
        }
        if let Some(write) = write.filter(|write| read != Some(*write)) {
            self.ring.submit(Operation::Close(write));
        }
    }

    /// Sends `close_notify` of a TLS connection, as far as the socket accepts it before the close.
    fn send_close_notify(&mut self, index: usize, socket: Socket) {
        let conn = &mut self.connections[index];
        // The result of this send is ignored.
        let Some(mut filter) = conn.tls.take().filter(|_| !conn.is_sending) else { return };
        let mut buffer = self.buffers.take_spare();
        filter.close(&mut buffer);
        if buffer.is_empty() {
            return self.buffers.recycle(buffer);
        }
        conn.is_sending = true;
        self.ring.submit(Operation::Send { socket, buffer, offset: 0 });
    }

    /// Shuts down writing; the connection still receives.
    pub(super) fn shut_down_write(&mut self, index: usize) {
        if let Some(socket) = self.connections[index].write_socket {
            self.ring.submit(Operation::ShutdownWrite(socket));
        }
    }

    /// Stops receiving on a connection.
    pub(super) fn stop_receive(&mut self, index: usize) {
        if let Some(socket) = self.connections[index].read_socket {
            self.ring.submit(Operation::StopReceive(socket));
        }
    }

    /// Resumes receiving on a connection.
    pub(super) fn resume_receive(&mut self, index: usize) {
        if let Some(socket) = self.connections[index].read_socket {
            self.ring.submit(Operation::Receive(socket));
        }
    }

    /// Returns a connection whose send buffer has capacity if any spare one has.
    #[inline]
    pub(super) fn prepared(&mut self, index: usize) -> &mut Connection {
        let conn = &mut self.connections[index];
        self.buffers.prepare(conn);
        conn
    }

    /// Appends bytes to the send buffer of a connection.
    pub(super) fn buffer_output(&mut self, index: usize, bytes: &[u8]) {
        self.buffers.append_output(&mut self.connections[index], bytes);
    }

    /// Queues a connection for the flush at the end of the turn.
    #[inline]
    pub(super) fn queue_flush(&mut self, index: usize) {
        self.buffers.queue_connection(index, &mut self.connections[index]);
    }

    /// Returns whether no connection is queued for the flush.
    pub(super) const fn is_flushed(&self) -> bool {
        self.buffers.is_flushed()
    }

    /// Submits one send for each queued connection. Returns the connections whose output could not
    /// be encrypted.
    pub(super) fn flush_output(&mut self) -> Vec<(usize, TlsError)> {
        let mut failed = Vec::new();
        let mut queue = self.buffers.take_queue();
        for index in queue.drain(..) {
            let conn = &mut self.connections[index as usize];
            conn.is_flush_queued = false;
            if conn.is_sending || !conn.has_output() {
                continue;
            }
            let Some(socket) = conn.write_socket else { continue };
            let mut buffer = std::mem::take(&mut conn.send_buffer);
            if conn.tls.is_some()
                && let Err(error) = encrypt_output(conn, &mut self.buffers, &mut buffer)
            {
                failed.push((index as usize, error));
                continue;
            }
            conn.is_sending = true;
            self.ring.submit(Operation::Send { socket, buffer, offset: 0 });
        }
        self.buffers.restore_queue(queue);
        failed
    }

    /// Handles the completion of a send; returns its connection if the send failed.
    #[inline]
    pub(super) fn handle_sent(
        &mut self,
        socket: Socket,
        mut buffer: Vec<u8>,
        result: io::Result<usize>,
    ) -> Option<usize> {
        let Some(index) = self.connection_of(socket) else {
            self.buffers.recycle(buffer);
            return None;
        };
        let conn = &mut self.connections[index];
        let sent = result.unwrap_or_default();
        if sent < buffer.len() {
            if sent > 0 && !matches!(conn.state, ConnectionState::Closing) {
                // A pipe accepts only as much as it has space for.
                buffer.drain(..sent);
                self.ring.submit(Operation::Send { socket, buffer, offset: 0 });
                return None;
            }
            conn.is_sending = false;
            self.buffers.recycle(buffer);
            return Some(index);
        }
        conn.is_sending = false;
        self.buffers.recycle(buffer);
        if conn.has_output() {
            self.buffers.queue_connection(index, conn);
        }
        None
    }
}

/// Replaces the plaintext in `buffer` by pending TLS records and the encrypted plaintext.
#[inline]
fn encrypt_output(
    conn: &mut Connection,
    buffers: &mut SendBuffers,
    buffer: &mut Vec<u8>,
) -> Result<(), TlsError> {
    let Some(filter) = &mut conn.tls else { return Ok(()) };
    let mut ciphertext = buffers.take_spare();
    let result = filter.encrypt(buffer, &mut ciphertext);
    buffers.recycle(std::mem::replace(buffer, ciphertext));
    result
}
