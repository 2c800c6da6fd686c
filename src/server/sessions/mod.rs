//! Sessions on the shard that owns them: messages of other shards, deadlines, the end.

mod legacy;
mod output;

pub(super) use self::legacy::{begin_message, dispatch_session_text};
use crate::server::owner_id::SessionId;
use crate::server::shard::{Shard, Transports};
use crate::server::shard_message::{
    CarrierAddress, ExchangeAddress, SessionCaller, SessionMessage, SessionOp,
};

impl Shard {
    /// Handles the deadlines of exchanges and of sessions.
    pub(super) fn expire_sessions(&mut self) {
        if self.transports.http.is_active() {
            self.exchanges().expire();
            self.expire_legacy_sessions();
        }
        self.parity_path().expire();
    }

    /// Ends all sessions; returns whether there were any.
    pub(super) fn end_all_sessions(&mut self) -> bool {
        let has_ended = self.end_legacy_sessions();
        self.parity_path().end_sessions() || has_ended
    }

    /// Continues the paused streams of the parity dialect that have room.
    #[inline]
    pub(super) fn continue_streams(&mut self) {
        let Self { transports, dispatcher, outbox, .. } = self;
        let Transports { parity, connections, .. } = transports;
        if parity.flow.is_active() {
            parity.end_turn(connections, dispatcher.shard_count, outbox);
        }
    }

    /// Handles a message of another shard, or of this one.
    pub(super) fn handle_session_message(&mut self, message: SessionMessage) {
        match message {
            SessionMessage::Request { session, exchange, caller, op } => {
                self.handle_session_request(session, exchange, &caller, op);
            }
            SessionMessage::ResponseDelayed { session, exchange } => {
                self.begin_session_stream(session, exchange);
            }
            SessionMessage::Sent { session, carrier, bytes } => {
                self.transports.parity.confirm_sent(session, carrier, bytes);
            }
            SessionMessage::Closed { session, carrier, is_sent } => {
                if let CarrierAddress::Exchange(exchange) = carrier {
                    self.detach_exchange(session, exchange, is_sent);
                }
                self.parity_path().close_carrier(session, carrier);
            }
            SessionMessage::Resume(request) => self.parity_path().resume_relayed(*request),
            SessionMessage::Relay { session, front, text, bytes } => {
                let Self { transports, parser, dispatcher, outbox, now, .. } = self;
                let mut parity = transports.parity_path(dispatcher, outbox, *now);
                parity.receive_relayed(parser, session, front, text, bytes);
            }
            SessionMessage::Output { exchange, output } => {
                let chunk_bytes = output.chunk_bytes();
                self.exchanges().write_output(exchange, output);
                if chunk_bytes > 0 {
                    let Transports { parity, connections, .. } = &mut self.transports;
                    parity.flow.add_exchange(exchange, chunk_bytes, connections);
                }
            }
            SessionMessage::Resumed(front, resumed) => {
                self.parity_path().handle_resumed(front, resumed);
            }
            SessionMessage::RelayOutput { front, texts, is_handled, pending } => {
                self.parity_path().write_front_output(front, &texts, is_handled, pending);
            }
            SessionMessage::CloseFront { front, code, reason } => {
                self.parity_path().close_front(front, code, reason);
            }
        }
    }

    fn handle_session_request(
        &mut self,
        session: Option<SessionId>,
        exchange: ExchangeAddress,
        caller: &SessionCaller,
        op: SessionOp,
    ) {
        match op {
            SessionOp::Legacy(op) => self.handle_legacy_op(session, caller, exchange, op),
            SessionOp::RespondRefused(refused) => {
                self.respond_refused_request(session, caller, exchange, *refused);
            }
            SessionOp::Parity(op) => {
                let Self { transports, parser, dispatcher, outbox, now, .. } = self;
                let mut parity = transports.parity_path(dispatcher, outbox, *now);
                parity.handle_request(parser, session, exchange, caller, op);
            }
        }
    }
}
