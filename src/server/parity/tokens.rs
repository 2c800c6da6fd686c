//! Another token in a request of a session.
//!
//! Invariants: the token of a session is that of its connection; a request that is refused, or is
//! of another caller, leaves the one before.

use super::carrier::Carrier;
use super::output::ParityPath;
use crate::server::auth::Credential;
use crate::server::reply_to::ParityKey;

impl ParityPath<'_> {
    /// Keeps the token of a message, to be verified with it. Returns the credential before, if that
    /// is replaced.
    pub(super) fn keep_token(&mut self, key: ParityKey, token: &str) -> Option<Credential> {
        let session = self.parity.get_mut(key)?;
        let known = session.state.credential();
        let is_known = known.is_some_and(|known| known.has_token(token.as_bytes()));
        if is_known || !self.dispatcher.auth.verifies_tokens() {
            return None;
        }
        let previous = known.cloned();
        let credential = Some(Credential::unverified(token));
        self.dispatcher.facts.keep_credential(&mut session.state, credential);
        previous
    }

    /// After a message with another token: it is that of the connection, too. One that was refused,
    /// or is of another caller, leaves the one before.
    pub(super) fn complete_token(
        &mut self,
        carrier: Carrier<'_>,
        key: ParityKey,
        previous: Option<Credential>,
    ) {
        let Some(session) = self.parity.get_mut(key) else { return };
        let facts = &mut self.dispatcher.facts;
        let known = session.state.credential().filter(|known| {
            let is_own = |it: &Credential| !it.is_verified() || it.is_same_caller(known);
            known.is_verified() && previous.as_ref().is_none_or(is_own)
        });
        match (known, carrier) {
            (Some(known), Carrier::Connection(connection)) => {
                let known = Some(known.clone());
                if let Some(connection) = self.connections.table.get_mut(connection) {
                    facts.keep_credential(&mut connection.state, known);
                }
            }
            (Some(_), Carrier::Exchange { .. } | Carrier::Remote) => {}
            (None, _) => facts.keep_credential(&mut session.state, previous),
        }
    }
}
