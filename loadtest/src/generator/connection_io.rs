//! Input and output of all connections of a load thread over its ring.
//!
//! Invariants: a connection has at most one send in progress. A turn submits one send for each
//! connection with output. A connection sends and receives plaintext; a socket with TLS is one of
//! [`Streams`].

use std::io;
use std::ops::{Index, IndexMut};

use corelane_base::pool::BufferPool;
use corelane_base::time::Instant;
use corelane_engine::ring::{
    Completion, Operation, ParkTimeout, ReceiveBuffer, Registered, Ring, Socket, Source,
};
use corelane_engine::stream::{ByteFilter, Sending, Sent, StreamRing, Streams};
use corelane_tls::TlsFilter;

use super::connection::{Connection, ConnectionState};
use super::run_config::Route;

/// Largest send buffer that is kept for another send, and all of these.
const SPARE_BYTES_MAX: usize = 1 << 20;
const ALL_SPARE_BYTES_MAX: usize = 64 << 20;

/// A ring and its connections. Indexed by connection.
#[derive(Debug)]
pub(super) struct ConnectionIo<R> {
    ring: R,
    /// The sockets with TLS.
    streams: Streams<TlsFilter>,
    is_encrypted: bool,
    connections: Vec<Connection>,
    /// Connection index by socket; `u32::MAX` for none.
    connection_by_socket: Vec<u32>,
    /// Connections with data to send.
    flush_queue: Vec<u32>,
    /// Buffers that no send uses.
    spare: BufferPool,
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
            streams: Streams::default(),
            is_encrypted: false,
            connections: std::iter::repeat_with(Connection::new).take(count).collect(),
            connection_by_socket: Vec::new(),
            flush_queue: Vec::new(),
            spare: BufferPool::new(ALL_SPARE_BYTES_MAX, SPARE_BYTES_MAX),
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

    /// Appends the completions of the ring, decrypted. Returns the connections whose TLS handshake
    /// is complete, which precede them.
    #[inline]
    pub(super) fn reap(&mut self, completions: &mut Vec<Completion>) -> Vec<usize> {
        self.ring.reap(completions);
        if self.is_encrypted { self.decrypt(completions) } else { Vec::new() }
    }

    fn decrypt(&mut self, completions: &mut Vec<Completion>) -> Vec<usize> {
        let mut established = Vec::new();
        for completion in completions.drain(..) {
            let socket = completion.socket();
            let handshaking = socket.filter(|socket| self.streams.is_handshaking(*socket));
            self.streams.handle(&mut self.ring, completion);
            if let Some(socket) = handshaking
                && self.streams.filter(socket).is_some_and(ByteFilter::is_established)
            {
                established.extend(self.connection_of(socket));
            }
        }
        self.streams.take_completions(completions);
        established
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
        let bytes = match self.streams.bytes(buffer) {
            Some(decrypted) => decrypted,
            None => self.ring.bytes(buffer),
        };
        Some((index, &mut self.connections[index], &bytes[..buffer.len as usize]))
    }

    /// Takes a receive buffer back.
    #[inline]
    pub(super) fn release(&mut self, buffer: ReceiveBuffer) {
        self.stream_ring().release(buffer);
    }

    const fn stream_ring(&mut self) -> StreamRing<'_, R, TlsFilter> {
        StreamRing::new(&mut self.ring, &mut self.streams)
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
        conn.sending = Sending::default();
        Some(index)
    }

    /// Begins the TLS handshake of a connection, whose sockets are attached.
    pub(super) fn begin_tls(&mut self, socket: Socket, filter: TlsFilter) {
        self.is_encrypted = true;
        self.streams.insert(socket, filter, Vec::new());
        self.streams.finish_input(&mut self.ring, socket);
    }

    /// Returns whether the TLS handshake of a connection is not complete.
    pub(super) fn is_tls_handshaking(&self, index: usize) -> bool {
        let filter = self.connections[index].read_socket.and_then(|it| self.streams.filter(it));
        filter.is_some_and(|filter| !filter.is_established())
    }

    /// Closes the sockets of a connection and discards its output.
    pub(super) fn close_sockets(&mut self, index: usize) {
        let conn = &mut self.connections[index];
        conn.send_buffer = Vec::new();
        let (read, write) = (conn.read_socket, conn.write_socket);
        for socket in [read, write.filter(|write| read != Some(*write))].into_iter().flatten() {
            self.stream_ring().submit(Operation::Close(socket));
        }
    }

    /// Shuts down writing, unless that would overtake unsent data; the connection still receives.
    /// TLS sends its `close_notify` when both directions are closed. Pipes have no half-close: the
    /// program reads the end of its input when both are closed. Returns whether it is possible.
    pub(super) fn shut_down_write(&mut self, index: usize) -> bool {
        let conn = &self.connections[index];
        let socket = conn.write_socket.filter(|socket| conn.read_socket == Some(*socket));
        let Some(socket) = socket.filter(|_| conn.send_buffer.is_empty() && !self.is_encrypted)
        else {
            return false;
        };
        self.ring.submit(Operation::ShutdownWrite(socket));
        true
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
        if conn.send_buffer.capacity() == 0 {
            conn.send_buffer = self.spare.take();
        }
        conn
    }

    /// Appends bytes to the send buffer of a connection.
    pub(super) fn buffer_output(&mut self, index: usize, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.prepared(index).send_buffer.extend_from_slice(bytes);
        }
    }

    /// Queues a connection for the flush at the end of the turn.
    #[inline]
    pub(super) fn queue_flush(&mut self, index: usize) {
        let conn = &mut self.connections[index];
        if !conn.is_flush_queued {
            conn.is_flush_queued = true;
            self.flush_queue.push(u32::try_from(index).unwrap_or(u32::MAX));
        }
    }

    /// Returns whether no connection is queued for the flush.
    pub(super) const fn is_flushed(&self) -> bool {
        self.flush_queue.is_empty()
    }

    /// Submits one send for each queued connection.
    #[inline]
    pub(super) fn flush_output(&mut self) {
        let Self { ring, streams, connections, flush_queue, .. } = self;
        let mut ring = StreamRing::new(ring, streams);
        for index in flush_queue.drain(..) {
            let conn = &mut connections[index as usize];
            conn.is_flush_queued = false;
            if let Some(socket) = conn.write_socket
                && conn.sending.is_idle()
                && !conn.send_buffer.is_empty()
            {
                let buffer = std::mem::take(&mut conn.send_buffer);
                conn.sending.submit(&mut ring, socket, buffer);
            }
        }
    }

    /// Handles the completion of a send; returns its connection if the send failed.
    #[inline]
    pub(super) fn handle_sent(
        &mut self,
        socket: Socket,
        buffer: Vec<u8>,
        result: &io::Result<usize>,
    ) -> Option<usize> {
        let Some(index) = self.connection_of(socket) else {
            self.spare.put(buffer);
            return None;
        };
        let Self { ring, streams, connections, .. } = self;
        let conn = &mut connections[index];
        let is_closing = matches!(conn.state, ConnectionState::Closing);
        let mut ring = StreamRing::new(ring, streams);
        let (buffer, failed) =
            match conn.sending.handle_sent(&mut ring, socket, buffer, result, is_closing) {
                Sent::Part => return None,
                Sent::All(buffer) => (buffer, None),
                Sent::Failed(buffer) => (buffer, Some(index)),
            };
        let has_output = !conn.send_buffer.is_empty();
        self.spare.put(buffer);
        if has_output && failed.is_none() {
            self.queue_flush(index);
        }
        failed
    }
}
