//! One session of the parity dialect, as a shard holds it, with its requests that wait for their
//! end.
//!
//! Invariants: a request has one number, and ends once. A request that is answered while it is
//! dispatched has no entry, unless it has an idempotency key or is recorded in the log.

use std::time::Duration;

use corelane_base::heap_bytes;
use corelane_base::heap_bytes::{ALLOCATION_BYTES, HeapBytes};
use corelane_base::holders::Holder;
use corelane_base::principal::ANONYMOUS_TIER;
use corelane_base::time::Instant;
use corelane_parity::capabilities::Feature;
use corelane_parity::error::ParityError;
use corelane_parity::machine::State;
use corelane_parity::server_session::{ServerSession, SessionSettings};
use corelane_protocol::eras::Lifecycle;
use corelane_protocol::jsonrpc::{Id, IdBuf};
use corelane_protocol::model::EncodedResponse;
use corelane_protocol::revision::Revision;

use super::carrier::{HttpCarrier, SessionCarrier};
use super::resume_tokens::Generations;
use crate::connection::PendingWork;
use crate::server::connection_state::{ConnectionState, Standing};
use crate::server::dispatch::DeferredWork;
use crate::server::owner_id::{SessionId, log_id};
use crate::server::reply_to::ReplyTo;
use crate::telemetry::counters::ParityCounters;
use crate::telemetry::event::parity::{RequestRecord, SentError, SessionFields};
use crate::telemetry::label::Transport;

/// The revision whose params and results the dialect has.
const REVISION: Revision = Revision::LATEST_LEGACY;

/// A session with what its shard needs for it: the state machine of its protocol, the state of the
/// peer for the dispatcher, what carries it and its open requests.
#[derive(Debug)]
pub struct ParitySession {
    pub id: SessionId,
    /// The state as a client of MCP.
    pub state: ConnectionState,
    pub pending_work: PendingWork,
    pub(super) protocol: ServerSession,
    pub(super) carrier: SessionCarrier,
    pub(super) requests: SessionRequests,
    pub(super) generations: Generations,
    /// When it ends, unless a client resumes it.
    pub(super) expires_at: Option<Instant>,
    /// The earliest timer that is set for it.
    pub(super) timer: Option<Instant>,
    /// Bytes last accounted for it.
    pub(super) accounted_bytes: usize,
    /// For whom it counts; `None` until its handshake is accepted.
    pub(super) place: Option<SessionPlace>,
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
            carrier: SessionCarrier::None,
            requests: SessionRequests::default(),
            generations: Generations::default(),
            expires_at: None,
            timer: None,
            accounted_bytes: 0,
            place: None,
        }
    }

    /// Returns whether it can be ended for another one: nothing carries it, or nothing of it is in
    /// flight over HTTP.
    pub(super) fn is_evictable(&self) -> bool {
        match &self.carrier {
            SessionCarrier::None => self.expires_at.is_some(),
            SessionCarrier::Http(_) => !self.is_busy(),
            SessionCarrier::Connection(_)
            | SessionCarrier::Front(_)
            | SessionCarrier::Remote(_) => false,
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
    pub(super) const fn pending_responses(&self) -> usize {
        self.pending_work.pending_responses as usize
    }

    /// Returns the bytes of the chunks that wait for an event stream.
    fn queued_bytes(&self) -> usize {
        self.carrier.http().map_or(0, HttpCarrier::queued_bytes)
    }

    /// Returns nothing: what is kept of the peer has an account of its own, and so have the
    /// arguments of its calls, with their ids.
    const fn uncounted_bytes(&self) -> usize {
        let Self { state: _, requests: _, .. } = self;
        0
    }

    /// Returns the bytes of the session with its chunks and idempotency keys.
    pub(super) fn held_bytes(&self) -> usize {
        ALLOCATION_BYTES + size_of::<Self>() + self.heap_bytes()
    }

    /// Returns whether it waits for its client, and nothing carries it.
    pub(super) const fn is_detached(&self) -> bool {
        self.expires_at.is_some() && matches!(self.carrier, SessionCarrier::None)
    }

    /// Returns what its end frees.
    pub fn freeable_bytes(&self) -> usize {
        self.held_bytes() + self.state.facts_bytes()
    }

    /// Returns whether something keeps the session from being idle: a request or stream in flight,
    /// an event stream, an HTTP exchange.
    pub(super) fn is_busy(&self) -> bool {
        self.pending_responses() > 0 || self.carrier.http().is_some_and(HttpCarrier::is_open)
    }

    /// Returns the next deadline.
    pub(super) fn next_deadline(&self, settings: &SessionSettings) -> Option<Instant> {
        self.expires_at.or_else(|| self.protocol.next_deadline(settings, self.is_busy()))
    }

    /// Ends a request: its idempotency key, its latency and its log line.
    pub(super) fn end_request(
        &mut self,
        number: u32,
        end: &RequestEnd<'_>,
        counters: &mut ParityCounters,
    ) {
        self.protocol.record_busy(end.now);
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
                EndOutcome::Failed(_) | EndOutcome::Stopped(_) => keys.finish(&keyed.key, None),
            }
        }
        if let Some(record) = record {
            let error = match end.outcome {
                EndOutcome::Result(_) => None,
                EndOutcome::Failed(error) | EndOutcome::Stopped(error) => Some(sent_error(error)),
            };
            let stream = self.protocol.streams.get_mut(number).filter(|_| is_stream(number));
            let seq = stream.map(|stream| stream.next_seq());
            record.end(latency.as_secs_f64() * 1_000.0, seq, error);
        }
    }

    /// Writes the lines of the requests that end with the session, and ends their spans.
    pub(super) fn end_records(&mut self, now: Instant) {
        let error = sent_error(&ParityError::cancelled());
        for OpenRequest { begun, record, .. } in self.requests.entries.drain(..) {
            if let Some(record) = record {
                record.end(now.since(begun).as_secs_f64() * 1_000.0, None, Some(error));
            }
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
        let (session, transport) = (log_id(&self.id.to_string()), self.state.transport);
        SessionFields { session, transport, tier: tier.into() }
    }
}

/// For whom a session counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct SessionPlace {
    pub(super) holder: Holder,
    /// Number of the session on its shard, in order of creation.
    pub(super) number: u64,
}

heap_bytes!(
    ParitySession { protocol }
    counted {
        carrier: ParitySession::queued_bytes,
        state: ParitySession::uncounted_bytes,
        requests: ParitySession::uncounted_bytes,
    }
    inline { id, pending_work, generations, expires_at, timer, place, accounted_bytes }
);

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
    /// With an error that has stopped it while it ran.
    Stopped(&'a ParityError),
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

/// The first number of calls that are no streams.
const FIRST_CALL_NUMBER: u32 = 1 << 31;

/// Returns whether a number is that of a stream.
pub(super) const fn is_stream(number: u32) -> bool {
    number != ReplyTo::STANDALONE && number < FIRST_CALL_NUMBER
}

/// The requests of a session that wait for their end.
#[derive(Debug, Default)]
pub(super) struct SessionRequests {
    entries: Vec<OpenRequest>,
    last_number: u32,
}

/// A request that is described at its end: for its log line, or because it has an idempotency key.
#[derive(Debug)]
pub(super) struct OpenRequest {
    number: u32,
    /// When it was received.
    pub(super) begun: Instant,
    /// Its idempotency key.
    pub(super) keyed: Option<Box<KeyedRequest>>,
    /// What its log line and spans have of it.
    pub(super) record: Option<Box<RequestRecord>>,
}

/// A request with an idempotency key.
#[derive(Debug)]
pub(super) struct KeyedRequest {
    pub(super) id: IdBuf,
    pub(super) key: Box<str>,
}

impl SessionRequests {
    /// Returns the number of a new call.
    pub(super) const fn next_number(&mut self) -> u32 {
        // Half of the numbers: a wrap finds the first ones long gone.
        self.last_number = (self.last_number + 1) % (FIRST_CALL_NUMBER - 1);
        FIRST_CALL_NUMBER + self.last_number
    }

    /// Adds a request received at `begun`, with its id and idempotency key.
    pub(super) fn add(
        &mut self,
        number: u32,
        begun: Instant,
        keyed: Option<(Id<'_>, &str)>,
        record: Option<Box<RequestRecord>>,
    ) {
        let keyed = keyed.map(|(id, key)| KeyedRequest { id: id.into(), key: key.into() });
        let keyed = keyed.map(Box::new);
        self.entries.push(OpenRequest { number, begun, keyed, record });
    }

    /// Returns whether a request has an entry.
    pub(super) fn has(&self, number: u32) -> bool {
        self.entries.iter().any(|entry| entry.number == number)
    }

    /// Returns what the log has of a request.
    pub(super) fn record_mut(&mut self, number: u32) -> Option<&mut RequestRecord> {
        let entry = self.entries.iter_mut().rfind(|entry| entry.number == number)?;
        entry.record.as_deref_mut()
    }

    /// Takes a request that ends.
    pub(super) fn take(&mut self, number: u32) -> Option<OpenRequest> {
        let index = self.entries.iter().rposition(|entry| entry.number == number)?;
        Some(self.entries.swap_remove(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_calls_and_streams_differ() {
        let mut requests = SessionRequests::default();
        let number = requests.next_number();
        requests.add(number, Instant::ORIGIN, Some((Id::Signed(1), "k")), None);
        requests.add(3, Instant::ORIGIN, Some((Id::Text("q"), "l")), None);
        assert!(!is_stream(number) && is_stream(3) && !is_stream(ReplyTo::STANDALONE));
        assert_ne!(number, ReplyTo::NO_STREAM);
        let keyed = requests.take(3).unwrap().keyed.unwrap();
        assert_eq!(keyed.id.as_id(), Id::Text("q"));
        assert_eq!(&*requests.take(number).unwrap().keyed.unwrap().key, "k");
        assert!(requests.take(number).is_none());
    }
}
