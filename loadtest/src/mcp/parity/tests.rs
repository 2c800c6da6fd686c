//! Messages of a connection, in any order and cut.

use corelane_base::time::Instant;

use crate::mcp::request_log::RequestLog;
use crate::mcp::request_template::ID_FIRST;
use crate::mcp::response_matcher::{CompletedRequest, ReceiveEvent};
use crate::mcp::{RequestSettings, RequestTemplate, RequestTemplates};
use crate::target::{Era, Transport};
use crate::wire::Reader;
use crate::wire::lines::LineReader;

const AT: Instant = Instant::from_milliseconds(1);

/// A connection with calls of `echo`, or with streamed ones.
struct Fixture {
    log: RequestLog,
    settings: RequestSettings,
    /// Cancellations.
    output: String,
    calls: RequestTemplates,
}

impl Fixture {
    /// Creates the connection and sends requests.
    fn new(transport: Transport, is_stream: bool, requests: usize) -> Self {
        let (authority, path) = ("localhost:1", "/parity");
        let settings =
            RequestSettings::new(transport, Era::Parity, authority, path, Vec::new()).unwrap();
        let call = if is_stream {
            RequestTemplate::stream(&settings, "tools/call", None)
        } else {
            RequestTemplate::echo(&settings, 2)
        };
        let reader = match transport {
            Transport::Http => Reader::Responses(Box::default()),
            _ => Reader::Lines(LineReader::default()),
        };
        let mut fixture = Self {
            log: RequestLog::new(reader, Vec::new(), None),
            calls: RequestTemplates::new(vec![call]),
            settings,
            output: String::new(),
        };
        let mut out = Vec::new();
        for _ in 0..requests {
            fixture.log.write_request(&fixture.calls, 0, AT, AT, &mut out);
        }
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.matches(r#"{"type":"request","id":1"#).count(), requests, "{text}");
        assert_eq!(text.contains(r#""stream":true}"#), is_stream, "{text}");
        fixture
    }

    /// Lets all requests time out; returns the events.
    fn time_out(&mut self) -> Vec<String> {
        let (later, mut out) = (AT.after(std::time::Duration::from_millis(1)), Vec::new());
        let mut events = Vec::new();
        let on_event = |event| events.push(name(&event));
        self.log.time_out(later, &self.settings, &mut out, on_event);
        self.output.push_str(&String::from_utf8(out).unwrap());
        events
    }

    /// Returns the events for these bytes.
    fn receive(&mut self, bytes: &str) -> Vec<String> {
        let mut events = Vec::new();
        let received = self.log.receive(&mut self.calls, bytes.as_bytes(), |event| match event {
            ReceiveEvent::Failed { .. } => {}
            event => events.push(name(&event)),
        });
        received.unwrap();
        events
    }
}

fn name(event: &ReceiveEvent) -> String {
    match event {
        ReceiveEvent::Completed(CompletedRequest { failure: None, .. }) => "good".into(),
        ReceiveEvent::Completed(CompletedRequest { failure: Some(failure), .. }) => {
            failure.to_string()
        }
        ReceiveEvent::FirstEvent { .. } => "event".into(),
        ReceiveEvent::Chunk => "chunk".into(),
        ReceiveEvent::Keepalive(hint) => format!("keepalive {hint:?}"),
        ReceiveEvent::Unsolicited => "unsolicited".into(),
        ReceiveEvent::Late => "late".into(),
        other => format!("{other:?}"),
    }
}

fn response(number: u64, rest: &str) -> String {
    format!("{{\"type\":\"response\",\"id\":{},{rest}}}\n", ID_FIRST + number)
}

fn echo(number: u64) -> String {
    response(number, r#""result":{"content":[{"type":"text","text":"ab"}]}"#)
}

fn error(number: u64, code: &str) -> String {
    response(number, &format!(r#""error":{{"code":"{code}","message":"m","retryable":true}}"#))
}

fn opened(number: u64) -> String {
    response(number, &format!(r#""result":{{"streamId":"s{number}"}}"#))
}

fn chunk(number: u64, seq: u64, rest: &str) -> String {
    let head = r#""type":"stream.chunk","streamId""#;
    format!("{{{head}:\"s{number}\",\"seq\":{seq},\"chunkType\":{rest}}}\n")
}

const RESULT: &str = r#""result","data":{"content":[]}"#;
const EOS: &str = r#""eos","reason":"completed""#;

#[test]
fn parity_responses_match_in_any_cut() {
    let mut fixture = Fixture::new(Transport::Tcp, false, 3);
    let text = [echo(1), echo(0), echo(2).replace("ab", "ax")].concat();
    let (first, second) = text.split_at(30);
    assert!(fixture.receive(first).is_empty());
    assert_eq!(fixture.receive(second), ["good", "good", "wrong"]);
    assert_eq!(fixture.log.in_flight(), 0);
}

#[test]
fn parity_errors_fail_their_request() {
    let mut fixture = Fixture::new(Transport::Tcp, false, 4);
    assert_eq!(fixture.receive(&error(1, "error.rate_limited")), ["error.rate_limited"]);
    assert_eq!(fixture.receive(&error(0, "error.unheard_of")), ["rpc_error"]);
    let unaddressed = error(3, "error.internal").replace("response", "error");
    assert_eq!(fixture.receive(&unaddressed), ["error.internal"]);
    assert_eq!(fixture.receive("what?\n"), ["garbage"]);
    assert_eq!(fixture.receive(&echo(2)), ["unsolicited"]);
}

#[test]
fn keepalive_is_reported_between_responses() {
    let mut fixture = Fixture::new(Transport::Tcp, false, 2);
    let keepalive = "{\"type\":\"keepalive\",\"timeoutHintSec\":120}\n";
    let text = [&echo(0), keepalive, &echo(1)].concat();
    assert_eq!(fixture.receive(&text), ["good", "keepalive Some(120)", "good"]);
}

#[test]
fn streams_of_requests_are_interleaved() {
    let mut fixture = Fixture::new(Transport::Tcp, true, 2);
    assert!(fixture.receive(&[opened(1), opened(0)].concat()).is_empty());
    let chunks = [
        chunk(1, 1, RESULT),
        chunk(0, 1, r#""log","data":{"level":"info","data":1}"#),
        chunk(1, 2, EOS),
        chunk(0, 2, r#""error","data":{"code":"error.auth.forbidden","message":"m"}"#),
        chunk(0, 3, r#""eos","reason":"error""#),
    ];
    let events = fixture.receive(&chunks.concat());
    let first = ["chunk", "event", "chunk", "chunk", "good"];
    assert_eq!(events, [&first[..], &["chunk", "chunk", "error.auth.forbidden"]].concat());
    assert_eq!(
        (fixture.log.in_flight(), fixture.receive(&opened(0))),
        (0, vec!["unsolicited".into()])
    );
}

#[test]
fn response_without_stream_id_is_wrong() {
    let mut fixture = Fixture::new(Transport::Tcp, true, 2);
    assert_eq!(fixture.receive(&echo(0)), ["wrong"]);
    assert_eq!(fixture.receive(&error(1, "error.internal")), ["error.internal"]);
    assert_eq!(fixture.log.in_flight(), 0);
}

#[test]
fn stream_error_message_ends_its_request() {
    let mut fixture = Fixture::new(Transport::Tcp, true, 1);
    assert!(fixture.receive(&opened(0)).is_empty());
    let failure = r#"{"code":"error.internal","message":"m","retryable":true}"#;
    let ended = format!("{{\"type\":\"error\",\"streamId\":\"s0\",\"error\":{failure}}}\n");
    assert_eq!(fixture.receive(&ended), ["error.internal"]);
    assert_eq!(fixture.receive(&chunk(0, 1, EOS)), ["chunk", "unsolicited"]);
}

#[test]
fn timed_out_stream_is_cancelled_and_ends_late() {
    let mut fixture = Fixture::new(Transport::Tcp, true, 2);
    assert!(fixture.receive(&opened(0)).is_empty());
    assert_eq!(fixture.time_out(), ["timeout", "timeout"]);
    assert_eq!(fixture.log.in_flight(), 0);
    let cancel =
        |target: String| format!("{{\"type\":\"cancel\",{target},\"reason\":\"timeout\"}}\n");
    let targets = [r#""streamId":"s0""#.into(), format!("\"id\":{}", ID_FIRST + 1)];
    assert_eq!(fixture.output, targets.map(cancel).concat());
    let rest = [chunk(0, 1, RESULT), chunk(0, 2, EOS), chunk(0, 2, EOS)].concat();
    assert_eq!(fixture.receive(&rest), ["chunk", "chunk", "late", "chunk", "unsolicited"]);
    // The answer of the other one is its stream.
    let rest = [opened(1), chunk(1, 1, RESULT), chunk(1, 2, EOS)].concat();
    assert_eq!(fixture.receive(&rest), ["chunk", "chunk", "late"]);
}

#[test]
fn timed_out_request_may_be_answered_by_error() {
    let mut fixture = Fixture::new(Transport::Tcp, false, 2);
    fixture.time_out();
    let unaddressed = error(1, "error.internal").replace("response", "error");
    let answers = [error(0, "error.internal"), unaddressed, echo(1)].concat();
    assert_eq!(fixture.receive(&answers), ["late", "late", "unsolicited"]);
    // A server without cancellation answers later.
    let mut fixture = Fixture::new(Transport::Tcp, false, 1);
    fixture.time_out();
    let answers = [error(0, "error.feature_not_available"), echo(0)].concat();
    assert_eq!(fixture.receive(&answers), ["late"]);
}

#[test]
fn timed_out_streams_take_bounded_memory() {
    let mut fixture = Fixture::new(Transport::Tcp, true, 1_000);
    (0..1_000).for_each(|number| assert!(fixture.receive(&opened(number)).is_empty()));
    assert_eq!(fixture.time_out().len(), 1_000);
    for number in [0, 999] {
        let events = fixture.receive(&chunk(number, 1, RESULT));
        assert_eq!(events, ["chunk"], "{number}");
    }
    assert_eq!(fixture.receive(&chunk(999, 2, EOS)), ["chunk", "late"]);
}

#[test]
fn parity_error_wins_over_http_status() {
    let mut fixture = Fixture::new(Transport::Http, false, 2);
    let http = |status: &str, body: &str| {
        format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    };
    let limited = http("429 Too Many", &error(0, "error.rate_limited"));
    assert_eq!(fixture.receive(&limited), ["error.rate_limited"]);
    assert_eq!(fixture.receive(&http("429 Too Many", "wait")), ["http_429"]);
}
