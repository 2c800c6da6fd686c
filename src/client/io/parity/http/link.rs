//! The HTTP connections of one session.
//!
//! Invariants: a message is sent once, unless the server has closed the idle connection that it was
//! sent on; the session is lost with its event stream, since chunks may be.

use super::outbox::{Exchange, ParityOutbox};
use crate::base::time::Instant;
use crate::client::error::{ClientError, ClientErrorKind};
use crate::client::io::http::{ExchangeConnection, Response};
use crate::client::io::messages::request_writer;
use crate::client::io::parity_commands::ParityToken;
use crate::client::io::peer_handle::PeerHandle;
use crate::client::io::workspace::ParityWorkspace;
use crate::client::parity_session::{ParityMessageKind, ParityRequests};
use crate::client::target::HttpEndpoint;
use crate::engine::clock::unix_ms;
use crate::engine::ring::{Operation, Ring, Socket};
use crate::protocol::json::Parser;
use crate::transport::http::client::request_writer::{RequestFields, RequestWriter};
use crate::transport::http::client::response_head::{ResponseError, ResponseLimits};
use crate::transport::http::client::response_reader::ResponseEvent;

/// Time in which the server has to answer the end of the session.
const CLOSE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(2);
/// Status of a request in a session that has ended.
const NOT_FOUND: u16 = 404;

/// The session as responses reach it.
#[derive(Debug)]
pub(in crate::client::io::parity) struct HttpInput<'a> {
    pub(in crate::client::io::parity) requests: &'a mut ParityRequests<ParityToken>,
    pub(in crate::client::io::parity) parser: &'a mut Parser,
    pub(in crate::client::io::parity) workspace: &'a mut ParityWorkspace,
    pub(in crate::client::io::parity) now: Instant,
}

/// The connections, and what waits for them.
#[derive(Debug)]
pub(in crate::client::io::parity) struct ParityHttp {
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

impl ParityHttp {
    pub(in crate::client::io::parity) fn new(endpoint: &HttpEndpoint, handle: &PeerHandle) -> Self {
        let body_bytes_max = handle.config.options().message_bytes_max;
        Self {
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

    /// A handshake follows: what failed before is forgotten.
    pub(in crate::client::io::parity) fn begin(&mut self) {
        self.outbox = ParityOutbox::default();
        self.failure = None;
    }

    /// Returns where the session sends its messages.
    pub(in crate::client::io::parity) const fn outbox(&mut self) -> &mut ParityOutbox {
        &mut self.outbox
    }

    /// Returns why the session is lost, if it is.
    pub(in crate::client::io::parity) const fn failure(&self) -> Option<&ClientError> {
        self.failure.as_ref()
    }

    /// The session is ready. One that continues gets its chunks on the event stream.
    pub(in crate::client::io::parity) fn handle_ready(&mut self, resumed: bool) {
        if resumed {
            self.open_events();
        }
    }

    fn open_events(&mut self) {
        if !self.has_events {
            self.has_events = true;
            self.outbox.push_front(Exchange::Events);
        }
    }

    /// Starts the exchanges that can be. Returns the number of connections to open for others.
    pub(in crate::client::io::parity) fn advance<R: Ring>(&mut self, ring: &mut R) -> usize {
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

    /// Adds an open connection, unless the session that needed it is lost.
    pub(in crate::client::io::parity) fn handle_connected<R: Ring>(
        &mut self,
        ring: &mut R,
        socket: Socket,
    ) {
        self.connecting = self.connecting.saturating_sub(1);
        self.connections.push(ExchangeConnection::open(ring, socket));
    }

    /// Handles a connection that cannot be opened.
    pub(in crate::client::io::parity) fn handle_connect_failure(&mut self, error: ClientError) {
        self.connecting = self.connecting.saturating_sub(1);
        if self.close_deadline.is_some() {
            self.outbox = ParityOutbox::default();
        }
        self.fail(error);
    }

    /// The session is lost.
    fn fail(&mut self, error: ClientError) {
        self.failure.get_or_insert(error);
        if self.close_deadline.is_none() {
            self.outbox.end();
        }
    }

    /// Handles the end of a send.
    pub(in crate::client::io::parity) fn handle_sent(&mut self, socket: Socket) {
        if let Some(index) = self.index_of(socket) {
            self.connections[index].handle_sent();
        }
    }

    fn index_of(&self, socket: Socket) -> Option<usize> {
        self.connections.iter().position(|connection| connection.socket() == socket)
    }

    /// Handles received bytes.
    pub(in crate::client::io::parity) fn receive<R: Ring>(
        &mut self,
        ring: &mut R,
        (socket, bytes): (Socket, &[u8]),
        input: &mut HttpInput<'_>,
    ) {
        let mut from = 0;
        while let Some(index) = self.index_of(socket) {
            let Self { connections, outbox, limits, .. } = self;
            let event = connections[index].receive(bytes, &mut from, limits, |event| {
                // The acknowledgement of the handshake was the response to it.
                if event.event_type != b"handshake" {
                    let HttpInput { requests, parser, workspace, now } = &mut *input;
                    requests.receive(event.data, parser, &mut workspace.context(outbox, *now));
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

    /// Handles the end or the failure of a connection.
    pub(in crate::client::io::parity) fn handle_end<R: Ring>(
        &mut self,
        ring: &mut R,
        (socket, error): (Socket, &ClientError),
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
            self.abort(ring, index, error, input);
        }
    }

    fn remove<R: Ring>(&mut self, ring: &mut R, index: usize) -> ExchangeConnection<Exchange> {
        let connection = self.connections.swap_remove(index);
        ring.submit(Operation::Close(connection.socket()));
        connection
    }

    /// Ends the exchange of a connection with its response.
    fn finish<R: Ring>(&mut self, ring: &mut R, index: usize, input: &mut HttpInput<'_>) {
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
        let HttpInput { requests, parser, workspace, now } = input;
        requests.record_received(*now);
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
                exchange.request().into_iter().for_each(|id| requests.requeue(id));
                self.fail(refusal);
            }
            Exchange::Post(..) => {
                if is_handshake {
                    self.session_id.clone_from(&response.head.session_id);
                }
                let has_message = response.message().map(|message| {
                    let mut ctx = workspace.context(&mut self.outbox, *now);
                    requests.receive(message, parser, &mut ctx);
                });
                if is_handshake && has_message.is_none() {
                    self.fail(refusal);
                } else if let Some(id) = exchange.request() {
                    // Without its response the request has failed.
                    let error = requests.take_server_error().unwrap_or(refusal);
                    let mut ctx = workspace.context(&mut self.outbox, *now);
                    requests.fail_request(id, error, &mut ctx);
                }
            }
        }
    }

    /// Ends the exchange of a connection without its response.
    fn abort<R: Ring>(
        &mut self,
        ring: &mut R,
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
                let HttpInput { requests, workspace, now, .. } = input;
                let text = format!("the connection ended before the response: {error}");
                let error = ClientError::with_source(ClientErrorKind::Closed, text, error.clone());
                requests.fail_request(id, error, &mut workspace.context(&mut self.outbox, *now));
            }
            _ => self.fail(error.clone()),
        }
    }

    /// Ends the session on behalf of the client.
    pub(in crate::client::io::parity) fn begin_close<R: Ring>(
        &mut self,
        ring: &mut R,
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

    /// Returns when the end of the session is not waited for any more.
    pub(in crate::client::io::parity) const fn close_deadline(&self) -> Option<Instant> {
        self.close_deadline
    }

    /// Closes the connections and forgets the session.
    pub(in crate::client::io::parity) fn close<R: Ring>(&mut self, ring: &mut R) {
        for connection in self.connections.drain(..) {
            ring.submit(Operation::Close(connection.socket()));
        }
        self.outbox = ParityOutbox::default();
        (self.session_id, self.failure, self.has_events) = (None, None, false);
    }

    /// Returns whether an exchange is in flight, or waits for a connection.
    pub(in crate::client::io::parity) fn is_active(&self) -> bool {
        self.outbox.len() > 0 || self.connections.iter().any(|it| it.exchange().is_some())
    }
}

fn protocol(error: ResponseError) -> ClientError {
    ClientError::new(ClientErrorKind::Protocol, error.to_string())
}
