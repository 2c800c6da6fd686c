//! Messages of the server that are not JSON-RPC: the call that they answer fails at once.
//!
//! Invariants: a response is not answered; a request that cannot be read gets an error, with its id
//! if that can be read; blank text is ignored.
//!
//! JSON-RPC 2.0, section 5.

use super::calls::own_id;
use super::event::{MessageSink, SessionEvent};
use super::{Session, SessionContext};
use crate::error::{ClientError, ClientErrorKind, quote};
use corelane_protocol::error::Error;
use corelane_protocol::json::ParseError;
use corelane_protocol::jsonrpc::InvalidMessage;
use corelane_protocol::message_head::MessageHead;

impl<T: Clone> Session<T> {
    /// Handles text that does not parse.
    #[cold]
    pub(super) fn handle_unreadable<S: MessageSink>(
        &mut self,
        text: &[u8],
        error: ParseError,
        ctx: &mut SessionContext<'_, T, S>,
    ) {
        if text.trim_ascii().is_empty() {
            return;
        }
        let head = MessageHead::read(text);
        let quoted = quote(&ctx.buffers.received);
        ctx.events.push(SessionEvent::Violation("a message that is not valid JSON"));
        let error = Error::from(error);
        if head.has_method() {
            if let Some(id) = head.id() {
                ctx.send_error(self.revision(), Some(id), &error);
            }
            return;
        }
        // A line that is no message may also be the output of a program.
        let is_message = text.trim_ascii_start().starts_with(b"{");
        let only = || self.calls.only_in_flight().filter(|_| is_message);
        if let Some(id) = head.id().map_or_else(only, own_id) {
            let text = format!(
                "the server sent a message that is not understood ({}){quoted}",
                error.message
            );
            self.fail_request(id, ClientError::new(ClientErrorKind::Protocol, text), ctx);
        } else {
            self.invalid_text.get_or_insert_with(|| quoted.into());
        }
    }

    /// Handles a message that is not valid JSON-RPC.
    #[cold]
    pub(super) fn handle_invalid<S: MessageSink>(
        &mut self,
        invalid: &InvalidMessage<'_>,
        ctx: &mut SessionContext<'_, T, S>,
    ) {
        let InvalidMessage { id, is_response, error, .. } = invalid;
        ctx.events.push(SessionEvent::Violation("an invalid JSON-RPC message"));
        let own = id.and_then(own_id).filter(|id| self.calls.was_allocated(*id));
        let only = || self.calls.only_in_flight().filter(|_| id.is_none() && *is_response);
        match own.filter(|_| !invalid.has_method).or_else(only) {
            Some(id) => {
                let quoted = quote(&ctx.buffers.received);
                let text = format!("the response is invalid: {}{quoted}", error.message);
                self.fail_request(id, ClientError::new(ClientErrorKind::Protocol, text), ctx);
            }
            None if invalid.has_method => ctx.send_error(self.revision(), *id, error),
            None => {}
        }
    }
}
