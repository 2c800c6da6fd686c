//! What one legacy session has said and heard, over whichever connections.
//!
//! What it checks: the events of a stream are numbered from 1 without a gap, and the same number
//! always means the same event; a stream belongs to one request; a request is answered once, and
//! whatever is heard is for this client. A session that has gone does not come back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use corelane::base::time::Moment;
use corelane::protocol::revision::Revision;
use serde_json::Value;

use super::reading::Event;
use crate::web::client::speech;

/// The stream that belongs to no request.
pub(crate) const GENERAL: u32 = 0;

/// One session.
#[derive(Debug)]
pub(crate) struct Book {
    pub(crate) guest: u32,
    pub(crate) id: String,
    pub(crate) revision: Revision,
    pub(crate) streams: BTreeMap<u32, Stream>,
    pub(crate) requests: BTreeMap<u64, Request>,
    /// When its client began to end it.
    pub(crate) is_deleted: bool,
    /// When its client heard that it is not there.
    pub(crate) gone: Option<Moment>,
    /// When its client last heard something of it.
    pub(crate) busy: Moment,
    /// How often its general stream was asked for.
    pub(crate) listens: u32,
    /// Whether old events may be forgotten before they were seen.
    pub(crate) forgets: bool,
    /// Requests that were said in one array: how many, by the first of them.
    groups: BTreeMap<u64, u64>,
    /// When it began, and how often it was told that a list has changed since.
    pub(crate) begun_at: Moment,
    pub(crate) lists_told: u64,
    /// Tasks that began in it, and those that it was told of.
    pub(crate) begun: BTreeSet<String>,
    pub(crate) told: BTreeSet<String>,
}

/// One stream.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    seen: BTreeMap<u32, Option<String>>,
    pub(crate) request: Option<u64>,
    /// How often it was asked for again.
    pub(crate) resumes: u32,
    /// Whoever asked for it again was told that there is nothing more.
    pub(crate) is_lost: bool,
}

/// One request of the session.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) said: Moment,
    /// How long its answer takes at least.
    pub(crate) least: Duration,
    pub(crate) is_answered: bool,
    pub(crate) is_cancelled: bool,
    progress: u64,
}

/// What one response has carried of a stream so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Carried {
    pub(crate) stream: Option<u32>,
    /// The last event: of this response, or the one behind which it was to go on.
    pub(crate) last: Option<u32>,
}

impl Stream {
    /// The last event that was seen.
    pub(crate) fn last(&self) -> u32 {
        self.seen.last_key_value().map_or(0, |(number, _)| *number)
    }
}

impl Book {
    pub(crate) const fn new(guest: u32, id: String, revision: Revision, now: Moment) -> Self {
        Self {
            guest,
            id,
            revision,
            streams: BTreeMap::new(),
            requests: BTreeMap::new(),
            is_deleted: false,
            gone: None,
            busy: now,
            listens: 0,
            forgets: false,
            groups: BTreeMap::new(),
            begun_at: now,
            lists_told: 0,
            begun: BTreeSet::new(),
            told: BTreeSet::new(),
        }
    }

    /// Its name and revision, for its next request.
    pub(crate) fn name(&self) -> (&str, Revision) {
        (&self.id, self.revision)
    }

    /// A request is said.
    pub(crate) fn ask(&mut self, id: u64, least: Duration, now: Moment) {
        let (is_answered, is_cancelled, progress) = (false, false, 0);
        let request = Request { said: now, least, is_answered, is_cancelled, progress };
        self.requests.insert(id, request);
    }

    /// Whether its client is of 2024-11-05: whatever is said comes on one stream.
    pub(crate) fn is_pair(&self) -> bool {
        self.revision == Revision::V2024_11_05
    }

    /// Since when its oldest request waits that is to be answered.
    pub(crate) fn waits_since(&self) -> Option<Moment> {
        let open = self.requests.values().filter(|it| !it.is_answered && !it.is_cancelled);
        open.map(|request| request.said).min()
    }

    /// So many requests were said in one array, this one first.
    pub(crate) fn group(&mut self, first: u64, count: u64) {
        self.groups.insert(first, count);
    }

    /// Whether a request was said with this one, or is it.
    fn is_of(&self, id: Option<u64>, first: Option<u64>) -> bool {
        let count = first.and_then(|first| self.groups.get(&first)).copied().unwrap_or(1);
        let range = first.map(|first| first..first + count);
        id.is_some_and(|id| range.is_some_and(|range| range.contains(&id)))
    }

    /// Requests that were said with this one, itself among them.
    fn group_of(&self, first: u64) -> impl Iterator<Item = &Request> {
        let count = self.groups.get(&first).copied().unwrap_or(1);
        self.requests.range(first..first + count).map(|(_, request)| request)
    }

    /// Whether nothing of a request, or of what was said with it, is to be answered.
    pub(crate) fn is_settled(&self, first: u64) -> bool {
        self.group_of(first).all(|request| request.is_answered || request.is_cancelled)
    }

    /// Whether some of several requests that were said together wait for their answers.
    pub(crate) fn is_part(&self, first: u64) -> bool {
        self.groups.contains_key(&first) && !self.is_settled(first)
    }

    /// An event was heard in a response that is about `request`, or about none; its message, where
    /// it is new and has one.
    ///
    /// # Errors
    ///
    /// What is against the order of events.
    pub(crate) fn hear_event(
        &mut self,
        carried: &mut Carried,
        event: &Event,
        request: Option<u64>,
    ) -> Result<Option<Value>, String> {
        let Some((stream, number)) = event.id else {
            return match &event.data {
                // Who is of 2024-11-05 cannot come back for anything.
                Some(data) if self.is_pair() => read(data).map(Some),
                Some(data) => Err(format!("an event has no name: {data}")),
                None => Ok(None),
            };
        };
        if *carried.stream.get_or_insert(stream) != stream {
            return Err(format!("stream {stream} goes on another: {carried:?}"));
        }
        let forgets = self.forgets;
        let known = self.streams.entry(stream).or_default();
        let expected = match carried.last {
            Some(last) => last + 1,
            // Without a name to go on after, nothing is said twice.
            None if stream == GENERAL => number.max(known.last() + 1),
            None => 1,
        };
        let is_gap = number > expected && forgets;
        if number != expected && !is_gap {
            return Err(format!("event {number} of stream {stream} comes as {expected}"));
        }
        carried.last = Some(number);
        if request.is_some() && known.request.is_none() && stream != GENERAL {
            known.request = request;
        }
        if request.is_some() && stream != GENERAL && known.request != request {
            return Err(format!(
                "stream {stream} is that of {:?}, not of {request:?}",
                known.request
            ));
        }
        let before = known.seen.insert(number, event.data.clone());
        match before {
            Some(before) if before != event.data => {
                Err(format!("event {stream}-{number} was {before:?}, and is {event:?}"))
            }
            Some(_) => Ok(None),
            None => event.data.as_deref().map(read).transpose(),
        }
    }

    /// A message was heard in a response that is about `request`, or about none; whether it is the
    /// answer.
    ///
    /// # Errors
    ///
    /// What is for nobody here, or comes twice.
    pub(crate) fn hear(&mut self, message: &Value, request: Option<u64>) -> Result<bool, String> {
        // Progress has no text in 2024-11-05: whose it is, its token tells.
        let is_plain = self.is_pair() && message["params"].get("progress").is_some();
        if !is_plain && !speech::is_for(message, self.guest) {
            return Err(format!("{message} is not for {}", self.guest));
        }
        let is_answer = message.get("method").is_none();
        if is_answer {
            return self.answer(message, request).map(|()| true);
        }
        if message["method"] == "notifications/progress" {
            let id = message["params"]["progressToken"].as_u64();
            if !self.is_of(id, request) {
                return Err(format!("{message} is said of {request:?}"));
            }
            let request = id.and_then(|id| self.requests.get_mut(&id));
            let request = request.ok_or_else(|| format!("nobody asked for {message}"))?;
            let progress = message["params"]["progress"].as_f64().unwrap_or_default();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
            let progress = progress as u64;
            let is_next = progress == request.progress + 1;
            // Where events are forgotten, what is behind a gap may be heard before what was still
            // on its way on another connection.
            if !(is_next || self.forgets) {
                return Err(format!("{message} comes after {}", request.progress));
            }
            request.progress = progress;
        }
        Ok(false)
    }

    fn answer(&mut self, message: &Value, request: Option<u64>) -> Result<(), String> {
        let id = message["id"].as_u64();
        if !self.is_of(id, request) {
            return Err(format!("{message} answers {request:?}"));
        }
        let asked = id.and_then(|id| self.requests.get_mut(&id));
        let asked = asked.ok_or_else(|| format!("nobody asked for {message}"))?;
        if asked.is_answered {
            return Err(format!("{message} is the second answer"));
        }
        asked.is_answered = true;
        Ok(())
    }

    /// A request named it and was told that it is not there; `ttl` where it may be idle for so
    /// long, none where anybody may have taken its place.
    ///
    /// # Errors
    ///
    /// Where it must be there.
    pub(crate) fn miss(&mut self, now: Moment, ttl: Option<Duration>) -> Result<(), String> {
        let busy = self.busy;
        let is_idle = ttl.is_none_or(|ttl| now > busy.after(ttl.saturating_sub(LATE_MAX)));
        if !(self.gone.is_some() || self.is_deleted || is_idle) {
            return Err(format!("a session has gone that was busy at {busy:?}"));
        }
        self.gone.get_or_insert(now);
        Ok(())
    }

    /// Requests that are not answered and whose streams can be asked for: stream and last event.
    pub(crate) fn unfinished(&self) -> Vec<(u32, u32)> {
        let is_open = |stream: &Stream| {
            !stream.is_lost && stream.request.is_some_and(|first| !self.is_settled(first))
        };
        let open = self.streams.iter().filter(|(_, stream)| is_open(stream));
        open.map(|(number, stream)| (*number, stream.last())).collect()
    }

    /// Whether a stream cannot be over yet: its request is not cancelled, and works on.
    pub(crate) fn must_be_open(&self, stream: u32, now: Moment) -> bool {
        let request = self.streams.get(&stream).and_then(|stream| stream.request);
        let is_open =
            |it: &Request| !it.is_cancelled && !it.is_answered && now < it.said.after(it.least);
        request.is_some_and(|first| self.group_of(first).any(is_open))
    }

    /// Whether a stream that is over must still be there: its client has not heard its answer, and
    /// has not had so many that there are newer ones enough.
    pub(crate) fn must_be_kept(&self, stream: u32, now: Moment) -> bool {
        let request = self.streams.get(&stream).and_then(|stream| stream.request);
        let request = request.and_then(|id| self.requests.get(&id));
        let is_missed = request
            .is_some_and(|it| !it.is_cancelled && !it.is_answered && now < it.said.after(KEPT_MIN));
        is_missed && self.requests.len() <= STREAMS_KEPT_MIN && !self.forgets
    }
}

/// Reads a message.
pub(crate) fn read(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("{text} is no JSON: {error}"))
}

/// How long a stream is kept at least when it is over, and how many.
const KEPT_MIN: Duration = Duration::from_mins(1);
const STREAMS_KEPT_MIN: usize = 16;
/// How late anything may be: naps, delays, the way between shards.
const LATE_MAX: Duration = Duration::from_millis(25);
