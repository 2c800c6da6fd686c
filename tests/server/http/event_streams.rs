//! Event streams in response to modern requests.

use std::time::Duration;

use corelane::model::Implementation;
use corelane::{Catalog, NoArguments, Tool};
use corelane_test_support::messages::{
    BATCHED, LEGACY, call, echo, modern, result_text, with_progress,
};
use corelane_test_support::{
    Request, TestServer, http_options, on_one_shard_and_two, over_each_ring,
};
use serde_json::json;

use crate::http::http_session::HttpSession;

#[test]
fn progress_is_sent_before_the_response() {
    over_each_ring(http_options(), |options| {
        let server = TestServer::with_test_tools(options);
        let mut client = server.connect_http();
        let request = with_progress(modern(call(1, "slow", json!({"steps": 3, "step_ms": 0}))));
        client.request_stream(&Request::modern(&request));
        for step in 1..=3 {
            let notification = client.read_message_without_id();
            assert_eq!(notification["method"], "notifications/progress", "{notification}");
            assert_eq!(
                notification["params"]["progress"].as_f64(),
                Some(f64::from(step)),
                "{notification}"
            );
        }
        assert_eq!(result_text(&client.read_message_without_id()), "took 3 steps of 0 ms");
        client.expect_end_of_stream();
        client.expect_alive();
        drop(client);
        server.close();
    });
}

#[test]
fn slow_call_without_progress_gets_json_response() {
    let server = TestServer::with_test_tools(http_options());
    let mut client = server.connect_http();
    let request = modern(call(1, "slow", json!({"steps": 3, "step_ms": 5})));
    assert_eq!(client.exchange(&Request::modern(&request)).status(), 200);
    drop(client);
    server.close();
}

#[test]
fn progress_of_blocking_handler_starts_stream() {
    over_each_ring(http_options(), |options| {
        let server = TestServer::with_test_tools(options);
        let mut client = server.connect_http();
        let request = with_progress(modern(call(1, "hash", json!({"bytes": 100_000}))));
        let (notifications, response) = client.exchange_to_end(&Request::modern(&request));
        assert_eq!(notifications.len(), 1, "{notifications:?}");
        assert_eq!(response["result"]["structuredContent"]["bytes"], 100_000, "{response}");
        drop(client);
        server.close();
    });
}

#[test]
fn slow_response_becomes_stream_with_keepalive_comments() {
    over_each_ring(http_options(), |mut options| {
        options.http.sse_start_delay = Duration::from_millis(5);
        options.http.sse_keepalive_interval = Duration::from_millis(5);
        let server = TestServer::with_test_tools(options);
        let mut client = server.connect_http();
        client.request_stream(&Request::modern(&modern(call(1, "hold", json!({})))));
        for _ in 0..3 {
            assert!(client.read_event().expect("stream ended").is_comment);
        }
        server.open_gate();
        let mut event = client.read_event().expect("stream ended");
        while event.is_comment {
            event = client.read_event().expect("stream ended");
        }
        let data = event.data.as_deref().expect("event without data");
        let response = serde_json::from_str(data).expect("event data is not JSON");
        assert_eq!((result_text(&response), event.id), ("held", None));
        client.expect_end_of_stream();
        client.expect_alive();
        drop(client);
        server.close();
    });
}

#[test]
fn http_1_0_stream_ends_with_the_connection() {
    over_each_ring(http_options(), |options| {
        let server = TestServer::with_test_tools(options);
        let mut client = server.connect_http();
        let request = with_progress(modern(call(1, "slow", json!({"steps": 2, "step_ms": 0}))));
        let head = client.request_stream(&Request::modern(&request).http_1_0());
        assert!(head.closes_connection() && head.field("Transfer-Encoding").is_none(), "{head:?}");
        assert_eq!(client.read_stream_to_end().len(), 3);
        drop(client);
        server.close();
    });
}

#[test]
fn connection_close_closes_after_the_stream() {
    over_each_ring(http_options(), |options| {
        let server = TestServer::with_test_tools(options);
        let mut client = server.connect_http();
        let request = with_progress(modern(call(1, "slow", json!({"steps": 2, "step_ms": 0}))));
        client.request_stream(&Request::modern(&request).field("Connection", "close"));
        assert_eq!(client.read_stream_to_end().len(), 3);
        client.expect_eof();
        drop(client);
        server.close();
    });
}

#[test]
fn pipelined_request_is_answered_after_the_stream() {
    over_each_ring(http_options(), |options| {
        let server = TestServer::with_test_tools(options);
        let mut client = server.connect_http();
        let first = with_progress(modern(call(1, "hold", json!({}))));
        client.request_stream(&Request::modern(&first));
        assert_eq!(client.read_message_without_id()["method"], "notifications/progress");
        client.send(&Request::modern(&modern(echo(2, "behind"))));
        server.open_gate();
        assert_eq!(result_text(&client.read_message_without_id()), "held");
        client.expect_end_of_stream();
        assert_eq!(result_text(&client.read_response().message()), "behind");
        drop(client);
        server.close();
    });
}

#[test]
fn disconnect_cancels_modern_request() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let request = modern(call(1, "until-cancelled", json!({})));
        // With and without a stream; by an orderly close and by a reset.
        for request in [request.clone(), with_progress(request)] {
            for resets in [false, true] {
                let mut client = server.connect_http();
                client.send(&Request::modern(&request));
                assert_eq!(server.next_signal(), "begun");
                if resets {
                    client.reset();
                } else {
                    drop(client);
                }
                assert_eq!(server.next_signal(), "cancelled");
            }
        }
        let counters = server.close();
        assert_eq!(counters.requests.cancelled, 4, "{counters}");
    });
}

#[test]
fn half_close_cancels_modern_request() {
    over_each_ring(http_options(), |options| {
        let server = TestServer::with_test_tools(options);
        let mut client = server.connect_http();
        client.send(&Request::modern(&modern(call(1, "until-cancelled", json!({})))));
        assert_eq!(server.next_signal(), "begun");
        client.shutdown_write();
        assert_eq!(server.next_signal(), "cancelled");
        client.expect_eof_or_reset();
        let counters = server.close();
        assert_eq!(counters.requests.cancelled, 1, "{counters}");
    });
}

#[test]
fn requests_before_half_close_are_answered() {
    over_each_ring(http_options(), |options| {
        let server = TestServer::with_test_tools(options);
        let mut client = server.connect_http();
        for number in 0..3 {
            client.send(&Request::modern(&modern(echo(number, "in time"))));
        }
        client.shutdown_write();
        for number in 0..3 {
            assert_eq!(client.read_response().message()["id"], number);
        }
        client.expect_eof();
        drop(client);
        server.close();
    });
}

#[test]
fn request_timeout_sends_error_on_the_stream() {
    over_each_ring(http_options(), |mut options| {
        options.limits.request_timeout = Duration::from_millis(30);
        let server = TestServer::with_test_tools(options);
        let mut client = server.connect_http();
        let request = with_progress(modern(call(1, "until-cancelled", json!({}))));
        client.request_stream(&Request::modern(&request));
        client.read_message_without_id();
        let response = client.read_message_without_id();
        assert_eq!(response["error"]["code"], -32603, "{response}");
        client.expect_end_of_stream();
        client.expect_alive();
        drop(client);
        let counters = server.close();
        assert_eq!(counters.requests.timed_out, 1, "{counters}");
    });
}

#[test]
fn log_messages_follow_the_requested_level() {
    let server = TestServer::with_test_tools(http_options());
    let mut client = server.connect_http();
    let mut request = modern(call(1, "test_logging_tool", json!({})));
    assert_eq!(client.exchange(&Request::modern(&request)).status(), 200);
    request["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = json!("info");
    let (notifications, _) = client.exchange_to_end(&Request::modern(&request));
    assert_eq!(notifications.len(), 3, "{notifications:?}");
    assert!(
        notifications.iter().all(|notification| notification["method"] == "notifications/message"),
        "{notifications:?}"
    );
    drop(client);
    server.close();
}

/// A tool whose inline handler sends progress.
fn inline_progress() -> Catalog {
    let tool = Tool::new("inline").inline(|_: NoArguments, ctx| {
        ctx.progress(1.0, None, None);
        "done"
    });
    Catalog::builder(Implementation::new("test", "1")).tool(tool).build().expect("valid")
}

#[test]
fn progress_of_inline_handler_starts_stream() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_catalog(options, inline_progress());
        let mut client = server.connect_http();
        let request = modern(call(1, "inline", json!({})));
        let response = client.exchange(&Request::modern(&request)).message();
        assert_eq!(result_text(&response), "done");
        client.request_stream(&Request::modern(&with_progress(request)));
        let notification = client.read_message_without_id();
        assert_eq!(notification["params"]["progress"], 1, "{notification}");
        assert_eq!(result_text(&client.read_message_without_id()), "done");
        client.expect_end_of_stream();
        drop(client);
        let session = HttpSession::initialize(server.address(), LEGACY);
        for _ in 0..4 {
            let request = session.post(&with_progress(call(2, "inline", json!({}))));
            let (notifications, response) = session.connect().exchange_to_end(&request);
            assert_eq!(notifications.len(), 1, "{notifications:?}");
            assert_eq!(result_text(&response), "done");
        }
        server.close();
    });
}

#[test]
fn progress_of_inline_handlers_in_batch_is_sent() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_catalog(options, inline_progress());
        let session = HttpSession::initialize(server.address(), BATCHED);
        let (emitting, silent) = (call(1, "inline", json!({})), call(2, "inline", json!({})));
        let batch = json!([with_progress(emitting), silent]);
        let mut client = session.connect();
        client.request_stream(&session.post(&batch));
        let mut responses = Vec::new();
        let mut progress = 0;
        while responses.len() < 2 {
            let event = client.read_event().expect("an event");
            let data = event.data.unwrap_or_default();
            if data.is_empty() {
                continue;
            }
            let message: serde_json::Value = serde_json::from_str(&data).expect("JSON");
            let messages = message.as_array().cloned().unwrap_or_else(|| vec![message]);
            for message in messages {
                match message.get("method") {
                    Some(_) => progress += 1,
                    None => responses.push((message["id"].clone(), progress)),
                }
            }
        }
        responses.sort_by_key(|(id, _)| id.as_u64());
        assert_eq!(responses[0], (json!(1), 1), "progress precedes its response");
        assert_eq!(responses[1].0, json!(2));
        drop(client);
        server.close();
    });
}
