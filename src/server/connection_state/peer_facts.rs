//! What a server keeps of a peer for its handlers: the `clientInfo` of its handshake, the header
//! fields of its WebSocket upgrade, its credential and TLS certificate, and the extensions that the
//! host attaches to its requests.
//!
//! Invariants: a peer of which nothing is kept, or only its session of the parity dialect or short
//! texts, has no allocation; longer texts are stored in one allocation of their size, which is
//! accounted as memory of the peer until the peer is gone.

use std::mem::take;
use std::sync::Arc;

use corelane_base::heap_bytes;
use corelane_base::heap_bytes::HeapBytes;
use corelane_base::principal::Principal;

use super::ConnectionState;
use crate::connection::PeerAddress;
use crate::guard::auth::certificates::ClientCertificate;
use crate::server::auth::Credential;
use crate::server::extension_slot::ExtensionSlot;
use crate::server::reply_to::ParityKey;
use crate::service::{ClientImplementation, SessionSlot, StoredClientInfo};

/// What is kept of one peer, if anything.
#[derive(Debug, Default)]
pub enum KeptFacts {
    #[default]
    None,
    /// The session of the parity dialect that the connection carries.
    ParitySession(ParityKey),
    /// Texts alone, which most peers have.
    Texts(Texts),
    Stored(Box<StoredFacts>),
}

/// The stored `clientInfo`, then the header fields of the upgrade. Empty if there is neither.
#[derive(Debug)]
pub enum Texts {
    Short { length: u8, bytes: [u8; Self::SHORT_BYTES_MAX] },
    Long(Box<[u8]>),
}

impl Texts {
    /// Length of texts that need no allocation: most clients have a name and a version this short,
    /// and the enumeration is no larger for it.
    const SHORT_BYTES_MAX: usize = 22;

    fn new(texts: Vec<u8>) -> Self {
        let mut bytes = [0; Self::SHORT_BYTES_MAX];
        match (bytes.get_mut(..texts.len()), u8::try_from(texts.len())) {
            (Some(short), Ok(length)) => {
                short.copy_from_slice(&texts);
                Self::Short { length, bytes }
            }
            _ => Self::Long(texts.into()),
        }
    }

    fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Short { length, bytes } => bytes.get(..usize::from(*length)).unwrap_or_default(),
            Self::Long(bytes) => bytes,
        }
    }
}

impl HeapBytes for Texts {
    fn heap_bytes(&self) -> usize {
        match self {
            Self::Short { length: _, bytes: _ } => 0,
            Self::Long(bytes) => bytes.heap_bytes(),
        }
    }
}

impl Default for Texts {
    fn default() -> Self {
        Self::Short { length: 0, bytes: [0; Self::SHORT_BYTES_MAX] }
    }
}

impl KeptFacts {
    /// Returns what is stored in an allocation.
    #[inline]
    fn stored(&self) -> Option<&StoredFacts> {
        match self {
            Self::Stored(facts) => Some(facts),
            Self::None | Self::ParitySession(_) | Self::Texts(_) => None,
        }
    }

    /// Returns what is stored, after an allocation for it if nothing is.
    fn stored_mut(&mut self) -> &mut StoredFacts {
        let facts = match take(self) {
            Self::Stored(facts) => facts,
            Self::Texts(texts) => Box::new(StoredFacts { texts, ..StoredFacts::default() }),
            known => {
                let parity_session = known.parity_session();
                Box::new(StoredFacts { parity_session, ..StoredFacts::default() })
            }
        };
        *self = Self::Stored(facts);
        match self {
            Self::Stored(facts) => facts,
            Self::None | Self::ParitySession(_) | Self::Texts(_) => unreachable!("it is stored"),
        }
    }

    /// Returns the session of the parity dialect that the connection carries.
    #[inline]
    fn parity_session(&self) -> Option<ParityKey> {
        match self {
            Self::None | Self::Texts(_) => None,
            Self::ParitySession(key) => Some(*key),
            Self::Stored(facts) => facts.parity_session,
        }
    }

    /// Returns the `clientInfo` and the header fields of the upgrade.
    fn split_texts(&self) -> (StoredClientInfo<'_>, &[u8]) {
        StoredClientInfo::split_from(match self {
            Self::None | Self::ParitySession(_) => &[],
            Self::Texts(texts) => texts.as_bytes(),
            Self::Stored(facts) => facts.texts.as_bytes(),
        })
    }

    fn set_texts(&mut self, texts: Texts) {
        match self {
            Self::None | Self::Texts(_) => *self = Self::Texts(texts),
            Self::ParitySession(_) | Self::Stored(_) => self.stored_mut().texts = texts,
        }
    }
}

impl HeapBytes for KeptFacts {
    fn heap_bytes(&self) -> usize {
        match self {
            Self::None | Self::ParitySession(_) => 0,
            Self::Texts(texts) => texts.heap_bytes(),
            Self::Stored(facts) => facts.heap_bytes(),
        }
    }
}

/// What is stored of one peer that is more than texts: what tells one caller from another, beside
/// `clientInfo`.
#[derive(Debug, Default)]
pub struct StoredFacts {
    texts: Texts,
    extensions: Option<ExtensionSlot>,
    credential: Option<Credential>,
    certificate: Option<Box<ClientCertificate>>,
    /// The session of the parity dialect that the connection carries.
    parity_session: Option<ParityKey>,
    /// The address of the peer, if that is a trusted proxy, which names the client of each request.
    proxy: Option<PeerAddress>,
    /// What the program keeps for the legacy session.
    session_slot: Option<SessionSlot>,
}

heap_bytes!(
    StoredFacts { texts, credential, certificate }
    // The extensions are the host's, and so is what it keeps for a session.
    inline { extensions, parity_session, proxy, session_slot }
);

impl ConnectionState {
    /// Returns the `clientInfo` of the handshake.
    pub fn client_info(&self) -> StoredClientInfo<'_> {
        self.facts.split_texts().0
    }

    /// Returns the header fields of the WebSocket upgrade, behind an empty line. Empty for other
    /// transports.
    pub fn upgrade_fields(&self) -> &[u8] {
        self.facts.split_texts().1
    }

    /// Returns the slot of the extensions of its requests, if the host can attach any.
    #[inline]
    pub fn extension_slot(&self) -> Option<&ExtensionSlot> {
        self.facts.stored()?.extensions.as_ref()
    }

    /// Returns the principal that the host has attached to the current request, as an extension.
    fn attached_principal(&self) -> Option<Arc<Principal>> {
        self.extension_slot()?.principal()
    }

    /// Returns the credential of the last request over HTTP, or that of the connection or session.
    #[inline]
    pub fn credential(&self) -> Option<&Credential> {
        self.facts.stored()?.credential.as_ref()
    }

    /// Returns the principal of the credential.
    #[inline]
    pub fn principal(&self) -> Option<&Arc<Principal>> {
        self.credential().map(Credential::principal)
    }

    /// Returns the certificate of the TLS client.
    #[inline]
    pub fn certificate(&self) -> Option<&ClientCertificate> {
        self.facts.stored()?.certificate.as_deref()
    }

    /// Returns the session of the parity dialect that the connection carries.
    #[inline]
    pub fn parity_session(&self) -> Option<ParityKey> {
        self.facts.parity_session()
    }

    /// Returns the address of the peer, if that is a trusted proxy, which names the client of each
    /// request.
    #[inline]
    pub fn proxy(&self) -> Option<PeerAddress> {
        self.facts.stored()?.proxy
    }

    /// Returns what the program keeps for the legacy session.
    #[inline]
    pub fn session_slot(&self) -> Option<&SessionSlot> {
        self.facts.stored()?.session_slot.as_ref()
    }

    /// Returns the bytes of what is kept of the peer.
    pub fn facts_bytes(&self) -> usize {
        self.heap_bytes()
    }
}

/// The account of what a shard keeps of its peers, and the only way to change that.
#[derive(Debug, Default)]
pub struct FactsMemory {
    held_bytes: usize,
    /// Legacy sessions have a value of the program.
    keeps_session_slots: bool,
}

impl FactsMemory {
    /// Returns the account of a shard without peers. `keeps_session_slots` is whether the program
    /// keeps a value for each legacy session.
    pub fn new(keeps_session_slots: bool) -> Self {
        Self { held_bytes: 0, keeps_session_slots }
    }

    /// Returns the bytes of what is kept of all peers.
    #[inline]
    pub const fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Keeps the `clientInfo` of a handshake.
    pub fn keep_client_info(
        &mut self,
        state: &mut ConnectionState,
        client: ClientImplementation<'_>,
    ) {
        self.change(state, |facts| {
            let (_, upgrade_fields) = facts.split_texts();
            let length = StoredClientInfo::bytes_of(client) + upgrade_fields.len();
            let mut texts = Vec::with_capacity(length);
            StoredClientInfo::write(client, &mut texts);
            texts.extend_from_slice(upgrade_fields);
            facts.set_texts(Texts::new(texts));
        });
    }

    /// Keeps header fields of a WebSocket upgrade: lines without their ends.
    pub fn keep_upgrade_fields<'l>(
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
            facts.set_texts(Texts::new(texts));
        });
    }

    /// Lets handlers read the extensions that the host attaches to the requests of a connection.
    pub fn keep_extensions(&mut self, state: &mut ConnectionState, extensions: ExtensionSlot) {
        self.change_caller(state, |caller| caller.extensions = Some(extensions));
    }

    /// Lets the program keep a value for the legacy session, if it keeps any.
    pub fn keep_session_slot(&mut self, state: &mut ConnectionState) {
        if !self.keeps_session_slots {
            return;
        }
        self.change_caller(state, |caller| {
            caller.session_slot.get_or_insert_default();
        });
    }

    /// Keeps the credential of a connection or session, in place of the one before.
    pub fn keep_credential(&mut self, state: &mut ConnectionState, credential: Option<Credential>) {
        if credential.is_some() || state.credential().is_some() {
            self.change_caller(state, |caller| caller.credential = credential);
        }
    }

    /// Makes the principal that the host has attached to the current request the caller of the
    /// connection, with what `complete` adds to it. Returns whether there is one.
    pub fn keep_attached_principal(
        &mut self,
        state: &mut ConnectionState,
        complete: impl FnOnce(Arc<Principal>) -> Arc<Principal>,
    ) -> bool {
        let Some(principal) = state.attached_principal() else { return false };
        let principal = complete(principal);
        let known = state.principal();
        if !known.is_some_and(|known| Arc::ptr_eq(known, &principal)) {
            self.keep_credential(state, Some(Credential::of_session(&principal)));
        }
        true
    }

    /// Keeps the certificate of the client of a connection.
    pub fn keep_certificate(
        &mut self,
        state: &mut ConnectionState,
        certificate: ClientCertificate,
    ) {
        let certificate = Some(Box::new(certificate));
        self.change_caller(state, |caller| caller.certificate = certificate);
    }

    /// Keeps the address of the trusted proxy that a connection is of. `None` if it is of the
    /// client of its last request from now on.
    pub fn keep_proxy(&mut self, state: &mut ConnectionState, proxy: Option<PeerAddress>) {
        if proxy.is_some() || state.proxy().is_some() {
            self.change_caller(state, |caller| caller.proxy = proxy);
        }
    }

    /// Keeps the session of the parity dialect that a connection carries.
    pub fn keep_parity_session(&mut self, state: &mut ConnectionState, session: Option<ParityKey>) {
        match (&state.facts, session) {
            (KeptFacts::None | KeptFacts::ParitySession(_), _) => {
                state.facts = session.map_or(KeptFacts::None, KeptFacts::ParitySession);
            }
            (KeptFacts::Texts(_), None) => {}
            (KeptFacts::Texts(_) | KeptFacts::Stored(_), _) => {
                self.change_caller(state, |caller| caller.parity_session = session);
            }
        }
    }

    /// Keeps for a session of the parity dialect what identifies the caller of its connection.
    pub fn copy_identity(&mut self, from: &ConnectionState, to: &mut ConnectionState) {
        let Some(known) = from.facts.stored() else { return };
        self.change_caller(to, |caller| {
            caller.extensions.clone_from(&known.extensions);
            caller.credential.clone_from(&known.credential);
            caller.certificate.clone_from(&known.certificate);
        });
    }

    /// Drops what is kept of a peer that is gone.
    pub fn release(&mut self, state: &mut ConnectionState) {
        self.held_bytes -= state.facts_bytes();
        state.facts = KeptFacts::None;
    }

    fn change_caller(
        &mut self,
        state: &mut ConnectionState,
        change: impl FnOnce(&mut StoredFacts),
    ) {
        self.change(state, |facts| change(facts.stored_mut()));
    }

    fn change(&mut self, state: &mut ConnectionState, change: impl FnOnce(&mut KeptFacts)) {
        let before = state.facts_bytes();
        change(&mut state.facts);
        self.held_bytes = self.held_bytes - before + state.facts_bytes();
    }
}

#[cfg(test)]
mod tests {
    use corelane_base::slab::Slab;

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
        let structs = 16 + size_of::<StoredFacts>();
        assert_eq!(memory.held_bytes(), structs + 16 + (3 + 3 + 3) + 22);
        let credential = Credential::of_session(&Arc::new(Principal::new("ada")));
        memory.keep_credential(&mut state, Some(credential));
        assert_eq!(state.principal().unwrap().id(), "ada");
        assert!(memory.held_bytes() > structs + size_of::<Principal>());
        let mut slab = Slab::new(1);
        let key = ParityKey(slab.insert(()).unwrap());
        memory.keep_parity_session(&mut state, Some(key));
        assert_eq!((state.parity_session(), state.principal().is_some()), (Some(key), true));
        memory.release(&mut state);
        assert_eq!((memory.held_bytes(), state.facts_bytes()), (0, 0));
    }

    /// Each connection and each session of HTTP has one.
    #[test]
    fn kept_facts_stay_small() {
        assert_eq!(size_of::<KeptFacts>(), 24);
        assert_eq!(size_of::<Texts>(), 24);
    }

    #[test]
    fn short_client_info_is_not_allocated() {
        let mut state = ConnectionState::new(Transport::Tcp, None, Standing::Served);
        let mut memory = FactsMemory::default();
        for (name, allocated) in
            [("Ada", 0), ("sixteen-byte-nam", 0), ("seventeen-byte-na", 16 + 23)]
        {
            let client = ClientImplementation::new(name, "1.0", None);
            memory.keep_client_info(&mut state, client);
            assert_eq!(state.client_info().implementation(), Some(client));
            assert_eq!(memory.held_bytes(), allocated);
        }
        memory.keep_parity_session(&mut state, None);
        assert_eq!(state.client_info().implementation().unwrap().name, "seventeen-byte-na");
        memory.release(&mut state);
        assert_eq!((memory.held_bytes(), state.client_info().implementation()), (0, None));
    }

    #[test]
    fn parity_session_alone_is_not_allocated() {
        let key = ParityKey(Slab::new(1).insert(()).unwrap());
        let mut state = ConnectionState::new(Transport::Tcp, None, Standing::Served);
        let mut memory = FactsMemory::default();
        memory.keep_parity_session(&mut state, Some(key));
        assert_eq!((state.parity_session(), memory.held_bytes()), (Some(key), 0));
        memory.keep_client_info(&mut state, ClientImplementation::new("Ada", "1.0", None));
        assert_eq!(state.parity_session(), Some(key));
        memory.keep_parity_session(&mut state, None);
        assert_eq!(state.parity_session(), None);
    }
}
