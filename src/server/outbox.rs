//! Effects: what a component wants done outside of its own state.
//!
//! A component pushes effects; the shard applies them in order, at the end of each step of a turn.
//! Immediate responses are no effects: dispatch writes them into the output buffer of the peer.
//!
//! Invariants: effects are applied in the order in which they were pushed; a connection is read
//! again only when all of them are applied, so that no immediate response overtakes a pushed
//! message; texts are stored in one buffer, so that a deferred message allocates nothing once the
//! buffer has grown.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;

use corelane_base::slab::Key;
use corelane_engine::mesh::ShardId;
use corelane_parity::error::{ErrorCode, ParityError};
use corelane_protocol::eras::LoggingLevel;
use corelane_protocol::error::{Error, ErrorKind};
use corelane_protocol::jsonrpc::{Id, IdBuf};
use corelane_protocol::message_head::MessageHead;
use corelane_protocol::model::{self, EncodedResponse};

use super::reply_to::{Outcome, ReplyTo};
use super::shard_message::{ExchangeAddress, HttpOutput, SessionMessage, ShardMessage};
use crate::connection::CloseReason;
use crate::telemetry::counters::Counters;
use crate::telemetry::event::Event;
use crate::telemetry::event::parity::{self as parity_event, RejectedFields, SentError};
use crate::telemetry::label::Transport;
use crate::telemetry::trace::{OpenSpan, Tracer};

/// What a component wants done outside of its own state; [`Outbox::push`] adds one, and the shard
/// applies it at the end of the step.
#[derive(Debug)]
pub(super) enum Effect {
    /// Completes a request in flight, sends its response, or the one with an error, and lets its
    /// connection be read again.
    Respond { to: ReplyTo, id: IdBuf, response: Result<Range<usize>, Box<Error>> },
    /// Completes a subscription stream with its result.
    EndSubscription { to: ReplyTo, id: IdBuf, text: Range<usize> },
    /// Sends a notification. `data` is its part in `text` that dialects without the text have, too.
    Notify { to: ReplyTo, kind: NotificationKind, text: Range<usize>, data: Range<usize> },
    /// Sends client request `number`, which fails if the peer cannot respond any more.
    Request { to: ReplyTo, number: u64, text: Range<usize> },
    /// Sends a message to a shard; the own shard handles it in the same turn.
    Forward { shard: ShardId, message: ShardMessage },
    /// Closes the reply target of a cancelled call.
    CloseReply(ReplyTo),
    /// Closes the SSE stream of a call; its client resumes it later.
    CloseStream(ReplyTo),
    /// Cancels the calls and client requests of a connection that reads no more responses.
    CancelCalls(Key),
    /// A message of a connection is no valid JSON-RPC message.
    RecordInvalidMessage(Key),
    /// So many requests of a connection wait that nothing more is read of it (stdio).
    HoldInput(Key),
    /// Continues a connection whose HTTP exchange has new output or has ended.
    AdvanceExchange(Key),
    /// Notifies a legacy session, which has opened its stream, of the lists that have changed.
    SendMissedLists(Key),
    /// Logs an event unless too many were logged lately.
    Log(Box<Event<'static>>),
    /// Closes a connection once its pending responses are sent.
    Close { key: Key, reason: CloseReason },
    /// Closes a connection at once.
    Cut { key: Key, reason: CloseReason },
    /// The input of a connection over stdio has ended: its calls have the drain timeout left.
    EndInput,
}

/// Which notifications are dropped, and how they are counted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum NotificationKind {
    /// Always sent.
    Required,
    /// Dropped while the output queue of the peer is full. Its data: the members of its params
    /// without the token, and the end of their object.
    Progress,
    /// A part of the result, ahead of it, for a client that reads such. Its data: that value, which
    /// is no message of MCP.
    Partial,
    /// Dropped while the output queue is full. A legacy session must have asked for `level`. Its
    /// data: the params.
    Log { level: LoggingLevel, is_modern: bool },
    /// Dropped while the output queue is full.
    TaskStatus,
}

/// A message to a peer, in the parts that its dialect writes an envelope around.
#[derive(Clone, Copy, Debug)]
pub(super) enum OutgoingMessage<'a> {
    /// The response to request `id` with its result.
    Result { id: Id<'a>, response: EncodedResponse<'a> },
    /// The response to request `id` with an error.
    Error { id: Id<'a>, error: &'a Error },
    /// A notification with its data.
    Notification { kind: NotificationKind, text: &'a [u8], data: &'a [u8] },
    /// A request of the server.
    Request(&'a [u8]),
}

impl<'a> OutgoingMessage<'a> {
    /// The response to request `id`, whose text is in `texts`.
    #[inline]
    pub(super) fn response(
        id: Id<'a>,
        response: &'a Result<Range<usize>, Box<Error>>,
        texts: &'a [u8],
    ) -> Self {
        match response {
            Ok(text) => Self::Result { id, response: EncodedResponse::new(&texts[text.clone()]) },
            Err(error) => Self::Error { id, error },
        }
    }

    /// Returns what it is in MCP.
    #[inline]
    pub(super) const fn outcome(&self) -> Outcome {
        match self {
            Self::Result { .. } => Outcome::Response,
            Self::Error { error, .. } => Outcome::Error(error.kind),
            Self::Notification { .. } | Self::Request(_) => Outcome::Notification,
        }
    }

    /// Returns the length of a result; 0 for other messages.
    #[inline]
    pub(super) const fn result_bytes(&self) -> usize {
        match self {
            Self::Result { response, .. } => response.as_bytes().len(),
            Self::Error { .. } | Self::Notification { .. } | Self::Request(_) => 0,
        }
    }

    /// Appends it as a message of MCP.
    #[inline]
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Result { response, .. } => out.extend_from_slice(response.as_bytes()),
            Self::Error { id, error } => model::write_error_response(out, Some(id), error, None),
            Self::Notification { text, .. } | Self::Request(text) => out.extend_from_slice(text),
        }
    }

    /// Returns it as a message of MCP.
    pub(super) fn text(&self) -> Cow<'a, [u8]> {
        match *self {
            Self::Result { response, .. } => response.as_bytes().into(),
            Self::Error { .. } => {
                let mut text = Vec::new();
                self.write(&mut text);
                text.into()
            }
            Self::Notification { text, .. } | Self::Request(text) => text.into(),
        }
    }
}

/// Effects with the buffer of their texts.
#[derive(Debug, Default)]
pub(super) struct Effects {
    pub(super) list: Vec<Effect>,
    pub(super) texts: Vec<u8>,
}

/// The effects that are not applied yet, and the counters and spans of all components.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    pub(super) counters: Counters,
    pub(super) tracer: Tracer,
    pushed: Effects,
    /// Connections to read again once all effects are applied.
    resumed: VecDeque<Key>,
    /// Buffers for reuse.
    spare: Effects,
}

/// Largest buffer of texts that is stored for reuse.
const TEXT_BYTES_KEPT_MAX: usize = 1 << 20;

impl Outbox {
    /// Creates an empty outbox whose spans go to `tracer`.
    pub(super) fn with_tracer(tracer: Tracer) -> Self {
        Self { tracer, ..Self::default() }
    }

    /// Returns whether all effects are applied and no connection waits to be read again.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.pushed.list.is_empty() && self.resumed.is_empty()
    }

    /// Returns the number of effects that are not applied, and of connections that wait for them.
    pub(super) fn len(&self) -> usize {
        self.pushed.list.len() + self.resumed.len()
    }

    /// Has a connection read again once all effects are applied.
    pub(super) fn resume_reading(&mut self, key: Key) {
        self.resumed.push_back(key);
    }

    /// Takes a connection to read again. Returns `None` while effects are left.
    pub(super) fn next_resumed(&mut self) -> Option<Key> {
        if self.pushed.list.is_empty() { self.resumed.pop_front() } else { None }
    }

    /// Takes the effects to apply. Return them with [`Outbox::recycle`].
    pub(super) fn take(&mut self) -> Effects {
        std::mem::replace(&mut self.pushed, std::mem::take(&mut self.spare))
    }

    /// Stores the buffers of applied effects for reuse.
    pub(super) fn recycle(&mut self, mut applied: Effects) {
        applied.list.clear();
        applied.texts.clear();
        if applied.texts.capacity() <= TEXT_BYTES_KEPT_MAX {
            self.spare = applied;
        }
    }

    pub(super) fn push(&mut self, effect: Effect) {
        self.pushed.list.push(effect);
    }

    /// Sends the response that `write` appends to the buffer, which may be an error instead.
    /// Returns the code of the error.
    pub(super) fn respond(
        &mut self,
        to: ReplyTo,
        id: IdBuf,
        write: impl FnOnce(&IdBuf, &mut Vec<u8>) -> Result<(), Error>,
    ) -> Option<i32> {
        let texts = &mut self.pushed.texts;
        let start = texts.len();
        let written = write(&id, texts);
        let response = match written {
            Ok(()) => Ok(start..texts.len()),
            Err(error) => {
                texts.truncate(start);
                self.count_error(&error);
                Err(Box::new(error))
            }
        };
        let error_code = response.as_ref().err().map(|error| error.code);
        self.push(Effect::Respond { to, id, response });
        error_code
    }

    /// Sends the notification that `write` appends to the buffer.
    pub(super) fn notify(
        &mut self,
        to: ReplyTo,
        kind: NotificationKind,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let text = self.append(write);
        let data = text.end..text.end;
        self.push(Effect::Notify { to, kind, text, data });
    }

    /// Sends the notification that `write` appends to the buffer. `write` returns where its data
    /// stands.
    pub(super) fn notify_with_data(
        &mut self,
        to: ReplyTo,
        kind: NotificationKind,
        write: impl FnOnce(&mut Vec<u8>) -> Range<usize>,
    ) {
        let texts = &mut self.pushed.texts;
        let start = texts.len();
        let data = write(texts);
        let text = start..texts.len();
        self.push(Effect::Notify { to, kind, text, data });
    }

    /// Sends client request `number`, which `write` appends to the buffer.
    pub(super) fn request(&mut self, to: ReplyTo, number: u64, write: impl FnOnce(&mut Vec<u8>)) {
        let text = self.append(write);
        self.push(Effect::Request { to, number, text });
    }

    /// Completes subscription stream `id` with the result that `write` appends to the buffer.
    pub(super) fn end_subscription(
        &mut self,
        to: ReplyTo,
        id: IdBuf,
        write: impl FnOnce(&IdBuf, &mut Vec<u8>),
    ) {
        let text = self.append(|texts| write(&id, texts));
        self.push(Effect::EndSubscription { to, id, text });
    }

    /// Sends a message to a shard.
    pub(super) fn forward(&mut self, shard: ShardId, message: impl Into<ShardMessage>) {
        let message = message.into();
        self.push(Effect::Forward { shard, message });
    }

    /// Sends output of a session to an exchange of any shard.
    pub(super) fn write_exchange(&mut self, exchange: ExchangeAddress, output: HttpOutput) {
        self.forward(exchange.shard, SessionMessage::Output { exchange, output });
    }

    /// Logs an event unless too many were logged lately.
    #[cold]
    pub(super) fn log(&mut self, event: Event<'static>) {
        self.push(Effect::Log(Box::new(event)));
    }

    fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Range<usize> {
        let texts = &mut self.pushed.texts;
        let start = texts.len();
        write(texts);
        start..texts.len()
    }

    /// Counts a message that was sent, if any.
    #[inline]
    pub(super) const fn count_outcome(&mut self, outcome: Outcome) {
        self.counters.traffic.messages_out += !matches!(outcome, Outcome::None) as u64;
    }

    /// Counts a rejected message of the parity dialect by its error code.
    pub(super) const fn count_rejection(&mut self, code: ErrorCode) {
        let rejections = &mut self.counters.parity.rejections;
        let counter = match code {
            ErrorCode::VersionUnsupported => &mut rejections.version_unsupported,
            ErrorCode::FeatureNotAvailable => &mut rejections.feature_not_available,
            ErrorCode::Unauthorized => &mut rejections.unauthorized,
            ErrorCode::Forbidden => &mut rejections.forbidden,
            ErrorCode::RateLimited => &mut rejections.rate_limited,
            ErrorCode::PayloadTooLarge => &mut rejections.payload_too_large,
            ErrorCode::AlreadyProcessed => &mut rejections.already_processed,
            ErrorCode::Internal => &mut rejections.internal,
        };
        *counter += 1;
    }

    /// Counts a message of the parity dialect that is rejected without its session, and writes its
    /// line. `message`: its text, if that may be JSON.
    #[cold]
    pub(super) fn record_refusal(
        &mut self,
        transport: Transport,
        head: &MessageHead,
        message: &[u8],
        error: &ParityError,
    ) {
        self.count_rejection(error.code);
        if !parity_event::is_enabled() && !self.tracer.is_on() {
            return;
        }
        let message: serde_json::Value = serde_json::from_slice(message).unwrap_or_default();
        let id = head.id().map(|id| {
            let mut text = Vec::new();
            id.write(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        let fields = RejectedFields {
            is_request: head.has_method(),
            request_id: id.as_deref(),
            method: message["method"].as_str(),
            tool: message["params"]["name"].as_str(),
            traceparent: message["traceparent"].as_str(),
        };
        let ParityError { code, retryable, retry_after_ms, .. } = *error;
        let error = SentError { code: code.as_str(), retryable, retry_after_ms };
        let exported = self.begin_request_span(fields.is_request, fields.traceparent);
        parity_event::record_refusal(transport, &fields, error, exported);
    }

    /// Begins the span of a message of the parity dialect, if it is a request.
    pub(super) fn begin_request_span(
        &mut self,
        is_request: bool,
        traceparent: Option<&str>,
    ) -> Option<OpenSpan> {
        if !is_request {
            return None;
        }
        self.tracer.begin_parity(parity_event::REQUEST, traceparent)
    }

    /// Counts an error that is sent.
    pub(super) fn count_error(&mut self, error: &Error) {
        self.counters.errors.count(error.code);
        self.counters.requests.handler_panics +=
            u64::from(error.kind == ErrorKind::HandlerPanicked);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::reply_to::PeerId;

    const TO: ReplyTo = ReplyTo::standalone(PeerId::Connection(Key::from_bits(1)));

    #[test]
    fn texts_share_one_reused_buffer() {
        let mut outbox = Outbox::default();
        outbox.notify(TO, NotificationKind::Required, |text| text.extend_from_slice(b"one"));
        outbox.request(TO, 7, |text| text.extend_from_slice(b"two"));
        let effects = outbox.take();
        assert!(outbox.is_empty());
        let texts: Vec<&[u8]> = effects
            .list
            .iter()
            .map(|effect| match effect {
                Effect::Notify { text, .. } | Effect::Request { text, .. } => {
                    &effects.texts[text.clone()]
                }
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(texts, [b"one", b"two"]);
        let buffer = effects.texts.as_ptr();
        outbox.recycle(effects);
        drop(outbox.take());
        outbox.notify(TO, NotificationKind::Required, |text| text.push(b'3'));
        assert_eq!(outbox.take().texts.as_ptr(), buffer);
    }

    #[test]
    fn connections_are_read_after_all_effects() {
        let mut outbox = Outbox::default();
        let keys = [Key::from_bits(1), Key::from_bits(2)];
        for key in keys {
            outbox.resume_reading(key);
        }
        outbox.push(Effect::CancelCalls(keys[0]));
        assert_eq!(outbox.next_resumed(), None);
        drop(outbox.take());
        assert!(!outbox.is_empty());
        assert_eq!([outbox.next_resumed(), outbox.next_resumed()], keys.map(Some));
        assert!(outbox.is_empty());
    }

    #[test]
    fn failed_response_becomes_an_error() {
        let mut outbox = Outbox::default();
        outbox.notify(TO, NotificationKind::Required, |text| text.push(b'x'));
        outbox.respond(TO, Id::Signed(4).into(), |_, text| {
            text.extend_from_slice(b"half a result");
            Err(Error::invalid_params("no"))
        });
        let effects = outbox.take();
        let Effect::Respond { id, response: Err(error), .. } = &effects.list[1] else {
            panic!("{effects:?}");
        };
        let message = OutgoingMessage::Error { id: id.as_id(), error };
        assert!(matches!(message.outcome(), Outcome::Error(_)), "{message:?}");
        let text = String::from_utf8(message.text().into_owned()).unwrap();
        assert!(text.starts_with('{') && text.contains("\"id\":4"), "{text}");
        assert_eq!(effects.texts, b"x");
    }
}
