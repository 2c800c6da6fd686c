//! Requests of 2026-07-28: whose rules they are held to, and headers that repeat what they say.

use serde_json::{Value, json};

use crate::messages::{
    LEGACY, MODERN, call, echo, expect_error, initialize, modern, notification, request, text,
};
use crate::request::Request;
use crate::session::Session;
use crate::stage::{Stage, on_one_shard_and_two, options};

#[test]
fn one_connection_carries_both_eras_side_by_side() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let mut client = stage.connect();
        let answer = client.ask(&Request::modern(&modern(echo(1, "modern"))));
        assert_eq!(text(&answer.message()), "modern");
        assert!(answer.head.field("Mcp-Session-Id").is_none(), "{answer:?}");
        let mut client = client.speaking(LEGACY);
        let answer = client.ask(&Request::post(initialize(2, LEGACY)));
        assert_eq!(answer.message()["result"]["protocolVersion"], LEGACY);
        let session = answer.head.field("Mcp-Session-Id").expect("a session").to_owned();
        let session = Session::named(stage.address(), &session, LEGACY);
        client.ask(&session.post(&notification("notifications/initialized"))).expect_bare(202);
        assert_eq!(text(&client.ask(&session.post(&echo(3, "legacy"))).message()), "legacy");
        // A modern request has no session, whatever it names.
        let mut client = client.speaking(MODERN);
        let asking =
            Request::modern(&modern(echo(4, "again"))).field("Mcp-Session-Id", "of a proxy");
        assert_eq!(text(&client.ask(&asking).message()), "again");
        drop(client);
        stage.close();
    });
}

#[test]
fn what_a_request_says_of_itself_decides_its_era() {
    let stage = Stage::open(options());
    let mut client = stage.connect();
    // By `_meta` alone: modern, and its header is missing.
    let request = Request::modern(&modern(echo(1, "hi"))).without("MCP-Protocol-Version");
    client.ask(&request).expect_error(400, -32020, Some(json!(1)));
    // By its header alone: modern, and its `_meta` is missing.
    client.ask(&Request::modern(&echo(2, "hi"))).expect_error(400, -32602, Some(json!(2)));
    // By neither: legacy, and its session is missing.
    client.ask(&Request::post(echo(3, "hi"))).expect_error(400, -32600, Some(json!(3)));
    // Both, and not the same.
    let request = Request::modern(&modern(echo(4, "hi"))).field("MCP-Protocol-Version", LEGACY);
    client.ask(&request).expect_error(400, -32020, Some(json!(4)));
    // The handshake under a modern header.
    let request = Request::modern(&modern(initialize(5, MODERN)));
    client.ask(&request).expect_error(404, -32601, Some(json!(5)));
    drop(client);
    stage.close();
}

#[test]
fn a_revision_that_nobody_speaks_is_answered_with_those_that_are() {
    let stage = Stage::open(options());
    let mut client = stage.connect();
    let mut message = modern(echo(1, "hi"));
    message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2999-01-01");
    let request = Request::modern(&message);
    client.ask(&request).expect_error(400, -32020, Some(json!(1)));
    let request = request.field("MCP-Protocol-Version", "2999-01-01");
    let error = client.ask(&request).expect_error(400, -32022, Some(json!(1)));
    let data = &error["error"]["data"];
    assert_eq!(data["requested"], "2999-01-01", "{error}");
    assert!(
        data["supported"].as_array().is_some_and(|all| all.contains(&json!(MODERN))),
        "{error}"
    );
    drop(client);
    stage.close();
}

#[test]
fn methods_that_there_are_not_are_not_found() {
    let stage = Stage::open(options());
    let mut client = stage.connect();
    for method in ["ping", "initialize", "logging/setLevel", "resources/subscribe", "no/such"] {
        let message = modern(request(7, method, json!({})));
        client.ask(&Request::modern(&message)).expect_error(404, -32601, Some(json!(7)));
    }
    client.expect_alive();
    drop(client);
    let counters = stage.close();
    assert_eq!(counters.errors.of(-32601), 5, "{counters}");
}

#[test]
fn headers_must_say_what_the_body_says() {
    let stage = Stage::open(options());
    let mut client = stage.connect();
    let good = Request::modern(&modern(echo(1, "hi")));
    for bad in [
        good.clone().without("MCP-Protocol-Version"),
        good.clone().field("MCP-Protocol-Version", "2025-11-25"),
        good.clone().without("Mcp-Method"),
        good.clone().field("Mcp-Method", "tools/list"),
        good.clone().field("Mcp-Method", "Tools/Call"),
        good.clone().without("Mcp-Name"),
        good.clone().field("Mcp-Name", "add"),
        good.clone().field("Mcp-Name", "=?base64?ZWNobw?="),
        good.clone().field("Mcp-Name", ""),
    ] {
        client.ask(&bad).expect_error(400, -32020, Some(json!(1)));
    }
    for fine in [
        good.clone().field("Mcp-Name", "  echo\t"),
        good.clone().field("Mcp-Name", "=?base64?ZWNobw==?="),
        good.without("Mcp-Name").field("mcp-NAME", "echo"),
    ] {
        assert_eq!(text(&client.ask(&fine).message()), "hi");
    }
    // A header twice is a broken head.
    let twice = Request::modern(&modern(echo(1, "hi"))).another("Mcp-Name", "echo");
    let answer = client.ask(&twice);
    answer.expect_error(400, -32600, None);
    drop(client);
    stage.close();
}

#[test]
fn arguments_that_headers_repeat_are_held_against_them() {
    let stage = Stage::open(options());
    let mut client = stage.connect();
    let call = |region: &str| {
        Request::modern(&modern(call(1, "test_header_parameter", json!({"region": region}))))
    };
    for (region, header) in
        [("here", "here"), ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="), ("a b", "a b")]
    {
        let answer = client.ask(&call(region).field("Mcp-Param-Region", header));
        assert_eq!(text(&answer.message()), format!("Region: {region}"));
    }
    for (region, header) in [("here", "Here"), ("here", "there"), ("a", "=?base64?YQ?=")] {
        let answer = client.ask(&call(region).field("Mcp-Param-Region", header));
        answer.expect_error(400, -32020, Some(json!(1)));
    }
    client.ask(&call("here")).expect_error(400, -32020, Some(json!(1)));
    let twice = call("here").field("Mcp-Param-Region", "here").another("mcp-param-region", "here");
    client.ask(&twice).expect_error(400, -32020, Some(json!(1)));
    let other = call("here").field("Mcp-Param-Region", "here").field("Mcp-Param-Else", "x");
    assert_eq!(text(&client.ask(&other).message()), "Region: here");
    drop(client);
    stage.close();
}

#[test]
fn resources_are_named_by_their_uri() {
    let stage = Stage::open(options());
    let mut client = stage.connect();
    let read = Request::modern(&modern(request(1, "resources/read", json!({"uri": "test://one"}))));
    let answer = client.ask(&read).message();
    assert_eq!(answer["result"]["contents"][0]["text"], "text", "{answer}");
    client.ask(&read.field("Mcp-Name", "test://two")).expect_error(400, -32020, Some(json!(1)));
    drop(client);
    stage.close();
}

#[test]
fn notifications_are_taken_and_responses_are_not() {
    let stage = Stage::open(options());
    let mut client = stage.connect();
    let told = notification("notifications/initialized");
    client.ask(&Request::modern(&told)).expect_bare(202);
    client.ask(&Request::modern(&told).chunked(9)).expect_bare(202);
    let response = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
    client.ask(&Request::modern(&response)).expect_error(400, -32600, None);
    client.ask(&Request::modern(&json!([told]))).expect_error(400, -32600, None);
    client.expect_alive();
    drop(client);
    let counters = stage.close();
    assert_eq!(counters.requests.notifications, 2, "{counters}");
}

#[test]
fn what_is_no_message_is_answered_with_what_it_is_not() {
    let stage = Stage::open(options());
    let mut client = stage.connect();
    let asking = |body: &str| Request::modern(&modern(echo(1, "hi"))).body(body);
    for (body, code, id) in [
        ("", -32700, None),
        ("{", -32700, None),
        ("\u{feff}{}", -32700, None),
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
        let answer = client.ask(&asking(body));
        answer.expect_error(400, code, id);
        assert!(!answer.head.closes(), "{answer:?}");
    }
    client.ask(&asking("").body(b"\"\xff\"".to_vec())).expect_error(400, -32700, None);
    // Deeper than a message may be.
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    client.ask(&asking(&deep)).expect_error(400, -32600, None);
    client.expect_alive();
    drop(client);
    stage.close();
}

#[test]
fn a_failure_inside_a_tool_is_an_answer_as_any_other() {
    let stage = Stage::open(options());
    let mut client = stage.connect();
    let asking = Request::modern(&modern(call(1, "test_error_handling", json!({}))));
    let answer = client.ask(&asking);
    assert_eq!((answer.status(), &answer.message()["result"]["isError"]), (200, &json!(true)));
    drop(client);
    stage.close();
}

#[test]
fn the_same_id_may_run_on_many_connections_at_once() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let asking = Request::modern(&modern(call(1, "hold", json!({}))));
        let mut clients: Vec<_> = (0..8).map(|_| stage.connect()).collect();
        for client in &mut clients {
            client.send(&asking);
            assert_eq!(stage.told(), "begun");
        }
        stage.open_gate();
        for client in &mut clients {
            assert_eq!(text(&client.answer().message()), "held");
        }
        drop(clients);
        stage.close();
    });
}

#[test]
fn a_round_trip_of_questions_needs_no_connection_of_its_own() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let mut message = modern(call(1, "ask", json!({})));
        message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
            json!({"elicitation": {"form": {}}});
        let answer = stage.connect().ask(&Request::modern(&message)).message();
        let result = &answer["result"];
        assert_eq!(result["resultType"], "input_required", "{answer}");
        assert_eq!(result["inputRequests"]["name"]["method"], "elicitation/create", "{answer}");
        message["params"]["requestState"] = result["requestState"].clone();
        message["params"]["inputResponses"] =
            json!({"name": {"action": "accept", "content": {"name": "Ada"}}});
        message["id"] = json!(2);
        let answer = stage.connect().ask(&Request::modern(&message)).message();
        assert_eq!(text(&answer), "Hello, Ada!");
        stage.close();
    });
}

#[test]
fn a_question_that_a_client_cannot_be_asked_fails_its_request() {
    let stage = Stage::open(options());
    let mut client = stage.connect();
    let message = modern(call(1, "test_missing_capability", json!({})));
    let error: Value =
        client.ask(&Request::modern(&message)).expect_error(400, -32021, Some(json!(1)));
    expect_error(&error, -32021, Some(json!(1)));
    assert!(error["error"]["data"]["requiredCapabilities"].is_object(), "{error}");
    drop(client);
    stage.close();
}
