//! What a connection that listens hears, in every cut, and what it is refused by.

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
        let expected = ["opened", "opened", "opened", "told(2)", "told(0)", "told(1)", "told(2)"];
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
