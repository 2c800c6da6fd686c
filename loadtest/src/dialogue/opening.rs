//! What has to be said on a connection before its first request, step by step.
//!
//! ```text
//!  modern   TCP, HTTP          nothing
//!           stdio              server/discover
//!           WebSocket          upgrade
//!  legacy   TCP, stdio         initialize, then `initialized`, which has no answer
//!           WebSocket          upgrade, then as above
//!           HTTP               initialize, then a post of `initialized` within the session
//! ```
//!
//! What it keeps true: a connection counts as open when the server has agreed to every step; one
//! that it refuses fails with what the server said.
//!
//! A program that was just started takes its time until it reads: `server/discover`, which every
//! modern server must answer, tells when it does, so that no request waits for the start of its
//! server. Whatever the answer is, it is a sign of life; what a server is worth the requests tell.

use httparse::{EMPTY_HEADER, Header, Status};

use super::call::{INITIALIZED_TEXT, Speech, discover_text, framed, initialize_text, push_field};
use super::judge::{Judgement, judge};
use crate::measure::outcome::Failure;
use crate::target::{Era, Transport};
use crate::wire::lines::LineReader;
use crate::wire::{Heard, Reader};

/// Bytes of an answer that an error tells.
const SAID_BYTES_MAX: usize = 200;
/// The key of every upgrade: sixteen bytes, which need not be secret (RFC 6455 section 4.1).
const UPGRADE_KEY: &str = "Y29yZWxhbmUtbG9hZC1nZQ==";
/// What a server makes of that key (RFC 6455 section 4.2.2): one that says it has understood the
/// upgrade.
const UPGRADE_ACCEPT: &str = "mY3BX7hrNcyiYHhxDOajVqtUBxM=";

/// Where an opening stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Step {
    Upgrade,
    Discover,
    Initialize,
    Initialized,
    Over,
}

/// A connection that is being opened.
#[derive(Debug)]
pub struct Opening {
    step: Step,
    reader: Reader,
    begun: Vec<u8>,
    session: Option<Box<[u8]>>,
    /// The server has agreed to `initialize`.
    is_agreed: bool,
    /// Why it has not, where its response is not over: the status counts for more.
    refused: Option<Refused>,
}

/// What follows from what was heard.
#[derive(Debug)]
pub enum Progress {
    /// Nothing yet.
    Wait,
    /// These bytes are to be sent.
    Say(Vec<u8>),
    /// It is open. Bytes may have to be sent that have no answer.
    Open(Vec<u8>),
}

/// Why a connection did not open.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refused {
    /// How it is counted.
    pub failure: Failure,
    /// What the server said.
    pub said: String,
}

impl Refused {
    pub(super) fn new(failure: Failure, said: &[u8]) -> Self {
        let said = String::from_utf8_lossy(&said[..said.len().min(SAID_BYTES_MAX)]);
        Self { failure, said: said.escape_debug().to_string() }
    }
}

impl Opening {
    /// The opening of a connection to a server that is spoken to like this.
    pub fn new(speech: &Speech) -> Self {
        let step = match (speech.transport, speech.era) {
            (Transport::WebSocket, _) => Step::Upgrade,
            (_, Era::Legacy) => Step::Initialize,
            (Transport::Stdio, Era::Modern) => Step::Discover,
            (_, Era::Modern) => Step::Over,
        };
        let reader = match speech.transport {
            Transport::Tcp | Transport::Stdio => Reader::Lines(LineReader::default()),
            Transport::Http => Reader::Responses(Box::default()),
            Transport::WebSocket => Reader::Frames(Box::default()),
        };
        Self { step, reader, begun: Vec::new(), session: None, is_agreed: false, refused: None }
    }

    /// What is to be said first.
    pub fn begin(&self, speech: &Speech) -> Progress {
        match self.step {
            Step::Upgrade => Progress::Say(upgrade(speech)),
            Step::Over => Progress::Open(Vec::new()),
            Step::Discover => Progress::Say(framed(speech, &discover_text(), "", None)),
            _ => Progress::Say(framed(speech, &initialize_text(), "initialize", None)),
        }
    }

    /// Goes one step further where what arrived allows it. Call it again with nothing until it
    /// says [`Progress::Wait`] or the opening is over.
    ///
    /// # Errors
    ///
    /// Where the server refuses, or says what no server may.
    pub fn hear(&mut self, speech: &Speech, arrived: &[u8]) -> Result<Progress, Refused> {
        self.begun.extend_from_slice(arrived);
        if self.step == Step::Upgrade {
            return self.hear_upgrade(speech);
        }
        while self.step != Step::Over {
            let begun = std::mem::take(&mut self.begun);
            let (taken, progress) = self.look(speech, &begun)?;
            self.begun = begun;
            self.begun.drain(..taken.unwrap_or_default());
            match progress {
                Some(progress) => return Ok(progress),
                None if taken.is_none() => break,
                None => {}
            }
        }
        Ok(Progress::Wait)
    }

    /// The reader, what it is not done with, and the session: once the opening is over.
    pub fn finish(self) -> (Reader, Vec<u8>, Option<Box<[u8]>>) {
        // The buffer has held the whole answer to `initialize`; most connections need none again.
        let begun = if self.begun.is_empty() { Vec::new() } else { self.begun };
        (self.reader, begun, self.session)
    }

    fn hear_upgrade(&mut self, speech: &Speech) -> Result<Progress, Refused> {
        let mut fields = [EMPTY_HEADER; 32];
        let mut response = httparse::Response::new(&mut fields);
        let length = match response.parse(&self.begun) {
            Ok(Status::Complete(length)) => length,
            Ok(Status::Partial) => return Ok(Progress::Wait),
            Err(_) => return Err(Refused::new(Failure::Garbage, &self.begun)),
        };
        if response.code != Some(101) {
            let failure = status_failure(response.code.unwrap_or_default());
            return Err(Refused::new(failure, &self.begun));
        }
        let accepts = |field: &Header<'_>| {
            field.name.eq_ignore_ascii_case("sec-websocket-accept")
                && field.value.trim_ascii() == UPGRADE_ACCEPT.as_bytes()
        };
        if !response.headers.iter().any(accepts) {
            return Err(Refused::new(Failure::Garbage, &self.begun));
        }
        self.begun.drain(..length);
        if speech.era == Era::Modern {
            self.step = Step::Over;
            return Ok(Progress::Open(Vec::new()));
        }
        self.step = Step::Initialize;
        Ok(Progress::Say(framed(speech, &initialize_text(), "initialize", None)))
    }

    /// Looks for the answer that this step waits for.
    fn look(
        &mut self,
        speech: &Speech,
        bytes: &[u8],
    ) -> Result<(Option<usize>, Option<Progress>), Refused> {
        let look = self.reader.look(bytes);
        let look = look.map_err(|broken| Refused::new(Failure::Garbage, broken.0.as_bytes()))?;
        let Some((taken, heard)) = look else { return Ok((None, None)) };
        let is_response = speech.transport == Transport::Http;
        let progress = match heard {
            Some(Heard::Text(text)) => {
                let failure = match judge(text, |_| None) {
                    Judgement::Answer { id: 0, .. } if self.step == Step::Discover => {
                        self.step = Step::Over;
                        return Ok((Some(taken), Some(Progress::Open(Vec::new()))));
                    }
                    Judgement::Answer { id: 0, failure } => failure,
                    // It may say something before it answers.
                    Judgement::Notice | Judgement::Question { .. } => {
                        return Ok((Some(taken), None));
                    }
                    Judgement::Answer { failure: Some(failure), .. } => Some(failure),
                    _ => Some(Failure::Garbage),
                };
                let refused = failure.map(|failure| Refused::new(failure, text));
                match (refused, is_response) {
                    (Some(refused), false) => return Err(refused),
                    (refused, true) => {
                        self.is_agreed = refused.is_none();
                        self.refused = refused;
                        None
                    }
                    (None, false) => {
                        self.step = Step::Over;
                        Some(Progress::Open(framed(speech, INITIALIZED_TEXT, "", None)))
                    }
                }
            }
            Some(Heard::Over { status, .. }) if status >= 300 => {
                let said = self.refused.take().map_or_else(String::new, |refused| refused.said);
                return Err(Refused {
                    failure: status_failure(status),
                    said: format!("{status} {said}"),
                });
            }
            Some(Heard::Over { session, .. }) => match (self.step, self.refused.take()) {
                (_, Some(refused)) => return Err(refused),
                (Step::Initialize, None) if self.is_agreed => {
                    self.step = Step::Initialized;
                    self.session = session.map(Box::from);
                    let session = self.session.as_deref();
                    Some(Progress::Say(framed(speech, INITIALIZED_TEXT, "", session)))
                }
                (Step::Initialized, None) => {
                    self.step = Step::Over;
                    Some(Progress::Open(Vec::new()))
                }
                _ => return Err(Refused::new(Failure::Garbage, b"no answer to initialize")),
            },
            Some(Heard::Reply(reply)) => Some(Progress::Say(reply.to_vec())),
            Some(Heard::Close) => return Err(Refused::new(Failure::Closed, b"it closed")),
            None => None,
        };
        Ok((Some(taken), progress))
    }
}

/// How a status that is no success is counted.
pub(super) const fn status_failure(status: u16) -> Failure {
    match status {
        500..600 => Failure::HttpFailed,
        _ => Failure::HttpRefused,
    }
}

fn upgrade(speech: &Speech) -> Vec<u8> {
    let Speech { authority, path, fields, .. } = speech;
    let mut head = format!(
        "GET {path} HTTP/1.1\r\nHost: {authority}\r\nUpgrade: websocket\r\n\
         Connection: Upgrade\r\nSec-WebSocket-Key: {UPGRADE_KEY}\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mcp\r\n"
    );
    for field in fields {
        push_field(&mut head, field.name(), field.value());
    }
    head.push_str("\r\n");
    head.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGREED: &str = "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{}}";

    fn speech(transport: Transport, era: Era) -> Speech {
        Speech {
            transport,
            era,
            authority: "localhost:1".into(),
            path: "/mcp".into(),
            fields: Vec::new(),
        }
    }

    fn response(status: &str, body: &str) -> String {
        let length = body.len();
        format!("HTTP/1.1 {status}\r\nMcp-Session-Id: s1\r\nContent-Length: {length}\r\n\r\n{body}")
    }

    /// Says each answer in turn; what was sent, and how it ended.
    fn open(speech: &Speech, answers: &[&str]) -> Result<(Opening, String), Refused> {
        let mut opening = Opening::new(speech);
        let mut sent = String::new();
        let mut note = |bytes: &[u8]| sent.push_str(&String::from_utf8_lossy(bytes));
        match opening.begin(speech) {
            Progress::Say(bytes) => note(&bytes),
            _ => return Ok((opening, sent)),
        }
        for answer in answers {
            let mut arrived = answer.as_bytes();
            loop {
                match opening.hear(speech, std::mem::take(&mut arrived))? {
                    Progress::Wait => break,
                    Progress::Say(bytes) => note(&bytes),
                    Progress::Open(bytes) => {
                        note(&bytes);
                        return Ok((opening, sent));
                    }
                }
            }
        }
        panic!("still opening after {sent}");
    }

    #[test]
    fn a_modern_connection_over_lines_is_open_at_once() {
        let (_, sent) = open(&speech(Transport::Tcp, Era::Modern), &[]).unwrap();
        assert!(sent.is_empty());
    }

    #[test]
    fn a_modern_program_is_open_when_it_answers_whatever_it_answers() {
        let error = "{\"id\":0,\"error\":{\"code\":-32601}}\n".to_owned();
        for answer in [format!("{AGREED}\nmore"), error + "more"] {
            let (opening, sent) = open(&speech(Transport::Stdio, Era::Modern), &[&answer]).unwrap();
            assert!(sent.contains("\"id\":0,\"method\":\"server/discover\""), "{sent}");
            assert!(sent.contains("2026-07-28") && sent.lines().count() == 1, "{sent}");
            assert_eq!(opening.finish().1, b"more");
        }
    }

    #[test]
    fn a_legacy_connection_over_lines_shakes_hands() {
        let answer = format!("{{\"method\":\"notifications/message\"}}\n{AGREED}\nmore");
        for transport in [Transport::Tcp, Transport::Stdio] {
            let (opening, sent) = open(&speech(transport, Era::Legacy), &[&answer]).unwrap();
            assert!(sent.contains("\"initialize\""), "{sent}");
            assert!(sent.ends_with("initialized\"}\n"), "{sent}");
            assert_eq!(opening.finish().1, b"more");
        }
    }

    #[test]
    fn a_session_over_http_is_named_in_what_follows() {
        let answers = [response("200 OK", AGREED), response("202 Accepted", "")];
        let answers = answers.each_ref().map(String::as_str);
        let (opening, sent) = open(&speech(Transport::Http, Era::Legacy), &answers).unwrap();
        assert!(sent.contains("\r\nMcp-Session-Id: s1\r\n"), "{sent}");
        assert_eq!(opening.finish().2.as_deref(), Some(&b"s1"[..]));
    }

    fn upgraded() -> String {
        format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Accept: {UPGRADE_ACCEPT}\r\n\r\n"
        )
    }

    #[test]
    fn a_websocket_is_upgraded_and_then_shakes_hands() {
        let upgraded = upgraded();
        let mut bytes: Vec<u8> = vec![0x81, u8::try_from(AGREED.len()).unwrap()];
        bytes.extend_from_slice(AGREED.as_bytes());
        let speech = speech(Transport::WebSocket, Era::Legacy);
        let mut opening = Opening::new(&speech);
        let Progress::Say(first) = opening.begin(&speech) else { panic!("an upgrade") };
        assert!(first.starts_with(b"GET /mcp HTTP/1.1\r\n"));
        let Ok(Progress::Say(second)) = opening.hear(&speech, upgraded.as_bytes()) else {
            panic!("a handshake")
        };
        assert_eq!(second[0], 0x81);
        assert!(matches!(opening.hear(&speech, &bytes), Ok(Progress::Open(_))));
    }

    #[test]
    fn a_refusal_says_what_the_server_said() {
        let refused = |transport, answer: &str| {
            open(&speech(transport, Era::Legacy), &[answer]).map(|_| ()).unwrap_err()
        };
        let full = refused(Transport::Http, &response("503 Busy", "full"));
        assert_eq!(full.failure, Failure::HttpFailed);
        let error = refused(Transport::Tcp, "{\"id\":0,\"error\":{\"code\":-32602}}\n");
        assert_eq!(error.failure, Failure::Rpc);
        assert!(error.said.contains("-32602"));
        assert_eq!(refused(Transport::Tcp, "hello\n").failure, Failure::Garbage);
        let gone = refused(Transport::WebSocket, "HTTP/1.1 404 Not Found\r\n\r\n");
        assert_eq!(gone.failure, Failure::HttpRefused);
        let deaf = refused(Transport::WebSocket, &upgraded().replace("mY3B", "mY3C"));
        assert_eq!(deaf.failure, Failure::Garbage);
    }
}
