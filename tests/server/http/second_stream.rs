//! A second GET stream of a session: each message is sent on one stream.

use corelane::Options;
use corelane::options::SecondStream;
use corelane_test_support::messages::LEGACY;
use corelane_test_support::{HttpClient, TestServer, on_one_shard_and_two};

use crate::http::http_session::HttpSession;

fn with(mut options: Options, second_stream: SecondStream) -> Options {
    options.http.second_stream = second_stream;
    options
}

/// Changes the list of tools and returns the id of the notification.
#[track_caller]
fn notify(server: &TestServer, listener: &mut HttpClient, tool: &str) -> String {
    server.add_tool(tool);
    let (id, notification) = listener.read_message();
    assert_eq!(notification["method"], "notifications/tools/list_changed", "{notification}");
    id.expect("no event id")
}

/// Reads the reconnection time and the end of a replaced stream.
#[track_caller]
fn expect_replaced(listener: &mut HttpClient) {
    let event = listener.read_event().expect("stream ended without a reconnection time");
    assert_eq!((event.retry_ms, event.data, event.id), (Some(3_000), None, None));
    listener.expect_end_of_stream();
    listener.expect_alive();
}

#[test]
fn newer_stream_replaces_the_older_by_default() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        for round in 0..4 {
            let session = HttpSession::initialize(server.address(), LEGACY);
            let mut first = session.open_stream();
            assert_eq!(notify(&server, &mut first, &format!("first-{round}")), "0-1");
            let mut second = session.open_stream();
            expect_replaced(&mut first);
            assert_eq!(notify(&server, &mut second, &format!("second-{round}")), "1-1");
            // The first client reconnects: it gets nothing that the second one got.
            let mut third = session.connect();
            third.request_stream(&session.resume("0-1"));
            expect_replaced(&mut second);
            assert_eq!(notify(&server, &mut third, &format!("third-{round}")), "0-2");
            // It has lost the second event, and resumes after the first one.
            drop(third);
            let mut fourth = session.connect();
            fourth.request_stream(&session.resume("0-1"));
            assert_eq!(fourth.read_message().0.as_deref(), Some("0-2"));
            session.connect().exchange(&session.delete()).expect_empty_body(204);
            fourth.expect_end_of_stream();
        }
        server.close();
    });
}

#[test]
fn replaced_stream_replays_its_own_events() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), LEGACY);
        let mut first = session.open_stream();
        let events = ["a", "b"].map(|tool| notify(&server, &mut first, tool));
        let mut second = session.open_stream();
        expect_replaced(&mut first);
        let other = notify(&server, &mut second, "c");
        drop(second);
        server.wait_for_status(|status| status["streams"] == 0);
        server.add_tool("d");
        let mut third = session.connect();
        third.request_stream(&session.resume(&events[0]));
        let replayed = [third.read_message().0, third.read_message().0];
        assert_eq!(replayed.map(Option::unwrap), [&*events[1], "0-3"]);
        // What the second one got is replayed to its client only.
        let mut fourth = session.connect();
        fourth.request_stream(&session.resume(&other));
        expect_replaced(&mut third);
        assert_eq!(notify(&server, &mut fourth, "e"), "1-2");
        drop((first, third, fourth));
        server.close();
    });
}

#[test]
fn joined_streams_share_the_messages() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(with(options, SecondStream::Join));
        let session = HttpSession::initialize(server.address(), LEGACY);
        let mut first = session.open_stream();
        let mut second = session.open_stream();
        for number in 1..=4 {
            let id = notify(&server, &mut second, &format!("second-{number}"));
            assert_eq!(id, format!("1-{number}"));
        }
        drop(second);
        server.wait_for_status(|status| status["streams"] == 1);
        // Its first event: it got none of those before.
        assert_eq!(notify(&server, &mut first, "first"), "0-1");
        let mut third = session.open_stream();
        assert_eq!(notify(&server, &mut third, "third"), "2-1");
        session.connect().exchange(&session.delete()).expect_empty_body(204);
        first.expect_end_of_stream();
        third.expect_end_of_stream();
        server.close();
    });
}

#[test]
fn drain_ends_all_joined_streams() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(with(options, SecondStream::Join));
        let session = HttpSession::initialize(server.address(), LEGACY);
        let mut listeners = [(); 3].map(|()| session.open_stream());
        server.drain();
        listeners.iter_mut().for_each(HttpClient::expect_end_of_stream);
        drop(listeners);
        server.join();
    });
}
