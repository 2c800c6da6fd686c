//! The parity dialect over HTTP: a request for each message, and one stream of events.
//!
//! Invariants: a message is sent once, unless the server has closed the idle connection that it was
//! sent on; the session is lost with its event stream, since chunks may be.

use std::sync::Arc;

use super::outbox::{ParityExchange, ParityOutbox};
use crate::base::time::Instant;
use crate::client::error::{ClientError, ClientErrorKind};
use crate::client::io::http::{
    Closing, HttpCarrier, HttpPool, RedirectSender, Response, request_writer,
};
use crate::client::io::parity_commands::ParityToken;
use crate::client::io::peer_handle::PeerHandle;
use crate::client::io::stream::Loss;
use crate::client::io::workspace::Workspace;
use crate::client::parity_session::{ParityMessageKind, ParityRequests, ParityServerInfo};
use crate::client::target::{HttpEndpoint, Target};
use crate::engine::clock::unix_ms;
use crate::engine::ring::{Ring, Socket};
use crate::protocol::json::PaddedText;
use crate::transport::http::client::request_writer::{RequestFields, RequestWriter};
use crate::transport::http::client::response_head::{ResponseError, ResponseLimits};
use crate::transport::http::client::response_reader::ResponseEvent;

/// Status of a request in a session that has ended.
const NOT_FOUND: u16 = 404;

/// The session as responses reach it.
#[derive(Debug)]
pub(in crate::client::io) struct HttpInput<'a> {
    pub(in crate::client::io::parity) requests: &'a mut ParityRequests<ParityToken>,
    pub(in crate::client::io::parity) workspace: &'a mut Workspace,
    pub(in crate::client::io::parity) now: Instant,
}

impl HttpInput<'_> {
    fn receive(&mut self, message: PaddedText<'_>, outbox: &mut ParityOutbox) {
        let Workspace { parser, parity, .. } = &mut *self.workspace;
        self.requests.receive(message, parser, &mut parity.context(outbox, self.now));
    }

    fn fail_request(&mut self, id: u64, error: ClientError, outbox: &mut ParityOutbox) {
        self.requests.fail_request(id, error, &mut self.workspace.parity.context(outbox, self.now));
    }
}

/// The connections, and what waits for them.
#[derive(Debug)]
pub(in crate::client::io) struct ParityHttp {
    target: Arc<Target>,
    messages: RequestWriter,
    events: RequestWriter,
    limits: ResponseLimits,
    outbox: ParityOutbox,
    pool: HttpPool<ParityExchange>,
    session_id: Option<Box<str>>,
    /// The event stream is requested or open.
    has_events: bool,
    /// Why the session is lost.
    failure: Option<ClientError>,
    closing: Closing,
}

impl HttpCarrier for ParityHttp {
    type Server = ParityServerInfo;
    type Queue = ParityOutbox;
    type Input<'a> = HttpInput<'a>;

    fn new(
        endpoint: &HttpEndpoint,
        handle: &PeerHandle,
        _redirects: &RedirectSender,
        _seed: u64,
    ) -> Self {
        let body_bytes_max = handle.config.options().message_bytes_max;
        Self {
            target: Arc::clone(&handle.target),
            messages: request_writer(endpoint, handle),
            events: request_writer(&endpoint.with_suffix("/events"), handle),
            limits: ResponseLimits { body_bytes_max, ..Default::default() },
            outbox: ParityOutbox::default(),
            pool: HttpPool::default(),
            session_id: None,
            has_events: false,
            failure: None,
            closing: Closing::default(),
        }
    }

    fn queue(&mut self) -> &mut ParityOutbox {
        &mut self.outbox
    }

    /// One that continues gets its chunks on the event stream.
    fn handle_ready(&mut self, server: &ParityServerInfo) {
        if server.resumed == Some(true) {
            self.open_events();
        }
    }

    fn advance(&mut self, ring: &mut dyn Ring, input: &mut HttpInput<'_>) -> usize {
        let now = input.now;
        let mut ctx = input.workspace.parity.context(&mut self.outbox, now);
        input.requests.send_waiting(&mut ctx);
        if self.outbox.take_needs_events() {
            self.open_events();
        }
        self.pool.close_stale(ring, now);
        while let Some(index) = self.pool.idle()
            && let Some(exchange) = self.outbox.waiting.begin_next(now)
        {
            let request = self.write(&exchange);
            self.pool.get_mut(index).start(ring, exchange, request, None);
        }
        self.pool.begin_connects(&self.outbox.waiting, now)
    }

    fn handle_connected(&mut self, ring: &mut dyn Ring, socket: Socket) {
        self.pool.add(ring, socket);
    }

    fn handle_connect_failure(&mut self, error: ClientError, input: &mut HttpInput<'_>) {
        self.pool.handle_connect_failure(input.now);
        self.closing.end();
        self.fail(error);
    }

    fn receive(
        &mut self,
        ring: &mut dyn Ring,
        socket: Socket,
        bytes: &[u8],
        input: &mut HttpInput<'_>,
    ) {
        let mut from = 0;
        while let Some(index) = self.pool.index_of(socket) {
            let Self { pool, outbox, limits, .. } = self;
            let event = pool.get_mut(index).receive(bytes, &mut from, limits, |event| {
                // The acknowledgement of the handshake was the response to it.
                if event.event_type != b"handshake" {
                    input.receive(event.data, outbox);
                }
            });
            match event {
                Ok(ResponseEvent::NeedMore) => return,
                Ok(ResponseEvent::HeadComplete) => {}
                Ok(ResponseEvent::Complete) => self.finish(ring, index, input),
                Err(error) => return self.abort(ring, index, &protocol(error), input),
            }
        }
    }

    fn handle_sent(&mut self, socket: Socket, is_failed: bool, now: Instant) {
        self.pool.handle_sent(socket, is_failed, now);
    }

    fn handle_end(
        &mut self,
        ring: &mut dyn Ring,
        socket: Socket,
        loss: &Loss,
        input: &mut HttpInput<'_>,
    ) {
        let Some(index) = self.pool.index_of(socket) else { return };
        match self.pool.get_mut(index).end_of_stream() {
            // A body that ends with the connection.
            Ok(true) if loss.error().is_none() => self.finish(ring, index, input),
            _ => self.abort(ring, index, &loss.describe(&self.target), input),
        }
    }

    fn deadline(&self, now: Instant) -> Option<Instant> {
        Instant::earliest([self.pool.deadline(&self.outbox.waiting, now), self.closing.deadline()])
    }

    fn expire(&mut self, ring: &mut dyn Ring, input: &mut HttpInput<'_>) {
        self.pool.close_stale(ring, input.now);
        while let Some(index) = self.pool.expired(input.now) {
            let error = Loss::EndOfStream(Ok(())).describe(&self.target);
            self.abort(ring, index, &error, input);
        }
        self.closing.expire(input.now);
    }

    fn is_lost(&self) -> bool {
        self.failure.is_some()
    }

    fn failure(&self) -> Option<&ClientError> {
        self.failure.as_ref()
    }

    fn begin_close(
        &mut self,
        ring: &mut dyn Ring,
        _server: Option<&ParityServerInfo>,
        now: Instant,
    ) {
        self.outbox = ParityOutbox::default();
        self.pool.close(ring, self.session_id.is_some());
        self.closing = Closing::Done;
        if self.session_id.is_some() {
            self.closing.begin(now);
            self.outbox.waiting.push_front(ParityExchange::Delete);
        }
    }

    fn is_closed(&self) -> bool {
        self.closing == Closing::Done
    }

    fn close(&mut self, ring: &mut dyn Ring) {
        self.pool.close(ring, false);
    }
}

impl ParityHttp {
    fn write(&self, exchange: &ParityExchange) -> Vec<u8> {
        let session_id = match exchange {
            ParityExchange::Post(ParityMessageKind::Handshake, _) => None,
            _ => self.session_id.as_deref(),
        };
        let fields = RequestFields { session_id, ..RequestFields::default() };
        let mut request = Vec::new();
        match exchange {
            ParityExchange::Post(_, text) => self.messages.write_post(&mut request, &fields, text),
            ParityExchange::Events => self.events.write_get(&mut request, &fields),
            ParityExchange::Delete => self.messages.write_delete(&mut request, &fields),
        }
        request
    }

    fn open_events(&mut self) {
        if !self.has_events {
            self.has_events = true;
            self.outbox.waiting.push_front(ParityExchange::Events);
        }
    }

    /// The session is lost.
    fn fail(&mut self, error: ClientError) {
        self.failure.get_or_insert(error);
        if self.closing == Closing::No {
            self.outbox.end();
        }
    }

    /// Ends the exchange of a connection with its response.
    fn finish(&mut self, ring: &mut dyn Ring, index: usize, input: &mut HttpInput<'_>) {
        let Some((exchange, response)) = self.pool.finish(ring, index, input.now) else { return };
        self.outbox.waiting.finish(&exchange);
        self.handle_response(&exchange, response, input);
    }

    fn handle_response(
        &mut self,
        exchange: &ParityExchange,
        mut response: Response,
        input: &mut HttpInput<'_>,
    ) {
        let status = response.head.status;
        let delay = response.head.retry_delay(unix_ms());
        let refusal = ClientError::from_http(status, &response.head.challenges, &response.body);
        let refusal = refusal.with_retry_after(delay);
        input.requests.record_received(input.now);
        let is_handshake =
            matches!(exchange, ParityExchange::Post(ParityMessageKind::Handshake, _));
        match exchange {
            ParityExchange::Delete => self.closing = Closing::Done,
            ParityExchange::Events => {
                let ended = "the server has ended the event stream";
                let ended = ClientError::new(ClientErrorKind::Closed, ended);
                self.fail(if status == 200 { ended } else { refusal });
            }
            ParityExchange::Post(..) if status == NOT_FOUND && !is_handshake => {
                // The message was not handled.
                exchange.request().into_iter().for_each(|id| input.requests.requeue(id));
                self.fail(refusal);
            }
            ParityExchange::Post(..) => {
                if is_handshake {
                    self.session_id.clone_from(&response.head.session_id);
                }
                let message = response.message();
                let is_empty = message.is_none();
                if let Some(message) = message {
                    input.receive(message, &mut self.outbox);
                }
                if is_handshake && is_empty {
                    self.fail(refusal);
                } else if let Some(id) = exchange.request() {
                    // Without its response the request has failed.
                    let error = input.requests.take_server_error().unwrap_or(refusal);
                    input.fail_request(id, error, &mut self.outbox);
                }
            }
        }
    }

    /// Ends the exchange of a connection without its response.
    fn abort(
        &mut self,
        ring: &mut dyn Ring,
        index: usize,
        error: &ClientError,
        input: &mut HttpInput<'_>,
    ) {
        let (Some(exchange), _, met_idle_close) = self.pool.remove(ring, index).abort() else {
            return;
        };
        self.outbox.waiting.finish(&exchange);
        // Chunks may have been written to an event stream that has not begun for the client.
        if met_idle_close && matches!(exchange, ParityExchange::Post(..)) {
            return self.outbox.waiting.push_front(exchange);
        }
        match (&exchange, exchange.request()) {
            (ParityExchange::Delete, _) => self.closing = Closing::Done,
            (_, Some(id)) => {
                let text = format!("the connection ended before the response: {error}");
                let error = ClientError::with_source(ClientErrorKind::Closed, text, error.clone());
                input.fail_request(id, error, &mut self.outbox);
            }
            _ => self.fail(error.clone()),
        }
    }
}

fn protocol(error: ResponseError) -> ClientError {
    ClientError::new(ClientErrorKind::Protocol, error.to_string())
}
