//! Requests of 2026-07-28: choice of the era, and header fields that repeat the body.

use corelane_test_support::messages::{
    LEGACY, MODERN, call, echo, expect_error, initialize_with_elicitation, modern, notification,
    request, result_text,
};
use corelane_test_support::{Request, TestServer, http_options, on_one_shard_and_two};
use serde_json::{Value, json};

use crate::http::http_session::HttpSession;

#[test]
fn one_connection_serves_both_eras() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let mut client = server.connect_http();
        let response = client.exchange(&Request::modern(&modern(echo(1, "modern"))));
        assert_eq!(result_text(&response.message()), "modern");
        assert!(response.head.field("Mcp-Session-Id").is_none(), "{response:?}");
        let mut client = client.with_revision(LEGACY);
        let response = client.exchange(&Request::post(initialize_with_elicitation(2, LEGACY)));
        assert_eq!(response.message()["result"]["protocolVersion"], LEGACY);
        let session = response.head.field("Mcp-Session-Id").expect("no Mcp-Session-Id").to_owned();
        let session = HttpSession::with_id(server.address(), &session, LEGACY);
        client
            .exchange(&session.post(&notification("notifications/initialized")))
            .expect_empty_body(202);
        assert_eq!(
            result_text(&client.exchange(&session.post(&echo(3, "legacy"))).message()),
            "legacy"
        );
        // The header field has no meaning in a modern request.
        let mut client = client.with_revision(MODERN);
        let request =
            Request::modern(&modern(echo(4, "again"))).field("Mcp-Session-Id", "of a proxy");
        assert_eq!(result_text(&client.exchange(&request).message()), "again");
        drop(client);
        server.close();
    });
}

#[test]
fn request_era_follows_meta_and_header() {
    let server = TestServer::with_test_tools(http_options());
    let mut client = server.connect_http();
    // Only `_meta` is modern: the header field is missing.
    let request = Request::modern(&modern(echo(1, "hi"))).without_field("MCP-Protocol-Version");
    client.exchange(&request).expect_error(400, -32020, Some(json!(1)));
    // Only the header field is modern: `_meta` is missing.
    client.exchange(&Request::modern(&echo(2, "hi"))).expect_error(400, -32602, Some(json!(2)));
    // Neither is modern: the request is legacy, without a session.
    client.exchange(&Request::post(echo(3, "hi"))).expect_error(400, -32600, Some(json!(3)));
    // The versions differ.
    let request = Request::modern(&modern(echo(4, "hi"))).field("MCP-Protocol-Version", LEGACY);
    client.exchange(&request).expect_error(400, -32020, Some(json!(4)));
    // A handshake with a modern version.
    let request = Request::modern(&modern(initialize_with_elicitation(5, MODERN)));
    client.exchange(&request).expect_error(404, -32601, Some(json!(5)));
    drop(client);
    server.close();
}

#[test]
fn unsupported_version_error_lists_supported_versions() {
    let server = TestServer::with_test_tools(http_options());
    let mut client = server.connect_http();
    let mut message = modern(echo(1, "hi"));
    message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2999-01-01");
    let request = Request::modern(&message);
    client.exchange(&request).expect_error(400, -32020, Some(json!(1)));
    let request = request.field("MCP-Protocol-Version", "2999-01-01");
    let error = client.exchange(&request).expect_error(400, -32022, Some(json!(1)));
    let data = &error["error"]["data"];
    assert_eq!(data["requested"], "2999-01-01", "{error}");
    assert!(
        data["supported"].as_array().is_some_and(|all| all.contains(&json!(MODERN))),
        "{error}"
    );
    drop(client);
    server.close();
}

#[test]
fn unknown_modern_methods_get_404() {
    let server = TestServer::with_test_tools(http_options());
    let mut client = server.connect_http();
    for method in ["ping", "initialize", "logging/setLevel", "resources/subscribe", "no/such"] {
        let message = modern(request(7, method, json!({})));
        client.exchange(&Request::modern(&message)).expect_error(404, -32601, Some(json!(7)));
    }
    client.expect_alive();
    drop(client);
    let counters = server.close();
    assert_eq!(counters.errors.count_of(-32601), 5, "{counters}");
}

#[test]
fn header_and_body_mismatch_gets_400() {
    let server = TestServer::with_test_tools(http_options());
    let mut client = server.connect_http();
    let good = Request::modern(&modern(echo(1, "hi")));
    for bad in [
        good.clone().without_field("MCP-Protocol-Version"),
        good.clone().field("MCP-Protocol-Version", "2025-11-25"),
        good.clone().without_field("Mcp-Method"),
        good.clone().field("Mcp-Method", "tools/list"),
        good.clone().field("Mcp-Method", "Tools/Call"),
        good.clone().without_field("Mcp-Name"),
        good.clone().field("Mcp-Name", "add"),
        good.clone().field("Mcp-Name", "=?base64?ZWNobw?="),
        good.clone().field("Mcp-Name", ""),
    ] {
        client.exchange(&bad).expect_error(400, -32020, Some(json!(1)));
    }
    for fine in [
        good.clone().field("Mcp-Name", "  echo\t"),
        good.clone().field("Mcp-Name", "=?base64?ZWNobw==?="),
        good.without_field("Mcp-Name").field("mcp-NAME", "echo"),
    ] {
        assert_eq!(result_text(&client.exchange(&fine).message()), "hi");
    }
    // A field repeated with another value makes the head malformed.
    let twice = Request::modern(&modern(echo(1, "hi"))).add_field("Mcp-Name", "other");
    let response = client.exchange(&twice);
    response.expect_error(400, -32600, None);
    drop(client);
    server.close();
}

#[test]
fn equal_header_fields_count_as_one() {
    let server = TestServer::with_test_tools(http_options());
    let mut client = server.connect_http();
    let message = modern(call(1, "test_header_parameter", json!({"region": "a, b"})));
    let good = Request::modern(&message).field("Mcp-Param-Region", "a, b");
    for (name, value) in [
        ("MCP-Protocol-Version", MODERN),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "test_header_parameter"),
        ("Mcp-Name", "=?base64?dGVzdF9oZWFkZXJfcGFyYW1ldGVy?="),
        ("Mcp-Param-Region", "a, b"),
        ("Mcp-Param-Region", "=?base64?YSwgYg==?="),
    ] {
        let list = format!("{value}, {value},{value}");
        let lines = good.clone().field(name, value);
        for request in [
            good.clone().field(name, &list),
            lines.clone().add_field(&name.to_lowercase(), value),
            lines.add_field(&name.to_uppercase(), value),
        ] {
            let response = client.exchange(&request);
            assert_eq!(result_text(&response.message()), "Region: a, b", "{request:?}");
        }
        for other in [format!("{value}, x"), format!("x,{value}"), format!("{value} {value}")] {
            let response = client.exchange(&good.clone().field(name, &other));
            response.expect_error(400, -32020, Some(json!(1)));
        }
    }
    drop(client);
    server.close();
}

#[test]
fn header_parameters_must_match_arguments() {
    let server = TestServer::with_test_tools(http_options());
    let mut client = server.connect_http();
    let call = |region: &str| {
        Request::modern(&modern(call(1, "test_header_parameter", json!({"region": region}))))
    };
    for (region, header) in
        [("here", "here"), ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="), ("a b", "a b")]
    {
        let response = client.exchange(&call(region).field("Mcp-Param-Region", header));
        assert_eq!(result_text(&response.message()), format!("Region: {region}"));
    }
    for (region, header) in [("here", "Here"), ("here", "there"), ("a", "=?base64?YQ?=")] {
        let response = client.exchange(&call(region).field("Mcp-Param-Region", header));
        response.expect_error(400, -32020, Some(json!(1)));
    }
    client.exchange(&call("here")).expect_error(400, -32020, Some(json!(1)));
    let twice =
        call("here").field("Mcp-Param-Region", "here").add_field("mcp-param-region", "there");
    client.exchange(&twice).expect_error(400, -32020, Some(json!(1)));
    let other = call("here").field("Mcp-Param-Region", "here").field("Mcp-Param-Else", "x");
    assert_eq!(result_text(&client.exchange(&other).message()), "Region: here");
    drop(client);
    server.close();
}

#[test]
fn mcp_name_of_resource_is_its_uri() {
    let server = TestServer::with_test_tools(http_options());
    let mut client = server.connect_http();
    let read = Request::modern(&modern(request(1, "resources/read", json!({"uri": "test://one"}))));
    let response = client.exchange(&read).message();
    assert_eq!(response["result"]["contents"][0]["text"], "text", "{response}");
    client.exchange(&read.field("Mcp-Name", "test://two")).expect_error(
        400,
        -32020,
        Some(json!(1)),
    );
    drop(client);
    server.close();
}

#[test]
fn modern_notifications_get_202_responses_400() {
    let server = TestServer::with_test_tools(http_options());
    let mut client = server.connect_http();
    let notification = notification("notifications/initialized");
    client.exchange(&Request::modern(&notification)).expect_empty_body(202);
    client.exchange(&Request::modern(&notification).chunked(9)).expect_empty_body(202);
    let response = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
    client.exchange(&Request::modern(&response)).expect_error(400, -32600, None);
    client.exchange(&Request::modern(&json!([notification]))).expect_error(400, -32600, None);
    client.expect_alive();
    drop(client);
    let counters = server.close();
    assert_eq!(counters.requests.notifications, 2, "{counters}");
}

#[test]
fn malformed_message_gets_400_with_jsonrpc_code() {
    let server = TestServer::with_test_tools(http_options());
    let mut client = server.connect_http();
    let request = |body: &str| Request::modern(&modern(echo(1, "hi"))).body(body);
    for (body, code, id) in [
        ("", -32700, None),
        ("{", -32700, None),
        ("\u{feff}{}", -32600, None),
        ("\u{feff}", -32700, None),
        ("{} {}", -32700, None),
        ("7", -32600, None),
        ("null", -32600, None),
        ("{}", -32600, None),
        (r#"{"jsonrpc":"2.0","id":1}"#, -32600, Some(json!(1))),
        (r#"{"jsonrpc":"1.0","id":"a","method":"x"}"#, -32600, Some(json!("a"))),
        (r#"{"jsonrpc":"2.0","id":[],"method":"x"}"#, -32600, None),
        (r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#, -32600, None),
    ] {
        eprintln!("{body}");
        let response = client.exchange(&request(body));
        response.expect_error(400, code, id);
        assert!(!response.head.closes_connection(), "{response:?}");
    }
    client.exchange(&request("").body(b"\"\xff\"".to_vec())).expect_error(400, -32700, None);
    // Nested deeper than the limit.
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    client.exchange(&request(&deep)).expect_error(400, -32600, None);
    client.expect_alive();
    drop(client);
    server.close();
}

#[test]
fn tool_failure_gets_200_with_is_error() {
    let server = TestServer::with_test_tools(http_options());
    let mut client = server.connect_http();
    let request = Request::modern(&modern(call(1, "test_error_handling", json!({}))));
    let response = client.exchange(&request);
    assert_eq!((response.status(), &response.message()["result"]["isError"]), (200, &json!(true)));
    drop(client);
    server.close();
}

#[test]
fn same_request_id_on_many_connections_is_accepted() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let request = Request::modern(&modern(call(1, "hold", json!({}))));
        let mut clients: Vec<_> = (0..8).map(|_| server.connect_http()).collect();
        for client in &mut clients {
            client.send(&request);
            assert_eq!(server.next_signal(), "begun");
        }
        server.open_gate();
        for client in &mut clients {
            assert_eq!(result_text(&client.read_response().message()), "held");
        }
        drop(clients);
        server.close();
    });
}

#[test]
fn input_required_retry_succeeds_over_another_connection() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let mut message = modern(call(1, "ask", json!({})));
        message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
            json!({"elicitation": {"form": {}}});
        let response = server.connect_http().exchange(&Request::modern(&message)).message();
        let result = &response["result"];
        assert_eq!(result["resultType"], "input_required", "{response}");
        assert_eq!(result["inputRequests"]["name"]["method"], "elicitation/create", "{response}");
        message["params"]["requestState"] = result["requestState"].clone();
        message["params"]["inputResponses"] =
            json!({"name": {"action": "accept", "content": {"name": "Ada"}}});
        message["id"] = json!(2);
        let response = server.connect_http().exchange(&Request::modern(&message)).message();
        assert_eq!(result_text(&response), "Hello, Ada!");
        server.close();
    });
}

#[test]
fn elicitation_without_client_capability_fails_the_request() {
    let server = TestServer::with_test_tools(http_options());
    let mut client = server.connect_http();
    let message = modern(call(1, "test_missing_capability", json!({})));
    let error: Value =
        client.exchange(&Request::modern(&message)).expect_error(400, -32021, Some(json!(1)));
    expect_error(&error, -32021, Some(json!(1)));
    assert!(error["error"]["data"]["requiredCapabilities"].is_object(), "{error}");
    drop(client);
    server.close();
}
