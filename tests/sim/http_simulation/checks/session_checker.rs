//! Checker of one legacy session, over all its connections.
//!
//! Checks that the events of a stream are numbered from 1 without gaps and that an event id always
//! has the same event; that a stream belongs to one request; that a request is answered once and
//! every message is for this client; and that a session that is gone does not come back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use corelane_base::time::Instant;
use corelane_protocol::revision::Revision;
use serde_json::Value;

use super::response_reader::SseEvent;
use crate::http_simulation::client::http_requests::{self, SessionName};

/// Number of the first stream that belongs to no request.
pub(crate) const GENERAL_STREAM: u32 = 0;

#[derive(Debug)]
pub(crate) struct SessionChecker {
    pub(crate) client: u32,
    pub(crate) id: String,
    pub(crate) revision: Revision,
    pub(crate) streams: BTreeMap<u32, SessionStream>,
    pub(crate) requests: BTreeMap<u64, SessionRequest>,
    /// The client has begun to delete it.
    pub(crate) is_deleted: bool,
    /// The client has shut down writing on the connection of its one stream (2024-11-05), which is
    /// lost to the server from then on, and the session with it.
    pub(crate) is_stream_half_closed: bool,
    /// When its client learned that it does not exist any more.
    pub(crate) gone_since: Option<Instant>,
    /// When its client last received something of it.
    pub(crate) last_used: Instant,
    /// Number of requests for its general stream.
    pub(crate) general_streams: u32,
    /// The server may drop events before they were received.
    pub(crate) may_drop_events: bool,
    /// Batches: number of requests, by the id of the first.
    batches: BTreeMap<u64, u64>,
    /// When it was created; list changes received since.
    pub(crate) created_at: Instant,
    pub(crate) list_changes: u64,
    /// Tasks created in it, and tasks it was notified of.
    pub(crate) created_tasks: BTreeSet<String>,
    pub(crate) notified_tasks: BTreeSet<String>,
}

#[derive(Debug, Default)]
pub(crate) struct SessionStream {
    events: BTreeMap<u32, Option<String>>,
    pub(crate) request: Option<u64>,
    /// Number of times it was resumed.
    pub(crate) resumes: u32,
    /// A request to resume it was answered with an error.
    pub(crate) is_lost: bool,
}

#[derive(Debug)]
pub(crate) struct SessionRequest {
    pub(crate) sent_at: Instant,
    /// Minimum time until its response.
    pub(crate) duration_min: Duration,
    pub(crate) is_answered: bool,
    pub(crate) is_cancelled: bool,
    progress: u64,
}

/// How far one response has carried a stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StreamPosition {
    pub(crate) stream: Option<u32>,
    /// Last event of this response, or the one after which it resumes.
    pub(crate) last: Option<u32>,
}

impl SessionStream {
    /// Number of the last event received.
    pub(crate) fn last_event(&self) -> u32 {
        self.events.last_key_value().map_or(0, |(number, _)| *number)
    }
}

impl SessionChecker {
    pub(crate) const fn new(client: u32, id: String, revision: Revision, now: Instant) -> Self {
        Self {
            client,
            id,
            revision,
            streams: BTreeMap::new(),
            requests: BTreeMap::new(),
            is_deleted: false,
            is_stream_half_closed: false,
            gone_since: None,
            last_used: now,
            general_streams: 0,
            may_drop_events: false,
            batches: BTreeMap::new(),
            created_at: now,
            list_changes: 0,
            created_tasks: BTreeSet::new(),
            notified_tasks: BTreeSet::new(),
        }
    }

    /// Returns whether a general stream was resumed.
    pub(crate) fn was_general_resumed(&self) -> bool {
        self.streams.values().any(|stream| stream.request.is_none() && stream.resumes > 0)
    }

    /// Returns its id and revision, for its next request.
    pub(crate) fn name(&self) -> SessionName<'_> {
        SessionName { id: &self.id, revision: self.revision }
    }

    /// Records a request.
    pub(crate) fn record_request(&mut self, id: u64, least: Duration, now: Instant) {
        let (is_answered, is_cancelled, progress) = (false, false, 0);
        let request = SessionRequest {
            sent_at: now,
            duration_min: least,
            is_answered,
            is_cancelled,
            progress,
        };
        self.requests.insert(id, request);
    }

    /// Records that the requests sent at `sent_at` may not have arrived.
    pub(crate) fn record_lost(&mut self, sent_at: Instant) {
        for request in self.requests.values_mut().filter(|request| request.sent_at == sent_at) {
            request.is_cancelled = true;
        }
    }

    /// Returns whether it uses the legacy HTTP+SSE transport, where everything comes on one stream.
    pub(crate) fn is_legacy_sse(&self) -> bool {
        self.revision == Revision::V2024_11_05
    }

    /// Returns whether its client knows events without data, and reconnection times.
    pub(crate) fn knows_retry(&self) -> bool {
        self.revision.dialect().priming_events
    }

    /// Returns when its oldest unanswered request was sent.
    pub(crate) fn oldest_unanswered(&self) -> Option<Instant> {
        let open = self.requests.values().filter(|it| !it.is_answered && !it.is_cancelled);
        open.map(|request| request.sent_at).min()
    }

    /// Records a batch of `count` requests that begins with `first`.
    pub(crate) fn record_batch(&mut self, first: u64, count: u64) {
        self.batches.insert(first, count);
    }

    /// Returns whether a request belongs to the batch that begins with `first`, or is `first`.
    fn is_in_batch(&self, id: Option<u64>, first: Option<u64>) -> bool {
        let count = first.and_then(|first| self.batches.get(&first)).copied().unwrap_or(1);
        let range = first.map(|first| first..first + count);
        id.is_some_and(|id| range.is_some_and(|range| range.contains(&id)))
    }

    /// Returns the requests of the batch that begins with `first`, at least itself.
    fn batch_requests(&self, first: u64) -> impl Iterator<Item = &SessionRequest> {
        let count = self.batches.get(&first).copied().unwrap_or(1);
        self.requests.range(first..first + count).map(|(_, request)| request)
    }

    /// Returns whether no request of the batch still needs a response.
    pub(crate) fn is_batch_complete(&self, first: u64) -> bool {
        self.batch_requests(first).all(|request| request.is_answered || request.is_cancelled)
    }

    /// Returns whether some requests of a batch still need a response.
    pub(crate) fn is_batch_partial(&self, first: u64) -> bool {
        self.batches.contains_key(&first) && !self.is_batch_complete(first)
    }

    /// Checks an event in the response to `request`, or to none; returns its message if it is new
    /// and has one.
    ///
    /// # Errors
    ///
    /// The event violates the order of events.
    pub(crate) fn check_event(
        &mut self,
        carried: &mut StreamPosition,
        event: &SseEvent,
        request: Option<u64>,
    ) -> Result<Option<Value>, String> {
        let Some((stream, number)) = event.id else {
            return match &event.data {
                // The legacy HTTP+SSE transport cannot resume, so its events have no ids.
                Some(data) if self.is_legacy_sse() => parse_json(data).map(Some),
                // A slow response whose stream begins with a comment: there is nothing to resume.
                Some(data) if carried.last.is_none() && !self.knows_retry() => {
                    parse_json(data).map(Some)
                }
                Some(data) => Err(format!("an event has no id: {data}")),
                None => Ok(None),
            };
        };
        if *carried.stream.get_or_insert(stream) != stream {
            return Err(format!("stream {stream} continues on another: {carried:?}"));
        }
        let forgets = self.may_drop_events;
        let known = self.streams.entry(stream).or_default();
        let expected = match carried.last {
            Some(last) => last + 1,
            // Without an event id to resume after, no event is repeated.
            None if request.is_none() => number.max(known.last_event() + 1),
            None => 1,
        };
        let is_gap = number > expected && forgets;
        if number != expected && !is_gap {
            return Err(format!("event {stream}-{number}, expected number {expected}"));
        }
        carried.last = Some(number);
        if request.is_some() && known.request.is_none() && stream != GENERAL_STREAM {
            known.request = request;
        }
        if request.is_some() && stream != GENERAL_STREAM && known.request != request {
            return Err(format!(
                "stream {stream} belongs to {:?}, not to {request:?}",
                known.request
            ));
        }
        let before = known.events.insert(number, event.data.clone());
        match before {
            Some(before) if before != event.data => {
                Err(format!("event {stream}-{number} changed from {before:?} to {event:?}"))
            }
            Some(_) => Ok(None),
            None => event.data.as_deref().map(parse_json).transpose(),
        }
    }

    /// Checks a message in the response to `request`, or to none; returns whether it is the
    /// response.
    ///
    /// # Errors
    ///
    /// The message is for another client or request, or comes twice.
    pub(crate) fn check_message(
        &mut self,
        message: &Value,
        request: Option<u64>,
    ) -> Result<bool, String> {
        // Progress has no message in 2024-11-05; its token identifies the request.
        let is_plain = self.is_legacy_sse() && message["params"].get("progress").is_some();
        if !is_plain && !http_requests::is_addressed_to(message, self.client) {
            return Err(format!("{message} is not for client {}", self.client));
        }
        let is_answer = message.get("method").is_none();
        if is_answer {
            return self.record_response(message, request).map(|()| true);
        }
        if message["method"] == "notifications/progress" {
            let id = message["params"]["progressToken"].as_u64();
            if !self.is_in_batch(id, request) {
                return Err(format!("{message} does not belong to {request:?}"));
            }
            let request = id.and_then(|id| self.requests.get_mut(&id));
            let request = request.ok_or_else(|| format!("unexpected message {message}"))?;
            let progress = message["params"]["progress"].as_f64().unwrap_or_default();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
            let progress = progress as u64;
            let is_next = progress == request.progress + 1;
            // If the server drops events, an event after the gap may arrive before an older one
            // that is still on its way on another connection.
            if !(is_next || self.may_drop_events) {
                return Err(format!("{message} follows progress {}", request.progress));
            }
            request.progress = progress;
        }
        Ok(false)
    }

    fn record_response(&mut self, message: &Value, request: Option<u64>) -> Result<(), String> {
        let id = message["id"].as_u64();
        if !self.is_in_batch(id, request) {
            return Err(format!("{message} does not answer {request:?}"));
        }
        let asked = id.and_then(|id| self.requests.get_mut(&id));
        let asked = asked.ok_or_else(|| format!("unexpected message {message}"))?;
        if asked.is_answered {
            return Err(format!("{message} is the second response"));
        }
        asked.is_answered = true;
        Ok(())
    }

    /// Records a 404; `ttl` is the idle timeout, or `None` if the session may have been evicted.
    ///
    /// # Errors
    ///
    /// The session must exist.
    pub(crate) fn record_not_found(
        &mut self,
        now: Instant,
        ttl: Option<Duration>,
    ) -> Result<(), String> {
        let busy = self.last_used;
        let is_idle = ttl.is_none_or(|ttl| now > busy.after(ttl.saturating_sub(LATE_MAX)));
        let is_ended = self.is_deleted || self.is_stream_half_closed;
        if !(self.gone_since.is_some() || is_ended || is_idle) {
            return Err(format!("a session expired early, last used at {busy:?}"));
        }
        self.gone_since.get_or_insert(now);
        Ok(())
    }

    /// Checks its one stream (2024-11-05), which is open.
    ///
    /// # Errors
    ///
    /// The session is gone, and its stream must have ended with it.
    pub(crate) fn check_stream_open(&self, now: Instant) -> Result<(), String> {
        match self.gone_since.filter(|gone| now > gone.after(LATE_MAX)) {
            Some(gone) => Err(format!("the stream of a session gone since {gone:?} is open")),
            None => Ok(()),
        }
    }

    /// Returns stream and last event of each unanswered request whose stream can be resumed.
    pub(crate) fn resumable_streams(&self) -> Vec<(u32, u32)> {
        let is_open = |stream: &SessionStream| {
            !stream.is_lost && stream.request.is_some_and(|first| !self.is_batch_complete(first))
        };
        let open = self.streams.iter().filter(|(_, stream)| is_open(stream));
        open.map(|(number, stream)| (*number, stream.last_event())).collect()
    }

    /// Returns whether a stream must be open: its request is not cancelled and still runs.
    pub(crate) fn must_be_open(&self, stream: u32, now: Instant) -> bool {
        let request = self.streams.get(&stream).and_then(|stream| stream.request);
        let is_open = |it: &SessionRequest| {
            !it.is_cancelled && !it.is_answered && now < it.sent_at.after(it.duration_min)
        };
        request.is_some_and(|first| self.batch_requests(first).any(is_open))
    }

    /// Returns whether an ended stream must be kept: its client has not received the response, and
    /// there are not enough newer streams to replace it.
    pub(crate) fn must_be_kept(&self, stream: u32, now: Instant) -> bool {
        let request = self.streams.get(&stream).and_then(|stream| stream.request);
        let request = request.and_then(|id| self.requests.get(&id));
        let is_missed = request.is_some_and(|it| {
            !it.is_cancelled && !it.is_answered && now < it.sent_at.after(STREAM_RETENTION_MIN)
        });
        is_missed && self.requests.len() <= STREAMS_KEPT_MIN && !self.may_drop_events
    }
}

pub(crate) fn parse_json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("{text} is not JSON: {error}"))
}

/// How long the server keeps an ended stream at least, and how many of them.
const STREAM_RETENTION_MIN: Duration = Duration::from_mins(1);
const STREAMS_KEPT_MIN: usize = 16;
/// How late an event may be: stalls, delays, the way between shards.
const LATE_MAX: Duration = Duration::from_millis(25);
