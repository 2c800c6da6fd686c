//! The messages of a stream for a session of the parity dialect.

use crate::base::time::Instant;
use crate::client::error::ClientError;
use crate::client::io::messages::{MessageReceiver, StreamOutput};
use crate::client::io::parity_commands::ParityToken;
use crate::client::io::workspace::ParityWorkspace;
use crate::client::parity_session::{ParityContext, ParityRequests};
use crate::protocol::json::{PaddedText, Parser};

/// A session with what its methods are passed, except the sink.
#[derive(Debug)]
pub(super) struct ParityReceiver<'a> {
    pub(super) requests: &'a mut ParityRequests<ParityToken>,
    pub(super) parser: &'a mut Parser,
    pub(super) workspace: &'a mut ParityWorkspace,
    pub(super) message_bytes_max: usize,
    pub(super) now: Instant,
}

impl MessageReceiver for ParityReceiver<'_> {
    fn now(&self) -> Instant {
        self.now
    }

    fn message_bytes_max(&self) -> usize {
        self.message_bytes_max
    }

    fn start(&mut self, output: &mut StreamOutput) {
        self.requests.connect(&mut self.workspace.context(output, self.now));
    }

    fn receive(&mut self, message: PaddedText<'_>, output: &mut StreamOutput) {
        let ParityWorkspace { events, text } = &mut *self.workspace;
        let mut ctx = ParityContext { now: self.now, sink: output, events, text };
        self.requests.receive(message, self.parser, &mut ctx);
    }

    fn reject_oversized(&mut self, id: Option<u64>, error: ClientError, output: &mut StreamOutput) {
        if let Some(id) = id {
            self.requests.fail_request(id, error, &mut self.workspace.context(output, self.now));
        }
    }
}
