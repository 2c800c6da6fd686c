//! The authorization of a link, which has one or not.

use super::flow_run::FlowRun;
use super::server_authorization::{FlowEnd, HttpAuthorization, Verdict};
use crate::base::time::Instant;
use crate::client::io::http::exchange::{Exchange, RequestAuthorization};
use crate::client::io::http::queue::HttpQueue;
use crate::client::io::http::session_input::SessionInput;
use crate::engine::ring::{Ring, Socket};
use crate::transport::http::client::response_head::ResponseHead;

#[derive(Debug)]
pub(in crate::client::io) struct OptionalAuthorization(Option<Box<HttpAuthorization>>);

impl OptionalAuthorization {
    pub(in crate::client::io::http) fn new(authorization: Option<HttpAuthorization>) -> Self {
        Self(authorization.map(Box::new))
    }

    /// Returns what authorizes a request with this HTTP method.
    pub(in crate::client::io::http) fn fields(&self, method: &str) -> RequestAuthorization<'_> {
        self.0.as_ref().map(|authorization| authorization.fields(method)).unwrap_or_default()
    }

    /// Returns whether requests wait for a flow.
    pub(in crate::client::io::http) fn is_running(&self) -> bool {
        self.0.as_ref().is_some_and(|authorization| authorization.is_running())
    }

    /// Returns the flow that obtains tokens, while it runs.
    pub(in crate::client::io) fn run(&mut self) -> Option<&mut FlowRun> {
        self.0.as_mut()?.run()
    }

    /// Returns the running flow if `socket` is its connection.
    pub(in crate::client::io::http) fn run_of(&mut self, socket: Socket) -> Option<&mut FlowRun> {
        self.run().filter(|run| run.owns(socket))
    }

    /// Judges the response to `exchange`.
    pub(in crate::client::io::http) fn handle_response(
        &mut self,
        exchange: Exchange,
        head: &ResponseHead,
        queue: &mut HttpQueue,
        now: Instant,
    ) -> Verdict {
        match &mut self.0 {
            Some(authorization) => authorization.handle_response(exchange, head, queue, now),
            None => Verdict::Answer(exchange),
        }
    }

    /// Begins a flow if it is due, and ends one that has ended: the requests that the server has
    /// refused are sent again or fail.
    pub(in crate::client::io) fn advance(
        &mut self,
        queue: &mut HttpQueue,
        input: &mut SessionInput<'_>,
    ) {
        let Some(authorization) = &mut self.0 else { return };
        if !queue.waiting().is_empty() {
            authorization.refresh_if_due(input.now());
        }
        if authorization.is_running() {
            input.pause();
        }
        let Some(FlowEnd { mut parked, error }) = authorization.take_end() else { return };
        input.resume();
        // Others were cancelled meanwhile.
        parked.retain(|exchange| exchange.call().is_none_or(|id| input.is_waiting_for(id)));
        let Some(error) = error else { return queue.extend(parked) };
        for exchange in parked {
            input.fail_exchange(&exchange, &error, queue);
        }
    }

    /// Returns when [`OptionalAuthorization::expire`] must be called next.
    pub(in crate::client::io::http) fn deadline(&self) -> Option<Instant> {
        self.0.as_ref()?.deadline()
    }

    /// Ends what has timed out.
    pub(in crate::client::io::http) fn expire(&mut self, ring: &mut dyn Ring, now: Instant) {
        if let Some(authorization) = &mut self.0 {
            authorization.expire(ring, now);
        }
    }

    /// Ends the flow without an outcome.
    pub(in crate::client::io::http) fn cancel(&mut self, ring: &mut dyn Ring) {
        if let Some(authorization) = &mut self.0 {
            authorization.cancel(ring);
        }
    }
}
