//! Tests of a connection with subscriptions: notifications in any cut, and refusals.

use super::*;
use crate::mcp::request_settings::RequestSettings;
use crate::mcp::request_template::ID_FIRST;
use crate::mcp::subscription::SubscriptionFilter;
use crate::target::Era;

struct Fixture {
    subscription: Subscription,
    subscriber: Subscriber,
    sent: String,
}

impl Fixture {
    fn new(transport: Transport, era: Era, subject: SubscriptionFilter, streams: usize) -> Self {
        let (authority, path) = ("localhost:1", "/mcp");
        let settings = RequestSettings::new(transport, era, authority, path, Vec::new()).unwrap();
        let reader = match transport {
            Transport::Http => Reader::Responses(Box::default()),
            Transport::WebSocket => Reader::Frames(Box::default()),
            _ => Reader::Lines(LineReader::default()),
        };
        let subscription = Subscription::new(&settings, subject, streams);
        let session = (era == Era::Legacy).then(|| Box::from("s1"));
        let mut out = Vec::new();
        let subscriber = Subscriber::new(&subscription, reader, Vec::new(), session, &mut out);
        let sent = String::from_utf8_lossy(&out).into();
        Self { subscription, subscriber, sent }
    }

    /// Returns the events for these bytes.
    fn receive(&mut self, bytes: impl AsRef<[u8]>) -> Vec<String> {
        let mut events = Vec::new();
        let received = self.subscriber.receive(&mut self.subscription, bytes.as_ref(), |event| {
            events.push(match event {
                SubscriberEvent::Send(request) => {
                    self.sent = String::from_utf8_lossy(&request).into();
                    "send".into()
                }
                other => format!("{other:?}").to_lowercase(),
            });
        });
        if let Err(refused) = received {
            events.push(refused.failure.to_string());
        }
        events
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

/// Head of an SSE response.
const STREAM: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
    Transfer-Encoding: chunked\r\n\r\n";

fn event(text: &str) -> String {
    let event = format!("data: {}\n\n", text.trim());
    format!("{:x}\r\n{event}\r\n", event.len())
}

#[test]
fn notifications_reach_their_streams_in_any_cut() {
    let stream = [0, 1, 2].map(acknowledged).concat() + &[2, 0, 1, 2].map(changed).concat();
    for piece in [1, 7, 100, stream.len()] {
        let mut fixture = Fixture::new(Transport::Tcp, Era::Modern, SubscriptionFilter::Tools, 3);
        assert_eq!(fixture.sent.lines().count(), 3);
        let events: Vec<String> =
            stream.as_bytes().chunks(piece).flat_map(|piece| fixture.receive(piece)).collect();
        let expected = [
            "opened",
            "opened",
            "opened",
            "notified(2)",
            "notified(0)",
            "notified(1)",
            "notified(2)",
        ];
        assert_eq!(events, expected, "in pieces of {piece}");
        assert_eq!(fixture.subscriber.open_streams(), 3);
        assert!(fixture.subscriber.is_newly_complete() && !fixture.subscriber.is_newly_complete());
    }
}

#[test]
fn notification_before_acknowledgement_is_stray() {
    let mut fixture = Fixture::new(Transport::Tcp, Era::Modern, SubscriptionFilter::Tools, 1);
    assert_eq!(fixture.receive(changed(0)), ["stray"]);
    assert_eq!(fixture.receive(acknowledged(0)), ["opened"]);
    assert_eq!(fixture.receive([changed(1), changed(0)].concat()), ["stray", "notified(0)"]);
    assert_eq!(fixture.receive(notification("prompts/list_changed", 0, "")), ["stray"]);
}

#[test]
fn ended_stream_is_reported_and_requested_again() {
    let mut fixture = Fixture::new(Transport::Tcp, Era::Modern, SubscriptionFilter::Tools, 2);
    assert_eq!(fixture.receive([acknowledged(0), acknowledged(1)].concat()), ["opened", "opened"]);
    assert_eq!(fixture.receive([result(1), changed(1)].concat()), ["ended", "stray"]);
    let mut out = Vec::new();
    assert!(fixture.subscriber.reopen_ended_streams(&fixture.subscription, &mut out));
    assert!(!fixture.subscriber.reopen_ended_streams(&fixture.subscription, &mut out));
    assert!(String::from_utf8_lossy(&out).contains(&(ID_FIRST + 1).to_string()));
    assert_eq!(fixture.receive(acknowledged(1)), ["opened"]);
}

#[test]
fn refused_subscription_is_an_error() {
    let events = |bytes: &str| {
        Fixture::new(Transport::Tcp, Era::Modern, SubscriptionFilter::Tools, 1)
            .receive(bytes)
            .concat()
    };
    let error = result(0).replace("\"result\":{}", "\"error\":{\"code\":-32601}");
    assert_eq!(events(&error), "rpc_error");
    assert_eq!(events(&result(0)), "wrong");
    assert_eq!(events(&result(5)), "wrong");
    assert_eq!(events(&acknowledged(0).replace("true", "false")), "wrong");
    assert_eq!(events(&acknowledged(0).repeat(2)), "openedwrong");
    assert_eq!(events("what?\n"), "garbage");
    assert_eq!(events("{\"id\":null,\"error\":{}}\n"), "rpc_error");
}

#[test]
fn legacy_tcp_session_is_one_stream() {
    let mut fixture = Fixture::new(Transport::Tcp, Era::Legacy, SubscriptionFilter::Tools, 1);
    let change = "{\"method\":\"notifications/tools/list_changed\"}\n";
    assert!(fixture.sent.contains("\"ping\""), "{}", fixture.sent);
    assert_eq!(fixture.receive(change), ["stray"], "the session may not be initialized yet");
    assert_eq!(fixture.receive(result(0)), ["opened"]);
    assert_eq!(fixture.receive(change.repeat(2)), ["notified(0)", "notified(0)"]);
    assert_eq!(fixture.receive("{\"id\":7,\"method\":\"ping\"}\n"), ["send"]);
    assert!(fixture.sent.contains("\"id\":7,\"result\""), "{}", fixture.sent);
}

#[test]
fn legacy_stream_opens_after_all_subscribe_responses() {
    let uris = || SubscriptionFilter::Uris(vec!["test://a".into(), "test://b".into()]);
    let mut fixture = Fixture::new(Transport::Tcp, Era::Legacy, uris(), 1);
    assert_eq!(fixture.sent.lines().count(), 2);
    assert!(fixture.receive(result(1)).is_empty());
    assert_eq!(fixture.receive(result(0)), ["opened"]);
    let mut fixture = Fixture::new(Transport::Tcp, Era::Legacy, uris(), 1);
    let error = result(0).replace("\"result\":{}", "\"error\":{\"code\":-32002}");
    assert_eq!(fixture.receive(error), ["rpc_error"]);
}

#[test]
fn modern_http_stream_is_its_response() {
    let mut fixture = Fixture::new(Transport::Http, Era::Modern, SubscriptionFilter::Tools, 1);
    assert!(fixture.sent.contains("\r\nMcp-Method: subscriptions/listen\r\n"));
    let opened = [STREAM, &event(&acknowledged(0)), &event(&changed(0))].concat();
    assert_eq!(fixture.receive(opened), ["opened", "notified(0)"]);
    assert_eq!(fixture.receive("2\r\n:\n\r\n"), [""; 0], "a comment is no event");
    let end = [&event(&result(0)), "0\r\n\r\n"].concat();
    assert_eq!(fixture.receive(end), ["ended", "closing"]);
    let mut cut = Fixture::new(Transport::Http, Era::Modern, SubscriptionFilter::Tools, 1);
    let ended = [STREAM, &event(&acknowledged(0)), "0\r\n\r\n"].concat();
    assert_eq!(cut.receive(ended), ["opened", "ended", "closing"]);
}

#[test]
fn legacy_http_stream_opens_after_subscribe_requests() {
    let uris = SubscriptionFilter::Uris(vec!["test://a".into()]);
    let mut fixture = Fixture::new(Transport::Http, Era::Legacy, uris, 1);
    assert!(fixture.sent.starts_with("POST ") && fixture.sent.contains("resources/subscribe"));
    let body = result(0);
    let granted = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    assert_eq!(fixture.receive(granted), ["send"]);
    assert!(fixture.sent.starts_with("GET /mcp HTTP/1.1\r\n"), "{}", fixture.sent);
    assert!(fixture.sent.ends_with("\r\nMcp-Session-Id: s1\r\n\r\n"), "{}", fixture.sent);
    assert_eq!(fixture.receive(STREAM), ["opened"]);
    let updated = "{\"method\":\"notifications/resources/updated\",\
        \"params\":{\"uri\":\"test://a\"}}";
    assert_eq!(fixture.receive(event(updated)), ["notified(0)"]);
}

#[test]
fn http_response_without_stream_is_refused() {
    let empty = "HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n";
    for era in [Era::Modern, Era::Legacy] {
        let mut fixture = Fixture::new(Transport::Http, era, SubscriptionFilter::Tools, 1);
        assert_eq!(fixture.receive(empty), ["http_4xx"]);
        let mut fixture = Fixture::new(Transport::Http, era, SubscriptionFilter::Tools, 1);
        assert_eq!(fixture.receive(empty.replace("405 No", "202 Accepted")), ["wrong"]);
    }
    let uris = SubscriptionFilter::Uris(vec!["test://a".into()]);
    let mut fixture = Fixture::new(Transport::Http, Era::Legacy, uris, 1);
    assert_eq!(fixture.receive(empty.replace("405 No", "202 Accepted")), ["wrong"]);
}
