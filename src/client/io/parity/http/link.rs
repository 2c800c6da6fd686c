//! The HTTP connections of one session.
//!
//! Invariants: a message is sent once, unless the server has closed the idle connection that it was
//! sent on; the session is lost with its event stream, since chunks may be.

use std::sync::Arc;

use super::outbox::{Exchange, ParityOutbox};
use crate::base::time::Instant;
use crate::client::error::{ClientError, ClientErrorKind};
use crate::client::io::http::{
    ExchangeConnection, HttpCarrier, RedirectSender, Response, request_writer,
};
use crate::client::io::parity_commands::ParityToken;
use crate::client::io::peer_handle::PeerHandle;
use crate::client::io::stream::Loss;
use crate::client::io::workspace::Workspace;
use crate::client::parity_session::{ParityMessageKind, ParityRequests, ParityServerInfo};
use crate::client::target::{HttpEndpoint, Target};
use crate::engine::clock::unix_ms;
use crate::engine::ring::{Operation, Ring, Socket};
use crate::protocol::json::PaddedText;
use crate::transport::http::client::request_writer::{RequestFields, RequestWriter};
use crate::transport::http::client::response_head::{ResponseError, ResponseLimits};
use crate::transport::http::client::response_reader::ResponseEvent;

/// Time in which the server has to answer the end of the session.
const CLOSE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(2);
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
    connections: Vec<ExchangeConnection<Exchange>>,
    /// Connections that are being opened.
    connecting: usize,
    session_id: Option<Box<str>>,
    /// The event stream is requested or open.
    has_events: bool,
    /// Why the session is lost.
    failure: Option<ClientError>,
    /// When the end of the session is not waited for any more.
    close_deadline: Option<Instant>,
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
            connections: Vec::new(),
            connecting: 0,
            session_id: None,
            has_events: false,
            failure: None,
            close_deadline: None,
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
        let mut ctx = input.workspace.parity.context(&mut self.outbox, input.now);
        input.requests.send_waiting(&mut ctx);
        if self.outbox.take_needs_events() {
            self.open_events();
        }
        while let Some(index) = self.connections.iter().position(ExchangeConnection::is_idle)
            && let Some(exchange) = self.outbox.pop()
        {
            let session_id = match exchange {
                Exchange::Post(ParityMessageKind::Handshake, _) => None,
                _ => self.session_id.as_deref(),
            };
            let fields = RequestFields { session_id, ..RequestFields::default() };
            let mut request = Vec::new();
            match &exchange {
                Exchange::Post(_, text) => self.messages.write_post(&mut request, &fields, text),
                Exchange::Events => self.events.write_get(&mut request, &fields),
                Exchange::Delete => self.messages.write_delete(&mut request, &fields),
            }
            self.connections[index].start(ring, exchange, request);
        }
        let missing = self.outbox.len().saturating_sub(self.connecting);
        self.connecting += missing;
        missing
    }

    fn handle_connected(&mut self, ring: &mut dyn Ring, socket: Socket) {
        self.connecting = self.connecting.saturating_sub(1);
        self.connections.push(ExchangeConnection::open(ring, socket));
    }

    fn handle_connect_failure(&mut self, error: ClientError, _input: &mut HttpInput<'_>) {
        self.connecting = self.connecting.saturating_sub(1);
        if self.close_deadline.is_some() {
            self.outbox = ParityOutbox::default();
        }
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
        while let Some(index) = self.index_of(socket) {
            let Self { connections, outbox, limits, .. } = self;
            let event = connections[index].receive(bytes, &mut from, limits, |event| {
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

    fn handle_sent(&mut self, socket: Socket, _is_failed: bool, _now: Instant) {
        if let Some(index) = self.index_of(socket) {
            self.connections[index].handle_sent();
        }
    }

    fn handle_end(
        &mut self,
        ring: &mut dyn Ring,
        socket: Socket,
        loss: &Loss,
        input: &mut HttpInput<'_>,
    ) {
        let Some(index) = self.index_of(socket) else { return };
        if self.connections[index].end_of_stream().unwrap_or(false) {
            self.finish(ring, index, input);
            // A body that ends with the connection.
            if let Some(index) = self.index_of(socket) {
                self.remove(ring, index);
            }
        } else {
            self.abort(ring, index, &loss.describe(&self.target), input);
        }
    }

    fn deadline(&self, _now: Instant) -> Option<Instant> {
        self.close_deadline
    }

    fn expire(&mut self, ring: &mut dyn Ring, input: &mut HttpInput<'_>) {
        if self.close_deadline.is_some_and(|deadline| deadline <= input.now) {
            self.close(ring);
        }
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
        self.connections.retain(|connection| {
            if !connection.is_idle() {
                ring.submit(Operation::Close(connection.socket()));
            }
            connection.is_idle()
        });
        if self.session_id.is_some() {
            self.outbox.push_front(Exchange::Delete);
            self.close_deadline = Some(now.after(CLOSE_TIMEOUT));
        }
    }

    fn is_closed(&self) -> bool {
        self.outbox.len() == 0 && self.connections.iter().all(|it| it.exchange().is_none())
    }

    fn close(&mut self, ring: &mut dyn Ring) {
        for connection in self.connections.drain(..) {
            ring.submit(Operation::Close(connection.socket()));
        }
        self.outbox = ParityOutbox::default();
    }
}

impl ParityHttp {
    fn open_events(&mut self) {
        if !self.has_events {
            self.has_events = true;
            self.outbox.push_front(Exchange::Events);
        }
    }

    /// The session is lost.
    fn fail(&mut self, error: ClientError) {
        self.failure.get_or_insert(error);
        if self.close_deadline.is_none() {
            self.outbox.end();
        }
    }

    fn index_of(&self, socket: Socket) -> Option<usize> {
        self.connections.iter().position(|connection| connection.socket() == socket)
    }

    fn remove(&mut self, ring: &mut dyn Ring, index: usize) -> ExchangeConnection<Exchange> {
        let connection = self.connections.swap_remove(index);
        ring.submit(Operation::Close(connection.socket()));
        connection
    }

    /// Ends the exchange of a connection with its response.
    fn finish(&mut self, ring: &mut dyn Ring, index: usize, input: &mut HttpInput<'_>) {
        let Some((exchange, response)) = self.connections[index].finish() else { return };
        if !response.head.keep_alive {
            self.remove(ring, index);
        }
        self.outbox.finish(&exchange);
        self.handle_response(&exchange, response, input);
    }

    fn handle_response(
        &mut self,
        exchange: &Exchange,
        mut response: Response,
        input: &mut HttpInput<'_>,
    ) {
        let status = response.head.status;
        let delay = response.head.retry_delay(unix_ms());
        let refusal = ClientError::from_http(status, &response.head.challenges, &response.body);
        let refusal = refusal.with_retry_after(delay);
        input.requests.record_received(input.now);
        let is_handshake = matches!(exchange, Exchange::Post(ParityMessageKind::Handshake, _));
        match exchange {
            Exchange::Delete => {}
            Exchange::Events => {
                let ended = "the server has ended the event stream";
                let ended = ClientError::new(ClientErrorKind::Closed, ended);
                self.fail(if status == 200 { ended } else { refusal });
            }
            Exchange::Post(..) if status == NOT_FOUND && !is_handshake => {
                // The message was not handled.
                exchange.request().into_iter().for_each(|id| input.requests.requeue(id));
                self.fail(refusal);
            }
            Exchange::Post(..) => {
                if is_handshake {
                    self.session_id.clone_from(&response.head.session_id);
                }
                let message = response.message();
                let is_empty = message.is_none();
                message.into_iter().for_each(|text| input.receive(text, &mut self.outbox));
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
        let (Some(exchange), _, met_idle_close) = self.remove(ring, index).abort() else { return };
        // Chunks may have been written to an event stream that has not begun for the client.
        if met_idle_close && matches!(exchange, Exchange::Post(..)) {
            return self.outbox.push_front(exchange);
        }
        self.outbox.finish(&exchange);
        match (&exchange, exchange.request()) {
            (Exchange::Delete, _) => {}
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
