//! What connects a client: one stream in both directions, or a pipe in each.

use std::net::SocketAddr;
use std::time::Duration;

use corelane::engine::ring::sim;

/// The client's side of a connection.
#[derive(Debug)]
pub(crate) struct Wire {
    voice: sim::Client,
    /// The other pipe; none where it hears what it speaks into.
    ear: Option<sim::Client>,
}

impl Wire {
    /// A stream.
    pub(crate) const fn stream(stream: sim::Client) -> Self {
        Self { voice: stream, ear: None }
    }

    /// Two pipes, as they lead to the standard input and output of a process.
    pub(crate) const fn pipes(input: sim::Client, output: sim::Client) -> Self {
        Self { voice: input, ear: Some(output) }
    }

    /// The address that the server sees.
    pub(crate) fn address(&self) -> SocketAddr {
        self.voice.address()
    }

    pub(crate) fn write(&self, bytes: &[u8]) {
        self.voice.write(bytes);
    }

    /// Says the end.
    pub(crate) fn finish(&self) {
        self.voice.finish();
    }

    /// Takes what has been read.
    pub(crate) fn heard(&self) -> Vec<u8> {
        self.ear().heard()
    }

    /// Whether the server has said its end.
    pub(crate) fn has_ended(&self) -> bool {
        self.ear().has_ended()
    }

    /// Whether nothing more can be heard because the connection broke.
    pub(crate) fn is_reset(&self) -> bool {
        self.ear().is_reset()
    }

    pub(crate) fn stop_reading(&self) {
        self.ear().stop_reading();
    }

    pub(crate) fn read_eagerly(&self) {
        self.ear().read_eagerly();
    }

    pub(crate) fn read_slowly(&self, bytes: usize, every: Duration) {
        self.ear().read_slowly(bytes, every);
    }

    /// Goes away.
    pub(crate) fn close(&self) {
        self.voice.close();
        self.ear().close();
    }

    /// Goes away with a reset.
    pub(crate) fn reset(&self) {
        self.voice.reset();
        self.ear().reset();
    }

    const fn ear(&self) -> &sim::Client {
        match &self.ear {
            Some(ear) => ear,
            None => &self.voice,
        }
    }
}
