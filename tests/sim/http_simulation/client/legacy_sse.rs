//! A client of the legacy HTTP+SSE transport (2024-11-05): a stream that starts its session, and
//! messages that are posted elsewhere.
//!
//! Checks that each message is answered with an empty 202, that everything for the client comes on
//! the stream, that every request is answered there while it is open, and that stream and session
//! end together.

use std::time::Duration;

use corelane_base::time::Instant;
use corelane_engine::ring::sim::World;
use corelane_protocol::revision::Revision;
use serde_json::Value;

use super::connection::{HttpConnection, HttpRequest, RequestKind};
use super::http_client::{HttpClient, RunConditions};
use super::http_requests::{self, RequestStyle};
use crate::feature_simulation::messages;
use crate::http_simulation::checks::session_checker::SessionChecker;

impl HttpClient {
    /// Opens the stream on a connection of its own.
    pub(super) fn open_legacy_sse(&mut self, world: &World, now: Instant) {
        let text = http_requests::http_request("GET", "/sse", &[], None, RequestStyle::default());
        let place = self.connect(world, now);
        self.connections[place].send_request(
            HttpRequest::new(RequestKind::LegacySse, None, None, now),
            &text,
            now,
        );
    }

    /// Handles the `endpoint` event: the session begins.
    ///
    /// # Errors
    ///
    /// The URI is not a message endpoint.
    pub(super) fn handle_endpoint(
        &mut self,
        asked: &mut HttpRequest,
        place: &str,
        now: Instant,
    ) -> Result<(), String> {
        let id = place.strip_prefix("/messages?sessionId=");
        let id = id.filter(|_| asked.kind == RequestKind::LegacySse && asked.session.is_none());
        let Some(id) = id else { return Err(format!("invalid endpoint {place} for {asked:?}")) };
        self.shared_model.borrow_mut().add_session(id)?;
        self.sessions.push(SessionChecker::new(
            self.number,
            id.to_owned(),
            Revision::V2024_11_05,
            now,
        ));
        self.totals.sessions_created += 1;
        asked.session = Some(self.sessions.len() - 1);
        self.initialize_due = asked.session;
        Ok(())
    }

    /// Posts `initialize`.
    pub(super) fn initialize_legacy_sse(&mut self, session: usize, world: &World, now: Instant) {
        let id = self.new_id();
        let message = messages::initialize(id, Revision::V2024_11_05);
        let text = http_requests::post_message(
            &message,
            Some(self.sessions[session].name()),
            RequestStyle::default(),
        );
        self.send(
            HttpRequest::new(RequestKind::Notification, None, Some(session), now),
            &text,
            world,
            now,
        );
        self.sessions[session].record_request(id, Duration::ZERO, now);
    }

    /// Records that a connection has ended, and with it each session whose stream it carried. A
    /// posted message without its 202 may be lost.
    pub(super) fn record_closed(&mut self, line: &HttpConnection) {
        for asked in &line.requests {
            let Some(session) = asked.session else { continue };
            let checker = &mut self.sessions[session];
            if asked.kind == RequestKind::LegacySse {
                checker.is_deleted = true;
            } else if checker.is_legacy_sse() && asked.head.is_none() {
                checker.record_lost(asked.sent_at);
            }
        }
    }

    /// Records that writing was shut down on the connection of the stream of a session.
    pub(super) fn record_half_closed(&mut self, line: &HttpConnection) {
        if let Some(session) = line.legacy_sse_session().filter(|_| line.is_write_shut_down) {
            self.sessions[session].is_stream_half_closed = true;
        }
    }

    /// Checks that the stream of a session that is gone has ended.
    pub(super) fn check_legacy_sse_stream(
        &self,
        line: &HttpConnection,
        now: Instant,
        facts: RunConditions,
    ) -> Result<(), String> {
        let is_excused = self.is_slow || self.has_stopped_reading || facts.may_break;
        match line.legacy_sse_session().filter(|_| !is_excused) {
            Some(session) => self.sessions[session].check_stream_open(now),
            None => Ok(()),
        }
    }

    /// Returns when the oldest request was sent whose response must come on such a stream.
    pub(super) fn oldest_legacy_sse_request(&self) -> Option<Instant> {
        let checkers =
            self.sessions.iter().filter(|checker| checker.is_legacy_sse() && !checker.is_deleted);
        checkers.filter_map(SessionChecker::oldest_unanswered).min()
    }

    /// Returns whether one of those has waited longer than `span`.
    pub(super) fn is_legacy_sse_late(
        &self,
        now: Instant,
        facts: RunConditions,
        span: Duration,
    ) -> bool {
        let is_excused = self.is_slow || self.has_stopped_reading || facts.may_lose();
        let is_late =
            self.oldest_legacy_sse_request().is_some_and(|since| now >= since.after(span));
        is_late && !is_excused && self.connections.iter().all(|line| !line.is_write_shut_down)
    }
}

/// Returns the request that a message on the stream of a session belongs to.
pub(super) fn request_of(message: &Value) -> Option<u64> {
    let token = &message["params"]["progressToken"];
    message["id"].as_u64().filter(|_| message.get("method").is_none()).or_else(|| token.as_u64())
}
