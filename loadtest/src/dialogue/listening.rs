//! One connection that listens: what is asked on it, and what it is told.
//!
//! It begins behind the opening of its connection. Over HTTP one request or stream is under way at
//! a time: legacy subscriptions are posted first, then the stream of the session is got. What a
//! server asks there cannot be answered on the same connection and stays without an answer.
//!
//! What it keeps true: a stream is open when the server has said so, whole; whatever else it says
//! has a name, and nothing that it says is a panic.
//!
//! Source: 2026-07-28, basic/patterns/subscriptions; 2025-11-25, basic/transports, "Listening for
//! Messages from the Server".

use super::call::push_field;
use super::judge::{Judgement, answer, judge};
use super::opening::{Refused, status_failure};
use super::subscription::{Notice, Subscription};
use crate::measure::outcome::Failure;
use crate::target::Transport;
use crate::wire::lines::LineReader;
use crate::wire::{Heard, Reader, frames};

/// What a connection that listens was told.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Hearing {
    /// One of its streams is open.
    Opened,
    /// The stream of this place was told of a change.
    Told(usize),
    /// It was told of a change that no open stream of it had asked for.
    Stray,
    /// One of its streams has ended.
    Ended,
    /// These bytes are to be sent.
    Say(Vec<u8>),
    /// The connection is over.
    Closing,
}

/// How far a stream has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Place {
    Asked,
    Open,
    Ended,
}

/// A connection that listens. Holds some 150 bytes, and over HTTP two buffers as long as the
/// longest event.
#[derive(Debug)]
pub struct Listening {
    reader: Reader,
    /// Bytes that the reader is not done with.
    begun: Vec<u8>,
    session: Option<Box<[u8]>>,
    streams: Box<[Place]>,
    /// Requests that have been answered or acknowledged.
    answered: usize,
    /// Requests that were posted, over HTTP.
    asked: usize,
    /// The stream of the session has been asked for.
    is_attaching: bool,
    /// All its streams were open at one time.
    has_opened: bool,
}

impl Listening {
    /// A connection behind its opening: its reader, what that is not done with, and the session
    /// that was opened. What is to be said first is written to `out`.
    pub fn new(
        subscription: &Subscription,
        (reader, mut begun, session): (Reader, Vec<u8>, Option<Box<[u8]>>),
        out: &mut Vec<u8>,
    ) -> Self {
        begun.shrink_to_fit();
        let streams = vec![Place::Asked; subscription.streams()].into();
        let mut listening = Self {
            reader,
            begun,
            session,
            streams,
            answered: 0,
            asked: 0,
            is_attaching: false,
            has_opened: false,
        };
        if subscription.is_over(Transport::Http) {
            listening.ask_next(subscription, out);
        } else {
            for place in 0..subscription.requests() {
                subscription.ask(out, place, None);
            }
        }
        listening
    }

    /// Streams of it that are open.
    pub fn open(&self) -> usize {
        self.streams.iter().filter(|place| **place == Place::Open).count()
    }

    /// Whether all its streams are open for the first time; told once.
    #[inline]
    pub fn is_newly_whole(&mut self) -> bool {
        if self.has_opened {
            return false;
        }
        self.has_opened = self.streams.iter().all(|place| *place == Place::Open);
        self.has_opened
    }

    /// Whether all its streams were open at one time.
    pub const fn has_opened(&self) -> bool {
        self.has_opened
    }

    /// Asks again for streams that have ended; whether there was one.
    pub fn ask_again(&mut self, subscription: &Subscription, out: &mut Vec<u8>) -> bool {
        let before = out.len();
        for (place, stream) in self.streams.iter_mut().enumerate() {
            if *stream == Place::Ended {
                *stream = Place::Asked;
                subscription.ask(out, place, None);
            }
        }
        out.len() > before
    }

    /// Takes in what arrived, and tells what came of it. Call it once with nothing behind
    /// [`Listening::new`]: more may have come with the opening.
    ///
    /// # Errors
    ///
    /// Where the server refuses to be listened to, or says what no server may.
    #[inline]
    pub fn hear(
        &mut self,
        subscription: &mut Subscription,
        arrived: &[u8],
        mut tell: impl FnMut(Hearing),
    ) -> Result<(), Refused> {
        let mut begun = std::mem::take(&mut self.begun);
        let is_split = !begun.is_empty();
        if is_split {
            begun.extend_from_slice(arrived);
        }
        let done = self.read(subscription, if is_split { &begun } else { arrived }, &mut tell)?;
        if is_split {
            begun.drain(..done);
        } else {
            begun.extend_from_slice(&arrived[done..]);
        }
        self.begun = begun;
        Ok(())
    }

    /// Goes through `bytes`; returns how far it came.
    fn read(
        &mut self,
        subscription: &mut Subscription,
        bytes: &[u8],
        tell: &mut impl FnMut(Hearing),
    ) -> Result<usize, Refused> {
        let mut from = 0;
        // Apart from the rest of what is known here, which its events borrow from it.
        let mut reader = std::mem::replace(&mut self.reader, Reader::Lines(LineReader::default()));
        let read = loop {
            let look = match reader.look(&bytes[from..]) {
                Ok(Some(look)) => look,
                Ok(None) => break Ok(from),
                Err(broken) => break Err(Refused::new(Failure::Garbage, broken.0.as_bytes())),
            };
            let (taken, heard) = look;
            from += taken;
            let weighed = match heard {
                Some(heard) => self.weigh(subscription, heard, tell),
                None => Ok(()),
            };
            if let Err(refused) = weighed {
                break Err(refused);
            }
            if self.is_attaching && reader.is_in_stream() {
                self.is_attaching = false;
                self.open_session(tell);
            }
        };
        self.reader = reader;
        read
    }

    fn weigh(
        &mut self,
        subscription: &mut Subscription,
        heard: Heard<'_>,
        tell: &mut impl FnMut(Hearing),
    ) -> Result<(), Refused> {
        match heard {
            Heard::Text(text) => return self.weigh_text(subscription, text, tell),
            Heard::Over { status: status @ 300.., .. } => {
                let said = format!("status {status}");
                return Err(Refused::new(status_failure(status), said.as_bytes()));
            }
            Heard::Over { .. } => return self.go_on(subscription, tell),
            Heard::Reply(reply) => tell(Hearing::Say(reply.to_vec())),
            Heard::Close => {
                let mut goodbye = Vec::new();
                frames::write_close(&mut goodbye);
                tell(Hearing::Say(goodbye));
                tell(Hearing::Closing);
            }
        }
        Ok(())
    }

    #[inline]
    fn weigh_text(
        &mut self,
        subscription: &mut Subscription,
        text: &[u8],
        tell: &mut impl FnMut(Hearing),
    ) -> Result<(), Refused> {
        if let Some(place) = subscription.recognize(text) {
            self.told(place, tell);
            return Ok(());
        }
        match judge(text, |_| None) {
            Judgement::Notice => match subscription.read(text) {
                Notice::Change { id } => {
                    let place = id.map_or(Some(0), |id| subscription.place(id));
                    self.told(place.unwrap_or(usize::MAX), tell);
                }
                Notice::Acknowledged { id, is_whole } => {
                    let place = id.and_then(|id| subscription.place(id));
                    let stream = place.and_then(|place| self.streams.get_mut(place));
                    let is_due = stream.as_deref() == Some(&Place::Asked);
                    let Some(stream) = stream.filter(|_| is_due && is_whole) else {
                        return Err(Refused::new(Failure::Wrong, text));
                    };
                    *stream = Place::Open;
                    tell(Hearing::Opened);
                }
                Notice::Unasked => tell(Hearing::Stray),
                Notice::Nothing => {}
            },
            Judgement::Question { id, is_ping } if !subscription.is_over(Transport::Http) => {
                let words = subscription.speech().frame(&answer(id, is_ping));
                tell(Hearing::Say(words));
            }
            Judgement::Question { .. } => {}
            Judgement::Answer { id, failure } => {
                return self.take_answer(subscription, (id, failure), text, tell);
            }
            Judgement::Nameless => return Err(Refused::new(Failure::Rpc, text)),
            Judgement::Garbage => return Err(Refused::new(Failure::Garbage, text)),
        }
        Ok(())
    }

    #[inline]
    fn told(&mut self, place: usize, tell: &mut impl FnMut(Hearing)) {
        match self.streams.get(place) {
            Some(Place::Open) => tell(Hearing::Told(place)),
            _ => tell(Hearing::Stray),
        }
    }

    /// An answer: of a modern server it is the end of a stream, of a legacy one what was waited
    /// for.
    #[cold]
    fn take_answer(
        &mut self,
        subscription: &Subscription,
        (id, failure): (u64, Option<Failure>),
        text: &[u8],
        tell: &mut impl FnMut(Hearing),
    ) -> Result<(), Refused> {
        let Some(place) = subscription.place(id) else {
            return Err(Refused::new(Failure::Wrong, text));
        };
        if subscription.is_modern() {
            if self.streams[place] != Place::Open {
                return Err(Refused::new(failure.unwrap_or(Failure::Wrong), text));
            }
            self.streams[place] = Place::Ended;
            tell(Hearing::Ended);
            return Ok(());
        }
        if let Some(failure) = failure {
            return Err(Refused::new(failure, text));
        }
        self.answered += 1;
        self.open_unasked(subscription, tell);
        Ok(())
    }

    /// A response of HTTP is over: the next request is due, or the stream has ended.
    #[cold]
    fn go_on(
        &mut self,
        subscription: &Subscription,
        tell: &mut impl FnMut(Hearing),
    ) -> Result<(), Refused> {
        let has_begun = self.streams.iter().any(|place| *place != Place::Asked);
        if has_begun {
            if let Some(stream) = self.streams.iter_mut().find(|place| **place == Place::Open) {
                *stream = Place::Ended;
                tell(Hearing::Ended);
            }
            tell(Hearing::Closing);
            return Ok(());
        }
        let is_answered = self.answered == self.asked;
        if subscription.is_modern() || self.is_attaching || !is_answered {
            return Err(Refused::new(Failure::Wrong, b"a response without an answer"));
        }
        let mut words = Vec::new();
        self.ask_next(subscription, &mut words);
        tell(Hearing::Say(words));
        Ok(())
    }

    /// Posts the next request of HTTP, or asks for the stream of the session behind the last.
    fn ask_next(&mut self, subscription: &Subscription, out: &mut Vec<u8>) {
        let session = self.session.as_deref();
        if self.asked < subscription.requests() {
            subscription.ask(out, self.asked, session);
            self.asked += 1;
            return;
        }
        self.is_attaching = true;
        let speech = subscription.speech();
        let mut head = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nAccept: text/event-stream\r\n",
            speech.path, speech.authority
        );
        for field in &speech.fields {
            push_field(&mut head, field.name(), field.value());
        }
        push_field(&mut head, "MCP-Protocol-Version", speech.era.revision());
        out.extend_from_slice(head.as_bytes());
        if let Some(session) = session {
            out.extend_from_slice(b"Mcp-Session-Id: ");
            out.extend_from_slice(session);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\r\n");
    }

    /// A legacy session is a stream by itself once all that it asked for is granted.
    fn open_unasked(&mut self, subscription: &Subscription, tell: &mut impl FnMut(Hearing)) {
        if !subscription.is_modern()
            && !subscription.is_over(Transport::Http)
            && self.answered >= subscription.requests()
        {
            self.open_session(tell);
        }
    }

    fn open_session(&mut self, tell: &mut impl FnMut(Hearing)) {
        if let Some(stream @ Place::Asked) = self.streams.first_mut() {
            *stream = Place::Open;
            tell(Hearing::Opened);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialogue::call::{ID_FIRST, Speech};
    use crate::dialogue::subscription::Subject;
    use crate::target::Era;

    struct Stage {
        subscription: Subscription,
        listening: Listening,
        asked: String,
    }

    impl Stage {
        fn new(transport: Transport, era: Era, subject: Subject, streams: usize) -> Self {
            let speech = Speech {
                transport,
                era,
                authority: "localhost:1".into(),
                path: "/mcp".into(),
                fields: Vec::new(),
            };
            let reader = match transport {
                Transport::Http => Reader::Responses(Box::default()),
                Transport::WebSocket => Reader::Frames(Box::default()),
                _ => Reader::Lines(LineReader::default()),
            };
            let subscription = Subscription::new(&speech, subject, streams);
            let session = (era == Era::Legacy).then(|| Box::from(&b"s1"[..]));
            let mut asked = Vec::new();
            let opened = (reader, Vec::new(), session);
            let listening = Listening::new(&subscription, opened, &mut asked);
            let asked = String::from_utf8_lossy(&asked).into();
            Self { subscription, listening, asked }
        }

        /// What is told of these bytes.
        fn hear(&mut self, bytes: impl AsRef<[u8]>) -> Vec<String> {
            let mut told = Vec::new();
            let heard = self.listening.hear(&mut self.subscription, bytes.as_ref(), |hearing| {
                told.push(match hearing {
                    Hearing::Say(words) => {
                        self.asked = String::from_utf8_lossy(&words).into();
                        "say".into()
                    }
                    other => format!("{other:?}").to_lowercase(),
                });
            });
            if let Err(refused) = heard {
                told.push(refused.failure.to_string());
            }
            told
        }
    }

    fn notification(method: &str, place: u64, rest: &str) -> String {
        let id = ID_FIRST + place;
        format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/{method}\",\"params\":{{\"_meta\":\
             {{\"io.modelcontextprotocol/subscriptionId\":{id}}}{rest}}}}}\n"
        )
    }

    fn acknowledged(place: u64) -> String {
        let granted = ",\"notifications\":{\"toolsListChanged\":true}";
        notification("subscriptions/acknowledged", place, granted)
    }

    fn changed(place: u64) -> String {
        notification("tools/list_changed", place, "")
    }

    fn result(place: u64) -> String {
        format!("{{\"id\":{},\"result\":{{}}}}\n", ID_FIRST + place)
    }

    /// The head of a stream of events.
    const STREAM: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
        Transfer-Encoding: chunked\r\n\r\n";

    fn event(text: &str) -> String {
        let event = format!("data: {}\n\n", text.trim());
        format!("{:x}\r\n{event}\r\n", event.len())
    }

    #[test]
    fn every_stream_of_a_connection_hears_in_its_own_name_in_any_cut() {
        let stream = [0, 1, 2].map(acknowledged).concat() + &[2, 0, 1, 2].map(changed).concat();
        for piece in [1, 7, 100, stream.len()] {
            let mut stage = Stage::new(Transport::Tcp, Era::Modern, Subject::Tools, 3);
            assert_eq!(stage.asked.lines().count(), 3);
            let told: Vec<String> =
                stream.as_bytes().chunks(piece).flat_map(|piece| stage.hear(piece)).collect();
            let expected =
                ["opened", "opened", "opened", "told(2)", "told(0)", "told(1)", "told(2)"];
            assert_eq!(told, expected, "in pieces of {piece}");
            assert_eq!(stage.listening.open(), 3);
            assert!(stage.listening.is_newly_whole() && !stage.listening.is_newly_whole());
        }
    }

    #[test]
    fn a_change_before_the_acknowledgement_or_for_nobody_is_stray() {
        let mut stage = Stage::new(Transport::Tcp, Era::Modern, Subject::Tools, 1);
        assert_eq!(stage.hear(changed(0)), ["stray"]);
        assert_eq!(stage.hear(acknowledged(0)), ["opened"]);
        assert_eq!(stage.hear([changed(1), changed(0)].concat()), ["stray", "told(0)"]);
        assert_eq!(stage.hear(notification("prompts/list_changed", 0, "")), ["stray"]);
    }

    #[test]
    fn a_stream_that_ends_is_told_and_asked_for_again() {
        let mut stage = Stage::new(Transport::Tcp, Era::Modern, Subject::Tools, 2);
        assert_eq!(stage.hear([acknowledged(0), acknowledged(1)].concat()), ["opened", "opened"]);
        assert_eq!(stage.hear([result(1), changed(1)].concat()), ["ended", "stray"]);
        let mut asked = Vec::new();
        assert!(stage.listening.ask_again(&stage.subscription, &mut asked));
        assert!(!stage.listening.ask_again(&stage.subscription, &mut asked));
        assert!(String::from_utf8_lossy(&asked).contains(&(ID_FIRST + 1).to_string()));
        assert_eq!(stage.hear(acknowledged(1)), ["opened"]);
    }

    #[test]
    fn a_server_that_does_not_let_listen_is_refused_by_what_it_says() {
        let told = |bytes: &str| {
            Stage::new(Transport::Tcp, Era::Modern, Subject::Tools, 1).hear(bytes).concat()
        };
        let error = result(0).replace("\"result\":{}", "\"error\":{\"code\":-32601}");
        assert_eq!(told(&error), "rpc_error");
        assert_eq!(told(&result(0)), "wrong");
        assert_eq!(told(&result(5)), "wrong");
        assert_eq!(told(&acknowledged(0).replace("true", "false")), "wrong");
        assert_eq!(told(&acknowledged(0).repeat(2)), "openedwrong");
        assert_eq!(told("what?\n"), "garbage");
        assert_eq!(told("{\"id\":null,\"error\":{}}\n"), "rpc_error");
    }

    #[test]
    fn a_legacy_session_over_lines_is_a_stream_by_itself() {
        let mut stage = Stage::new(Transport::Tcp, Era::Legacy, Subject::Tools, 1);
        let change = "{\"method\":\"notifications/tools/list_changed\"}\n";
        assert!(stage.asked.contains("\"ping\""), "{}", stage.asked);
        assert_eq!(stage.hear(change), ["stray"], "it may not have read that we are there");
        assert_eq!(stage.hear(result(0)), ["opened"]);
        assert_eq!(stage.hear(change.repeat(2)), ["told(0)", "told(0)"]);
        assert_eq!(stage.hear("{\"id\":7,\"method\":\"ping\"}\n"), ["say"]);
        assert!(stage.asked.contains("\"id\":7,\"result\""), "{}", stage.asked);
    }

    #[test]
    fn a_legacy_session_waits_until_all_its_resources_are_granted() {
        let uris = || Subject::Uris(vec!["test://a".into(), "test://b".into()]);
        let mut stage = Stage::new(Transport::Tcp, Era::Legacy, uris(), 1);
        assert_eq!(stage.asked.lines().count(), 2);
        assert!(stage.hear(result(1)).is_empty());
        assert_eq!(stage.hear(result(0)), ["opened"]);
        let mut stage = Stage::new(Transport::Tcp, Era::Legacy, uris(), 1);
        let error = result(0).replace("\"result\":{}", "\"error\":{\"code\":-32002}");
        assert_eq!(stage.hear(error), ["rpc_error"]);
    }

    #[test]
    fn a_modern_stream_over_http_is_its_response() {
        let mut stage = Stage::new(Transport::Http, Era::Modern, Subject::Tools, 1);
        assert!(stage.asked.contains("\r\nMcp-Method: subscriptions/listen\r\n"));
        let opened = [STREAM, &event(&acknowledged(0)), &event(&changed(0))].concat();
        assert_eq!(stage.hear(opened), ["opened", "told(0)"]);
        assert_eq!(stage.hear("2\r\n:\n\r\n"), [""; 0], "a comment says nothing");
        let end = [&event(&result(0)), "0\r\n\r\n"].concat();
        assert_eq!(stage.hear(end), ["ended", "closing"]);
        let mut cut = Stage::new(Transport::Http, Era::Modern, Subject::Tools, 1);
        let ended = [STREAM, &event(&acknowledged(0)), "0\r\n\r\n"].concat();
        assert_eq!(cut.hear(ended), ["opened", "ended", "closing"]);
    }

    #[test]
    fn a_legacy_stream_over_http_is_got_behind_what_was_posted() {
        let uris = Subject::Uris(vec!["test://a".into()]);
        let mut stage = Stage::new(Transport::Http, Era::Legacy, uris, 1);
        assert!(stage.asked.starts_with("POST ") && stage.asked.contains("resources/subscribe"));
        let body = result(0);
        let granted = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        assert_eq!(stage.hear(granted), ["say"]);
        assert!(stage.asked.starts_with("GET /mcp HTTP/1.1\r\n"), "{}", stage.asked);
        assert!(stage.asked.ends_with("\r\nMcp-Session-Id: s1\r\n\r\n"), "{}", stage.asked);
        assert_eq!(stage.hear(STREAM), ["opened"]);
        let updated = "{\"method\":\"notifications/resources/updated\",\
            \"params\":{\"uri\":\"test://a\"}}";
        assert_eq!(stage.hear(event(updated)), ["told(0)"]);
    }

    #[test]
    fn a_response_that_opens_no_stream_is_refused() {
        let empty = "HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n";
        for era in [Era::Modern, Era::Legacy] {
            let mut stage = Stage::new(Transport::Http, era, Subject::Tools, 1);
            assert_eq!(stage.hear(empty), ["http_4xx"]);
            let mut stage = Stage::new(Transport::Http, era, Subject::Tools, 1);
            assert_eq!(stage.hear(empty.replace("405 No", "202 Accepted")), ["wrong"]);
        }
        let uris = Subject::Uris(vec!["test://a".into()]);
        let mut stage = Stage::new(Transport::Http, Era::Legacy, uris, 1);
        assert_eq!(stage.hear(empty.replace("405 No", "202 Accepted")), ["wrong"]);
    }
}
