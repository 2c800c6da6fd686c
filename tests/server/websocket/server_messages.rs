//! Messages besides responses: progress, elicitation, list changes, subscriptions and tasks.

use corelane_test_support::messages::{
    LEGACY, MODERN, call, cancelled, echo, listen, modern, request, result_text, with_progress,
};
use corelane_test_support::websocket::text_frame;
use corelane_test_support::{TestServer, WebSocketClient, on_one_shard_and_two};
use serde_json::json;

#[test]
fn progress_is_sent_before_the_response() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let slow = || with_progress(call(1, "slow", json!({"steps": 3, "step_ms": 1})));
        for (mut peer, request) in [
            (WebSocketClient::initialize(server.address(), LEGACY), slow()),
            (WebSocketClient::connect(server.address()), modern(slow())),
        ] {
            peer.send_message(&request);
            let messages = peer.read_until_response(&json!(1));
            let (response, steps) = messages.split_last().expect("no response");
            assert_eq!(result_text(response), "took 3 steps of 1 ms");
            assert!(steps.iter().all(|it| it["method"] == "notifications/progress"), "{steps:?}");
            assert!(!steps.is_empty());
            peer.close(1000);
        }
        server.close();
    });
}

#[test]
fn elicitation_is_answered_over_the_same_connection() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let mut peer = WebSocketClient::initialize(server.address(), LEGACY);
        let elicitation = peer.exchange(&call("asks", "ask", json!({})));
        assert_eq!(elicitation["method"], "elicitation/create", "{elicitation}");
        let result = json!({"action": "accept", "content": {"name": "Ada"}});
        let response =
            peer.exchange(&json!({"jsonrpc": "2.0", "id": elicitation["id"], "result": result}));
        assert_eq!(result_text(&response), "Hello, Ada!");
        // A peer that closes before it responds.
        let elicitation = peer.exchange(&call("asks", "ask", json!({})));
        assert_eq!(elicitation["method"], "elicitation/create", "{elicitation}");
        peer.close(1000);
        let counters = server.close();
        assert_eq!(
            (counters.client_requests.sent, counters.client_requests.answered),
            (2, 1),
            "{counters}"
        );
    });
}

#[test]
fn legacy_peers_receive_list_changes_and_subscribed_updates() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let mut peers: Vec<_> =
            (0..8).map(|_| WebSocketClient::initialize(server.address(), LEGACY)).collect();
        for peer in &mut peers {
            let request = request(1, "resources/subscribe", json!({"uri": "test://one"}));
            assert_eq!(peer.exchange(&request)["result"], json!({}));
        }
        server.add_tool("new");
        for peer in &mut peers {
            assert_eq!(peer.read_message()["method"], "notifications/tools/list_changed");
        }
        server.handle().notify_resource_updated("test://one");
        for mut peer in peers {
            let notification = peer.read_message();
            assert_eq!(notification["method"], "notifications/resources/updated", "{notification}");
            assert_eq!(notification["params"]["uri"], "test://one", "{notification}");
            peer.close(1000);
        }
        server.close();
    });
}

#[test]
fn subscriptions_share_a_connection_until_cancelled() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let mut peer = WebSocketClient::connect(server.address()).with_revision(MODERN);
        let filter = json!({"toolsListChanged": true, "resourceSubscriptions": ["test://one"]});
        for id in ["one", "two"] {
            let notification = peer.exchange(&listen(id, filter.clone()));
            assert_eq!(
                notification["method"], "notifications/subscriptions/acknowledged",
                "{notification}"
            );
        }
        server.add_tool("new");
        let subscription_id = |message: &serde_json::Value| {
            message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].clone()
        };
        let mut ids: Vec<_> =
            (0..2).map(|_| subscription_id(&peer.read_message()).to_string()).collect();
        ids.sort();
        assert_eq!(ids, ["\"one\"", "\"two\""]);
        peer.send_message(&cancelled("one"));
        // Sent later on the same connection, so the cancellation has been handled.
        assert_eq!(result_text(&peer.exchange(&modern(echo(3, "next")))), "next");
        server.handle().notify_resource_updated("test://one");
        let notification = peer.read_message();
        assert_eq!(notification["method"], "notifications/resources/updated", "{notification}");
        assert_eq!(subscription_id(&notification), "two");
        assert_eq!(result_text(&peer.exchange(&modern(echo(4, "last")))), "last");
        peer.close(1000);
        server.close();
    });
}

#[test]
fn task_call_returns_task_and_result() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let mut peer = WebSocketClient::initialize(server.address(), LEGACY);
        let mut task_call = call(1, "slow", json!({"steps": 1, "step_ms": 1}));
        task_call["params"]["task"] = json!({"ttl": 60_000});
        let begun = peer.exchange(&task_call);
        let id = begun["result"]["task"]["taskId"].clone();
        if id.is_null() {
            // The demo's tool may not support tasks.
            assert!(begun["error"].is_object(), "{begun}");
        } else {
            let request = request(2, "tasks/result", json!({"taskId": id}));
            peer.register_request(&request);
            peer.send_bytes(&text_frame(&request));
            let messages = peer.read_until_response(&json!(2));
            assert_eq!(result_text(messages.last().expect("no response")), "took 1 steps of 1 ms");
        }
        peer.close(1000);
        server.close();
    });
}
