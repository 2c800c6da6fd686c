//! Requests in flight and the reader of one open connection.

use corelane_base::time::Instant;

use super::request_settings::RequestSettings;
use super::request_templates::RequestTemplates;
use super::response_matcher::{ReceiveEvent, ResponseMatcher, UnansweredRequest};
use super::user_values::UserValues;
use crate::metrics::failure_examples::BODY_BYTES_MAX;
use crate::metrics::outcome::Failure;
use crate::wire::{FramingError, PartialMessage, Reader, WireEvent, frames, read_buffered};

/// Buffer capacity that an idle connection keeps, in bytes: enough for a session id.
const IDLE_BUFFER_BYTES_MAX: usize = 128;

/// State of a connection whose request log was closed.
#[derive(Debug)]
pub struct DrainedConnection {
    /// Reader of the byte stream.
    pub reader: Reader,
    /// Received bytes that the reader has not consumed.
    pub buffered: Vec<u8>,
    /// Session id.
    pub session: Option<Box<str>>,
}

/// Request log of one connection.
#[derive(Debug)]
pub struct RequestLog {
    matcher: ResponseMatcher,
    /// Whether the reader is at the start of a message or response. Copy of the reader's own state,
    /// which may be in another cache line.
    is_at_start: bool,
    reader: Reader,
    /// Received bytes that the reader has not consumed.
    buffered: Vec<u8>,
    session: Option<Box<str>>,
}

impl RequestLog {
    /// Creates an empty log from the results of a handshake: the reader, its unconsumed bytes, and
    /// the session id.
    pub fn new(reader: Reader, buffered: Vec<u8>, session: Option<Box<str>>) -> Self {
        let matcher = ResponseMatcher::new(matches!(reader, Reader::Responses(_)));
        Self { matcher, is_at_start: reader.is_at_message_start(), reader, buffered, session }
    }

    /// Returns whether a request was sent.
    pub const fn has_sent(&self) -> bool {
        self.matcher.has_sent()
    }

    /// Returns the number of requests without a response. Requests that timed out are not among
    /// them.
    pub fn in_flight(&self) -> usize {
        self.matcher.in_flight()
    }

    /// Removes the only request in flight, if others were answered before and nothing of its answer
    /// arrived.
    pub fn take_unread(&mut self) -> Option<UnansweredRequest> {
        let is_unread = self.is_at_start && self.buffered.is_empty();
        is_unread.then(|| self.matcher.take_only_waiting()).flatten()
    }

    /// Appends a request to `out` and records it as in flight.
    #[inline]
    pub fn write_request(
        &mut self,
        calls: &RequestTemplates,
        call: u16,
        intended: Instant,
        sent: Instant,
        out: &mut Vec<u8>,
    ) {
        let Some(kind) = calls.call(call) else { return };
        let id = self.matcher.add_request(call, intended, sent);
        kind.write_request(out, id, self.session.as_deref());
    }

    /// Appends a request with the values of a user to `out` and records it as in flight.
    pub fn write_step(
        &mut self,
        calls: &RequestTemplates,
        call: u16,
        user: &UserValues,
        intended: Instant,
        sent: Instant,
        out: &mut Vec<u8>,
    ) {
        let Some(kind) = calls.call(call) else { return };
        let id = self.matcher.add_request(call, intended, sent);
        kind.write_step(out, id, self.session.as_deref(), user);
    }

    /// Records a request over HTTP that carries an answer; its response is not reported.
    pub fn add_answer(&mut self) {
        self.matcher.add_unreported(Instant::ORIGIN);
    }

    /// Returns whether it has a session over HTTP, which other connections can carry on.
    pub const fn has_session(&self) -> bool {
        self.session.is_some()
    }

    /// Returns the session id, over HTTP.
    pub fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// Removes the only request in flight, if it waits for its answer, which then counts as late.
    /// Appends its cancellation to `out`, except over HTTP, where the connection has to be opened
    /// again. Returns whether there was one.
    pub fn cancel(&mut self, settings: &RequestSettings, out: &mut Vec<u8>) -> bool {
        let Some(id) = self.matcher.cancel() else { return false };
        if !matches!(self.reader, Reader::Responses(_)) {
            settings.write_cancellation(out, id, None);
        }
        true
    }

    /// Processes received bytes and calls `on_event` for each result.
    ///
    /// # Errors
    ///
    /// Returns an error if the server violates the framing; the connection is then unreadable.
    #[inline]
    pub fn receive(
        &mut self,
        calls: &mut RequestTemplates,
        arrived: &[u8],
        mut on_event: impl FnMut(ReceiveEvent),
    ) -> Result<(), FramingError> {
        let mut buffered = std::mem::take(&mut self.buffered);
        let received = read_buffered(&mut buffered, arrived, |bytes| {
            self.read_messages(calls, bytes, &mut on_event)
        });
        if let Err(error) = received {
            let quoted = &arrived[..arrived.len().min(BODY_BYTES_MAX)];
            let answer = [error.0.as_bytes(), b":\n", quoted].concat();
            on_event(ReceiveEvent::Failed { failure: Some(Failure::Garbage), answer });
            return Err(error);
        }
        self.buffered = buffered;
        Ok(())
    }

    /// Handles the end of the stream. Returns whether it completes a response; then
    /// [`RequestLog::receive`] processes that without further bytes.
    pub fn end(&mut self) -> bool {
        self.reader.end()
    }

    /// Returns what has arrived of an incomplete answer.
    pub fn partial_message(&self) -> Option<PartialMessage> {
        self.reader.partial_message(&self.buffered)
    }

    /// Processes `bytes`; returns how many were consumed.
    fn read_messages(
        &mut self,
        calls: &mut RequestTemplates,
        bytes: &[u8],
        on_event: &mut impl FnMut(ReceiveEvent),
    ) -> Result<usize, FramingError> {
        let (mut from, mut start) = (0, Some(0));
        loop {
            if self.is_at_start {
                start = Some(from);
                if let Some(len) = self.matcher.match_template(calls, &bytes[from..], on_event) {
                    from += len;
                    continue;
                }
                if from == bytes.len() {
                    return Ok(from);
                }
            } else if from == 0 {
                // The message began in bytes that are consumed already.
                start = None;
            }
            let Some((taken, event)) = self.reader.read_next(&bytes[from..])? else {
                self.is_at_start = self.reader.is_at_message_start();
                return Ok(from);
            };
            from += taken;
            let whole = start.and_then(|start| bytes.get(start..from));
            match event {
                None => {}
                Some(WireEvent::Message(text)) => {
                    self.matcher.handle_message(calls, text, whole, on_event);
                }
                Some(WireEvent::ResponseEnd {
                    status,
                    closes_connection: closes,
                    is_stream,
                    excerpt,
                    ..
                }) => {
                    if is_stream {
                        on_event(ReceiveEvent::Streamed);
                    }
                    // A template would hide that the connection closes.
                    let whole = whole.filter(|_| !closes);
                    self.matcher.finish_http_response(calls, status, excerpt, whole, on_event);
                    // A session that has ended is unknown to the server (MCP 2025-11-25,
                    // basic/transports, "Session Management"): the client begins a new one.
                    let has_ended = status == 404 && self.session.take().is_some();
                    if closes || has_ended {
                        on_event(ReceiveEvent::Closing);
                    }
                }
                Some(WireEvent::Reply(reply)) => on_event(ReceiveEvent::Send(reply.to_vec())),
                Some(WireEvent::Close) => {
                    // RFC 6455 section 5.5.1: a close frame is answered with a close frame.
                    let mut close_frame = Vec::new();
                    frames::write_close(&mut close_frame);
                    on_event(ReceiveEvent::Send(close_frame));
                    on_event(ReceiveEvent::Closing);
                }
            }
            self.is_at_start = self.reader.is_at_message_start();
        }
    }

    /// Frees buffers of an idle connection that grew with large messages.
    #[inline]
    pub fn shrink(&mut self) {
        if self.buffered.is_empty() && self.buffered.capacity() > IDLE_BUFFER_BYTES_MAX {
            self.buffered = Vec::new();
        }
        self.reader.shrink(IDLE_BUFFER_BYTES_MAX);
        self.matcher.shrink();
    }

    /// Fails the unanswered requests that were sent before `before` as timeouts; they are in flight
    /// no more. Appends their cancellations to `out`, except over HTTP, where the connection has to
    /// be opened again. Returns whether there were any.
    pub fn time_out(
        &mut self,
        before: Instant,
        settings: &RequestSettings,
        out: &mut Vec<u8>,
        mut on_event: impl FnMut(ReceiveEvent),
    ) -> bool {
        let is_http = matches!(self.reader, Reader::Responses(_));
        let cancel = |id, stream_id: Option<&str>| {
            if !is_http {
                settings.write_cancellation(out, id, stream_id);
            }
        };
        self.matcher.time_out(before, cancel, &mut on_event)
    }

    /// Prepares the log for a new connection of the same session, over HTTP. Returns the requests
    /// that wait for an answer, which have to be sent again.
    pub fn restart(&mut self) -> Vec<UnansweredRequest> {
        self.reader = Reader::Responses(Box::default());
        (self.is_at_start, self.buffered) = (true, Vec::new());
        self.matcher.take_waiting()
    }

    /// Closes the log and returns what the closing handshake needs. Requests in flight are dropped.
    pub fn into_drained(self) -> DrainedConnection {
        let Self { reader, buffered, session, .. } = self;
        DrainedConnection { reader, buffered, session }
    }

    /// Fails all requests in flight because the connection ended.
    pub fn fail_all(&mut self, failure: Failure, mut on_event: impl FnMut(ReceiveEvent)) {
        self.matcher.fail_all(failure, &mut on_event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::request_template::{ID_FIRST, RequestTemplate};
    use crate::mcp::response_matcher::CompletedRequest;
    use crate::target::{Era, Transport};
    use crate::wire::lines::LineReader;

    const AT: Instant = Instant::from_milliseconds(1);
    const LATER: Instant = Instant::from_milliseconds(2);

    struct Fixture {
        log: RequestLog,
        settings: RequestSettings,
        /// Cancellations.
        output: String,
        calls: RequestTemplates,
        events: Vec<String>,
        /// Answers of failed requests.
        answers: Vec<String>,
    }

    impl Fixture {
        fn new(transport: Transport, reader: Reader) -> Self {
            let (authority, path) = ("localhost:1", "/mcp");
            let settings =
                RequestSettings::new(transport, Era::Modern, authority, path, Vec::new()).unwrap();
            let calls = RequestTemplates::new(vec![RequestTemplate::echo(&settings, 2)]);
            let log = RequestLog::new(reader, Vec::new(), None);
            let output = String::new();
            Self { log, settings, output, calls, events: Vec::new(), answers: Vec::new() }
        }

        fn lines() -> Self {
            Self::new(Transport::Tcp, Reader::Lines(LineReader::default()))
        }

        fn http() -> Self {
            Self::new(Transport::Http, Reader::Responses(Box::default()))
        }

        fn websocket() -> Self {
            Self::new(Transport::WebSocket, Reader::Frames(Box::default()))
        }

        /// Asks for progress.
        fn with_progress(mut self) -> Self {
            let params = RequestTemplate::with_progress(None);
            let call = RequestTemplate::new(&self.settings, "tools/call", Some(&params), None);
            self.calls = RequestTemplates::new(vec![call]);
            self
        }

        fn send_requests(&mut self, count: usize) {
            (0..count).for_each(|_| self.send_at(AT));
        }

        fn send_at(&mut self, at: Instant) {
            self.log.write_request(&self.calls, 0, at, at, &mut Vec::new());
        }

        /// Returns the events of requests that were sent before this time.
        fn time_out(&mut self, before: Instant) -> Vec<String> {
            let (mut events, mut out) = (Vec::new(), Vec::new());
            let on_event = |event| events.push(name(event));
            let is_any = self.log.time_out(before, &self.settings, &mut out, on_event);
            assert_eq!(is_any, !events.is_empty());
            self.output.push_str(&String::from_utf8_lossy(&out));
            events
        }

        /// Returns the events for these bytes.
        fn receive(&mut self, bytes: impl AsRef<[u8]>) -> Vec<String> {
            let events = &mut self.events;
            let received = self.log.receive(&mut self.calls, bytes.as_ref(), |event| {
                if let ReceiveEvent::Failed { answer, .. } = event {
                    self.answers.push(String::from_utf8(answer).unwrap());
                } else {
                    events.push(name(event));
                }
            });
            if received.is_err() {
                self.events.push("broken".into());
            }
            std::mem::take(&mut self.events)
        }
    }

    fn name(event: ReceiveEvent) -> String {
        match event {
            ReceiveEvent::Completed(CompletedRequest { failure: None, .. }) => "good".into(),
            ReceiveEvent::Completed(CompletedRequest { failure: Some(failure), .. }) => {
                failure.to_string()
            }
            ReceiveEvent::Unsolicited => "unsolicited".into(),
            ReceiveEvent::Late => "late".into(),
            ReceiveEvent::Failed { .. } => "answer".into(),
            ReceiveEvent::Result(result) => result,
            ReceiveEvent::Notification => "notice".into(),
            ReceiveEvent::Streamed => "streamed".into(),
            ReceiveEvent::FirstEvent { .. } => "event".into(),
            ReceiveEvent::FirstProgress { .. } => "progress".into(),
            ReceiveEvent::Chunk => "chunk".into(),
            ReceiveEvent::Keepalive(_) => "keepalive".into(),
            ReceiveEvent::InputRequired(members) => members,
            ReceiveEvent::ServerRequest { id, method } => format!("request {id} {method}"),
            ReceiveEvent::Send(_) => "send".into(),
            ReceiveEvent::Closing => "closing".into(),
        }
    }

    fn success(number: u64) -> String {
        let id = ID_FIRST + number;
        format!("{{\"id\":{id},\"result\":{{\"content\":[{{\"text\":\"ab\"}}]}}}}\n")
    }

    fn response(body: &str) -> String {
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    }

    #[test]
    fn responses_match_in_any_order_and_cut() {
        let mut fixture = Fixture::lines();
        fixture.send_requests(4);
        assert_eq!(fixture.receive(success(2)), ["good"]);
        assert_eq!(fixture.log.in_flight(), 4);
        let rest = [success(0), success(3), success(1)].concat();
        let (first, second) = rest.split_at(20);
        assert!(fixture.receive(first).is_empty());
        assert_eq!(fixture.receive(second), ["good", "good", "good"]);
        assert_eq!(fixture.log.in_flight(), 0);
    }

    #[test]
    fn duplicate_response_is_reported_as_unexpected() {
        let mut fixture = Fixture::lines();
        fixture.send_requests(2);
        assert_eq!(
            fixture.receive([success(1), success(1), success(0), success(0)].concat()),
            ["good", "unsolicited", "good", "unsolicited"]
        );
    }

    #[test]
    fn response_with_different_text_is_wrong() {
        let mut fixture = Fixture::lines();
        fixture.send_requests(3);
        assert_eq!(fixture.receive(success(0)), ["good"]);
        assert_eq!(fixture.receive(success(1).replace("ab", "ax")), ["wrong"]);
        assert_eq!(fixture.receive(success(2)), ["good"]);
    }

    #[test]
    fn invalid_message_fails_oldest_request() {
        let mut fixture = Fixture::lines();
        fixture.send_requests(2);
        assert_eq!(fixture.receive("what?\n"), ["garbage"]);
        assert_eq!(fixture.receive("{\"id\":null,\"error\":{\"code\":-32700}}\n"), ["rpc_error"]);
        assert_eq!(fixture.receive("{}\n"), ["unsolicited"]);
    }

    #[test]
    fn timed_out_request_is_cancelled_and_answered_late() {
        for mut fixture in [Fixture::lines(), Fixture::websocket()] {
            fixture.send_requests(2);
            assert!(fixture.time_out(AT).is_empty(), "sent at that time");
            assert_eq!(fixture.time_out(LATER), ["timeout", "timeout"]);
            assert!(fixture.time_out(LATER).is_empty());
            assert_eq!(fixture.log.in_flight(), 0);
        }
        let mut fixture = Fixture::lines();
        fixture.send_requests(2);
        fixture.time_out(LATER);
        let cancelled = |number| {
            let id = ID_FIRST + number;
            format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":\
                 {{\"requestId\":{id},\"reason\":\"timeout\"}}}}\n"
            )
        };
        assert_eq!(fixture.output, [cancelled(0), cancelled(1)].concat());
        fixture.send_requests(1);
        let answers = [success(0), success(2), success(0), success(1), success(2)].concat();
        assert_eq!(
            fixture.receive(answers),
            ["late", "good", "unsolicited", "late", "unsolicited"]
        );
    }

    #[test]
    fn http_log_restarts_without_timed_out_request() {
        let mut fixture = Fixture::http();
        fixture.send_requests(1);
        fixture.send_at(LATER);
        assert!(fixture.receive("HTTP/1.1 200 OK\r\nContent-Le").is_empty());
        assert_eq!(fixture.time_out(LATER), ["timeout"]);
        assert!(fixture.output.is_empty());
        let waiting = fixture.log.restart();
        assert_eq!(waiting, [UnansweredRequest { call: 0, intended: LATER }]);
        assert_eq!(fixture.log.in_flight(), 0);
        fixture.send_requests(1);
        assert_eq!(fixture.receive(response(&success(2))), ["good"]);
    }

    #[test]
    fn connection_close_fails_requests_in_flight_once() {
        let mut fixture = Fixture::lines();
        fixture.send_requests(3);
        assert_eq!(fixture.receive(success(1)), ["good"]);
        let mut events = Vec::new();
        fixture.log.fail_all(Failure::Closed, |event| events.push(name(event)));
        assert_eq!(events, ["closed", "closed"]);
    }

    #[test]
    fn jsonrpc_error_in_http_200_is_failure() {
        let mut fixture = Fixture::http();
        fixture.send_requests(3);
        let error = format!("{{\"id\":{ID_FIRST},\"error\":{{\"code\":-32603}}}}");
        assert_eq!(fixture.receive(response(&error)), ["rpc_error"]);
        assert_eq!(fixture.receive(response("<html>")), ["garbage"]);
        assert_eq!(fixture.receive(response("")), ["garbage"]);
    }

    #[test]
    fn http_error_status_wins_over_body() {
        let mut fixture = Fixture::http();
        fixture.send_requests(3);
        let refused = response(&success(0)).replace("200 OK", "503 Busy");
        assert_eq!(fixture.receive(refused), ["http_5xx"]);
        let refused = response("").replace("200 OK", "404 Gone");
        assert_eq!(fixture.receive(refused), ["http_4xx"]);
        assert_eq!(
            fixture.receive(response(&success(0))),
            ["wrong"],
            "the response to an earlier request"
        );
    }

    #[test]
    fn http_response_matches_template_after_first() {
        let mut fixture = Fixture::http();
        fixture.send_requests(3);
        assert_eq!(fixture.receive(response(&success(0))), ["good"]);
        assert_eq!(
            fixture.receive([response(&success(1)), response(&success(2))].concat()),
            ["good", "good"]
        );
        assert_eq!(fixture.receive(response(&success(2))), ["unsolicited"]);
        assert_eq!(fixture.receive("nonsense\r\n\r\n"), ["broken"]);
    }

    #[test]
    fn failed_answer_is_quoted_with_its_head() {
        let mut fixture = Fixture::http();
        fixture.send_requests(2);
        let body = "x".repeat(600);
        let refused = response(&body).replace("200 OK", "500 No");
        let (first, second) = refused.split_at(20);
        assert!(fixture.receive(first).is_empty());
        assert_eq!(fixture.receive(second), ["http_5xx"]);
        let expected = format!("HTTP/1.1 500 No\r\nContent-Length: 600\r\n\r\n{}", &body[..500]);
        assert_eq!(fixture.answers, [expected]);
        assert_eq!(fixture.receive("nonsense\r\n\r\n"), ["broken"]);
        assert_eq!(fixture.answers[1], "the server does not speak HTTP/1.1:\nnonsense\r\n\r\n");
        let mut fixture = Fixture::lines();
        fixture.send_requests(1);
        assert_eq!(fixture.receive("what?\n"), ["garbage"]);
        assert_eq!(fixture.receive("{}\n"), ["unsolicited"]);
        assert_eq!(fixture.answers, ["what?", "{}"]);
    }

    #[test]
    fn websocket_close_frame_is_returned() {
        let mut fixture = Fixture::websocket();
        fixture.send_requests(1);
        let answer = success(0);
        let header = [0x81, u8::try_from(answer.len()).unwrap()];
        let stream = [&header, answer.as_bytes(), b"\x88\x02\x03\xE8"].concat();
        assert_eq!(fixture.receive(stream), ["good", "send", "closing"]);
    }

    #[test]
    fn server_request_is_reported_with_its_id() {
        let mut fixture = Fixture::lines();
        assert_eq!(fixture.receive("{\"id\":\"x\",\"method\":\"ping\"}\n"), ["request \"x\" ping"]);
        assert_eq!(
            fixture.receive("{\"id\":3,\"method\":\"roots/list\"}\n"),
            ["request 3 roots/list"]
        );
        assert_eq!(fixture.receive("{\"method\":\"notifications/message\"}\n"), ["notice"]);
    }

    fn stream(events: &[&str]) -> String {
        let body: String =
            events.iter().flat_map(|event| ["data: ", event.trim(), "\n\n"]).collect();
        format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {}\r\n\r\n\
             {body}",
            body.len()
        )
    }

    #[test]
    fn sse_response_is_reported_as_streamed() {
        let mut fixture = Fixture::http();
        fixture.send_requests(3);
        assert_eq!(fixture.receive(stream(&[&success(0)])), ["streamed", "good"]);
        assert_eq!(fixture.receive(stream(&[&success(1)])), ["streamed", "good"]);
        assert_eq!(
            fixture.receive(stream(&[&success(2).replace("ab", "ax")])),
            ["streamed", "wrong"]
        );
    }

    fn progress(number: u64) -> String {
        let token = ID_FIRST + number;
        let method = "notifications/progress";
        format!("{{\"method\":\"{method}\",\"params\":{{\"progressToken\":{token}}}}}\n")
    }

    #[test]
    fn progress_token_finds_its_request() {
        let mut fixture = Fixture::lines().with_progress();
        fixture.send_requests(2);
        let other = "{\"method\":\"notifications/message\"}\n";
        assert_eq!(fixture.receive(other), ["notice"], "of either request");
        assert_eq!(fixture.receive(progress(1)), ["event", "progress", "notice"]);
        assert_eq!(fixture.receive([progress(1), progress(9)].concat()), ["notice", "notice"]);
        assert_eq!(fixture.receive([success(1), progress(1)].concat()), ["good", "notice"]);
        assert_eq!(fixture.receive(success(0)), ["good"]);
        fixture.send_requests(1);
        assert_eq!(fixture.receive(other), ["event", "notice"], "of the only request");
        assert_eq!(fixture.receive(progress(2)), ["progress", "notice"]);
    }

    #[test]
    fn events_of_each_http_stream_are_reported() {
        let mut fixture = Fixture::http().with_progress();
        fixture.send_requests(3);
        let other = "{\"method\":\"notifications/message\"}";
        for number in 0..3 {
            let answer = stream(&[other, &progress(number), &success(number)]);
            let expected = ["event", "notice", "progress", "notice", "streamed", "good"];
            assert_eq!(fixture.receive(answer), expected);
        }
        fixture.send_requests(3);
        for number in 3..6 {
            let answer = stream(&[other, &success(number)]);
            assert_eq!(fixture.receive(answer), ["event", "notice", "streamed", "good"]);
        }
    }

    #[test]
    fn notifications_before_response_keep_it_checked() {
        let mut fixture = Fixture::http();
        fixture.send_requests(3);
        for number in 0..2 {
            let answer = stream(&[&progress(number), &success(number)]);
            assert_eq!(fixture.receive(answer), ["notice", "streamed", "good"]);
        }
        let wrong = stream(&[&progress(2), &success(2).replace("ab", "ax")]);
        assert_eq!(fixture.receive(wrong), ["notice", "streamed", "wrong"]);
        let mut fixture = Fixture::lines();
        fixture.send_requests(3);
        for number in 0..3 {
            let answer = [progress(number), success(number)].concat();
            assert_eq!(fixture.receive(answer), ["notice", "good"]);
        }
    }
}
