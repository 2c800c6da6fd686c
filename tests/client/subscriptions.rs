//! Notifications of changes.

use std::io::Write;
use std::sync::mpsc;

use corelane::client::{
    Change, ClientBuilder, ClientErrorKind, EraPreference, Program, ReconnectOptions,
    SubscriptionFilter, ToolInfo,
};
use corelane::model::Revision;
use corelane::testing::block_on;
use corelane_test_support::{LineClient, TIMEOUT, TestServer, tcp_options};
use serde_json::json;

use super::http_peer::{Connection, HttpPeer, http_response};
use super::reconnects::{fast, line_peer};
use super::websocket_peer::{WebSocketPeer, serve};
use super::{ERAS, client_of, over_each_transport, response};

#[test]
fn subscription_receives_changes_it_asked_for() {
    over_each_transport(|server, client| {
        let client = client().connect_blocking().unwrap();
        let mut filter = SubscriptionFilter::default().resource("test://one");
        filter.tools_list_changed = true;
        let mut changes = block_on(client.subscribe(&filter)).unwrap();
        assert_eq!(changes.granted(), &filter);
        client.call_tool("touch", &json!({})).wait().unwrap();
        let change = block_on(changes.next()).unwrap().unwrap();
        assert_eq!(change, Change::Resource { uri: "test://one".into() });
        server.add_tool("added");
        assert_eq!(block_on(changes.next()).unwrap().unwrap(), Change::ToolList);
        let tools = block_on(client.list_tools()).unwrap();
        assert!(tools.iter().any(|tool| tool.name == "added"));
    });
}

#[test]
fn drained_server_ends_subscription() {
    over_each_transport(|server, client| {
        let client = client().connect_blocking().unwrap();
        let mut changes = block_on(client.subscribe(&SubscriptionFilter::lists())).unwrap();
        server.drain();
        let end = block_on(changes.next());
        assert!(end.is_none_or(|end| end.is_err()), "the subscription goes on");
        assert!(block_on(changes.next()).is_none());
    });
}

#[test]
fn legacy_subscription_receives_changes_it_asked_for() {
    over_each_transport(|server, client| {
        for (number, era) in ERAS.into_iter().enumerate().skip(2) {
            let client = client().era(era).connect_blocking().unwrap();
            let mut filter = SubscriptionFilter::default().resource("test://one");
            filter.tools_list_changed = true;
            let mut changes = block_on(client.subscribe(&filter)).unwrap();
            assert_eq!(changes.granted(), &filter, "{era:?}");
            client.call_tool("touch", &json!({})).wait().unwrap();
            let change = block_on(changes.next()).unwrap().unwrap();
            assert_eq!(change, Change::Resource { uri: "test://one".into() }, "{era:?}");
            server.add_tool(&format!("added-{number}"));
            let change = block_on(changes.next()).unwrap().unwrap();
            assert_eq!(change, Change::ToolList, "{era:?}");
            // The server notifies of the list all the same; nothing arrives for the resource.
            drop(changes);
            block_on(client.ping()).unwrap();
            block_on(client.close());
        }
    });
}

#[test]
fn watched_list_is_read_again_after_changes() {
    over_each_transport(|server, client| {
        for number in [0, 2] {
            let era = ERAS[number];
            let client = client().era(era).connect_blocking().unwrap();
            let mut watch = block_on(client.watch::<ToolInfo>()).unwrap();
            let first = block_on(watch.next()).unwrap().unwrap();
            for index in 0..2 {
                let name = format!("added-{number}-{index}");
                server.add_tool(&name);
                let tools = block_on(watch.next()).unwrap().unwrap();
                assert!(tools.iter().any(|tool| tool.name == name), "{era:?}");
                assert_eq!(tools.len(), first.len() + index + 1, "{era:?}");
            }
        }
    });
}

#[test]
fn lost_connection_ends_legacy_subscription() {
    let server = TestServer::with_test_tools(tcp_options());
    let client = client_of(&server).era(EraPreference::Legacy(Revision::V2025_11_25));
    let mut reconnect = ReconnectOptions::default();
    reconnect.attempts_max = Some(0);
    let client = client.reconnect(reconnect).connect_blocking().unwrap();
    let mut changes = block_on(client.subscribe(&SubscriptionFilter::lists())).unwrap();
    server.close();
    let error = block_on(changes.next()).unwrap().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Closed);
    assert!(block_on(changes.next()).is_none());
}

/// Subscribes to the list of tools, and expects it to outlive the connection.
fn expect_resubscription(client: ClientBuilder) {
    let client = client.reconnect(fast()).connect_blocking().expect("a handshake");
    let mut watch = block_on(client.watch::<ToolInfo>()).expect("a subscription");
    let mut next = || -> Vec<String> {
        let tools = block_on(watch.next()).expect("it goes on").expect("a list");
        tools.into_iter().map(|tool| tool.name).collect()
    };
    assert_eq!(next(), ["one"]);
    // The server has another tool when it is back, and does not notify of it.
    assert_eq!(next(), ["two"]);
    drop(watch);
    block_on(client.close());
}

/// The notification that a server sends first to the subscription that `listen` begins.
fn acknowledged(listen: &serde_json::Value) -> serde_json::Value {
    assert_eq!(listen["method"], "subscriptions/listen");
    json!({
        "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {
            "notifications": { "toolsListChanged": true },
            "_meta": { "io.modelcontextprotocol/subscriptionId": listen["id"] },
        },
    })
}

/// The response to `tools/list`.
fn tool_list(list: &serde_json::Value, name: &str) -> serde_json::Value {
    assert_eq!(list["method"], "tools/list");
    let tools = json!([{ "name": name, "inputSchema": { "type": "object" } }]);
    response(list, &json!({ "resultType": "complete", "tools": tools, "ttlMs": 3_600_000 }))
}

#[test]
fn subscription_follows_lines_to_next_connection() {
    let (client, peer) = line_peer(|listener| {
        for name in ["one", "two"] {
            let mut peer = LineClient::accept(listener);
            let discover = peer.receive();
            peer.send(super::discover_result(&discover));
            let listen = peer.receive();
            peer.send(acknowledged(&listen));
            let list = peer.receive();
            peer.send(tool_list(&list, name));
            if name == "two" {
                peer.receive_rest();
            }
        }
    });
    expect_resubscription(client);
    peer.join().unwrap();
}

#[test]
fn subscription_follows_websocket_to_next_connection() {
    let (client, peer) = serve(|listener| {
        for name in ["one", "two"] {
            let mut peer = WebSocketPeer::accept(listener).handshake();
            let listen = peer.receive();
            peer.send(&acknowledged(&listen));
            let list = peer.receive();
            peer.send(&tool_list(&list, name));
            if name == "two" {
                peer.expect_close();
            }
        }
    });
    expect_resubscription(client);
    peer.join().unwrap();
}

#[test]
fn subscription_over_http_is_opened_again() {
    let begin = |connection: &mut Connection| {
        let listen = connection.receive();
        connection.begin_stream();
        connection.send(&format!("data: {}\n\n", acknowledged(&listen.body)));
    };
    let (client, peer) = HttpPeer::start(move |peer| {
        let mut first = peer.accept();
        let discover = first.receive();
        first.send_json(&super::discover_result(&discover.body));
        begin(&mut first);
        let mut second = peer.accept();
        let list = second.receive();
        second.send_json(&tool_list(&list.body, "one"));
        // The stream is lost; the second connection stays.
        drop(first);
        begin(&mut second);
        let mut third = peer.accept();
        let list = third.receive();
        third.send_json(&tool_list(&list.body, "two"));
        second.expect_end();
    });
    expect_resubscription(client);
    peer.join().unwrap();
}

#[test]
fn subscription_follows_legacy_session_over_http() {
    let (subscribed_tx, subscribed_rx) = mpsc::channel();
    let (client, peer) = HttpPeer::legacy(move |peer, mut stream| {
        subscribed_rx.recv_timeout(TIMEOUT).unwrap();
        // The server ends, and another one knows nothing of the session.
        stream.send("retry: 10\n\n");
        drop(stream);
        let mut connection = peer.accept();
        let resumed = connection.receive();
        assert_eq!((resumed.line(), resumed.header("Mcp-Session-Id")), ("GET /mcp", Some("first")));
        connection.send(&http_response("404 Not Found", "", ""));
        connection.initialize("second");
        assert_eq!(connection.receive().line(), "GET /mcp");
        connection.begin_stream();
        let end = peer.accept().receive();
        assert_eq!((end.line(), end.header("Mcp-Session-Id")), ("DELETE /mcp", Some("second")));
    });
    let mut changes = block_on(client.subscribe(&SubscriptionFilter::lists())).unwrap();
    subscribed_tx.send(()).unwrap();
    assert_eq!(block_on(changes.next()).unwrap().unwrap(), Change::Resubscribed);
    block_on(client.close());
    peer.join().unwrap();
}

#[test]
fn subscription_starts_ended_program_again() {
    let mut marker = tempfile::NamedTempFile::new().unwrap();
    marker.write_all(b"one").unwrap();
    let script = r#"
        name=$(cat "$1")
        printf two > "$1"
        receive() {
            read -r request || exit
            id=${request#*\"id\":}
            id=${id%%,*}
        }
        answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
        receive
        answer '{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}'
        receive
        printf '{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":'
        printf '{"notifications":{"toolsListChanged":true},"_meta":'
        printf '{"io.modelcontextprotocol/subscriptionId":%s}}}\n' "$id"
        receive
        answer "{\"tools\":[{\"name\":\"$name\",\"inputSchema\":{\"type\":\"object\"}}]}"
        if [ "$name" = two ]; then cat > /dev/null; fi
    "#;
    let path = marker.path().to_str().unwrap();
    let program = Program::new("sh").arg("-c").arg(script).arg("sh").arg(path);
    expect_resubscription(corelane::Client::builder(program));
}
