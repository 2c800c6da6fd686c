//! One message per line.

use std::io::{self, Write};

use memchr::memchr;

use super::byte_stream::ByteStream;
use super::{MESSAGE_BYTES_MAX, Received};
use crate::deadline::Deadline;

/// Lines over TCP, TLS or pipes.
pub struct Lines {
    stream: ByteStream,
    input: Vec<u8>,
}

impl Lines {
    pub const fn new(stream: ByteStream) -> Self {
        Self { stream, input: Vec::new() }
    }

    pub fn send(&mut self, text: &str) -> io::Result<()> {
        self.stream.write_all(format!("{text}\n").as_bytes())?;
        self.stream.flush()
    }

    /// Sends a part of a line.
    pub fn send_part(&mut self, text: &str) -> io::Result<()> {
        self.stream.write_all(text.as_bytes())?;
        self.stream.flush()
    }

    pub fn receive(&mut self, deadline: Deadline) -> Received {
        loop {
            if let Some(end) = memchr(b'\n', &self.input) {
                let line: Vec<u8> = self.input.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line[..end]).trim_end().to_owned();
                if line.is_empty() {
                    continue;
                }
                return Received::text(line);
            }
            if self.input.len() > MESSAGE_BYTES_MAX {
                return Received::closed("the server sent a line that is too long");
            }
            match self.stream.read_within(deadline.left()) {
                Ok(None) if deadline.is_over() => return Received::Nothing,
                Ok(None) => {}
                Ok(Some(bytes)) if bytes.is_empty() => return Received::closed("end of stream"),
                Ok(Some(bytes)) => self.input.extend_from_slice(&bytes),
                Err(error) => return Received::closed(&error.to_string()),
            }
        }
    }
}
