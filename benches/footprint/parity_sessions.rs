//! Clients with a session of the parity dialect, one per connection, over TCP.
//!
//! The sessions can be resumed, so that the server keeps a window of the chunks of each stream.

use std::io;

use corelane_base::time::Instant;
use corelane_bench_support::requests::{self, MESSAGE_BYTES};
use serde_json::Value;

use corelane_bench_support::client_group::{BenchClient, Received};

const HANDSHAKE: &str = concat!(
    r#"{"type":"handshake","protocolVersion":"1.0","capabilities":"#,
    r#"{"tools":true,"streaming":true,"resume":true,"cancellation":true},"#,
    r#""clientInfo":{"name":"bench","version":"1"}}"#,
    "\n"
);
/// Id of the call, after that of the stream.
const CALL_ID: u64 = 2;
/// Chunks of a stream beside those of progress: `result` and `eos`.
const LAST_CHUNKS: usize = 2;
/// End of the last chunk.
const COMPLETED: &[u8] = b"\"reason\":\"completed\"}\n";
/// Time for which an open stream waits: longer than the measurement.
const OPEN_MS: u32 = 60_000;

/// The stream of a session.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum SessionStream {
    None,
    /// It is open, and has no chunks so far.
    Open,
    /// It has ended, and had this many chunks.
    Ended(usize),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    Handshake,
    Stream,
    Ready,
}

/// A session with its own connection.
#[derive(Debug)]
pub(crate) struct ParitySession {
    stream: SessionStream,
    phase: Phase,
    received: Vec<u8>,
}

impl SessionStream {
    /// Returns the stream for `--window CHUNKS`.
    pub(crate) const fn with_window(chunks: usize) -> Self {
        if chunks == 0 { Self::Open } else { Self::Ended(chunks) }
    }

    /// Returns its request.
    fn request(self) -> Option<String> {
        let (steps, step_ms) = match self {
            Self::None => return None,
            Self::Open => (1, OPEN_MS),
            Self::Ended(chunks) => (chunks.saturating_sub(LAST_CHUNKS).max(1), 0),
        };
        let arguments = format!("{{\"steps\":{steps},\"step_ms\":{step_ms}}}");
        Some(request(1, "slow", &arguments, ",\"stream\":true"))
    }
}

impl ParitySession {
    /// Creates a session that has not started.
    pub(crate) const fn new(stream: SessionStream) -> Self {
        Self { stream, phase: Phase::Handshake, received: Vec::new() }
    }

    /// Returns its tool call.
    #[expect(clippy::unused_self, reason = "all sessions send the same call")]
    pub(crate) fn call(&self) -> Vec<u8> {
        let message = requests::message(MESSAGE_BYTES);
        request(CALL_ID, "echo", &format!("{{\"message\":\"{message}\"}}"), "").into()
    }

    /// Handles all bytes since the last message sent, which end with a line.
    fn receive_lines(&mut self, received: &[u8]) -> io::Result<Received> {
        match self.phase {
            Phase::Handshake => {
                let ack: Value = serde_json::from_slice(received)?;
                if ack["type"] != "handshakeAck" || !ack["resumeToken"].is_string() {
                    return Err(unexpected(received));
                }
                let request = self.stream.request();
                self.phase = if request.is_some() { Phase::Stream } else { Phase::Ready };
                Ok(request.map_or(Received::Ready, |request| Received::Send(request.into())))
            }
            Phase::Stream => {
                let has_all = match self.stream {
                    SessionStream::Ended(_) => received.ends_with(COMPLETED),
                    SessionStream::None | SessionStream::Open => true,
                };
                if !has_all {
                    return Ok(Received::Incomplete);
                }
                if !received.starts_with(b"{\"type\":\"response\",\"id\":1,\"result\":") {
                    return Err(unexpected(received));
                }
                self.phase = Phase::Ready;
                Ok(Received::Ready)
            }
            Phase::Ready => {
                let response: Value = serde_json::from_slice(received)?;
                let text = response.pointer("/result/content/0/text").and_then(Value::as_str);
                let is_response = response["id"].as_u64() == Some(CALL_ID);
                if !is_response || text != Some(&requests::message(MESSAGE_BYTES)) {
                    return Err(unexpected(received));
                }
                Ok(Received::Responses(1))
            }
        }
    }
}

impl BenchClient for ParitySession {
    fn first_message(&self) -> Vec<u8> {
        HANDSHAKE.into()
    }

    fn receive(&mut self, arrived: &[u8], _: Instant) -> io::Result<Received> {
        let mut received = std::mem::take(&mut self.received);
        received.extend_from_slice(arrived);
        let result = if received.ends_with(b"\n") {
            self.receive_lines(&received)?
        } else {
            Received::Incomplete
        };
        if matches!(result, Received::Incomplete) {
            self.received = received;
        }
        Ok(result)
    }
}

/// Returns a call of a tool, with further members.
fn request(id: u64, tool: &str, arguments: &str, members: &str) -> String {
    format!(
        "{{\"type\":\"request\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{\
         \"name\":\"{tool}\",\"arguments\":{arguments}}}{members}}}\n"
    )
}

fn unexpected(received: &[u8]) -> io::Error {
    let received = String::from_utf8_lossy(received);
    io::Error::other(format!("unexpected message of the server: {received}"))
}
