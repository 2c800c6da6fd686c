//! Counters of messages, requests, sends, turns and shard messages.

use corelane::{BlockingContext, CallToolResult, NoArguments, Tool};
use corelane_test_support::messages::{modern, request};
use corelane_test_support::tcp_options;
use serde_json::json;

use crate::accounting::tool_calls::{call_tool, start_server};

fn tools() -> [Tool; 2] {
    [
        Tool::new("echo").inline_writer(|_: NoArguments, response, _| {
            response.text("hello");
            Ok(())
        }),
        Tool::new("block")
            .blocking(|_: NoArguments, _: BlockingContext| Ok(CallToolResult::text("hello"))),
    ]
}

#[test]
fn messages_are_counted_in_both_directions() {
    let server = start_server(tcp_options(), tools());
    let mut client = server.connect_tcp();
    call_tool(&mut client, "echo");
    call_tool(&mut client, "block");
    client.send_bytes(b"not JSON\n");
    assert_eq!(client.receive()["error"]["code"], -32700);
    client.send_bytes(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/whatever\"}\n");
    client.send_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n");
    client.send(modern(request(1, "tools/list", json!({}))));
    client.receive();
    let counters = server.close();
    let traffic = &counters.traffic;
    assert_eq!((traffic.messages_in, traffic.messages_out), (5, 4), "{counters}");
    assert_eq!(traffic.sends, 4, "one send for each response");
    assert!(traffic.bytes_in > 500 && traffic.bytes_out > 200);
    let requests = &counters.requests;
    assert_eq!((requests.notifications, requests.responses), (1, 1));
    assert_eq!((requests.tools_call, requests.tools_list), (2, 1));
}

#[test]
fn pipelined_responses_are_sent_together() {
    let server = start_server(tcp_options(), tools());
    let mut client = server.connect_tcp();
    let ping = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}\n";
    client.send_bytes(ping.repeat(50).as_bytes());
    for _ in 0..50 {
        client.receive();
    }
    let counters = server.close();
    assert_eq!(counters.traffic.messages_out, 50);
    assert!(counters.traffic.sends < 10, "{counters}");
}

#[test]
fn requests_are_counted_by_method_even_if_rejected() {
    let server = start_server(tcp_options(), tools());
    let mut client = server.connect_tcp();
    // Without a handshake only `ping` and the modern request are served.
    for method in ["ping", "tools/list", "tools/call", "no/such/method", "resources/list"] {
        client.send_bytes(
            format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{method}\"}}\n").as_bytes(),
        );
        client.receive();
    }
    client.send(modern(request(1, "server/discover", json!({}))));
    client.receive();
    let counters = server.close();
    let requests = &counters.requests;
    assert_eq!((requests.ping, requests.discover), (1, 1), "{counters}");
    assert_eq!((requests.tools_list, requests.tools_call, requests.other), (1, 1, 2));
}

#[test]
fn shard_messages_and_turns_are_counted() {
    let server = start_server(tcp_options(), tools());
    let mut client = server.connect_tcp();
    for _ in 0..10 {
        call_tool(&mut client, "block");
    }
    let counters = server.close();
    let shard = &counters.shard;
    assert_eq!(shard.blocking_calls, 10);
    assert_eq!(shard.messages_received, 11, "ten completions and the drain: {counters}");
    assert!(shard.turns >= 10);
}
