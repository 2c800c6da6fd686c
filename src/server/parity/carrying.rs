//! What carries a session: a connection, HTTP requests, a connection of another shard.
//!
//! Invariants: a session has one carrier; a call that waited for its response over HTTP is answered
//! as cancelled when the session goes elsewhere.

use super::carrier::Relay;
use super::output::ParityPath;
use super::session::is_stream;
use crate::base::slab::Key;
use crate::transport::websocket::code::CloseCode;

/// Why a connection closes whose session continues on another one.
const CONTINUED: &str = "the session was resumed on another connection";

impl ParityPath<'_> {
    /// Ends what carries a session whose client has resumed it elsewhere.
    pub(super) fn release_carrier(&mut self, key: Key) {
        let Some(session) = self.parity.get_mut(key) else { return };
        let (previous, relay) = (session.connection.take(), session.relay.take());
        if let Some(previous) = previous {
            // Its client has connected again before the end of the connection was seen.
            if let Some(connection) = self.connections.table.get_mut(previous) {
                self.dispatcher.facts.keep_parity_session(&mut connection.state, None);
                connection.pending_work.pending_responses = 0;
            }
            self.close_connection(previous, CloseCode::POLICY.as_u16(), CONTINUED);
        }
        if let Some(Relay::Remote(remote)) = relay.map(|relay| *relay) {
            remote.close(CloseCode::POLICY.as_u16(), CONTINUED, self.outbox);
        }
        self.detach_http(key);
    }

    /// HTTP requests carry a session no more: its calls are cancelled and answered, its streams
    /// continue.
    fn detach_http(&mut self, key: Key) {
        let Some(session) = self.parity.get_mut(key) else { return };
        let Some(http) = session.http.take() else { return };
        let calls = session.calls(&mut self.dispatcher.deferred);
        self.cancel_if(key, |number| !is_stream(number));
        self.end_http(*http, &calls);
    }

    /// Has a connection carry a session.
    pub(super) fn attach(&mut self, connection_key: Key, key: Key) {
        let Some(connection) = self.connections.table.get_mut(connection_key) else { return };
        let Some(session) = self.parity.get_mut(key) else { return };
        session.connection = Some(connection_key);
        session.http = None;
        session.relay = None;
        session.state.transport = connection.state.transport;
        session.state.client = connection.state.client;
        self.dispatcher.facts.copy_identity(&connection.state, &mut session.state);
        self.dispatcher.facts.keep_parity_session(&mut connection.state, Some(key));
    }
}
