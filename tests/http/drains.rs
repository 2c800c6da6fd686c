//! Draining while requests, streams and sessions are open.

use std::sync::Arc;
use std::time::Duration;

use corelane::protocol::model::Implementation;
use corelane::{Catalog, Server};
use corelane_test_support::messages::{LEGACY, call, modern, result_text, with_progress};
use corelane_test_support::{
    Request, TestServer, http_options, on_one_shard_and_two, over_each_ring,
};
use serde_json::json;

use crate::http_session::HttpSession;

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

#[test]
fn drain_timeout_closes_connections_without_response() {
    on_one_shard_and_two(|mut options| {
        options.engine.drain_timeout = Duration::from_millis(50);
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), LEGACY);
        let mut modern_one = server.connect_http();
        modern_one.send(&Request::modern(&modern(call(1, "until-cancelled", json!({})))));
        assert_eq!(server.next_signal(), "begun");
        let mut legacy_one = session.connect();
        legacy_one.send(&session.post(&call(1, "until-cancelled", json!({}))));
        assert_eq!(server.next_signal(), "begun");
        server.close();
        for client in [&mut modern_one, &mut legacy_one] {
            // The stream may have ended before its connection was closed, without a message.
            let rest = String::from_utf8_lossy(&client.read_to_end()).into_owned();
            assert!(!rest.contains("jsonrpc"), "{rest}");
        }
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
        let server = Server::new(catalog).options(options).on_start(move |handle| {
            handle.drain();
            guard
        });
        let running = server.start().expect("server starts");
        assert!(observer.upgrade().is_some());
        running.join().expect("the handle of the callback drains");
        assert!(observer.upgrade().is_none());
    });
}
