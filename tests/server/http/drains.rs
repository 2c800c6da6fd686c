//! Draining while requests, streams and sessions are open.

use std::sync::Arc;
use std::time::Duration;

use corelane::{Catalog, Server};
use corelane_protocol::model::Implementation;
use corelane_test_support::messages::{
    LEGACY, call, echo, expect_error, modern, result_text, with_progress,
};
use corelane_test_support::{
    Request, TestServer, http_options, on_one_shard_and_two, over_each_ring,
};
use serde_json::{Value, json};

use crate::http::http_session::HttpSession;

#[test]
fn drain_answers_requests_in_flight() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), LEGACY);
        let hold = |id: &str| call(id, "hold", json!({}));
        let mut silent = server.connect_http();
        silent.send(&Request::modern(&modern(hold("a"))));
        assert_eq!(server.next_signal(), "begun");
        let mut streaming = server.connect_http();
        streaming.request_stream(&Request::modern(&with_progress(modern(hold("b")))));
        assert_eq!(server.next_signal(), "begun");
        streaming.read_message();
        let mut legacy: Vec<_> = (0..4).map(|_| session.connect()).collect();
        for (number, client) in legacy.iter_mut().enumerate() {
            client.send(&session.post(&hold(&format!("c{number}"))));
            assert_eq!(server.next_signal(), "begun");
        }
        let mut streaming_legacy: Vec<_> = (0..4).map(|_| session.connect()).collect();
        for (number, client) in streaming_legacy.iter_mut().enumerate() {
            client.request_stream(&session.post(&with_progress(hold(&format!("d{number}")))));
            assert_eq!(server.next_signal(), "begun");
            client.read_priming_event();
            client.read_message();
        }
        server.drain();
        server.open_gate();
        assert_eq!(result_text(&silent.read_response().message()), "held");
        assert_eq!(result_text(&streaming.read_message_without_id()), "held");
        streaming.expect_end_of_stream();
        for client in &mut legacy {
            assert_eq!(result_text(&client.read_response().message()), "held");
        }
        for client in &mut streaming_legacy {
            assert_eq!(result_text(&client.read_message().1), "held");
            client.expect_end_of_stream();
        }
        for client in
            legacy.iter_mut().chain(&mut streaming_legacy).chain([&mut silent, &mut streaming])
        {
            client.expect_eof_or_reset();
        }
        drop((silent, streaming, legacy, streaming_legacy));
        let counters = server.join();
        assert_eq!(counters.requests.cancelled, 0, "{counters}");
    });
}

#[test]
fn drain_ends_idle_streams() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let sessions: Vec<_> =
            (0..8).map(|_| HttpSession::initialize(server.address(), LEGACY)).collect();
        let mut listeners: Vec<_> = sessions.iter().map(HttpSession::open_stream).collect();
        let mut idle = server.connect_http();
        idle.expect_alive();
        server.drain();
        for listener in &mut listeners {
            listener.expect_end_of_stream();
            listener.expect_eof_or_reset();
        }
        idle.expect_eof_or_reset();
        drop((listeners, idle));
        server.join();
    });
}

/// Asserts that a response is the error of a call that the drain has cut.
fn expect_cut(response: &Value, id: i64) {
    expect_error(response, 1001, Some(json!(id)));
    assert_eq!(
        response["error"]["data"],
        json!({"started": true, "retryable": false}),
        "{response}"
    );
}

#[test]
fn drain_timeout_answers_started_calls_without_retry() {
    on_one_shard_and_two(|mut options| {
        options.engine.drain_timeout = Duration::from_millis(50);
        let server = TestServer::with_test_tools(options);
        let endless = |id: i64| call(id, "until-cancelled", json!({}));
        let mut silent = server.connect_http();
        silent.send(&Request::modern(&modern(endless(1))));
        assert_eq!(server.next_signal(), "begun");
        let mut streaming = server.connect_http();
        streaming.request_stream(&Request::modern(&with_progress(modern(endless(2)))));
        assert_eq!(server.next_signal(), "begun");
        streaming.read_message();
        let sessions: Vec<_> =
            (0..4).map(|_| HttpSession::initialize(server.address(), LEGACY)).collect();
        let mut legacy: Vec<_> = sessions.iter().map(HttpSession::connect).collect();
        for (client, session) in legacy.iter_mut().zip(&sessions) {
            client.send(&session.post(&endless(3)));
            assert_eq!(server.next_signal(), "begun");
        }
        let mut legacy_stream = sessions[0].connect();
        legacy_stream.request_stream(&sessions[0].post(&with_progress(endless(3))));
        assert_eq!(server.next_signal(), "begun");
        legacy_stream.read_priming_event();
        legacy_stream.read_message();

        server.drain();
        let response = silent.read_response();
        assert!(response.head.field("Retry-After").is_none(), "{response:?}");
        expect_cut(&response.expect_error(503, 1001, Some(json!(1))), 1);
        expect_cut(&streaming.read_message_without_id(), 2);
        streaming.expect_end_of_stream();
        for client in &mut legacy {
            expect_cut(&client.read_response().expect_error(503, 1001, Some(json!(3))), 3);
        }
        expect_cut(&legacy_stream.read_message().1, 3);
        legacy_stream.expect_end_of_stream();
        for client in legacy.iter_mut().chain([&mut silent, &mut streaming, &mut legacy_stream]) {
            client.expect_eof_or_reset();
        }
        drop((silent, streaming, legacy, legacy_stream));
        let counters = server.join();
        assert_eq!((counters.requests.cut, counters.requests.cancelled), (7, 7), "{counters}");
    });
}

#[test]
fn readyz_answers_503_until_drain_delay_has_passed() {
    on_one_shard_and_two(|mut options| {
        options.engine.drain_delay = Duration::from_hours(1);
        let server = TestServer::with_test_tools(options.clone());
        let ready = || server.connect_http().exchange(&Request::new("GET", "/readyz")).status();
        assert_eq!(ready(), 200);
        let mut idle = server.connect_http();
        server.drain();
        while ready() == 200 {}
        // Everything else is served, on old and new connections.
        for client in [&mut idle, &mut server.connect_http()] {
            let response = client.exchange(&Request::modern(&modern(echo(1, "served"))));
            assert_eq!(result_text(&response.message()), "served");
        }
        options.engine.drain_delay = Duration::ZERO;
        server.handle().reload_limits(&options);
        idle.expect_eof_or_reset();
        drop(idle);
        server.join();
    });
}

#[test]
fn drain_cancels_open_elicitation_and_answers_call() {
    over_each_ring(http_options(), |options| {
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), LEGACY);
        let mut client = session.connect();
        client.request_stream(&session.post(&call(1, "ask", json!({}))));
        client.read_priming_event();
        client.read_message();
        server.drain();
        let (_, withdrawn) = client.read_message();
        assert_eq!(withdrawn["method"], "notifications/cancelled", "{withdrawn}");
        let (_, response) = client.read_message();
        assert_eq!(response["id"], 1, "{response}");
        client.expect_end_of_stream();
        drop(client);
        server.join();
    });
}

#[test]
fn start_callback_guard_is_dropped_after_drain() {
    on_one_shard_and_two(|options| {
        let guard = Arc::new(());
        let observer = Arc::downgrade(&guard);
        let catalog = Catalog::builder(Implementation::new("guarded", "1")).build().unwrap();
        let server = Server::builder(catalog).options(options).on_start(move |handle| {
            handle.drain();
            guard
        });
        let running = server.start().expect("server starts");
        assert!(observer.upgrade().is_some());
        running.join().expect("the handle of the callback drains");
        assert!(observer.upgrade().is_none());
    });
}
