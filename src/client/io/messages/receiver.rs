//! What receives the messages of a stream: a session of MCP, or of another dialect.

use super::output::StreamOutput;
use crate::base::time::Instant;
use crate::client::error::ClientError;
use crate::client::session::{Session, SessionContext, SessionEvent};
use crate::protocol::json::{PaddedText, Parser};

/// Receives the messages of a stream. What it sends goes to `output`.
pub(in crate::client::io) trait MessageReceiver {
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

/// A session of MCP with what its methods are passed, except the sink.
#[derive(Debug)]
pub(in crate::client::io) struct SessionReceiver<'a, T> {
    pub(in crate::client::io) session: &'a mut Session<T>,
    /// Passed to the session when it starts.
    pub(in crate::client::io) is_legacy: bool,
    pub(in crate::client::io) parser: &'a mut Parser,
    pub(in crate::client::io) ctx: SessionContext<'a, T, ()>,
}

impl<T: Clone> MessageReceiver for SessionReceiver<'_, T> {
    fn now(&self) -> Instant {
        self.ctx.now
    }

    fn message_bytes_max(&self) -> usize {
        self.session.config().options().message_bytes_max
    }

    fn start(&mut self, output: &mut StreamOutput) {
        self.session.start(self.is_legacy, &mut self.ctx.with_sink(output));
    }

    #[inline]
    fn receive(&mut self, message: PaddedText<'_>, output: &mut StreamOutput) {
        self.session.receive(message, self.parser, &mut self.ctx.with_sink(output));
    }

    fn reject_oversized(&mut self, id: Option<u64>, error: ClientError, output: &mut StreamOutput) {
        let violation = "a message longer than message_bytes_max";
        self.ctx.events.push(SessionEvent::Violation(violation));
        if let Some(id) = id {
            self.session.fail_request(id, error, &mut self.ctx.with_sink(output));
        }
    }
}
