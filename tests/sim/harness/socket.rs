//! A client's end of a connection: one stream in both directions, or a pipe in each.

use std::net::SocketAddr;
use std::time::Duration;

use corelane_engine::ring::sim;

/// A client's end of a connection.
#[derive(Debug)]
pub(crate) struct ClientSocket {
    writer: sim::Client,
    /// The pipe that it reads from; `None` for a stream.
    reader: Option<sim::Client>,
}

impl ClientSocket {
    /// A stream socket.
    pub(crate) const fn stream(stream: sim::Client) -> Self {
        Self { writer: stream, reader: None }
    }

    /// Two pipes, as for the standard input and output of a process.
    pub(crate) const fn pipes(input: sim::Client, output: sim::Client) -> Self {
        Self { writer: input, reader: Some(output) }
    }

    /// Client address that the server sees.
    pub(crate) fn address(&self) -> SocketAddr {
        self.writer.address()
    }

    pub(crate) fn write(&self, bytes: &[u8]) {
        self.writer.write(bytes);
    }

    /// Shuts down the writing side.
    pub(crate) fn shut_down_write(&self) {
        self.writer.shutdown_write();
    }

    /// Takes the received bytes.
    pub(crate) fn take_received(&self) -> Vec<u8> {
        self.reader().take_received()
    }

    /// Returns whether the server has shut down its writing side.
    pub(crate) fn has_ended(&self) -> bool {
        self.reader().is_at_end()
    }

    /// Returns whether the connection was reset.
    pub(crate) fn is_reset(&self) -> bool {
        self.reader().is_reset()
    }

    pub(crate) fn stop_reading(&self) {
        self.reader().stop_reading();
    }

    pub(crate) fn read_eagerly(&self) {
        self.reader().read_eagerly();
    }

    pub(crate) fn read_slowly(&self, bytes: usize, every: Duration) {
        self.reader().read_slowly(bytes, every);
    }

    pub(crate) fn close(&self) {
        self.writer.close();
        self.reader().close();
    }

    pub(crate) fn reset(&self) {
        self.writer.reset();
        self.reader().reset();
    }

    const fn reader(&self) -> &sim::Client {
        match &self.reader {
            Some(socket) => socket,
            None => &self.writer,
        }
    }
}
