//! The rules of Streamable HTTP, and of HTTP with SSE before it.
//!
//! Invariant: a request of the session whose exchange ends without its response is failed, resumed,
//! or sent again if it has not run or may run twice.

use std::time::Duration;

use super::authorization::{FlowEnd, HttpAuthorization, RedirectSender, ResponseVerdict};
use super::connection::{ExchangeLoss, HttpRequest, HttpResponse, LostExchange};
use super::exchange::{ExchangeKind, McpExchange, StreamCursor};
use super::path_search::{LegacySse, PathSearch};
use super::pool::HttpPool;
use super::queue::HttpQueue;
use super::response::{loss_error, no_notifications, unresumed};
use super::rules::HttpRules;
use super::session::{HttpSession, McpAccess};
use super::stream_retries::{SeenEvents, StreamRetries};
use super::waiting::{ExchangeClass, HttpExchange, WaitingExchanges};
use crate::error::{ClientError, ClientErrorKind};
use crate::io::call_slot::CallToken;
use crate::io::peer_settings::PeerSettings;
use crate::retry::RetryPolicy;
use crate::session::{ServerInfo, Session};
use crate::target::HttpEndpoint;
use corelane_base::time::Instant;
use corelane_engine::ring::Ring;
use corelane_protocol::revision::Revision;
use corelane_transport::http::client::event_reader::ServerEvent;
use corelane_transport::http::client::request_writer::RequestWriter;
use corelane_transport::http::client::response_head::ResponseHead;

/// Status of a request in a session that has ended (MCP 2025-11-25 basic/transports).
const NOT_FOUND: u16 = 404;

#[derive(Debug)]
pub struct StreamableHttp {
    writer: RequestWriter,
    /// Time for exchanges that have no timeout of the session, and for retries.
    timeout: Duration,
    policy: RetryPolicy,
    queue: HttpQueue,
    session: HttpSession,
    retries: StreamRetries,
    seen: SeenEvents,
    legacy_sse: LegacySse,
    authorization: Option<Box<HttpAuthorization>>,
    path_search: PathSearch,
}

impl HttpRules for StreamableHttp {
    type Exchange = McpExchange;
    type Server = ServerInfo;
    type Session = Session<CallToken>;
    type Queue = HttpQueue;

    fn new(
        endpoint: &HttpEndpoint,
        settings: &PeerSettings,
        redirects: &RedirectSender,
        seed: u64,
    ) -> Self {
        let writer = settings.request_writer(endpoint);
        Self {
            path_search: PathSearch::new(&writer),
            writer,
            timeout: settings.config.options().request_timeout,
            policy: settings.config.options().retry,
            queue: HttpQueue::default(),
            session: HttpSession::default(),
            retries: StreamRetries::new(&settings.reconnect, seed),
            seen: SeenEvents::default(),
            legacy_sse: LegacySse::default(),
            authorization: HttpAuthorization::new(settings, redirects).map(Box::new),
        }
    }

    fn queue(&mut self) -> &mut HttpQueue {
        &mut self.queue
    }

    fn waiting(&mut self) -> &mut WaitingExchanges<McpExchange> {
        self.queue.waiting_mut()
    }

    fn authorization(&mut self) -> Option<&mut HttpAuthorization> {
        self.authorization.as_deref_mut()
    }

    /// Begins a flow if it is due, and ends one that has ended: the requests that the server has
    /// refused are sent again or fail.
    fn advance_authorization(&mut self, access: &mut McpAccess<'_>) {
        let Some(authorization) = &mut self.authorization else { return };
        if !self.queue.waiting().is_empty() {
            authorization.refresh_if_due(access.now);
        }
        if authorization.is_running() {
            access.session.pause(access.now);
        }
        let Some(FlowEnd { mut parked, error }) = authorization.take_end() else { return };
        access.session.resume(access.now);
        // Others were cancelled meanwhile.
        parked
            .retain(|exchange| exchange.call().is_none_or(|id| access.session.is_waiting_for(id)));
        let Some(error) = error else { return self.queue.extend(parked) };
        for exchange in parked {
            access.fail_exchange(&exchange, &error, &mut self.queue);
        }
    }

    fn handle_ready(&mut self, server: &ServerInfo) {
        let revision = server.revision;
        self.queue.end_renewal();
        if !revision.is_modern() && self.legacy_sse.is_unused() {
            self.queue.push_back(McpExchange::first_stream(revision));
        }
    }

    fn prepare(
        &mut self,
        ring: &mut dyn Ring,
        pool: &mut HttpPool<McpExchange>,
        access: &mut McpAccess<'_>,
    ) {
        while let Some(id) = self.queue.take_ended() {
            let is_of_call = |exchange: &McpExchange| exchange.call() == Some(id);
            pool.close_exchanges(ring, &mut self.queue, is_of_call);
        }
        if self.queue.waiting().is_exhausted() {
            self.expire(ring, pool, access);
        }
        // The places of what was closed are free.
        access.send_waiting(&mut self.queue);
    }

    fn write(&mut self, exchange: &mut McpExchange, now: Instant) -> HttpRequest {
        let authorization = self.authorization.as_ref();
        let fields = authorization.map(|it| it.fields(exchange.http_method())).unwrap_or_default();
        let bytes = exchange.write(&self.writer, self.session.current(), &fields);
        let deadline = exchange.timeout(self.timeout).map(|timeout| now.after(timeout));
        HttpRequest { bytes, deadline }
    }

    fn handle_head(&mut self, exchange: &mut McpExchange, head: &ResponseHead, now: Instant) {
        if head.is_event_stream() {
            exchange.note_stream();
        }
        self.session.note(exchange, head);
        self.queue.note_head(exchange);
        self.retries.note_head(exchange, now);
    }

    fn handle_sse_event(
        &mut self,
        exchange: &McpExchange,
        event: ServerEvent<'_>,
        access: &mut McpAccess<'_>,
    ) {
        let is_new = event.id.is_none_or(|id| self.seen.insert(id));
        match event.event_type {
            b"message" if is_new && !event.data.as_bytes().is_empty() => {
                access.receive(event.data, &mut self.queue);
            }
            b"endpoint" => self.handle_endpoint(event.data.as_bytes(), access),
            _ => {}
        }
        // A stream that was resumed for a response is of no use after it.
        if let ExchangeKind::Stream(StreamCursor { call: Some(id), .. }) = exchange.kind()
            && !access.session.is_waiting_for(*id)
        {
            self.queue.note_ended(*id);
        }
    }

    fn handle_response(
        &mut self,
        ring: &mut dyn Ring,
        pool: &mut HttpPool<McpExchange>,
        mut exchange: McpExchange,
        mut response: HttpResponse,
        access: &mut McpAccess<'_>,
    ) {
        self.queue.note_head(&exchange);
        let status = response.head.status;
        if exchange.call().is_some_and(|id| !access.session.is_waiting_for(id)) {
            return;
        }
        if exchange.follow_redirect(&response.head, &mut self.writer)
            || self.path_search.tries_other(&exchange, &response, &mut self.writer)
        {
            return self.queue.push_front(exchange);
        }
        let (started, now) = (response.started(), access.now);
        if let Some(delay) =
            exchange.postpone(&response.head, started, &self.policy, self.timeout, now)
        {
            let error = response.refusal();
            access.report_retry(exchange.retry_event(error.clone(), delay));
            access.note_refusal(exchange.call(), error);
            return self.queue.push_front(exchange);
        }
        let queue = &mut self.queue;
        let verdict = match &mut self.authorization {
            Some(it) => it.handle_response(exchange, &response.head, queue, now),
            None => ResponseVerdict::Answer(exchange),
        };
        let mut exchange = match verdict {
            ResponseVerdict::Answer(exchange) => exchange,
            ResponseVerdict::Kept => return,
            ResponseVerdict::Refused(exchange, error) => {
                return access.fail_exchange(&exchange, &error, queue);
            }
        };
        let needs_stream = access.session.has_subscriptions() && self.session.may_end_with_stream();
        if status == NOT_FOUND
            && let Some(number) = exchange.leave_session(needs_stream)
        {
            return self.handle_lost_session(ring, pool, exchange, number, access);
        }
        match exchange.kind() {
            ExchangeKind::Request { id, .. } => {
                let id = *id;
                self.finish_request(id, exchange, &mut response, access);
            }
            ExchangeKind::Message { .. } => {
                if !matches!(status, 200..300) {
                    tracing::debug!(status, "the server refused a message over HTTP");
                }
            }
            ExchangeKind::Stream(_) => self.finish_stream(exchange, &response, access),
            ExchangeKind::Delete => {}
        }
    }

    fn handle_loss(
        &mut self,
        lost: LostExchange<McpExchange>,
        loss: &ExchangeLoss<'_>,
        access: &mut McpAccess<'_>,
    ) {
        let LostExchange { mut exchange, events, met_idle_close } = lost;
        self.queue.note_head(&exchange);
        if exchange.call().is_some_and(|id| !access.session.is_waiting_for(id)) {
            return;
        }
        let failure = loss_error(&exchange, loss);
        let was_idle = met_idle_close && !matches!(loss, ExchangeLoss::Timeout);
        let revision = exchange.revision();
        let is_lost = exchange.is_ordered() && failure.kind() == ClientErrorKind::Closed;
        // Also one that is not answered in time: its connection may have stalled.
        if (was_idle || exchange.is_ordered()) && exchange.allow_resend(&self.policy) {
            access.report_retry(exchange.retry_event(failure.clone(), Duration::ZERO));
            return self.queue.push_front(exchange);
        }
        let retried = self.retries.retry_listen(exchange, None, &mut self.queue, access.now);
        let Some(exchange) = retried else { return };
        match exchange.into_kind() {
            ExchangeKind::Request { id, .. } => {
                let cursor = StreamCursor::of_call(id, &events);
                let cursor = cursor.filter(|_| !revision.is_modern());
                self.reopen(Some(id), cursor, revision, &failure, access);
            }
            ExchangeKind::Stream(cursor) => {
                let call = cursor.call;
                self.reopen(call, cursor.after(&events), revision, &failure, access);
            }
            ExchangeKind::Message { .. } => {
                self.session.note_loss(is_lost);
                tracing::debug!(error = %failure, "a message over HTTP may be lost");
            }
            ExchangeKind::Delete => {}
        }
    }

    fn handle_unconnected(
        &mut self,
        error: ClientError,
        is_last: bool,
        access: &mut McpAccess<'_>,
    ) {
        if !is_last {
            return;
        }
        self.session.note_loss(self.queue.has_ordered_waiting());
        let failed = self.retries.handle_unconnected(&mut self.queue, &error, access.now);
        for (call, error) in failed {
            match call {
                Some(_) => access.fail(call, &error, &mut self.queue),
                None => access.refuse_stream(&error, &mut self.queue),
            }
        }
    }

    /// Closes the connections of requests that have ended: answered in another way, or expired.
    fn expire(
        &mut self,
        ring: &mut dyn Ring,
        pool: &mut HttpPool<McpExchange>,
        access: &McpAccess<'_>,
    ) {
        pool.close_exchanges(ring, &mut self.queue, |exchange| {
            exchange.call().is_some_and(|id| !access.session.is_waiting_for(id))
        });
    }

    fn end(&mut self, server: Option<&ServerInfo>) -> bool {
        self.queue = HttpQueue::default();
        let has_session = self.session.current().is_some();
        if has_session {
            let revision = server.map_or(Revision::LATEST_LEGACY, |server| server.revision);
            self.queue.push_back(McpExchange::delete(revision));
        }
        has_session
    }

    fn is_lost(&self) -> bool {
        self.legacy_sse.has_ended() || self.session.is_broken()
    }
}

/// Exchanges.
impl StreamableHttp {
    /// Handles the path that a server of HTTP with SSE names.
    fn handle_endpoint(&mut self, reference: &[u8], access: &mut McpAccess<'_>) {
        if self.writer.set_endpoint(reference) {
            self.queue.extend(self.legacy_sse.open());
        } else if let Some((initialize, error)) = self.legacy_sse.end() {
            tracing::debug!("the endpoint of HTTP with SSE is not on the same server");
            access.fail(initialize.call(), &error, &mut self.queue);
        }
    }

    /// Handles the end of a stream, or its refusal.
    fn finish_stream(
        &mut self,
        exchange: McpExchange,
        response: &HttpResponse,
        access: &mut McpAccess<'_>,
    ) {
        let (call, revision) = (exchange.call(), exchange.revision());
        let error = response.error(&response.excerpt());
        if call.is_some() {
            let next = response.next_cursor(exchange);
            return self.reopen(call, next, revision, &unresumed(&error), access);
        }
        let exchange = match response.head.status {
            500.. => self.retries.retry(exchange, &mut self.queue, access.now),
            _ => Some(exchange),
        };
        if let Some(exchange) = exchange {
            self.reopen(None, response.next_cursor(exchange), revision, &error, access);
        }
    }

    fn finish_request(
        &mut self,
        id: u64,
        exchange: McpExchange,
        response: &mut HttpResponse,
        access: &mut McpAccess<'_>,
    ) {
        // Parsing changes the text.
        let excerpt = response.excerpt();
        if response.is_json()
            && !response.is_unauthorized()
            && let Some(message) = response.message()
        {
            access.receive(message, &mut self.queue);
        }
        let status = response.head.status;
        let is_on_stream = self.legacy_sse.is_open() && matches!(status, 200..300);
        if is_on_stream || !access.session.is_waiting_for(id) {
            return;
        }
        let (queue, now) = (&mut self.queue, access.now);
        let retried = self.retries.retry_listen(exchange, Some(status), queue, now);
        let Some(exchange) = retried else { return };
        let error =
            if response.is_unauthorized() { response.refusal() } else { response.error(&excerpt) };
        if exchange.is_initialize() && self.legacy_sse.may_follow(status) {
            self.legacy_sse.begin(exchange, error);
            self.queue.push_back(McpExchange::first_stream(Revision::V2024_11_05));
            return;
        }
        let revision = exchange.revision();
        let cursor = response.cursor(id).filter(|_| !revision.is_modern());
        self.reopen(Some(id), cursor, revision, &error, access);
    }

    /// Opens a stream again at `cursor`; without it the request that waits for it fails.
    fn reopen(
        &mut self,
        call: Option<u64>,
        cursor: Option<StreamCursor>,
        revision: Revision,
        error: &ClientError,
        access: &mut McpAccess<'_>,
    ) {
        match (cursor, call) {
            (_, None) if !self.legacy_sse.is_unused() => {
                if let Some((initialize, refusal)) = self.legacy_sse.end() {
                    let is_unauthorized =
                        matches!(error.kind(), ClientErrorKind::Unauthorized { .. });
                    let error = if is_unauthorized { error } else { &refusal };
                    access.fail(initialize.call(), error, &mut self.queue);
                }
            }
            (Some(cursor), _) => {
                self.queue.push_back(McpExchange::of_stream(cursor, revision, access.now));
            }
            (None, Some(_)) => access.fail(call, error, &mut self.queue),
            (None, None) => access.refuse_stream(&no_notifications(error), &mut self.queue),
        }
    }

    /// Begins a new session, unless that has happened; `exchange`, which has not run, waits for it.
    fn handle_lost_session(
        &mut self,
        ring: &mut dyn Ring,
        pool: &mut HttpPool<McpExchange>,
        exchange: McpExchange,
        number: u32,
        access: &mut McpAccess<'_>,
    ) {
        if self.session.lose(number, &exchange) {
            self.seen.clear();
            let is_stream = |exchange: &McpExchange| exchange.class() == ExchangeClass::Unlimited;
            pool.close_exchanges(ring, &mut self.queue, is_stream);
            self.queue.begin_renewal(exchange);
            access.renew(&mut self.queue);
        } else {
            self.queue.push_front(exchange);
        }
    }
}
