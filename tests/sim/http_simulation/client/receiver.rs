//! Receiving half of a client: checks what arrives against what was requested.
//!
//! Checks that responses come in the order of their requests and are allowed for them; that a
//! stream ends with its response or for a known reason; that a connection ends only if it may.

use corelane::options::SecondStream;
use corelane_base::time::Instant;
use corelane_protocol::revision::Revision;
use serde_json::Value;

use super::connection::{HttpConnection, HttpRequest, RequestKind};
use super::http_client::{HttpClient, RunConditions};
use super::http_requests;
use super::legacy_sse;
use crate::http_simulation::checks::response_reader::{ResponseHead, ResponsePart, SseEvent};
use crate::http_simulation::checks::session_checker::{self, SessionChecker};

impl HttpClient {
    /// Receives what has arrived on every connection, and drops those that have ended.
    ///
    /// # Errors
    ///
    /// Describes the violated rule.
    pub(super) fn receive_all(&mut self, now: Instant, facts: RunConditions) -> Result<(), String> {
        let mut lines = std::mem::take(&mut self.connections);
        for line in &lines {
            self.record_half_closed(line);
        }
        for line in &mut lines {
            self.receive(line, now, facts).map_err(|what| format!("{what}, on {line}"))?;
        }
        lines.retain(|line| {
            let is_over = line.socket.has_ended() || line.socket.is_reset();
            if is_over {
                line.socket.close();
                self.record_closed(line);
            }
            !is_over
        });
        self.connections = lines;
        Ok(())
    }

    fn receive(
        &mut self,
        line: &mut HttpConnection,
        now: Instant,
        facts: RunConditions,
    ) -> Result<(), String> {
        let received = line.socket.take_received();
        let received = self.proxy.borrow_mut().forward(
            line.socket.address(),
            &mut line.proxy_frames,
            received,
        );
        let is_over = line.socket.has_ended();
        if received.is_empty() && !is_over && !line.socket.is_reset() {
            self.check_legacy_sse_stream(line, now, facts)?;
            return self.check_notified(line, now, facts);
        }
        if !received.is_empty() {
            for byte in now.nanoseconds().to_le_bytes().iter().chain(&received) {
                self.digest = (self.digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
            }
        }
        line.reader.feed(&received);
        loop {
            let is_bare =
                matches!(line.requests.front().map(|it| it.kind), Some(RequestKind::Bodiless(_)));
            // A session whose client reads too slowly is closed at any point.
            let may_be_cut =
                facts.has_small_buffers && line.requests.iter().any(|it| it.session.is_some());
            let Some(piece) = line.reader.next_part(is_bare, is_over && !may_be_cut)? else {
                break;
            };
            let Some(mut asked) = line.requests.pop_front() else {
                return check_unrequested(&piece, facts);
            };
            if piece.has_content() {
                line.waiting_since = now;
            }
            let is_done = self.check_part(&mut asked, piece, now, facts)?;
            if let Some(edition) = self.seen_version.take() {
                line.check_version(edition)?;
            }
            let closes = asked.head.as_ref().is_some_and(|head| head.closes_connection);
            line.is_closing |= closes;
            if !is_done {
                line.requests.push_front(asked);
                continue;
            }
            line.waiting_since = now;
            if closes {
                // Requests behind it are not read.
                line.requests.clear();
            }
        }
        self.check_connection_end(line, facts)
    }

    /// Checks that a connection that has ended may end here.
    fn check_connection_end(
        &mut self,
        line: &HttpConnection,
        facts: RunConditions,
    ) -> Result<(), String> {
        let is_over = line.socket.has_ended();
        let is_broken = line.socket.is_reset();
        if is_over && !is_broken && !line.reader.is_idle() && !facts.may_break {
            let is_narrow =
                facts.has_small_buffers && line.requests.iter().any(|it| it.session.is_some());
            if !is_narrow && !line.is_write_shut_down && !facts.is_draining {
                return Err("the connection ends in the middle of a response".into());
            }
        }
        if !(is_over || is_broken) || line.requests.is_empty() {
            return Ok(());
        }
        self.totals.connection_resets += u64::from(is_broken);
        let may_end =
            facts.may_break || facts.is_draining || line.is_closing || line.is_write_shut_down;
        let is_full = facts.has_small_buffers || self.is_slow || line.is_reading_stopped;
        if may_end || is_full {
            return Ok(());
        }
        Err("the connection ends before the response".into())
    }

    /// Checks that a subscriber that reads was notified of the catalog versions made since.
    fn check_notified(
        &self,
        line: &HttpConnection,
        now: Instant,
        facts: RunConditions,
    ) -> Result<(), String> {
        let is_slow = self.is_slow
            || self.has_stopped_reading
            || facts.has_small_buffers
            || line.is_write_shut_down;
        let open = line.requests.front().filter(|asked| asked.is_endless() && !is_slow);
        // A legacy HTTP+SSE session is notified only after its handshake.
        let open = open.filter(|asked| asked.kind != RequestKind::LegacySse);
        // Each message is sent on one of the joined streams of a session.
        let open = open.filter(|asked| {
            facts.second_stream != SecondStream::Join || self.general_stream_count(asked) <= 1
        });
        let Some((asked, since)) = open.and_then(|asked| Some((asked, asked.opened_at?))) else {
            return Ok(());
        };
        self.shared_model.borrow().check_notified(since, asked.last_list_change, now)
    }

    /// Checks one part; returns whether the response is complete.
    fn check_part(
        &mut self,
        asked: &mut HttpRequest,
        piece: ResponsePart,
        now: Instant,
        facts: RunConditions,
    ) -> Result<bool, String> {
        // A refused request does not keep a session alive.
        let is_refused = |head: &ResponseHead| head.status >= 400;
        let session = asked.session.map(|session| &mut self.sessions[session]);
        if let Some(checker) = session
            && asked.head.as_ref().is_some_and(|head| !is_refused(head))
        {
            checker.last_used = now;
        }
        match piece {
            ResponsePart::Head(head) => {
                self.check_head(asked, &head, now, facts)?;
                asked.opened_at = Some(now);
                asked.head = Some(head);
                Ok(false)
            }
            ResponsePart::Event(event) => self.check_event(asked, &event, now).map(|()| false),
            ResponsePart::Body(body) => self.check_body(asked, &body, now, facts).map(|()| true),
            ResponsePart::End => self.check_stream_end(asked, facts).map(|()| true),
        }
    }

    fn check_event(
        &mut self,
        asked: &mut HttpRequest,
        event: &SseEvent,
        now: Instant,
    ) -> Result<(), String> {
        if event.is_endpoint {
            return self.handle_endpoint(asked, event.data.as_deref().unwrap_or_default(), now);
        }
        asked.has_retry |= event.retry.is_some() && event.id.is_none();
        let message = match asked.session {
            Some(session) => {
                self.sessions[session].check_event(&mut asked.position, event, asked.id)?
            }
            None if event.id.is_some() => {
                return Err(format!("{event:?} has an id outside of a session"));
            }
            None => event.data.as_deref().map(session_checker::parse_json).transpose()?,
        };
        // A resumed stream repeats what was sent before.
        let is_answer = |data: &String| data.contains("\"result\"") || data.contains("\"error\"");
        let was_answered = event.data.as_ref().is_some_and(is_answer);
        let is_part =
            |checker: &SessionChecker| asked.id.is_some_and(|id| checker.is_batch_partial(id));
        let waits = asked.session.is_some_and(|session| is_part(&self.sessions[session]));
        asked.is_answered |= was_answered && asked.id.is_some() && !waits;
        match message {
            Some(Value::Array(messages)) if asked.session.is_some() => {
                messages.iter().try_for_each(|message| self.check_message(asked, message, now))
            }
            Some(message) => self.check_message(asked, &message, now),
            None => Ok(()),
        }
    }

    fn check_message(
        &mut self,
        asked: &mut HttpRequest,
        message: &Value,
        now: Instant,
    ) -> Result<(), String> {
        if let Some(session) = asked.session {
            if message["method"] == "elicitation/create" {
                self.totals.client_requests += 1;
                self.client_requests.push((session, message.clone()));
            }
            if self.sessions[session].gone_since.is_some_and(|gone| gone <= asked.sent_at) {
                return Err(format!("{message} came in a session that is gone"));
            }
            let checker = &mut self.sessions[session];
            let about =
                if checker.is_legacy_sse() { legacy_sse::request_of(message) } else { asked.id };
            let is_answer = checker.check_message(message, about)?;
            if is_answer && message["result"]["protocolVersion"] == "2024-11-05" {
                self.initialized_due = Some(session);
            }
            self.totals.responses += u64::from(is_answer);
            self.totals.stream_notifications += u64::from(!is_answer);
            if is_answer {
                return self.check_tracked_response(message, Some(session), now);
            }
            return self.check_notification(asked, message, now);
        }
        if !http_requests::is_addressed_to(message, self.number) {
            return Err(format!("{message} is not for client {}", self.number));
        }
        let id = asked.id.map(Value::from);
        if message.get("method").is_none() {
            self.totals.responses += 1;
            if message.get("id") != id.as_ref() {
                return Err(format!("{message} does not answer {asked:?}"));
            }
            return self.check_tracked_response(message, None, now);
        }
        self.totals.stream_notifications += 1;
        self.check_notification(asked, message, now)?;
        if message["method"] == "notifications/progress" {
            let progress = message["params"]["progress"].as_u64();
            let progress =
                progress.or_else(|| Some(message["params"]["progress"].as_f64()? as u64));
            // A client that does not keep up misses some progress.
            let is_next = match progress {
                Some(progress) if self.has_small_buffers => progress > asked.progress,
                progress => progress == Some(asked.progress + 1),
            };
            asked.progress = progress.unwrap_or_default();
            if message["params"].get("progressToken") != id.as_ref() || !is_next {
                return Err(format!("{message} does not belong to {asked:?}"));
            }
        }
        Ok(())
    }

    fn check_body(
        &mut self,
        asked: &mut HttpRequest,
        body: &[u8],
        now: Instant,
        facts: RunConditions,
    ) -> Result<(), String> {
        let status = asked.head.as_ref().map_or(0, |head| head.status);
        let text = std::str::from_utf8(body).map_err(|error| error.to_string())?;
        let is_call = matches!(
            asked.kind,
            RequestKind::Initialize | RequestKind::Request | RequestKind::Modern
        );
        if status != 200 || !is_call && asked.kind != RequestKind::Subscribe {
            return Ok(());
        }
        let message = session_checker::parse_json(text)?;
        if asked.kind == RequestKind::Subscribe && !facts.is_draining {
            return Err(format!("{message} is not a stream"));
        }
        asked.is_answered = true;
        if let (Value::Array(messages), Some(session)) = (&message, asked.session) {
            messages.iter().try_for_each(|message| self.check_message(asked, message, now))?;
            let is_whole = asked.id.is_some_and(|id| self.sessions[session].is_batch_complete(id));
            return if is_whole { Ok(()) } else { Err(format!("{message} is incomplete")) };
        }
        if asked.kind != RequestKind::Initialize {
            return self.check_message(asked, &message, now);
        }
        self.totals.responses += 1;
        let agreed = message["result"]["protocolVersion"].as_str().and_then(Revision::parse);
        // Other sessions may have begun between the head and the body of this response.
        let name = asked.head.as_ref().and_then(|head| head.session.as_ref());
        let session = self.sessions.iter().position(|checker| Some(&checker.id) == name);
        match (agreed, session) {
            (Some(agreed), Some(session)) if message["id"].as_u64() == asked.id => {
                self.sessions[session].revision = agreed;
                self.initialized_due = Some(session);
                Ok(())
            }
            _ => Err(format!("no session begins with {message}")),
        }
    }

    /// Checks that a stream ends with its response, or for a reason.
    fn check_stream_end(
        &mut self,
        asked: &mut HttpRequest,
        facts: RunConditions,
    ) -> Result<(), String> {
        self.totals.streams_opened += 1;
        // Without chunks, an end cannot be distinguished from a broken connection.
        let is_plain = asked.head.as_ref().is_some_and(ResponseHead::ends_with_connection);
        if is_plain {
            return Ok(());
        }
        if asked.is_answered || asked.has_retry || facts.is_draining {
            return Ok(());
        }
        let Some(session) = asked.session else {
            return Err(format!("the stream of {asked:?} ends"));
        };
        let checker = &mut self.sessions[session];
        let is_cancelled = asked.id.is_some_and(|id| checker.is_batch_complete(id));
        let was_resumed = match asked.position.stream {
            Some(stream) => checker.streams.get(&stream).is_some_and(|it| it.resumes > 0),
            // It may have any number before its first event: the server attaches the stream that
            // the session has, which another request may have resumed since.
            None if asked.kind == RequestKind::GeneralStream => checker.was_general_resumed(),
            None => false,
        };
        if was_resumed
            && checker.may_drop_events
            && let Some(stream) = asked.position.stream
        {
            // Its response was among the dropped events: it cannot be received any more.
            checker.streams.entry(stream).or_default().is_lost = true;
        }
        // A replaced stream names no reconnection time to a client that does not know any.
        let is_replaced = asked.kind == RequestKind::GeneralStream && !checker.knows_retry();
        if checker.gone_since.is_some()
            || checker.is_deleted
            || is_cancelled
            || was_resumed
            || is_replaced
        {
            return Ok(());
        }
        Err(format!("the stream of {asked:?} ends"))
    }
}

/// Checks data that arrives before a request was sent: only a refusal is allowed.
fn check_unrequested(piece: &ResponsePart, facts: RunConditions) -> Result<(), String> {
    match piece {
        ResponsePart::Head(head) if head.status == 503 && facts.is_draining => Ok(()),
        ResponsePart::Body(_) if facts.is_draining => Ok(()),
        piece => Err(format!("unexpected data {piece:?}")),
    }
}
