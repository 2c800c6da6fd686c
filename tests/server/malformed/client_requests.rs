//! `LineClient` requests of legacy sessions (elicitation, sampling, roots) with responses that are
//! missing, late, duplicate, invalid or from another connection.

use std::time::Duration;

use corelane_test_support::mcp_schema::expect_valid;
use corelane_test_support::messages::{
    LEGACY, LEGACY_REVISIONS, call, cancelled, echo, endless, expect_error, join_lines,
    notification, request, result_text,
};
use corelane_test_support::{LineClient, TIMEOUT, TestServer, over_each_ring, tcp_options};
use serde_json::{Value, json};

use crate::malformed::interactive_catalog;

/// Connects a client that supports every client request of `revision`.
fn connect_capable(server: &TestServer, revision: &str) -> LineClient {
    let mut client = connect_without_notification(server, revision);
    client.send(notification("notifications/initialized"));
    client
}

/// Connects such a client, whose `notifications/initialized` is outstanding.
fn connect_without_notification(server: &TestServer, revision: &str) -> LineClient {
    let mut client = server.connect_tcp();
    let elicitation = if revision == LEGACY { json!({"form": {}, "url": {}}) } else { json!({}) };
    let mut capabilities = json!({"sampling": {}, "roots": {"listChanged": true}});
    if revision >= "2025-06-18" {
        capabilities["elicitation"] = elicitation;
    }
    let about = json!({"name": "malformed", "version": "1"});
    let params = json!({
        "protocolVersion": revision, "capabilities": capabilities, "clientInfo": about,
    });
    let response = client.exchange(request(0, "initialize", params));
    assert_eq!(response["result"]["protocolVersion"], revision, "{response}");
    client
}

/// Receives the next message, which must match the schema.
fn receive_checked(client: &mut LineClient, revision: &str) -> Value {
    let message = client.receive();
    expect_valid(revision, &message, None);
    message
}

/// Receives the next message, which must be a client request.
fn receive_client_request(client: &mut LineClient, method: &str) -> Value {
    let message = receive_checked(client, LEGACY);
    assert_eq!(message["method"], method, "{message}");
    assert!(message["id"].is_string(), "{message}");
    message
}

#[expect(clippy::needless_pass_by_value, reason = "most callers pass a literal")]
fn response_to(client_request: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": client_request["id"], "result": result})
}

fn accepted_name(name: &str) -> Value {
    json!({"action": "accept", "content": {"name": name}})
}

fn ask_name(id: u64) -> Value {
    call(id, "ask_name", json!({"word": ""}))
}

#[test]
fn elicitation_response_resumes_handler() {
    over_each_ring(tcp_options(), |options| {
        let server = TestServer::with_catalog(options, interactive_catalog::catalog());
        for revision in ["2025-06-18", LEGACY] {
            let mut client = connect_capable(&server, revision);
            client.send(ask_name(1));
            let client_request = receive_checked(&mut client, revision);
            assert_eq!(client_request["method"], "elicitation/create", "{client_request}");
            // Requests are served while the client request is open.
            assert_eq!(result_text(&client.exchange(echo(2, "meanwhile"))), "meanwhile");
            let response = client.exchange(response_to(&client_request, accepted_name("Ada")));
            assert_eq!(result_text(&response), "Hello, Ada!", "{response}");
        }
        for revision in LEGACY_REVISIONS {
            let mut client = connect_capable(&server, revision);
            client.send(call(1, "ask_model", json!({})));
            let client_request = receive_checked(&mut client, revision);
            assert_eq!(client_request["method"], "sampling/createMessage", "{client_request}");
            let result = json!({"role": "assistant", "content": {"type": "text", "text": "Paris"},
                              "model": "m"});
            assert_eq!(
                result_text(&client.exchange(response_to(&client_request, result))),
                "Paris"
            );
        }
        let counters = server.close();
        assert_eq!(
            (counters.client_requests.sent, counters.client_requests.answered),
            (6, 6),
            "{counters}"
        );
    });
}

#[test]
fn client_request_waits_for_initialized_notification() {
    let server = TestServer::with_catalog(tcp_options(), interactive_catalog::catalog());
    let mut client = connect_without_notification(&server, LEGACY);
    client.send(ask_name(1));
    client.send(call(2, "ask_model", json!({})));
    // Log messages and responses do not wait.
    client.send(call(3, "log", json!({})));
    while client.receive()["id"] != 3 {}
    client.ping();
    let mut other = connect_capable(&server, LEGACY);
    other.send(ask_name(1));
    receive_client_request(&mut other, "elicitation/create");
    client.send(notification("notifications/initialized"));
    let name = receive_client_request(&mut client, "elicitation/create");
    receive_client_request(&mut client, "sampling/createMessage");
    let response = client.exchange(response_to(&name, accepted_name("Ada")));
    assert_eq!(result_text(&response), "Hello, Ada!", "{response}");
    drop((client, other));
    server.close();
}

#[test]
fn cancelled_call_before_initialized_notification_asks_nothing() {
    let server = TestServer::with_catalog(tcp_options(), interactive_catalog::catalog());
    let mut client = connect_without_notification(&server, LEGACY);
    client.send(ask_name(1));
    client.ping();
    client.send(cancelled(1));
    client.send(notification("notifications/initialized"));
    // Neither the client request nor its cancellation was sent.
    assert_eq!(result_text(&client.exchange(echo(2, "next"))), "next");
    drop(client);
    let counters = server.close();
    assert_eq!(counters.client_requests.sent, 0, "{counters}");
}

#[test]
fn client_requests_are_answered_in_any_order() {
    let server = TestServer::with_catalog(tcp_options(), interactive_catalog::catalog());
    let mut client = connect_capable(&server, LEGACY);
    client.send(call(1, "ask_both", json!({})));
    let name = receive_client_request(&mut client, "elicitation/create");
    let roots = receive_client_request(&mut client, "roots/list");
    client
        .send(response_to(&roots, json!({"roots": [{"uri": "file:///a"}, {"uri": "file:///b"}]})));
    let response = client.exchange(response_to(&name, accepted_name("Ada")));
    assert_eq!(result_text(&response), "Ada works in 2 roots");
    drop(client);
    server.close();
}

#[test]
fn client_request_without_capability_fails_call() {
    let server = TestServer::with_catalog(tcp_options(), interactive_catalog::catalog());
    let mut client = server.connect_initialized(LEGACY);
    for tool in ["ask_name", "ask_model", "ask_both", "open_page"] {
        let response = client.exchange(call(1, tool, json!({})));
        assert_eq!(response["result"]["isError"], true, "{response}");
    }
    // A handler that handles the missing capability.
    let response = client.exchange(request(2, "resources/read", json!({"uri": "test://diary"})));
    assert_eq!(response["result"]["contents"][0]["text"], "Not for a stranger.", "{response}");
    let response = client.exchange(request(3, "prompts/get", json!({"name": "invitation"})));
    expect_error(&response, -32603, Some(json!(3)));
    drop(client);
    assert_eq!(server.close().client_requests.sent, 0);
}

#[test]
fn unmatched_responses_are_ignored_and_counted() {
    over_each_ring(tcp_options(), |options| {
        let server = TestServer::with_catalog(options, interactive_catalog::catalog());
        let mut client = connect_capable(&server, LEGACY);
        let mut other = connect_capable(&server, LEGACY);
        let never = |id: Value| json!({"jsonrpc": "2.0", "id": id, "result": accepted_name("Eve")});
        for id in [json!(0), json!("0"), json!("corelane-0-0"), json!(""), json!("-")] {
            client.send(never(id));
        }
        client.send(ask_name(1));
        let client_request = receive_client_request(&mut client, "elicitation/create");
        // From another connection, and with similar ids.
        other.send(response_to(&client_request, accepted_name("Eve")));
        other.ping();
        let id = client_request["id"].as_str().expect("text");
        let (head, number) = id.rsplit_once('-').expect("id ends with a number");
        client.send(never(json!(format!("{head}-0{number}"))));
        client.send(never(json!(format!("x-{number}"))));
        client.send(json!({"jsonrpc": "2.0", "id": null, "error": {"code": 1, "message": "?"}}));
        client.ping();
        let response = client.exchange(response_to(&client_request, accepted_name("Ada")));
        assert_eq!(result_text(&response), "Hello, Ada!");
        // A duplicate response.
        client.send(response_to(&client_request, accepted_name("Eve")));
        client.ping();
        drop((client, other));
        let counters = server.close();
        assert_eq!(
            (counters.client_requests.answered, counters.client_requests.unmatched_responses),
            (1, 10)
        );
    });
}

#[test]
fn malformed_response_fails_waiting_call_unanswered() {
    over_each_ring(tcp_options(), |options| {
        let server = TestServer::with_catalog(options, interactive_catalog::catalog());
        let mut client = connect_capable(&server, LEGACY);
        let mut texts: Vec<(&str, &str)> = vec![
            (r#"{"id":ID,"result":{"action":"decline"}}"#, "jsonrpc"),
            (r#"{"jsonrpc":"2.0","id":ID,"error":"no"}"#, "must be an object"),
            (r#"{"jsonrpc":"2.0","id":ID,"error":{},"result":{}}"#, "both"),
            (r#"{"jsonrpc":"2.0","id":ID}"#, "method"),
            (r#"{"jsonrpc":"2.0","id":ID,"error":null}"#, "method"),
            (r#"{"jsonrpc":"2.0","id":[ID],"result":{}}"#, "id"),
            (r#"{"jsonrpc":"2.0","id":null,"result":{}}"#, "id"),
            (r#"{"jsonrpc":"2.0","id":7,"result":{}}"#, "id"),
            (r#"{"jsonrpc":"2.0","result":{}}"#, "id"),
            (r#"{"jsonrpc":"2.0","id":ID,"result":{"n":1e400}}"#, "invalid JSON"),
            (r#"{"jsonrpc":"2.0","result":{"n":1e400},"id":ID}"#, "invalid JSON"),
        ];
        let deep = format!(r#"{{"id":ID,"result":{}{}}}"#, "[".repeat(99), "]".repeat(99));
        texts.push((&deep, "nested"));
        let count = texts.len() as u64;
        for (text, reason) in texts {
            client.send(ask_name(1));
            let client_request = receive_client_request(&mut client, "elicitation/create");
            let response = client.exchange(text.replace("ID", &client_request["id"].to_string()));
            assert_eq!(response["id"], 1, "{text}: {response}");
            assert_eq!(response["result"]["isError"], true, "{text}: {response}");
            let shown = result_text(&response);
            assert!(shown.starts_with("invalid response of the client: "), "{text}: {response}");
            assert!(shown.contains(reason), "{text}: {response}");
            client.ping();
        }
        drop(client);
        let counters = server.close();
        let counted = &counters.client_requests;
        assert_eq!((counted.answered, counted.malformed_responses), (count, count), "{counters}");
    });
}

#[test]
fn null_member_of_response_counts_as_absent() {
    let server = TestServer::with_catalog(tcp_options(), interactive_catalog::catalog());
    let mut client = connect_capable(&server, LEGACY);
    client.send(ask_name(1));
    let client_request = receive_client_request(&mut client, "elicitation/create");
    let mut response = response_to(&client_request, accepted_name("Ada"));
    response["error"] = Value::Null;
    assert_eq!(result_text(&client.exchange(response)), "Hello, Ada!");
    client.send(ask_name(2));
    let client_request = receive_client_request(&mut client, "elicitation/create");
    let error = json!({"code": 1, "message": "not now"});
    let response = json!({
        "jsonrpc": "2.0", "id": client_request["id"], "result": null, "error": error,
    });
    let response = client.exchange(response);
    assert!(response.to_string().contains("not now"), "{response}");
    drop(client);
    server.close();
}

#[test]
fn malformed_response_fails_no_other_request() {
    let server = TestServer::with_catalog(tcp_options(), interactive_catalog::catalog());
    let mut client = connect_capable(&server, LEGACY);
    client.send(ask_name(1));
    let first = receive_client_request(&mut client, "elicitation/create");
    client.send(ask_name(2));
    let second = receive_client_request(&mut client, "elicitation/create");
    // Without an id it could be the response to either.
    client.send(r#"{"jsonrpc":"2.0","result":{}}"#);
    client.ping();
    for (client_request, id) in [(second, 2), (first, 1)] {
        let response = client.exchange(response_to(&client_request, accepted_name("Ada")));
        assert_eq!((result_text(&response), &response["id"]), ("Hello, Ada!", &json!(id)));
    }
    drop(client);
    server.close();
}

#[test]
fn invalid_elicit_result_fails_call() {
    let server = TestServer::with_catalog(tcp_options(), interactive_catalog::catalog());
    let mut client = connect_capable(&server, LEGACY);
    let malformed = [
        json!({}),
        json!(7),
        json!(null),
        json!({"action": "perhaps"}),
        json!({"action": "accept", "content": {"name": 7}}),
        json!({"action": "accept"}),
    ];
    for (id, result) in (1..).zip(malformed) {
        client.send(ask_name(id));
        let client_request = receive_client_request(&mut client, "elicitation/create");
        let response = client.exchange(response_to(&client_request, result));
        assert_eq!(response["id"], id, "{response}");
        assert_eq!(response["result"]["isError"], true, "{response}");
    }
    client.send(request(9, "prompts/get", json!({"name": "invitation"})));
    let client_request = receive_client_request(&mut client, "elicitation/create");
    let response = client.exchange(response_to(&client_request, json!({})));
    expect_error(&response, -32603, Some(json!(9)));
    client.send(ask_name(10));
    let client_request = receive_client_request(&mut client, "elicitation/create");
    let error = json!({"code": -1, "message": "x".repeat(10_000)});
    let response =
        client.exchange(json!({"jsonrpc": "2.0", "id": client_request["id"], "error": error}));
    assert_eq!(response["result"]["isError"], true, "{response}");
    assert!(response.to_string().len() < 1000, "{response}");
    client.send(ask_name(11));
    let client_request = receive_client_request(&mut client, "elicitation/create");
    let response = client.exchange(response_to(&client_request, json!({"action": "decline"})));
    assert_eq!(result_text(&response), "Hello, stranger!");
    drop(client);
    let counters = server.close();
    assert_eq!(
        (counters.client_requests.answered, counters.client_requests.malformed_responses),
        (9, 7),
        "{counters}"
    );
}

#[test]
fn client_request_timeout_cancels_request_and_fails_call() {
    over_each_ring(tcp_options(), |mut options| {
        options.limits.client_request_timeout = Duration::from_millis(30);
        let server = TestServer::with_catalog(options, interactive_catalog::catalog());
        let mut client = connect_capable(&server, LEGACY);
        client.send(ask_name(1));
        let client_request = receive_client_request(&mut client, "elicitation/create");
        let cancellation = receive_checked(&mut client, LEGACY);
        assert_eq!(cancellation["method"], "notifications/cancelled", "{cancellation}");
        assert_eq!(cancellation["params"]["requestId"], client_request["id"], "{cancellation}");
        let response = receive_checked(&mut client, LEGACY);
        assert_eq!(response["result"]["isError"], true, "{response}");
        // A late response.
        client.send(response_to(&client_request, accepted_name("Ada")));
        client.ping();
        drop(client);
        let counters = server.close();
        assert_eq!(
            (counters.client_requests.timed_out, counters.client_requests.unmatched_responses),
            (1, 1)
        );
        assert_eq!(counters.requests.timed_out, 0, "{counters}");
    });
}

#[test]
fn open_client_request_suspends_request_timeout() {
    over_each_ring(tcp_options(), |mut options| {
        options.limits.request_timeout = Duration::from_millis(30);
        let server = TestServer::with_catalog(options, interactive_catalog::catalog());
        let mut client = connect_capable(&server, LEGACY);
        client.send(ask_name(1));
        let client_request = receive_client_request(&mut client, "elicitation/create");
        // Another call runs into the timeout meanwhile.
        expect_error(&client.exchange(endless(2)), -32603, Some(json!(2)));
        assert_eq!(
            result_text(&client.exchange(response_to(&client_request, accepted_name("Ada")))),
            "Hello, Ada!"
        );
        drop(client);
        assert_eq!(server.close().requests.timed_out, 1);
    });
}

#[test]
fn client_progress_extends_timeout_of_its_request() {
    over_each_ring(tcp_options(), |options| {
        let server = TestServer::with_catalog(options, interactive_catalog::catalog());
        let mut client = connect_capable(&server, LEGACY);
        client.send(ask_name(1));
        let client_request = receive_client_request(&mut client, "elicitation/create");
        let token = &client_request["params"]["_meta"]["progressToken"];
        for token in [token, &json!(7), &json!("corelane-0-999"), &json!(null)] {
            let params = json!({"progressToken": token, "progress": 1});
            let method = "notifications/progress";
            client.send(json!({"jsonrpc": "2.0", "method": method, "params": params}));
        }
        client.send(notification("notifications/progress"));
        client.send(notification("notifications/roots/list_changed"));
        client.ping();
        assert_eq!(
            result_text(&client.exchange(response_to(&client_request, accepted_name("Ada")))),
            "Hello, Ada!"
        );
        drop(client);
        let counters = server.close();
        assert_eq!(
            (
                counters.client_requests.progress_notifications,
                counters.client_requests.unmatched_progress
            ),
            (1, 4)
        );
    });
}

#[test]
fn cancelled_call_cancels_its_client_request() {
    over_each_ring(tcp_options(), |options| {
        let server = TestServer::with_catalog(options, interactive_catalog::catalog());
        let mut client = connect_capable(&server, LEGACY);
        client.send(ask_name(1));
        let client_request = receive_client_request(&mut client, "elicitation/create");
        let cancellation = client.exchange(cancelled(1));
        assert_eq!(cancellation["method"], "notifications/cancelled", "{cancellation}");
        assert_eq!(cancellation["params"]["requestId"], client_request["id"], "{cancellation}");
        client.send(response_to(&client_request, accepted_name("Ada")));
        client.ping();
        drop(client);
        let counters = server.close();
        assert_eq!(
            (counters.client_requests.cancelled, counters.client_requests.unmatched_responses),
            (1, 1)
        );
    });
}

#[test]
fn cancellation_inside_batch_keeps_other_responses() {
    let server = TestServer::with_catalog(tcp_options(), interactive_catalog::catalog());
    let mut client = connect_capable(&server, "2025-03-26");
    client.send(call(1, "ask_model", json!({})));
    let client_request = client.receive();
    assert_eq!(client_request["method"], "sampling/createMessage", "{client_request}");
    let batch = client.exchange(json!([echo(2, "a"), cancelled(1), echo(3, "b")]));
    assert_eq!(batch.as_array().map(Vec::len), Some(2), "{batch}");
    assert_eq!(client.receive()["method"], "notifications/cancelled");
    // A response may arrive in a batch.
    client.send(call(4, "ask_model", json!({})));
    let client_request = client.receive();
    let result = json!({"role": "assistant", "content": {"type": "text", "text": "Paris"},
                      "model": "m"});
    let echoes = client.exchange(json!([response_to(&client_request, result), echo(5, "c")]));
    assert_eq!(echoes.as_array().map(Vec::len), Some(1), "{echoes}");
    assert_eq!(result_text(&client.receive()), "Paris");
    drop(client);
    server.close();
}

#[test]
fn dropped_client_request_is_cancelled() {
    let server = TestServer::with_catalog(tcp_options(), interactive_catalog::catalog());
    let mut client = connect_capable(&server, LEGACY);
    client.send(call(1, "ask_in_vain", json!({})));
    let client_request = receive_client_request(&mut client, "elicitation/create");
    let cancellation = receive_checked(&mut client, LEGACY);
    assert_eq!(cancellation["params"]["requestId"], client_request["id"], "{cancellation}");
    assert_eq!(result_text(&client.receive()), "never mind");
    drop(client);
    server.close();
}

#[test]
fn client_responses_need_no_in_flight_slot() {
    over_each_ring(tcp_options(), |mut options| {
        options.limits.requests_in_flight_max = 2;
        let server = TestServer::with_catalog(options, interactive_catalog::catalog());
        let mut client = connect_capable(&server, LEGACY);
        client.send_bytes(join_lines([1, 2].map(ask_name)).as_bytes());
        let client_requests =
            [(); 2].map(|()| receive_client_request(&mut client, "elicitation/create"));
        expect_error(&client.exchange(ask_name(3)), -32603, Some(json!(3)));
        for (client_request, name) in client_requests.iter().zip(["Ada", "Grace"]) {
            let response = client.exchange(response_to(client_request, accepted_name(name)));
            assert_eq!(result_text(&response), format!("Hello, {name}!"));
        }
        drop(client);
        server.close();
    });
}

#[test]
fn disconnect_cancels_open_client_requests() {
    over_each_ring(tcp_options(), |options| {
        let server = TestServer::with_catalog(options, interactive_catalog::catalog());
        for round in 0..10 {
            let mut client = connect_capable(&server, LEGACY);
            client.send(ask_name(1));
            receive_client_request(&mut client, "elicitation/create");
            if round % 2 == 0 {
                client.reset();
            } else {
                client.shutdown_write();
                assert_eq!(
                    receive_checked(&mut client, LEGACY)["method"],
                    "notifications/cancelled"
                );
                client.expect_end();
            }
        }
        let counters = server.close();
        assert_eq!(counters.client_requests.sent, 10, "{counters}");
        assert_eq!(counters.client_requests.cancelled, 10, "{counters}");
    });
}

#[test]
fn half_close_fails_open_client_requests() {
    over_each_ring(tcp_options(), |mut options| {
        options.tcp.half_close_timeout = TIMEOUT;
        let server = TestServer::with_catalog(options, interactive_catalog::catalog());
        let mut client = connect_capable(&server, LEGACY);
        client.send(ask_name(1));
        receive_client_request(&mut client, "elicitation/create");
        // No response can arrive any more, so the call ends before the timeout.
        client.shutdown_write();
        assert_eq!(receive_checked(&mut client, LEGACY)["method"], "notifications/cancelled");
        assert_eq!(client.receive()["result"]["isError"], true);
        client.expect_end();
        drop(client);
        server.close();
    });
}

#[test]
fn drain_cancels_open_client_requests() {
    over_each_ring(tcp_options(), |options| {
        let server = TestServer::with_catalog(options, interactive_catalog::catalog());
        let mut client = connect_capable(&server, LEGACY);
        client.send(ask_name(1));
        receive_client_request(&mut client, "elicitation/create");
        server.drain();
        assert_eq!(receive_checked(&mut client, LEGACY)["method"], "notifications/cancelled");
        assert_eq!(client.receive()["result"]["isError"], true);
        client.expect_end();
        drop(client);
        server.close();
    });
}

#[test]
fn accepted_url_elicitation_sends_complete_notification() {
    let server = TestServer::with_catalog(tcp_options(), interactive_catalog::catalog());
    let mut client = connect_capable(&server, LEGACY);
    for (id, action) in [(1, "accept"), (2, "decline"), (3, "cancel")] {
        client.send(call(id, "open_page", json!({})));
        let client_request = receive_client_request(&mut client, "elicitation/create");
        assert_eq!(client_request["params"]["mode"], "url", "{client_request}");
        let address = client_request["params"]["elicitationId"].clone();
        assert!(address.is_string(), "{client_request}");
        client.send(response_to(&client_request, json!({"action": action})));
        if action == "accept" {
            let done = receive_checked(&mut client, LEGACY);
            assert_eq!(done["method"], "notifications/elicitation/complete", "{done}");
            assert_eq!(done["params"]["elicitationId"], address, "{done}");
        }
        assert_eq!(result_text(&client.receive()), action);
    }
    // Revisions before 2025-11-25 have no URL mode.
    let mut older = connect_capable(&server, "2025-06-18");
    let response = older.exchange(call(4, "open_page", json!({})));
    assert_eq!(response["result"]["isError"], true, "{response}");
    drop((client, older));
    server.close();
}
