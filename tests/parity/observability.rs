//! Counters of the dialect, and the trace that handlers see.

use corelane::{Catalog, NoArguments, Tool};
use corelane_protocol::model::Implementation;
use corelane_test_support::TestServer;
use serde_json::{Value, json};

use crate::client::{ParityClient, call, handshake, request, streamed};
use crate::options;

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[test]
fn requests_chunks_retries_and_cancellations_are_counted() {
    let server = TestServer::with_test_tools(options());
    let mut client = ParityClient::ready(&server);
    let mut keyed = call(1, "echo", json!({"message": "m"}));
    keyed["idempotencyKey"] = json!("k");
    client.result(&keyed);
    keyed["id"] = json!(2);
    client.expect_error(&keyed, "response", "error.already_processed");
    let stream = client.open_stream(call(3, "slow", json!({"steps": 2, "step_ms": 0})));
    client.receive_stream(&stream, 1);
    let stream = client.open_stream(call(4, "until-cancelled", json!({})));
    assert_eq!(server.next_signal(), "begun");
    assert_eq!(client.receive()["chunkType"], "progress");
    client.send(&json!({"type": "cancel", "id": 4}));
    client.receive_stream(&stream, 2);
    assert_eq!(server.next_signal(), "cancelled");
    // Nothing is cancelled by an id that is not in flight.
    client.send(&json!({"type": "cancel", "id": 99}));
    client.send(&call(5, "hold", json!({})));
    assert_eq!(server.next_signal(), "begun");
    server.open_gate();
    assert_eq!(client.receive()["id"], 5);
    client.ping();
    drop(client);
    let counters = server.close().parity;
    let (requests, chunks) = (counters.requests, counters.chunks);
    assert_eq!((requests.tools_call, requests.other), (4, 1), "{counters:?}");
    assert_eq!((chunks.progress, chunks.result, chunks.eos), (3, 1, 2), "{counters:?}");
    assert_eq!((counters.repeats.retries, counters.repeats.cancellations), (1, 1));
    assert_eq!(counters.latency.count(), 5, "{counters:?}");
    assert_eq!((counters.sessions.handshakes, counters.sessions.resumed), (1, 0));
}

#[test]
fn rejected_messages_are_counted_by_code() {
    let server = TestServer::with_test_tools(options());
    let mut limited = handshake();
    limited["capabilities"]["maxConcurrent"] = json!(1);
    limited["capabilities"]["prompts"] = json!(false);
    let mut client = ParityClient::connect(&server);
    client.exchange(&limited);
    client.send(&streamed(call(1, "hold", json!({}))));
    assert_eq!((client.receive()["id"].as_u64(), server.next_signal()), (Some(1), "begun"));
    assert_eq!(client.receive()["chunkType"], "progress");
    for (message, kind, code) in [
        (request(2, "ping"), "response", "error.rate_limited"),
        (request(2, "prompts/list"), "response", "error.feature_not_available"),
        (request(2, "no/such"), "response", "error.feature_not_available"),
        (request(2, ""), "response", "error.internal"),
        (json!({"type": "cancel"}), "error", "error.internal"),
        (json!({"type": "none"}), "error", "error.internal"),
        (handshake(), "error", "error.feature_not_available"),
    ] {
        client.expect_error(&message, kind, code);
    }
    server.open_gate();
    client.receive_stream("s1", 2);
    drop(client);
    let mut other = ParityClient::connect(&server);
    let mut unknown = handshake();
    unknown["protocolVersion"] = json!("9");
    other.expect_error(&unknown, "error", "error.version_unsupported");
    drop(other);
    let counters = server.close().parity;
    let rejections = counters.rejections;
    assert_eq!((rejections.rate_limited, rejections.feature_not_available), (1, 3));
    assert_eq!((rejections.internal, rejections.version_unsupported), (3, 1), "{rejections:?}");
    // These are no requests that were started.
    assert_eq!((counters.requests.tools_call, counters.requests.other), (1, 0), "{counters:?}");
}

#[test]
fn handler_sees_trace_of_envelope() {
    let read = |trace: Option<&str>| trace.unwrap_or("none").to_owned();
    let catalog = Catalog::builder(Implementation::new("test", "1"))
        .tool(
            Tool::new("inline")
                .inline(move |_: NoArguments, ctx| read(ctx.request().trace_context().traceparent)),
        )
        .tool(Tool::new("future").local(move |_: NoArguments, ctx| async move {
            read(ctx.request().trace_context().traceparent)
        }))
        .build();
    let server = TestServer::with_catalog(options(), catalog.expect("valid catalog"));
    let mut client = ParityClient::ready(&server);
    let text = |result: &Value| result["content"][0]["text"].clone();
    for tool in ["inline", "future"] {
        let mut request = call(1, tool, json!({}));
        assert_eq!(text(&client.result(&request)), "none");
        request["traceparent"] = json!(TRACE);
        assert_eq!(text(&client.result(&request)), TRACE, "{tool}");
    }
    drop(client);
    server.close();
}

#[test]
fn resumptions_and_restarts_are_counted() {
    let server = TestServer::with_test_tools(options());
    let mut client = ParityClient::connect(&server);
    let ack = client.exchange(&handshake());
    drop(client);
    server.wait_for_connections(0);
    let mut resume = handshake();
    resume["resumeToken"] = ack["resumeToken"].clone();
    resume["lastAckSeq"] = json!({});
    // Its connection stays open: the token is spent.
    let mut second = ParityClient::connect(&server);
    let resumed = second.exchange(&resume);
    assert_eq!(resumed["sessionId"], ack["sessionId"], "{resumed}");
    let advised = ParityClient::connect(&server).exchange(&resume);
    assert_eq!(advised["advice"], "restart", "{advised}");
    let sessions = server.close().parity.sessions;
    assert_eq!((sessions.handshakes, sessions.resumed, sessions.restarts_advised), (3, 1, 1));
}
