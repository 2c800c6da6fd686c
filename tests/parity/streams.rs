//! Streams: chunks, their order and their end.

use corelane::model::{Implementation, LoggingLevel};
use corelane::{BlockingContext, CallToolResult, Catalog, NoArguments, RequestContext, Tool};
use corelane_test_support::messages::{self, modern, result_text, with_progress};
use corelane_test_support::{LineClient, TestServer};
use serde_json::{Value, json};

use crate::client::{ParityClient, call, handshake, kinds, streamed};
use crate::options;

#[test]
fn stream_has_progress_result_and_end() {
    let server = TestServer::with_test_tools(options());
    let mut client = ParityClient::ready(&server);
    let stream = client.open_stream(call(1, "slow", json!({"steps": 3, "step_ms": 0})));
    let chunks = client.receive_stream(&stream, 1);
    assert_eq!(kinds(&chunks), ["progress", "progress", "progress", "result", "eos"]);
    assert_eq!(chunks[0]["data"], json!({"progress": 1, "total": 3}));
    assert_eq!(chunks[3]["data"]["content"][0]["text"], "took 3 steps of 0 ms");
    assert_eq!(chunks[4]["reason"], "completed");
    assert!(chunks[4].get("data").is_none());
    // A handler that answers at once, and a method without handler.
    let stream = client.open_stream(call(2, "echo", json!({"message": "m"})));
    let chunks = client.receive_stream(&stream, 1);
    assert_eq!(kinds(&chunks), ["result", "eos"]);
    let stream = client.open_stream(json!({"type": "request", "id": 3, "method": "tools/list"}));
    assert!(client.receive_stream(&stream, 1)[0]["data"]["tools"].is_array());
    drop(client);
    server.close();
}

#[test]
fn failed_stream_ends_with_error() {
    let server = TestServer::with_test_tools(options());
    let mut client = ParityClient::ready(&server);
    let stream = client.open_stream(call(1, "none", json!({})));
    let chunks = client.receive_stream(&stream, 1);
    assert_eq!(kinds(&chunks), ["error", "eos"]);
    assert_eq!(chunks[0]["data"]["code"], "error.internal");
    assert_eq!(chunks[0]["data"]["details"]["mcpCode"], -32602);
    assert_eq!(chunks[1]["reason"], "error");
    drop(client);
    server.close();
}

#[test]
fn cancelled_stream_ends_with_eos() {
    let server = TestServer::with_test_tools(options());
    let mut client = ParityClient::ready(&server);
    for by_request in [true, false] {
        let stream = client.open_stream(call("c", "until-cancelled", json!({})));
        assert_eq!(server.next_signal(), "begun");
        let begun = client.receive();
        assert_eq!((&begun["chunkType"], &begun["seq"]), (&json!("progress"), &json!(1)));
        let cancel = if by_request {
            json!({"type": "cancel", "id": "c"})
        } else {
            json!({"type": "cancel", "streamId": stream, "reason": "enough"})
        };
        client.send(&cancel);
        let chunks = client.receive_stream(&stream, 2);
        assert_eq!(kinds(&chunks), ["eos"]);
        assert_eq!(chunks[0]["reason"], "cancelled");
        assert_eq!(server.next_signal(), "cancelled");
        client.ping();
    }
    drop(client);
    server.close();
}

#[test]
fn streams_and_requests_share_a_connection() {
    let server = TestServer::with_test_tools(options());
    let mut client = ParityClient::ready(&server);
    let streams: Vec<String> = (0..8)
        .map(|id| {
            let stream = client.open_stream(call(id, "hold", json!({})));
            assert_eq!(server.next_signal(), "begun");
            assert_eq!(client.receive()["chunkType"], "progress");
            stream
        })
        .collect();
    client.ping();
    server.open_gate();
    let mut ended = Vec::new();
    let mut last = vec![1; streams.len()];
    while ended.len() < streams.len() {
        let chunk = client.receive();
        let index = streams.iter().position(|stream| *stream == chunk["streamId"]).expect("known");
        last[index] += 1;
        assert_eq!(chunk["seq"], last[index], "{chunk}");
        if chunk["chunkType"] == "eos" {
            ended.push(index);
        }
    }
    assert!(last.iter().all(|seq| *seq == 3), "{last:?}");
    drop(client);
    server.close();
}

#[test]
fn streams_count_as_requests_in_flight() {
    let mut options = options();
    options.parity.streams_max = 2;
    let server = TestServer::with_test_tools(options);
    let mut client = ParityClient::connect(&server);
    let mut offered = handshake();
    offered["capabilities"]["maxConcurrent"] = json!(3);
    client.exchange(&offered);
    for id in 0..2 {
        client.open_stream(call(id, "hold", json!({})));
        assert_eq!(client.receive()["chunkType"], "progress");
    }
    let third = streamed(call(3, "hold", json!({})));
    client.expect_error(&third, "response", "error.rate_limited");
    client.send(&call(4, "hold", json!({})));
    for _ in 0..3 {
        assert_eq!(server.next_signal(), "begun");
    }
    client.expect_error(&call(5, "hold", json!({})), "response", "error.rate_limited");
    server.open_gate();
    drop(client);
    server.close();
}

#[test]
fn key_of_stream_is_accepted_once() {
    let server = TestServer::with_test_tools(options());
    let mut client = ParityClient::ready(&server);
    let mut first = call(1, "echo", json!({"message": "once"}));
    first["idempotencyKey"] = json!("k");
    let stream = client.open_stream(first.clone());
    assert_eq!(kinds(&client.receive_stream(&stream, 1)), ["result", "eos"]);
    let error = client.expect_error(&first, "response", "error.already_processed");
    assert!(error["details"]["resultHash"].is_string(), "{error}");
    drop(client);
    server.close();
}

/// A client that does not read keeps the order of its streams, and delays no other client.
#[test]
fn slow_reader_loses_only_progress() {
    let server = TestServer::with_test_tools(options());
    let mut slow = ParityClient::ready(&server);
    let steps = 20_000;
    let streams: Vec<String> = (0..4)
        .map(|id| {
            let arguments = json!({"steps": steps, "step_ms": 0});
            let request = streamed(call(id, "slow", arguments));
            slow.send(&request);
            format!("s{}", id + 1)
        })
        .collect();
    ParityClient::ready(&server).ping();
    let mut last = vec![0; streams.len()];
    let mut ended = 0;
    while ended < streams.len() {
        let message = slow.receive();
        if message["type"] == "response" {
            continue;
        }
        let index =
            streams.iter().position(|stream| *stream == message["streamId"]).expect("known");
        last[index] += 1;
        assert_eq!(message["seq"], last[index]);
        ended += usize::from(message["chunkType"] == "eos");
    }
    assert!(last.iter().all(|seq| (2..=steps + 2).contains(seq)), "{last:?}");
    drop(slow);
    server.close();
}

#[test]
fn log_messages_become_chunks() {
    let tool = Tool::new("logs").local(|_: NoArguments, ctx: RequestContext| async move {
        ctx.log(LoggingLevel::Warning, Some("l"), json!({"n": 1}));
        Ok(CallToolResult::text("done"))
    });
    let catalog = Catalog::builder(Implementation::new("test", "1")).tool(tool).build();
    let server = TestServer::with_catalog(options(), catalog.expect("valid"));
    let mut client = ParityClient::ready(&server);
    let stream = client.open_stream(call(1, "logs", json!({})));
    let chunks = client.receive_stream(&stream, 1);
    assert_eq!(kinds(&chunks), ["log", "result", "eos"]);
    let expected: Value = json!({"level": "warning", "logger": "l", "data": {"n": 1}});
    assert_eq!(chunks[0]["data"], expected);
    drop(client);
    server.close();
}

#[test]
fn demo_tool_sends_partial_results() {
    let server = TestServer::with_test_tools(options());
    let mut client = ParityClient::ready(&server);
    let stream = client.open_stream(call(1, "hash", json!({"bytes": 17 << 20})));
    let chunks = client.receive_stream(&stream, 1);
    let of_kind = |kind: &str| -> Vec<&Value> {
        chunks
            .iter()
            .filter(|chunk| chunk["chunkType"] == kind)
            .map(|chunk| &chunk["data"])
            .collect()
    };
    let [first, last] = of_kind("partial")[..] else { panic!("{chunks:?}") };
    let result = of_kind("result")[0];
    assert!(first["bytes"].as_u64() < last["bytes"].as_u64() && first["hash"] != last["hash"]);
    assert_eq!(last, &result["structuredContent"], "the last part is the result");
    drop(client);
    server.close();
}

#[test]
fn partial_results_become_chunks() {
    let local = Tool::new("local").local(|_: NoArguments, ctx: RequestContext| async move {
        ctx.partial_result(json!({"rows": [1, 2]}));
        ctx.partial_result("third");
        Ok(CallToolResult::text("[1,2,3]"))
    });
    let blocking = Tool::new("blocking").blocking(|_: NoArguments, ctx: BlockingContext| {
        ctx.partial_result(json!({"rows": [1, 2]}));
        ctx.partial_result("third");
        CallToolResult::text("[1,2,3]")
    });
    let catalog = Catalog::builder(Implementation::new("test", "1")).tools([local, blocking]);
    let server = TestServer::with_catalog(options(), catalog.build().expect("valid"));
    let mut client = ParityClient::ready(&server);
    for tool in ["local", "blocking"] {
        let stream = client.open_stream(call(1, tool, json!({})));
        let chunks = client.receive_stream(&stream, 1);
        assert_eq!(kinds(&chunks), ["partial", "partial", "result", "eos"], "{tool}");
        assert_eq!(chunks[0]["data"], json!({"rows": [1, 2]}));
        assert_eq!(chunks[1]["data"], "third");
        // Without a stream there is nothing but the result.
        client.send(&call(2, tool, json!({})));
        assert_eq!(client.receive()["result"]["content"][0]["text"], "[1,2,3]", "{tool}");
    }
    drop(client);
    // Nor is there in MCP, whatever the client asks for.
    let mut client = LineClient::connect(server.tcp());
    for tool in ["local", "blocking"] {
        client.send(with_progress(modern(messages::call(1, tool, json!({})))));
        assert_eq!(result_text(&client.receive()), "[1,2,3]", "{tool}");
    }
    drop(client);
    server.close();
}
