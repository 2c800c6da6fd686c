//! One session of the parity dialect, as a shard holds it.

mod chunk_counts;
mod in_flight;

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

pub(super) use self::chunk_counts::count_chunk;
pub(super) use self::in_flight::is_stream;
use self::in_flight::{OpenRequest, SessionRequests};
use super::carrier::{Front, Relay, RemoteConnection};
use super::resume_tokens::Generations;
use crate::base::principal::ANONYMOUS_TIER;
use crate::base::slab::Key;
use crate::base::time::Instant;
use crate::connection::PendingWork;
use crate::protocol::eras::Lifecycle;
use crate::protocol::jsonrpc::IdBuf;
use crate::protocol::model::EncodedResponse;
use crate::protocol::parity::capabilities::Feature;
use crate::protocol::parity::error::ParityError;
use crate::protocol::parity::machine::State;
use crate::protocol::parity::server_session::{ServerSession, SessionSettings};
use crate::protocol::revision::Revision;
use crate::server::connection_state::{ConnectionState, Standing};
use crate::server::dispatch::DeferredWork;
use crate::server::owner_id::SessionId;
use crate::server::shard_message::{CHUNK_EVENT, ExchangeAddress, ParityHttpOutput};
use crate::telemetry::counters::ParityCounters;
use crate::telemetry::event::parity::{SentError, SessionFields};
use crate::telemetry::label::Transport;

/// The revision whose params and results the dialect has.
pub(super) const REVISION: Revision = Revision::LATEST_LEGACY;

/// One session.
#[derive(Debug)]
pub(in crate::server) struct ParitySession {
    pub(in crate::server) id: SessionId,
    /// The state as a client of MCP.
    pub(in crate::server) state: ConnectionState,
    pub(in crate::server) pending_work: PendingWork,
    pub(super) protocol: ServerSession,
    /// The connection that carries it.
    pub(super) connection: Option<Key>,
    /// What carries it over HTTP, in place of a connection.
    pub(super) http: Option<Box<HttpCarrier>>,
    /// Its part in a relay between two shards.
    pub(super) relay: Option<Box<Relay>>,
    pub(super) requests: SessionRequests,
    pub(super) generations: Generations,
    /// When it ends, unless a client resumes it.
    pub(super) expires_at: Option<Instant>,
    /// The earliest timer that is set for it.
    pub(super) timer: Option<Instant>,
    /// Bytes last accounted for it.
    pub(super) accounted_bytes: usize,
}

impl ParitySession {
    pub(super) fn new(
        id: SessionId,
        transport: Transport,
        settings: &SessionSettings,
        now: Instant,
    ) -> Self {
        let mut state = ConnectionState::new(transport, None, Standing::Rejected);
        state.lifecycle = Lifecycle::initialized(REVISION);
        Self {
            id,
            state,
            pending_work: PendingWork::default(),
            protocol: ServerSession::new(settings, now),
            connection: None,
            http: None,
            relay: None,
            requests: SessionRequests::default(),
            generations: Generations::default(),
            expires_at: None,
            timer: None,
            accounted_bytes: 0,
        }
    }

    /// Returns whether its handshake was accepted, and it has not ended.
    pub(super) const fn has_begun(&self) -> bool {
        !matches!(
            self.protocol.state(),
            State::Disconnected | State::Connecting | State::HandshakeSent | State::Closing
        )
    }

    /// Returns whether it can be resumed on another connection.
    pub(super) const fn is_resumable(&self) -> bool {
        self.protocol.capabilities().has(Feature::Resume)
    }

    /// Returns the requests in flight, streams included.
    pub(super) const fn in_flight(&self) -> usize {
        self.pending_work.pending_responses as usize
    }

    /// Returns the front, if it stands for a session of another shard.
    pub(super) fn front(&self) -> Option<&Front> {
        match self.relay.as_deref()? {
            Relay::Front(front) => Some(front),
            Relay::Remote(_) => None,
        }
    }

    /// Returns the front, if it stands for a session of another shard.
    pub(super) fn front_mut(&mut self) -> Option<&mut Front> {
        match self.relay.as_deref_mut()? {
            Relay::Front(front) => Some(front),
            Relay::Remote(_) => None,
        }
    }

    /// Returns the connection of another shard that carries it.
    pub(super) fn remote(&self) -> Option<&RemoteConnection> {
        match self.relay.as_deref()? {
            Relay::Remote(remote) => Some(remote),
            Relay::Front(_) => None,
        }
    }

    /// Returns the connection of another shard that carries it.
    pub(super) fn remote_mut(&mut self) -> Option<&mut RemoteConnection> {
        match self.relay.as_deref_mut()? {
            Relay::Remote(remote) => Some(remote),
            Relay::Front(_) => None,
        }
    }

    /// Returns the bytes of the chunks that it keeps.
    pub(super) fn held_bytes(&self) -> usize {
        let queued = self.http.as_ref().map_or(0, |http| http.queued_bytes());
        self.protocol.streams.window_bytes() + queued
    }

    /// Returns the next deadline.
    pub(super) fn next_deadline(&self, settings: &SessionSettings) -> Option<Instant> {
        self.expires_at.or_else(|| self.protocol.next_deadline(settings))
    }

    /// Ends a request: its idempotency key, its latency and its log line.
    pub(super) fn end_request(
        &mut self,
        number: u32,
        end: &RequestEnd<'_>,
        counters: &mut ParityCounters,
    ) {
        let Some(request) = self.requests.take(number) else {
            return counters.latency.record(end.took);
        };
        let OpenRequest { begun, keyed, record, .. } = request;
        let latency = end.now.since(begun).max(end.took);
        counters.latency.record(latency);
        if let Some(keyed) = keyed {
            let keys = &mut self.protocol.keys;
            match end.outcome {
                EndOutcome::Result(response) => {
                    let result = response.result(keyed.id.as_id());
                    keys.finish(&keyed.key, Some(sha256(result)));
                }
                // It may be repeated: it has not run.
                EndOutcome::Failed(error) if error.code.is_refusal() => keys.forget(&keyed.key),
                EndOutcome::Failed(_) => keys.finish(&keyed.key, None),
            }
        }
        if let Some(record) = record {
            let error = match end.outcome {
                EndOutcome::Result(_) => None,
                EndOutcome::Failed(error) => Some(sent_error(error)),
            };
            let stream = self.protocol.streams.get_mut(number).filter(|_| is_stream(number));
            let seq = stream.map(|stream| stream.next_seq());
            record.end(latency.as_secs_f64() * 1_000.0, seq, error);
        }
    }

    /// Returns the calls in flight: their numbers and ids.
    pub(super) fn calls(&self, deferred: &mut DeferredWork) -> Vec<(u32, IdBuf)> {
        let mut calls = Vec::new();
        for call_id in self.state.in_flight.calls() {
            if let Some(call) = deferred.calls.find_awaited(call_id) {
                calls.push((call.reply_to.stream, call.id.clone()));
            }
        }
        calls
    }

    /// Returns what a log line has of the session.
    pub(super) fn log_fields(&self) -> SessionFields {
        let tier = self.state.principal().map_or(ANONYMOUS_TIER, |principal| principal.tier());
        let (session, transport) = (self.id.to_string(), self.state.transport);
        SessionFields { session, transport, tier: tier.into() }
    }
}

/// The end of a request.
#[derive(Debug)]
pub(super) struct RequestEnd<'a> {
    pub(super) outcome: EndOutcome<'a>,
    /// How long its dispatch took, if it was not answered later.
    pub(super) took: Duration,
    pub(super) now: Instant,
}

/// How a request has ended.
#[derive(Debug)]
pub(super) enum EndOutcome<'a> {
    /// With a response that has a result.
    Result(EncodedResponse<'a>),
    /// With an error, a cancellation included.
    Failed(&'a ParityError),
}

/// Returns what a log line has of an error.
pub(super) fn sent_error(error: &ParityError) -> SentError {
    let ParityError { code, retryable, retry_after_ms, .. } = *error;
    SentError { code: code.as_str(), retryable, retry_after_ms }
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    use sha2::{Digest, Sha256};
    Sha256::digest(bytes).into()
}

/// What carries a session over HTTP.
#[derive(Debug, Default)]
pub(super) struct HttpCarrier {
    /// The event stream.
    pub(super) events: Option<ExchangeAddress>,
    /// The exchanges that wait for the response to a call, or carry the chunks of a stream, with
    /// the numbers of these.
    pub(super) exchanges: Vec<(u32, ExchangeAddress)>,
    /// The chunks that were written while there was no event stream.
    queue: VecDeque<QueuedChunk>,
    queued_bytes: usize,
    /// Bytes of chunks that are not known to be sent, by exchange.
    unsent: Vec<(ExchangeAddress, usize)>,
    /// The last chunks that were sent as events, for a client that returns.
    sent: SentEvents,
}

/// The last chunks of a session that were sent on its event stream, in order.
#[derive(Debug, Default)]
struct SentEvents {
    /// Numbers of the streams and of their chunks.
    places: VecDeque<(u32, u64)>,
    /// Whether earlier ones were forgotten.
    has_forgotten: bool,
    /// Whether the ids of events name the session.
    names_session: bool,
}

/// A chunk that waits for an event stream.
#[derive(Debug)]
pub(super) struct QueuedChunk {
    /// The id of its event.
    pub(super) id: Box<str>,
    /// The numbers of its stream and of itself.
    pub(super) place: (u32, u64),
    /// Its text.
    pub(super) text: Vec<u8>,
}

impl QueuedChunk {
    /// Returns it as an event of a session.
    pub(super) fn into_event(self, session: SessionId) -> ParityHttpOutput {
        let Self { id, text, .. } = self;
        ParityHttpOutput::Event { session, name: CHUNK_EVENT, id: Some(id), data: text }
    }
}

impl HttpCarrier {
    /// Takes the exchange of a call or stream.
    pub(super) fn take_exchange(&mut self, number: u32) -> Option<ExchangeAddress> {
        let index = self.exchanges.iter().position(|(known, _)| *known == number)?;
        let exchange = self.exchanges.swap_remove(index).1;
        self.unsent.retain(|(known, _)| *known != exchange);
        Some(exchange)
    }

    /// Returns the bytes of the chunks that wait for an event stream.
    pub(super) const fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Returns the bytes of chunks to an exchange that are not known to be sent.
    pub(super) fn unsent_bytes(&self, exchange: ExchangeAddress) -> usize {
        let of_exchange = self.unsent.iter().find(|(known, _)| *known == exchange);
        of_exchange.map_or(0, |(_, bytes)| *bytes)
    }

    /// Records the bytes of a chunk to an exchange.
    pub(super) fn add_unsent(&mut self, exchange: ExchangeAddress, bytes: usize) {
        match self.unsent.iter_mut().find(|(known, _)| *known == exchange) {
            Some((_, unsent)) => *unsent += bytes,
            None => self.unsent.push((exchange, bytes)),
        }
    }

    /// Records that chunks to an exchange are sent.
    pub(super) fn confirm_sent(&mut self, exchange: ExchangeAddress, bytes: usize) {
        let of_exchange = self.unsent.iter_mut().find(|(known, _)| *known == exchange);
        if let Some((_, unsent)) = of_exchange {
            *unsent = unsent.saturating_sub(bytes);
        }
    }

    /// Returns the exchange that carries the chunks of a stream: its own, or the event stream.
    pub(super) fn exchange_of(&self, number: u32) -> Option<ExchangeAddress> {
        let own = self.exchanges.iter().find(|(known, _)| *known == number);
        own.map(|(_, exchange)| *exchange).or(self.events)
    }

    /// Removes a closed exchange, and returns the number of its call or stream.
    pub(super) fn remove(&mut self, exchange: ExchangeAddress) -> Option<u32> {
        if self.events == Some(exchange) {
            self.events = None;
        }
        self.unsent.retain(|(known, _)| *known != exchange);
        let index = self.exchanges.iter().position(|(_, known)| *known == exchange)?;
        Some(self.exchanges.swap_remove(index).0)
    }

    /// Keeps a chunk for an event stream.
    pub(super) fn queue(&mut self, chunk: QueuedChunk) {
        self.queued_bytes += chunk.text.len();
        self.queue.push_back(chunk);
    }

    /// Puts chunks before those that wait for an event stream.
    pub(super) fn queue_before(&mut self, chunks: Vec<QueuedChunk>) {
        for chunk in chunks.into_iter().rev() {
            self.queued_bytes += chunk.text.len();
            self.queue.push_front(chunk);
        }
    }

    /// Begins another event stream. Returns whether its client needs an id before the first chunk.
    pub(super) fn attach_events(&mut self, names_session: bool) -> bool {
        self.sent.names_session = names_session;
        names_session && !self.sent.has_forgotten && self.sent.places.is_empty()
    }

    /// Records a chunk that is sent on the event stream, of which the last `count_max` are known,
    /// and completes its id.
    pub(super) fn record_event(
        &mut self,
        chunk: &mut QueuedChunk,
        session: SessionId,
        count_max: usize,
    ) {
        self.sent.places.push_back(chunk.place);
        if self.sent.places.len() > count_max {
            self.sent.places.pop_front();
            self.sent.has_forgotten = true;
        }
        if self.sent.names_session {
            chunk.id = format!("{}@{session}", chunk.id).into();
        }
    }

    /// Returns the chunks that were sent as events after `place`, `None` for all, and forgets them:
    /// they are sent again. Returns `None` if that is not known.
    pub(super) fn rewind_events(&mut self, place: Option<(u32, u64)>) -> Option<Vec<(u32, u64)>> {
        let kept = match place {
            Some(place) => self.sent.places.iter().position(|known| *known == place)? + 1,
            None if self.sent.has_forgotten => return None,
            None => 0,
        };
        Some(self.sent.places.split_off(kept).into())
    }

    /// Returns the number of the first chunk of each stream that waits for an event stream.
    pub(super) fn next_queued(&self) -> HashMap<u32, u64> {
        self.queue.iter().rev().map(|chunk| chunk.place).collect()
    }

    /// Takes the next chunk for the event stream.
    pub(super) fn pop_queued(&mut self) -> Option<QueuedChunk> {
        let chunk = self.queue.pop_front()?;
        self.queued_bytes -= chunk.text.len();
        Some(chunk)
    }
}
