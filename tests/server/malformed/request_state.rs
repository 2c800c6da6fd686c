//! Input requests of 2026-07-28, and `requestState` values that are forged, moved to another
//! request, expired or replayed (MCP 2026-07-28, multi-round-trip requests).

use std::time::Duration;

use corelane_test_support::mcp_schema::expect_valid;
use corelane_test_support::messages::{MODERN, call, expect_error, modern, request};
use corelane_test_support::{LineClient, TestServer, over_each_ring, tcp_options};
use serde_json::{Value, json};

use crate::malformed::interactive_catalog;

/// `LineClient` capabilities of most requests.
fn all_capabilities() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}})
}

/// A modern request with these client capabilities.
fn with_capabilities(capabilities: Value, request: Value) -> Value {
    let mut request = modern(request);
    request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
    request
}

/// Sends a request and returns its response, which must match the schema.
fn send_and_check(client: &mut LineClient, request: &Value) -> Value {
    let response = client.exchange(request);
    let method = request["method"].as_str();
    expect_valid(MODERN, &response, method);
    assert_eq!(response["id"], request["id"], "{response}");
    response
}

/// The same request with the `requestState` of `input_required` and these input responses.
fn retry(request: &Value, input_required: &Value, responses: Value) -> Value {
    let mut request = request.clone();
    request["id"] = json!(request["id"].as_u64().expect("number") + 1);
    request["params"]["requestState"] = input_required["result"]["requestState"].clone();
    request["params"]["inputResponses"] = responses;
    request
}

fn accepted_name(name: &str) -> Value {
    json!({"action": "accept", "content": {"name": name}})
}

fn ask_name(id: u64) -> Value {
    with_capabilities(
        all_capabilities(),
        call(id, "ask_name", json!({"word": "", "other": [1, {"b": 2, "a": 1}]})),
    )
}

fn expect_input_requests(response: &Value, keys: &[&str]) {
    let result = &response["result"];
    assert_eq!(result["resultType"], "input_required", "{response}");
    assert!(result["requestState"].is_string(), "{response}");
    let input_required = result["inputRequests"].as_object().expect("inputRequests object");
    assert_eq!(input_required.keys().collect::<Vec<_>>(), keys, "{response}");
}

fn expect_text(response: &Value, text: &str) {
    assert_eq!(response["result"]["content"][0]["text"], text, "{response}");
    assert_eq!(response["result"]["resultType"], "complete", "{response}");
}

#[test]
fn input_response_completes_retried_call() {
    over_each_ring(tcp_options(), |options| {
        let server = TestServer::with_catalog(options, interactive_catalog::catalog());
        let mut client = server.connect_tcp();
        let first = ask_name(1);
        let input_required = send_and_check(&mut client, &first);
        expect_input_requests(&input_required, &["user_name"]);
        let responses =
            json!({"user_name": accepted_name("Ada"), "unrequested": {"action": "cancel"}});
        // The retry may use another connection and another order of keys.
        let mut other = server.connect_tcp();
        let mut second = retry(&first, &input_required, responses);
        second["params"]["arguments"] = json!({"other": [1, {"a": 1, "b": 2}], "word": ""});
        expect_text(&send_and_check(&mut other, &second), "Hello, Ada!");
        drop((client, other));
        let counters = server.close();
        assert_eq!(
            (counters.client_requests.input_required, counters.client_requests.unmatched_responses),
            (1, 1),
            "{counters}"
        );
        assert_eq!(counters.client_requests.sent, 0, "{counters}");
    });
}

#[test]
fn input_responses_accumulate_over_rounds() {
    let server = TestServer::with_catalog(tcp_options(), interactive_catalog::catalog());
    let mut client = server.connect_tcp();
    let first = with_capabilities(all_capabilities(), call(1, "ask_twice", json!({})));
    let input_required = send_and_check(&mut client, &first);
    expect_input_requests(&input_required, &["first"]);
    let second = retry(&first, &input_required, json!({"first": accepted_name("Ada")}));
    let next_input_required = send_and_check(&mut client, &second);
    expect_input_requests(&next_input_required, &["second"]);
    let message = &next_input_required["result"]["inputRequests"]["second"]["params"]["message"];
    assert_eq!(*message, "And your friend's, Ada?");
    assert_ne!(
        input_required["result"]["requestState"],
        next_input_required["result"]["requestState"]
    );
    let third = retry(&second, &next_input_required, json!({"second": accepted_name("Grace")}));
    expect_text(&send_and_check(&mut client, &third), "Ada and Grace");
    drop(client);
    server.close();
}

#[test]
fn missing_input_response_is_requested_again() {
    let server = TestServer::with_catalog(tcp_options(), interactive_catalog::catalog());
    let mut client = server.connect_tcp();
    let first = with_capabilities(all_capabilities(), call(1, "ask_both", json!({})));
    let input_required = send_and_check(&mut client, &first);
    expect_input_requests(&input_required, &["name", "roots"]);
    let none = retry(&first, &input_required, json!({}));
    let input_required = send_and_check(&mut client, &none);
    expect_input_requests(&input_required, &["name", "roots"]);
    let half = retry(&none, &input_required, json!({"roots": {"roots": [{"uri": "file:///a"}]}}));
    let input_required = send_and_check(&mut client, &half);
    expect_input_requests(&input_required, &["name"]);
    let whole = retry(&half, &input_required, json!({"name": accepted_name("Ada")}));
    expect_text(&send_and_check(&mut client, &whole), "Ada works in 1 roots");
    // A client may send input responses with its first request.
    let mut foreseen = ask_name(9);
    foreseen["params"]["inputResponses"] =
        json!({"user_name": accepted_name("Eve"), "unknown_key": {}});
    assert_eq!(send_and_check(&mut client, &foreseen)["result"]["resultType"], "complete");
    drop(client);
    assert_eq!(server.close().client_requests.unmatched_responses, 0);
}

#[test]
fn prompts_and_resources_send_input_requests() {
    let server = TestServer::with_catalog(tcp_options(), interactive_catalog::catalog());
    let mut client = server.connect_tcp();
    let prompt = with_capabilities(
        all_capabilities(),
        request(1, "prompts/get", json!({"name": "invitation"})),
    );
    let input_required = send_and_check(&mut client, &prompt);
    expect_input_requests(&input_required, &["context"]);
    let response = send_and_check(
        &mut client,
        &retry(&prompt, &input_required, json!({"context": accepted_name("Ada")})),
    );
    let text = &response["result"]["messages"][0]["content"]["text"];
    assert_eq!(*text, "Write to Ada.", "{response}");
    let resource = with_capabilities(
        all_capabilities(),
        request(3, "resources/read", json!({"uri": "test://diary"})),
    );
    let input_required = send_and_check(&mut client, &resource);
    expect_input_requests(&input_required, &["who"]);
    let response = send_and_check(
        &mut client,
        &retry(&resource, &input_required, json!({"who": accepted_name("Eve")})),
    );
    assert_eq!(response["result"]["contents"][0]["text"], "Not for Eve.", "{response}");
    drop(client);
    server.close();
}

#[test]
fn input_request_requires_declared_client_capability() {
    let server = TestServer::with_catalog(tcp_options(), interactive_catalog::catalog());
    let mut client = server.connect_tcp();
    for (tool, capabilities, needed) in [
        ("ask_name", json!({}), json!({"elicitation": {"form": {}}})),
        ("ask_name", json!({"sampling": {}}), json!({"elicitation": {"form": {}}})),
        ("open_page", json!({"elicitation": {}}), json!({"elicitation": {"url": {}}})),
        ("ask_model", json!({"elicitation": {}}), json!({"sampling": {}})),
    ] {
        let response =
            send_and_check(&mut client, &with_capabilities(capabilities, call(1, tool, json!({}))));
        expect_error(&response, -32021, Some(json!(1)));
        assert_eq!(response["error"]["data"]["requiredCapabilities"], needed, "{response}");
    }
    let model = with_capabilities(json!({"sampling": {}}), call(2, "ask_model", json!({})));
    let input_required = send_and_check(&mut client, &model);
    expect_input_requests(&input_required, &["capital"]);
    let result = json!({"role": "assistant", "content": {"type": "text", "text": "Paris"},
                      "model": "m", "stopReason": "endTurn"});
    expect_text(
        &send_and_check(&mut client, &retry(&model, &input_required, json!({"capital": result}))),
        "Paris",
    );
    drop(client);
    server.close();
}

#[test]
fn invalid_input_response_is_invalid_params() {
    let server = TestServer::with_catalog(tcp_options(), interactive_catalog::catalog());
    let mut client = server.connect_tcp();
    for response in [
        json!(7),
        json!(null),
        json!([]),
        json!({}),
        json!({"action": "perhaps"}),
        json!({"action": "accept"}),
        json!({"action": "accept", "content": {}}),
        json!({"action": "accept", "content": {"name": 7}}),
        json!({"action": "accept", "content": "Ada"}),
    ] {
        let first = ask_name(1);
        let input_required = send_and_check(&mut client, &first);
        let refused = send_and_check(
            &mut client,
            &retry(&first, &input_required, json!({"user_name": response})),
        );
        expect_error(&refused, -32602, Some(json!(2)));
    }
    // Params of the wrong type are rejected too.
    for (key, value) in [
        ("requestState", json!(7)),
        ("requestState", json!({})),
        ("inputResponses", json!([])),
        ("inputResponses", json!("Ada")),
    ] {
        let mut wrong = ask_name(3);
        wrong["params"][key] = value;
        expect_error(&send_and_check(&mut client, &wrong), -32602, Some(json!(3)));
    }
    drop(client);
    server.close();
}

#[test]
fn modified_request_state_is_rejected() {
    over_each_ring(tcp_options(), |options| {
        let server = TestServer::with_catalog(options, interactive_catalog::catalog());
        let mut client = server.connect_tcp();
        let first = ask_name(1);
        let input_required = send_and_check(&mut client, &first);
        let state =
            input_required["result"]["requestState"].as_str().expect("requestState").to_owned();
        let mut last = state.clone();
        let flipped = if last.pop() == Some('A') { "Q" } else { "A" };
        let changed = [
            String::new(),
            "x".to_owned(),
            "é\u{0}".to_owned(),
            state[1..].to_owned(),
            state[..state.len() / 2].to_owned(),
            state[..state.len() - 1].to_owned(),
            format!("{state}A"),
            format!("{last}{flipped}"),
            format!("A{}", &state[1..]).replace(&state, "never"),
            "A".repeat(100_000),
        ];
        let mut refused = 0;
        for text in changed.iter().filter(|text| **text != state) {
            let mut forged =
                retry(&first, &input_required, json!({"user_name": accepted_name("Eve")}));
            forged["params"]["requestState"] = json!(text);
            expect_error(&send_and_check(&mut client, &forged), -32602, Some(json!(2)));
            refused += 1;
        }
        // The genuine state is still unused.
        let honest = retry(&first, &input_required, json!({"user_name": accepted_name("Ada")}));
        expect_text(&send_and_check(&mut client, &honest), "Hello, Ada!");
        drop(client);
        assert_eq!(server.close().client_requests.states_rejected, refused);
    });
}

#[test]
fn request_state_is_single_use_across_connections() {
    over_each_ring(tcp_options(), |mut options| {
        options.engine.shards = Some(2);
        let server = TestServer::with_catalog(options, interactive_catalog::catalog());
        let mut clients: Vec<LineClient> = (0..4).map(|_| server.connect_tcp()).collect();
        let first = ask_name(1);
        let input_required = send_and_check(&mut clients[0], &first);
        let again = retry(&first, &input_required, json!({"user_name": accepted_name("Ada")}));
        let responses: Vec<Value> =
            clients.iter_mut().map(|client| send_and_check(client, &again)).collect();
        expect_text(&responses[0], "Hello, Ada!");
        for response in &responses[1..] {
            expect_error(response, -32602, Some(json!(2)));
            let message = response["error"]["message"].as_str().expect("error message");
            assert!(message.contains("used before"), "{response}");
        }
        drop(clients);
        assert_eq!(server.close().client_requests.states_rejected, 3);
    });
}

#[test]
fn request_state_is_bound_to_its_request() {
    let server = TestServer::with_catalog(tcp_options(), interactive_catalog::catalog());
    let mut client = server.connect_tcp();
    let first = ask_name(1);
    let input_required = send_and_check(&mut client, &first);
    let responses = json!({"user_name": accepted_name("Eve"), "first": accepted_name("Eve")});
    let swapped = [
        call(1, "ask_name", json!({"word": "Ha! "})),
        call(1, "ask_name", json!({"word": "", "other": [1, {"b": 2, "a": 2}]})),
        call(1, "ask_name", json!({})),
        call(1, "ask_twice", json!({})),
        // A tool that sends no input requests.
        call(1, "echo", json!({"message": "x"})),
        request(1, "prompts/get", json!({"name": "ask_name"})),
        request(1, "prompts/get", json!({"name": "invitation"})),
        request(1, "resources/read", json!({"uri": "test://diary"})),
    ];
    for other in swapped {
        let moved = retry(
            &with_capabilities(all_capabilities(), other),
            &input_required,
            responses.clone(),
        );
        expect_error(&send_and_check(&mut client, &moved), -32602, Some(json!(2)));
    }
    let honest = retry(&first, &input_required, json!({"user_name": accepted_name("Ada")}));
    expect_text(&send_and_check(&mut client, &honest), "Hello, Ada!");
    drop(client);
    assert_eq!(server.close().client_requests.states_rejected, 8);
}

#[test]
fn request_state_of_other_process_is_rejected() {
    let (one, two) = (
        TestServer::with_catalog(tcp_options(), interactive_catalog::catalog()),
        TestServer::with_catalog(tcp_options(), interactive_catalog::catalog()),
    );
    let first = ask_name(1);
    let input_required = send_and_check(&mut one.connect_tcp(), &first);
    let moved = retry(&first, &input_required, json!({"user_name": accepted_name("Eve")}));
    expect_error(&send_and_check(&mut two.connect_tcp(), &moved), -32602, Some(json!(2)));
    one.close();
    two.close();
}

#[test]
fn expired_request_state_is_rejected() {
    over_each_ring(tcp_options(), |mut options| {
        options.limits.request_state_ttl = Duration::ZERO;
        let server = TestServer::with_catalog(options, interactive_catalog::catalog());
        let mut client = server.connect_tcp();
        let first = ask_name(1);
        let input_required = send_and_check(&mut client, &first);
        let late = send_and_check(
            &mut client,
            &retry(&first, &input_required, json!({"user_name": accepted_name("Ada")})),
        );
        expect_error(&late, -32602, Some(json!(2)));
        assert!(late["error"]["message"].as_str().is_some_and(|it| it.contains("expired")));
        drop(client);
        server.close();
    });
}

#[test]
fn legacy_request_ignores_request_state() {
    let server = TestServer::with_catalog(tcp_options(), interactive_catalog::catalog());
    let mut client = server.connect_initialized("2025-11-25");
    let mut odd = call(1, "echo", json!({"message": "x"}));
    odd["params"]["requestState"] = json!("made up");
    let response = client.exchange(odd);
    assert_eq!(response["result"]["content"][0]["text"], "x", "{response}");
    drop(client);
    server.close();
}
