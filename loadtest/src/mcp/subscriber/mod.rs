//! One connection with subscriptions: its requests and the notifications it receives.
//!
//! It starts after the handshake. Over HTTP one request or stream is active at a time: legacy
//! `resources/subscribe` requests are posted first, then the session's stream is opened with GET.
//! Requests of the server on such a stream get no response.
//!
//! Invariants: a stream is open only after the server acknowledged all of it; no input causes a
//! panic.
//!
//! Source: MCP 2026-07-28, basic/patterns/subscriptions; 2025-11-25, basic/transports, "Listening
//! for Messages from the Server".

use super::answers::Answers;
use super::handshake::{ConnectError, body_of, refused};
use super::message_kind::{MessageKind, classify_message};
use super::subscription::{NotificationKind, Subscription};
use crate::metrics::outcome::Failure;
use crate::target::Transport;
use crate::wire::lines::LineReader;
use crate::wire::{Reader, WireEvent, frames, read_buffered};

/// Event of a connection with subscriptions.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SubscriberEvent {
    /// One of its streams opened.
    Opened,
    /// The stream at this position received a notification.
    Notified(usize),
    /// A notification that no open stream of the connection subscribed to.
    Stray,
    /// One of its streams ended.
    Ended,
    /// These bytes must be sent to the server.
    Send(Vec<u8>),
    /// The server closes the connection.
    Closing,
}

/// State of a stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum StreamState {
    Requested,
    Open,
    Ended,
}

/// A connection with subscriptions. Takes about 150 bytes, and over HTTP about 400 bytes for the
/// parser of the stream and two buffers as long as the longest event.
#[derive(Debug)]
pub struct Subscriber {
    reader: Reader,
    /// Received bytes that the reader has not consumed.
    buffered: Vec<u8>,
    session: Option<Box<str>>,
    streams: Box<[StreamState]>,
    /// Requests that were answered or acknowledged.
    answered: usize,
    /// Requests that were posted, over HTTP.
    requested: usize,
    /// Whether the GET request of the session's stream was sent and its response is awaited.
    is_opening_stream: bool,
    /// Whether all its streams were open at some time.
    has_opened: bool,
    /// Whether the reader keeps the beginning of responses.
    is_quoting: bool,
    /// Error in the body of an unfinished HTTP response, whose status takes precedence.
    refusal: Option<Box<ConnectError>>,
}

impl Subscriber {
    /// Creates the subscriber from the results of a handshake: the reader, its unconsumed bytes,
    /// and the session id. Appends the first requests to `out`.
    pub fn new(
        subscription: &Subscription,
        reader: Reader,
        mut buffered: Vec<u8>,
        session: Option<Box<str>>,
        out: &mut Vec<u8>,
    ) -> Self {
        buffered.shrink_to_fit();
        let streams = vec![StreamState::Requested; subscription.streams()].into();
        let mut listening = Self {
            reader,
            buffered,
            session,
            streams,
            answered: 0,
            requested: 0,
            is_opening_stream: false,
            has_opened: false,
            is_quoting: true,
            refusal: None,
        };
        if subscription.is_over(Transport::Http) {
            listening.write_next_request(subscription, out);
        } else {
            for place in 0..subscription.requests() {
                subscription.write_request(out, place, None);
            }
        }
        listening
    }

    /// Returns the number of open streams.
    pub fn open_streams(&self) -> usize {
        self.streams.iter().filter(|place| **place == StreamState::Open).count()
    }

    /// Returns `true` once, when all its streams are open for the first time.
    #[inline]
    pub fn is_newly_complete(&mut self) -> bool {
        if self.has_opened {
            return false;
        }
        self.has_opened = self.streams.iter().all(|place| *place == StreamState::Open);
        self.has_opened
    }

    /// Returns whether all its streams were open at some time.
    pub const fn has_opened(&self) -> bool {
        self.has_opened
    }

    /// Appends requests for streams that ended; returns whether there were any.
    pub fn reopen_ended_streams(&mut self, subscription: &Subscription, out: &mut Vec<u8>) -> bool {
        let before = out.len();
        for (place, stream) in self.streams.iter_mut().enumerate() {
            if *stream == StreamState::Ended {
                *stream = StreamState::Requested;
                subscription.write_request(out, place, None);
            }
        }
        out.len() > before
    }

    /// Processes received bytes and calls `on_event` for each result. Must be called once with no
    /// bytes after [`Subscriber::new`], because the handshake may have received more.
    ///
    /// # Errors
    ///
    /// Returns an error if the server refuses a subscription or sends invalid data.
    #[inline]
    pub fn receive(
        &mut self,
        subscription: &mut Subscription,
        arrived: &[u8],
        mut on_event: impl FnMut(SubscriberEvent),
    ) -> Result<(), ConnectError> {
        let mut buffered = std::mem::take(&mut self.buffered);
        read_buffered(&mut buffered, arrived, |bytes| {
            self.read_messages(subscription, bytes, &mut on_event)
        })?;
        self.buffered = buffered;
        Ok(())
    }

    /// Processes `bytes`; returns how many were consumed.
    fn read_messages(
        &mut self,
        subscription: &mut Subscription,
        bytes: &[u8],
        on_event: &mut impl FnMut(SubscriberEvent),
    ) -> Result<usize, ConnectError> {
        let mut from = 0;
        // Moved out, because its events borrow from it.
        let mut reader = std::mem::replace(&mut self.reader, Reader::Lines(LineReader::default()));
        let read = loop {
            let look = match reader.read_next(&bytes[from..]) {
                Ok(Some(look)) => look,
                Ok(None) => break Ok(from),
                Err(broken) => break Err(ConnectError::new(Failure::Garbage, broken.0.as_bytes())),
            };
            let (taken, event) = look;
            from += taken;
            let handled = match event {
                Some(event) => self.handle_event(subscription, event, on_event),
                None => Ok(()),
            };
            match handled {
                Err(refused) if self.awaits_status(&reader) => {
                    self.refusal.get_or_insert_with(|| Box::new(refused));
                }
                Err(refused) => break Err(refused),
                Ok(()) => {}
            }
            if self.is_quoting && self.open_streams() > 0 {
                // A stream stays open.
                self.is_quoting = false;
                reader.stop_quoting();
            }
            if self.is_opening_stream && reader.is_in_event_stream() {
                self.is_opening_stream = false;
                self.open_session_stream(on_event);
            }
        };
        self.reader = reader;
        read
    }

    /// Returns whether an error in a body is reported with the status of its response.
    const fn awaits_status(&self, reader: &Reader) -> bool {
        self.is_quoting
            && matches!(reader, Reader::Responses(_))
            && !reader.is_at_message_start()
            && !reader.is_in_event_stream()
    }

    fn handle_event(
        &mut self,
        subscription: &mut Subscription,
        event: WireEvent<'_>,
        on_event: &mut impl FnMut(SubscriberEvent),
    ) -> Result<(), ConnectError> {
        match event {
            WireEvent::Message(text) => return self.handle_message(subscription, text, on_event),
            WireEvent::ResponseEnd { status: status @ 300.., excerpt, .. } => {
                self.refusal = None;
                return Err(refused(status, body_of(excerpt)));
            }
            WireEvent::ResponseEnd { status, .. } => {
                if let Some(refusal) = self.refusal.take() {
                    let ConnectError { failure, message } = *refusal;
                    return Err(ConnectError { failure, message: format!("{status} {message}") });
                }
                return self.finish_http_response(subscription, on_event);
            }
            WireEvent::Reply(reply) => on_event(SubscriberEvent::Send(reply.to_vec())),
            WireEvent::Close => {
                let mut close_frame = Vec::new();
                frames::write_close(&mut close_frame);
                on_event(SubscriberEvent::Send(close_frame));
                on_event(SubscriberEvent::Closing);
            }
        }
        Ok(())
    }

    #[inline]
    fn handle_message(
        &mut self,
        subscription: &mut Subscription,
        text: &[u8],
        on_event: &mut impl FnMut(SubscriberEvent),
    ) -> Result<(), ConnectError> {
        if let Some(place) = subscription.match_template(text) {
            self.notify_stream(place, on_event);
            return Ok(());
        }
        match classify_message(text, |_| None) {
            MessageKind::Notification => match subscription.parse_notification(text) {
                NotificationKind::Change { id } => {
                    let place = id.map_or(Some(0), |id| subscription.position(id));
                    self.notify_stream(place.unwrap_or(usize::MAX), on_event);
                }
                NotificationKind::Acknowledged { id, is_complete: is_whole } => {
                    let place = id.and_then(|id| subscription.position(id));
                    let stream = place.and_then(|place| self.streams.get_mut(place));
                    let is_requested = stream.as_deref() == Some(&StreamState::Requested);
                    let Some(stream) = stream.filter(|_| is_requested && is_whole) else {
                        return Err(ConnectError::new(Failure::Wrong, text));
                    };
                    *stream = StreamState::Open;
                    on_event(SubscriberEvent::Opened);
                }
                NotificationKind::Unrequested => on_event(SubscriberEvent::Stray),
                NotificationKind::Other => {}
            },
            MessageKind::Request { id, method } if !subscription.is_over(Transport::Http) => {
                let response = Answers::default().response(id, method);
                let response = subscription.request_settings().frame(response.as_bytes());
                on_event(SubscriberEvent::Send(response));
            }
            MessageKind::Request { .. } => {}
            MessageKind::Response { id, failure } => {
                return self.handle_response(subscription, id, failure, text, on_event);
            }
            MessageKind::UnmatchedResponse { .. } => {
                return Err(ConnectError::new(Failure::Rpc, text));
            }
            MessageKind::Invalid => return Err(ConnectError::new(Failure::Garbage, text)),
        }
        Ok(())
    }

    #[inline]
    fn notify_stream(&mut self, place: usize, on_event: &mut impl FnMut(SubscriberEvent)) {
        match self.streams.get(place) {
            Some(StreamState::Open) => on_event(SubscriberEvent::Notified(place)),
            _ => on_event(SubscriberEvent::Stray),
        }
    }

    /// Handles a response: the end of a stream in the modern era, the result of a subscribe request
    /// in the legacy era.
    #[cold]
    fn handle_response(
        &mut self,
        subscription: &Subscription,
        id: u64,
        failure: Option<Failure>,
        text: &[u8],
        on_event: &mut impl FnMut(SubscriberEvent),
    ) -> Result<(), ConnectError> {
        let Some(place) = subscription.position(id) else {
            return Err(ConnectError::new(Failure::Wrong, text));
        };
        if subscription.is_modern() {
            if self.streams[place] != StreamState::Open {
                return Err(ConnectError::new(failure.unwrap_or(Failure::Wrong), text));
            }
            self.streams[place] = StreamState::Ended;
            on_event(SubscriberEvent::Ended);
            return Ok(());
        }
        if let Some(failure) = failure {
            return Err(ConnectError::new(failure, text));
        }
        self.answered += 1;
        self.open_if_granted(subscription, on_event);
        Ok(())
    }

    /// Handles the end of an HTTP response: sends the next request, or ends the stream.
    #[cold]
    fn finish_http_response(
        &mut self,
        subscription: &Subscription,
        on_event: &mut impl FnMut(SubscriberEvent),
    ) -> Result<(), ConnectError> {
        let has_begun = self.streams.iter().any(|place| *place != StreamState::Requested);
        if has_begun {
            if let Some(stream) = self.streams.iter_mut().find(|place| **place == StreamState::Open)
            {
                *stream = StreamState::Ended;
                on_event(SubscriberEvent::Ended);
            }
            on_event(SubscriberEvent::Closing);
            return Ok(());
        }
        let is_answered = self.answered == self.requested;
        if subscription.is_modern() || self.is_opening_stream || !is_answered {
            return Err(ConnectError::new(
                Failure::Wrong,
                b"HTTP response without a JSON-RPC response",
            ));
        }
        let mut request = Vec::new();
        self.write_next_request(subscription, &mut request);
        on_event(SubscriberEvent::Send(request));
        Ok(())
    }

    /// Writes the next POST request, or after the last one the GET request of the stream.
    fn write_next_request(&mut self, subscription: &Subscription, out: &mut Vec<u8>) {
        let session = self.session.as_deref();
        if self.requested < subscription.requests() {
            subscription.write_request(out, self.requested, session);
            self.requested += 1;
            return;
        }
        self.is_opening_stream = true;
        let settings = subscription.request_settings();
        settings.writer().write_get(out, &settings.http_fields(session));
    }

    /// Opens the stream of a legacy session, once all its subscribe requests succeeded.
    fn open_if_granted(
        &mut self,
        subscription: &Subscription,
        on_event: &mut impl FnMut(SubscriberEvent),
    ) {
        if !subscription.is_modern()
            && !subscription.is_over(Transport::Http)
            && self.answered >= subscription.requests()
        {
            self.open_session_stream(on_event);
        }
    }

    fn open_session_stream(&mut self, on_event: &mut impl FnMut(SubscriberEvent)) {
        if let Some(stream @ StreamState::Requested) = self.streams.first_mut() {
            *stream = StreamState::Open;
            on_event(SubscriberEvent::Opened);
        }
    }
}

#[cfg(test)]
mod tests;
