//! Results that are used again while they are fresh.

use std::net::TcpListener;
use std::thread::{self, JoinHandle};

use corelane::Client;
use corelane::client::{CachePolicy, Change, ClientBuilder, SubscriptionFilter};
use corelane::testing::block_on;
use corelane_test_support::{LineClient, TestServer, http_options, tcp_options};
use serde_json::{Value, json};

use super::{client_of, http, response};

/// Serves one client with `serve` and returns the methods that it has called after the handshake.
fn with_peer(
    serve: impl Fn(&Value) -> Vec<Value> + Send + 'static,
) -> (ClientBuilder, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("it succeeds");
    let target = format!("tcp://{}", listener.local_addr().expect("it succeeds"));
    let peer = thread::spawn(move || {
        let mut peer = LineClient::accept(&listener);
        let (mut methods, mut is_handshake) = (Vec::new(), true);
        while let Some(line) = peer.receive_line_or_reset() {
            let request: Value = serde_json::from_str(&line).expect("it succeeds");
            let method = request["method"].as_str().expect("it succeeds").to_owned();
            if !std::mem::take(&mut is_handshake) {
                methods.push(method.clone());
            }
            if method == "server/discover" {
                let result = json!({
                    "supportedVersions": ["2026-07-28"],
                    "capabilities": { "tools": { "listChanged": true }, "resources": {} },
                    "ttlMs": 600_000, "cacheScope": "public",
                });
                peer.send(response(&request, &result));
                continue;
            }
            for message in serve(&request) {
                peer.send(message);
            }
        }
        methods
    });
    (Client::builder(target.as_str()), peer)
}

fn tools(request: &Value, ttl: &Value) -> Value {
    let tool = json!({ "name": "a", "inputSchema": { "type": "object" } });
    response(request, &json!({ "tools": [tool], "ttlMs": ttl, "cacheScope": "private" }))
}

fn list_twice(ttl: Value) -> Vec<String> {
    let (client, peer) = with_peer(move |request| vec![tools(request, &ttl)]);
    let client = client.connect_blocking().expect("it succeeds");
    for _ in 0..2 {
        assert_eq!(block_on(client.list_tools()).expect("it succeeds").len(), 1);
    }
    drop(client);
    peer.join().expect("it succeeds")
}

#[test]
fn fresh_list_is_not_requested_again() {
    assert_eq!(list_twice(json!(600_000)), ["tools/list"]);
    for ttl in [json!(0), json!(-5), json!(null), json!("600000")] {
        assert_eq!(list_twice(ttl).len(), 2);
    }
}

#[test]
fn fresh_request_and_other_params_are_sent() {
    let (client, peer) = with_peer(|request| vec![tools(request, &json!(600_000))]);
    let client = client.connect_blocking().unwrap();
    let request = |params: Value| client.request::<Value>("tools/list", &params);
    request(json!({})).wait().unwrap();
    request(json!({})).fresh().wait().unwrap();
    request(json!({ "cursor": "2" })).wait().unwrap();
    request(json!({})).meta("a", &json!(1)).wait().unwrap();
    request(json!({})).wait().unwrap();
    drop(client);
    assert_eq!(peer.join().unwrap().len(), 4);
}

#[test]
fn cache_that_is_off_keeps_nothing() {
    let (client, peer) = with_peer(|request| vec![tools(request, &json!(600_000))]);
    let client = client.cache(CachePolicy::Off).connect_blocking().unwrap();
    for _ in 0..2 {
        block_on(client.list_tools()).unwrap();
    }
    drop(client);
    assert_eq!(peer.join().unwrap().len(), 2);
}

#[test]
fn contents_are_kept_if_the_client_wants() {
    for (policy, expected) in [(CachePolicy::Lists, 2), (CachePolicy::ListsAndResources, 1)] {
        let (client, peer) = with_peer(|request| {
            let contents = json!([{ "uri": "test://a", "text": "a" }]);
            vec![response(request, &json!({ "contents": contents, "ttlMs": 600_000 }))]
        });
        let client = client.cache(policy).connect_blocking().unwrap();
        for _ in 0..2 {
            client.read_resource("test://a").wait().unwrap();
        }
        drop(client);
        assert_eq!(peer.join().unwrap().len(), expected);
    }
}

#[test]
fn contents_that_used_input_are_not_kept() {
    let (client, peer) = with_peer(|request| {
        let result = match request["params"].get("requestState") {
            None => json!({ "resultType": "input_required", "requestState": "s" }),
            Some(_) => json!({ "contents": [], "ttlMs": 600_000 }),
        };
        vec![response(request, &result)]
    });
    let client = client.cache(CachePolicy::ListsAndResources).connect_blocking().unwrap();
    for _ in 0..2 {
        client.read_resource("test://a").wait().unwrap();
    }
    drop(client);
    assert_eq!(peer.join().unwrap().len(), 4);
}

#[test]
fn ping_is_always_sent() {
    let (client, peer) = with_peer(|_| Vec::new());
    let client = client.connect_blocking().unwrap();
    let discover = || client.request::<Value>("server/discover", &json!({}));
    discover().wait().unwrap();
    discover().wait().unwrap();
    block_on(client.ping()).unwrap();
    drop(client);
    assert_eq!(peer.join().unwrap().len(), 2);
}

#[test]
fn notification_of_change_removes_list() {
    for (options, is_http) in [(tcp_options(), false), (http_options(), true)] {
        let server = TestServer::with_test_tools(options);
        let client = if is_http { http::client_of(&server) } else { client_of(&server) };
        let client = client.connect_blocking().unwrap();
        let mut changes = block_on(client.subscribe(&SubscriptionFilter::lists())).unwrap();
        for _ in 0..3 {
            block_on(client.list_tools()).unwrap();
        }
        server.add_tool("added");
        assert_eq!(block_on(changes.next()).unwrap().unwrap(), Change::ToolList);
        let tools = block_on(client.list_tools()).unwrap();
        assert!(tools.iter().any(|tool| tool.name == "added"));
        drop((changes, client));
        assert_eq!(server.close().requests.tools_list, 2);
    }
}
