//! Requests of legacy sessions: over any connection, and only with a valid session id.

use corelane_test_support::messages::{
    LEGACY, SESSION_REVISIONS, call, cancelled, echo, notification, request,
    request_without_params, result_text,
};
use corelane_test_support::{Request, TestServer, on_one_shard_and_two};
use serde_json::json;

use crate::http::http_session::HttpSession;

/// Connections; enough to reach each of two shards.
const CONNECTIONS: usize = 32;

/// Requests that are pipelined.
const PIPELINED: u64 = 100;

#[test]
fn session_requests_over_many_connections_are_served() {
    on_one_shard_and_two(|options| {
        let shards = options.engine.shards;
        let server = TestServer::with_test_tools(options);
        for revision in SESSION_REVISIONS {
            let session = HttpSession::initialize(server.address(), revision);
            for number in 0..CONNECTIONS {
                let mut client = session.connect();
                let response = client.exchange(&session.post(&echo(number, "carried")));
                assert_eq!((response.status(), result_text(&response.message())), (200, "carried"));
                client
                    .exchange(&session.post(&notification("notifications/none")))
                    .expect_empty_body(202);
                let listed = client
                    .exchange(&session.post(&request_without_params("list", "tools/list")))
                    .message();
                assert!(listed["result"]["tools"].is_array(), "{listed}");
            }
        }
        let counters = server.close();
        assert_eq!(counters.requests.initialize, 3, "{counters}");
        if shards == Some(2) {
            assert!(counters.shard.messages_sent > 0, "no request crossed shards: {counters}");
        }
    });
}

#[test]
fn request_may_overtake_initialized_notification() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        for revision in SESSION_REVISIONS {
            let session = HttpSession::without_notification(server.address(), revision);
            let level = request(1, "logging/setLevel", json!({"level": "info"}));
            for number in 0..CONNECTIONS {
                let mut client = session.connect();
                let served = client.exchange(&session.post(&level));
                assert_eq!((served.status(), &served.message()["result"]), (200, &json!({})));
                let response = client.exchange(&session.post(&echo(number, "early")));
                assert_eq!((response.status(), result_text(&response.message())), (200, "early"));
            }
            let initialized = notification("notifications/initialized");
            session.connect().exchange(&session.post(&initialized)).expect_empty_body(202);
            let response = session.connect().exchange(&session.post(&echo(1, "ready")));
            assert_eq!(result_text(&response.message()), "ready");
        }
        server.close();
    });
}

#[test]
fn pipelined_session_requests_are_answered_in_order() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), LEGACY);
        let mut clients: Vec<_> = (0..CONNECTIONS).map(|_| session.connect()).collect();
        for client in &mut clients {
            let mut pipelined = Vec::new();
            for number in 0..5 {
                let request = session.post(&echo(number, "hi"));
                client.register_request(&request);
                pipelined.extend(request.bytes());
            }
            pipelined.extend(session.post(&notification("notifications/none")).bytes());
            pipelined.extend(Request::new("GET", "/healthz").bytes());
            client.send_bytes(&pipelined);
        }
        for client in &mut clients {
            for number in 0..5 {
                assert_eq!(client.read_response().message()["id"], number);
            }
            client.read_response().expect_empty_body(202);
            assert_eq!(client.read_response().status(), 200);
        }
        drop(clients);
        server.close();
    });
}

#[test]
fn request_ids_are_scoped_to_their_session() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let sessions: Vec<_> =
            (0..8).map(|_| HttpSession::initialize(server.address(), LEGACY)).collect();
        // All sessions use the same id at the same time.
        let mut clients: Vec<_> = sessions.iter().map(HttpSession::connect).collect();
        for (session, client) in sessions.iter().zip(&mut clients) {
            client.send(&session.post(&call(1, "hold", json!({}))));
            assert_eq!(server.next_signal(), "begun");
        }
        // A cancellation concerns its own session.
        let cancel = sessions[0].post(&cancelled(1));
        sessions[0].connect().exchange(&cancel).expect_empty_body(202);
        let mut cancelled = clients.remove(0);
        cancelled.read_stream_head();
        cancelled.expect_end_of_stream();
        server.open_gate();
        for client in &mut clients {
            assert_eq!(result_text(&client.read_response().message()), "held");
        }
        drop(clients);
        server.close();
    });
}

#[test]
fn jsonrpc_errors_of_legacy_requests_get_200() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), LEGACY);
        for _ in 0..CONNECTIONS {
            let mut client = session.connect();
            for (message, code) in [
                (request(1, "no/such", json!({})), -32601),
                (call(1, "no-such", json!({})), -32602),
                (request(1, "resources/read", json!({"uri": "test://none"})), -32002),
            ] {
                let response = client.exchange(&session.post(&message));
                response.expect_error(200, code, Some(json!(1)));
            }
            let broken = session.post(&json!({})).body("{");
            client.exchange(&broken).expect_error(400, -32700, None);
            client.exchange(&session.post(&json!([]))).expect_error(400, -32600, None);
            client.expect_alive();
        }
        server.close();
    });
}

#[test]
fn unknown_session_gets_404_missing_session_400() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let mut client = server.connect_http().with_revision(LEGACY);
        for id in ["x", "6f0d5c1e-2b3a-4c4d-8e5f-60718293a4b5", "6F0D5C1E2B3A4C4D8E5F60718293A4B5"]
        {
            let session = HttpSession::with_id(server.address(), id, LEGACY);
            for request in [session.post(&echo(1, "hi")), session.get(), session.delete()] {
                client.exchange(&request).expect_error(404, -32600, None);
            }
        }
        let request = Request::post(echo(1, "hi"));
        client.exchange(&request).expect_error(400, -32600, Some(json!(1)));
        let notification = Request::post(notification("notifications/initialized"));
        client.exchange(&notification).expect_error(400, -32600, None);
        let answered = Request::post(json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
        client.exchange(&answered).expect_error(400, -32600, None);
        client.expect_alive();
        drop(client);
        server.close();
    });
}

#[test]
fn equal_session_fields_count_as_one() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), LEGACY);
        let post = session.post(&echo(1, "hi"));
        let get = session.get();
        for (name, value) in [("MCP-Protocol-Version", LEGACY), ("Mcp-Session-Id", session.id())] {
            let list = format!("{value}, {value}");
            for request in [&post, &get].map(|request| {
                [request.clone().field(name, &list), request.clone().add_field(name, value)]
            }) {
                for request in request {
                    let mut client = session.connect();
                    client.send(&request);
                    let head = client.read_head();
                    assert_eq!(head.status, 200, "{request:?}");
                    drop(client);
                    // The next GET replaces no open stream.
                    server.wait_for_connections(0);
                }
            }
            let other = post.clone().add_field(name, "other");
            session.connect().exchange(&other).expect_error(400, -32600, None);
        }
        let list = format!("{LEGACY}, 2025-06-18");
        let response = session.connect().exchange(&post.field("MCP-Protocol-Version", list));
        response.expect_error(400, -32022, None);
        // In a session of its own, whose only listening stream is the first one.
        let session = HttpSession::initialize(server.address(), LEGACY);
        let requests = [session.get(), session.resume("0-0"), session.resume("0-0, 0-0")];
        for request in requests {
            let mut client = session.connect();
            client.send(&request);
            assert_eq!(client.read_head().status, 200, "{request:?}");
        }
        server.close();
    });
}

#[test]
fn unsupported_protocol_version_in_session_gets_400() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), LEGACY);
        let mut client = session.connect();
        for request in [session.post(&echo(1, "hi")), session.get(), session.delete()] {
            let request = request.field("MCP-Protocol-Version", "1999-01-01");
            client.exchange(&request).expect_error(400, -32022, None);
        }
        // MCP 2025-03-26 does not define this header field.
        let request = session.post(&echo(1, "hi")).without_field("MCP-Protocol-Version");
        assert_eq!(result_text(&client.exchange(&request).message()), "hi");
        drop(client);
        server.close();
    });
}

#[test]
fn guessed_session_ids_get_404() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), LEGACY);
        let mut client = session.connect();
        for round in 0..10_000 / PIPELINED {
            let mut pipelined = Vec::new();
            for guess in 0..PIPELINED {
                let number = (round * PIPELINED + guess).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let id =
                    format!("{:08x}-2b3a-4c4d-8e5f-{:012x}", number >> 32, number & 0xffff_ffff);
                let guessed = HttpSession::with_id(server.address(), &id, LEGACY);
                pipelined.extend(guessed.post(&echo(1, "hi")).bytes());
            }
            client.send_bytes(&pipelined);
            for _ in 0..PIPELINED {
                client.read_response().expect_error(404, -32600, None);
            }
        }
        assert_eq!(
            result_text(&client.exchange(&session.post(&echo(1, "mine"))).message()),
            "mine"
        );
        drop(client);
        let counters = server.close();
        assert_eq!(counters.input_errors.http, 10_000, "{counters}");
        assert_eq!(counters.requests.tools_call, 1, "{counters}");
    });
}

#[test]
fn disconnect_cancels_no_session_request() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), LEGACY);
        for resets in [false, true] {
            let mut client = session.connect();
            client.send(&session.post(&call(1, "hold", json!({}))));
            assert_eq!(server.next_signal(), "begun");
            if resets {
                client.reset();
            } else {
                drop(client);
            }
            server.wait_for_connections(0);
            // The call is still running, and another request may have its id.
            let response = session.connect().exchange(&session.post(&echo(1, "shared")));
            assert_eq!(result_text(&response.message()), "shared");
            server.wait_for_connections(0);
            session.connect().exchange(&session.post(&cancelled(1))).expect_empty_body(202);
        }
        let counters = server.close();
        assert_eq!(counters.requests.cancelled, 2, "cancelled by notifications: {counters}");
    });
}
