//! The parity dialect on a shard: sessions, and the way of their messages to the dispatcher.
//!
//! ```text
//! envelope ─▶ session (state machine) ─▶ dispatcher ─▶ OutgoingMessage ─▶ envelope, chunks
//! ```
//!
//! A session is a peer of its own: its calls refer to it, and not to the connection that carries
//! it. The dispatcher serves it as a client of MCP 2025-11-25; the session writes its own envelope
//! around the parts of what the dispatcher answers.
//!
//! A session stays on the shard that it began on. A connection of another shard that resumes it has
//! a front there, which relays its messages.
//!
//! Invariants: at most one connection carries a session, and a connection carries at most one; a
//! session without connection lives as long as its streams can be resumed, and no longer; the
//! number of sessions and the bytes that they keep are bounded ([`holders`]).

mod resume_tokens;

mod carrier;

mod session;

mod flow;

mod output;

mod resume;

mod requests;

mod tokens;

mod handshake_limits;

mod holders;

mod input;

mod forwarded;

mod expiry;

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::rc::Rc;
use std::time::Duration;

use corelane_base::client_address::{AddressShare, ClientAddress};
use corelane_base::heap_bytes::map_bytes;
use corelane_base::principal::Principal;
use corelane_base::slab::{Key, Slab};
use corelane_base::time::Instant;
use corelane_engine::timer::TimerWheel;
use corelane_parity::capabilities::{Capabilities, Feature, ResumeWindow};
use corelane_parity::idempotency::KeyRules;
use corelane_parity::server_session::SessionSettings;
use corelane_parity::stream::OutgoingStream;
use corelane_parity::timers::SessionTimeouts;
use corelane_protocol::in_flight::RequestsInFlight;

use self::carrier::SessionCarrier;
use self::flow::{FlowControl, PausedStream, is_drained, load_of};
use self::holders::SessionHolders;
pub(super) use self::output::ParityPath;
pub(super) use self::resume_tokens::ResumeTokens;
use self::session::ParitySession;
use super::calls::{CallTable, HandlerWork};
use super::connection_state::ConnectionState;
use super::memory::Holder;
use super::options::{CapabilitiesTimeoutPolicy, Options};
use super::outbox::Outbox;
use super::owner_id::{OwnerIds, SessionId, SessionIdHasher};
use super::reply_to::ParityKey;
use super::shard_message::{CarrierAddress, FrontAddress, SessionMessage};
use crate::connection::Connections;
use crate::guard::secure_rng::{Purpose, SecureRng};
use crate::guard::state_cipher::KEY_BYTES;
use crate::telemetry::label::Transport;

/// The parity dialect of one shard.
#[derive(Debug)]
pub(super) struct ParitySessions {
    pub settings: ParitySettings,
    sessions: Slab<Box<ParitySession>>,
    holders: SessionHolders,
    keys: HashMap<SessionId, ParityKey, BuildHasherDefault<SessionIdHasher>>,
    timers: TimerWheel<ParityKey>,
    /// The connections whose first message has begun, with the end of the time of a handshake; in
    /// order.
    begun: VecDeque<(Instant, Key)>,
    ids: OwnerIds,
    tokens: ResumeTokens,
    pub flow: FlowControl,
    /// Buffer of chunks, for reuse.
    scratch: Vec<u8>,
    /// Buffer of responses that are written at once, for reuse.
    response: Vec<u8>,
    /// Bytes of all sessions with their chunks and idempotency keys.
    held_bytes: usize,
    /// Whether the present HTTP request has its response, or will have it.
    is_answered: bool,
}

impl ParitySessions {
    pub fn new(settings: &ParitySettings, ids: OwnerIds, tokens: ResumeTokens) -> Self {
        Self {
            settings: *settings,
            // Each connection may have one whose handshake is not accepted yet.
            sessions: Slab::new(settings.sessions_max.saturating_mul(2)),
            holders: SessionHolders::default(),
            keys: HashMap::default(),
            timers: TimerWheel::new(),
            begun: VecDeque::new(),
            ids,
            tokens,
            flow: FlowControl::default(),
            scratch: Vec::new(),
            response: Vec::new(),
            held_bytes: 0,
            is_answered: false,
        }
    }

    /// Takes the empty buffer of a response.
    fn take_response_buffer(&mut self) -> Vec<u8> {
        self.response.clear();
        std::mem::take(&mut self.response)
    }

    /// Returns the number of sessions.
    pub const fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Returns the bytes of all sessions with their chunks and idempotency keys.
    pub const fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Returns the address of each session that has a place; `None` for exempt ones.
    pub fn clients(&self) -> impl Iterator<Item = Option<ClientAddress>> {
        let placed = self.sessions.iter().filter(|(_, session)| session.place.is_some());
        placed.map(|(_, session)| session.state.client)
    }

    /// Returns the bytes of all sessions with their chunks and idempotency keys, and of what is
    /// kept of their peers, as recounted from what is stored.
    pub fn recount_bytes(&self) -> (usize, usize) {
        self.sessions.iter().fold((0, 0), |(chunks, facts), (_, session)| {
            (chunks + session.held_bytes(), facts + session.state.facts_bytes())
        })
    }

    /// Returns the bytes of the tables and of the buffers for reuse, without the sessions.
    pub fn place_bytes(&self) -> usize {
        let begun = self.begun.capacity() * size_of::<(Instant, Key)>();
        let buffers = self.scratch.capacity() + self.response.capacity();
        let sessions = self.sessions.allocated_bytes() + map_bytes(&self.keys);
        let tables = sessions + self.timers.allocated_bytes() + begun;
        let in_flight = self.sessions.iter().map(|(_, session)| session.state.place_bytes());
        tables + buffers + self.holders.held_bytes() + in_flight.sum::<usize>()
    }

    /// Accounts the chunks and idempotency keys that a session keeps.
    fn account(&mut self, key: ParityKey) {
        if let Some(session) = self.sessions.get_mut(key.0) {
            let bytes = session.held_bytes();
            self.held_bytes = self.held_bytes - session.accounted_bytes + bytes;
            session.accounted_bytes = bytes;
        }
    }

    /// Returns whether an HTTP request, or a connection of another shard, waits for the response of
    /// a session. Cost: a pass over all sessions.
    pub fn owes_responses(&self) -> bool {
        self.session_keys().any(|key| self.owes_response(key))
    }

    /// Returns whether an HTTP request, or a connection of another shard, waits for the response of
    /// a session.
    fn owes_response(&self, key: ParityKey) -> bool {
        self.sessions.get(key.0).is_some_and(|session| {
            let has_exchange = session.carrier.http().is_some_and(|it| !it.exchanges.is_empty());
            has_exchange || session.carrier.remote().is_some() && session.pending_responses() > 0
        })
    }

    /// Returns the sessions that wait for their client, with what their end frees. Cost: a pass
    /// over all sessions.
    pub fn detached_holders(&self) -> impl Iterator<Item = Holder<ParityKey>> {
        let detached = self.sessions.iter().filter(|(_, session)| session.is_detached());
        detached.map(|(key, session)| Holder {
            key: ParityKey(key),
            client: session.state.client,
            bytes: session.freeable_bytes(),
        })
    }

    /// Returns the keys of all sessions.
    pub fn session_keys(&self) -> impl Iterator<Item = ParityKey> {
        self.sessions.iter().map(|(key, _)| ParityKey(key))
    }

    pub fn get_mut(&mut self, key: ParityKey) -> Option<&mut ParitySession> {
        self.sessions.get_mut(key.0).map(|session| &mut **session)
    }

    /// Returns whether the client of a connection is authenticated: by its credential, or by that
    /// of its session.
    pub fn is_authenticated(&self, state: &ConnectionState) -> bool {
        let session = state.parity_session().and_then(|session| self.get(session));
        state.principal().is_some()
            || session.is_some_and(|session| session.state.principal().is_some())
    }

    pub fn get(&self, key: ParityKey) -> Option<&ParitySession> {
        self.sessions.get(key.0).map(|session| &**session)
    }

    /// Returns the connection that carries a session.
    pub fn connection_of(&self, key: ParityKey) -> Option<Key> {
        self.sessions.get(key.0)?.carrier.connection()
    }

    /// Returns the requests of a session in flight.
    pub fn in_flight(&self, key: ParityKey) -> Option<&RequestsInFlight> {
        self.sessions.get(key.0).map(|session| &session.state.in_flight)
    }

    /// Returns the session that a resume token of this caller is for.
    pub fn session_of_token(
        &self,
        token: &str,
        principal: Option<&Principal>,
    ) -> Option<SessionId> {
        let identity = principal.map(Principal::identity).unwrap_or_default();
        Some(self.tokens.open(token, &identity).ok()?.session)
    }

    /// Sends texts over the connection of another shard that carries a session, if one does, and
    /// whether a message of the client is handled with that.
    fn send_remote(
        &mut self,
        key: ParityKey,
        texts: Vec<Vec<u8>>,
        is_handled: bool,
        outbox: &mut Outbox,
    ) {
        let Some(session) = self.get_mut(key) else { return };
        let pending = session.pending_work.pending_responses;
        if let Some(remote) = session.carrier.remote_mut() {
            remote.relay(texts, is_handled, pending, outbox);
        }
    }

    /// Records that output of a session is sent.
    pub fn confirm_sent(&mut self, session: SessionId, carrier: CarrierAddress, bytes: usize) {
        let session = self.find(session).and_then(|key| self.get_mut(key));
        let Some(session) = session else { return };
        match (carrier, &mut session.carrier) {
            (CarrierAddress::Exchange(exchange), SessionCarrier::Http(http)) => {
                http.confirm_sent(exchange, bytes);
            }
            (CarrierAddress::Front(front), SessionCarrier::Remote(remote))
                if remote.front == front =>
            {
                remote.unsent_bytes = remote.unsent_bytes.saturating_sub(bytes);
            }
            _ => {}
        }
    }

    /// Returns the session with this id.
    fn find(&self, id: SessionId) -> Option<ParityKey> {
        self.keys.get(&id).copied()
    }

    /// Begins a session, which has no place before its handshake is accepted. Returns `None` at the
    /// limit of such sessions, or without random numbers.
    fn create(&mut self, transport: Transport, now: Instant) -> Option<ParityKey> {
        let id = self.ids.session_id()?;
        let session = ParitySession::new(id, transport, &self.settings.session, now);
        let key = ParityKey(self.sessions.insert(Box::new(session)).ok()?);
        self.keys.insert(id, key);
        self.account(key);
        self.set_timer(key);
        Some(key)
    }

    /// Removes a session. Its owner cancels its calls before.
    fn remove(&mut self, key: ParityKey) -> Option<Box<ParitySession>> {
        let session = self.sessions.remove(key.0)?;
        self.keys.remove(&session.id);
        if let Some(place) = session.place {
            self.holders.remove(place);
        }
        self.held_bytes -= session.accounted_bytes;
        Some(session)
    }

    /// Sets a timer for the next deadline of a session, unless an earlier one is set.
    fn set_timer(&mut self, key: ParityKey) {
        let Self { settings, sessions, timers, .. } = self;
        let Some(session) = sessions.get_mut(key.0) else { return };
        let of_session = settings.of(session.carrier.http().is_some());
        let Some(deadline) = session.next_deadline(of_session) else { return };
        if session.timer.is_none_or(|set| deadline < set) {
            session.timer = Some(deadline);
            timers.purge_stale(sessions.len(), |key| sessions.get(key.0).is_some());
            timers.insert(deadline, key);
        }
    }

    /// Takes a session whose timer has expired. Set its next one with
    /// [`ParitySessions::set_timer`].
    fn pop_expired(&mut self, now: Instant) -> Option<ParityKey> {
        loop {
            let key = self.timers.pop_expired(now)?;
            let Some(session) = self.sessions.get_mut(key.0) else { continue };
            // A later timer than the one that is recorded stays behind it.
            if session.timer.is_some_and(|set| set <= now) {
                session.timer = None;
                return Some(key);
            }
        }
    }

    /// Returns the next deadline of all sessions.
    pub fn next_deadline(&self) -> Option<Instant> {
        let first_message = self.begun.front().map(|(deadline, _)| *deadline);
        Instant::earliest([self.timers.next_deadline(), first_message])
    }

    /// Pauses a stream of a session and its handler, if that is a future, until what carries the
    /// session has room.
    pub fn pause_stream(&mut self, session: ParityKey, number: u32, calls: &mut CallTable) {
        let Some(of_key) = self.get_mut(session) else { return };
        let stream = of_key.protocol.streams.get_mut(number);
        if !stream.is_some_and(OutgoingStream::pause_production) {
            return;
        }
        let token = of_key.state.in_flight.calls().find_map(|call_id| {
            let call = calls.find_awaited(call_id).filter(|call| call.reply_to.stream == number)?;
            match &call.work {
                HandlerWork::Local { token, .. } => Some(Rc::clone(token)),
                HandlerWork::Blocking { .. } | HandlerWork::Remote(_) => None,
            }
        });
        if let Some(token) = &token {
            token.pause();
        }
        self.flow.add_paused(PausedStream { session, number, token });
    }

    /// Continues the streams whose carriers have room, and reports what is sent to other shards.
    pub fn end_turn(
        &mut self,
        connections: &Connections<ConnectionState>,
        shards: u16,
        outbox: &mut Outbox,
    ) {
        let (mut paused, mut due) = self.flow.take();
        paused.retain(|paused| !self.continues(paused, connections));
        due.retain(|due| match *due {
            CarrierAddress::Front(front) => !self.report_front(front, connections, outbox),
            CarrierAddress::Exchange(exchange) => {
                !self.flow.report_exchange(exchange, connections, shards, outbox)
            }
        });
        self.flow.restore(paused, due);
    }

    /// Continues a stream if what carries its session has room. Returns whether it continues, or is
    /// gone.
    fn continues(
        &mut self,
        paused: &PausedStream,
        connections: &Connections<ConnectionState>,
    ) -> bool {
        let settings = self.settings.session;
        if let Some(session) = self.get_mut(paused.session) {
            if !load_of(session, paused.number, connections, &settings).is_low() {
                return false;
            }
            if let Some(stream) = session.protocol.streams.get_mut(paused.number) {
                stream.resume_production();
            }
        }
        if let Some(token) = &paused.token {
            token.resume();
        }
        true
    }

    /// Reports the output of a front if it is sent. Returns whether nothing is left to report.
    fn report_front(
        &mut self,
        address: FrontAddress,
        connections: &Connections<ConnectionState>,
        outbox: &mut Outbox,
    ) -> bool {
        let session = self.get_mut(address.key);
        let Some(front) = session.and_then(|it| it.carrier.front_mut()) else { return true };
        let connection = connections.table.get(front.connection);
        if connection.is_some_and(|it| !is_drained(it, connections)) {
            return false;
        }
        let (session, bytes) = (front.session, std::mem::take(&mut front.unreported_bytes));
        let carrier = CarrierAddress::Front(address);
        outbox.forward(front.owner, SessionMessage::Sent { session, carrier, bytes });
        true
    }
}

/// The settings of one shard.
#[derive(Clone, Copy, Debug)]
pub(super) struct ParitySettings {
    /// What every session is granted.
    pub session: SessionSettings,
    /// What a session over HTTP is granted: the same, with the keepalives of event streams.
    pub http_session: SessionSettings,
    /// Sessions of the shard.
    pub sessions_max: usize,
    /// What one caller may take of them.
    pub address_share: AddressShare,
}

impl ParitySettings {
    /// Returns what a session is granted.
    const fn of(&self, is_http: bool) -> &SessionSettings {
        if is_http { &self.http_session } else { &self.session }
    }

    /// Returns the number of events that a session knows to have sent.
    fn events_max(&self) -> usize {
        self.session.capabilities.resume_window.map_or(0, |window| window.chunks as usize)
    }

    /// The settings of one of `shards` shards that has at most `connections_max` connections.
    /// `secret` is that of all shards.
    pub fn new(options: &Options, connections_max: usize, secret: &[u8; KEY_BYTES]) -> Self {
        let parity = &options.parity;
        let mut capabilities = Capabilities::of(Feature::ALL);
        capabilities.max_concurrent = Some(parity.concurrent_max);
        let payload_bytes_max = match parity.payload_bytes_max {
            0 => options.limits.message_bytes_max,
            most => most.min(options.limits.message_bytes_max),
        };
        capabilities.max_payload_bytes = Some(payload_bytes_max as u64);
        let seconds = |duration: Duration| u32::try_from(duration.as_secs()).unwrap_or(u32::MAX);
        capabilities.resume_window = Some(ResumeWindow {
            chunks: parity.resume_window_chunks,
            seconds: seconds(parity.resume_window),
        });
        let policy = parity.timeouts.capabilities_policy;
        let session = SessionSettings {
            capabilities,
            timeouts: SessionTimeouts {
                handshake: parity.timeouts.handshake,
                capabilities: parity.timeouts.capabilities,
                continues_without_capabilities: policy == CapabilitiesTimeoutPolicy::Continue,
                keepalive: parity.timeouts.keepalive,
                hint: parity.timeouts.idle,
                // The same over HTTP, whose event streams have keepalives of their own.
                idle: parity.timeouts.keepalive.saturating_add(parity.timeouts.idle),
            },
            streams_max: parity.streams_max as usize,
            window_bytes_max: parity.resume_window_bytes,
            keys: KeyRules {
                keys_max: parity.idempotency_keys_max as usize,
                secret: hash_secret(secret),
            },
        };
        let timeouts =
            SessionTimeouts { keepalive: parity.timeouts.sse_keepalive, ..session.timeouts };
        let http_session = SessionSettings { timeouts, ..session };
        // Each connection carries one; as many may wait for a new connection.
        let sessions_max = connections_max.saturating_mul(2);
        let address_share = AddressShare::new(options.limits.address_share_percent)
            .with_reserve(options.auth.is_enabled());
        Self { session, http_session, sessions_max, address_share }
    }
}

/// Returns the secret of the hashes of idempotency keys.
fn hash_secret(secret: &[u8; KEY_BYTES]) -> [u8; 16] {
    let mut random = SecureRng::new(secret, Purpose::IdempotencyKeys);
    random.next_u128().unwrap_or_default().to_le_bytes()
}
