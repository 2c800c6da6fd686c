//! Checks of response heads: which status may answer which request, and when.

use corelane::options::SecondStream;
use corelane_base::time::Instant;
use corelane_protocol::revision::Revision;

use super::connection::{HttpRequest, RequestKind};
use super::http_client::{HttpClient, RunConditions};
use crate::http_simulation::checks::response_reader::ResponseHead;
use crate::http_simulation::checks::session_checker::SessionChecker;

impl HttpClient {
    pub(super) fn check_head(
        &mut self,
        asked: &HttpRequest,
        head: &ResponseHead,
        now: Instant,
        facts: RunConditions,
    ) -> Result<(), String> {
        let status = head.status;
        let must_be_gone = match asked.session {
            Some(session) => {
                let checker = &mut self.sessions[session];
                let was_gone = checker.gone_since.is_some_and(|gone| gone <= asked.sent_at);
                if status == 404 {
                    // A legacy HTTP+SSE session ends with its stream, which may break unnoticed, or
                    // be closed for its unread output, the end of which arrives later.
                    let may_go =
                        checker.is_legacy_sse() && (facts.may_break || facts.has_small_buffers);
                    let ttl = facts
                        .session_ttl
                        .filter(|_| !self.is_slow && !self.has_stopped_reading && !may_go);
                    checker.record_not_found(now, ttl)?;
                }
                was_gone
            }
            None => false,
        };
        let is_fine = self.is_status_allowed(asked, status, must_be_gone, now, facts);
        if asked.kind == RequestKind::Delete
            && status == 204
            && let Some(session) = asked.session
        {
            self.sessions[session].gone_since.get_or_insert(now);
        }
        if asked.kind == RequestKind::Initialized && status == 202 {
            self.current_session = asked.session;
        }
        if asked.kind == RequestKind::Initialize && status == 200 {
            self.add_session(head, now, facts)?;
        }
        if let Some(strict) = facts.strict_revision {
            self.check_strict_head(asked, head, strict)?;
        }
        let described = || format!("status {status} does not answer {asked:?}");
        if is_fine { Ok(()) } else { Err(described()) }
    }

    /// Returns whether `status` may answer `asked`; `must_be_gone` if its session had ended before.
    fn is_status_allowed(
        &mut self,
        asked: &HttpRequest,
        status: u16,
        must_be_gone: bool,
        now: Instant,
        facts: RunConditions,
    ) -> bool {
        match (asked.kind, status) {
            // A connection that is opened during a drain is refused before its requests are read.
            (_, 503) if facts.may_exhaust_memory || facts.is_draining => true,
            (RequestKind::Status(expected) | RequestKind::Bodiless(expected), _) => {
                status == expected
            }
            (_, 503) if facts.session_ttl.is_none() || facts.may_exceed_in_flight => true,
            (
                RequestKind::Initialize
                | RequestKind::Modern
                | RequestKind::LegacySse
                | RequestKind::Subscribe,
                200,
            ) => true,
            // A batch larger than the limit of requests in flight.
            (RequestKind::Request, 400) => {
                facts.may_exceed_in_flight && self.is_partial_batch(asked)
            }
            (RequestKind::Request, 202) => {
                facts.strict_revision.is_some() && self.is_response_waived(asked, facts)
            }
            // The shard that owns a task is overloaded.
            (RequestKind::Modern | RequestKind::Request, 503) => {
                asked.id.is_some_and(|id| self.tracked_requests.contains_key(&id))
            }
            // A task that memory was short for, or whose TTL is over: its response says so.
            (RequestKind::Modern, 400) => asked.id.is_some_and(|id| self.is_about_task(id)),
            (RequestKind::Modern, _) => false,
            (_, 404) => asked.session.is_some(),
            _ if must_be_gone => false,
            (RequestKind::Request | RequestKind::GeneralStream | RequestKind::Resume(_), 200) => {
                true
            }
            (RequestKind::Notification | RequestKind::Initialized, 202)
            | (RequestKind::Delete, 204) => true,
            (RequestKind::GeneralStream, 409) => {
                facts.second_stream == SecondStream::Refuse && self.general_stream_count(asked) > 1
            }
            (RequestKind::GeneralStream, 400) => {
                asked.position.last.is_some() && facts.may_drop_events
            }
            (RequestKind::Resume(stream), 400) => self.record_lost_stream(asked, stream, now),
            _ => false,
        }
    }

    /// Every response of a strict server is a plain body and names the revision and the session.
    fn check_strict_head(
        &self,
        asked: &HttpRequest,
        head: &ResponseHead,
        strict: Revision,
    ) -> Result<(), String> {
        let session = asked.session.map(|session| &self.sessions[session].id);
        let is_named = head.session.as_ref() == session || asked.session.is_none();
        let is_named = is_named || !matches!(head.status, 200..=204);
        if head.is_stream || head.version.as_deref() != Some(strict.as_str()) || !is_named {
            return Err(format!("not the head of a strict server: {head:?}, to {asked:?}"));
        }
        Ok(())
    }

    fn is_partial_batch(&self, asked: &HttpRequest) -> bool {
        let session = asked.session.map(|session| &self.sessions[session]);
        session.zip(asked.id).is_some_and(|(checker, id)| checker.is_batch_partial(id))
    }

    /// Returns whether no response is due because the request was cancelled or the session ended.
    fn is_response_waived(&self, asked: &HttpRequest, facts: RunConditions) -> bool {
        let session = asked.session.map(|session| &self.sessions[session]);
        let is_over = |(checker, id): (&SessionChecker, u64)| {
            checker.is_batch_complete(id) || checker.is_deleted || checker.gone_since.is_some()
        };
        facts.is_draining || session.zip(asked.id).is_some_and(is_over)
    }

    pub(super) fn general_stream_count(&self, asked: &HttpRequest) -> u32 {
        asked.session.map_or(0, |session| self.sessions[session].general_streams)
    }

    /// Records that a stream cannot be resumed; returns whether that is allowed.
    pub(super) fn record_lost_stream(
        &mut self,
        asked: &HttpRequest,
        stream: u32,
        now: Instant,
    ) -> bool {
        let Some(session) = asked.session else { return false };
        let checker = &mut self.sessions[session];
        if checker.must_be_open(stream, now) || checker.must_be_kept(stream, now) {
            return false;
        }
        checker.streams.entry(stream).or_default().is_lost = true;
        true
    }

    fn add_session(
        &mut self,
        head: &ResponseHead,
        now: Instant,
        facts: RunConditions,
    ) -> Result<(), String> {
        let id = head.session.clone().ok_or("a new session has no id")?;
        self.shared_model.borrow_mut().add_session(&id)?;
        let revision = Revision::LATEST_LEGACY;
        let mut checker = SessionChecker::new(self.number, id, revision, now);
        checker.may_drop_events = facts.may_drop_events;
        self.sessions.push(checker);
        self.totals.sessions_created += 1;
        Ok(())
    }
}
