//! The HTTP connections to one server, and the exchanges on them.
//!
//! Invariant: every exchange ends once, with its response or without; [`HttpRules`] says what that
//! means for the session.

use std::io;

use super::authorization::{FlowRun, RedirectSender};
use super::connection::ExchangeLoss;
use super::pool::HttpPool;
use super::rules::HttpRules;
use super::session::{Closing, SessionAccess};
use crate::error::ClientError;
use crate::io::loss::Loss;
use crate::io::peer_settings::PeerSettings;
use crate::target::HttpEndpoint;
use corelane_base::time::Instant;
use corelane_engine::ring::{Ring, Socket};
use corelane_transport::http::client::response_head::ResponseLimits;
use corelane_transport::http::client::response_reader::ResponseEvent;

/// The connections of one session, and what waits for them.
pub struct HttpLink<R: HttpRules> {
    pub rules: R,
    pool: HttpPool<R::Exchange>,
    limits: ResponseLimits,
    closing: Closing,
}

/// Connections.
impl<R: HttpRules> HttpLink<R> {
    /// Creates a link without connections. `seed` determines the delays of the session.
    pub fn new(
        endpoint: &HttpEndpoint,
        settings: &PeerSettings,
        redirects: &RedirectSender,
        seed: u64,
    ) -> Self {
        let body_bytes_max = settings.config.options().message_bytes_max;
        Self {
            rules: R::new(endpoint, settings, redirects, seed),
            pool: HttpPool::default(),
            limits: ResponseLimits { body_bytes_max, ..Default::default() },
            closing: Closing::default(),
        }
    }

    /// Returns the flow that authorizes the requests, while it runs.
    pub fn flow(&mut self) -> Option<&mut FlowRun> {
        self.rules.authorization()?.run()
    }

    /// Returns the running flow if `socket` is its connection.
    fn flow_of(&mut self, socket: Socket) -> Option<&mut FlowRun> {
        self.flow().filter(|flow| flow.owns(socket))
    }

    /// Lets the session send what it can, and starts the exchanges that can be. Returns the number
    /// of connections to open for others.
    pub fn advance(
        &mut self,
        ring: &mut dyn Ring,
        access: &mut SessionAccess<'_, R::Session>,
    ) -> usize {
        let now = access.now;
        let Self { rules, pool, .. } = self;
        rules.prepare(ring, pool, access);
        pool.close_stale(ring, now);
        if rules.authorization().is_some_and(|authorization| authorization.is_running()) {
            return 0;
        }
        while let Some(index) = pool.idle()
            && let Some(mut exchange) = rules.waiting().begin_next(now)
        {
            let request = rules.write(&mut exchange, now);
            pool.get_mut(index).start(ring, exchange, request);
        }
        pool.begin_connects(rules.waiting(), now)
    }

    /// Adds an open connection.
    pub fn handle_connected(&mut self, ring: &mut dyn Ring, socket: Socket) {
        self.pool.add(ring, socket);
    }

    /// Handles a connection that cannot be opened.
    pub fn handle_connect_failure(
        &mut self,
        error: ClientError,
        access: &mut SessionAccess<'_, R::Session>,
    ) {
        let is_last = self.pool.handle_connect_failure(access.now);
        self.rules.handle_unconnected(error, is_last, access);
        if is_last {
            self.closing.end();
        }
        self.end_if_done();
    }

    /// Handles received bytes.
    pub fn receive(
        &mut self,
        ring: &mut dyn Ring,
        socket: Socket,
        bytes: &[u8],
        access: &mut SessionAccess<'_, R::Session>,
    ) {
        if let Some(flow) = self.flow_of(socket) {
            return flow.receive(ring, bytes, access.now);
        }
        let mut from = 0;
        while let Some(index) = self.pool.index_of(socket) {
            let Self { rules, pool, limits, .. } = self;
            let connection = pool.get_mut(index);
            let event = connection.receive(bytes, &mut from, limits, |exchange, event| {
                rules.handle_sse_event(exchange, event, access);
            });
            match event {
                Ok(ResponseEvent::NeedMore) => return,
                Ok(ResponseEvent::HeadComplete) => {
                    if let Some((exchange, head)) = connection.begun() {
                        rules.handle_head(exchange, head, access.now);
                    }
                }
                Ok(ResponseEvent::Complete) => self.finish(ring, index, access),
                Err(error) => {
                    return self.abort(ring, index, &ExchangeLoss::Response(error), access);
                }
            }
        }
    }

    /// Handles the end of a send.
    pub fn handle_sent(
        &mut self,
        ring: &mut dyn Ring,
        socket: Socket,
        buffer: Vec<u8>,
        result: &io::Result<usize>,
        now: Instant,
    ) {
        if let Some(index) = self.pool.index_of(socket) {
            self.pool.get_mut(index).handle_sent(ring, buffer, result, now);
        }
    }

    /// Handles the end or the failure of a connection.
    pub fn handle_end(
        &mut self,
        ring: &mut dyn Ring,
        socket: Socket,
        loss: &Loss,
        access: &mut SessionAccess<'_, R::Session>,
    ) {
        if let Some(flow) = self.flow_of(socket) {
            return flow.handle_end(ring, loss.error().is_some(), access.now);
        }
        let Some(index) = self.pool.index_of(socket) else { return };
        match self.pool.get_mut(index).end_of_stream() {
            // A body that ends with the connection.
            Ok(true) if loss.error().is_none() => self.finish(ring, index, access),
            _ => self.abort(ring, index, &ExchangeLoss::Connection(loss), access),
        }
    }

    /// Returns when [`HttpLink::expire`] must be called next.
    pub fn deadline(&mut self, now: Instant) -> Option<Instant> {
        let authorization = self.rules.authorization().and_then(|it| it.deadline());
        let exchanges = self.pool.deadline(self.rules.waiting(), now);
        Instant::earliest([exchanges, self.closing.deadline(), authorization])
    }

    /// Ends what has timed out, and what the session no longer waits for.
    pub fn expire(&mut self, ring: &mut dyn Ring, access: &mut SessionAccess<'_, R::Session>) {
        let now = access.now;
        self.pool.close_stale(ring, now);
        while let Some(index) = self.pool.expired(now) {
            self.abort(ring, index, &ExchangeLoss::Timeout, access);
        }
        self.rules.expire(ring, &mut self.pool, access);
        if let Some(authorization) = self.rules.authorization() {
            authorization.expire(ring, now);
        }
        self.closing.expire(now);
    }

    /// Closes the connections, except those needed to end the session on the server.
    pub fn begin_close(&mut self, ring: &mut dyn Ring, server: Option<&R::Server>, now: Instant) {
        self.cancel_authorization(ring);
        let has_end = self.rules.end(server);
        self.pool.close(ring, has_end);
        self.closing = Closing::Done;
        if has_end {
            self.closing.begin(now);
        }
    }

    /// Returns whether nothing is left since [`HttpLink::begin_close`].
    pub fn is_closed(&self) -> bool {
        self.closing == Closing::Done
    }

    /// Closes the connections.
    pub fn close(&mut self, ring: &mut dyn Ring) {
        self.pool.close(ring, false);
        self.cancel_authorization(ring);
    }

    fn cancel_authorization(&mut self, ring: &mut dyn Ring) {
        if let Some(authorization) = self.rules.authorization() {
            authorization.cancel(ring);
        }
    }
}

/// Exchanges.
impl<R: HttpRules> HttpLink<R> {
    /// Ends the exchange of a connection with its response.
    fn finish(
        &mut self,
        ring: &mut dyn Ring,
        index: usize,
        access: &mut SessionAccess<'_, R::Session>,
    ) {
        let Some((exchange, response)) = self.pool.finish(ring, index, access.now) else { return };
        self.rules.waiting().finish(&exchange);
        self.rules.handle_response(ring, &mut self.pool, exchange, response, access);
        self.end_if_done();
    }

    /// Closes a connection whose response ended early or is invalid.
    fn abort(
        &mut self,
        ring: &mut dyn Ring,
        index: usize,
        loss: &ExchangeLoss<'_>,
        access: &mut SessionAccess<'_, R::Session>,
    ) {
        let Some(lost) = self.pool.remove(ring, index).abort() else { return };
        self.rules.waiting().finish(&lost.exchange);
        self.rules.handle_loss(lost, loss, access);
        self.end_if_done();
    }

    /// Ends the wait for a server that was told the end of the session.
    fn end_if_done(&mut self) {
        if self.closing != Closing::No
            && self.rules.waiting().is_empty()
            && !self.pool.has_exchanges()
        {
            self.closing.end();
        }
    }
}
