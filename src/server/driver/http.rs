//! HTTP: from requests to the road, and from what is said to answers.
//!
//! A request is admitted by its head, then by its message; what it is decides who answers: the road
//! at once, the page and its like, or a legacy session, which may live on another shard. A request
//! whose answer comes later opens an exchange, and its connection is held until that is over.
//!
//! What it keeps true: every request that was read gets one answer, in the order of the requests;
//! what is wrong with one harms no other, and ends the connection only where nobody can tell where
//! the next one begins.

mod exchanges;
mod hearing;
mod keeping;
mod plain;
mod posting;
mod sessions;
mod speaking;
mod upgrading;

mod pair;

use super::ShardDriver;
use crate::base::slab::Key;
use crate::base::time::Moment;
use crate::guard::origin::Blocked;
use crate::protocol::error::{Error, Kind as Fault};
use crate::protocol::message;
use crate::protocol::revision::Revision;
use crate::server::http::{Http, Manner, RETRY_AFTER_SECONDS};
use crate::server::session::Member;
use crate::transport::http::fields::{Allowed, Fields};
use crate::transport::http::head::{Field, Head, Verb};
use crate::transport::http::ladder::{self, Kind, Refusal, Step};
use crate::transport::http::limits;
use crate::transport::http::reader::{Assembled, Next};
use crate::transport::http::response::{self, Body, CONTINUE, Response};
use crate::transport::http::status::Status;

/// One request with the bytes of its head.
#[derive(Clone, Copy, Debug)]
struct Incoming<'a> {
    key: Key,
    head: &'a Head,
    bytes: &'a [u8],
    manner: Manner,
    now: Moment,
}

impl<'a> Incoming<'a> {
    fn origin(&self) -> Option<&'a [u8]> {
        self.head.field(self.bytes, Field::Origin)
    }

    /// The fields that every answer to it has.
    fn fields(&self) -> Fields<'a> {
        let origin = self.origin().map(Allowed::Origin);
        Fields { version: self.manner.version, origin, ..Fields::NONE }
    }
}

impl ShardDriver {
    /// Carries the requests of an arrival (`bytes[..length]`, the rest is padding); returns how far
    /// it came before the connection was not to be read any more.
    pub(super) fn read_requests(
        &mut self,
        key: Key,
        bytes: &mut [u8],
        length: usize,
        now: Moment,
    ) -> usize {
        let mut from = 0;
        self.http.begin_turn(self.road.calendar, now);
        loop {
            let limits = &self.http.limits;
            match self.link.next_request(key, &bytes[..length], &mut from, limits, now) {
                Next::Inside { head, start, body } => {
                    let (before, text) = bytes[start..].split_at_mut(body.start - start);
                    self.serve((key, &head), before, (text, body.len()), now);
                }
                Next::Assembled => {
                    let Some(request) = self.link.take_request(key) else { return length };
                    let Assembled { mut bytes, head, body } = request;
                    let (before, text) = bytes.split_at_mut(body.start);
                    self.serve((key, &head), before, (text, body.len()), now);
                    self.link.pool.give(bytes);
                }
                Next::Announced => self.foresee(key, now),
                Next::Refused(refusal) => {
                    self.refuse_framing(key, refusal);
                    return length;
                }
                Next::NeedMore => return from,
            }
            self.link.balance(key);
            if from == length {
                return length;
            }
        }
    }

    /// One request: admitted by its head, then served.
    fn serve(
        &mut self,
        (key, head): (Key, &Head),
        bytes: &[u8],
        (text, length): (&mut [u8], usize),
        now: Moment,
    ) {
        let incoming = Incoming { key, head, bytes, manner: manner(&self.http, head), now };
        let kind = match admit(&mut self.http, &incoming) {
            Ok(kind) => kind,
            Err(refusal) => return self.refuse(&incoming, &refusal),
        };
        match kind {
            Kind::Post { session, version } => {
                self.post(&incoming, (session, version), (text, length));
            }
            Kind::Stream { session, last_event } => {
                self.listen_to(&incoming, session, last_event);
            }
            Kind::End { session } => self.end_of_session(&incoming, session),
            Kind::Upgrade => self.upgrade(&incoming),
            Kind::Events => self.begin_pair(&incoming),
            Kind::Message { session } => {
                self.post_to_pair(&incoming, session, (text, length));
            }
            plain => self.answer_plain(&incoming, plain),
        }
    }

    /// A head whose body is still to come: a request that is refused by its head is refused now,
    /// and a client that waits for a word before it sends the body hears it.
    fn foresee(&mut self, key: Key, now: Moment) {
        let Some((head, bytes)) = self.link.announced(key) else { return };
        let manner = Manner { closes: true, ..manner(&self.http, head) };
        match admit(&mut self.http, &Incoming { key, head, bytes, manner, now }) {
            Ok(_) if !head.expects_continue => {}
            Ok(_) => {
                if let Some(out) = self.link.outgoing(key) {
                    out.extend_from_slice(CONTINUE);
                }
            }
            Err(refusal) => {
                let (head, bytes) = (head.clone(), bytes.to_vec());
                let incoming = Incoming { key, head: &head, bytes: &bytes, manner, now };
                self.refuse(&incoming, &refusal);
            }
        }
    }

    /// Answers a request that is refused before its message is looked at.
    fn refuse(&mut self, incoming: &Incoming<'_>, refusal: &Refusal) {
        self.road.counters.faults.http += 1;
        let Refusal { status, allow, error, step } = refusal;
        // A page of another origin is not told that this server is there.
        let origin = incoming.origin().filter(|_| *step != Step::Origin && *step != Step::Host);
        let origin = origin.map(Allowed::Origin);
        let takes_identity = *step == Step::ContentCoding;
        let fields = Fields { allow: *allow, takes_identity, origin, ..incoming.fields() };
        self.answer_error(incoming, (*status, fields), error);
    }

    /// Answers what is no request; nothing more is read.
    fn refuse_framing(&mut self, key: Key, refusal: limits::Refusal) {
        self.road.counters.faults.http += 1;
        let is_large = refusal.status == Status::CONTENT_TOO_LARGE;
        let kind = if is_large { Fault::TooLarge } else { Fault::InvalidRequest };
        let error = Error::new(kind, refusal.reason);
        self.road.count_error(&error);
        let date = self.http.date();
        let response = Response { closes: true, ..Response::new(refusal.status, Body::Json) };
        if let Some(out) = self.link.outgoing(key) {
            let mark = response::begin(out, &response, date);
            message::error(out, None, &error, None);
            response::end(out, mark);
        }
        if let Some(connection) = self.link.connections.get_mut(key) {
            connection.session.broken = true;
        }
    }

    /// Says why a connection ends, where no answer has begun: it was one too many, or it holds too
    /// much.
    pub(super) fn answer_unasked(&mut self, key: Key, error: &Error) {
        let Some(connection) = self.link.connections.get(key) else { return };
        if connection.session.exchange.is_some() {
            return;
        }
        let fields = Fields { retry_after_seconds: Some(RETRY_AFTER_SECONDS), ..Fields::NONE };
        let response =
            Response { closes: true, fields, ..Response::new(Status::UNAVAILABLE, Body::Json) };
        let date = *self.http.date();
        if let Some(out) = self.link.outgoing(key) {
            let mark = response::begin(out, &response, &date);
            message::error(out, None, error, None);
            response::end(out, mark);
        }
    }

    /// Answers a request with an error that names no id.
    fn answer_error(
        &mut self,
        incoming: &Incoming<'_>,
        (status, fields): (Status, Fields<'_>),
        error: &Error,
    ) {
        self.road.count_error(error);
        let mut text = self.draft();
        message::error(&mut text, None, error, None);
        self.answer(incoming, (status, Body::Json, fields), &text);
        self.text = text;
    }

    /// Answers a request whole, or without the body where it is a HEAD.
    fn answer(
        &mut self,
        incoming: &Incoming<'_>,
        (status, body, fields): (Status, Body, Fields<'_>),
        text: &[u8],
    ) {
        let Incoming { key, head, manner, .. } = *incoming;
        let date = self.http.date();
        let Manner { closes, is_chunked, .. } = manner;
        let response = Response { status, body, closes, is_chunked, fields };
        if let Some(out) = self.link.outgoing(key) {
            let mark = response::begin(out, &response, date);
            out.extend_from_slice(text);
            if head.verb == Verb::Head {
                response::end_without_body(out, mark);
            } else {
                response::end(out, mark);
            }
        }
        self.close_after(incoming);
    }

    /// Reads nothing more of a connection: it ends with the turn, when its answer is sent.
    pub(super) fn end_after_answer(&mut self, key: Key) {
        self.link.hold(key);
        if let Some(connection) = self.link.connections.get_mut(key) {
            connection.session.closes = true;
        }
        self.http.touched.push(key);
    }

    /// Ends the connection where its client wants no more than this answer.
    fn close_after(&mut self, incoming: &Incoming<'_>) {
        if incoming.manner.closes {
            self.end_after_answer(incoming.key);
        }
    }
}

/// How the answers to a request are to be written, as far as its head tells.
fn manner(http: &Http<Member>, head: &Head) -> Manner {
    let strict = http.profile.strict;
    Manner {
        is_chunked: head.minor_version > 0,
        closes: !head.keeps_alive || head.minor_version == 0,
        may_stream: strict.is_none() && head.accept.event_stream,
        is_modern: true,
        session: None,
        version: strict.map(Revision::as_str),
    }
}

/// Asks the guard and the ladder.
fn admit<'a>(http: &mut Http<Member>, incoming: &Incoming<'a>) -> Result<Kind<'a>, Refusal> {
    let Incoming { head, bytes, .. } = *incoming;
    let origin = incoming.origin();
    if let Err(blocked) = http.origin.admit(head.field(bytes, Field::Host), origin) {
        let step = match blocked {
            Blocked::Host => Step::Host,
            Blocked::Origin => Step::Origin,
        };
        return Err(step.refuse(blocked.message()));
    }
    ladder::admit_head(head, bytes, &http.profile)
}
