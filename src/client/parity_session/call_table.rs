//! The requests of a session, each from its caller to its end.
//!
//! Invariants: an id is used once; the earliest deadline is never later than that of any request;
//! a stream belongs to one request.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use corelane_base::time::Instant;
use corelane_parity::error::ErrorCode;

use crate::error::{ClientError, ClientErrorKind};
use crate::reconnect::Backoff;

#[derive(Debug)]
pub(super) struct CallTable<T> {
    calls: BTreeMap<u64, Call<T>>,
    /// Those that may be sent, in order.
    ready: VecDeque<u64>,
    streams: HashMap<Box<str>, u64>,
    /// Those that the server has.
    in_flight: usize,
    last_id: u64,
    /// Nothing is due before this.
    earliest: Option<Instant>,
}

impl<T> CallTable<T> {
    pub(super) fn new() -> Self {
        Self {
            calls: BTreeMap::new(),
            ready: VecDeque::new(),
            streams: HashMap::new(),
            in_flight: 0,
            last_id: 0,
            earliest: None,
        }
    }

    /// Returns the id that the next request gets.
    pub(super) const fn next_id(&self) -> u64 {
        self.last_id + 1
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Returns the number of requests that the server has.
    pub(super) const fn in_flight_count(&self) -> usize {
        self.in_flight
    }

    /// Returns the number of open streams.
    pub(super) fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Returns whether a request matches.
    pub(super) fn any(&self, matches: impl Fn(&Call<T>) -> bool) -> bool {
        self.calls.values().any(matches)
    }

    /// Returns the number of requests that wait.
    pub(super) fn waiting_count(&self) -> usize {
        self.calls.len() - self.in_flight
    }

    /// Returns whether requests wait to be sent at once.
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Adds a request and returns its id.
    pub(super) fn insert(&mut self, call: Call<T>) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.note_deadline(call.deadline);
        self.calls.insert(id, call);
        self.index(id);
        id
    }

    /// Changes where a request is.
    pub(super) fn set_state(&mut self, id: u64, state: CallState) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        if let CallState::Streaming(stream) = &call.state {
            self.streams.remove(stream);
        }
        self.in_flight -= usize::from(call.is_in_flight());
        call.state = state;
        self.index(id);
    }

    /// Notes a request where its state says that it is.
    fn index(&mut self, id: u64) {
        let Some(call) = self.calls.get(&id) else { return };
        self.in_flight += usize::from(call.is_in_flight());
        match &call.state {
            CallState::Waiting { not_before: None, needs_session: false } => {
                self.ready.push_back(id);
            }
            CallState::Waiting { not_before: Some(not_before), .. } => {
                let not_before = *not_before;
                self.note_deadline(not_before);
            }
            CallState::Streaming(stream) => {
                let stream = stream.clone();
                self.streams.insert(stream, id);
            }
            CallState::Waiting { .. } | CallState::Sent => {}
        }
    }

    pub(super) fn get_mut(&mut self, id: u64) -> Option<&mut Call<T>> {
        self.calls.get_mut(&id)
    }

    /// Returns the request of a stream.
    pub(super) fn id_of_stream(&self, stream: &str) -> Option<u64> {
        self.streams.get(stream).copied()
    }

    /// Gives a request its whole time again.
    pub(super) fn restart_timeout(&mut self, id: u64, now: Instant) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        call.deadline = now.after(call.timeout);
        let deadline = call.deadline;
        self.note_deadline(deadline);
    }

    /// Takes the oldest request that may be sent at once.
    pub(super) fn pop_ready(&mut self) -> Option<u64> {
        while let Some(id) = self.ready.pop_front() {
            let call = self.calls.get(&id);
            if call.is_some_and(|call| call.state == CallState::NEW) {
                return Some(id);
            }
        }
        None
    }

    /// Removes a request.
    pub(super) fn remove(&mut self, id: u64) -> Option<Call<T>> {
        let call = self.calls.remove(&id)?;
        self.in_flight -= usize::from(call.is_in_flight());
        if let CallState::Streaming(stream) = &call.state {
            self.streams.remove(stream);
        }
        Some(call)
    }

    /// Removes every request.
    pub(super) fn take_all(&mut self) -> Vec<Call<T>> {
        self.ready.clear();
        self.streams.clear();
        (self.in_flight, self.earliest) = (0, None);
        std::mem::take(&mut self.calls).into_values().collect()
    }

    /// Returns the ids of the requests that match.
    pub(super) fn ids(&self, matches: impl Fn(&Call<T>) -> bool) -> Vec<u64> {
        let found = self.calls.iter().filter(|(_, call)| matches(call));
        found.map(|(id, _)| *id).collect()
    }

    /// Returns when [`CallTable::expire`] must be called.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.earliest.filter(|_| !self.calls.is_empty())
    }

    fn note_deadline(&mut self, deadline: Instant) {
        self.earliest = Some(self.earliest.map_or(deadline, |other| other.min(deadline)));
    }

    /// Lets delayed requests be sent that are due. Returns those whose time is over.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<u64> {
        if self.earliest.is_none_or(|earliest| earliest > now) {
            return Vec::new();
        }
        let expired = self.ids(|call| call.deadline <= now);
        for id in self.ids(|call| is_due(&call.state, now)) {
            self.set_state(id, CallState::NEW);
        }
        let later =
            self.calls.values().filter(|call| call.deadline > now).map(|call| match call.state {
                CallState::Waiting { not_before: Some(time), .. } => time.min(call.deadline),
                _ => call.deadline,
            });
        self.earliest = later.min();
        expired
    }
}

/// Returns whether the delay of a request is over.
fn is_due(state: &CallState, now: Instant) -> bool {
    matches!(state, CallState::Waiting { not_before: Some(time), .. } if *time <= now)
}

/// A request as its caller makes it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ParityCallRequest {
    /// The method.
    pub method: Box<str>,
    /// The params, an encoded object.
    pub params: Vec<u8>,
    /// Whether its result is streamed.
    pub streams: bool,
    /// The key under which the server accepts it once.
    pub idempotency_key: Option<Box<str>>,
    /// Time to the response, and between two chunks; `None` for that of the client.
    pub timeout: Option<Duration>,
}

impl ParityCallRequest {
    /// Returns whether the request changes nothing on the server, so that it may run twice.
    pub(super) fn is_idempotent(&self) -> bool {
        &*self.method != "tools/call"
    }

    /// Returns whether the request may be sent again after a retryable error.
    pub(super) fn may_repeat(&self, error: &ClientError) -> bool {
        // RFC 6585, section 4: a request that is refused for its rate has not run.
        if let (ClientErrorKind::Http { status }, Some(_)) = (error.kind(), error.retry_after()) {
            return status == 429 || status == 503 && self.is_idempotent();
        }
        let is = |code| ClientErrorKind::Parity { code } == error.kind();
        // The user has to give a second factor first, or another token.
        let is_pending = is(ErrorCode::Forbidden) || is(ErrorCode::Unauthorized);
        let may_run_twice = is(ErrorCode::RateLimited) || self.is_idempotent();
        error.is_retryable() && !is_pending && may_run_twice
    }
}

/// Where a request is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum CallState {
    /// It is sent when it can be, not before this.
    Waiting {
        not_before: Option<Instant>,
        /// Only to the session that has received it before.
        needs_session: bool,
    },
    /// It was sent.
    Sent,
    /// Its stream is open.
    Streaming(Box<str>),
}

impl CallState {
    /// The state of a request that may be sent at once.
    pub(super) const NEW: Self = Self::Waiting { not_before: None, needs_session: false };
}

/// A request of a session.
#[derive(Debug)]
pub(super) struct Call<T> {
    /// `None` once the caller is gone: what the server sends of it is ignored.
    pub(super) token: Option<T>,
    pub(super) request: Box<ParityCallRequest>,
    pub(super) state: CallState,
    pub(super) timeout: Duration,
    pub(super) deadline: Instant,
    /// Its repetitions, once there was one.
    pub(super) backoff: Option<Backoff>,
    /// What its stream ends with.
    pub(super) outcome: Option<Result<Vec<u8>, ClientError>>,
    /// The cancellation was sent.
    pub(super) is_canceling: bool,
}

impl<T> Call<T> {
    /// Returns whether the server has it.
    pub(super) const fn is_in_flight(&self) -> bool {
        matches!(self.state, CallState::Sent | CallState::Streaming(_))
    }
}

/// As many requests wait as may.
pub(super) fn busy(waiting_max: usize) -> ClientError {
    let text = format!("{waiting_max} requests wait for the server already; retry later");
    ClientError::new(ClientErrorKind::Busy, text)
}

/// No response or chunk came in time.
pub(super) fn timeout(timeout: Duration) -> ClientError {
    let text = format!("neither a response nor a chunk within {timeout:?}");
    ClientError::new(ClientErrorKind::Timeout, text)
}

/// A request that was sent when its connection ended because of `cause`.
pub(super) fn closed(cause: &ClientError) -> ClientError {
    let text = format!("the connection ended before the response: {cause}");
    ClientError::with_source(ClientErrorKind::Closed, text, cause.clone())
}

/// A request that was not sent in time, because there was no connection.
pub(super) fn unconnected(timeout: Duration, cause: &ClientError) -> ClientError {
    let text = format!("no connection within {timeout:?}: {cause}");
    ClientError::with_source(ClientErrorKind::Connect, text, cause.clone())
}

/// A stream of a session that the server does not continue.
pub(super) fn restart(reason: &str) -> ClientError {
    let text = format!("the server cannot continue the stream ({reason}): call again");
    ClientError::new(ClientErrorKind::Restart, text)
}

/// A request that its caller has cancelled.
pub(super) fn cancelled() -> ClientError {
    ClientError::new(ClientErrorKind::Cancelled, "the request was cancelled")
}

/// What the server did not allow.
pub(super) fn protocol(text: impl Into<std::borrow::Cow<'static, str>>) -> ClientError {
    ClientError::new(ClientErrorKind::Protocol, text)
}
