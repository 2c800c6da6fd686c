//! The HTTP connections to one server, and the exchanges on them.
//!
//! Invariants: every exchange ends once; a request of the session whose exchange ends without its
//! response is failed, resumed, or sent again if it has not run or may run twice.

use std::time::Duration;

use super::authorization::{
    FlowRun, HttpAuthorization, OptionalAuthorization, RedirectSender, Verdict,
};
use super::carrier::HttpCarrier;
use super::closing::Closing;
use super::connection::Response;
use super::exchange::{Exchange, ExchangeKind, StreamCursor, follow_redirect, note_stream};
use super::http_session::HttpSession;
use super::legacy_sse::LegacySse;
use super::path_search::PathSearch;
use super::pool::HttpPool;
use super::queue::HttpQueue;
use super::request_writer::request_writer;
use super::response::{end_error, handle_timeout, no_notifications, response_error, unresumed};
use super::seen_events::SeenEvents;
use super::session_input::SessionInput;
use super::stream_retries::StreamRetries;
use super::waiting::{ExchangeClass, HttpExchange};
use crate::base::time::Instant;
use crate::client::error::{ClientError, ClientErrorKind};
use crate::client::io::peer_handle::PeerHandle;
use crate::client::io::stream::Loss;
use crate::client::retry::RetryPolicy;
use crate::client::session::ServerInfo;
use crate::client::target::HttpEndpoint;
use crate::engine::ring::{Ring, Socket};
use crate::protocol::revision::Revision;
use crate::transport::http::client::request_writer::RequestWriter;
use crate::transport::http::client::response_head::{ResponseHead, ResponseLimits};
use crate::transport::http::client::response_reader::ResponseEvent;

/// Status of a request in a session that has ended (MCP 2025-11-25 basic/transports).
const NOT_FOUND: u16 = 404;

#[derive(Debug)]
pub(in crate::client::io) struct HttpLink {
    writer: RequestWriter,
    limits: ResponseLimits,
    /// Time for exchanges that have no timeout of the session, and for retries.
    timeout: Duration,
    policy: RetryPolicy,
    queue: HttpQueue,
    pool: HttpPool<Exchange>,
    session: HttpSession,
    retries: StreamRetries,
    seen: SeenEvents,
    closing: Closing,
    legacy_sse: LegacySse,
    authorization: OptionalAuthorization,
    path_search: PathSearch,
}

impl HttpCarrier for HttpLink {
    type Server = ServerInfo;
    type Queue = HttpQueue;
    type Input<'a> = SessionInput<'a>;

    fn new(
        endpoint: &HttpEndpoint,
        handle: &PeerHandle,
        redirects: &RedirectSender,
        seed: u64,
    ) -> Self {
        let authorization = HttpAuthorization::new(handle, redirects);
        let writer = request_writer(endpoint, handle);
        let body_bytes_max = handle.config.options().message_bytes_max;
        Self {
            path_search: PathSearch::new(&writer),
            writer,
            limits: ResponseLimits { body_bytes_max, ..Default::default() },
            timeout: handle.config.options().request_timeout,
            policy: handle.config.options().retry,
            queue: HttpQueue::default(),
            pool: HttpPool::default(),
            session: HttpSession::default(),
            retries: StreamRetries::new(&handle.reconnect, seed),
            seen: SeenEvents::default(),
            closing: Closing::default(),
            legacy_sse: LegacySse::default(),
            authorization: OptionalAuthorization::new(authorization),
        }
    }

    fn queue(&mut self) -> &mut HttpQueue {
        &mut self.queue
    }

    fn flow(&mut self) -> Option<&mut FlowRun> {
        self.authorization.run()
    }

    fn advance_authorization(&mut self, input: &mut SessionInput<'_>) {
        self.authorization.advance(&mut self.queue, input);
    }

    fn handle_ready(&mut self, server: &ServerInfo) {
        let revision = server.revision;
        self.queue.end_renewal();
        if !revision.is_modern() && self.legacy_sse.is_unused() {
            self.queue.push_back(Exchange::first_stream(revision));
        }
    }

    fn advance(&mut self, ring: &mut dyn Ring, input: &mut SessionInput<'_>) -> usize {
        while let Some(id) = self.queue.take_cancelled() {
            self.pool.close_call(ring, &mut self.queue, id);
        }
        if self.queue.waiting().is_exhausted() {
            self.close_abandoned(ring, input);
        }
        // The places of what was closed are free.
        input.send_waiting(&mut self.queue);
        let now = input.now();
        self.pool.close_stale(ring, now);
        if self.authorization.is_running() {
            return 0;
        }
        while let Some(index) = self.pool.idle()
            && let Some(mut exchange) = self.queue.begin_next(now)
        {
            let fields = self.authorization.fields(exchange.http_method());
            let request = exchange.write(&self.writer, self.session.current(), &fields);
            let deadline = exchange.timeout(self.timeout).map(|timeout| now.after(timeout));
            self.pool.get_mut(index).start(ring, exchange, request, deadline);
        }
        self.pool.begin_connects(self.queue.waiting(), now)
    }

    fn handle_connected(&mut self, ring: &mut dyn Ring, socket: Socket) {
        self.pool.add(ring, socket);
    }

    fn handle_connect_failure(&mut self, error: ClientError, input: &mut SessionInput<'_>) {
        if !self.pool.handle_connect_failure(input.now()) {
            return;
        }
        self.session.note_loss(self.queue.has_ordered_waiting());
        let failed = self.retries.handle_unconnected(&mut self.queue, &error, input.now());
        for (call, error) in failed {
            match call {
                Some(_) => input.fail(call, &error, &mut self.queue),
                None => input.refuse_stream(&error, &mut self.queue),
            }
        }
        self.closing.end();
    }

    fn receive(
        &mut self,
        ring: &mut dyn Ring,
        socket: Socket,
        bytes: &[u8],
        input: &mut SessionInput<'_>,
    ) {
        if let Some(flow) = self.authorization.run_of(socket) {
            return flow.receive(ring, bytes, input.now());
        }
        let mut from = 0;
        while let Some(index) = self.pool.index_of(socket) {
            let Self { pool, queue, seen, limits, .. } = self;
            let mut endpoint = None;
            let event = pool.get_mut(index).receive(bytes, &mut from, limits, |event| {
                let is_new = event.id.is_none_or(|id| seen.insert(id));
                match event.event_type {
                    b"message" if is_new && !event.data.as_bytes().is_empty() => {
                        input.receive(event.data, queue);
                    }
                    b"endpoint" => endpoint = Some(event.data.as_bytes().to_vec()),
                    _ => {}
                }
            });
            if let Some(endpoint) = endpoint {
                self.handle_endpoint(&endpoint, input);
            }
            match event {
                Ok(ResponseEvent::NeedMore) => return self.close_if_resumed(ring, index, input),
                Ok(ResponseEvent::HeadComplete) => {
                    let connection = self.pool.get_mut(index);
                    if connection.head().is_some_and(ResponseHead::is_event_stream)
                        && let Some(exchange) = connection.exchange_mut()
                    {
                        note_stream(exchange);
                    }
                    let connection = self.pool.get(index);
                    self.session.note(connection.exchange(), connection.head());
                    self.queue.note_head(connection.exchange());
                    self.retries.note_head(connection.exchange(), input.now());
                }
                Ok(ResponseEvent::Complete) => self.finish(ring, index, input),
                Err(error) => return self.abort(ring, index, &response_error(error), input),
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
        input: &mut SessionInput<'_>,
    ) {
        if let Some(flow) = self.authorization.run_of(socket) {
            return flow.handle_end(ring, loss.error().is_some(), input.now());
        }
        let Some(index) = self.pool.index_of(socket) else { return };
        match self.pool.get_mut(index).end_of_stream() {
            Ok(true) if loss.error().is_none() => self.finish(ring, index, input),
            _ => self.abort(ring, index, &end_error(loss), input),
        }
    }

    fn deadline(&self, now: Instant) -> Option<Instant> {
        let exchanges = self.pool.deadline(self.queue.waiting(), now);
        let authorization = self.authorization.deadline();
        Instant::earliest([exchanges, self.closing.deadline(), authorization])
    }

    fn expire(&mut self, ring: &mut dyn Ring, input: &mut SessionInput<'_>) {
        let now = input.now();
        self.pool.close_stale(ring, now);
        while let Some(index) = self.pool.expired(now) {
            let failure = handle_timeout(self.pool.get_mut(index));
            self.abort(ring, index, &failure, input);
        }
        self.close_abandoned(ring, input);
        self.authorization.expire(ring, now);
        self.closing.expire(now);
    }

    fn is_lost(&self) -> bool {
        self.legacy_sse.has_ended() || self.session.is_broken()
    }

    fn begin_close(&mut self, ring: &mut dyn Ring, server: Option<&ServerInfo>, now: Instant) {
        self.queue = HttpQueue::default();
        self.authorization.cancel(ring);
        self.pool.close(ring, self.session.current().is_some());
        self.closing = Closing::Done;
        if self.session.current().is_some() {
            let revision = server.map_or(Revision::LATEST_LEGACY, |server| server.revision);
            self.closing.begin(now);
            self.queue.push_back(Exchange::delete(revision));
        }
    }

    fn is_closed(&self) -> bool {
        self.closing == Closing::Done
    }

    fn close(&mut self, ring: &mut dyn Ring) {
        self.pool.close(ring, false);
        self.authorization.cancel(ring);
    }
}

/// Exchanges.
impl HttpLink {
    /// Closes the connections of requests that have ended: answered in another way, or expired.
    fn close_abandoned(&mut self, ring: &mut dyn Ring, input: &SessionInput<'_>) {
        self.pool.close_exchanges(ring, &mut self.queue, |exchange| {
            exchange.call().is_some_and(|id| !input.is_waiting_for(id))
        });
    }

    /// Handles the path that a server of HTTP with SSE names.
    fn handle_endpoint(&mut self, reference: &[u8], input: &mut SessionInput<'_>) {
        if self.writer.set_endpoint(reference) {
            self.queue.extend(self.legacy_sse.open());
        } else if let Some((initialize, error)) = self.legacy_sse.end() {
            tracing::debug!("the endpoint of HTTP with SSE is not on the same server");
            input.fail(initialize.call(), &error, &mut self.queue);
        }
    }

    /// Closes a stream that was resumed for a response once the response has arrived.
    fn close_if_resumed(&mut self, ring: &mut dyn Ring, index: usize, input: &SessionInput<'_>) {
        if let Some(ExchangeKind::Stream(StreamCursor { call: Some(id), .. })) =
            self.pool.get(index).exchange().map(Exchange::kind)
            && !input.is_waiting_for(*id)
        {
            let id = *id;
            self.pool.close_call(ring, &mut self.queue, id);
        }
    }

    /// Ends the exchange of a connection with its response.
    fn finish(&mut self, ring: &mut dyn Ring, index: usize, input: &mut SessionInput<'_>) {
        if let Some((exchange, response)) = self.pool.finish(ring, index, input.now()) {
            self.queue.finish(&exchange);
            self.handle_response(ring, exchange, response, input);
        }
    }

    fn handle_response(
        &mut self,
        ring: &mut dyn Ring,
        mut exchange: Exchange,
        mut response: Response,
        input: &mut SessionInput<'_>,
    ) {
        let status = response.head.status;
        if exchange.call().is_some_and(|id| !input.is_waiting_for(id)) {
            return;
        }
        if follow_redirect(&mut exchange, &response.head, &mut self.writer)
            || self.path_search.tries_other(&exchange, &response, &mut self.writer)
        {
            return self.queue.push_front(exchange);
        }
        let (started, now) = (response.started(), input.now());
        if let Some(delay) =
            exchange.postpone(&response.head, started, &self.policy, self.timeout, now)
        {
            let error = response.refusal();
            input.report_retry(exchange.retry_event(error.clone(), delay));
            input.note_refusal(exchange.call(), error);
            return self.queue.push_front(exchange);
        }
        let queue = &mut self.queue;
        let verdict = self.authorization.handle_response(exchange, &response.head, queue, now);
        let mut exchange = match verdict {
            Verdict::Answer(exchange) => exchange,
            Verdict::Kept => return,
            Verdict::Refused(exchange, error) => {
                return input.fail_exchange(&exchange, &error, &mut self.queue);
            }
        };
        let needs_stream = input.has_subscriptions() && self.session.may_end_with_stream();
        if status == NOT_FOUND
            && let Some(number) = exchange.leave_session(needs_stream)
        {
            return self.handle_lost_session(ring, exchange, number, input);
        }
        match exchange.kind() {
            ExchangeKind::Request { id, .. } => {
                let id = *id;
                self.finish_request(id, exchange, &mut response, input);
            }
            ExchangeKind::Message { .. } => {
                if !matches!(status, 200..300) {
                    tracing::debug!(status, "the server refused a message over HTTP");
                }
            }
            ExchangeKind::Stream(_) => self.finish_stream(exchange, &response, input),
            ExchangeKind::Delete => self.closing = Closing::Done,
        }
    }

    /// Handles the end of a stream, or its refusal.
    fn finish_stream(
        &mut self,
        exchange: Exchange,
        response: &Response,
        input: &mut SessionInput<'_>,
    ) {
        let (call, revision) = (exchange.call(), exchange.revision());
        let error = response.error(&response.excerpt());
        if call.is_some() {
            let next = response.next_cursor(exchange);
            return self.reopen(call, next, revision, &unresumed(&error), input);
        }
        let exchange = match response.head.status {
            500.. => self.retries.retry(exchange, &mut self.queue, input.now()),
            _ => Some(exchange),
        };
        if let Some(exchange) = exchange {
            self.reopen(None, response.next_cursor(exchange), revision, &error, input);
        }
    }

    fn finish_request(
        &mut self,
        id: u64,
        exchange: Exchange,
        response: &mut Response,
        input: &mut SessionInput<'_>,
    ) {
        // Parsing changes the text.
        let excerpt = response.excerpt();
        if response.is_json()
            && !response.is_unauthorized()
            && let Some(message) = response.message()
        {
            input.receive(message, &mut self.queue);
        }
        let status = response.head.status;
        let is_on_stream = self.legacy_sse.is_open() && matches!(status, 200..300);
        if is_on_stream || !input.is_waiting_for(id) {
            return;
        }
        let (queue, now) = (&mut self.queue, input.now());
        let retried = self.retries.retry_listen(exchange, Some(status), queue, now);
        let Some(exchange) = retried else { return };
        let error =
            if response.is_unauthorized() { response.refusal() } else { response.error(&excerpt) };
        if exchange.is_initialize() && self.legacy_sse.may_follow(status) {
            self.legacy_sse.begin(exchange, error);
            self.queue.push_back(Exchange::first_stream(Revision::V2024_11_05));
            return;
        }
        let revision = exchange.revision();
        let cursor = response.cursor(id).filter(|_| !revision.is_modern());
        self.reopen(Some(id), cursor, revision, &error, input);
    }

    /// Opens a stream again at `cursor`; without it the request that waits for it fails.
    fn reopen(
        &mut self,
        call: Option<u64>,
        cursor: Option<StreamCursor>,
        revision: Revision,
        error: &ClientError,
        input: &mut SessionInput<'_>,
    ) {
        match (cursor, call) {
            (_, None) if !self.legacy_sse.is_unused() => {
                if let Some((initialize, refusal)) = self.legacy_sse.end() {
                    let is_unauthorized =
                        matches!(error.kind(), ClientErrorKind::Unauthorized { .. });
                    let error = if is_unauthorized { error } else { &refusal };
                    input.fail(initialize.call(), error, &mut self.queue);
                }
            }
            (Some(cursor), _) => {
                self.queue.push_back(Exchange::of_stream(cursor, revision, input.now()));
            }
            (None, Some(_)) => input.fail(call, error, &mut self.queue),
            (None, None) => input.refuse_stream(&no_notifications(error), &mut self.queue),
        }
    }

    /// Begins a new session, unless that has happened; `exchange`, which has not run, waits for it.
    fn handle_lost_session(
        &mut self,
        ring: &mut dyn Ring,
        exchange: Exchange,
        number: u32,
        input: &mut SessionInput<'_>,
    ) {
        if self.session.lose(number, &exchange) {
            self.seen.clear();
            let is_stream = |exchange: &Exchange| exchange.class() == ExchangeClass::Unlimited;
            self.pool.close_exchanges(ring, &mut self.queue, is_stream);
            self.queue.begin_renewal(exchange);
            input.renew(&mut self.queue);
        } else {
            self.queue.push_front(exchange);
        }
    }

    /// Closes a connection whose response ended early or is invalid.
    fn abort(
        &mut self,
        ring: &mut dyn Ring,
        index: usize,
        failure: &ClientError,
        input: &mut SessionInput<'_>,
    ) {
        let (exchange, events, was_idle) = self.pool.remove(ring, index).abort();
        let Some(mut exchange) = exchange else { return };
        self.queue.finish(&exchange);
        if exchange.call().is_some_and(|id| !input.is_waiting_for(id)) {
            return;
        }
        let revision = exchange.revision();
        let is_lost = exchange.is_ordered() && failure.kind() == ClientErrorKind::Closed;
        // Also one that is not answered in time: its connection may have stalled.
        if (was_idle || exchange.is_ordered()) && exchange.allow_resend(&self.policy) {
            input.report_retry(exchange.retry_event(failure.clone(), Duration::ZERO));
            return self.queue.push_front(exchange);
        }
        let retried = self.retries.retry_listen(exchange, None, &mut self.queue, input.now());
        let Some(exchange) = retried else { return };
        match exchange.into_kind() {
            ExchangeKind::Request { id, .. } => {
                let cursor = StreamCursor::of_call(id, &events);
                let cursor = cursor.filter(|_| !revision.is_modern());
                self.reopen(Some(id), cursor, revision, failure, input);
            }
            ExchangeKind::Stream(cursor) => {
                let call = cursor.call;
                self.reopen(call, cursor.after(&events), revision, failure, input);
            }
            ExchangeKind::Message { .. } => {
                self.session.note_loss(is_lost);
                tracing::debug!(error = %failure, "a message over HTTP may be lost");
            }
            ExchangeKind::Delete => self.closing = Closing::Done,
        }
    }
}
