//! One connection, which carries one exchange of any kind at a time.

use std::io;
use std::time::Duration;

use crate::io::loss::Loss;
use corelane_base::time::Instant;
use corelane_engine::ring::{Operation, Ring, Socket};
use corelane_engine::stream::{Sending, Sent};
use corelane_protocol::json::{PADDING_BYTES, PaddedText};
use corelane_transport::http::client::event_reader::{EventReader, ServerEvent};
use corelane_transport::http::client::response_head::{
    ResponseError, ResponseHead, ResponseLimits,
};
use corelane_transport::http::client::response_reader::{ResponseEvent, ResponseReader};

/// Time for which an idle connection is used again.
const IDLE_TIME_MAX: Duration = Duration::from_mins(1);
/// Time before the end that a server announces for an idle connection, in which it is not used.
const CLOSE_MARGIN: Duration = Duration::from_secs(1);

/// Time from the failure of a send to the end of its connection.
const SEND_FAILURE_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection with the exchange `E` that it carries.
#[derive(Debug)]
pub(super) struct HttpConnection<E> {
    socket: Socket,
    reader: ResponseReader,
    /// The body so far; of an event stream the part that is not read.
    body: Vec<u8>,
    events: EventReader,
    exchange: Option<E>,
    sending: Sending,
    /// The request could not be sent.
    has_failed: bool,
    /// A response was read before that of the exchange.
    is_reused: bool,
    /// A part of the response has arrived.
    has_response: bool,
    /// When an exchange without a timeout of the session is given up.
    deadline: Option<Instant>,
    /// When the idle connection is no longer used, because the server may be closing it.
    idle_deadline: Option<Instant>,
}

/// A request as it is sent.
#[derive(Debug)]
pub struct HttpRequest {
    pub bytes: Vec<u8>,
    /// When the exchange is given up, unless the session counts its time.
    pub deadline: Option<Instant>,
}

/// Why an exchange has ended without its response.
#[derive(Debug)]
pub enum ExchangeLoss<'a> {
    /// The response is invalid.
    Response(ResponseError),
    /// The connection has ended.
    Connection(&'a Loss),
    /// It was given up.
    Timeout,
}

/// An exchange that has ended without its response.
#[derive(Debug)]
pub struct LostExchange<E> {
    pub exchange: E,
    /// The event stream so far.
    pub(super) events: EventReader,
    /// Its connection was used before, and has ended without a part of the response: the server
    /// has closed it while it was idle.
    pub met_idle_close: bool,
}

/// A response whose messages have been passed on, as far as it is an event stream.
#[derive(Debug)]
pub struct HttpResponse {
    pub head: ResponseHead,
    pub body: Vec<u8>,
    pub(super) events: EventReader,
}

impl HttpResponse {
    /// Returns the body as a message; `None` if it is empty.
    pub fn message(&mut self) -> Option<PaddedText<'_>> {
        let length = self.body.len();
        if length == 0 {
            return None;
        }
        self.body.resize(length + PADDING_BYTES, 0);
        Some(PaddedText::new(&mut self.body, length))
    }
}

impl<E> HttpConnection<E> {
    /// Starts to receive.
    pub(super) fn open(ring: &mut dyn Ring, socket: Socket) -> Self {
        ring.submit(Operation::Receive(socket));
        Self {
            socket,
            reader: ResponseReader::new(),
            body: Vec::new(),
            events: EventReader::new(),
            exchange: None,
            sending: Sending::default(),
            has_failed: false,
            is_reused: false,
            has_response: false,
            deadline: None,
            idle_deadline: None,
        }
    }

    pub(super) const fn socket(&self) -> Socket {
        self.socket
    }

    pub(super) const fn exchange(&self) -> Option<&E> {
        self.exchange.as_ref()
    }

    /// Returns the exchange whose response has begun, with the head of that.
    pub(super) fn begun(&mut self) -> Option<(&mut E, &ResponseHead)> {
        self.exchange.as_mut().zip(self.reader.head())
    }

    pub(super) const fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Returns whether an exchange can be started.
    pub(super) const fn is_idle(&self) -> bool {
        self.exchange.is_none() && self.sending.is_idle() && !self.has_failed
    }

    /// Returns whether the server may be closing the connection because it is idle.
    pub(super) fn is_stale(&self, now: Instant) -> bool {
        self.is_idle() && self.idle_deadline.is_some_and(|deadline| deadline <= now)
    }

    /// Sends the request of an exchange.
    pub(super) fn start(&mut self, ring: &mut dyn Ring, exchange: E, request: HttpRequest) {
        (self.exchange, self.deadline) = (Some(exchange), request.deadline);
        self.has_response = false;
        self.sending.submit(ring, self.socket, request.bytes);
    }

    /// Handles the end of the send. If it has failed, a response may have arrived before, so the
    /// end of the connection is waited for.
    pub(super) fn handle_sent(
        &mut self,
        ring: &mut dyn Ring,
        buffer: Vec<u8>,
        result: &io::Result<usize>,
        now: Instant,
    ) {
        let sent = self.sending.handle_sent(ring, self.socket, buffer, result, false);
        if let Sent::Failed(_) = sent {
            let deadline = now.after(SEND_FAILURE_TIMEOUT);
            self.deadline = Some(self.deadline.map_or(deadline, |other| other.min(deadline)));
            self.has_failed = true;
        }
    }

    /// Reads `bytes[*from..]`, advances `from`, and passes complete events to `deliver`.
    pub(super) fn receive(
        &mut self,
        bytes: &[u8],
        from: &mut usize,
        limits: &ResponseLimits,
        mut deliver: impl FnMut(&E, ServerEvent<'_>),
    ) -> Result<ResponseEvent, ResponseError> {
        let Some(exchange) = &self.exchange else {
            let is_end = bytes.len() == *from;
            let unasked = ResponseError::Invalid("a response that no request asked for");
            return if is_end { Ok(ResponseEvent::NeedMore) } else { Err(unasked) };
        };
        self.has_response |= bytes.len() > *from;
        let event = self.reader.next(bytes, from, limits, &mut self.body)?;
        if event != ResponseEvent::HeadComplete
            && self.reader.head().is_some_and(ResponseHead::is_event_stream)
        {
            let mut read = 0;
            while self.events.next(&self.body, &mut read, limits.body_bytes_max)? {
                deliver(exchange, self.events.event());
            }
            self.body.clear();
        }
        Ok(event)
    }

    /// Handles the end of the stream. Returns whether it completes the response.
    pub(super) const fn end_of_stream(&mut self) -> Result<bool, ResponseError> {
        self.reader.end_of_stream()
    }

    /// Ends the exchange whose response is complete.
    pub(super) fn finish(&mut self, now: Instant) -> Option<(E, HttpResponse)> {
        let exchange = self.exchange.take()?;
        let head = self.reader.head()?.clone();
        let idle = head.keep_alive_seconds.map_or(IDLE_TIME_MAX, |seconds| {
            Duration::from_secs(seconds.into()).saturating_sub(CLOSE_MARGIN).min(IDLE_TIME_MAX)
        });
        (self.idle_deadline, self.deadline) = (Some(now.after(idle)), None);
        self.is_reused = true;
        let (body, events) = (std::mem::take(&mut self.body), std::mem::take(&mut self.events));
        Some((exchange, HttpResponse { head, body, events }))
    }

    /// Ends the exchange without a response.
    pub(super) fn abort(self) -> Option<LostExchange<E>> {
        let Self { exchange, events, is_reused, has_response, .. } = self;
        Some(LostExchange {
            exchange: exchange?,
            events,
            met_idle_close: is_reused && !has_response,
        })
    }
}
