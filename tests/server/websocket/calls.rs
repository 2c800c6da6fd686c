//! Calls in both eras: concurrent, in batches, several in a frame, and cancelled.

use corelane_test_support::messages::{
    BATCHED, LEGACY, MODERN, SESSION_REVISIONS, call, cancelled, echo, expect_error, modern,
    request, request_without_params, result_text,
};
use corelane_test_support::websocket::{FIN, TEXT, text_frame, upgrade_request};
use corelane_test_support::{
    Request, TestServer, WebSocketClient, http_options, on_one_shard_and_two, over_each_ring,
};
use serde_json::{Value, json};

#[test]
fn every_handshake_revision_is_served() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        for revision in SESSION_REVISIONS.into_iter().chain(["2024-11-05"]) {
            let mut peer = WebSocketClient::initialize(server.address(), revision);
            let tools = peer.exchange(&request_without_params(1, "tools/list"));
            let tools = tools["result"]["tools"].as_array().expect("no tools");
            assert!(tools.iter().any(|tool| tool["name"] == "echo"));
            assert_eq!(result_text(&peer.exchange(&echo(2, "hi"))), "hi");
            assert_eq!(
                peer.exchange(&request_without_params("three", "ping"))["result"],
                json!({})
            );
            expect_error(
                &peer.exchange(&request_without_params(4, "nothing/here")),
                -32601,
                Some(json!(4)),
            );
            peer.close(1000);
        }
        let counters = server.close();
        let websockets = counters.websockets;
        assert_eq!((websockets.upgraded, websockets.closed_by_peer), (4, 4), "{counters}");
        // The `initialized` notifications get no response.
        assert_eq!((websockets.messages_in, websockets.messages_out), (24, 20), "{counters}");
        assert!(websockets.bytes_in > 0 && websockets.bytes_out > websockets.bytes_in);
    });
}

#[test]
fn modern_and_legacy_requests_share_a_connection() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let mut peer = WebSocketClient::connect(server.address());
        let discovered = peer.exchange(&modern(request(1, "server/discover", json!({}))));
        assert!(discovered["result"]["supportedVersions"].is_array(), "{discovered}");
        assert_eq!(result_text(&peer.exchange(&modern(echo(2, "modern")))), "modern");
        expect_error(&peer.exchange(&echo(3, "neither")), -32600, Some(json!(3)));
        peer.close(1000);
        let mut peer = WebSocketClient::initialize(server.address(), LEGACY);
        assert_eq!(result_text(&peer.exchange(&echo(1, "legacy"))), "legacy");
        let mut peer = peer.with_revision(MODERN);
        assert_eq!(result_text(&peer.exchange(&modern(echo(2, "modern")))), "modern");
        drop(peer);
        server.close();
    });
}

#[test]
fn slow_call_does_not_delay_others() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let mut peer = WebSocketClient::initialize(server.address(), LEGACY);
        for id in 1..=4 {
            peer.send_message(&call(id, "hold", json!({})));
            assert_eq!(server.next_signal(), "begun");
        }
        assert_eq!(result_text(&peer.exchange(&echo(5, "meanwhile"))), "meanwhile");
        server.open_gate();
        let mut ids: Vec<u64> = (0..4)
            .map(|_| {
                let response = peer.read_message();
                assert_eq!(result_text(&response), "held");
                response["id"].as_u64().expect("id is not a number")
            })
            .collect();
        ids.sort_unstable();
        assert_eq!(ids, [1, 2, 3, 4]);
        peer.close(1000);
        server.close();
    });
}

#[test]
fn concurrent_responses_reach_their_own_connection() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let mut peers: Vec<WebSocketClient> =
            (0..16).map(|_| WebSocketClient::initialize(server.address(), LEGACY)).collect();
        for (number, peer) in peers.iter_mut().enumerate() {
            let calls = (0..32).map(|id| echo(id, &format!("{number}-{id}")));
            let frames: Vec<u8> = calls
                .flat_map(|call| {
                    peer.register_request(&call);
                    text_frame(call)
                })
                .collect();
            peer.send_bytes(&frames);
        }
        for (number, peer) in peers.iter_mut().enumerate() {
            for id in 0..32 {
                let response = peer.read_message();
                assert_eq!(
                    (response["id"].as_u64(), result_text(&response)),
                    (Some(id), &*format!("{number}-{id}"))
                );
            }
        }
        drop(peers);
        server.close();
    });
}

#[test]
fn cancelled_call_gets_no_response() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let mut peer = WebSocketClient::initialize(server.address(), LEGACY);
        peer.send_message(&call("it", "until-cancelled", json!({})));
        assert_eq!(server.next_signal(), "begun");
        peer.send_message(&cancelled("it"));
        assert_eq!(server.next_signal(), "cancelled");
        assert_eq!(result_text(&peer.exchange(&echo(2, "next"))), "next");
        peer.close(1000);
        let counters = server.close();
        assert_eq!(counters.requests.cancelled, 1, "{counters}");
    });
}

#[test]
fn batch_is_answered_in_one_message() {
    over_each_ring(http_options(), |options| {
        let server = TestServer::with_test_tools(options);
        let mut peer = WebSocketClient::initialize(server.address(), BATCHED);
        let batch = json!([echo(1, "one"), request_without_params(2, "ping"), echo(3, "three")]);
        let responses = peer.exchange(&batch);
        let ids: Vec<_> =
            responses.as_array().expect("no batch").iter().map(|it| &it["id"]).collect();
        assert_eq!(ids, [1, 2, 3]);
        peer.close(1000);
        let mut peer = WebSocketClient::initialize(server.address(), LEGACY);
        peer.send_message(&batch);
        assert_eq!(peer.read_message()["error"]["code"], -32600);
        peer.close(1000);
        server.close();
    });
}

#[test]
fn messages_in_one_frame_are_separated_by_newlines() {
    over_each_ring(http_options(), |options| {
        let server = TestServer::with_test_tools(options);
        let mut peer = WebSocketClient::initialize(server.address(), LEGACY);
        let calls: Vec<Value> = (0..5).map(|id| echo(id, &format!("line {id}\n"))).collect();
        let lines: Vec<String> = calls.iter().map(Value::to_string).collect();
        for text_of_frame in [
            lines.join("\n"),
            lines.join("\n") + "\n",
            format!("\n\r\n{}\r\n\n", lines.join("\r\n")),
        ] {
            peer.register_requests(&calls);
            peer.send_bytes(&text_frame(text_of_frame));
            for id in 0..5 {
                // Each response is its own message.
                assert_eq!(result_text(&peer.read_message()), format!("line {id}\n"));
            }
        }
        peer.close(1000);
        server.close();
    });
}

#[test]
fn frames_sent_with_upgrade_request_are_read() {
    over_each_ring(http_options(), |options| {
        let server = TestServer::with_test_tools(options);
        let calls: Vec<Value> = (0..3).map(|id| modern(echo(id, "early"))).collect();
        let bytes: Vec<u8> = calls.iter().flat_map(text_frame).collect();
        let whole = [upgrade_request().bytes(), bytes].concat();
        // The upgrade request itself may be split, too.
        for cut in (0..whole.len()).step_by(37) {
            let stream = std::net::TcpStream::connect(server.address()).expect("connect");
            stream.set_nodelay(true).expect("set TCP_NODELAY");
            let mut writer = &stream;
            std::io::Write::write_all(&mut writer, &whole[..cut]).expect("write to server");
            let stream = stream.try_clone().expect("clone socket");
            let (_, mut peer) = WebSocketClient::upgrade(stream, &whole[cut..]);
            for call in &calls {
                peer.register_request(call);
                assert_eq!(result_text(&peer.read_message()), "early");
            }
            peer.close(1000);
        }
        server.close();
    });
}

#[test]
fn connection_used_for_http_can_be_upgraded() {
    over_each_ring(http_options(), |options| {
        let server = TestServer::with_test_tools(options);
        let mut client = server.connect_http();
        client.expect_alive();
        client.send(&Request::modern(&modern(call(1, "hold", json!({})))));
        assert_eq!(server.next_signal(), "begun");
        // The upgrade waits for the pending response; a message follows the upgrade.
        let early = text_frame(modern(echo(2, "behind")));
        client.send_bytes(&[upgrade_request().bytes(), early].concat());
        server.open_gate();
        assert_eq!(result_text(&client.read_response().message()), "held");
        let rest = client.socket().try_clone().expect("clone socket");
        let head = client.read_head();
        assert_eq!(head.status, 101, "{head:?}");
        drop(rest);
        drop(client);
        let counters = server.close();
        assert_eq!(counters.websockets.upgraded, 1, "{counters}");
    });
}

#[test]
fn calls_beyond_in_flight_limit_are_refused() {
    let mut options = http_options();
    options.limits.requests_in_flight_max = 2;
    let server = TestServer::with_test_tools(options);
    let mut peer = WebSocketClient::initialize(server.address(), LEGACY);
    for id in 1..=2 {
        peer.send_message(&call(id, "hold", json!({})));
        assert_eq!(server.next_signal(), "begun");
    }
    expect_error(&peer.exchange(&call(3, "hold", json!({}))), -32603, Some(json!(3)));
    server.open_gate();
    assert_eq!(result_text(&peer.read_message()), "held");
    assert_eq!(result_text(&peer.read_message()), "held");
    peer.send(FIN | TEXT, b"\n");
    peer.close(1000);
    server.close();
}
