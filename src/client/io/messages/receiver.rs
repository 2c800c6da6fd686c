//! What receives the messages of a stream: a session.

use super::output::StreamOutput;
use crate::error::ClientError;
use corelane_base::time::Instant;
use corelane_protocol::json::PaddedText;

/// Receives the messages of a stream. What it sends goes to `output`.
pub trait MessageReceiver {
    /// Returns the present.
    fn now(&self) -> Instant;

    /// Returns the longest message in bytes.
    fn message_bytes_max(&self) -> usize;

    /// The stream is open: begins the handshake.
    fn start(&mut self, output: &mut StreamOutput);

    /// Handles one message.
    fn receive(&mut self, message: PaddedText<'_>, output: &mut StreamOutput);

    /// Handles a message that was too long, the response to the request `id` if that is known.
    fn reject_oversized(&mut self, id: Option<u64>, error: ClientError, output: &mut StreamOutput);
}
