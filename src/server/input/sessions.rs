//! Sessions on the shard that owns them: messages of other shards, deadlines, the end.

use crate::server::connections::Transports;
use crate::server::parity;
use crate::server::shard::Shard;
use crate::server::shard_message::{HttpMessage, ParityMessage, RelayMessage};

impl Shard {
    /// Handles the deadlines of exchanges and of sessions.
    pub(in crate::server) fn expire_sessions(&mut self) {
        if self.transports.http.is_active() {
            self.exchanges().expire();
            self.sessions().expire();
        }
        self.parity_path().expire();
    }

    /// Ends all sessions; returns whether there were any.
    pub(in crate::server) fn end_all_sessions(&mut self) -> bool {
        let has_ended = self.sessions().end_all();
        self.parity_path().end_sessions() || has_ended
    }

    /// Handles a message of another shard, or of this one.
    pub(in crate::server) fn handle_http_message(&mut self, message: HttpMessage) {
        match message {
            HttpMessage::SessionRequest { session, exchange: from, principal, op } => {
                self.sessions().handle_op(session, principal.as_ref(), from, op);
            }
            HttpMessage::RequestRefused { session, exchange, principal, refused } => {
                self.sessions().respond_refused(session, principal.as_ref(), exchange, *refused);
            }
            HttpMessage::ExchangeClosed { session, exchange, is_sent } => {
                self.sessions().detach_exchange(session, exchange, is_sent);
            }
            HttpMessage::Output { exchange: to, output } => {
                self.exchanges().write_output(to, output);
            }
            HttpMessage::ResponseDelayed { session, exchange } => {
                let output = &mut self.transports.http.session_output(&mut self.outbox, self.now);
                output.begin_event_stream(session, exchange);
            }
        }
    }

    /// Continues the paused streams of the parity dialect that have room.
    #[inline]
    pub(in crate::server) fn continue_streams(&mut self) {
        let Self { transports, dispatcher, outbox, .. } = self;
        let Transports { parity, connections, .. } = transports;
        if parity.flow.is_active() {
            parity::end_turn(parity, connections, dispatcher.shard_count, outbox);
        }
    }

    /// Handles a message of the parity dialect from another shard, or from this one.
    pub(in crate::server) fn handle_parity_message(&mut self, message: ParityMessage) {
        let Self { transports, parser, dispatcher, outbox, now, .. } = self;
        let mut parity = transports.parity_path(dispatcher, outbox, *now);
        match message {
            ParityMessage::Request { session, exchange, caller, op } => {
                parity.handle_request(parser, session, exchange, &caller, op);
            }
            ParityMessage::ExchangeClosed { session, exchange } => {
                parity.close_exchange(session, exchange);
            }
            ParityMessage::Output { exchange, output } => {
                let bytes = output.chunk_bytes();
                self.exchanges().write_parity_output(exchange, output);
                let Transports { parity, connections, .. } = &mut self.transports;
                if bytes > 0 {
                    parity.flow.add_exchange(exchange, bytes, connections);
                }
            }
            ParityMessage::Sent { session, exchange, bytes } => {
                parity.parity.confirm_sent(session, exchange, bytes);
            }
        }
    }

    /// Handles a message about a session of the parity dialect that a connection of another shard
    /// carries.
    pub(in crate::server) fn handle_relay_message(&mut self, message: RelayMessage) {
        let Self { transports, parser, dispatcher, outbox, now, .. } = self;
        let mut parity = transports.parity_path(dispatcher, outbox, *now);
        parity.handle_relay_message(parser, message);
    }
}
