//! What a server keeps of a peer for its handlers: the `clientInfo` of its handshake, the header
//! fields of its WebSocket upgrade, its credential and TLS certificate, and the extensions that the
//! host attaches to its requests.
//!
//! Invariants: a peer of which nothing is kept has one pointer; texts are stored in one allocation
//! of their size, which is accounted as memory of the peer until the peer is gone.

use std::sync::Arc;

use super::ConnectionState;
use crate::base::principal::Principal;
use crate::base::slab::Key;
use crate::guard::auth::certificates::ClientCertificate;
use crate::server::auth::Credential;
use crate::server::extension_slot::ExtensionSlot;
use crate::service::{ClientImplementation, StoredClientInfo};

/// What is kept of one peer.
#[derive(Debug, Default)]
pub(in crate::server) struct PeerFacts {
    /// The stored `clientInfo`, then the header fields of the upgrade. Empty if there is neither.
    texts: Box<[u8]>,
    extensions: Option<ExtensionSlot>,
    credential: Option<Credential>,
    certificate: Option<Box<ClientCertificate>>,
    /// The session of the parity dialect that the connection carries.
    parity_session: Option<Key>,
    /// The first message must be a handshake of the parity dialect, and has not come.
    requires_handshake: bool,
}

impl PeerFacts {
    fn split_texts(&self) -> (StoredClientInfo<'_>, &[u8]) {
        StoredClientInfo::split_from(&self.texts)
    }

    fn credential_bytes(&self) -> usize {
        self.credential.as_ref().map_or(0, Credential::held_bytes)
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.texts.len()
            + self.credential_bytes()
            + self.certificate.as_ref().map_or(0, |it| size_of_val(&**it) + it.name.len())
    }
}

impl ConnectionState {
    /// Returns the `clientInfo` of the handshake.
    pub(in crate::server) fn client_info(&self) -> StoredClientInfo<'_> {
        self.facts.as_ref().map_or(StoredClientInfo::NONE, |facts| facts.split_texts().0)
    }

    /// Returns the header fields of the WebSocket upgrade, behind an empty line. Empty for other
    /// transports.
    pub(in crate::server) fn upgrade_fields(&self) -> &[u8] {
        self.facts.as_ref().map_or(&[], |facts| facts.split_texts().1)
    }

    /// Returns the slot of the extensions of its requests, if the host can attach any.
    #[inline]
    pub(in crate::server) fn extension_slot(&self) -> Option<&ExtensionSlot> {
        self.facts.as_ref()?.extensions.as_ref()
    }

    /// Returns the principal that the host has attached to the current request, as an extension.
    pub(in crate::server) fn attached_principal(&self) -> Option<Arc<Principal>> {
        let extensions = self.extension_slot()?.get()?;
        extensions.get::<Principal>().cloned().map(Arc::new)
    }

    /// Returns the credential of the last request over HTTP, or that of the connection or session.
    #[inline]
    pub(in crate::server) fn credential(&self) -> Option<&Credential> {
        self.facts.as_ref()?.credential.as_ref()
    }

    /// Returns the principal of the credential.
    #[inline]
    pub(in crate::server) fn principal(&self) -> Option<&Arc<Principal>> {
        self.credential().map(Credential::principal)
    }

    /// Returns the certificate of the TLS client.
    #[inline]
    pub(in crate::server) fn certificate(&self) -> Option<&ClientCertificate> {
        self.facts.as_ref()?.certificate.as_deref()
    }

    /// Returns the session of the parity dialect that the connection carries.
    #[inline]
    pub(in crate::server) fn parity_session(&self) -> Option<Key> {
        self.facts.as_ref()?.parity_session
    }

    /// Returns whether the connection closes unless its next message is a handshake of the parity
    /// dialect.
    pub(in crate::server) fn requires_handshake(&self) -> bool {
        self.facts.as_ref().is_some_and(|facts| facts.requires_handshake)
    }

    /// Returns the bytes of what is kept of the peer.
    pub(in crate::server) fn facts_bytes(&self) -> usize {
        self.facts.as_ref().map_or(0, |facts| facts.bytes())
    }
}

/// The account of what a shard keeps of its peers, and the only way to change that.
#[derive(Debug, Default)]
pub(in crate::server) struct FactsMemory {
    held_bytes: usize,
}

impl FactsMemory {
    /// Returns the bytes of what is kept of all peers.
    #[inline]
    pub(in crate::server) const fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Keeps the `clientInfo` of a handshake.
    pub(in crate::server) fn keep_client_info(
        &mut self,
        state: &mut ConnectionState,
        client: ClientImplementation<'_>,
    ) {
        self.change(state, |facts| {
            let mut texts =
                Vec::with_capacity(StoredClientInfo::bytes_of(client) + facts.texts.len());
            StoredClientInfo::write(client, &mut texts);
            texts.extend_from_slice(facts.split_texts().1);
            facts.texts = texts.into();
        });
    }

    /// Keeps header fields of a WebSocket upgrade: lines without their ends.
    pub(in crate::server) fn keep_upgrade_fields<'l>(
        &mut self,
        state: &mut ConnectionState,
        lines: impl Iterator<Item = &'l [u8]> + Clone,
    ) {
        self.change(state, |facts| {
            let client_info = facts.split_texts().0.as_bytes();
            let length = lines.clone().map(|line| 1 + line.len()).sum::<usize>();
            let mut texts = Vec::with_capacity(client_info.len() + length);
            texts.extend_from_slice(client_info);
            for line in lines {
                texts.push(b'\n');
                texts.extend_from_slice(line);
            }
            facts.texts = texts.into();
        });
    }

    /// Lets handlers read the extensions that the host attaches to the requests of a connection.
    pub(in crate::server) fn keep_extensions(
        &mut self,
        state: &mut ConnectionState,
        extensions: ExtensionSlot,
    ) {
        self.change(state, |facts| facts.extensions = Some(extensions));
    }

    /// Keeps the credential of a connection or session, in place of the one before.
    pub(in crate::server) fn keep_credential(
        &mut self,
        state: &mut ConnectionState,
        credential: Option<Credential>,
    ) {
        if credential.is_some() || state.credential().is_some() {
            self.change(state, |facts| facts.credential = credential);
        }
    }

    /// Keeps the certificate of the client of a connection.
    pub(in crate::server) fn keep_certificate(
        &mut self,
        state: &mut ConnectionState,
        certificate: ClientCertificate,
    ) {
        self.change(state, |facts| facts.certificate = Some(Box::new(certificate)));
    }

    /// Keeps the session of the parity dialect that a connection carries, and whether the handshake
    /// must come next.
    pub(in crate::server) fn keep_parity_session(
        &mut self,
        state: &mut ConnectionState,
        session: Option<Key>,
        requires_handshake: bool,
    ) {
        self.change(state, |facts| {
            facts.parity_session = session;
            facts.requires_handshake = requires_handshake;
        });
    }

    /// Keeps for a session of the parity dialect what identifies the caller of its connection.
    pub(in crate::server) fn copy_identity(
        &mut self,
        from: &ConnectionState,
        to: &mut ConnectionState,
    ) {
        let Some(known) = &from.facts else { return };
        self.change(to, |facts| {
            facts.extensions.clone_from(&known.extensions);
            facts.credential.clone_from(&known.credential);
            facts.certificate.clone_from(&known.certificate);
        });
    }

    /// Drops what is kept of a peer that is gone.
    pub(in crate::server) fn release(&mut self, state: &mut ConnectionState) {
        self.held_bytes -= state.facts_bytes();
        state.facts = None;
    }

    fn change(&mut self, state: &mut ConnectionState, change: impl FnOnce(&mut PeerFacts)) {
        let before = state.facts_bytes();
        change(state.facts.get_or_insert_default());
        self.held_bytes = self.held_bytes - before + state.facts_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::connection_state::Standing;
    use crate::telemetry::label::Transport;

    #[test]
    fn facts_of_a_peer_are_accounted() {
        let mut state = ConnectionState::new(Transport::WebSocket, None, Standing::Served);
        let mut memory = FactsMemory::default();
        assert_eq!((state.client_info().implementation(), state.upgrade_fields()), (None, &[][..]));
        let lines = [&b"Host: a.test"[..], b"X-Key: 1"];
        memory.keep_upgrade_fields(&mut state, lines.into_iter());
        memory.keep_extensions(&mut state, ExtensionSlot::default());
        let client = ClientImplementation::new("Ada", "1.0", None);
        memory.keep_client_info(&mut state, client);
        assert_eq!(state.client_info().implementation(), Some(client));
        assert_eq!(state.upgrade_fields(), b"\nHost: a.test\nX-Key: 1");
        assert!(state.extension_slot().is_some());
        assert_eq!(memory.held_bytes(), size_of::<PeerFacts>() + (3 + 3 + 3) + 22);
        let credential = Credential::of_session(&Arc::new(Principal::new("ada")));
        memory.keep_credential(&mut state, Some(credential));
        assert_eq!(state.principal().unwrap().id(), "ada");
        assert!(memory.held_bytes() > size_of::<PeerFacts>() + size_of::<Principal>());
        memory.release(&mut state);
        assert_eq!((memory.held_bytes(), state.facts_bytes()), (0, 0));
    }
}
