//! The books of one connection that is open: what is asked on it, and what comes back.

use corelane::base::time::Moment;

use super::calls::Calls;
use super::ledger::{Event, Ledger};
use crate::measure::outcome::Failure;
use crate::wire::{Broken, Heard, Reader, frames, piece_together};

/// Bytes of each buffer that an idle connection keeps: the name of a session fits.
const KEPT_BYTES_MAX: usize = 128;

/// What is left of a connection that asks nothing more.
#[derive(Debug)]
pub struct Left {
    /// Where in the stream it stands.
    pub reader: Reader,
    /// Bytes that the reader is not done with.
    pub begun: Vec<u8>,
    /// The session that was opened.
    pub session: Option<Box<[u8]>>,
}

/// The books of one connection.
#[derive(Debug)]
pub struct Books {
    ledger: Ledger,
    /// Whether the reader is where a message or response begins: it knows itself, but has to be
    /// fetched to be asked.
    is_at_start: bool,
    reader: Reader,
    /// Bytes that the reader is not done with.
    begun: Vec<u8>,
    session: Option<Box<[u8]>>,
}

impl Books {
    /// Books without an entry, behind an opening: its reader, what that is not done with, and the
    /// session that was opened.
    pub fn new(reader: Reader, begun: Vec<u8>, session: Option<Box<[u8]>>) -> Self {
        let ledger = Ledger::new(matches!(reader, Reader::Responses(_)));
        Self { ledger, is_at_start: reader.is_at_start(), reader, begun, session }
    }

    /// Requests whose answers have not come, those that were given up included: what they wait for
    /// may still arrive, so a connection that owes an answer gets no more to do for it.
    pub fn in_flight(&self) -> usize {
        self.ledger.in_flight()
    }

    /// Writes a request of this kind behind what is in `out`, and notes it.
    #[inline]
    pub fn ask(
        &mut self,
        calls: &Calls,
        call: u16,
        (intended, sent): (Moment, Moment),
        out: &mut Vec<u8>,
    ) {
        let Some(kind) = calls.call(call) else { return };
        let id = self.ledger.enter(call, (intended, sent));
        kind.write(out, id, self.session.as_deref());
    }

    /// Takes in what arrived, and tells what came of it.
    ///
    /// # Errors
    ///
    /// Where the server does not keep to the framing: nothing more of this connection can be read.
    #[inline]
    pub fn hear(
        &mut self,
        calls: &mut Calls,
        arrived: &[u8],
        mut tell: impl FnMut(Event),
    ) -> Result<(), Broken> {
        let mut begun = std::mem::take(&mut self.begun);
        piece_together(&mut begun, arrived, |bytes| self.read(calls, bytes, &mut tell))?;
        self.begun = begun;
        Ok(())
    }

    /// Goes through `bytes`; returns how far it came.
    fn read(
        &mut self,
        calls: &mut Calls,
        bytes: &[u8],
        tell: &mut impl FnMut(Event),
    ) -> Result<usize, Broken> {
        let (mut from, mut start) = (0, Some(0));
        loop {
            if self.is_at_start {
                start = Some(from);
                if let Some(length) = self.ledger.accept(calls, &bytes[from..], tell) {
                    from += length;
                    continue;
                }
                if from == bytes.len() {
                    return Ok(from);
                }
            } else if from == 0 {
                // It began in what is done with.
                start = None;
            }
            let Some((taken, heard)) = self.reader.look(&bytes[from..])? else {
                self.is_at_start = self.reader.is_at_start();
                return Ok(from);
            };
            from += taken;
            let whole = start.and_then(|start| bytes.get(start..from));
            match heard {
                None => {}
                Some(Heard::Text(text)) => self.ledger.weigh(calls, text, whole, tell),
                Some(Heard::Over { status, closes, is_stream, .. }) => {
                    if is_stream {
                        tell(Event::Streamed);
                    }
                    self.ledger.end_response(calls, status, whole, tell);
                    if closes {
                        tell(Event::Closing);
                    }
                }
                Some(Heard::Reply(reply)) => tell(Event::Say(reply.to_vec())),
                Some(Heard::Close) => {
                    // Whoever hears it says it, too (RFC 6455 section 5.5.1).
                    let mut goodbye = Vec::new();
                    frames::write_close(&mut goodbye);
                    tell(Event::Say(goodbye));
                    tell(Event::Closing);
                }
            }
            self.is_at_start = self.reader.is_at_start();
        }
    }

    /// Gives back what an idle connection has no use for: buffers that grew with large messages.
    #[inline]
    pub fn rest(&mut self) {
        if self.begun.is_empty() && self.begun.capacity() > KEPT_BYTES_MAX {
            self.begun = Vec::new();
        }
        self.reader.rest(KEPT_BYTES_MAX);
        self.ledger.rest();
    }

    /// Gives up the requests that were sent before `before` and have no answer: they have failed.
    pub fn give_up(&mut self, before: Moment, mut tell: impl FnMut(Event)) {
        self.ledger.give_up(before, &mut tell);
    }

    /// Closes the books of a connection that goes on. What is in flight is forgotten.
    pub fn close(self) -> Left {
        let Self { reader, begun, session, .. } = self;
        Left { reader, begun, session }
    }

    /// The connection has ended: what is in flight has failed in this way.
    pub fn abandon(&mut self, failure: Failure, mut tell: impl FnMut(Event)) {
        self.ledger.abandon(failure, &mut tell);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialogue::call::{Call, ID_FIRST, Speech};
    use crate::dialogue::ledger::Concluded;
    use crate::target::{Era, Transport};
    use crate::wire::lines::LineReader;

    const AT: Moment = Moment::from_milliseconds(1);

    struct Stage {
        books: Books,
        calls: Calls,
        told: Vec<String>,
    }

    impl Stage {
        fn new(transport: Transport, reader: Reader) -> Self {
            let speech = Speech {
                transport,
                era: Era::Modern,
                authority: "localhost:1".into(),
                path: "/mcp".into(),
                fields: Vec::new(),
            };
            let calls = Calls::new(vec![Call::echo(&speech, 2)]);
            Self { books: Books::new(reader, Vec::new(), None), calls, told: Vec::new() }
        }

        fn lines() -> Self {
            Self::new(Transport::Tcp, Reader::Lines(LineReader::default()))
        }

        fn posts() -> Self {
            Self::new(Transport::Http, Reader::Responses(Box::default()))
        }

        fn frames() -> Self {
            Self::new(Transport::WebSocket, Reader::Frames(Box::default()))
        }

        fn ask(&mut self, count: usize) {
            let mut out = Vec::new();
            for _ in 0..count {
                self.books.ask(&self.calls, 0, (AT, AT), &mut out);
            }
        }

        /// What is told of these bytes.
        fn hear(&mut self, bytes: impl AsRef<[u8]>) -> Vec<String> {
            let told = &mut self.told;
            let heard =
                self.books.hear(&mut self.calls, bytes.as_ref(), |event| told.push(name(event)));
            if heard.is_err() {
                self.told.push("broken".into());
            }
            std::mem::take(&mut self.told)
        }
    }

    fn name(event: Event) -> String {
        match event {
            Event::Concluded(Concluded { failure: None, .. }) => "good".into(),
            Event::Concluded(Concluded { failure: Some(failure), .. }) => failure.to_string(),
            Event::Unasked => "unasked".into(),
            Event::Notice => "notice".into(),
            Event::Streamed => "streamed".into(),
            Event::Asked { id, is_ping } => format!("asked {id} {is_ping}"),
            Event::Say(_) => "say".into(),
            Event::Closing => "closing".into(),
        }
    }

    fn good(number: u64) -> String {
        let id = ID_FIRST + number;
        format!("{{\"id\":{id},\"result\":{{\"content\":[{{\"text\":\"ab\"}}]}}}}\n")
    }

    fn response(body: &str) -> String {
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    }

    #[test]
    fn answers_in_any_order_and_any_cut_are_matched() {
        let mut stage = Stage::lines();
        stage.ask(4);
        assert_eq!(stage.hear(good(2)), ["good"]);
        assert_eq!(stage.books.in_flight(), 4);
        let rest = [good(0), good(3), good(1)].concat();
        let (first, second) = rest.split_at(20);
        assert!(stage.hear(first).is_empty());
        assert_eq!(stage.hear(second), ["good", "good", "good"]);
        assert_eq!(stage.books.in_flight(), 0);
    }

    #[test]
    fn an_answer_that_comes_twice_is_told_and_nothing_fails_by_it() {
        let mut stage = Stage::lines();
        stage.ask(2);
        assert_eq!(
            stage.hear([good(1), good(1), good(0), good(0)].concat()),
            ["good", "unasked", "good", "unasked"]
        );
    }

    #[test]
    fn an_answer_like_the_one_before_but_for_a_byte_is_read_and_judged() {
        let mut stage = Stage::lines();
        stage.ask(3);
        assert_eq!(stage.hear(good(0)), ["good"]);
        assert_eq!(stage.hear(good(1).replace("ab", "ax")), ["wrong"]);
        assert_eq!(stage.hear(good(2)), ["good"]);
    }

    #[test]
    fn garbage_and_errors_without_an_id_fail_the_oldest_request() {
        let mut stage = Stage::lines();
        stage.ask(2);
        assert_eq!(stage.hear("what?\n"), ["garbage"]);
        assert_eq!(stage.hear("{\"id\":null,\"error\":{\"code\":-32700}}\n"), ["rpc_error"]);
        assert_eq!(stage.hear("{}\n"), ["unasked"]);
    }

    #[test]
    fn a_request_that_took_too_long_has_failed_though_its_answer_comes() {
        let mut stage = Stage::lines();
        stage.ask(1);
        let mut told = Vec::new();
        stage.books.give_up(AT, |event| told.push(name(event)));
        assert!(told.is_empty(), "it was not sent before that");
        let later = AT.after(std::time::Duration::from_millis(1));
        stage.books.give_up(later, |event| told.push(name(event)));
        stage.books.give_up(later, |event| told.push(name(event)));
        assert_eq!((told, stage.books.in_flight()), (vec!["timeout".into()], 1));
        assert!(stage.hear(good(0)).is_empty());
        assert_eq!(stage.books.in_flight(), 0);
    }

    #[test]
    fn what_is_in_flight_when_the_connection_ends_has_failed_once() {
        let mut stage = Stage::lines();
        stage.ask(3);
        assert_eq!(stage.hear(good(1)), ["good"]);
        let mut told = Vec::new();
        stage.books.abandon(Failure::Closed, |event| told.push(name(event)));
        assert_eq!(told, ["closed", "closed"]);
    }

    #[test]
    fn an_error_inside_a_200_is_an_error() {
        let mut stage = Stage::posts();
        stage.ask(3);
        let error = format!("{{\"id\":{ID_FIRST},\"error\":{{\"code\":-32603}}}}");
        assert_eq!(stage.hear(response(&error)), ["rpc_error"]);
        assert_eq!(stage.hear(response("<html>")), ["garbage"]);
        assert_eq!(stage.hear(response("")), ["garbage"]);
    }

    #[test]
    fn a_status_that_refuses_counts_whatever_its_body_says() {
        let mut stage = Stage::posts();
        stage.ask(3);
        let refused = response(&good(0)).replace("200 OK", "503 Busy");
        assert_eq!(stage.hear(refused), ["http_5xx"]);
        let refused = response("").replace("200 OK", "404 Gone");
        assert_eq!(stage.hear(refused), ["http_4xx"]);
        assert_eq!(stage.hear(response(&good(0))), ["wrong"], "the answer to an earlier one");
    }

    #[test]
    fn responses_are_matched_by_comparison_once_one_was_read() {
        let mut stage = Stage::posts();
        stage.ask(3);
        assert_eq!(stage.hear(response(&good(0))), ["good"]);
        assert_eq!(stage.hear([response(&good(1)), response(&good(2))].concat()), ["good", "good"]);
        assert_eq!(stage.hear(response(&good(2))), ["unasked"]);
        assert_eq!(stage.hear("nonsense\r\n\r\n"), ["broken"]);
    }

    #[test]
    fn a_goodbye_over_websocket_is_returned() {
        let mut stage = Stage::frames();
        stage.ask(1);
        let answer = good(0);
        let header = [0x81, u8::try_from(answer.len()).unwrap()];
        let stream = [&header, answer.as_bytes(), b"\x88\x02\x03\xE8"].concat();
        assert_eq!(stage.hear(stream), ["good", "say", "closing"]);
    }

    #[test]
    fn a_question_of_the_server_is_told_with_its_id() {
        let mut stage = Stage::lines();
        assert_eq!(stage.hear("{\"id\":\"x\",\"method\":\"ping\"}\n"), ["asked \"x\" true"]);
        assert_eq!(stage.hear("{\"id\":3,\"method\":\"roots/list\"}\n"), ["asked 3 false"]);
        assert_eq!(stage.hear("{\"method\":\"notifications/message\"}\n"), ["notice"]);
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
    fn an_answer_that_comes_as_a_stream_is_told_as_one_whether_it_was_read_or_compared() {
        let mut stage = Stage::posts();
        stage.ask(3);
        assert_eq!(stage.hear(stream(&[&good(0)])), ["streamed", "good"]);
        assert_eq!(stage.hear(stream(&[&good(1)])), ["streamed", "good"]);
        assert_eq!(stage.hear(stream(&[&good(2).replace("ab", "ax")])), ["streamed", "wrong"]);
    }

    #[test]
    fn notices_before_an_answer_are_told_and_the_answers_behind_them_still_judged() {
        let progress = |number: u64| {
            let token = ID_FIRST + number;
            let method = "notifications/progress";
            format!("{{\"method\":\"{method}\",\"params\":{{\"progressToken\":{token}}}}}\n")
        };
        let mut stage = Stage::posts();
        stage.ask(3);
        for number in 0..2 {
            let answer = stream(&[&progress(number), &good(number)]);
            assert_eq!(stage.hear(answer), ["notice", "streamed", "good"]);
        }
        let wrong = stream(&[&progress(2), &good(2).replace("ab", "ax")]);
        assert_eq!(stage.hear(wrong), ["notice", "streamed", "wrong"]);
        let mut stage = Stage::lines();
        stage.ask(3);
        for number in 0..3 {
            let answer = [progress(number), good(number)].concat();
            assert_eq!(stage.hear(answer), ["notice", "good"]);
        }
    }
}
